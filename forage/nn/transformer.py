"""The language policy's network: a decoder-only transformer by configuration, on token ids.

Blocks of attention and an MLP (`forage/nn/language/architecture.py` says which choices make which family), here with
norms in front of both:

    x <- x + out(attention(norm(x)));   x <- x + down(silu(gate(norm(x))) up(norm(x)));   logits = head norm(x)

- norm: x / sqrt(mean(x^2) + epsilon) times a scale (Zhang, Sennrich, 2019, "Root Mean Square Layer Normalization",
  arXiv 1910.07467), computed in float32.
- attention: softmax(q k' / sqrt(head size)) v over tokens that are not later (Vaswani et al., 2017, arXiv 1706.03762,
  equation 1), with queries and keys turned by their position (Su et al., 2021, arXiv 2104.09864), and fewer heads of
  keys and values than of queries (Ainslie et al., 2023, "GQA", arXiv 2305.13245). Softmax is computed in float32.
- MLP: the gated unit SwiGLU (Shazeer, 2020, "GLU Variants Improve Transformer", arXiv 2002.05202), or some of many
  experts for each token (`forage/nn/language/experts.py`).

Of these papers no page could be opened here; formulas follow transformers 5.24 (models/llama/modeling_llama.py and its
siblings), whose logits the tests ask for.

A cache has an array `batch heads length size` for the keys of each layer and one for the values. Attention in 63 steps
of 64 rows, with 4 layers of 4 heads, took 183 ms of a core with it, 207 to 246 with the size before the length, and 293
with the length first (on a busy machine, the best of four). All rows write to the same column, and positions say what a
row sees, so rows may begin or pause anywhere.

Weights begin normal with a deviation of 0.02, biases at zero, and what leaves a block with that over sqrt(2 layers), as
in GPT-2's code.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from forage.core import mesh
from forage.core.errors import ForageError
from forage.nn.language import partition
from forage.nn.language.architecture import Architecture
from forage.nn.language.attention import NOTHING, AttentionRule, Sight, attend, attention_weights, cap
from forage.nn.language.blocks import apply_blocks
from forage.nn.language.experts import Experts, load_balance
from forage.nn.language.positions import rotate_pairs, turn_table
from forage.ops.rows import scale_rows

DEVIATION = 0.02


class Projection(equinox.Module):
    """y = x W + b, and with an adapter + scale (x A) B."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"] | None
    lora_a: Float[Array, "inputs rank"] | None = None
    lora_b: Float[Array, "rank outputs"] | None = None
    scale: float = equinox.field(static=True, default=1.0)  # of the adapter: alpha / rank

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        *batch, inputs = x.shape
        x = x.reshape(-1, inputs)  # one matrix: the gradient of a stack of them takes half as long again on the CPU
        y = x @ self.weight
        if self.bias is not None:
            y = y + self.bias
        if self.lora_a is not None and self.lora_b is not None:
            y = y + (self.scale * (x.astype(self.lora_a.dtype) @ self.lora_a @ self.lora_b)).astype(y.dtype)
        return y.reshape(*batch, -1)


def rms_norm(
    x: Float[Array, "*batch size"], scale: Float[Array, " size"], epsilon: float
) -> Float[Array, "*batch size"]:
    """Divide by the root of the mean square, in float32, and scale."""
    wide = x.astype(jnp.float32)
    wide = scale_rows(wide, jax.lax.rsqrt(jnp.mean(wide**2, -1, keepdims=True) + epsilon))
    return scale_rows(wide.astype(x.dtype), scale)


def layer_norm(
    x: Float[Array, "*batch size"], scale: Float[Array, " size"], bias: Float[Array, " size"], epsilon: float
) -> Float[Array, "*batch size"]:
    """Subtract the mean and divide by the deviation, in float32, scale and shift."""
    wide = x.astype(jnp.float32)
    wide = wide - jnp.mean(wide, -1, keepdims=True)
    wide = scale_rows(wide, jax.lax.rsqrt(jnp.mean(wide**2, -1, keepdims=True) + epsilon))
    return (scale_rows(wide, scale.astype(jnp.float32)) + bias).astype(x.dtype)


