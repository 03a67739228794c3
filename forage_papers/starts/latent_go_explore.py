"""Latent Go-Explore: return to states of low density in a learned representation, without cells."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ports import Environment, RolloutReport, Starts, Tasks
from forage.core.ports.needs import Choices, Needs
from forage.core.ranges import Range, Ranges, check_order
from forage.core.spaces import describe_space, example, observation_part, split_mask
from forage.core.types import Experience, ForageError, Spec
from forage.nn.normalise import Norms, apply_norm, norms_of, update_norms
from forage.ops.optimiser import Optimiser, adam
from forage_papers.starts.archive import Archive, ArchiveState
from forage_papers.starts.cell_archive import flatten_rows
from forage_papers.starts.latent import MODELS, Latent, Transition, density


class LatentState(NamedTuple):
    reservoir: ArchiveState  # of (environment state, transition)
    latent: Latent
    optimiser: Any
    norms: Norms
    rank: Int[Array, " slot"]  # slots, the least dense first, when they were ranked last
    ranked: Int[Array, ""]  # how many there were then


class LatentGoExplore(Starts):
    """Episodes begin, with `probability`, in a past state of low density: in that of rank r (1 the least dense) with

        P(r) = p (1 - p)^(r - 1) / (1 - (1 - p)^n)        density(z) ~ 1 / |z - z_k|^d

    over the latent codes z of n kept states, where z_k is the k-th nearest of the others (the particle estimator; its
    constants do not change ranks). The encoder learns to tell the action between two observations (`inverse`), the next
    observation (`forward`) or the observation itself (`autoencoder`): one step of Adam on `batch_size` transitions for
    each `every` environment steps, all at once after each `period` steps, or rollout where that is longer. Then all
    codes and ranks are made anew; before, episodes begin as they always do. What began in a kept state is truncated
    after `burst` steps; the state it is in then is kept like others.

    Kept are `capacity` states, a uniform sample of all that were visited (reservoir sampling), so that their density is
    that of visits; k is 1 % of them, as in the authors' program in its maze (1000 in any task). A state is restored as
    it was, its clock included: returning is copying, in place of a policy that is conditioned on goals and walks there
    along the path that was kept. What explores is any agent and behaviour. Between two rankings a slot of the sample
    may take another state and keep the rank, a tenth of them in 1,000 steps after 10,000.

    Source: Gallouédec, Dellandréa (2023), "Cell-Free Latent Go-Explore", ICML, arXiv 2208.14928. There all states are
    kept and ranked after each 5,000 steps, images are encoded by VQ-VAEs where the model is not the inverse one, and
    the forward model is Gaussian. The authors' program begins every episode with a return, has a weight decay of 1e-5,
    and encodes numbers as they are seen, which are normalised by their running mean and variance here.
    """

    example: ClassVar[str] = "forage train ppo DeepSea-14 --starts latent-go-explore"
    ranges: ClassVar[Ranges] = {
        "p": Range(0, 1, below=True),
        "every": Range(1),
        "period": Range(1),
        "neighbours": Range(1),
    }

    adapts: ClassVar[bool] = True
    on_host: ClassVar[bool] = True
    every_state: ClassVar[bool] = True
    cuts: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs(agents="one", same_task=True)
    choices: ClassVar[Choices] = {"model": MODELS}

    probability: float = 0.9  # probability that an episode begins in a kept state
    p: float = 0.05  # chance of the geometric law that ranks are drawn by; larger prefers the least dense, and the
    # authors have 0.05 in their maze, 0.001 to 0.01 elsewhere
    burst: int = 50  # steps of exploring after a return
    learning_rate: float = 1e-3
    model: str = equinox.field(static=True, default="inverse")  # what the encoder learns by: inverse, forward or
    # autoencoder
    capacity: int = equinox.field(static=True, default=1024)  # states kept, a uniform sample of those visited
    neighbours: int = equinox.field(static=True, default=10)  # which nearest neighbour measures density (k); larger is
    # smoother
    latent_size: int = equinox.field(static=True, default=16)  # numbers of a latent code; more keep more of what is
    # seen
    batch_size: int = equinox.field(static=True, default=64)  # transitions in each step of Adam
    every: int = equinox.field(static=True, default=10)  # environment steps for each step of Adam; more train less
    period: int = equinox.field(static=True, default=1000)  # environment steps from one ranking to the next
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64, 64))  # units of each hidden layer, where
    # observations are no images

    def __check_init__(self):
        check_order(self, "neighbours", "capacity")

    def check(self, environment: Environment, tasks: Tasks) -> None:
        space = observation_part(environment.observation_space)
        if self.model != "inverse" and not isinstance(space, gymnasium.spaces.Box | gymnasium.spaces.Discrete):
            raise ForageError(
                f"The {self.model} model foretells boxes and numbers, not {describe_space(space)}; the inverse one can."
            )

    def init(self, key: Key[Array, ""], environment: Environment, spec: Spec, num_envs: int) -> LatentState:
        reset_key, network_key = jax.random.split(key)
        env_state, observation = environment.reset(reset_key)
        first = env_state, Transition(observation, example(spec.action_space), observation)
        places = jax.tree.map(lambda x: jnp.broadcast_to(x, (self.capacity, *x.shape)), first)
        latent = Latent(network_key, spec, self.model, self.latent_size, self.hidden_sizes)
        norms = norms_of(observation_part(spec.observation_space))
        order = jnp.arange(self.capacity, dtype=jnp.int32)
        reservoir = ArchiveState(places, jnp.int32(0))
        return LatentState(reservoir, latent, self.optimiser().init(latent), norms, order, jnp.int32(0))

    def optimiser(self) -> Optimiser:
        return adam(self.learning_rate, flat=True)

    def begin(
        self, state: LatentState, environment: Environment, key: Key[Array, ""], index: Int[Array, ""]
    ) -> tuple[Any, PyTree[Array], Bool[Array, ""]]:
        reset_key, coin_key, place_key = jax.random.split(key, 3)
        slot = state.rank[drawn_rank(jax.random.uniform(place_key), jnp.asarray(self.p), state.ranked)]
        again = (state.ranked > 0) & (jax.random.uniform(coin_key) < self.probability)
        env_states, transitions = state.reservoir.places
        place = jax.tree.map(
            lambda kept, fresh: jnp.where(again, kept[slot], fresh),
            (env_states, transitions.next_observation),
            environment.reset(reset_key),
        )
        return *place, again

    def cut(self, mark: Bool[Array, ""], length: Int[Array, ""]) -> Bool[Array, ""]:
        return mark & (length >= self.burst)

    def report(self, state: LatentState, rollout: Experience, review: RolloutReport) -> LatentState:
        visited, clock = review.visited, review.clock
        offer_key, learn_key = jax.random.split(review.key)
        told = Transition(rollout.observation, rollout.action, rollout.next_observation)
        rows = flatten_rows((visited.env_states, told))
        keeper = Archive(self.capacity)
        reservoir = keeper.offer(state.reservoir, rows, ~visited.gone.reshape(-1), offer_key)
        norms = update_norms(state.norms, split_mask(rollout.next_observation)[0], rollout.counts)
        state = state._replace(reservoir=reservoir, norms=norms)
        # The clock is one for all seeds, so that `cond` runs one branch.
        due = clock.steps // self.period < (clock.steps + rollout.ended.size) // self.period
        updates = max(self.period, rollout.ended.size) // self.every
        return jax.lax.cond(due, lambda state: self.update_ranks(state, updates, learn_key), lambda state: state, state)

    def update_ranks(self, state: LatentState, updates: int, key: Key[Array, ""]) -> LatentState:
        """Return the encoder after some updates, and the ranks as it then sees them."""
        _, transitions = state.reservoir.places
        kept = jnp.minimum(state.reservoir.seen, self.capacity)
        latent, optimiser = self.train(state, state.norms, transitions, kept, updates, key)
        codes = jax.vmap(latent)(normalised_rows(state.norms, split_mask(transitions.next_observation)[0]))
        rank = jnp.argsort(density(codes, kept, self.neighbours)).astype(jnp.int32)
        return state._replace(latent=latent, optimiser=optimiser, rank=rank, ranked=kept)

    def train(
        self,
        state: LatentState,
        norms: Norms,
        transitions: Transition,
        kept: Int[Array, ""],
        updates: int,
        key: Key[Array, ""],
    ) -> tuple[Latent, Any]:
        """Return the encoder and its optimiser after some steps on random transitions of those kept."""

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
    return jax.vmap(lambda row: apply_norm(norms, row))(rows)


def drawn_rank(share: Float[Array, ""], p: Float[Array, ""], kept: Int[Array, ""]) -> Int[Array, ""]:
    """Return a rank, from 0, at a share of the geometric law over the kept states; uniform for p = 0."""
    safe = jnp.clip(p, 1e-6, 1 - 1e-6)
    total = -jnp.expm1(kept * jnp.log1p(-safe))
    geometric = jnp.log1p(-share * total) / jnp.log1p(-safe)
    rank = jnp.where(p > 0, geometric, share * kept)
    return jnp.clip(jnp.floor(rank).astype(jnp.int32), 0, jnp.maximum(kept - 1, 0))
