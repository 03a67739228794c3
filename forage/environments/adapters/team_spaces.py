"""Agents with different spaces, mapped to one shared space, as `pettingzoo` and other adapters need.

Actions. Choices are padded to the largest number of any agent, and a mask allows each agent its own. Numbers keep each
agent's own bounds: an entry with different bounds is in [-1, 1] for all, and -1 and 1 are the agent's own.

Observations. Agents with the same Box keep it, a picture with its channels last; other observations are vectors,
flattened to `float32` and padded with zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from jaxtyping import Bool, Float, Shaped

from forage.core.arrays import CHOICES, array_space, choices, float_box, travelling, vector_size
from forage.core.host import Misfit
from forage.core.spaces import (
    MixedSpace,
    Whole,
    describe_space,
    fit_dtype,
    is_bounded,
    picture,
    scale_of,
    spaces_by_path,
)
from forage.core.types import ForageError
from forage.environments.adapters.gymnasium.actions import Door
from forage.environments.adapters.gymnasium.calls import describe_value
from forage.environments.adapters.gymnasium.spaces import as_vector, flat_mask, flat_space


class Own(NamedTuple):
    """An agent's own numbers: `offset + factor * shared`, of as many entries as it has."""

    offset: Float[np.ndarray, " entries"]
    factor: Float[np.ndarray, " entries"]

    def __call__(self, shared: Any) -> Any:
        """Return an agent's own action, of JAX or NumPy, from `[..., entry]` of the shared space."""
        return self.offset + self.factor * shared[..., : len(self.offset)]


def shared_box(boxes: Sequence[spaces.Box]) -> tuple[spaces.Box, list[Own]]:
    """Return the box shared by agents with flat boxes of actions, and each agent's map from it to its own action.

    An entry with the same bounds for all keeps them; one with different, finite bounds becomes [-1, 1]; any other is
    passed on unchanged, and the environment must enforce each agent's own bounds.
    """
    most = max(box.shape[0] for box in boxes)
    low, high = np.zeros((2, most))
    own = [Own(np.zeros(box.shape[0], np.float32), np.ones(box.shape[0], np.float32)) for box in boxes]
    for entry in range(most):
        having = [agent for agent, box in enumerate(boxes) if entry < box.shape[0]]
        lows, highs = (np.array([getattr(boxes[a], side)[entry] for a in having], float) for side in ("low", "high"))
        low[entry], high[entry] = lows.min(), highs.max()
        same = (lows == lows[0]).all() and (highs == highs[0]).all()
        if same or not all(is_bounded(boxes[agent])[entry] for agent in having):
            continue
        low[entry], high[entry] = -1, 1
        for agent, least, greatest in zip(having, lows, highs, strict=True):
            own[agent].offset[entry], own[agent].factor[entry] = (least + greatest) / 2, (greatest - least) / 2
    return float_box(low, high), own


