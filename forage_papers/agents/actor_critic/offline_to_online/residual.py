"""Residual off-policy learning: small corrections to the actions of a frozen policy.

Ankile, Jiang, Duan, Shi, Abbeel, Nagabandi (2025), "Residual Off-Policy RL for Finetuning Behavior Cloning Policies",
arXiv 2509.19301 (ResFiT). A base policy, learned before by behaviour cloning as a rule, stays as it is. The policy that
learns sees the observation and what the base would do, b(s), and corrects that: in the unit box the action is

    a = clip(b(s) + residual_scale pi(s, b(s)), -1, 1)

Critics learn about executed actions, from the agent's own transitions and from demonstrations alike (`--memory mixed`),
and the policy maximises them through that sum:

    critics   sum_i (Q_i(s, a) - r - discount (1 - terminated) min over some of Q'_j(s', a'))^2 / 2,
              a' = clip(b(s') + residual_scale (pi'(s', b(s')) + noise), -1, 1)
    policy    -mean_i Q_i(s, clip(b(s) + residual_scale pi(s, b(s)), -1, 1)),  from `critic_warmup` updates on

At first pi is zero everywhere, so that the first evaluation is the base's. As b depends on the observation alone, it is
computed again whenever a transition is replayed, and nothing but observation and executed action is remembered. The
base's weights are a part of the agent's state: checkpoints hold them, and loading needs no other run.

The numbers of `residual-td3` are those of the authors' program (amazon-science/residual-offpolicy-rl:
config/residual_td3.py, config/rlpd.py, off_policy/rl/q_agent.py; the paper's tables could not be looked up): ten
critics of which two make the target, layer normalisation, four updates a step, a scale of 0.1. Its noise of 0.05 on
executed actions is 0.5 of that scale here. There the critics go down the square of their mean absolute error,
(mean_i |Q_i(s, a) - y|)^2, so that one with a small error learns as fast as one with a large one; returns are of three
steps, the policy's step size is 1e-6 beside the critics' 1e-4, the critics do not see b(s) (which follows from what
they see), and the first steps add uniform noise of up to 0.2 to the base; all gradients are cut to a length of 1, and
AdamW takes the steps. Here each critic has a squared error of its own, returns are of one step, all networks share a
step size, nothing is cut, Adam takes the steps, and the first of them in the environment add the usual noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.agents.actor_critic.base import ActorCritic, CriticKeys, UpdateInputs
from forage.agents.actor_critic.sac import SAC, SACState
from forage.agents.actor_critic.td3 import TD3, TD3State
from forage.core.frozen import FrozenPolicy, make_frozen
from forage.core.ports import ActInputs, Metrics, State
from forage.core.ports.needs import Needs, Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Spec
from forage.nn.critics import ActionValue
from forage_papers.nn.base_policy import base_observation, beside_base


class ResidualTD3State(TD3State):
    base: PyTree[Array]  # the base's weights


class ResidualSACState(SACState):
    base: PyTree[Array]  # the base's weights


class Residual(ActorCritic):
    """Shared base of agents that correct a base policy's actions. Goes before SAC or TD3 among the bases of a class.

    A class with it says again which of the kit's fields have other defaults in SAC or TD3 than there.
    """

    begins_at_random: ClassVar[bool] = False
    ranges: ClassVar[Ranges] = {"residual_scale": Range(0, 1, above=True), "critic_warmup": Range(0)}
    needs: ClassVar[Needs] = Needs(given="base")
    unused: ClassVar[Unused] = {
        "normalise_observation": ("The residual agent reads observations as they are", "take sac")
    }

    base: str | FrozenPolicy | Callable[[Any], Any] | None = equinox.field(
        default=None, converter=make_frozen
    )  # the policy to
    # correct: a run's directory; in Python also a function of the observation, or a trained agent with its state
    residual_scale: float = 0.1  # largest correction, in the unit box; larger leaves the base further behind
    critic_warmup: int = equinox.field(static=True, default=10_000)  # updates of the critics before the policy's first

    @property
    def base_policy(self) -> FrozenPolicy:
        """Return the base."""
        assert isinstance(self.base, FrozenPolicy)
        return self.base

    def check(self, spec: Spec) -> None:
        super().check(spec)
        self.base_policy.check(type(self).__name__, spec)

    def look(self, state: State, observation: PyTree[Array]) -> dict[str, Any]:
        """Return the networks' input for one observation."""
        return base_observation(self.base_policy, state.base, state.actor.actions, observation)

    def network_inputs(self, state: State, batch: Batch) -> Batch:
        """Return a batch (leaves `time batch ...`) with the networks' inputs in place of observations."""
        look = jax.vmap(jax.vmap(lambda observation: self.look(state, observation)))
        now = batch.experience
        seen = now._replace(observation=look(now.observation), next_observation=look(now.next_observation))
        return batch._replace(experience=seen)

    def executed_action(
        self, seen: dict[str, Any], residual: Float[Array, "*batch dimensions"]
    ) -> Float[Array, "*batch dimensions"]:
        """Compute the action in the unit box from the base's action and a correction."""
        return jnp.clip(seen["base"] + self.residual_scale * residual, -1.0, 1.0)

    def act(self, state: State, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        seen, actions = self.look(state, inputs.observation), state.actor.actions
        residual, hidden, policy_info = super().act(state, inputs.replace(observation=seen))  # pyrefly: ignore[abstract-method-call]
        return actions.to_box(self.executed_action(seen, actions.to_unit(residual))), hidden, policy_info

    def learn(
        self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        return super().learn(state, self.network_inputs(state, batch), clock, key)  # pyrefly: ignore[abstract-method-call]

    def reset_networks(self, state: State, batch: Batch, key: Key[Array, ""], spec: Spec) -> tuple[State, Metrics]:
        return super().reset_networks(state, self.network_inputs(state, batch), key, spec)

    def next_value(
        self,
        critics: ActionValue,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        keys: CriticKeys,
    ) -> Float[Array, "*samples batch"]:
        """Compute the value that targets are made of; `action` is the correction."""
        return super().next_value(critics, observation, self.executed_action(observation, action), keys)

    def policy_value(
        self,
        critics: ActionValue,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        key: Key[Array, ""] | None = None,
    ) -> Float[Array, " batch"]:
        """Compute the value that the policy maximises; `action` is the correction."""
        return super().policy_value(critics, observation, self.executed_action(observation, action), key)

    def once_warm(self, earlier: Int[Array, ""], later: PyTree[Array], before: PyTree[Array]) -> PyTree[Array]:
        """Return the policy's step if there were enough `earlier` updates of the critics, else the state `before`."""
        warm = earlier >= self.critic_warmup
        return jax.tree.map(lambda new, old: jnp.where(warm, new, old), later, before)


def zero_last_layer(actor: Any) -> Any:
    """Return the actor with a last layer of zeros."""
    return equinox.tree_at(lambda actor: actor.head, actor, jax.tree.map(jnp.zeros_like, actor.head))


class ResidualTD3(Residual, TD3):
    """TD3 that corrects a frozen policy (Ankile et al., 2025, arXiv 2509.19301), ResFiT.

    Noise is in units of `residual_scale`. With demonstrations beside its own experience, half and half as published,
    it is `--memory mixed --memory.data FILE`.
    """

    example: ClassVar[str] = "forage train residual-td3 Pendulum-v1 --base runs/clone --steps 20k"

    critics: int = equinox.field(static=True, default=10)
    target_subset: int = equinox.field(static=True, default=2)
    policy_q: str = equinox.field(static=True, default="mean")
    layer_norm: bool = equinox.field(static=True, default=True)
    updates_per_rollout: int = equinox.field(static=True, default=4)
    policy_delay: int = equinox.field(static=True, default=4)
    learning_rate: float = 1e-4
    exploration_noise: float = 0.5  # standard deviation of the noise on corrections; larger explores more
    target_noise: float = 0.5  # standard deviation of the noise on corrections in targets; larger smooths values more
    target_noise_clip: float = 3.0  # bound of that noise; larger smooths values more widely

    def init(self, key: Key[Array, ""], spec: Spec) -> ResidualTD3State:
        state = super().init(key, beside_base(spec))
        still = {"actor": zero_last_layer(state.actor), "target_actor": zero_last_layer(state.target_actor)}
        return ResidualTD3State.extend(state._replace(**still), base=self.base_policy.first(spec))

    def noisy(
        self, action: Float[Array, "*batch dimensions"], noise: Float[Array, "*batch dimensions"]
    ) -> Float[Array, "*batch dimensions"]:
        """Return corrections with noise, unclipped: their sum with the base's action is clipped instead."""
        return action + noise

    def delayed_step(
        self, slow: tuple[Any, Any, Any, ActionValue], state: State, inputs: UpdateInputs
    ) -> tuple[tuple[Any, Any, Any, ActionValue], Metrics]:
        """Take one step of the policy, once the critics are warm, and one of the targets."""
        (*policy, targets), metrics = super().delayed_step(slow, state, inputs)
        actor, optimiser, target_actor = self.once_warm(state.updates - 1, tuple(policy), slow[:3])
        return (actor, optimiser, target_actor, targets), metrics


class ResidualSAC(Residual, SAC):
    """SAC that corrects a frozen policy, as `residual-td3` does (Ankile et al., 2025, arXiv 2509.19301).

    Its policy draws the correction, and its entropy is that of the correction in units of `residual_scale`. Critics,
    their targets and updates are those of `residual-td3`; targets count no entropy.
    """

    example: ClassVar[str] = "forage train residual-sac Pendulum-v1 --base runs/clone --steps 20k"

    critics: int = equinox.field(static=True, default=10)
    target_subset: int = equinox.field(static=True, default=2)
    policy_q: str = equinox.field(static=True, default="mean")
    layer_norm: bool = equinox.field(static=True, default=True)
    updates_per_rollout: int = equinox.field(static=True, default=4)
    policy_delay: int = equinox.field(static=True, default=4)
    initial_temperature: float = 0.1
    backup_entropy: bool = equinox.field(static=True, default=False)  # values count the entropy of later corrections as
    # reward; without, only the policy's loss counts entropy

    def init(self, key: Key[Array, ""], spec: Spec) -> ResidualSACState:
        state = super().init(key, beside_base(spec))
        still = state._replace(actor=zero_last_layer(state.actor))
        return ResidualSACState.extend(still, base=self.base_policy.first(spec))

    def log_probability(self, state: State, observation: PyTree[Array], action: PyTree[Array]) -> Float[Array, " row"]:
        seen, actions = jax.vmap(lambda one: self.look(state, one))(observation), state.actor.actions
        residual = (jax.vmap(actions.action_features)(action) - seen["base"]) / self.residual_scale
        density = super().log_probability(state, seen, jax.vmap(actions.to_box)(residual))
        return density - residual.shape[1] * jnp.log(self.residual_scale)

    def improve(self, state: State, inputs: UpdateInputs) -> tuple[State, Metrics]:
        """Take one step of the actor and one of the temperature, once the critics are warm."""
        later, metrics = super().improve(state, inputs)
        names = ("actor", "actor_optimiser", "log_temperature", "temperature_optimiser")
        pick = lambda state: {name: getattr(state, name) for name in names}  # noqa: E731
        return state._replace(**self.once_warm(state.updates - 1, pick(later), pick(state))), metrics
