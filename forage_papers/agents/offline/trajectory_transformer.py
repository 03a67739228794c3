"""Trajectory Transformer: beam search in a model of whole episodes, token by token.

Janner, Li, Levine (2021), "Offline Reinforcement Learning as One Big Sequence Modeling Problem", arXiv 2106.02039. Each
transition of a data set is a row of numbers, and each number a token, one of `bins`:

    s_1 ... s_n, a_1 ... a_m, r, V,   V = discounted sum of the rewards after r, to the episode's end

A causal transformer learns to continue sub-sequences of `context` transitions by the cross-entropy of tokens, those of
actions weighted by `action_weight`. Steps after the end of an episode get a padding token. Tokens of values are
predicted, and seen by no other token. To act it plans anew at each step, from up to `past` transitions and the
observation (`beam.py`).

Bins hold equally many numbers of the data, each number of a transition by itself. Network, loss, search and numbers are
those of the authors' code (jannerm/trajectory-transformer: config/offline.py, models/transformers.py,
utils/discretization.py, search/), but for these: a token stands for the mean of the data in its bin and not for the
bin's middle, so that rewards of few values are exact; choices are tokens by their number; the transitions of a plan and
those before are no more than `context`, where the authors drop the oldest as a plan grows; the learning rate is
constant after its rise, AdamW's weight decay is Optax's, and plans are as short and as few as theirs for HalfCheetah or
shorter. Two more (datasets/sequence.py): there the reward of a transition that terminates is -100
(`termination_penalty` of config/offline.py), and here it is the environment's; and there the loss leaves out all tokens
behind the time limit, whereas here a truncation, too, is followed by the token of an end, with full weight.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.agents.offline.base import OfflineAgent
from forage.core.ports import ActInputs, Metrics
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.nn.distributions import Actions
from forage.nn.vector_transformer import DEVIATION, Cache, TransformerConfig, VectorTransformer
from forage.ops.episodes import alive
from forage.ops.optimiser import Optimiser, make_named_optimiser
from forage_papers.agents.offline.beam import BestPlan, Layout, Search, search_beam


def layout_of(spec: Spec) -> Layout:
    """Return the numbers of tokens for the parts of a transition."""
    actions, shape = Actions.from_space(spec.action_space), spec.observation_space.shape
    assert shape is not None
    return Layout(shape[0], len(actions.sizes) or actions.outputs)


class TokenModel(equinox.Module):
    """A model from the tokens of transitions to logits of each next token, with its own words at each place."""

    transformer: VectorTransformer
    words: Float[Array, "words width"]  # of each place one after another, and what comes behind an episode's end
    places: Float[Array, "length width"]
    heads: Float[Array, "place width tokens"]
    bins: int = equinox.field(static=True)
    layout: Layout = equinox.field(static=True)
    actions: Actions = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], shape: TransformerConfig, spec: Spec, context: int, bins: int):
        self.actions = Actions.from_space(spec.action_space)
        self.layout = layout_of(spec)
        size = self.layout.size
        keys = jax.random.split(key, 3)
        self.transformer = VectorTransformer(keys[0], shape, "none")
        self.words = DEVIATION * jax.random.normal(keys[1], (size * bins + 1, shape.width))
        self.places = jnp.zeros((context * size, shape.width))
        self.heads = DEVIATION * jax.random.normal(keys[2], (size, shape.width, bins + 1))
        self.bins = bins

    @property
    def size(self) -> int:
        """Return the number of tokens in a transition."""
        return len(self.heads)

    def embed(
        self, tokens: Int[Array, "*tokens"], place: Int[Array, "*tokens"] | int, index: Int[Array, "*tokens"]
    ) -> Float[Array, "*tokens width"]:
        """Return the vectors of tokens at these places of their transition, and this far into the sequence."""
        word = jnp.where(tokens == self.bins, self.size * self.bins, place * self.bins + tokens)
        return self.words[word] + self.places[jnp.minimum(index, len(self.places) - 1)]

    def encode(
        self, tokens: Int[Array, " tokens"], there: Any, key: Any = None, length: int = 0
    ) -> tuple[Array, Cache]:
        """Return the embedding of each token that is `there`, and a cache with room for `length` tokens."""
        index = jnp.arange(len(tokens))
        place = index % self.size
        x = self.embed(tokens, place, index)
        return self.transformer.encode(x, there & (place < self.size - 1), key, length)

    def __call__(self, tokens: Int[Array, " tokens"], key: Any = None) -> Float[Array, "tokens words"]:
        """Return the logits of the next token after each of these, which are whole transitions."""
        y = self.encode(tokens, jnp.ones(len(tokens), bool), key)[0]
        return jnp.einsum("tpw,pwn->tpn", y.reshape(-1, *self.heads.shape[:2]), self.heads).reshape(len(tokens), -1)

    def extend(self, cache: Cache, token: Int[Array, " beam"], place: int) -> tuple[Cache, Float[Array, "beam words"]]:
        """Return the caches of several sequences with one more token each, and the logits of each next token."""
        x = self.embed(token, place, cache.count)
        y, cache = jax.vmap(lambda cache, x: self.transformer.step(cache, x, place < self.size - 1))(cache, x)
        return cache, y @ self.heads[place]


class Past(NamedTuple):
    """The agent's memory within an episode: tokens of its last transitions, the newest at the end."""

    tokens: Int[Array, "past size"]
    now: Int[Array, " part"]  # tokens of the observation and the action that are under way
    count: Int[Array, ""]  # transitions of the episode so far


