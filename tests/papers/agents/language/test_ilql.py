"""Values of recorded tokens by hand: returns, temporal differences and expectiles; and whole runs."""

from pathlib import Path

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recorded_helpers import check_recorded
from test_grpo import model, setup_of

from forage_papers.agents.language.values.ilql import ILQL, following_values, ilql_losses

WROTE = np.array([[True, True, False, True]])


def test_the_losses_of_ilql_by_hand():
    """Three tokens and a column of a reply; the reward 1 comes with the last token."""
    q = (np.float32([[1, 2, 9, 3]]), np.float32([[0, 0, 9, 0]]))
    slow, value = np.float32([[1, 0, 9, 2]]), np.float32([[0, 2, 9, 1]])
    reward = np.float32([[0, 0, 9, 1]])
    of_q, of_v, after = jax.jit(lambda *x: (*ilql_losses(q, *x, 0.5, 0.75), following_values(x[1], x[3])))(
        slow, value, reward, WROTE
    )
    assert after[0, [0, 1, 3]].tolist() == [2, 1, 0]
    # Targets 0 + 0.5 x 2, 0 + 0.5 x 1 and 1
    errors = [0, 1.5, 2], [-1, -0.5, -1]
    np.testing.assert_allclose(of_q, sum(np.square(one).sum() / 2 / 3 for one in errors), rtol=1e-6)
    # V is below, above and below the slow Q
    np.testing.assert_allclose(of_v, (0.75 * 1 + 0.25 * 4 + 0.75 * 1) / 2 / 3, rtol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["ilql", "mc-returns"])
def test_resumed_is_as_if_never_stopped(name: str, tmp_path: Path) -> None:
    last = check_recorded(name, "scored", tmp_path, learns=name == "mc-returns")
    assert {"loss", "q_loss", "cql"} <= last.keys()


@pytest.mark.thorough
def test_texts_are_written_by_the_first_policy_and_the_lower_q():
    agent, spec = ILQL(model=model()), setup_of().learner().spec
    state = agent.init(jax.random.key(0), spec)
    both = tuple(
        equinox.tree_at(lambda head: head.layers[-1].bias, head, head.layers[-1].bias.at[np.array(at)].set(50.0))
        for head, at in zip(state.kept.heads.tokens, ([7, 9], [7, 8]), strict=True)
    )
    state = state._replace(kept=state.kept._replace(heads=state.kept.heads._replace(tokens=both)))
    keys, heat = jax.random.key_data(jax.random.split(jax.random.key(0), 2)), jnp.ones((2, 5))
    context = jnp.array([[0, 4, 5], [3, 4, 5]])
    tokens, _ = jax.jit(lambda: agent.write_answers(state, context, keys, heat, 5, True))()
    assert tokens.tolist() == [[8] * 5] * 2  # numbers of tokens are those of the tokenizer plus 1
