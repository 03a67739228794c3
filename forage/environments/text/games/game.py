"""What a game in text is."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from forage.core.errors import ForageError

EXECUTED = ("executed",)
"""What most games tell of each text beside: 1 where it was a move that could be made, else 0."""

Turn = tuple[str, float, bool]
"""What a game says, what the last words earned, and whether the game is over."""


@runtime_checkable
class Game(Protocol):
    """A game that is played by texts. It answers whatever is said; words that are no move cost what its rules say.

    It may tell numbers beside: `names` of the class names them, and `told` has those of the newest text, or of the game
    that it ended. `executed`, 1 or 0, says whether the text was a move.
    """

    def begin(self, seed: int) -> str:
        """Begin a game, the same one for the same seed, and return what the player reads first."""
        ...

    def reply(self, text: str) -> Turn:
        """Return the game's next words, the reward, and whether it is over."""
        ...


def running(over: bool) -> None:
    """Raise ForageError if a game that is over, or has not begun, is played on."""
    if over:
        raise ForageError("The game is over, or has not begun: `begin(seed)` begins one.")


def whole(name: str, value: Any, least: int, most: int) -> None:
    """Raise ForageError unless a number is whole and within its range."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ForageError(f"{name} is a whole number from {least} to {most}, not {value!r}.")


def one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    """Raise ForageError unless a word is one of those known."""
    if value not in known:
        raise ForageError(f"{name} is one of {', '.join(known)}, not {value!r}.")
