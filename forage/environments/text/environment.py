"""Text as an environment: a turn is a step, and observations and actions are token ids."""

from __future__ import annotations

import datetime
import json
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from jaxtyping import PyTree

from forage.core.errors import ForageError, nearest
from forage.core.host import Conversation, HostEnvironment, HostStep
from forage.core.loading import full_target, load_named, target_name
from forage.core.plain import dumps
from forage.core.spaces import Tokens
from forage.core.text import named
from forage.core.text.tokenizer import Tokenizer
from forage.core.types import Step
from forage.environments.text import FAMILIES, worlds
from forage.environments.text.chunks import Chunks
from forage.environments.text.course import OVERFLOWN, Course, EpisodeSlot, Words, save_slot
from forage.environments.text.form import HISTORIES, Form, read_variables
from forage.environments.text.games import GAMES
from forage.environments.text.opening import GYM, family, is_own
from forage.environments.text.process import processors
from forage.environments.text.record import Record
from forage.environments.text.sets import SHARE, SPLITS
from forage.environments.text.tools.native import Native, native_form
from forage.environments.text.worlds import Start, WorldReply

INFO = ("format", "truth", "turns", "tokens", "overflow")
FAILURES = "verifier_failures"  # the metric that counts answers without a verdict
KINDS = 10  # of reasons for that which are told of, at most
UNLIMITED = 2**31 - 1
ROLES = 2  # a caller of tools, and a solver


