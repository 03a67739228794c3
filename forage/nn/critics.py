"""Critics of continuous actions: one action value, several of them as one stacked pytree, and their loss.

With N critics Q_i and targets Q'_i, what soft actor-critic, TD3 and what is built on them ask for:

    each_value      Q_1(s, a) ... Q_N(s, a)
    least_of_some   min over a random subset of M of Q'_i(s, a)  (Chen et al., 2021, arXiv 2101.05982; all, without M)
    squared_error   sum_i mean(weight (Q_i - target)^2) / 2
    value_error     that, or the cross-entropy of values that are histograms (`Bins`)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import equinox
import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Bool, Float, Key, PyTree

from forage.core.spaces import seen, split_mask
from forage.nn.encoders import Encoder
from forage.nn.networks import CNN, MLP, Residual, Style, Torso, body, input_size

Module = TypeVar("Module")


class Bins(NamedTuple):
    """Values as histograms over `number` bins of equal width between two ends, a value being the histogram's mean.

    A target y is told as the share of each bin of a normal distribution about y, cut at the ends, whose deviation is
    `spread` bins (HL-Gauss; Farebrother et al., 2024, arXiv 2403.03950, section 3.1, with their 0.75).
    """

    number: int
    low: float
    high: float
    spread: float = 0.75

    def edges(self) -> Float[Array, " edges"]:
        return jnp.linspace(self.low, self.high, self.number + 1)

    def value(self, logits: Float[Array, "*batch bins"]) -> Float[Array, "*batch"]:
        """Compute the mean of the histogram."""
        edges = self.edges()
        return jax.nn.softmax(logits) @ ((edges[:-1] + edges[1:]) / 2)

    def shares(self, target: Float[Array, "*batch"]) -> Float[Array, "*batch bins"]:
        """Return what histogram a value is told as."""
        deviation = self.spread * (self.high - self.low) / self.number
        target = jnp.clip(target, self.low, self.high)
        below = jax.scipy.stats.norm.cdf((self.edges() - target[..., None]) / deviation)
        return jnp.diff(below) / (below[..., -1:] - below[..., :1])

    def loss(self, logits: Float[Array, "*batch bins"], target: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
        """Compute the cross-entropy of a histogram and what it should be."""
        return -(self.shares(target) * jax.nn.log_softmax(logits)).sum(-1)


class ActionValue(equinox.Module):
    """Q(s, a) as an MLP of observation and action side by side; images and dictionaries go through encoders first.

    With `bins` a value is the mean of a histogram. What else several `outputs` stand for, somebody else knows.
    """

    encoder: Encoder | None
    body: MLP | Residual
    categories: int | None = equinox.field(static=True)
    bins: Bins | None = equinox.field(static=True)

    def __init__(
        self,
        key: Key[Array, ""],
        space: spaces.Space[Any],
        dimensions: int,
        sizes: Sequence[int],
        style: Style = Style(),  # noqa: B008
        outputs: int = 1,
        bins: Bins | None = None,
    ):
        """`dimensions`: numbers in an action. Weights and biases start uniform in +-1/sqrt(inputs)."""
        encoder_key, body_key = jax.random.split(key)
        torso = Torso(encoder_key, space, sizes, style)
        self.encoder = torso.body if isinstance(torso.body, CNN) else torso.encoder
        self.categories = torso.categories
        inputs = input_size(seen(space)) if self.encoder is None else self.encoder.size
        self.bins = bins
        self.body = body(body_key, inputs + dimensions, sizes, bins.number if bins else outputs, style)

    def __call__(
        self,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        key: Key[Array, ""] | None = None,
    ) -> Float[Array, " batch"]:
        """Values of a batch (leaves of `observation`: `batch ...`); `key` as for `MLP`."""
        outputs = self.outputs(observation, action, key)
        return self.bins.value(outputs) if self.bins else outputs[:, 0]

    def outputs(
        self,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        key: Key[Array, ""] | None = None,
    ) -> Float[Array, "batch outputs"]:
        """Return what the last layer says."""
        return self.body(self.read(observation, action), key)

    def taught(
        self,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        counts: Bool[Array, " batch"],
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "batch outputs"], ActionValue]:
        """Return the last layer's outputs while it learns, and the critic with its running statistics moved.

        `counts`: as for `MLP.taught`, of a critic with batch normalisation.
        """
        assert isinstance(self.body, MLP)
        outputs, moved = self.body.taught(self.read(observation, action), counts, key)
        return outputs, equinox.tree_at(lambda critic: critic.body, self, moved)

    def read(
        self, observation: PyTree[Array], action: Float[Array, "batch dimensions"]
    ) -> Float[Array, "batch inputs"]:
        """Return what the body sees: features of the observation, and the action."""
        observation, _ = split_mask(observation)
        if isinstance(self.encoder, CNN):
            features = self.encoder.rows(observation)
        elif self.encoder is not None:
            features = jax.vmap(self.encoder)(observation)
        elif self.categories is not None:
            features = jax.nn.one_hot(observation, self.categories)
        else:
            features = observation.reshape(action.shape[0], -1).astype(jnp.float32)
        return jnp.concatenate([features, action], axis=1)


def several(make: Callable[[Key[Array, ""]], Module], key: Key[Array, ""], number: int = 2) -> Module:
    """Return networks with independent weights, as one module whose leaves have a leading axis."""
    return jax.vmap(make)(jax.random.split(key, number))


def count(critics: Any) -> int:
    """Return how many networks a stacked module holds."""
    return jax.tree.leaves(critics)[0].shape[0]


def each_value(
    critics: Module,
    *inputs: PyTree[Array],
    key: Key[Array, ""] | None = None,
    ask: Callable[..., Any] = lambda critic, *inputs: critic(*inputs),
) -> Float[Array, "critic batch *outputs"]:
    """Return all critics' values of the same batch, or what else `ask` wants of them; `key` as for `MLP`."""
    number = count(critics)
    # Inputs repeated: otherwise the first layers merge into one product whose parts must be copied apart.
    repeated = jax.tree.map(lambda x: jnp.broadcast_to(x, (number, *x.shape)), inputs)
    if key is None:
        return jax.vmap(lambda critic, inputs: ask(critic, *inputs))(critics, repeated)
    keys = jax.random.split(key, number)
    return jax.vmap(lambda critic, inputs, key: ask(critic, *inputs, key))(critics, repeated, keys)


