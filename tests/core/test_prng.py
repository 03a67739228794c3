"""The generator equals its authors' published one, for any shape."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.core import compiling, prng
from forage.core.compiling import QUICK, Background, known_options

# Known answers of Threefry-2x32 with 20 rounds, from the authors' Random123 library: key, counter, words.
KNOWN = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("key", "counter", "words"), KNOWN)
def test_known_answers(key, counter, words):
    found = prng.threefry(jnp.array(key, jnp.uint32), *(jnp.uint32(word) for word in counter))
    assert tuple(int(word) for word in found) == words


def test_keys_folded_by_numpy_are_those_of_jax():
    seeds, number = [0, 1, 2**31 - 1], prng.EVALUATION_CALLED + 5
    folded = [jax.random.key_data(jax.random.fold_in(prng.key(seed), number)) for seed in seeds]
    np.testing.assert_array_equal(jax.random.key_data(prng.fold_keys(seeds, number)), np.stack(folded))


def test_keys_neither_repeat_nor_depend_on_how_many_are_split_off():
    key = prng.key(7)
    many = jax.random.key_data(jax.random.split(key, 1000))
    assert len(np.unique(many, axis=0)) == 1000
    np.testing.assert_array_equal(jax.random.key_data(jax.random.split(key, 3)), many[:3])
    folded = [jax.random.key_data(jax.random.fold_in(key, number)).tolist() for number in range(100)]
    assert len({tuple(data) for data in folded}) == 100


@pytest.mark.parametrize("shape", [(), (5,), (3, 4)])
def test_a_batch_of_keys_draws_what_each_of_them_draws(shape):
    keys = jax.random.split(prng.key(1), 4)
    together = jax.vmap(lambda key: jax.random.bits(key, shape))(keys)
    for key, row in zip(keys, together, strict=True):
        np.testing.assert_array_equal(jax.random.bits(key, shape), row)


@pytest.mark.parametrize("width", [8, 16, 32])
def test_every_bit_is_even_handed(width):
    dtype = {8: jnp.uint8, 16: jnp.uint16, 32: jnp.uint32}[width]
    draws = np.asarray(jax.random.bits(prng.key(0), (20_000,), dtype)).astype(np.uint64)
    shares = [(draws >> np.uint64(bit) & np.uint64(1)).mean() for bit in range(width)]
    np.testing.assert_allclose(shares, 0.5, atol=0.02)  # more than five standard deviations


def test_a_key_survives_as_plain_numbers():
    key = prng.key(3)
    again = prng.from_data(jax.random.key_data(key))
    np.testing.assert_array_equal(jax.random.uniform(key, (4,)), jax.random.uniform(again, (4,)))


def test_a_key_of_jax_is_fused_to_the_same_numbers():
    key, other = jax.random.key(3), jax.random.key(3, impl="rbg")
    fused = prng.fuse(key)
    assert jax.random.key_impl(fused) == jax.random.key_impl(prng.key(3)) and prng.fuse(fused) is fused
    for one, two in ((key, fused), (jax.random.fold_in(key, 5), jax.random.fold_in(fused, 5))):
        np.testing.assert_array_equal(jax.random.bits(one, (3, 4)), jax.random.bits(two, (3, 4)))
    assert prng.fuse(other) is other


def test_streams_that_are_to_differ_do():
    """Each is a key of its own, or a number folded into a key; two equal ones would draw the same numbers."""
    assert len(set(prng.STREAMS)) == len(prng.STREAMS) and max(prng.STREAMS) < 2**31
    named = {value for name, value in vars(prng).items() if name.isupper() and isinstance(value, int)}
    assert named - {prng.PARITY} == set(prng.STREAMS)


def draw(key):
    """Draw one number for each of several keys that were just made, as a policy with one continuous action does."""
    following, key = jax.random.split(key)
    keys = jax.random.split(key, 8)
    folded = jax.vmap(lambda number: jax.random.fold_in(key, number))(jnp.arange(8))
    return (
        following,
        jax.vmap(lambda key: jax.random.normal(key, (1,)))(keys),
        jax.vmap(lambda key: jnp.log(jax.random.uniform(key, (1, 1)) + 1))(folded),
        jax.vmap(lambda key: jax.random.uniform(jax.random.split(key)[1]))(keys),
        jax.vmap(lambda key: jax.random.categorical(key, jnp.zeros(2)))(keys),
    )


def test_a_key_and_a_draw_from_it_compile_in_time(optimised_programs):
    """Together in one loop they have 2^40 paths, and from jaxlib 0.11.1 on LLVM follows each of them."""
    work = Background(jax.jit(draw).lower(prng.key(7)).compile)
    if not work.ended.wait(60):
        compiling.Background.left.add(work)  # nobody waits for it at the end
        compiling.exit_code = 1
        pytest.fail("This takes longer than a minute to compile.")
    work.result()


def test_a_key_is_not_fused_with_what_is_drawn_from_it(monkeypatch):
    """A cipher has 20 rounds with one exclusive or each; with its schedule and the draw's own no more than 30."""

    def count_fused(fresh):
        program = jax.jit(lambda key: jax.vmap(lambda key: jax.random.normal(key, (1,)))(jax.random.split(key, fresh)))
        compiled = program.lower(prng.key(7)).compile(compiler_options=known_options(QUICK))
        return max(len(re.findall(r" xor\(", part)) for part in compiled.as_text().split("\n\n")), compiled(prng.key(7))

    # JAX knows a split of as many keys again, and does not ask anew.
    monkeypatch.setattr(compiling, "follows_every_path", lambda: True)
    apart, numbers = count_fused(21)
    monkeypatch.setattr(compiling, "follows_every_path", lambda: False)
    together, others = count_fused(22)
    assert 20 <= apart <= 30 < 40 <= together
    np.testing.assert_array_equal(numbers[:21], others[:21])
