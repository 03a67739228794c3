"""Schedules: their values, invalid ones, and runs that follow them."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small import PPO as SMALL
from small import REPLAY, differing_files

import forage
from forage.config import options, part_options, registry
from forage.config.resolve import from_config, resolve
from forage.config.values import takes_schedule
from forage.core.ports import Starts
from forage.core.schedule import Schedule, at_fraction
from forage.core.types import Clock, ForageError
from forage.tasks.contexts import Contexts
from forage.tasks.distributions import Linear, Uniform

MOMENTS = (0.0, 0.25, 0.5, 0.75, 1.0)


def falling(fraction):
    """A user's own schedule, imported as `test_schedule:falling`."""
    return optax.linear_schedule(1e-3, 0.0, 1)(fraction)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("linear:1,0", (1, 0.75, 0.5, 0.25, 0)),
        ("linear:1,0,0.5", (1, 0.5, 0, 0, 0)),
        ("cosine:1,0", (1, 0.853553, 0.5, 0.146447, 0)),
        ("exponential:1,0.0625", (1, 0.5, 0.25, 0.125, 0.0625)),
        ("step:3,2@0.5,1@0.75", (3, 3, 2, 1, 1)),
        ("warmup:1,0.5", (0, 0.5, 1, 1, 1)),
        ("warmup:1,0.5,0.5", (0, 0.5, 1, 0.75, 0.5)),
    ],
)
def test_words(words, expected):
    schedule = Schedule(words)
    np.testing.assert_allclose([schedule(moment) for moment in MOMENTS], expected, atol=1e-6)
    assert min(schedule.values()) == min(expected)
    assert max(schedule.values()) == max(expected)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("lineal:1,0", "Did you mean 'linear'"),
        ("linear:1", "linear:FROM,TO"),
        ("linear:a,b", "linear:FROM,TO"),
        ("linear:1,0,2", "lie above 0 and up to 1"),
        ("step:1,2", "step:FIRST,NEXT@WHEN"),
        ("step:1,2@0.5,3@0.2", "and rise"),
        ("warmup:1", "warmup:PEAK,UNTIL"),
        ("exponential:1,0", "linear or cosine would"),
    ],
)
def test_words_that_are_no_schedule(words, said):
    with pytest.raises(ForageError, match=said):
        Schedule(words)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (optax.linear_schedule(1e-3, 0, 100_000), "stays at 0.001 for the whole run"),
        (lambda fraction: jnp.ones(3), "one finite number"),
        (lambda fraction: 1.0 if fraction < 0.5 else 0.1, "that JAX traces"),
        (lambda: 1.0, "called with the share of the run"),
    ],
)
def test_functions_that_are_no_schedule(function, said):
    with pytest.raises(ForageError, match=said):
        resolve("ppo", "CartPole-v1", agent_options={"learning_rate": function})


@pytest.mark.parametrize(
    ("agent", "given", "said"),
    [
        ("ppo", {"learning_rate": "linear:1e-3,-1"}, "learning-rate of ppo is 0 or more, not -1"),
        ("ppo", {"learning_rate": "linear:1e-3,0", "final_learning_rate": 0.5}, "final_learning_rate has no use"),
        ("sac", {"initial_temperature": "linear:1,0.1"}, "takes a number and no schedule"),
        ("ppo", {"epochs": "linear:4,1"}, "epochs of ppo is a whole number"),
        ("ppo", {"learning_rate": "nowhere.py:falling"}, "There is no file"),
    ],
)
def test_where_there_can_be_none(agent, given, said):
    environment = "CartPole-v1" if agent == "ppo" else "Pendulum-v1"
    with pytest.raises(ForageError, match=said):
        resolve(agent, environment, agent_options=given)


def test_a_sweep_is_over_another_number():
    given = {"learning_rate": "linear:1e-3,0"}
    setup = resolve("ppo", "CartPole-v1", agent_options=given, sweep={"clip": [0.1, 0.2]}, seeds=1)
    assert [member["clip"] for member in setup.members] == [0.1, 0.2]
    with pytest.raises(ForageError, match="follows a schedule"):
        resolve("ppo", "CartPole-v1", agent_options=given, sweep={"learning_rate": [0.1, 0.2]})


def test_a_tree_without_schedules_stays_as_it_is():
    agent = forage.PPO()
    assert at_fraction(agent, 0.5) is agent


def test_the_command_line_takes_words():
    fields = part_options.fields(forage.PPO)
    words = {"learning_rate": "cosine:3e-4,0", "clip": "0.1"}
    assert options.fill(words, fields, "", "ppo") == {"learning_rate": "cosine:3e-4,0", "clip": 0.1}


