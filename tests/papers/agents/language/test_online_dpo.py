"""Agents that learn from preferences between their own answers: online DPO and XPO."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_language_agents as core
from test_grpo import collect, run_learn
from test_language_agents import setup_of
from tiers import repeat

from forage.ops.tokens.preferences import PREFERENCES
from forage_papers.agents.language.online_dpo import OnlineDPO, Pair

OPTIONS = {
    "online-dpo": {"group_size": 4, "learning_rate": 1e-3},
    "xpo": {},
}
core.OPTIONS |= OPTIONS
test_bad_settings_are_one_sentence = repeat(
    core.test_bad_settings_are_one_sentence,
    [
        ("online-dpo", {"preference": "dop"}, "dpo"),
        ("online-dpo", {"preference": "xpo"}, "the agent xpo"),
        ("online-dpo", {"minibatches": 4}, "2 pairs"),
        ("online-dpo", {"preference": "kto", "minibatches": 2}, "two prompts"),
        ("xpo", {"group_size": 4}, "2 answers"),
    ],
)
test_resumed_is_as_if_never_stopped = repeat(core.test_resumed_is_as_if_never_stopped, OPTIONS)


@pytest.mark.parametrize("preference", [name for name in PREFERENCES if name != "xpo"])
@pytest.mark.thorough
def test_the_better_answer_gains_on_the_worse(preference):
    agent, state, batch = collect(setup_of("online-dpo", preference=preference), reward=[0, 0, 1, 0, 1, 1, 1, 1])
    after, metrics, _ = run_learn(agent, state, batch)
    assert metrics["zero_variance"] == 0.5
    rows = agent.rows(batch)
    change = (
        agent.score_tokens(after.network, state, rows)[0] - agent.score_tokens(state.network, state, rows)[0]
    ) * rows.wrote
    change = np.asarray(change.sum(1))
    assert change[2] > change[0]
    assert all(np.isfinite(value) for value in metrics.values())


@pytest.mark.thorough
def test_the_first_loss_of_dpo_is_that_of_a_coin():
    agent, state, batch = collect(setup_of("online-dpo"), reward=[0, 0, 1, 0, 1, 1, 1, 0])
    metrics = run_learn(agent, state, batch)[1]
    assert np.isclose(metrics["preference_loss"], np.log(2), atol=1e-5) and metrics["zero_variance"] == 0


def test_the_bonus_for_exploring_is_of_the_first_policy_s_answer():
    learner = setup_of("xpo", optimism=0.5).learner()
    agent, state = learner.agent, learner.agent.init(jax.random.key(0), learner.spec)
    now = jnp.array([[-1.0, -2.0], [-3.0, -5.0]])
    pair = Pair(None, now, jnp.ones(2), jnp.array([True, False]))
    assert isinstance(agent, OnlineDPO)
    loss = agent.losses(state.network, state, pair, now)
    assert np.allclose(loss, np.log(2) + 0.5 * np.array([-2.0, -3.0]), atol=1e-6)
