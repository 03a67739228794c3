"""Shared base of streaming agents: one transition, one update, and only an eligibility trace kept.

Elsayed, Vasan, Mahmood (2024), "Streaming Deep Reinforcement Learning Finally Works", arXiv 2410.14606. Before the next
action is chosen, what was just experienced moves the weights w by

    z <- discount trace_lambda z + grad v(s),    w <- w + step delta z

with the temporal-difference error delta = r + discount (1 - terminated) v(s') - v(s) and a step that is bounded so that
an update cannot overshoot (`forage.ops.optimiser.obgd`). What makes that stable, with the same numbers in all tasks:

- all weights begin uniform in +-1/sqrt(inputs), of which a share of `sparsity` is zero for each unit, and biases at 0;
- each layer but the last is normalised, without a learned scale, before its activation;
- observations are normalised by the mean and variance of all that were seen, the newest included;
- rewards are divided by the deviation of u <- discount (1 - ended) u + r, over all steps so far.

The numbers and all of the above are those of the authors' program (mohmdelsayed/streaming-drl: optim.py,
sparse_init.py, normalization_wrappers.py, stream_q.py, stream_ac_*.py); the paper's own pages could not be looked up.
What differs here:

- where time runs out the trace ends and the value of what followed still counts, where the program counts nothing, and
  shows its agents the time instead;
- the variance of observations is a mean over all of them, not over one less, and what is normalised lies within -10 and
  10; the first observation of an episode counts among those seen once it has been acted on;
- numbers that are bounded and whole, pictures and choices are scaled or read one by one and not normalised.

Of a layer with few inputs, fewer than ten with the usual sparsity of 0.9, all weights begin at zero, as in the program:
the share is rounded up. Such a layer learns all the same, as biases and normalisation let gradients through.

A stream is one environment: with several, an update would be a mean over streams, which is another method. Several
seeds are several agents, side by side on the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Bool, Float, Key, PyTree

from forage.core.ports import Agent, State
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.spaces import observation_part, split_mask
from forage.core.types import Batch, Experience, ForageError, Spec
from forage.nn.distributions import Actions
from forage.nn.layers import CNN, Activation, Linear, activation, each_linear
from forage.nn.networks import NetworkConfig, Torso
from forage.nn.normalise import Norms, RunningNorm, apply_norm, input_space, norms_of, update_norms
from forage.ops.optimiser import obgd

LEAST_VARIANCE = 1e-8


class StreamNetwork(equinox.Module):
    """A network with sparse, normalised layers; the last one is linear.

    Images go through the convolutions that all networks here have for them, normalised alike.
    """

    reader: Torso  # without layers of its own but convolutions and a dictionary's encoders
    layers: tuple[Linear, ...]
    activation: str | Activation = equinox.field(static=True)
    actions: Actions = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], space: spaces.Space[Any], actions: Actions, outputs: int, agent: Stream):
        reader_key, layers_key, sparse_key = jax.random.split(key, 3)
        reader = Torso(reader_key, space, (), NetworkConfig(), dense=False)
        sizes = (reader.size, *agent.hidden_sizes, outputs)
        keys = jax.random.split(layers_key, len(sizes) - 1)
        layers = tuple(Linear(k, i, o) for k, i, o in zip(keys, sizes[:-1], sizes[1:], strict=True))
        self.reader, self.layers = sparse((reader, layers), sparse_key, agent.sparsity)
        self.activation, self.actions = agent.activation, actions

    def __call__(self, observation: PyTree[Array]) -> Float[Array, " outputs"]:
        function = activation(self.activation)
        x = self.layer_inputs(observation, function)
        for layer in self.layers[:-1]:
            x = function(standardise(layer(x)))
        return self.layers[-1](x)

    def layer_inputs(self, observation: PyTree[Array], function: Activation) -> Float[Array, " inputs"]:
        """Return the inputs of the first layer."""
        observation, _ = split_mask(observation)
        body = self.reader.body
        if not isinstance(body, CNN):
            return self.reader.body_input(observation)
        x = body.pixels(observation)
        for convolution in body.convolutions:
            x = function(standardise(convolution(x)))
        return x.reshape(-1)


def standardise(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return a layer's numbers less their mean and over their deviation."""
    x = x - x.mean()
    return x * jax.lax.rsqrt(jnp.mean(x**2) + 1e-5)


