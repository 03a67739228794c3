"""Asynchronous PPO: the clipped loss of PPO on rollouts of an earlier policy, corrected by V-trace.

Luo, Shao, Luo, Zheng, Liaw, Nishihara, Stoica (2020), "IMPACT: Importance Weighted Asynchronous Architectures with
Clipped Target Networks", arXiv 1912.00167, on whose loss RLlib's APPO rests. mu is the policy that acted, whose
log-probability is noted with each action; theta' is the target network, and theta learns. V-trace from theta' gives the
value targets v and the advantages

    A_t = min(clip_rho, pi_theta'(a|s) / mu(a|s)) (r_t + discount v_{t+1} - V(s_t))

and epochs of minibatches climb PPO's loss with the ratio pi_theta(a|s) / pi_theta'(a|s), clipped around 1. So the clip
holds the policy near the one that its update began with, however old the rollout is, and V-trace makes up for the age.

The target network is what the update of a rollout begins with, renewed for each of them (a target frequency of 1).
Rollouts are learned from once, in the order in which the memory gives them, and not several times from a circular
buffer. V-trace's traces are multiplied by `gae_lambda`, which the paper has at 1. Where another behaviour chose an
action its ratio is 1. Advantages are not standardised, as PPO's are: of actions that theta' hardly takes, what is left
of an advantage is next to 0, and less the mean of all it would push away from what mu did, or towards it. With a lag of
4 that was enough for CartPole-v1 not to be learned (a return of 30, and 415 without).
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.agents.policy_gradient.impala import PolicyInfo, estimate
from forage.agents.policy_gradient.ppo import PPO
from forage.agents.policy_gradient.rollouts import Reading, cut_short
from forage.core.ports import Metrics
from forage.core.ports.needs import Unused
from forage.core.ranges import check_order
from forage.core.types import AGENT, Batch, Clock, Experience, Spec
from forage.nn.actor_critic import ActorCritic
from forage.nn.distributions import Distribution
from forage.nn.normalise import Norms


class APPOState(NamedTuple):
    network: ActorCritic
    optimiser: Any
    norm: Norms  # of observations
    updates: Int[Array, ""]  # rollouts learned from


class APPO(PPO):
    """PPO with V-trace correction for rollouts of an earlier policy (Luo et al., 2020, arXiv 1912.00167)."""

    example: ClassVar[str] = "forage train appo CartPole-v1 --memory queue --memory.lag 4"

    corrects: ClassVar[bool] = True
    unused: ClassVar[Unused] = {
        "bonus_head": ("APPO corrects the value of one stream of rewards", "use ppo"),
        "normalise_advantage": "APPO weighs advantages by how much they count, which subtracting their mean would undo",
    }

    normalise_advantage: bool = equinox.field(static=True, default=False)  # false; see above
    clip_rho: float = 1.0  # most that a ratio counts in V-trace's errors and in the advantages; rho-bar
    clip_c: float = 1.0  # most that a ratio counts in V-trace's traces; c-bar, clip_rho or less

    def check(self, spec: Spec) -> None:
        super().check(spec)
        check_order(self, "clip_c", "clip_rho", equal=True)

    def init(self, key: Key[Array, ""], spec: Spec) -> APPOState:  # type: ignore[override]
        return APPOState(*super().init(key, spec), jnp.int32(0))

    def version(self, state: Any) -> Int[Array, ""]:
        return state.updates

    def policy_info(self, hidden: PyTree[Array], policy: Distribution, action: PyTree[Array]) -> PolicyInfo:
        return PolicyInfo(hidden, policy.log_probability(action))  # type: ignore[arg-type]

    def apply_to_rollout(self, network: ActorCritic, norm: Norms, experience: Experience) -> Reading:
        """Read a rollout as PPO does, by the network that its update begins with."""
        return super().apply_to_rollout(network, norm, experience._replace(policy_info=experience.policy_info.hidden))

    def estimates(
        self, experience: Experience, read: Reading
    ) -> tuple[Float[Array, "time env streams"], Float[Array, "time env streams"]]:
        """Compute V-trace's advantages and value targets."""
        own = experience.source == AGENT
        log_ratio = jnp.where(own, read.log_probability - experience.policy_info.log_probability, 0.0)
        clips = self.discount, self.gae_lambda, self.clip_rho, self.clip_c, self.clip_rho
        rows = log_ratio, experience.reward, read.value[..., 0], read.next_value[..., 0]
        target, advantage = estimate(*rows, experience.terminated, cut_short(experience), *clips)
        advantage = advantage * experience.counts.astype(jnp.float32)
        return advantage[..., None], target[..., None]

    def learn(
        self, state: Any, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Any, Metrics, Float[Array, " env"]]:
        learned, metrics, errors = super().learn(state, batch, clock, key)
        metrics["lag"] = (state.updates - jnp.asarray(batch.experience.version)).mean()
        return learned._replace(updates=state.updates + 1), metrics, errors  # type: ignore[attr-defined]
