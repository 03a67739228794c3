"""The causal transformer: one token by hand, cached steps against the full pass, and visibility."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from tiers import gate_cases

from forage.core.types import ForageError
from forage.nn.vector_transformer import TransformerConfig, VectorTransformer

small.keep_compiled()
KEY, TOKENS = jax.random.key(0), 7
SHAPE = TransformerConfig(8, 2, 4, key_heads=2)


def loud(positions="rotary", shape=SHAPE):
    """Return weights far from zero, so that any leak of invisible tokens would be noticed."""
    network = VectorTransformer(KEY, shape, positions, TOKENS, vocabulary=5)
    return jax.tree.map(lambda x: 20 * x if x.ndim == 2 else x, network)


def step_on(network, cache, text, visible=True):
    """Return the network's features, one token after another."""

    def step(cache, token):
        y, cache = network.step(cache, *token)
        return cache, y

    return jax.lax.scan(step, cache, (text, jnp.broadcast_to(visible, len(text))))[1]


TEXT = np.random.default_rng(0).normal(size=(TOKENS, 8)).astype(np.float32)


@pytest.mark.parametrize("positions", gate_cases(["rotary", "learned"], ["rotary"]))
def test_cached_steps_are_the_full_pass(positions):
    def run_both(text):
        network = loud(positions)
        prompt, cache = network.encode(text[:4], length=TOKENS)
        later = step_on(network, cache, text[4:])
        return network(text), step_on(network, network.cache(TOKENS), text), jnp.concatenate([prompt, later])

    full, from_nothing, after_prompt = small.compute(run_both, TEXT)
    np.testing.assert_allclose(from_nothing, full, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(after_prompt, full, rtol=1e-3, atol=1e-4)


def test_later_tokens_and_padding_are_not_seen():
    def looks(text):
        network, mask = loud(), jnp.arange(TOKENS) >= 2
        changed = text.at[5].set(9.0)
        padded = network(text.at[:2].set(5.0), mask), network(text, mask), network(text[2:])
        return network(text), network(changed), padded

    before, after, (padded, other, without) = small.compute(looks, jnp.asarray(TEXT))
    np.testing.assert_array_equal(before[:5], after[:5])
    assert np.abs(before[5:] - after[5:]).min(axis=1).max() > 0.01
    np.testing.assert_array_equal(padded[2:], other[2:])
    np.testing.assert_allclose(padded[2:], without, rtol=1e-3, atol=1e-4)  # positions count what is no padding


@pytest.mark.thorough
def test_cached_steps_leave_out_what_is_not_visible():
    def run_both(text):
        network, mask = loud(), jnp.array([True, True, False, True, True, False, True])
        cache = network.encode(text[:3], mask[:3], length=TOKENS)[1]
        return network(text, mask)[3:], step_on(network, cache, text[3:], mask[3:])

    full, found = small.compute(run_both, TEXT)
    np.testing.assert_allclose(found, full, rtol=1e-3, atol=1e-4)


def test_a_full_cache_forgets_the_oldest():
    def last(text):
        network = loud(shape=SHAPE._replace(layers=1))  # in one layer, nothing of what is forgotten comes by others
        return step_on(network, network.cache(3), text)[-1], network(text[-3:])[-1], network(text)[-1]

    windowed, short, whole = small.compute(last, TEXT)
    np.testing.assert_allclose(windowed, short, rtol=1e-3, atol=1e-4)  # rotations tell distances alone
    assert np.abs(windowed - whole).max() > 0.01


def test_one_block_by_hand():
    shape = TransformerConfig(4, 1, 2, inner=3, activation="relu")
    network = jax.tree.map(lambda x: 20 * x, VectorTransformer(KEY, shape, "none"))
    found = small.compute(network, TEXT[:3, :4])
    block = jax.tree.map(np.asarray, network.blocks[0])

    def norm(x, by):
        x = x - x.mean(-1, keepdims=True)
        return by.scale * x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) + by.offset

    def divide(layer, x):
        return x @ layer.weight + layer.bias

    x = TEXT[:3, :4]
    seen = norm(x, block.norms[0])
    q, k, v = (divide(layer, seen).reshape(3, 2, 2) for layer in (block.queries, block.keys, block.values))
    rows = []
    for t in range(3):
        heads = []
        for h in range(2):
            weight = np.exp(k[: t + 1, h] @ q[t, h] / np.sqrt(2))
            heads.append(weight @ v[: t + 1, h] / weight.sum())
        rows.append(np.concatenate(heads))
    x = x + divide(block.out, np.stack(rows))
    x = x + divide(block.narrow, np.maximum(divide(block.wide, norm(x, block.norms[1])), 0))
    np.testing.assert_allclose(found, norm(x, network.norm), rtol=1e-3, atol=1e-4)


def test_tokens_with_numbers_and_what_is_dropped():
    def ask():
        network = loud(shape=SHAPE._replace(dropout=0.5))
        x = network.embed(jnp.array([3, 1]))
        return network.logits(x), network.table[3] @ network.table[3], network(x), network(x, key=KEY), x

    logits, own, asked_again, taught, x = small.compute(ask)
    assert logits.shape == (2, 5) and x.shape == (2, 8)
    np.testing.assert_allclose(logits[0, 3], own, rtol=1e-4)
    assert np.abs(asked_again - taught).max() > 0.01


@pytest.mark.parametrize(
    ("shape", "positions", "words"),
    [
        (TransformerConfig(6, 1, 4), "none", "multiple of"),
        (TransformerConfig(8, 1, 4, key_heads=3), "none", "a number that divides"),
        (TransformerConfig(6, 1, 2), "rotary", "is odd"),
        (TransformerConfig(8, 1, 2), "learned", "need a length"),
        (TransformerConfig(8, 1, 2), "nowhere", "no positions 'nowhere'"),
    ],
)
def test_sizes_that_do_not_go_together_are_refused(shape, positions, words):
    with pytest.raises(ForageError, match=words):
        VectorTransformer(KEY, shape, positions)
