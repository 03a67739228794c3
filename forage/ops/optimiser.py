"""Optimisation of pytrees: Optax, with steps that keep the dtype of the parameters.

Weights of 16 bits are too coarse for small steps: next to 0.02 a number of bfloat16 has neighbours 1e-4 away, and a
step of 1e-6 leaves it where it is. Their optimiser therefore keeps float32 masters (Micikevicius et al., 2017, "Mixed
Precision Training", arXiv 1710.03740): gradients and steps are computed in float32, and the weights are the masters,
rounded. The paper's own pages could not be looked up.
"""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from forage.core.errors import ForageError, nearest

Parameters = TypeVar("Parameters")


class Masters(NamedTuple):
    """The state of an optimiser of rounded weights."""

    weights: Any  # the same in float32
    inner: Any  # state of the optimiser of those


class Optimiser(NamedTuple):
    """An Optax transformation applied to a network."""

    transformation: optax.GradientTransformation

    def init(self, parameters: Any, masters: Any = None) -> Any:
        """Return the state for these parameters, with float32 masters if any of them has 16 bits.

        `masters`: the weights that the parameters were rounded from; by default the parameters themselves.
        """
        if not has_rounded(parameters):
            return self.transformation.init(parameters)
        weights = widen(parameters if masters is None else masters)
        return Masters(weights, self.transformation.init(weights))

    def step(self, gradient: Parameters, state: Any, parameters: Parameters) -> tuple[Parameters, Any]:
        """Return the parameters after one step down the gradient, and the optimiser's state."""
        if isinstance(state, Masters):
            weights, inner = self.step(widen(gradient), state.inner, state.weights)
            rounded = jax.tree.map(lambda exact, old: exact.astype(old.dtype), weights, parameters)
            return cast(Parameters, rounded), Masters(weights, inner)
        updates, state = self.transformation.update(cast(Any, gradient), state, cast(Any, parameters))
        return cast(Parameters, optax.apply_updates(cast(Any, parameters), updates)), state


def is_rounded(x: Any) -> bool:
    """Return whether an array has floating-point numbers of 16 bits."""
    dtype = jnp.result_type(x)
    return jnp.issubdtype(dtype, jnp.floating) and dtype.itemsize < 4


def has_rounded(tree: Any) -> bool:
    """Return whether any array of a tree has floating-point numbers of 16 bits."""
    return any(map(is_rounded, jax.tree.leaves(tree)))


def widen(tree: Parameters) -> Parameters:
    """Return a copy of a tree with its numbers of 16 bits in float32. No array is shared with the tree."""
    return jax.tree.map(lambda x: jnp.array(x, jnp.float32 if is_rounded(x) else None), tree)


def adam(
    learning_rate: Any, epsilon: float = 1e-8, max_gradient_norm: Any = None, flat: bool = False, momentum: Any = 0.9
) -> Optimiser:
    """Adam (Kingma and Ba, 2014, arXiv 1412.6980), after optional clipping of the gradient's norm.

    `momentum` is its beta1. `flat` treats the parameters as one vector: for small networks one fused operation instead
    of a dozen.
    """
    steps = optax.adam(learning_rate, b1=momentum, eps=epsilon)
    if max_gradient_norm is not None:
        steps = optax.chain(optax.clip_by_global_norm(max_gradient_norm), steps)
    return Optimiser(optax.flatten(steps) if flat else steps)


def make_named_optimiser(name: Any, learning_rate: Any, max_gradient_norm: Any = None, **of_adam: Any) -> Optimiser:
    """Return the optimiser of this name in Optax, or a function's of the learning rate, with its own other settings.

    For `adam` that is `adam` above, `of_adam` its other arguments; `adan` is below.
    """
    if name == "adam":
        return adam(learning_rate, max_gradient_norm=max_gradient_norm, **of_adam)
    if name == "adan":
        name = adan
    steps = (getattr(optax, name) if isinstance(name, str) else name)(learning_rate)
    return Optimiser(
        steps if max_gradient_norm is None else optax.chain(optax.clip_by_global_norm(max_gradient_norm), steps)
    )


