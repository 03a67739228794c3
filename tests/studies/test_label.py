"""Labels that data lack: rewards by optimal transport, by hand and by rank; actions by an inverse model."""

import dataclasses
import json

import numpy as np
import pytest
import small
from gymnasium import spaces

from forage.config.resolve import resolve
from forage.core.types import ForageError, Spec
from forage.data import files
from forage.data.logged import Transitions
from forage.studies.datasets.label import inverse_actions, inverse_inputs, transported_rewards

small.keep_compiled()
RANDOM = np.random.default_rng(0)


def walks(lengths, move=lambda step: step, discrete=False):
    """Make random walks in two dimensions: the action is the step, or its half-plane."""
    seen, following, action = [], [], []
    for length in lengths:
        step = RANDOM.uniform(-0.9, 0.9, (length, 2))
        place = np.cumsum(np.concatenate([RANDOM.normal(size=(1, 2)), move(step)]), 0)
        seen.append(place[:-1])
        following.append(place[1:])
        action.append((step[:, 0] > 0).astype(np.int64) if discrete else step)
    last = np.concatenate([np.arange(length) == length - 1 for length in lengths])
    parts = [np.concatenate(x).astype(np.float32) for x in (seen, following)]
    done = np.concatenate(action)
    done = done if discrete else done.astype(np.float32)
    return Transitions(parts[0], done, np.zeros(len(last)), parts[1], np.zeros(len(last), bool), last)


def episodes(*angles):
    """An episode for each list of angles that are seen."""
    seen = np.concatenate([np.stack([np.cos(a), np.sin(a)], 1) for a in angles]).astype(np.float32)
    last = np.concatenate([np.arange(len(a)) == len(a) - 1 for a in angles])
    nothing = np.zeros(len(last))
    return Transitions(seen, nothing[:, None].astype(np.float32), nothing, seen, np.zeros(len(last), bool), last)


def test_rewards_by_hand():
    """Two steps and two demonstrated: each moves to the nearest, at 1 - cos; the better demonstration counts."""
    data = episodes([0.1, 1.0], [0.5])
    shown = episodes([0.0, 1.2], [3.0, 2.0, 2.5])
    found = transported_rewards(data, shown, height=5.0, sharpness=5.0, blur=1e-3, span=0.0)
    cost = 1 - np.cos([0.1, 0.2])
    np.testing.assert_allclose(found[:2], 5 * np.exp(-5 * cost / 2), rtol=1e-3)
    np.testing.assert_allclose(found[2], 5 * np.exp(-5 * (1 - np.cos([0.5, 0.7])).mean() / 2), rtol=1e-3)
    spanned = transported_rewards(data, shown, blur=1e-3, span=1000.0)
    np.testing.assert_allclose(np.ptp(np.bincount(data.numbers, spanned)), 1000.0, rtol=1e-6)
    np.testing.assert_allclose(spanned[:2] / spanned[2], found[:2] / found[2], rtol=1e-6)
    with pytest.raises(ForageError, match="blur is above 0, not 0"):
        transported_rewards(data, shown, blur=0.0)


def test_what_an_inverse_model_reads():
    data = walks([3, 2])
    found = inverse_inputs(data, 1)
    assert found.shape == (5, 6)
    np.testing.assert_array_equal(found[:, 2:4], data.observation)
    np.testing.assert_array_equal(found[:, 4:], data.next_observation)
    np.testing.assert_array_equal(found[[0, 3], :2], 0)  # nothing came before
    np.testing.assert_array_equal(found[[1, 2, 4], :2], data.observation[[0, 1, 3]])


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.thorough
def test_an_inverse_model_finds_the_actions(discrete):
    space = spaces.Discrete(2) if discrete else spaces.Box(-1.0, 1.0, (2,), np.float32)
    spec = Spec("Walk", spaces.Box(-np.inf, np.inf, (2,), np.float32), space)
    shown, watched = walks([20] * 30, discrete=discrete), walks([20] * 5, discrete=discrete)
    hidden = dataclasses.replace(watched, action=np.zeros_like(watched.action))
    found = inverse_actions(hidden, shown, spec, updates=1500, hidden_sizes=(32,), learning_rate=1e-2)
    if discrete:
        assert (found.action == watched.action).mean() > 0.9 and found.loss < 0.4
    else:
        assert np.abs(found.action - watched.action).mean() < 0.15 and found.loss < 0
    with pytest.raises(ForageError, match="taught on 2 episodes or more"):
        inverse_actions(hidden, walks([5], discrete=discrete), spec)


@pytest.fixture
def log(tmp_path):
    """Files of CartPole: one to label, and one to label by."""
    spec = resolve("ppo", "CartPole-v1", seeds=1).config()["spec"]
    for name, count in (("a", 40), ("b", 20)):
        seen = RANDOM.normal(size=(count, 4)).astype(np.float32)
        last = np.arange(count) % 10 == 9
        data = Transitions(seen, RANDOM.integers(0, 2, count), np.ones(count), seen, np.zeros(count, bool), last)
        files.write_data(tmp_path / f"{name}.npz", data, {"spec": spec, "mean_return": 10.0})
    return tmp_path


def test_the_command(log, capsys):
    a, b, out = log / "a.npz", log / "b.npz", log / "out.npz"
    code, said, err = small.run_command(capsys, "data", "label", a, "--demonstrations", b, "--output", out)
    assert (code, err) == (0, "") and "40 transitions in 4 episodes, rewards by optimal transport from b.npz" in said
    found, header = files.read_data(out)
    np.testing.assert_array_equal(found.action, files.read_data(a)[0].action)
    np.testing.assert_allclose(np.ptp(np.bincount(found.numbers, found.reward)), 1000, rtol=1e-6)
    assert header["mean_return"] is None
    words = ["--updates", 10, "--hidden-sizes", 4, "--json"]
    code, said, _ = small.run_command(capsys, "data", "label", a, "--labelled", b, "--output", out, *words)
    assert code == 0 and json.loads(said)["source"]["by"]["known"] == 20
    both = files.read_data(out)[0]
    assert both.transitions == 60 and both.episodes == 6
    np.testing.assert_array_equal(both.action[:20], files.read_data(b)[0].action)
    np.testing.assert_array_equal(both.observation[20:], files.read_data(a)[0].observation)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("a.npz --demonstrations b.npz", "forage data label needs --output FILE"),
        ("a.npz --output out.npz", "Name what to label by: demonstrations, for rewards"),
        ("a.npz --demonstrations b.npz --labelled b.npz --output out.npz", "Name what to label by"),
        ("a.npz --demonstrations b.npz --output b.npz", "b.npz would be written over what is read"),
        ("a.npz --demonstrations b.npz --output out.npz --updates 5", "has no option '--updates'"),
        ("a.npz --labelled b.npz --output out.npz --past -1", "past of 0 or more"),
        ("a.npz --demonstrations none.npz --output out.npz", "There is no data set none.npz"),
        ("a.npz --demonstrations b.npz --output out.csv", "No data set is written as '.csv'"),
    ],
)
def test_one_sentence(words, said, log, capsys, monkeypatch):
    monkeypatch.chdir(log)
    code, _, err = small.run_command(capsys, "data", "label", *words.split())
    assert code == 2 and said in err and err.count("\n") == 1
    assert not (log / "out.npz").exists()
