"""Trust region policy optimisation, and the natural policy gradient.

Schulman, Levine, Moritz, Jordan, Abbeel (2015), "Trust Region Policy Optimization", arXiv 1502.05477. Of each rollout,
with ratio r = pi(a|s) / pi_old(a|s) and advantage A (GAE), the policy takes one step that maximises

    L = mean(r A)     subject to     D = mean KL(pi_old(.|s) || pi(.|s)) <= target_kl

With g the gradient of L and H the second derivative of D at the old policy (the Fisher information, plus `damping`),
conjugate gradients solve H x = g by products with H alone, and the step is s x with s = sqrt(2 target_kl / x'Hx), the
longest that the quadratic model of D allows. A line search takes the first of s, b s, b^2 s, ... (b is `backtrack`) at
which D is within its bound and L has risen; with none of `line_search_steps` of them the policy stays. Then the value
learns by epochs of minibatches, as PPO's does, from half the squared error.

Without the line search (`line_search_steps` 0) the step is s x itself: the natural policy gradient (Kakade, 2001, "A
Natural Policy Gradient", NeurIPS) with a step size for a bound on the divergence.

Differences from the paper: damping, a value learned by minibatches of Adam, and standardised advantages are those of
sb3-contrib's `trpo.py`, as are the defaults; the paper fits values by another method, and computes Fisher products
from a tenth of the states, here from all. Differences from sb3-contrib: D is KL(old || new) as in the paper, there
KL(new || old); conjugate gradients start from 0, there from small random numbers; 8 environments of 256 steps stand in
place of one of 2048. A layer that policy and value share, as for images, learns from the policy alone in both.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key, PyTree

from forage.agents.policy_gradient import rollouts
from forage.agents.policy_gradient.ppo import PPO, PPOState, Targets
from forage.agents.policy_gradient.rollouts import Reading, Sequence, over_rollout
from forage.core.ports import Metrics
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.nn.actor_critic import ActorCritic
from forage.ops.losses import join_metrics
from forage.ops.optimiser import Optimiser
from forage.ops.trust_region import natural_step, search_line


class TRPO(PPO):
    """Trust region policy optimisation (Schulman et al., 2015, arXiv 1502.05477), with the defaults of sb3-contrib."""

    example: ClassVar[str] = "forage train trpo CartPole-v1"
    ranges: ClassVar[Ranges] = {
        "target_kl": Range(0, above=True),
        "damping": Range(0),
        "backtrack": Range(0, 1, above=True, below=True),
        "cg_steps": Range(1),
        "line_search_steps": Range(0),
    }
    unused: ClassVar[Unused] = {
        "clip clip_value entropy_coefficient value_coefficient": (
            "TRPO bounds each step of its policy by a KL divergence and learns its value apart",
            "take ppo",
        )
    }

    learning_rate: float = 1e-3  # step size of the value's optimiser
    final_learning_rate: float = 1.0  # reached linearly at the end of the run, as a share of learning_rate
    entropy_coefficient: float = 0.0  # without effect
    value_coefficient: float = 1.0  # without effect, as the value learns apart
    clip: float = 0.2  # without effect
    clip_value: bool = equinox.field(static=True, default=False)  # without effect
    max_gradient_norm: float | None = None  # bound of the value's gradient; none as in sb3-contrib
    target_kl: float = 0.01  # bound of the mean KL divergence from the old policy; larger allows longer steps
    damping: float = 0.1  # added to the diagonal of the Fisher information; larger makes steps more like gradients
    cg_steps: int = equinox.field(static=True, default=15)  # most iterations of conjugate gradients
    line_search_steps: int = equinox.field(static=True, default=10)  # step lengths that are tried; 0: the first is
    # taken untried, a natural policy gradient
    backtrack: float = 0.8  # each length that is tried, as a share of the one before
    rollout_length: int = equinox.field(static=True, default=256)
    epochs: int = equinox.field(static=True, default=10)  # passes of the value over a rollout
    minibatches: int = equinox.field(static=True, default=16)  # parts of a rollout in each of the value's passes

    def descend(
        self, state: PPOState, read: Reading, targets: Targets, optimiser: Optimiser, key: Key[Array, ""]
    ) -> tuple[ActorCritic, Any, Metrics]:
        """Take the policy's step, then the value's. Return the network, the optimiser's state and metrics."""
        network, of_policy = self.improve_policy(state.network, read, targets)
        state = state._replace(network=network)
        every_epoch = dataclasses.replace(self, target_kl=None)  # the bound is the policy's
        value = super(TRPO, every_epoch).descend(state, read, targets, optimiser, key)
        valued, optimiser_state, of_value = value
        return with_policy(valued, network), optimiser_state, join_metrics(of_policy, of_value)

    def loss(
        self,
        network: ActorCritic,
        observation: PyTree[Array],
        targets: Targets,
        sequence: Sequence | None,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, ""], Metrics]:
        """Return the value's loss, half its mean squared error, without a gradient for layers shared with the policy.

        The policy's objective is `surrogate`.
        """
        _, value = self.outputs(with_policy(network, jax.lax.stop_gradient(network)), observation, sequence)
        error = rollouts.value_error(value, targets.value_target, None, self.clip).sum(-1)
        loss = jnp.mean(error if targets.counts is None else error * targets.counts)
        return loss, {"value_loss": loss}

    def surrogate(
        self, network: ActorCritic, old: Any, observation: PyTree[Array], targets: Targets, sequence: Sequence | None
    ) -> tuple[Float[Array, ""], tuple[Float[Array, ""], Float[Array, ""]]]:
        """Compute the mean of r A; also return the mean divergence from the policies `old`, and the entropy."""

        def one(outputs: Array, old: Any, observation: PyTree[Array], action: Array):
            policy = network.distribution(outputs, observation)
            return policy.log_probability(action), old.divergence(policy), policy.entropy()

        over: Any = jax.vmap if sequence is None else over_rollout
        outputs, _ = self.outputs(network, observation, sequence)
        log_probability, divergence, entropy = over(one)(outputs, old, observation, targets.action)
        log_ratio = targets.by_agent * (log_probability - targets.log_probability)
        objective = jnp.exp(jnp.minimum(log_ratio, rollouts.LARGEST)) * targets.advantage
        counts = jnp.ones_like(objective) if targets.counts is None else targets.counts
        means = [jnp.mean(x * counts) for x in (objective, divergence, targets.by_agent * entropy)]
        return means[0], (means[1], means[2])

    def improve_policy(self, network: ActorCritic, read: Reading, targets: Targets) -> tuple[ActorCritic, Metrics]:
        """Take one step of the policy within the trust region, by the whole rollout."""
        units = targets.advantage.size if read.sequence is None else targets.advantage.shape[1]
        rows = rollouts.cut_minibatches(jnp.arange(units), 1, read.observation, targets, read.sequence)
        observation, cut, sequence = jax.tree.map(lambda x: x[0], (rows[0], self.normalise(rows[1]), rows[2]))
        over: Any = jax.vmap if sequence is None else over_rollout
        old = over(network.distribution)(self.outputs(network, observation, sequence)[0], observation)
        weights, unravel = ravel_pytree(network)

        def objective(weights: Float[Array, " parameters"]) -> tuple[Array, Array]:
            gain, (divergence, _) = self.surrogate(unravel(weights), old, observation, cut, sequence)
            return gain, divergence

        step = natural_step(objective, weights, self.target_kl, self.damping, self.cg_steps)
        moved, found = weights + step, jnp.bool_(True)
        if self.line_search_steps:
            moved, found = search_line(objective, weights, step, self.target_kl, self.backtrack, self.line_search_steps)
        network, before = unravel(moved), objective(weights)[0]
        after, (divergence, entropy) = self.surrogate(network, old, observation, cut, sequence)
        metrics = {"policy_loss": -after, "improvement": after - before, "entropy": entropy, "kl": divergence}
        return network, metrics | {"line_search": found.astype(jnp.float32)}


def with_policy(network: ActorCritic, policy: ActorCritic) -> ActorCritic:
    """Return a network with the layers of another one's policy, those that it shares with the value included."""
    own = jax.tree.leaves(policy.torsos)[0].shape[0] > 1 if jax.tree.leaves(policy.torsos) else False
    mix = (lambda value, policy: value.at[0].set(policy[0])) if own else (lambda value, policy: policy)
    where = lambda n: (n.torsos, n.gru, n.actor, n.log_std)  # noqa: E731
    parts = jax.tree.map(mix, network.torsos, policy.torsos), policy.gru, policy.actor, policy.log_std
    return equinox.tree_at(where, network, parts, is_leaf=lambda x: x is None)
