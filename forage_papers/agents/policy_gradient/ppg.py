"""Phasic policy gradient: PPO, and now and then a phase in which the policy's layers learn to predict values too.

Cobbe, Hilton, Klimov, Schulman (2020), "Phasic Policy Gradient", arXiv 2009.04416. After every `policy_rollouts`
rollouts of PPO comes an auxiliary phase: `auxiliary_epochs` passes over all their observations, in minibatches, down

    (V_aux(s) - R)^2 / 2  +  cloning KL(pi_old(.|s) || pi(.|s))  +  (V(s) - R)^2 / 2

where V_aux is a second head on the policy's own layers, R are the value targets of the rollouts, and pi_old is the
policy as the phase begins. So the features of the policy learn from values without interference between the two in the
policy's phase, and the value learns more often than the policy.

As in the authors' program (phasic_policy_gradient/ppg.py): one pass of policy and value in the policy's phase, an
optimiser of its own and as many minibatches for each rollout in the auxiliary one. It divides rewards by the spread of
returns, which `--rewards normalise-return` does here: `cloning` weighs a divergence against errors of values, and where
these are far larger than 1 the phase takes the policy with it. Differences: minibatches are of transitions, there of
whole segments; gradients are bounded as PPO's are; the discount is 0.99 in place of Procgen's 0.999, and 8 environments
of 128 steps stand in place of 64 of 256. Networks that read images share layers between policy and value, which is the
authors' `shared` in place of `dual`.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.agents.policy_gradient.ppo import PPO
from forage.agents.policy_gradient.rollouts import value_error
from forage.core import spaces
from forage.core.ports import Metrics
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, ForageError, Spec
from forage.nn.actor_critic import ActorCritic
from forage.nn.layers import Linear
from forage.nn.normalise import Norms, apply_norm, first_statistics, update_norms
from forage.ops.every import report_every, shared_by_seeds
from forage.ops.losses import join_metrics, loss_gradient
from forage.ops.rows import weighted_mean


class Phase(NamedTuple):
    """The rollouts of a policy phase, leaves `rollout time env ...`, or rows of them."""

    observation: PyTree[Array]  # as the networks read it
    value_target: Float[Array, "*rows streams"]
    counts: Bool[Array, "*rows"]


class PPGState(NamedTuple):
    network: ActorCritic
    optimiser: Any
    norm: Norms  # of observations
    head: Linear  # the auxiliary values, of the policy's features
    auxiliary_optimiser: Any  # of network and head
    phase: Phase
    rollouts: Int[Array, ""]


class PPG(PPO):
    """Phasic policy gradient (Cobbe et al., 2020, arXiv 2009.04416), with the authors' numbers of passes."""

    example: ClassVar[str] = "forage train ppg CartPole-v1 --rewards normalise-return --policy-rollouts 8"
    ranges: ClassVar[Ranges] = {
        "policy_rollouts": Range(1),
        "auxiliary_epochs": Range(1),
        "auxiliary_minibatches": Range(1),
        "auxiliary_learning_rate": Range(0, above=True),
        "cloning": Range(0),
    }
    unused: ClassVar[Unused] = {"gru_size": ("PPG has no memory yet", "take ppo")}

    learning_rate: float = 5e-4  # the authors'
    final_learning_rate: float = 1.0  # reached linearly at the end of the run, as a share of learning_rate
    epochs: int = equinox.field(static=True, default=1)  # passes over a rollout in the policy's phase; the authors'
    minibatches: int = equinox.field(static=True, default=8)  # parts of a rollout in each of them; the authors'
    policy_rollouts: int = equinox.field(static=True, default=32)  # rollouts from one auxiliary phase to the next, all
    # kept in memory; the authors' N_pi
    auxiliary_epochs: int = equinox.field(static=True, default=6)  # passes over these rollouts in the auxiliary phase;
    # the authors'
    auxiliary_minibatches: int = equinox.field(static=True, default=16)  # minibatches of a pass for each rollout; the
    # authors'
    auxiliary_learning_rate: float = 5e-4  # step size in the auxiliary phase; the authors'
    cloning: float = 1.0  # weight of the divergence from the policy before the phase; larger changes it less, and 1 is
    # the authors'

    def check(self, spec: Spec) -> None:
        super().check(spec)
        transitions = self.num_envs * self.rollout_length * spec.num_agents
        if transitions % self.auxiliary_minibatches:
            raise ForageError(
                f"The {transitions} transitions of a rollout cannot be cut into {self.auxiliary_minibatches} equal "
                f"auxiliary_minibatches; take a number that divides {transitions}."
            )

    def init(self, key: Key[Array, ""], spec: Spec) -> PPGState:  # type: ignore[override]
        state = super().init(key, spec)
        streams = 1 + len(self.reward_heads)
        head = Linear(jax.random.fold_in(key, 5), state.network.actor.weight.shape[0], streams, gain=1.0)
        shape = self.policy_rollouts, self.rollout_length, self.num_envs * spec.num_agents
        seen = apply_norm(state.norm, spaces.example(spec.observation_space))
        observation = jax.tree.map(lambda x: jnp.zeros((*shape, *x.shape), x.dtype), seen)
        phase = Phase(observation, jnp.zeros((*shape, streams)), jnp.zeros(shape, bool))
        optimiser = self.descent(1.0).init((state.network, head))
        return PPGState(*state, head, optimiser, phase, jnp.int32(0))

    def learn(
        self, state: Any, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Any, Metrics, Float[Array, " env"]]:
        # Value targets, by the network that acted
        experience = batch.experience
        later = update_norms(state.norm, spaces.split_mask(experience.observation)[0], experience.counts)
        read = self.apply_to_rollout(state.network, first_statistics(state.norm, later), experience)
        now = Phase(read.observation, self.estimates(experience, read)[1], experience.counts)

        # Policy phase
        learned, metrics, errors = super().learn(state, batch, clock, key)
        place = shared_by_seeds(state.rollouts) % self.policy_rollouts
        phase = jax.tree.map(lambda kept, new: kept.at[place].set(new), state.phase, now)
        own = {"network": learned.network, "optimiser": learned.optimiser, "norm": learned.norm}
        state = state._replace(**own, phase=phase, rollouts=state.rollouts + 1)

        # Auxiliary phase
        turn = lambda state: self.learn_auxiliary(state, jax.random.fold_in(key, 5))  # noqa: E731
        state, of_phase = report_every(self.policy_rollouts, state.rollouts, turn, state)
        return state, join_metrics(metrics, of_phase), errors

    def learn_auxiliary(self, state: PPGState, key: Key[Array, ""]) -> tuple[PPGState, Metrics]:
        """Take the steps of an auxiliary phase. Also return the mean metrics of its loss."""
        rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[3:]), state.phase)
        outputs = state.network.rows(rows.observation)[0]
        old = jax.vmap(state.network.distribution)(outputs, rows.observation)
        optimiser = self.descent(self.auxiliary_learning_rate)

        def step(carry: tuple[Any, Any], data: tuple[Any, Phase]) -> tuple[tuple[Any, Any], Metrics]:
            networks, optimiser_state = carry
            gradient, metrics = loss_gradient(self.auxiliary_loss, networks, *data)
            networks, optimiser_state = optimiser.step(gradient, optimiser_state, networks)
            return (networks, optimiser_state), metrics

        def epoch(carry: tuple[Any, Any], key: Key[Array, ""]) -> tuple[tuple[Any, Any], Metrics]:
            order = jax.random.permutation(key, len(rows.counts))
            number = self.policy_rollouts * self.auxiliary_minibatches
            cut = jax.tree.map(lambda x: x[order].reshape(number, -1, *x.shape[1:]), (old, rows))
            return jax.lax.scan(step, carry, cut)

        begin = (state.network, state.head), state.auxiliary_optimiser
        keys = jax.random.split(key, self.auxiliary_epochs)
        ((network, head), auxiliary), metrics = jax.lax.scan(epoch, begin, keys)
        state = state._replace(network=network, head=head, auxiliary_optimiser=auxiliary)
        return state, jax.tree.map(lambda x: x.mean((0, 1)), metrics)

    def auxiliary_loss(
        self, networks: tuple[ActorCritic, Linear], old: Any, rows: Phase
    ) -> tuple[Float[Array, ""], Metrics]:
        """Compute the loss of the auxiliary phase and its metrics; `old` are the policies before the phase."""
        network, head = networks
        features = network.torso(0).rows(rows.observation)
        policy = jax.vmap(network.distribution)(network.outputs(features), rows.observation)
        divergence = jax.vmap(lambda one, other: one.divergence(other))(old, policy)
        values = head(features), network.values(rows.observation)
        errors = [value_error(value, rows.value_target, None, self.clip).sum(-1) for value in values]
        auxiliary, own, cloned = (weighted_mean(x, rows.counts) for x in (*errors, divergence))
        metrics = {"auxiliary_loss": auxiliary, "auxiliary_value_loss": own, "auxiliary_kl": cloned}
        return auxiliary + self.cloning * cloned + own, metrics