def sparse(module: Any, key: Key[Array, ""], sparsity: float) -> Any:
    """Return a module with sparse weights in all its linear layers: `ceil(sparsity inputs)` zeros for each unit."""
    return each_linear(module, key, lambda layer, key: sparse_linear(layer, key, sparsity))


def sparse_linear(layer: Linear, key: Key[Array, ""], sparsity: float) -> Linear:
    """Return a linear layer of the same shape with sparse weights, uniform in +-1/sqrt(inputs), and zero biases."""
    inputs, _ = layer.weight.shape
    weight_key, order_key = jax.random.split(key)
    bound = 1 / math.sqrt(inputs)
    weight = jax.random.uniform(weight_key, layer.weight.shape, minval=-bound, maxval=bound)
    rank = jnp.argsort(jax.random.uniform(order_key, layer.weight.shape), axis=0)
    weight = jnp.where(rank < math.ceil(sparsity * inputs), 0.0, weight)
    return equinox.tree_at(lambda l: (l.weight, l.bias), layer, (weight, jnp.zeros_like(layer.bias)))  # noqa: E741


class RewardScale(NamedTuple):
    """The running variance of u, the scale of rewards."""

    norm: RunningNorm
    running: Float[Array, ""]  # u

    @classmethod
    def nothing(cls) -> RewardScale:
        return cls(RunningNorm.from_shape(()), jnp.zeros(()))

    def add_reward(self, reward: Float[Array, ""], ended: Bool[Array, ""], discount: Any) -> RewardScale:
        """Return the same after one more reward. At a last step u is its reward alone, as in the authors' program."""
        running = discount * jnp.where(ended, 0.0, self.running) + reward
        return RewardScale(self.norm.update(running[None]), running)

    def deviation(self) -> Float[Array, ""]:
        """Return the deviation over one less than all steps; 1 after the first."""
        count = self.norm.count
        variance = jnp.where(count < 2, 1.0, self.norm.variance * count / jnp.maximum(count - 1, 1.0))
        return jnp.sqrt(variance + LEAST_VARIANCE)


class Statistics(NamedTuple):
    """Statistics that a stream's numbers are normalised by."""

    norm: Norms  # of observations
    rewards: RewardScale
    begins: Bool[Array, ""]  # the next transition is an episode's first


class StreamTransition(NamedTuple):
    """One transition as the agent learns from it."""

    observation: PyTree[Array]  # normalised by what was known when it was acted on
    next_observation: PyTree[Array]  # normalised by what is known now
    reward: Float[Array, ""]  # scaled
    raw: Experience  # leaves without leading axes


