"""An observer of an environment during play, which collects facts and reports findings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np

from forage.core.bounds import Outside, farthest
from forage.core.spaces import describe_space, fit_dtype, spaces_by_path
from forage.studies.check.findings import NOTE, OK, WRONG, Finding

LARGE = 100.0  # rewards beyond which learning usually wants them smaller


class Watch:
    """Observations, rewards and infos over all steps. Arrays are of rows: `[row, ...]`."""

    def __init__(self, space: gymnasium.Space[Any], rows: int, horizon: int | None = None):
        """`rows` is the number of parallel episodes; a team's observations have a row for each of its agents."""
        self.rows, self.horizon = rows, horizon
        self.leaves = spaces_by_path(space)
        self.seen = self.steps = 0
        self.outside: dict[tuple[str, ...], Outside] = {}
        self.bad: dict[tuple[str, str], str] = {}  # what is wrong with observations, first met, by part and kind
        self.rounded: dict[tuple[str, ...], str] = {}  # dtypes that are brought into the declared one
        self.rewards: list[np.ndarray] = []
        self.reward_bad = ""
        self.flags: set[str] = set()  # types of terminated and truncated that are no truth values
        self.both: int | None = None  # the step that was both
        self.lengths: list[int] = []
        self.ends = {"terminated": 0, "truncated": 0}
        self.age = np.zeros(rows, int)
        self.info: set[str] = set()  # keys
        self.numbers: set[str] = set()  # those of them that are one number
        self.nothing_allowed: int | None = None
        self.masked = False

    # Looking on
    def observe(self, parts: dict[tuple[str, ...], np.ndarray]) -> None:
        """Record rows of observations, by the paths of their parts."""
        self.seen += max((len(array) for array in parts.values()), default=0)
        for path, array in parts.items():
            space, what = self.leaves[path], ".".join(path) or "it"
            if array.dtype == object or array.shape[1:] != (space.shape or ()):
                found = f"{array.dtype}{list(array.shape[1:])}"
                self.note_bad(what, "shape", f"has shape {found}, and its space {describe_space(space)}")
                continue
            if array.dtype != space.dtype:
                try:
                    fit_dtype(array, np.dtype(space.dtype))
                    self.rounded.setdefault(path, f"{array.dtype} where its space says {space.dtype}")
                except ValueError as error:
                    self.note_bad(what, "dtype", f"is {array.dtype} where its space says {space.dtype} ({error})")
                    continue
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                entry = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0][1:])
                self.note_bad(what, "finite", f"has {array[~np.isfinite(array)][0]} at entry {entry}")
            if isinstance(space, gymnasium.spaces.Box):
                self.measure(path, array, space)
            elif not all(space.contains(row.astype(space.dtype)) for row in array):
                self.note_bad(what, "choice", f"was {array[0]}, which is not in {describe_space(space)}")
            if path and path[-1] == "action_mask":
                self.masked = True
                if self.nothing_allowed is None and not (array.reshape(len(array), -1) != 0).any(axis=1).all():
                    self.nothing_allowed = self.steps

    def measure(self, path: tuple[str, ...], array: np.ndarray, space: gymnasium.spaces.Box) -> None:
        """Record the distance of an array from its box, if it is the largest so far."""
        if array.dtype.kind not in "iuf" or (found := farthest(array, space)) is None:
            return
        known = self.outside.get(path)
        worst = dataclasses.replace(found, step=self.steps) if known is None or found.by > known.by else known
        self.outside[path] = dataclasses.replace(worst, count=found.count + (known.count if known else 0))

    def note_bad(self, what: str, kind: str, words: str) -> None:
        self.bad.setdefault((what, kind), f"{what} {words} at step {self.steps}")

    def step(self, reward: Any, terminated: Any, truncated: Any, info: Iterable[str] = ()) -> Any:
        """Record a step's rewards and ends of episodes. Return the rows that ended, `bool[row]`."""
        self.steps += 1
        self.age += 1
        paid = np.asarray(reward, np.float64)
        if not self.reward_bad and not np.isfinite(paid).all():
            self.reward_bad = f"the reward was {paid[~np.isfinite(paid)][0]} at step {self.steps}"
        self.rewards.append(paid)
        over, cut = np.asarray(terminated, bool), np.asarray(truncated, bool)
        if self.both is None and (over & cut).any():
            self.both = self.steps
        self.info.update(info)
        ended = np.asarray(over | cut).reshape(self.rows, -1).all(axis=1)  # a team's episode is over when all of it are
        for row in np.flatnonzero(ended):
            self.lengths.append(int(self.age[row]))
            self.ends["terminated" if over.reshape(self.rows, -1)[row].any() else "truncated"] += 1
        self.age[ended] = 0
        return ended

    # Judging
    def findings(self, whole: bool = True) -> list[Finding]:
        """Return the findings after all steps; `whole` is false if playing failed on the way."""
        if not whole:
            return [*self.of_observations(), *self.of_rewards()]
        return [*self.of_observations(), *self.of_rewards(), *self.of_ends(), *self.of_episodes(), *self.of_info()]

    def of_observations(self) -> list[Finding]:
        said = [
            Finding(WRONG, "observation", f"{words}; return what the space declares") for words in self.bad.values()
        ]
        for path, found in self.outside.items():
            words = f"{found.words(path)} at step {found.step} (outside in {found.count:,} of {self.seen:,})"
            said.append(Finding(WRONG, "observation", f"{words}; declare wider bounds, or clip what is shown"))
        for path, words in self.rounded.items():
            what = f"{'.'.join(path)} is " if path else ""
            kind = words.split()[-1]
            said.append(Finding(NOTE, "observation", f"{what}{words}; it is cast, so return .astype({kind!r})"))
        if not said:
            said.append(Finding(OK, "observation", f"shape, dtype and bounds hold in all {self.seen:,}"))
        if self.masked and self.nothing_allowed is not None:
            words = f"no action is allowed at step {self.nothing_allowed}; allow one, or end the episode before"
            said.append(Finding(WRONG, "mask", words))
        elif self.masked:
            said.append(Finding(OK, "mask", "says which actions are allowed, and some always is"))
        return said

    def of_rewards(self) -> list[Finding]:
        if self.reward_bad:
            return [Finding(WRONG, "reward", f"{self.reward_bad}; rewards are finite numbers")]
        if not self.rewards:
            return []
        paid = np.concatenate([np.ravel(one) for one in self.rewards])
        low, high = float(paid.min()), float(paid.max())
        if low == high:
            return [Finding(NOTE, "reward", f"was {low:g} in all {len(paid):,} steps; random actions find no other")]
        words = f"from {low:.4g} to {high:.4g}, mean {paid.mean():.4g}, finite in all {len(paid):,} steps"
        if max(-low, high) > LARGE:
            words += "; so large that agents may learn faster with --rewards normalise-return"
            return [Finding(NOTE, "reward", words)]
        return [Finding(OK, "reward", words)]

    def of_ends(self) -> list[Finding]:
        said = []
        if self.flags:
            words = f"terminated or truncated was of type {', '.join(sorted(self.flags))}; return True or False"
            said.append(Finding(NOTE, "flags", words))
        if self.both is not None:
            words = f"step {self.both} was both terminated and truncated; terminated counts, so return one of them"
            said.append(Finding(NOTE, "flags", words))
        return said or [Finding(OK, "flags", "terminated and truncated are truth values, and never both")]

    def of_episodes(self) -> list[Finding]:
        limit = f"its limit is {self.horizon:,} steps" if self.horizon else "it declares no limit"
        if not self.lengths:
            if self.horizon:
                return [Finding(NOTE, "episodes", f"none has ended in {self.steps:,} steps; {limit}")]
            words = f"none has ended in {self.steps:,} steps, and it declares no limit; give it one"
            return [Finding(WRONG, "episodes", f"{words}, as with --wrap time-limit:1000")]
        ends = ", ".join(f"{count} {how}" for how, count in self.ends.items() if count)
        lengths = f"{min(self.lengths):,} to {max(self.lengths):,} steps, mean {np.mean(self.lengths):.1f}"
        said = [Finding(OK, "episodes", f"{len(self.lengths):,} have ended: {ends}; {lengths}; {limit}")]
        same = len(self.lengths) >= 3 and len(set(self.lengths)) == 1 and self.lengths[0] not in (1, self.horizon)
        if same and not self.ends["truncated"]:
            words = f"each was terminated after {self.lengths[0]:,} steps exactly; where that is a time limit, return"
            said.append(Finding(NOTE, "time limit", f"{words} truncated, so that values go on beyond it"))
        return said

    def of_info(self) -> list[Finding]:
        if not self.info:
            return []
        words = f"has {', '.join(sorted(self.info))}"
        found = [name for name in ("is_success", "success") if name in self.numbers]
        if found:
            words += f"; --env.info {found[0]} has a run report it"
        return [Finding(OK, "info", words)]
