"""Callbacks: functions of the user that see a run while it trains, and may save or stop it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from forage.core import prng
from forage.core.sweep import best_member
from forage.core.types import ForageError
from forage.evaluation.statistics import Score, by_setting
from forage.loop.policy import Policy
from forage.runs.scoring import check_episodes, evaluate_agents

if TYPE_CHECKING:
    from forage.runs.session import Session


class View:
    """A run in training, as a callback sees it."""

    def __init__(self, session: Session, row: dict[str, Any]):
        self._session = session
        self.directory: Path = session.directory
        self.steps: int = session.runner.steps  # of each seed
        self.row = dict(row)  # what was measured since the last point of the curve; values are lists over members
        self.members: list[dict[str, Any]] = session.setup.members

    def policy(self, seed: int | None = None) -> Policy:
        """Return the current agent: that of a seed, or the best of the newest evaluation, or the first."""
        setup, newest = self._session.setup, self._session.newest
        wanted = {} if seed is None else {"seed": seed}
        index = best_member("This run", self.members, newest["return"] if newest else None, wanted)
        state = jax.tree.map(lambda x: jax.device_get(x)[index], self._session.runner.agent_states())
        policy = Policy(setup.agent, state, setup.spec, setup.evaluation_actions == "sampled")
        policy.member = self.members[index]
        return policy

    def evaluate(self, episodes: int | None = None) -> Score:
        """Play evaluation episodes without touching training, and return the score of the best setting.

        Each call plays other episodes, greedily unless the run samples its evaluation actions.
        """
        session = self._session
        episodes = session.episodes if episodes is None else episodes
        check_episodes(episodes)
        actions = "sampled" if session.setup.evaluation_actions == "sampled" else "greedy"
        session.asked += 1
        seed = prng.EVALUATION_CALLED + session.asked
        session.newest = evaluate_agents(session.runner, session.setup, episodes, seed, actions)
        return max(by_setting(self.members, session.newest["return"]).values(), key=lambda one: one.value)

    def save(self) -> None:
        """Write a checkpoint now."""
        self._session.save()

    def stop(self, reason: str) -> None:
        """End training after this report, evaluate and conclude the run; the reason is kept in its history."""
        if not isinstance(reason, str) or not reason.strip():
            raise ForageError("A run is stopped with a reason, a text that stands in its record.")
        self._session.stopped = reason


Callback = Callable[[View], Any]


class CallbackFailed(Exception):
    """A wrapper that carries the error of a callback past the handlers of the run's own errors."""

    def __init__(self, error: Exception):
        super().__init__(str(error))
        self.error = error


def check_callbacks(callbacks: Sequence[Callback]) -> list[Callback]:
    """Return the callbacks. Raise `ForageError` if one cannot be called."""
    for callback in callbacks if isinstance(callbacks, (list, tuple)) else [None]:
        if not callable(callback):
            found = callbacks if callback is None else callback
            raise ForageError(
                f"callbacks is a list of functions of a run's view, such as [lambda run: ...]; not a "
                f"{type(found).__name__}."
            )
    return list(callbacks)
