"""Parallelised Q-network (PQN): Q-learning from rollouts, without replay and without a target network.

Gallici, Fellows, Ellis, Pou, Masmoudi, Foerster, Martin (2024), "Simplifying Deep Temporal Difference Learning", arXiv
2407.04811. Many environments side by side take the place of the replay, and layer normalisation that of the target
network. Each rollout, acted in by epsilon-greedy, minimises over epochs of minibatches

    (Q(s_t, a_t) - G_t)^2 / 2,   G_t = r_t + discount ((1 - trace_lambda) max_a Q(s_{t+1}, a) + trace_lambda G_{t+1})

with G computed once, by the network that acted (Peng's Q(lambda), in which traces are not cut where an action was
random). Nothing comes after a terminal state; where an episode was truncated, and after the rollout, max_a Q takes the
place of G.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.agents.q_learning.dqn import QNetwork
from forage.core.ports import ActInputs, Agent, Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges, check_minibatches
from forage.core.spaces import split_mask
from forage.core.types import Batch, Clock, Experience, Spec
from forage.ops.action_values import best_action, take_values
from forage.ops.optimiser import Optimiser, make_named_optimiser
from forage.ops.returns import lambda_returns
from forage.ops.rows import fit, merge_time, weighted_mean


class PQNState(NamedTuple):
    network: QNetwork
    optimiser: Any


class PQN(Agent):
    """Parallelised Q-network (Gallici et al., 2024, arXiv 2407.04811), with CleanRL's settings for small tasks.

    As many transitions make a rollout, of 8 environments and 64 steps where CleanRL has 4 and 128; errors are halved
    and the last layer begins smaller, as in our other agents. CleanRL's epsilon falls over half of the run, and with
    `epsilon-greedy` here over a tenth. The authors' program (mttga/purejaxql) has the same update, with 1e-6 in place
    of 1e-5 in its layer normalisation, takes a truncated episode for a terminated one, and puts the value of what
    follows a rollout in place of that of its last observation.
    """

    example: ClassVar[str] = "forage train pqn CartPole-v1"
    ranges: ClassVar[Ranges] = {"trace_lambda": Range(0, 1)}

    on_policy: ClassVar[bool] = True
    usual_behaviour: ClassVar[str] = "epsilon-greedy"
    gru_size: ClassVar[int] = 0
    needs: ClassVar[Needs] = Needs(actions="numbered", observations="any")

    learning_rate: float = 2.5e-4
    discount: float = 0.99
    trace_lambda: float = 0.65  # decay of the weights of longer returns; nearer 1 has less bias and more variance
    max_gradient_norm: float = 10.0
    final_learning_rate: float = 0.0  # reached linearly at the end of the run, as a share of learning_rate
    num_envs: int = equinox.field(static=True, default=8)
    rollout_length: int = equinox.field(static=True, default=64)
    epochs: int = equinox.field(static=True, default=4)
    minibatches: int = equinox.field(static=True, default=4)
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(120, 84))
    activation: str | Callable[[Any], Any] = equinox.field(static=True, default="relu")
    layer_norm: bool = equinox.field(static=True, default=True)
    encoder: str | type | None = equinox.field(static=True, default=None)
    optimiser: str | Callable[[Any], Any] = equinox.field(static=True, default="radam")
    dueling: bool = equinox.field(static=True, default=False)

    def check(self, spec: Spec) -> None:
        check_minibatches(self, self.num_envs * self.rollout_length * spec.num_agents, "transitions")

    def init(self, key: Key[Array, ""], spec: Spec) -> PQNState:
        network = QNetwork(key, spec, self)
        return PQNState(network, self.descent(1.0).init(network))

    def descent(self, learning_rate: Any) -> Optimiser:
        return make_named_optimiser(self.optimiser, learning_rate, self.max_gradient_norm, flat=True)

    def act(self, state: PQNState, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        return best_action(state.network(inputs.observation), split_mask(inputs.observation)[1]), inputs.hidden, ()

    def action_values(
        self, state: PQNState, hidden: PyTree[Array], observation: PyTree[Array]
    ) -> Float[Array, " actions"]:
        return state.network(observation)

    def probabilities(self, state: PQNState, observation: PyTree[Array], explore: bool) -> Float[Array, " actions"]:
        q = state.network(observation)
        return jax.nn.one_hot(best_action(q, split_mask(observation)[1]), q.shape[-1])

    def learn(
        self, state: PQNState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[PQNState, Metrics, Float[Array, " env"]]:
        experience = batch.experience
        target = self.targets(state.network, experience)
        rows = (experience.observation, experience.action, target, experience.counts.astype(jnp.float32))
        rows = merge_time(rows)

        # As of the beginning of the rollout, so that the first update uses the full learning rate
        began = jnp.maximum(clock.steps - self.num_envs * self.rollout_length, 0)
        rate = self.learning_rate * (1 - clock._replace(steps=began).fraction * (1 - self.final_learning_rate))
        size = target.size // self.minibatches
        fitted = fit(squared_error, self.descent(rate), state.network, state.optimiser, rows, key, self.epochs, size)
        network, optimiser, mean_loss = fitted

        error = jnp.abs(target - take_values(rollout_values(state.network, experience.observation), experience.action))
        error = error * experience.counts
        metrics: Metrics = {"loss": mean_loss, "q": target.mean(), "error": error.mean()}
        return PQNState(network, optimiser), metrics, error.mean(0)

    def targets(self, network: QNetwork, experience: Experience) -> Float[Array, "time env"]:
        """Compute the Q(lambda) return of every step."""
        after = experience.next_observation
        q = rollout_values(network, after)
        value = take_values(q, best_action(q, split_mask(after)[1]))  # finite also where nothing is allowed, at an end
        folded = jax.vmap(lambda_returns, in_axes=(1, 1, 1, 1, None, None), out_axes=1)
        ends = experience.terminated, experience.truncated
        return folded(experience.reward, value, *ends, self.discount, self.trace_lambda)


def rollout_values(network: QNetwork, observations: PyTree[Array]) -> Float[Array, "time env actions"]:
    """Return Q of a rollout's observations."""
    time, envs = jax.tree.leaves(observations)[0].shape[:2]
    rows = jax.tree.map(lambda x: x.reshape(time * envs, *x.shape[2:]), observations)
    return network.rows(rows).reshape(time, envs, -1)


def squared_error(network: QNetwork, rows: tuple[PyTree[Array], Array, Array, Array]) -> Float[Array, ""]:
    """Compute half the mean squared error of Q over the rows that count."""
    observation, action, target, counts = rows
    return weighted_mean(0.5 * (take_values(network.rows(observation), action) - target) ** 2, counts)
