"""A check of the observations of training against the bounds that the environment declares."""

from __future__ import annotations

import functools

import numpy as np

from forage.config.run_config import RunConfig
from forage.core.bounds import bounded_leaves, data_outside, farthest
from forage.loop.runner import Runner
from forage.runs.display import Progress


class Bounds:
    """A check of the newest observations after each report, until the first one is outside its box.

    At first it looks at what was read from data sets.
    """

    def __init__(self, setup: RunConfig, runner: Runner, display: Progress):
        self.name, self.runner, self.display = setup.name, runner, display
        self.space = setup.spec.observation_space
        self.leaves, self.looked_at_data = bounded_leaves(self.space), False

    def look(self) -> None:
        """Note the first observation outside its box. Agents learn from it unchanged."""
        if self.leaves and not self.looked_at_data:
            self.looked_at_data = True
            self.look_at_data()
        shown = self.runner.shown if self.leaves else None
        if shown is None:
            return
        for path, box in self.leaves.items():
            array = np.asarray(functools.reduce(lambda tree, key: tree[key], path, shown))
            outside = farthest(array.reshape(-1, *box.shape), box)
            if outside is not None:
                self.leaves = {}
                self.display.note(
                    f"Note: {self.name} shows observations outside the bounds that it declares: {outside.words(path)}. "
                    f"Agents learn from them as they are; forage check says more."
                )
                return

    def look_at_data(self) -> None:
        """Note a data set whose observations have another scale."""
        for file, data in self.runner.learner.memory.read_files.items():
            if said := data_outside(file, data.observation, self.space, self.name):
                self.display.note(f"Note: {said}")
