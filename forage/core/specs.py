"""An environment's spec as plain data, in the configuration of a run and in the header of a data set."""

from __future__ import annotations

from typing import Any

from forage.core import spaces
from forage.core.columns import Columns
from forage.core.types import Spec

BY_ENTRY = "entry"
"""The entry `scales` in the spec of a run that scales each whole number by its own bound."""


def spec_to_json(spec: Spec) -> dict[str, Any]:
    """Return an environment's spec as plain data, for a run's configuration or a data set's header."""
    return {
        "name": spec.name,
        "observation_space": spaces.to_json(spec.observation_space),
        "action_space": spaces.to_json(spec.action_space),
        "reward_names": list(spec.reward_names),
        "num_agents": spec.num_agents,
        "horizon": None if spec.horizon is None else int(spec.horizon),
        "info_names": list(spec.info_names),
        **({} if spec.columns is None else {"columns": spec.columns.to_json()}),
    }


def training_space(config: dict[str, Any], space: Any) -> Any:
    """Return the space of a run's observations, with whole numbers scaled as at the start of the run."""
    told = config["spec"].get("scales") == BY_ENTRY
    return space if told or not spaces.reads_by_entry(space) else spaces.with_one_factor(space)


def spec_to_config(spec: Spec) -> dict[str, Any]:
    """Return a spec as plain data, the entry `spec` of a run's configuration."""
    return {
        **spec_to_json(spec),
        **({"scales": BY_ENTRY} if spaces.reads_by_entry(spec.observation_space) else {}),
    }


def spec_from_config(config: dict[str, Any]) -> Spec:
    """Return the agent's spec of its environment, from a run's configuration."""
    stored = config["spec"]
    return Spec(
        stored["name"],
        training_space(config, spaces.from_json(stored["observation_space"])),
        spaces.from_json(stored["action_space"]),
        tuple(stored["reward_names"]),
        stored.get("num_agents", 1),
        horizon=stored["horizon"],
        info_names=tuple(stored.get("info_names", ())),
        columns=Columns.from_json(stored.get("columns")),
    )
