"""Critics and judges of papers' agents read shared prompts once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_grpo import collect, run_learn
from test_relatives import REWARD, setup_of
from tiers import gate_cases

from forage.agents.language.base import LanguageAgent
from forage.agents.language.grpo import GRPO
from forage.nn.language.generate import ALONE, SharedPrefix
from forage_papers.agents.language.istar import IStar

GROUP, TURNS = SharedPrefix(prompts=4), SharedPrefix(turns=4)
JUDGES = [
    ("oreal", "text:addition", {"freeze": 0, "group_size": 4}, {GROUP}, "judge_loss"),
    ("code-rl", "text:addition", {}, {GROUP, ALONE}, "critic_loss"),  # references stand behind the policy's answers
    ("istar", "text:addition", {}, {GROUP}, "judge_loss"),
    ("istar", "text:guess", {"rollout_length": 4}, {TURNS, TURNS._replace(by_turn=False)}, "judge_loss"),
]


@pytest.mark.parametrize(("name", "environment", "options", "wanted", "metric"), gate_cases(JUDGES, JUDGES[:1]))
def test_a_judge_reads_what_rows_share_once_to_the_same_numbers(
    name, environment, options, wanted, metric, monkeypatch
):
    """The rewards of tokens and turns, and a large step of the judge by SGD, which is linear in its gradient."""
    options = {"optimiser": "sgd", "learning_rate": 0.1, "max_gradient_norm": 1e9} | options
    agent, state, batch = collect(setup_of(name, environment, **options), reward=REWARD)
    batch = batch._replace(
        experience=batch.experience._replace(info={"truth": jnp.float32([REWARD] * len(batch.experience.reward))})
    )
    read, in_pieces = [], LanguageAgent.in_pieces

    def note(self, function, rows, together=ALONE):
        read.append(together)
        return in_pieces(self, function, rows, together)

    monkeypatch.setattr(LanguageAgent, "in_pieces", note)
    lesson = jax.jit(lambda state: agent.with_log_probabilities(state, agent.collect_answers(batch)))(state)
    shared = run_learn(agent, state, batch)
    assert set(read) == wanted
    read.clear()
    monkeypatch.setattr(GRPO, "shared_prefix", lambda self, rows: ALONE)
    monkeypatch.setattr(IStar, "whole_groups", ALONE)
    alone_lesson = jax.jit(lambda state: agent.with_log_probabilities(state, agent.collect_answers(batch)))(state)
    alone = run_learn(agent, state, batch)
    assert set(read) == {ALONE}
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), lesson.more, alone_lesson.more)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), shared[0].kept.weights, alone[0].kept.weights
    )
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), shared[0].kept.weights, state.kept.weights)
    assert max(jax.tree.leaves(moved)) > 1e-3 and abs(float(shared[1][metric] - alone[1][metric])) < 1e-5
