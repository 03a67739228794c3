"""State entropy: the bonus of a state is its distance from the states visited lately, in a random embedding."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ports import Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges, check_order
from forage.core.types import Clock, Experience, Spec
from forage.nn.embedding import LIMIT, Embedding
from forage.nn.normalise import RunningNorm
from forage.rewards.bonuses.base import Bonus
from forage.rewards.bonuses.rows import as_rows, row_shape


class RE3State(NamedTuple):
    encoder: Embedding  # never trained
    observations: RunningNorm
    memory: Float[Array, "place size"]  # embeddings of the newest states, in a ring
    valid: Bool[Array, " place"]  # which places hold one
    written: Int[Array, ""]  # the place that is written next


class RE3(Bonus):
    """Distance to the k-th nearest of the states visited lately: i(s') = log(1 + |y - y_k|), y = f(s').

    f is a random network that is never trained, so nothing is learned for this bonus. The sum of log |y - y_k| over
    states estimates the entropy of their distribution (Singh et al., 2003), and the agent spreads over what it can
    reach. Compared are the newest `memory_size` states of all environments, the rollout's own among them; a state is
    no neighbour of itself. The bonus is noted as the rollout comes in, and replayed as noted.

    k, the embedding's size and the fixed weight are the paper's for MiniGrid; with pixels in DeepMind Control the
    embedding has 50 numbers and the weight falls exponentially (`schedule`). There the states compared are the whole
    replay memory, old transitions are compared anew, and observations are not normalised; here they are by their
    running mean and deviation, and a state keeps the embedding of when it was visited.

    Source: Seo, Chen, Shin, Lee, Abbeel, Lee (2021), "State Entropy Maximization with Random Encoders for Efficient
    Exploration", arXiv 2102.09430.
    """

    example: ClassVar[str] = "forage train ppo MountainCar-v0 --rewards re3"
    ranges: ClassVar[Ranges] = {"memory_size": Range(2), "neighbours": Range(1)}
    needs: ClassVar[Needs] = Needs(observations="array")

    weight: float = 0.5
    neighbours: int = equinox.field(static=True, default=3)  # which nearest state is compared with; larger is smoother
    memory_size: int = equinox.field(static=True, default=2048)  # newest states compared with, of all environments
    embedding_size: int = equinox.field(static=True, default=64)
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64, 64))

    def __check_init__(self):
        check_order(self, "neighbours", "memory_size")

    def remark(self, spec: Spec) -> Float[Array, ""]:
        return jnp.zeros(())

    def begin(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> RE3State:
        shape = row_shape(spec)
        return RE3State(
            Embedding(key, shape, self.hidden_sizes, self.embedding_size),
            RunningNorm.from_shape(shape),
            jnp.zeros((self.memory_size, self.embedding_size)),
            jnp.zeros(self.memory_size, bool),
            jnp.int32(0),
        )

    def novelty(self, own: RE3State, experience: Experience) -> Float[Array, "time batch"]:
        return experience.rewards_info

    def study(
        self, own: RE3State, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[RE3State, PyTree[Array], Metrics]:
        rows = as_rows(own.observations.mean.shape, rollout.next_observation)
        counts = rollout.counts.reshape(-1)
        norm = own.observations.update(rows, counts)
        embeddings = own.encoder.rows(jax.vmap(lambda row: norm(row, LIMIT))(rows))

        # The newest states take the places of the oldest.
        newest = min(len(rows), self.memory_size)
        places = (own.written + jnp.arange(newest)) % self.memory_size
        memory = own.memory.at[places].set(embeddings[-newest:])
        valid = own.valid.at[places].set(counts[-newest:])
        own = RE3State(own.encoder, norm, memory, valid, (own.written + newest) % self.memory_size)

        by_step = embeddings.reshape(*rollout.ended.shape, -1)  # all at once would need a large matrix
        distance = jax.lax.map(jax.vmap(lambda y: self.distance(y, memory, valid)), by_step)
        share = rollout.counts / jnp.maximum(rollout.counts.sum(), 1)
        return own, jnp.log1p(distance), {"state_distance": (distance * share).sum()}

    def distance(
        self, y: Float[Array, " size"], memory: Float[Array, "place size"], valid: Bool[Array, " place"]
    ) -> Float[Array, ""]:
        """Return the distance to the k-th nearest other state; 0 if there are fewer."""
        squared = jnp.where(valid, jnp.sum((memory - y) ** 2, axis=1), jnp.inf)
        kth = -jax.lax.top_k(-squared, self.neighbours + 1)[0][-1]
        return jnp.sqrt(jnp.where(jnp.isfinite(kth), kth, 0.0))
