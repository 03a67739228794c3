"""An ensemble of categorical agents that all learn from their average distribution.

Lindenberg, Nordqvist, Lindahl (2020), "Distributional Reinforcement Learning with Ensembles", Algorithms 13(5), 118,
arXiv 2003.10903. K categorical networks p_1 ... p_K (`c51`) learn together. With target networks p'_k, all of them go
down the cross-entropy to one target, which is made of their average:

    p'(s, a) = mean_k p'_k(s, a),   a' = argmax_a of the mean of p'(s', a)
    sum_k -sum_i m_i log p_{k,i}(s, a),   m the projection of r + discount z under p'(s', a'), as in C51

(with `double`, a' is best under the average of p_1 ... p_K). So each network's target has what the others have learned
in it, too. At the start of an episode one member is drawn and followed to its end; without exploring, the action is the
best under the average.

The paper could be read in its abstract alone: networks, sizes and numbers are those of `c51` here, and who is followed,
and learns from what, is as in `bootstrapped-dqn`.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jax.scipy.special import xlogy
from jaxtyping import Array, Float, Key, PyTree

from forage.agents.q_learning.c51 import C51, CategoricalNetwork, project_atoms
from forage.agents.q_learning.distributional import of_action
from forage.core.ports import ActInputs, Metrics, State
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.spaces import split_mask
from forage.core.types import Batch, Clock, ForageError, Spec
from forage.ops.action_values import best_action
from forage.ops.losses import LossReport
from forage_papers.agents.q_learning.bootstrapped_dqn import ActiveHead


class EnsembleC51(C51):
    """C51 with members that learn from the average distribution of all (Lindenberg et al., 2020, arXiv 2003.10903)."""

    example: ClassVar[str] = "forage train ensemble-c51 CartPole-v1"
    ranges: ClassVar[Ranges] = {"members": Range(1), "mask_probability": Range(0, 1, above=True)}
    unused: ClassVar[Unused] = {
        "recycle_interval count_dormant": "EnsembleC51 does not look for dormant units, as it has several networks"
    }

    members: int = equinox.field(static=True, default=5)  # networks that learn together; more have a steadier target,
    # at more computing
    mask_probability: float = 1.0  # chance that a member learns from a transition; smaller keeps members further apart

    def init(self, key: Key[Array, ""], spec: Spec) -> State:
        networks = jax.vmap(lambda key: self.network(key, spec))(jax.random.split(key, self.members))
        state = super().init(key, spec)
        optimiser = self.descent(1.0).init(networks)
        return state._replace(network=networks, target=jax.tree.map(jnp.copy, networks), optimiser=optimiser)

    def init_hidden(self, spec: Spec) -> ActiveHead:
        return ActiveHead(jnp.bool_(False), jnp.int32(0))

    def each_value(self, state: State, observation: PyTree[Array]) -> Float[Array, "member actions"]:
        """Return each member's values of one observation."""
        return jax.vmap(lambda network: network(observation))(state.network)

    def act(self, state: State, inputs: ActInputs) -> tuple[PyTree[Array], ActiveHead, PyTree[Array]]:
        member_key, mask_key = jax.random.split(inputs.key)
        q, mask = self.each_value(state, inputs.observation), split_mask(inputs.observation)[1]
        learners = jax.random.uniform(mask_key, (self.members,)) < self.mask_probability
        if not inputs.explore:
            return best_action(q.mean(0), mask), inputs.hidden, learners
        member = jnp.where(inputs.hidden.drawn, inputs.hidden.head, jax.random.randint(member_key, (), 0, self.members))
        return best_action(q[member], mask), ActiveHead(jnp.bool_(True), member), learners

    def action_values(self, state: State, hidden: ActiveHead, observation: PyTree[Array]) -> Float[Array, " actions"]:
        """Return the values of the member that acts; before one is drawn, the mean of all members."""
        q = self.each_value(state, observation)
        return jnp.where(hidden.drawn, q[hidden.head], q.mean(0))

    def probabilities(self, state: State, observation: PyTree[Array], explore: bool) -> Float[Array, " actions"]:
        if explore:
            raise ForageError("EnsembleC51 follows one member in each episode, which an observation does not tell.")
        q = self.each_value(state, observation).mean(0)
        return jax.nn.one_hot(best_action(q, split_mask(observation)[1]), q.shape[-1])

    def learn(
        self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        # Data sets have no masks: everybody learns from all that they hold.
        policy_info = batch.experience.policy_info
        learners = policy_info[0] if jax.tree.leaves(policy_info) else jnp.ones((len(batch.weight), self.members), bool)
        experience = batch.experience._replace(policy_info=learners[None])
        return super().learn(state, batch._replace(experience=experience), clock, key)

    def average(self, network: CategoricalNetwork, observation: PyTree[Array]) -> Float[Array, "rows actions atoms"]:
        """Return the mean over members of the distributions of many observations (leaves `rows ...`)."""
        return jax.vmap(lambda member: jax.nn.softmax(member.spreads(observation)))(network).mean(0)

    def loss(
        self, network: CategoricalNetwork, target: CategoricalNetwork, batch: Batch, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, ""], LossReport]:
        """Sum the members' losses against the one target; also return their mean divergence from it."""
        experience = batch.experience
        total, last, bootstrap = (x[0] for x in self.fold(experience))
        places = network.support

        # The target, from the average of all members
        after = jax.tree.map(lambda x: x[last, jnp.arange(last.shape[0])], experience.next_observation)
        later = self.average(target, after)
        chooses = self.average(network, after) if self.double else later
        action = best_action(chooses @ places, split_mask(after)[1])
        moved = total[:, None] + bootstrap[:, None] * places
        goal = jax.lax.stop_gradient(project_atoms(of_action(later, action), moved, places))

        # Each member's cross-entropy to it
        now, taken = jax.tree.map(lambda x: x[0], experience.observation), experience.action[0]
        logits = jax.vmap(lambda member: of_action(member.spreads(now), taken))(network)
        each = -jnp.sum(goal * jax.nn.log_softmax(logits), axis=-1)
        weight = batch.weight * self.valid(experience)[0]
        loss = jnp.mean(weight * experience.policy_info[0].T * each, axis=1).sum()
        divergence = each.mean(0) + xlogy(goal, goal).sum(1)
        q = jax.nn.softmax(logits) @ places
        error = jnp.abs(goal @ places - q)
        return loss, LossReport(divergence[None], {"loss": loss, "q": q.mean(), "error": error.mean()})
