"""Programs evaluated in NumPy give the numbers of XLA, and a process keeps its last programs."""

import jax
import jax.numpy as jnp
import numpy as np
import numpy_helpers
import program_helpers
import pytest

from forage.core import prng

TABLE = (np.arange(24, dtype=np.float32).reshape(4, 6) - 9) ** 3 / 50
ROWS = np.array([3, 0, 9, -1, 2])


def look_up(x, i):
    return {
        "beyond the end": jnp.take(x, i, axis=0, mode="fill"),
        "at the end": jnp.take(x, i, axis=1, mode="clip"),
        "of each row": jax.vmap(lambda row, j: row[j])(x, i[:4]),
        "a window": jax.lax.dynamic_slice(x, (i[0], i[2]), (2, 3)),
        "placed": x.at[i].set(7.0),
        "added": x.at[:, i].add(2.0),
        "placed in each row": jax.vmap(lambda row, j: row.at[j].max(0.5))(x, i[:4]),
        "derivative": jax.grad(lambda y: (y[i] ** 2).sum())(x),
        "order": jnp.argsort(-(x**2) // 40, axis=1),
        "padded": jax.lax.pad(x, 5.0, ((1, -1, 0), (0, 2, 1))),
    }


def compute_numbers(x, i):
    return {
        "whole": (i // 2, i % 3, jax.lax.rem(i, 2), jax.lax.div(i, 2), i >> 1, jnp.clip(i, 0, 2)),
        "rounded": (jnp.round(x / 7), jnp.floor(x), x.astype(jnp.int32), (x * 1e9).astype(jnp.int8)),
        "summed": (jnp.cumsum(x[:, ::-1], 1), jax.lax.cummax(x, 1, reverse=True), x.mean(0), x.argmax(1)),
        "product": jnp.einsum("bij,bjk->bki", x.reshape(2, 2, 6), x.reshape(2, 6, 2)),
        "repeated": jax.lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 2), (0, x)),
        "chosen": jax.lax.cond(i[0] > 2, lambda: x, lambda: -x),
        "backwards": jax.lax.scan(lambda c, row: (c + row, c), x[0], x, reverse=True),
        "none": jax.lax.scan(lambda c, row: (c, row), 0, x[:0]),
        "functions": (jax.nn.softmax(x), jnp.exp(x / 9), jax.nn.sigmoid(x), jnp.power(jnp.abs(x), 0.3)),
    }


def draw(key, i):
    first, second = jax.random.split(key)
    keys = jax.vmap(lambda k, j: jax.random.fold_in(k, j))(jax.random.split(first, 5), i)
    return {
        "keys": keys,
        "chosen key": jnp.where(i > 0, keys, first)[1:3],
        "uniform": jax.vmap(lambda k: jax.random.uniform(k, (3,)))(keys),
        "normal": jax.random.normal(second, (2, 3)),
        "whole": jax.random.randint(second, (7,), 0, 10),
        "order": jax.random.permutation(second, 6),
    }


def numbers_of(x):
    return np.asarray(jax.random.key_data(x) if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else x)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (look_up, (TABLE, ROWS)),
        (compute_numbers, (TABLE, ROWS)),
        (draw, (jax.random.key(3), ROWS)),
        (draw, (prng.key(3), ROWS)),
    ],
)
def test_numbers_are_those_of_xla(function, arguments):
    program = jax.jit(function)
    found, expected = numpy_helpers.evaluate(program, *arguments), program(*arguments)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(found), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype, path
        np.testing.assert_allclose(numbers_of(a), numbers_of(b), rtol=1e-5, atol=1e-5, err_msg=str(path))


def test_long_programs_and_those_with_effects_are_for_xla():
    long = jax.jit(lambda x: jax.lax.scan(lambda c, _: (c + 1, None), x, length=100_000))
    with pytest.raises(numpy_helpers.NotInNumPy):
        numpy_helpers.evaluate(long, 0.0)
    told = jax.jit(lambda x: jax.debug.callback(print, x))
    with pytest.raises(numpy_helpers.NotInNumPy):
        numpy_helpers.evaluate(told, 0.0)


def test_the_last_programs_are_kept():
    written, asked = [], []

    def read_disk(name, key, *more):
        asked.append(key)
        return (None, None) if key != "on the disk" else ("program on the disk", 3)

    read_program, write_program = program_helpers.keep_last_programs(read_disk, lambda key, *_: written.append(key), 2)
    write_program("a", 0.1, "name", None, "program a", [])
    write_program("told", 0.1, "name", None, "program with callbacks", ["callback"])
    assert read_program("name", "a", None)[0] == "program a" and not asked
    assert read_program("name", "told", None)[0] is None
    assert read_program("name", "on the disk", None)[0] == "program on the disk"
    assert read_program("name", "a", None)[0] == "program a"  # so that it is the last one used
    write_program("b", 0.1, "name", None, "program b", [])
    assert [read_program("name", key, None)[0] for key in ("a", "b")] == ["program a", "program b"]
    assert asked == ["told", "on the disk"] and written == ["a", "told", "b"]
    assert read_program("name", "on the disk", None)[0] and asked[2:] == ["on the disk"]  # it made room for b