class SharedActions:
    """One action space for all agents of `num_envs` environments, and each agent's own action in it."""

    def __init__(self, name: str, inner: Mapping[str, spaces.Space[Any]], num_envs: int):
        """Build the shared space of `inner`, each agent's own. Raise `ForageError` for mixtures and spaces unknown to
        `Door`.
        """
        self.name, self.agents, self.inner = name, list(inner), list(inner.values())
        self.doors = [Door(name, space, num_envs) for space in self.inner]
        outer: list[Any] = [door.space for door in self.doors]
        self.same = identical_spaces(outer)
        self.counts: list[np.ndarray] | None = None  # options of each choice, for each agent
        self.own: list[Own] | None = None
        self.allowed = self.mine = np.zeros((len(inner), 0), bool)
        if all(isinstance(space, CHOICES) for space in outer):
            self.counts = [choices(space) for space in outer]
        if self.same and isinstance(outer[0], MixedSpace):
            self.counts = [space.choices.nvec for space in outer]
        if self.counts is not None:
            self.allowed, self.mine = self._option_masks(self.counts)
            ends = np.cumsum(padded_counts(self.counts).max(0)).tolist()
            self.options = [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]
        if self.same:
            self.space: spaces.Space[Any] = outer[0]
        elif self.counts is not None:
            most = padded_counts(self.counts).max(0)
            single = all(isinstance(space, spaces.Discrete) for space in outer)
            self.space = spaces.Discrete(int(most[0])) if single else spaces.MultiDiscrete(most)
        elif all(isinstance(space, spaces.Box) and np.dtype(space.dtype).kind == "f" for space in outer):
            flat = [spaces.Box(box.low.ravel(), box.high.ravel(), dtype=np.float32) for box in outer]
            self.space, self.own = shared_box(flat)
        else:
            raise ForageError(
                f"{name} has agents with actions in "
                f"{' and in '.join(sorted({describe_space(space) for space in outer}))}, "
                f"which cannot share one policy; choices for all, or boxes of floats for all, work."
            )

    @staticmethod
    def _option_masks(
        counts: list[np.ndarray],
    ) -> tuple[Bool[np.ndarray, "agent option"], Bool[np.ndarray, "agent option"]]:
        """Return the masks of the options that each agent has, and of those that are its own.

        A choice that an agent lacks has a single option, which is not its own.
        """
        each = padded_counts(counts)
        most = each.max(0)
        allowed = np.concatenate([np.arange(n) < each[:, [j]] for j, n in enumerate(most)], 1)
        has = np.arange(len(most)) < np.array([len(count) for count in counts])[:, None]
        return allowed, allowed & np.repeat(has, most, axis=1)

    def mask(self, agent: int, said: Any) -> Bool[np.ndarray, " option"]:
        """Return an agent's mask over the shared choices. Raise `ForageError` if its own mask does not fit."""
        space, row = self.inner[agent], self.allowed[agent].copy()
        if isinstance(space, spaces.Discrete) and isinstance(said, np.ndarray) and said.shape == (int(space.n),):
            row[self.mine[agent]] = said != 0  # by far the most frequent, and quick
        else:
            row[self.mine[agent]] = flat_mask(f"Agent {self.agents[agent]} of {self.name}", space, said)
        for options in self.options:
            if not row[options].any():  # something must be chosen, and of the agent's own
                row[options] = self.allowed[agent, options]
        return row

    def singles(self, action: Shaped[np.ndarray, "env agent ..."]) -> list[list[Any]]:
        """Return each agent's own action in each environment: by agent, then by environment."""
        return [door.singles(self._cut(agent, action[:, agent])) for agent, door in enumerate(self.doors)]

    def _cut(self, agent: int, action: np.ndarray) -> np.ndarray:
        if self.same:
            return action
        if self.own is not None:
            return self.own[agent](action).reshape(self.doors[agent].shape)
        assert self.counts is not None
        count = self.counts[agent]
        if isinstance(self.space, spaces.Discrete):
            return np.minimum(action, count[0] - 1)
        return np.minimum(action[:, : len(count)], count - 1).reshape(self.doors[agent].shape)


