"""Random reward shift (RRS): critics of shifted rewards, from optimistic to cautious, one of them followed at a time.

Sun, Han, Yang, Ma, Guo, Zhou (2022), "Exploit Reward Shifting in Value-Based Deep-RL: Optimistic Curiosity-Based
Exploration and Conservative Exploitation via Linear Reward Shaping", arXiv 2209.07288, its method for continuous
control. A constant c added to every reward moves all values by c / (1 - discount) and leaves what is best, as if values
had begun by so much the other way: lower rewards make for optimism, higher ones for caution (`forage.rewards.shift`).
Here one policy is learned from TD3's twin critics for each of several constants c_k. Each update takes a step down

    critics   sum_k sum_i (Q_ki(s, a) - y_k)^2 / 2,   y_k = r + c_k + discount (1 - terminated) min_j Q'_kj(s', a')

and every `policy_delay`-th one also a step down -Q_k1(s, pi(s)) of the k that is followed, after which the targets
move. Which k is followed is drawn anew, each as likely, once in `redraw_interval` environment steps. (The authors draw
at the end of the first episode after so many steps, of an environment on its own; here many may run, whose episodes end
at different times, and learning does not see them.)
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from forage.agents.actor_critic.base import UpdateInputs
from forage.agents.actor_critic.td3 import TD3, TD3State
from forage.core.ports import Metrics
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, ForageError, Spec
from forage.nn.critics import ActionValue, CriticReport
from forage.ops.action_values import updates_in


class RRSState(TD3State):
    """State of TD3 with critics `shift critic ...`."""

    mood: Int[Array, ""]  # whose critics the policy follows


class RRS(TD3):
    """TD3 with a policy that follows critics of shifted rewards by turns (Sun et al., 2022, arXiv 2209.07288).

    The authors' program (TD3_train_multiQ.py) takes 25,000 random steps before it learns; here `learning_starts` is
    1000.
    """

    example: ClassVar[str] = "forage train rrs Pendulum-v1"
    ranges: ClassVar[Ranges] = {"shifts": Range()}
    unused: ClassVar[Unused] = {
        "recycle_interval count_dormant": "RRS does not look for dormant units, as it has critics for each shift"
    }

    shifts: tuple[float, ...] = equinox.field(static=True, default=(-0.5, 0.0, 0.5))  # constants c_k added to rewards,
    # one for each pair of critics; negative ones explore, only 0 is TD3
    redraw_interval: int = equinox.field(static=True, default=1000)  # environment steps that one critic is followed
    # before another is drawn

    def __check_init__(self):
        if not self.shifts:
            raise ForageError("RRS needs at least one of its shifts; 0 alone is TD3.")

    def init(self, key: Key[Array, ""], spec: Spec) -> RRSState:
        td3_key, critic_key, mood_key = jax.random.split(key, 3)
        init = super().init
        critics = jax.vmap(lambda key: init(key, spec).critics)(jax.random.split(critic_key, len(self.shifts)))
        td3 = init(td3_key, spec)._replace(
            critics=critics,
            target_critics=jax.tree.map(jnp.copy, critics),
            critic_optimiser=self.descent().init(critics),
        )
        return RRSState.extend(td3, mood=self.draw_critics(mood_key))

    def draw_critics(self, key: Key[Array, ""]) -> Int[Array, ""]:
        """Draw the index of the next critics to follow."""
        return jax.random.randint(key, (), 0, len(self.shifts))

    def learn(
        self, state: RRSState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[RRSState, Metrics, Float[Array, " batch"]]:
        td3_key, mood_key = jax.random.split(key)
        followed = {"shift": jnp.array(self.shifts)[state.mood]}
        state, metrics, error = super().learn(state, batch, clock, td3_key)
        due = state.updates % updates_in(self, self.redraw_interval) == 0
        return state._replace(mood=jnp.where(due, self.draw_critics(mood_key), state.mood)), metrics | followed, error

    def policy_critics(self, state: RRSState, critics: ActionValue) -> ActionValue:
        return jax.tree.map(lambda x: x[state.mood], critics)

    def target(self, state: RRSState, inputs: UpdateInputs) -> Float[Array, "shift batch"]:
        """Compute TD3's target of each pair of critics, from rewards that its constant is added to."""
        target, now = super().target, inputs.now

        def one(critics: ActionValue, shift: Float[Array, ""]) -> Float[Array, " batch"]:
            shifted = inputs._replace(now=now._replace(reward=now.reward + shift))
            return target(state._replace(target_critics=critics), shifted)

        return jax.vmap(one)(state.target_critics, jnp.array(self.shifts))

    def critic_loss(
        self, critics: ActionValue, inputs: UpdateInputs, target: Float[Array, "shift batch"]
    ) -> tuple[Float[Array, ""], CriticReport]:
        """Compute the sum of TD3's loss over the pairs, and report the mean over them."""
        loss, report = jax.vmap(super().critic_loss, in_axes=(0, None, 0))(critics, inputs, target)
        return loss.sum(), jax.tree.map(lambda x: x.mean(0), report)
