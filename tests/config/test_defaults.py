"""The default parts of ports that are not named."""

import math
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import equinox
import numpy as np
import pytest
from gymnasium import spaces

from forage.agents.actor_critic.sac import SAC
from forage.agents.policy_gradient.ppo import PPO
from forage.agents.q_learning.dqn import DQN
from forage.config import part_options, registry
from forage.config.checks import check_sizes
from forage.config.defaults import choose_defaults, default_steps, missing_settings, of_arrays, suggest
from forage.config.resolve import from_config, resolve
from forage.core.columns import Column, Columns
from forage.core.spaces import MixedSpace
from forage.core.types import ForageError, Spec
from forage.environments.classic.cartpole import CartPole
from forage.environments.wrappers.together import EnvironmentCopies
from forage.rewards.bonuses.icm import ICM
from forage.rewards.bonuses.rnd import RND
from forage.rewards.environment import EnvironmentReward
from forage.rewards.scaling import NormaliseReturn, Scale
from forage.runs.summary import introduction

USUAL = {  # agent: environment, behaviour, memory
    "ppo": ("CartPole-v1", "AgentPolicy", "LastRollout"),
    "dqn": ("CartPole-v1", "EpsilonGreedy", "UniformReplay"),
    "sac": ("Pendulum-v1", "AgentPolicy", "UniformReplay"),
    "sac-discrete": ("CartPole-v1", "AgentPolicy", "UniformReplay"),
    "td3": ("Pendulum-v1", "AgentPolicy", "UniformReplay"),
}


@pytest.mark.parametrize("agent", USUAL)
def test_usual_parts(agent):
    environment, behaviour, memory = USUAL[agent]
    setup = resolve(agent, environment, seeds=1)
    assert type(setup.behaviour).__name__ == behaviour
    assert type(setup.memory).__name__ == memory
    # Who acts for itself off-policy begins at random, or else the memory holds one kind of action only.
    random_steps = getattr(setup.behaviour, "random_steps", 0)
    assert random_steps == (0 if agent in ("ppo", "dqn") else setup.agent.learning_starts)


def test_presets_are_laid_under_what_is_named():
    setup = resolve("ppo", "CartPole-v1", agent_options={"epochs": 3})
    assert (setup.agent.epochs, setup.agent.learning_rate, setup.steps) == (3, 1e-3, 100_000)
    assert type(resolve("ppo", "gymnasium:HalfCheetah-v5").rewards).__name__ == "NormaliseReturn"


@pytest.mark.parametrize(
    ("agent", "environment", "words"),
    [
        ("grpo", "text:addition", "rollouts as long as an episode can be, 1 step: 64 environments x 1 step, learning"),
        ("sac", "Pendulum-v1", ": 1 environment x 1 step, learning rate 0.0003"),
        ("dqn", "CartPole-v1", ": 1 environment x 4 steps, learning rate 0.0005"),
    ],
)
def test_the_start_of_a_run_counts_environments_and_steps(agent, environment, words):
    assert words in "\n".join(introduction(resolve(agent, environment), Path("runs/x"), 1000))


def test_an_object_says_which_settings_it_lacks():
    """An object does not record its explicit options: no preset applies to it, and the start of a run mentions it."""
    setup = resolve(PPO(hidden_sizes=(128, 128)), "CartPole-v1")
    (said,) = [line for line in introduction(setup, Path("runs/x"), 1000) if "object" in line]
    assert said.startswith("ppo as an object keeps its class's defaults, without the preset for CartPole*")
    assert "learning rate 0.001, epochs 10" in said and "agent='ppo' with agent_options has both" in said
    assert resolve("ppo", "CartPole-v1").left_out == "" and resolve("ppo", "CartPole-v1").settings_from
    assert "rewards normalise-return" in resolve(PPO(), "gymnasium:HalfCheetah-v5").left_out
    named = resolve("ppo", "CartPole-v1").agent
    assert resolve(named, "CartPole-v1").left_out == ""  # nothing of it is lacking
    assert resolve(replace(named, learning_rate=0.5), "CartPole-v1").left_out == ""
    assert from_config(setup.config()).left_out == ""  # a run that goes on is what it was


