"""Tasks: the choice of the next environment."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check

from forage.agents.policy_gradient.ppo import PPO
from forage.behaviours.policy import AgentPolicy
from forage.config import part_data
from forage.core.types import Clock, Experience, ForageError, Spec
from forage.environments.classic.cartpole import CartPole
from forage.environments.classic.deep_sea import DeepSea
from forage.environments.wrappers import ContextVisible, SelectEntries
from forage.environments.wrappers.randomness import ActionNoise
from forage.loop.device.loop import DeviceLoop
from forage.loop.learner import Learner
from forage.memory.rollout import LastRollout
from forage.rewards.environment import EnvironmentReward
from forage.starts.reset import Reset
from forage.tasks.contexts import Contexts
from forage.tasks.distributions import Choice, Constant, Linear, LogUniform, Normal, Uniform
from forage.tasks.same import Same

LENGTHS = Contexts(("length=0.25:1.0",))


def draws(tasks, environment, number=200):
    state = tasks.init(jax.random.key(0), environment)
    return jax.vmap(lambda key: tasks.next(state, environment, key))(jax.random.split(jax.random.key(1), number))


@pytest.mark.thorough
def test_only_the_chosen_fields_are_drawn():
    tasks = Contexts(("length=0.25:1.0", "max_steps=3:5", "force=5:15"))
    task = draws(tasks, CartPole())
    assert len(jax.tree.leaves(task)) == 3
    assert task.length.min() >= 0.25 and task.length.max() <= 1.0
    # Uniform: a standard error of the mean is 0.015 here, of the share below 0.4 it is 0.028.
    assert abs(task.length.mean() - 0.625) < 0.09 and abs((task.length < 0.4).mean() - 0.2) < 0.15
    assert task.max_steps.dtype == jnp.int32 and set(task.max_steps.tolist()) == {3, 4, 5}
    # Different fields are drawn independently.
    assert abs(np.corrcoef(task.length, task.force)[0, 1]) < 0.4


def test_arrays_are_drawn_entry_by_entry():
    task = draws(Contexts(("action_mapping=0:1",)), DeepSea(4))
    mapping = np.asarray(task.action_mapping)
    assert mapping.dtype == np.asarray(DeepSea(4).action_mapping).dtype and mapping.shape == (200, 4, 4)
    assert ((mapping.mean(0) > 0.2) & (mapping.mean(0) < 0.8)).all()


def test_wrappers_are_looked_through():
    inner = ContextVisible(CartPole(), ("length",), (0.25,), (1.0,))
    task = draws(LENGTHS, SelectEntries(inner, (0, 4)))
    lengths = task.environment.environment.length
    assert lengths.shape == (200,) and len(jax.tree.leaves(task)) == 1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Contexts(("lenght=0.1:1",)), ["no field 'lenght'", "length"]),
        (lambda: Contexts(("length=0.1:1",), ("zzz=1",)), ["no field 'zzz'", "gravity"]),
        (lambda: Contexts(("environment=0.1:1",)), ["not a number that can be set"]),
        (lambda: Contexts(("max_steps=0.2:0.8",)), ["max_steps is a whole number"]),
        (lambda: Contexts(("max_steps=2.5",)), ["max_steps is a whole number, and 2.5 is none"]),
        (lambda: Contexts(("max_steps=choice:2:2.5",)), ["max_steps is a whole number, and 2.5 is none"]),
        (lambda: Contexts(("length=-1:1",)), ["length of CartPole is above 0, not -1."]),
        (lambda: Contexts(("length=1",), ("length=normal:0.5:1",)), ["length of CartPole is above 0, not -2.5."]),
        (lambda: Contexts(("gravity=choice:1:-2",)), ["gravity of CartPole is 0 or more, not -2."]),
        (lambda: Contexts(("length=linear:1:-1:100",)), ["length of CartPole is above 0, not -1."]),
        (lambda: Contexts(("length=1.0:0.5",)), ["low <= high for length", "1.0 and 0.5"]),
        (lambda: Contexts(("length=log-uniform:0:1",)), ["low above 0 for length"]),
        (lambda: Contexts(("length=normal:1:-1",)), ["std of 0 or more for length"]),
        (lambda: Contexts(("length=linear:1:2:0",)), ["1 step or more"]),
        (lambda: Contexts(("length=1:2:3",)), ["uniform is written length=uniform:LOW:HIGH", "3 numbers"]),
        (lambda: Contexts(("length=norml:1:2",)), ["Unknown distribution 'norml'", "normal"]),
        (lambda: Contexts(("length=uniform:1:x",)), ["'x' where a number should be"]),
        (lambda: Contexts(("length",)), ["a field and its values"]),
        (lambda: Contexts((5,)), ["not 5"]),
        (lambda: Contexts(()), ["at least one field"]),
        (lambda: Contexts(("length=1:2", "length=1")), ["length is chosen twice"]),
        (lambda: Contexts(("length=1:2",), split="inter"), ["one of same, interpolation, extrapolation, not 'inter'"]),
        (lambda: Contexts(("length=1:2",), ("length=3",), "interpolation"), ["not both"]),
        (lambda: Contexts(("length=choice:1:2",), split="interpolation"), ["length has none; give test contexts"]),
        (lambda: Contexts(("max_steps=1:20",), split="interpolation"), ["max_steps has none; give test contexts"]),
    ],
)
def test_mistakes_are_named(make, words):
    with pytest.raises(ForageError) as error:
        check(make(), SelectEntries(CartPole(), (0, 2)))
    assert all(word in str(error.value) for word in words), error.value


def test_words_are_distributions():
    written = (
        "gravity=9",
        "length=0.25:1",
        "force=uniform:5:15",
        "tau=log-uniform:0.01:0.04",
        "cart_mass=normal:1:0.1",
    )
    written += ("pole-mass=choice:0.1:0.2", "angle_threshold=linear:0.2:0.4:100k")
    assert Contexts(written).train == (
        Constant("gravity", 9.0),
        Uniform("length", 0.25, 1.0),
        Uniform("force", 5.0, 15.0),
        LogUniform("tau", 0.01, 0.04),
        Normal("cart_mass", 1.0, 0.1),
        Choice("pole_mass", (0.1, 0.2)),
        Linear("angle_threshold", 0.2, 0.4, 100_000.0),
    )


def test_contexts_are_kept_in_a_configuration():
    tasks = Contexts(("length=0.25:1", Choice("force", (5.0, 10.0))), test=("length=linear:1:2:100",))
    assert part_data.from_config(json.loads(json.dumps(part_data.to_config(tasks)))) == tasks


@pytest.mark.thorough
def test_every_kind_is_drawn_as_it_says():
    tasks = Contexts(
        ("length=0.7", "force=log-uniform:1:100", "gravity=normal:10:2", "tau=choice:0.01:0.02:0.04", "max_steps=2:4")
    )
    task = draws(tasks, CartPole(), 1000)
    assert (task.length == jnp.float32(0.7)).all()
    # Standard errors: 0.016 of a share, 0.063 of the normal's mean, 0.045 of its deviation.
    assert task.force.min() >= 1 and task.force.max() <= 100 and abs((task.force < 10).mean() - 0.5) < 0.08
    assert abs(task.gravity.mean() - 10) < 0.3 and abs(task.gravity.std() - 2) < 0.25
    assert np.abs(task.gravity - 10).max() <= 6.001
    values, counts = np.unique(task.tau, return_counts=True)
    np.testing.assert_allclose(values, [0.01, 0.02, 0.04], rtol=1e-6)
    assert (np.abs(counts / 1000 - 1 / 3) < 0.08).all()
    assert set(task.max_steps.tolist()) == {2, 3, 4}


@pytest.mark.thorough
def test_a_schedule_follows_the_steps_of_the_run():
    tasks = Contexts(("length=linear:0.5:1.5:100", "max_steps=linear:10:20:100"))
    assert tasks.adapts and not LENGTHS.adapts
    state = tasks.init(jax.random.key(0), CartPole())
    rollout = Experience(*[np.zeros((5, 4))] * 8)
    lengths = []
    for _ in range(7):
        task = tasks.next(state, CartPole(), jax.random.key(1))
        lengths.append((float(task.length), int(task.max_steps)))
        state = tasks.report(state, rollout, None)
    np.testing.assert_allclose(
        lengths, [(0.5, 10), (0.7, 12), (0.9, 14), (1.1, 16), (1.3, 18), (1.5, 20), (1.5, 20)], rtol=1e-6
    )
    evaluated = draws(tasks.evaluation(), CartPole(), 3)
    np.testing.assert_allclose(evaluated.length, 1.5)


def test_evaluation_draws_test_contexts():
    tasks = Contexts(("length=0.25:1.0", "force=5:6"), ("length=2:3", "gravity=9"))
    trained, tested = draws(tasks, CartPole()), draws(tasks.evaluation(), CartPole())
    assert trained.length.max() <= 1 and trained.gravity is None
    assert tested.length.min() >= 2 and (tested.gravity == 9).all()
    assert tested.force.max() <= 6  # what test does not name is as in training
    assert Same().evaluation() == Same()


@pytest.mark.parametrize("words", ["length=1:2", "length=log-uniform:1:2", "length=normal:1.5:0.2"])
@pytest.mark.thorough
def test_splits_are_apart(words):
    middle, ends = Contexts((words,), split="extrapolation"), Contexts((words,), split="interpolation")
    whole = np.asarray(draws(Contexts((words,)), CartPole(), 2000).length)
    low, high = np.quantile(whole, [0.25, 0.75])
    margin = 0.03
    for tasks in (middle, ends.evaluation()):
        lengths = np.asarray(draws(tasks, CartPole(), 300).length)
        assert lengths.min() > low - margin and lengths.max() < high + margin
    for tasks in (ends, middle.evaluation()):
        lengths = np.asarray(draws(tasks, CartPole(), 300).length)
        assert ((lengths < low + margin) | (lengths > high - margin)).all()
        assert (lengths < low).mean() > 0.3 and (lengths > high).mean() > 0.3


def test_strengths_of_wrappers_are_contexts():
    task = draws(Contexts(("action_noise=0:0.5", "length=1:2")), ActionNoise(CartPole()))
    assert task.action_noise.max() <= 0.5 and task.environment.length.min() >= 1


@pytest.mark.thorough
def test_each_episode_has_its_own_physics_and_keeps_it():
    environment = CartPole(max_steps=9)
    agent = PPO(num_envs=4, rollout_length=1, epochs=1, minibatches=1, hidden_sizes=(8,))
    spec = Spec("CartPole", environment.observation_space, environment.action_space)
    learner = Learner(agent, AgentPolicy(), EnvironmentReward(), LastRollout(), spec)
    loop = DeviceLoop(learner, environment, LENGTHS, Reset())
    clock = Clock(jnp.int32(0), jnp.float32(1e6))

    @functools.partial(jax.jit, static_argnums=1)
    def run(loop, steps):
        def step(state, key):
            before = state.actors.at
            found = loop.collect(state, clock, key)
            state = state._replace(pool=found.pool, actors=found.actors)
            return state, (before, found.actors.at.task.length, found.rollout)

        state = loop.init(jax.random.key(0))
        _, log = jax.lax.scan(step, state, jax.random.split(jax.random.key(1), steps))
        # What the physics of the drawn length, and no other, makes of each step.
        before, _, rollout = log
        action = rollout.action[:, 0]

        def physics(length, state, action):
            return CartPole(max_steps=9, length=length).step(state, action, jax.random.key(0))[1].observation

        own = jax.vmap(jax.vmap(physics))(before.task.length, before.env_state, action)
        plain = jax.vmap(jax.vmap(lambda s, a: physics(0.5, s, a)))(before.env_state, action)
        return log, own, plain, loop.iterate(state, clock)

    (before, after, rollout), own, plain, (_, tally) = run(loop, 40)
    ended = np.asarray(rollout.ended[:, 0])
    changed = np.asarray(before.task.length != after)
    assert ended.sum() >= 12
    np.testing.assert_array_equal(changed, ended)
    assert len(np.unique(after)) > 12 and after.min() >= 0.25 and after.max() <= 1.0
    np.testing.assert_allclose(rollout.next_observation[:, 0], own, rtol=1e-4, atol=1e-5)
    assert np.abs(rollout.next_observation[:, 0] - plain).max() > 1e-2
    assert not tally.faults
