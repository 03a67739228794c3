"""The intrinsic curiosity module: a bonus for unpredicted changes that the agent's action controls."""

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
from forage.nn.inverse import InverseModel
from forage.nn.networks import MLP
from forage.nn.normalise import RunningNorm
from forage.ops.optimiser import Optimiser, adam
from forage.ops.rows import fit
from forage.rewards.bonuses.base import Bonus
from forage.rewards.bonuses.rows import Transitions, as_rows, as_transitions, row_shape


class Curiosity(equinox.Module):
    """Both models over one embedding phi."""

    inverse: InverseModel
    forward: MLP  # from phi(s) and a to phi(s')

    def __init__(self, key: Key[Array, ""], shape: tuple[int, ...], spec: Spec, icm: ICM):
        inverse_key, forward_key = jax.random.split(key)
        size = icm.embedding_size
        self.inverse = InverseModel(inverse_key, shape, spec.action_space, icm.hidden_sizes, size, icm.head_size)
        sizes = (size + self.inverse.actions.outputs, icm.head_size, size)
        self.forward = MLP(forward_key, sizes, "relu", 2**0.5, last_gain=1.0)

    def __call__(self, rows: Transitions) -> tuple[Float[Array, " row"], Float[Array, " row"]]:
        """Return the errors of the inverse and of the forward model, for transitions between normalised
        observations.
        """
        now, after = (self.inverse.embedding.rows(seen) for seen in (rows.observation, rows.next_observation))
        heard = jax.vmap(self.inverse.actions.action_features)(rows.action)
        forward = 0.5 * jnp.sum((self.forward(jnp.concatenate([now, heard], axis=1)) - after) ** 2, axis=1)
        return jax.vmap(self.inverse.error)(now, after, rows.action), forward


class ICMState(NamedTuple):
    model: Curiosity
    scorer: Curiosity  # the model before it was trained on the newest rollout
    optimiser: Any
    observations: RunningNorm


class ICM(Bonus):
    """Error of predicting the next embedding: i = |f(phi(s), a) - phi(s')|^2 / 2.

    phi is learned with an inverse model g, which tells the action from phi(s) and phi(s'), so what neither follows from
    actions nor matters to them is left out. All are trained together on each rollout, to make

        (1 - beta) (-log g(a | phi(s), phi(s'))) + beta |f(phi(s), a) - phi(s')|^2 / 2

    small; the error of the inverse model is half the squared one where actions are continuous. A rollout's own bonus is
    that of the models before they were trained on it.

    beta, the learning rate and 256 hidden units are the paper's; there phi has 288 numbers, which come from four
    convolutions. Observations are normalised and the bonus is brought to unit scale as in Burda et al. (2018),
    "Large-Scale Study of Curiosity-Driven Learning", arXiv 1808.04355; as first published: `--rewards.normalise false
    --rewards.weight 0.01`.

    Source: Pathak, Agrawal, Efros, Darrell (2017), "Curiosity-driven Exploration by Self-supervised Prediction",
    arXiv 1705.05363.
    """

    example: ClassVar[str] = "forage train ppo grid:MultiRoom-N2-S4 --rewards icm"
    ranges: ClassVar[Ranges] = {"beta": Range(0, 1, below=True)}
    needs: ClassVar[Needs] = Needs(actions="any", observations="array")

    weight: float = 0.5
    learning_rate: float = 1e-3
    beta: float = 0.2  # share of the forward model's loss; larger learns less of which action was taken
    epochs: int = equinox.field(static=True, default=1)
    minibatch_size: int = equinox.field(static=True, default=256)
    embedding_size: int = equinox.field(static=True, default=64)
    head_size: int = equinox.field(static=True, default=256)  # hidden units of both models
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64, 64))  # units of each hidden layer, where
    # observations are no images

    def begin(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> ICMState:
        shape = row_shape(spec)
        model = Curiosity(key, shape, spec, self)
        # A buffer of its own, so that both can be donated.
        return ICMState(
            model, jax.tree.map(jnp.copy, model), self.optimiser().init(model), RunningNorm.from_shape(shape)
        )

    def optimiser(self) -> Optimiser:
        return adam(self.learning_rate, flat=True)

    def novelty(self, own: ICMState, experience: Experience) -> Float[Array, "time batch"]:
        rows = as_transitions(own.observations, experience)
        _, errors = own.scorer(rows)
        return errors.reshape(experience.ended.shape)

    def study(
        self, own: ICMState, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[ICMState, PyTree[Array], Metrics]:
        seen = as_rows(own.observations.mean.shape, rollout.next_observation)
        own = own._replace(scorer=own.model, observations=own.observations.update(seen, rollout.counts.reshape(-1)))

        def loss(model: Curiosity, rows: Transitions) -> Array:
            inverse, forward = model(rows)
            return jnp.mean(rows.weight * ((1 - self.beta) * inverse + self.beta * forward))

        rows = as_transitions(own.observations, rollout)
        model, optimiser, value = fit(
            loss, self.optimiser(), own.model, own.optimiser, rows, key, self.epochs, self.minibatch_size
        )
        return own._replace(model=model, optimiser=optimiser), (), {"icm_loss": value}
