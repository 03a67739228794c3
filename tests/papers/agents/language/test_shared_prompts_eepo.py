"""EEPO reads the prompt that half a group shares once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_grpo import collect
from test_relatives import REWARD, setup_of

from forage.agents.language.base import answers
from forage.nn.language.generate import ALONE
from forage.nn.transformer import Transformer
from forage_papers.agents.language import eepo
from forage_papers.agents.language.eepo import Entropies


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