def least_of_some(
    values: Float[Array, "critic *batch"], number: int = 0, key: Key[Array, ""] | None = None
) -> Float[Array, "*batch"]:
    """Compute the least of `number` critics drawn with the key, the same ones for a whole batch; of all, without."""
    if number in (0, len(values)):
        return values.min(0)
    assert key is not None
    return values[jax.random.choice(key, len(values), (number,), replace=False)].min(0)


class CriticReport(NamedTuple):
    """Measurements of the critics beside their loss."""

    error: Float[Array, " batch"]  # mean absolute error of all, which prioritised replay asks for
    loss: Float[Array, ""]
    value: Float[Array, ""]  # mean of all


def squared_error(
    values: Float[Array, "critic batch"], target: Float[Array, " batch"], weight: Float[Array, " batch"]
) -> tuple[Float[Array, ""], CriticReport]:
    """Sum over critics of mean(weight (Q - target)^2) / 2."""
    error = values - target
    loss = 0.5 * jnp.mean(weight * error**2, axis=1).sum()
    return loss, CriticReport(jnp.abs(error).mean(0), loss, values.mean())


def value_error(
    critics: ActionValue,
    observation: PyTree[Array],
    action: Float[Array, "batch dimensions"],
    target: Float[Array, " batch"],
    weight: Float[Array, " batch"],
    key: Key[Array, ""] | None = None,
) -> tuple[Float[Array, ""], CriticReport]:
    """Compute the `squared_error` of all critics; of histograms the cross-entropy, whose means have the errors.

    `key`: what is dropped is drawn with.
    """
    if critics.bins is None:
        return squared_error(each_value(critics, observation, action, key=key), target, weight)
    return histogram_error(
        critics.bins, each_value(critics, observation, action, key=key, ask=ActionValue.outputs), target, weight
    )


def histogram_error(
    bins: Bins,
    outputs: Float[Array, "critic batch bins"],
    target: Float[Array, " batch"],
    weight: Float[Array, " batch"],
) -> tuple[Float[Array, ""], CriticReport]:
    """Sum the cross-entropies over critics; the errors are those of the histograms' means."""
    loss = jnp.mean(weight * bins.loss(outputs, target), axis=1).sum()
    values = bins.value(outputs)
    return loss, CriticReport(jnp.abs(values - target).mean(0), loss, values.mean())
