"""Robust policy improvement: a policy gradient that imitates the best of several imperfect teachers.

Liu, Yoneda, Stevens, Walter, Chen (2024), "Blending Imitation and Reinforcement Learning for Robust Policy
Improvement", arXiv 2310.01737. K oracles, policies that can only be asked what to do, and the learner itself, number
K + 1, each have an ensemble of values, with mean m_k(s) and standard deviation d_k(s) over its members. With
k = argmax_k m_k(s), the baseline (equation 12) is

    f(s) = m_k(s)    where d_k(s) <= confidence,  else m_{K+1}(s)

and the policy maximises PPO's clipped loss with advantages from it (equation 11, robust policy gradient),

    A_t = sum_i (discount gae_lambda)^i delta_{t+i},    delta_t = r_t + discount f(s_{t+1}) - f(s_t)

in episodes that the learner plays by itself. Where an oracle is worth more, that is imitation of it; where the learner
is, it is PPO. Values learn as `forage.nn.policy_values` has it, those of an oracle from the newest `kept_rollouts`
rollouts, where it acted, and the learner's from the last one. Who acts when is a matter of the behaviour
(`forage.behaviours.raps`), which asks `select_policy` (equation 10, robust active policy selection):

    argmax { m_1 + d_1, ..., m_K + d_K, m_{K+1} - d_{K+1} }

Lambda, confidence and five members are the paper's, whose text could be read in notes on it alone; discount, step
size of the values and normalised observations are those of the program of the same authors' method before (ripl/maps).
Without these a value hardly sees small numbers, such as the speed of a car in MountainCarContinuous-v0: the best
oracle's was wrong by half there, and the learner drove against a hill at full force. Oracles act without noise here;
there they may draw their actions. Without oracles this would be PPO, so it asks for some.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.agents.policy_gradient.ppo import PPO
from forage.agents.policy_gradient.rollouts import Reading, cut_short
from forage.core.frozen import FrozenPolicy, all_frozen
from forage.core.ports import ActInputs, Metrics, ValueEstimates
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.spaces import split_mask
from forage.core.types import AGENT, GUIDE, Batch, Clock, Experience, ForageError, Spec
from forage.nn.actor_critic import ActorCritic
from forage.nn.networks import NetworkConfig
from forage.nn.normalise import Norms, apply_norm, first_statistics, input_space, update_norms
from forage.ops.optimiser import adam
from forage.ops.rows import merge_time, weighted_mean
from forage_papers.nn.policy_values import ActedSegments, PolicyValues, segments

BASELINE, AFTER = "baseline", "baseline after"
"""Names of f(s) and f(s') in a rollout's rewards, for PPO."""


class RPIState(NamedTuple):
    network: ActorCritic
    optimiser: Any
    norm: Norms  # of observations
    values: PolicyValues  # the learner's last
    value_optimiser: Any
    oracles: tuple[PyTree[Array], ...]  # the weights of each
    kept: ActedSegments  # the newest rollouts, leaves `slot time env ...`
    rollouts: Int[Array, ""]  # that were learned from


class RPI(PPO):
    """PPO that imitates the best of several oracles, state by state, until it is better (Liu et al., 2310.01737).

    Policies are numbered: the oracles from 0, then the learner in what it plays by itself, then the learner where
    another policy was or is to take over (`roll_in`), from which nothing is learned.
    """

    example: ClassVar[str] = "forage train rpi Pendulum-v1 --oracles runs/early,runs/other"
    usual_behaviour: ClassVar[str] = "raps"
    ranges: ClassVar[Ranges] = {
        "confidence": Range(0),
        "members": Range(2),
        "value_learning_rate": Range(0, above=True),
        "value_updates": Range(1),
        "value_segments": Range(1),
        "kept_rollouts": Range(1),
    }
    unused: ClassVar[Unused] = {"gru_size central_critic bonus_head": "RPI values single observations, by one reward"}

    normalise_observation: bool = equinox.field(static=True, default=True)
    discount: float = 0.995
    gae_lambda: float = 0.9
    value_coefficient: float = 0.0  # weight of the loss of PPO's own value, which nothing asks here
    oracles: tuple[str | FrozenPolicy | Callable[[Any], Any], ...] = equinox.field(
        default=(), converter=all_frozen
    )  # the
    # teachers: directories of runs, with commas between them; in Python also functions of the observation, or trained
    # agents with their states
    confidence: float = 0.5  # largest deviation of an ensemble whose mean is trusted as the baseline, in units of the
    # reward; smaller imitates less; the paper's, which has 3 for Pendulum
    members: int = equinox.field(static=True, default=5)  # values of each policy; more tell better where they are sure
    value_learning_rate: float = 1e-3  # step size of Adam for the values; larger follows newer returns faster
    value_updates: int = equinox.field(static=True, default=96)  # updates of the values after each rollout; more fit
    # them better, at more computing; with 16 Pendulum-v1 was not learned at all
    value_segments: int = equinox.field(static=True, default=8)  # segments of a rollout's length in each of these, of
    # oracles and of the learner; more make them steadier
    kept_rollouts: int = equinox.field(static=True, default=16)  # newest rollouts that the oracles' values learn from;
    # more are steadier, as oracles stay as they are

    @property
    def needed_behaviour(self) -> str:
        return "raps"

    @property
    def learner(self) -> int:
        """Return the index of the learner, for steps that it plays by itself."""
        return len(self.oracles)

    @property
    def roll_in(self) -> int:
        """Return the index of the learner in episodes that another policy takes over or has taken over."""
        return len(self.oracles) + 1

    @property
    def teachers(self) -> tuple[FrozenPolicy, ...]:
        """Return the oracles."""
        assert all(isinstance(one, FrozenPolicy) for one in self.oracles)
        return self.oracles  # type: ignore[return-value]

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if not isinstance(self.oracles, tuple) or not self.oracles:
            raise ForageError(
                "RPI learns from other policies; name the runs of some with --oracles RUN,RUN, or use ppo."
            )
        for one in self.oracles:
            if not isinstance(one, FrozenPolicy):
                raise ForageError(
                    f"An oracle of RPI is a run's directory, a function of the observation or a pair (agent, its "
                    f"state), not a {type(one).__name__}."
                )
            one.check("RPI", spec, "oracle")

    def init(self, key: Key[Array, ""], spec: Spec) -> RPIState:  # type: ignore[override]
        value_key = jax.random.fold_in(key, 1)
        plain = super().init(key, spec)
        read = dataclasses.replace(spec, observation_space=input_space(spec.observation_space, plain.norm))
        sizes = self.value_sizes or self.hidden_sizes
        values = PolicyValues(value_key, read, sizes, NetworkConfig.from_agent(self), self.learner + 1, self.members)
        shape = self.kept_rollouts, self.rollout_length, self.num_envs * spec.num_agents
        kept = ActedSegments.empty(shape, spec, self.roll_in)
        weights = tuple(one.first(spec) for one in self.teachers)
        return RPIState(*plain, values, adam(self.value_learning_rate).init(values), weights, kept, jnp.int32(0))

    def act(self, state: Any, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        action, hidden, _ = super().act(state, inputs)
        return action, hidden, jnp.int32(self.learner)

    def oracle_actions(self, state: Any, observation: PyTree[Array]) -> PyTree[Array]:
        """Return each oracle's action in one observation, leaves `oracle ...`."""
        actions = [one.act(held, observation) for one, held in zip(self.teachers, state.oracles, strict=True)]
        return jax.tree.map(lambda *each: jnp.stack(each), *actions)

    def select_policy(self, state: Any, observation: PyTree[Array]) -> Int[Array, ""]:
        """Return the index of the policy that continues: oracles by upper bounds, the learner by its lower one."""
        rows = jax.tree.map(lambda x: jnp.asarray(x)[None], apply_norm(state.norm, observation))
        mean, spread = (x[:, 0] for x in state.values.estimates(rows))
        bound = mean + jnp.where(jnp.arange(self.learner + 1) < self.learner, spread, -spread)
        return jnp.argmax(bound).astype(jnp.int32)

    def baseline(
        self, mean: Float[Array, "policy batch"], spread: Float[Array, "policy batch"]
    ) -> tuple[Float[Array, " batch"], Int[Array, " batch"]]:
        """Compute f, and the index of its policy."""
        best = jnp.argmax(mean, 0)
        unsure = jnp.take_along_axis(spread, best[None], 0)[0] > self.confidence
        best = jnp.where(unsure, self.learner, best)
        return jnp.take_along_axis(mean, best[None], 0)[0], best

    def learn(
        self, state: Any, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Any, Metrics, Float[Array, " env"]]:
        experience = batch.experience
        norm = self.rollout_norms(state, experience)

        # Values, before the policy, as the paper has it
        policy = jnp.where(experience.counts, experience.policy_info, self.roll_in)
        newest = ActedSegments.from_rollout(experience._replace(truncated=cut_short(experience)), policy)
        slot = state.rollouts % self.kept_rollouts
        kept = jax.tree.map(lambda all, new: all.at[slot].set(new.astype(all.dtype)), state.kept, newest)
        state = state._replace(kept=kept, rollouts=state.rollouts + 1)
        state, lost = self.value(state, norm, newest, jax.random.fold_in(key, 3))

        # Policy: PPO, which learns from what the learner plays by itself
        own = experience.policy_info == self.learner
        source = jnp.where((experience.source == AGENT) & ~own, GUIDE, experience.source)
        told, best = self.with_values(state, norm, experience._replace(source=source))
        improved: Any = super().learn(state, batch._replace(experience=told), clock, key)
        state, metrics, errors = improved
        own = own & experience.counts
        metrics |= {
            "oracle_value_loss": lost[:-1].mean(),
            "learner_value_loss": lost[-1],
            "own_steps": own.mean(),
            "imitated": weighted_mean((best != self.learner).astype(jnp.float32), own),
        }
        return state, metrics, errors

    def value(
        self, state: Any, norm: Norms, newest: ActedSegments, key: Key[Array, ""]
    ) -> tuple[Any, Float[Array, " policy"]]:
        """Return the state after all updates of the values, and the mean error of each policy's."""
        descent, size = adam(self.value_learning_rate), self.value_segments
        written = jnp.minimum(state.rollouts, self.kept_rollouts)

        def update(carry: tuple[PolicyValues, Any], key: Key[Array, ""]) -> tuple[tuple[PolicyValues, Any], Any]:
            *keys, half_key = jax.random.split(key, 4)
            drawn = segments(state.kept, written, newest, self.learner, size, keys)
            heard = jax.random.bernoulli(half_key, 0.5, (self.members, 2 * size))
            slope = jax.grad(PolicyValues.loss, has_aux=True)
            gradient, lost = slope(carry[0], drawn, norm, heard, self.discount, self.gae_lambda)
            return descent.step(gradient, carry[1], carry[0]), lost

        keys = jax.random.split(key, self.value_updates)
        (values, optimiser), lost = jax.lax.scan(update, (state.values, state.value_optimiser), keys)
        return state._replace(values=values, value_optimiser=optimiser), lost.mean(0)

    def rollout_norms(self, state: Any, rollout: Experience) -> Norms:
        """Return the norms that a rollout is read with, as PPO's."""
        return first_statistics(
            state.norm, update_norms(state.norm, split_mask(rollout.observation)[0], rollout.counts)
        )

    def with_values(self, state: Any, norm: Norms, rollout: Experience) -> tuple[Experience, Int[Array, "time env"]]:
        """Return a rollout with f of observations and of next observations, and the index of the former's policy."""

        def max_value(observation: PyTree[Array]) -> tuple[Array, Array]:
            rows = jax.vmap(jax.vmap(lambda o: apply_norm(norm, o)))(observation)
            rows = merge_time(rows)
            value, whose = (x.reshape(rollout.reward.shape) for x in self.baseline(*state.values.estimates(rows)))
            return value, whose

        (now, best), (after, _) = max_value(rollout.observation), max_value(rollout.next_observation)
        return rollout._replace(rewards={BASELINE: now, AFTER: after}), best

    def apply_to_rollout(self, network: ActorCritic, norm: Norms, experience: Experience) -> Reading:
        """Read a rollout as PPO does, but with the values f, as `told` has stored them."""
        now, after = experience.rewards[BASELINE][..., None], experience.rewards[AFTER][..., None]
        return super().apply_to_rollout(network, norm, experience)._replace(value=now, next_value=after)

    def estimate(self, state: Any, rollout: Experience) -> ValueEstimates:
        return super().estimate(state, self.with_values(state, self.rollout_norms(state, rollout), rollout)[0])
