"""Verdicts on episodes that are over, and warnings of answers that got none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool

from forage.core.errors import warn
from forage.environments.text.episodes.course import EpisodeSlot
from forage.environments.text.episodes.judge import UNSCORED, FinishedEpisode, Judge, Judgement
from forage.environments.text.episodes.running import RunningEpisodes
from forage.environments.text.guard import NOT_FINITE

FAILURES = "verifier_failures"  # the metric that counts answers without a verdict
ALL_NONE, NO_VALUE = "all reward functions returned None", "get_reward returned None"  # why an answer has no reward
KINDS = 10  # of reasons for that which are told of, at most


class Verdicts:
    """The judgement of a person's reward functions or environment on episodes, and its failures."""

    def __init__(self, name: str, judge: Judge | None, episodes: RunningEpisodes):
        """`name`: of the environment, for messages."""
        self.name, self.judge, self.episodes = name, judge, episodes
        self.trains = True  # answers are compared in groups, and not judged one by one
        self.left_out = 0  # episodes for which a person's environment returned None
        self.fault = ""  # the newest truth of a verifier that is no finite number
        self.kinds: set[str] = set()  # of reasons for an answer without a verdict that were told of
        self.altered = False  # whether a change of earlier turns by the template has been told of

    @property
    def pays(self) -> bool:
        """Return whether a person's environment returns the reward of an episode."""
        return hasattr(self.episodes.worlds[0].played, "get_reward")

    @property
    def reason(self) -> str:
        """Return the newest reason for which an answer has no reward; empty if none is known."""
        scorer = self.judge.scorer if self.judge else None
        if scorer is not None and scorer.newest:
            return f"{scorer.newest}{scorer.example}"
        if self.left_out or (scorer is not None and scorer.unscored):
            return ALL_NONE if scorer is not None else NO_VALUE
        return self.fault

    @property
    def unjudged_reason(self) -> str:
        """Return the newest failure of a reward function or a verifier, as a clause."""
        return f"the reward function {self.reason}" if self.judge is not None else self.reason

    @property
    def fate(self) -> str:
        """Describe the consequence for an answer without a reward."""
        return "has no reward and leaves its group" if self.trains else "has no reward"

    def judge_ended(self, before: Sequence[EpisodeSlot], state: Mapping[str, Any]) -> None:
        """Have the episodes judged whose last text was written in the turn after `before`.

        `state`: the fields of `trainer_state`.
        """
        after, ended = self.episodes.slots, self.episodes.ended
        over = [i for i, slot in enumerate(before) if not slot.over and (after[i].over or ended[i])]
        if self.judge is not None and over:
            self.ask_functions(self.judge, over, state)
        elif self.judge is None and self.pays:
            self.take_rewards(over)
        elif self.judge is None and not self.trains:
            self.leave_faults_out(over)

    def ask_functions(self, judge: Judge, over: Sequence[int], state: Mapping[str, Any]) -> None:
        """Have reward functions judge these episodes."""
        worlds, slots, records = self.episodes.worlds, self.episodes.slots, self.episodes.records
        found = judge.judge([FinishedEpisode(worlds[i], slots[i], records[i]) for i in over], state)
        for index, one in zip(over, found, strict=True):
            self.episodes.apply(index, one)
        scorer = judge.scorer
        became = self.fate if any(one.failed for one in found) else "counts by other rewards"
        self.warn(scorer.newest, became, "reward_failures", scorer.example)
        if any(one.lost and not one.failed for one in found):
            self.warn(ALL_NONE, self.fate, UNSCORED)

    def take_rewards(self, over: Sequence[int]) -> None:
        """Give these episodes the rewards that a person's environment returned; `None` is no reward."""
        for index in over:
            said = self.episodes.slots[index].said
            lost = math.isnan(said.reward)
            said = said._replace(reward=0.0 if lost else said.reward, told={**said.told, UNSCORED: float(lost)})
            self.episodes.apply(index, Judgement(said, lost))
            self.left_out += lost
            self.warn(NO_VALUE * lost, self.fate, UNSCORED)

    def leave_faults_out(self, over: Sequence[int]) -> None:
        """Take the rewards from these episodes whose verifier returned a truth that is no finite number."""
        for index in over:
            said = self.episodes.slots[index].said
            if said.failure.startswith(NOT_FINITE):
                self.episodes.apply(index, Judgement(said._replace(format=math.nan, truth=math.nan), True, True))

    def unjudged(self, ended: Bool[np.ndarray, " env"]) -> Bool[np.ndarray, " env"]:
        """Return the mask of those among ended episodes on which reward functions, or a verifier, failed."""
        if self.judge is not None:
            return ended & self.episodes.failed  # they count in place of the verifier
        failures = [slot.said.failure for slot in self.episodes.slots]
        found = ended & np.array([failure.startswith(NOT_FINITE) for failure in failures])
        self.fault = failures[int(found.argmax())] if found.any() else self.fault
        return found

    def warn_of_slots(self) -> None:
        """Warn of a template that alters earlier turns, and of answers that the verifier could not judge.

        Each is said once; answers for each reason, disregarding its numbers.
        """
        for slot in self.episodes.slots:
            if slot.read.altered and not self.altered:
                self.altered = True
                warn(
                    f"The chat template of {self.name} alters earlier turns, such as by dropping thoughts, so that "
                    f"each turn is read and scored behind the context that it was written in; --env.history written "
                    f"keeps them."
                )
            if self.judge is None:
                left_out = not self.trains and slot.said.failure.startswith(NOT_FINITE)
                became = "has no reward" if left_out else "is paid nothing"
                self.warn(slot.said.failure, f"could not be judged and {became}", FAILURES)

    def warn(self, reason: str, became: str, metric: str, example: str = "") -> None:
        """Warn of an answer without a verdict or reward, once for each reason, disregarding its numbers."""
        reason = reason.rstrip(".")
        kind = "".join(letter for letter in reason if not letter.isdigit())
        if kind and kind not in self.kinds and len(self.kinds) < KINDS:
            self.kinds.add(kind)
            warn(f"An answer in {self.name} {became}, as {reason}{example}. The metric {metric} counts such answers.")

    def metrics(self) -> dict[str, np.ndarray]:
        """Return the numbers of answers without a verdict or reward, by name, and the functions' own metrics."""
        found: dict[str, Any] = {}
        if self.judge is not None:
            scorer = self.judge.scorer
            found = {"reward_failures": scorer.failures.total(), UNSCORED: scorer.unscored} | scorer.metrics
        elif (guard := self.episodes.worlds[0].guard) is not None:
            found = {FAILURES: guard.failures.total()}
        elif self.pays:
            found = {UNSCORED: self.left_out}
        return {one: np.float32(value) for one, value in found.items()}  # type: ignore[misc]

    def close(self) -> None:
        """End the processes of reward functions."""
        if self.judge is not None:
            self.judge.close()
