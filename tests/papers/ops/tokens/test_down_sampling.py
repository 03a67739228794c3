"""Answers and tokens that teach most, against all subsets and by hand."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from forage_papers.ops.tokens.down_sampling import varied_mask, weightiest


@pytest.mark.thorough
@pytest.mark.parametrize(("share", "kept"), [(0.1, 2), (0.5, 3), (0.75, 5), (1.0, 6)])
def test_no_subset_of_answers_varies_more(share, kept):
    advantage = np.random.default_rng(3).normal(size=(4, 6)).astype(np.float32)
    weight = np.asarray(varied_mask(jnp.asarray(advantage), share))
    assert (weight.sum(1) == kept).all()
    for group, chosen in zip(advantage, weight > 0, strict=True):
        best = max(np.var(subset) for subset in itertools.combinations(group, kept))
        assert np.var(group[chosen]) == pytest.approx(best, rel=1e-4)


def test_right_and_wrong_answers_are_kept_alike():
    advantage = jnp.array([[1.0, -1, -1, 1, -1, -1], [0, 0, 0, 0, 0, 0]])
    weight = varied_mask(advantage, 4 / 6)
    assert (weight * advantage)[0].sum() == 0 and weight[0].sum() == weight[1].sum() == 4


def test_tokens_that_do_not_count_are_never_kept():
    score = jnp.array([[9.0, 1, 2], [3, 4, jnp.inf]])
    mask = jnp.array([[False, True, True], [True, True, False]])
    assert weightiest(score, mask, 0.5).tolist() == [[False, False, False], [True, True, False]]
    assert (weightiest(score, mask, 1.0) == mask).all()
