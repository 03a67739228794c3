"""What the learner carries from rollout to rollout."""

import jax
from small import PPO as OPTIONS

from forage.config.setup import make_setup


def test_an_on_policy_run_carries_no_rollout():
    """Its last one would be as large as the agent, in every state and checkpoint, and nobody reads it again."""
    setup = make_setup("ppo", "CartPole-v1", steps=100, seeds=1, agent_options=OPTIONS)
    assert jax.tree.leaves(setup.road().shapes().learner.memory) == []
