"""Disagreement: a bonus for transitions on which independently trained models differ."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.core.ports import Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Clock, Experience, Spec
from forage.nn.distributions import Actions
from forage.nn.embedding import Embedding
from forage.nn.normalise import RunningNorm
from forage.ops.optimiser import Optimiser, adam
from forage.ops.rows import fit
from forage.rewards.bonuses.base import Bonus
from forage.rewards.bonuses.rows import as_rows, as_transitions, row_shape
from forage_papers.nn.ensemble import Ensemble, bootstrap, disagreement


class View(equinox.Module):
    """The models' inputs: phi of an observation, and the action as numbers. Never trained."""

    features: Embedding | None  # of images; vectors and numbers are seen as they are
    actions: Actions = equinox.field(static=True)

    def phi(self, rows: Float[Array, "row ..."]) -> Float[Array, "row phi"]:
        return rows.reshape(len(rows), -1) if self.features is None else self.features.rows(rows)

    def __call__(self, rows: Float[Array, "row ..."], action: Array) -> Float[Array, "row inputs"]:
        return jnp.concatenate([self.phi(rows), jax.vmap(self.actions.action_features)(action)], 1)


class DisagreementState(NamedTuple):
    view: View
    ensemble: Ensemble
    scorer: Ensemble  # the models before they were trained on the newest rollout
    optimiser: Any
    observations: RunningNorm


class Disagreement(Bonus):
    """Disagreement of models of the next observation: i = mean_k Var_m(f_m(phi(s), a)_k).

    Each of `members` models learns from each rollout, without what a coin of its own leaves out, to make
    mean_k (f_m(phi(s), a)_k - phi(s')_k)^2 small. Where much was seen they agree, on the mean where the world is noise,
    so noise does not attract, as it does where the error itself is paid for. phi is the normalised observation, or
    what a random network makes of it where that is an image, as in the paper's Atari games. A rollout's own bonus is
    that of the models before they were trained on it.

    Five members, their share of rows, three epochs, minibatches and the learning rate are the paper's code's; there
    each model is a residual network of 512 units on as many features, here an MLP, coins are tossed anew at every
    gradient step, and observations are normalised as 10,000 steps of chance found them. There the bonus is all
    that is learned from, its returns going on across the ends of episodes; here it stands beside the reward. The paper
    also differentiates the bonus towards the action, where one step is all that counts; here it is learned from as any
    reward.

    Source: Pathak, Gandhi, Gupta (2019), "Self-Supervised Exploration via Disagreement", arXiv 1906.04161.
    """

    example: ClassVar[str] = "forage train ppo MountainCar-v0 --rewards disagreement"
    ranges: ClassVar[Ranges] = {"keep": Range(0, 1, above=True)}
    needs: ClassVar[Needs] = Needs(actions="any", observations="array")

    weight: float = 0.5
    learning_rate: float = 1e-4
    keep: float = 0.8  # chance that a member learns from a transition; smaller keeps members further apart
    members: int = equinox.field(static=True, default=5)  # networks whose predictions are compared; more measure
    # disagreement better, at more computing
    epochs: int = equinox.field(static=True, default=3)
    minibatch_size: int = equinox.field(static=True, default=2048)
    embedding_size: int = equinox.field(static=True, default=128)  # numbers that an image is turned into; more keep
    # more of it
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64, 64))  # units of each hidden layer of each
    # member

    def begin(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> DisagreementState:
        view_key, ensemble_key = jax.random.split(key)
        shape, actions = row_shape(spec), Actions.from_space(spec.action_space)
        image = Embedding(view_key, shape, (1,), self.embedding_size) if len(shape) == 3 else None
        view = View(image, actions)
        size = jax.eval_shape(view.phi, jnp.zeros((1, *shape))).shape[1]
        sizes = (size + actions.outputs, *self.hidden_sizes, size)
        ensemble = Ensemble(ensemble_key, self.members, sizes, gain=2**0.5)
        return DisagreementState(
            view,
            ensemble,
            jax.tree.map(jnp.copy, ensemble),  # a buffer of its own, so that both can be donated
            self.optimiser().init(ensemble),
            RunningNorm.from_shape(shape),
        )

    def optimiser(self) -> Optimiser:
        return adam(self.learning_rate, flat=True)

    def novelty(self, own: DisagreementState, experience: Experience) -> Float[Array, "time batch"]:
        rows = as_transitions(own.observations, experience)
        return disagreement(own.scorer(own.view(rows.observation, rows.action))).reshape(experience.ended.shape)

    def study(
        self, own: DisagreementState, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[DisagreementState, PyTree[Array], Metrics]:
        keep_key, fit_key = jax.random.split(key)
        seen = as_rows(own.observations.mean.shape, rollout.next_observation)
        own = own._replace(scorer=own.ensemble, observations=own.observations.update(seen, rollout.counts.reshape(-1)))
        rows = as_transitions(own.observations, rollout)
        weight = rows.weight[:, None] * bootstrap(keep_key, len(rows.weight), self.members, self.keep)
        inputs, targets = own.view(rows.observation, rows.action), own.view.phi(rows.next_observation)
        ensemble, optimiser, loss = fit(
            lambda ensemble, rows: ensemble.loss(*rows),
            self.optimiser(),
            own.ensemble,
            own.optimiser,
            (inputs, targets, weight),
            fit_key,
            self.epochs,
            self.minibatch_size,
        )
        own = own._replace(ensemble=ensemble, optimiser=optimiser)
        return own, (), {"disagreement_loss": loss / self.members}
