"""Counting visits: a bonus for rarely visited states, in tables or, if states do not repeat, of their hashes."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core import prng
from forage.core.ports import Metrics
from forage.core.ports.needs import Choices
from forage.core.ranges import Range, Ranges
from forage.core.spaces import Tokens, describe_space, observation_part, spaces_by_path, split_mask, unknown_space
from forage.core.types import Clock, Experience, ForageError, Spec
from forage.nn.encoders import OneHot
from forage.rewards.bonuses.base import Bonus
from forage_papers.rewards.bonuses.first_visits import Episode, empty_episode, first_visits

MOST = 2**20
"""Most states that are counted in a cell each."""


class Cells(equinox.Module):
    """Each state of a small space of whole numbers has its own cell: its places are the digits of the cell's number."""

    lowest: Int[Array, " place"]
    sizes: Int[Array, " place"]  # of each place: what one step of it is worth
    number: tuple[int, int] = equinox.field(static=True)  # tables, and cells in each

    def __init__(self, lowest: np.ndarray, choices: np.ndarray):
        self.lowest = jnp.asarray(lowest, jnp.int32)
        self.sizes = jnp.asarray(np.concatenate([np.cumprod(choices[::-1])[-2::-1], [1]]), jnp.int32)
        self.number = (1, math.prod(choices.tolist()))

    def __call__(self, observation: PyTree[Array]) -> Int[Array, "table=1"]:
        return jnp.sum((observation.reshape(-1).astype(jnp.int32) - self.lowest) * self.sizes)[None]


class SimHash(equinox.Module):
    """The signs of random projections: code = sgn(A g(s)) in {-1, 1}^bits, with A from N(0, 1).

    g puts all numbers of an observation side by side, choices one-hot, boxes over their bounds where there are any.
    The cell in each table is the code as a binary number, modulo a prime of the table's own.
    """

    projection: Float[Array, "features bits"]  # A, with the scales of g multiplied in
    powers: Int[Array, "table bits"]  # of two, modulo the primes
    primes: Int[Array, " table"]
    paths: tuple[tuple[str, ...], ...] = equinox.field(static=True)
    choices: tuple[OneHot | None, ...] = equinox.field(static=True)  # None: numbers
    number: tuple[int, int] = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], space: spaces.Space[Any], bits: int, buckets: int, tables: int):
        parts = spaces_by_path(space)
        self.paths = tuple(parts)
        self.choices = tuple(one_hot(part) for part in parts.values())
        scale = np.concatenate([scale_of(part) for part in parts.values()])
        self.projection = jax.random.normal(key, (scale.size, bits)) * scale[:, None]
        # A code that fits into one table needs no others to tell collisions.
        primes = [2**bits] if 2**bits <= buckets else primes_below(buckets, tables)
        self.powers = jnp.array([[pow(2, bit, prime) for bit in range(bits)] for prime in primes], jnp.int32)
        self.primes = jnp.array(primes, jnp.int32)
        self.number = (len(primes), max(primes))

    def __call__(self, observation: PyTree[Array]) -> Int[Array, " table"]:
        parts = []
        for path, choice in zip(self.paths, self.choices, strict=True):
            part = observation
            for name in path:
                part = part[name]
            parts.append(part.reshape(-1).astype(jnp.float32) if choice is None else choice(part))
        # Exact on every device: with the few digits of fast products the same state might be counted in two cells.
        code = jnp.matmul(jnp.concatenate(parts), self.projection, precision="highest") > 0
        return self.powers @ code.astype(jnp.int32) % self.primes


def one_hot(space: spaces.Space[Any]) -> OneHot | None:
    if isinstance(space, spaces.Discrete):
        return OneHot((int(space.n),), (int(space.start),))
    if isinstance(space, spaces.MultiDiscrete):
        sizes, starts = (tuple(int(x) for x in np.ravel(values)) for values in (space.nvec, space.start))
        return OneHot(sizes, starts)
    return None


