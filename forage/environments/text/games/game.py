"""The interface of a game in text."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from forage.core.errors import ForageError

EXECUTED = ("executed",)
"""The number that most games report about each text: 1 for a move that could be made, else 0."""

Turn = tuple[str, float, bool]
"""The game's text, the reward of the last text, and whether the game is over."""


@runtime_checkable
class Game(Protocol):
    """A game that is played by texts. It replies to any text; texts that are no move cost a penalty by its rules.

    It may report further numbers: `names` of the class names them, and `told` has those of the newest text, or of the
    game that it ended. `executed`, 1 or 0, tells whether the text was a move. While its attribute `anew` is true, its
    reply is the whole next context: all that was said before is dropped.
    """

    def begin(self, seed: int) -> str:
        """Begin a game, the same one for the same seed, and return the player's first text to read."""
        ...

    def reply(self, text: str) -> Turn:
        """Return the game's next words, the reward, and whether it is over."""
        ...


def running(over: bool) -> None:
    """Raise ForageError for a move in a game that is over or not started."""
    if over:
        raise ForageError("The game is over, or has not begun: `begin(seed)` begins one.")


def check_whole(name: str, value: Any, least: int, most: int) -> None:
    """Raise ForageError unless a number is whole and within its range."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ForageError(f"{name} is a whole number from {least} to {most}, not {value!r}.")


def one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    """Raise ForageError unless a word is one of those known."""
    if value not in known:
        raise ForageError(f"{name} is one of {', '.join(known)}, not {value!r}.")
