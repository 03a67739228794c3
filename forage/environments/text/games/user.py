"""A dialogue with a scripted user: ask for the user's wishes, and settle them."""

from __future__ import annotations

import dataclasses
import random
import re

from forage.core.errors import ForageError
from forage.environments.text.games.game import Turn, check_whole, running


@dataclasses.dataclass(frozen=True)
class Wish:
    """One of the user's wishes."""

    name: str  # as it is settled, such as `day`
    asked: tuple[str, ...]  # words of a question for it
    values: tuple[str, ...]  # one of which is drawn
    says: str = "{}."  # how the user tells it


BOOKING = (
    Wish("people", ("people", "persons", "many", "guests"), ("two", "three", "four", "five"), "We are {}."),
    Wish("day", ("day", "date", "when"), ("Monday", "Tuesday", "Friday", "Sunday"), "On {}."),
    Wish("time", ("time", "hour", "clock"), ("18:00", "19:30", "20:15", "21:00"), "At {}."),
    Wish("place", ("inside", "outside", "where", "seat", "seats"), ("inside", "outside"), "We sit {}."),
)


@dataclasses.dataclass
class ScriptedUser:
    """A user with wishes to settle and answers to questions about them.

    A turn that has a word of a slot is a question for it; the user answers one question a turn, the first of the script
    among those not answered yet. Repeated questions, and texts without a question, cost patience; without patience the
    user leaves. `changes` values are changed after they were given, in the user's following turn. The dialogue ends
    with the policy's summary, on a line of its own:

        Settled: people=four, day=Friday, time=19:30, place=inside

    It earns the fraction of right slots, by the user's latest values, even for a lucky guess.
    """

    slots: tuple[Wish, ...] = BOOKING
    opening: str = "Hello, I would like to book a table."
    told: int = 0  # slots that the opening tells
    changes: int = 0  # of mind
    patience: int = 3  # turns without a question for something new, after the last of which the user leaves
    turn_cost: float = 0.0  # taken from the reward for each turn but the last

    def __post_init__(self) -> None:
        """Check the script."""
        self.slots = tuple(self.slots)
        names = [slot.name for slot in self.slots]
        if len(set(names)) < len(names) or not all(re.fullmatch(r"\w+", name) for name in names) or not names:
            raise ForageError(f"A user's slots have different names of one word, unlike {', '.join(names) or 'none'}.")
        words = [word for slot in self.slots for word in slot.asked]
        if len(set(words)) < len(words) or any(not re.fullmatch(r"[a-z]+", word) for word in words):
            raise ForageError("A word that asks is of small letters, and asks for one slot only.")
        if any(len(set(slot.values)) < 2 or not slot.asked or "{}" not in slot.says for slot in self.slots):
            raise ForageError(
                "Each slot has at least two values, a word that asks for it, and {} where the value stands."
            )
        if any(re.search(r"[,=\n]", value) or value != value.strip() for slot in self.slots for value in slot.values):
            raise ForageError("A slot's value has no comma, no = and no line end, and no space around it.")
        check_whole("The number of slots told at first", self.told, 0, len(names))
        check_whole("The number of changes", self.changes, 0, len(names))
        check_whole("A user's patience", self.patience, 1, 1000)
        if not 0 <= self.turn_cost <= 1:
            raise ForageError(f"A turn costs from 0 to 1, not {self.turn_cost!r}.")
        self.over = True

    def begin(self, seed: int) -> str:
        """Begin a dialogue, with newly drawn wishes."""
        draw = random.Random(seed)
        self.wants = {slot.name: draw.choice(slot.values) for slot in self.slots}
        self.known = {slot.name for slot in draw.sample(self.slots, self.told)}
        self.later = {}  # what is changed, once it was told
        for slot in draw.sample(self.slots, self.changes):
            self.later[slot.name] = draw.choice([value for value in slot.values if value != self.wants[slot.name]])
        self.pending = [slot.name for slot in self.slots if slot.name in self.known & set(self.later)]
        self.left, self.over = self.patience, False
        return " ".join([self.opening, *(self.tells(slot) for slot in self.slots if slot.name in self.known)])

    def tells(self, slot: Wish) -> str:
        """Return the user's sentence about a value."""
        return slot.says.format(self.wants[slot.name])

    def reply(self, text: str) -> Turn:
        """Return the user's reply to the policy's turn."""
        running(self.over)
        settled = [line.strip() for line in text.splitlines() if line.strip().startswith("Settled:")]
        if settled:
            return self.settle(settled[-1].removeprefix("Settled:"))
        said = []
        for name in self.pending:
            self.wants[name] = self.later.pop(name)
            said.append(f"Sorry, I changed my mind about the {name}: {self.wants[name]}.")
        self.pending = []

        # What was asked
        words = set(re.findall(r"[a-z]+", text.lower()))
        asked = [slot for slot in self.slots if words & set(slot.asked)]
        fresh = [slot for slot in asked if slot.name not in self.known]
        if fresh:
            said.insert(0, self.tells(fresh[0]))
            self.known.add(fresh[0].name)
            if fresh[0].name in self.later:
                self.pending.append(fresh[0].name)
            return " ".join(said), -self.turn_cost, False

        # Nothing new
        self.left -= 1
        if self.left <= 0:
            self.over = True
            return "This takes too long, goodbye.", -self.turn_cost, True
        said.insert(0, f"I told you: {self.tells(asked[0])}" if asked else "I did not understand that.")
        return " ".join(said), -self.turn_cost, False

    def settle(self, text: str) -> Turn:
        """End the dialogue, and return the fraction of slots that are right."""
        pairs = [part.partition("=") for part in text.split(",")]
        given = {name.strip(): value.strip() for name, _, value in pairs}
        right = sum(given.get(name) == value for name, value in self.wants.items())
        strange = len(given) != len(pairs) or not set(given) <= set(self.wants)
        self.over = True
        if strange:
            return "I do not know what you mean, goodbye.", 0.0, True
        thanks = "Thank you, goodbye." if right == len(self.wants) else "That is not what I said, goodbye."
        return thanks, right / len(self.wants), True
