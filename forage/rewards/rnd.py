"""Random network distillation: what the predictor cannot foretell has not been seen often."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float, Key, PyTree

from forage.nn.networks import MLP, Torso
from forage.nn.normalise import RunningNorm
from forage.nn.optimiser import Optimiser, adam
from forage.ports import Metrics, Rewards
from forage.rewards.environment import EnvironmentReward
from forage.rewards.scaling import discounted_returns
from forage.spaces import describe, seen, split_mask
from forage.types import Experience, ForageError, Spec


class Embedding(equinox.Module):
    """From a normalised observation to `embedding_size` numbers."""

    torso: Torso
    head: MLP

    def __init__(self, key: Key[Array, ""], shape: tuple[int, ...], rnd: RND, extra_layers: int):
        torso_key, head_key = jax.random.split(key)
        # Normalised observations are floats about zero, also where the environment's are bytes.
        space = spaces.Box(-LIMIT, LIMIT, shape, np.float32)
        gain = 2**0.5
        self.torso = Torso(torso_key, space, rnd.hidden_sizes, "relu", gain)
        sizes = (self.torso.size,) * (1 + extra_layers) + (rnd.embedding_size,)
        self.head = MLP(head_key, sizes, "relu", gain, last_gain=gain)

    def __call__(self, observation: Float[Array, "*shape"]) -> Float[Array, " embedding"]:
        return self.head(self.torso(observation))


class RNDState(NamedTuple):
    inner: Any
    target: Embedding  # never trained
    predictor: Embedding
    scorer: Embedding  # the predictor before it was trained on the newest rollout
    optimiser: Any
    observations: RunningNorm
    running: Float[Array, " env"]  # discounted intrinsic return
    returns: RunningNorm  # of those


LIMIT = 5.0
"""Normalised observations are clipped to plus or minus this (Burda et al., section 2.4)."""


class RND(Rewards):
    """r' = r + coefficient i / std(G): r is what `inner` gives, i how badly the next observation is predicted.

        i(o) = mean_k (predictor_k(x) - target_k(x))^2,    x = clip((o - mean) / std, -5, 5)

    The target is a random network; the predictor is trained to match it on each rollout: `epochs` times on a random
    `proportion` of it, in minibatches. G = i + discount G is the running intrinsic return of each environment, which
    goes on across the ends of episodes; only its spread over all of them is used. A rollout's own bonus is that of the
    predictor before it was trained on the rollout; what is replayed later gets the bonus of its day.

    The sum has one value function, so what the agent expects of the bonus ends with the episode. The paper's second,
    non-episodic value head, with a discount of its own, is not part of this.

    Works on vectors, images and numbers; defaults from the paper, but for the MLP it did not need
    and for `coefficient` (the paper weighs the two advantages 2 to 1).

    Source: Burda, Edwards, Storkey, Klimov (2018), "Exploration by Random Network Distillation", arXiv 1810.12894.
    """

    coefficient: float = 0.5
    discount: float = 0.99
    learning_rate: float = 1e-4
    epochs: int = equinox.field(static=True, default=4)
    proportion: float = equinox.field(static=True, default=0.25)
    minibatch_size: int = equinox.field(static=True, default=256)
    embedding_size: int = equinox.field(static=True, default=512)
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64, 64))  # where there is no image
    inner: Rewards = equinox.field(default_factory=EnvironmentReward)

    def __check_init__(self):
        if not 0 < self.proportion <= 1 or self.epochs < 1 or self.minibatch_size < 1:
            raise ForageError(
                f"RND needs a proportion above 0 and at most 1, and epochs and minibatch_size of 1 or more; got "
                f"proportion={self.proportion}, epochs={self.epochs}, minibatch_size={self.minibatch_size}."
            )

    def check(self, spec: Spec) -> None:
        self.inner.check(spec)
        space = seen(spec.observation_space)
        if not isinstance(space, spaces.Box | spaces.Discrete):
            raise ForageError(f"RND sees boxes, images and numbers; {spec.name} gives {describe(space)}; flatten it.")

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> RNDState:
        inner_key, target_key, predictor_key = jax.random.split(key, 3)
        space = seen(spec.observation_space)
        shape = (int(space.n),) if isinstance(space, spaces.Discrete) else space.shape
        assert shape is not None
        predictor = Embedding(predictor_key, shape, self, extra_layers=2)
        return RNDState(
            self.inner.init(inner_key, spec, num_envs),
            Embedding(target_key, shape, self, extra_layers=0),
            predictor,
            jax.tree.map(jnp.copy, predictor),  # a buffer of its own, so that both can be donated
            self.optimiser().init(predictor),
            RunningNorm.of(shape),
            jnp.zeros(num_envs),
            RunningNorm.of(()),
        )

    def optimiser(self) -> Optimiser:
        return adam(self.learning_rate, flat=True)

    def novelty(self, state: RNDState, observation: PyTree[Array]) -> Float[Array, "time batch"]:
        """i(o) of each observation (leaves `time batch ...`), before normalisation."""
        rows = as_rows(state.observations, observation)
        batch = jax.tree.leaves(observation)[0].shape[:2]
        return self.errors(state.scorer, state.target, state.observations, rows).reshape(batch)

    def errors(
        self, predictor: Embedding, target: Embedding, norm: RunningNorm, rows: Float[Array, "row ..."]
    ) -> Float[Array, " row"]:
        def error(row: Array) -> Array:
            x = norm(row, LIMIT)
            return jnp.mean((predictor(x) - target(x)) ** 2)

        return jax.vmap(error)(rows)

    def relabel(self, state: RNDState, experience: Experience) -> Experience:
        experience = self.inner.relabel(state.inner, experience)
        bonus = self.novelty(state, experience.next_observation) / jnp.sqrt(state.returns.variance + 1e-8)
        return experience._replace(reward=experience.reward + self.coefficient * bonus)

    def learn(self, state: RNDState, rollout: Experience, key: Key[Array, ""]) -> tuple[RNDState, Metrics]:
        inner_key, train_key = jax.random.split(key)
        inner, metrics = self.inner.learn(state.inner, rollout, inner_key)
        rows = as_rows(state.observations, rollout.next_observation)
        state = state._replace(inner=inner, scorer=state.predictor, observations=state.observations.update(rows))
        novelty = self.novelty(state, rollout.next_observation)
        # The intrinsic return goes on across the ends of episodes.
        running, returns = discounted_returns(state.running, novelty, jnp.zeros_like(rollout.ended), self.discount)
        norm = state.returns.update(returns.reshape(-1))
        predictor, optimiser, loss = self.train(state, rows, train_key)
        state = state._replace(predictor=predictor, optimiser=optimiser, running=running, returns=norm)
        bonus = novelty.mean() / jnp.sqrt(norm.variance + 1e-8)
        return state, metrics | {"rnd_loss": loss, "rnd_bonus": bonus}

    def train(
        self, state: RNDState, rows: Float[Array, "row ..."], key: Key[Array, ""]
    ) -> tuple[Embedding, Any, Float[Array, ""]]:
        """Returns the predictor and optimiser after one rollout, and the mean loss on the way."""
        used = max(1, round(self.proportion * rows.shape[0]))
        minibatches = max(1, used // self.minibatch_size)
        used -= used % minibatches

        def loss(predictor: Embedding, rows: Array) -> Array:
            return self.errors(predictor, state.target, state.observations, rows).mean()

        def minibatch(carry: tuple[Any, Any], rows: Array) -> tuple[tuple[Any, Any], Array]:
            predictor, optimiser = carry
            value, gradient = jax.value_and_grad(loss)(predictor, rows)
            return self.optimiser().step(gradient, optimiser, predictor), value

        def epoch(carry: tuple[Any, Any], key: Key[Array, ""]) -> tuple[tuple[Any, Any], Array]:
            order = jax.random.permutation(key, rows.shape[0])[:used]
            return jax.lax.scan(minibatch, carry, rows[order].reshape(minibatches, -1, *rows.shape[1:]))

        carry = (state.predictor, state.optimiser)
        (predictor, optimiser), losses = jax.lax.scan(epoch, carry, jax.random.split(key, self.epochs))
        return predictor, optimiser, losses.mean()


def as_rows(norm: RunningNorm, observation: PyTree[Array]) -> Float[Array, "row ..."]:
    """What is seen (leaves `time batch ...`), as one row of floats each; a discrete observation as one-hot."""
    observation, _ = split_mask(observation)
    if observation.ndim - 2 < norm.mean.ndim:
        observation = jax.nn.one_hot(observation, norm.mean.shape[0])
    return observation.reshape(-1, *norm.mean.shape).astype(jnp.float32)
