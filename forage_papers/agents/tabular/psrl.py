"""Posterior sampling: for each episode one MDP is drawn from the posterior, and its best policy followed.

Osband, Russo, Van Roy (2013), "(More) Efficient Reinforcement Learning via Posterior Sampling", arXiv 1306.0940, after
Strens (2000), "A Bayesian Framework for Reinforcement Learning". Before each episode

    p(.|s, a) ~ Dirichlet(prior / S + n(s, a, .))      over the S states
    r(s, a)   ~ N(m, 1 / (k tau)),  tau ~ Gamma(alpha, beta)

with the Normal-Gamma posterior of the rewards that were paid, and the plan is backward induction in that MDP. The
defaults are the paper's (section 6). Its MDPs have no end but the clock's: an end that was seen is one more outcome
here, by its count alone.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from forage.core.ports import ActInputs, Agent, Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Spec
from forage.ops.every import run_if
from forage_papers.agents.tabular import base as tabular
from forage_papers.agents.tabular.base import Counts, Plan


class PSRLState(NamedTuple):
    counts: Counts
    plan: Plan


class PSRL(Agent):
    """Posterior sampling for reinforcement learning (Osband et al., 2013, arXiv 1306.0940), for numbered states.

    Evaluation follows the posterior's mean instead of a draw. A new MDP is drawn whenever an episode has ended.
    """

    example: ClassVar[str] = "forage train psrl tabular:RiverSwim-6 --env.max-steps 20"
    ranges: ClassVar[Ranges] = {
        "prior": Range(0, above=True),
        "prior_number": Range(0, above=True),
        "prior_shape": Range(0, above=True),
        "prior_rate": Range(0, above=True),
        "prior_reward": Range(),
    }

    on_policy: ClassVar[bool] = True
    needs: ClassVar[Needs] = tabular.PLANNING

    prior: float = 1.0  # parameter of the Dirichlet, shared by the states that may come next; a small one expects few
    # of them
    prior_reward: float = 1.0  # mean of a reward nobody has seen: an optimistic one is tried
    prior_number: float = 1.0  # observations that the prior mean of a reward is worth; more are slower to forget it
    prior_shape: float = 1.0  # shape of the Gamma prior of a reward's precision; larger is surer of it
    prior_rate: float = 1.0  # rate of that Gamma: a reward's standard deviation is about sqrt(rate / shape) before it
    # is seen
    num_envs: int = equinox.field(static=True, default=1)
    rollout_length: int = equinox.field(static=True, default=1)

    def init(self, key: Key[Array, ""], spec: Spec) -> PSRLState:
        states, actions, horizon = tabular.table_sizes(spec)
        counts = Counts.nothing(states, actions)
        return PSRLState(counts, self.draw_plan(counts, horizon, key))

    def init_hidden(self, spec: Spec) -> Int[Array, ""]:
        """Return the time in the episode."""
        return jnp.int32(0)

    def act(self, state: PSRLState, inputs: ActInputs) -> tuple[Int[Array, ""], Int[Array, ""], tuple[()]]:
        plan = state.plan if inputs.explore else self.mean_plan(state)
        return tabular.plan_action(plan, inputs.hidden, inputs.observation), inputs.hidden + 1, ()

    def learn(
        self, state: PSRLState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[PSRLState, Metrics, Float[Array, " batch"]]:
        experience = batch.experience
        counts = state.counts.add(experience)
        horizon = state.plan.shape[0]
        due = (experience.ended & experience.counts).any()
        plan = run_if(due, lambda _: self.draw_plan(counts, horizon, key), state.plan)
        metrics = {"drawn_value": plan[0].max(), "tried": (counts.taken > 0).mean()}
        return PSRLState(counts, plan), metrics, jnp.zeros(experience.reward.shape[1])

    def draw_plan(self, counts: Counts, horizon: int, key: Key[Array, ""]) -> Plan:
        """Return the best plan of an MDP drawn from the posterior."""
        transition_key, precision_key, reward_key = jax.random.split(key, 3)
        transition = self.transition(counts, transition_key)
        mean, number, shape, rate = self.rewards(counts)
        precision = jax.random.gamma(precision_key, shape) / rate
        noise = jax.random.normal(reward_key, mean.shape)
        return tabular.backward(transition, mean + noise / jnp.sqrt(number * precision), horizon, jnp.inf)

    def transition(self, counts: Counts, key: Key[Array, ""]) -> Float[Array, "state action next"]:
        """Probabilities of next states, drawn from the posterior."""
        known = self.posterior(counts)
        # In logarithms, as with a small prior all weights of a row may round to nothing.
        weights = jax.random.loggamma(key, jnp.where(known > 0, known, 1.0))
        return jax.nn.softmax(jnp.where(known > 0, weights, -jnp.inf))[..., :-1]

    def posterior(self, counts: Counts) -> Float[Array, "state action next"]:
        """Return the Dirichlet's parameters for each next state, and last for the end of the episode."""
        return jnp.concatenate([counts.next + self.prior / counts.next.shape[-1], counts.num_ends[..., None]], -1)

    def rewards(self, counts: Counts) -> tuple[Array, Array, Array, Array]:
        """Return the Normal-Gamma posterior of each reward: mean, number, shape and rate, `state action` each."""
        n = counts.taken
        seen = counts.reward / jnp.maximum(n, 1.0)
        squares = jnp.maximum(counts.square - n * seen**2, 0.0)  # about their mean
        number = self.prior_number + n
        mean = (self.prior_number * self.prior_reward + counts.reward) / number
        off = self.prior_number * n * (seen - self.prior_reward) ** 2 / number
        return mean, number, self.prior_shape + n / 2, self.prior_rate + (squares + off) / 2

    def mean_plan(self, state: PSRLState) -> Plan:
        """Return the best plan of the mean MDP."""
        known = self.posterior(state.counts)
        transition = (known / known.sum(-1, keepdims=True))[..., :-1]
        return tabular.backward(transition, self.rewards(state.counts)[0], state.plan.shape[0], jnp.inf)
