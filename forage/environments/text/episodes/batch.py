"""The steps of a batch of conversations: a turn of each is a step."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
from jaxtyping import Bool, PyTree

from forage.core.host import Conversation, HostEnvironment, HostStep
from forage.core.plain import dumps
from forage.core.spaces import Tokens
from forage.core.types import Step
from forage.environments.text.episodes.course import Course, Limits
from forage.environments.text.episodes.judge import UNSCORED, Judge, trainer_state
from forage.environments.text.episodes.running import INFO, RunningEpisodes
from forage.environments.text.episodes.starts import StartOrder
from forage.environments.text.episodes.verdicts import Verdicts
from forage.environments.text.sets import SPLITS
from forage.environments.text.worlds import Start

PASSES = 2**16  # different episodes that a row of a person's environment can begin


class ConversationBatch(HostEnvironment):
    """Conversations that take their turns together; `TextEnvironment` describes observations, actions and info."""

    evaluation_episodes: ClassVar[int] = 100
    evaluation_envs: ClassVar[int] = 128
    in_words: ClassVar[bool] = True

    def __init__(
        self,
        num_envs: int,
        episodes: RunningEpisodes,
        order: StartOrder,
        judge: Judge | None = None,
        branches: bool = False,
        hints: float = 0.0,
    ):
        """Make a batch of `num_envs` conversations.

        Args:
            num_envs: The number of episodes.
            episodes: The running episodes.
            order: The starts of the next ones.
            judge: Reward functions; `None`: a verifier, or a game's rules.
            branches: Answers may go on from given tokens.
            hints: The largest share of a reference that may be given away.
        """
        course = episodes.course
        space, action = make_spaces(course, episodes.roles, episodes.shows_room)
        super().__init__(course.name, space, action, num_envs, horizon=course.turns)
        self.course, self.episodes, self.order, self.judge = course, episodes, order, judge
        self.verdicts = Verdicts(course.name, judge, episodes)
        self.turns, self.longest = course.turns, course.longest
        self.levels, self.problems = order.levels, order.problems
        self.branches, self.hinted = branches, hints
        self._lost: Bool[np.ndarray, " env"] | None = None
        self._unjudged: Bool[np.ndarray, " env"] | None = None

    @property
    def worlds(self) -> Sequence[Any]:
        """Return the world of each conversation."""
        return self.episodes.worlds

    @worlds.setter
    def worlds(self, made: Sequence[Any]) -> None:
        self.episodes.worlds = made

    @property
    def info_names(self) -> tuple[str, ...]:
        world = self.worlds[0]
        own = INFO if world.verified and self.judge is None else INFO[2:]  # a game has no verifier
        given = () if self.judge is None else self.judge.names
        unscored = (UNSCORED,) if self.judge is None and self.verdicts.pays else ()
        return (*own, *world.names, *given, *unscored)

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
        return self.verdicts.reason

    @property
    def unjudged(self) -> Bool[np.ndarray, " env"] | None:
        return self._unjudged

    @property
    def unjudged_reason(self) -> str:
        return self.verdicts.unjudged_reason

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
        return self.problems if self.order.prompts is not None else self.worlds[0].rows_to_learn

    @property
    def hints(self) -> float:
        return self.hinted

    @property
    def difficulty(self) -> np.ndarray:
        """Return the difficulty of each of the numbered problems, from 0 to 1: its level relative to the highest."""
        world = self.worlds[0]
        level = [world.level(start) for start in self.numbered_starts]
        return np.array(level, np.float32) / max(world.levels - 1, 1)

    @property
    def kinds(self) -> np.ndarray:
        return np.array([self.worlds[0].kind(start) for start in self.numbered_starts], np.int32)

    @property
    def prompt_lengths(self) -> np.ndarray:
        world, form = self.worlds[0], self.course.words.form
        return np.array([len(world.open(form, world.begin(start)).tokens) for start in self.numbered_starts], np.int32)

    @property
    def numbered_starts(self) -> list[Start]:
        """Return the start of each of the numbered problems."""
        return [self.order.numbered_start(number) for number in range(self.problems)]

    @property
    def limits(self) -> dict[str, int]:
        if self.course.chunks:
            return {}
        found = {"turns": self.turns, "context": self.context} if self.turns > 1 else {}
        return found | ({"response": self.answer} if self.episodes.shows_room else {})

    @property
    def context(self) -> int:
        return self.course.context

    @property
    def answer(self) -> int:
        """Return the largest number of tokens of a turn."""
        return self.course.response

    @property
    def max_answer_tokens(self) -> int:
        return self.longest if self.branches else 0

    def examine(self) -> None:
        self.order.split = SPLITS[1]
        self.judge_singly()

    def judge_singly(self) -> None:
        self.verdicts.trains = False

    def conversations(self) -> list[Conversation]:
        return [record.ended for record in self.episodes.records if record.ended is not None]

    def expert_episode(self) -> Conversation:
        observation: Any = self.reset(0)
        while True:
            step, observation = self.step(observation["reference"])
            if step.terminated[0] or step.truncated[0]:
                return self.conversations()[0]

    def metrics(self) -> dict[str, np.ndarray]:
        return self.verdicts.metrics()

    def close(self) -> None:
        self.episodes.close()
        self.verdicts.close()

    # Starts

    def _limit(self, index: int, values: Mapping[str, int]) -> None:
        self.episodes.limits[index] = Limits(**values)

    def _reset(self, seed: int) -> PyTree[np.ndarray]:
        self.order.reset(seed)
        for index in range(self.num_envs):
            self.episodes.begin(index, self.order.draw())
        return self.episodes.contexts()

    def _begin(self, index: int, seed: int, number: int | None, hint: float) -> PyTree[np.ndarray]:
        start = self.order.draw(seed) if number is None else self.order.numbered_start(number)
        if number is not None and (rows := self.worlds[0].rows_to_learn):
            start = Start(self.levels[0], number + rows * (seed % PASSES))  # the row, and the chance in it
        self.episodes.begin(index, start, hint)
        return self.episodes.context(index)

    def _branch(self, index: int, tokens: np.ndarray) -> PyTree[np.ndarray]:
        self.episodes.set_prefix(index, tokens)
        return self.episodes.context(index)

    # Steps

    def _receive(self, action: PyTree[np.ndarray]) -> HostStep:
        episodes = self.episodes
        before = episodes.take_turns(np.asarray(action), self._note_place)
        self._at = None
        self.verdicts.judge_ended(before, trainer_state(self.clock, self.num_envs * self.turns))
        self.verdicts.warn_of_slots()
        rewards, info = episodes.outcomes(before, self.info_names)
        ended, led = episodes.ended, episodes.contexts()
        lost, over = ended & episodes.unscored, np.flatnonzero(ended).tolist()
        unjudged = self.verdicts.unjudged(ended)
        for index in over:
            episodes.end(index)
            episodes.begin(index, self.order.draw())
        self._lost = lost if lost.any() else None
        self._unjudged = unjudged if unjudged.any() else None
        step = Step(led, rewards, ended & ~lost, lost, info)  # type: ignore[arg-type]
        return HostStep(step, episodes.contexts() if over else led)

    def _note_place(self, index: int) -> None:
        """Note the number of the environment that takes its turn, for errors."""
        self._at = index

    # States

    def _take(self, index: int) -> bytes:
        return dumps(self.episodes.save(index)).encode()

    def _put(self, index: int, state: bytes | None) -> PyTree[np.ndarray]:
        if state is None:
            self.episodes.begin(index, self.order.draw())
        else:
            self.episodes.replay(index, json.loads(state))
        return self.episodes.context(index)

    def _snapshot(self) -> bytes:
        slots = [self.episodes.save(index) for index in range(self.num_envs)]
        return dumps(self.order.save() | {"slots": slots}).encode()

    def _restore(self, snapshot: bytes) -> PyTree[np.ndarray]:
        state = json.loads(snapshot)
        self.order.restore(state, self.name)
        for index, saved in enumerate(state["slots"]):
            self.episodes.replay(index, saved)
        return self.episodes.contexts()


def make_spaces(course: Course, roles: int, shows_room: bool) -> tuple[gymnasium.spaces.Dict, Tokens]:
    """Return the spaces of observations and actions."""
    words = course.words
    vocabulary, end = words.tokenizer.vocabulary + 1, tuple(one + 1 for one in words.stop)
    observed, action = (Tokens(length, vocabulary, end=end) for length in (course.context, course.response))
    role = {"role": gymnasium.spaces.Discrete(roles)} if roles else {}
    role |= {"room": gymnasium.spaces.Discrete(course.response + 1)} if shows_room else {}
    return gymnasium.spaces.Dict({"context": observed, "reference": action, **role}), action
