"""Bootstrapped DQN, with randomised priors: deep exploration by following one of many value functions at a time.

Osband, Blundell, Pritzel, Van Roy (2016), "Deep Exploration via Bootstrapped DQN", arXiv 1602.04621: K value functions
are learned from one memory. At the start of an episode one of them is drawn, and followed to its end, so what is tried
hangs together over many steps, unlike noise on each of them. Each transition is kept with a mask m of K coin flips that
says which heads learn from it. Head k goes down m_k Huber(Q_k(s, a) - y_k), its own target being

    y_k = r_t + ... + discount^(n-1) r_{t+n-1} + discount^n Q'_k(s', argmax_a Q_k(s', a))   (nothing after a terminal)

Osband, Aslanides, Cassirer (2018), "Randomized Prior Functions for Deep Reinforcement Learning", arXiv 1806.03335: what
data does not speak of stays uncertain where Q_k = f_k + prior_scale p_k, of which the random network p_k never learns.
Without it nothing keeps the heads apart where nothing was rewarded.

In evaluation the heads vote, each for its best action; a tie goes to the higher mean value.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ports import ActInputs, Agent, Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges, check_segments
from forage.core.spaces import split_mask
from forage.core.types import Batch, Clock, Spec
from forage.nn.distributions import Actions
from forage.nn.networks import MLP, Torso
from forage.ops import returns
from forage.ops.action_values import best_action, take_values, update_target
from forage.ops.optimiser import Optimiser, adam


class Heads(equinox.Module):
    """K value functions of all actions: heads on a shared torso, or each with a torso of its own."""

    torso: Torso  # leaves [head, ...] unless it is shared
    tops: MLP  # leaves [head, ...]
    shared: bool = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, agent: BootstrappedDQN):
        torso_key, top_key = jax.random.split(key)
        gain = 2**0.5

        def torso(key: Key[Array, ""]) -> Torso:
            return Torso(key, spec.observation_space, agent.hidden_sizes, agent.activation, gain)

        self.shared = agent.shared_torso
        self.torso = torso(torso_key) if self.shared else jax.vmap(torso)(jax.random.split(torso_key, agent.heads))
        size, actions = torso(torso_key).size, Actions.from_space(spec.action_space).outputs
        make = lambda key: MLP(key, (size, size, actions), agent.activation, gain, 1.0)  # noqa: E731
        self.tops = jax.vmap(make)(jax.random.split(top_key, agent.heads))

    def rows(self, observations: PyTree[Array]) -> Float[Array, "rows head actions"]:
        """Q of many observations (leaves `rows ...`), of every head."""
        if not self.shared:
            return jax.vmap(lambda torso, top: top(torso.rows(observations)), out_axes=1)(self.torso, self.tops)
        features = self.torso.rows(observations)
        # What all heads ask of the torso is divided by their number (Osband et al., 2016, appendix D.2).
        share = 1 / self.tops.layers[0].bias.shape[0]
        features = share * features + (1 - share) * jax.lax.stop_gradient(features)
        return jax.vmap(lambda top: top(features), out_axes=1)(self.tops)


class ActiveHead(NamedTuple):
    """The head that an episode follows."""

    drawn: Bool[Array, ""]
    head: Int[Array, ""]


class BootstrappedDQNState(NamedTuple):
    network: Heads
    target: Heads
    prior: Heads  # never trained
    optimiser: Any
    updates: Int[Array, ""]


class BootstrappedDQN(Agent):
    """Bootstrapped DQN (Osband et al., 2016, arXiv 1602.04621) with randomised priors (2018, arXiv 1806.03335).

    The defaults are for small tasks that need deep exploration: with them DeepSea is solved where chance finds nothing.
    Members, priors, masks, learning rate, batch and target are those of Behaviour Suite's run of this agent; there
    every member is a network of its own (`shared_torso=False`), updated at each step, without double targets and on
    squared errors, and no gradient is clipped, where here the norm of all heads' together is. Its networks have layers
    of 50 units that begin with truncated normal weights of deviation 1/sqrt(inputs), so at the same `prior_scale` its
    priors are about a third as large on DeepSea as the orthogonal ones here. With a shared torso the priors share one
    too, and are less apart.

    A `prior_scale` of 0 is the method of 2016. A `mask_probability` of 1 gives every head all data, as Behaviour
    Suite's agent does by default: with priors and random weights they stay apart all the same.
    """

    example: ClassVar[str] = "forage train bootstrapped-dqn DeepSea-20 --steps 40k"
    ranges: ClassVar[Ranges] = {"prior_scale": Range(0), "mask_probability": Range(0, 1, above=True)}

    on_policy: ClassVar[bool] = False
    needs: ClassVar[Needs] = Needs(actions="numbered", observations="any")

    learning_rate: float = 1e-3
    discount: float = 0.99
    mask_probability: float = 0.5  # chance that a head learns from a transition; smaller keeps heads further apart
    prior_scale: float = 3.0  # factor of the random networks that are added to values; larger explores more, 0 has no
    # priors
    max_gradient_norm: float = 10.0
    heads: int = equinox.field(static=True, default=20)  # value networks, one of which is followed in each episode;
    # more explore more evenly, at more computing
    shared_torso: bool = equinox.field(static=True, default=True)  # heads share their first layers; else every head is
    # a network of its own
    num_envs: int = equinox.field(static=True, default=8)
    rollout_length: int = equinox.field(static=True, default=1)
    updates_per_rollout: int = equinox.field(static=True, default=1)
    batch_size: int = equinox.field(static=True, default=128)
    learning_starts: int = equinox.field(static=True, default=128)
    target_update_interval: int = equinox.field(static=True, default=32)  # environment steps between two updates of the
    # target network; more are steadier and slower
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64,))  # units of the torso's layers; a head has
    # one layer more
    activation: str = equinox.field(static=True, default="relu")
    double: bool = equinox.field(static=True, default=True)
    n_step: int = equinox.field(static=True, default=1)

    @property
    def segment(self) -> int:
        return self.n_step

    def check(self, spec: Spec) -> None:
        check_segments(self)

    def init(self, key: Key[Array, ""], spec: Spec) -> BootstrappedDQNState:
        network_key, prior_key = jax.random.split(key)
        network, prior = Heads(network_key, spec, self), Heads(prior_key, spec, self)
        optimiser = self.optimiser().init(network)
        return BootstrappedDQNState(network, jax.tree.map(jnp.copy, network), prior, optimiser, jnp.int32(0))

    def optimiser(self) -> Optimiser:
        return adam(self.learning_rate, max_gradient_norm=self.max_gradient_norm, flat=True)

    def init_hidden(self, spec: Spec) -> ActiveHead:
        return ActiveHead(jnp.bool_(False), jnp.int32(0))

    def values(self, network: Heads, prior: Heads, observations: PyTree[Array]) -> Float[Array, "rows head actions"]:
        """f_k + prior_scale p_k, of every head."""
        return network.rows(observations) + self.prior_scale * jax.lax.stop_gradient(prior.rows(observations))

    def values_here(self, state: BootstrappedDQNState, observation: PyTree[Array]) -> Float[Array, "head actions"]:
        """Return the same of one observation."""
        return self.values(state.network, state.prior, jax.tree.map(lambda x: jnp.asarray(x)[None], observation))[0]

    def act(self, state: BootstrappedDQNState, inputs: ActInputs) -> tuple[PyTree[Array], ActiveHead, PyTree[Array]]:
        head_key, mask_key = jax.random.split(inputs.key)
        mask = split_mask(inputs.observation)[1]
        q = self.values_here(state, inputs.observation)
        learners = jax.random.uniform(mask_key, (self.heads,)) < self.mask_probability
        if not inputs.explore:
            return best_action(votes(q, mask), mask), inputs.hidden, learners
        head = jnp.where(inputs.hidden.drawn, inputs.hidden.head, jax.random.randint(head_key, (), 0, self.heads))
        return best_action(q[head], mask), ActiveHead(jnp.bool_(True), head), learners

    def action_values(
        self, state: BootstrappedDQNState, hidden: ActiveHead, observation: PyTree[Array]
    ) -> Float[Array, " actions"]:
        """Those of the head that is followed; before one is drawn, the mean of all."""
        q = self.values_here(state, observation)
        return jnp.where(hidden.drawn, q[hidden.head], q.mean(0))

    def learn(
        self, state: BootstrappedDQNState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[BootstrappedDQNState, Metrics, Float[Array, " batch"]]:
        gradient, (error, metrics) = jax.grad(self.loss, has_aux=True)(state.network, state.target, state.prior, batch)
        network, optimiser = self.optimiser().step(gradient, state.optimiser, state.network)
        count = state.updates + 1
        target = update_target(self, state.target, network, count)
        return (
            BootstrappedDQNState(network, target, state.prior, optimiser, count),
            metrics,
            error * batch.experience.counts[0],
        )

    def loss(
        self, network: Heads, target: Heads, prior: Heads, batch: Batch
    ) -> tuple[Float[Array, ""], tuple[Float[Array, " batch"], Metrics]]:
        """Compute the sum over heads of each one's mean Huber loss; also return the mean error of all heads."""
        experience = batch.experience
        folded = jax.vmap(returns.n_step, (1, 1, 1, None))
        total, last, bootstrap = folded(experience.reward, experience.terminated, experience.truncated, self.discount)
        rows = jnp.arange(last.shape[0])
        now = jax.tree.map(lambda x: x[0], experience.observation)
        after = jax.tree.map(lambda x: x[last, rows], experience.next_observation)
        mask = split_mask(after)[1]
        mask = None if mask is None else mask[:, None]
        later = self.values(target, prior, after)
        value = take_values(later, best_action(self.values(network, prior, after) if self.double else later, mask))
        goal = jax.lax.stop_gradient(total[:, None] + bootstrap[:, None] * value)
        action = jnp.broadcast_to(experience.action[0][:, None], goal.shape)
        error = goal - take_values(self.values(network, prior, now), action)
        weight = (batch.weight * experience.counts[0])[:, None] * experience.policy_info[0]
        loss = jnp.mean(weight * optax.huber_loss(error), axis=0).sum()
        size = jnp.abs(error).mean(1)
        return loss, (size, {"loss": loss, "q": goal.mean() - error.mean(), "error": size.mean()})


def votes(q: Float[Array, "head actions"], mask: Bool[Array, " actions"] | None) -> Float[Array, " actions"]:
    """Count the heads that hold each action for the best; equal counts are decided by the mean, as less than a half."""
    count = jax.nn.one_hot(best_action(q, mask), q.shape[1]).sum(0)
    return count + 0.49 * jax.nn.softmax(q.mean(0))
