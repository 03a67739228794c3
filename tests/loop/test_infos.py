"""Numbers from a native environment itself: reported, stored and given to rewards by both runners."""

from __future__ import annotations

from typing import NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from small import differing_files
from tiers import gate_cases

import forage
from forage.agents.policy_gradient.ppo import PPO
from forage.behaviours.policy import AgentPolicy
from forage.config.defaults import default_memory
from forage.config.resolve import from_config, resolve
from forage.core.ports import Environment, Rewards
from forage.core.specs import spec_from_config
from forage.core.types import Clock, ForageError, Step
from forage.environments import make, spec_of
from forage.environments.adapters.on_host import OnHost
from forage.environments.checking import check_environment
from forage.environments.classic.cartpole import CartPole
from forage.environments.wrappers.goal_entries import Entries
from forage.environments.wrappers.goals import GoalConditioned
from forage.environments.wrappers.time import ActionRepeat, TimeLimit
from forage.loop.device.collect import last_infos
from forage.loop.device.evaluate import play_episodes
from forage.loop.device.loop import DeviceLoop
from forage.loop.learner import Learner
from forage.rewards.environment import EnvironmentReward
from forage.starts.reset import Reset
from forage.tasks.same import Same

small.keep_compiled()
LENGTH = 4


class MeterState(NamedTuple):
    length: jax.Array
    time: jax.Array


class Meter(Environment):
    """Episodes of one to four steps, drawn at random. The cost of step t is t / 2; the last of an even number has
    reward 1.

    So a number of another step, or of another episode's end, is another number than the right one.
    """

    agents: int = equinox.field(static=True, default=1)

    @property
    def observation_space(self):
        return gymnasium.spaces.Box(0, LENGTH, (1,), np.float32)

    @property
    def action_space(self):
        return gymnasium.spaces.Discrete(2)

    @property
    def horizon(self):
        return LENGTH

    @property
    def num_agents(self):
        return self.agents

    @property
    def info_names(self):
        return ("cost", "even")

    def spread(self, value):
        return value if self.agents == 1 else jnp.broadcast_to(value, (self.agents, *jnp.shape(value)))

    def observe(self, time):
        return self.spread(time.astype(jnp.float32)[None])

    def reset(self, key):
        time = jnp.int32(0)
        return MeterState(jax.random.randint(key, (), 1, LENGTH + 1), time), self.observe(time)

    def step(self, state, action, key):
        time = state.time + 1
        over = time >= state.length
        even = over & (state.length % 2 == 0)
        reward = even.astype(jnp.float32)
        info = {"cost": time / 2, "even": even, "more": jnp.zeros(3)}
        flags = (self.spread(over), self.spread(jnp.bool_(False)))
        return state._replace(time=time), Step(self.observe(time), self.spread(reward), *flags, info)


class CostlyRewards(Rewards):
    """The reward less the cost, and a check that each cost belongs to its own step's observation, before any reset."""

    def relabel(self, state, experience):
        return experience._replace(reward=experience.reward - experience.info["cost"])

    def learn(self, state, rollout, clock, key):
        cost, time = rollout.info["cost"], rollout.next_observation[..., 0]
        ended = jnp.where(rollout.ended, time, 0).max()
        return (
            state,
            (),
            {"wrong": jnp.abs(cost - time / 2).max(), "longest": ended, "agents": jnp.float32(cost[0].size)},
        )


def world(runner, agents=1):
    return Meter(agents) if runner == "device" else lambda num_envs: OnHost(Meter(agents), num_envs)


def train(directory, runner, agent="ppo", agents=1, **more):
    options = small.PPO if agent == "ppo" else small.REPLAY | {"hidden_sizes": (8,)}
    words = {"steps": 160, "seeds": [3, 7], "evaluation_episodes": 8, "display": "quiet"} | more
    return forage.train(agent, world(runner, agents), agent_options=options, directory=directory, **words)