class Stream(Agent):
    """An agent that learns from each transition once, as it comes."""

    ranges: ClassVar[Ranges] = {"trace_lambda": Range(0, 1), "kappa": Range(0), "sparsity": Range(0, 1)}

    on_policy: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs(observations="any", agents="one")

    learning_rate: float = 1.0  # largest step along the trace; steps are bounded, so it hardly matters
    discount: float = 0.99
    trace_lambda: float = 0.8  # decay of the trace beside the discount; nearer 1 has less bias and more variance
    kappa: float = 2.0  # bound of a step: larger makes smaller steps, above 1 they should not overshoot
    sparsity: float = equinox.field(static=True, default=0.9)  # share of each unit's weights that is zero at first
    num_envs: int = equinox.field(static=True, default=1)  # always 1: a stream is one environment
    rollout_length: int = equinox.field(static=True, default=1)  # always 1: every step is learned from before the next
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(128, 128))
    activation: str | Callable[[Any], Any] = equinox.field(static=True, default="leaky_relu")
    normalise_observation: bool = equinox.field(static=True, default=True)
    scale_reward: bool = equinox.field(static=True, default=True)  # rewards are divided by the deviation of their
    # discounted sums, by those so far

    def check(self, spec: Spec) -> None:
        name = type(self).__name__
        if self.num_envs != 1 or self.rollout_length != 1:
            raise ForageError(
                f"{name} learns from one stream, step by step, so num_envs and rollout_length are 1, not "
                f"{self.num_envs} and {self.rollout_length}; --seeds gives more streams, each with an agent of its own."
            )
        for size in self.hidden_sizes:
            if math.ceil(self.sparsity * size) >= size:
                raise ForageError(
                    f"{name} begins with a share of {self.sparsity:g} of each unit's weights at zero, which of {size} "
                    f"units are all, so nothing behind them could be learned; take wider hidden_sizes or less sparsity."
                )

    def norms(self, spec: Spec) -> Norms:
        """Return the norms of observations before the first one; `None` if observations are not normalised."""
        return norms_of(observation_part(spec.observation_space), maps=True) if self.normalise_observation else None

    def make_network(self, key: Key[Array, ""], spec: Spec, outputs: int) -> StreamNetwork:
        """Make a network of normalised observations."""
        space, actions = input_space(spec.observation_space, self.norms(spec)), Actions.from_space(spec.action_space)
        return StreamNetwork(key, space, actions, outputs, self)

    def statistics(self, spec: Spec) -> Statistics:
        """Return the statistics before a stream's first transition."""
        return Statistics(self.norms(spec), RewardScale.nothing(), jnp.bool_(True))

    def descent(self, kappa: Any) -> Any:
        return obgd(self.learning_rate, kappa, self.discount * self.trace_lambda)

    def transition(self, statistics: Statistics, batch: Batch) -> tuple[StreamTransition, Statistics]:
        """Return the only transition of a batch as it is learned from, and the statistics after it."""
        raw = jax.tree.map(lambda x: x[0, 0], batch.experience)

        def update_counts(norm: Norms, observation: PyTree[Array], counts: Any) -> Norms:
            rows = jax.tree.map(lambda x: x[None, None], split_mask(observation)[0])
            return update_norms(norm, rows, jnp.reshape(counts, (1, 1)))

        before = update_counts(statistics.norm, raw.observation, statistics.begins)
        after = update_counts(before, raw.next_observation, jnp.bool_(True))
        reward, rewards = raw.reward, statistics.rewards
        if self.scale_reward:
            rewards = rewards.add_reward(reward, raw.ended, self.discount)
            reward = reward / rewards.deviation()
        read = apply_norm(before, raw.observation), apply_norm(after, raw.next_observation)
        return StreamTransition(*read, reward, raw), Statistics(after, rewards, raw.ended)

    def error(self, seen: StreamTransition, value: Float[Array, ""], next_value: Float[Array, ""]) -> Float[Array, ""]:
        """Compute the temporal-difference error. At a time limit, it bootstraps from the next value."""
        return seen.reward + self.discount * jnp.where(seen.raw.terminated, 0.0, next_value) - value

    def forget(self, statistics: Statistics) -> Statistics:
        """Return the statistics after the running episode was lost."""
        rewards = statistics.rewards._replace(running=jnp.zeros(()))
        return statistics._replace(rewards=rewards, begins=jnp.bool_(True))


def apply_updates(network: StreamNetwork, updates: PyTree[Array]) -> StreamNetwork:
    """Return the network after a step."""
    return jax.tree.map(jnp.add, network, updates)


def empty_trace(trace: State) -> State:
    """Return an optimiser's state with an empty trace."""
    return trace._replace(trace=jax.tree.map(jnp.zeros_like, trace.trace))
