"""The table of presets: every one can be built, in an environment of its own, and agrees with its source."""

import math
from collections.abc import Collection, Iterable

import jax
import numpy as np
import pytest
from gymnasium import spaces

from forage.agents.actor_critic.sac import SAC
from forage.agents.policy_gradient.ppo import PPO
from forage.config.defaults import LENGTHS, choose_defaults, default_behaviour, default_memory, default_steps, preset
from forage.config.part_data import from_config
from forage.config.presets import PRESETS, Preset
from forage.config.ranges import check_ranges
from forage.config.registry import part_class
from forage.config.resolve import resolve
from forage.config.run_config import shorten_memory
from forage.core.ports import Agent
from forage.core.prng import key
from forage.core.types import Spec
from forage.ops.action_values import updates_in

PICTURE = spaces.Box(0, 255, (84, 84, 4), np.uint8)
SMALL_PICTURE = spaces.Box(0, 1, (10, 10, 4))
STATES = spaces.Discrete(16)


def vector(size: int) -> spaces.Box:
    return spaces.Box(-math.inf, math.inf, (size,))


def box(size: int) -> spaces.Box:
    return spaces.Box(-1.0, 1.0, (size,))


CHOICES = ("ppo", "dqn")
BOUNDED = ("ppo", "sac", "td3")
LATER = ("a2c", "qr-dqn", "c51", "pqn")
WALKING = (*BOUNDED, "tqc", "crossq")
FROM_DATA = ("iql", "cql")
REAL: dict[str, tuple[spaces.Space, spaces.Space, tuple[str, ...]]] = {  # which agents have a preset there
    "CartPole-v1": (vector(4), spaces.Discrete(2), (*CHOICES, *LATER, "sac-discrete", "impala")),
    "CartPole-masked": (vector(2), spaces.Discrete(2), CHOICES),
    "Acrobot-v1": (vector(6), spaces.Discrete(3), (*CHOICES, "impala")),
    "Pendulum-v1": (vector(3), box(1), (*BOUNDED, "ddpg")),
    "gymnasium:CartPole-v1": (vector(4), spaces.Discrete(2), CHOICES),
    "gymnasium:Acrobot-v1": (vector(6), spaces.Discrete(3), CHOICES),
    "gymnasium:MountainCar-v0": (vector(2), spaces.Discrete(3), CHOICES),
    "gymnasium:MountainCarContinuous-v0": (vector(2), box(1), BOUNDED),
    "gymnasium:Pendulum-v1": (vector(3), box(1), BOUNDED),
    "gymnasium:LunarLander-v3": (vector(8), spaces.Discrete(4), CHOICES),
    "gymnasium:LunarLanderContinuous-v3": (vector(8), box(2), BOUNDED),
    "gymnasium:BipedalWalker-v3": (vector(24), box(4), BOUNDED),
    "gymnasium:BipedalWalkerHardcore-v3": (vector(24), box(4), BOUNDED),
    "gymnasium:CarRacing-v3": (spaces.Box(0, 255, (96, 96, 3), np.uint8), box(3), ("ppo",)),
    "gymnasium:FrozenLake-v1": (STATES, spaces.Discrete(4), CHOICES),
    "gymnasium:FrozenLake8x8-v1": (STATES, spaces.Discrete(4), CHOICES),
    "gymnasium:Taxi-v3": (STATES, spaces.Discrete(6), CHOICES),
    "gymnasium:CliffWalking-v1": (STATES, spaces.Discrete(4), CHOICES),
    "gymnasium:CliffWalkingSlippery-v1": (STATES, spaces.Discrete(4), CHOICES),
    "gymnasium:Blackjack-v1": (spaces.MultiDiscrete([32, 11, 2]), spaces.Discrete(2), CHOICES),
    "gymnasium:Ant-v5": (vector(105), box(8), WALKING),
    "gymnasium:HalfCheetah-v5": (vector(17), box(6), (*WALKING, *FROM_DATA)),
    "gymnasium:Hopper-v5": (vector(11), box(3), (*WALKING, *FROM_DATA)),
    "gymnasium:Humanoid-v5": (vector(348), box(17), (*BOUNDED, "tqc")),
    "gymnasium:HumanoidStandup-v5": (vector(348), box(17), BOUNDED),
    "gymnasium:InvertedDoublePendulum-v5": (vector(9), box(1), BOUNDED),
    "gymnasium:InvertedPendulum-v5": (vector(4), box(1), BOUNDED),
    "gymnasium:Pusher-v5": (vector(23), box(7), BOUNDED),
    "gymnasium:Reacher-v5": (vector(10), box(2), BOUNDED),
    "gymnasium:Swimmer-v5": (vector(8), box(2), (*BOUNDED, "crossq")),
    "gymnasium:Walker2d-v5": (vector(17), box(6), (*WALKING, *FROM_DATA)),
    "gymnasium:ALE/Pong-v5": (PICTURE, spaces.Discrete(6), CHOICES),
    "gymnasium:BreakoutNoFrameskip-v4": (PICTURE, spaces.Discrete(4), CHOICES),
    "ale:Breakout": (PICTURE, spaces.Discrete(4), CHOICES),
    "envpool:BallInCupCatch-v1": (vector(8), box(2), ("crossq",)),
    "envpool:CartpoleSwingup-v1": (vector(5), box(1), ()),
    "envpool:CheetahRun-v1": (vector(17), box(6), ()),
    "envpool:HumanoidStand-v1": (vector(67), box(21), ("crossq",)),
    "envpool:FishSwim-v1": (vector(24), box(5), ("crossq",)),
    "envpool:FingerSpin-v1": (vector(9), box(2), ("crossq",)),
    "envpool:ReacherHard-v1": (vector(6), box(2), ("crossq",)),
    "envpool:WalkerWalk-v1": (vector(24), box(6), ()),
    "envpool:Pong-v5": (PICTURE, spaces.Discrete(6), ("ppo",)),
    "minatar:Breakout": (SMALL_PICTURE, spaces.Discrete(3), CHOICES),
    "grid:DoorKey-5x5": (SMALL_PICTURE, spaces.Discrete(7), ("ppo",)),
    "jumanji:Snake-v1": (SMALL_PICTURE, spaces.Discrete(4), ("ppo",)),
    "brax:ant": (vector(27), box(8), ("ppo",)),
    "playground:CartpoleBalance": (vector(5), box(1), ("ppo",)),
    "jaxmarl:SMAX-3m": (vector(30), spaces.Discrete(8), ("ppo",)),
    "jaxmarl:MPE_simple_spread_v3": (vector(18), spaces.Discrete(5), ("ppo",)),
}
SHAPE = ("hidden_sizes", "activation", "gru_size", "dueling", "state_dependent_noise")  # what decides a network's
PAIRS = [(agent, environment) for environment, (_, _, agents) in REAL.items() for agent in agents]


