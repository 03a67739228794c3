"""Agents of language with another kind of learning than GRPO's: supervised, a critic."""

import jax.numpy as jnp
import numpy as np
import pytest
from resuming_helpers import check_resumed
from test_grpo import collect, model, run_learn
from test_relatives import act_out

from forage.agents.language.ppo_language import at_last, conversation, split_turns, token_gae
from forage.agents.language.sft import SFT
from forage.config.resolve import resolve
from forage.core.errors import ForageError
from forage.core.types import GUIDE

OPTIONS = {
    "sft": {},
    "ppo-language": {"minibatches": 2},
}


def setup_of(name: str, environment: str = "text:addition", **options):
    options = {"model": model(), "num_envs": 8} | OPTIONS[name] | options
    return resolve(name, environment, agent_options=options, steps=64, seeds=[0])


@pytest.mark.thorough
def test_references_are_written_and_become_likelier():
    setup = setup_of("sft", learning_rate=1e-3)
    decision, seen = act_out(setup, "sft")
    assert np.array_equal(decision.action, seen["reference"])
    assert (np.asarray(decision.source) == GUIDE).all()
    agent, state, batch = collect(setup)
    assert isinstance(agent, SFT)
    after, metrics, _ = run_learn(agent, state, batch)
    again = run_learn(agent, after, batch)[1]
    assert again["cross_entropy"] < metrics["cross_entropy"]
    # Untrained, every token is about as likely as any.
    assert abs(metrics["cross_entropy"] - np.log(512)) < 0.5 and metrics["taught"] == 1


def test_advantages_along_tokens_by_hand():
    # Of five columns the third was not written: the first answer's padding, say.
    wrote = jnp.array([[True, True, False, True]])
    value, price = jnp.array([[0.5, 0.25, 9.0, 0.75]]), jnp.array([[0.0, 0.1, 9.0, 0.0]])
    found = token_gae(jnp.array([[0.0, 0.0, 9.0, 1.0]]), price, value, wrote, 0.5, 0.5)
    last = 1 - 0.75
    second = -0.1 + 0.5 * 0.75 - 0.25 + 0.25 * last
    first = 0.5 * 0.25 - 0.5 + 0.25 * second
    assert np.allclose(found, [[first, second, 0, last]])
    rows = jnp.arange(12).reshape(4, 3)
    # Each turn is paid at its last token, and one that waits is not
    three = jnp.array([[True, True, False], [True, True, True], [False] * 3])
    assert at_last(jnp.array([1.0, 2.0, 3.0]), three).tolist() == [[0, 1, 0], [0, 0, 2], [0, 0, 0]]
    assert conversation(rows, 2).tolist() == [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]]
    assert np.array_equal(split_turns(conversation(rows, 2), 2), rows)


@pytest.mark.thorough
def test_a_critic_learns_what_answers_are_worth():
    setup = setup_of("ppo-language", value_coefficient=1.0, learning_rate=1e-3, value_clip=10.0, epochs=4)
    agent, state, batch = collect(setup, reward=np.ones(8))
    after, metrics, _ = run_learn(agent, state, batch)
    assert metrics["first_ratio"] == 0
    again = run_learn(agent, after, batch)[1]
    assert again["value_loss"] < metrics["value_loss"] < 0.5


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("sft", {"aggregation": "constant"}, "token-mean"),
    ],
)
def test_bad_settings_are_one_sentence(name, options, says):
    with pytest.raises(ForageError, match=says):
        setup_of(name, **options).learner().check()


@pytest.mark.thorough
@pytest.mark.parametrize("name", list(OPTIONS))
def test_resumed_is_as_if_never_stopped(name, tmp_path):
    check_resumed(tmp_path, setup_of(name).learner().agent, "text:addition", 24, 40)
