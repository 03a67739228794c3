"""Claims: the rule, the arms, stopping and going on, and a smoke of every one."""

import importlib.util
import json
from inspect import signature

import numpy as np
import pytest
import small

from forage import training
from forage.claims import running
from forage.claims.claim import Effect, Rule, area, effects, judged, late, verdict
from forage.evaluation.comparison import bootstrap_difference
from forage.run import Run
from forage.setup import make_setup
from forage.types import ForageError

small.keep_compiled()
NEEDS = {"central-critic": "jaxmarl"}
EXAMPLE = "learning-rate-annealing"


def test_the_rule():
    assert judged(0.1, 0.3, 0.0) == "holds"
    assert judged(-0.3, -0.1, 0.0) == "fails"
    assert judged(-0.1, 0.3, 0.0) == judged(0.1, 0.3, 0.2) == "undecided"
    assert judged(0.1, 0.15, 0.2) == "fails"  # an effect there is, smaller than what was claimed

    def said(*words):
        return verdict([Effect("x", 0, 0, 0, word) for word in words])

    assert said("holds", "holds") == "holds"
    assert said("holds", "undecided") == "undecided"
    assert said("holds", "undecided", "fails") == "fails"


def test_effects_are_differences_of_means():
    claim = running.load("gae-lambda")
    values = {"lambda 0": np.array([1.0, 2, 3]), "lambda 0.95": np.array([10.0, 11, 12]), "lambda 1": np.full(3, 11.0)}
    first, second = effects(claim, values)
    assert (first.baseline, first.value, first.verdict) == ("lambda 0", 9.0, "holds")
    assert (second.baseline, second.value, second.verdict) == ("lambda 1", 0.0, "undecided")
    lower = claim._replace(rule=Rule(higher=False))
    assert effects(lower, values)[0].value == -9.0 and effects(lower, values)[0].verdict == "fails"


def test_the_interval_of_a_difference_is_that_of_the_formula():
    random = np.random.default_rng(0)
    a, b = random.normal(1.0, 1.0, 400), random.normal(0.0, 2.0, 300)
    value, low, high = bootstrap_difference(a, b)
    deviation = np.sqrt(a.var() / 400 + b.var() / 300)
    assert value == pytest.approx(a.mean() - b.mean())
    np.testing.assert_allclose([low, high], [value - 1.96 * deviation, value + 1.96 * deviation], atol=0.02)
    with pytest.raises(ForageError, match="2 or more finite scores"):
        bootstrap_difference(np.array([1.0]), b)


def test_measures_of_a_curve(tmp_path):
    class Drawn:
        rows = [{"steps": s, "return": [v], "q": [float(s)]} for s, v in ((0, None), (10, 2.0), (20, None), (30, 6.0))]
        curve = Run.curve
        evaluations = []

    # 2 up to 10 (the first that is known), then a line to 6 at 30: (20 + 80) / 30.
    assert area(Drawn()) == [pytest.approx(100 / 30)]
    assert late("q", 0.5)(Drawn()) == [25.0]


@pytest.mark.parametrize("name", running.names())
@pytest.mark.thorough
def test_every_arm_can_be_set_up(name, monkeypatch, tmp_path):
    claim = running.load(name)
    assert claim.treatment in claim.arms or claim.judge is not None
    assert set(claim.baselines) <= set(claim.arms) and claim.statement.endswith(".")
    assert set(claim.paper.arms) <= set(claim.arms)  # a misspelt label would be left out without a word
    assert min(claim.laptop.seeds) >= 1000  # apart from those for tuning, and those of the learning table
    setups = {}

    def set_up(agent, environment, *, steps, seeds, directory, **options):
        parts = {name: value for name, value in options.items() if name not in signature(training.train).parameters}
        setups[directory.name] = make_setup(agent, environment, steps=steps, seeds=seeds, **parts)

    monkeypatch.setattr(training, "finished", set_up)

    def all_arms():
        for label in claim.arms:
            running.trained(claim, label, claim.smoke, "smoke", tmp_path / label, "quiet")

    if lacks(name):
        with pytest.raises(ForageError, match=NEEDS[name]):
            all_arms()
        return
    all_arms()
    assert setups.keys() == claim.arms.keys()
    for setup in setups.values():
        assert setup.seeds == list(claim.smoke.seeds)
        setup.learner()
    configs = [json.dumps(setup.config(), default=repr) for setup in setups.values()]
    assert len(set(configs)) == len(configs), "two arms are the same"


