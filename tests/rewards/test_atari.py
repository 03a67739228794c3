"""Lives end episodes of learning, rewards are clipped, and scores are of whole games and their own rewards."""

import dataclasses
import importlib.util
import json

import numpy as np
import pytest
from check_helpers import check
from gymnasium import spaces
from tiers import gate_cases

import forage
from forage.agents.policy_gradient.ppo import PPO
from forage.agents.q_learning.dqn import DQN
from forage.config.resolve import resolve
from forage.core.types import Experience, ForageError, Spec
from forage.loop.needs import check_rewards
from forage.memory.uniform import UniformReplay
from forage.rewards.atari import AtariRewards
from forage.rewards.bonuses.rnd import RND
from forage.runs import capacity

needs_ale = pytest.mark.skipif(importlib.util.find_spec("ale_py") is None, reason="ale-py is not installed")
GAME = Spec("a game", spaces.Box(0, 1, (3,)), spaces.Discrete(2), info_names=("life_lost",))


def test_a_lost_life_is_an_end_and_rewards_are_clipped():
    flags = np.array([[True, False, False, False]]), np.array([[False, True, True, False]])
    lost = np.array([[1.0, 1.0, 0.0, 1.0]], np.float32)
    reward = np.array([[7.0, -3.0, 0.5, 0.0]], np.float32)
    lived = Experience(reward, reward, reward, reward, *flags, reward, (), info={"life_lost": lost})
    learned = AtariRewards().relabel((), lived)
    np.testing.assert_array_equal(learned.reward, [[1, -1, 0.5, 0]])
    np.testing.assert_array_equal(learned.terminated, [[True, True, False, True]])
    np.testing.assert_array_equal(learned.truncated, [[False, False, True, False]])


def test_a_game_must_say_when_a_life_is_lost():
    check(AtariRewards(), GAME)
    with pytest.raises(ForageError, match=r"a pole does not return life_lost.*scale clips alone"):
        check(AtariRewards(), dataclasses.replace(GAME, name="a pole", info_names=("success",)))


@pytest.mark.parametrize("agent", [PPO(gru_size=4), DQN(gru_size=4)])
def test_memory_of_the_game_does_not_go_with_it(agent):
    for rewards in (AtariRewards(), RND(inner=AtariRewards())):
        with pytest.raises(ForageError, match="remembers the game from before; use --rewards scale"):
            check_rewards(agent, rewards, GAME)
    check_rewards(type(agent)(), AtariRewards(), GAME)


RUNS = [
    ("ppo", {"num_envs": 2, "rollout_length": 32, "minibatches": 2, "epochs": 1}),
    ("dqn", {"learning_starts": 32, "batch_size": 8}),
]


@needs_ale
@pytest.mark.thorough
@pytest.mark.parametrize(("agent", "options"), gate_cases(RUNS, RUNS[:1]))
def test_short_runs_of_a_game(agent, options, tmp_path):
    """With the preset except for sizes: the game's own rewards and ends in the curve and the score."""
    run = forage.train(
        agent,
        "ale:Breakout",
        steps=128,
        seeds=1,
        agent_options=options,
        environment_options={"img_height": 36, "img_width": 36, "max_num_frames_per_episode": 240},
        evaluation_episodes=2,
        evaluation_actions="sampled" if agent == "ppo" else "greedy",
        directory=tmp_path / "run",
        memory=UniformReplay(64) if agent == "dqn" else None,
        display="quiet",
    )
    assert run.config["rewards"]["part"] == "atari"
    evaluation = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    # Games are cut after 240 frames, before all five lives are lost: no lost life ended an episode.
    assert all(45 < length <= 60 for member in evaluation["episode_lengths"] for length in member)


@needs_ale
@pytest.mark.parametrize("id", ["ale:Pong", "gymnasium:ALE/Pong-v5"])
def test_presets_keep_a_million_frames_in_seven_gigabytes(id):
    setup = resolve("dqn", id, seeds=1)
    assert setup.memory.capacity == 1_000_000 and type(setup.rewards) is AtariRewards
    (line,) = capacity.memory_lines(setup.runner())
    assert line.startswith("memory: 7.4") and line.endswith("bytes a transition, 1,000,000 of them")
