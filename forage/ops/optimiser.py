"""Optimisation of pytrees: Optax, with steps that keep the type of what they move."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar, cast

import jax
import optax

Parameters = TypeVar("Parameters")


class Optimiser(NamedTuple):
    """An Optax transformation applied to a network."""

    transformation: optax.GradientTransformation

    def init(self, parameters: Any) -> Any:
        return self.transformation.init(parameters)

    def step(self, gradient: Parameters, state: Any, parameters: Parameters) -> tuple[Parameters, Any]:
        """Return the parameters after one step down the gradient, and the optimiser's state."""
        updates, state = self.transformation.update(cast(Any, gradient), state, cast(Any, parameters))
        return cast(Parameters, optax.apply_updates(cast(Any, parameters), updates)), state


def adam(learning_rate: Any, epsilon: float = 1e-8, max_gradient_norm: Any = None, flat: bool = False) -> Optimiser:
    """Adam (Kingma and Ba, 2014, arXiv 1412.6980), after clipping the gradient's norm where that is asked for.

    `flat` treats the parameters as one vector: for small networks one fused operation instead of a dozen.
    """
    steps = optax.adam(learning_rate, eps=epsilon)
    if max_gradient_norm is not None:
        steps = optax.chain(optax.clip_by_global_norm(max_gradient_norm), steps)
    return Optimiser(optax.flatten(steps) if flat else steps)


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
