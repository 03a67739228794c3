"""GRPO's relatives of papers: each has one rule of its own that is worked by hand here."""

import jax.numpy as jnp
import numpy as np
import pytest
import test_relatives as core
from test_grpo import collect, model, run_learn
from test_relatives import REWARD, SMALL, act_out, lengthy, setup_of
from tiers import repeat

from forage.config.part_data import from_config, to_config
from forage.config.registry import part_class
from forage.config.resolve import resolve
from forage.core.types import AGENT, GUIDE, OUTCOME
from forage_papers.agents.language.a_star_po import AStarPO
from forage_papers.agents.language.rl_plus import RLPlus
from forage_papers.agents.language.shaped import BAPO, GRPOLambda
from forage_papers.rewards.verifiers.shorter import Shorter

RULES = ["grpo-lambda", "entropy-shaped", "bapo", "lp-reg", "a-star-po", "rover", "rl-plus"]
"""Relatives with a rule of their own."""
core.OWN |= {"a-star-po": {"value_answers": 2}}
test_every_rule_learns_from_several_steps = repeat(core.test_every_rule_learns_from_several_steps, RULES)
test_bad_settings_are_one_sentence = repeat(
    core.test_bad_settings_are_one_sentence,
    [
        ("entropy-shaped", {"loss": "gmpo"}, "gmpo"),
        ("bapo", {"floor": 0.99}, "floor of BAPO is at most last_floor"),
        ("lp-reg", {"loss": "cispo"}, "leave loss out"),
        ("a-star-po", {"value_answers": 4}, "group_size"),
        ("rover", {"top_p": 0.5}, "top_p"),
        ("rl-plus", {"minibatches": 4}, "references"),
    ],
)
test_resumed_is_as_if_never_stopped = repeat(core.test_resumed_is_as_if_never_stopped, RULES)


def test_stored_runs_of_before_are_read():
    stored = to_config(part_class("agent", "loop")()) | {"aggregation": "constant"}
    assert from_config(stored).aggregation == "sequence-mean"


@pytest.mark.thorough
def test_the_first_policy_writes_the_first_answers():
    decision, _ = act_out(setup_of("a-star-po"), "a-star-po")
    assert decision.source.tolist() == [GUIDE, GUIDE, AGENT, AGENT] * 2
    assert (np.asarray(decision.action)[:, 0] > 0).all()


def test_agents_of_text_get_what_the_environment_paid_beside_what_a_part_makes_of_it():
    part = Shorter(price=0.25, group_size=4)
    learner = resolve("dapo", "text:addition", agent_options={"model": model()} | SMALL, rewards=part).learner()
    _, batch = lengthy([0, 1, 0, 0], [1, 2, 3, 4])
    shorter = learner.relabel((), batch.experience)
    np.testing.assert_allclose(shorter.reward[0], [-0.25, 1, -0.25, -0.5])
    assert shorter.rewards[OUTCOME].tolist() == [[0, 1, 0, 0]]


def test_answers_are_short_where_most_are_right():
    """Only the better of two groups has rewards by length; there the longer right answer is worth less."""
    agent, _, batch = collect(setup_of("grpo-lambda", share=0.5), reward=REWARD)
    assert isinstance(agent, GRPOLambda)
    rows = agent.rows(batch)
    wrote = jnp.arange(rows.wrote.shape[1]) < jnp.array([1, 1, 1, 1, 2, 1, 1, 1])[:, None]
    paid = agent.penalised_rewards(batch, rows._replace(wrote=wrote))
    assert paid[:4].tolist() == [1, 0, 0, 0]
    assert paid[6] == 0 and paid[4] < paid[5] < 1 and paid[5] == paid[7]


@pytest.mark.thorough
def test_bounds_move_before_the_first_step():
    agent, state, batch = collect(setup_of("bapo", target=9.0), reward=[1, 0, 0, 0, 0, 0, 0, 0])
    assert isinstance(agent, BAPO)
    _, metrics, _ = run_learn(agent, state, batch)
    assert np.isclose(metrics["floor"], agent.last_floor) and np.isclose(metrics["top"], agent.last_top)


def test_the_regression_moves_by_the_advantage_over_the_value():
    agent = setup_of("a-star-po").learner().agent
    assert isinstance(agent, AStarPO)
    advantage, weight = agent.answer_advantages(jnp.array([[1.0, 0.0, 0.0, 1.0]]), None, jnp.ones((1, 4), bool))
    value = 0.5 * np.log((np.exp(2) + 1) / 2)
    assert np.allclose(advantage[0, 2:], [-value, 1 - value]) and weight.tolist() == [[0, 0, 1, 1]]


@pytest.mark.thorough
def test_references_stand_behind_the_answers():
    agent, _, batch = collect(setup_of("rl-plus"), reward=REWARD)
    assert isinstance(agent, RLPlus)
    lesson = agent.assign_credit(batch, agent.collect_answers(batch), jnp.array(REWARD, jnp.float32).reshape(2, 4))
    assert lesson.weight.shape == (10,) and lesson.more.tolist() == [0] * 8 + [1] * 2
    assert np.allclose(lesson.advantage[8:, 0], [0.75 / 0.5, 0.25 / 0.5], atol=1e-4)
    reference = batch.experience.observation["reference"][0, ::4]
    assert np.array_equal(lesson.rows.wrote[8:], reference > 0)
    alone = agent.assign_credit(batch, agent.collect_answers(batch), jnp.zeros((2, 4)))
    assert np.allclose(alone.advantage[8:, 0], 1, atol=1e-4)