class TrajectoryTransformerState(NamedTuple):
    network: TokenModel
    optimiser: Any
    updates: Int[Array, ""]
    edges: Float[Array, "size edges"]  # between the bins of each number of a transition
    centres: Float[Array, "size bins"]  # what each token stands for


class TrajectoryTransformer(OfflineAgent):
    """Planning by beam search in a transformer (Janner et al., 2021, arXiv 2106.02039), from a data set.

    `Policy.observe_reward(reward)` tells it after each step what the step paid; evaluation does so by itself.
    """

    example: ClassVar[str] = "forage train trajectory-transformer CartPole-v1 --data mixed.npz"
    ranges: ClassVar[Ranges] = {
        "discount": Range(0, 1, above=True),
        "bins": Range(2),
        "context": Range(2),
        "past": Range(0),
        "horizon": Range(1),
        "beams": Range(1),
        "expand": Range(1),
        "cut": Range(0, 1, below=True),
        "warmup": Range(1),
        "width": Range(1),
        "layers": Range(1),
        "heads": Range(1),
        "dropout": Range(0, 1, below=True),
        "action_weight": Range(0),
        "max_gradient_norm": Range(0, above=True),
    }

    stochastic: ClassVar[bool] = False
    acting: ClassVar[str] = "network"
    return_conditioned: ClassVar[bool] = True
    unused: ClassVar[Unused] = {"layer_norm encoder": "A trajectory transformer reads tokens"}

    learning_rate: float = 6e-4  # step size of AdamW, as in the authors' code
    warmup: int = equinox.field(static=True, default=1000)  # updates in which the learning rate rises to its full size;
    # theirs is about one pass over the data
    max_gradient_norm: float = 1.0  # longer gradients are cut to this length, as there
    discount: float = 0.99  # worth of a reward one step later, in values and in plans, as there
    batch_size: int = equinox.field(static=True, default=256)  # sub-sequences of an update, as there
    bins: int = equinox.field(static=True, default=100)  # tokens that each number may be, as there
    context: int = equinox.field(static=True, default=10)  # transitions of a sub-sequence, as there
    past: int = equinox.field(static=True, default=5)  # transitions before the present one that a plan begins with, as
    # there
    horizon: int = equinox.field(static=True, default=5)  # transitions of a plan, as there for HalfCheetah
    beams: int = equinox.field(static=True, default=32)  # plans that are kept side by side, a quarter of theirs
    expand: int = equinox.field(static=True, default=2)  # ways that each of them goes on, as there
    cut: float = 0.6  # share of the probability of an action's token that is cut off, the least likely first, as there;
    # larger plans with likelier actions
    action_weight: float = 5.0  # weight of an action's tokens beside all others in the loss, as there
    width: int = equinox.field(static=True, default=128)  # numbers that a token is read as, as there
    layers: int = equinox.field(static=True, default=4)  # blocks of the transformer, as there
    heads: int = equinox.field(static=True, default=4)  # heads of attention in each, as there
    dropout: float = equinox.field(static=True, default=0.1)  # share of each part of a block that is dropped at random
    # while it learns, as there
    activation: str = equinox.field(static=True, default="gelu")
    optimiser: str = equinox.field(static=True, default="adamw")

    def __check_init__(self):
        if self.past + self.horizon > self.context:
            raise ForageError(
                f"A plan of {self.horizon} transitions after {self.past} is longer than a context of {self.context}; "
                f"shorten the plan, or have a longer context."
            )

    def check(self, spec: Spec) -> None:
        super().check(spec)
        self.shape.check()
        if not isinstance(spec.observation_space, gymnasium.spaces.Box) or len(spec.observation_space.shape) != 1:
            raise ForageError(
                f"A trajectory transformer makes a token of each number of a vector, and {spec.name} shows something "
                f"else; decision-transformer reads it."
            )
        most = max(Actions.from_space(spec.action_space).sizes, default=0)
        if most > self.bins:
            raise ForageError(
                f"{spec.name} has {most} choices, more than {self.bins} bins have tokens; take more bins."
            )

    @property
    def shape(self) -> TransformerConfig:
        return TransformerConfig(self.width, self.layers, self.heads, activation=self.activation, dropout=self.dropout)

    @property
    def segment(self) -> int:
        return self.context

    @property
    def contexts(self) -> bool:
        return True

    def init(self, key: Key[Array, ""], spec: Spec) -> TrajectoryTransformerState:
        network = TokenModel(key, self.shape, spec, self.context, self.bins)
        size = network.size
        fresh = self.descent(jnp.int32(0)).init(network)
        edges, centres = jnp.zeros((size, self.bins + 1)), jnp.zeros((size, self.bins))
        return TrajectoryTransformerState(network, fresh, jnp.int32(0), edges, centres)

    def init_from_dataset(self, state: TrajectoryTransformerState, data: Experience) -> TrajectoryTransformerState:
        """Return the state with bins that hold equally many numbers of the data, and the mean of each."""
        rows = jax.vmap(lambda one: self.row(state, one))(data)
        ranks = np.linspace(0, len(data.reward) - 1, self.bins + 1, dtype=int)
        edges = jnp.sort(rows, axis=0)[ranks].T
        if state.network.actions.discrete:  # a choice's token is its number
            layout = state.network.layout
            chosen = slice(layout.observation, layout.observation + layout.action)
            edges = edges.at[chosen].set(jnp.arange(self.bins + 1, dtype=edges.dtype))
        state = state._replace(edges=edges)

        def means(numbers: Float[Array, " row"], tokens: Int[Array, " row"], edges: Array) -> Float[Array, " bins"]:
            total = jax.ops.segment_sum(numbers, tokens, self.bins)
            count = jax.ops.segment_sum(jnp.ones_like(numbers), tokens, self.bins)
            return jnp.where(count > 0, total / jnp.maximum(count, 1), (edges[1:] + edges[:-1]) / 2)

        return state._replace(centres=jax.vmap(means)(rows.T, self.tokens(state, rows).T, edges))

    def row(self, state: TrajectoryTransformerState, one: Experience) -> Float[Array, " size"]:
        """Return one transition as numbers: observation, action, reward and value."""
        assert not isinstance(one.return_to_go, tuple)
        value = (one.return_to_go - one.reward) / self.discount
        parts = one.observation, self.number(state, one.action), one.reward[None], value[None]
        return jnp.concatenate([part.astype(jnp.float32) for part in parts])

    def number(self, state: TrajectoryTransformerState, action: Array) -> Float[Array, " action"]:
        """Return an action as numbers: the index of a discrete one, else its place in the unit box."""
        actions = state.network.actions
        return action.reshape(-1).astype(jnp.float32) if actions.discrete else actions.action_features(action)

    def tokens(
        self, state: TrajectoryTransformerState, numbers: Float[Array, "*rows part"], first: int = 0
    ) -> Int[Array, "*rows part"]:
        """Return the tokens of numbers that stand in a transition from place `first` on."""
        between = state.edges[first : first + numbers.shape[-1], 1:-1]
        return (numbers[..., None] >= between).sum(-1)

    def descent(self, updates: Int[Array, ""]) -> Optimiser:
        """Return the optimiser with the learning rate of this update."""
        rate = self.learning_rate * jnp.minimum((updates + 1) / self.warmup, 1.0)
        return make_named_optimiser(self.optimiser, rate, self.max_gradient_norm)

    def learn(
        self, state: TrajectoryTransformerState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[TrajectoryTransformerState, Metrics, Float[Array, " batch"]]:
        rows = jax.vmap(jax.vmap(lambda one: self.row(state, one)))(batch.experience)
        there = alive(batch.experience.ended)
        tokens = jnp.where(there[..., None], self.tokens(state, rows), self.bins)
        tokens = tokens.swapaxes(0, 1).reshape(len(batch.weight), -1)
        layout, keys = state.network.layout, jax.random.split(key, len(batch.weight))
        weight = (
            jnp.ones(layout.size).at[layout.observation : layout.observation + layout.action].set(self.action_weight)
        )
        weight = jnp.tile(weight, self.context)[1:]

        def loss(network: TokenModel) -> tuple[Float[Array, ""], Float[Array, " batch"]]:
            logits = jax.vmap(network)(tokens, keys)[:, :-1]
            surprise = -jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], -1)[..., 0]
            error = (weight * surprise).mean(-1)
            return (batch.weight * error).mean(), error

        (value, error), gradient = jax.value_and_grad(loss, has_aux=True)(state.network)
        network, optimiser = self.descent(state.updates).step(gradient, state.optimiser, state.network)
        state = state._replace(network=network, optimiser=optimiser, updates=state.updates + 1)
        return state, {"model_loss": value}, error

    def init_hidden(self, spec: Spec) -> Past:
        """Return an empty past."""
        part = layout_of(spec).size - 2
        return Past(jnp.zeros((self.past, part + 2), jnp.int32), jnp.zeros(part, jnp.int32), jnp.int32(0))

    def act(self, state: TrajectoryTransformerState, inputs: ActInputs) -> tuple[PyTree[Array], Past, PyTree[Array]]:
        hidden, observation = inputs.hidden, inputs.observation
        found = self.search_plan(state, hidden, observation, inputs.key)
        now = self.tokens(state, observation.astype(jnp.float32))
        hidden = hidden._replace(now=hidden.now.at[: state.network.layout.observation].set(now))
        return self.action(state, found.action), hidden, ()

    def search_plan(
        self, state: TrajectoryTransformerState, hidden: Past, observation: PyTree[Array], key: Key[Array, ""]
    ) -> BestPlan:
        """Search for the best plan from an observation and the memory of its episode."""
        network, layout = state.network, state.network.layout
        size, behind = layout.size, self.past * layout.size
        now = self.tokens(state, observation.astype(jnp.float32))
        known = jnp.minimum(hidden.count, self.past) * size
        # The transitions that there have been come first, then the observation, then padding.
        prompt = jnp.roll(jnp.concatenate([hidden.tokens.reshape(-1), now]), known - behind)
        number = known + layout.observation
        length = (self.past + self.horizon + 1) * size
        y, cache = network.encode(prompt, jnp.arange(len(prompt)) < number, length=length)
        logits = y[number - 1] @ network.heads[layout.observation - 1]
        beams = jax.tree.map(
            lambda x: jnp.broadcast_to(x, (self.beams, *x.shape)), (cache._replace(count=number), logits)
        )
        search = Search(self.horizon, self.beams, self.expand, self.discount, self.cut)
        # Nothing comes behind an episode's end.
        reward, value = (jnp.append(state.centres[place], 0.0) for place in (-2, -1))
        return search_beam(network.extend, beams[0], beams[1], layout, search, reward, value, key)

    def action(self, state: TrajectoryTransformerState, tokens: Int[Array, " action"]) -> Array:
        """Return the action of some tokens; the token for padding counts as the last valid action."""
        actions, layout = state.network.actions, state.network.layout
        if actions.discrete:
            return jnp.minimum(tokens, jnp.array(actions.sizes) - 1).astype(jnp.int32).reshape(actions.shape)
        centres = state.centres[layout.observation : layout.observation + layout.action]
        unit = jnp.take_along_axis(centres, jnp.minimum(tokens, self.bins - 1)[:, None], axis=1)[:, 0]
        return actions.to_box(unit)

    def observe_action(self, state: TrajectoryTransformerState, hidden: Past, action: PyTree[Array]) -> Past:
        first = state.network.layout.observation
        return hidden._replace(now=hidden.now.at[first:].set(self.tokens(state, self.number(state, action), first)))

    def observe_reward(self, state: TrajectoryTransformerState, hidden: Past, reward: Float[Array, ""]) -> Past:
        first = len(hidden.now)
        told = self.tokens(state, jnp.asarray(reward, jnp.float32)[None], first)
        row = jnp.concatenate([hidden.now, told, jnp.zeros(1, told.dtype)])  # no token looks at that of a value
        return hidden._replace(tokens=jnp.concatenate([hidden.tokens, row[None]])[1:], count=hidden.count + 1)

    def probabilities(self, state: Any, observation: PyTree[Array], explore: bool) -> Float[Array, " actions"]:
        raise ForageError("A trajectory transformer's actions depend on what came before: they have no probabilities.")
