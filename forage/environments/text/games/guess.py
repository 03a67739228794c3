"""Guessing a number from replies of higher and lower; halving the rest needs the fewest tries."""

from __future__ import annotations

import dataclasses
import random
import re
from typing import ClassVar

from forage.environments.text.games.game import EXECUTED, Turn, check_whole, running


@dataclasses.dataclass
class Guess:
    """A hidden number, with just enough guesses for a player who halves the rest: 1 for finding it, else 0.

    Among n numbers that is ceil(log2(n + 1)), as each reply has one of three outcomes, of which one ends the game. A
    guess is the last whole number in the text. A text without one costs a guess and gets a reminder.
    """

    names: ClassVar[tuple[str, ...]] = EXECUTED

    numbers: int = 15
    tries: int = 0  # 0: as many as are enough

    def __post_init__(self) -> None:
        """Check the range."""
        check_whole("A guess's numbers", self.numbers, 2, 10**6)
        check_whole("A guess's tries", self.tries, 0, 100)
        self.tries = self.tries or self.numbers.bit_length()
        self.over = True

    def begin(self, seed: int) -> str:
        """Begin a game."""
        self.secret = random.Random(seed).randint(1, self.numbers)
        self.low, self.high, self.guesses, self.over = 1, self.numbers, 0, False
        return f"Guess a number from 1 to {self.numbers} in {self.tries} tries."

    def reply(self, text: str) -> Turn:
        """Return whether the number is higher or lower than a guess."""
        running(self.over)
        self.guesses += 1
        found = re.findall(r"\d{1,9}", text)
        guess = int(found[-1]) if found else None
        right = guess == self.secret
        self.told = {"executed": float(guess is not None)}
        self.over = right or self.guesses >= self.tries
        if guess is None:
            return "Say a number.", 0.0, self.over
        if right:
            return "Right.", 1.0, True
        if guess < self.secret:
            self.low = max(self.low, guess + 1)
            return "higher", 0.0, self.over
        self.high = min(self.high, guess - 1)
        return "lower", 0.0, self.over

    def expert(self) -> str:
        """Return the middle of the remaining range."""
        return str((self.low + self.high) // 2)
