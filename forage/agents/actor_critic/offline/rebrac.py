"""ReBRAC: TD3 with behaviour cloning in the policy's loss and in the critics' targets.

Tarasov, Kurenkov, Nikulin, Kolesnikov (2023), "Revisiting the Minimalist Approach to Offline Reinforcement Learning",
arXiv 2305.09836. With the action a~ that the data set takes at s', a' = clip(pi'(s') + clipped noise, -1, 1) as in TD3
and |x|^2 a sum over an action's numbers,

    critics   sum_i (Q_i(s, a) - r - discount (1 - terminated) (min_j Q'_j(s', a') - critic_cloning |a' - a~|^2))^2 / 2
    policy    actor_cloning |pi(s) - a|^2 - lambda min_i Q_i(s, pi(s)),   lambda = 1 / mean |min_i Q_i|, held fixed

the second at every `policy_delay`-th update. Networks have three layers, critics are normalised layer by layer, and
batches are large. A truncated episode's last transition, whose next action is unknown, is left out, as by the loader of
the authors' program (CORL, algorithms/offline/rebrac.py), whose numbers the defaults are. There a layer is normalised
after its activation, and here before; their first biases are 0.1 and last weights within 0.001 (policy) and 0.003
(critics), and here all are as in TD3. Of two updates it is their first that moves the policy, and the target policy
moves towards it as it was before that step. The paper's tables could not be looked up.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from forage.agents.actor_critic.base import UpdateInputs
from forage.agents.actor_critic.offline.td3_bc import TD3BC
from forage.core.ports import Metrics, State
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import GONE, Batch, Clock
from forage.nn.critics import each_value, min_of_subset


class ReBRAC(TD3BC):
    """TD3+BC with a penalty in the critics, too (Tarasov et al., 2023, arXiv 2305.09836), from a data set.

    The authors choose both weights for each data set: halfcheetah-medium has 0.001 for the policy and 0.01 for the
    critics (their configuration of it). Adroit and AntMaze have batches of 256, and AntMaze a discount of 0.999,
    rewards times 100, and learning rates of 3e-4 for the policy and 5e-5 for the critics; here both share one.
    """

    example: ClassVar[str] = "forage train rebrac Pendulum-v1 --data mixed.npz"
    ranges: ClassVar[Ranges] = {"actor_cloning": Range(0), "critic_cloning": Range(0)}

    segment: ClassVar[int] = 2  # the second transition has the next action
    unused: ClassVar[Unused] = {"quantiles": "ReBRAC's targets are one value for each transition"}

    alpha: float = 1.0  # weight of the critics in the policy's loss; fixed in the paper, which weighs the two below
    actor_cloning: float = 1.0  # weight of the policy's squared distance from the data; larger imitates more; the
    # authors' default
    critic_cloning: float = 1.0  # price of the next action's squared distance from the data; larger lowers values away
    # from it; the authors' default
    learning_rate: float = 1e-3
    batch_size: int = equinox.field(static=True, default=1024)
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256, 256))
    critic_norm: str = equinox.field(static=True, default="layer")
    policy_q: str = equinox.field(static=True, default="min")
    normalise_observation: bool = equinox.field(static=True, default=False)  # observations are standardised by the data
    # set's mean and deviation; the authors' program can, and does not

    def learn(
        self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        now, after = (jax.tree.map(lambda x, i=i: x[i : i + 1], batch.experience) for i in range(2))
        # Left out is what does not count.
        source = jnp.where(now.truncated, GONE, now.source)
        now = now._replace(
            policy_info=jax.vmap(jax.vmap(state.actor.actions.action_features))(after.action), source=source
        )
        return super().learn(state, batch._replace(experience=now), clock, key)

    def target(self, state: State, inputs: UpdateInputs) -> Float[Array, " batch"]:
        """Compute r + discount (1 - terminated) (min_j Q'_j(s', a') - critic_cloning |a' - a~|^2).

        a~ is `now.policy_info`.
        """
        now, keys = inputs.now, inputs.keys
        noise = jnp.clip(self.target_noise * inputs.next_noise, -self.target_noise_clip, self.target_noise_clip)
        action = self.noisy(state.target_actor(now.next_observation), noise)
        value = each_value(state.target_critics, now.next_observation, action, key=keys.target)
        value = min_of_subset(value, self.target_subset, keys.subset)
        value = value - self.critic_cloning * jnp.sum((action - now.policy_info) ** 2, axis=-1)
        return now.reward + self.discount * jnp.where(now.terminated, 0.0, value)

    def distance(
        self, own: Float[Array, "batch dimensions"], action: Float[Array, "batch dimensions"]
    ) -> Float[Array, " batch"]:
        """Compute the weighted sum of squares over the action's numbers."""
        return self.actor_cloning * jnp.sum((own - action) ** 2, axis=-1)
