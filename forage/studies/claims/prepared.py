"""Runs and data that several claims need: earlier policies and the experience of their training. Each is made once."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from typing import Any

from forage.config.resolve import from_config
from forage.data import files
from forage.memory.recorded import RecordedMemory
from forage.memory.uniform import UniformReplay
from forage.runs import display as progress
from forage.runs import training
from forage.runs.locking import wait_for_lock
from forage.runs.run import Run
from forage.studies.claims.played import FOLDER
from forage.studies.datasets.make import collect_experience


def train_agent(
    agent: str, environment: str, steps: int, seed: int = 0, options: Mapping[str, Any] | None = None, **words: Any
) -> str:
    """Return the directory of an agent's run of one seed; train it if it is missing.

    `words`: further arguments of `forage.train`. A run that was stopped is resumed. Where another claim trains it at
    this time, its end is waited for.
    """
    told = f"{agent} {environment} {steps} {seed} {sorted((options or {}).items())} {sorted(words.items())}"
    mark = hashlib.sha256(told.encode()).hexdigest()[:8]
    directory = FOLDER / f"{agent}-{environment.partition('-')[0].lower()}-{mark}"
    common: dict[str, Any] = {"evaluation_actions": "greedy", "evaluation_episodes": 8, "display": "quiet"}
    waiting = f"Another claim trains {directory}, which this one needs as well; waiting for it."
    with wait_for_lock(FOLDER / ".locks" / directory.name, lambda: progress.Notes().note(waiting)):
        if not Run.begun(directory):
            training.train(
                agent,
                environment,
                steps=steps,
                seeds=[seed],
                agent_options=dict(options or {}),
                directory=directory,
                **common,
                **words,
            )
        elif Run(directory).evaluation is None:
            training.resume(directory, display="quiet")
    return str(directory)


@functools.cache
def replay(
    agent: str, environment: str, steps: int, seed: int, options: tuple[tuple[str, Any], ...], **words: Any
) -> str:
    """Return the file of a run's whole experience; train the run and write the file if they are missing."""
    memory = RecordedMemory(UniformReplay(steps), steps)
    run = Run(train_agent(agent, environment, steps, seed, dict(options), memory=memory, **words))
    file = run.directory.with_suffix(".npz")
    if not file.exists():
        setup = from_config(run.config, where=run.directory)
        files.write_data(file, collect_experience(run, setup, steps)[0], {"spec": run.config["spec"]})
    return str(file)
