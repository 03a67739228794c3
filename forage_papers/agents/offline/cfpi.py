"""Closed-form policy improvement (CFPI): one step from the data's behaviour policy, by a formula.

Li, Zhang, Yin, Bai, Wang, Wang (2023), "Offline Reinforcement Learning with Closed-Form Policy Improvement
Operators", arXiv 2211.15956. The data's behaviour is a mixture of K Gaussians in the unit box,

    b(a|s) = sum_k w_k N(a; mu_k, C_k),  C_k diagonal,  fitted by maximum likelihood

and its values are those of critics that follow it: here implicit Q-learning's (`iql`) with an expectile of 1/2. The
agent takes the action that is best by the first-order expansion of q(a) = mean_i Q_i(s, a) - pessimism std_i Q_i(s, a)
within a trust region of size d = `trust`. Each of these is a proposal, with g the gradient of q where it begins:

    one Gaussian          mu_k + R_k C_k g / sqrt(g' C_k g),  g at mu_k
                          R_k^2 = 2 (d + l_k - max_j l_j),  l_k = log w_k + log N(mu_k; mu_k, C_k);  none if negative
    all (Jensen)          m + R A^-1 g / sqrt(g' A^-1 g),  g at m
                          A = sum_k w_k C_k^-1,  m = A^-1 sum_k w_k C_k^-1 mu_k
                          R^2 = 2 d - sum_k w_k mu_k' C_k^-1 mu_k + m' A m;  none if negative

The first maximises g'a where log of the largest w_k N(a; mu_k, C_k), a lower bound of log b(a|s), is at most d below
its peak; the second where sum_k w_k (a - mu_k)' C_k^-1 (a - mu_k) <= 2 d, by Jensen's inequality. Of the proposals,
clipped to the unit box, the one of the highest q is taken; Gaussians of weight below `least_weight` propose nothing.
With K = 1 both are the paper's single-Gaussian operator, mu + sqrt(2 d) C g / sqrt(g' C g).

Formulas follow the authors' program (cfpi-icml23/cfpi: single_gaussian.py, mixture_gaussian.py, variants/mg and sg),
whose R_k^2 is twice as large, which with K = 1 would not be its own single-Gaussian operator; the paper's equations
could not be looked up. There most critics are implicit quantile networks that
learn by SARSA, and Gaussians are squashed by tanh for locomotion; with the critics of implicit Q-learning, its other
variant, actions are clipped as here.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.agents.offline.base import LEAST_LOG_STD, MOST_LOG_STD
from forage.agents.offline.iql import IQL
from forage.core.ports import ActInputs, State
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Spec
from forage.nn.critics import each_value
from forage.nn.distributions import Actions, Gaussian
from forage.nn.networks import NetworkConfig, TorsoHead


class Mixture(NamedTuple):
    """A mixture of Gaussians with independent dimensions."""

    log_weight: Float[Array, " component"]
    mean: Float[Array, "component dimensions"]
    log_std: Float[Array, "component dimensions"]

    def log_probability(self, value: Float[Array, " dimensions"]) -> Float[Array, ""]:
        """Compute the logarithm of the density."""
        each = jax.vmap(lambda mean, log_std: Gaussian(mean, log_std).log_probability(value))(self.mean, self.log_std)
        return jax.nn.logsumexp(self.log_weight + each)


class MixturePolicy(TorsoHead):
    """A mixture for each observation; means are tanh of the network's output."""

    actions: Actions = equinox.field(static=True)
    components: int = equinox.field(static=True)

    def __init__(
        self, key: Key[Array, ""], spec: Spec, components: int, hidden_sizes: tuple[int, ...], style: NetworkConfig
    ):
        self.actions, self.components = Actions.from_space(spec.action_space), components
        outputs = components * (2 * self.actions.outputs + 1)
        super().__init__(key, spec.observation_space, hidden_sizes, style, outputs)

    def mixture(self, features: Float[Array, " features"]) -> Mixture:
        """Return the mixture for the features of one observation."""
        number, dimensions = self.components, self.actions.outputs
        logit, mean, log_std = jnp.split(self.head(features), [number, number * (1 + dimensions)])
        mean, log_std = (x.reshape(number, dimensions) for x in (mean, log_std))
        return Mixture(jax.nn.log_softmax(logit), jnp.tanh(mean), jnp.clip(log_std, LEAST_LOG_STD, MOST_LOG_STD))

    def __call__(self, observation: PyTree[Array]) -> Mixture:
        """Return the mixture for one observation."""
        return self.mixture(self.torso.rows(jax.tree.map(lambda x: x[None], observation))[0])

    def log_probability(
        self, observation: PyTree[Array], action: Float[Array, "batch *shape"]
    ) -> Float[Array, " batch"]:
        """Compute the density of a batch of actions, in the unit box."""

        def one(features: Float[Array, " features"], action: Array) -> Float[Array, ""]:
            return self.mixture(features).log_probability(self.actions.action_features(action))

        return jax.vmap(one)(self.torso.rows(observation), action)


