"""Steering a frozen policy by the noise that it makes its actions from.

Wagenmaker, Nakamoto, Zhang, Park, Yagoub, Nagabandi, Gupta, Levine (2025), "Steering Your Diffusion Policy with Latent
Space Reinforcement Learning", arXiv 2506.15799 (DSRL), the variant with noise aliasing, DSRL-NA. A policy learned
before makes an action of an observation and of standard normal noise, b(s, w): a flow or a diffusion model as a rule,
here any agent that makes its exploring actions from noise (`Agent.noise`). It stays as it is, and soft actor-critic
chooses w, each number within `magnitude`:

    critics        sum_i (Q_i(s, a) - r - discount (1 - terminated) min_j Q'_j(s', b(s', w')))^2 / 2,  w' ~ pi(.|s')
    noise critics  sum_i (W_i(s, w) - min_j Q_j(s, b(s, w)))^2 / 2,  w normal, within `magnitude`
    policy         alpha log pi(w|s) - min_i W_i(s, w),  w ~ pi(.|s)

So what was learned about an action is known of every noise that leads to it, transitions of anybody may be learned from
(`--memory mixed`), nothing but observation and action is remembered, and no gradient runs through the base. Its weights
are a part of the agent's state. Numbers are those of the authors' program for robomimic (README and
cfg/robomimic/dsrl_can.yaml of opatil-rai/dsrl, a copy of ajwagen/dsrl): noise within 1.5, 20 updates a step, one of the
noise critics for every two, layer normalisation, an entropy target of 0; its networks are 2048 wide with tanh between
layers, and the first 1,501 steps take w from the normal distribution, where here the untrained policy draws them. Its
steps are of four environments at once, so that it makes five updates for each transition, and it is evaluated with w
drawn from the policy, where here its mean is taken. Which noise they distil at, and the paper's tables, could not be
looked up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from forage.agents.actor_critic.base import CriticKeys, UpdateInputs, run_every
from forage.agents.actor_critic.sac import SAC, ActorReport, GaussianActor, SACState
from forage.core.frozen import FrozenPolicy, make_frozen
from forage.core.ports import ActInputs, Metrics, State
from forage.core.ports.needs import Needs, Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.nn.critics import ActionValue, each_value, squared_error
from forage.nn.distributions import Actions


class Base(equinox.Module):
    """The base's weights, and the actions that it takes."""

    weights: PyTree[Array]
    actions: Actions = equinox.field(static=True)


class DSRLState(SACState):
    """State of SAC with an actor of noise and critics of actions."""

    noise_critics: ActionValue  # of noise
    noise_optimiser: Any
    base: Base


