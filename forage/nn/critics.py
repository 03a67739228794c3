"""Critics of continuous actions: one action value, several of them as one stacked pytree, and their loss.

With N critics Q_i and targets Q'_i, what soft actor-critic, TD3 and what is built on them ask for:

    each_value      Q_1(s, a) ... Q_N(s, a)
    least_of_some   min over a random subset of M of Q'_i(s, a)  (Chen et al., 2021, arXiv 2101.05982; all, without M)
    mean_least_pair the mean of min(Q'_i, Q'_j) over all pairs i < j  (Zhao et al., 2023, 2306.06871)
    truncated       the quantiles of all Q'_i in one, sorted, without the largest  (Kuznetsov et al., 2020, 2005.04269)
    squared_error   sum_i mean(weight (Q_i - target)^2) / 2
    value_error     that, or the cross-entropy of values that are histograms (`Bins`), or the error of `Quantiles`
    alignment       how alike the gradients of all Q_i with respect to the action are  (An et al., 2021, 2110.01548)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import equinox
import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Bool, Float, Key, PyTree

from forage.core.spaces import observation_part, split_mask
from forage.nn.dormant import NextLayer, Units, units_of
from forage.nn.encoders import Encoder
from forage.nn.hypersphere import Hypersphere
from forage.nn.networks import CNN, MLP, NetworkConfig, Residual, Torso, body, input_size
from forage.ops.quantiles import quantile_error

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
        """Return the histogram that represents a value."""
        deviation = self.spread * (self.high - self.low) / self.number
        target = jnp.clip(target, self.low, self.high)
        below = jax.scipy.stats.norm.cdf((self.edges() - target[..., None]) / deviation)
        return jnp.diff(below) / (below[..., -1:] - below[..., :1])

    def loss(self, logits: Float[Array, "*batch bins"], target: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
        """Compute the cross-entropy of a histogram and its target."""
        return -(self.shares(target) * jax.nn.log_softmax(logits)).sum(-1)


class Quantiles(NamedTuple):
    """Values as `number` quantiles of the return, at (2 m - 1) / 2M, a value being their mean.

    Dabney et al. (2018), arXiv 1710.10044; the error is Kuznetsov and others' (2020), arXiv 2005.04269: the mean over
    quantiles and over what they are compared with.
    """

    number: int

    def value(self, quantiles: Float[Array, "*batch quantiles"]) -> Float[Array, "*batch"]:
        """Compute the mean of the quantiles."""
        return quantiles.mean(-1)

    def loss(
        self, quantiles: Float[Array, "critic batch quantiles"], target: Float[Array, "samples batch"]
    ) -> Float[Array, "critic batch"]:
        """Compute the Huber quantile error against samples, which are the same for all critics."""
        return jax.vmap(quantile_error, (0, None))(quantiles, target.T) / self.number


class Atoms(NamedTuple):
    """Values as distributions over `number` values, evenly between two ends, a value being the distribution's mean.

    Bellemare, Dabney, Munos (2017), arXiv 1707.06887. What is learned are the shares of these values.
    """

    number: int
    low: float
    high: float

    def values(self) -> Float[Array, " atoms"]:
        """Return the values."""
        return jnp.linspace(self.low, self.high, self.number)

    def value(self, logits: Float[Array, "*batch atoms"]) -> Float[Array, "*batch"]:
        """Compute the mean of the distribution."""
        return jax.nn.softmax(logits) @ self.values()

    def loss(
        self, logits: Float[Array, "critic batch atoms"], target: Float[Array, "atoms batch"]
    ) -> Float[Array, "critic batch"]:
        """Compute the cross-entropy of a distribution and its target, which is the same for all critics."""
        return -(target.T * jax.nn.log_softmax(logits)).sum(-1)


class ActionValue(equinox.Module):
    """Q(s, a) as an MLP of observation and action side by side; images and dictionaries go through encoders first.

    With `bins` a value is the mean of a histogram, or of quantiles. What else several `outputs` stand for, somebody
    else knows.
    """

    encoder: Encoder | None
    body: MLP | Residual | Hypersphere
    categories: int | None = equinox.field(static=True)
    bins: Bins | Quantiles | Atoms | None = equinox.field(static=True)

    def __init__(
        self,
        key: Key[Array, ""],
        space: spaces.Space[Any],
        dimensions: int,
        sizes: Sequence[int],
        style: NetworkConfig = NetworkConfig(),  # noqa: B008
        outputs: int = 1,
        bins: Bins | Quantiles | Atoms | None = None,
    ):
        """`dimensions`: numbers in an action. Weights and biases start uniform in +-1/sqrt(inputs)."""
        encoder_key, body_key = jax.random.split(key)
        torso = Torso(encoder_key, space, sizes, style)
        self.encoder = torso.body if isinstance(torso.body, CNN) else torso.encoder
        self.categories = torso.categories
        inputs = input_size(observation_part(space)) if self.encoder is None else self.encoder.size
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
        """Return the output of the last layer."""
        return self.body(self.inputs(observation, action), key)

    def apply_in_training(
        self,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        counts: Bool[Array, " batch"],
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "batch outputs"], ActionValue]:
        """Return the last layer's outputs while it learns, and the critic with its running statistics moved.

        `counts`: as for `MLP.apply_in_training`, of a critic with batch normalisation.
        """
        assert isinstance(self.body, MLP)
        outputs, moved = self.body.apply_in_training(self.inputs(observation, action), counts, key)
        return outputs, equinox.tree_at(lambda critic: critic.body, self, moved)

    def inputs(
        self, observation: PyTree[Array], action: Float[Array, "batch dimensions"]
    ) -> Float[Array, "batch inputs"]:
        """Return the input of the body: features of the observation, and the action."""
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

    def units(self, observation: PyTree[Array], action: Float[Array, "batch dimensions"]) -> list[Units]:
        """Return the units of all layers but the last, of a batch; those of a dictionary's encoders are left out."""
        found = []
        if isinstance(self.encoder, CNN):
            outputs = jax.vmap(self.encoder.activations)(split_mask(observation)[0])
            after = (NextLayer(lambda n: n.body.layers[0], self.encoder.size),)
            found = units_of(self.encoder, outputs, lambda n: n.encoder, after)
        outputs = self.body.activations(self.inputs(observation, action))
        return found + units_of(self.body, outputs, lambda n: n.body)


