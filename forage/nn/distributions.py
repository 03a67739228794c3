"""Action distributions: over one decision, masked where actions are discrete."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ports import ActInputs
from forage.core.spaces import ENORMOUS, MixedSpace, allowed, unknown_actions
from forage.core.types import ForageError


def entropy(share: Float[Array, " state"]) -> Float[Array, ""]:
    """Return -sum_s d(s) ln d(s), in nats, of shares that sum to one."""
    return -jnp.sum(jnp.where(share > 0, share * jnp.log(jnp.maximum(share, 1e-12)), 0.0))


class Categorical(NamedTuple):
    """p(a) proportional to exp(logit_a); masked actions have probability zero."""

    logits: Float[Array, " actions"]

    @classmethod
    def from_logits(cls, logits: Float[Array, " actions"], mask: Bool[Array, " actions"] | None = None) -> Categorical:
        if mask is not None:
            # Finite, so that gradients of masked entries are zero, not NaN.
            logits = jnp.where(allowed(mask), logits, -1e9)
        return cls(logits)

    @property
    def log_probabilities(self) -> Float[Array, " actions"]:
        return jax.nn.log_softmax(self.logits)

    def probabilities(self, explore: bool = True) -> Float[Array, " actions"]:
        """Return those of all actions; without exploration 1 for the mode."""
        return jnp.exp(self.log_probabilities) if explore else jax.nn.one_hot(self.mode(), self.logits.shape[-1])

    def sample(self, key: Key[Array, ""]) -> Int[Array, ""]:
        return jax.random.categorical(key, self.logits).astype(jnp.int32)  # Gumbel-max: nothing to normalise

    def mode(self) -> Int[Array, ""]:
        return jnp.argmax(self.logits).astype(jnp.int32)

    def log_probability(self, action: Int[Array, ""]) -> Float[Array, ""]:
        # A one-hot product rather than a gather: its gradient is a product too, not a scatter.
        chosen = jnp.arange(self.logits.shape[-1]) == action
        return jnp.sum(jnp.where(chosen, self.log_probabilities, 0.0))

    def entropy(self) -> Float[Array, ""]:
        return -jnp.sum(jnp.exp(self.log_probabilities) * self.log_probabilities)

    def divergence(self, other: Categorical) -> Float[Array, ""]:
        """Compute KL(self || other), in nats."""
        difference = self.log_probabilities - other.log_probabilities
        return jnp.sum(jnp.exp(self.log_probabilities) * difference)


class MultiCategorical(NamedTuple):
    """Independent categorical choices, side by side."""

    choices: tuple[Categorical, ...]

    def sample(self, key: Key[Array, ""]) -> Int[Array, " choices"]:
        keys = jax.random.split(key, len(self.choices))
        return jnp.stack([choice.sample(k) for choice, k in zip(self.choices, keys, strict=True)])

    def mode(self) -> Int[Array, " choices"]:
        return jnp.stack([choice.mode() for choice in self.choices])

    def log_probability(self, action: Int[Array, " choices"]) -> Float[Array, ""]:
        return sum((c.log_probability(action[i]) for i, c in enumerate(self.choices)), jnp.zeros(()))

    def entropy(self) -> Float[Array, ""]:
        return sum((choice.entropy() for choice in self.choices), jnp.zeros(()))

    def divergence(self, other: MultiCategorical) -> Float[Array, ""]:
        """Compute KL(self || other), in nats."""
        pairs = zip(self.choices, other.choices, strict=True)
        return sum((choice.divergence(same) for choice, same in pairs), jnp.zeros(()))


class Gaussian(NamedTuple):
    """Independent normals: N(mean, exp(log_std)^2)."""

    mean: Float[Array, " dimensions"]
    log_std: Float[Array, " dimensions"]

    def sample(self, key: Key[Array, ""]) -> Float[Array, " dimensions"]:
        return self.from_noise(jax.random.normal(key, self.mean.shape))

    def from_noise(self, noise: Float[Array, " dimensions"]) -> Float[Array, " dimensions"]:
        """Return the value that standard normal noise stands for."""
        return self.mean + jnp.exp(self.log_std) * noise

    def mode(self) -> Float[Array, " dimensions"]:
        return self.mean

    def log_probability(self, value: Float[Array, " dimensions"]) -> Float[Array, ""]:
        z = (value - self.mean) * jnp.exp(-self.log_std)
        return jnp.sum(-0.5 * z * z - self.log_std - 0.5 * math.log(2 * math.pi))

    def entropy(self) -> Float[Array, ""]:
        return jnp.sum(self.log_std + 0.5 * math.log(2 * math.pi * math.e))

    def divergence(self, other: Gaussian) -> Float[Array, ""]:
        """Compute KL(self || other), in nats."""
        ratio, z = jnp.exp(self.log_std - other.log_std), (self.mean - other.mean) * jnp.exp(-other.log_std)
        return jnp.sum(0.5 * (ratio**2 + z**2 - 1) - (self.log_std - other.log_std))


class BangBang(NamedTuple):
    """Independent choices between the ends -1 and 1 of the unit box: p(1) = sigmoid(logit) in each dimension.

    Seyde, Gilitschenski, Schwarting, Stellato, Riedmiller, Wulfmeier, Rus (2021), "Is Bang-Bang Control All You Need?
    Solving Continuous Control with Bernoulli Policies", arXiv 2111.02552.
    """

    logits: Float[Array, " dimensions"]

    def sample(self, key: Key[Array, ""]) -> Float[Array, " dimensions"]:
        return jnp.where(jax.random.bernoulli(key, jax.nn.sigmoid(self.logits)), 1.0, -1.0)

    def mode(self) -> Float[Array, " dimensions"]:
        return jnp.where(self.logits >= 0, 1.0, -1.0)

    def log_probability(self, value: Float[Array, " dimensions"]) -> Float[Array, ""]:
        """Return that of the ends nearest to `value`."""
        return jnp.sum(jax.nn.log_sigmoid(jnp.where(value >= 0, self.logits, -self.logits)))

    def entropy(self) -> Float[Array, ""]:
        p = jax.nn.sigmoid(self.logits)
        return -jnp.sum(p * jax.nn.log_sigmoid(self.logits) + (1 - p) * jax.nn.log_sigmoid(-self.logits))

    def divergence(self, other: BangBang) -> Float[Array, ""]:
        """Compute KL(self || other), in nats."""
        p = jax.nn.sigmoid(self.logits)
        high = jax.nn.log_sigmoid(self.logits) - jax.nn.log_sigmoid(other.logits)
        low = jax.nn.log_sigmoid(-self.logits) - jax.nn.log_sigmoid(-other.logits)
        return jnp.sum(p * high + (1 - p) * low)


def squash_to(number: Float[Array, "*shape"], least: float, most: float) -> Float[Array, "*shape"]:
    """Compute least + (most - least) (1 + tanh number) / 2, which any number may stand for."""
    return least + (most - least) * 0.5 * (1 + jnp.tanh(number))


class SquashedGaussian(NamedTuple):
    """tanh of a Gaussian: actions in (-1, 1)^d (Haarnoja et al., 2018, arXiv 1812.05905, appendix C)."""

    mean: Float[Array, "*batch dimensions"]
    log_std: Float[Array, "*batch dimensions"]

    def sample(self, key: Key[Array, ""]) -> tuple[Float[Array, "*batch dimensions"], Float[Array, "*batch"]]:
        """Return an action and its log-density."""
        return self.from_noise(jax.random.normal(key, self.mean.shape))

    def from_noise(
        self, noise: Float[Array, "*batch dimensions"]
    ) -> tuple[Float[Array, "*batch dimensions"], Float[Array, "*batch"]]:
        """Return the action and log-density that standard normal noise stands for, both differentiable.

        u = mean + std noise,  a = tanh u,  log pi(a) = log N(u; mean, std^2) - sum log(1 - tanh(u)^2)
        """
        u = self.mean + jnp.exp(self.log_std) * noise
        log_normal = -0.5 * noise * noise - self.log_std - 0.5 * math.log(2 * math.pi)
        # log(1 - tanh(u)^2) in a form that does not round to log(0).
        log_slope = 2 * (math.log(2) - u - jax.nn.softplus(-2 * u))
        return jnp.tanh(u), jnp.sum(log_normal - log_slope, axis=-1)

    def mode(self) -> Float[Array, "*batch dimensions"]:
        return jnp.tanh(self.mean)


class Product(NamedTuple):
    """Independent choices and numbers of one action: a vector of the options chosen, then the numbers.

    log p(a) = sum_i log p(choice_i) + log p(numbers), and entropies and divergences are sums as well.
    """

    choices: MultiCategorical
    numbers: Gaussian

    def sample(self, key: Key[Array, ""], noise: Float[Array, " dimensions"] | None = None) -> Float[Array, " entries"]:
        """Draw an action, its numbers by standard normal `noise` if there is some."""
        choice_key, number_key = jax.random.split(key)
        numbers = self.numbers.sample(number_key) if noise is None else self.numbers.from_noise(noise)
        return join_parts(self.choices.sample(choice_key), numbers)

    def mode(self) -> Float[Array, " entries"]:
        return join_parts(self.choices.mode(), self.numbers.mode())

    def log_probability(self, action: Float[Array, " entries"]) -> Float[Array, ""]:
        split = len(self.choices.choices)
        return self.choices.log_probability(action[:split]) + self.numbers.log_probability(action[split:])

    def entropy(self) -> Float[Array, ""]:
        return self.choices.entropy() + self.numbers.entropy()

    def divergence(self, other: Product) -> Float[Array, ""]:
        """Compute KL(self || other), in nats."""
        return self.choices.divergence(other.choices) + self.numbers.divergence(other.numbers)


def join_parts(choices: Array, numbers: Float[Array, " dimensions"]) -> Float[Array, " entries"]:
    """Return the choices and numbers of a mixed action as one vector."""
    return jnp.concatenate([choices.astype(jnp.float32), numbers])


Distribution = Categorical | MultiCategorical | Gaussian | BangBang | Product


def action_probabilities(policy: Distribution, explore: bool, who: str) -> Float[Array, " actions"]:
    """Return the probabilities of numbered actions. Raise `ForageError`, naming `who` acts, for other actions."""
    if not isinstance(policy, Categorical):
        raise ForageError(f"{who} has probabilities of actions where there is one choice among numbered ones.")
    return policy.probabilities(explore)


def draw_action(policy: Distribution, inputs: ActInputs) -> PyTree[Array]:
    """Return the policy's mode or, where it explores, an action drawn with the key; numbers are made from the normal
    noise if there is some.
    """
    if not inputs.explore:
        return policy.mode()
    if inputs.noise is not None and isinstance(policy, Gaussian):
        return policy.from_noise(inputs.noise)
    return policy.sample(inputs.key, inputs.noise) if isinstance(policy, Product) else policy.sample(inputs.key)


@dataclasses.dataclass(frozen=True)
class Actions:
    """The facts about an action space that a policy needs. Hashable, so a network can keep it as a static field.

    Continuous policies work in the unit box, which `to_box` and `to_unit` translate, entry by entry: with bounds on
    both sides u = -1 is `low` and u = +1 is `high`; else u is the distance from the allowed number nearest to zero.
    An entry whose bounds are equal is that number: it is no output of a policy.
    """

    shape: tuple[int, ...]
    sizes: tuple[int, ...] = ()  # choices of each discrete decision; empty when continuous
    low: tuple[float, ...] = ()  # of each entry that is chosen, infinite without a bound; empty when discrete
    high: tuple[float, ...] = ()
    fixed: tuple[float | None, ...] = ()  # by entry its only value, `None` where it is chosen; empty where all are

    @classmethod
    def from_space(cls, space: spaces.Space[Any]) -> Actions:
        if isinstance(space, MixedSpace):
            choices, numbers = cls.from_space(space.choices), cls.from_space(space.numbers)
            return MixedActions(space.low.shape, choices.sizes, numbers.low, numbers.high, numbers.fixed)
        if isinstance(space, spaces.Discrete) and int(space.start) == 0:
            return cls((), (int(space.n),))
        if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1 and not space.start.any():
            return cls(space.shape, tuple(int(n) for n in space.nvec))
        if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
            low, high = (bound.reshape(-1).astype(float) for bound in (space.low, space.high))
            same = low == high
            fixed = tuple(x if is_same else None for x, is_same in zip(low.tolist(), same.tolist(), strict=True))
            low, high = np.where(low < -ENORMOUS, -np.inf, low), np.where(high > ENORMOUS, np.inf, high)
            least, most = tuple(low[~same].tolist()), tuple(high[~same].tolist())
            return cls(space.shape, (), least, most, fixed if same.any() else ())
        raise ForageError(unknown_actions(space))

    @property
    def discrete(self) -> bool:
        return bool(self.sizes)

    @property
    def half_range(self) -> Float[np.ndarray, " outputs"]:
        """Return the change of each entry for a change of 1 in the unit box."""
        low, high = self._ends
        return 0.5 * (high - low)

    @property
    def _scaled(self) -> Bool[np.ndarray, " outputs"]:
        """Return the mask of entries that have bounds on both sides."""
        return np.isfinite(self.low) & np.isfinite(self.high)

    @property
    def _nearest(self) -> Float[np.ndarray, " outputs"]:
        """Return the allowed number nearest to zero."""
        return np.clip(np.zeros(len(self.low)), self.low, self.high)

    @property
    def _ends(self) -> tuple[Float[np.ndarray, " outputs"], Float[np.ndarray, " outputs"]]:
        """Return the numbers that u = -1 and u = +1 stand for, all of them finite."""
        scaled, nearest = self._scaled, self._nearest
        return np.where(scaled, self.low, nearest - 1), np.where(scaled, self.high, nearest + 1)

    @property
    def _chosen_indices(self) -> Int[np.ndarray, " outputs"]:
        """Return the indices of an action's entries that are chosen, if others are fixed."""
        return np.array([place for place, value in enumerate(self.fixed) if value is None], int)

    def action_features(self, action: Array) -> Float[Array, " outputs"]:
        """Return the features of an action for an agent's memory: 1 for each choice made, or its place in the unit box.

        A continuous one as the environment takes it, no further out than the bounds.
        """
        if not self.discrete:
            scaled, nearest, unit = self._scaled, self._nearest, self.to_unit(action)
            low, high = np.where(scaled, -1.0, self.low - nearest), np.where(scaled, 1.0, self.high - nearest)
            return unit if np.isinf([low, high]).all() else jnp.clip(unit, jnp.array(low), jnp.array(high))
        choices = zip(self.sizes, action.reshape(-1), strict=True)
        return jnp.concatenate([jax.nn.one_hot(choice, size) for size, choice in choices])

    def unit_action(self, action: Array) -> Array:
        """Return an action as the policy's distribution has it: options as they are, numbers in the unit box.

        Numbers as the environment takes them, no further out than the bounds.
        """
        return action if self.discrete else self.action_features(action)

    def clip_unit(self, action: Array) -> Array:
        """Clip the numbers of a policy's action to the unit box."""
        return action if self.discrete else jnp.clip(action, -1.0, 1.0)

    def squash(self, outputs: Float[Array, " outputs"]) -> Float[Array, " outputs"]:
        """Return a network's outputs with means that a tanh keeps in the unit box."""
        return outputs if self.discrete else jnp.tanh(outputs)

    @property
    def outputs(self) -> int:
        """Return the number of outputs of a policy network."""
        return sum(self.sizes) if self.discrete else len(self.low)

    def distribution(
        self, outputs: Float[Array, " outputs"], log_std: Float[Array, " outputs"] | None, mask: Array | None
    ) -> Distribution:
        """Return the distribution that a network's outputs (logits, or means in the unit box) stand for."""
        if log_std is not None:
            return Gaussian(outputs, log_std)
        if not self.shape:
            return Categorical.from_logits(outputs, mask)
        cuts = np.cumsum(self.sizes)[:-1].tolist()
        masks = [None] * len(self.sizes) if mask is None else jnp.split(mask, cuts)
        return MultiCategorical(
            tuple(Categorical.from_logits(o, m) for o, m in zip(jnp.split(outputs, cuts), masks, strict=True))
        )

    def to_box(self, unit: Float[Array, " dimensions"]) -> Float[Array, "*shape"]:
        scaled, nearest = self._scaled, self._nearest
        action = unit + jnp.array(nearest) if nearest[~scaled].any() else unit
        if scaled.any():
            low, high = (jnp.array(end) for end in self._ends)
            within = low + (unit + 1) * 0.5 * (high - low)
            action = within if scaled.all() else jnp.where(scaled, within, action)
        if self.fixed:
            action = jnp.array([value or 0.0 for value in self.fixed]).at[self._chosen_indices].set(action)
        return action.reshape(self.shape)

    def to_unit(self, action: Float[Array, "*shape"]) -> Float[Array, " dimensions"]:
        scaled, nearest = self._scaled, self._nearest
        action = action.reshape(-1)
        action = action[self._chosen_indices] if self.fixed else action
        unit = action - jnp.array(nearest) if nearest[~scaled].any() else action
        if scaled.any():
            low, high = (jnp.array(end) for end in self._ends)
            within = 2 * (action - low) / (high - low) - 1
            unit = within if scaled.all() else jnp.where(scaled, within, unit)
        return unit


