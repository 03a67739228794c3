"""Several families of problems in one environment: each problem is of one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from forage.core.errors import ForageError
from forage.core.text.dialogue import Dialogue
from forage.environments.text.form import Context, Form
from forage.environments.text.worlds import Start, World, WorldReply


class Mixture(World):
    """Problems of several families, one of each in every as many numbers.

    A family with fewer levels than another poses problems of its last one where a higher is asked for.
    """

    verified = True

    def __init__(self, name: str, members: Sequence[World]):
        """Make a world of others. Raise `ForageError` for one without a verifier."""
        if wrong := [part for part, one in zip(name.split("+"), members, strict=True) if not one.verified]:
            raise ForageError(f"text:{name} mixes families of problems, and {wrong[0]} is none; leave it out.")
        self.members, self.current = list(members), members[0]
        self.levels, self.turns = max(one.levels for one in members), max(one.turns for one in members)
        self.names, self.waits = members[0].names, any(one.waits for one in members)
        self.toolbox = getattr(members[0], "toolbox", None)
        self.guard = MixedGuard([one.guard for one in members])

    def kind(self, start: Start) -> int:
        """Return the member that poses a problem: by the sum of its number's digits to the base of their count.

        So every member comes at every level, in whichever order levels take turns.
        """
        count, number, total = len(self.members), start.number, 0
        while number:
            number, digit = divmod(number, count)
            total += digit
        return total % count

    def level(self, start: Start) -> int:
        return min(start.level, self.members[self.kind(start)].levels - 1)

    def begin(self, start: Start) -> str | Dialogue:
        self.current = self.members[self.kind(start)]
        return self.current.begin(Start(self.level(start), start.number // len(self.members), start.split))

    def reply(self, written: str) -> WorldReply:
        return self.current.reply(written)

    def open(self, form: Form, prompt: str | Dialogue) -> Context:
        return self.current.open(form, prompt)

    def reference(self) -> str:
        return self.current.reference()

    @property
    def row(self) -> Mapping[str, Any]:
        return {"answer": self.current.row["answer"]}

    def columns(self, level: int) -> tuple[str, ...]:
        return ("answer",)

    def close(self) -> None:
        for one in self.members:
            one.close()


class MixedGuard:
    """The verifiers of several families, as one."""

    def __init__(self, guards: Sequence[Any]):
        self.guards = guards

    @property
    def failures(self) -> Counter[str]:
        """Return the count of each failure."""
        return sum((one.failures for one in self.guards), Counter())

    def forget(self) -> None:
        for one in self.guards:
            one.forget()
