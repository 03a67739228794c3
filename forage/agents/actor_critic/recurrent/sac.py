"""Soft actor-critic with memory: actor and critics with an LSTM each learn from whole histories (RSAC).

Yang and Nguyen (2021), "Recurrent Off-policy Baselines for Memory-based Continuous Control", arXiv 2110.12628; what it
shares with TD3 is in `recurrent/base.py`. With temperature alpha, h_t what the LSTM of the network that is asked makes
of o_1 ... o_t, a' ~ pi(.|h_{t+1}) and b ~ pi(.|h_t), it minimises the means over all steps of all histories of

    critics      sum_i (Q_i(h_t, a_t) - y_t)^2 / 2
                 y_t = r_t + discount (1 - terminated_t) (min_j Q'_j(h_{t+1}, a') - alpha log pi(a'))
    actor        alpha log pi(b) - min_i Q_i(h_t, b)
    temperature  -alpha (log pi(b) + H)
"""

from __future__ import annotations

from typing import ClassVar

import jax
from jaxtyping import Array, Float, Key

from forage.agents.actor_critic.base import UpdateInputs
from forage.agents.actor_critic.recurrent.base import Recurrent, each_mean
from forage.agents.actor_critic.sac import SAC
from forage.core.ports import Metrics, State
from forage.core.ports.needs import Unused
from forage.core.types import Batch, Clock


class RecurrentSAC(Recurrent, SAC):
    """SAC with recurrent actor and critics (Yang and Nguyen, 2021, arXiv 2110.12628)."""

    example: ClassVar[str] = "forage train recurrent-sac Pendulum-v1 --learning-starts 1000 --steps 5000"
    unused: ClassVar[Unused] = {"state_dependent_noise": "Noise that depends on the state is not made with memory"}

    def learn(
        self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        now, action, weight, counts = self.histories(state.actor.actions, batch)
        noise, next_noise = jax.random.normal(key, (2, *action.shape))
        inputs = UpdateInputs(now, action, weight * now.counts, noise, next_noise, self.critic_keys(key))
        state, metrics, error = self.update(state, inputs)
        return state, metrics, each_mean(error, counts)
