"""Conservative Q-learning: soft actor-critic that lowers the values of actions missing from the data.

Kumar, Zhou, Tucker, Levine (2020), "Conservative Q-Learning for Offline Reinforcement Learning", arXiv 2006.04779, the
variant CQL(H) for continuous actions. With m actions each drawn uniformly, from pi(.|s) and from pi(.|s'), q(b) the
density that b was drawn with, and target y = r + discount (1 - terminated) min_j Q'_j(s', a'), a' ~ pi(.|s'),

    critics   sum_i mean((Q_i(s, a) - y)^2) + conservatism G_i,
              G_i = mean(log sum_b exp(Q_i(s, b)) / q(b) - Q_i(s, a))
    actor     alpha log pi(b|s) - min_i Q_i(s, b), and the temperature alpha, as in SAC

So the expectation of Q over the policy lies below its true value, whereas Q of the data's own actions is held up. With
`learn_conservatism` the weight w of conservatism G - target_gap is learned: it grows while conservatism times the gap
is above `target_gap` (a Lagrange multiplier), log w taking steps up w sum_i (conservatism G_i - target_gap) / 2. The
update, its sums without 1 / (3 m), squares without halves and an entropy that the target leaves out, and all numbers
are those of the authors' program (aviralkumar2907/CQL: d4rl/rlkit/torch/sac/cql.py, d4rl/examples/cql_mujoco_new.py);
the paper's tables could not be looked up. Their policy clones the data in its first 40,000 updates, of which a comment
there says that it makes little difference; here it does not. The temperature's step, down -log alpha (log pi + H), is
first there, and the policy follows critics as they were before the update; here alpha (log pi + H) counts, and both
steps follow the critics'. The best of several `backup_samples` is there each target critic's own, whose least value
counts; here, as in Cal-QL's program, the best of their least values.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from forage.agents.actor_critic.base import UpdateInputs
from forage.agents.actor_critic.sac import SAC, SACState
from forage.core.ports import Metrics
from forage.core.ranges import Range, Ranges
from forage.core.types import Experience, Spec
from forage.nn.critics import ActionValue, CriticReport, each_value
from forage.ops.optimiser import Optimiser, make_named_optimiser

MOST_WEIGHT = 1e6  # of the Lagrange multiplier, as in the authors' program


class CQLState(SACState):
    log_weight: Float[Array, ""]  # logarithm of the multiplier
    weight_optimiser: Any
    gap: Float[Array, ""]  # of the last update: mean over the critics of G_i


class SampledActions(NamedTuple):
    """Actions sampled for the critics in addition to the data's, for the observations of a batch."""

    action: Float[Array, "batch samples dimensions"]
    log_density: Float[Array, "batch samples"]
    own: Bool[Array, " samples"]  # drawn from the policy


