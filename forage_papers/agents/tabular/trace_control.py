"""Control with trajectory-aware traces: a table of action values that learns from another policy's trajectories.

Daley, White, Amato, Machado (2023), "Trajectory-Aware Eligibility Traces for Off-Policy Reinforcement Learning", arXiv
2301.11321. The agent acts by a policy mu that is greedy but for `acting_epsilon`, and learns the values of one, pi,
that is greedy but for `target_epsilon`, both by the table as it was when the rollout began. After a rollout, at once,

    Q(s_t, a_t) <- Q(s_t, a_t) + learning_rate (target_t - Q(s_t, a_t)) for every step t

with the targets of `forage.ops.returns.trajectory_aware` by the ratios pi(a|s) / mu(a|s), under `trace`; actions that
another behaviour chose get ratio 1. A pair that was visited several times moves by the sum of what its visits say, as
with accumulating traces. The authors' program (trajectory_aware_etraces/experiments/training.py) spreads each error
backward as it comes, and takes new policies where an episode ends; it begins with small random values, as here, and
with five episodes at random.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core.ports import ActInputs, Agent, Metrics
from forage.core.ports.needs import Choices, Needs
from forage.core.ranges import Range, Ranges
from forage.core.spaces import split_mask
from forage.core.types import AGENT, Batch, Clock, Spec
from forage.ops.returns import TRACES, trajectory_aware
from forage_papers.agents.tabular import base as tabular


class TraceControlState(NamedTuple):
    q: Float[Array, "state action"]


class TraceControl(Agent):
    """Tabular control with Retrace, truncated importance sampling or RBIS (Daley et al., 2023, arXiv 2301.11321)."""

    example: ClassVar[str] = "forage train trace-control tabular:DynaMaze --trace rbis"
    ranges: ClassVar[Ranges] = {
        "trace_lambda": Range(0, 1),
        "acting_epsilon": Range(0, 1),
        "target_epsilon": Range(0, 1),
        "initial_deviation": Range(0),
    }

    on_policy: ClassVar[bool] = True
    needs: ClassVar[Needs] = tabular.NUMBERED
    choices: ClassVar[Choices] = {"trace": TRACES}

    learning_rate: float = 0.3  # share of the way to what a trajectory says of each step; Forage's own
    discount: float = 0.95
    trace: str = equinox.field(static=True, default="rbis")  # how far a step hears of later ones: retrace,
    # recursive-retrace, truncated-is or rbis
    trace_lambda: float = 0.9  # decay of the weights of later errors; nearer 1 has less bias and more variance
    acting_epsilon: float = 0.2  # share of random actions while it acts; Forage's own
    target_epsilon: float = 0.1  # share of random actions of the policy that is learned; 0 learns the greedy one's
    # values, whose traces end at each other action
    initial_deviation: float = 0.01  # deviation of the first values, so that not all are equal; the authors'
    num_envs: int = equinox.field(static=True, default=1)
    rollout_length: int = equinox.field(static=True, default=50)

    def init(self, key: Key[Array, ""], spec: Spec) -> TraceControlState:
        return TraceControlState(self.initial_deviation * jax.random.normal(key, tabular.pairs(spec)))

    def act(self, state: TraceControlState, inputs: ActInputs) -> tuple[Int[Array, ""], PyTree[Array], tuple[()]]:
        shares = self.probabilities(state, inputs.observation, inputs.explore)
        return jax.random.categorical(inputs.key, jnp.log(shares)).astype(jnp.int32), inputs.hidden, ()

    def action_values(
        self, state: TraceControlState, hidden: PyTree[Array], observation: PyTree[Array]
    ) -> Float[Array, " actions"]:
        return state.q[tabular.index(observation)]

    def probabilities(
        self, state: TraceControlState, observation: PyTree[Array], explore: bool
    ) -> Float[Array, " actions"]:
        q, mask = state.q[tabular.index(observation)], split_mask(observation)[1]
        return nearly_greedy(q, mask, self.acting_epsilon if explore else 0.0)

    def learn(
        self, state: TraceControlState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[TraceControlState, Metrics, Float[Array, " env"]]:
        e = batch.experience
        at, after = tabular.index(e.observation), tabular.index(e.next_observation)
        q, next_q = state.q[at], state.q[after]
        mask, next_mask = split_mask(e.observation)[1], split_mask(e.next_observation)[1]
        target, acting = (nearly_greedy(q, mask, share) for share in (self.target_epsilon, self.acting_epsilon))
        taken, ratio, actor = (jnp.take_along_axis(x, e.action[..., None], -1)[..., 0] for x in (q, target, acting))
        own = (e.source == AGENT) & (actor > 0)  # what it never chooses, another behaviour did
        log_ratio = jnp.where(own, jnp.log(ratio) - jnp.log(actor), 0.0)
        expected = jnp.sum(nearly_greedy(next_q, next_mask, self.target_epsilon) * next_q, -1)

        def one(log_ratio, reward, q, following, terminated, truncated):
            ends = terminated, truncated
            return trajectory_aware(
                log_ratio, reward, q, following, *ends, self.discount, self.trace_lambda, self.trace
            )

        rows = log_ratio, e.reward, taken, expected, e.terminated, e.truncated
        goal = jax.vmap(one, in_axes=1, out_axes=1)(*rows)
        error = jnp.where(e.counts, goal - taken, 0.0)
        moved = state.q.at[at, e.action].add(self.learning_rate * error)
        metrics: Metrics = {"q": goal.mean(), "error": jnp.abs(error).mean()}
        return TraceControlState(moved), metrics, jnp.abs(error).mean(0)


def nearly_greedy(
    q: Float[Array, "*batch actions"], mask: Array | None, epsilon: float | Array
) -> Float[Array, "*batch actions"]:
    """Return the probabilities of a policy that is greedy except for `epsilon`; equally good actions share equally."""
    may = jnp.ones(q.shape, bool) if mask is None else mask.astype(bool)
    allowed = jnp.where(may, q, -jnp.inf)
    ties = may & (allowed == allowed.max(-1, keepdims=True))
    # Where nothing is allowed, at an end, all are zero and none is asked for.
    shares = [x / jnp.maximum(x.sum(-1, keepdims=True), 1) for x in (ties, may)]
    return (1 - epsilon) * shares[0] + epsilon * shares[1]