def stack_modules(make: Callable[[Key[Array, ""]], Module], key: Key[Array, ""], number: int = 2) -> Module:
    """Return networks with independent weights, as one module whose leaves have a leading axis."""
    return jax.vmap(make)(jax.random.split(key, number))


def num_critics(critics: Any) -> int:
    """Return the number of networks in a stacked module."""
    return jax.tree.leaves(critics)[0].shape[0]


def each_value(
    critics: Module,
    *inputs: PyTree[Array],
    key: Key[Array, ""] | None = None,
    ask: Callable[..., Any] = lambda critic, *inputs: critic(*inputs),
) -> Float[Array, "critic batch *outputs"]:
    """Return all critics' values of the same batch, or the result of `ask`; `key` as for `MLP`."""
    number = num_critics(critics)
    # Inputs repeated: otherwise the first layers merge into one product whose parts must be copied apart.
    repeated = jax.tree.map(lambda x: jnp.broadcast_to(x, (number, *x.shape)), inputs)
    if key is None:
        return jax.vmap(lambda critic, inputs: ask(critic, *inputs))(critics, repeated)
    keys = jax.random.split(key, number)
    return jax.vmap(lambda critic, inputs, key: ask(critic, *inputs, key))(critics, repeated, keys)


def min_of_subset(
    values: Float[Array, "critic *batch"], number: int = 0, key: Key[Array, ""] | None = None
) -> Float[Array, "*batch"]:
    """Compute the least of `number` critics drawn with the key, the same ones for a whole batch; of all, without."""
    if number in (0, len(values)):
        return min_of_critics(values)
    assert key is not None
    return min_of_critics(values[jax.random.choice(key, len(values), (number,), replace=False)])


