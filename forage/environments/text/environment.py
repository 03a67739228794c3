"""Text as an environment: a turn is a step, and observations and actions are token ids."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import gymnasium
import numpy as np
from jaxtyping import Bool, PyTree

from forage.core.errors import ForageError
from forage.core.host import Conversation, HostEnvironment, HostStep
from forage.core.plain import dumps
from forage.core.spaces import Tokens
from forage.core.text import named
from forage.core.types import Step
from forage.environments.text import worlds
from forage.environments.text.episodes.chunks import Chunks
from forage.environments.text.episodes.course import Course, EpisodeSlot, Limits, Words, save_slot
from forage.environments.text.episodes.judge import UNSCORED, FinishedEpisode, Judge, Judgement, trainer_state
from forage.environments.text.episodes.record import Record
from forage.environments.text.form import HISTORIES, PROMPT_END, Form, read_variables
from forage.environments.text.guard import NOT_FINITE
from forage.environments.text.names import find_native, levels_of, today, tool_target
from forage.environments.text.own import prompts
from forage.environments.text.own.prompts import Prompts, PromptWorld
from forage.environments.text.own.scoring import SECONDS
from forage.environments.text.process import processors
from forage.environments.text.sets import SHARE, SPLITS
from forage.environments.text.worlds import Start, WorldReply

INFO = ("format", "truth", "turns", "tokens", "overflow", "unfinished")
FAILURES = "verifier_failures"  # the metric that counts answers without a verdict
ALL_NONE, NO_VALUE = "all reward functions returned None", "get_reward returned None"  # why an answer has no reward
KINDS = 10  # of reasons for that which are told of, at most
UNLIMITED = 2**31 - 1
PASSES = 2**16  # different episodes that a row of a person's environment can begin
ROLES = 2  # a caller of tools, and a solver
RESPONSE = 512, 64  # tokens of an answer to a prompt of a file: with a tokenizer of a directory, and with Forage's own
ROOM = 256, 64  # tokens of what tools answer to a text, likewise


class TextEnvironment(HostEnvironment):
    """Problems with a verifier, with or without tools, and games, as conversations.

    - Observation: `context`, all that was said so far, padded in front, and `reference`, what an expert would write
      next, padded behind, which is not for the policy to read. No token of either where there is nothing left to do.
    - Action: the tokens that the policy writes, padded behind; an end token ends them, any one of those that the
      tokenizer and the files of the model beside it name.
    - Of both a token's number is the tokenizer's plus 1, as 0 is no token.
    - With `roles` an observation has the `role` as well, whose turn it is: 0 for the caller and 1 for the solver.
    - With `room` an observation has the `room`, the number of tokens that the next text may have.
    - Reward: 1 for a right answer; of a game, what its rules say.
    - Terminated: after `turns` steps. What is over before that waits, so that episodes that began together end
      together, and groups of them stay together.
    - Info, at the last step: `format` and `truth` of the answer apart, `turns` taken, `tokens` written, `overflow`,
      1 where what was said no longer fitted into the context and the episode was over for that, and `unfinished`, 1
      where an answer had no end when its tokens were used up. With tools and in most games also `executed`, at each
      text's step: 1 where its call, command or answer could be carried out, else 0. The last step has the last text's.

    Evaluation plays problems that are held out from training.

    In place of problems there may be prompts of a file, and in place of the verifier reward functions
    (`episodes/judge.py`), which judge an episode with its last text, and in games add to what the rules pay. Info has
    each one's reward as `reward_NAME`, and there is neither `format` nor `truth`. An answer without a reward is `lost`:
    its episode is truncated, and whoever compares answers leaves it out; `unscored` is 1 where that is because all
    returned None.

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
        room: bool = False,
        roles: bool = False,
        team: float = 1.0,
        parallel: int = 0,
        calls: str = "",
        rows: Sequence[Mapping[str, Any]] | str | None = None,
        evaluate: str = "",
        rewards: Sequence[str] | str = (),
        reward_weights: Sequence[float] | float = (),
        reward_seconds: float = SECONDS,
        **options: Any,
    ):
        """Make `num_envs` conversations of one kind.

        Args:
            target: A family of problems such as `addition`, several as in `addition+sorting`, `reasoning-gym:NAME`, a
                game such as `wordle`, or a file of rows with prompts, such as `prompts.jsonl`.
            num_envs: How many conversations go on side by side.
            name: The id, for messages.
            level: Which level problems are of, or the first and the last as in `0-3`.
            problems: How many different problems there are to train on; 0 for all that there are.
            tools: Names of tools that may be called before an answer to a problem, or to a prompt of a file.
            turns: Texts that are written in an episode, at most; 0 for 1, 3 with tools, 10 in games.
            context: Tokens that are read at most; 0 for what the texts take.
            response: Tokens that an answer has at most; 0 for what the references take, and for prompts of a file 512,
                64 with Forage's own tokenizer, or less where a run would not fit into the free memory, as it then says.
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
            room: Observations say how many tokens the next text may have, so that tasks can shorten answers.
            roles: A caller of the tools and a solver take turns, the caller first; observations say whose turn it is.
            team: With roles, what each is paid where the team is right, beside 1 for what it has to do itself.
            parallel: Texts whose tools and verifier run at a time where they have processes of their own; 0 for one a
                processor.
            calls: With chat, the form of calls of tools: the `template`'s, or `forage`'s, <call>name: text</call>; by
                default the template's, where it has one that Forage reads.
            rows: Of a class whose methods are tools, the arguments of each `reset`: a file of rows, or mappings.
            evaluate: With prompts of a file, a second file whose prompts evaluation plays; without one a share of the
                first, `held_out`.
            rewards: Reward functions that judge the answers, each as `file.py:name` or `module:name`.
            reward_weights: The weight of each in the reward; 1 each unless it is given.
            reward_seconds: Seconds that reward functions have for the answers of a step.
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
        if wrong := next((one for one, tokens in (("context", context), ("response", response)) if tokens < 0), ""):
            raise ForageError(f"The {wrong} of {name} is 1 token or more, or 0 for what its texts take, and not below.")
        if not 0 <= held_out < 1:
            raise ForageError(
                f"The share of problems that {name} holds out is at least 0 and below 1, not {held_out:g}."
            )
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
        self.prompts: Prompts | None = None
        if prompts.is_file(target):
            others = {"turns": turns > 1 and not used, "instruct": instruct and not used, "roles": roles}
            if alien := next(
                (one for one, value in {**others, "hints": hints, "rows": rows, **options}.items() if value), ""
            ):
                only = ", which prompts with tools have" if alien in ("turns", "instruct") else ""
                raise ForageError(f"{name} has prompts of a file, and no option {alien}{only}; leave it out.")
            self.worlds: list[Any] = []
            for _ in range(num_envs):
                beside = self.worlds[0] if self.worlds else None
                toolbox = worlds.make_toolbox(used, beside, native) if used else None
                self.worlds.append(PromptWorld(toolbox, turns))
        else:
            if evaluate:
                raise ForageError(f"{name} makes its own problems for evaluation; a second file goes with a first one.")
            first_world = worlds.make_world(target, used, turns, instruct, held_out, options, None, paid, native, rows)
            rest = (
                worlds.make_world(target, used, turns, instruct, held_out, options, first_world, paid, native, rows)
                for _ in range(num_envs - 1)
            )
            self.worlds = [first_world, *rest]
        world: worlds.World = self.worlds[0]
        toolbox = world.toolbox
        schemas = toolbox.schemas() if toolbox is not None and toolbox.native else ()
        self.form = Form(self.tokenizer, bool(chat), system, schemas, variables, date or today(self.tokenizer), history)
        self.stop = self.form.stop  # all tokens that end an answer, `ends` first
        if not self.stop:
            raise ForageError(f"The tokenizer {tokenizer} has no token that ends a text, and without one none can end.")
        self.ends = self.stop[0]
        words = Words(self.form, self.stop)
        if isinstance(world, PromptWorld):
            told = world.toolbox.description() if world.toolbox and instruct and not world.toolbox.native else ""
            self.prompts = prompts.read_prompts(
                target, evaluate, held_out, self.form, context, told, world.toolbox is not None
            )
            prompts.tell_left_out(name, self.prompts, context)
            for one in self.worlds:
                one.prompts = self.prompts
            number = len(self.prompts.rows[SPLITS[0]])
            self.problems = min(self.problems, number) or number
            own_tokens = tokenizer == named.FORAGE
            response = response or RESPONSE[own_tokens]
            context = context or self.prompts.longest + (world.turns - 1) * (response + ROOM[own_tokens])
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
        if world.guard is not None:
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
        if room and (chunk or branches):
            raise ForageError(f"{name} shortens whole answers alone; leave out --env.room, or chunk and branches.")
        role |= {"room": gymnasium.spaces.Discrete(int(response) + 1)} if room else {}
        space = gymnasium.spaces.Dict({"context": observed, "reference": action, **role})
        super().__init__(name, space, action, num_envs, horizon=self.turns)
        self.course = Course(
            name, words, self.turns, observed.length, action.length, self.longest, self.chunks, world.verified
        )
        self.has_room = bool(room)
        self._limits = [Limits()] * self.num_envs
        self._slots = [EpisodeSlot(Start(0, 0))] * self.num_envs
        self._records = [Record() for _ in range(self.num_envs)]
        self._generator = np.random.default_rng(0)
        self._altered = False  # whether a change of earlier turns by the template has been told of
        at_a_time = min(int(parallel) or processors(), self.num_envs)
        self._threads = ThreadPoolExecutor(at_a_time) if world.waits and at_a_time > 1 else None
        self._told: set[str] = set()  # for which kinds of reasons an answer without a verdict has been told of
        self._row_seed, self._place = [0, 0], 0  # of the order in which a file's rows come, and how many came
        self._unscored = np.zeros(self.num_envs, bool)  # episodes under way whose answer got no reward
        self._left_out = 0  # episodes for which a person's environment returned None
        self._lost: np.ndarray | None = None
        self._failed = np.zeros(self.num_envs, bool)  # and of those the ones on which a function failed
        self.judge: Judge | None = None
        if rewards:
            if roles:
                raise ForageError(f"The roles of {name} are paid by its own rules; leave out roles, or the rewards.")
            in_turns = self.turns > 1 and not self.chunks
            self.judge = Judge(world, words, rewards, reward_weights, reward_seconds, self.levels[0], in_turns)
        elif reward_weights != () or reward_seconds != SECONDS:
            raise ForageError(f"{name} has no reward functions, which weights are for; name them with --rewards.")

    @property
    def info_names(self) -> tuple[str, ...]:
        world = self.worlds[0]
        own = INFO if world.verified and self.judge is None else INFO[2:]  # a game has no verifier
        given = () if self.judge is None else self.judge.names
        unscored = (UNSCORED,) if self.judge is None and hasattr(world.played, "get_reward") else ()
        return (*own, *world.names, *given, *unscored)

    @property
    def prompt_end(self) -> str:
        """Return the text behind each problem's prompt; none with a chat template, or behind prompts of a file."""
        return "" if self.form.chat or self.prompts is not None else PROMPT_END

    @property
    def lost(self) -> Bool[np.ndarray, " env"] | None:
        return self._lost

    @property
    def lost_reason(self) -> str:
        return f"answers had no reward{f', as {self.no_reward_reason}' if self.no_reward_reason else ''}"

    @property
    def no_reward(self) -> Bool[np.ndarray, " env"] | None:
        return self._lost

    @property
    def no_reward_reason(self) -> str:
        scorer = self.judge.scorer if self.judge else None
        if scorer is not None and scorer.newest:
            return f"{scorer.newest}{scorer.example}"
        if self._left_out or (scorer is not None and scorer.unscored):
            return ALL_NONE if scorer is not None else NO_VALUE
        return ""

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
    def pass_length(self) -> int:
        return self.problems if self.prompts is not None else self.worlds[0].rows_to_learn

    @property
    def hints(self) -> float:
        return self.hinted

    @property
    def difficulty(self) -> np.ndarray:
        """Return the difficulty of each of the numbered problems, from 0 to 1: its level relative to the highest."""
        world = self.worlds[0]
        level = [world.level(self._numbered_start(number)) for number in range(self.problems)]
        return np.array(level, np.float32) / max(world.levels - 1, 1)

    @property
    def kinds(self) -> np.ndarray:
        starts = map(self._numbered_start, range(self.problems))
        return np.array([self.worlds[0].kind(start) for start in starts], np.int32)

    @property
    def prompt_lengths(self) -> np.ndarray:
        world, form = self.worlds[0], self.form
        starts = (self._numbered_start(number) for number in range(self.problems))
        return np.array([len(world.open(form, world.begin(start)).tokens) for start in starts], np.int32)

    def examine(self) -> None:
        self.split = SPLITS[1]

    def conversations(self) -> list[Conversation]:
        return [record.ended for record in self._records if record.ended is not None]

    def expert_episode(self) -> Conversation:
        observation: Any = self.reset(0)
        while True:
            step, observation = self.step(observation["reference"])
            if step.terminated[0] or step.truncated[0]:
                return self.conversations()[0]

    def metrics(self) -> dict[str, np.ndarray]:
        world, found = self.worlds[0], {}
        if self.judge is not None:
            scorer = self.judge.scorer
            found = {"reward_failures": scorer.failures.total(), UNSCORED: scorer.unscored} | scorer.metrics
        elif world.guard is not None:
            found = {FAILURES: world.guard.failures.total()}
        elif hasattr(world.played, "get_reward"):
            found = {UNSCORED: self._left_out}
        return {one: np.float32(value) for one, value in found.items()}  # type: ignore[misc]

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        if self.judge is not None:
            self.judge.close()
        for world in self.worlds:
            world.close()

    # Starts

    def _draw_start(self, seed: int | None) -> Start:
        """Return the start of a seed; without one, the next of this environment's own."""
        if self.prompts is not None and seed is None:
            return self._next_row()
        generator = self._generator if seed is None else np.random.default_rng(seed)
        number = int(generator.integers(self.problems or UNLIMITED))
        if self.problems and self.split == SPLITS[0]:
            return self._numbered_start(number)
        return Start(int(generator.choice(self.levels)), number, self.split)  # type: ignore[arg-type]

    def _next_row(self) -> Start:
        """Return the start of the next row of a file, in passes over all of them, each in an order of its own."""
        assert self.prompts is not None
        rows = self.problems if self.split == SPLITS[0] else len(self.prompts.rows[SPLITS[1]])
        turn, place = divmod(self._place, rows)
        self._place += 1
        order = np.random.default_rng([*self._row_seed, turn]).permutation(rows)
        return Start(0, int(order[place]), self.split)  # type: ignore[arg-type]

    def _numbered_start(self, number: int) -> Start:
        """Return the start of one of the numbered problems; levels take turns."""
        return Start(self.levels[number % len(self.levels)], number // len(self.levels))

    def _begin_at(self, index: int, start: Start, hint: float = 0.0) -> None:
        prompt = self.worlds[index].begin(start)
        slot = self._slots[index] = self.course.begin_episode(
            self.worlds[index], start, prompt, hint, self._limits[index]
        )
        self._records[index].begin(prompt, slot.read.tokens)

    @property
    def limits(self) -> dict[str, int]:
        if self.chunks:
            return {}
        found = {"turns": self.turns, "context": self.context} if self.turns > 1 else {}
        return found | ({"response": self.answer} if self.has_room else {})

    def _limit(self, index: int, values: Mapping[str, int]) -> None:
        self._limits[index] = Limits(**values)

    @property
    def context(self) -> int:
        return self.course.context

    @property
    def answer(self) -> int:
        """Return the largest number of tokens of a turn."""
        return self.course.response

    def _reset(self, seed: int) -> PyTree[np.ndarray]:
        self._row_seed, self._place = [seed, int(self.split == SPLITS[1])], 0
        self._unscored[:] = self._failed[:] = False
        self._generator = np.random.default_rng(self._row_seed)
        for index in range(self.num_envs):
            self._begin_at(index, self._draw_start(None))
        return self._stack_contexts()

    def _begin(self, index: int, seed: int, number: int | None, hint: float) -> PyTree[np.ndarray]:
        start = self._draw_start(seed) if number is None else self._numbered_start(number)
        if number is not None and (rows := self.worlds[0].rows_to_learn):
            start = Start(self.levels[0], number + rows * (seed % PASSES))  # the row, and the chance in it
        self._begin_at(index, start, hint)
        return self._one(index)

    # Steps

    def _receive(self, action: PyTree[np.ndarray]) -> HostStep:
        rewards = np.zeros(self.num_envs, np.float32)
        names = self.info_names
        info = {one: np.full(self.num_envs, np.nan, np.float32) for one in (*INFO, *names)}
        before = list(self._slots)
        self._slots = self._advance_all(np.asarray(action))
        self._at = None
        self._judge_ended(before)
        for index, (slot, after) in enumerate(zip(before, self._slots, strict=True)):
            self._warn_of(after)
            rewards[index] = 0 if slot.over else after.said.reward
            if not slot.over or after.turn == self.turns:
                for one, value in after.said.told.items():
                    info[one][index] = value
            if after.turn == self.turns:
                written, open_ended = sum(map(len, after.written)), self.course.is_unfinished(after)
                values = after.said.format, after.said.truth, len(after.written), written, after.cut, open_ended
                for one, value in zip(INFO, values, strict=True):
                    info[one][index] = value
        ended = np.array([slot.turn == self.turns for slot in self._slots])
        led = self._stack_contexts()
        lost = ended & self._unscored
        if self.judge is not None and self.split == SPLITS[0]:  # an evaluation looks at all its answers together
            self.judge.scorer.check_rollout(self._failed[ended])
        self._check_verdicts(np.flatnonzero(ended).tolist())
        for index in np.flatnonzero(ended).tolist():
            self._records[index].end(self.worlds[index], self._slots[index].said, self._slots[index].cut)
            self._begin_at(index, self._draw_start(None))
        self._lost = lost if lost.any() else None
        self._unscored &= ~ended
        self._failed &= ~ended
        said = {one: info[one] for one in names}
        step = Step(led, rewards, ended & ~lost, lost, said)  # type: ignore[arg-type]
        return HostStep(step, self._stack_contexts() if ended.any() else led)

    def _check_verdicts(self, ended: Sequence[int]) -> None:
        """Raise `ForageError` if a verifier returned NaN or infinity for all answers of a rollout."""
        reasons = [self._slots[index].said.failure for index in ended]
        if reasons and all(reason.startswith(NOT_FINITE) for reason in reasons):
            raise ForageError(
                f"None of the answers of a rollout of {self.name} could be judged, as {reasons[-1]}; mend it, and "
                f"resume the run."
            )

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

    def _judge_ended(self, before: Sequence[EpisodeSlot]) -> None:
        """Have the reward functions judge the episodes whose last text was written."""
        ended = [
            index
            for index, (slot, after) in enumerate(zip(before, self._slots, strict=True))
            if not slot.over and (after.over or after.turn == self.turns)
        ]
        if self.judge is None:
            for index in ended if hasattr(self.worlds[0].played, "get_reward") else ():
                said = self._slots[index].said
                lost = math.isnan(said.reward)
                said = said._replace(reward=0.0 if lost else said.reward, told={**said.told, UNSCORED: float(lost)})
                self._apply(index, Judgement(said, lost))
                self._left_out += lost
                self._tell(NO_VALUE * lost, self.becomes, UNSCORED)
            return
        if not ended:
            return
        episodes = [FinishedEpisode(self.worlds[i], self._slots[i], self._records[i]) for i in ended]
        found = self.judge.judge(episodes, trainer_state(self.clock, self.num_envs * self.turns))
        for index, one in zip(ended, found, strict=True):
            self._apply(index, one)
        scorer = self.judge.scorer
        became = self.becomes if any(one.failed for one in found) else "counts by other rewards"
        self._tell(scorer.newest, became, "reward_failures", scorer.example)
        if any(one.lost and not one.failed for one in found):
            self._tell(ALL_NONE, self.becomes, UNSCORED)

    @property
    def becomes(self) -> str:
        """Describe the fate of an answer without a reward."""
        left = "leaves its group" if self.split == SPLITS[0] else "is left out of the mean"
        return f"has no reward and {left}"

    def _apply(self, index: int, judgement: Judgement) -> None:
        """Give an episode the reward of its judgement."""
        self._slots[index] = self._slots[index]._replace(said=judgement.said)
        self._unscored[index], self._failed[index] = judgement.lost, judgement.failed
        self._records[index].judge(judgement.said, judgement.notes, judgement.lost)

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
        self._tell(slot.said.failure, "could not be judged and is paid nothing", FAILURES)

    def _tell(self, reason: str, became: str, metric: str, example: str = "") -> None:
        """Warn of an answer without a verdict or reward, once for each reason, disregarding its numbers."""
        reason = reason.rstrip(".")
        kind = "".join(letter for letter in reason if not letter.isdigit())
        if kind and kind not in self._told and len(self._told) < KINDS:
            self._told.add(kind)
            warnings.warn(
                f"An answer in {self.name} {became}, as {reason}{example}. The metric {metric} counts such answers.",
                stacklevel=2,
            )

    def _stack_contexts(self) -> dict[str, np.ndarray]:
        seen = [self._one(index) for index in range(self.num_envs)]
        return {name: np.stack([one[name] for one in seen]) for name in seen[0]}

    def _one(self, index: int) -> dict[str, np.ndarray]:
        slot = self._slots[index]
        role = {"role": np.array(slot.turn % self.roles, np.int32)} if self.roles else {}
        role |= {"room": np.array(self.course.room(slot), np.int32)} if self.has_room else {}
        return self.course.episode_context(slot, self.worlds[index]) | role

    # States

    def _take(self, index: int) -> bytes:
        return dumps(self._save_at(index)).encode()

    def _put(self, index: int, state: bytes | None) -> PyTree[np.ndarray]:
        if state is None:
            self._begin_at(index, self._draw_start(None))
        else:
            self._replay_texts(index, json.loads(state))
        return self._one(index)

    def _save_at(self, index: int) -> dict[str, Any]:
        """Return an episode as JSON, with its judgement if it is over and waits for other episodes."""
        slot, record = self._slots[index], self._records[index]
        if not (slot.over and record.judged):
            return save_slot(slot)
        judged = Judgement(slot.said, bool(self._unscored[index]), bool(self._failed[index]), record.notes)
        return save_slot(slot) | {"judged": judged.to_plain()}

    def _replay_texts(self, index: int, saved: dict[str, Any]) -> None:
        """Restore an episode by replaying the texts written in it."""
        self._limits[index] = Limits(*saved.get("limits", ()))
        self._begin_at(index, Start(*saved["start"]), saved.get("hint", 0.0))
        for tokens in saved["written"]:
            self._slots[index] = self._advance_one(index, np.array(tokens, np.int32) + 1)
        self._slots[index] = self._slots[index]._replace(turn=saved["turn"])
        if judged := saved.get("judged"):
            self._apply(index, Judgement.from_plain(judged, self._slots[index].said))
        if saved.get("prefix"):
            self._slots[index] = self.course.set_prefix(self._slots[index], tuple(saved["prefix"]))

    @property
    def max_answer_tokens(self) -> int:
        return self.longest if self.branches else 0

    def _branch(self, index: int, tokens: np.ndarray) -> PyTree[np.ndarray]:
        self._slots[index] = self.course.set_prefix(self._slots[index], self.course.words.trim_action(tokens))
        return self._one(index)

    def _snapshot(self) -> bytes:
        slots = [self._save_at(index) for index in range(self.num_envs)]
        state: dict[str, Any] = {"generator": self._generator.bit_generator.state, "slots": slots}
        if self.prompts is not None:
            state["rows"] = [self.prompts.digest, self._row_seed, self._place]
        return dumps(state).encode()

    def _restore(self, snapshot: bytes) -> PyTree[np.ndarray]:
        state = json.loads(snapshot)
        if self.prompts is not None:
            digest, self._row_seed, self._place = state["rows"]
            if digest != self.prompts.digest:
                raise ForageError(
                    f"The rows of {self.name} have changed since this run began; give it the file as it was, or train "
                    f"anew."
                )
        self._generator = np.random.default_rng(0)
        self._generator.bit_generator.state = state["generator"]
        for index, saved in enumerate(state["slots"]):
            self._replay_texts(index, saved)
        return self._stack_contexts()
