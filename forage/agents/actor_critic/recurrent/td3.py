"""TD3 with memory: actor and critics with an LSTM each learn from whole histories (RTD3).

Yang and Nguyen (2021), "Recurrent Off-policy Baselines for Memory-based Continuous Control", arXiv 2110.12628; what it
shares with SAC is in `recurrent/base.py`. With h_t what the LSTM of the network that is asked makes of o_1 ... o_t, it
minimises the means over all steps of all histories of

    critics   sum_i (Q_i(h_t, a_t) - r_t - discount (1 - terminated_t) min_j Q'_j(h_{t+1}, a'))^2 / 2
              a' = clip(pi'(h_{t+1}) + clip(e, -target_noise_clip, target_noise_clip), -1, 1),  e ~ N(0, target_noise^2)

and at every `policy_delay`-th update also of -Q_1(h_t, pi(h_t)), after which the targets move.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
from jaxtyping import Array, Float, Key

from forage.agents.actor_critic.base import UpdateInputs
from forage.agents.actor_critic.recurrent.base import Recurrent, each_mean
from forage.agents.actor_critic.td3 import TD3
from forage.core.ports import Metrics, State
from forage.core.types import Batch, Clock
from forage.ops.losses import join_metrics


class RecurrentTD3(Recurrent, TD3):
    """TD3 with recurrent actor and critics (Yang and Nguyen, 2021, arXiv 2110.12628)."""

    example: ClassVar[str] = "forage train recurrent-td3 Pendulum-v1 --learning-starts 1000 --steps 5000"

    # What TD3 has otherwise than other agents with critics, said again, as `Recurrent` comes before it.
    policy_delay: int = equinox.field(static=True, default=2)  # critic updates for each update of policy and targets
    policy_q: str = equinox.field(static=True, default="first")

    def learn(
        self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        now, action, weight, counts = self.histories(state.actor.actions, batch)
        inputs = UpdateInputs(now, action, weight, keys=self.critic_keys(key))
        gradient, error, metrics = self.critic_gradient(state, inputs, key)
        state, of_actor = self.step(state, gradient, inputs)
        return state, join_metrics(metrics, of_actor), each_mean(error, counts)
