"""NLPO writes and scores tokens that its masking policy allows, and renews that policy from time to time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from resuming_helpers import check_resumed
from test_grpo import SMALL, collect, model, run_learn

from forage.config.resolve import resolve
from forage_papers.agents.language.values.nlpo import NLPO, allow_tokens, top_tokens

LOGITS = np.log(np.float32([0.5, 0.3, 0.15, 0.05]))


def test_the_masking_policy_allows_its_most_probable_tokens():
    # As with top-p: the most probable tokens, until they have the share together
    shares = {0.4: 1, 0.6: 2, 0.79: 2, 0.9: 3, 1.0: 4}
    allow = jax.jit(jax.vmap(lambda share, least: top_tokens(LOGITS, share, least).sum()))
    given = np.float32([*shares, 0.4]), np.int32([1] * len(shares) + [3])
    assert allow(*given).tolist() == [*shares.values(), 3]


def test_a_policy_is_masked_by_the_earlier_ones_logits():
    class Identity:
        architecture = SMALL._replace(width=4)

        def logits(self, hidden):
            return hidden

    pair = allow_tokens(Identity(), Identity(), 0.79, 1)
    hidden = np.concatenate([np.float32([1, 2, 3, 4]), LOGITS])
    assert jax.jit(pair.logits)(hidden).tolist() == [1, 2, -np.inf, -np.inf]


@pytest.mark.thorough
def test_sampler_and_learner_are_one_distribution_over_allowed_tokens():
    options = {"model": model(), "num_envs": 8, "minibatches": 1, "epochs": 1, "mask_share": 0.5}
    agent, state, batch = collect(resolve("nlpo", "text:addition", agent_options=options, steps=64, seeds=[0]))
    assert isinstance(agent, NLPO)
    state = state._replace(rollouts=jnp.int32(3), mask=model(1))
    _, metrics, _ = run_learn(agent, state._replace(mask=state.network), batch)
    assert metrics["first_ratio"] == 0 and metrics["sampler_gap"] < 1e-4
    rows = agent.rows(batch)
    allowed = top_tokens(agent.logits(state.network, rows), 0.5, 1)
    token = rows.tokens[:, -rows.wrote.shape[1] :]
    assert np.asarray(jnp.take_along_axis(allowed, token[..., None], -1)[..., 0])[np.asarray(rows.wrote)].all()
    for rollouts, renewed in ((3, False), (4, True)):  # the fifth rollout renews it by the policy that wrote it
        after, _, _ = run_learn(agent, state._replace(rollouts=jnp.int32(rollouts)), batch)
        same = jax.tree.map(np.array_equal, after.mask, state.network)
        assert jax.tree.all(same) == renewed


@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped(tmp_path):
    options = {"model": model(), "num_envs": 8, "minibatches": 1, "epochs": 1, "mask_interval": 2}
    setup = resolve("nlpo", "text:addition", agent_options=options, steps=64, seeds=[0])
    check_resumed(tmp_path, setup.learner().agent, "text:addition", 24, 40)
