"""Worlds of text: a first text, and a reply to each text of the policy.

A problem is a world of one turn. With tools it is one of several turns, in which a policy's calls are answered until it
gives an answer. A game is a world without changes.
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from forage.core.errors import ForageError, nearest
from forage.core.loading import load_class
from forage.core.text.dialogue import Dialogue, Message
from forage.environments.text import FAMILIES, games, tools
from forage.environments.text.form import Context, Form
from forage.environments.text.games import GAMES
from forage.environments.text.games.game import EXECUTED
from forage.environments.text.guard import Guard
from forage.environments.text.named import call_own
from forage.environments.text.opening import GYM, family, is_own, kind_of, mixed_families
from forage.environments.text.problems import INSTRUCTION, Problem
from forage.environments.text.sets import SHARE, Split, check_level, problem_at
from forage.environments.text.tools.native import Native
from forage.environments.text.tools.toolbox import Toolbox

CALLED = {"calculator": lambda problem: f"{problem.data['left']} + {problem.data['right']}"}
"""Texts of a tool's calls for problems of two numbers, for demonstrations."""


class Start(NamedTuple):
    """The identity of an episode: the same start is the same world."""

    level: int
    number: int
    split: Split = "train"


class WorldReply(NamedTuple):
    """A world's reply to a text."""

    text: str  # empty where the episode is over
    reward: float  # NaN where a person's environment returned None
    over: bool
    format: float = float("nan")  # 1 for an answer that can be read; NaN where no answer is due
    truth: float = float("nan")  # of the answer
    told: Mapping[str, float] = {}  # other numbers of the text, or of the episode that it ends (`World.names`)
    failure: str = ""  # why a verifier reached no verdict
    words: str = ""  # the verdict in words, where it is more than right or wrong
    messages: tuple[Message, ...] = ()  # the text as messages for a chat template, where it is not a user's
    results: tuple[Message, ...] = ()  # the answers of tools as messages, in whatever form the policy reads them
    anew: bool = False  # the text is the whole next context, in place of what was said before

    @property
    def next_messages(self) -> str | tuple[Message, ...]:
        """The messages behind the policy's text, or the user's text."""
        return self.messages or self.text


class World(ABC):
    """One conversation at a time. `reply` is deterministic: the same start and texts lead to the same state."""

    levels: int = 1  # from 0, the easiest
    turns: int = 1  # an episode's longest, counted in texts that the policy writes
    verified: bool = False  # a verifier says what an answer is worth, and not a game's rules
    names: tuple[str, ...] = ()  # of the numbers that are told beside (`Said.told`)
    known: bool = True  # an expert's texts show how long an episode is
    guard: Any = None  # of its verifier
    waits: bool = False  # a reply waits for another process or for the network, so that several are asked at a time
    rows_to_learn: int = 0  # rows of a person's environment that training plays in passes
    pays: str = ""  # the name of its own reward, which counts beside reward functions; empty: they take its place
    toolbox: Toolbox | None = None  # the tools that may be called
    played: Any = None  # a person's object that plays the episode, for reward functions to look at

    @abstractmethod
    def begin(self, start: Start) -> str | Dialogue:
        """Begin an episode, and return the policy's first text to read, or the messages of a chat."""

    @abstractmethod
    def reply(self, written: str) -> WorldReply:
        """Return the reply to a text."""

    def open(self, form: Form, prompt: str | Dialogue) -> Context:
        """Return the first context, made of the prompt that `begin` returned."""
        return form.begin(prompt)

    def reference(self) -> str:
        """Return a text that an expert would write next; empty if no expert is known."""
        return ""

    def kind(self, start: Start) -> int:
        """Return the number of the family that poses a problem, of several."""
        return 0

    def level(self, start: Start) -> int:
        """Return the level of a problem."""
        return start.level

    @property
    def row(self) -> Mapping[str, Any]:
        """Return the values of the present episode, by name, that reward functions get."""
        return {}

    def columns(self, level: int) -> tuple[str, ...]:
        """Return the names of these values, in all episodes of a level."""
        return ()

    def close(self) -> None:  # noqa: B027 (most hold nothing)
        """Free the resources of the world."""