def check_optimiser(name: Any) -> None:
    """Raise `ForageError` for a name or function that `named` cannot make an optimiser of."""
    if isinstance(name, str) and not takes_rate(getattr(optax, name, None)):
        known = [known for known, value in vars(optax).items() if takes_rate(value)]
        raise ForageError(f"There is no optimiser {name!r} in Optax{nearest(name, known)}")
    shown = name if isinstance(name, str) else getattr(name, "__qualname__", repr(name))

    def step() -> Any:
        weights = {"weight": jnp.ones((2, 2)), "bias": jnp.ones(2)}
        optimiser = make_named_optimiser(name, jnp.float32(1e-3))
        return optimiser.step(weights, optimiser.init(weights), weights)

    try:
        jax.eval_shape(step)
    except Exception as error:
        raise ForageError(
            f"{shown} is no optimiser here: {str(error).splitlines()[0].rstrip('.') or type(error).__name__}; one is a "
            f"function of the learning rate that returns an optax.GradientTransformation, such as optax.adamw."
        ) from error


def takes_rate(value: Any) -> bool:
    """Return whether a value makes an optimiser from a learning rate, its only required argument."""
    try:
        first, *others = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return False
    return first.name == "learning_rate" and all(one.default is not one.empty or one.kind > 1 for one in others)


def reset_entries(state: Any, fresh: Any, changed: Any) -> Any:
    """Return an optimiser's state with the entries of parameters that have `changed` reset to those of `fresh`.

    What it keeps lies in trees like that of the parameters, or in vectors of them all where the optimiser is flat.
    Statistics of other shapes, such as Adafactor's of rows and columns, are of many parameters together, and stay.
    """
    structure = jax.tree.structure(changed)
    flat = jnp.concatenate([jnp.ravel(flags) for flags in jax.tree.leaves(changed)])

    def same_structure(part: Any) -> bool:
        return jax.tree.structure(part) == structure

    def leaf(old: Any, new: Any) -> Any:
        if same_structure(old):
            own = lambda flags, new, old: jnp.where(flags, new, old) if old.shape == flags.shape else old  # noqa: E731
            return jax.tree.map(own, changed, new, old)
        return jnp.where(flat, new, old) if jnp.shape(old) == flat.shape else old

    return jax.tree.map(leaf, state, fresh, is_leaf=same_structure)


class AdanState(NamedTuple):
    """The averages of `adan`."""

    mean: Any  # of the gradient
    change: Any  # of its change
    square: Any  # of the square of the gradient that is looked ahead to
    before: Any  # gradient before
    count: Array


def adan(
    learning_rate: Any, mean_decay: float = 0.98, change_decay: float = 0.92, square_decay: float = 0.99
) -> optax.GradientTransformation:
    """Adan, Adam with Nesterov's momentum: averages of the gradient g, of its change, and of a square.

        m <- b1 m + (1 - b1) g,    v <- b2 v + (1 - b2) (g - g'),    n <- b3 n + (1 - b3) (g + b2 (g - g'))^2
        w <- w - learning_rate (m + b2 v) / (sqrt(n) + 1e-8)

    with g' the gradient before (g itself at first), and m, v and n over 1 - b^t, as they begin at zero. Defaults are
    the authors' for all three.

    Source: Xie, Zhou, Li, Lin, Yan, 2022, "Adan: Adaptive Nesterov Momentum Algorithm for Faster Optimizing Deep
    Models", arXiv 2208.06677, as in the authors' adan.py, without weight decay. The paper writes 1 - b for b. Optax's
    `adan` weighs the change by 1 - b2, which here is 0.08 in place of 0.92, so that it is nearly Adam.
    """
    decays = mean_decay, change_decay, square_decay

    def init(params: Any) -> AdanState:
        mean, change, square, before = (jax.tree.map(jnp.zeros_like, params) for _ in range(4))
        return AdanState(mean, change, square, before, jnp.int32(0))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, AdanState]:
        count = state.count + 1
        change = jax.tree.map(lambda g, old: jnp.where(count == 1, 0.0, g - old), updates, state.before)
        ahead = jax.tree.map(lambda g, d: (g + change_decay * d) ** 2, updates, change)
        mean, change, square = (
            jax.tree.map(lambda old, new, decay=decay: decay * old + (1 - decay) * new, old, new)
            for old, new, decay in zip(state[:3], (updates, change, ahead), decays, strict=True)
        )
        begun = [1 - decay**count for decay in decays]

        def step(m: Array, v: Array, n: Array) -> Array:
            direction = m / begun[0] + change_decay * v / begun[1]
            return -learning_rate * direction / (jnp.sqrt(n / begun[2]) + 1e-8)

        return jax.tree.map(step, mean, change, square), AdanState(mean, change, square, updates, count)

    return optax.GradientTransformation(init, update)


