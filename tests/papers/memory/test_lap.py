"""Loss-adjusted prioritised replay: frequencies of segments, by errors worked by hand."""

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from small import compute

from forage.core.types import Batch, Clock, Experience, Spec
from forage.memory.prioritised import PrioritisedReplay, PrioritisedState, empty_tree
from forage_papers.memory.lap import LAP


def tell(memory, *reports):
    """The priorities of four transitions after reports of all of them."""

    def make():
        state = PrioritisedState((), empty_tree(4), jnp.ones(()))
        for errors in reports:
            batch = Batch((), jnp.ones(4), jnp.arange(4))
            state = memory.report(state, batch, jnp.array(errors))
        return state.tree[-1][:4], state.tree[0].sum(), state.highest

    return compute(make)


def test_small_errors_are_drawn_alike_and_unjudged_ones_as_before():
    leaves, total, highest = tell(LAP(), [0.0, 0.5, 1.0, 32.0], [np.nan, 2.0, np.nan, np.nan])
    right = [1, 2**0.4, 1, 4]  # 32^0.4 = 4
    np.testing.assert_allclose(leaves, right, rtol=1e-6)
    np.testing.assert_allclose([total, highest], [sum(right), 4], rtol=1e-6)


def test_prioritised_replay_keeps_what_was_not_judged_too():
    leaves, _, _ = tell(PrioritisedReplay(priority_exponent=1.0), [1.0, 2.0, 3.0, 4.0], [np.nan, 5.0, np.nan, np.nan])
    np.testing.assert_allclose(leaves, [1, 5, 3, 4], rtol=1e-5)


def test_no_segment_weighs_less():
    weight = compute(lambda: LAP().weight(jnp.array([1.0, 4.0]), Clock(jnp.int32(9), jnp.float32(10))))
    assert weight.tolist() == [1, 1]


def test_new_transitions_get_the_highest_priority_so_far():
    example = Experience(*(jnp.zeros(()),) * 4, jnp.bool_(False), jnp.bool_(False), jnp.int32(0), ())
    rollout = jax.tree.map(lambda x: jnp.zeros((2, 1, *x.shape), x.dtype), example)
    memory, spec = LAP(capacity=4), Spec("One", spaces.Box(-1.0, 1.0, ()), spaces.Discrete(2))

    def make():
        clock = Clock(jnp.int32(0), jnp.float32(4))
        state = memory.add(memory.init(example, 1, 2, spec, None), rollout, clock)
        state = memory.report(state, Batch((), jnp.ones(1), jnp.array([0])), jnp.array([32.0]))
        return memory.add(state, rollout, clock._replace(steps=jnp.int32(2))).tree[-1][:4]

    np.testing.assert_allclose(compute(make), [4, 1, 4, 4], rtol=1e-6)
