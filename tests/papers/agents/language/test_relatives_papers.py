"""GRPO's relatives: each is GRPO with its fields, or has one rule of its own that is worked by hand here."""

import jax.numpy as jnp
import numpy as np
import pytest
from test_grpo import collected, learned, model

from forage.agents.language.base import Aux
from forage.agents.settings import DAPO
from forage.config.setup import make_setup
from forage.core.types import OUTCOME, Batch, Experience
from forage_papers.agents.language.a_star_po import AStarPO
from forage_papers.agents.language.rl_plus import RLPlus
from forage_papers.agents.language.shaped import BAPO, GRPOLambda
from forage_papers.rewards.verifiers.shorter import Shorter

"""Relatives that change defaults alone."""

"""Relatives with a rule of their own."""

SMALL = {"num_envs": 8, "group_size": 4, "minibatches": 1, "epochs": 1}
REWARD = [1, 0, 0, 0, 1, 1, 0, 1]


def setup_of(name: str, environment: str = "text:addition", **options):
    options = {"model": model()} | SMALL | options
    if name == "distill":
        options = {"teacher": model(1)} | options
    if name == "pass-at-k":  # the usual four are the whole group, whose best is then one number
        options = {"best_of": 2} | options
    if name == "a-star-po":
        options = {"value_answers": 2} | options
    return make_setup(name, environment, agent_options=options, steps=64, seeds=[0])


def lengthy(reward, lengths, info=None, **options):
    """DAPO, and one group of answers of such lengths, of 100 at most."""
    agent = DAPO(model=model(), num_envs=4, group_size=4, **options)
    action = jnp.where(jnp.arange(100) < jnp.array(lengths)[:, None], 5, 0)[None]
    seen = {"context": jnp.ones((1, 4, 2), jnp.int32), "reference": jnp.zeros_like(action)}
    flags, source = jnp.ones((1, 4), bool), jnp.zeros((1, 4), jnp.int32)
    aux = Aux(jnp.zeros(action.shape), jnp.ones(action.shape))
    paid = jnp.array([reward], jnp.float32)
    experience = Experience(seen, action, paid, seen, flags, flags, source, aux)
    return agent, Batch(experience._replace(info=info or {}), jnp.ones(4), jnp.arange(4))


def test_agents_of_text_get_what_the_environment_paid_beside_what_a_part_makes_of_it():
    part = Shorter(price=0.25, group_size=4)
    learner = make_setup("dapo", "text:addition", agent_options={"model": model()} | SMALL, rewards=part).learner()
    _, batch = lengthy([0, 1, 0, 0], [1, 2, 3, 4])
    shorter = learner.relabelled((), batch.experience)
    np.testing.assert_allclose(shorter.reward[0], [-0.25, 1, -0.25, -0.5])
    assert shorter.rewards[OUTCOME].tolist() == [[0, 1, 0, 0]]


def test_answers_are_short_where_most_are_right():
    """Only the better of two groups has rewards by length; there the longer right answer is worth less."""
    agent, _, batch = collected(setup_of("grpo-lambda", share=0.5), reward=REWARD)
    assert isinstance(agent, GRPOLambda)
    rows = agent.rows(batch)
    wrote = jnp.arange(rows.wrote.shape[1]) < jnp.array([1, 1, 1, 1, 2, 1, 1, 1])[:, None]
    paid = agent.rewarded(batch, rows._replace(wrote=wrote))
    assert paid[:4].tolist() == [1, 0, 0, 0]
    assert paid[6] == 0 and paid[4] < paid[5] < 1 and paid[5] == paid[7]


@pytest.mark.thorough
def test_bounds_move_before_the_first_step():
    agent, state, batch = collected(setup_of("bapo", target=9.0), reward=[1, 0, 0, 0, 0, 0, 0, 0])
    assert isinstance(agent, BAPO)
    _, metrics, _ = learned(agent, state, batch)
    assert np.isclose(metrics["floor"], agent.last_floor) and np.isclose(metrics["top"], agent.last_top)


def test_the_regression_moves_by_the_advantage_over_the_value():
    agent = setup_of("a-star-po").learner().agent
    assert isinstance(agent, AStarPO)
    advantage, weight = agent.compared(jnp.array([[1.0, 0.0, 0.0, 1.0]]))
    value = 0.5 * np.log((np.exp(2) + 1) / 2)
    assert np.allclose(advantage[0, 2:], [-value, 1 - value]) and weight.tolist() == [[0, 0, 1, 1]]


@pytest.mark.thorough
def test_references_stand_behind_the_answers():
    agent, _, batch = collected(setup_of("rl-plus"), reward=REWARD)
    assert isinstance(agent, RLPlus)
    lesson = agent.credited(batch, agent.gathered(batch), jnp.array(REWARD, jnp.float32).reshape(2, 4))
    assert lesson.weight.shape == (10,) and lesson.more.tolist() == [0] * 8 + [1] * 2
    assert np.allclose(lesson.advantage[8:, 0], [0.75 / 0.5, 0.25 / 0.5], atol=1e-4)
    reference = batch.experience.observation["reference"][0, ::4]
    assert np.array_equal(lesson.rows.wrote[8:], reference > 0)
    alone = agent.credited(batch, agent.gathered(batch), jnp.zeros((2, 4)))
    assert np.allclose(alone.advantage[8:, 0], 1, atol=1e-4)
