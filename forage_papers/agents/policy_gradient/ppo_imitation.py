"""PPO that imitates demonstrations as it learns.

Andres, Schaefer, Albrecht, Del Ser (2023), "Using Offline Data to Speed Up Reinforcement Learning in Procedurally
Generated Environments", arXiv 2304.09825: PPO and behaviour cloning of offline trajectories at the same time, for
sparse rewards in MiniGrid. After PPO's own update, each rollout is followed by `imitation_updates` steps down

    -mean log pi(a|s)  over demonstrations (s, a)

of the policy that PPO improves, with an optimiser of their own. What the first few demonstrations find, the rewards
then improve on; with `--imitation-rate linear:0.00025,0` imitation fades. Their other recipe, imitation first, is `bc
--data FILE` and then `ppo --from RUN`. Whether the authors add both losses or take turns, and their numbers, could not
be looked up (their abstract and summaries say "concurrently"): turns, and the defaults, are choices made here.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
from jaxtyping import Array, Float, Key

from forage.agents.policy_gradient.ppo import PPO
from forage.agents.policy_gradient.rollouts import score_actions
from forage.core.ports import Metrics
from forage.core.ports.needs import Needs, Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Experience, Spec
from forage.data.demonstrations import Demonstrations, as_demonstrations
from forage.nn.actor_critic import ActorCritic
from forage.nn.normalise import Norms, apply_norm


class PPOImitationState(NamedTuple):
    network: ActorCritic
    optimiser: Any
    norm: Norms  # of observations
    imitation_optimiser: Any


class PPOImitation(PPO):
    """PPO with additional steps of behaviour cloning (Andres et al., 2023, arXiv 2304.09825)."""

    example: ClassVar[str] = "forage train ppo-imitation grid:MultiRoom-N4-S5 --demonstrations demos.npz"
    own_choices: ClassVar[str] = "turns of both losses in place of their sum, and the defaults"
    ranges: ClassVar[Ranges] = {"imitation_rate": Range(0), "imitation_updates": Range(1), "imitation_rows": Range(1)}
    needs: ClassVar[Needs] = Needs(given="demonstrations", instead="use ppo")
    unused: ClassVar[Unused] = {"gru_size": "This PPO imitates single transitions, which say nothing to a memory"}

    demonstrations: str | Demonstrations | None = equinox.field(default=None, converter=as_demonstrations)  # file of
    # the transitions to imitate, as forage data record writes it
    imitation_rate: float = 2.5e-4  # step size of imitation; larger stays nearer to the demonstrations; as PPO's own
    imitation_updates: int = equinox.field(static=True, default=4)  # steps of imitation after each rollout, as many as
    # PPO has epochs; more stay nearer to the demonstrations
    imitation_rows: int = equinox.field(static=True, default=256)  # demonstrated transitions in each of these steps;
    # more make them steadier

    def init(self, key: Key[Array, ""], spec: Spec) -> PPOImitationState:  # type: ignore[override]
        state = super().init(key, spec)
        return PPOImitationState(*state, self.descent(1.0).init(state.network))

    def learn(
        self, state: Any, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Any, Metrics, Float[Array, " env"]]:
        improved: Any = super().learn(state, batch, clock, key)
        state, metrics, errors = improved
        assert isinstance(self.demonstrations, Demonstrations)
        demonstrations, optimiser = self.demonstrations, self.descent(self.imitation_rate)

        def step(carry: tuple[ActorCritic, Any], key: Key[Array, ""]) -> tuple[tuple[ActorCritic, Any], Array]:
            shown = demonstrations.draw(key, self.imitation_rows)
            loss, gradient = jax.value_and_grad(self.imitation_loss)(carry[0], state.norm, shown)
            return optimiser.step(gradient, carry[1], carry[0]), loss

        keys = jax.random.split(jax.random.fold_in(key, 3), self.imitation_updates)
        (network, after), losses = jax.lax.scan(step, (state.network, state.imitation_optimiser), keys)
        state = state._replace(network=network, imitation_optimiser=after)
        return state, metrics | {"imitation_loss": losses.mean()}, errors

    def imitation_loss(self, network: ActorCritic, norm: Norms, shown: Experience) -> Float[Array, ""]:
        """Compute the mean of -log pi(a|s) over demonstrations."""
        observation = jax.vmap(lambda one: apply_norm(norm, one))(shown.observation)
        action = shown.action if network.actions.discrete else jax.vmap(network.actions.to_unit)(shown.action)
        return -score_actions(network, observation, action, None)[0].mean()
