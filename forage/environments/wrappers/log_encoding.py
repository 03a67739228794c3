"""An environment in the spaces of a log, for policies that learned from it."""

from __future__ import annotations

from typing import Any

import equinox
import gymnasium
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from forage.core.columns.entries import LogView, log_view
from forage.core.ports import State
from forage.core.types import Step
from forage.environments.wrappers.base import Wrapper, environment_name


class LogEncoding(Wrapper):
    """An environment whose observations and actions are coded as those of a log, see `LogView`.

    A run puts it around the environment in which a policy that learned from a table is played or goes on learning.
    """

    log: str = equinox.field(static=True, default="")  # the log's spaces and columns, as JSON

    def __check_init__(self):
        _ = self.view

    @property
    def view(self) -> LogView:
        return log_view(self.log, self.inside, environment_name(self.environment))

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        return self.view.observation_space

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        return self.view.action_space

    def observe(self, observation: PyTree[Array]) -> PyTree[Array]:
        return self.view.encode(observation, jnp)

    def step(self, state: State, action: PyTree[Array], key: Key[Array, ""]) -> tuple[State, Step]:
        return super().step(state, self.view.decode(action, jnp), key)