class MixedActions(Actions):
    """The facts about `MixedSpace` actions: the options chosen and then the numbers, which alone are in the unit box.

    Outputs of a policy network are the logits of all choices, then the means of the numbers.
    """

    @property
    def discrete(self) -> bool:
        return False

    @property
    def choices(self) -> Actions:
        """Return the facts about the choices."""
        return Actions((len(self.sizes),), self.sizes)

    @property
    def numbers(self) -> Actions:
        """Return the facts about the numbers."""
        return Actions((len(self.fixed or self.low),), (), self.low, self.high, self.fixed)

    @property
    def split(self) -> int:
        """Return the number of choices, which is the place of the first number."""
        return len(self.sizes)

    @property
    def outputs(self) -> int:
        return sum(self.sizes) + len(self.low)

    def action_features(self, action: Array) -> Float[Array, " outputs"]:
        choices, numbers = action[: self.split], action[self.split :]
        return jnp.concatenate([self.choices.action_features(choices), self.numbers.action_features(numbers)])

    def unit_action(self, action: Array) -> Array:
        return join_parts(action[: self.split], self.numbers.action_features(action[self.split :]))

    def clip_unit(self, action: Array) -> Array:
        return join_parts(action[: self.split], jnp.clip(action[self.split :], -1.0, 1.0))

    def squash(self, outputs: Float[Array, " outputs"]) -> Float[Array, " outputs"]:
        logits, means = jnp.split(outputs, [sum(self.sizes)])
        return jnp.concatenate([logits, jnp.tanh(means)])

    def distribution(
        self, outputs: Float[Array, " outputs"], log_std: Float[Array, " numbers"] | None, mask: Array | None
    ) -> Distribution:
        """Return the distribution of choices and numbers; the mask is of the choices."""
        assert log_std is not None
        logits, means = jnp.split(outputs, [sum(self.sizes)])
        choices = self.choices.distribution(logits, None, mask)
        assert isinstance(choices, MultiCategorical)
        return Product(choices, Gaussian(means, log_std))

    def to_box(self, unit: Float[Array, " entries"]) -> Float[Array, "*shape"]:
        return join_parts(unit[: self.split], self.numbers.to_box(unit[self.split :]))

    def to_unit(self, action: Float[Array, "*shape"]) -> Float[Array, " entries"]:
        return join_parts(action[: self.split], self.numbers.to_unit(action[self.split :]))
