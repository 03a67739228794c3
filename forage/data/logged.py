"""Logged data: whole episodes of some policy as arrays, with the probabilities of its actions if they are known."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from forage.core.arrays import list_arrays, map_arrays
from forage.core.types import Experience, ForageError
from forage.data.episodes import are_whole

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, PyTree

EPISODE_FIELDS = ("observation", "action", "reward", "next_observation", "terminated", "truncated")
OPTIONAL_FIELDS = ("behaviour_probability", "cut", "start")  # of a data set that knows them
MOST_STATES = 2000


@dataclasses.dataclass(frozen=True, eq=False)
class Transitions:
    """Whole episodes, one after another, each in the order of time.

    - `action`: `[transition, ...]`, numbers of one action each or of several.
    - `observation`, `next_observation`: leaves `[transition, ...]`; `next_observation` is what the step led to, also
      where the episode ends there.
    - `terminated`: nothing comes after. `truncated`: only the clock ran out. An episode's last transition is one of
      them, no other transition is.
    - `behaviour_probability`: the probability with which the action was chosen, in (0, 1]. Estimators that weigh by
      importance need it.
    - `episode`: the number of each transition's episode, 0, 0, 0, 1, 1, ... Without it episodes follow from their ends.
    - `cut`: true at the last transition of an episode that was not recorded as a whole. Without it the environment's
      time limit tells which episodes are (`whole`).
    - `start`: true at the first transition of an episode that was recorded from its start, false where the recording
      goes on behind a gap, as another episode here. Without it each episode was recorded from its start.

    Raises `ForageError` for arrays that do not fit one another, numbers that are not finite, probabilities outside
    (0, 1] and episodes that are not whole.
    """

    observation: PyTree[np.ndarray]
    action: np.ndarray
    reward: Float[np.ndarray, " transition"]
    next_observation: PyTree[np.ndarray]
    terminated: Bool[np.ndarray, " transition"]
    truncated: Bool[np.ndarray, " transition"]
    behaviour_probability: Float[np.ndarray, " transition"] | None = None
    episode: Int[np.ndarray, " transition"] | None = None
    cut: Bool[np.ndarray, " transition"] | None = None
    start: Bool[np.ndarray, " transition"] | None = None

    def __post_init__(self):
        put = functools.partial(object.__setattr__, self)
        for name in ("observation", "next_observation"):
            put(name, map_arrays(np.asarray, getattr(self, name)))
        put("action", self._check_actions(np.asarray(self.action)))
        put("reward", np.asarray(self.reward, np.float64))
        for name in ("terminated", "truncated"):
            put(name, np.asarray(getattr(self, name), bool))
        if self.behaviour_probability is not None:
            put("behaviour_probability", np.asarray(self.behaviour_probability, np.float64))
        for name in ("cut", "start"):
            if getattr(self, name) is not None:
                put(name, np.asarray(getattr(self, name), bool))
        if self.episode is None:
            ended = self.terminated | self.truncated
            put("episode", np.concatenate([[0], np.cumsum(ended)[:-1]]))
        put("episode", np.asarray(self.episode, np.int64))
        self._check_shapes()
        self._check_numbers()
        self._check_episodes()

    def _check_actions(self, action: np.ndarray) -> np.ndarray:
        """Return the actions in the dtype that they are kept in."""
        if action.ndim < 1 or action.size == 0:
            raise ForageError(f"Actions are an array that begins with the transitions, not one of {action.shape}.")
        return action

    def _check_shapes(self) -> None:
        count = len(self.action)
        flat = {name: getattr(self, name) for name in ("reward", "terminated", "truncated", "episode")}
        flat |= {name: array for name in OPTIONAL_FIELDS if (array := getattr(self, name)) is not None}
        for name, array in flat.items():
            if array.shape != (count,):
                raise ForageError(f"{name} has shape {array.shape}; with {count} actions it should be ({count},).")
        ours, theirs = (list_arrays(tree) for tree in (self.observation, self.next_observation))
        shapes = [[leaf.shape for leaf in leaves] for leaves in (ours, theirs)]
        if shapes[0] != shapes[1] or any(shape[:1] != (count,) for shape in shapes[0]):
            raise ForageError(
                f"observation and next_observation have shapes {shapes[0]} and {shapes[1]}; both should be alike and "
                f"begin with the {count} transitions."
            )

    def _check_numbers(self) -> None:
        named = [("reward", self.reward)] + [("action", self.action)] * (self.action.dtype.kind == "f")
        for name in ("observation", "next_observation"):
            named += [(name, leaf) for leaf in list_arrays(getattr(self, name)) if leaf.dtype.kind == "f"]
        for name, array in named:
            wrong = ~np.isfinite(array).reshape(len(array), -1).all(1)
            if wrong.any():
                raise ForageError(f"{name} is not finite in {wrong.sum()} transitions, first in {wrong.argmax()}.")
        if self.behaviour_probability is not None:
            wrong = ~((self.behaviour_probability > 0) & (self.behaviour_probability <= 1))
            if wrong.any():
                at = int(wrong.argmax())
                raise ForageError(
                    f"behaviour_probability lies in (0, 1], for the action was taken, and is "
                    f"{self.behaviour_probability[at]} in transition {at}."
                )

    def _check_episodes(self) -> None:
        ended, episode = self.terminated | self.truncated, self.numbers
        both = self.terminated & self.truncated
        if both.any():
            raise ForageError(f"Transition {both.argmax()} is terminated and truncated; termination alone counts.")
        steps = np.diff(episode)
        if episode[0] != 0 or not np.isin(steps, (0, 1)).all():
            raise ForageError("episode counts 0, 0, ..., 1, 1, ...: whole episodes, one after another, without gaps.")
        last = np.append(steps == 1, True)
        if (last & ~ended).any():
            raise ForageError(
                f"Episode {episode[(last & ~ended).argmax()]} is not whole: its last transition neither terminates nor "
                f"is truncated; leave it out, or mark it as truncated."
            )
        if (ended & ~last).any():
            raise ForageError(f"Episode {episode[(ended & ~last).argmax()]} goes on after its end.")
        if self.cut is not None and (wrong := self.cut & ~last).any():
            raise ForageError(f"Transition {wrong.argmax()} is marked as cut, and is not the last of its episode.")
        if self.start is not None and (wrong := self.start & np.append(False, steps == 0)).any():
            raise ForageError(f"Transition {wrong.argmax()} is marked as a start, and is not the first of its episode.")

    @property
    def numbers(self) -> Int[np.ndarray, " transition"]:
        """Return the episode of each transition."""
        assert self.episode is not None
        return self.episode

    @property
    def transitions(self) -> int:
        return len(self.action)

    @property
    def episodes(self) -> int:
        return int(self.numbers[-1]) + 1

    @functools.cached_property
    def lengths(self) -> Int[np.ndarray, " episode"]:
        return np.bincount(self.numbers)

    @functools.cached_property
    def first(self) -> Int[np.ndarray, " episode"]:
        """Return the index of each episode's first transition."""
        return np.cumsum(self.lengths) - self.lengths

    @functools.cached_property
    def starts(self) -> Bool[np.ndarray, " episode"]:
        """Return the mask of episodes recorded from their start."""
        return np.ones(self.episodes, bool) if self.start is None else self.start[self.first]

    @functools.cached_property
    def origins(self) -> Int[np.ndarray, " episode"]:
        """Return the number of the start that each episode belongs to.

        What was recorded behind a gap belongs to the last start before it, or to the first one if there is none.
        """
        return np.maximum(np.cumsum(self.starts) - 1, 0)

    @functools.cached_property
    def returns(self) -> Float[np.ndarray, " episode"]:
        """Return the sum of each episode's rewards."""
        return np.bincount(self.numbers, self.reward)

    def whole(self, horizon: int | None) -> Bool[np.ndarray, " episode"]:
        """Return the mask of episodes recorded to their end; see `episodes.are_whole`."""
        last = self.first + self.lengths - 1
        return are_whole(self.terminated[last], self.lengths, horizon, None if self.cut is None else self.cut[last])

    def saying_cut(self, horizon: int | None, cut: Bool[np.ndarray, " episode"] | None = None) -> Transitions:
        """Return the same with `cut`, of these episodes or of those that are not whole by the time limit."""
        cut = ~self.whole(horizon) if cut is None else cut
        marks = np.zeros(self.transitions, bool)
        marks[(self.first + self.lengths - 1)[cut]] = True
        return dataclasses.replace(self, cut=marks)

    def mark_starts(self, starts: Bool[np.ndarray, " episode"]) -> Transitions:
        """Return the same with the mask of episodes that were recorded from their start."""
        marks = np.zeros(self.transitions, bool)
        marks[self.first[starts]] = True
        return dataclasses.replace(self, start=marks)

    def mean_return(self, horizon: int | None) -> float | None:
        """Return the mean return of the whole episodes, or `None` if there are none."""
        whole = self.whole(horizon)
        return float(self.returns[whole].mean()) if whole.any() else None

    @functools.cached_property
    def time(self) -> Int[np.ndarray, " transition"]:
        """Return the steps since the episode began."""
        return np.arange(self.transitions) - np.repeat(self.first, self.lengths)


