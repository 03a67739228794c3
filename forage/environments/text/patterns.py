r"""Regular expressions by automata, so that matching is bounded for any pattern.

Python's `re` backtracks, which takes exponential time for patterns such as `(a*)*b`. Here a pattern becomes a
nondeterministic automaton whose states are followed all at once (Thompson, Regular Expression Search Algorithm,
Communications of the ACM 11, 1968): a text takes at most states x characters steps. A pattern has at most 100
characters, 10 brackets in one another, and 1,000 states once its counts are written out.

Patterns consist of literal letters, digits and other characters, `.`, `[...]` and `[^...]` with ranges, `\d`, `\w`,
`\s`, a backslash before a special character, brackets `(...)` and `(?:...)`, `|`, `*`, `+`, `?`, `{m}`, `{m,}` and
`{m,n}`; a `^` in front and a `$` at the end are allowed, as all of a text is matched. Any other pattern is malformed: a
second quantifier, look-around, references.
"""

from __future__ import annotations

import re
import string
from typing import Any, NamedTuple

LONGEST, DEEPEST, STATES = 100, 10, 1000
COUNT = re.compile(r"\{(\d{1,2})(,(\d{0,2}))?\}")
CLASSES = {
    "d": frozenset(string.digits),
    "w": frozenset(string.ascii_letters + string.digits + "_"),
    "s": frozenset(" \t\n\r\f\v"),
}
SPECIAL = frozenset("\\.[]{}()*+?|^$")


class Characters(NamedTuple):
    """A set of characters, or all characters but those of a set."""

    members: frozenset[str]
    but: bool = False

    def __contains__(self, character: object) -> bool:
        """Return whether a character is meant."""
        return (character in self.members) != self.but


class MalformedPattern(Exception):
    """A pattern outside the language above, or too large."""


# A node of a pattern's tree: Characters, ("all", nodes), ("any", nodes) or ("times", node, least, most or None).
Node = Any


class Pattern:
    """An automaton: `moves[state]` is (characters, next state); `jumps[state]` are next states without a character."""

    def __init__(self, text: str):
        if len(text) > LONGEST:
            raise MalformedPattern
        text = text.removeprefix("^")
        if text.endswith("$") and (len(text) - len(text[:-1].rstrip("\\")) - 1) % 2 == 0:
            text = text[:-1]
        reader = PatternReader(text)
        tree = reader.alternatives(0)
        if reader.rest() or min_states(tree) > STATES:
            raise MalformedPattern
        self.moves: list[tuple[Characters, int] | None] = []
        self.jumps: list[list[int]] = []
        self.start, self.end = self._build(tree)
        self.steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}  # where a character led to before

    def _state(self) -> int:
        """Add a state."""
        self.moves.append(None)
        self.jumps.append([])
        return len(self.moves) - 1

    def _build(self, tree: Node) -> tuple[int, int]:
        """Add the states of a tree; return its first and last state."""
        start = end = self._state()
        if isinstance(tree, Characters):
            end = self._state()
            self.moves[start] = (tree, end)
        elif tree[0] == "all":
            for part in tree[1]:
                first, last = self._build(part)
                self.jumps[end].append(first)
                end = last
        elif tree[0] == "any":
            end = self._state()
            for part in tree[1]:
                first, last = self._build(part)
                self.jumps[start].append(first)
                self.jumps[last].append(end)
        else:
            _, part, least, most = tree
            final = self._state()
            for _ in range(least):
                first, last = self._build(part)
                self.jumps[end].append(first)
                end = last
            for _ in range(1 if most is None else most - least):
                first, last = self._build(part)
                self.jumps[end] += [first, final]
                if most is None:
                    self.jumps[last] += [first]
                end = last
            self.jumps[end].append(final)
            end = final
        return start, end

    def _closure(self, states: list[int]) -> frozenset[int]:
        """Return the states and all states reached from them by jumps."""
        seen, waiting = set(states), list(states)
        while waiting:
            new = [state for state in self.jumps[waiting.pop()] if state not in seen]
            seen.update(new)
            waiting += new
        return frozenset(seen)

    def _step(self, here: frozenset[int], character: str) -> frozenset[int]:
        """Return the states after one character."""
        moves = (self.moves[state] for state in here)
        return self._closure([move[1] for move in moves if move is not None and character in move[0]])

    def matches(self, text: str) -> bool:
        """Return whether the pattern describes all of a text."""
        here = self._closure([self.start])
        for character in text:
            after = self.steps.get((here, character))
            if after is None:
                after = self.steps[here, character] = self._step(here, character)
            here = after
        return self.end in here


