"""The starts of episodes: numbered problems, problems of a seed, or rows of a file in passes over all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from forage.core.errors import ForageError
from forage.environments.text.own.prompts import Prompts
from forage.environments.text.sets import SPLITS, Split
from forage.environments.text.worlds import Start

UNLIMITED = 2**31 - 1


class StartOrder:
    """The order of an environment's starts, of those to train on or of those held out from training."""

    def __init__(self, levels: range, problems: int, prompts: Prompts | None):
        """`problems`: the number of different problems to train on; 0: no limit. `prompts`: the rows of a file."""
        self.levels, self.problems, self.prompts = levels, problems, prompts
        self.split: Split = SPLITS[0]
        self.generator = np.random.default_rng(0)
        self.row_seed, self.place = [0, 0], 0  # of the order in which a file's rows come, and how many came

    @property
    def trains(self) -> bool:
        """Return whether starts are those to train on."""
        return self.split == SPLITS[0]

    def reset(self, seed: int) -> None:
        """Begin the order of a seed."""
        self.row_seed, self.place = [seed, int(not self.trains)], 0
        self.generator = np.random.default_rng(self.row_seed)

    def draw(self, seed: int | None = None) -> Start:
        """Return the start of a seed; without one, the next in this order."""
        if self.prompts is not None and seed is None:
            return self.next_row(self.prompts)
        generator = self.generator if seed is None else np.random.default_rng(seed)
        number = int(generator.integers(self.problems or UNLIMITED))
        if self.problems and self.trains:
            return self.numbered_start(number)
        return Start(int(generator.choice(self.levels)), number, self.split)

    def next_row(self, prompts: Prompts) -> Start:
        """Return the start of the next row of a file, in passes over all of them, each in an order of its own."""
        rows = self.problems if self.trains else len(prompts.rows[SPLITS[1]])
        turn, place = divmod(self.place, rows)
        self.place += 1
        order = np.random.default_rng([*self.row_seed, turn]).permutation(rows)
        return Start(0, int(order[place]), self.split)

    def numbered_start(self, number: int) -> Start:
        """Return the start of one of the numbered problems; levels take turns."""
        return Start(self.levels[number % len(self.levels)], number // len(self.levels))

    def save(self) -> dict[str, Any]:
        """Return the state of the order as JSON."""
        rows = {} if self.prompts is None else {"rows": [self.prompts.digest, self.row_seed, self.place]}
        return {"generator": self.generator.bit_generator.state, **rows}

    def restore(self, state: dict[str, Any], name: str) -> None:
        """Continue from a saved state. Raise `ForageError` if the rows of the environment `name` have changed since."""
        if self.prompts is not None:
            digest, self.row_seed, self.place = state["rows"]
            if digest != self.prompts.digest:
                raise ForageError(
                    f"The rows of {name} have changed since this run began; give it the file as it was, or train anew."
                )
        self.generator = np.random.default_rng(0)
        self.generator.bit_generator.state = state["generator"]
