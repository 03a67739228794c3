"""Random keys whose generator XLA can fuse.

JAX's Threefry on CPU is a loop of tiny operations, which inside an environment's step costs more than the step.
This is the same generator (Salmon, Moraes, Dror, Shaw, 2011, "Parallel Random Numbers: As Easy as 1, 2, 3";
Threefry-2x32, 20 rounds) written out, so that drawing becomes part of the operation that uses the numbers.
All of `jax.random` works with these keys.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import define_prng_impl
from jaxtyping import Array, Key, UInt32

from forage.core import compiling

CHOICE = 300_007
"""Keys of the episodes that choose whether the score is of greedy or of sampled actions."""
EVALUATION = 1_000_003
"""Keys of the evaluation episodes at the end of a run, apart from those of training."""
EVALUATION_AT_POINTS = 500_009
"""The same during training: each evaluation adds its number."""
EVALUATION_AGAIN = 2_000_003
"""The same of an evaluation asked for later, which adds a seed: none of the run's own episodes comes back."""
EVALUATION_CALLED = 20_000_003
"""The same of an evaluation that a callback asks for, which adds its number."""
TUNING = 700_001
"""The same of trials in a search."""
WATCH = 4_000_037
"""Keys of the episodes that `forage watch` shows."""
LEVELS = 6_100_003
"""Keys of levels are folded from it, so that a level is the same in every run and for every seed."""
BEHAVIOUR = 6_100_019
"""The number folded into a learner's key for the behaviour, so that its other keys do not depend on the behaviour."""
STARTS = 6_100_021
"""The number folded into a seed's key on the host for the starts, so that its other keys do not depend on them."""
TASKS = 6_100_029
"""The number folded into the key of the starts' report for the tasks, so that the former stays unchanged."""
SOLVED_LEVELS = 6_100_027
"""Keys of the levels that a solver teaches, apart from those that training and evaluation draw."""
FRESH = 6_100_033
"""A rollout's key is folded with it for the episodes that begin before its first step, for agents of whole ones."""
OPPONENT = 6_100_039
"""The number folded into the key of an evaluation action for the opponent, so that the agent's stays unchanged."""
RENEWAL = 6_100_043
"""The number folded into an update's key for resets after it, so that its other keys do not depend on them."""
HELD = 6_100_047
"""The seed of the batches of held episodes, which are the same at each measurement of each member."""
STREAMS = CHOICE, EVALUATION, EVALUATION_AT_POINTS, EVALUATION_AGAIN, EVALUATION_CALLED, TUNING
STREAMS += WATCH, LEVELS, BEHAVIOUR, STARTS, TASKS, SOLVED_LEVELS, FRESH, OPPONENT, RENEWAL, HELD
"""Every number that a stream of its own is made from: all are different, and below 2^31."""

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA  # of the key schedule

Words = UInt32[Array, "*shape"]


def mix(x: Any, y: Any, rotations: tuple[int, ...]) -> tuple[Any, Any]:
    """Mix some rounds, of words in JAX or in NumPy."""
    for rotation in rotations:
        x = x + y
        y = (y << rotation) | (y >> (32 - rotation))
        y = y ^ x
    return x, y


_mix = jax.jit(mix, static_argnames="rotations")  # of which there are few in a program, so that each is written once


def threefry(key: UInt32[Array, "2"], high: Words, low: Words, mix: Callable[..., Any] = _mix) -> tuple[Words, Words]:
    """Enciphers the counter `(high, low)`: two words, each as random as the other."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ PARITY)
    x, y = high + schedule[0], low + schedule[1]
    for group in range(5):
        x, y = mix(x, y, ROTATIONS[group % 2])
        x = x + schedule[(group + 1) % 3]
        y = y + (schedule[(group + 2) % 3] + (group + 1))
    return x, y


def _counter(shape: tuple[int, ...]) -> tuple[Words, Words]:
    if math.prod(shape) >= 2**32:
        raise ValueError("At most 2**32 random numbers can be drawn at once.")
    low = jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape)
    return jnp.zeros_like(low), low


def _keep_apart(words: Words) -> Words:
    """Keep XLA from fusing a key with the numbers drawn from it, as LLVM would not end on both ciphers in one loop.

    From jaxlib 0.11.1 on, LLVM's loop vectoriser asks of every value in a loop whether only its first lane is used, and
    follows each path from it to what is stored. Every round doubles the paths: the 20 of one draw have a million, which
    takes a moment, and the 40 of a key and a draw from it 10^12, which takes days.
    """
    return jax.lax.optimization_barrier(words) if compiling.follows_every_path() else words


# These four are programs, or outside of one each operation of Threefry would be compiled and dispatched by itself.
@jax.jit
def _seed(seed: Array) -> UInt32[Array, "2"]:
    return jnp.stack([jnp.uint32(0), seed.astype(jnp.uint32)])


@functools.partial(jax.jit, static_argnums=1)
def _split(key: UInt32[Array, "2"], shape: tuple[int, ...]) -> UInt32[Array, "*shape 2"]:
    return _keep_apart(jnp.stack(threefry(key, *_counter(tuple(shape))), axis=-1))


@functools.partial(jax.jit, static_argnums=(1, 2))
def _random_bits(key: UInt32[Array, "2"], bit_width: int, shape: tuple[int, ...]) -> Array:
    x, y = threefry(key, *_counter(tuple(shape)))
    if bit_width == 64:
        return (x.astype(jnp.uint64) << 32) | y.astype(jnp.uint64)
    return (x ^ y).astype({8: jnp.uint8, 16: jnp.uint16, 32: jnp.uint32}[bit_width])


@jax.jit
def _fold_in(key: UInt32[Array, "2"], data: Array) -> UInt32[Array, "2"]:
    return _keep_apart(jnp.stack(threefry(key, jnp.uint32(0), jnp.asarray(data).astype(jnp.uint32))))


FUSED = define_prng_impl(
    key_shape=(2,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="forage_threefry",
    tag="forage",
)


def key(seed: int | Array) -> Key[Array, ""]:
    """Return a random key; use it as one of `jax.random.key`."""
    return jax.random.key(seed, impl=FUSED)


def fold_keys(seeds: Sequence[int], number: int) -> Key[Array, " seed"]:
    """Return `jax.random.fold_in(key(seed), number)` for each seed, by NumPy, so that no program has to compile."""
    low: Any = np.asarray(seeds, np.int64).astype(np.uint32)
    zeros: Any = np.zeros_like(low)
    counter: Any = np.full_like(low, number)
    key: Any = np.stack([zeros, low])
    words: Any = np.stack(threefry(key, zeros, counter, mix), axis=-1)
    return from_data(words)


def from_data(data: Array) -> Key[Array, "*shape"]:
    """Return the key that `jax.random.key_data` was taken from."""
    return jax.random.wrap_key_data(data, impl=FUSED)


def fuse(key: Key[Array, "*shape"]) -> Key[Array, "*shape"]:
    """Return a key of JAX's own Threefry as one of `FUSED`, which draws the same numbers; another key as it is."""
    same = getattr(jax.config, "jax_threefry_partitionable", True)  # JAX's older order of counters draws other numbers
    own = same and jax.random.key_impl(key) == "threefry2x32"
    return from_data(jax.random.key_data(key)) if own else key
