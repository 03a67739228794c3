"""Whether training sees what the environment's spaces declare."""

from __future__ import annotations

import functools

import numpy as np

from forage.config.setup import Setup
from forage.core.bounds import bounded_leaves, farthest
from forage.loop.runner import Runner
from forage.runs.display import Progress


class Bounds:
    """Looks at the newest observations after each report, until one is outside its box, and says so once."""

    def __init__(self, setup: Setup, runner: Runner, display: Progress):
        self.name, self.runner, self.display = setup.name, runner, display
        self.leaves = bounded_leaves(setup.spec.observation_space)

    def look(self) -> None:
        """Say where an observation is outside its box. Agents learn from it as it is."""
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
