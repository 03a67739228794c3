"""Batch-constrained Q-learning for numbered actions: only actions that the data are likely to take are considered.

Fujimoto, Conti, Ghavamzadeh, Pineau (2019), "Benchmarking Batch Deep Reinforcement Learning Algorithms", arXiv
1910.01708, after batch-constrained Q-learning for continuous actions (Fujimoto, Meger, Precup, 2018, arXiv 1812.02900).
With logits i(s, .) that imitate the data, G = softmax(i), and the considered actions

    C(s) = {b : G(b|s) / max_c G(c|s) > threshold}

each update takes one step down

    mean(Huber(r + discount Q'(s', argmax_{C(s')} Q(s', .)) - Q(s, a)))  -  mean log G(a|s)  +  0.01 mean i(s, .)^2

and the agent acts by argmax over C(s) of Q(s, .). The update, the threshold and the price of large logits are those of
the authors' program (sfujim/BCQ: discrete_BCQ/discrete_BCQ.py), in which images are read once for both networks, and
here twice; in Atari it acts at random once in a thousand steps, and here never does. All other numbers are those of
`dqn`: for tasks without pictures the program has two layers of 256 units, a learning rate of 3e-4, batches of 64,
targets that move by 0.005 with each update, and no clipped gradients. The paper's tables could not be looked up.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.agents.q_learning.dqn import DQN, DQNState, QNetwork
from forage.core.ports import ActInputs, State
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.spaces import split_mask
from forage.core.types import Batch, Experience, Spec
from forage.nn.distributions import Actions
from forage.nn.networks import MLP, NetworkConfig, Torso
from forage.ops.action_values import best_action, take_values
from forage.ops.losses import LossReport

LOGIT_PRICE = 0.01  # of squared logits, as in the authors' program


class BCQNetwork(equinox.Module):
    """Values of all actions, and logits of the actions that the data take."""

    q: QNetwork
    torso: Torso
    head: MLP

    def __init__(self, key: Key[Array, ""], spec: Spec, agent: DQN):
        q_key, torso_key, head_key = jax.random.split(key, 3)
        self.q = QNetwork(q_key, spec, agent)
        self.torso = Torso(
            torso_key, spec.observation_space, agent.hidden_sizes, NetworkConfig.from_agent(agent), gain=2**0.5
        )
        actions = Actions.from_space(spec.action_space).outputs
        self.head = MLP(head_key, (self.torso.size, actions), agent.activation, 2**0.5, 1.0)

    def logits(self, observation: PyTree[Array]) -> Float[Array, " actions"]:
        """Return the logits of one observation, those of forbidden actions far below."""
        logits, mask = self.head(self.torso(observation)), split_mask(observation)[1]
        return logits if mask is None else jnp.where(mask, logits, -1e9)

    def rows(self, observations: PyTree[Array]) -> Float[Array, "rows actions"]:
        """Return the values of many observations (leaves `rows ...`)."""
        return self.q.rows(observations)


class DiscreteBCQ(DQN):
    """Double DQN among likely actions (Fujimoto et al., 2019, arXiv 1910.01708), from a data set."""

    example: ClassVar[str] = "forage train discrete-bcq CartPole-v1 --data mixed.npz"
    ranges: ClassVar[Ranges] = {"threshold": Range(0, 1, below=True)}

    offline: ClassVar[bool] = True
    unused: ClassVar[Unused] = {
        "gru_size": "DiscreteBCQ has no memory, as a data set does not tell its state",
        "noisy": "DiscreteBCQ learns from data and explores nothing",
        "recycle_interval count_dormant": "DiscreteBCQ has two networks and does not look for dormant units",
    }

    threshold: float = 0.3  # how likely an action is to be, relative to the likeliest one, to be considered; 0
    # considers all, near 1 imitates; the authors'
    final_learning_rate: float = 1.0  # reached linearly at the end of the run, as a share of learning_rate
    n_step: int = equinox.field(static=True, default=1)  # steps of the returns; more are of the recorded policy
    dueling: bool = equinox.field(static=True, default=False)

    def init(self, key: Key[Array, ""], spec: Spec) -> State:
        network = BCQNetwork(key, spec, self)
        return DQNState(network, jax.tree.map(jnp.copy, network), self.descent(1.0).init(network), jnp.int32(0))  # pyrefly: ignore[bad-argument-type]

    def considered(self, network: BCQNetwork, observation: PyTree[Array]) -> Bool[Array, " actions"]:
        """Return a mask of the actions that are likely enough in one observation; the likeliest one always is."""
        logits = network.logits(observation)
        relative = logits - logits.max()
        return (jnp.exp(relative) > self.threshold) & (relative > -1e8)

    def act(self, state: State, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        q, considered = state.network.q(inputs.observation), self.considered(state.network, inputs.observation)
        return best_action(q, considered), inputs.hidden, ()

    def action_values(
        self, state: State, hidden: PyTree[Array], observation: PyTree[Array]
    ) -> Float[Array, " actions"]:
        q = state.network.q(observation)
        return jnp.where(self.considered(state.network, observation), q, -1e9)

    def probabilities(self, state: State, observation: PyTree[Array], explore: bool) -> Float[Array, " actions"]:
        q = state.network.q(observation)
        return jax.nn.one_hot(best_action(q, self.considered(state.network, observation)), q.shape[-1])

    def loss(
        self, network: BCQNetwork, target: BCQNetwork, batch: Batch, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, ""], LossReport]:
        loss, report = super().loss(network, target, batch, key)  # pyrefly: ignore[bad-argument-type]
        now = batch.transitions
        logits, counts = jax.vmap(network.logits)(now.observation), batch.weight * self.valid(batch.experience)[0]
        surprise = jnp.mean(counts * -take_values(jax.nn.log_softmax(logits), now.action))
        allowed = logits > -1e8
        size = jnp.sum(jnp.where(allowed, logits, 0.0) ** 2, axis=-1) / jnp.sum(allowed, axis=-1)
        return loss + surprise + LOGIT_PRICE * jnp.mean(counts * size), report | {"surprise": surprise}

    def values(
        self, network: BCQNetwork, target: BCQNetwork, experience: Experience, last: Int[Array, "time batch"]
    ) -> tuple[Float[Array, "time batch"], Float[Array, "time batch"]]:
        q = network.rows(jax.tree.map(lambda x: x[0], experience.observation))[None]
        rows = jnp.arange(last.shape[1])
        after = jax.tree.map(lambda x: x[last[0], rows], experience.next_observation)
        later = target.rows(after)
        online = network.rows(after) if self.double else later
        likely = jax.vmap(lambda observation: self.considered(network, observation))(after)
        return take_values(q, experience.action[:1]), self.next_value(online, later, likely)