def test_which_numbers_take_one():
    for name in ("learning_rate", "clip", "entropy_coefficient", "max_gradient_norm"):
        assert takes_schedule(forage.PPO, name)
    for name in ("final_learning_rate", "initial_log_std", "epochs", "activation"):
        assert not takes_schedule(forage.PPO, name)
    assert takes_schedule(forage.TD3, "exploration_noise")
    assert takes_schedule(registry.part_class("behaviour", "epsilon-greedy"), "schedule")
    assert not takes_schedule(registry.part_class("behaviour", "epsilon-greedy"), "fraction")
    for name in ("rank_temperature", "staleness", "replay_probability"):
        assert takes_schedule(registry.part_class("starts", "prioritised-levels"), name)
    assert takes_schedule(ToldStarts, "probability") and not takes_schedule(FixedStarts, "probability")
    assert takes_schedule(Uniform, "low") and not takes_schedule(Linear, "steps")


def equal(one, other):
    """Whether the trained agents of two runs are the same, bit for bit."""
    return not differing_files(one.directory / "agent.npz", other.directory / "agent.npz")


def train(directory, learning_rate, **given):
    given = SMALL | {"learning_rate": learning_rate} | given
    return forage.train(
        "ppo", "CartPole-v1", steps=64, seeds=1, directory=directory, agent_options=given, display="quiet",
        evaluation_episodes=1,
    )  # fmt: skip


@pytest.mark.thorough
def test_a_run_follows_its_schedule(tmp_path):
    """Words and a function that say the same train the same agent, and a plain number another. Config keeps each."""
    words = train(tmp_path / "words", "linear:1e-3,0")
    function = train(tmp_path / "function", falling)
    assert equal(words, function)
    assert not equal(words, train(tmp_path / "plain", 1e-3, final_learning_rate=1.0))
    assert words.config["agent"]["learning_rate"] == {"schedule": "linear:1e-3,0"}
    kept = json.loads(json.dumps(function.config["agent"]["learning_rate"]))
    assert kept["schedule"].endswith(":falling")
    assert from_config(function.config).agent.learning_rate.function is falling
    assert float(words.agent.agent.learning_rate) == 0


@pytest.mark.thorough
def test_a_closure_is_asked_for_again(tmp_path):
    run = train(tmp_path / "closure", optax.linear_schedule(1e-3, 0, 1))
    assert run.config["agent"]["learning_rate"]["last"] == 0
    assert run.agent.agent.learning_rate == 0
    with pytest.raises(ForageError, match="was a Python object"):
        from_config(run.config)
    again = from_config(run.config, agent=forage.PPO(**SMALL, learning_rate=optax.linear_schedule(1e-3, 0, 1)))
    assert isinstance(again.agent.learning_rate, Schedule)


class ToldStarts(Starts):
    """Begins as the environment resets, marks the episode with its number, and keeps the one of its last report."""

    probability: float = 0.0
    on_host = True

    def init(self, key, environment, spec, num_envs):
        return jnp.float32(-1)

    def begin(self, state, environment, key, index):
        return *environment.reset(key), jnp.asarray(self.probability, jnp.float32)

    def report(self, state, rollout, review):
        return jnp.asarray(self.probability, jnp.float32)


class FixedStarts(ToldStarts):
    """Starts with a number that follows no schedule."""

    unscheduled = ("probability",)


SCHEDULED = {
    "ppo": ("CartPole-v1", SMALL | {"learning_rate": "cosine:1e-3,0", "clip": "linear:0.3,0.1"}, {}),
    "dqn": ("CartPole-v1", REPLAY | {"hidden_sizes": (8,), "learning_rate": "step:1e-3,1e-4@0.5", "n_step": 2}, {}),
    "ppo, contexts": (
        "CartPole-v1",
        SMALL,
        {"tasks": Contexts(("length=0.5..0.25:0.5..1", "gravity=choice:9.8:9.8..5"))},
    ),
    "ppo, starts on the host": ("gymnasium:CartPole-v1", SMALL, {"starts": ToldStarts("step:0,1@0.5")}),
    "ppo on the host": ("gymnasium:CartPole-v1", SMALL | {"learning_rate": "cosine:1e-3,0"}, {}),
}


