"""Named rewards: the streams of an agent next to its one number, and refusals."""

import dataclasses
from types import SimpleNamespace

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.agents.policy_gradient.ppo import PPO
from forage.behaviours.policy import AgentPolicy
from forage.config.resolve import resolve
from forage.core.types import Experience, ForageError, Spec
from forage.loop.learner import Learner, name_rewards, select_reward_heads
from forage.loop.runner import EvaluationEpisodes
from forage.memory.rollout import LastRollout
from forage.rewards.environment import EnvironmentReward
from forage.rewards.scaling import Scale
from forage.rewards.weighted import WeightedRewards
from forage.runs.scoring import evaluate_agents
from forage.studies.tuning import tune
from forage.studies.tuning.batch import Batch

SPEC = Spec("Here", gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2), ("reward", "cost"))
EXPERIENCE = Experience((), (), np.array([[[1.0, 10.0]], [[2.0, 20.0]]]), (), (), (), (), ())
REWARD = WeightedRewards(("reward",), (0.5,))


class Taking(PPO):
    """PPO that is given the streams of some names."""

    names: tuple[str, ...] = dataclasses.field(default=(), metadata={"static": True})

    @property
    def reward_heads(self):
        return self.names


def learner(names, rewards=REWARD, spec=SPEC):
    return Learner(Taking(names=names), AgentPolicy(), rewards, LastRollout(), spec)


@pytest.mark.parametrize("rewards", [REWARD, Scale(2.0, inner=REWARD)])
def test_the_reward_is_one_number_and_what_an_agent_takes_stays_as_it_was(rewards):
    state = rewards.init(jax.random.key(0), SPEC, 1)
    found = rewards.relabel(state, name_rewards(EXPERIENCE, SPEC))
    assert rewards.reward_names(SPEC) == ("reward", "cost")
    factor = 0.5 if rewards is REWARD else 1.0
    for streams in ((), ("cost",)):
        given = select_reward_heads(found, streams)
        np.testing.assert_allclose(given.reward, [[factor], [2 * factor]])
        assert tuple(given.rewards) == streams
    np.testing.assert_array_equal(given.rewards["cost"], [[10.0], [20.0]])


def test_a_bonus_that_is_not_taken_is_added():
    found = EXPERIENCE._replace(reward=jnp.ones((2, 1)), rewards={"bonus": jnp.full((2, 1), 3.0)})
    np.testing.assert_array_equal(select_reward_heads(found, ()).reward, 4.0)
    given = select_reward_heads(found, ("bonus", "cost"))
    np.testing.assert_array_equal(given.reward, 1.0)
    assert set(given.rewards) == {"bonus"}


def test_what_there_is_not_cannot_be_taken():
    learner(("cost",)).check()
    learner(("bonus",)).check()  # there may be none
    with pytest.raises(ForageError, match=r"a reward called costs apart .* Here has the rewards reward, cost; take"):
        learner(("costs",)).check()
    one = dataclasses.replace(SPEC, reward_names=())
    with pytest.raises(ForageError, match="Here has one reward alone; take an environment with several rewards"):
        learner(("cost",), EnvironmentReward(), one).check()
    with pytest.raises(ForageError, match="Here calls a reward bonus"):
        learner(
            (), WeightedRewards(("bonus",), (1.0,)), dataclasses.replace(SPEC, reward_names=("bonus", "cost"))
        ).check()


def test_several_rewards_are_scored_and_tuned_by_their_weights():
    """The plain sum prefers the second of two seeds; the weighted one, the reward alone, prefers the first."""
    setup = resolve("ppo", "Pendulum-cost", seeds=[0, 1], rewards=REWARD)
    returns = np.array([[[-10.0, 1.0], [-20.0, 3.0]], [[-40.0, 70.0], [-40.0, 70.0]]])  # seed, episode, reward
    runner = SimpleNamespace(
        steps=0,
        evaluate=lambda *_: EvaluationEpisodes(returns, np.full((2, 2), 200), {}),
        attempt_evaluation=lambda *_: (returns, ["", ""]),
    )
    evaluation = evaluate_agents(runner, setup, 2)
    assert evaluation["return"] == [-7.5, -20.0]
    assert evaluation["return/cost"] == [2.0, 70.0] and evaluation["reward"] == "0.5 reward"
    np.testing.assert_array_equal(tune.returns_of(SimpleNamespace(evaluation=evaluation), setup), [-7.5, -20.0])
    batch = Batch.__new__(Batch)
    batch.setup, batch.runner, batch.rewards = setup, runner, REWARD
    batch.episodes, batch.broken, batch.why = 2, np.zeros(2, bool), ["", ""]
    np.testing.assert_array_equal(batch.evaluate(), [-7.5, -20.0])
    left_out = returns.copy()
    left_out[0, 1], left_out[1] = np.nan, -np.inf  # an episode without a reward, and a member that broke
    runner.attempt_evaluation = lambda *_: (left_out, ["", "its environment failed"])
    np.testing.assert_array_equal(batch.evaluate(), [-5.0, -np.inf])
