"""A model of Stable-Baselines3 as a run, which every command takes (`forage import`)."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from forage.config.environment import find_world
from forage.config.ranges import check_call
from forage.config.resolve import resolve
from forage.config.trusting import keep_own
from forage.core import checkpoint
from forage.core.types import ForageError
from forage.runs.locking import lock_directory, removed_if_failed
from forage.runs.provenance import version_record
from forage.runs.run import Run, write_json
from forage.runs.training import new_directory
from forage.studies.sb3.archive import Statistics, read_model, read_statistics
from forage.studies.sb3.policies import agent_of, check_trained_spaces, kind_of, state_of

BESIDE = "vecnormalize.pkl"
"""The name that statistics of observations have in the RL Zoo's folders, next to the model."""


def import_policy(
    file: str | os.PathLike[str],
    environment: str,
    *,
    directory: str | os.PathLike[str] | None = None,
    normalisation: str | os.PathLike[str] | None = None,
    environment_options: Mapping[str, Any] | None = None,
    wrap: Sequence[str] = (),
    note: Callable[[str], None] = lambda text: None,
) -> Run:
    """Make a run of a model that Stable-Baselines3 saved, and return it. It acts as `model.predict` does.

    `environment`: the one that the model was trained in. `normalisation`: the file of its `VecNormalize`; unless said,
    `MODEL_vecnormalize.pkl` or `vecnormalize.pkl` in the model's folder. The run has one seed; `forage.evaluate` plays
    it, and `forage.train(start_from=run)` trains it on. `note` receives a sentence about the import.

    Raise `ForageError` for files that are no model, for other spaces, and for policies that Forage's agents cannot be.
    PyTorch is not needed, and no code in the files is run.
    """
    check_call(import_policy, {name: value for name, value in locals().items() if name != "note"})
    path = Path(file)
    model = read_model(path)
    kind = kind_of(model)
    world = find_world(environment, environment_options, wrap)
    check_trained_spaces(model, world.spec)
    statistics_file = find_statistics(path, normalisation)
    statistics = None if statistics_file is None else read_statistics(statistics_file)
    check_shape(statistics, statistics_file, world.spec.observation_space)
    agent = agent_of(model, kind, statistics)
    state = state_of(model, kind, agent, world.spec, statistics)

    learned = int(model.settings.get("num_timesteps") or 0)
    iteration = agent.num_envs * agent.rollout_length
    steps = max(1, -(-learned // iteration)) * iteration
    seed = model.settings.get("seed")
    setup = resolve(
        agent,
        environment,
        steps=max(steps, getattr(agent, "learning_starts", 0) + iteration),
        seeds=[seed if isinstance(seed, int) and seed >= 0 else 0],
        environment_options=environment_options,
        wrap=wrap,
        evaluation_actions="greedy",
    )
    setup = dataclasses.replace(
        setup,
        imported={
            "library": "stable-baselines3",
            "file": path.name,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "steps": learned,
            "normalisation": None if statistics is None or statistics_file is None else statistics_file.name,
        },
    )
    where = Path(directory) if directory is not None else None
    if where is not None:
        Run.check_free(where)
    where = new_directory(setup) if where is None else where
    done = False
    with lock_directory(where), removed_if_failed(where, lambda: not done):
        Run.check_free(where)
        config = setup.full_config()
        keep_own(config, None)
        write_json(where / "versions.json", version_record(setup, config))
        write_json(where / "config.json", config)
        header = {"steps": setup.steps, "seconds": 0.0}
        checkpoint.save_tree(where / "agent.npz", jax.tree.map(lambda x: x[None], state), header)
        done = True
    by = f", observations normalised by {statistics_file}" if statistics is not None else ""
    note(f"{path.name} is {kind} of {learned:,} steps{by}.")
    return Run(where)


def find_statistics(path: Path, given: str | os.PathLike[str] | None) -> Path | None:
    """Return the file of a model's `VecNormalize`, if there is one."""
    if given is not None:
        return Path(given)
    found = (path.with_name(name) for name in (f"{path.stem}_vecnormalize.pkl", BESIDE))
    return next((one for one in found if one.is_file()), None)


def check_shape(statistics: Statistics | None, file: Path | None, space: Any) -> None:
    """Raise `ForageError` if statistics are of other observations than an environment's."""
    if statistics is not None and np.shape(statistics.mean) != space.shape:
        raise ForageError(
            f"{file} has statistics of observations of shape {np.shape(statistics.mean)}, and the environment's have "
            f"{space.shape}; --normalisation names the file that was saved with the model."
        )
