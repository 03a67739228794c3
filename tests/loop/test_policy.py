"""A trained agent acts the same after training, without its loop."""

import json
import pickle
import subprocess
import sys

import jax
import numpy as np
import pytest
import small
from tiers import gate_cases

import forage
from forage.core import prng, spaces
from forage.core.loading import load_class, load_file
from forage.core.ports import ActInputs
from forage.core.sweep import best_member, members_of
from forage.core.types import ForageError
from forage.environments import make, spec_of
from forage.loop.policy import Policy

small.keep_compiled()
OBSERVATIONS = np.array([[0.1, -0.02], [0.3, 0.04], [-0.5, 0.06]], np.float32)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Two seeds of an agent with memory."""
    return small.train(tmp_path_factory.mktemp("runs") / "gru", "ppo-gru").directory


@pytest.mark.thorough
def test_acts_in_a_fresh_process_without_the_loop(directory):
    code = f"""
import json, sys
import forage
agent = forage.load({str(directory)!r}, seed=7)
print(json.dumps([int(agent.act(o)) for o in {OBSERVATIONS.tolist()}]))
print(*sys.modules)
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=small.environment(), check=True
    )
    actions, loaded = result.stdout.splitlines()
    here = forage.load(directory, seed=7)
    assert json.loads(actions) == [int(here.act(o)) for o in OBSERVATIONS]
    training = {f"forage.{name}" for name in ("loop.device", "loop.host", "runs", "config.setup", "evaluation")}
    assert not (training | {"forage.environments", "matplotlib", "scipy", "rich"}) & set(loaded.split())


@pytest.mark.parametrize("explore", [False, True])
@pytest.mark.parametrize("seed", gate_cases([3, 7], [3]))
def test_acts_as_the_agent_does(directory, seed, explore):
    policy = forage.load(directory, seed=seed)
    policy.reset(11)
    agent, state, key = policy.agent, policy.state, prng.key(11)
    hidden = agent.init_hidden(policy.spec)

    @jax.jit
    def act(hidden, observation, now):
        action, hidden, _ = agent.act(state, ActInputs(hidden, observation, now, explore))
        return spaces.clip(policy.spec.action_space, action), agent.observe_action(state, hidden, action)

    for observation in OBSERVATIONS:
        key, now = jax.random.split(key)
        action, hidden = act(hidden, observation, now)
        assert policy.act(observation, explore) == action
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), policy._hidden, hidden)


def test_a_pickled_policy_goes_on_with_its_episode(directory):
    here = forage.load(directory, seed=7, actions="sampled")
    here.act(OBSERVATIONS[0])
    there = pickle.loads(pickle.dumps(here))
    assert (repr(there), there.member, there.directory) == (repr(here), {"seed": 7}, str(directory))
    assert small.differing((here.state, here._hidden), (there.state, there._hidden)) == []
    assert [there.act(o) for o in OBSERVATIONS] == [here.act(o) for o in OBSERVATIONS]


OWN_AGENT = """
from forage.agents.policy_gradient.reinforce import Reinforce

class Mine(Reinforce):
    pass

class Closed(Reinforce):
    def __reduce__(self):
        raise TypeError("holds a socket")
"""


def test_a_pickled_policy_brings_files_of_ones_own(tmp_path):
    (tmp_path / "own.py").write_text(OWN_AGENT)
    target = str(tmp_path / "own.py")

    def policy(name):
        agent = load_class(f"{target}:{name}")(hidden_sizes=(4,))
        spec = spec_of(make("CartPole-v1"), "CartPole-v1")
        return Policy(agent, agent.init(prng.key(0), spec), spec)

    kept = pickle.dumps(policy("Mine"))
    module = load_file(target)
    del sys.modules[module.__name__]  # as in another process
    there = pickle.loads(kept)
    assert type(there.agent) is not module.Mine and type(there.agent).__name__ == "Mine"
    assert there.act(np.zeros(4, np.float32)) in (0, 1)
    with pytest.raises(
        ForageError, match=r"Closed cannot be pickled \(TypeError: holds a socket\); load it where it is"
    ):
        pickle.dumps(policy("Closed"))


@pytest.mark.parametrize("explore", [False, True])
def test_one_choice_is_a_number_of_python(directory, explore):
    policy = forage.load(directory, seed=3)
    assert type(policy.act(OBSERVATIONS[0], explore)) is int
    policy.reset()
    actions = policy.act(OBSERVATIONS, explore)
    assert actions.shape == (3,) and {0: "left", 1: "stay", 2: "right"}[actions[0]]


def test_each_seed_has_its_own_agent_and_the_best_is_the_default(directory):
    evaluation = json.loads((directory / "evaluation.json").read_text())
    one, two = (forage.load(directory, seed=seed) for seed in (3, 7))
    assert small.differing(one.state, two.state)
    best_member = (one, two)[int(np.argmax(evaluation["return"]))]
    assert small.differing(forage.load(directory).state, best_member.state) == []
    with pytest.raises(ForageError, match="has seeds 3, 7, not 5"):
        forage.load(directory, seed=5)
    assert (one.member, one.choice_words) == ({"seed": 3}, "")


