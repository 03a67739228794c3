"""Maximize to explore (MEX): critics that fit the data and, where it leaves them free, hope for the best.

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
from jaxtyping import Array, Float, Key, PyTree

from forage.agents.actor_critic.td3 import TD3, TD3State
from forage.core.ports import Agent, Metrics
from forage.core.spaces import check_bounded
from forage.core.types import Batch, Clock, ForageError, Spec
from forage.nn.critics import ActionValue, CriticReport, squared_error, twin_values

HOPES = ("policy", "contrast", "actions")


class MEX(Agent):
    """TD3 with optimistic critics (Liu et al., 2023, arXiv 2305.18258, MEX-MF).

    The authors' program has an `optimism` of 1e-3 by default; the script that makes the paper's results runs it with
    5e-3 and the contrast, on sparse rewards. It takes 25,000 random steps before it learns; here `learning_starts` is
    1000.
    """

    on_policy: ClassVar[bool] = False
    stochastic: ClassVar[bool] = True
    acting: ClassVar[str] = "actor"

    learning_rate: float = 3e-4
    discount: float = 0.99
    polyak: float = 0.005  # how far each policy update moves the targets towards the networks
    exploration_noise: float = 0.1  # standard deviation, in the unit box
    target_noise: float = 0.2  # standard deviation of target policy smoothing, in the unit box
    target_noise_clip: float = 0.5
    optimism: float = 1e-3  # weight of the value that critics maximise; 0: TD3
    hope: str = equinox.field(static=True, default="contrast")  # or policy, actions: which value that is
    policy_delay: int = equinox.field(static=True, default=2)  # critic updates for each update of policy and targets
    num_envs: int = equinox.field(static=True, default=1)
    rollout_length: int = equinox.field(static=True, default=1)
    updates_per_rollout: int = equinox.field(static=True, default=1)
    batch_size: int = equinox.field(static=True, default=256)
    learning_starts: int = equinox.field(static=True, default=1000)
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256))

    def __check_init__(self):
        if self.hope not in HOPES:
            raise ForageError(f"MEX has no hope {self.hope!r}; there are {', '.join(HOPES)}.")

    @property
    def base(self) -> TD3:
        """TD3 with the same settings: everything but the critics' loss."""
        return TD3.of(self)

    @property
    def updates(self) -> int:
        return self.updates_per_rollout

    def check(self, spec: Spec) -> None:
        check_bounded("MEX", spec)
        self.base.check(spec)

    def init(self, key: Key[Array, ""], spec: Spec) -> TD3State:
        return self.base.init(key, spec)

    def act(
        self,
        state: TD3State,
        hidden: PyTree[Array],
        observation: PyTree[Array],
        key: Key[Array, ""],
        explore: bool,
        noise: Float[Array, " dimensions"] | None = None,
    ) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        return self.base.act(state, hidden, observation, key, explore, noise)

    def noise(self, spec: Spec) -> tuple[int, ...]:
        return self.base.noise(spec)

    def learn(
        self, state: TD3State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[TD3State, Metrics, Float[Array, " batch"]]:
        base = self.base
        noise_key, random_key = jax.random.split(key)
        now = jax.tree.map(lambda x: x[0], batch.experience)  # segments of one transition
        action = jax.vmap(state.actor.actions.heard)(now.action)
        noise = jax.random.normal(noise_key, action.shape)
        random = jax.random.uniform(random_key, action.shape, minval=-1.0)

        target = base.target(state, now.reward, now.next_observation, now.terminated, noise)
        policy, after = state.actor(now.observation), state.actor(now.next_observation)
        gradient, (report, hope) = jax.grad(self.critic_loss, has_aux=True)(
            state.critics, now.observation, (action, policy, after, random), target, batch.weight * now.counts
        )
        state = base.step(state, gradient, now.observation, counts=now.counts)
        return state, {"critic_loss": report.loss, "value": report.value, "hope": hope}, report.error * now.counts

    def critic_loss(
        self,
        critics: ActionValue,
        observation: PyTree[Array],
        actions: tuple[Float[Array, "batch dimensions"], ...],
        target: Float[Array, " batch"],
        weight: Float[Array, " batch"],
    ) -> tuple[Float[Array, ""], tuple[CriticReport, Float[Array, ""]]]:
        """Twice TD3's loss, as the squares are not halved here, less `optimism` times the critics' hopes.

        `actions`: the memory's, the policy's, the policy's in what came after, and uniform ones.
        """
        values = [twin_values(critics, observation, action) for action in actions]
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
