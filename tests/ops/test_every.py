"""What is done when it is due, for many seeds at once."""

import jax
import jax.numpy as jnp

from forage.ops.every import alike, when


def test_a_loop_serves_seeds_that_are_alike_together():
    def turn(count, x):
        return when(alike(count) % 2 == 0, lambda x: x + 1, x)

    both, counts = jax.vmap(turn), jnp.array([[4, 4], [3, 3]])
    assert jax.vmap(both)(counts, jnp.zeros((2, 2))).tolist() == [[1, 1], [1, 1]]  # the first's, at every level
    assert both(counts[1], jnp.zeros(2)).tolist() == [0, 0] and turn(jnp.int32(4), 1) == 2
    # Whether to go on is one question, and not one for each seed as it is without.
    apart = jax.vmap(lambda count, x: when(count % 2 == 0, lambda x: x + 1, x))
    programs = [str(jax.make_jaxpr(f)(counts[0], jnp.zeros(2))) for f in (both, apart)]
    assert ["bool[2] = lt" in program for program in programs] == [False, True]