def padded_counts(counts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the number of options of each choice, `[agent, choice]`; 1 for a choice that an agent lacks."""
    rows = np.ones((len(counts), max(map(len, counts))), np.int64)
    for row, count in zip(rows, counts, strict=True):
        row[: len(count)] = count
    return rows


class SharedView:
    """One shared observation space for all agents, and the conversion of each agent's observation to it."""

    def __init__(self, name: str, inner: Mapping[str, spaces.Space[Any]]):
        """Build the shared space of `inner`, each agent's own. Raise `ForageError` if they do not fit into one."""
        self.agents, self.inner = list(inner), list(inner.values())
        for agent, space in inner.items():
            check_size(name, agent, space)
        self.same = identical_spaces(self.inner)
        pictures = [picture(space) for space in self.inner]
        if any(pictures) and not self.same:
            other = next(space for space in self.inner if not identical_spaces([self.inner[0], space]))
            raise ForageError(
                f"{name} shows agents pictures that differ, in {self.inner[0]} and in {other}; pictures of one size, "
                f"dtype and range work."
            )
        self.picture = pictures[0]
        self.kept = self.same and isinstance(self.inner[0], spaces.Box)
        self.box = self._stored_box(self.inner[0]) if self.kept else self._pad_box(name)  # pyrefly: ignore[bad-argument-type]
        scale = scale_of(self.box)
        dtype = np.dtype(self.box.dtype)
        if isinstance(scale, np.ndarray):  # each entry has a bound of its own, and so has this one
            self.one: float = 1
        else:
            self.one = min(round(1 / scale), np.iinfo(dtype.name).max) if dtype.kind in "iu" else 1 / scale
        """What a network reads as 1."""

    def _stored_box(self, space: spaces.Box) -> spaces.Box:
        box: Any = travelling(space)
        shape = self.picture.shape if self.picture else (int(np.prod(box.shape)),)
        low, high = (self.picture(bound) if self.picture else bound.reshape(shape) for bound in (box.low, box.high))
        # Zeros stand for what agents see that are not there.
        return of_kind(box, np.minimum(low, 0), np.maximum(high, 0))

    def _pad_box(self, name: str) -> spaces.Box:
        flat = [flat_space(name, space) for space in self.inner]
        low, high = np.zeros((2, max(box.shape[0] for box in flat)), np.float32)
        for box in flat:
            size = box.shape[0]
            low[:size], high[:size] = np.minimum(low[:size], box.low), np.maximum(high[:size], box.high)
        return spaces.Box(low, high, dtype=np.float32)

    def write(self, row: np.ndarray, agent: int, said: Any) -> None:
        """Write an agent's observation into its `row`. Raise `Misfit` if it is outside the agent's space."""
        space: Any = self.inner[agent]
        if not isinstance(space, spaces.Box):
            flat = as_vector(space, said)
            row[: len(flat)] = flat
            return
        value = np.asarray(said)
        what = f"returned as observation of agent {self.agents[agent]} {describe_value(value)}"
        if value.shape != space.shape:
            raise Misfit(what, f"it should be {space.dtype}{list(space.shape)}")
        try:
            value = fit_dtype(value, row.dtype)
        except ValueError as error:
            raise Misfit(f"{what} ({error})", f"it should be {space.dtype}{list(space.shape)}") from None
        if self.picture:
            row[...] = self.picture(value)
        else:
            row[: value.size] = value.ravel()

    def with_agent_number(self, repeats: int, number: int) -> spaces.Box:
        """Return the box of `repeats` of these observations, with an agent's number, one-hot, behind them."""
        low, high = (np.concatenate([bound] * repeats, -1) for bound in (self.box.low, self.box.high))
        ends = (*low.shape[:-1], number)
        low, high = np.concatenate([low, np.zeros(ends)], -1), np.concatenate([high, np.full(ends, self.one)], -1)
        return of_kind(self.box, low, high)


def of_kind(box: spaces.Box, low: np.ndarray, high: np.ndarray) -> spaces.Box:
    """Return a box with other bounds, of the same dtype and meaning."""
    dtype = np.dtype(box.dtype).type
    return (Whole if isinstance(box, Whole) else spaces.Box)(low.astype(dtype), high.astype(dtype), low.shape, dtype)


def check_size(name: str, agent: str, space: spaces.Space[Any]) -> None:
    """Raise `ForageError` for observations without a fixed size, and for pictures combined with other parts."""
    if not vector_size(space):
        raise ForageError(
            f"{name} shows agent {agent} observations in {type(space).__name__}, which cannot be made one vector; "
            f"spaces made of Box, Discrete, MultiDiscrete, MultiBinary, Text, Dict and Tuple work."
        )
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for path, leaf in spaces_by_path(array_space(name, space)).items():
            if picture(leaf) is not None:
                raise ForageError(
                    f"{name} shows agent {agent} a picture, {'.'.join(path)}, among other things, and what many agents "
                    f"see is one picture or one vector; show the picture alone."
                )


def identical_spaces(each: Sequence[spaces.Space[Any]]) -> bool:
    """Return whether spaces are the same to the last bit; Gymnasium's own comparison allows for small differences."""
    first = each[0]
    if isinstance(first, spaces.Box):
        return all(
            isinstance(space, spaces.Box)
            and (space.shape, space.dtype) == (first.shape, first.dtype)
            and np.array_equal(space.low, first.low)
            and np.array_equal(space.high, first.high)
            for space in each
        )
    return all(space == first for space in each)
