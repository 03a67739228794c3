"""Robust offline-to-online learning: SAC-N with values and a policy that are smooth in the observation.

Wen, Yu, Yang, Chen, Bai, Wang (2023), "Towards Robust Offline-to-Online Reinforcement Learning via Uncertainty and
Smoothness", arXiv 2309.16973. With n perturbed observations s_k = s + d_k, each number of d_k uniform within a radius,
three terms join SAC-N's losses, offline and online alike:

    critics   value_smoothness mean_s max_k mean_i L(Q_i(s_k, a) - Q_i(s, a)),
              L(x) = 0.8 x^2 where x > 0, else 0.2 x^2
    critics   caution mean_{s, k, i} (Q_i(s_k, b) - [Q_i(s_k, b) - u std_i Q_i(s_k, b)])^2,  b ~ pi(.|s_k), the bracket
              held fixed: values of the policy's actions fall where critics differ; u falls from 1 to 0.1
    policy    policy_smoothness mean_s max_k (KL(pi(.|s) || pi(.|s_k)) + KL(pi(.|s_k) || pi(.|s))), before the tanh

beside the squared errors sum_i mean((Q_i - y)^2), all of which are halved here. The losses, numbers and sizes are those
of the authors' program (BattleWen/RO2O: algorithms/offline/ro2o_mujoco.py; algorithms/finetune/ro2o_ft_mujoco.py goes
on from the offline run's networks with the same losses and an empty replay); the paper's tables could not be looked up.
There observations are standardised by the data set's mean and deviation; here a radius is in units of the deviation of
each number in the batch.
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from forage.agents.actor_critic.base import CriticKeys, UpdateInputs
from forage.agents.actor_critic.sac import SAC, ActorReport, GaussianActor
from forage.core.ports import State
from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError, Spec
from forage.nn.critics import ActionValue, CriticReport, each_value, min_of_critics
from forage.nn.distributions import SquashedGaussian
from forage.ops.rows import weighted_mean
from forage_papers.agents.settings import SACN

ABOVE = 0.8  # weight of the square where a neighbour's value is larger, as in the authors' program; else what is left
LEAST_PENALTY, DECAY = 0.1, 5e-7  # where the penalty ends, and how far it falls in each update, as there


class RO2O(SACN, SAC):
    """SAC-N with smooth values and a smooth policy (Wen et al., 2023, arXiv 2309.16973), offline and then online.

    Learn from data first, and go on with `--from RUN` and the same agent.
    """

    begins_at_random: ClassVar[bool] = False
    example: ClassVar[str] = "forage train ro2o Pendulum-v1 --data DATA.npz --steps 5000"
    ranges: ClassVar[Ranges] = {
        "neighbours": Range(1),
        "value_smoothness": Range(0),
        "policy_smoothness": Range(0),
        "caution": Range(0),
        "value_radius": Range(0),
        "policy_radius": Range(0),
        "caution_radius": Range(0),
        "critics": Range(2),
    }

    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256, 256))
    neighbours: int = equinox.field(static=True, default=20)  # perturbed observations of each; more find worse ones;
    # the authors'
    value_smoothness: float = 1e-4  # weight of how far values differ nearby; larger makes them smoother; the authors'
    policy_smoothness: float = (
        1.0  # weight of how far the policy differs nearby; larger makes it smoother; the
        # authors'
    )
    caution: float = 0.1  # weight of the penalty on values about which critics differ; larger keeps nearer to the data;
    # the authors' for locomotion
    value_radius: float = 0.01  # how far perturbed observations lie where values are smoothed, in deviations; the
    # authors'
    policy_radius: float = 0.01  # how far they lie where the policy is smoothed, in deviations; the authors'
    caution_radius: float = 0.01  # how far they lie where values are penalised, in deviations; the authors'

    def check(self, spec: Spec) -> None:
        super().check(spec)
        space: Any = spec.observation_space
        if getattr(space, "shape", None) is None or not jnp.issubdtype(space.dtype, jnp.floating):
            raise ForageError(
                f"RO2O perturbs observations, and those of {spec.name} are no vectors of numbers; sac-n and edac take "
                f"any."
            )

    def critic_keys(self, key: Key[Array, ""] | None) -> CriticKeys:
        assert key is not None
        keys = super().critic_keys(key)
        policy_q = jax.random.fold_in(key, 3) if keys.policy_q is None else keys.policy_q
        return keys._replace(policy_q=policy_q)

    def evaluate(self, state: State, inputs: UpdateInputs) -> tuple[State, CriticReport]:
        """Take one step of the critics towards their target, and towards smooth and careful values."""
        now, action, keys = inputs.now, inputs.action, inputs.keys
        assert keys.sampled is not None
        target = self.target(state, inputs)
        near_key, far_key, act_key = jax.random.split(keys.sampled, 3)
        near = self.neighbourhood(now.observation, self.value_radius, near_key)
        far = self.neighbourhood(now.observation, self.caution_radius, far_key)
        policy = state.actor(far.reshape(-1, *far.shape[2:]))
        own = policy.from_noise(jax.random.normal(act_key, policy.mean.shape))[0]
        own = own.reshape(*far.shape[:2], -1)
        penalty = jnp.maximum(1.0 - DECAY * state.updates, LEAST_PENALTY)

        def loss(critics: ActionValue) -> tuple[Float[Array, ""], CriticReport]:
            error, report = self.critic_loss(critics, inputs, target)
            rough = self.roughness(critics, now.observation, action, near)
            careless = self.carelessness(critics, far, own, penalty)
            return error + (self.value_smoothness * rough + self.caution * careless) / 2, report

        gradient, report = jax.grad(loss, has_aux=True)(state.critics)
        return self.step_critics(state, gradient), report

    def neighbourhood(
        self, observation: Float[Array, "batch *shape"], radius: Any, key: Key[Array, ""]
    ) -> Float[Array, "batch neighbour *shape"]:
        """Return perturbed observations, the same perturbations for a whole batch."""
        shape = (self.neighbours, *observation.shape[1:])
        moved = jax.random.uniform(key, shape, minval=-1.0) * radius * observation.std(0)
        return observation[:, None] + moved

    def roughness(
        self,
        critics: ActionValue,
        observation: Float[Array, "batch *shape"],
        action: Float[Array, "batch dimensions"],
        near: Float[Array, "batch neighbour *shape"],
    ) -> Float[Array, ""]:
        """Compute the difference of values of one action between an observation and its worst neighbour."""
        batch, number = near.shape[:2]
        values = each_value(critics, near.reshape(-1, *near.shape[2:]), jnp.repeat(action, number, axis=0))
        change = values.reshape(-1, batch, number) - each_value(critics, observation, action)[:, :, None]
        squares = jnp.where(change > 0, ABOVE, 1 - ABOVE) * change**2
        return worst(squares.mean(0)).mean()

    def carelessness(
        self,
        critics: ActionValue,
        far: Float[Array, "batch neighbour *shape"],
        own: Float[Array, "batch neighbour dimensions"],
        penalty: Float[Array, ""],
    ) -> Float[Array, ""]:
        """Compute the squared distance of values from themselves less `penalty` times their deviation, held fixed."""
        values = each_value(critics, far.reshape(-1, *far.shape[2:]), own.reshape(-1, own.shape[-1]))
        goal = jax.lax.stop_gradient(values - penalty * values.std(0, ddof=1))
        return jnp.mean((values - goal) ** 2)

    def actor_loss(
        self, actor: GaussianActor, state: State, inputs: UpdateInputs
    ) -> tuple[Float[Array, ""], ActorReport]:
        """Compute SAC's loss and the policy's divergence between an observation and its worst neighbour."""
        keys, observation = inputs.keys, inputs.now.observation
        assert keys.policy_q is not None
        dropped = inputs if self.dropout else inputs._replace(keys=keys._replace(policy_q=None))
        loss, report = super().actor_loss(actor, state, dropped)
        near = self.neighbourhood(observation, self.policy_radius, jax.random.fold_in(keys.policy_q, 1))
        there = actor(near.reshape(-1, *near.shape[2:]))
        there = jax.tree.map(lambda x: x.reshape(*near.shape[:2], -1), there)
        here = jax.tree.map(lambda x: x[:, None], actor(observation))
        rough = weighted_mean(worst(symmetric_kl(here, there)), inputs.now.counts)
        loss = loss + self.policy_smoothness * rough
        return loss, report._replace(loss=loss)


def symmetric_kl(p: SquashedGaussian, q: SquashedGaussian) -> Float[Array, "*batch"]:
    """Compute KL(p || q) + KL(q || p) of the Gaussians before the tanh."""
    variances, apart = (jnp.exp(2 * p.log_std), jnp.exp(2 * q.log_std)), (p.mean - q.mean) ** 2
    both = (variances[0] + apart) / variances[1] + (variances[1] + apart) / variances[0] - 2
    return 0.5 * both.sum(-1)


def worst(each: Float[Array, "batch neighbour"]) -> Float[Array, " batch"]:
    """Return the largest over neighbours; see `least` for its derivative."""
    return -min_of_critics(-each.T)
