"""Shared base of rewards of a discriminator: its inputs, its training, and the ends of episodes.

With l(s, a) the discriminator's logit that a transition is a demonstration, D = 1 / (1 + exp(-l)), each update takes
one step of Adam down

    -mean_demonstrations log D - mean_own log (1 - D) + gradient_penalty mean (|grad l| - 1)^2

The penalty, at points drawn evenly between a demonstration and a transition of the agent's own, is that of Gulrajani,
Ahmed, Arjovsky, Dumoulin, Courville (2017), "Improved Training of Wasserstein GANs", arXiv 1704.00028, with their
weight of 10. The absorbing state is left out of it: in CartPole, with slopes of 1, it was so near to the demonstrations
that an agent which could not balance yet was paid for falling at once, and did not learn to in 60,000 steps.

Where episodes end of themselves, what is paid at each step says how long they should be, whoever is imitated: rewards
that are always positive ask to live on, negative ones to end soon. With `absorbing`, as in discriminator-actor-critic
(Kostrikov, Agrawal, Dwibedi, Levine, Tompson, 2018, arXiv 1809.02925), an episode that terminates goes on for ever in
an absorbing state x, which the discriminator sees as any other, in demonstrations and in the agent's own episodes:

    r(s, a) = p(s, a) + discount / (1 - discount) p(x)        where the step terminates; else p(s, a)

with p what a logit pays. Then an end is worth what it is worth to the demonstrator. There critics learn what the
absorbing state is worth; here the sum is paid with the last step, so that every agent can take it.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core import spaces
from forage.core.ports import Metrics, Rewards
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Clock, Experience, Spec
from forage.data.demonstrations import Demonstrations, as_demonstrations
from forage.data.files import check_recordable
from forage.nn.distributions import Actions
from forage.nn.embedding import Embedding
from forage.nn.layers import MLP
from forage.nn.normalise import RunningNorm
from forage.ops.optimiser import Optimiser, adam
from forage.ops.rows import merge_time
from forage.rewards.bonuses.rows import as_rows, row_shape

Policy = Callable[[PyTree[Array], PyTree[Array]], Float[Array, " row"]]
"""From observations and actions (leaves `row ...`) to log-probabilities."""


class DiscriminatorInputs(NamedTuple):
    """Transitions as a discriminator sees them, one row each."""

    observation: Float[Array, "row *shape"]  # normalised; 0 in the absorbing state
    action: Float[Array, "row outputs"]  # 1 for the choice made, or the place in the unit box; 0 in the absorbing state
    next_observation: Float[Array, "row *shape"]
    absorbing: Float[Array, " row"]  # 1 in the absorbing state
    ends: Float[Array, " row"]  # 1 where the step leads to the absorbing state
    log_probability: Float[Array, " row"]  # of the action, where the method asks for it; else 0


class StoredRows(NamedTuple):
    """Transitions as they are kept, one row each."""

    observation: PyTree[Array]
    action: PyTree[Array]
    next_observation: PyTree[Array]
    terminated: Array

    @classmethod
    def from_rollout(cls, rollout: Experience) -> StoredRows:
        """Return the transitions of a rollout (leaves `time env ...`), one row each."""
        steps: Any = cls(rollout.observation, rollout.action, rollout.next_observation, rollout.terminated)
        return merge_time(steps)


class Sight(equinox.Module):
    """One number for each row of numbers: an image goes through convolutions first."""

    embedding: Embedding | None
    head: MLP

    def __init__(self, key: Key[Array, ""], shape: tuple[int, ...], more: int, rewards: Discriminating):
        """Make the network. `shape` of an observation; `more`: the number of its further inputs."""
        embedding_key, head_key = jax.random.split(key)
        image = len(shape) == 3
        self.embedding = Embedding(embedding_key, shape, rewards.hidden_sizes, 64) if image else None
        features = 64 if image else math.prod(shape)
        sizes = (features + more, *rewards.hidden_sizes, 1)
        # Undecided at first: what random weights pay, an absorbing state pays a hundredfold.
        self.head = MLP(head_key, sizes, rewards.activation, gain=2**0.5, last_gain=0.01)

    def __call__(self, observation: Float[Array, "row *shape"], *more: Float[Array, "row ..."]) -> Float[Array, " row"]:
        rows = len(observation)
        seen = observation.reshape(rows, -1) if self.embedding is None else self.embedding.rows(observation)
        return self.head(jnp.concatenate([seen, *(x.reshape(rows, -1) for x in more)], axis=1))[:, 0]


class DiscriminatorState(NamedTuple):
    network: Any
    optimiser: Any
    norm: RunningNorm  # of the demonstrations' observations
    kept: StoredRows  # leaves `row ...`: the agent's newest transitions
    count: Int[Array, ""]  # how many there were so far


class Discriminating(Rewards):
    """Rewards of a discriminator in place of the environment's."""

    ranges: ClassVar[Ranges] = {
        "gradient_penalty": Range(0),
        "discount": Range(0, 1, below=True),
        "transitions_per_update": Range(1),
    }
    needs: ClassVar[Needs] = Needs(actions="any", observations="array")

    demonstrations: str | Demonstrations = equinox.field(converter=as_demonstrations)  # file of the transitions to
    # imitate, as forage data record writes it
    learning_rate: float = 1e-3  # step size of Adam; larger follows the agent faster
    gradient_penalty: float = 10.0  # weight of the gradient penalty; larger makes a smoother reward
    discount: float = 0.99  # worth of the absorbing state one step later; best the agent's own
    absorbing: bool = equinox.field(static=True, default=True)  # an episode that terminates goes on in an absorbing
    # state; else the reward's sign says how long episodes should be
    batch_size: int = equinox.field(static=True, default=256)  # transitions of each kind in an update; more make
    # steadier gradients
    transitions_per_update: int = equinox.field(static=True, default=32)  # transitions of a rollout for each update,
    # of which there is one at least; fewer make more updates
    capacity: int = equinox.field(static=True, default=20_000)  # newest transitions of the agent's own to learn from;
    # fewer follow the agent faster
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(100, 100))  # units of each hidden layer
    activation: str = equinox.field(static=True, default="tanh")

    @abc.abstractmethod
    def build(self, key: Key[Array, ""], shape: tuple[int, ...], space: gymnasium.Space[Any]) -> Any:
        """Make the network, for observations of a shape and a space of actions. It has a field `actions`."""

    @abc.abstractmethod
    def verdict(self, network: Any, seen: DiscriminatorInputs) -> Float[Array, " row"]:
        """Compute the network's logits of rows."""

    @abc.abstractmethod
    def pay(self, verdict: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Compute the rewards of the network's logits."""

    def logit(self, network: Any, seen: DiscriminatorInputs) -> Float[Array, " row"]:
        """Compute the logit that rows are demonstrations."""
        return self.verdict(network, seen) - seen.log_probability

    def check(self, spec: Spec) -> None:
        """Raise `ForageError` for spaces that a discriminator cannot read."""
        check_recordable(spec)

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> DiscriminatorState:
        shape = row_shape(spec)
        network = self.build(key, shape, spec.action_space)
        norm = RunningNorm.from_shape(shape)
        if isinstance(self.demonstrations, Demonstrations) and self.demonstrations.data is not None:
            norm = norm.update(as_rows(shape, jax.tree.map(lambda x: x[None], self.demonstration_rows.observation)))
        seen = spaces.example(spec.observation_space)
        one = StoredRows(seen, spaces.example(spec.action_space), seen, jnp.bool_(False))
        kept = jax.tree.map(lambda x: jnp.zeros((self.capacity, *x.shape), x.dtype), one)
        return DiscriminatorState(network, self.descent().init(network), norm, kept, jnp.int32(0))

    @property
    def demonstration_rows(self) -> Experience:
        """Return the demonstrations, leaves `transition ...`."""
        assert isinstance(self.demonstrations, Demonstrations)
        return self.demonstrations.experience

    def descent(self) -> Optimiser:
        return adam(self.learning_rate, flat=True)

    def sight(self, state: DiscriminatorState, rows: StoredRows, policy: Policy | None = None) -> DiscriminatorInputs:
        """Return rows as the network sees them; with `absorbing`, those that end lead to the absorbing state."""
        actions: Actions = state.network.actions
        now, after = (
            state.norm(as_rows(state.norm.mean.shape, jax.tree.map(lambda x: x[None], tree)))
            for tree in (rows.observation, rows.next_observation)
        )
        heard = jax.vmap(actions.action_features)(rows.action).astype(jnp.float32)
        ends = rows.terminated.astype(jnp.float32) * self.absorbing
        after = jnp.where(ends.reshape(-1, *(1,) * (after.ndim - 1)) > 0, 0.0, after)
        nothing = jnp.zeros(len(now))
        log_probability = nothing if policy is None else policy(rows.observation, rows.action)
        return DiscriminatorInputs(now, heard, after, nothing, ends, log_probability)

    def nothing(self, like: DiscriminatorInputs) -> DiscriminatorInputs:
        """Return as many rows of steps within the absorbing state."""
        zero = jax.tree.map(jnp.zeros_like, like)
        return zero._replace(absorbing=jnp.ones_like(like.absorbing), ends=jnp.ones_like(like.ends))

    def relabel(self, state: DiscriminatorState, experience: Experience) -> Experience:
        shape = experience.ended.shape
        seen = self.sight(state, StoredRows.from_rollout(experience))
        paid = self.pay(self.verdict(state.network, seen))
        if self.absorbing:
            after = self.pay(self.verdict(state.network, self.nothing(jax.tree.map(lambda x: x[:1], seen))))[0]
            paid = paid + seen.ends * self.discount / (1 - self.discount) * after
        return experience._replace(reward=paid.reshape(shape), rewards={})

    def learn(
        self,
        state: DiscriminatorState,
        rollout: Experience,
        clock: Clock,
        key: Key[Array, ""],
        policy: Policy | None = None,
    ) -> tuple[DiscriminatorState, PyTree[Array], Metrics]:
        rows = jax.tree.map(lambda x: x[-self.capacity :], StoredRows.from_rollout(rollout))
        new = len(rows.terminated)
        places = (state.count + jnp.arange(new)) % self.capacity
        kept = jax.tree.map(lambda old, x: old.at[places].set(x), state.kept, rows)
        state = state._replace(kept=kept, count=state.count + new)
        there = jnp.minimum(state.count, self.capacity)
        updates = max(1, rollout.ended.size // self.transitions_per_update)
        theirs = StoredRows(*(getattr(self.demonstration_rows, name) for name in StoredRows._fields))

        def turn(state: DiscriminatorState, key: Key[Array, ""]) -> tuple[DiscriminatorState, Metrics]:
            own_key, shown_key, mix_key = jax.random.split(key, 3)
            own = take_rows(state.kept, jax.random.randint(own_key, (self.batch_size,), 0, there))
            shown = take_rows(theirs, jax.random.randint(shown_key, (self.batch_size,), 0, len(theirs.terminated)))
            return self.update(state, own, shown, mix_key, policy)

        state, metrics = jax.lax.scan(turn, state, jax.random.split(key, updates))
        return state, (), jax.tree.map(jnp.mean, metrics)

    def update(
        self,
        state: DiscriminatorState,
        own: StoredRows,
        shown: StoredRows,
        key: Key[Array, ""],
        policy: Policy | None = None,
    ) -> tuple[DiscriminatorState, Metrics]:
        """Take one step of the network on as many transitions of each kind."""
        mine, theirs = (self.sight(state, rows, policy) for rows in (own, shown))

        def loss(network: Any) -> tuple[Float[Array, ""], Metrics]:
            errors, right = [], []
            for seen, sign in ((theirs, 1.0), (mine, -1.0)):
                found = sign * self.logit(network, seen)
                wrong, weight = jax.nn.softplus(-found), jnp.ones_like(found)
                if self.absorbing:  # each end stands for one step within the absorbing state, too
                    beyond = sign * self.logit(network, self.nothing(jax.tree.map(lambda x: x[:1], seen)))
                    wrong = jnp.concatenate([wrong, seen.ends * jax.nn.softplus(-beyond)])
                    weight = jnp.concatenate([weight, seen.ends])
                errors.append(wrong.sum() / weight.sum())
                right.append((found > 0).mean())
            penalty = self.penalty(network, theirs, mine, key)
            error = errors[0] + errors[1]
            total = error + self.gradient_penalty * penalty
            return total, {"discriminator_loss": error, "demonstrations_told": right[0], "own_told": right[1]}

        gradient, metrics = jax.grad(loss, has_aux=True)(state.network)
        network, optimiser = self.descent().step(gradient, state.optimiser, state.network)
        return state._replace(network=network, optimiser=optimiser), metrics

    def penalty(
        self, network: Any, theirs: DiscriminatorInputs, mine: DiscriminatorInputs, key: Key[Array, ""]
    ) -> Float[Array, ""]:
        """Compute the mean of (|gradient of the logit| - 1)^2 between demonstrations and the agent's transitions."""
        share = jax.random.uniform(key, theirs.absorbing.shape)
        between = mix_rows(share, theirs, mine)
        slopes = jax.grad(lambda seen: self.verdict(network, seen).sum())(between)
        squares = sum(jnp.sum(x.reshape(len(share), -1) ** 2, axis=1) for x in jax.tree.leaves(slopes))
        return jnp.mean((jnp.sqrt(squares + 1e-12) - 1) ** 2)


def take_rows(rows: StoredRows, places: Int[Array, " batch"]) -> StoredRows:
    """Return the rows at some places."""
    return jax.tree.map(lambda x: x[places], rows)


def mix_rows(share: Array, a: DiscriminatorInputs, b: DiscriminatorInputs) -> DiscriminatorInputs:
    """Return share a + (1 - share) b, row by row."""

    def leaf(a: Float[Array, "row ..."], b: Float[Array, "row ..."]) -> Array:
        part = share.astype(a.dtype).reshape(-1, *(1,) * (a.ndim - 1))
        return part * a + (1 - part) * b

    return jax.tree.map(leaf, a, b)
