"""Scores of answers by reward functions, in a process of their own: a raise or a hang costs an answer, and not the run.

A batch of answers is judged at once. After a raise, or where the time limit passes, the function is asked again answer
by answer; an answer that it still fails on is lost. The reward of an answer is

    sum_i weight_i r_i    over the functions that returned neither None nor NaN

and an answer for which none of them returned a number has none. This is the rule of TRL 1.16's `grpo_trainer.py`
(`sum_then_normalize`), where None and NaN are one. Here NaN is also counted and said as a failure, and so is an
infinite reward, whose answer is lost.
"""

from __future__ import annotations

import math
import pickle
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from forage.core.errors import ForageError
from forage.core.loading import full_target, load_named, short, target_name
from forage.environments.text.own.functions import Outcome, Reply, RewardFunctions, Rewards, Traits
from forage.environments.text.process import Process, Silent

SECONDS = 60.0  # that functions have for a batch of answers, unless it is set
HOPELESS = 3  # answers in a row from the first on that pass the time limit, after which the rest is not asked
LARGEST = float(np.finfo(np.float32).max)

objects: dict[str, Callable[..., Any]] = {}
"""Reward functions that this process was given as Python objects, by the names under which a run keeps them."""


class Scores(NamedTuple):
    """The scores of a batch of answers."""

    reward: Float[np.ndarray, " answer"]  # the weighted sum; 0 for an answer without one
    each: Float[np.ndarray, "answer function"]  # NaN: None, NaN, or lost
    lost: Bool[np.ndarray, " answer"]  # a function failed, or none returned a number
    failed: Bool[np.ndarray, " answer"]  # a function failed, or NaN is among what was returned in place of numbers
    extras: dict[str, list[str]]  # what functions logged beside the answers


class LocalCaller:
    """Functions that were given as objects, called in this process."""

    def __init__(self, targets: Sequence[str]):
        self.functions = RewardFunctions(targets, objects)

    def ask(self, *question: Any, seconds: float, late: str) -> tuple[Any, ...]:
        """Return the answer to a question. Raise `ForageError` after `seconds`, as no function is ended here."""
        found: list[Any] = []
        worker = threading.Thread(target=lambda: found.append(self.functions(*question)), daemon=True)
        worker.start()
        worker.join(seconds)
        if worker.is_alive():
            raise ForageError(
                f"A reward function {late}, and a function that was given as a Python object cannot be ended; name it "
                f"by its file, mine.py:function, so that it runs in a process of its own."
            )
        if not found:
            raise Silent("ended without an answer")
        return found[0]

    def close(self) -> None:
        """End the event loop of functions that wait."""
        if self.functions.loop is not None:
            self.functions.loop.close()
            self.functions.loop = None


class SharedProcess:
    """The process of some functions, shared by all environments of this process that name the same ones."""

    known: dict[tuple[str, ...], SharedProcess] = {}

    def __init__(self, targets: Sequence[str]):
        self.targets = tuple(targets)
        self.users, self.lock = 0, threading.Lock()
        self.process: Process | None = None

    @classmethod
    def join(cls, targets: Sequence[str]) -> SharedProcess:
        """Return the process of these functions, for one more user."""
        found = cls.known.setdefault(tuple(targets), cls(targets))
        found.users += 1
        return found

    def ask(self, *question: Any, seconds: float, late: str) -> tuple[Any, ...]:
        """Return the answer to a question. Raise `Silent` if there is none in time, and end the process."""
        with self.lock:
            if self.process is None:
                packed = pickle.dumps(NamedFunctions(self.targets))
                self.process = Process(packed, "", f"runs {', '.join(map(short, self.targets))}")
            try:
                return self.process.ask(question, seconds, late)
            except Silent as silent:
                self.end()
                raise Silent(str(silent).strip()) from None

    def end(self) -> None:
        """End the process; the next question starts another."""
        if self.process is not None:
            self.process.end()
            self.process = None

    def close(self) -> None:
        """Leave the process, which ends with its last user."""
        self.users -= 1
        if self.users <= 0:
            self.known.pop(self.targets, None)
            with self.lock:
                self.end()


class NamedFunctions:
    """Functions by name, which are imported where this is unpickled."""

    def __init__(self, targets: Sequence[str]):
        self.targets = tuple(targets)

    def __reduce__(self) -> tuple[Any, ...]:
        return RewardFunctions, (self.targets,)