def lacks(name):
    return name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None


@pytest.mark.parametrize("name", running.names())
@pytest.mark.thorough
def test_smoke(name, tmp_path):
    if lacks(name):
        pytest.skip(f"{NEEDS[name]} is not installed")
    claim = running.load(name)
    result = running.run(name, "smoke", tmp_path, "quiet")
    assert result["verdict"] in ("holds", "fails", "undecided")
    for arm in result["arms"].values():
        assert len(arm["values"]) == len(claim.smoke.seeds) and np.isfinite(arm["values"]).all()
    stored = json.loads((tmp_path / "result.json").read_text())
    assert stored == json.loads(json.dumps(result))
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    assert running.sentences(result)[0].startswith(f"{name}: ")


@pytest.mark.thorough
def test_goes_on_where_it_was(tmp_path, monkeypatch):
    whole = running.run(EXAMPLE, "smoke", tmp_path / "a", "quiet")
    train = training.train
    calls = []

    def once(*arguments, **options):
        if calls:
            raise KeyboardInterrupt
        calls.append(1)
        return train(*arguments, **options)

    monkeypatch.setattr(training, "train", once)
    with pytest.raises(KeyboardInterrupt):
        running.run(EXAMPLE, "smoke", tmp_path / "b", "quiet")
    monkeypatch.setattr(training, "train", train)
    (tmp_path / "b" / "constant" / "evaluation.json").unlink()  # as if it had been stopped before the end
    again = running.run(EXAMPLE, "smoke", tmp_path / "b", "quiet")
    assert again["effects"] == whole["effects"]
    # What is over leaves no checkpoints behind, and is not begun anew.
    assert not list(tmp_path.glob("b/*/checkpoints")) and len(list(tmp_path.glob("b/*/agent.npz"))) > 1
    monkeypatch.setattr(training, "train", once)
    assert running.run(EXAMPLE, "smoke", tmp_path / "b", "quiet")["effects"] == whole["effects"]


def test_arms_have_directories_of_their_own(tmp_path, monkeypatch):
    claim = running.load(EXAMPLE)
    arm = claim.arms[claim.treatment]
    monkeypatch.setattr(running, "load", lambda name: claim._replace(arms={"shift +1": arm, "shift -1": arm}))
    with pytest.raises(ForageError, match="share a directory"):
        running.run(EXAMPLE, "smoke", tmp_path, "quiet")


def test_bad_input(tmp_path):
    with pytest.raises(ForageError, match=r"no claim 'gae-lamda'.*gae-lambda"):
        running.run("gae-lamda")
    with pytest.raises(ForageError, match="laptop, smoke, paper, not 'huge'"):
        running.run(EXAMPLE, "huge")
    with pytest.raises(ForageError, match="needs hours on many cores; there is no accelerator here, and --anyway"):
        running.run(EXAMPLE, "paper", tmp_path)
    with pytest.raises(ForageError, match=r"cannot run at the paper's scale .6 seeds.*the true values of a game"):
        running.run("double-q-learning", "paper", tmp_path, anyway=True)
    running.run(EXAMPLE, "smoke", tmp_path / "small", "quiet")
    with pytest.raises(ForageError, match="a run of another size"):
        running.run(EXAMPLE, "laptop", tmp_path / "small", "quiet")
