"""Language agents' shared base: a transformer that writes a turn at once and scores the tokens it wrote.

An observation has the token ids of all that was said so far, and an action those of the policy's answer; both count
from 1, and 0 is no token (`forage.environments.text.environment`). Whoever samples and whoever learns use one
distribution: temperature and truncation are part of the policy. The temperature of each token is kept with it, so a
behaviour may change it from answer to answer, and along an answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.agents.language.descent import descend
from forage.core import mesh, prng
from forage.core.compiling import ONE_ARENA, keep_freed_memory
from forage.core.ports import ActInputs, Agent, Metrics
from forage.core.ports.needs import Choices, Needs
from forage.core.ranges import Range, Ranges, check_minibatches
from forage.core.spaces import Tokens
from forage.core.types import Batch, Clock, ForageError, Spec
from forage.nn.language import lora
from forage.nn.language.generate import (
    ALONE,
    SharedPrefix,
    chunk_size,
    hidden_before_tokens,
    log_probabilities,
    map_tokens,
    read_prompts,
    write_tokens,
)
from forage.nn.language.memory import cache_bytes, pays_remat, tree_bytes, update_bytes
from forage.nn.language.pretrained import PretrainedModel, make_pretrained
from forage.nn.transformer import Transformer
from forage.ops.optimiser import Masters, Optimiser, has_rounded, make_named_optimiser
from forage.ops.rows import merge_time
from forage.ops.sampling import LOWEST, Sampling
from forage.ops.tokens.masks import where_mask

keep_freed_memory(ONE_ARENA)  # an update's temporary arrays are one block, often above 64 MiB

DTYPES = "float32", "bfloat16"
"""The number formats that a model computes in. Gradients of float16 are 0 without a scaled loss."""


class LanguageState(NamedTuple):
    """State of a language agent."""

    network: Transformer  # with adapters, where these learn
    optimiser: Any  # with float32 masters of the network's weights where those have 16 bits
    reference: Transformer | tuple[()]  # the policy at the beginning, where it is compared with that; of adapters it is
    # the network without them
    end: Int[Array, "*several"]  # the token that ends an answer, or all that do
    known: Bool[Array, " vocabulary"]  # tokens that may be written


class Aux(NamedTuple):
    """Data stored with an answer's tokens."""

    log_probability: Float[Array, " time"]  # of each token, as it was drawn
    temperature: Float[Array, " time"]


class AnswerRows(NamedTuple):
    """Answers to learn from, one a row."""

    tokens: Int[Array, "row time"]  # what was read, then what was written
    there: Bool[Array, "row time"]  # tokens that are no padding
    wrote: Bool[Array, "row new"]  # tokens of the answer
    sampled: Float[Array, "row new"]  # log-probability of each, as it was drawn
    temperature: Float[Array, "row new"]


