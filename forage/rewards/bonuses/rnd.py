"""Random network distillation: novelty is the error in predicting a fixed random network."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Bool, Float, Key, PyTree

from forage.core.ports import Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.spaces import channels_first, describe_space, observation_part, split_mask
from forage.core.types import Clock, Experience, ForageError, Spec
from forage.nn.embedding import LIMIT, Embedding
from forage.nn.normalise import RunningNorm
from forage.ops.optimiser import Optimiser, adam
from forage.ops.rows import fit
from forage.rewards.bonuses.base import Bonus
from forage.rewards.bonuses.rows import as_rows, row_shape


class RNDState(NamedTuple):
    target: Embedding  # never trained
    predictor: Embedding
    scorer: Embedding  # the predictor before it was trained on the newest rollout
    optimiser: Any
    observations: RunningNorm


class RND(Bonus):
    """Error of predicting a random network's features of the next observation: i(o) = mean_k (predictor_k(x) -
    target_k(x))^2.

        x = clip((o - mean) / std, -5, 5)

    The target is a random network; the predictor is trained to match it on each rollout: `epochs` times on a random
    `proportion` of it, in minibatches. A rollout's own bonus is that of the predictor before it was trained on the
    rollout; transitions replayed later get the predictor's error at that time.

    As published, with a value head of its own for the bonus, whose returns go on across the ends of episodes:
    `forage train ppo ENVIRONMENT --rewards rnd --bonus-head true --discount 0.999`. With any other agent the bonus is
    added to the reward.

    Works on vectors, images and numbers; defaults from the paper (which weighs the two advantages 2 to 1) and its
    authors' code, but for the MLP it did not need. Where no `proportion` is told, the predictor trains on as much as 32
    environments make, as published: all of it up to 32, a quarter with 128. Published, its networks see only the last
    of four stacked frames: `--rewards.channels 1`, of grey ones. There convolutions are leaky, the first mean and
    spread of observations come from 6400 steps of chance in each environment, and the last observation of an episode is
    not seen; here they come from the first rollout, before it is scored, and it is.

    Source: Burda, Edwards, Storkey, Klimov (2018), "Exploration by Random Network Distillation", arXiv 1810.12894.
    """

    example: ClassVar[str] = "forage train ppo DeepSea-10 --rewards rnd"
    ranges: ClassVar[Ranges] = {"proportion": Range(0, 1, above=True), "channels": Range(1)}
    needs: ClassVar[Needs] = Needs(observations="array")

    weight: float = 0.5
    learning_rate: float = 1e-4
    epochs: int = equinox.field(static=True, default=4)
    proportion: float | None = equinox.field(static=True, default=None)  # share of each rollout that the predictor
    # trains on; none: as much as 32 environments make
    minibatch_size: int = equinox.field(static=True, default=1024)
    embedding_size: int = equinox.field(static=True, default=512)
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64, 64))  # units of each hidden layer, where
    # observations are no images
    channels: int | None = equinox.field(static=True, default=None)  # last entries of the observation's last axis that
    # are seen; none: all

    def check(self, spec: Spec) -> None:
        super().check(spec)
        space = observation_part(spec.observation_space)
        if self.channels is not None and not (
            isinstance(space, spaces.Box) and space.shape and 1 <= self.channels <= space.shape[-1]
        ):
            raise ForageError(
                f"RND's channels count from the end of an observation's last axis; got channels={self.channels}, and "
                f"{spec.name} gives {describe_space(space)}."
            )

    def begin(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> RNDState:
        target_key, predictor_key = jax.random.split(key)
        shape = row_shape(spec)
        if self.channels is not None:
            shape = (
                (self.channels, *shape[1:])
                if len(shape) == 3 and channels_first(shape)
                else (*shape[:-1], self.channels)
            )
        predictor = Embedding(predictor_key, shape, self.hidden_sizes, self.embedding_size, extra_layers=2)
        return RNDState(
            Embedding(target_key, shape, self.hidden_sizes, self.embedding_size),
            predictor,
            jax.tree.map(jnp.copy, predictor),  # a buffer of its own, so that both can be donated
            self.optimiser().init(predictor),
            RunningNorm.from_shape(shape),
        )

    def optimiser(self) -> Optimiser:
        return adam(self.learning_rate, flat=True)

    def novelty(self, own: RNDState, experience: Experience) -> Float[Array, "time batch"]:
        errors = self.errors(own.scorer, own.target, own.observations, self.rows(own, experience))
        return errors.reshape(experience.ended.shape)

    def rows(self, own: RNDState, experience: Experience) -> Float[Array, "row ..."]:
        observation, _ = split_mask(experience.next_observation)
        if self.channels is not None:
            first = own.observations.mean.ndim == 3 and channels_first(observation.shape[-3:])
            observation = observation[..., -self.channels :, :, :] if first else observation[..., -self.channels :]
        return as_rows(own.observations.mean.shape, observation)

    def errors(
        self, predictor: Embedding, target: Embedding, norm: RunningNorm, rows: Float[Array, "row ..."]
    ) -> Float[Array, " row"]:
        x = jax.vmap(lambda row: norm(row, LIMIT))(rows)
        return jnp.mean((predictor.rows(x) - target.rows(x)) ** 2, axis=-1)

    def study(
        self, own: RNDState, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[RNDState, PyTree[Array], Metrics]:
        rows = self.rows(own, rollout)
        counts = rollout.counts.reshape(-1)
        own = own._replace(scorer=own.predictor, observations=own.observations.update(rows, counts))
        num_envs = rollout.ended.shape[1]
        proportion = min(1.0, 32 / num_envs) if self.proportion is None else self.proportion
        predictor, optimiser, loss = self.train(own, rows, counts, key, proportion)
        return own._replace(predictor=predictor, optimiser=optimiser), (), {"rnd_loss": loss}

    def train(
        self,
        own: RNDState,
        rows: Float[Array, "row ..."],
        counts: Bool[Array, " row"],
        key: Key[Array, ""],
        proportion: float,
    ) -> tuple[Embedding, Any, Float[Array, ""]]:
        """Return the predictor and optimiser after one rollout, and the mean loss on the way."""

        def loss(predictor: Embedding, given: tuple[Array, Array]) -> Array:
            rows, counts = given
            return jnp.mean(counts * self.errors(predictor, own.target, own.observations, rows))

        return fit(
            loss,
            self.optimiser(),
            own.predictor,
            own.optimiser,
            (rows, counts),
            key,
            self.epochs,
            self.minibatch_size,
            proportion,
        )