class Scorer:
    """Reward functions with their weights and the counts of their failures."""

    def __init__(
        self,
        rewards: Sequence[str],
        weights: Sequence[float],
        columns: Sequence[str],
        seconds: float = SECONDS,
        own: str = "",
    ):
        """Load the functions.

        Args:
            rewards: Each as `file.py:name` or `module:name`, or the name of one of `objects`.
            weights: One for each; none: 1 each.
            columns: The columns of the rows, without the prompt.
            seconds: The time limit for a batch, and for an answer that is asked about alone.
            own: The name of a reward that the environment gives beside them, with the weight 1; empty: it gives none.
        """
        self.targets = [one if one in objects else full_target(one) for one in rewards]
        self.weights = np.array([float(one) for one in weights] or [1.0] * len(rewards))
        self.seconds = float(seconds)
        self.check()
        self.names = unique_names([*self.targets, *([f":{own}"] if own else [])])
        self.failures: Counter[str] = Counter()
        self.newest = self.example = ""
        self.unscored = 0
        self.metrics: dict[str, float] = {}
        here, apart = ([one for one in self.targets if (one in objects) is own] for own in (True, False))
        self.callers: dict[str, tuple[Any, int]] = {}  # who calls a function, and its number there
        for targets, caller in ((here, LocalCaller), (apart, SharedProcess.join)):
            if targets:
                found = caller(targets)
                self.callers |= {target: (found, index) for index, target in enumerate(targets)}
        self.traits: dict[str, Traits] = {}
        try:
            self.look(columns)
        except BaseException:
            self.close()
            raise

    def check(self) -> None:
        """Raise `ForageError` for weights or functions that cannot be."""
        for target in self.targets:
            if ":" not in target:
                raise ForageError(
                    f"A reward function is named by its file, as in mine.py:score, or by its module; not {target!r}."
                )
        if len(set(self.targets)) < len(self.targets):
            raise ForageError("A reward function is named twice; name it once, with a weight.")
        if len(self.weights) != len(self.targets):
            raise ForageError(
                f"There are {len(self.targets)} reward functions and {len(self.weights)} weights; give one for each, "
                f"as in --reward-weights {','.join('1' * len(self.targets))}."
            )
        if not np.isfinite(self.weights).all():
            raise ForageError("Weights of reward functions are finite numbers.")
        if not 0 < self.seconds < math.inf:
            raise ForageError(f"Reward functions have more than 0 seconds for a batch, and not {self.seconds:g}.")

    def look(self, columns: Sequence[str]) -> None:
        """Take over the traits of the functions. Raise `ForageError` if one cannot be called with these columns."""
        for caller in dict.fromkeys(caller for caller, _ in self.callers.values()):
            own = [target for target, (found, _) in self.callers.items() if found is caller]
            try:
                told = caller.ask("traits", list(columns), seconds=SECONDS, late="could not be loaded in time")
            except Silent as silent:
                raise ForageError(f"The process of the reward functions {silent}.") from None
            for target, traits in zip(own, told, strict=True):
                self.traits[target] = Traits(*traits)
                if fault := self.traits[target].fault:
                    raise ForageError(fault)

    def score(
        self, batch: Mapping[str, list[Any]], state: Mapping[str, Any], own: Sequence[float] | None = None
    ) -> Scores:
        """Return the scores of a batch of answers.

        `batch`: the arguments of the functions with an entry an answer. `own`: the environment's own rewards, NaN for
        none. Raise `ForageError` if a function returns what is no list of rewards.
        """
        count = len(batch["completions"])
        each = np.full((count, len(self.targets)), np.nan)
        failed, none = np.zeros(each.shape, bool), np.ones(each.shape, bool)
        extras: dict[str, list[str]] = {}
        self.metrics = {}
        for group in self.groups():
            replies = self.ask_together(group, batch, state, extras)
            for target, outcome in zip(group, replies, strict=True):
                place = self.targets.index(target)
                if outcome.raised:
                    found, failed[:, place] = self.ask_alone(target, batch, state, extras)
                else:
                    found = outcome.rewards
                each[:, place] = [np.nan if one is None else one for one in found]
                none[:, place] = [one is None for one in found]
        most = LARGEST / (len(self.targets) + 1) / np.maximum(np.abs(self.weights), 1.0)  # so that the sum is finite
        large, no_number = np.abs(each) > most, np.isnan(each) & ~none & ~failed
        for wrong in (no_number, large):
            for place in np.flatnonzero(wrong.any(0)).tolist():
                self.note_returned(place, each[:, place], wrong[:, place], batch)
        failed, each = failed | large, np.where(large, np.nan, each)
        broken = np.any(failed[:, self.weights != 0], axis=1)
        weights = self.weights
        if own is not None:
            each, weights = np.column_stack([each, np.asarray(own, float)]), np.append(weights, 1.0)
        there = ~np.isnan(each)
        reward = np.where(there, each * weights, 0.0).sum(1)
        lost = broken | ~np.any(there, axis=1)
        broken |= lost & no_number[:, self.weights != 0].any(1)
        self.unscored += int((lost & ~broken).sum())
        return Scores(np.where(lost, 0.0, reward).astype(np.float32), each.astype(np.float32), lost, broken, extras)

    def groups(self) -> list[list[str]]:
        """Return the functions that are asked together: each by itself, and those of a process that wait."""
        found: dict[Any, list[str]] = {}
        for target in self.targets:
            caller, index = self.callers[target]
            found.setdefault((id(caller), -1 if self.traits[target].waits else index), []).append(target)
        return list(found.values())

    def ask_together(
        self,
        group: Sequence[str],
        batch: Mapping[str, list[Any]],
        state: Mapping[str, Any],
        extras: dict[str, list[str]],
    ) -> list[Outcome]:
        """Return the outcome of each function of a group for all answers, and add the values that they log."""
        caller, which = self.callers[group[0]][0], [self.callers[target][1] for target in group]
        batch = batch if isinstance(caller, LocalCaller) else self.copy_objects(group, batch)
        late = f"gave no rewards within {self.seconds:g} seconds"
        try:
            reply = Reply(*caller.ask("score", which, dict(batch), dict(state), seconds=self.seconds, late=late))
        except Silent as silent:
            return [Outcome(raised=str(silent))] * len(group)
        outcomes = [Outcome(*one) for one in reply.outcomes]
        if wrong := next((one.wrong for one in outcomes if one.wrong), ""):
            raise ForageError(wrong)
        extras |= reply.extras
        self.metrics |= reply.metrics
        return outcomes

    def copy_objects(self, group: Sequence[str], batch: Mapping[str, list[Any]]) -> Mapping[str, list[Any]]:
        """Return a batch for another process, with copies of the environments' objects.

        Objects that cannot be copied, and that no function names, are left out.
        """
        if "environments" not in batch:
            return batch
        try:
            return {**batch, "environments": [Copy(one) for one in batch["environments"]]}
        except Exception as error:
            asking = next((target for target in group if self.traits[target].looks), None)
            if asking is not None:
                raise ForageError(
                    f"The reward function {short(asking)} looks at environments, and these cannot be copied to its "
                    f"process ({error}); give the function as an object in Python."
                ) from error
            return {name: values for name, values in batch.items() if name != "environments"}

    def ask_alone(
        self, target: str, batch: Mapping[str, list[Any]], state: Mapping[str, Any], extras: dict[str, list[str]]
    ) -> tuple[Rewards, Bool[np.ndarray, " answer"]]:
        """Return a function's reward of each answer, asked one by one, and a mask of those that it fails on."""
        count = len(batch["completions"])
        rewards: Rewards = [None] * count
        failed = np.zeros(count, bool)
        for answer in range(count):
            alone = {name: [values[answer]] for name, values in batch.items()}
            logged: dict[str, list[str]] = {}
            (outcome,) = self.ask_together([target], alone, state, logged)
            for column, (value,) in logged.items():
                extras.setdefault(column, [""] * count)[answer] = value
            if not outcome.raised:
                rewards[answer] = outcome.rewards[0]
                continue
            failed[answer] = True
            self.note(target, outcome.raised)
            if answer + 1 == HOPELESS and failed[:HOPELESS].all() and "within" in outcome.raised:
                failed[:] = True
                break
        return rewards, failed

    def note_returned(
        self,
        place: int,
        returned: Float[np.ndarray, " answer"],
        wrong: Bool[np.ndarray, " answer"],
        batch: Mapping[str, list[Any]],
    ) -> None:
        """Count the rewards of a function that are no finite numbers, and describe the first of them."""
        answer = int(wrong.argmax())
        number = returned[answer]
        value = f"{number:g}" if not np.isfinite(number) else "a number too large for 32 bits"
        of = f"the completion {batch['completions'][answer]!r:.80} to {batch['prompts'][answer]!r:.80}"
        self.note(self.targets[place], f"returned {value} as a reward", int(wrong.sum()), f", first for {of}")

    def note(self, target: str, reason: str, count: int = 1, example: str = "") -> None:
        """Count a failure. `example`: the answer that it was about, behind the reason."""
        self.newest, self.example = f"{short(target)} {reason}", example
        self.failures[self.newest] += count

    def close(self) -> None:
        """End the processes that no other environment needs."""
        for caller in {id(caller): caller for caller, _ in self.callers.values()}.values():
            caller.close()
        self.callers = {}


class Copy:
    """A copy of a person's object for another process, which imports its file before it reads it."""

    def __init__(self, played: Any):
        self.target = target_name(type(played))
        self.packed = pickle.dumps(played)

    def __reduce__(self) -> tuple[Any, ...]:
        return open_copy, (self.target, self.packed)


def open_copy(target: str | None, packed: bytes) -> Any:
    """Return a copied object."""
    if target is not None:
        load_named(target)
    return pickle.loads(packed)


def unique_names(targets: Sequence[str]) -> list[str]:
    """Return the name of each function, with a number behind those that another one has too."""
    names: list[str] = []
    for target in targets:
        name = target.rpartition(":")[2].replace(".", "_")
        same = sum(one == name or one.startswith(f"{name}_") for one in names)
        names.append(f"{name}_{same + 1}" if name in names else name)
    return names