def select_transitions(found: Transitions, keep: Bool[np.ndarray, " transition"]) -> Transitions:
    """Return the transitions to keep, whole episodes."""
    names = (*EPISODE_FIELDS, *(name for name in OPTIONAL_FIELDS if getattr(found, name) is not None))
    return Transitions(**{name: map_arrays(lambda x: x[keep], getattr(found, name)) for name in names})


def join_logs(parts: Sequence[Transitions], horizon: int | None) -> Transitions:
    """Return several data sets as one, their episodes one after another.

    If some of them say which episodes the recording cut, the time limit (`horizon`) tells it of the others.
    """
    if any(part.cut is not None for part in parts):
        parts = [part.saying_cut(horizon) for part in parts]
    if any(part.start is not None for part in parts):
        parts = [part.mark_starts(part.starts) for part in parts]
    names = [*EPISODE_FIELDS, *(name for name in OPTIONAL_FIELDS if getattr(parts[0], name) is not None)]
    fields = {
        name: map_arrays(lambda *arrays: np.concatenate(arrays), *(getattr(part, name) for part in parts))
        for name in names
    }
    starts = np.cumsum([0, *(part.episodes for part in parts[:-1])])
    number = np.concatenate([part.numbers + start for part, start in zip(parts, starts, strict=True)])
    return dataclasses.replace(parts[0], **fields, episode=number)


