"""Behaviours that take over actions in Python, before the environments take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Int, PyTree

from forage.core.ports.part import Part, State
from forage.core.types import Clock, Spec


class InterventionContext(NamedTuple):
    """The view of a behaviour on the host before a step: read-only NumPy arrays, leaves `env *agent ...`."""

    observation: PyTree[np.ndarray]
    action: PyTree[np.ndarray]  # that is taken unless somebody intervenes
    begins: Bool[np.ndarray, "env *agent"]  # whether the step begins an episode
    spec: Spec
    clock: Clock
    seed: int
    policy_info: PyTree[np.ndarray] = ()  # what the agent wants back in `learn`
    policy: Callable[[], State] | None = None  # returns the agent's state that acts now


class Intervention(NamedTuple):
    """The answer of a behaviour on the host to a scene."""

    action: PyTree[np.ndarray]  # leaves `env *agent ...`; looked at where `taken`
    taken: Bool[np.ndarray, "env *agent"]
    state: PyTree[np.ndarray]
    policy_info: PyTree[np.ndarray] | None = None  # what the agent gets back in `learn` where `taken`; `None`: its own
    source: Int[np.ndarray, "env *agent"] | None = None  # who chose each action that was taken; `None`: `PERSON`


class OnHost(Part):
    """A behaviour that takes over actions on the host, such as a person; by default it has none to take over."""

    on_host: ClassVar[bool] = False
    """It has a method `intervene`, so the loop runs on the host, for native environments too."""

    def attend(self, spec: Spec, num_envs: int) -> PyTree[np.ndarray]:
        """Return the first state of `intervene`, NumPy arrays that checkpoints store; `()` for none."""
        return ()

    def intervene(self, state: PyTree[np.ndarray], scene: InterventionContext) -> Intervention:
        """Take over actions that `act` chose, before the environments take them.

        It is called in Python with NumPy, never traced, and may take its time, as people do. `Experience.source` is
        `PERSON` where an action was taken over, unless the intervention says who chose it, and `Agent.observe_action`
        gets the action that was taken.
        """
        raise NotImplementedError

    def intervention_metrics(self, state: PyTree[np.ndarray]) -> dict[str, float]:
        """Return metrics of the state of `intervene`; if there are none, a run reports the number of steps taken
        over.
        """
        return {}
