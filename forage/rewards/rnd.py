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
from forage.ports import Metrics
from forage.rewards.bonus import Bonus
from forage.rewards.rows import as_rows, row_shape
from forage.types import Clock, Experience, ForageError, Spec


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
    target: Embedding  # never trained
    predictor: Embedding
    scorer: Embedding  # the predictor before it was trained on the newest rollout
    optimiser: Any
    observations: RunningNorm


LIMIT = 5.0
"""Normalised observations are clipped to plus or minus this (Burda et al., section 2.4)."""


class RND(Bonus):
    """How badly the next observation is predicted: i(o) = mean_k (predictor_k(x) - target_k(x))^2.

        x = clip((o - mean) / std, -5, 5)

    The target is a random network; the predictor is trained to match it on each rollout: `epochs` times on a random
    `proportion` of it, in minibatches. A rollout's own bonus is that of the predictor before it was trained on the
    rollout; what is replayed later gets the bonus of its day.

    As published, with a value head of its own for the bonus, whose returns go on across the ends of episodes:
    `forage train ppo ENVIRONMENT --rewards rnd --bonus-head true --discount 0.999`. With any other agent the bonus is
    added to the reward.

    Works on vectors, images and numbers; defaults from the paper (which weighs the two advantages 2 to 1), but for the
    MLP it did not need.

    Source: Burda, Edwards, Storkey, Klimov (2018), "Exploration by Random Network Distillation", arXiv 1810.12894.
    """

    weight: float = 0.5
    learning_rate: float = 1e-4
    epochs: int = equinox.field(static=True, default=4)
    proportion: float = equinox.field(static=True, default=0.25)
    minibatch_size: int = equinox.field(static=True, default=256)
    embedding_size: int = equinox.field(static=True, default=512)
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64, 64))  # where there is no image

    def __check_init__(self):
        if not 0 < self.proportion <= 1 or self.epochs < 1 or self.minibatch_size < 1:
            raise ForageError(
                f"RND needs a proportion above 0 and at most 1, and epochs and minibatch_size of 1 or more; got "
                f"proportion={self.proportion}, epochs={self.epochs}, minibatch_size={self.minibatch_size}."
            )

    def check(self, spec: Spec) -> None:
        super().check(spec)
        row_shape("RND", spec)

    def begin(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> RNDState:
        target_key, predictor_key = jax.random.split(key)
        shape = row_shape("RND", spec)
        predictor = Embedding(predictor_key, shape, self, extra_layers=2)
        return RNDState(
            Embedding(target_key, shape, self, extra_layers=0),
            predictor,
            jax.tree.map(jnp.copy, predictor),  # a buffer of its own, so that both can be donated
            self.optimiser().init(predictor),
            RunningNorm.of(shape),
        )

    def optimiser(self) -> Optimiser:
        return adam(self.learning_rate, flat=True)

    def novelty(self, own: RNDState, experience: Experience) -> Float[Array, "time batch"]:
        rows = as_rows(own.observations.mean.shape, experience.next_observation)
        errors = self.errors(own.scorer, own.target, own.observations, rows)
        return errors.reshape(experience.ended.shape)

    def errors(
        self, predictor: Embedding, target: Embedding, norm: RunningNorm, rows: Float[Array, "row ..."]
    ) -> Float[Array, " row"]:
        def error(row: Array) -> Array:
            x = norm(row, LIMIT)
            return jnp.mean((predictor(x) - target(x)) ** 2)

        return jax.vmap(error)(rows)

    def study(
        self, own: RNDState, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[RNDState, PyTree[Array], Metrics]:
        rows = as_rows(own.observations.mean.shape, rollout.next_observation)
        own = own._replace(scorer=own.predictor, observations=own.observations.update(rows))
        predictor, optimiser, loss = self.train(own, rows, key)
        return own._replace(predictor=predictor, optimiser=optimiser), (), {"rnd_loss": loss}

    def train(
        self, own: RNDState, rows: Float[Array, "row ..."], key: Key[Array, ""]
    ) -> tuple[Embedding, Any, Float[Array, ""]]:
        """Returns the predictor and optimiser after one rollout, and the mean loss on the way."""
        used = max(1, round(self.proportion * rows.shape[0]))
        minibatches = max(1, used // self.minibatch_size)
        used -= used % minibatches

        def loss(predictor: Embedding, rows: Array) -> Array:
            return self.errors(predictor, own.target, own.observations, rows).mean()

        def minibatch(carry: tuple[Any, Any], rows: Array) -> tuple[tuple[Any, Any], Array]:
            predictor, optimiser = carry
            value, gradient = jax.value_and_grad(loss)(predictor, rows)
            return self.optimiser().step(gradient, optimiser, predictor), value

        def epoch(carry: tuple[Any, Any], key: Key[Array, ""]) -> tuple[tuple[Any, Any], Array]:
            order = jax.random.permutation(key, rows.shape[0])[:used]
            return jax.lax.scan(minibatch, carry, rows[order].reshape(minibatches, -1, *rows.shape[1:]))

        carry = (own.predictor, own.optimiser)
        (predictor, optimiser), losses = jax.lax.scan(epoch, carry, jax.random.split(key, self.epochs))
        return predictor, optimiser, losses.mean()