class Question(World):
    """A problem of a family, and its verifier's verdict on the one text that is written."""

    verified = True

    def __init__(self, name: str, instruct: bool = False, share: float = SHARE, guard: Guard | None = None):
        """Make the world of a family. `guard` is another world's verifier, to be shared by worlds that take turns."""
        self.family = guard.family if guard else family(name)
        self.levels = len(self.family.levels)
        self.guard = guard or Guard(self.family)
        self.instruct, self.share = instruct, share
        self.problem: Problem | None = None
        self.waits = not self.family.bounded

    def begin(self, start: Start) -> str:
        check_level(self.family, start.level)
        self.problem = problem_at(self.family, start.level, 0, start.number, start.split, self.share)
        return f"{self.problem.prompt} {INSTRUCTION}" if self.instruct else self.problem.prompt

    def reply(self, written: str) -> WorldReply:
        assert self.problem is not None
        verdict = self.guard.verify(self.problem, written)
        return WorldReply("", verdict.truth, True, float(verdict.format), verdict.truth, failure=verdict.failure)

    def reference(self) -> str:
        assert self.problem is not None
        return self.family.solution(self.problem)

    @property
    def row(self) -> Mapping[str, Any]:
        assert self.problem is not None
        return {"answer": self.problem.answer, **self.problem.data}

    def columns(self, level: int) -> tuple[str, ...]:
        self.begin(Start(level, 0))
        return tuple(self.row)

    def close(self) -> None:
        self.guard.close()


class WithTools(Question):
    """A problem, and tools that may be called before an answer is given.

    A text that calls is answered; one that does not is taken as the answer, as is the last that there is a turn for.
    `executed` is 1 for a text whose calls could all be made, or that is an answer of the right form, else 0.
    """

    names = EXECUTED

    def __init__(
        self,
        name: str,
        toolbox: Toolbox,
        turns: int = 3,
        instruct: bool = False,
        share: float = SHARE,
        guard: Guard | None = None,
    ):
        super().__init__(name, instruct, share, guard)
        self.toolbox: Toolbox = toolbox
        self.turns, self.taken = turns, 0
        self.waits = self.waits or toolbox.waits
        self.found = ""  # what the last call brought

    def begin(self, start: Start) -> str:
        self.toolbox.begin(start.number)
        self.taken, self.found = 0, ""
        prompt = super().begin(start)
        return f"{prompt} {self.toolbox.description()}" if self.instruct and not self.toolbox.native else prompt

    def reply(self, written: str) -> WorldReply:
        self.taken += 1
        answers = self.toolbox.reply(written)
        if not answers.answers or self.taken == self.turns:
            said = super().reply(written)
            return said._replace(told={"executed": said.format})
        self.found = "" if answers.answers[-1].error else answers.answers[-1].text
        executed = not any(one.error for one in answers.answers)
        told = {"executed": float(executed)}
        return WorldReply(answers.text, 0.0, False, told=told, messages=answers.messages, results=answers.results)

    def close(self) -> None:
        super().close()
        self.toolbox.close()

    def reference(self) -> str:
        """Return a call, and then its result as the answer."""
        return f"<answer>{self.found}</answer>" if self.found else self.call()

    def call(self) -> str:
        """Return a call of the first tool; a worked solution if no call is known for this problem."""
        assert self.problem is not None
        name = self.toolbox.names()[0]
        if name in CALLED and {"left", "right"} <= self.problem.data.keys():
            return self.toolbox.write_call(name, CALLED[name](self.problem))
        return super().reference()


class Play(World):
    """A game, with rewards by its own rules, and with `told`, the numbers of each text named by `names`."""

    def __init__(self, name: str, turns: int, options: Mapping[str, Any]):
        self.name, self.game = name, games.make_game(name, **options)
        self.pays, self.played = type(self.game).__name__, self.game
        self.turns = turns or getattr(self.game, "tries", TURNS)
        self.names, self.waits = getattr(self.game, "names", ()), getattr(self.game, "waits", False)
        self.known = name in GAMES or hasattr(self.game, "expert")

    def begin(self, start: Start) -> str:
        seed = np.random.SeedSequence([start.number, start.split == "held-out"]).generate_state(1)
        said = self.call("begin", int(seed[0]) >> 1)
        if not isinstance(said, str) or not said:
            raise ForageError(f"The game {self.name} began with {said!r:.60}; begin returns a text to read.")
        return said

    def reply(self, written: str) -> WorldReply:
        turn = self.call("reply", written)
        form = isinstance(turn, tuple) and len(turn) == 3 and isinstance(turn[0], str)
        if not form or not isinstance(turn[1], numbers.Real) or not math.isfinite(turn[1]):
            raise ForageError(
                f"The game {self.name} replied {turn!r:.60}; reply returns a text, a reward and whether the game is "
                f"over."
            )
        text, reward, over = turn
        told, anew = getattr(self.game, "told", {}), bool(getattr(self.game, "anew", False))
        return WorldReply("" if over else text, float(reward), bool(over), told=told, anew=anew)

    def reference(self) -> str:
        return self.call("expert") if hasattr(self.game, "expert") else ""

    def call(self, method: str, *given: Any) -> Any:
        """Return the result of a method of the game; an error of a person's own game names it."""
        function = getattr(self.game, method)
        return function(*given) if self.name in GAMES else call_own(f"The game {self.name}", method, function, *given)


