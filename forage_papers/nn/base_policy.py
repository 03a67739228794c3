"""The input of networks next to a frozen policy: its action in the unit box, next to the observation."""

from __future__ import annotations

import dataclasses
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Array, PyTree

from forage.core.frozen import FrozenPolicy
from forage.core.types import Spec
from forage.nn.distributions import Actions


def beside_base(spec: Spec) -> Spec:
    """Return the spec of an environment that shows a base policy's action next to each observation."""
    box = gymnasium.spaces.Box(-1.0, 1.0, (Actions.from_space(spec.action_space).outputs,), np.float32)
    shown: Any = gymnasium.spaces.Dict({"observation": spec.observation_space, "base": box})
    return dataclasses.replace(spec, observation_space=shown)


def base_observation(
    base: FrozenPolicy, weights: PyTree[Array], actions: Actions, observation: PyTree[Array]
) -> dict[str, Any]:
    """Return one observation of such an environment."""
    return {"observation": observation, "base": actions.action_features(base.act(weights, observation))}
