"""Generative adversarial imitation learning: its update by hand, and no reward for the length of episodes."""

import json
from pathlib import Path

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from reward_helpers import KEY, learn, relabel, spec_of

from forage.config.resolve import from_config, resolve
from forage.core.types import DATASET, Experience, ForageError
from forage.data import files
from forage.data.demonstrations import Demonstrations
from forage.data.logged import Transitions
from forage.rewards.adversarial.gail import GAIL

SMALL = {"hidden_sizes": (8,), "batch_size": 16, "capacity": 64}
SPEC = spec_of(gymnasium.spaces.Box(-10, 10, (2,), np.float32))


def rows(count, place, terminated=False):
    """Transitions about a place, each ended or none."""
    random = np.random.default_rng(int(10 * abs(place)) + (place < 0))
    seen = (place + 0.1 * random.normal(size=(count + 1, 2))).astype(np.float32)
    flag = np.full(count, terminated)
    source = np.full(count, DATASET, np.int32)
    action = random.integers(0, 2, count).astype(np.int32)
    return Experience(seen[:-1], action, np.ones(count, np.float32), seen[1:], flag, ~flag & False, source, ())


def show(count=32, place=1.0, terminated=False):
    return Demonstrations("a.npz", "", jax.tree.map(jnp.asarray, rows(count, place, terminated)))


