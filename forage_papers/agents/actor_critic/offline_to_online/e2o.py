"""Ensembles from offline to online: many critics from an offline run, a looser target, exploration by disagreement.

Zhao, Hao, Ma, Liu, Zheng, Meng (2023), "ENOTO: Improving Offline-to-Online Reinforcement Learning with Q-Ensembles",
arXiv 2306.06871 (its first version is called E2O). Offline, the least value of N critics makes the target (`sac-n`, or
`cql` with `--critics 10`). Online it goes on from these networks, without any term of the offline method:

    critics   sum_i (Q_i(s, a) - y)^2 / 2,   y = r + discount (1 - terminated) (T(s', a') - alpha log pi(a'|s')),
              T = mean over all pairs i < j of min(Q'_i, Q'_j)(s', a')                         (WeightedMinPair)
    acting    of `candidates` actions drawn from pi(.|s), the one of the largest mean_i Q_i + optimism std_i Q_i

and the policy maximises mean_i Q_i. The least of ten would be too careful online, their mean unstable; of the targets
that they compare the pairs' is their choice. Exploration is as in SUNRISE (Lee, Laskin, Srinivas, Abbeel, 2020, arXiv
2007.04938). The names of target and exploration are from others' accounts of the paper. Its text with numbers, and
whether it also weights Bellman errors as SUNRISE does, could not be looked up: `candidates` and `optimism` (lambda in
SUNRISE) are choices made here.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from forage.agents.actor_critic.base import CriticKeys
from forage.agents.actor_critic.sac import SAC
from forage.core.ports import ActInputs, State
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Spec
from forage.nn.critics import ActionValue, each_value, mean_least_pair
from forage.nn.normalise import apply_norm


class E2O(SAC):
    """SAC with a looser target and optimistic acting, after `sac-n` (Zhao et al., 2023, arXiv 2306.06871).

    Sizes of networks and how many critics there are follow the offline run that `--from` names. In evaluation its
    policy's mode acts.
    """

    begins_at_random: ClassVar[bool] = False
    example: ClassVar[str] = "forage train e2o --from runs/offline --steps 20k"
    own_choices: ClassVar[str] = "`candidates` and `optimism`"
    ranges: ClassVar[Ranges] = {"candidates": Range(1), "optimism": Range(0), "critics": Range(2)}

    stochastic: ClassVar[bool] = False
    unused: ClassVar[Unused] = {"target_subset quantiles": "E2O's target is a mean over pairs of critics"}

    critics: int = equinox.field(static=True, default=10)
    policy_q: str = equinox.field(static=True, default="mean")
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256, 256))
    candidates: int = equinox.field(static=True, default=10)  # actions drawn from the policy, of which the most
    # promising is taken; more explore further
    optimism: float = 1.0  # weight of the critics' standard deviation where actions are chosen; larger explores more

    def act(self, state: State, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        if not inputs.explore:
            return super().act(state, inputs)
        observation = apply_norm(state.norm, inputs.observation)
        rows = jax.tree.map(lambda x: jnp.broadcast_to(x, (self.candidates, *jnp.shape(x))), observation)
        policy = state.actor(rows)
        actions = policy.from_noise(jax.random.normal(inputs.key, policy.mean.shape))[0]
        return state.actor.actions.to_box(actions[jnp.argmax(self.promise(state, rows, actions))]), inputs.hidden, ()

    def promise(
        self, state: State, observation: PyTree[Array], action: Float[Array, "batch dimensions"]
    ) -> Float[Array, " batch"]:
        """Compute the mean of all critics and `optimism` times their standard deviation."""
        values = each_value(state.critics, observation, action)
        return values.mean(0) + self.optimism * values.std(0)

    def noise(self, spec: Spec) -> None:  # type: ignore[override]
        """Return `None`: the agent selects exploring actions itself, so a behaviour cannot give it noise."""

    def next_value(
        self,
        critics: ActionValue,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        keys: CriticKeys,
    ) -> Float[Array, " batch"]:
        """Compute the mean over pairs of target critics of the lesser value."""
        return mean_least_pair(each_value(critics, observation, action, key=keys.target))
