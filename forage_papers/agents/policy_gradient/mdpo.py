"""Mirror descent policy optimisation (MDPO), on-policy: PPO's update with a divergence in place of the clip.

Tomar, Shani, Efroni, Ghavamzadeh (2020), "Mirror Descent Policy Optimization", arXiv 2005.09814. Update number k takes
m steps of gradient descent down

    -pi(a|s) / pi_k(a|s) A  +  KL(pi(.|s) || pi_k(.|s)) / t_k  +  value_coefficient (V(s) - R)^2 / 2

from the policy pi_k that acted in the rollout. The first step is that of the policy gradient, as the divergence has no
gradient there; the later ones are held back. The step size t_k falls linearly to `final_step_size` of
`step_size`, so that the divergence weighs ever more. m is `epochs` times `minibatches`. All that is not said here is
PPO's: memory, action masks, central critics, bonuses and gSDE.

Equation and annealing are those of the authors' program (mdpo_on/mdpo.py) and of their summary of the paper, whose own
pages could not be looked up. There m steps of the policy are made on the whole rollout, and the value, clipped, has an
optimiser of its own and five epochs of minibatches of 128.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.agents.policy_gradient.ppo import METRICS, PPO, PPOState, Targets
from forage.agents.policy_gradient.rollouts import LARGEST, Sequence, over_rollout, value_error
from forage.core.ports import Metrics
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, ForageError, Spec
from forage.nn.actor_critic import ActorCritic


class MDPO(PPO):
    """On-policy mirror descent policy optimisation (Tomar et al., 2020, arXiv 2005.09814)."""

    example: ClassVar[str] = "forage train mdpo CartPole-v1"
    ranges: ClassVar[Ranges] = {"step_size": Range(0, above=True), "final_step_size": Range(0, 1)}

    proximal: ClassVar[bool] = True

    step_size: float = (
        1.0  # t_k at first: 1 / t_k weighs the divergence from the old policy; larger allows larger steps
    )
    # of the policy; the authors'
    final_step_size: float = 0.0  # reached linearly at the end of the run, as a share of step_size; the authors'
    learning_rate: float = 3e-4
    entropy_coefficient: float = 0.0
    epochs: int = equinox.field(static=True, default=10)
    clip: float = 0.2  # how far values may move, with clip_value; the policy has no clip

    def check(self, spec: Spec) -> None:
        if not isinstance(self.clip, Array) and self.clip != 0.2 and not self.clip_value:
            raise ForageError(
                f"MDPO keeps the policy near the old one by a divergence, and clip {self.clip:g} has no effect; take "
                f"step_size for that, or clip_value to clip values."
            )
        super().check(spec)

    def learn(
        self, state: PPOState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[PPOState, Metrics, Float[Array, " env"]]:
        # As of the beginning of the rollout, so that the step size of the last update is not yet zero
        began = clock._replace(steps=jnp.maximum(clock.steps - self.num_envs * self.rollout_length, 0))
        step = jnp.maximum(self.step_size * (1 - began.fraction * (1 - self.final_step_size)), 1e-6)
        now = dataclasses.replace(self, step_size=step)
        state, metrics, errors = super(MDPO, now).learn(state, batch, clock, key)
        del metrics["clip_fraction"]
        return state, metrics | {"step_size": step}, errors

    def loss(
        self,
        network: ActorCritic,
        observation: PyTree[Array],
        targets: Targets,
        sequence: Sequence | None,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, ""], Metrics]:
        """Compute the loss and PPO's metrics; the divergence is exact, and the ratio is not clipped."""
        outputs, value = self.outputs(network, observation, sequence)
        assert targets.policy is not None

        def judge(outputs: Array, before: Any, observation: PyTree[Array], action: Array):
            policy = network.distribution(outputs, observation)
            return policy.log_probability(action), policy.entropy(), policy.divergence(before)  # type: ignore[arg-type]

        over: Any = jax.vmap if sequence is None else over_rollout
        log_probability, entropy, divergence = over(judge)(outputs, targets.policy, observation, targets.action)

        # Policy loss, where the agent itself acted
        log_ratio = targets.by_agent * (log_probability - targets.log_probability)
        surrogate = jnp.exp(jnp.minimum(log_ratio, LARGEST)) * targets.advantage
        divergence, entropy = targets.by_agent * divergence, targets.by_agent * entropy

        # Value loss
        error = value_error(value, targets.value_target, targets.value, self.clip)
        terms = [-surrogate, error.sum(-1), entropy, divergence, jnp.zeros_like(surrogate)]
        if targets.counts is not None:
            terms = [term * targets.counts for term in terms]
        means = jnp.stack(terms).reshape(len(terms), -1).mean(1)
        weighed = 1.0, self.value_coefficient, -self.entropy_coefficient, 1 / self.step_size, 0.0
        weights = jnp.stack([jnp.asarray(weight, jnp.float32) for weight in weighed])
        return weights @ means, dict(zip(METRICS, means, strict=True))
