"""Exploration via elliptical episodic bonuses: novelty within the episode, in directions that actions control."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from forage.core.ports import Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Clock, Experience, Spec
from forage.nn.inverse import InverseModel
from forage.nn.normalise import RunningNorm
from forage.ops.optimiser import Optimiser, adam
from forage.ops.rows import fit
from forage.rewards.bonuses.base import Bonus
from forage.rewards.bonuses.rows import Transitions, as_rows, as_transitions, row_shape


class E3BState(NamedTuple):
    model: InverseModel
    optimiser: Any
    observations: RunningNorm
    root: Float[Array, "env phi phi"]  # S with C^-1 = S S', of each episode under way
    fresh: Bool[Array, " env"]  # an episode begins with the next step


class E3B(Bonus):
    """Novelty of a state to its episode: i_t = phi(s_t)' C^-1 phi(s_t), C = sum_{i<t} phi(s_i) phi(s_i)' + ridge I.

    It counts visits, softly: of one-hot phi it is 1 / (n + ridge), where n is how often the episode was there. So it
    suits levels that are drawn anew for each episode, where being new to all episodes says little. phi is learned with
    an inverse model, which tells the action from phi(s) and phi(s'), so only what actions move makes a state new.

    C^-1 is carried on from step to step, by the rule of Sherman and Morrison, and begun anew with each episode. Of it
    the root S is kept, C^-1 = S S': the inverse itself would lose its signs to rounding where embeddings are large. The
    bonus is noted as the rollout comes in, with the phi of that day, which is then trained on the rollout.

    `ridge` and the learning rate are the paper's, whose phi has 1024 numbers in MiniHack: each step costs the square of
    `embedding_size`, for each environment. The authors' code for MiniHack weighs the bonus 1 and divides it by its own
    running deviation (for VizDoom by nothing), pays the state that is left, and clips what is paid in all to [-1, 1];
    here it is divided by the deviation of its discounted returns, as every bonus is, which is much larger.

    Source: Henaff, Raileanu, Jiang, Rocktaeschel (2022), "Exploration via Elliptical Episodic Bonuses",
    arXiv 2210.05805.
    """

    example: ClassVar[str] = "forage train ppo grid:MultiRoom-N4-S5 --rewards e3b"
    ranges: ClassVar[Ranges] = {"ridge": Range(0, above=True)}
    needs: ClassVar[Needs] = Needs(actions="any", observations="array")

    weight: float = 0.1  # weight of the bonus; small, or a reward that ends the episode is worth less than novelty
    ridge: float = 0.1  # multiple of the identity in C; larger pays the first visits less
    learning_rate: float = 1e-4
    epochs: int = equinox.field(static=True, default=1)
    minibatch_size: int = equinox.field(static=True, default=256)
    embedding_size: int = equinox.field(static=True, default=64)
    head_size: int = equinox.field(static=True, default=256)  # hidden units of the inverse model
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64, 64))  # units of each hidden layer, where
    # observations are no images

    def remark(self, spec: Spec) -> Float[Array, ""]:
        return jnp.zeros(())

    def begin(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> E3BState:
        shape, size = row_shape(spec), self.embedding_size
        model = InverseModel(key, shape, spec.action_space, self.hidden_sizes, size, self.head_size)
        return E3BState(
            model,
            self.optimiser().init(model),
            RunningNorm.from_shape(shape),
            jnp.zeros((num_envs, size, size)),
            jnp.ones(num_envs, bool),
        )

    def optimiser(self) -> Optimiser:
        return adam(self.learning_rate, flat=True)

    def novelty(self, own: E3BState, experience: Experience) -> Float[Array, "time batch"]:
        return experience.rewards_info

    def study(
        self, own: E3BState, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[E3BState, PyTree[Array], Metrics]:
        rows = as_rows(own.observations.mean.shape, rollout.next_observation)
        own = own._replace(observations=own.observations.update(rows, rollout.counts.reshape(-1)))
        transitions = as_transitions(own.observations, rollout)
        now, after = (
            own.model.embedding.rows(rows).reshape(*rollout.ended.shape, -1)
            for rows in (transitions.observation, transitions.next_observation)
        )
        (root, fresh), novelty = jax.lax.scan(jax.vmap(self.step), (own.root, own.fresh), (now, after, rollout.ended))

        def loss(model: InverseModel, rows: Transitions) -> Array:
            now, after = (model.embedding.rows(seen) for seen in (rows.observation, rows.next_observation))
            return jnp.mean(rows.weight * jax.vmap(model.error)(now, after, rows.action))

        model, optimiser, value = fit(
            loss, self.optimiser(), own.model, own.optimiser, transitions, key, self.epochs, self.minibatch_size
        )
        own = E3BState(model, optimiser, own.observations, root, fresh)
        return own, novelty, {"inverse_loss": value}

    def forget(self, own: E3BState) -> E3BState:
        return own._replace(fresh=jnp.ones_like(own.fresh))

    def step(
        self,
        carry: tuple[Float[Array, "phi phi"], Bool[Array, ""]],
        seen: tuple[Float[Array, " phi"], Float[Array, " phi"], Bool[Array, ""]],
    ) -> tuple[tuple[Float[Array, "phi phi"], Bool[Array, ""]], Float[Array, ""]]:
        """Compute the bonus of one step of one environment. An episode's first state is in C before that."""
        root, fresh = carry
        now, after, ended = seen
        first, _ = sherman_morrison(jnp.eye(len(now)) * jax.lax.rsqrt(jnp.asarray(self.ridge, jnp.float32)), now)
        root, novelty = sherman_morrison(jnp.where(fresh, first, root), after)
        return (root, ended), novelty


def sherman_morrison(
    root: Float[Array, "phi phi"], x: Float[Array, " phi"]
) -> tuple[Float[Array, "phi phi"], Float[Array, ""]]:
    """Return the root of (C + x x')^-1 from that of C^-1 = S S', and x' C^-1 x.

    (C + x x')^-1 = C^-1 - C^-1 x x' C^-1 / (1 + x' C^-1 x), and S <- S (I - f f' / (r (r + 1))) with f = S' x and
    r^2 = 1 + f' f is its root (Potter, 1963).
    """
    f = x @ root
    square = f @ f
    r = jnp.sqrt(1 + square)
    return root - jnp.outer(root @ f, f) / (r * (r + 1)), square
