"""Prompts that rows of papers' agents share are read once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_grpo import collect, run_learn
from test_relatives import REWARD, setup_of
from tiers import gate_cases

from forage.agents.language.base import LanguageAgent, answers
from forage.agents.language.grpo import GRPO
from forage.nn.language.generate import ALONE, SharedPrefix
from forage.nn.transformer import Transformer
from forage_papers.agents.language import eepo
from forage_papers.agents.language.eepo import Entropies
from forage_papers.agents.language.istar import IStar


@pytest.mark.thorough
def test_the_prompt_of_half_a_group_is_read_once_to_the_same_answers(monkeypatch):
    """Each row by itself, and the rows of half a group together: equal tokens, and log-probabilities up to rounding."""
    agent, state, batch = collect(setup_of("eepo"), reward=REWARD)
    context, room = batch.experience.observation["context"][0], jnp.int32([6, 5, 4, 3, 2, 1, 6, 6])
    keys = jax.random.key_data(jax.random.split(jax.random.key(3), 8))
    sure, extend, read = state._replace(kept=Entropies(jnp.zeros(3), jnp.int32(1))), Transformer.extend, []

    def count(self, cache, tokens, *more):
        read.append(tokens.shape)
        return extend(self, cache, tokens, *more)

    monkeypatch.setattr(Transformer, "extend", count)

    def write():
        return jax.jit(lambda state: agent.write_answers(state, context, keys, jnp.ones((8, 6)), 6, True, room))(sure)

    shared, prompts = write(), {rows for rows, columns in read if columns == context.shape[1]}
    assert prompts == {2, 4}  # 2 groups; 4 where their contexts are not alike
    read.clear()
    monkeypatch.setattr(eepo, "answers", lambda *given, together: answers(*given))
    monkeypatch.setattr(eepo, "SharedPrefix", lambda prompts: ALONE)
    alone, prompts = write(), {rows for rows, columns in read if columns == context.shape[1]}
    assert prompts == {4} and np.array_equal(shared[0], alone[0]) and (np.asarray(shared[0]) > 0).sum() > 8
    np.testing.assert_allclose(shared[1], alone[1], atol=1e-4)


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