@pytest.mark.parametrize("case", SCHEDULED)
@pytest.mark.thorough
def test_stopped_and_resumed_is_the_same(tmp_path, case):
    """In the middle of a fall, bit for bit, and from the stored configuration."""
    environment, given, parts = SCHEDULED[case]
    name = case.partition(",")[0].partition(" ")[0]
    setup = resolve(name, environment, agent_options=given, steps=96, seeds=2, **parts)
    whole, begun = setup.runner(), setup.runner()
    whole.begin()
    begun.begin()
    turns = 96 // whole.steps_per_iteration
    whole.advance(turns)
    begun.advance(turns // 2)
    begun.save(tmp_path / "half.npz", {"steps": begun.steps})
    resumed = from_config(json.loads(json.dumps(setup.config()))).runner()
    resumed.load(tmp_path / "half.npz")
    resumed.advance(turns - turns // 2)
    assert resumed.steps == whole.steps
    for one, other in zip(*map(jax.tree.leaves, (whole.agent_states(), resumed.agent_states())), strict=True):
        np.testing.assert_array_equal(one, other)


def test_numbers_of_the_moment():
    """The loop has the number of its clock, and evaluation the last one."""
    setup = resolve("td3", "Pendulum-v1", agent_options={"exploration_noise": "linear:1,0"}, steps=1000)
    learner = setup.learner()
    assert float(at_fraction(learner, 0.25).agent.exploration_noise) == 0.75
    state = jax.eval_shape(lambda: learner.init(jax.random.key(0)))
    assert state.agent.updates.shape == ()


@pytest.mark.parametrize("name", ["epsilon-greedy"])
def test_epsilon_itself(name):
    part = registry.build("behaviour", name, {"schedule": "cosine:1,0"})
    clock = Clock(jnp.int32(500), jnp.float32(1000))
    assert abs(float(at_fraction(part, clock.fraction).epsilon(clock)) - 0.5) < 1e-6


@pytest.mark.thorough
@pytest.mark.parametrize("environment", ["CartPole-v1", "gymnasium:CartPole-v1"])
def test_starts_follow_a_schedule(environment):
    """An episode that begins in a rollout gets the schedule's value at the rollout's start."""
    options = {"num_envs": 4, "rollout_length": 32, "hidden_sizes": (8,), "minibatches": 2, "epochs": 1}
    setup = resolve("ppo", environment, agent_options=options, starts=ToldStarts("linear:0,1"), steps=512, seeds=1)
    runner = setup.runner()
    runner.begin()
    for turn in range(3):
        runner.advance(1)
        if setup.native:
            reported, marks, ages = (
                runner.state.starts,
                runner.state.actors.at.start_id,
                runner.state.actors.episode_length,
            )
        else:
            (loop,) = runner.loops
            reported, marks, ages = loop.starts.state.part, loop.starts.state.start_ids, loop.episode_length
        assert np.allclose(reported, turn / 4)
        young = np.ravel(ages) < 32
        assert young.any() and np.allclose(np.ravel(marks)[young], turn / 4)


@pytest.mark.thorough
def test_ranges_of_contexts_follow_a_schedule():
    options = {"num_envs": 4, "rollout_length": 32, "hidden_sizes": (8,), "minibatches": 2, "epochs": 1}
    tasks = Contexts((Uniform("length", 0.5, "linear:0.5,1"), "gravity=9.8..5"))
    setup = resolve("ppo", "CartPole-v1", agent_options=options, tasks=tasks, steps=512, seeds=1)
    runner = setup.runner()
    runner.begin()
    assert np.all(runner.state.pool.starts.task.length == 0.5)
    runner.advance(3)
    task, young = runner.state.actors.at.task, np.ravel(runner.state.actors.episode_length) < 32
    assert young.any() and np.allclose(np.ravel(task.gravity)[young], 9.8 - (9.8 - 5) / 2)
    lengths = np.ravel(task.length)[young]
    assert np.all(lengths > 0.5) and np.all(lengths <= 0.75)
    last = setup.tasks.evaluation()
    assert [one.ends() for one in last.chosen] == [(0.5, 1.0), (5.0,)]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (lambda: {"tasks": Contexts(("length=0.5..2:1",))}, "low <= high for length; got 1.1 and 1.0"),
        (lambda: {"tasks": Contexts(("length=1..-1",))}, "length of CartPole is above 0, not 0"),
        (lambda: {"tasks": Contexts(("length=1..",))}, "has '' where a number should be"),
        (lambda: {"tasks": Contexts(("length=linear:1..2:3:100",))}, "start of Linear takes a number and no schedule"),
        (lambda: {"starts": ToldStarts("linear:0,2")}, "probability of .*ToldStarts is from 0 to 1, not 2"),
        (lambda: {"starts": ToldStarts("lineal:0,1")}, "Did you mean 'linear'"),
        (lambda: {"starts": FixedStarts("linear:0,1")}, "probability of FixedStarts takes a number and no schedule"),
    ],
)
def test_schedules_of_tasks_and_starts_that_cannot_be(parts, said):
    with pytest.raises(ForageError, match=said):
        resolve("ppo", "CartPole-v1", seeds=1, **parts()).loop()
