"""Clip-Cov: tokens that are left out for their covariance, by hand, and stopping and resuming."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from resuming_helpers import check_resumed
from test_grpo import model
from test_relatives import setup_of

from forage.agents.language.base import AnswerRows
from forage.agents.language.grpo import LossInputs, Scores
from forage_papers.agents.language.selective.clip_cov import ClipCov, choose_covarying


def test_a_few_tokens_that_vary_with_their_advantage_teach_nothing():
    """Less their means of 0 and -1, the advantages 2, -2 and log-probabilities 0, -1, -2 have covariances -2 ... 2."""
    advantage, log_p = jnp.float32([[2.0], [-2.0]]), jnp.float32([[0.0, -1.0, -2.0]] * 2)
    draw, mask = np.float32([[0.9, 0, 0], [0, 0, 0.5]]), np.ones((2, 3), bool)
    lone = np.array([[True] * 3, [True, True, False]])
    choose = jax.jit(choose_covarying)
    ends = np.array([[True, False, False], [False, False, True]])  # with the covariance 2
    for share, low, high, allowed, found in (
        (1.0, 1, 5, mask, ends),
        (0.0002, 1, 5, mask, ends & (draw < 0.9)),  # one token at least, of the smallest draw
        (1.0, 1, 5, lone, ends & (draw > 0.5)),
        (1.0, 2, 5, mask, ends & False),
        (0.34, -3, -1, mask, np.array([[False, False, True], [True, False, False]])),
    ):
        assert np.array_equal(choose(advantage, log_p, mask, allowed, draw, share, low, high), found)


@pytest.mark.thorough
def test_replayed_answers_have_bounds_of_their_own():
    agent = ClipCov(model=model(), covariance_share=1.0, older_share=1.0)
    log_p, mask = jnp.float32([[0.0, -1.0, -2.0]] * 4), jnp.ones((4, 3), bool)
    rows, advantage = AnswerRows(*[mask] * 5), jnp.float32([[1.5], [-1.5], [2.5], [-2.5]])
    lesson = LossInputs(rows, advantage, jnp.ones(4), log_p, log_p, jnp.arange(4) > 1, jnp.zeros((4, 3)))
    scores = Scores(log_p, log_p, 0 * log_p, mask)
    np.testing.assert_array_equal(agent.covarying(lesson, scores).sum(1), [1, 1, 1, 1])
    # 1.5 is above the bound of new answers and below that of replayed ones, whose ratios of 2 are clipped where A > 0
    swapped = agent.covarying(lesson._replace(older=jnp.arange(4) < 2), scores._replace(old=log_p - np.log(2)))
    np.testing.assert_array_equal(swapped.sum(1), [0, 0, 0, 1])


@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped(tmp_path):
    agent = setup_of("clip-cov", covariance_low=-5.0).learner().agent
    check_resumed(tmp_path, agent, "text:addition", 24, 40)
