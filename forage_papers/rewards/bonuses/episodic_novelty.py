"""The bonus of Never Give Up: distance from all states of the episode, scaled by novelty over the run."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ports import Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges, check_order
from forage.core.types import Clock, Experience, Spec
from forage.nn.inverse import InverseModel
from forage.nn.normalise import RunningNorm
from forage.ops.optimiser import Optimiser, adam
from forage.ops.rows import fit
from forage.rewards.bonuses.base import Bonus
from forage.rewards.bonuses.rnd import RND, RNDState
from forage.rewards.bonuses.rows import Transitions, as_transitions, row_shape


class Recollection(NamedTuple):
    """The memory of one environment's episode."""

    memory: Float[Array, "place phi"]  # embeddings of the episode's states, in a ring
    states: Int[Array, ""]  # in the episode so far, 0 before its first
    distance: Float[Array, ""]  # running mean of squared distances to nearest neighbours, across episodes
    steps: Int[Array, ""]  # in that mean


class EpisodicNoveltyState(NamedTuple):
    model: InverseModel
    optimiser: Any
    recollection: Recollection  # leaves `env ...`
    lifelong: RNDState
    errors: RunningNorm  # of the life-long novelty


class EpisodicNovelty(Bonus):
    """Novelty within the episode times novelty within the run: i = r min(max(alpha, 1), max_scale).

        r = 1 / s,  or 0 where s > max_similarity
        s = sqrt(sum_{k nearest f_j} epsilon / (max(d_j - cluster_distance, 0) + epsilon)) + constant
        d_j = |phi(s') - f_j|^2 / (running mean of such distances)
        alpha = 1 + (error - mean) / std

    f_j are the embeddings of all states of the episode so far, or its last `memory_size`, with phi of an inverse model,
    which tells the action from phi(s) and phi(s'): what actions do not move makes nothing new. Where states are either
    the same or far apart, r is 1 / sqrt(visits). alpha is by how much the error of random network distillation (`rnd`)
    is above its mean over the run. The bonus is noted as the rollout comes in; then both networks are trained on it.

    Constants and learning rates are the paper's (its table of hyper-parameters has epsilon at 0.0001, its text at
    0.001), but for the memory, which holds 30,000 states there. There the bonus is added as it is (`normalise=False`),
    0.3 at most, an episode keeps the phi it began with, and Adam, with an epsilon of 0.0001 and gradients clipped at
    40, learns from the last five frames of replayed sequences. Not here: the family of policies with a weight of the
    bonus each, that share one network (the paper's NGU agent); any agent learns from the one bonus.

    Source: Badia, Sprechmann, Vitvitskyi, Guo, Piot, Kapturowski, Tieleman, Arjovsky, Pritzel, Bolt, Blundell (2020),
    "Never Give Up: Learning Directed Exploration Strategies", arXiv 2002.06038.
    """

    example: ClassVar[str] = "forage train ppo grid:MultiRoom-N2-S4 --rewards episodic-novelty"
    ranges: ClassVar[Ranges] = {
        "memory_size": Range(1),
        "lifelong_size": Range(1),
        "epsilon": Range(0, above=True),
        "constant": Range(0, above=True),
        "cluster_distance": Range(0),
        "max_similarity": Range(0, above=True),
        "max_scale": Range(1),
        "neighbours": Range(1),
    }
    needs: ClassVar[Needs] = Needs(actions="any", observations="array")

    weight: float = 0.3
    neighbours: int = equinox.field(static=True, default=10)  # nearest states of the episode that similarity is summed
    # over
    memory_size: int = equinox.field(static=True, default=500)  # newest states of each environment's episode that are
    # kept
    epsilon: float = 1e-4  # softness of what counts as near; larger makes distant states count as similar
    cluster_distance: float = 0.008  # distance below which states count as the same, in mean distances; larger merges
    # more
    constant: float = 1e-3  # added to the similarity, so that r stays finite; larger bounds r lower
    max_similarity: float = 8.0  # similarity above which a state is not paid at all; larger pays familiar states longer
    max_scale: float = 5.0  # largest factor of the life-long novelty
    learning_rate: float = 5e-4  # step size of Adam, for both networks
    minibatch_size: int = equinox.field(static=True, default=256)
    embedding_size: int = equinox.field(static=True, default=32)
    head_size: int = equinox.field(static=True, default=128)  # hidden units of the inverse model
    lifelong_size: int = equinox.field(static=True, default=128)  # numbers that the life-long novelty distils
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64, 64))  # units of each hidden layer, where
    # observations are no images

    def __check_init__(self):
        check_order(self, "neighbours", "memory_size", equal=True)

    @property
    def rnd(self) -> RND:
        """Return the RND of life-long novelty; only its error is used."""
        return RND(
            learning_rate=self.learning_rate,
            epochs=1,
            proportion=1.0,  # of the frames that phi learns from, all
            minibatch_size=self.minibatch_size,
            embedding_size=self.lifelong_size,
            hidden_sizes=self.hidden_sizes,
        )

    def remark(self, spec: Spec) -> Float[Array, ""]:
        return jnp.zeros(())

    def begin(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> EpisodicNoveltyState:
        model_key, rnd_key = jax.random.split(key)
        shape, size = row_shape(spec), self.embedding_size
        model = InverseModel(model_key, shape, spec.action_space, self.hidden_sizes, size, self.head_size)
        recollection = Recollection(
            jnp.zeros((num_envs, self.memory_size, size)),
            jnp.zeros(num_envs, jnp.int32),
            jnp.zeros(num_envs),
            jnp.zeros(num_envs, jnp.int32),
        )
        lifelong = self.rnd.begin(rnd_key, spec, num_envs)
        return EpisodicNoveltyState(
            model, self.optimiser().init(model), recollection, lifelong, RunningNorm.from_shape(())
        )

    def optimiser(self) -> Optimiser:
        return adam(self.learning_rate, flat=True)

    def novelty(self, own: EpisodicNoveltyState, experience: Experience) -> Float[Array, "time batch"]:
        return experience.rewards_info

    def study(
        self, own: EpisodicNoveltyState, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[EpisodicNoveltyState, PyTree[Array], Metrics]:
        fit_key, rnd_key = jax.random.split(key)
        lifelong, _, rnd_metrics = self.rnd.study(own.lifelong, rollout, clock, rnd_key)
        error = self.rnd.novelty(lifelong, rollout)
        errors = own.errors.update(error.reshape(-1), rollout.counts.reshape(-1))
        scale = jnp.clip(1 + errors(error, jnp.inf), 1.0, self.max_scale)

        rows = as_transitions(lifelong.observations, rollout)
        now, after = (
            own.model.embedding.rows(seen).reshape(*rollout.ended.shape, -1)
            for seen in (rows.observation, rows.next_observation)
        )
        recollection, novelty = jax.lax.scan(
            jax.vmap(self.step), own.recollection, (now, after, rollout.ended, rollout.counts)
        )

        def loss(model: InverseModel, rows: Transitions) -> Array:
            now, after = (model.embedding.rows(seen) for seen in (rows.observation, rows.next_observation))
            return jnp.mean(rows.weight * jax.vmap(model.error)(now, after, rows.action))

        model, optimiser, value = fit(
            loss, self.optimiser(), own.model, own.optimiser, rows, fit_key, 1, self.minibatch_size
        )
        own = EpisodicNoveltyState(model, optimiser, recollection, lifelong, errors)
        share = rollout.counts / jnp.maximum(rollout.counts.sum(), 1)
        metrics = {
            "inverse_loss": value,
            "episodic_novelty": (novelty * share).sum(),
            "lifelong_scale": (scale * share).sum(),
        }
        return own, novelty * scale, rnd_metrics | metrics

    def forget(self, own: EpisodicNoveltyState) -> EpisodicNoveltyState:
        recollection = own.recollection._replace(states=jnp.zeros_like(own.recollection.states))
        return own._replace(recollection=recollection)

    def step(
        self,
        kept: Recollection,
        seen: tuple[Float[Array, " phi"], Float[Array, " phi"], Bool[Array, ""], Bool[Array, ""]],
    ) -> tuple[Recollection, Float[Array, ""]]:
        """Compute the reward r of one step of one environment. An episode's first state is in the memory before
        that.
        """
        now, after, ended, counts = seen
        memory = kept.memory.at[0].set(jnp.where(kept.states == 0, now, kept.memory[0]))
        states = jnp.maximum(kept.states, 1)

        squared = jnp.sum((memory - after) ** 2, 1)
        squared = jnp.where(jnp.arange(self.memory_size) < states, squared, jnp.inf)
        nearest = -jax.lax.top_k(-squared, self.neighbours)[0]
        there = jnp.isfinite(nearest)
        nearest = jnp.where(there, nearest, 0.0)

        steps = kept.steps + counts
        rate = jnp.where(counts, jnp.maximum(1 / steps, FORGETTING), 0.0)
        distance = kept.distance + rate * (nearest.sum() / there.sum() - kept.distance)
        apart = jnp.maximum(nearest / jnp.maximum(distance, 1e-8) - self.cluster_distance, 0.0)
        kernel = jnp.where(there, self.epsilon / (apart + self.epsilon), 0.0)
        similarity = jnp.sqrt(kernel.sum()) + self.constant
        novelty = jnp.where(similarity > self.max_similarity, 0.0, 1 / similarity)

        memory = memory.at[states % self.memory_size].set(after)
        return Recollection(memory, jnp.where(ended, 0, states + 1), distance, steps), novelty


FORGETTING = 1e-3
"""The least weight of a new distance in the running mean, so that it follows changing embeddings."""
