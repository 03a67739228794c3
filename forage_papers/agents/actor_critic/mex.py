"""Maximize to explore (MEX): critics that fit the data and maximise the value that the data leave undetermined.

Liu, Lu, Xiong, Zhong, Hu, Zhang, Zheng, Yang, Wang (2023), "Maximize to Explore: One Objective Function Fusing
Estimation, Planning, and Exploration", arXiv 2305.18258, its model-free version on TD3, MEX-MF. With TD3's targets y
and smoothed actions, each update takes a step down

    critics   sum_i mean((Q_i(s, a) - y)^2) - optimism sum_i mean(H_i(s)),   y = r + discount min_j Q'_j(s', a')

and every `policy_delay`-th one also a step down -Q_1(s, pi(s)), after which the targets move. H is the value that the
objective maximises beside the likelihood, expected over the memory's states:

    policy     H(s) = Q(s, pi(s))
    contrast   H(s) = Q(s, pi(s)) - log sum_b exp Q(s, b),   b the memory's action, pi(s') and a uniform one
    actions    H(s) = Q(s, a), of the memory's action

The contrast keeps values from rising everywhere alike, with nothing to hold them (after conservative Q-learning, Kumar
and others, 2020, whose sign it turns). The authors' code has the last two, the last of them by default.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from forage.agents.actor_critic.base import UpdateInputs
from forage.agents.actor_critic.td3 import TD3
from forage.core.ports import Metrics, State
from forage.core.ports.needs import Choices, Unused
from forage.core.ranges import Range, Ranges
from forage.nn.critics import ActionValue, CriticReport, each_value, squared_error

HOPES = ("policy", "contrast", "actions")


class MEX(TD3):
    """TD3 with optimistic critics (Liu et al., 2023, arXiv 2305.18258, MEX-MF).

    The authors' program has an `optimism` of 1e-3 by default; the script that makes the paper's results runs it with
    5e-3 and the contrast, on sparse rewards. It takes 25,000 random steps before it learns; here `learning_starts` is
    1000.
    """

    example: ClassVar[str] = "forage train mex MountainCarContinuous-v0"
    ranges: ClassVar[Ranges] = {"optimism": Range(0)}
    choices: ClassVar[Choices] = {"hope": HOPES}
    unused: ClassVar[Unused] = {"bins quantiles diversity": "MEX has a loss of its own for its critics"}

    optimism: float = 1e-3  # weight of the value that critics maximise; larger explores more, 0 is TD3
    hope: str = equinox.field(static=True, default="contrast")  # whose value critics maximise: contrast, policy or
    # actions

    def critic_gradient(
        self, state: State, inputs: UpdateInputs, key: Key[Array, ""]
    ) -> tuple[ActionValue, Float[Array, " batch"], Metrics]:
        noise_key, random_key = jax.random.split(key)
        now, shape = inputs.now, inputs.action.shape
        target = self.target(state, inputs._replace(next_noise=jax.random.normal(noise_key, shape)))
        random = jax.random.uniform(random_key, shape, minval=-1.0)
        others = state.actor(now.observation), state.actor(now.next_observation), random
        gradient, (report, hope) = jax.grad(self.optimistic_loss, has_aux=True)(state.critics, inputs, target, others)
        return gradient, report.error, {"critic_loss": report.loss, "value": report.value, "hope": hope}

    def optimistic_loss(
        self,
        critics: ActionValue,
        inputs: UpdateInputs,
        target: Float[Array, " batch"],
        others: tuple[Float[Array, "batch dimensions"], ...],
    ) -> tuple[Float[Array, ""], tuple[CriticReport, Float[Array, ""]]]:
        """Compute twice TD3's loss, as the squares are not halved here, less `optimism` times the critics' hopes.

        `others`: the policy's actions, those in what came after, and uniform ones.
        """
        observation, weight, key = inputs.now.observation, inputs.weight, inputs.keys.critics
        values = [each_value(critics, observation, action, key=key) for action in (inputs.action, *others)]
        taken, policy, *_ = values
        loss, report = squared_error(taken, target, weight)
        if self.hope == "actions":
            hopes = taken
        elif self.hope == "policy":
            hopes = policy
        else:
            hopes = policy - jax.nn.logsumexp(jnp.stack([taken, *values[2:]]), axis=0)
        hope = jnp.mean(weight * hopes, axis=1).sum()
        return 2 * loss - self.optimism * hope, (report, hope / 2)
