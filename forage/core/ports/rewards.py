"""The port of rewards."""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from forage.core.ports.part import Metrics, Part, State
from forage.core.types import Clock, Experience, ForageError, Spec


class Rewards(Part):
    """The port of rewards. They are applied when experience is learned from, so old experience gets today's rewards."""

    as_given: ClassVar[bool] = False
    """`relabel` changes no reward: an agent that looks ahead in the environment sees the rewards it will learn from."""

    ends: ClassVar[bool] = False
    """`relabel` ends episodes that continue in the environment, which an agent's memory could not follow."""

    asks: ClassVar[bool] = False
    """`learn` takes `policy` as well: `(observation, action) -> Agent.log_probability` of the agent as it is."""

    fits_data: ClassVar[bool] = False
    """`fit` takes numbers from the rewards of the run's data set."""

    group: ClassVar[int] = 1
    """The number of episodes with a shared first state, side by side in a rollout, that it compares; 1
    for none.
    """

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> State:
        return ()

    def check(self, spec: Spec) -> None:
        """Raise `ForageError` if this part cannot make one number of the environment's reward, beyond `needs`.

        By default it can if the part within it, `inner`, can.
        """
        if isinstance(inner := getattr(self, "inner", None), Rewards):
            inner.check(spec)

    @property
    def unit(self) -> Any:
        """Return the factor that takes values back to the units of the environment's reward; `None` for none."""
        return None

    def fit(self, reward: Float[np.ndarray, " transition"]) -> Rewards:
        """Return this part with the numbers that it takes from the rewards of a data set."""
        return self

    @abc.abstractmethod
    def relabel(self, state: State, experience: Experience) -> Experience:
        """Return the experience (leaves `time batch ...`) with the reward to learn from, one number each.

        `experience.rewards` has each of the environment's several rewards by its name, and is handed on to agents that
        take them. What is paid for exploring is added there as `BONUS`: most agents learn from the sum.
        """

    def reward_names(self, spec: Spec) -> tuple[str, ...]:
        """Name the reward streams that `relabel` passes on, without a bonus: those of the environment."""
        inner = getattr(self, "inner", None)
        return inner.reward_names(spec) if isinstance(inner, Rewards) else spec.reward_names

    def score(self, returns: Float[np.ndarray, "*shape rewards"], spec: Spec) -> Float[np.ndarray, "*shape"]:
        """Return the score of episodes with these returns in each of the environment's several rewards.

        Scores, the best seed and tuning go by it. A part around an `inner` one leaves it to that; where the environment
        has one reward, a return is its own score.
        """
        if not spec.reward_names:
            return returns
        if isinstance(inner := getattr(self, "inner", None), Rewards):
            return inner.score(returns, spec)
        raise ForageError(
            f"{spec.name} has several rewards ({', '.join(spec.reward_names)}), and {type(self).__name__} does not say "
            f"what they are worth together; give it a method score(returns, spec), as Weighted has."
        )

    def example_info(self, spec: Spec) -> PyTree[Array]:
        """Return an example of the `rewards_info` that `learn` returns, for one transition; `()` for none."""
        return ()

    def learn(
        self, state: State, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, PyTree[Array], Metrics]:
        """Learn from each new rollout (leaves `time env ...`), before it is remembered.

        Returns the state, what is to be remembered of each transition as its `rewards_info` (leaves `time env ...`),
        because it cannot be told later from the transition alone, and metrics. `clock` reads as when the rollout began.
        """
        return state, (), {}

    def truncate(self, state: State) -> State:
        """Truncate the unfinished episodes: they were lost, and the next rollout starts with new ones."""
        return state
