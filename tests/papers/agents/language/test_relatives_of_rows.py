"""Relatives of GRPO that are rows of papers' named settings, and RAFT, with the core's tests (`test_relatives`)."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import test_relatives as core
from test_grpo import model
from test_relatives import SMALL, act_out, setup_of
from tiers import first, repeat

from forage.config.resolve import resolve
from forage.core.errors import ForageError
from forage.core.types import AGENT
from forage_papers.agents.language.raft import RAFT
from forage_papers.agents.settings import SETTINGS

CHOICES = ["remax", "lite-ppo", "grpo-tcr", "tti", "max-rl", "pass-at-k", "max-at-k"]
"""Relatives that change defaults alone."""
core.OWN |= {"pass-at-k": {"best_of": 2}}  # the usual four are the whole group, whose best is then one number
SLOPES = [("max-rl", {"estimator": "k2"}, core.K2 / 2), ("remax", {}, 0 * core.X)]
test_a_relative_is_grpo_with_its_fields = repeat(core.test_a_relative_is_grpo_with_its_fields, CHOICES)
test_a_divergence_moves_the_policy_as_its_estimator_does = repeat(
    core.test_a_divergence_moves_the_policy_as_its_estimator_does, SLOPES
)
test_behaviours_of_text_say_what_they_need = repeat(
    core.test_behaviours_of_text_say_what_they_need, first(1, ["greedy-first-sample", "reference-policy"])
)
test_every_rule_learns_from_several_steps = repeat(core.test_every_rule_learns_from_several_steps, ["raft"])
test_bad_settings_are_one_sentence = repeat(
    core.test_bad_settings_are_one_sentence, [("raft", {"selection": "worst"}, "best, above")]
)
NOTHING = ("grpo-tcr", "tti")  # they learn nothing from groups without a right answer, as these all are
RESUMED = [name for name in CHOICES if name not in NOTHING]
test_resumed_is_as_if_never_stopped = repeat(core.test_resumed_is_as_if_never_stopped, [*RESUMED, "raft"])


def test_every_choice_is_a_row_of_the_named_settings():
    core.check_choices(CHOICES, SETTINGS)


def test_the_best_answer_is_learned_from():
    agent = setup_of("raft").learner().agent
    assert isinstance(agent, RAFT)
    reward = jnp.array([[0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 1.0]])
    assert agent.answer_advantages(reward)[1].tolist() == [[0, 0, 1, 0], [1, 0, 0, 0]]
    above = dataclasses.replace(agent, selection="above")
    assert above.answer_advantages(reward)[1].tolist() == [[0, 0, 1, 0], [1, 1, 0, 1]]
    # Rejection sampling keeps what is right, and not what is short
    assert above.answer_advantages(reward - 0.6, reward)[1].tolist() == [[0, 0, 1, 0], [1, 1, 0, 1]]


def test_the_first_answer_of_a_group_is_greedy():
    decision, _ = act_out(setup_of("remax"), "remax")
    assert decision.policy_info.temperature[:, 0].tolist() == [0, 1, 1, 1] * 2
    assert (np.asarray(decision.source) == AGENT).all()
    assert (np.asarray(decision.policy_info.log_probability)[::4] == 0).all()


@pytest.mark.parametrize(
    ("name", "needs"),
    [("remax", "greedy-first-sample"), ("a-star-po", "reference-policy"), ("xpo", "reference-policy")],
)
def test_an_agent_says_which_behaviour_it_needs(name, needs):
    options = {"model": model()} | SMALL | {"group_size": 2 if name == "xpo" else 4} | core.OWN.get(name, {})
    with pytest.raises(ForageError, match=f"use --behaviour {needs}"):
        resolve(name, "text:addition", agent_options=options, behaviour="policy", steps=64, seeds=[0])
