"""Distributions of tokens by hand, their samples, and their gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small

from forage.core.types import ForageError
from forage.ops.sampling import (
    PLAIN,
    Sampling,
    draw_token,
    entropy,
    log_distribution,
    log_probability,
    noise,
    score_token,
)

small.keep_compiled()
P = np.array([0.4, 0.3, 0.2, 0.1])
LOGITS = jnp.asarray(np.log(P) + 7.0, jnp.float32)


def probabilities(sampling=PLAIN, allowed=None, logits=LOGITS):
    return np.exp(small.compute(log_distribution, logits, sampling, allowed))


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(), P),
        (Sampling(temperature=0.5), P**2 / (P**2).sum()),
        (Sampling(temperature=0), [1, 0, 0, 0]),
        (Sampling(top_k=2), [4 / 7, 3 / 7, 0, 0]),
        (Sampling(top_k=9), P),
        (Sampling(top_p=0.65), [4 / 7, 3 / 7, 0, 0]),  # 0.4 is not enough, so the second is kept
        (Sampling(top_p=1e-6), [1, 0, 0, 0]),
        (Sampling(top_p=1.0), P),
        (Sampling(min_p=0.45), [4 / 9, 3 / 9, 2 / 9, 0]),  # from 0.45 x 0.4 = 0.18 on
        (Sampling(top_k=3, top_p=0.5), [4 / 7, 3 / 7, 0, 0]),  # 4/9 < 0.5, of what the first rule keeps
        (Sampling(temperature=0.5, top_p=0.8), [16 / 25, 9 / 25, 0, 0]),  # 16/30 < 0.8 <= 25/30
    ],
    ids=str,
)
def test_by_hand(sampling, expected):
    found = probabilities(sampling)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert (found > 0).tolist() == [value > 0 for value in expected]


def test_only_what_is_allowed_is_drawn():
    allowed = jnp.array([False, True, False, True])
    np.testing.assert_allclose(probabilities(allowed=allowed), [0, 0.75, 0, 0.25], rtol=1e-5)
    np.testing.assert_allclose(probabilities(Sampling(top_k=1), allowed), [0, 1, 0, 0], rtol=1e-5)
    scored = small.compute(lambda token: log_probability(LOGITS, token, Sampling(top_k=2), allowed), jnp.int32(0))
    assert scored == -np.inf


def test_equally_probable_tokens_stay_together():
    logits = jnp.array([1.0, 3.0, 1.0, 1.0])
    np.testing.assert_array_equal(probabilities(Sampling(top_k=2), logits=logits) > 0, [True] * 4)
    np.testing.assert_array_equal(probabilities(Sampling(top_p=0.5), logits=logits) > 0, [False, True, False, False])


def test_draws_have_their_probabilities_and_score_the_same():
    sampling = Sampling(temperature=0.7, top_p=0.95, min_p=0.05)
    rows = jnp.broadcast_to(LOGITS, (20_000, 4))

    def draw(rows):
        token, log_p = draw_token(log_distribution(rows, sampling), noise(jax.random.key(0), rows.shape))
        return token, log_p, log_probability(rows, token, sampling)

    token, log_p, scored = small.compute(draw, rows)
    expected = probabilities(sampling)
    deviation = np.sqrt(expected * (1 - expected) / len(rows))
    share = np.bincount(token, minlength=4) / len(rows)
    assert (np.abs(share - expected) <= 4 * deviation).all() and share[expected == 0].sum() == 0
    np.testing.assert_array_equal(log_p, scored)


def test_a_token_that_was_drawn_counts_as_kept_and_has_a_gradient():
    scored, slope = small.compute(
        jax.value_and_grad(lambda z: log_probability(z, jnp.int32(2), Sampling(top_k=2))), LOGITS
    )
    np.testing.assert_allclose(scored, np.log(0.2 / 0.9), rtol=1e-5)
    np.testing.assert_allclose(slope, [-4 / 9, -3 / 9, 7 / 9, 0], atol=1e-6)


def test_entropy_of_what_is_kept():
    found = small.compute(lambda z: entropy(log_distribution(z, Sampling(top_k=2))), LOGITS)
    np.testing.assert_allclose(found, -(4 / 7) * np.log(4 / 7) - (3 / 7) * np.log(3 / 7), rtol=1e-5)


def test_score_and_entropy_of_a_token_and_their_gradient():
    logits = jnp.stack([LOGITS, 40 * LOGITS, -LOGITS])
    token, heat = jnp.array([1, 0, 3]), jnp.array([[0.5], [2.0], [1.0]])
    allowed = jnp.array([True, True, False, True])
    weight = jnp.array([[0.3, -1.0, 2.0], [0.7, 0.2, -0.4]])

    def separate(z, rule):
        whole = log_distribution(z, rule, allowed)
        return log_probability(z, token, rule, allowed), entropy(whole)

    def run(logits, heat):
        rules = Sampling(heat), Sampling(top_k=2)
        found = []
        for rule in rules:
            for score in (separate, lambda z, rule: score_token(z, token, rule, allowed)):
                total = lambda z, score=score, rule=rule: (weight * jnp.stack(score(z, rule))).sum()  # noqa: E731
                found.append((jnp.stack(score(logits, rule)), jax.grad(total)(logits)))
        return found

    found = small.compute(run, logits, heat)
    for (expected, slope), (ours, own) in zip(found[::2], found[1::2], strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(own, slope, rtol=1e-4, atol=1e-5)
    p = P[[0, 1, 3]] ** 2 / (P[[0, 1, 3]] ** 2).sum()
    np.testing.assert_allclose(found[1][0][:, 0], [np.log(p[1]), -(p * np.log(p)).sum()], rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"temperature": -1.0}, "temperature of a sampler is 0 or more, not -1.0"),
        ({"temperature": float("nan")}, "temperature of a sampler is 0 or more, not nan"),
        ({"top_k": 0}, "top_k of a sampler is a whole number from 1 on, not 0"),
        ({"top_p": 0}, "top_p of a sampler is above 0 and at most 1, not 0"),
        ({"min_p": 1.5}, "min_p of a sampler is from 0 to 1, not 1.5"),
    ],
)
def test_numbers_out_of_range(options, sentence):
    with pytest.raises(ForageError, match=sentence):
        log_distribution(LOGITS, Sampling(**options))
