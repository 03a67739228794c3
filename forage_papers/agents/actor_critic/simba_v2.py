"""SimBaV2: soft actor-critic on the sphere with critics of the distribution of scaled returns.

Lee, Lee, Seno, Kim, Stone, Choo (2025), "Hyperspherical Normalization for Scalable Deep Reinforcement Learning", arXiv
2502.15280. Policy and critics are networks of unit length (`forage.nn.hypersphere`), whose optimisers bring weights
back to it after each step, and see (s - m) / d with running mean and deviation. Rewards are divided by

    max(sqrt(Var[G] + epsilon), max |G| / limit),   G_t = discount G_(t-1) + r_t in each episode

over all G so far, so that returns lie within -limit and limit, where a critic has `atoms` places z_i. With p' the
target critic of the least mean at s', a' ~ pi(.|s'), each update minimises

    critics   sum_i cross-entropy(m, p_i(s, a)),  m the places r + discount (1 - terminated) (z - alpha log pi(a'|s')),
              with shares p'(s', a'), each split between the two places beside it

and actor and temperature are SAC's. The learning rate falls linearly to a share of itself. All of this and the numbers
are those of the authors' code (DAVIAN-Robotics/SimbaV2: scale_rl/agents/simbaV2, scale_rl/agents/wrappers/
normalization.py, configs/agent/simbaV2.yaml, configs/online_rl.yaml); the paper's own tables could not be looked up.
Differences: there the actor's step comes before the critics', G begins anew one step later, one critic learns where
episodes never end by themselves (`--critics 1`), and the discount follows from an episode's length.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from forage.agents.actor_critic import sac
from forage.agents.actor_critic.base import UpdateInputs
from forage.agents.actor_critic.sac import SAC, SACState
from forage.core.ports import Metrics, State
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.nn.critics import ActionValue, Atoms, CriticReport, each_value
from forage.nn.distributions import Actions
from forage.nn.hypersphere import SphereHead
from forage.nn.networks import NetworkConfig, Torso
from forage.nn.normalise import RunningNorm
from forage_papers.ops.two_hot import two_hot

EPSILON = 1e-8  # added to the variance of returns


class Heads(equinox.Module):
    """Mean and logarithm of the deviation, each from two layers of its own."""

    mean: SphereHead
    log_std: SphereHead

    def __call__(self, features: Float[Array, "batch features"]) -> Float[Array, "batch outputs"]:
        return jnp.concatenate([self.mean(features), self.log_std(features)], axis=-1)


class SphereActor(sac.GaussianActor):
    """Squashed Gaussians with heads that are on the sphere as well."""

    def __init__(
        self, key: Key[Array, ""], spec: Spec, hidden_sizes: tuple[int, ...], style: NetworkConfig, squashed: bool
    ):
        torso_key, mean_key, std_key = jax.random.split(key, 3)
        self.actions = Actions.from_space(spec.action_space)
        self.torso = Torso(torso_key, spec.observation_space, hidden_sizes, style)
        heads = (SphereHead(key, self.torso.size, self.actions.outputs) for key in (mean_key, std_key))
        self.head = Heads(*heads)  # type: ignore[assignment]
        self.log_std, self.squashed = None, squashed


class Returns(NamedTuple):
    """Statistics of returns that rewards are divided by."""

    running: Float[Array, " stream"]  # discounted return of each episode under way
    norm: RunningNorm  # of all of them, at every step
    most: Float[Array, ""]  # the largest so far, its sign left out

    def add_rollout(self, rollout: Experience, discount: Any) -> Returns:
        """Return the same after a rollout (leaves `time stream`)."""

        def step(running: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
            total = discount * running + now[0]
            return jnp.where(now[1], 0.0, total), total

        running, returns = jax.lax.scan(step, self.running, (rollout.reward, rollout.ended))
        norm = self.norm.update(returns.reshape(-1), rollout.counts.reshape(-1))
        return Returns(running, norm, jnp.maximum(self.most, jnp.abs(returns).max()))

    def size(self, limit: float | Float[Array, ""]) -> Float[Array, ""]:
        """Compute the divisor."""
        return jnp.maximum(jnp.sqrt(self.norm.variance + EPSILON), self.most / limit)


class SimBaV2State(SACState):
    returns: Returns


class SimBaV2(SAC):
    """SAC with SimBaV2's networks, critics and scaling of rewards (Lee et al., 2025, arXiv 2502.15280).

    For tasks in which episodes do not end by themselves the authors take one critic, `--critics 1`.
    """

    example: ClassVar[str] = "forage train simba-v2 Pendulum-v1 --value-sizes 128,128"
    ranges: ClassVar[Ranges] = {"atoms": Range(2), "limit": Range(0, above=True), "final_learning_rate": Range(0, 1)}
    unused: ClassVar[Unused] = {
        "torso": ("SimBaV2 has networks of its own", "take sac"),
        "bins quantiles target_subset diversity": "SimBaV2's critics learn distributions over atoms",
        "state_dependent_noise": "SimBaV2's policy has two heads",
    }
    reset_keeps: ClassVar[tuple[str, ...]] = (*SAC.reset_keeps, "returns")

    learning_rate: float = 1e-4
    final_learning_rate: float = 0.5  # reached linearly at the end of the run, as a share of learning_rate
    learning_starts: int = equinox.field(static=True, default=5000)
    torso: str = equinox.field(static=True, default="simba-v2")
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(128,))
    value_sizes: tuple[int, ...] = equinox.field(static=True, default=(512, 512))
    normalise_observation: bool = equinox.field(static=True, default=True)
    initial_temperature: float = 0.01
    target_entropy: float = -0.5
    squash_deviation: bool = equinox.field(static=True, default=True)
    atoms: int = equinox.field(static=True, default=101)  # returns that a critic tells apart, evenly from -limit to
    # limit; more tell them more finely; the authors'
    limit: float = equinox.field(static=True, default=5.0)  # largest scaled return; larger scales rewards down less
    # where single returns stand out; the authors'
    scale_reward: bool = equinox.field(static=True, default=True)  # divide rewards by the size of returns so far; else
    # returns beyond `limit` count as `limit`

    def init(self, key: Key[Array, ""], spec: Spec) -> SimBaV2State:  # type: ignore[override]
        streams = self.num_envs * spec.num_agents
        returns = Returns(jnp.zeros(streams), RunningNorm.from_shape(()), jnp.zeros(()))
        return SimBaV2State.extend(super().init(key, spec), returns=returns)

    def make_actor(self, key: Key[Array, ""], spec: Spec) -> SphereActor:
        return SphereActor(key, spec, self.hidden_sizes, self.style(), self.squash_deviation)

    @property
    def places(self) -> Atoms:
        """Return the atoms of the critics' outputs."""
        return Atoms(self.atoms, -self.limit, self.limit)

    def make_critic(
        self, key: Key[Array, ""], spec: Spec, dimensions: int, style: NetworkConfig, outputs: int, bins: Any
    ) -> ActionValue:
        return super().make_critic(key, spec, dimensions, style, outputs, self.places)

    @property
    def needs_whole_dataset(self) -> bool:
        return self.normalise_observation or self.scale_reward

    def init_from_dataset(self, state: State, data: Experience) -> State:
        if self.scale_reward:
            raise ForageError(
                "SimBaV2 divides rewards by the returns of what it experiences, which a data set is not; use "
                "--scale-reward false, and rewards whose returns lie within limit (--rewards scale)."
            )
        return super().init_from_dataset(state, data)

    def observe(self, state: State, rollout: Experience) -> State:
        state = super().observe(state, rollout)
        return state._replace(returns=state.returns.add_rollout(rollout, self.discount)) if self.scale_reward else state

    def truncate(self, state: State) -> State:
        return state._replace(returns=state.returns._replace(running=jnp.zeros_like(state.returns.running)))

    def normalise_batch(self, state: State, now: Experience) -> Experience:
        now = super().normalise_batch(state, now)
        return now._replace(reward=now.reward / state.returns.size(self.limit)) if self.scale_reward else now

    def learn(
        self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        rate = self.learning_rate * (1 - clock.fraction * (1 - self.final_learning_rate))
        state, metrics, error = super(SimBaV2, dataclasses.replace(self, learning_rate=rate)).learn(
            state, batch, clock, key
        )
        return state, metrics | {"return_size": state.returns.size(self.limit)}, error

    def target(self, state: State, inputs: UpdateInputs) -> Float[Array, "atoms batch"]:
        """Compute the shares of the atoms that critics learn."""
        now = inputs.now
        action, log_probability = state.actor(now.next_observation).from_noise(inputs.next_noise)
        outputs = each_value(state.target_critics, now.next_observation, action, ask=ActionValue.outputs)
        least = jnp.argmin(self.places.value(outputs), axis=0)
        share = jax.nn.softmax(outputs[least, jnp.arange(len(least))])
        price = jnp.exp(state.log_temperature) * log_probability if self.backup_entropy else jnp.zeros(len(least))
        later = jnp.where(now.terminated[:, None], 0.0, self.places.values() - price[:, None])
        moved = two_hot(now.reward[:, None] + self.discount * later, self.places.values())
        return jnp.einsum("bi,bij->jb", share, moved)

    def critic_loss(
        self, critics: ActionValue, inputs: UpdateInputs, target: Float[Array, "atoms batch"]
    ) -> tuple[Float[Array, ""], CriticReport]:
        """Compute the cross-entropies of all critics; errors in the report are those of the means."""
        asked = inputs.now.observation, inputs.action
        outputs = each_value(critics, *asked, key=inputs.keys.critics, ask=ActionValue.outputs)
        loss = jnp.mean(inputs.weight * self.places.loss(outputs, target), axis=1).sum()
        values = self.places.value(outputs)
        error = jnp.abs(values - self.places.values() @ target).mean(0)
        return loss, CriticReport(error, loss, values.mean())