def test_the_member_that_is_taken_is_said():
    members = members_of({"learning_rate": [0.1, 0.2]}, [3, 7])
    returns = [1.0, 5.0, None, 4.0]
    assert [
        best_member("runs/x", members, returns, wanted) for wanted in ({}, {"seed": 3}, {"learning_rate": 0.2})
    ] == [
        1,
        0,
        3,
    ]
    assert best_member("runs/x", members, returns, {"seed": 7, "learning_rate": 0.2}) == 3
    assert (
        best_member("runs/x", members, [9.0, 0, 6, 5], {}) == 2
    )  # the better setting's best seed, not the luckiest of all
    assert best_member("runs/x", members, None, {"learning_rate": 0.2}) == 2
    for wanted, words in (
        ({"seed": 5}, "runs/x has seeds 3, 7, not 5"),
        ({"learning_rate": 0.3}, "runs/x has learning_rate 0.1, 0.2, not 0.3"),
        ({"clip": 0.3}, "runs/x has no sweep over clip; it has one over learning_rate"),
    ):
        with pytest.raises(ForageError, match=words):
            best_member("runs/x", members, returns, wanted)
    policy = Policy.__new__(Policy)
    policy.member, policy.members, policy.evaluated = members[1], 4, True
    assert policy.choice_words == (
        "Took seed 7, learning_rate=0.1: the best in evaluation of 4 trained agents; seed and learning_rate can be "
        "named to take another."
    )
    policy.settings = 2
    assert "0.1: the best seed of the best of 2 settings in evaluation, of 4 trained agents;" in policy.choice_words


def test_memory_lasts_until_reset(directory):
    policy = forage.load(directory)
    first = np.array(policy._hidden.features)
    policy.act(OBSERVATIONS[0])
    after = np.array(policy._hidden.features)
    assert not np.array_equal(first, after)
    policy.act(OBSERVATIONS[0])
    assert not np.array_equal(after, policy._hidden.features)
    policy.reset()
    assert np.array_equal(first, policy._hidden.features)
    policy.act(OBSERVATIONS[0])
    assert np.array_equal(after, policy._hidden.features)


def test_a_batch_is_its_rows(directory):
    policy = forage.load(directory)
    single = []
    for observation in OBSERVATIONS:
        policy.reset()
        single.append(int(policy.act(observation, explore=False)))
    policy.reset()
    actions = policy.act(OBSERVATIONS, explore=False)
    assert isinstance(actions, np.ndarray) and actions.dtype == np.int32
    assert actions.tolist() == single
    with pytest.raises(
        ForageError, match="remembers the episodes of a batch of 3, and got one observation; call reset"
    ):
        policy.act(OBSERVATIONS[0])


def test_each_row_of_a_batch_has_a_memory_that_is_reset_alone(directory):
    policy = forage.load(directory)
    policy.act(OBSERVATIONS)
    before = np.array(policy._hidden.features)
    policy.reset(only=[False, True, False])
    after = np.array(policy._hidden.features)
    assert np.array_equal(after[[0, 2]], before[[0, 2]]) and before[1].any() and not after[1].any()
    with pytest.raises(ForageError, match=r"has shape \(2,\) where \(3,\) are acted in"):
        policy.reset(only=[True, False])


def test_rows_of_a_batch_draw_apart_and_go_on(directory):
    policy = forage.load(directory)
    same = np.repeat(OBSERVATIONS[:1], 64, axis=0)
    first, second = policy.act(same, explore=True), policy.act(same, explore=True)
    assert {0, 1} == set(first.tolist()) and not np.array_equal(first, second)
    policy.reset()
    assert np.array_equal(policy.act(same, explore=True), first)


def test_a_policy_says_what_it_is(directory):
    said = repr(forage.load(directory, seed=7, actions="greedy"))
    assert said == "<Policy: PPO on CartPole-masked, seed 7, greedy actions, remembers within an episode>"


@pytest.mark.parametrize(
    ("observation", "said"),
    [
        (np.zeros(4), r"has shape \(2,\), not \(4,\)"),
        (np.zeros((1, 1, 2)), r"has shape \(2,\), not \(1, 1, 2\); a batch has one axis before it, as in \(8, 2\)"),
        (0.5, r"has shape \(2,\), not \(\)"),
        ({"a": np.zeros(2)}, "is an element of Box.*not dict"),
        ("up", "is an element of Box.*not str"),
        (None, "is an element of Box.*not NoneType|has shape"),
    ],
)
def test_a_wrong_observation_is_one_sentence(directory, observation, said):
    with pytest.raises(ForageError, match=said) as caught:
        forage.load(directory).act(observation)
    assert "\n" not in str(caught.value)


def test_lists_and_other_types_of_numbers_are_understood(directory):
    policy = forage.load(directory)
    expected = policy.act(OBSERVATIONS[0])
    for same in (OBSERVATIONS[0].tolist(), OBSERVATIONS[0].astype(np.float64), jax.numpy.asarray(OBSERVATIONS[0])):
        policy.reset()
        assert policy.act(same) == expected


def test_what_is_no_agent_is_one_sentence(tmp_path, directory):
    with pytest.raises(ForageError, match="holds no trained agent"):
        forage.load(tmp_path)
    (tmp_path / "agent.npz").write_bytes((directory / "agent.npz").read_bytes())
    with pytest.raises(ForageError, match=r"config\.json cannot be read"):
        forage.load(tmp_path)
    (tmp_path / "config.json").write_text((directory / "config.json").read_text())
    (tmp_path / "agent.npz").write_bytes((directory / "agent.npz").read_bytes()[:500])
    with pytest.raises(ForageError, match="not a whole Forage checkpoint"):
        forage.load(tmp_path)
