"""Ensembles of MLPs that learn the same target from different starts: their disagreement measures a lack of data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from forage.nn.layers import MLP

RowLoss = Callable[[Float[Array, " outputs"], Float[Array, " targets"]], Float[Array, ""]]
"""The cost of one member's prediction of one row."""


def squared_error(predicted: Float[Array, " outputs"], target: Float[Array, " outputs"]) -> Float[Array, ""]:
    """mean_k (predicted_k - target_k)^2."""
    return jnp.mean((predicted - target) ** 2)


class Ensemble(equinox.Module):
    """MLPs of one shape with weights of their own, as one module with a leading axis `member` in its leaves.

    An optimiser that works number by number, as Adam does, trains each member as if it were alone, because the loss
    is a sum over members (no gradient clipping by a norm over all of them, then). Models of a mean and a variance are
    members with twice the outputs and a loss that reads them so.
    """

    members: MLP

    def __init__(
        self,
        key: Key[Array, ""],
        number: int,
        sizes: Sequence[int],
        activation: str = "relu",
        gain: float | None = None,
    ):
        """Return `number` MLPs of `sizes` (inputs first, outputs last); `gain` as for `Linear`."""

        def member(key: Key[Array, ""]) -> MLP:
            return MLP(key, sizes, activation, gain, last_gain=gain)

        self.members = jax.vmap(member)(jax.random.split(key, number))

    @property
    def number(self) -> int:
        """Return the number of members."""
        return self.members.layers[0].bias.shape[0]

    def __call__(self, rows: Float[Array, "*batch inputs"]) -> Float[Array, "member *batch outputs"]:
        """Return every member's prediction of every row."""
        return jax.vmap(lambda member: member(rows))(self.members)

    def loss(
        self,
        rows: Float[Array, "row inputs"],
        targets: Float[Array, "row targets"],
        weight: Float[Array, "row #member"] | None = None,
        cost: RowLoss = squared_error,
    ) -> Float[Array, ""]:
        """Compute the training loss sum_m mean_i weight_im cost(prediction_m(row_i), target_i).

        `weight` makes members see different rows (`bootstrap`), or leaves rows out for all of them; 1 without it.
        """
        costs = jax.vmap(jax.vmap(cost, in_axes=(0, 0)), in_axes=(0, None))(self(rows), targets)
        return (costs if weight is None else weight.T * costs).mean(1).sum()


def bootstrap(key: Key[Array, ""], rows: int, members: int, keep: float | Array) -> Float[Array, "row member"]:
    """Draw the weights of the rows for each member: 1 / keep with probability `keep`, else 0, so that means are
    unbiased.

    As in the code of Pathak, Gandhi, Gupta (2019, arXiv 1906.04161), where `keep` is 0.8.
    """
    return jax.random.bernoulli(key, keep, (rows, members)) / keep


def prediction_variance(predictions: Float[Array, "member *batch outputs"]) -> Float[Array, "*batch outputs"]:
    """Var_m(prediction_mk), of each output. Member by member: as one reduction it takes a CPU three times as long."""
    mean = sum(predictions[1:], predictions[0]) / len(predictions)
    return sum(((member - mean) ** 2 for member in predictions[1:]), (predictions[0] - mean) ** 2) / len(predictions)


def disagreement(predictions: Float[Array, "member *batch outputs"]) -> Float[Array, "*batch"]:
    """Compute mean_k Var_m(prediction_mk): the members' variance around their mean, averaged over the outputs."""
    return prediction_variance(predictions).mean(-1)
