"""Upper confidence bound value iteration: plans in the counted model, with a bonus for rarely tried actions.

Azar, Osband, Munos (2017), "Minimax Regret Bounds for Reinforcement Learning", arXiv 1703.05449. With n(s, a) visits,
shares p, mean rewards r in [0, 1], episodes of H steps and V_(H+1) = 0, after each episode

    Q_t(s, a) = min(Q'_t(s, a), H, r(s, a) + sum_s' p(s'|s, a) V_(t+1)(s') + b_t(s, a)),   V_t(s) = max_a Q_t(s, a)

with Q' the values of the episode before, and Q_t(s, a) = H where a was never taken in s. With L = ln(5 S A T /
failure), T the steps of the run, the bonus is

    hoeffding (UCBVI-CH)   b = 7 H L sqrt(1 / n)
    bernstein (UCBVI-BF)   b = sqrt(8 L Var_p(V_(t+1)) / n) + 14 H L / (3 n)
                               + sqrt(8 sum_s' p(s'|s, a) min(100^2 H^3 S^2 A L^2 / n'_(t+1)(s'), H^2) / n)

where n'_t(s') counts the visits of s' at step t, in any episode. With probability 1 - failure, the regret of K episodes
is at most (theorems 1 and 2, where L is ln(5 H S A T / failure))

    hoeffding   20 H^(3/2) L sqrt(S A K) + 250 H^2 S^2 A L^2
    bernstein   30 H L sqrt(S A K) + 2500 H^2 S^2 A L^2 + 4 H^(3/2) sqrt(K L)
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from forage.core.ports import ActInputs, Agent, Metrics
from forage.core.ports.needs import Choices, Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Spec
from forage.ops.every import run_if
from forage_papers.agents.tabular import base as tabular
from forage_papers.agents.tabular.base import Counts, Plan

BONUSES = ("hoeffding", "bernstein")


class UCBVIState(NamedTuple):
    counts: Counts
    visits: Float[Array, "time state"]  # of each state at each step of an episode
    plan: Plan


class UCBVI(Agent):
    """Upper confidence bound value iteration (Azar et al., 2017, arXiv 1703.05449), for numbered states.

    Rewards between 0 and 1; they are taken for known once seen, as the paper has it: their means here. The bonuses are
    those of the proof, whose constants are far larger than what is needed to learn: `bonus_scale` shrinks them, and
    with that the promise goes; 0.002 to 0.01 works well in a river of 6 states and 20 steps. A plan is made anew
    whenever an episode has ended.
    """

    example: ClassVar[str] = "forage train ucbvi tabular:RiverSwim-6 --env.max-steps 20 --bonus-scale 0.01"
    ranges: ClassVar[Ranges] = {"failure": Range(0, 1, above=True, below=True), "bonus_scale": Range(0)}

    on_policy: ClassVar[bool] = True
    needs: ClassVar[Needs] = tabular.PLANNING
    choices: ClassVar[Choices] = {"bonus": BONUSES}

    failure: float = 0.05  # how probable it may be that the bound does not hold
    bonus_scale: float = 1.0  # factor of the bonuses; larger explores more, 1 is what the proof has
    bonus: str = equinox.field(static=True, default="bernstein")  # which inequality bonuses are made by: bernstein or
    # hoeffding
    num_envs: int = equinox.field(static=True, default=1)
    rollout_length: int = equinox.field(static=True, default=1)

    def init(self, key: Key[Array, ""], spec: Spec) -> UCBVIState:
        states, actions, horizon = tabular.table_sizes(spec)
        plan = jnp.full((horizon, states, actions), float(horizon))
        return UCBVIState(Counts.nothing(states, actions), jnp.zeros((horizon, states)), plan)

    def init_hidden(self, spec: Spec) -> Int[Array, ""]:
        """Return the time in the episode."""
        return jnp.int32(0)

    def act(self, state: UCBVIState, inputs: ActInputs) -> tuple[Int[Array, ""], Int[Array, ""], Int[Array, ""]]:
        return tabular.plan_action(state.plan, inputs.hidden, inputs.observation), inputs.hidden + 1, inputs.hidden

    def learn(
        self, state: UCBVIState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[UCBVIState, Metrics, Float[Array, " batch"]]:
        experience = batch.experience
        counts = state.counts.add(experience)
        time = jnp.minimum(experience.policy_info, state.plan.shape[0] - 1)
        here = tabular.index(experience.observation)
        visits = state.visits.at[time.ravel(), here.ravel()].add(experience.counts.ravel().astype(jnp.float32))
        due = (experience.ended & experience.counts).any()
        plan = run_if(due, lambda before: self.optimistic(counts, visits, before, clock), state.plan)
        tried = (counts.taken > 0).mean()
        metrics = {"optimism": plan[0].max(), "tried": tried}
        return UCBVIState(counts, visits, plan), metrics, jnp.zeros(experience.reward.shape[1])

    def optimistic(self, counts: Counts, visits: Float[Array, "time state"], before: Plan, clock: Clock) -> Plan:
        """Backward induction with the bonus, from the plan `before` down; see the file's beginning."""
        horizon, (states, actions) = visits.shape[0], counts.taken.shape
        transition, reward = counts.model()
        number = jnp.maximum(counts.taken, 1.0)
        log = jnp.log(5 * states * actions * clock.total / self.failure)
        constant = 100.0**2 * horizon**3 * states**2 * actions * log**2

        def hoeffding(values: Array, later: Array) -> Array:
            return 7 * horizon * log / jnp.sqrt(number)

        def bernstein(values: Array, later: Array) -> Array:
            spread = jnp.maximum(transition @ values**2 - (transition @ values) ** 2, 0.0)
            rest = jnp.minimum(constant / jnp.maximum(later, 1.0), horizon**2)
            return (
                jnp.sqrt(8 * log * spread / number)
                + 14 * horizon * log / (3 * number)
                + jnp.sqrt(8 * (transition @ rest) / number)
            )

        bonus = {"hoeffding": hoeffding, "bernstein": bernstein}[self.bonus]

        def backup(values: Float[Array, " state"], step: tuple[Float[Array, " state"], Float[Array, "state action"]]):
            later, before = step
            q = reward + transition @ values + self.bonus_scale * bonus(values, later)
            q = jnp.where(counts.taken > 0, jnp.minimum(q, before), horizon)  # which began at the horizon
            return q.max(-1), q

        # At step t the bonus asks how often states were visited at step t + 1; after the last step nothing comes.
        later = jnp.concatenate([visits[1:], jnp.full((1, states), jnp.inf)])
        return jax.lax.scan(backup, jnp.zeros(states), (later, before), reverse=True)[1]


def bound(bonus: str, states: int, actions: int, horizon: int, episodes: Any, failure: float = 0.05) -> Any:
    """Return UCBVI's regret bound after some episodes, with probability 1 - failure (theorems 1 and 2)."""
    log = jnp.log(5 * states * actions * horizon**2 * episodes / failure)
    root, square = jnp.sqrt(states * actions * episodes), horizon**2 * states**2 * actions * log**2
    if bonus == "hoeffding":
        return 20 * horizon**1.5 * log * root + 250 * square
    return 30 * horizon * log * root + 2500 * square + 4 * horizon**1.5 * jnp.sqrt(episodes * log)