@pytest.mark.parametrize("runner", gate_cases(["device", "host"], ["host"]))
@pytest.mark.parametrize("agents", gate_cases([1, 2], [2]))
def test_the_last_steps_are_reported(runner, agents, tmp_path):
    run = train(tmp_path / "run", runner, agents=agents, rewards=CostlyRewards(), evaluation_every=80)
    for row in (*run.rows, *run.evaluations, run.evaluation):
        if "length" in row:
            np.testing.assert_allclose(row["cost"], np.array(row["length"]) / 2, rtol=1e-6)
        np.testing.assert_allclose(row["even"], row["return"], rtol=1e-6)
        assert "more" not in row
    lengths = np.array(run.evaluation["episode_lengths"])
    np.testing.assert_allclose(run.evaluation["cost"], lengths.mean(1) / 2, rtol=1e-6)
    assert len(np.unique(lengths)) > 2 and all("length" in row for row in run.rows)
    even = np.array([row["even"] for row in run.rows])
    assert 0 < even.mean() < 1 and len(np.unique(even)) > 2
    assert [row["steps"] for row in run.evaluations] == [0, 80, 160]
    # Rewards find them in the experience: each agent the environment's.
    assert all(row["wrong"] == [0, 0] and row["agents"] == [2.0 * agents] * 2 for row in run.rows)
    assert max(max(row["longest"]) for row in run.rows) == LENGTH
    assert run.config["spec"]["info_names"] == ["cost", "even"]
    assert spec_from_config(run.config).info_names == ("cost", "even")


def test_the_device_reports_the_last_steps_of_each_episode():
    """The same as `test_the_last_steps_are_reported`, for one rollout and one evaluation in place of a run."""
    agent = PPO(num_envs=2, rollout_length=12, hidden_sizes=(4,), minibatches=1, epochs=1)
    learner = Learner(agent, AgentPolicy(), EnvironmentReward(), default_memory(agent), spec_of(Meter(), "Meter"))
    loop, clock = DeviceLoop(learner, Meter(), Same(), Reset()), Clock(jnp.int32(0), jnp.float32(100))

    @jax.jit
    def play(key):
        state = loop.init(key)
        rollout = loop.collect(state, clock, key).rollout
        return rollout, last_infos(rollout), play_episodes(loop, state.learner, key, 16, LENGTH)

    rollout, sums, played = jax.device_get(play(jax.random.key(0)))
    ended, time = rollout.ended, rollout.next_observation[..., 0]
    before = np.concatenate([np.zeros((1, 2)), np.where(ended, 0, time)[:-1]])
    np.testing.assert_array_equal(time, before + 1)  # the last of each episode shows what came before the reset
    np.testing.assert_array_equal(rollout.observation[..., 0], before)
    np.testing.assert_array_equal(rollout.info["cost"], time / 2)
    assert sums == {"cost": (time[ended].sum() / 2, ended.sum()), "even": (rollout.reward.sum(), ended.sum())}
    np.testing.assert_array_equal(played.infos["even"], played.returns)
    np.testing.assert_array_equal(played.infos["cost"], played.lengths / 2)
    for lengths in (time[ended], played.lengths):
        assert len(np.unique(lengths)) > 2


def test_old_configurations_name_none():
    config = resolve("ppo", "CartPole-v1", steps=160, seeds=1).config()
    assert config["spec"].pop("info_names") == []
    assert spec_from_config(config).info_names == () == from_config(config).spec.info_names


@pytest.mark.parametrize("runner", ["device", "host"])
@pytest.mark.thorough
def test_a_memory_keeps_them_and_a_stop_loses_nothing(runner, tmp_path):
    words = {"agent": "dqn", "rewards": CostlyRewards(), "checkpoint_seconds": 0.0}
    whole, stopped = (train(tmp_path / name, runner, **words) for name in ("whole", "stopped"))
    stopped.checkpoints[-1].unlink()  # as a kill would leave it
    forage.resume(tmp_path / "stopped", environment=world(runner), rewards=CostlyRewards(), display="quiet")
    for left, right in zip(whole.rows, stopped.rows, strict=True):
        assert {k: v for k, v in left.items() if "second" not in k} == {
            k: v for k, v in right.items() if "second" not in k
        }
    assert whole.evaluation == stopped.evaluation
    assert not differing_files(whole.checkpoints[-1], stopped.checkpoints[-1])


def test_wrappers_hand_them_on():
    assert TimeLimit(ActionRepeat(Meter(), 2), 3).info_names == ("cost", "even")
    goal = GoalConditioned(Entries(Meter(), (0,), (0.0,), (4.0,)))
    assert goal.info_names == ("cost", "even", "success")
    assert CartPole().info_names == () and make("memory:KeyToDoor").info_names == ("key", "door")
    for one in (goal, make("memory:KeyToDoor")):
        check_environment(one, "one")


class Silent(Meter):
    @property
    def info_names(self):
        return ("cost", "lost")


class Long(Meter):
    @property
    def info_names(self):
        return ("cost", "more")


@pytest.mark.parametrize(
    ("environment", "said"), [(Silent(), "no lost in its info"), (Long(), r"more an array .*\(3,\)")]
)
def test_what_is_not_one_number_is_refused(environment, said):
    with pytest.raises(ForageError, match=said):
        check_environment(environment, "Meter")