def make_world(
    name: str,
    tools_used: Sequence[str] = (),
    turns: int = 0,
    instruct: bool = False,
    share: float = SHARE,
    options: Mapping[str, Any] | None = None,
    beside: World | None = None,
    team: float | None = None,
    native: Native | None = None,
    rows: Any = None,
) -> World:
    """Return a world by the name of a family, a game or a person's class. Raise `ForageError` if there is none.

    `beside`: another world of this kind, whose verifier and tools serve this one too. `team`: of a caller and a solver
    who take turns, what it pays each that the team is right; `None` if one policy says all. `native`: the form of calls
    of a chat template. `rows`: of a person's environment.
    """
    if parts := mixed_families(name):
        from forage.environments.text.mixture import Mixture

        shared = beside.members if isinstance(beside, Mixture) else [None] * len(parts)
        more = tools_used, turns, instruct, share, options
        made = [make_world(one, *more, other, team, native, rows) for one, other in zip(parts, shared, strict=True)]
        return Mixture(name, made)
    options, guard = options or {}, getattr(beside, "guard", None)
    kind = kind_of(load_class(name)) if is_own(name) else None
    if rows and kind != "methods":
        raise ForageError(f"text:{name} takes no rows; they are for a class of yours whose methods are tools.")
    if kind == "methods":
        if tools_used or team is not None:
            raise ForageError(f"The tools of {name} are its methods, and it has one role; leave out tools and roles.")
        from forage.environments.text.own.methods import Methods

        return Methods(name, turns or 4, options, rows, instruct, native)
    if name in GAMES or kind == "game":
        if tools_used or instruct:
            raise ForageError(f"{name} is a game, which has neither tools nor instructions; leave them out.")
        if team is not None:
            raise ForageError(f"{name} is a game, which has no roles; give them to problems, as in text:addition.")
        return Play(name, turns, options)
    if name not in FAMILIES and not name.startswith(GYM) and not is_own(name):
        raise ForageError(f"There is no text {name!r}{nearest(name, {**FAMILIES, **GAMES})}")
    if options:
        raise ForageError(f"text:{name} has no option {next(iter(options))!r}.")
    if tools_used:
        toolbox = make_toolbox(tools_used, beside, native)
        if team is not None:
            from forage.environments.text.workflow import Workflow

            return Workflow(name, toolbox, turns or 2, instruct, share, guard, team)
        return WithTools(name, toolbox, turns or TOOL_TURNS, instruct, share, guard)
    if team is not None:
        raise ForageError(f"The roles of text:{name} are a caller of tools and a solver; give --env.tools calculator.")
    if turns > 1:
        raise ForageError(
            f"text:{name} is answered in one turn; name tools to give it more, as in --env.tools calculator."
        )
    return Question(name, instruct, share, guard)


def make_toolbox(tools_used: Sequence[str], beside: World | None = None, native: Native | None = None) -> Toolbox:
    """Return tools by name. Those with processes are shared with the world `beside`, where it has them."""
    used = beside.toolbox if beside is not None else None
    shared = {tool.name: tool for tool in used.tools if getattr(tool, "waits", False)} if used else {}
    made = (shared.get(tool.rpartition(":")[2]) or tools.make_tool(tool) for tool in tools_used)
    return Toolbox(tuple(made), native=native)


TOOL_TURNS = 3
"""Turns of a problem or a prompt with tools unless a number is set."""
TURNS = 10
"""Turns of a game if neither the user nor the game sets a number."""