class BoundedState(NamedTuple):
    """The state of `obgd`."""

    trace: Any  # z, like the parameters
    step: Array  # step size of the newest update


def obgd(learning_rate: Any, kappa: Any, decay: Any) -> optax.GradientTransformationExtraArgs:
    """Overshoot-bounded gradient descent: steps along an eligibility trace that cannot overshoot by much.

        z <- decay z + g,    step = learning_rate / max(1, learning_rate kappa max(1, |error|) ||z||_1)
        w <- w + step error z

    with g the gradient of what is estimated (a value, or the logarithm of a probability), not of a loss, `error` the
    temporal-difference error and `decay` the discount times lambda. Where `cut`, z is zero after the step.

    Source: Elsayed, Vasan, Mahmood, 2024, "Streaming Deep Reinforcement Learning Finally Works", arXiv 2410.14606, as
    `ObGD` in the authors' optim.py; the paper's own pages could not be looked up.
    """

    def init(params: Any) -> BoundedState:
        return BoundedState(jax.tree.map(jnp.zeros_like, params), jnp.zeros(()))

    def update(
        updates: Any, state: BoundedState, params: Any = None, *, error: Array, cut: Any = False, **_: Any
    ) -> tuple[Any, BoundedState]:
        trace = jax.tree.map(lambda z, g: decay * z + g, state.trace, updates)
        size = sum((jnp.abs(z).sum() for z in jax.tree.leaves(trace)), jnp.zeros(()))
        bound = learning_rate * kappa * jnp.maximum(1.0, jnp.abs(error)) * size
        step = learning_rate / jnp.maximum(1.0, bound)
        kept = jax.tree.map(lambda z: jnp.where(cut, 0.0, z), trace)
        return jax.tree.map(lambda z: step * error * z, trace), BoundedState(kept, step)

    return optax.GradientTransformationExtraArgs(init, cast(Any, update))


def rmsprop(learning_rate: Any, decay: Any, epsilon: Any, max_gradient_norm: Any) -> Optimiser:
    """RMSProp: g / sqrt(m + epsilon), m the decaying mean of g^2, after clipping the norm of the gradient g.

    m begins at zero. The parameters are one vector, as with `flat` Adam. Source: Tieleman and Hinton, 2012, lecture
    6.5 of "Neural Networks for Machine Learning", as in Mnih et al., 2016, arXiv 1602.01783, equations 8 and 9.
    """
    steps = optax.rmsprop(learning_rate, decay=decay, eps=epsilon)
    return Optimiser(optax.flatten(optax.chain(optax.clip_by_global_norm(max_gradient_norm), steps)))


def blend(new: Parameters, old: Parameters, rate: Any) -> Parameters:
    """rate * new + (1 - rate) * old, leaf by leaf: Polyak averaging."""
    return jax.tree.map(lambda new, old: rate * new + (1 - rate) * old, new, old)