def min_of_critics(values: Float[Array, "critic *batch"]) -> Float[Array, "*batch"]:
    """Compute the least of all critics' values; its derivative is that of the one chosen, the first of equal ones.

    JAX's own asks which values equal the least, and divides by how many do: 0 / 0 where XLA computes values once more
    and rounds them otherwise.
    """
    chosen = jnp.argmin(jax.lax.stop_gradient(values), axis=0)
    number = jnp.arange(len(values)).reshape(-1, *[1] * chosen.ndim)
    return jnp.where(number == chosen, values, 0.0).sum(0)


def mean_least_pair(values: Float[Array, "critic *batch"]) -> Float[Array, "*batch"]:
    """Compute the mean over all pairs of critics of the lesser value: of n sorted ones, each counts for those above it.

    It is sum_k (n - k) v_(k) / (n (n - 1) / 2), k = 1 being the least.
    """
    number = len(values)
    weight = 2 * (number - 1 - jnp.arange(number)) / (number * (number - 1))
    return jnp.tensordot(weight, jnp.sort(values, axis=0), 1)


def truncate_quantiles(
    quantiles: Float[Array, "critic batch quantiles"], dropped: int
) -> Float[Array, "samples batch"]:
    """Pool and sort the quantiles of all critics, and drop the largest: `dropped` for each critic."""
    number, _, each = quantiles.shape
    pooled = jnp.sort(jnp.moveaxis(quantiles, 1, 2).reshape(number * each, -1), axis=0)
    return pooled[: number * (each - dropped)]


def alignment(
    critics: Module,
    observation: PyTree[Array],
    action: Float[Array, "batch dimensions"],
    key: Key[Array, ""] | None = None,
) -> Float[Array, " batch"]:
    """Compute the similarity of the critics' gradients with respect to the action.

    It is the sum of the cosines between each critic's gradient and every other's, divided by the number of the others:
    the number of critics where all point the same way, and less the more they differ.
    """

    def slope(critic: Any, observation: PyTree[Array], action: Array, *key: Key[Array, ""]) -> Array:
        return jax.grad(lambda action: critic(observation, action, *key).sum())(action)

    slopes = each_value(critics, observation, action, key=key, ask=slope)
    # The small number keeps derivatives finite where a critic does not depend on the action.
    slopes = slopes * jax.lax.rsqrt(jnp.sum(slopes**2, axis=-1, keepdims=True) + 1e-20)
    cosines = jnp.einsum("ibd,jbd->bij", slopes, slopes)
    number = len(slopes)
    return jnp.sum(cosines * (1 - jnp.eye(number)), axis=(1, 2)) / (number - 1)


class CriticReport(NamedTuple):
    """Measurements of the critics in addition to their loss."""

    error: Float[Array, " batch"]  # mean absolute error of all, which prioritised replay asks for
    loss: Float[Array, ""]
    value: Float[Array, ""]  # mean of all
    metrics: dict[str, Array] = {}  # in addition, of an agent of one's own

    def __or__(self, metrics: dict[str, Array]) -> CriticReport:
        """Return the report with more metrics."""
        return self._replace(metrics=self.metrics | metrics)


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
    target: Float[Array, "*samples batch"],
    weight: Float[Array, " batch"],
    key: Key[Array, ""] | None = None,
) -> tuple[Float[Array, ""], CriticReport]:
    """Compute the `squared_error` of all critics; of histograms the cross-entropy, of quantiles their error.

    Errors in the report are those of the means. `target` has several samples for quantiles alone. `key`: what is
    dropped is drawn with.
    """
    if critics.bins is None:
        return squared_error(each_value(critics, observation, action, key=key), target, weight)
    return histogram_error(
        critics.bins, each_value(critics, observation, action, key=key, ask=ActionValue.outputs), target, weight
    )


def histogram_error(
    bins: Bins | Quantiles | Atoms,
    outputs: Float[Array, "critic batch bins"],
    target: Float[Array, "*samples batch"],
    weight: Float[Array, " batch"],
) -> tuple[Float[Array, ""], CriticReport]:
    """Sum the cross-entropies over critics, or the errors of quantiles; errors in the report are those of the means."""
    loss = jnp.mean(weight * bins.loss(outputs, target), axis=1).sum()
    values = bins.value(outputs)
    mean = target.mean(0) if isinstance(bins, Quantiles) else target
    return loss, CriticReport(jnp.abs(values - mean).mean(0), loss, values.mean())