class SmoothPPO(PPO):
    """A change of PPO that sets none of its options."""

    smooth: float = 0.1  # weight of a term


class SlowPPO(SmoothPPO):
    """A change of a change, with options of its own."""

    learning_rate: float = 1e-5
    num_envs: int = equinox.field(static=True, default=4)
    initial_log_std: ClassVar[float] = 0.0  # no option


def test_a_class_of_ones_own_has_the_defaults_of_the_agent_that_it_changes():
    """So that both are compared under the same settings; options that the class sets itself stay."""
    spec = Spec("Pendulum-v1", spaces.Box(-1, 1, (3,)), spaces.Box(-2, 2, (1,)))
    known = choose_defaults("ppo", "Pendulum-v1", spec, True, {})
    own = choose_defaults("mine.py:SmoothPPO", "Pendulum-v1", spec, True, {}, SmoothPPO)
    assert own.settings == known.settings and own.why == f"ppo's {known.why}"
    slow = choose_defaults("mine.py:SlowPPO", "Pendulum-v1", spec, True, {}, SlowPPO)
    assert slow.settings == {name: value for name, value in known.settings.items() if name != "learning_rate"}

    ruled = choose_defaults("mine.py:SlowPPO", "Mine", spec, False, {}, SlowPPO)
    assert ruled.settings | {"why": ruled.why.partition(" (")[0]} == {
        "rollout_length": 512,  # as many transitions in 4 environments as the rule's in 8
        "minibatches": 32,
        "final_learning_rate": 1.0,
        "epochs": 10,
        "entropy_coefficient": 0.0,
        "why": "ppo's settings for vectors and actions beyond [-1, 1]",
    }
    assert default_steps(SmoothPPO(), "Pendulum-v1", spec, True, False)[1] == "as its preset has it"
    said = missing_settings(SmoothPPO(), "Pendulum-v1", spec, True, ())
    assert said.startswith("SmoothPPO as an object keeps its class's defaults, without ppo's preset for Pendulum")
    assert said.endswith("agent='file.py:SmoothPPO' with agent_options has both")


def test_a_bonus_stands_beside_what_the_preset_makes_of_the_reward():
    for given, kinds in (
        (RND(), [RND, NormaliseReturn, EnvironmentReward]),
        (RND(inner=ICM()), [RND, ICM, NormaliseReturn, EnvironmentReward]),
        (RND(inner=Scale(0.5)), [RND, Scale, EnvironmentReward]),  # what has been said stays
        (Scale(0.5), [Scale, EnvironmentReward]),  # which is no bonus: it takes the preset's place
    ):
        part, found = resolve("ppo", "gymnasium:HalfCheetah-v5", rewards=given).rewards, []
        while part is not None:
            found.append(type(part))
            part = getattr(part, "inner", None)
        assert found == kinds


def test_what_all_agents_live_through_is_counted_in_32_bits():
    two = EnvironmentCopies(CartPole(), 2)
    resolve("ppo", two, steps=2**30 - 2**20, seeds=1)
    with pytest.raises(ForageError, match=r"from 1 to 1,073,\d+,\d+ steps"):
        resolve("ppo", two, steps=2**30, seeds=1)


def test_sizes_of_layers_are_refused_where_nothing_has_them():
    """Convolutions are followed by one layer of a size of their own; SAC's critics have layers behind it."""
    image, given = spaces.Box(0, 255, (10, 10, 3), np.uint8), {"hidden_sizes": (7,)}
    numbered = Spec("Pictures", image, spaces.Discrete(2))
    for agent in (DQN(hidden_sizes=(7,)), PPO(hidden_sizes=(7,))):
        with pytest.raises(ForageError, match=r"has no effect on (dqn|ppo) in Pictures, which shows images"):
            check_sizes(agent, numbered, given)
        check_sizes(agent, numbered, {})
        check_sizes(agent, replace(numbered, observation_space=spaces.Box(0, 1, (4,))), given)
    check_sizes(SAC(hidden_sizes=(7,)), Spec("Pictures", image, spaces.Box(-1, 1, (1,))), given)