class DSRL(SAC):
    """SAC over the noise of a frozen policy (Wagenmaker et al., 2025, arXiv 2506.15799), DSRL-NA."""

    begins_at_random: ClassVar[bool] = False
    example: ClassVar[str] = "forage train dsrl Pendulum-v1 --base runs/sac --steps 20k"
    ranges: ClassVar[Ranges] = {"magnitude": Range(0, above=True), "distil_interval": Range(1)}

    stochastic: ClassVar[bool] = False
    needs: ClassVar[Needs] = Needs(given="base")
    unused: ClassVar[Unused] = {
        "normalise_observation": ("DSRL reads observations as they are", "take sac"),
        "recycle_interval count_dormant": "DSRL does not look for dormant units",
        "bins quantiles state_dependent_noise": "DSRL's critics of noise are told values of critics of actions",
    }

    base: str | FrozenPolicy | Callable[[Any], Any] | None = equinox.field(
        default=None, converter=make_frozen
    )  # the policy to
    # steer: a run's directory; in Python also a trained agent with its state
    magnitude: float = 1.5  # largest number of the noise; larger leaves further behind what the base usually does; the
    # authors'
    distil_interval: int = equinox.field(static=True, default=2)  # updates of the critics for each of the noise
    # critics; the authors make 10 of these for 20 of those
    critic_norm: str = equinox.field(static=True, default="layer")
    target_entropy: float = 0.0
    backup_entropy: bool = equinox.field(static=True, default=False)  # values count the entropy of later noise as
    # reward; without, only the policy's loss counts entropy
    updates_per_rollout: int = equinox.field(static=True, default=20)
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256, 256))

    @property
    def base_policy(self) -> FrozenPolicy:
        """Return the base."""
        assert isinstance(self.base, FrozenPolicy)
        return self.base

    def check(self, spec: Spec) -> None:
        super().check(spec)
        self.base_policy.check("DSRL", spec)
        if self.base_policy.function is not None or (
            self.base_policy.agent is not None and self.noise_spec(spec) is None
        ):
            raise ForageError(
                "DSRL steers a policy by the numbers that its exploring actions are made from, and this base makes "
                "them from none; runs of sac, td3 or ppo make them from a vector."
            )

    def noise_spec(self, spec: Spec) -> Spec | None:
        """Return the spec of an environment that takes the base's noise for actions; `None` if it is no vector."""
        shape = self.base_policy.loaded_agent.noise(spec)
        if shape is None or len(shape) != 1:
            return None
        box: Any = gymnasium.spaces.Box(-1.0, 1.0, shape, np.float32)
        return dataclasses.replace(spec, action_space=box)

    def noise(self, spec: Spec) -> None:  # type: ignore[override]
        """Return `None`: the agent maps noise to noise, and behaviours cannot set its scale."""

    def init(self, key: Key[Array, ""], spec: Spec) -> DSRLState:
        steered = self.noise_spec(spec)
        assert steered is not None
        state: Any = super().init(key, steered)
        actions = Actions.from_space(spec.action_space)
        critics = self.make_critics(jax.random.fold_in(key, 1), spec, actions.outputs)
        noise = {"noise_critics": state.critics, "noise_optimiser": state.critic_optimiser}
        state = state._replace(
            critics=critics,
            target_critics=jax.tree.map(jnp.copy, critics),
            critic_optimiser=self.descent().init(critics),
        )
        return DSRLState.extend(state, **noise, base=Base(self.base_policy.first(spec), actions))

    def decode_noise(
        self, state: State, observation: PyTree[Array], noise: Float[Array, "batch numbers"]
    ) -> Float[Array, "batch dimensions"]:
        """Return the base's actions, in the unit box, for a batch and noise in units of `magnitude`."""

        def one(observation: PyTree[Array], noise: Float[Array, " numbers"]) -> Float[Array, " dimensions"]:
            action = self.base_policy.act(state.base.weights, observation, self.magnitude * noise)
            return state.base.actions.action_features(action)

        return jax.vmap(one)(observation, noise)

    def act(self, state: State, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        chosen, hidden, policy_info = super().act(state, inputs.replace(noise=None))
        row = jax.tree.map(lambda x: jnp.asarray(x)[None], inputs.observation)
        return state.base.actions.to_box(self.decode_noise(state, row, chosen[None])[0]), hidden, policy_info

    def learn(
        self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        now = batch.transitions
        action = jax.vmap(state.base.actions.action_features)(now.action)
        noise_key, distil_key = jax.random.split(key)
        noise, next_noise = jax.random.normal(noise_key, (2, len(action), state.actor.actions.outputs))
        weight, keys = batch.weight * now.counts, self.critic_keys(key)
        inputs = UpdateInputs(now, action, weight, noise, next_noise, keys)
        state, metrics, error = self.update(state, inputs)
        turn = lambda state: self.distil(state, now, distil_key)  # noqa: E731
        return run_every(self.distil_interval, state.updates, turn, state), metrics, error

    def reset_networks(self, state: State, batch: Batch, key: Key[Array, ""], spec: Spec) -> tuple[State, Metrics]:
        rows = batch.experience.reward.shape
        blank = batch.experience._replace(action=jnp.zeros((*rows, state.actor.actions.outputs)))
        return super().reset_networks(state, batch._replace(experience=blank), key, spec)

    def soft_value(
        self,
        state: State,
        observation: PyTree[Array],
        action: Float[Array, "batch numbers"],
        log_probability: Float[Array, " batch"],
        keys: CriticKeys = CriticKeys(),  # noqa: B008
    ) -> Float[Array, " batch"]:
        """Compute the value that targets are made of; `action` is noise."""
        decoded = self.decode_noise(state, observation, action)
        return super().soft_value(state, observation, decoded, log_probability, keys)

    def actor_loss(
        self, actor: GaussianActor, state: State, inputs: UpdateInputs
    ) -> tuple[Float[Array, ""], ActorReport]:
        """Compute SAC's loss by the critics of noise."""
        return super().actor_loss(actor, state._replace(critics=state.noise_critics), inputs)

    def distil(self, state: State, now: Experience, key: Key[Array, ""]) -> State:
        """Take one step of the critics of noise towards the critics' values of the decoded actions."""
        drawn = jax.random.normal(key, (len(now.reward), state.actor.actions.outputs))
        noise = jnp.clip(drawn / self.magnitude, -1.0, 1.0)
        told = each_value(state.critics, now.observation, self.decode_noise(state, now.observation, noise)).min(0)

        def loss(critics: ActionValue) -> Float[Array, ""]:
            return squared_error(each_value(critics, now.observation, noise), told, now.counts * 1.0)[0]

        gradient = jax.grad(loss)(state.noise_critics)
        critics, optimiser = self.descent().step(gradient, state.noise_optimiser, state.noise_critics)
        return state._replace(noise_critics=critics, noise_optimiser=optimiser)
