"""Random reward shift (RRS): critics of several moods, one of which is followed at a time.

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

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.agents.actor_critic.td3 import TD3, Actor, TD3State
from forage.core.ports import Agent, Metrics
from forage.core.spaces import check_bounded
from forage.core.types import Batch, Clock, ForageError, Spec
from forage.nn.critics import ActionValue, CriticReport
from forage.ops.action_values import updates_in


class RRSState(NamedTuple):
    actor: Actor
    critics: ActionValue  # leaves [shift, 2, ...]
    target_actor: Actor
    target_critics: ActionValue
    actor_optimiser: Any
    critic_optimiser: Any
    updates: Int[Array, ""]
    mood: Int[Array, ""]  # whose critics the policy follows


class RRS(Agent):
    """TD3 whose policy follows critics of shifted rewards by turns (Sun et al., 2022, arXiv 2209.07288).

    The authors' program (TD3_train_multiQ.py) takes 25,000 random steps before it learns; here `learning_starts` is
    1000.
    """

    on_policy: ClassVar[bool] = False
    acting: ClassVar[str] = "actor"

    learning_rate: float = 3e-4
    discount: float = 0.99
    polyak: float = 0.005  # how far each policy update moves the targets towards the networks
    exploration_noise: float = 0.1  # standard deviation, in the unit box
    target_noise: float = 0.2  # standard deviation of target policy smoothing, in the unit box
    target_noise_clip: float = 0.5
    shifts: tuple[float, ...] = equinox.field(static=True, default=(-0.5, 0.0, 0.5))  # c_k; only 0: TD3
    redraw_interval: int = equinox.field(static=True, default=1000)  # environment steps that one of them is followed
    policy_delay: int = equinox.field(static=True, default=2)  # critic updates for each update of policy and targets
    num_envs: int = equinox.field(static=True, default=1)
    rollout_length: int = equinox.field(static=True, default=1)
    updates_per_rollout: int = equinox.field(static=True, default=1)
    batch_size: int = equinox.field(static=True, default=256)
    learning_starts: int = equinox.field(static=True, default=1000)
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256))

    def __check_init__(self):
        if not self.shifts:
            raise ForageError("RRS needs at least one of its shifts; 0 alone is TD3.")

    @property
    def base(self) -> TD3:
        """TD3 with the same settings: what is done with one pair of critics."""
        return TD3.of(self)

    @property
    def updates(self) -> int:
        return self.updates_per_rollout

    def check(self, spec: Spec) -> None:
        check_bounded("RRS", spec)
        self.base.check(spec)

    def init(self, key: Key[Array, ""], spec: Spec) -> RRSState:
        td3_key, critic_key, mood_key = jax.random.split(key, 3)
        td3 = self.base.init(td3_key, spec)
        critics = jax.vmap(lambda key: self.base.init(key, spec).critics)(
            jax.random.split(critic_key, len(self.shifts))
        )
        td3 = td3._replace(
            critics=critics,
            target_critics=jax.tree.map(jnp.copy, critics),
            critic_optimiser=self.base.optimiser().init(critics),
        )
        return RRSState(*td3, self.drawn(mood_key))

    def drawn(self, key: Key[Array, ""]) -> Int[Array, ""]:
        """Whose critics are followed next."""
        return jax.random.randint(key, (), 0, len(self.shifts))

    def act(
        self,
        state: RRSState,
        hidden: PyTree[Array],
        observation: PyTree[Array],
        key: Key[Array, ""],
        explore: bool,
        noise: Float[Array, " dimensions"] | None = None,
    ) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        return self.base.act(TD3State(*state[:-1]), hidden, observation, key, explore, noise)

    def noise(self, spec: Spec) -> tuple[int, ...]:
        return self.base.noise(spec)

    def learn(
        self, state: RRSState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[RRSState, Metrics, Float[Array, " batch"]]:
        noise_key, mood_key = jax.random.split(key)
        td3 = TD3State(*state[:-1])
        now = jax.tree.map(lambda x: x[0], batch.experience)  # segments of one transition
        action = jax.vmap(td3.actor.actions.heard)(now.action)
        noise = jax.random.normal(noise_key, action.shape)

        target = self.targets(td3, now.reward, now.next_observation, now.terminated, noise)
        gradient, report = jax.grad(self.critic_loss, has_aux=True)(
            td3.critics, now.observation, action, target, batch.weight * now.counts
        )
        followed = lambda critics: jax.tree.map(lambda x: x[state.mood, 0], critics)  # noqa: E731
        td3 = self.base.step(td3, gradient, now.observation, followed, now.counts)
        due = td3.updates % updates_in(self, self.redraw_interval) == 0
        metrics = {"critic_loss": report.loss, "value": report.value, "shift": jnp.array(self.shifts)[state.mood]}
        return RRSState(*td3, jnp.where(due, self.drawn(mood_key), state.mood)), metrics, report.error * now.counts

    def targets(
        self, td3: TD3State, reward: Float[Array, " batch"], *after: PyTree[Array]
    ) -> Float[Array, "shift batch"]:
        """TD3's target of each pair of critics, from rewards that its constant is added to."""

        def one(critics: ActionValue, shift: Float[Array, ""]) -> Float[Array, " batch"]:
            return self.base.target(td3._replace(target_critics=critics), reward + shift, *after)

        return jax.vmap(one)(td3.target_critics, jnp.array(self.shifts))

    def critic_loss(
        self,
        critics: ActionValue,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        target: Float[Array, "shift batch"],
        weight: Float[Array, " batch"],
    ) -> tuple[Float[Array, ""], CriticReport]:
        """The sum of TD3's loss over the pairs; what is reported is the mean over them."""
        each = jax.vmap(self.base.critic_loss, in_axes=(0, None, None, 0, None))
        loss, report = each(critics, observation, action, target, weight)
        return loss.sum(), jax.tree.map(lambda x: x.mean(0), report)
