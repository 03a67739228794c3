"""The two methods that learn networks: fitted Q evaluation and DualDICE, each one compiled loop over minibatches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from equinox import Module
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core import prng
from forage.core.types import ForageError
from forage.evaluation.off_policy.estimators.fitted_q import ActionValues
from forage.evaluation.off_policy.target import Target
from forage.nn.networks import Linear, Torso
from forage.ops.optimiser import adam


class Scores(Module):
    """A number for each action: torso (an MLP, or a CNN for images) and a linear layer."""

    torso: Torso
    head: Linear

    def __init__(self, key: Key[Array, ""], space: gymnasium.Space[Any], sizes: tuple[int, ...], actions: int):
        torso_key, head_key = jax.random.split(key)
        self.torso = Torso(torso_key, space, sizes, "relu")
        self.head = Linear(head_key, self.torso.size, actions)

    def __call__(self, observation: PyTree[Array]) -> Float[Array, "batch actions"]:
        return self.head(self.torso.rows(observation))


class TransitionRows(NamedTuple):
    """Transitions as a network learns from them; leaves `transition ...`."""

    observation: PyTree[Array]
    action: Int[Array, " transition"]
    reward: Float[Array, " transition"]
    next_observation: PyTree[Array]
    goes_on: Float[Array, " transition"]  # the discount, 0 where terminated
    next_probability: Float[Array, "transition action"]


@dataclasses.dataclass(frozen=True)
class NetworkQ:
    """Fitted Q evaluation with a network (Le, Voloshin and Yue, 2019, arXiv 1903.08738, algorithm 3).

    In each of `iterations` rounds the network goes `steps` steps of Adam down the mean squared error against

        r + discount (1 - terminated) sum_a' pi(a'|o') Q'(o', a')

    where Q' is the network as it was before the round: regression by regression, each from where the last one ended.
    What is kept is the mean of the parameters after each round of the final quarter, which takes out much of the noise
    of minibatches. With a horizon there are so many rounds, and the last one's network is kept. It has no values for
    fewer steps left, so doubly robust estimators with a horizon take its last ones at all times.

    `fit(target)` are the action values; called, it is the estimator. It gives one number for each episode, the value of
    its first observation, which leaves out how the network itself would differ on other data: so there is no interval.
    """

    interval: ClassVar[bool] = False

    iterations: int = 100
    steps: int = 100
    batch_size: int = 256
    learning_rate: float = 1e-3
    hidden_sizes: tuple[int, ...] = (64, 64)
    seed: int = 0

    def fit(self, target: Target) -> ActionValues:
        """Learn the action values from all of the target's episodes."""
        _check_sizes(self.iterations, self.steps, self.batch_size)
        rows, space, count = _rows(target), _space(target.logged.observation), target.logged.transitions
        rounds = target.horizon or self.iterations
        kept = 1 if target.horizon else max(1, rounds // 4)
        optimiser = adam(self.learning_rate)
        actions = target.actions  # the policy is asked here, as it may be a compiled program of its own

        def loss(network: Scores, batch: TransitionRows, goal: Float[Array, " batch"]) -> Float[Array, ""]:
            return jnp.mean((_select_values(network(batch.observation), batch.action) - goal) ** 2)

        def learn(key: Key[Array, ""], rows: TransitionRows) -> Scores:
            init_key, key = jax.random.split(key)
            network = Scores(init_key, space, self.hidden_sizes, actions)

            def round_of(carry: Any, number: Array) -> Any:
                network, state, key, total = carry
                before = network

                def step(carry: Any, key: Key[Array, ""]) -> Any:
                    network, state = carry
                    batch = _take(rows, jax.random.randint(key, (self.batch_size,), 0, count))
                    # In the first round nothing comes next: Q_0 is 0.
                    later = (batch.next_probability * before(batch.next_observation)).sum(1) * (number > 0)
                    goal = jax.lax.stop_gradient(batch.reward + batch.goes_on * later)
                    return optimiser.step(jax.grad(loss)(network, batch, goal), state, network), None

                key, round_key = jax.random.split(key)
                (network, state), _ = jax.lax.scan(step, (network, state), jax.random.split(round_key, self.steps))
                counts = number >= rounds - kept
                total = jax.tree.map(lambda sum, x: sum + counts * x / kept, total, network)
                return (network, state, key, total), None

            carry = (network, optimiser.init(network), key, jax.tree.map(jnp.zeros_like, network))
            return jax.lax.scan(round_of, carry, jnp.arange(rounds))[0][3]

        return values_of(jax.jit(learn)(prng.key(self.seed), rows))

    def __call__(self, target: Target) -> Float[np.ndarray, " episode"]:
        values, first = self.fit(target), target.logged.first
        start = jax.tree.map(lambda x: x[first], target.logged.observation)
        return (target.probability[first] * values(start, np.zeros(len(first), np.int64))).sum(1)


@dataclasses.dataclass(frozen=True)
class NetworkDice:
    """DualDICE with two networks (Nachum et al., 2019, arXiv 1906.04733), by descent and ascent with Adam.

        min over nu, max over zeta of   E_D[(nu(s,a) - discount nu(s',a')) zeta(s,a) - |zeta(s,a)|^q / q]
                                        - (1 - discount) E[nu(s_0, a_0)],    1/p + 1/q = 1,  f(x) = |x|^p / p

    The expectation over a' and a_0 is taken exactly, for actions are few. `power` is p; 2 makes the inner problem a
    regression. J = E_D[zeta r] / (1 - discount), with zeta averaged over the final
    half of the steps' networks. The number for an episode is n times its part of that sum; there is no interval, as the
    networks would differ on other data.

    A saddle point is hard to find: in docs/off-policy.md this misses where the closed form, `density_ratio.dualdice`,
    does not. Compare the mean of `ratios` with 1 (where no episode terminates) before trusting it.
    """

    interval: ClassVar[bool] = False

    steps: int = 10_000
    batch_size: int = 256
    learning_rate: float = 1e-3
    power: float = 2.0  # p
    hidden_sizes: tuple[int, ...] = (64, 64)
    seed: int = 0

    def ratios(self, target: Target) -> Float[np.ndarray, " transition"]:
        """Return zeta of each transition: the target's frequency of visits relative to the log's."""
        _check_sizes(self.steps, self.batch_size)
        if target.horizon is not None or target.discount >= 1:
            raise ForageError("dualdice counts visits without a limit: it needs a discount below 1 and no horizon.")
        if self.power <= 1:
            raise ForageError(f"power is above 1, such as 1.5 or 2, not {self.power}.")
        logged, rows, space = target.logged, _rows(target), _space(target.logged.observation)
        start = jax.tree.map(lambda x: jnp.asarray(x[logged.first]), logged.observation)
        first = (start, jnp.asarray(target.probability[logged.first], jnp.float32))
        conjugate = self.power / (self.power - 1)
        optimiser = adam(self.learning_rate)
        share = 1.0 - target.discount

        def objective(pair: tuple[Scores, Scores], batch: TransitionRows, first: Any) -> Float[Array, ""]:
            nu, zeta = pair
            later = (batch.next_probability * nu(batch.next_observation)).sum(1)
            left = _select_values(nu(batch.observation), batch.action) - batch.goes_on * later
            ratio = _select_values(zeta(batch.observation), batch.action)
            begun = (first[1] * nu(first[0])).sum(1).mean()
            return jnp.mean(left * ratio - jnp.abs(ratio) ** conjugate / conjugate) - share * begun

        def learn(key: Key[Array, ""], rows: TransitionRows, first: Any) -> Scores:
            nu_key, zeta_key, key = jax.random.split(key, 3)
            pair = tuple(Scores(k, space, self.hidden_sizes, target.actions) for k in (nu_key, zeta_key))

            def step(carry: Any, inputs: Any) -> Any:
                pair, state, total = carry
                number, key = inputs
                row_key, first_key = jax.random.split(key)
                batch = _take(rows, jax.random.randint(row_key, (self.batch_size,), 0, logged.transitions))
                begun = _take(first, jax.random.randint(first_key, (self.batch_size,), 0, logged.episodes))
                down, up = jax.grad(objective)(pair, batch, begun)
                pair, state = optimiser.step((down, jax.tree.map(jnp.negative, up)), state, pair)
                weight = (number >= self.steps // 2) / (self.steps - self.steps // 2)
                return (pair, state, jax.tree.map(lambda sum, x: sum + weight * x, total, pair[1])), None

            inputs = (jnp.arange(self.steps), jax.random.split(key, self.steps))
            carry = (pair, optimiser.init(pair), jax.tree.map(jnp.zeros_like, pair[1]))
            return jax.lax.scan(step, carry, inputs)[0][2]

        found = values_of(jax.jit(learn)(prng.key(self.seed), rows, first))
        return target.at_logged_actions(found(logged.observation, logged.time))

    def __call__(self, target: Target) -> Float[np.ndarray, " episode"]:
        logged = target.logged
        scale = logged.episodes / logged.transitions / (1 - target.discount)
        return scale * target.per_episode(self.ratios(target) * logged.reward)


def values_of(network: Scores) -> ActionValues:
    """Return a network as a function of NumPy arrays, in pieces that fit the memory."""
    jitted: Callable[..., Array] = jax.jit(lambda network, observation: network(observation))

    def values(
        observation: PyTree[np.ndarray], time: Int[np.ndarray, " transition"]
    ) -> Float[np.ndarray, "transition action"]:
        piece = 4096
        starts = range(0, len(time), piece)
        pieces = [jitted(network, jax.tree.map(lambda x, at=at: x[at : at + piece], observation)) for at in starts]
        return np.concatenate([np.asarray(part, np.float64) for part in pieces])

    return values


def _rows(target: Target) -> TransitionRows:
    logged = target.logged
    goes_on = target.discount * ~logged.terminated
    arrays = (logged.observation, logged.action, logged.reward, logged.next_observation, goes_on)
    single = jax.tree.map(
        lambda x: jnp.asarray(x, jnp.float32 if x.dtype == np.float64 else None), (*arrays, target.next_probability)
    )
    return TransitionRows(*single)


def _take(rows: Any, index: Int[Array, " batch"]) -> Any:
    return jax.tree.map(lambda x: x[index], rows)


def _select_values(of_actions: Float[Array, "batch actions"], action: Int[Array, " batch"]) -> Float[Array, " batch"]:
    """Return the values by a one-hot product rather than a gather: its gradient is a product too, not a scatter."""
    return (of_actions * jax.nn.one_hot(action, of_actions.shape[1])).sum(1)


def _space(observation: PyTree[np.ndarray]) -> gymnasium.Space[Any]:
    """Return a space that fits observations: images for bytes, else numbers without bounds."""
    if isinstance(observation, dict):
        return gymnasium.spaces.Dict({name: _space(part) for name, part in observation.items()})
    if not isinstance(observation, np.ndarray):
        raise ForageError(f"Networks see arrays and dictionaries of them, not {type(observation).__name__}.")
    if observation.dtype == np.uint8:
        return gymnasium.spaces.Box(0, 255, observation.shape[1:], np.uint8)
    return gymnasium.spaces.Box(-np.inf, np.inf, observation.shape[1:], np.float32)


def _check_sizes(*sizes: int) -> None:
    if min(sizes) < 1:
        raise ForageError(f"iterations, steps and batch_size are at least 1, not {min(sizes)}.")