class LanguageAgent(Agent):
    """An agent with a language model as its policy."""

    on_policy: ClassVar[bool] = True
    stochastic: ClassVar[bool] = True
    whole_episodes: ClassVar[bool] = True
    leaves_out: ClassVar[bool] = False
    acts_either_way: ClassVar[bool] = True
    ranges: ClassVar[Ranges] = {
        "temperature": Range(0),
        "top_p": Range(0, 1),
        "min_p": Range(0, 1),
        "top_k": Range(1),
        "rank": Range(0),
        "router_balance": Range(0),
        "epochs": Range(1),
        "minibatches": Range(1),
        "accumulate": Range(1),
        "chunk": Range(0),
        "warmup_share": Range(0, 1),
    }
    choices: ClassVar[Choices] = {"dtype": DTYPES}
    needs: ClassVar[Needs] = Needs(observations="text")
    writes: ClassVar[bool] = True
    """Its network writes text; that of a reward model scores it."""
    checkpoint_rate: ClassVar[float | None] = 1e-6
    """The usual learning rate with a downloaded model, where all weights learn; `None`: as with any other."""

    model: str | PretrainedModel = equinox.field(
        default="forage", converter=make_pretrained
    )  # what learning begins from: the
    # base model `forage`, a directory of Hugging Face's or a run's
    learning_rate: float = 3e-5  # step size of Adam; for models of a million parameters, where 3e-4 unlearns; 1e-6 for
    # those of billions
    final_learning_rate: float = 1.0  # reached linearly at the end of the run, as a share of learning_rate
    max_gradient_norm: float = 1.0  # longer gradients are cut to this length
    temperature: float = 1.0  # what logits are divided by; above 1 answers differ more
    top_p: float | None = None  # the most probable tokens with this much probability together may be drawn; none: all
    min_p: float | None = None  # tokens with this share of the most probable one's may be drawn; none: all
    num_envs: int = equinox.field(static=True, default=64)  # answers to a rollout; whole groups of them
    rollout_length: int = equinox.field(static=True, default=1)  # turns of an episode, the environment's horizon; by
    # name it is that unless given
    epochs: int = equinox.field(static=True, default=1)  # passes over each rollout
    minibatches: int = equinox.field(static=True, default=1)  # equal parts that a rollout is cut into, each for a step
    optimiser: str = equinox.field(static=True, default="adam")  # one of Optax by its name, such as adamw or lion
    top_k: int | None = equinox.field(static=True, default=None)  # this many of the most probable tokens may be drawn;
    # none: all
    router_balance: float = equinox.field(static=True, default=0.0)  # weight of the loss that lets a router choose its
    # experts equally often, for a model that has experts; 0.001 in Qwen3's configurations
    rank: int = equinox.field(static=True, default=0)  # columns of adapters that learn in place of all weights (LoRA);
    # 0: all learn
    warmup_share: float = 0.0  # share of the run in which the learning rate rises linearly to its full size
    dtype: str | None = equinox.field(static=True, default=None)  # number format that the model writes and learns in,
    # float32 or bfloat16; what learns is kept in float32 all the same; none: float32, and with rank that of the files
    accumulate: int = equinox.field(static=True, default=1)  # minibatches whose gradients make one step, as of one
    # large batch, in the memory of a small one
    remat: bool | None = equinox.field(static=True, default=None)  # whether each layer is computed anew for its
    # gradient, in less memory and a third more time; none: where layers would keep more than 2 GB
    chunk: int | None = equinox.field(static=True, default=None)  # tokens whose logits are computed at once; 0: all;
    # none: as many as fit into 256 MB

    @property
    def base_model(self) -> PretrainedModel:
        assert isinstance(self.model, PretrainedModel)
        return self.model

    @property
    def referred(self) -> bool:
        """Return whether the policy at the beginning is compared with."""
        return False

    @property
    def number_type(self) -> Any:
        """Return the dtype of the network, which sampler and learner share."""
        if self.dtype is not None:
            return jnp.dtype(self.dtype)
        files = self.base_model.like.dtype
        return files if self.rank and files == jnp.bfloat16 else jnp.dtype(jnp.float32)

    @property
    def updates(self) -> int:
        """Return the number of optimiser steps of a pass over a rollout."""
        return max(self.minibatches // self.accumulate, 1)

    def reference_of(self, state: Any) -> Transformer | None:
        """Return the policy at the beginning, if it is compared with: of adapters, the network without them."""
        if isinstance(state.reference, Transformer):
            return state.reference
        return lora.drop_adapters(state.network) if self.referred else None

    def masters(self, state: Any) -> Transformer:
        """Return the network with its weights as exact as they are known, in float32 where they learned."""
        return state.optimiser.weights if isinstance(state.optimiser, Masters) else state.network

    def check(self, spec: Spec) -> None:
        name, reads, writes = type(self).__name__, spec.observation_space, spec.action_space
        architecture, source = self.base_model.architecture, self.base_model.source
        assert isinstance(reads, spaces.Dict) and isinstance(writes, Tokens)
        context = reads["context"]
        assert isinstance(context, Tokens)
        if writes.vocabulary - 1 > architecture.vocabulary:
            raise ForageError(
                f"The tokenizer of {spec.name} has {writes.vocabulary - 1} tokens, and the model {source} knows "
                f"{architecture.vocabulary}; give the environment that model's tokenizer, with --env.tokenizer."
            )
        longest = context.length + writes.length
        if longest > architecture.longest:
            raise ForageError(
                f"{spec.name} has texts of {longest} tokens, and the model {source} reads "
                f"{architecture.longest}; give a smaller --env.context or --env.response, or a smaller --longest of "
                f"recorded text."
            )
        if writes.end is None:
            raise ForageError(f"{spec.name} has no token that ends an answer.")
        if self.rollout_length != (spec.horizon or self.rollout_length):
            raise ForageError(
                f"{name} learns from whole conversations, and those of {spec.name} take {spec.horizon} turns; give it "
                f"a rollout_length of {spec.horizon}."
            )
        if self.router_balance and not architecture.experts:
            raise ForageError(f"The model {source} has no experts to balance; leave out router_balance.")
        check_minibatches(self, self.num_envs * self.rollout_length, "answers")
        if self.minibatches > 1 and self.minibatches % self.accumulate:
            raise ForageError(
                f"{name} cannot make steps of {self.accumulate} of its {self.minibatches} minibatches; give an "
                f"accumulate that divides them, or one minibatch, which is then computed in as many parts."
            )

    def init(self, key: Key[Array, ""], spec: Spec) -> LanguageState:
        network = self.base_model.first(self.number_type)
        reference = network if self.referred and not self.rank else ()
        if self.rank:
            network = lora.add_adapters(network, key, self.rank, float(2 * self.rank), lora.ALL)
        assert isinstance(spec.action_space, Tokens)
        known = jnp.arange(network.architecture.vocabulary) < spec.action_space.vocabulary - 1
        ends = jnp.array(spec.action_space.ends or (1,), jnp.int32) - 1
        end = ends[0] if len(ends) == 1 else ends
        return LanguageState(network, self.begin_optimiser(network), reference, end, known)

    def begin_optimiser(self, network: Transformer) -> Any:
        """Return the optimiser's first state, with the weights of the files as masters of rounded ones."""
        learned = self.split_frozen(network)[0]
        masters = None if self.rank or not has_rounded(learned) else self.base_model.first(jnp.float32)
        return self.steps(1.0).init(learned, masters)

    def check_mesh(self, shape: mesh.Shape, offline: bool) -> None:
        name = "batch_size" if offline else "num_envs"
        rows, parts = getattr(self, name), max(self.minibatches, self.accumulate)
        at_once = rows * (1 if offline else self.rollout_length) // parts
        if rows % shape.env or at_once % shape.env:
            cut = f", of which {at_once} are computed at once" if parts > 1 else ""
            raise ForageError(
                f"A mesh with data:{shape.env} cannot share {name} {rows} equally{cut}; take numbers that {shape.env} "
                f"divides, or a data that divides them."
            )

    def working_bytes(self, spec: Spec, state: Any, shape: mesh.Shape = mesh.ONE) -> dict[str, int]:
        assert isinstance(spec.observation_space, spaces.Dict) and isinstance(spec.action_space, Tokens)
        context, new = spec.observation_space.get("context"), spec.action_space.length
        read = context.length if isinstance(context, Tokens) else 0
        network = state.network if isinstance(state.network, Transformer) else state.network[0]  # of the first role
        learned = self.split_frozen(network)[0]
        rows = -(-self.rows_of_pass(spec) // max(self.minibatches, self.accumulate))
        return update_bytes(network, learned, rows, read, new, self.remat, self.chunk, shape) | {
            "cache": cache_bytes(network, self.num_envs, read + new, shape),
            "files": tree_bytes(self.base_model.like, shape),
        }

    def rows_of_pass(self, spec: Spec) -> int:
        """Return the number of texts that a pass of updates learns from."""
        return self.num_envs * self.rollout_length

    def smaller(self) -> dict[str, dict[str, Any]]:
        most = self.num_envs * self.rollout_length
        small = {"accumulate": most, "minibatches": 1} if most > 1 else {}
        found = {
            "--remat true": {"remat": True},
            f"--minibatches 1 --accumulate {most}": small,
            "--dtype bfloat16": {"dtype": "bfloat16"},
            "--rank 8": {"rank": 8},
        }
        everything: dict[str, Any] = {"remat": True, "dtype": "bfloat16", "rank": 8} | small
        return found | {" ".join(f"--{name} {str(value).lower()}" for name, value in everything.items()): everything}

    def steps(self, learning_rate: Any) -> Optimiser:
        return make_named_optimiser(self.optimiser, learning_rate, self.max_gradient_norm)

    def rate(self, clock: Clock) -> Float[Array, ""]:
        """Return the learning rate, as of the beginning of the rollout, so that the first update uses the full one.

        While it rises, it is as of the rollout's end, so that the first update does not use none.
        """
        began = jnp.maximum(clock.steps - self.num_envs * self.rollout_length, 0)
        rate = self.learning_rate * (1 - clock._replace(steps=began).fraction * (1 - self.final_learning_rate))
        rise = jnp.minimum(clock.fraction / jnp.maximum(self.warmup_share, 1e-12), 1.0)
        return rate * jnp.where(self.warmup_share > 0, rise, 1.0)

    def split_frozen(self, network: Transformer) -> tuple[Transformer, Transformer | None]:
        """Split the network into its trained and its frozen part."""
        return lora.split_adapters(network) if self.rank else (network, None)

    def balance_experts(self, network: Transformer, part: Any) -> Float[Array, ""]:
        """Compute the weighted loss of experts that are chosen unequally, for all rows in a part of a lesson."""
        is_rows = lambda node: isinstance(node, AnswerRows)  # noqa: E731
        found = [rows for rows in jax.tree.leaves(part, is_leaf=is_rows) if is_rows(rows)]
        flat = [jax.tree.map(lambda x: x.reshape(-1, x.shape[-1]), (rows.tokens, rows.there)) for rows in found]
        return self.router_balance * sum((network.load_balance(*text) for text in flat), jnp.zeros(()))

    def descend_minibatches(
        self,
        state: LanguageState,
        objective: Callable[[Transformer, Any, Bool[Array, ""]], tuple[Float[Array, ""], Metrics]],
        items: PyTree[Array],
        rate: Float[Array, ""],
        key: Key[Array, ""],
    ) -> tuple[LanguageState, Metrics]:
        """Return the state after `epochs` passes over the items in `minibatches`, and metrics.

        `objective(network, items, first)` is as the loss of `descent.descend`, of the whole network.
        """
        learned, fixed = self.split_frozen(state.network)

        def loss(learned: Transformer, part: Any, first: Bool[Array, ""]) -> tuple[Float[Array, ""], Metrics]:
            network = lora.combine_adapters(learned, fixed)
            value, metrics = objective(network, part, first)
            return (value + self.balance_experts(network, part) if self.router_balance else value), metrics

        learned, inner, said = descend(
            loss, learned, state.optimiser, self.steps(rate), items, self.epochs, self.updates, key
        )
        return state._replace(network=lora.combine_adapters(learned, fixed), optimiser=inner), said

    def sampling(self, temperature: Any) -> Sampling:
        """Return the sampling rule of tokens at a temperature."""
        return Sampling(temperature, self.top_k, self.top_p, self.min_p)

    def act(self, state: LanguageState, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        """Write an answer. Under `vmap`, all answers are written in one pass of the model."""
        new, room = inputs.observation["reference"].shape[-1], inputs.observation.get("room")
        greedy = not inputs.explore if inputs.greedy is None else inputs.greedy
        temperature = jnp.broadcast_to(jnp.where(greedy, 0.0, self.temperature).astype(jnp.float32), (new,))

        def many(state: LanguageState, *rows: Any) -> tuple[Array, Array]:
            context, keys, temperature, room = rows
            return self.write_answers(state, context, keys, temperature, new, inputs.in_rollout, room)

        @jax.custom_batching.custom_vmap
        def one(state: LanguageState, *row: Any) -> tuple[Array, Array]:
            tokens, log_p = many(state, *jax.tree.map(lambda x: x[None], row))
            return tokens[0], log_p[0]

        @one.def_vmap
        def _(size: int, batched: Any, state: LanguageState, *row: Any) -> Any:
            def lay_out(x: Array, along: bool) -> Array:
                return x if along else jnp.broadcast_to(x, (size, *x.shape))

            if any(jax.tree.leaves(batched[0])):
                raise ForageError("The policies of several seeds write in turn; train them on the host.")
            return many(state, *jax.tree.map(lay_out, row, tuple(batched[1:]))), (True, True)

        acting = state._replace(optimiser=(), reference=())
        key = jax.random.key_data(inputs.key)
        tokens, log_p = one(acting, inputs.observation["context"], key, temperature, room)
        return tokens, inputs.hidden, Aux(log_p, temperature)

    def write_answers(
        self,
        state: LanguageState,
        context: Int[Array, "row time"],
        keys: Array,
        temperature: Float[Array, "row new"],
        new: int,
        explore: bool,
        room: Int[Array, " row"] | None = None,
    ) -> tuple[Int[Array, "row new"], Float[Array, "row new"]]:
        """Return an answer to each context, tokens counted from 1, and their log-probabilities.

        `temperature`: 0 for the most probable tokens. `explore`: whether the answers are a rollout to learn from; those
        of an evaluation are the policy's own. `room`: the number of tokens that each may have; `None`: `new`.
        """
        together = self.group if explore else 1  # whoever evaluates asks each prompt once
        return answers(state, context, keys, self.sampling(temperature[..., None]), new, room, together)

    def rows(self, batch: Batch) -> AnswerRows:
        """Return the answers of a rollout, turn after turn, one a row."""
        flat = merge_time(
            (batch.experience.observation["context"], batch.experience.action, batch.experience.policy_info)
        )
        context, action, policy_info = flat
        whole = jnp.concatenate([context, action], axis=1)
        wrote = action != Tokens.PAD
        return AnswerRows(
            jnp.maximum(whole - 1, 0), whole != Tokens.PAD, wrote, policy_info.log_probability, policy_info.temperature
        )

    def score_tokens(
        self, network: Transformer, state: LanguageState, rows: AnswerRows, together: SharedPrefix = ALONE
    ) -> tuple[Float[Array, "row new"], Float[Array, "row new"]]:
        """Return the log-probability of each written token, and the entropy of the distribution that it was drawn from.

        `together`: what rows have in common, which is then read once.
        """
        known = fit_vocabulary(state.known, network)

        def score(rows: AnswerRows, together: SharedPrefix) -> tuple[Array, Array]:
            return log_probabilities(
                network,
                rows.tokens,
                self.sampling(warmth(rows)),
                rows.there,
                known,
                self.chunk,
                self.remats(network, rows),
                rows.wrote.shape[1],
                together,
            )

        return self.in_pieces(score, rows, together)

    def compute_hidden(
        self,
        network: Transformer,
        rows: AnswerRows,
        together: SharedPrefix = ALONE,
        begin: Int[Array, "row time"] | tuple[()] = (),
    ) -> Float[Array, "row new width"]:
        """Return the hidden state before each token that was written.

        `together`: as in `score_tokens`. `begin`: as in `hidden_before_tokens`.
        """

        def score(part: tuple[AnswerRows, Any], together: SharedPrefix) -> Float[Array, "row new width"]:
            rows, begin = part
            new, remat = rows.wrote.shape[1], self.remats(network, rows)
            return hidden_before_tokens(network, rows.tokens, rows.there, remat, new, together, begin=begin)[0]

        return self.in_pieces(score, (rows, begin), together)

    def logits(
        self, network: Transformer, rows: AnswerRows, together: SharedPrefix = ALONE
    ) -> Float[Array, "row new vocabulary"]:
        """Return the logits that each token was drawn from, before temperature and truncation.

        `together`: as in `score_tokens`.
        """
        return network.logits(self.compute_hidden(network, rows, together))

    def map_logits(
        self, function: Callable[..., PyTree[Array]], vocabulary: int, inputs: PyTree[Array]
    ) -> PyTree[Array]:
        """Apply a function to tokens, `chunk` of them at once, so that the logits that it computes fit into memory."""
        count = jax.tree.leaves(inputs)[0].shape[:2]
        return map_tokens(lambda part: function(*part), inputs, chunk_size(self.chunk, math.prod(count), vocabulary))

    def remats(self, network: Transformer, rows: AnswerRows) -> bool:
        """Return whether the gradient of these rows computes layers a second time."""
        count, time = rows.tokens.shape
        return pays_remat(network, -(-count // mesh.ways()), time) if self.remat is None else self.remat

    def in_pieces(
        self,
        function: Callable[[Any, SharedPrefix], PyTree[Array]],
        rows: PyTree[Array],
        together: SharedPrefix = ALONE,
    ) -> PyTree[Array]:
        """Apply a function to the rows of an optimiser step, in `accumulate` pieces one after another.

        Each piece is computed anew in the backward pass, whose gradient is summed piece by piece. What is made of the
        results of all pieces, such as a mean over all tokens, is as of one large batch.
        """
        turns = together.turns if together.by_turn else 1
        count = len(jax.tree.leaves(rows)[0])
        units = count // together.turns  # conversations are not cut
        pieces = next(n for n in range(min(self.accumulate, units), units + 1) if units % n == 0)
        if pieces == 1:
            return function(rows, together)
        together = together._replace(prompts=math.gcd(together.prompts, count // pieces))

        def split(x: Array) -> Array:
            x = x.reshape(turns, pieces, -1, *x.shape[1:]).swapaxes(0, 1)
            return mesh.split_leaves(x.reshape(pieces, -1, *x.shape[3:]), 1)

        def merge(x: Array) -> Array:
            x = x.reshape(pieces, turns, -1, *x.shape[2:]).swapaxes(0, 1)
            return x.reshape(count, *x.shape[3:])

        one = jax.checkpoint(lambda rows: function(rows, together), prevent_cse=False)
        return jax.tree.map(merge, jax.lax.map(one, jax.tree.map(split, rows)))


def fit_vocabulary(known: Bool[Array, " vocabulary"], network: Transformer) -> Bool[Array, " own"]:
    """Return the mask of tokens that may be written, for a model whose vocabulary is padded to another size."""
    size = network.architecture.vocabulary
    return jnp.pad(known, (0, max(size - len(known), 0)))[:size]


def warmth(rows: AnswerRows) -> Float[Array, "row new 1"]:
    """Return the divisor of each token's logits; the most probable tokens are scored at 1."""
    return jnp.where(rows.temperature < LOWEST, 1.0, rows.temperature)[..., None]


def advantage_size(
    advantage: Float[Array, "row #new"], wrote: Bool[Array, "row new"], turns: int
) -> Float[Array, " env"]:
    """Return the mean size of the advantages of the tokens that were written in each conversation."""
    size = jnp.abs(where_mask(jnp.broadcast_to(advantage, wrote.shape), wrote))
    total, count = (x.sum(1).reshape(turns, -1).sum(0) for x in (size, wrote))
    return total / jnp.maximum(count, 1)


def answers(
    state: LanguageState,
    context: Int[Array, "row time"],
    keys: Array,
    sampling: Sampling,
    new: int,
    room: Int[Array, " row"] | None = None,
    together: int = 1,
) -> tuple[Int[Array, "row new"], Float[Array, "row new"]]:
    """Write an answer to each context, and return its tokens, counted from 1, and their log-probabilities.

    `room`: the number of tokens that each may have; `None`: `new`. `together`: the number of rows, one after another,
    that usually have the same context, which is then read once.
    """
    there, tokens = context != Tokens.PAD, jnp.maximum(context - 1, 0)
    network = state.network
    hidden, cache = read_prompts(network, tokens, there, together)
    key = prng.from_data(keys[0])
    written, _ = write_tokens(
        network,
        cache,
        hidden,
        key,
        new,
        sampling,
        tuple(jnp.atleast_1d(state.end)),  # type: ignore[arg-type]
        state.known,
        grow=True,
        silent=~there.any(1),
        room=room,
    )
    return jnp.where(written.mask, written.tokens + 1, Tokens.PAD), written.log_probability
