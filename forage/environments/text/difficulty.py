"""Difficulty that follows success, family by family, as in RLVE.

Zeng, Ivison, Wang, Yuan et al., RLVE: Scaling Up Reinforcement Learning for Language Models with Adaptive Verifiable
Environments, 2025 (arXiv 2511.07317). Problems are drawn from a window of levels. Answers at its upper level are
counted; once there are enough of them, the window moves up by one level where at least 90 % were right, and the count
begins anew either way. It never moves down. The rule and its defaults are those of the authors' program
(`RLVEManager.update` in slime/ray/rollout_data_source.py, and slime/utils/arguments.py, at
github.com/Zhiyuan-Zeng/RLVE), which was read; of the paper only the abstract and the introduction were. There levels
have no end; here the window stops at a family's last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from forage.core.errors import ForageError
from forage.environments.text.draws import draw_integer


class Window(NamedTuple):
    """The levels of a family that problems are drawn from, and the answers counted at the upper one."""

    high: int = 0  # the upper level; RLVE's initial difficulty is 0
    answers: int = 0  # at the upper level since the last check
    right: float = 0.0  # the sum of their truth


class Rule(NamedTuple):
    """Rule of the window of levels: the condition of a move, and its width."""

    threshold: float = 0.9  # the share of right answers at the upper level from which on it moves; RLVE's
    prompts: int = 8  # at the upper level before a check; RLVE's
    samples: int = 1  # answers to a prompt: the size of a group
    width: int = 4  # levels in the window, once there are so many below the upper one; RLVE's

    def check(self) -> None:
        """Raise unless the numbers make a rule."""
        if not 0 < self.threshold <= 1 or min(self.prompts, self.samples, self.width) < 1:
            raise ForageError(
                "Difficulty that follows success needs a threshold above 0 and at most 1, and at least one prompt, one "
                f"sample and one level; not {self.threshold:g}, {self.prompts}, {self.samples} and {self.width}."
            )

    def levels(self, window: Window) -> range:
        """Return the levels that problems are drawn from, each equally often."""
        return range(max(0, window.high - self.width + 1), window.high + 1)

    def draw(self, window: Window, generator: np.random.Generator) -> int:
        """Draw the level of the next problem."""
        levels = self.levels(window)
        return draw_integer(generator, levels[0], levels[-1])

    def follow(self, window: Window, levels: Sequence[int], truths: Sequence[float], last: int) -> Window:
        """Return the window after a batch of answers: the level and the truth of each, and the family's last level."""
        at_top = [truth for level, truth in zip(levels, truths, strict=True) if level == window.high]
        high, count, right = window.high, window.answers + len(at_top), window.right + sum(at_top)
        if count < self.prompts * self.samples:
            return Window(high, count, right)
        return Window(min(high + (right / count >= self.threshold), last))
