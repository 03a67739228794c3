"""Q-learning: a table of action values, each moved a little towards the target of every transition.

Watkins, 1989, "Learning from Delayed Rewards", thesis, Cambridge; Watkins and Dayan, 1992, "Q-learning",
Machine Learning 8. One after the other, for each transition that the memory gives,

    Q(s, a) <- Q(s, a) + learning_rate (r + discount max_b Q(s', b) - Q(s, a))    (no Q(s', b) after a terminal state)

With a memory of capacity 1 that is each step of the environment as it is made, the thesis' algorithm; with a larger one
steps are replayed (Lin, 1992), and with Dyna's imagined ones beside them it is Dyna-Q.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core.ports import ActInputs, Agent, Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.spaces import split_mask
from forage.core.types import Batch, Clock, Spec
from forage.ops.action_values import best_action
from forage_papers.agents.tabular import base as tabular


class QLearningState(NamedTuple):
    q: Float[Array, "state action"]


class QLearning(Agent):
    """Q-learning (Watkins, 1989) for numbered states and actions, with action masks.

    Of equally good actions it draws one, so that a table of equal numbers walks about rather than to one side.
    """

    example: ClassVar[str] = "forage train q-learning tabular:FrozenLake-4"

    on_policy: ClassVar[bool] = False
    usual_behaviour: ClassVar[str] = "epsilon-greedy"

    ranges: ClassVar[Ranges] = {"initial_value": Range()}
    needs: ClassVar[Needs] = tabular.NUMBERED

    learning_rate: float = 0.1  # share of the way to what a transition says; 1 forgets what was learned before
    discount: float = 0.95
    initial_value: float = 0.0  # value of all actions at first; above what can be had, everything is tried
    num_envs: int = equinox.field(static=True, default=1)
    rollout_length: int = equinox.field(static=True, default=1)
    updates_per_rollout: int = equinox.field(static=True, default=1)
    batch_size: int = equinox.field(static=True, default=1)  # transitions in each batch, learned one after the other
    learning_starts: int = equinox.field(static=True, default=1)

    def init(self, key: Key[Array, ""], spec: Spec) -> QLearningState:
        return QLearningState(jnp.full(tabular.pairs(spec), self.initial_value, jnp.float32))

    def act(self, state: QLearningState, inputs: ActInputs) -> tuple[Int[Array, ""], PyTree[Array], tuple[()]]:
        ties = self.probabilities(state, inputs.observation, inputs.explore) > 0
        return best_action(jax.random.uniform(inputs.key, ties.shape), ties), inputs.hidden, ()

    def action_values(
        self, state: QLearningState, hidden: PyTree[Array], observation: PyTree[Array]
    ) -> Float[Array, " actions"]:
        return state.q[tabular.index(observation)]

    def probabilities(
        self, state: QLearningState, observation: PyTree[Array], explore: bool
    ) -> Float[Array, " actions"]:
        q, mask = state.q[tabular.index(observation)], split_mask(observation)[1]
        allowed = q if mask is None else jnp.where(mask, q, -jnp.inf)
        ties = allowed == allowed.max()
        return ties / ties.sum()

    def learn(
        self, state: QLearningState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[QLearningState, Metrics, Float[Array, " batch"]]:
        now = batch.transitions
        index, following = tabular.index(now.observation), tabular.index(now.next_observation)
        mask = split_mask(now.next_observation)[1]
        allowed = jnp.ones((len(index), state.q.shape[1]), bool) if mask is None else mask
        weight = self.learning_rate * batch.weight * now.counts

        def step(q: Float[Array, "state action"], row: tuple[Array, ...]):
            at, action, reward, terminated, after, may, share = row
            value = jnp.max(q[after], where=may, initial=-jnp.inf)
            goal = reward + jnp.where(terminated, 0.0, self.discount * value)
            error = goal - q[at, action]
            return q.at[at, action].add(share * error), (goal, jnp.abs(error) * (share > 0))

        rows = (index, now.action, now.reward, now.terminated, following, allowed, weight)
        q, (goal, error) = jax.lax.scan(step, state.q, rows)
        known = jnp.mean(state.q != self.initial_value)
        return QLearningState(q), {"q": goal.mean(), "error": error.mean(), "known": known}, error