def scale_of(space: spaces.Space[Any]) -> Float[np.ndarray, " features"]:
    """Return the factor of each number that gives all a similar size in a projection."""
    if (choice := one_hot(space)) is not None:
        return np.ones(choice.size)
    if isinstance(space, spaces.MultiBinary):
        return np.ones(math.prod(space.shape))
    if not isinstance(space, spaces.Box):
        raise ForageError(f"Counts cannot read {describe_space(space)}. {unknown_space(space)}")
    bound = np.maximum(np.abs(space.low.astype(float)), np.abs(space.high.astype(float))).reshape(-1)
    return np.where(np.isfinite(bound) & (bound > 0) & (bound < 1e9), 1 / np.maximum(bound, 1e-9), 1.0)


def discrete_bounds(space: spaces.Space[Any]) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the lowest value and the number of values of each place if there are few states, else `None`."""
    if isinstance(space, spaces.Discrete):
        lowest, choices = np.array([space.start]), np.array([space.n])
    elif isinstance(space, spaces.MultiDiscrete) and not isinstance(space, Tokens):
        lowest, choices = space.start.reshape(-1), space.nvec.reshape(-1)
    elif isinstance(space, spaces.MultiBinary):
        lowest, choices = np.zeros(math.prod(space.shape), int), np.full(math.prod(space.shape), 2)
    elif isinstance(space, spaces.Box) and space.dtype.kind in "iu":
        lowest, highest = space.low.reshape(-1).astype(object), space.high.reshape(-1).astype(object)
        choices = highest - lowest + 1
    else:
        return None
    return (lowest.astype(int), choices.astype(int)) if math.prod(int(n) for n in choices) <= MOST else None


def primes_below(bound: int, number: int) -> list[int]:
    """Return the largest `number` primes up to `bound`."""
    found = []
    while len(found) < number and bound > 1:
        if all(bound % divisor for divisor in range(2, math.isqrt(bound) + 1)):
            found.append(bound)
        bound -= 1
    return found


class CountsState(NamedTuple):
    cells: Cells | SimHash  # fixed
    visits: Int[Array, "table cell"]
    episode: Episode | tuple[()] = ()  # what each environment's episode has seen, where that matters


class Counts(Bonus):
    """i = 1 / sqrt(n + pseudocount), with n the visits to the state after the step, this one included.

    Of a space of few whole numbers (up to 2^20 states) every state is counted by itself. Of any other, states with the
    same hash are one: `bits` signs of random projections (SimHash). Codes that do not fit into one table of `buckets`
    are counted in several, modulo different primes, and n is the least of what they say, as in a count-min sketch.
    A hash sees in which direction from zero the numbers lie: of two numbers 32 bits make 64 cells, of one at most two.

    `of="state-action"` counts what was done where, which needs numbered actions: in tables it is the bonus of
    model-based interval estimation, MBIE-EB, whose weight beta the theory puts at about the range of returns. What is
    replayed is paid as it is counted now.

    With an `episode_size`, i is 0 for a state that the episode has been in, as far back as it remembers so many: where
    levels are drawn anew, walking to and fro between states that are rare in the run would pay otherwise.

    Sources: Tang, Houthooft, Foote, Stooke, Chen, Duan, Schulman, De Turck, Abbeel (2017), "#Exploration: A Study of
    Count-Based Exploration for Deep Reinforcement Learning", arXiv 1611.04717, whose bonus coefficient is 0.01; Strehl
    and Littman (2008), "An analysis of model-based interval estimation for Markov decision processes". A pseudocount of
    0.01 is that of Bellemare et al. (2016), arXiv 1606.01868. Paid once an episode: Zhang et al. (2021), "NovelD",
    NeurIPS, and Andres, Villar-Rodriguez, Del Ser (2022), arXiv 2205.11184, for counts.
    """

    example: ClassVar[str] = "forage train dqn DeepSea-14 --rewards counts"
    ranges: ClassVar[Ranges] = {
        "bits": Range(1, 512),
        "buckets": Range(2, MOST),
        "tables": Range(1),
        "episode_size": Range(0),
        "pseudocount": Range(0),
    }
    choices: ClassVar[Choices] = {"of": ("state", "state-action")}

    weight: float = 0.01
    normalise: bool = equinox.field(static=True, default=False)  # novelty is divided by the spread of its discounted
    # return
    of: str = equinox.field(static=True, default="state")  # what is counted: state or state-action
    pseudocount: float = 0.0  # number added to every count; larger pays the first visits less
    episode_size: int = equinox.field(static=True, default=0)  # different states of an episode that are kept, each paid
    # once in it; 0: paid at every visit
    bits: int = equinox.field(static=True, default=32)  # bits of a hash; more tell more states apart, and the paper has
    # 16 to 512
    buckets: int = equinox.field(static=True, default=100_000)  # cells of a table of hashes; the paper has a million
    tables: int = equinox.field(static=True, default=4)  # tables of hashes that do not fit into one; more confuse fewer
    # states, and the paper has 6

    def __check_init__(self):
        if self.episode_size and self.of != "state":
            raise ForageError("An episode_size goes with counts of state; leave it out.")

    def check(self, spec: Spec) -> None:
        super().check(spec)
        self.cells(prng.key(0), spec)
        if self.of == "state-action" and not isinstance(spec.action_space, spaces.Discrete):
            raise ForageError(
                f"Counts of state-action need numbered actions; {spec.name} has {describe_space(spec.action_space)}. "
                f"Counts of state work there."
            )

    def cells(self, key: Key[Array, ""], spec: Spec) -> Cells | SimHash:
        space = observation_part(spec.observation_space)
        digits = discrete_bounds(space)
        if digits is None and isinstance(space, spaces.Box) and math.prod(space.shape) == 1:
            raise ForageError(
                f"Counts hash by the signs of projections, and {spec.name} shows one number, of which they see nothing "
                f"but the sign; rnd works there."
            )
        return SimHash(key, space, self.bits, self.buckets, self.tables) if digits is None else Cells(*digits)

    def begin(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> CountsState:
        cells = self.cells(key, spec)
        tables, number = cells.number
        actions = 1
        if self.of == "state-action":
            assert isinstance(spec.action_space, spaces.Discrete)
            actions = int(spec.action_space.n)
        visits = jnp.zeros((tables, number * actions), jnp.int32)
        return CountsState(cells, visits, empty_episode(num_envs, self.episode_size) if self.episode_size else ())

    def remark(self, spec: Spec) -> PyTree[Array]:
        return jnp.bool_(False) if self.episode_size else ()  # whether the episode came there for the first time

    def places(self, own: CountsState, experience: Experience) -> Int[Array, "table time batch"]:
        """Return the places of a rollout's steps in the tables."""
        state = experience.next_observation if self.of == "state" else experience.observation
        found = jax.vmap(jax.vmap(own.cells, out_axes=1), out_axes=1)(split_mask(state)[0])
        actions = own.visits.shape[1] // own.cells.number[1]
        return found if self.of == "state" else found * actions + experience.action.astype(jnp.int32)

    def novelty(self, own: CountsState, experience: Experience) -> Float[Array, "time batch"]:
        places = self.places(own, experience)
        visits = jnp.take_along_axis(own.visits, places.reshape(len(places), -1), 1).min(0).astype(jnp.float32)
        total = visits.reshape(experience.ended.shape) + self.pseudocount
        rare = jax.lax.rsqrt(jnp.where(total > 0, total, 1.0))  # what was never seen counts as seen once
        return rare * experience.rewards_info if self.episode_size else rare

    def study(
        self, own: CountsState, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[CountsState, PyTree[Array], Metrics]:
        places, first, episode = self.places(own, rollout), (), own.episode
        if isinstance(episode, Episode):
            before = self.places(own, rollout._replace(next_observation=rollout.observation))
            episode, first = first_visits(episode, table_index(before), table_index(places), rollout.ended)
        places = places.reshape(len(places), -1)
        fresh = (jnp.take_along_axis(own.visits, places, 1).min(0) == 0).mean()
        table = jnp.arange(len(places))[:, None]
        visits = own.visits.at[table, places].add(rollout.counts.reshape(-1).astype(jnp.int32))
        return own._replace(visits=visits, episode=episode), first, {"new_states": fresh}

    def forget(self, own: CountsState) -> CountsState:
        if not isinstance(own.episode, Episode):
            return own
        return own._replace(episode=own.episode._replace(count=jnp.zeros_like(own.episode.count)))


def table_index(places: Int[Array, "table time env"]) -> Int[Array, "time env"]:
    """Return one number for the places in all tables."""
    powers = jnp.array([pow(1_000_003, table, 2**31) for table in range(len(places))], jnp.int32)
    return jnp.tensordot(powers, places, 1)