@pytest.mark.parametrize(("steps", "learns"), [(992, False), (993, True)])
def test_a_run_that_is_over_before_the_agent_learns_is_refused(steps, learns):
    """Only whole rollouts are collected, of 16 steps here; an explicit start of learning after the end is allowed."""
    options = {"num_envs": 2, "rollout_length": 8, "learning_starts": 1000}
    setup = resolve("dqn", "CartPole-v1", steps=steps, agent_options=options)
    if not learns:
        with pytest.raises(
            ForageError, match=r"after 1,000 steps \(learning_starts\), and this run has 992; take more"
        ):
            setup.learner()
        setup = resolve("dqn", "CartPole-v1", steps=steps, agent_options=options | {"learning_starts": 2**31 - 1})
    setup.learner()


def test_numbers_at_the_ends_of_their_ranges():
    """An infinite limit does not clip, and a bonus may fall to zero by a straight line."""
    options = {"max_gradient_norm": math.inf, "bonus_discount": 1.0, "discount": 0.0}
    setup = resolve("ppo", "CartPole-v1", agent_options=options, rewards=RND(schedule="linear", final_weight=0.0))
    setup.learner()


def test_without_a_preset_the_spec_decides():
    """A user's options of a rollout are kept, with minibatches that divide it."""
    for environment, options, shape, rate in (
        ("MountainCar-v0", {}, (8, 256, 32), 3e-4),  # a vector
        ("MountainCar-v0", {"num_envs": 3}, (3, 682, 31), 3e-4),
        ("MountainCar-v0", {"num_envs": 2, "rollout_length": 8}, (2, 8, 1), 3e-4),
        ("MountainCar-v0", {"gru_size": 8}, (8, 256, 4), 3e-4),  # whole segments
        ("MountainCar-v0", {"num_envs": 4096}, (4096, 32, 256), 3e-4),  # no rollout of a single step
        ("CartPole-v1", {}, (8, 128, 8), 1e-3),  # has a preset
    ):
        setup = resolve("ppo", environment, agent_options=options)
        agent = setup.agent
        assert (agent.num_envs, agent.rollout_length, agent.minibatches, agent.learning_rate) == (*shape, rate)
        assert setup.settings_from.startswith("preset for" if environment == "CartPole-v1" else "settings for")
    assert resolve("ppo", "MountainCar-v0").rewards.discount == 0.99
    assert resolve("ppo", "MountainCar-v0", agent_options={"discount": 0.9}).rewards.discount == 0.9
    numbers = Spec("Numbers", spaces.Discrete(9), spaces.Discrete(2))
    for options, shape in (({}, (8, 128, 8)), ({"num_envs": 2}, (2, 512, 8))):
        found = choose_defaults("ppo", numbers.name, numbers, False, options)
        assert tuple(found.settings[n] for n in ("num_envs", "rollout_length", "minibatches")) == shape
        assert (found.settings["learning_rate"], found.why[:32]) == (1e-3, "settings for one number out of a")
    for shape, dtype, native, what in (
        ((7, 7, 3), np.uint8, True, "small maps of bytes"),
        ((10, 10, 4), np.float32, True, "images, stepped in JAX"),
        ((10, 10, 4), np.float32, False, "small images"),
        ((84, 84, 4), np.uint8, False, "images"),
    ):
        space = spaces.Box(0, 255 if dtype == np.uint8 else 1, shape, dtype)
        found = choose_defaults("ppo", "Pictures", Spec("Pictures", space, spaces.Discrete(2)), native, {})
        assert found.why.startswith(f"settings for {what} ("), found.why
    vector = spaces.Box(-1, 1, (3,))
    for high, deviation in ((1.0, None), (0.4, None), (3.0, 0.5), (np.inf, None), ([1.0, 2.0], 0.5)):
        box = spaces.Box(-np.full(2, high, np.float32), np.full(2, high, np.float32))
        found = choose_defaults("ppo", "Moves", Spec("Moves", vector, box), False, {}).settings.get("initial_log_std")
        assert found == (deviation and np.log(deviation)), high
    setup = resolve("ppo", "MountainCar-v0", agent_options={"learning_rate": 0.1, "minibatches": 2})
    assert (setup.agent.learning_rate, setup.agent.minibatches) == (0.1, 2)


