"""Inverse soft Q-learning for continuous actions: the critics of soft actor-critic learn from demonstrations.

Garg, Chakraborty, Cundy, Song, Ermon (2021), "IQ-Learn: Inverse soft-Q Learning for Imitation", arXiv 2106.12142. With
temperature alpha, b ~ pi(.|s) and V(s) = min_j Q_j(s, b) - alpha log pi(b|s), V' the same of the target critics, each
critic takes one step down

    -mean_demonstrations r_i + mean (V(s) - discount (1 - terminated) V'(s')) + mean r_i^2 / (4 strength)
    r_i = Q_i(s, a) - discount (1 - terminated) V'(s')

over as many demonstrations as transitions of the agent's own (`forage_papers.ops.inverse_q`), and the actor maximises
the critics at the states of both, as in soft actor-critic. Every r_i is of the recorded action, as in the authors'
first release and in their program today (Div99/IQ-Learn: iq.py; one version between them, 1f08bf3, asked the policy for
another action in the last mean). The environment's reward is not used to learn; a memory's weights are those of the
agent's own transitions.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from forage.agents.actor_critic.base import UpdateInputs
from forage.agents.actor_critic.sac import SAC
from forage.core.ports import Metrics, State
from forage.core.ports.needs import Choices, Needs, Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock
from forage.data.demonstrations import Demonstrations, as_demonstrations, join_experience
from forage.nn.critics import ActionValue, CriticReport, each_value, min_of_critics
from forage_papers.ops.inverse_q import OBJECTIVES, inverse_q


class IQLearnSAC(SAC):
    """Inverse soft Q-learning on soft actor-critic (Garg et al., 2021, arXiv 2106.12142).

    Defaults are those of the authors' code for MuJoCo tasks: a fixed temperature of 0.01, divergence of strength 0.5
    over demonstrations and own states, two layers of 256. Their scripts give the actor a smaller step size, 3e-5, where
    here all have one; the bounds of the policy's deviation are those of `sac`; and their objective `v0`, for Hopper and
    Walker, is not here. For numbered actions see `iq-learn`.
    """

    example: ClassVar[str] = "forage train iq-learn-sac Pendulum-v1 --demonstrations expert.npz"
    uncalled: ClassVar[dict[str, str]] = {"critic_loss": "its critics learn by inverse_q in evaluate"}
    ranges: ClassVar[Ranges] = {"strength": Range(0, above=True)}
    needs: ClassVar[Needs] = Needs(given="demonstrations")
    choices: ClassVar[Choices] = {"objective": OBJECTIVES}
    unused: ClassVar[Unused] = {
        "backup_entropy": "IQ-Learn's values are soft throughout",
        "bins quantiles diversity": "IQ-Learn's values are numbers with an objective of their own",
    }

    demonstrations: str | Demonstrations | None = equinox.field(
        default=None, converter=as_demonstrations
    )  # file of the
    # transitions to imitate, as forage data record writes it
    strength: float = 0.5  # how far rewards may be from 0; larger lets them be further
    objective: str = equinox.field(static=True, default="value")  # whose states' values are made small: value (all) or
    # value_expert (the demonstrations')
    regularise_own: bool = equinox.field(static=True, default=True)  # rewards of the agent's own transitions are kept
    # near 0 as well as those of demonstrations
    initial_temperature: float = 0.01
    learn_temperature: bool = equinox.field(static=True, default=False)  # learn the temperature; else it stays what it
    # is at first

    def learn(
        self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        assert isinstance(self.demonstrations, Demonstrations)
        own = batch.transitions
        shown = self.demonstrations.draw(jax.random.fold_in(key, 2), self.batch_size)
        rows = self.normalise_batch(state, join_experience(shown, own))
        action = jax.vmap(state.actor.actions.action_features)(rows.action)
        noise, *others = jax.random.normal(key, (3, *action.shape))
        weight = jnp.concatenate([jnp.ones(self.batch_size), batch.weight])
        inputs = UpdateInputs(rows, action, weight * rows.counts, noise, jnp.stack(others), self.critic_keys(key))
        state, metrics, error = self.update(state, inputs)
        return state, metrics, error[self.batch_size :]

    def evaluate(self, state: State, inputs: UpdateInputs) -> tuple[State, CriticReport]:
        """Take one step of the critics. `inputs.next_noise` makes the policy's actions at s, and those at s'."""
        (here, there), now, action, keys = inputs.next_noise, inputs.now, inputs.action, inputs.keys
        unpaid = now._replace(reward=jnp.zeros_like(now.reward))
        after = self.target(state, inputs._replace(now=unpaid, next_noise=there))

        def loss(critics: ActionValue) -> tuple[Float[Array, ""], CriticReport]:
            own, log_probability = jax.lax.stop_gradient(state.actor(now.observation).from_noise(here))
            taken = each_value(critics, now.observation, action, key=keys.critics)
            drawn = each_value(critics, now.observation, own, key=keys.critics)
            value = min_of_critics(drawn) - jnp.exp(state.log_temperature) * log_probability

            def one(q: Float[Array, " batch"]) -> Float[Array, ""]:
                common = (self.batch_size, inputs.weight, self.objective, self.strength, self.regularise_own)
                return inverse_q(q, value, after, *common)

            total = jax.vmap(one)(taken).mean()
            return total, CriticReport(jnp.abs(taken - after).mean(0), total, taken.mean())

        gradient, report = jax.grad(loss, has_aux=True)(state.critics)
        return self.step_critics(state, gradient), report
