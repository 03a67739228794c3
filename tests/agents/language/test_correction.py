"""The correction for a sampler other than the policy, worked by hand; and groups with lost answers."""

import jax.numpy as jnp
import numpy as np
import pytest
from test_grpo import collect, run_learn, setup_of
from tiers import gate_cases

from forage.agents.language.base import AnswerRows
from forage.agents.language.correction import correction_weights
from forage.core.types import GONE

WROTE = np.array([[True, True], [True, False]])
OLD = np.log(np.float32([[0.6, 0.1], [0.5, 1.0]]))
SAMPLED = np.log(np.float32([[0.2, 0.4], [0.5, 1.0]]))  # ratios 3, 1/4 and 1; of the first answer as a whole 3/4


@pytest.mark.parametrize(
    ("rule", "weight", "cut"),
    [
        ("uncorrected", [1, 1, 1], 0),
        ("token-truncate", [2, 0.5, 1], 2 / 3),
        ("token-mask", [0, 0, 1], 2 / 3),
        ("sequence-truncate", [0.75, 0.75, 1], 0),
        ("sequence-mask", [0.75, 0.75, 1], 0),
    ],
)
def test_weights_and_mismatch_by_hand(rule, weight, cut):
    rows = AnswerRows(WROTE, WROTE, jnp.asarray(WROTE), jnp.asarray(SAMPLED), jnp.ones((2, 2)))
    found, metrics = correction_weights(jnp.asarray(OLD), rows, jnp.asarray(WROTE), rule, 0.5, 2.0)
    np.testing.assert_allclose(found, [weight[:2], [weight[2], 1]], rtol=1e-6)
    np.testing.assert_allclose(metrics["sampler_weight"], np.mean(weight), rtol=1e-6)
    np.testing.assert_allclose(metrics["sampler_cut"], cut, rtol=1e-6)
    # r - 1 - log r of 3, 1/4 and 1
    estimate = (2 - np.log(3) + np.log(4) - 0.75) / 3
    np.testing.assert_allclose(metrics["sampler_kl"], estimate, rtol=1e-6)


LOSSES = [("token-truncate", -1.5 / 8), ("uncorrected", -1 / 8), ("token-mask", 0.0)]


@pytest.mark.parametrize(("rule", "loss"), gate_cases(LOSSES, LOSSES[:1]))
def test_the_loss_is_weighed_by_the_ratio(rule, loss):
    """A sampler that gave each token half of the policy's probability: the ratio is 2, clipped to 1.5."""
    options = {"advantage": "none", "correction": rule, "correction_ceiling": 1.5}
    agent, state, batch = collect(setup_of(**options), reward=[1, 0, 0, 0, 0, 0, 0, 0])
    policy_info = batch.experience.policy_info
    half = policy_info._replace(log_probability=policy_info.log_probability - np.log(2))
    _, metrics, _ = run_learn(agent, state, batch._replace(experience=batch.experience._replace(policy_info=half)))
    np.testing.assert_allclose(metrics["policy_loss"], loss, atol=1e-5)
    np.testing.assert_allclose(metrics["sampler_gap"], np.log(2), atol=1e-5)
    np.testing.assert_allclose(metrics["sampler_kl"], 1 - np.log(2), atol=1e-5)
    assert metrics["sampler_cut"] == (rule != "uncorrected")


@pytest.mark.parametrize("correction", gate_cases([None, "uncorrected"], [None]))
def test_a_lost_answer_changes_nothing_for_the_others(correction):
    """Its reward is 9, and its group is compared as if it had one answer less."""
    agent, _, batch = collect(setup_of(correction=correction), reward=[9, 1, 0, 0, 0, 0, 0, 0])
    source = np.asarray(batch.experience.source).copy()
    source[:, 0] = GONE
    batch = batch._replace(experience=batch.experience._replace(source=jnp.asarray(source)))
    lesson = agent.collect_answers(batch)
    reward = agent.penalised_rewards(batch, lesson.rows).reshape(2, 4)
    told = agent.assign_credit(batch, lesson, reward)
    # Of 1, 0 and 0: mean 1/3 and deviation sqrt(1/3).
    expected = np.array([0, 2 / 3, -1 / 3, -1 / 3]) / (np.sqrt(1 / 3) + 1e-4)
    np.testing.assert_allclose(told.advantage[:4, 0], expected, rtol=1e-5)
    assert told.weight.tolist() == [0, 1, 1, 1, 1, 1, 1, 1]
    # Where every reward function returned None, its tokens count with advantage 0, as in TRL; also beside a lost one.
    info = batch.experience.info | {"unscored": jnp.asarray(np.float32([[1, 0, 0, 0, 0, 0, 0, 0]]))}
    unscored = batch._replace(experience=batch.experience._replace(info=info))
    told = agent.assign_credit(unscored, agent.collect_answers(unscored), reward)
    np.testing.assert_allclose(told.advantage[:4, 0], expected, rtol=1e-5)
    assert told.weight.tolist() == [1] * 8
    source[:, 1:3] = GONE
    unscored = unscored._replace(experience=unscored.experience._replace(source=jnp.asarray(source)))
    told = agent.assign_credit(unscored, agent.collect_answers(unscored), reward)
    assert told.weight.tolist() == [1, 0, 0, 1, 1, 1, 1, 1] and not told.advantage[:4].any()
