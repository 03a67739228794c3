"""O-DICE: values learned by an orthogonal gradient, and weighted cloning.

Mao, Xu, Zhang, Zhan (2024), "ODICE: Revealing the Mystery of Distribution Correction Estimation via Orthogonal-gradient
Update", arXiv 2402.00348. There are no critics of actions. With

    u = r + discount (1 - terminated) V'(s') - V(s)        (forward:  V learns, V' does not)
    w = r + discount (1 - terminated) V(s')  - V'(s)       (backward: the other way round)

V' = min_j V'_j of the two target networks, f* the convex conjugate of the chi-square divergence,

    f*(x) = k x - (k - 1)^2,   k = max(x / 2 + 1, 0)

and g, h the gradients of optimism mean f*(u) and strength optimism mean f*(w), each update moves V along

    (1 - optimism) grad mean V(s) + g + h - (g . h) / (g . g) g

which leaves of the backward gradient only what does not undo the forward one; it then moves the targets a little
towards the networks, and takes one step of the policy down

    -mean min(max(u, 0), most_weight) log pi(a|s)

with the u from before the step of V. As u is of a single step, luck is copied where steps lead by chance. V is no plain
value: the divergence has a price, in units of reward. Where all actions of a state but the best, of probability p, fall
far behind, V(s) is that of the best one and 2 (1 - (1 - optimism) / (optimism p)) more; the larger rewards are, the
less that matters (`--rewards scale`; the authors bring the returns of their locomotion data to a range of 1,000).
Formula and numbers are those of the authors'
program (maoliyuan/ODICE-Pytorch: odice.py, main_odice_rl.py, configs/offline_RL.yaml); the paper's equations could not
be looked up. There the policy's mean has no bound, and actions are clipped; here it is tanh of the output.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from forage.agents.offline.base import OfflineAgent, Policy
from forage.agents.offline.iql import Value
from forage.core.ports import Metrics
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Experience, Spec
from forage.nn.critics import each_value, stack_modules
from forage.nn.networks import NetworkConfig
from forage.ops.optimiser import Optimiser, blend, make_named_optimiser


class ODICEState(NamedTuple):
    policy: Policy
    values: Value  # leaves [2, ...]
    target_values: Value
    policy_optimiser: Any
    value_optimiser: Any


class ODICE(OfflineAgent):
    """Orthogonal-gradient values and weighted cloning (Mao et al., 2024, arXiv 2402.00348), for all actions."""

    example: ClassVar[str] = "forage train o-dice Pendulum-v1 --data mixed.npz"
    ranges: ClassVar[Ranges] = {"optimism": Range(0, 1), "strength": Range(0), "weight_decay": Range(0)}

    learning_rate: float = 2e-4  # step size of Adam, for all networks, the authors'
    discount: float = 0.99  # worth of a reward one step later, the authors'
    optimism: float = 0.6  # weight of the divergence's conjugate against falling values (their lambda); nearer 1 is
    # nearer the best of the data; the default of their program
    strength: float = 1.0  # weight of the backward gradient (their eta); larger keeps nearer the data's states; the
    # default of their program
    most_weight: float = 100.0  # bound of a transition's weight in the policy's loss, the authors'
    weight_decay: float = 1e-4  # share of each weight of the policy that is added to its gradient; larger keeps weights
    # small; the authors'
    polyak: float = 0.005  # how far each update moves the target values towards the values, the authors'
    batch_size: int = equinox.field(static=True, default=256)  # transitions of an update, the authors'
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(1024, 1024))  # layers of the policy, theirs
    value_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256))  # layers of the values, the authors'
    value_norm: bool = equinox.field(static=True, default=True)  # layers of the values are normalised, as the authors
    # have it but for mazes

    def init(self, key: Key[Array, ""], spec: Spec) -> ODICEState:
        policy_key, value_key = jax.random.split(key)
        style = NetworkConfig.from_agent(self)
        policy = Policy(policy_key, spec, self.hidden_sizes, style)
        style = style._replace(layer_norm=self.layer_norm or self.value_norm)
        values = stack_modules(lambda k: Value(k, spec, self.value_sizes, style), value_key)
        optimisers = (self.descent().init(network) for network in (policy, values))
        return ODICEState(policy, values, jax.tree.map(jnp.copy, values), *optimisers)

    def descent(self) -> Optimiser:
        return make_named_optimiser(self.optimiser, self.learning_rate)

    def learn(
        self, state: ODICEState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[ODICEState, Metrics, Float[Array, " batch"]]:
        now = batch.transitions

        # Values
        gradient, error = self.value_gradient(state, now, batch.weight)
        values, value_optimiser = self.descent().step(gradient, state.value_optimiser, state.values)
        targets = blend(values, state.target_values, self.polyak)

        # Policy
        weight = jnp.clip(error, 0.0, self.most_weight).mean(0)

        def policy_loss(policy: Policy) -> Float[Array, ""]:
            return -(batch.weight * weight * policy.log_probability(now.observation, now.action)).mean()

        lost, slope = jax.value_and_grad(policy_loss)(state.policy)
        slope = jax.tree.map(lambda g, x: g + self.weight_decay * x, slope, state.policy)
        policy, policy_optimiser = self.descent().step(slope, state.policy_optimiser, state.policy)
        metrics = {
            "policy_loss": lost,
            "value": each_value(state.values, now.observation).mean(),
            "error": error.mean(),
            "cloned": (weight > 0).mean(),
        }
        learned = ODICEState(policy, values, targets, policy_optimiser, value_optimiser)
        return learned, metrics, jnp.abs(error).mean(0)

    def value_gradient(
        self, state: ODICEState, now: Experience, weight: Float[Array, " batch"]
    ) -> tuple[Value, Float[Array, "value batch"]]:
        """Return the direction above, and u of both networks."""
        held, held_after = (
            each_value(state.target_values, seen).min(0) for seen in (now.observation, now.next_observation)
        )

        def mean(error: Float[Array, "value batch"]) -> Float[Array, ""]:
            return self.optimism * (weight * conjugate(error)).mean()

        def td_target(after: Float[Array, "*value batch"]) -> Float[Array, "*value batch"]:
            return now.reward + self.discount * jnp.where(now.terminated, 0.0, after)

        def forward(values: Value) -> tuple[Float[Array, ""], Float[Array, "value batch"]]:
            error = td_target(held_after) - each_value(values, now.observation)
            return mean(error), error

        def backward(values: Value) -> Float[Array, ""]:
            return self.strength * mean(td_target(each_value(values, now.next_observation)) - held)

        def level(values: Value) -> Float[Array, ""]:
            return (1 - self.optimism) * (weight * each_value(values, now.observation)).mean()

        first, error = jax.grad(forward, has_aux=True)(state.values)
        second, falling = jax.grad(backward)(state.values), jax.grad(level)(state.values)
        along = dot(first, second) / jnp.maximum(dot(first, first), 1e-10)
        return jax.tree.map(lambda a, b, c: a + (1 - along) * b + c, falling, first, second), error


def conjugate(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Compute f* of the chi-square divergence, over weights that are 0 or more."""
    best = jnp.maximum(x / 2 + 1, 0.0)
    return best * x - (best - 1) ** 2


def dot(a: Value, b: Value) -> Float[Array, ""]:
    """Compute the inner product of all numbers of two networks."""
    return sum((jnp.vdot(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)), jnp.zeros(()))
