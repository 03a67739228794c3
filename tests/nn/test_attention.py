"""Attention in blocks of queries: the same numbers as all at once, and memory that grows linearly in the text."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from language_helpers import draw

from forage.nn.language import attention
from forage.nn.language.architecture import Architecture
from forage.nn.language.attention import NOTHING, AttentionRule, Sight, attend
from forage.nn.language.generate import log_probabilities

RULES = {"plain": AttentionRule(0.5), "bounded, with a window": AttentionRule(0.5, 3.0, 5)}


def padded_positions(length, *padding):
    """Return the positions of rows with padding in front, -1 where it is."""
    columns = np.arange(length)
    return np.stack([np.where(columns < front, NOTHING, columns - front) for front in padding])


@pytest.mark.thorough
@pytest.mark.parametrize("behind", [0, 7], ids=["ordered", "into a longer cache"])
@pytest.mark.parametrize("name", RULES)
def test_blocks_give_the_numbers_of_all_at_once(name, behind, monkeypatch):
    """The last 13 of 19 columns are queries; in a cache, columns stand behind them that are not written yet."""
    key = padded_positions(19, 0, 9)
    sight = Sight(
        jnp.asarray(np.maximum(key[:, -13:], 0)), jnp.pad(jnp.asarray(key), ((0, 0), (0, behind)), constant_values=-1)
    )
    generator = np.random.default_rng(0)
    shapes = (2, 2, 3, 13, 4), (2, 2, 19 + behind, 4), (2, 2, 19 + behind, 4)
    arrays = [jnp.asarray(generator.normal(size=shape), jnp.float32) for shape in shapes]

    def total(arrays):
        found = attend(*arrays, sight, RULES[name], ordered=not behind)
        found = jnp.where(key[:, None, None, -13:, None] >= 0, found, 0.0)  # what padding attends to means nothing
        return (found**2 * jnp.arange(1, 14)[:, None]).sum(), found

    run = lambda: small.compute(jax.value_and_grad(total, has_aux=True), arrays)  # noqa: E731
    whole = run()
    monkeypatch.setattr(attention, "BLOCK", 2)
    monkeypatch.setattr(attention, "WHOLE", 4)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), whole, run())


@pytest.mark.thorough
@pytest.mark.parametrize("remat", [False, True])
def test_memory_of_a_gradient_grows_linearly_in_the_text(remat):
    """By the report of the compiler, with padding, at 512, 1,024 and 2,048 tokens."""
    network = draw(Architecture(64, 32, 2, 4, 64, length=2048, family="qwen2", key_heads=2, attention_bias=True))

    def temporaries(length):
        text = jax.ShapeDtypeStruct((2, length), jnp.int32), jax.ShapeDtypeStruct((2, length), jnp.bool_)

        def loss(network, tokens, mask):
            return log_probabilities(network, tokens, mask=mask, remat=remat)[0].sum()

        compiled = jax.jit(jax.grad(loss)).lower(network, *text).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    short, middle, long = map(temporaries, (512, 1024, 2048))
    assert middle < 2.1 * short and long < 2.1 * middle
    assert long < 4 * 2 * 4 * 2048**2  # less than one layer's weights of attention