def min_states(tree: Node) -> int:
    """Return a lower bound of the number of states in a tree's automaton, without building it."""
    if isinstance(tree, Characters):
        return 2
    if tree[0] in ("all", "any"):
        return 2 + sum(map(min_states, tree[1]))
    _, part, least, most = tree
    return 2 + min_states(part) * (least + 1 if most is None else max(most, 1))


class PatternReader:
    """A pattern's text, read from left to right."""

    def __init__(self, text: str):
        self.text, self.place = text, 0

    def rest(self) -> str:
        """Return the unread rest of the text."""
        return self.text[self.place :]

    def take(self, wanted: str) -> bool:
        """Read a text if it comes next, and return whether it did."""
        found = self.text.startswith(wanted, self.place)
        self.place += len(wanted) * found
        return found

    def next(self) -> str:
        """Read one character."""
        if self.place == len(self.text):
            raise MalformedPattern
        self.place += 1
        return self.text[self.place - 1]

    def alternatives(self, depth: int) -> Node:
        """Read alternatives separated by `|`."""
        parts = [self.sequence(depth)]
        while self.take("|"):
            parts.append(self.sequence(depth))
        return parts[0] if len(parts) == 1 else ("any", parts)

    def sequence(self, depth: int) -> Node:
        """Read pieces with their quantifiers, up to a `|`, a closing bracket or the end."""
        parts = []
        while self.place < len(self.text) and self.text[self.place] not in "|)":
            parts.append(self.read_quantifier(self.piece(depth)))
        return ("all", parts)

    def read_quantifier(self, part: Node) -> Node:
        """Read a quantifier, if there is one; a second one is malformed, as it begins no piece."""
        for sign, (least, most) in {"*": (0, None), "+": (1, None), "?": (0, 1)}.items():
            if self.take(sign):
                return ("times", part, least, most)
        found = COUNT.match(self.text, self.place)
        if found is None:
            return part
        self.place = found.end()
        least = int(found[1])
        most = least if found[2] is None else int(found[3]) if found[3] else None
        if most is not None and most < least:
            raise MalformedPattern
        return ("times", part, least, most)

    def piece(self, depth: int) -> Node:
        """Read a character, a set of characters or a group."""
        character = self.next()
        if character == "(":
            if depth == DEEPEST:
                raise MalformedPattern
            self.take("?:")
            inner = self.alternatives(depth + 1)
            if not self.take(")"):
                raise MalformedPattern
            return inner
        if character == "[":
            return self.set()
        if character == ".":
            return Characters(frozenset("\n"), but=True)
        if character == "\\":
            return Characters(self.read_escape())
        if character in SPECIAL:
            raise MalformedPattern
        return Characters(frozenset(character))

    def read_escape(self) -> frozenset[str]:
        """Read the character after a backslash: a class, or a special character taken literally."""
        character = self.next()
        if character in CLASSES:
            return CLASSES[character]
        if character not in SPECIAL and character != "-":
            raise MalformedPattern
        return frozenset(character)

    def set(self) -> Characters:
        """Read the characters of `[...]`, after the opening bracket."""
        but, members = self.take("^"), frozenset()
        while not self.take("]"):
            first = self.next()
            if first in "[^" or (first == "-" and members):
                raise MalformedPattern
            if first == "\\":
                members |= self.read_escape()
            elif self.take("-"):
                last = self.next()
                if not (first.isascii() and first.isalnum() and last.isascii() and last.isalnum() and first <= last):
                    raise MalformedPattern
                members |= frozenset(map(chr, range(ord(first), ord(last) + 1)))
            else:
                members |= {first}
        if not members:
            raise MalformedPattern
        return Characters(members, but)


def compile_pattern(text: str) -> Pattern | None:
    """Return the automaton of a pattern, or None if it is malformed or too large."""
    try:
        return Pattern(text)
    except MalformedPattern:
        return None
