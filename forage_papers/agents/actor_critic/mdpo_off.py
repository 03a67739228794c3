"""Mirror descent policy optimisation (MDPO), off-policy: soft actor-critic with a policy that stays near its old self.

Tomar, Shani, Efroni, Ghavamzadeh (2020), "Mirror Descent Policy Optimization", arXiv 2005.09814. Critics, targets and
replay are SAC's. Over m updates (`sgd_steps`), with b ~ pi(.|s) and the old policy pi_k held fixed, the actor goes down

    (log pi(b|s) - log pi_k(b|s)) / t  +  alpha log pi_k(b|s)  -  Q_1(s, b)

which is the divergence of pi from pi_k^(1 - alpha t) exp(t Q), normalised, over the step size t; then the policy is the
old one. With t = 1 / alpha the old policy drops out of it and SAC's actor remains, alpha log pi(b|s) - Q(s, b): that is
how SAC is a limit of it. Smaller t keep the policy nearer to its old self; with alpha = 0 values count no entropy.

Equation and numbers are those of the authors' program (mdpo_off/mdpo.py, run_mujoco.py), whose temperature is fixed and
whose policy maximises the first critic alone; the paper's own pages could not be looked up. The program learns a value
of states beside two critics, as the first SAC, where target critics stand here, and has a penalty of 1e-3 on means and
log-deviations, which it has from the SAC it was built on and which is left out here.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from forage.agents.actor_critic.base import UpdateInputs, run_every
from forage.agents.actor_critic.sac import SAC, ActorReport, GaussianActor, SACState
from forage.core.ports import Metrics, State
from forage.core.ranges import Range, Ranges
from forage.core.types import Spec
from forage.ops.rows import weighted_mean


class MDPOState(SACState):
    old_actor: GaussianActor


class MDPOOff(SAC):
    """Off-policy mirror descent policy optimisation (Tomar et al., 2020, arXiv 2005.09814)."""

    example: ClassVar[str] = "forage train mdpo-off Pendulum-v1"
    ranges: ClassVar[Ranges] = {"step_size": Range(0, above=True), "sgd_steps": Range(1)}

    step_size: float = 1.0  # t: 1 / t weighs the divergence from the old policy; larger allows larger steps of the
    # policy, 1 / initial_temperature is SAC; the authors'
    sgd_steps: int = equinox.field(static=True, default=1000)  # m, updates after which the policy is the old one; more
    # go further from each old policy; the authors' example
    initial_temperature: float = 0.2  # alpha, weight of the policy's entropy; the authors' example
    learn_temperature: bool = equinox.field(static=True, default=False)  # learn alpha as SAC does; else it stays
    policy_q: str = equinox.field(static=True, default="first")  # value of the critics that the policy
    # maximises: min, mean or first

    def init(self, key: Key[Array, ""], spec: Spec) -> MDPOState:
        state = super().init(key, spec)
        return MDPOState.extend(state, old_actor=jax.tree.map(jnp.copy, state.actor))

    def update(self, state: State, inputs: UpdateInputs) -> tuple[State, Metrics, Float[Array, " batch"]]:
        state, metrics, errors = super().update(state, inputs)
        renewed = run_every(self.sgd_steps, state.updates, lambda state: state._replace(old_actor=state.actor), state)
        return renewed, metrics, errors

    def actor_loss(
        self, actor: GaussianActor, state: State, inputs: UpdateInputs
    ) -> tuple[Float[Array, ""], ActorReport]:
        """Compute the mean of (log pi - log pi_k) / t + alpha log pi_k - Q over the rows that count; also return SAC's
        reports.
        """
        observation, noise = inputs.now.observation, inputs.noise
        policy, old = actor(observation), state.old_actor(observation)
        action, log_probability = policy.from_noise(noise)
        before_tanh = policy.mean + jnp.exp(policy.log_std) * noise
        old_log_probability = old.from_noise((before_tanh - old.mean) * jnp.exp(-old.log_std))[1]
        value = self.policy_value(state.critics, observation, action, inputs.keys.policy_q)
        held_back = (log_probability - old_log_probability) / self.step_size
        entropy = jnp.exp(state.log_temperature) * old_log_probability
        loss = weighted_mean(held_back + entropy - value, inputs.now.counts)
        return loss, ActorReport(log_probability, loss)