@dataclasses.dataclass(frozen=True, eq=False)
class LoggedEpisodes(Transitions):
    """Whole episodes as off-policy evaluation takes them: actions are numbers from 0. See `Transitions`."""

    def _check_actions(self, action: np.ndarray) -> np.ndarray:
        if action.ndim != 1 or action.size == 0:
            raise ForageError(f"Logged actions are an array of shape (transitions,), not {action.shape}.")
        if action.dtype.kind not in "iu" or action.min() < 0:
            raise ForageError(
                f"Off-policy evaluation is for discrete actions, whole numbers from 0; the logged ones are "
                f"{action.dtype}{f' with {action.min()}' if action.dtype.kind in 'iu' else ''}."
            )
        return action.astype(np.int64)

    @functools.cached_property
    def states(self) -> tuple[Int[np.ndarray, " transition"], Int[np.ndarray, " transition"], int] | None:
        """Return the numbers of the observations and next observations, and the number of different ones.

        `None` if there are more than `MOST_STATES`, too many for a table.
        """
        rows = [
            np.concatenate([leaf.reshape(self.transitions, -1).astype(np.float64) for leaf in list_arrays(tree)], 1)
            for tree in (self.observation, self.next_observation)
        ]
        both = np.concatenate(rows) + 0.0  # so that -0.0 has the bytes of 0.0
        if ((both == 0) | (both == 1)).all() and (both.sum(1) == 1).all():  # one-hot already
            number, count = both.argmax(1), both.shape[1]
        else:
            # Rows that agree have the same bytes, which are quicker to sort than rows of numbers.
            whole = np.dtype((np.void, both.itemsize * both.shape[1]))
            places, number = np.unique(np.ascontiguousarray(both).view(whole)[:, 0], return_inverse=True)
            count = len(places)
        if count > MOST_STATES:
            return None
        return number[: self.transitions], number[self.transitions :], count

    def select(self, keep: Bool[np.ndarray, " transition"]) -> LoggedEpisodes:
        """Return the selected transitions; each episode's last one counts as truncated unless it was the end."""
        kept, number = np.flatnonzero(keep), self.numbers[keep]
        last = np.append(np.diff(number) != 0, True)
        parts = map_arrays(lambda x: x[kept], {name: getattr(self, name) for name in EPISODE_FIELDS})
        parts["truncated"] = parts["truncated"] | (last & ~parts["terminated"])
        for name in OPTIONAL_FIELDS:
            value = getattr(self, name)
            parts[name] = None if value is None else value[kept]
        return LoggedEpisodes(**parts)

    @classmethod
    def from_data(cls, data: Transitions) -> LoggedEpisodes:
        """Return a data set's transitions. Raise `ForageError` if its actions are not numbers from 0."""
        return cls(**{field.name: getattr(data, field.name) for field in dataclasses.fields(Transitions)})

    @classmethod
    def from_episodes(cls, episodes: Sequence[Mapping[str, Any] | Experience]) -> LoggedEpisodes:
        """Join episodes: each a mapping from the fields' names to arrays `[time, ...]`, or an `Experience` of them.

        `behaviour_probability` is a field of mappings, in all of them or in none. An `Experience` has none.
        """
        if not episodes:
            raise ForageError("There is no episode to join.")
        parts = [e._asdict() if isinstance(e, Experience) else dict(e) for e in episodes]
        missing = [name for name in EPISODE_FIELDS if any(name not in part for part in parts)]
        if missing:
            raise ForageError(f"Each episode needs {', '.join(EPISODE_FIELDS)}; {missing[0]} is missing.")
        known = ["behaviour_probability" in part for part in parts]
        if any(known) and not all(known):
            raise ForageError("Some episodes have behaviour_probability and others have none; give it to all or none.")
        names = (*EPISODE_FIELDS, "behaviour_probability") if all(known) else EPISODE_FIELDS
        joined = {
            name: map_arrays(lambda *leaves: np.concatenate(leaves), *(part[name] for part in parts)) for name in names
        }
        lengths = [len(np.asarray(part["action"])) for part in parts]
        return cls(**joined, episode=np.repeat(np.arange(len(parts)), lengths))

    @classmethod
    def from_rollout(
        cls, rollout: Experience, behaviour_probability: Float[np.ndarray, "time env"] | None = None
    ) -> LoggedEpisodes:
        """Return the whole episodes of a rollout (leaves `time env ...`) that starts at the start of episodes.

        Join consecutive rollouts along time first. Unfinished episodes at the end are left out.
        """
        ended = np.asarray(rollout.terminated) | np.asarray(rollout.truncated)
        if ended.ndim != 2 or not ended.any():
            raise ForageError(f"A rollout has axes (time, env) and an episode that ends; this one is {ended.shape}.")
        length = len(ended)
        until = np.where(ended.any(0), length - ended[::-1].argmax(0), 0)  # one past each environment's last end
        keep = (np.arange(length)[:, None] < until).T.reshape(-1)

        def flat(x: Any) -> np.ndarray:
            x = np.asarray(x)
            return np.swapaxes(x, 0, 1).reshape(-1, *x.shape[2:])[keep]

        fields = {name: map_arrays(flat, getattr(rollout, name)) for name in EPISODE_FIELDS}
        return cls(
            **fields, behaviour_probability=None if behaviour_probability is None else flat(behaviour_probability)
        )
