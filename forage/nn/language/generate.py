"""Write tokens with a transformer, and score tokens that were written: one network, one distribution.

The whole of `generate` is one compiled program: it reads the prompts at once, then draws a token and reads it in a loop
that ends when every row has ended. The cache grows a few times on the way, as half of a step's time and more goes into
reading columns, also empty ones; each time is one more loop to compile. Noise is drawn before the loop where it is
small, which changes no number.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core import mesh, prng
from forage.core.errors import ForageError
from forage.nn.transformer import Cache, Transformer
from forage.ops import sampling as distribution
from forage.ops.sampling import PLAIN, Sampling

AT_ONCE = 2**24  # random numbers that are drawn before the loop, at most: 64 MiB
LOGITS = 2**26  # logits that are made at once, at most: 256 MiB
PAD = 0
SEGMENTS, SHORTEST = 4, 32  # how often a cache grows at most, and by how many columns at least


class GeneratedText(NamedTuple):
    """The text that a transformer wrote."""

    tokens: Int[Array, "batch new"]  # 0 after the end
    mask: Bool[Array, "batch new"]  # tokens that were written, with the one that ends a row
    log_probability: Float[Array, "batch new"]  # of each token, as it was drawn; 0 after the end


class Going(NamedTuple):
    """A text in progress."""

    cache: Cache
    token: Int[Array, " batch"]  # the last one, not in the cache yet
    ended: Bool[Array, " batch"]
    written: GeneratedText  # time first


class SharedPrefix(NamedTuple):
    """The common beginning of rows, which is read only once."""

    prompts: int = 1  # how many rows, one after another, are the same in front of the wanted columns
    turns: int = 1  # how many rows are one conversation: each begins with the whole of the one before
    by_turn: bool = True  # rows are the first turns of all conversations, then all second ones; else a conversation's
    # turns stand one after another


ALONE = SharedPrefix()


def pad_left(texts: Sequence[Sequence[int]], length: int = 0) -> tuple[Int[np.ndarray, "batch time"], np.ndarray]:
    """Return texts side by side, padded in front to `length` or to the longest, and a mask without the padding."""
    if not texts or not all(len(text) for text in texts):
        raise ForageError("There is no text to read: each needs one token or more.")
    longest = max(map(len, texts))
    if length and longest > length:
        raise ForageError(f"A text of {longest} tokens does not fit into {length}.")
    tokens = np.full((len(texts), length or longest), PAD, np.int32)
    mask = np.zeros(tokens.shape, bool)
    for row, text in enumerate(texts):
        tokens[row, tokens.shape[1] - len(text) :] = text
        mask[row, tokens.shape[1] - len(text) :] = True
    return tokens, mask


def generate(
    network: Transformer,
    tokens: Int[Array, "*shape"] | Sequence[Sequence[int]],
    key: Key[Array, ""] | None = None,
    new: int = 64,
    sampling: Sampling = PLAIN,
    mask: Bool[Array, "batch time"] | None = None,
    stop: Sequence[int] = (),
    allowed: Bool[Array, " vocabulary"] | None = None,
) -> GeneratedText:
    """Write up to `new` tokens after each prompt.

    Args:
        network: What writes.
        tokens: The prompts, one a row.
        key: What tokens are drawn with; none is needed at temperature 0.
        new: Tokens that are written at most.
        sampling: How they are drawn.
        mask: Which tokens of the prompts are no padding, wherever that stands.
        stop: Tokens that end a row; each belongs to the text it ends.
        allowed: Which tokens may be drawn.

    Raise `ForageError` for a prompt without tokens, for numbers out of range, and where prompt and new tokens are more
    than the transformer reads.
    """
    sampling.check()
    try:
        tokens = jnp.asarray(tokens)
    except (TypeError, ValueError):
        raise ForageError("Prompts of different lengths are padded first, by left_padded(prompts).") from None
    if tokens.ndim != 2 or not tokens.size:
        raise ForageError(f"Prompts are token ids, `batch time`, and not of the shape {tokens.shape}.")
    if new < 1:
        raise ForageError(f"new, how many tokens are written, is 1 or more, not {new}.")
    total, longest = tokens.shape[1] + new, network.architecture.longest
    if total > longest:
        raise ForageError(
            f"A prompt of {tokens.shape[1]} tokens and {new} new ones do not fit into the {longest} that this "
            f"transformer reads; write at most {max(longest - tokens.shape[1], 0)}."
        )
    if key is None:
        if not (isinstance(sampling.temperature, (int, float)) and sampling.temperature == 0):
            raise ForageError("Tokens are drawn with a key; without one, set the temperature to 0.")
        key = jax.random.key(0)
    mask = jnp.ones(tokens.shape, bool) if mask is None else jnp.asarray(mask)
    if not any(isinstance(array, jax.core.Tracer) for array in (tokens, mask, allowed)):
        check_prompts(np.asarray(tokens), np.asarray(mask), allowed, network.architecture.vocabulary)
    return _generate(network, tokens, mask, key, sampling, allowed, new, tuple(int(token) for token in stop))


def check_prompts(tokens: np.ndarray, mask: np.ndarray, allowed: Array | None, vocabulary: int) -> None:
    """Raise `ForageError` for prompts that cannot be read, and where no token may be drawn."""
    if mask.shape != tokens.shape:
        raise ForageError(f"The mask of prompts has their shape, {tokens.shape}, and not {mask.shape}.")
    if not mask.any(axis=1).all():
        raise ForageError("A prompt has one token or more that is no padding.")
    if (outside := tokens[mask & ((tokens < 0) | (tokens >= vocabulary))]).size:
        raise ForageError(f"A prompt has the token {outside[0]}, and this transformer knows {vocabulary}.")
    if allowed is not None and (np.shape(allowed) != (vocabulary,) or not np.any(allowed)):
        raise ForageError(f"allowed says which of the {vocabulary} tokens may be drawn, and one of them may.")


@functools.partial(jax.jit, static_argnames=("new", "stop"))
def _generate(
    network: Transformer,
    tokens: Int[Array, "batch time"],
    mask: Bool[Array, "batch time"],
    key: Key[Array, ""],
    sampling: Sampling,
    allowed: Bool[Array, " vocabulary"] | None,
    new: int,
    stop: tuple[int, ...],
) -> GeneratedText:
    """Write tokens, in one program."""
    hidden, cache = network.extend(network.cache(*tokens.shape), tokens, mask)
    return write_tokens(network, cache, last_hidden(hidden, mask), key, new, sampling, stop, allowed, grow=True)[0]


def write_tokens(
    network: Transformer,
    cache: Cache,
    hidden: Float[Array, "batch width"],
    key: Key[Array, ""],
    new: int,
    sampling: Sampling = PLAIN,
    stop: tuple[int, ...] = (),
    allowed: Bool[Array, " vocabulary"] | None = None,
    grow: bool = False,
    silent: Bool[Array, " batch"] | None = None,
    room: Int[Array, " batch"] | None = None,
) -> tuple[GeneratedText, Cache]:
    """Write up to `new` tokens after a cache; return them, and the cache with all but the last of their columns.

    `hidden` is what each row's last token was read as. The cache has room for `new` - 1 columns more, or gets it with
    `grow`. Whoever goes on, such as after a tool's answer, reads the last column of `tokens` with its `mask` first: all
    others have been read, also those that end rows. Without `stop` the loop has a fixed length, as a program over many
    seeds wants it. Rows that are `silent` write nothing, and others no more than their `room`. Where the temperature
    has the axes `batch new 1`, each token has its own.
    """
    batch, vocabulary = len(hidden), network.architecture.vocabulary
    key = prng.fuse(key)
    keys = jax.vmap(lambda number: jax.random.fold_in(key, number))(jnp.arange(new))
    noise = None
    if new * batch * vocabulary <= AT_ONCE:
        noise = mesh.split_leaves(jax.vmap(lambda own: distribution.noise(own, (batch, vocabulary)))(keys), 1)

    def draw(
        number: Array | int, hidden: Array, ended: Array, written: GeneratedText
    ) -> tuple[Array, Array, GeneratedText]:
        this = sampling
        if jnp.ndim(sampling.temperature) == 3:
            this = sampling._replace(temperature=sampling.temperature[:, number])  # type: ignore[index]
        own = distribution.noise(keys[number], (batch, vocabulary)) if noise is None else noise[number]
        token, log_p = distribution.draw(network.logits(hidden), own, this, allowed)
        token, log_p = jnp.where(ended, PAD, token), jnp.where(ended, 0.0, log_p)
        news = GeneratedText(token, ~ended, log_p)
        written = jax.tree.map(lambda whole, one: whole.at[number].set(one), written, news)
        if stop:
            ended |= jnp.any(token[:, None] == jnp.asarray(stop), axis=1)
        if room is not None:
            ended |= number + 1 >= room
        return token, ended, written

    def step(number: Array, going: Going) -> Going:
        hidden, cache = network.extend(going.cache, going.token[:, None], going.written.mask[number - 1][:, None])
        return Going(cache, *draw(number, hidden[:, 0], going.ended, going.written))

    shape = new, batch
    nothing = GeneratedText(jnp.full(shape, PAD, jnp.int32), jnp.zeros(shape, bool), jnp.zeros(shape))
    silent = jnp.zeros(batch, bool) if silent is None else silent
    going = Going(cache, *draw(0, hidden, silent, nothing))
    pieces = max(min(SEGMENTS, new // SHORTEST), 1) if grow else 1
    until = [new * piece // pieces for piece in range(1, pieces + 1)]
    number = jnp.int32(1)
    for before, end in zip([1, *until], until, strict=False):
        if grow:
            going = going._replace(cache=network.grow_cache(going.cache, end - before))
        if stop:
            number, going = jax.lax.while_loop(
                lambda pair, end=end: (pair[0] < end) & jnp.any(pair[1].written.mask[pair[0] - 1]),
                lambda pair: (pair[0] + 1, step(*pair)),
                (number, going),
            )
        else:
            going = jax.lax.fori_loop(before, end, step, going)
    return jax.tree.map(lambda leaf: leaf.swapaxes(0, 1), going.written), going.cache


def read_prompts(
    network: Transformer, tokens: Int[Array, "batch time"], mask: Bool[Array, "batch time"], together: int = 1
) -> tuple[Float[Array, "batch width"], Cache]:
    """Read prompts into a new cache, and return the hidden state of each row's last token, and the cache.

    `together`: the number of rows, one after another, that may have the same prompt. The program looks whether all of
    them do, and then reads it once; not on a mesh, whose devices each have rows of their own.
    """

    def run_each() -> tuple[Float[Array, "batch width"], Cache]:
        hidden, cache = network.extend(network.cache(*tokens.shape), tokens, mask)
        return last_hidden(hidden, mask), cache

    def run_once() -> tuple[Float[Array, "batch width"], Cache]:
        there = mask[::together]
        hidden, cache = network.extend(network.cache(*there.shape), tokens[::together], there)
        return jnp.repeat(last_hidden(hidden, there), together, axis=0), network.repeat_rows(cache, together)

    if together == 1 or len(tokens) % together or mesh.traced_shape() != mesh.ONE:
        return run_each()
    grouped = jax.tree.map(lambda x: x.reshape(-1, together, x.shape[1]), (tokens, mask))
    alike = jnp.all(jnp.stack([jnp.all(x == x[:, :1]) for x in grouped]))
    return jax.lax.cond(alike, run_once, run_each)


def last_hidden(
    hidden: Float[Array, "batch time width"], mask: Bool[Array, "batch time"]
) -> Float[Array, "batch width"]:
    """Return the hidden state of the last token of each row that is no padding."""
    time = mask.shape[1]
    place = time - 1 - jnp.argmax(mask[:, ::-1], axis=1)
    return jnp.take_along_axis(hidden, place[:, None, None], axis=1)[:, 0]


def score_texts(
    network: Transformer,
    score: Float[Array, " width"],
    tokens: Int[Array, "batch time"],
    mask: Bool[Array, "batch time"],
) -> Float[Array, " batch"]:
    """Return the score of each text, in float32: the product of `score` and the hidden state of its last token."""
    hidden = last_hidden(network.hidden_states(tokens, mask), mask)
    return jnp.einsum("bw,w->b", hidden, score.astype(hidden.dtype), preferred_element_type=jnp.float32)


def hidden_before_tokens(
    network: Transformer,
    tokens: Int[Array, "batch time"],
    mask: Bool[Array, "batch time"],
    remat: bool = False,
    wanted: int = 0,
    together: SharedPrefix = ALONE,
    begin: Int[Array, "batch time"] | tuple[()] = (),
) -> tuple[Float[Array, "batch wanted width"], Bool[Array, "batch wanted"]]:
    """Return the hidden state before each token except the first of a row, and the mask of valid ones.

    What stands before a token is the last one that is no padding, which need not be in the column before it. `remat`:
    as in `Transformer.hidden_states`. `wanted`: of how many of the last columns, 0 for all but the first. What stands
    before those is then no further in front than in the column before them, as where all in front of them is padded in
    front. `together`: what rows have in common in front of those columns, which is then read once for all of them; of
    turns the program looks first whether they have it, and reads each row where they have not. `begin`: as in
    `Transformer.hidden_states`; then the state before a text's first token is that of another text's last one.
    """
    time = tokens.shape[1]
    if together != ALONE and not 0 < wanted < time:
        raise ForageError(
            f"What {max(together.prompts, together.turns)} rows have in common is read once where `wanted` says in "
            f"which last columns they differ."
        )
    if together.prompts > 1:
        return _before_answers(network, tokens, mask, remat, wanted, together.prompts)
    if together.turns > 1:
        return _before_turns(network, tokens, mask, remat, wanted, together)
    wanted = wanted or time - 1
    first = time - 1 - wanted  # the column of the first that is wanted of `hidden`
    hidden = network.hidden_states(tokens, mask, remat, wanted + 1, begin)
    column = jnp.where(mask, jnp.arange(time), -1)
    place = jax.lax.cummax(column, axis=1)[:, first:-1]
    hidden = jnp.take_along_axis(hidden, jnp.maximum(place - first, 0)[..., None], axis=1)
    return hidden, mask[:, first + 1 :] & (place >= first)


def _before_answers(
    network: Transformer,
    tokens: Int[Array, "batch time"],
    mask: Bool[Array, "batch time"],
    remat: bool,
    wanted: int,
    together: int,
) -> tuple[Float[Array, "batch wanted width"], Bool[Array, "batch wanted"]]:
    """Return the result of `before`, with the common beginning of rows read once, into a cache that all of them share.

    What stands before a row's first wanted token may be anywhere in front of it.
    """
    prompt = tokens.shape[1] - wanted
    there = mask[::together, :prompt]
    asked, cache = network.extend(network.cache(*there.shape), tokens[::together, :prompt], there, remat)
    hidden = jnp.repeat(last_hidden(asked, there), together, axis=0)[:, None]
    if wanted > 1:
        answered = network.continue_rows(cache, tokens[:, prompt:-1], mask[:, prompt:-1], together, remat)
        hidden = jnp.concatenate([hidden, answered], axis=1)
    begun = jnp.pad(mask[:, prompt:-1], ((0, 0), (1, 0)))
    place = jax.lax.cummax(jnp.where(begun, jnp.arange(wanted), 0), axis=1)
    hidden = jnp.take_along_axis(hidden, place[..., None], axis=1)
    return hidden, mask[:, prompt:] & ((place > 0) | jnp.repeat(there.any(1), together)[:, None])


def _before_turns(
    network: Transformer,
    tokens: Int[Array, "batch time"],
    mask: Bool[Array, "batch time"],
    remat: bool,
    wanted: int,
    together: SharedPrefix,
) -> tuple[Float[Array, "batch wanted width"], Bool[Array, "batch wanted"]]:
    """Return the result of `before`, with each conversation read once: its longest turn, which holds all others.

    What stands before a row's first wanted token may be anywhere in front of it.
    """
    time, turn = tokens.shape[1], 0 if together.by_turn else 1

    def lay_out(x: Array) -> Array:
        shape = (together.turns, -1) if together.by_turn else (-1, together.turns)
        return x.reshape(*shape, *x.shape[1:])

    text = jnp.take_along_axis(tokens, jnp.argsort(~mask, axis=1, stable=True), axis=1)  # without what is padded
    text, length = lay_out(text), lay_out(mask.sum(1))
    longest = jnp.expand_dims(jnp.argmax(length, axis=turn), (turn, 2))
    whole = jnp.take_along_axis(text, longest, axis=turn)
    alike = jnp.all((text == whole) | (jnp.arange(time) >= length[..., None]))
    number = (jnp.cumsum(mask, axis=1) - mask)[:, -wanted:]  # tokens in front of each that is wanted

    def run_once() -> Float[Array, "batch wanted width"]:
        there = jnp.arange(time) < length.max(turn)[:, None]
        hidden = network.hidden_states(whole.squeeze(turn), there, remat)
        place = jnp.maximum(lay_out(number) - 1, 0)
        taken = jax.vmap(lambda place: jnp.take_along_axis(hidden, place[..., None], axis=1), turn, turn)(place)
        return taken.reshape(len(tokens), wanted, -1)

    def run_each() -> Float[Array, "batch wanted width"]:
        return hidden_before_tokens(network, tokens, mask, remat, wanted)[0]

    # What a gradient keeps of one branch is written as zeros by the other: all of the rarer one is computed anew
    hidden = jax.lax.cond(alike, run_once, jax.checkpoint(run_each))
    return hidden, mask[:, -wanted:] & (number > 0)


def chunk_size(chunk: int | None, tokens: int, vocabulary: int) -> int:
    """Return the number of `tokens` that become logits at once; `chunk` is as in `log_probabilities`."""
    chunk = max(LOGITS // vocabulary, 1) if chunk is None else chunk
    return chunk if 0 < chunk < tokens else tokens


def map_tokens(function: Callable[[PyTree[Array]], PyTree[Array]], inputs: PyTree[Array], chunk: int) -> PyTree[Array]:
    """Return the function of the tokens of rows, `chunk` at once; all inputs and results begin with `row column`.

    What it computes in between is computed anew in the backward pass, and never there of more tokens than that.
    """
    rows, columns = jax.tree.leaves(inputs)[0].shape[:2]
    count = rows * columns
    if chunk >= count:
        return function(inputs)
    ways = mesh.ways() if rows % mesh.ways() == 0 else 1  # devices that have their rows, of which each takes a part
    own, chunk = count // ways, -(-chunk // ways)
    pieces = -(-own // chunk)
    room = pieces * chunk - own

    def split(x: Array) -> Array:
        flat = x.reshape(ways, own, *x.shape[2:])
        flat = jnp.pad(flat, ((0, 0), (0, room), *[(0, 0)] * (flat.ndim - 2)))
        flat = flat.reshape(ways, pieces, chunk, *flat.shape[2:]).swapaxes(0, 1)
        return mesh.split_leaves(flat.reshape(pieces, ways * chunk, *flat.shape[3:]), 1)

    def merge(x: Array) -> Array:
        flat = x.reshape(pieces, ways, chunk, *x.shape[2:]).swapaxes(0, 1)
        return flat.reshape(ways, -1, *flat.shape[3:])[:, :own].reshape(rows, columns, *flat.shape[3:])

    found = jax.lax.map(jax.checkpoint(function, prevent_cse=False), jax.tree.map(split, inputs))
    return jax.tree.map(merge, found)


def log_probabilities(
    network: Transformer,
    tokens: Int[Array, "batch time"],
    sampling: Sampling = PLAIN,
    mask: Bool[Array, "batch time"] | None = None,
    allowed: Bool[Array, " vocabulary"] | None = None,
    chunk: int | None = None,
    remat: bool = False,
    wanted: int = 0,
    together: SharedPrefix = ALONE,
) -> tuple[Float[Array, "batch wanted"], Float[Array, "batch wanted"]]:
    """Return, from one pass, the log-probability of each token after those before it, and its distribution's entropy.

    Both are 0 for padding and for a row's first token. `chunk`: how many tokens become logits at once, 0 for all,
    `None` for as many as `LOGITS` has room for; where the vocabulary is large, logits take more memory than all else.
    `remat`: as in `Transformer.hidden_states`. `wanted`: of how many of the last columns, 0 for all, and `together`:
    what rows have in common in front of those; both as in `hidden_before_tokens`.
    """
    mask = jnp.ones(tokens.shape, bool) if mask is None else mask
    hidden, real = hidden_before_tokens(network, tokens, mask, remat, wanted, together)
    count = hidden.shape[1]

    after = tokens[:, tokens.shape[1] - count :]
    own = jnp.ndim(sampling.temperature) == 3  # each token, or each row, has its own
    heat = jnp.broadcast_to(sampling.temperature, (*after.shape, 1)) if own else ()

    def score(part: tuple[Array, Array, Any]) -> tuple[Array, Array]:
        hidden, token, heat = part
        rule = sampling._replace(temperature=heat) if own else sampling
        return distribution.score_token(network.logits(hidden), token, rule, allowed)

    chunk = chunk_size(chunk, after.size, network.architecture.vocabulary)
    log_p, entropy = map_tokens(score, (hidden, after, heat), chunk)
    log_p, entropy = (jnp.where(real, x, 0.0) for x in (log_p, entropy))
    if not wanted:  # a row's first token
        log_p, entropy = (jnp.pad(x, ((0, 0), (1, 0))) for x in (log_p, entropy))
    return log_p, entropy
