"""Latent Go-Explore: return to where few have been, as a learned representation measures it, without cells."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.nn.distributions import Actions
from forage.nn.layers import Linear
from forage.nn.networks import MLP, Torso, input_size
from forage.nn.normalise import Norms, normalised, norms_of, updated
from forage.nn.optimiser import Optimiser, adam
from forage.ports import Environment, Starts, Tasks, Visited
from forage.spaces import describe, example, seen, split_mask
from forage.starts.archive import Archive, ArchiveState
from forage.starts.cell_archive import flattened
from forage.types import Clock, Experience, ForageError, Spec

MODELS = ("inverse", "forward", "autoencoder")


class Transition(NamedTuple):
    """What led to a state that is kept."""

    observation: PyTree[Array]
    action: PyTree[Array]
    next_observation: PyTree[Array]


class Latent(equinox.Module):
    """An encoder, and the head that it is trained with: of an action, the next observation, or what was encoded."""

    torso: Torso
    code: Linear
    head: MLP
    actions: Actions = equinox.field(static=True)
    model: str = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, part: LatentGoExplore):
        keys = jax.random.split(key, 3)
        space = seen(spec.observation_space)
        self.torso = Torso(keys[0], space, part.hidden_sizes, "relu", gain=2**0.5)
        self.code = Linear(keys[1], self.torso.size, part.latent_size, gain=1.0)
        self.actions, self.model = Actions.of(spec.action_space), part.model
        seen_size, outputs = input_size(space), self.actions.outputs
        inputs = part.latent_size * (1 + (part.model == "inverse")) + outputs * (part.model == "forward")
        size = outputs if part.model == "inverse" else seen_size
        self.head = MLP(keys[2], (inputs, 64, 64, size), "relu", 2**0.5, last_gain=1.0)

    def __call__(self, observation: PyTree[Array]) -> Float[Array, " latent"]:
        return self.code(self.torso(observation))

    def loss(self, transition: Transition) -> Float[Array, ""]:
        """Of one transition, its observations normalised."""
        action = self.actions.heard(transition.action)
        if self.model == "inverse":
            both = jnp.concatenate([self(transition.observation), self(transition.next_observation)])
            outputs = self.head(both)
            if not self.actions.discrete:
                return jnp.mean((outputs - action) ** 2)
            cuts = np.cumsum(self.actions.sizes)[:-1].tolist()
            likely = jnp.concatenate([jax.nn.log_softmax(part) for part in jnp.split(outputs, cuts)])
            return -(likely * action).sum()
        if self.model == "forward":
            wanted, inputs = transition.next_observation, jnp.concatenate([self(transition.observation), action])
        else:
            wanted, inputs = transition.next_observation, self(transition.next_observation)
        return jnp.mean((self.head(inputs) - self.target(wanted)) ** 2)

    def target(self, observation: PyTree[Array]) -> Float[Array, " number"]:
        """What is seen, as the numbers that are to be foretold."""
        if self.torso.categories is not None:
            return jax.nn.one_hot(observation, self.torso.categories)
        return observation.reshape(-1).astype(jnp.float32)


class LatentState(NamedTuple):
    reservoir: ArchiveState  # of (environment state, transition)
    latent: Latent
    optimiser: Any
    norms: Norms
    rank: Int[Array, " slot"]  # slots, the least dense first


class LatentGoExplore(Starts):
    """Episodes begin, with `probability`, in a past state of low density: in that of rank r (1 the least dense) with

        P(r) = p (1 - p)^(r - 1) / (1 - (1 - p)^n)        density(z) ~ 1 / |z - z_k|^d

    over the latent codes z of n kept states, where z_k is the k-th nearest of the others (the particle estimator; its
    constants do not change ranks). The encoder learns to tell the action between two observations (`inverse`), the next
    observation (`forward`) or the observation itself (`autoencoder`): one step of Adam on `batch_size` transitions for
    each `every` environment steps. After each rollout all codes and ranks are made anew. What began so is truncated
    after `burst` steps; the state it is in then is kept like others.

    Kept are `capacity` states, a uniform sample of all that were visited (reservoir sampling), so that their density is
    that of visits; k is 1 % of them, as in the authors' program in its maze (1000 in any task). A state is restored as
    it was, its clock included: returning is copying, in place of a policy that is conditioned on goals and walks there
    along the path that was kept. What explores is any agent and behaviour.

    Source: Gallouédec, Dellandréa (2023), "Cell-Free Latent Go-Explore", ICML, arXiv 2208.14928. There all states are
    kept, images are encoded by VQ-VAEs where the model is not the inverse one, and the forward model is Gaussian. The
    authors' program begins every episode with a return, has a weight decay of 1e-5, and encodes numbers as they are
    seen, which are normalised by their running mean and variance here.
    """

    adapts: ClassVar[bool] = True
    on_host: ClassVar[bool] = True
    every_state: ClassVar[bool] = True
    cuts: ClassVar[bool] = True

    probability: float = 0.9
    p: float = 0.05  # of the geometric law of ranks; the authors' in their maze, 0.001 to 0.01 elsewhere
    burst: int = 50  # steps of exploring after a return
    learning_rate: float = 1e-3
    model: str = equinox.field(static=True, default="inverse")  # or forward, autoencoder
    capacity: int = equinox.field(static=True, default=1024)
    neighbours: int = equinox.field(static=True, default=10)  # k
    latent_size: int = equinox.field(static=True, default=16)
    batch_size: int = equinox.field(static=True, default=64)
    every: int = equinox.field(static=True, default=10)  # environment steps
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64, 64))  # where there is no image

    def __check_init__(self):
        if self.model not in MODELS:
            raise ForageError(f"There is no latent model {self.model!r}; there are {', '.join(MODELS)}.")
        if not 1 <= self.neighbours < self.capacity or min(self.batch_size, self.every, self.latent_size) < 1:
            raise ForageError(
                "Latent Go-Explore needs a capacity above its neighbours, and neighbours, batch_size, every and "
                "latent_size of 1 or more."
            )
        for name in ("probability", "p"):
            value = getattr(self, name)
            if isinstance(value, int | float) and not 0 <= value <= 1 - (name == "p") * 1e-6:
                raise ForageError(f"Latent Go-Explore's {name} is {value}; it lies between 0 and 1.")

    def check(self, environment: Environment, tasks: Tasks) -> None:
        if tasks.varies:
            raise ForageError("The states that are kept belong to the task they were seen in; use --tasks same.")
        space = seen(environment.observation_space)
        if environment.num_agents > 1:
            raise ForageError("Latent Go-Explore encodes what one agent sees; it works where there is one.")
        if self.model != "inverse" and not isinstance(space, gymnasium.spaces.Box | gymnasium.spaces.Discrete):
            raise ForageError(
                f"The {self.model} model foretells boxes and numbers, not {describe(space)}; the inverse one can."
            )

    def init(self, key: Key[Array, ""], environment: Environment, spec: Spec, num_envs: int) -> LatentState:
        reset_key, network_key = jax.random.split(key)
        env_state, observation = environment.reset(reset_key)
        first = env_state, Transition(observation, example(spec.action_space), observation)
        places = jax.tree.map(lambda x: jnp.broadcast_to(x, (self.capacity, *x.shape)), first)
        latent = Latent(network_key, spec, self)
        norms = norms_of(seen(spec.observation_space))
        order = jnp.arange(self.capacity, dtype=jnp.int32)
        return LatentState(ArchiveState(places, jnp.int32(0)), latent, self.optimiser().init(latent), norms, order)

    def optimiser(self) -> Optimiser:
        return adam(self.learning_rate, flat=True)

    def begin(
        self, state: LatentState, environment: Environment, key: Key[Array, ""]
    ) -> tuple[Any, PyTree[Array], Bool[Array, ""]]:
        reset_key, coin_key, place_key = jax.random.split(key, 3)
        kept = jnp.minimum(state.reservoir.seen, self.capacity)
        slot = state.rank[drawn_rank(jax.random.uniform(place_key), jnp.asarray(self.p), kept)]
        again = (kept > 0) & (jax.random.uniform(coin_key) < self.probability)
        env_states, transitions = state.reservoir.places
        place = jax.tree.map(
            lambda kept, fresh: jnp.where(again, kept[slot], fresh),
            (env_states, transitions.next_observation),
            environment.reset(reset_key),
        )
        return *place, again

    def cut(self, mark: Bool[Array, ""], length: Int[Array, ""]) -> Bool[Array, ""]:
        return mark & (length >= self.burst)

    def report(
        self,
        state: LatentState,
        environment: Environment,
        visited: Visited,
        rollout: Experience,
        clock: Clock,
        key: Key[Array, ""],
    ) -> LatentState:
        offer_key, learn_key = jax.random.split(key)
        told = Transition(rollout.observation, rollout.action, rollout.next_observation)
        rows = flattened((visited.env_states, told))
        keeper = Archive(self.capacity)
        reservoir = keeper.offer(state.reservoir, rows, ~visited.gone.reshape(-1), offer_key)
        norms = updated(state.norms, split_mask(rollout.next_observation)[0], rollout.counts)
        _, transitions = reservoir.places
        kept = jnp.minimum(reservoir.seen, self.capacity)
        latent, optimiser = self.train(state, norms, transitions, kept, rollout.ended.size // self.every, learn_key)
        codes = jax.vmap(latent)(normalised_rows(norms, split_mask(transitions.next_observation)[0]))
        rank = jnp.argsort(density(codes, kept, self.neighbours)).astype(jnp.int32)
        return LatentState(reservoir, latent, optimiser, norms, rank)

    def train(
        self,
        state: LatentState,
        norms: Norms,
        transitions: Transition,
        kept: Int[Array, ""],
        updates: int,
        key: Key[Array, ""],
    ) -> tuple[Latent, Any]:
        """The encoder and its optimiser after some steps on random transitions of those kept."""

        def loss(latent: Latent, batch: Transition) -> Float[Array, ""]:
            before, after = (split_mask(x)[0] for x in (batch.observation, batch.next_observation))
            batch = Transition(normalised_rows(norms, before), batch.action, normalised_rows(norms, after))
            return jax.vmap(latent.loss)(batch).mean()

        def step(carry: tuple[Latent, Any], key: Key[Array, ""]) -> tuple[tuple[Latent, Any], None]:
            latent, optimiser = carry
            index = jax.random.randint(key, (self.batch_size,), 0, jnp.maximum(kept, 1))
            gradient = jax.grad(loss)(latent, jax.tree.map(lambda x: x[index], transitions))
            return self.optimiser().step(gradient, optimiser, latent), None

        carry = (state.latent, state.optimiser)
        return jax.lax.scan(step, carry, jax.random.split(key, max(1, updates)))[0]


def normalised_rows(norms: Norms, rows: PyTree[Array]) -> PyTree[Array]:
    return jax.vmap(lambda row: normalised(norms, row))(rows)


def density(codes: Float[Array, "slot latent"], kept: Int[Array, ""], k: int) -> Float[Array, " slot"]:
    """Minus the distance to the k-th nearest other code, which orders as the density does; infinite where none is kept.

    Where fewer than k others are kept, the furthest of them counts.
    """
    slots = jnp.arange(codes.shape[0])
    squares = (codes**2).sum(1)

    def of(slot: Int[Array, ""]) -> Float[Array, ""]:
        distance = jnp.maximum(squares[slot] + squares - 2 * codes @ codes[slot], 0.0)
        others = (slots < kept) & (slots != slot)
        nearest = smallest(jnp.where(others, distance, jnp.inf), jnp.clip(kept - 1, 1, k))
        return jnp.where(slot < kept, -jnp.sqrt(nearest), jnp.inf)

    return jax.lax.map(of, slots, batch_size=128)  # so that it stays in a processor's cache


def smallest(numbers: Float[Array, " number"], k: Int[Array, ""]) -> Float[Array, ""]:
    """The k-th smallest of numbers that are not negative, by halving: to sort them takes twenty times as long.

    Such numbers are in the order of their bits, and 31 halvings find any bits.
    """
    bits = jax.lax.bitcast_convert_type(numbers, jnp.int32)

    def halve(_: Int[Array, ""], ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = low + (high - low) // 2
        enough = jnp.where(bits <= middle, 1.0, 0.0).sum() >= k
        return jnp.where(enough, low, middle + 1), jnp.where(enough, middle, high)

    infinite = jax.lax.bitcast_convert_type(jnp.float32(jnp.inf), jnp.int32)
    return jax.lax.bitcast_convert_type(jax.lax.fori_loop(0, 31, halve, (jnp.int32(0), infinite))[1], jnp.float32)


def drawn_rank(share: Float[Array, ""], p: Float[Array, ""], kept: Int[Array, ""]) -> Int[Array, ""]:
    """The rank, from 0, at a share of the geometric law that ends with the last of those kept; uniform where p is 0."""
    safe = jnp.clip(p, 1e-6, 1 - 1e-6)
    total = -jnp.expm1(kept * jnp.log1p(-safe))
    geometric = jnp.log1p(-share * total) / jnp.log1p(-safe)
    rank = jnp.where(p > 0, geometric, share * kept)
    return jnp.clip(jnp.floor(rank).astype(jnp.int32), 0, jnp.maximum(kept - 1, 0))