class CQL(SAC):
    """SAC with conservative critics (Kumar et al., 2020, arXiv 2006.04779, CQL(H)), from a data set.

    With `--from RUN --memory mixed --memory.data FILE` it goes on online with the same losses, half of each batch from
    the data.
    """

    example: ClassVar[str] = "forage train cql Pendulum-v1 --data mixed.npz"
    ranges: ClassVar[Ranges] = {
        "conservatism": Range(0),
        "target_gap": Range(),
        "samples": Range(1),
        "backup_samples": Range(1),
        "policy_learning_rate": Range(0),
    }

    first_log_weight: ClassVar[float] = 0.0
    """The logarithm of the multiplier before it has learned."""

    offline: ClassVar[bool] = True
    fine_tunes: ClassVar[bool] = True

    conservatism: float = 5.0  # weight of the gap between sampled actions and the data's; larger lowers values more; 5
    # or 10 for the authors' locomotion tasks
    policy_learning_rate: float = 1e-4  # step size of the policy's optimiser and its temperature's, the authors'
    learn_conservatism: bool = equinox.field(static=True, default=False)  # learn a multiplier of the gap, which aims at
    # target_gap; the authors have it for mazes
    target_gap: float = 5.0  # gap, times conservatism, that the multiplier aims at; larger is less conservative; the
    # authors' for mazes
    samples: int = equinox.field(static=True, default=10)  # actions drawn from each of three distributions; more tell
    # the gap better, at more computing; the authors'
    backup_samples: int = equinox.field(static=True, default=1)  # actions of the policy at s' of which the target takes
    # the best; 1, the authors' for locomotion, or 10 for mazes
    backup_entropy: bool = equinox.field(static=True, default=False)  # targets count the policy's entropy, as in SAC;
    # the authors' do not
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256, 256))

    def init(self, key: Key[Array, ""], spec: Spec) -> CQLState:
        log_weight = jnp.full((), self.first_log_weight, jnp.float32)
        more = {"log_weight": log_weight, "weight_optimiser": self.descent().init(log_weight), "gap": jnp.zeros(())}
        return CQLState.extend(super().init(key, spec), **more)

    def policy_descent(self) -> Optimiser:
        return self.bounded_steps(make_named_optimiser(self.optimiser, self.policy_learning_rate))

    def update(self, state: CQLState, inputs: UpdateInputs) -> tuple[CQLState, Metrics, Float[Array, " batch"]]:
        state, metrics, error = super().update(state, inputs)
        return state, metrics | {"gap": state.gap, "conservatism_weight": self.weight(state.log_weight)}, error

    def weight(self, log_weight: Float[Array, ""]) -> Float[Array, ""]:
        """Compute the multiplier; 1 if it is not learned."""
        return jnp.clip(jnp.exp(log_weight), 0.0, MOST_WEIGHT) if self.learn_conservatism else jnp.ones(())

    def evaluate(self, state: CQLState, inputs: UpdateInputs) -> tuple[CQLState, CriticReport]:
        """Take one step of the critics towards their target and down the gap, then one of the multiplier."""
        target, sampled = self.target(state, inputs), self.sample(state, inputs)
        gradient, (report, gap) = jax.grad(self.conservative_loss, has_aux=True)(
            state.critics, state, inputs, target, sampled
        )
        state = self.step_critics(state, gradient)._replace(gap=gap.mean())
        if self.learn_conservatism:
            excess = jnp.sum(self.conservatism * gap - self.target_gap)
            slope = jax.grad(lambda log_weight: -self.weight(log_weight) * excess / 2)(state.log_weight)
            log_weight, optimiser = self.descent().step(slope, state.weight_optimiser, state.log_weight)
            state = state._replace(log_weight=log_weight, weight_optimiser=optimiser)
        return state, report

    def sample(self, state: CQLState, inputs: UpdateInputs) -> SampledActions:
        """Draw actions uniformly, from the policy at s, and from the policy at s', in this order."""
        assert inputs.keys.sampled is not None
        uniform_key, *policy_keys = jax.random.split(inputs.keys.sampled, 3)
        now, (batch, dimensions) = inputs.now, inputs.action.shape
        shape = (self.samples, batch, dimensions)
        uniform = jax.random.uniform(uniform_key, shape, minval=-1.0)
        drawn = [(uniform, jnp.full((self.samples, batch), dimensions * math.log(0.5)))]
        for key, observation in zip(policy_keys, (now.observation, now.next_observation), strict=True):
            policy = state.actor(observation)
            drawn.append(jax.vmap(policy.from_noise)(jax.random.normal(key, shape)))
        actions, densities = (jnp.swapaxes(jnp.concatenate(parts), 0, 1) for parts in zip(*drawn, strict=True))
        return SampledActions(actions, densities, jnp.arange(3 * self.samples) >= self.samples)

    def conservative_loss(
        self,
        critics: ActionValue,
        state: CQLState,
        inputs: UpdateInputs,
        target: Float[Array, " batch"],
        sampled: SampledActions,
    ) -> tuple[Float[Array, ""], tuple[CriticReport, Float[Array, " critic"]]]:
        """Compute the critics' loss; also return their report and each critic's gap."""
        loss, report = self.critic_loss(critics, inputs, target)
        gap = self.gaps(critics, inputs, sampled)
        multiplier = jax.lax.stop_gradient(self.weight(state.log_weight))
        return 2 * loss + multiplier * jnp.sum(self.conservatism * gap), (report, gap)

    def gaps(self, critics: ActionValue, inputs: UpdateInputs, sampled: SampledActions) -> Float[Array, " critic"]:
        """Compute the gap of each critic between sampled actions and those that were done."""
        (batch, samples, dimensions), now, key = sampled.action.shape, inputs.now, inputs.keys.critics
        repeated = jax.tree.map(lambda x: jnp.repeat(x, samples, axis=0), now.observation)
        values = each_value(critics, repeated, sampled.action.reshape(-1, dimensions), key=key)
        values = self.gap_values(values.reshape(-1, batch, samples), sampled, now)
        pushed = jax.nn.logsumexp(values - sampled.log_density, axis=-1)
        done = each_value(critics, now.observation, inputs.action, key=key)
        return jnp.mean(inputs.weight * (pushed - done), axis=1)

    def gap_values(
        self, values: Float[Array, "critic batch samples"], sampled: SampledActions, now: Experience
    ) -> Float[Array, "critic batch samples"]:
        """Return the values of sampled actions as the gap counts them."""
        return values

    def target(self, state: CQLState, inputs: UpdateInputs) -> Float[Array, " batch"]:
        """Compute r + discount (1 - terminated) times the value of the best of `backup_samples` actions at s'."""
        now, noise, keys = inputs.now, inputs.next_noise, inputs.keys
        policy = state.actor(now.next_observation)
        if self.backup_samples > 1:
            assert keys.sampled is not None
            noise = jax.random.normal(jax.random.fold_in(keys.sampled, 1), (self.backup_samples, *noise.shape))
        else:
            noise = noise[None]

        def one(noise: Float[Array, "batch dimensions"]) -> Float[Array, " batch"]:
            action, log_probability = policy.from_noise(noise)
            return self.soft_value(state, now.next_observation, action, log_probability, keys)

        value = jax.vmap(one)(noise).max(0)
        return now.reward + self.discount * jnp.where(now.terminated, 0.0, value)
