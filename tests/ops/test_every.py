"""Operations that run only if due, for many seeds at once."""

import jax
import jax.numpy as jnp
import numpy as np

from forage.core import prng
from forage.ops.every import run_every, run_if, shared_by_seeds


def test_a_loop_serves_seeds_that_are_alike_together():
    def turn(count, x):
        return run_if(shared_by_seeds(count) % 2 == 0, lambda x: x + 1, x)

    both, counts = jax.vmap(turn), jnp.array([[4, 4], [3, 3]])
    assert jax.vmap(both)(counts, jnp.zeros((2, 2))).tolist() == [[1, 1], [1, 1]]  # the first's, at every level
    assert both(counts[1], jnp.zeros(2)).tolist() == [0, 0] and turn(jnp.int32(4), 1) == 2
    # Whether to go on is one question, and not one for each seed as it is without.
    apart = jax.vmap(lambda count, x: run_if(count % 2 == 0, lambda x: x + 1, x))
    programs = [str(jax.make_jaxpr(f)(counts[0], jnp.zeros(2))) for f in (both, apart)]
    assert ["bool[2] = lt" in program for program in programs] == [False, True]


def test_what_a_turn_computes_is_computed_only_when_it_is_due():
    def turn(state, key, factor):
        return state + jnp.linalg.matrix_power(jax.random.normal(key, (32, 32)), 3) @ factor

    step = jax.jit(lambda count, state, *read: run_every(5, count, lambda state: turn(state, *read), state))
    state, key, factor = jnp.zeros((32, 32)), prng.key(0), jnp.ones((32, 32))
    np.testing.assert_array_equal(step(3, state, key, factor), state)
    np.testing.assert_allclose(step(5, state, key, factor), turn(state, key, factor), rtol=1e-5)
    program = step.lower(jnp.int32(3), state, key, factor).compile().as_text()
    assert "/body/jit(matrix_power)/dot_general" in program  # in the loop, and not before it, where all programs begin
    assert "dot_general" not in program[program.index("\nENTRY") :]