class TextEnvironment(HostEnvironment):
    """Problems with a verifier, with or without tools, and games, as conversations.

    - Observation: `context`, all that was said so far, padded in front, and `reference`, what an expert would write
      next, padded behind, which is not for the policy to read. No token of either where there is nothing left to do.
    - Action: the tokens that the policy writes, padded behind; an end token ends them, any one of those that the
      tokenizer and the files of the model beside it name.
    - Of both a token's number is the tokenizer's plus 1, as 0 is no token.
    - With `roles` an observation has the `role` as well, whose turn it is: 0 for the caller and 1 for the solver.
    - Reward: 1 for a right answer; of a game, what its rules say.
    - Terminated: after `turns` steps. What is over before that waits, so that episodes that began together end
      together, and groups of them stay together.
    - Info, at the last step: `format` and `truth` of the answer apart, `turns` taken, `tokens` written, and `overflow`,
      1 where what was said no longer fitted into the context and the episode was over for that. With tools and in most
      games also `executed`, at each text's step: 1 where its call, command or answer could be carried out, else 0. The
      last step has the last text's.

    Evaluation plays problems that are held out from training.

    A hint is the beginning of the reference, behind the prompt: the policy goes on from there, the verifier reads hint
    and answer as one text, and `tokens` counts the policy's own. Evaluation gives none.
    """

    evaluation_episodes: ClassVar[int] = 100
    evaluation_envs: ClassVar[int] = 128
    in_words: ClassVar[bool] = True

    def __init__(
        self,
        target: str,
        num_envs: int,
        name: str | None = None,
        level: int | str = 0,
        problems: int = 0,
        tools: Sequence[str] | str = (),
        turns: int = 0,
        context: int = 0,
        response: int = 0,
        tokenizer: str = named.FORAGE,
        chat: bool = False,
        system: str = "",
        enable_thinking: bool | None = None,
        chat_template_kwargs: Mapping[str, Any] | str | None = None,
        date: str | None = None,
        history: str = HISTORIES[0],
        instruct: bool = False,
        held_out: float = SHARE,
        hints: float = 0.0,
        chunk: int = 0,
        carry: int = 0,
        head: int = 0,
        branches: bool = False,
        roles: bool = False,
        team: float = 1.0,
        parallel: int = 0,
        calls: str = "",
        rows: Sequence[Mapping[str, Any]] | str | None = None,
        **options: Any,
    ):
        """Make `num_envs` conversations of one kind.

        Args:
            target: A family of problems such as `addition`, `reasoning-gym:NAME`, or a game such as `wordle`.
            num_envs: How many conversations go on side by side.
            name: The id, for messages.
            level: Which level problems are of, or the first and the last as in `0-3`.
            problems: How many different problems there are to train on; 0 for all that there are.
            tools: Names of tools that may be called before an answer.
            turns: Texts that are written in an episode, at most; 0 for 1, 3 with tools, 10 in games.
            context: Tokens that are read at most; 0 for what the texts take.
            response: Tokens that are written in a turn, at most; 0 for what the references take.
            tokenizer: `forage`, or a directory that has one.
            chat: Texts are put into the tokenizer's chat template; a context is what it gives for the whole dialogue.
            system: With chat, the system prompt of conversations that have none.
            enable_thinking: With chat, whether the template lets the policy think before it answers.
            chat_template_kwargs: With chat, further names that the template asks for, as a mapping or its JSON.
            date: With chat, the date that the template writes, as 2026-12-31; by default the day of the run's start.
            history: With chat, earlier turns as the `template` shows them, some of which drop thoughts, or the tokens
                as they were `written`.
            instruct: Prompts say how an answer is given, for models that were not made here.
            held_out: Share of the problems that evaluation plays and training does not.
            hints: The largest share of a reference that tasks may give away behind the prompt, from 0 to 1; the context
                has room for it.
            chunk: Tokens of an answer that are written at a time, each time from a shortened context; 0 for all.
            carry: Last tokens of an answer so far that its next chunk sees.
            head: First tokens of an answer that its later chunks see.
            branches: Answers may go on from given tokens, for which the context then has room.
            roles: A caller of the tools and a solver take turns, the caller first; observations say whose turn it is.
            team: With roles, what each is paid where the team is right, beside 1 for what it has to do itself.
            parallel: Texts whose tools and verifier run at a time where they have processes of their own; 0 for one a
                processor.
            calls: With chat, the form of calls of tools: the `template`'s, or `forage`'s, <call>name: text</call>; by
                default the template's, where it has one that Forage reads.
            rows: Of a class whose methods are tools, the arguments of each `reset`: a JSONL file, or mappings.
            options: A game's own, or those of a person's class.
        """
        name = name or f"text:{target}"
        used = tuple(map(tool_target, tools.split(",") if isinstance(tools, str) else tools)) if tools else ()
        first, last = levels_of(name, level)
        self.levels, self.problems = range(first, last + 1), int(problems)
        if self.problems < 0:
            raise ForageError(f"{name} has {problems} problems to train on; 1 or more work, and 0 for all there are.")
        if parallel < 0:
            raise ForageError(f"{name} runs 1 text or more at a time, or 0 for one a processor, not {parallel}.")
        if not 0 <= hints <= 1:
            raise ForageError(f"Hints of {name} give away a share of 0 to 1 of a reference, not {hints:g}.")
        self.hinted = float(hints)
        self.tokenizer = named.tokenizer(tokenizer)
        variables = read_variables(chat_template_kwargs, enable_thinking)
        if not chat and (system or variables or date or history != HISTORIES[0]):
            raise ForageError(f"{name} uses no chat template, which alone has these options; give --env.chat true.")
        if history not in HISTORIES:
            raise ForageError(f"The history of {name} is {' or '.join(HISTORIES)}, not {history!r}.")
        native = find_native(name, self.tokenizer, bool(chat), calls)
        paid = float(team) if roles else None
        if team != 1 and not roles:
            raise ForageError(f"{name} has one role, so nothing is paid to a team; give --env.roles true, or no team.")
        world = worlds.make_world(target, used, turns, instruct, held_out, options, None, paid, native, rows)
        rest = (
            worlds.make_world(target, used, turns, instruct, held_out, options, world, paid, native, rows)
            for _ in range(num_envs - 1)
        )
        self.worlds = [world, *rest]
        toolbox = getattr(world, "toolbox", None)
        schemas = toolbox.schemas() if toolbox is not None and toolbox.native else ()
        self.form = Form(self.tokenizer, bool(chat), system, schemas, variables, date or today(self.tokenizer), history)
        self.stop = self.form.stop  # all tokens that end an answer, `ends` first
        if not self.stop:
            raise ForageError(f"The tokenizer {tokenizer} has no token that ends a text, and without one none can end.")
        self.ends = self.stop[0]
        words = Words(self.form, self.stop)
        if last >= world.levels:
            raise ForageError(f"{name} has levels 0 to {world.levels - 1}, not {last}; give one of these as level.")
        self.turns, self.split = world.turns, SPLITS[0]
        self.roles = ROLES if roles else 0
        if hints:
            world.begin(Start(self.levels[0], 0))
            if not world.reference():
                raise ForageError(f"{name} knows no reference to give hints of; leave out --env.hints.")
            if chunk:
                raise ForageError(
                    "A hint is the beginning of an answer, which chunks shorten; leave out one of the two."
                )
        given = context
        if not (context and response):
            rounds = self.turns // self.roles if roles else 1  # an expert's episode takes one turn of each role
            longest, written = words.sizes(world, self.levels, self.hinted, rounds)
            context, response = context or longest, response or written
        if isinstance(world, worlds.Question):
            world.guard.forget()
        self.chunks, self.longest = Chunks(int(chunk), int(carry), int(head)) if chunk else None, int(response)
        self.branches = bool(branches)
        if (carry or head) and not chunk:
            raise ForageError(
                f"{name} writes whole answers, of which nothing is carried over; give it a chunk as well."
            )
        if self.chunks:
            self.chunks.check(name, self.turns == 1 and not branches)
            self.turns, response = self.chunks.turns(self.longest), self.chunks.size
            context += 0 if given else self.chunks.head + self.chunks.carry
        if self.branches and not given:
            context += response
        vocabulary, end = self.tokenizer.vocabulary + 1, tuple(one + 1 for one in self.stop)
        observed, action = (Tokens(int(length), vocabulary, end=end) for length in (context, response))
        role = {"role": gymnasium.spaces.Discrete(ROLES)} if roles else {}
        space = gymnasium.spaces.Dict({"context": observed, "reference": action, **role})
        super().__init__(name, space, action, num_envs, horizon=self.turns)
        self.course = Course(name, words, self.turns, observed.length, action.length, self.longest, self.chunks)
        self._slots = [EpisodeSlot(Start(0, 0))] * self.num_envs
        self._records = [Record() for _ in range(self.num_envs)]
        self._generator = np.random.default_rng(0)
        self._altered = False  # whether a change of earlier turns by the template has been told of
        at_a_time = min(int(parallel) or processors(), self.num_envs)
        self._threads = ThreadPoolExecutor(at_a_time) if world.waits and at_a_time > 1 else None
        self._told: set[str] = set()  # for which kinds of reasons an answer without a verdict has been told of

    @property
    def info_names(self) -> tuple[str, ...]:
        own = INFO if self.worlds[0].verified else INFO[2:]  # a game has no verifier
        return (*own, *self.worlds[0].names)

    @property
    def info_seen(self) -> tuple[str, ...]:
        return self.info_names

    @property
    def returns(self) -> bool:
        return True

    @property
    def seeded(self) -> bool:
        return True

    @property
    def num_starts(self) -> int:
        return self.problems

    @property
    def hints(self) -> float:
        return self.hinted

    @property
    def difficulty(self) -> np.ndarray:
        """Return the difficulty of each of the numbered problems, from 0 to 1: its level relative to the highest."""
        level = np.array([self._numbered_start(number).level for number in range(self.problems)], np.float32)
        return level / max(self.worlds[0].levels - 1, 1)

    def examine(self) -> None:
        self.split = SPLITS[1]

    def conversations(self) -> list[Conversation]:
        return [record.ended for record in self._records if record.ended is not None]

    def expert_episode(self) -> Conversation:
        observation: Any = self.reset(0)
        while True:
            step, observation = self.step(observation["reference"])
            if step.terminated[0]:
                return self.conversations()[0]

    def metrics(self) -> dict[str, np.ndarray]:
        world = self.worlds[0]
        if not isinstance(world, worlds.Question):
            return {}
        return {FAILURES: np.float32(world.guard.failures.total())}  # type: ignore[dict-item]

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        for world in self.worlds:
            world.close()

    # Starts

    def _draw_start(self, seed: int | None) -> Start:
        """Return the start of a seed; without one, the next of this environment's own."""
        generator = self._generator if seed is None else np.random.default_rng(seed)
        number = int(generator.integers(self.problems or UNLIMITED))
        if self.problems and self.split == SPLITS[0]:
            return self._numbered_start(number)
        return Start(int(generator.choice(self.levels)), number, self.split)  # type: ignore[arg-type]

    def _numbered_start(self, number: int) -> Start:
        """Return the start of one of the numbered problems; levels take turns."""
        return Start(self.levels[number % len(self.levels)], number // len(self.levels))

    def _begin_at(self, index: int, start: Start, hint: float = 0.0) -> None:
        prompt = self.worlds[index].begin(start)
        self._records[index].begin(prompt)
        self._slots[index] = self.course.begin_episode(self.worlds[index], start, prompt, hint)

    @property
    def context(self) -> int:
        return self.course.context

    @property
    def answer(self) -> int:
        """Return the largest number of tokens of a turn."""
        return self.course.response

    def _reset(self, seed: int) -> PyTree[np.ndarray]:
        self._generator = np.random.default_rng([seed, self.split == SPLITS[1]])
        for index in range(self.num_envs):
            self._begin_at(index, self._draw_start(None))
        return self._stack_contexts()

    def _begin(self, index: int, seed: int, number: int | None, hint: float) -> PyTree[np.ndarray]:
        self._begin_at(index, self._draw_start(seed) if number is None else self._numbered_start(number), hint)
        return self._one(index)

    # Steps

    def _receive(self, action: PyTree[np.ndarray]) -> HostStep:
        rewards = np.zeros(self.num_envs, np.float32)
        info = {one: np.full(self.num_envs, np.nan, np.float32) for one in (*INFO, *self.worlds[0].names)}
        before = list(self._slots)
        self._slots = self._advance_all(np.asarray(action))
        for index, (slot, after) in enumerate(zip(before, self._slots, strict=True)):
            self._warn_of(after)
            rewards[index] = 0 if slot.over else after.said.reward
            if not slot.over or after.turn == self.turns:
                for one, value in after.said.told.items():
                    info[one][index] = value
            if after.turn == self.turns:
                overflow = float(after.said is OVERFLOWN)
                values = after.said.format, after.said.truth, len(after.written), sum(map(len, after.written)), overflow
                for one, value in zip(INFO, values, strict=True):
                    info[one][index] = value
        ended = np.array([slot.turn == self.turns for slot in self._slots])
        led = self._stack_contexts()
        for index in np.flatnonzero(ended).tolist():
            last = self._slots[index].said
            self._records[index].end(self.worlds[index], last, last is OVERFLOWN)
            self._begin_at(index, self._draw_start(None))
        said = {one: info[one] for one in self.info_names}
        step = Step(led, rewards, ended, np.zeros(self.num_envs, bool), said)  # type: ignore[arg-type]
        return HostStep(step, self._stack_contexts() if ended.any() else led)

    def _advance_all(self, action: np.ndarray) -> list[EpisodeSlot]:
        """Return all episodes after a turn. Replies that wait for other processes are computed side by side."""
        if self._threads is None:
            return [self._advance_at(index, tokens) for index, tokens in enumerate(action)]
        asked = [self._threads.submit(self._advance_one, index, tokens) for index, tokens in enumerate(action)]
        found = []
        try:
            for index, one in enumerate(asked):
                self._at = index
                found.append(one.result())
        finally:
            for one in asked:
                one.cancel()
        return found

    def _advance_at(self, index: int, tokens: np.ndarray) -> EpisodeSlot:
        """Return the episode of one environment after a turn's tokens, and note its number for errors."""
        self._at = index
        return self._advance_one(index, tokens)

    def _advance_one(self, index: int, tokens: np.ndarray) -> EpisodeSlot:
        """Return the episode of one environment after a turn's tokens."""
        return self.course.apply_turn(self._slots[index], tokens, lambda text: self._reply(index, text))

    def _reply(self, index: int, text: str) -> WorldReply:
        """Return a world's reply to a text, and record both in words."""
        said = self.worlds[index].reply(text)
        self._records[index].add(text, said)
        return said

    def _warn_of(self, slot: EpisodeSlot) -> None:
        """Warn of a template that alters earlier turns, and of an answer that the verifier could not judge.

        Each is said once; answers for each reason, disregarding its numbers.
        """
        if slot.read.altered and not self._altered:
            self._altered = True
            warnings.warn(
                f"The chat template of {self.name} alters earlier turns, such as by dropping thoughts, so that each "
                f"turn is read and scored behind the context that it was written in; --env.history written keeps them.",
                stacklevel=2,
            )
        reason = slot.said.failure.rstrip(".")
        kind = "".join(letter for letter in reason if not letter.isdigit())
        if kind and kind not in self._told and len(self._told) < KINDS:
            self._told.add(kind)
            warnings.warn(
                f"An answer in {self.name} could not be judged and is paid nothing, as {reason}. The metric {FAILURES} "
                f"counts such answers.",
                stacklevel=2,
            )

    def _stack_contexts(self) -> dict[str, np.ndarray]:
        seen = [self._one(index) for index in range(self.num_envs)]
        return {name: np.stack([one[name] for one in seen]) for name in seen[0]}

    def _one(self, index: int) -> dict[str, np.ndarray]:
        slot = self._slots[index]
        role = {"role": np.array(slot.turn % self.roles, np.int32)} if self.roles else {}
        return self.course.episode_context(slot, self.worlds[index]) | role

    # States

    def _take(self, index: int) -> bytes:
        return dumps(save_slot(self._slots[index])).encode()

    def _put(self, index: int, state: bytes | None) -> PyTree[np.ndarray]:
        if state is None:
            self._begin_at(index, self._draw_start(None))
        else:
            self._replay_texts(index, json.loads(state))
        return self._one(index)

    def _replay_texts(self, index: int, saved: dict[str, Any]) -> None:
        """Restore an episode by replaying the texts written in it."""
        self._begin_at(index, Start(*saved["start"]), saved.get("hint", 0.0))
        for tokens in saved["written"]:
            self._slots[index] = self._advance_one(index, np.array(tokens, np.int32) + 1)
        self._slots[index] = self._slots[index]._replace(turn=saved["turn"])
        if saved.get("prefix"):
            self._slots[index] = self.course.set_prefix(self._slots[index], tuple(saved["prefix"]))

    @property
    def max_answer_tokens(self) -> int:
        return self.longest if self.branches else 0

    def _branch(self, index: int, tokens: np.ndarray) -> PyTree[np.ndarray]:
        self._slots[index] = self.course.set_prefix(self._slots[index], self.course.words.trim_action(tokens))
        return self._one(index)

    def _snapshot(self) -> bytes:
        state = {"generator": self._generator.bit_generator.state, "slots": [save_slot(slot) for slot in self._slots]}
        return dumps(state).encode()

    def _restore(self, snapshot: bytes) -> PyTree[np.ndarray]:
        state = json.loads(snapshot)
        self._generator = np.random.default_rng(0)
        self._generator.bit_generator.state = state["generator"]
        for index, saved in enumerate(state["slots"]):
            self._replay_texts(index, saved)
        return self._stack_contexts()


def find_native(name: str, tokenizer: Tokenizer, chat: bool, calls: str) -> Native | None:
    """Return the form of calls of the chat template, or `None` for Forage's own."""
    if calls not in ("", "template", "forage"):
        raise ForageError(f"The calls of {name} are in the form of the template or of forage, not {calls!r}.")
    found = native_form(tokenizer) if chat and calls != "forage" else None
    if calls == "template" and found is None:
        raise ForageError(
            f"The chat template of {name} writes no calls of tools that Forage reads, or none is used; "
            f"--env.calls forage works with any."
        )
    return found


def tool_target(tool: Any) -> str:
    """Return the name of a tool, or `file.py:function` of a person's function."""
    if isinstance(tool, str):
        return full_target(tool.strip())
    target = target_name(tool) if callable(tool) else None
    if target is None:
        raise ForageError(
            f"A tool is a name, or a function or class of a file, which other processes import, and {tool!r:.80} is "
            f"neither."
        )
    return full_target(target)


def today(tokenizer: Tokenizer) -> str | None:
    """Return the present date if a tokenizer's template may write it."""
    return datetime.date.today().isoformat() if "strftime_now" in (tokenizer.template or "") else None


def complete_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as a run keeps them: functions by their names, and the date that a chat template writes."""
    found = dict(options)
    tools = found.get("tools") or ()
    tools = tools.split(",") if isinstance(tools, str) else tools
    targets = [tool_target(tool) for tool in tools]
    if targets != list(tools) or any(":" in target for target in targets):
        found["tools"] = targets
    for target in targets:
        if ":" in target:
            load_named(target)  # while it is known whose words they are
    if isinstance(rows := found.get("rows"), str):
        found["rows"] = str(Path(rows).expanduser().resolve())
    if found.get("chat") and not found.get("date"):
        date = today(named.tokenizer(found.get("tokenizer", named.FORAGE)))
        found |= {} if date is None else {"date": date}
    return found


def levels_of(name: str, level: int | str) -> tuple[int, int]:
    """Return the first and the last level of `0` or `0-3`."""
    first, _, last = str(level).partition("-")
    if not (first.isdigit() and (last or "0").isdigit() and int(first) <= int(last or first)):
        raise ForageError(f"The level of {name} is a whole number or two of them, as in 0-3, and not {level!r}.")
    return int(first), int(last or first)


def ids() -> dict[str, str]:
    """Return the families and games, with a description of each."""
    found = {name: (family(name).__doc__ or "").split("\n")[0] for name in FAMILIES}
    return found | {name: (type(worlds.games.make_game(name)).__doc__ or "").split("\n")[0] for name in GAMES}


def canonical(id: str) -> str:
    """Return an id in its proper spelling. Raise `ForageError` for an unknown id."""
    if id.lower().startswith(GYM):
        return id
    if is_own(id):
        return full_target(id)
    if id.lower() not in {**FAMILIES, **GAMES}:
        raise ForageError(f"There is no text {id!r}{nearest(id.lower(), {**FAMILIES, **GAMES})}")
    return id.lower()