def rollout(count=32, place=-1.0, terminated=False):
    return jax.tree.map(lambda x: x.reshape(count // 4, 4, *x.shape[1:]), rows(count, place, terminated))


@jax.jit
def begin(rewards):
    return rewards.init(KEY, SPEC, 4)


def by_hand(state, experience):
    """The logits of transitions (leaves `row ...`): normalised observation, the choice as one-hot, no absorbing."""
    mean, deviation = np.asarray(state.norm.mean), np.sqrt(np.asarray(state.norm.variance))
    seen = np.clip((np.asarray(experience.observation) - mean) / deviation, -10, 10)
    x = np.concatenate([seen, np.eye(2)[np.asarray(experience.action)], np.zeros((len(seen), 1))], 1)
    first, last = state.network.sight.head.layers
    hidden = np.tanh(x @ np.asarray(first.weight) + np.asarray(first.bias))
    return (hidden @ np.asarray(last.weight) + np.asarray(last.bias))[:, 0]


def test_one_update_by_hand():
    """The loss is the cross-entropy of both kinds, and Adam's first step goes by the sign of its slope."""
    rewards = GAIL(show(16), gradient_penalty=0.0, absorbing=False, learning_rate=0.01, **SMALL)
    state = begin(rewards)
    own, theirs = (type(state.kept)(*(getattr(e, n) for n in state.kept._fields)) for e in (rows(16, -1), rows(16, 1)))
    after, metrics = small.compute(lambda s, own, theirs: rewards.update(s, own, theirs, KEY), state, own, theirs)
    mine, good = by_hand(state, rows(16, -1)), by_hand(state, rows(16, 1))
    loss = np.log1p(np.exp(-good)).mean() + np.log1p(np.exp(mine)).mean()
    np.testing.assert_allclose(metrics["discriminator_loss"], loss, rtol=1e-4)
    np.testing.assert_allclose(metrics["demonstrations_told"], (good > 0).mean())
    np.testing.assert_allclose(metrics["own_told"], (mine < 0).mean())
    slope = (1 / (1 + np.exp(-mine))).mean() - (1 / (1 + np.exp(good))).mean()  # of the last bias, D - 1 and D
    before, moved = (s.network.sight.head.layers[-1].bias for s in (state, after))
    np.testing.assert_allclose(moved - before, -0.01 * np.sign(slope), rtol=1e-3)


def test_the_gradient_penalty_by_hand():
    """Of a linear logit the slope is its weights, everywhere."""
    rewards = GAIL(show(16), absorbing=False, **(SMALL | {"hidden_sizes": ()}))
    state = begin(rewards)
    weight = np.asarray(state.network.sight.head.layers[0].weight).ravel()
    mine, theirs = (rewards.sight(state, type(state.kept)(*(getattr(e, n) for n in state.kept._fields)))
                    for e in (rows(16, -1), rows(16, 1)))  # fmt: skip
    found = small.compute(lambda network: rewards.penalty(network, theirs, mine, KEY), state.network)
    np.testing.assert_allclose(found, (np.linalg.norm(weight) - 1) ** 2, rtol=1e-4)


@pytest.mark.parametrize(
    ("paid", "pays"),
    [
        ("positive", lambda d: -np.log(1 - d)),
        ("negative", np.log),
        ("logit", lambda d: np.log(d) - np.log(1 - d)),
    ],
)
def test_what_is_paid_by_hand(paid, pays):
    rewards = GAIL(show(), paid=paid, absorbing=False, **SMALL)
    state = begin(rewards)
    logit = by_hand(state, rows(32, -1.0))
    found = relabel(rewards, state, rollout()).reward.reshape(-1)
    np.testing.assert_allclose(found, pays(1 / (1 + np.exp(-logit))), rtol=1e-3, atol=1e-5)


def undecided_state(rewards):
    """Return the state of a discriminator with probability 0.6 for every transition."""
    state = begin(rewards)
    last = jax.tree.map(lambda x: jnp.full_like(x, np.log(1.5) * (x.ndim == 1)), state.network.sight.head.layers[-1])
    return state._replace(network=equinox.tree_at(lambda n: n.sight.head.layers[-1], state.network, last))


@pytest.mark.parametrize("paid", ["positive", "negative", "logit"])
@pytest.mark.parametrize("absorbing", [True, False])
def test_the_length_of_an_episode_earns_nothing_by_itself(paid, absorbing):
    """If all transitions are equal, a short episode is worth as much as a long one; without `absorbing`, the sign
    of the rewards favours long ones (positive) or short ones (negative).
    """
    rewards = GAIL(show(), paid=paid, absorbing=absorbing, discount=0.9, **SMALL)
    state = undecided_state(rewards)
    worth = {}
    for length in (4, 32):
        episode = jax.tree.map(lambda x, n=length: x[:n, None], rows(32, 0.0))
        ends = np.zeros((length, 1), bool)
        ends[-1] = True
        reward = relabel(rewards, state, episode._replace(terminated=ends)).reward[:, 0]
        worth[length] = np.sum(0.9 ** np.arange(length) * reward)
    if absorbing:
        np.testing.assert_allclose(worth[4], worth[32], rtol=1e-4)
    elif paid == "negative":
        assert worth[4] > worth[32] + 1
    else:
        assert worth[32] > worth[4] + 1


@pytest.mark.parametrize("theirs", [True, False])
def test_an_end_is_worth_what_it_is_worth_to_the_demonstrator(theirs):
    """The discriminator learns from which side absorbing states are: demonstrators, or the agent alone."""
    rewards = GAIL(show(32, 1.0, theirs), learning_rate=0.01, transitions_per_update=1, paid="logit", **SMALL)
    state = begin(rewards)
    for key in jax.random.split(KEY, 6):
        state, _, metrics = learn(rewards, state, rollout(32, 1.0, not theirs), key)
    assert np.isfinite(list(metrics.values())).all()
    ended, going = (relabel(rewards, state, rollout(32, 1.0, flag)).reward.mean() for flag in (True, False))
    assert ended > going + 10 if theirs else ended < going - 10


def test_a_discriminator_tells_one_from_the_other_and_pays_for_it():
    rewards = GAIL(show(), learning_rate=0.01, transitions_per_update=1, **SMALL)
    state = begin(rewards)
    for key in jax.random.split(KEY, 6):
        state, _, metrics = learn(rewards, state, rollout(), key)
    assert metrics["demonstrations_told"] > 0.95 and metrics["own_told"] > 0.95
    good, bad = (relabel(rewards, state, rollout(32, place)).reward.mean() for place in (1.0, -1.0))
    assert good > 2 * bad > 0
    assert int(state.count) == 6 * 32


def test_the_newest_transitions_are_kept():
    rewards = GAIL(show(), **(SMALL | {"capacity": 40}))
    state = begin(rewards)
    for place in (3.0, 4.0):
        state, _, _ = learn(rewards, state, rollout(32, place), KEY)
    kept = np.asarray(state.kept.observation)
    near = [(np.abs(kept - place).max(1) < 0.5).sum() for place in (3.0, 4.0)]
    assert near == [8, 32]


def write_file(path, environment="CartPole-v1", count=60):
    random = np.random.default_rng(0)
    setup = resolve("ppo", environment, seeds=1)
    space = setup.spec.action_space
    seen = random.normal(size=(count + 1, *setup.spec.observation_space.shape)).astype(np.float32)
    action = random.uniform(-2, 2, (count, 1)).astype(np.float32) if space.shape else random.integers(0, 2, count)
    last = np.arange(count) % 20 == 19
    data = Transitions(seen[:-1], action, random.normal(size=count), seen[1:], np.zeros(count, bool), last)
    files.write_data(path, data, {"spec": setup.config()["spec"]})
    return str(path)


def test_bad_files_are_refused_in_one_sentence(tmp_path, capsys):
    data = write_file(tmp_path / "a.npz")
    damaged = tmp_path / "damaged.npz"
    damaged.write_bytes(Path(data).read_bytes()[:-500])
    cases = {
        "CartPole-v1 none.npz": "There is no data set",
        "CartPole-v1 damaged.npz": "is not a whole data set",
        "Pendulum-v1 a.npz": "holds transitions of CartPole-v1",
        "DeepSeaTreasure-v0 a.npz": "has several rewards",
    }
    for case, words in cases.items():
        environment, file = case.split()
        run = ("--steps", "1000", "--seeds", "1", "--directory", tmp_path / "run")
        code, _, err = small.run_command(
            capsys, "train", "ppo", environment, "--rewards", "gail", "--rewards.demonstrations", tmp_path / file, *run
        )
        assert code == 2 and words in err and len(err.strip().splitlines()) == 1
        assert not (tmp_path / "run" / "config.json").exists()


RESUMED = [("ppo", "CartPole-v1"), ("sac", "Pendulum-v1"), ("ppo", "gymnasium:CartPole-v1")]


@pytest.mark.parametrize(("agent", "environment"), RESUMED)
@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped(agent, environment, tmp_path):
    data = write_file(tmp_path / "a.npz", environment.removeprefix("gymnasium:"))
    _, _, options = small.AGENTS[agent]
    rewards = GAIL(data, **SMALL)
    setup = resolve(agent, environment, steps=320, seeds=[3, 7], rewards=rewards, agent_options=options)
    again, runner, _ = small.resume_run(setup, tmp_path, 4)
    assert small.differing(runner.state, again.state) == []
    shapes = [x.shape for x in jax.tree.leaves(runner.state)]
    assert not any(60 in shape for shape in shapes)  # checkpoints have no copy of the data


def test_another_file_in_its_place_is_refused(tmp_path):
    data = write_file(tmp_path / "a.npz")
    setup = resolve("ppo", "CartPole-v1", steps=320, seeds=1, rewards=GAIL(data, **SMALL))
    write_file(tmp_path / "a.npz", count=40)
    with pytest.raises(ForageError, match="does not hold the demonstrations that this run began with"):
        from_config(json.loads(json.dumps(setup.config()))).runner()


def test_there_are_three_ways_to_pay():
    with pytest.raises(ForageError, match="paid of GAIL is one of positive, negative, logit"):
        GAIL("a.npz", paid="much")
