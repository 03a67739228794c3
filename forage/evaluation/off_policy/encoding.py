"""Observations and actions as the columns of a regression, and the actions with which a policy answers observations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from jaxtyping import Float, Int, PyTree

from forage.core.types import ForageError
from forage.evaluation.off_policy.target import flatten_observation

MOST_NUMBERS = 100  # of an observation; longer ones are reduced to so many principal components
MOST_CHOICES = 64  # of one action column with a column for each choice; beyond, the choice's number is the column
MOST_PRODUCTS = 150
FITTED_ROWS = 5000  # for principal components


class PolicyActions(NamedTuple):
    """The actions of a policy for a batch of observations, each with its probability; these sum to 1 over choices."""

    action: np.ndarray  # choice batch ...
    probability: Float[np.ndarray, "choice batch"]


Answer = Callable[[PyTree[np.ndarray]], PolicyActions]
"""A policy: from observations (leaves `[batch, ...]`) to its actions."""


def action_columns(space: gymnasium.Space[Any], action: np.ndarray) -> Float[np.ndarray, "row column"]:
    """Return actions as numbers: one-hot choices, or the numbers themselves."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return _one_hot(action - int(space.start), int(space.n))
    if isinstance(space, gymnasium.spaces.MultiDiscrete) and space.nvec.ndim == 1:
        parts = [_one_hot(action[:, i] - int(space.start[i]), int(n)) for i, n in enumerate(space.nvec)]
        return np.concatenate(parts, 1)
    if isinstance(space, gymnasium.spaces.Box | gymnasium.spaces.MultiBinary):
        return np.asarray(action, np.float64).reshape(len(action), -1)
    raise ForageError(
        f"A value is estimated for actions that are one choice, several choices or numbers, not {type(space).__name__}."
    )


def count_choices(space: gymnasium.Space[Any]) -> list[int] | None:
    """Return the number of choices of each action column; `None` for actions of numbers."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, gymnasium.spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return [int(n) for n in space.nvec]
    if isinstance(space, gymnasium.spaces.MultiBinary):
        return [2] * int(np.prod(space.shape))
    return None


def number_choices(space: gymnasium.Space[Any], action: np.ndarray) -> Int[np.ndarray, "row column"]:
    """Return the choice of each action column, from 0."""
    start = getattr(space, "start", 0)
    return (np.asarray(action).reshape(len(action), -1) - np.reshape(start, -1)).astype(np.int64)


def _one_hot(number: np.ndarray, count: int) -> Float[np.ndarray, "row choice"]:
    if count > MOST_CHOICES:
        return np.asarray(number, np.float64).reshape(-1, 1)
    return np.eye(count)[np.asarray(number, np.int64)]


@dataclasses.dataclass(frozen=True, eq=False)
class Encoder:
    """The columns of a regression on observations and actions, standardised by the data and kept within their range."""

    space: gymnasium.Space[Any]
    directions: Float[np.ndarray, "number column"] | None
    mean: Float[np.ndarray, " column"]
    deviation: Float[np.ndarray, " column"]
    low: Float[np.ndarray, " column"]
    high: Float[np.ndarray, " column"]
    observed: int  # columns of the observation, which come first

    @classmethod
    def from_data(cls, observation: PyTree[np.ndarray], action: np.ndarray, space: gymnasium.Space[Any]) -> Encoder:
        """Return the encoder of a data set. Columns that never vary are left at 0."""
        numbers, directions = flatten_observation(observation), None
        if numbers.shape[1] > MOST_NUMBERS:
            some = numbers[np.linspace(0, len(numbers) - 1, min(len(numbers), FITTED_ROWS)).astype(int)]
            directions = np.linalg.svd(some - some.mean(0), full_matrices=False)[2][:MOST_NUMBERS].T
            numbers = numbers @ directions
        columns = np.concatenate([numbers, action_columns(space, action)], 1)
        mean, deviation = columns.mean(0), columns.std(0)
        deviation = np.where(deviation > 1e-9 * (1 + np.abs(mean)), deviation, np.inf)
        scaled = (columns - mean) / deviation
        return cls(space, directions, mean, deviation, scaled.min(0), scaled.max(0), numbers.shape[1])

    def __call__(self, observation: PyTree[np.ndarray], action: np.ndarray) -> Float[np.ndarray, "row column"]:
        """Return the columns of observations with actions."""
        numbers = flatten_observation(observation)
        if self.directions is not None:
            numbers = numbers @ self.directions
        columns = np.concatenate([numbers, action_columns(self.space, action)], 1)
        return np.clip((columns - self.mean) / self.deviation, self.low, self.high)


@dataclasses.dataclass(frozen=True, eq=False)
class Polynomial:
    """The features 1, each column, and products of two columns."""

    left: Int[np.ndarray, " product"]
    right: Int[np.ndarray, " product"]

    @classmethod
    def from_columns(cls, columns: Float[np.ndarray, "row column"], observed: int) -> Polynomial:
        """Return the features for a data set, whose first columns are `observed` and whose other ones are actions.

        In this order, as long as they are few: squares of numbers, products with actions, products of numbers.
        """
        count = [len(np.unique(values[:10_000])) for values in columns.T]
        number, varies = ([at for at, n in enumerate(count) if n > least] for least in (2, 1))
        action = [at for at in varies if at >= observed]
        groups = (
            [(i, i) for i in number],
            [(i, j) for j in action for i in varies if i < j],
            [(i, j) for i in number for j in varies if i != j and (i < j or j not in number)],
        )
        pairs: list[tuple[int, int]] = []
        for group in groups:
            more = pairs + [pair for pair in group if pair not in pairs and pair[::-1] not in pairs]
            pairs = more if len(more) <= MOST_PRODUCTS else pairs
        left, right = np.array(pairs, np.int64).reshape(-1, 2).T
        return cls(left, right)

    def __call__(self, columns: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "row feature"]:
        """Return the features of rows."""
        products = columns[:, self.left] * columns[:, self.right]
        return np.concatenate([np.ones((len(columns), 1)), columns, products], 1)