def normalise(
    x: Float[Array, "*batch size"],
    scale: Float[Array, " size"] | None,
    bias: Float[Array, " size"] | None,
    architecture: Architecture,
) -> Float[Array, "*batch size"]:
    """Apply the family's norm, or none where there is no scale."""
    if scale is None:
        return x
    if bias is not None:
        return layer_norm(x, scale, bias, architecture.epsilon)
    if architecture.choices.norm in ("shifted", "late"):
        scale = scale.astype(jnp.float32)
        scale = 1 + scale if architecture.choices.norm == "shifted" else scale
        return rms_norm(x.astype(jnp.float32), scale, architecture.epsilon).astype(x.dtype)
    return rms_norm(x, scale, architecture.epsilon)


def tanh_gelu(x: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
    """Compute x Phi(x) by its approximation with tanh (Hendrycks, Gimpel, 2016, arXiv 1606.08415)."""
    return jax.nn.gelu(x, approximate=True)


def in_float32(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a function of single numbers that computes in float32 and rounds its result once, as PyTorch does.

    With 16 bits its gradient keeps the input alone, as the numbers between would take twice the memory.
    """

    def apply(x: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
        if x.dtype.itemsize >= 4:
            return function(x)
        return jax.checkpoint(lambda x: function(x.astype(jnp.float32)).astype(x.dtype))(x)

    return apply


def scale_numbers(x: Float[Array, "*batch"], factor: float) -> Float[Array, "*batch"]:
    """Multiply numbers by a factor that is not rounded to their dtype."""
    return x if factor == 1 else (x.astype(jnp.float32) * factor).astype(x.dtype)


ACTIVATIONS = {"silu": in_float32(jax.nn.silu), "gelu": in_float32(tanh_gelu)}

Turns = tuple[Float[Array, "*positions half"], Float[Array, "*positions half"]]
"""Cosine and sine of the angles by which queries and keys are turned."""


class Past(NamedTuple):
    """The keys and values of one layer."""

    keys: Float[Array, "batch heads length size"]
    values: Float[Array, "batch heads length size"]


class Cache(NamedTuple):
    """The keys and values of the tokens read so far, so that a further token costs one token's work."""

    layers: tuple[Past, ...]
    turns: tuple[Turns, ...]  # of each kind of layer and each position that there may be: a step that computed them
    # would spend half its time on it
    position: Int[Array, "batch length"]  # of the token in each column; -1 where there is none to be seen
    count: Int[Array, ""]  # columns that have been written
    following: Int[Array, " batch"]  # position of each row's next token


class Block(equinox.Module):
    """Attention, then a gated MLP, each added to its input."""

    attention_norm: Float[Array, " width"] | None
    queries: Projection
    keys: Projection
    values: Projection
    out: Projection
    query_norm: Float[Array, " size"] | None
    key_norm: Float[Array, " size"] | None
    mlp_norm: Float[Array, " width"] | None
    gate: Projection | None
    up: Projection | None
    down: Projection | None
    architecture: Architecture = equinox.field(static=True)
    layer: int = equinox.field(static=True)
    attention_norm_bias: Float[Array, " width"] | None = None
    mlp_norm_bias: Float[Array, " width"] | None = None
    attention_after_norm: Float[Array, " width"] | None = None
    mlp_after_norm: Float[Array, " width"] | None = None
    experts: Experts | None = None

    def __init__(self, key: Key[Array, ""], architecture: Architecture, layer: int, dtype: Any):
        sizes, choices, width = projections(architecture, layer), architecture.choices, architecture.width
        keys = jax.random.split(key, len(sizes) + architecture.is_sparse(layer))
        last = DEVIATION / math.sqrt(2 * architecture.layers)
        self.gate = self.up = self.down = None
        for (name, (inputs, outputs, biased)), own in zip(sizes.items(), keys, strict=False):
            deviation = last if name in ("out", "down") else DEVIATION
            weight = deviation * jax.random.normal(own, (inputs, outputs), dtype)
            setattr(self, name, Projection(weight, jnp.zeros(outputs, dtype) if biased else None))
        before, behind = choices.placement != "behind", choices.placement != "before"
        self.attention_norm = self.mlp_norm = first_scale(architecture, width, dtype) if before else None
        self.attention_after_norm = self.mlp_after_norm = first_scale(architecture, width, dtype) if behind else None
        self.attention_norm_bias = self.mlp_norm_bias = jnp.zeros(width, dtype) if choices.norm == "layer" else None
        self.query_norm = self.key_norm = None
        if choices.head_norm:
            whole = choices.head_norm == "whole"
            heads = (architecture.heads, architecture.kv_heads) if whole else (1, 1)
            self.query_norm, self.key_norm = (first_scale(architecture, n * architecture.size, dtype) for n in heads)
        self.experts = None
        if architecture.is_sparse(layer):
            inner = architecture.expert_inner
            self.experts = Experts.draw(keys[-1], architecture.experts, width, inner, DEVIATION, last, dtype)
        self.architecture, self.layer = architecture, layer

    def __call__(
        self,
        x: Float[Array, "batch time width"],
        turns: Turns,
        sight: Sight,
        past: Past | None = None,
        column: Int[Array, ""] | int = 0,
        wanted: int = 0,
        ordered: bool = False,
    ) -> tuple[Float[Array, "batch wanted width"], Past]:
        """Apply the block to tokens, and write their keys and values into `past` from a column on.

        `wanted`: how many of the last tokens the result is made of, 0 for all; keys and values are of all. `ordered`:
        whether the tokens' columns are the last ones.
        """
        queries, now = self.look(x, turns, past, column, wanted)
        found = attend(queries, *now, sight.last(wanted), self.rule, ordered)
        return self.finish(x[:, -wanted:], found), now

    def attention(
        self, x: Float[Array, "batch time width"], turns: Turns, sight: Sight
    ) -> tuple[Float[Array, "batch shared group time time"], Float[Array, "batch time width"]]:
        """Compute the attention of each token to each, in float32, and the block's output.

        Query heads stand in groups that share a head of keys.
        """
        queries, now = self.look(x, turns)
        weight = attention_weights(queries, now.keys, sight, self.rule)
        return weight, self.finish(x, jnp.einsum("bkgtl,bkls->bkgts", weight.astype(x.dtype), now.values))

    @property
    def kind(self) -> tuple[Any, ...]:
        """Return the choices of this layer that other layers may make otherwise."""
        architecture, layer = self.architecture, self.layer
        place, turns = architecture.rope_place(layer), architecture.turns(layer)
        return architecture.window(layer), place, turns, architecture.is_sparse(layer)

    @property
    def rule(self) -> AttentionRule:
        """Return the choices of the layer's attention."""
        architecture = self.architecture
        scale = architecture.attention_scale or architecture.size**-0.5
        return AttentionRule(scale, architecture.attention_cap, architecture.window(self.layer))

    def look(
        self,
        x: Float[Array, "batch time width"],
        turns: Turns,
        past: Past | None = None,
        column: Int[Array, ""] | int = 0,
        wanted: int = 0,
    ) -> tuple[Float[Array, "batch shared group wanted size"], Past]:
        """Compute the queries of the last tokens, and the keys and values of all, which are written into `past`."""
        architecture = self.architecture
        batch = len(x)
        h = normalise(x, self.attention_norm, self.attention_norm_bias, architecture)
        h = partition.share_attention(h, architecture)
        k, v = self.split_heads(self.keys(h), self.key_norm), self.split_heads(self.values(h))
        x, own = x[:, -wanted:], tuple(table[:, -wanted:] for table in turns)
        time = x.shape[1]
        q = self.split_heads(self.queries(h[:, -wanted:]), self.query_norm)
        if architecture.turns(self.layer):
            q, k = rotate_pairs(q, *own), rotate_pairs(k, *turns)
        now = Past(k.swapaxes(1, 2), v.swapaxes(1, 2))
        if past is not None:
            now = Past(*(jax.lax.dynamic_update_slice(a, b, (0, 0, column, 0)) for a, b in zip(past, now, strict=True)))
        return q.reshape(batch, time, architecture.kv_heads, -1, architecture.size).transpose(0, 2, 3, 1, 4), now

    def split_heads(
        self, x: Float[Array, "batch time outputs"], scale: Float[Array, " size"] | None = None
    ) -> Float[Array, "batch time heads size"]:
        """Return queries, keys or values head by head, and normalised where the family does so."""
        shape = *x.shape[:2], -1, self.architecture.size
        if self.architecture.choices.head_norm == "whole":
            return normalise(x, scale, None, self.architecture).reshape(shape)
        return normalise(x.reshape(shape), scale, None, self.architecture)

    def finish(
        self, x: Float[Array, "batch time width"], found: Float[Array, "batch shared group time size"]
    ) -> Float[Array, "batch time width"]:
        """Compute the block's output from that of its attention."""
        return self.add_mlp(self.add_attention(x, found))

    def add_attention(
        self, x: Float[Array, "batch time width"], found: Float[Array, "batch shared group time size"]
    ) -> Float[Array, "batch time width"]:
        """Add the output of attention to its input."""
        batch, time, _ = x.shape
        found = mesh.split_leaves(self.out(found.transpose(0, 3, 1, 2, 4).reshape(batch, time, -1)))
        return self.add(x, normalise(found, self.attention_after_norm, None, self.architecture))

    def mlp_input(self, x: Float[Array, "batch time width"]) -> Float[Array, "token width"]:
        """Return the normalised input of the MLP, token by token."""
        return normalise(x, self.mlp_norm, self.mlp_norm_bias, self.architecture).reshape(-1, x.shape[-1])

    def add_mlp(self, x: Float[Array, "batch time width"]) -> Float[Array, "batch time width"]:
        """Add the output of the MLP, or of the experts of each token."""
        found = normalise(self.mlp(self.mlp_input(x)), self.mlp_after_norm, None, self.architecture)
        return self.add(x, found.reshape(x.shape))

    def add(
        self, x: Float[Array, "batch time width"], more: Float[Array, "batch time width"]
    ) -> Float[Array, "batch time width"]:
        """Add the output of attention or the MLP to its input, scaled as in the family."""
        return x + scale_numbers(more, self.architecture.residual_scale)

    def mlp(self, h: Float[Array, "token width"]) -> Float[Array, "token width"]:
        """Compute the MLP, or the experts of each token."""
        architecture = self.architecture
        activation = ACTIVATIONS[architecture.choices.activation]
        if self.experts is not None:
            return self.experts(h, architecture.chosen, architecture.normalised, activation)
        assert self.up is not None and self.down is not None
        if self.gate is None:
            return self.down(activation(self.up(h)))
        return self.down(activation(self.gate(h)) * self.up(h))


def first_scale(architecture: Architecture, size: int, dtype: Any) -> Float[Array, " size"]:
    """Return the scale with which a norm begins; the factor is 1 in all families."""
    return jnp.zeros(size, dtype) if architecture.choices.norm == "shifted" else jnp.ones(size, dtype)


def projections(architecture: Architecture, layer: int) -> dict[str, tuple[int, int, bool]]:
    """Return inputs, outputs and whether there is a bias, of each projection of a layer's block by its name."""
    own, shared = architecture.heads * architecture.size, architecture.kv_heads * architecture.size
    width, inner = architecture.width, architecture.inner
    biased, mlp = architecture.attention_bias, architecture.mlp_bias
    found = {
        "queries": (width, own, biased),
        "keys": (width, shared, biased),
        "values": (width, shared, biased),
        "out": (own, width, architecture.out_bias),
    }
    if architecture.is_sparse(layer):
        return found
    if architecture.choices.gated:
        found["gate"] = width, inner, mlp
    return found | {"up": (width, inner, mlp), "down": (inner, width, mlp)}


class Transformer(mesh.SharedWeights):
    """A decoder-only transformer, called on token ids; it reads and writes Hugging Face directories.

    >>> network = Transformer(jax.random.key(0), Architecture(vocabulary=32, width=16, layers=1, heads=2, inner=32))
    >>> network(jnp.array([[5, 7, 9]])).shape
    (1, 3, 32)
    """

    table: Float[Array, "vocabulary width"]
    blocks: tuple[Block, ...]
    norm: Float[Array, " width"]
    head: Float[Array, "vocabulary width"] | None  # of a transformer that is not tied
    architecture: Architecture = equinox.field(static=True)
    files: str = equinox.field(static=True)  # what the configuration in its directory says beside, as JSON
    norm_bias: Float[Array, " width"] | None = None
    positions: Float[Array, "length width"] | None = None  # added to tokens, where positions turn nothing

    def __init__(self, key: Key[Array, ""], architecture: Architecture, dtype: Any = jnp.float32, files: str = "{}"):
        """Draw weights; `load` reads them. Raise `ForageError` for sizes that do not fit together."""
        architecture.check()
        *keys, table_key, head_key = jax.random.split(key, architecture.layers + 2)
        shape = architecture.vocabulary, architecture.width
        self.table = DEVIATION * jax.random.normal(table_key, shape, dtype)
        self.blocks = tuple(Block(own, architecture, layer, dtype) for layer, own in enumerate(keys))
        self.norm, choices = first_scale(architecture, architecture.width, dtype), architecture.choices
        self.norm_bias = jnp.zeros(architecture.width, dtype) if choices.norm == "layer" else None
        self.positions = None
        if not choices.rotary:
            shape_of_positions = architecture.length, architecture.width
            self.positions = DEVIATION * jax.random.normal(jax.random.fold_in(table_key, 1), shape_of_positions, dtype)
        self.head = None if architecture.tied else DEVIATION * jax.random.normal(head_key, shape, dtype)
        self.architecture, self.files = architecture, files

    @classmethod
    def load(cls, directory: str | Path, dtype: Any = None) -> Transformer:
        """Read a directory of Hugging Face's, or a directory written by `save`. `dtype`: of the weights; `None`
        keeps theirs.

        A directory of adapters, as PEFT writes it, is read with the model that it names, or, as `ADAPTERS@BASE`, with
        another directory.

        Raise `ForageError` in one sentence for a directory without configuration or weights, a family that is not among
        `FAMILIES`, a tensor that is missing, of a wrong shape or without a place. It needs the extra `language`.
        """
        from forage.nn.language.directory import load_transformer

        return load_transformer(directory, dtype)

    def save(self, directory: str | Path) -> Path:
        """Write `config.json` and `model.safetensors`, which transformers loads, and return the directory.

        Adapters are merged into the weights. A tokenizer has a `save` of its own, for the same directory.
        """
        from forage.nn.language.directory import save_transformer

        return save_transformer(self, Path(directory))

    def astype(self, dtype: Any) -> Transformer:
        """Return the transformer with all weights in another dtype, such as `jnp.bfloat16`."""
        return jax.tree.map(lambda leaf: leaf.astype(dtype), self)

    def partition(self, shape: mesh.Shape, before: int = 0) -> Any:
        return partition.partition(self, self.architecture, shape, before)

    def indivisible_units(self, shape: mesh.Shape) -> list[str]:
        return partition.indivisible_units(self.architecture, shape)

    @property
    def dtype(self) -> Any:
        """Return the dtype of weights and of the arrays between blocks."""
        return self.table.dtype

    def __call__(
        self, tokens: Int[Array, "batch time"], mask: Bool[Array, "batch time"] | None = None
    ) -> Float[Array, "batch time vocabulary"]:
        """Return the logits of each next token, in float32. `mask`: which tokens are no padding."""
        return self.logits(self.hidden_states(tokens, mask))

    def hidden_states(
        self,
        tokens: Int[Array, "batch time"],
        mask: Bool[Array, "batch time"] | None = None,
        remat: bool = False,
        wanted: int = 0,
        begin: Int[Array, "batch time"] | tuple[()] = (),
    ) -> Float[Array, "batch wanted width"]:
        """Return the hidden state of each token, before it becomes logits.

        `remat`: compute blocks anew in the backward pass, so that a gradient keeps one array of each block alone.
        `wanted`: of how many of the last columns, 0 for all; the last block does nothing for others but remember them.
        `begin`: the position in its row at which each token's text begins, where a row holds several texts, of which
        none sees another.
        """
        x, turns, sight = self._open(tokens, mask)
        sight = sight._replace(begin=begin)

        def apply(block: Block, x: Array, row: tuple[()], wanted: int = 0) -> tuple[Array, tuple[()]]:
            return block(x, self._turns_of(block, turns), sight, wanted=wanted, ordered=True)[0], ()

        *blocks, last = self.blocks
        x, _ = apply_blocks(blocks, apply, x, [()] * len(blocks), remat)
        x, _ = apply_blocks([last], functools.partial(apply, wanted=wanted), x, [()], remat)
        return normalise(x, self.norm, self.norm_bias, self.architecture)

    def attention(
        self, tokens: Int[Array, "batch time"], mask: Bool[Array, "batch time"] | None = None
    ) -> Float[Array, "layer batch head time time"]:
        """Compute the attention of each token to each other one: softmax(q k' / sqrt(head size)), in float32.

        Rows are the tokens that attend, and sum to 1. Those of padding mean nothing. All layers stand in memory at
        once, layers x heads x time^2 numbers for each text.
        """
        x, turns, sight = self._open(tokens, mask)
        found = []
        for kept in self.blocks:
            block: Block = partition.gather(kept, self.architecture)
            weight, x = block.attention(x, self._turns_of(block, turns), sight)
            found.append(weight.reshape(len(weight), -1, *weight.shape[-2:]))
        return jnp.stack(found)

    def load_balance(
        self, tokens: Int[Array, "batch time"], mask: Bool[Array, "batch time"] | None = None
    ) -> Float[Array, ""]:
        """Compute the auxiliary loss of the experts of all layers, for the tokens in a mask; 0 without experts.

        It takes a pass of its own.
        """
        x, turns, sight = self._open(tokens, mask)
        there = jnp.ones(tokens.shape, bool) if mask is None else mask
        found, seen = [], []
        for kept in self.blocks:
            block: Block = partition.gather(kept, self.architecture)
            queries, now = block.look(x, self._turns_of(block, turns))
            x = block.add_attention(x, attend(queries, *now, sight, block.rule, ordered=True))
            if block.experts is not None:
                found.append(block.experts.probabilities(block.mlp_input(x)))
                seen.append(there.reshape(-1))
            x = block.add_mlp(x)
        if not found:
            return jnp.zeros(())
        return load_balance(jnp.concatenate(found), jnp.concatenate(seen), self.architecture.chosen)

    def _open(
        self, tokens: Int[Array, "batch time"], mask: Bool[Array, "batch time"] | None
    ) -> tuple[Float[Array, "batch time width"], tuple[Turns, ...], Sight]:
        """Return the input of the blocks for whole texts, as `_begin` does."""
        self._check_length(tokens.shape[1])
        if mask is None:
            position = jnp.arange(tokens.shape[1])[None]
            there = position
        else:
            position = jnp.maximum(jnp.cumsum(mask, axis=1) - 1, 0)
            there = jnp.where(mask, position, NOTHING)
        return self._begin(tokens, self._turn_tables(tokens.shape[1]), Sight(position, there))

    def logits(self, hidden: Float[Array, "*batch width"]) -> Float[Array, "*batch vocabulary"]:
        """Return the logits, in float32, of the result of `hidden`."""
        head = partition.gather(self.table if self.head is None else self.head, self.architecture, "head")
        *batch, width = hidden.shape  # one matrix, as in `Projection`
        found = jnp.einsum("bw,vw->bv", hidden.reshape(-1, width), head, preferred_element_type=jnp.float32)
        return self.scale_logits(found.reshape(*batch, -1))

    def scale_logits(self, logits: Float[Array, "*batch vocabulary"]) -> Float[Array, "*batch vocabulary"]:
        """Scale and bound the products of hidden states and the head, as the family does."""
        divisor, bound = self.architecture.logit_divisor, self.architecture.logit_cap
        return cap(logits if divisor == 1 else logits / divisor, bound)

    def cache(self, batch: int, length: int) -> Cache:
        """Return an empty cache for `batch` rows and `length` columns."""
        self._check_length(length)
        shape = batch, self.architecture.kv_heads, length, self.architecture.size
        past = Past(jnp.zeros(shape, self.dtype), jnp.zeros(shape, self.dtype))
        position = jnp.full((batch, length), NOTHING, jnp.int32)
        turns = self._turn_tables(length)
        past = partition.share_cache(past, self.architecture)
        return Cache((past,) * len(self.blocks), turns, position, jnp.int32(0), jnp.zeros(batch, jnp.int32))

    def grow_cache(self, cache: Cache, columns: int) -> Cache:
        """Return a cache with room for `columns` more columns."""
        length = cache.position.shape[1] + columns
        self._check_length(length)
        layers = jax.tree.map(lambda x: jnp.pad(x, ((0, 0), (0, 0), (0, columns), (0, 0))), cache.layers)
        layers = partition.share_cache(layers, self.architecture)
        position = jnp.pad(cache.position, ((0, 0), (0, columns)), constant_values=NOTHING)
        return cache._replace(layers=layers, turns=self._turn_tables(length), position=position)

    def repeat_rows(self, cache: Cache, times: int) -> Cache:
        """Return a cache with each row repeated `times` times, one after another, so that texts can share one
        beginning.
        """
        layers, position, following = jax.tree.map(
            lambda x: jnp.repeat(x, times, axis=0), (cache.layers, cache.position, cache.following)
        )
        return cache._replace(layers=layers, position=position, following=following)

    def extend(
        self,
        cache: Cache,
        tokens: Int[Array, "batch time"],
        mask: Bool[Array, "batch time"] | None = None,
        remat: bool = False,
    ) -> tuple[Float[Array, "batch time width"], Cache]:
        """Return the hidden states of further tokens, and the cache with them in its next columns.

        `mask`: tokens that later ones see. Columns of others stay empty, and count in no position. More tokens than the
        cache has columns left would overwrite its last ones; whoever makes it sees to its length. `remat`: as in
        `hidden_states`.
        """
        mask = jnp.ones(tokens.shape, bool) if mask is None else mask
        position, there = positions_after(cache.following, mask)
        there = jax.lax.dynamic_update_slice(cache.position, there, (0, cache.count))
        x, turns, sight = self._begin(tokens, cache.turns, Sight(position, there))

        def apply(block: Block, x: Array, past: Past) -> tuple[Array, Past]:
            return block(x, self._turns_of(block, turns), sight, past, cache.count)

        x, layers = apply_blocks(self.blocks, apply, x, cache.layers, remat)
        following = cache.following + jnp.sum(mask, axis=1, dtype=jnp.int32)
        after = Cache(
            partition.share_cache(tuple(layers), self.architecture),
            cache.turns,
            there,
            cache.count + tokens.shape[1],
            following,
        )
        return normalise(x, self.norm, self.norm_bias, self.architecture), after

    def continue_rows(
        self,
        cache: Cache,
        tokens: Int[Array, "row time"],
        mask: Bool[Array, "row time"],
        together: int,
        remat: bool = False,
    ) -> Float[Array, "row time width"]:
        """Return the hidden states of rows of which each `together`, one after another, begin with a row of a cache.

        The cache is full. `remat`: as in `hidden_states`; what the cache holds of a row is then repeated layer by
        layer, and never kept.
        """
        read, time = cache.position.shape[1], tokens.shape[1]
        position, there = positions_after(jnp.repeat(cache.following, together), mask)
        there = jnp.concatenate([jnp.repeat(cache.position, together, axis=0), there], axis=1)
        x, turns, sight = self._begin(tokens, self._turn_tables(read + time), Sight(position, there))

        def apply(block: Block, x: Array, past: Past) -> tuple[Array, tuple[()]]:
            room = (0, 0), (0, 0), (0, time), (0, 0)
            past = jax.tree.map(lambda kept: jnp.pad(jnp.repeat(kept, together, axis=0), room), past)
            return block(x, self._turns_of(block, turns), sight, past, read, ordered=True)[0], ()

        x, _ = apply_blocks(self.blocks, apply, x, cache.layers, remat)
        return normalise(x, self.norm, self.norm_bias, self.architecture)

    def _turns_of(self, block: Block, turns: tuple[Turns, ...]) -> Turns:
        """Return the turns of a layer's positions."""
        return turns[self.architecture.rope_place(block.layer)]

    def _turn_tables(self, length: int) -> tuple[Turns, ...]:
        """Return the angles of all positions, for each kind of layer."""
        size = self.architecture.size
        return tuple(turn_table(length, rope, size) for rope in self.architecture.ropes)

    def _begin(
        self, tokens: Int[Array, "batch time"], turns: tuple[Turns, ...], sight: Sight
    ) -> tuple[Float[Array, "batch time width"], tuple[Turns, ...], Sight]:
        """Return the input of the blocks, the turns of the tokens' positions, and the sight as it came in."""
        turned = tuple((cosine[sight.query], sine[sight.query]) for cosine, sine in turns)
        x = mesh.split_leaves(partition.gather(self.table, self.architecture, "table")[tokens])
        scale = self.architecture.input_scale
        if self.architecture.choices.root_scale:
            scale = float(np.asarray(scale, x.dtype))  # rounded, as Gemma was trained
        x = scale_numbers(x, scale)
        if self.positions is not None:
            x = x + partition.gather(self.positions, self.architecture, "positions")[sight.query]
        return x, turned, sight

    def _check_length(self, length: int) -> None:
        """Raise `ForageError` for a text that is longer than the transformer was made for."""
        if length > self.architecture.longest:
            raise ForageError(
                f"A text of {length} tokens is too long for this transformer, which reads {self.architecture.longest}."
            )


def positions_after(
    following: Int[Array, " batch"], mask: Bool[Array, "batch time"]
) -> tuple[Int[Array, "batch time"], Int[Array, "batch time"]]:
    """Return the position of each token after others, and the same with -1 for tokens that are not seen."""
    position = jnp.maximum(following[:, None] + jnp.cumsum(mask, axis=1) - 1, 0)
    return position, jnp.where(mask, position, NOTHING).astype(jnp.int32)
