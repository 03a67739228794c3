"""What the learner carries from rollout to rollout."""

import jax
import pytest
from small import PPO as OPTIONS

from forage.behaviours.own import Own
from forage.config.setup import make_setup
from forage.core.types import ForageError


class Before(Own):
    """Has a signature of its own."""

    def act(self, state, agent, hidden, observation, key):
        return 0, hidden, (), 0


def test_an_on_policy_run_carries_no_rollout():
    """Its last one would be as large as the agent, in every state and checkpoint, and nobody reads it again."""
    setup = make_setup("ppo", "CartPole-v1", steps=100, seeds=1, agent_options=OPTIONS)
    assert jax.tree.leaves(setup.runner().shapes().learner.memory) == []


def test_a_behaviour_with_another_signature_is_refused():
    setup = make_setup("ppo", "CartPole-v1", steps=100, seeds=1, agent_options=OPTIONS, behaviour=Before())
    with pytest.raises(ForageError, match=r"Before\.act takes \(state, agent, .*calls it with \(state, hidden, obs"):
        setup.runner()