def test_the_reason_for_an_agent_is_of_its_actions():
    choice, number = spaces.Discrete(3), spaces.Box(-np.inf, np.inf, (1,))
    push = spaces.Box(0, 1, (2,))
    mixed = MixedSpace(spaces.MultiDiscrete([3]), push, spaces.Dict(go=choice, push=push))
    for actions, why in ((choice, "at least as much as DQN"), (number, "choices and numbers"), (mixed, "choices and")):
        agent, said = suggest(Spec("Own", spaces.Box(-1, 1, (2,)), actions), native=False)
        assert agent == "ppo" and why in said


def test_an_agents_name_is_looked_up_once(monkeypatch):
    loaded, load = [], registry.load
    monkeypatch.setattr(registry, "load", lambda target: loaded.append(target) or load(target))
    monkeypatch.setattr(part_options, "field_comments", lambda cls: loaded.append(cls.__name__) or {})
    setup = resolve("dqn", "minatar:Breakout", agent_options={"batch_size": 8}, sweep={"learning_rate": [1e-3, 1e-4]})
    assert loaded.count("forage.agents.q_learning.dqn:DQN") == 1
    assert "DQN" not in loaded  # nor is its source read
    # What is said goes over the preset, of which the rest stands.
    assert (setup.agent.batch_size, setup.agent.target_update_interval, setup.agent.n_step) == (8, 8000, 1)


def test_a_downloaded_model_has_a_smaller_rate(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    spec = Spec("text", spaces.Discrete(2), spaces.Discrete(2), ("reward",))
    rates = {}
    for agent, options in (("grpo", {}), ("sft", {}), ("sft", {"rank": 8})):
        found = choose_defaults(agent, "text:addition", spec, False, {"model": str(tmp_path), **options})
        rates[agent, *options] = found.settings.get("learning_rate"), found.settings.get("warmup_share")
    assert rates == {
        ("grpo",): (1e-6, 0.1),
        ("sft",): (2e-5, 0.1),
        ("sft", "rank"): (1e-4, 0.1),
    }
    assert choose_defaults("grpo", "text:addition", spec, False, {"model": "forage"}).settings == {}
    (tmp_path / "agent.npz").write_text("")  # a run has a rate of its own
    assert choose_defaults("grpo", "text:addition", spec, False, {"model": str(tmp_path)}).settings == {}


def test_observations_of_arrays_are_standardised():
    far = Spec("arrays", spaces.Box(-np.inf, np.inf, (2,), np.float32), spaces.Discrete(2))
    standardised = {"normalise_observation": True}
    for agent in ("bc", "iql", "cql"):
        assert of_arrays(agent, far, True, {}).settings == standardised
        assert of_arrays(agent, far, True, {"normalise_observation": False}).settings == {}
        assert of_arrays(agent, far, False, {}).settings == {}  # a folder is never read as a whole
    for agent in ("td3-bc", "sac", "dqn"):  # it does so already, is not for data alone, or cannot
        assert of_arrays(agent, far, True, {}).settings == {}
    column = Columns((Column("x"),), (Column("push", "boolean"),))
    assert of_arrays("bc", replace(far, columns=column), True, {}).settings == {}
    pixels = replace(far, observation_space=spaces.Box(0, 255, (64, 64, 3), np.uint8))
    assert of_arrays("bc", pixels, True, {}).settings == {}