class CFPI(IQL):
    """Closed-form improvement of a cloned behaviour (Li et al., 2023, arXiv 2211.15956), for bounded numbers."""

    example: ClassVar[str] = "forage train cfpi Pendulum-v1 --data mixed.npz"
    fine_tunes: ClassVar[bool] = False
    ranges: ClassVar[Ranges] = {
        "components": Range(1),
        "trust": Range(0),
        "pessimism": Range(0),
        "least_weight": Range(0, 1, below=True),
    }

    stochastic: ClassVar[bool] = False
    needs: ClassVar[Needs] = Needs(
        actions="bounded",
        reason="CFPI follows the slope of values over actions that are numbers",
        instead="iql learns there",
    )

    expectile: float = 0.5  # which expectile of the actions' values V is: 0.5 follows the data's behaviour, as the
    # authors' critics do; larger improves on it twice
    beta: float = 0.0  # how far the cloned behaviour prefers better actions; 0 clones all alike, the authors' way
    components: int = equinox.field(static=True, default=4)  # Gaussians of the behaviour; more tell apart more people
    # who acted; the authors' for locomotion
    trust: float = 0.5  # size of the trust region; larger goes further from the behaviour; the authors'
    pessimism: float = 1.0  # deviations between critics that lower an action's value; larger keeps where critics agree;
    # the authors', but for critics of implicit Q-learning, of which they take the mean
    least_weight: float = 0.05  # weight of a Gaussian below which it proposes nothing; the authors'

    def make_policy(self, key: Key[Array, ""], spec: Spec) -> MixturePolicy:
        return MixturePolicy(key, spec, self.components, self.hidden_sizes, NetworkConfig.from_agent(self))

    def act(self, state: State, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        observation = self.read_observation(state, inputs.observation)
        seen = jax.tree.map(lambda x: x[None], observation)

        def value(action: Float[Array, " dimensions"]) -> Float[Array, ""]:
            each = each_value(state.critics, seen, action[None])[:, 0]
            # The small number keeps the slope finite where critics agree.
            return each.mean() - self.pessimism * jnp.sqrt(jnp.var(each, ddof=1) + 1e-12)

        action = improve_action(state.policy(observation), value, self.trust, self.least_weight)
        return state.policy.actions.to_box(action), inputs.hidden, ()


def improve_action(behaviour: Mixture, value: Any, trust: float | Array, least_weight: float | Array) -> Array:
    """Return the best of all proposals, by `value` of an action; within the unit box."""
    variance = jnp.exp(2 * behaviour.log_std)

    # One Gaussian each
    peak = behaviour.log_weight - jnp.sum(behaviour.log_std, axis=1)  # but for what is the same for all
    squared = 2 * (trust + peak - peak.max())
    each = jax.vmap(lambda mean, squared, variance: step(mean, squared, variance, value))(
        behaviour.mean, squared, variance
    )
    heavy = (behaviour.log_weight >= jnp.log(least_weight)) | (peak == peak.max())

    # All of them
    weight = jnp.exp(behaviour.log_weight)[:, None]
    precision = jnp.sum(weight / variance, axis=0)
    middle = jnp.sum(weight / variance * behaviour.mean, axis=0) / precision
    spread = jnp.sum(weight / variance * behaviour.mean**2) - jnp.sum(precision * middle**2)
    together = step(middle, 2 * trust - spread, 1 / precision, value)

    proposals = jnp.clip(jnp.concatenate([each, together[None]]), -1.0, 1.0)
    there = jnp.append(heavy & (squared >= 0), 2 * trust >= spread)
    return proposals[jnp.argmax(jnp.where(there, jax.vmap(value)(proposals), -jnp.inf))]


def step(
    start: Float[Array, " dimensions"], squared: Float[Array, ""], variance: Float[Array, " dimensions"], value: Any
) -> Float[Array, " dimensions"]:
    """Return start + R C g / sqrt(g' C g), the maximum of g'a at a distance R from `start`; R^2 is `squared`."""
    slope = jax.grad(value)(start)
    length = jnp.sqrt(jnp.sum(variance * slope**2)) + 1e-7  # as in the authors' program
    return start + jnp.sqrt(jnp.maximum(squared, 0.0)) * variance * slope / length
