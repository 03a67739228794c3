"""PPO that corrects the actions of a frozen policy.

Ankile, Simeonov, Shenfeld, Torne, Agrawal (2024), "From Imitation to Refinement -- Residual RL for Precise Assembly",
arXiv 2407.16677 (ResiP). A policy learned by imitation stays as it is, and a small Gaussian policy that sees the
observation and what the base would do, b(s), adds a correction to each of its actions,

    a = b(s) + residual_scale u,  u ~ pi(.|s, b(s)),  in the unit box,

and learns by PPO, whose ratios, values and advantages are those of u. As b depends on the observation alone, u follows
from the action that was taken. There the base predicts several actions at once, by diffusion, and the corrected policy
is distilled into one that sees pictures; here the base is any policy without memory. The paper's numbers could not be
looked up: those here are PPO's, and a scale of 0.1, that of the same authors' later program (see `residual-td3`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.agents.policy_gradient.ppo import PPO
from forage.agents.policy_gradient.rollouts import over_rollout
from forage.core.frozen import FrozenPolicy, make_frozen
from forage.core.ports import ActInputs, Metrics, ValueEstimates
from forage.core.ports.needs import Needs, Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Experience, Spec
from forage.nn.actor_critic import ActorCritic
from forage.nn.normalise import Norms
from forage_papers.nn.base_policy import base_observation, beside_base


class ResidualPPOState(NamedTuple):
    network: ActorCritic
    optimiser: Any
    norm: Norms  # of observations, with the base's actions among them
    base: PyTree[Array]  # the base's weights


class ResidualPPO(PPO):
    """PPO over a frozen policy (Ankile et al., 2024, arXiv 2407.16677), ResiP."""

    example: ClassVar[str] = "forage train residual-ppo Pendulum-v1 --base runs/clone"
    own_choices: ClassVar[str] = "the numbers, which are PPO's"
    ranges: ClassVar[Ranges] = {"residual_scale": Range(0, 1, above=True)}
    needs: ClassVar[Needs] = Needs(actions="bounded", given="base")
    unused: ClassVar[Unused] = {
        "gru_size central_critic bang_bang": "ResidualPPO adds small numbers to single actions by what is seen then"
    }

    base: str | FrozenPolicy | Callable[[Any], Any] | None = equinox.field(
        default=None, converter=make_frozen
    )  # the policy to
    # correct: a run's directory; in Python also a function of the observation, or a trained agent with its state
    residual_scale: float = 0.1  # what a correction of 1 does, in the unit box; larger leaves the base further behind

    @property
    def base_policy(self) -> FrozenPolicy:
        """Return the base."""
        assert isinstance(self.base, FrozenPolicy)
        return self.base

    def check(self, spec: Spec) -> None:
        super().check(spec)
        self.base_policy.check("ResidualPPO", spec)

    def init(self, key: Key[Array, ""], spec: Spec) -> ResidualPPOState:  # type: ignore[override]
        return ResidualPPOState(*super().init(key, beside_base(spec)), base=self.base_policy.first(spec))

    def look(self, state: Any, observation: PyTree[Array]) -> dict[str, Any]:
        """Return the network's input for one observation."""
        return base_observation(self.base_policy, state.base, state.network.actions, observation)

    def correction(self, state: Any, seen: dict[str, Any], action: PyTree[Array]) -> PyTree[Array]:
        """Return the correction that an action holds, in the action's own units."""
        actions = state.network.actions
        return actions.to_box((actions.to_unit(action) - seen["base"]) / self.residual_scale)

    def act(self, state: Any, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        seen, actions = self.look(state, inputs.observation), state.network.actions
        correction, hidden, policy_info = super().act(state, inputs.replace(observation=seen))
        return actions.to_box(seen["base"] + self.residual_scale * actions.to_unit(correction)), hidden, policy_info

    def network_inputs(self, state: Any, rollout: Experience) -> Experience:
        """Return a rollout with the network's inputs in place of observations, and corrections in place of actions."""
        look = over_rollout(lambda observation: self.look(state, observation))
        seen = look(rollout.observation)
        correct = over_rollout(lambda seen, action: self.correction(state, seen, action))
        return rollout._replace(
            observation=seen,
            next_observation=look(rollout.next_observation),
            action=correct(seen, rollout.action),
        )

    def learn(
        self, state: Any, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Any, Metrics, Float[Array, " env"]]:
        return super().learn(state, batch._replace(experience=self.network_inputs(state, batch.experience)), clock, key)

    def estimate(self, state: Any, rollout: Experience) -> ValueEstimates:
        return super().estimate(state, self.network_inputs(state, rollout))

    def log_probability(self, state: Any, observation: PyTree[Array], action: PyTree[Array]) -> Float[Array, " row"]:
        seen = jax.vmap(lambda one: self.look(state, one))(observation)
        correction = jax.vmap(lambda seen, action: self.correction(state, seen, action))(seen, action)
        return super().log_probability(state, seen, correction) - seen["base"].shape[1] * jnp.log(self.residual_scale)