def make_one(name: str, environment: str) -> tuple[Agent, dict, Spec]:
    """An agent with its preset, its parts and the spec of an environment that need not be installed."""
    observation, action, _ = REAL[environment]
    spec = Spec(environment, observation, action)
    under = choose_defaults(name, environment, spec, ":" not in environment, {})
    agent = part_class("agent", name)(**under.settings)
    parts = {"behaviour": default_behaviour(agent), "memory": default_memory(agent), **under.parts}
    return agent, parts, spec


def check_presets(pairs: Collection[tuple[str, str]], presets: Iterable[Preset]) -> None:
    """Check that each preset is the first that fits some id of `pairs`, and that it can be built.

    Its fields are there, its parts go together and its sizes divide.
    """
    found, shapes = set(), set()
    for name, environment in pairs:
        known = preset(name, environment)
        assert known is not None, (name, environment)
        found.add(id(known))
        agent, parts, spec = make_one(name, environment)
        for part in (agent, *parts.values()):
            check_ranges(part, environment)
        agent.check(spec)
        parts["behaviour"].check(agent, spec)
        parts["memory"].check(agent, spec, None)
        shape = name, *(getattr(agent, field, None) for field in SHAPE)
        if shape not in shapes:
            jax.eval_shape(lambda agent=agent, spec=spec: agent.init(key(0), spec))
        shapes.add(shape)
        rollout = agent.num_envs * agent.rollout_length
        assert max(agent.learning_starts, rollout) <= known.steps
        # The uniform start is as long as the agent waits, unless the behaviour has none.
        assert getattr(parts["behaviour"], "random_steps", agent.learning_starts) in (0, agent.learning_starts)
        assert getattr(parts["memory"], "capacity", rollout) >= max(rollout, agent.batch_size)
    presets = list(presets)
    shadowed = [(p.agent, p.environment) for p in presets if id(p) not in found]
    assert shadowed == []
    idle = [
        (p.agent, pattern)
        for p in presets
        for pattern in p.environment.split()
        if not any(preset(p.agent, id) is p and p.pattern(id) == pattern for id in REAL)
    ]
    assert idle == []


def test_every_preset_is_somebodys_and_can_be_built():
    check_presets(PAIRS, PRESETS)


def largest_replay(pairs: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Return the bytes that three seeds of each preset's replay take, without frames, which are kept once."""

    def size(space):
        return math.prod(space.shape) * space.dtype.itemsize

    largest = {}
    for name, environment in pairs:
        agent, parts, spec = make_one(name, environment)
        if spec.observation_space is PICTURE:
            continue  # frames are kept once: 7.5 GB a seed, see tests/rewards/test_atari.py
        if not agent.on_policy:
            # Two observations, an action, and reward, source and two flags.
            each = 2 * size(spec.observation_space) + size(spec.action_space) + 10
            largest[name, environment] = 3 * each * parts["memory"].capacity
    return largest


def test_three_seeds_of_a_presets_replay_fit_into_a_laptop():
    largest = largest_replay(PAIRS)
    assert max(largest.values()) < 9e9
    assert largest["sac", "gymnasium:Hopper-v5"] > 3e6 * 100  # a million transitions of 110 bytes


def test_off_policy_presets_update_as_often_as_their_sources():
    """Updates for each step: SAC and TD3 one, SB3's DQN 1/4, the zoo's by the environment; targets by updates too."""
    often = {"gymnasium:MountainCar-v0": 1 / 2, "gymnasium:LunarLander-v3": 1, "minatar:Breakout": 1 / 16}
    often |= {"CartPole-masked": 1 / 4}
    for name, environment in PAIRS:
        agent, _, _ = make_one(name, environment)
        if not agent.on_policy:
            known = {"dqn": often.get(environment, 1 / 4), "qr-dqn": 1 / 2, "c51": 1 / 10}
            expected = known.get(name, 1.0)
            assert agent.updates_per_rollout / (agent.num_envs * agent.rollout_length) == expected, (name, environment)
    lander, mountain = (make_one("dqn", f"gymnasium:{id}")[0] for id in ("LunarLander-v3", "MountainCar-v0"))
    assert updates_in(lander, lander.target_update_interval) == 250
    assert updates_in(mountain, mountain.target_update_interval) == 300


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"steps": 1001}, 1008),  # whole rollouts of 16
        ({"steps": 100_000_000}, 100_000),
        ({"steps": 10, "agent_options": {"learning_starts": 2**31 - 1, "n_step": 20}}, 80),  # a segment fits
    ],
)
def test_a_replay_is_no_longer_than_its_run(given, kept):
    options = {"num_envs": 4, "rollout_length": 4} | given.pop("agent_options", {})
    setup = resolve("dqn", "CartPole-v1", agent_options=options, seeds=1, **given)
    assert setup.learner().memory.capacity == kept
    assert setup.config()["memory"]["capacity"] == 100_000  # what was asked for
    rollout = default_memory(PPO())
    assert shorten_memory(rollout, PPO(), 8, 10) is rollout


def test_noise_begins_as_large_as_it_is_asked_to():
    spec = Spec("Walker", vector(3), box(2))

    @jax.jit  # of which all but a constant is left out
    def first(agent):
        state = agent.init(key(0), spec)
        return (state.network if isinstance(agent, PPO) else state.actor).log_std

    for agent, shape, value in (
        (PPO(), (2,), 0.0),
        (PPO(initial_log_std=-1.5), (2,), -1.5),
        (PPO(state_dependent_noise=True), (64, 2), -2.0),
        (PPO(state_dependent_noise=True, initial_log_std=-3.29), (64, 2), -3.29),
        (SAC(state_dependent_noise=True), (256, 2), -3.0),
        (SAC(state_dependent_noise=True, initial_log_std=-3.67), (256, 2), -3.67),
    ):
        np.testing.assert_array_equal(first(agent), np.full(shape, value, np.float32))


def test_steps_fit_the_environment():
    """They are the preset's, cut for an agent chosen by default; without a preset they depend on the episode length."""

    def steps(agent, environment, horizon=None, native=False, suggested=False):
        observation, action, _ = REAL[environment]
        spec = Spec(environment, observation, action, horizon=horizon)
        own = environment.replace("Swimmer", "Mine")
        return default_steps(from_config({"part": agent}), own, spec, native, suggested)

    hopper = LENGTHS["replayed actors", False].most
    assert steps("sac", "gymnasium:Hopper-v5", 1000) == (1_000_000, "as its preset has it")
    assert steps("sac", "gymnasium:Hopper-v5", 1000, suggested=True) == (
        hopper,
        "cut from its preset's 1,000,000 to fit a laptop",
    )
    assert steps("sac", "Pendulum-v1", 200, True, True) == (20_000, "as its preset has it")
    for horizon, wanted in ((50, 200_000), (500, 500_000), (1000, 1_000_000), (10_000, 1_000_000), (None, 1_000_000)):
        assert steps("ppo", "gymnasium:Swimmer-v5", horizon)[0] == wanted
    assert steps("ppo", "gymnasium:Swimmer-v5", 500)[1] == "for episodes of up to 500"
    assert [steps("sac", "gymnasium:Swimmer-v5", horizon)[0] for horizon in (50, 300, 1000)] == [20_000, 30_000, 40_000]
