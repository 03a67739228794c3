"""Claims: the rule, the arms, stopping and resuming, and a smoke of every one."""

import importlib.util
import json
import shutil
import subprocess
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import small
from test_starting import BegunRunInterrupted, stop_at_once

from forage.config.options import PORTS
from forage.config.resolve import resolve
from forage.core.types import ForageError
from forage.runs import session, training
from forage.runs.run import Run, read_json, write_json
from forage.studies.claims import claim_row, names, running
from forage.studies.claims.claim import (
    Arm,
    Effect,
    Rule,
    Scale,
    SecondMeasure,
    area,
    effects,
    interval_verdict,
    join_verdicts,
    judged_arms,
    late,
    refusal,
)
from forage.studies.claims.provenance import commit_of, experiment
from forage.studies.claims.published import is_shallow
from forage.studies.claims.rows import experiment as experiment_of_row

small.keep_compiled()
NEEDS = {"central-critic": "jaxmarl", "value-decomposition": "jaxmarl"}
EXAMPLE = "learning-rate-annealing"
ROOT = Path(__file__).parents[3]


def test_the_rule():
    assert interval_verdict(0.1, 0.3, 0.0) == "holds"
    assert interval_verdict(-0.3, -0.1, 0.0) == "fails"
    assert interval_verdict(-0.1, 0.3, 0.0) == interval_verdict(0.1, 0.3, 0.2) == "undecided"
    assert interval_verdict(0.1, 0.15, 0.2) == "fails"  # an effect there is, smaller than what was claimed

    def say(*words):
        return join_verdicts([Effect("x", 0, 0, 0, word) for word in words])

    assert say("holds", "holds") == "holds"
    assert say("holds", "undecided") == "undecided"
    assert say("holds", "undecided", "fails") == "fails"


def test_effects_are_differences_of_means():
    claim = running.load_claim("gae-lambda")._replace(reach=None)
    values = {"lambda 0": np.array([1.0, 2, 3]), "lambda 0.95": np.array([10.0, 11, 12]), "lambda 1": np.full(3, 11.0)}
    first, second = effects(claim, values)
    assert (first.baseline, first.value, first.verdict) == ("lambda 0", 9.0, "holds")
    assert (second.baseline, second.value, second.verdict) == ("lambda 1", 0.0, "undecided")
    lower = claim._replace(rule=Rule(higher=False))
    assert effects(lower, values)[0].value == -9.0 and effects(lower, values)[0].verdict == "fails"


REFUSED = [
    # treatment, baseline, reach, the verdict, a word of the reason
    ([97.0, 99, 98], [101.0, 103, 102], (0.0, 100.0), "undecided", "ceiling"),
    ([97.0, 99, 98], [90.0, 91, 92], (0.0, 100.0), "holds", ""),
    ([1.0, 2, 1.5], [4.0, 5, 4.5], (0.0, 100.0), "undecided", "no judged arm learned"),
    ([1.0, 2, 1.5], [14.0, 15, 14.5], (0.0, 100.0), "fails", ""),
    ([99.0, 98, 98.5], [1.0, 2, 3], (0.0, 100.0), "holds", ""),  # opposite ends
    ([1.0, 2, 1.5], [4.0, 5, 4.5], (100.0, 0.0), "undecided", "ceiling"),  # a measure of which less is better
    ([1.0, 2, 1.5], [4.0, 5, 4.5], None, "fails", ""),
    ([500.0] * 3, [500.0] * 3, None, "undecided", "every seed of every judged arm has 500"),
    ([500.0] * 3, [499.0] * 3, None, "undecided", ""),  # three seeds without spread decide nothing by themselves
]


@pytest.mark.parametrize(("better", "worse", "reach", "verdict", "reason"), REFUSED)
def test_judged_arms_at_one_end_allow_no_verdict(better, worse, reach, verdict, reason):
    claim = running.load_claim("gae-lambda")._replace(baselines=("lambda 1",), reach=reach)
    claim = claim._replace(rule=Rule(margin=-50.0)) if reason and "500" in reason else claim
    values = {"lambda 0": np.full(3, 50.0), "lambda 0.95": np.array(better), "lambda 1": np.array(worse)}
    (found,) = effects(claim, values)
    assert found.verdict == verdict
    said = refusal(judged_arms(claim, values), reach)
    assert (reason in said) if reason else said == ""


def test_a_claims_own_judge_is_refused_where_all_arms_are_the_same():
    judge = lambda values, rule: [Effect("a", 0.0, 0.0, 0.0, "fails")]  # noqa: E731
    claim = running.load_claim("gae-lambda")._replace(reach=None, judge=judge)
    assert effects(claim, {"a": np.zeros(20)})[0].verdict == "undecided"
    assert effects(claim, {"a": np.linspace(0.0, 0.01, 20)})[0].verdict == "fails"


def test_an_effect_of_few_seeds_has_an_interval_for_few():
    claim = running.load_claim("level-generalisation")
    few, many = claim.baselines[0], claim.treatment
    # Whichever seeds are drawn anew, many levels are ahead; but p = 0.1 by Welch's test.
    values = {few: np.array([0.6, 0.94, 0.9, 0.94, 0.95]), many: np.array([0.97, 0.96, 0.97, 0.96, 0.96])}
    (found,) = effects(claim, values)
    test = scipy.stats.ttest_ind(values[many], values[few], equal_var=False)
    assert found.verdict == "undecided" and test.pvalue > 0.05
    assert (found.low, found.high) == pytest.approx(tuple(test.confidence_interval()))
    (found,) = effects(claim, {few: np.zeros(5), many: np.full(5, 0.99)})
    assert (found.low, found.high, found.verdict) == (0.99, 0.99, "holds")  # no spread at all


@pytest.fixture(scope="module")
def pages():
    spec = importlib.util.spec_from_file_location("claims_pages", ROOT / "docs" / "make" / "claims.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_show_what_was_run_until_a_changed_claim_has_run(pages):
    stored = json.loads((pages.PAGES / "results" / "sac-temperature.json").read_text())
    older = stored | {
        "seeds": [7, 8],
        "statement": "So it was.",
        "treatment": "fixed 1",
        "effects": stored["effects"][1:],
    }
    shown = pages.judged_again(older)
    assert shown["statement"] == "So it was." and shown["effects"][0]["value"] == pytest.approx(
        np.mean(stored["arms"]["fixed 1"]["values"]) - np.mean(stored["arms"]["fixed 0.1"]["values"])
    )
    assert "**Changed since**" in pages.page(shown) and "**Changed since**" not in pages.page(stored)


FILE = """from forage.studies.claims.claim import Arm, Claim, Paper
CLAIM = Claim(
    statement="It is.", arms={"a": Arm("sac", {"rate": 1e-3})}, note="small networks", paper=Paper("A-v1", 1, 3, "days")
)
"""


def test_words_are_no_part_of_an_experiment():
    """Of a claim's file, as claims were before they were rows."""
    reworded = FILE.replace("small networks", "nets").replace('days")', 'days", lacks=LACKS)')
    assert reworded != FILE
    assert experiment(f'"""Another."""\nLACKS = "a robot"\n{reworded}') == experiment(FILE)
    assert experiment(FILE.replace("1e-3", "2e-3")) != experiment(FILE)


def test_words_are_no_part_of_a_row():
    table = claim_row("sac-temperature").table
    reworded = dict(table) | {"note": "Another.", "needs": "a GPU", "parts": ["sac", "td3"], "smoke": {"steps": 1}}
    assert experiment_of_row(reworded) == experiment_of_row(table)
    for key, value in (("statement", "Another."), ("measure", "area"), ("baselines", []), ("laptop", {"steps": 7})):
        assert experiment_of_row(dict(table) | {key: value}) != experiment_of_row(table), key


def test_the_commit_of_a_claims_file(tmp_path, monkeypatch):
    path = tmp_path / "a.py"
    path.write_text("a = 1\n")
    assert commit_of(path) == ""  # where there is no git

    def git(*words):
        names = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(tmp_path), *names, *words], check=True, capture_output=True)

    git("init")
    assert commit_of(path) == ""  # nor where git knows nothing of the package
    git("add", "a.py")
    git("commit", "-m", "a")
    assert len(first := commit_of(path)) == 40
    other = tmp_path / "b.py"
    other.write_text("b = 1\n")
    git("add", "b.py")
    git("commit", "-m", "b")
    assert commit_of(path) == first
    assert commit_of(path, other) == commit_of(other) != first  # the last of both
    monkeypatch.setattr(running, "uncommitted_modules", lambda name: ["forage/a.py", "forage/b.py"])
    with pytest.raises(ForageError, match=r"forage/a.py and 1 more have changes that are not committed; commit them b"):
        running.run(EXAMPLE, "laptop", tmp_path)


def test_pages_say_what_the_rule_says_of_the_results(pages):
    paths = sorted((pages.PAGES / "results").glob("*.json"))
    results = [json.loads(path.read_text()) for path in paths if path.stem in names()]
    for result in results:
        again = pages.judged_again(result)
        assert again["verdict"] == result["verdict"]
        for stored, found in zip(result["effects"], again["effects"], strict=True):
            assert stored == pytest.approx(found), f"run python docs/make/claims.py: {result['claim']} is stale"
        for label, arm in result["arms"].items():
            found = [again["arms"][label]["score"], *(again["arms"][label]["interval"] or ())]
            assert [arm["score"], *(arm["interval"] or ())] == pytest.approx(found), f"{result['claim']} is stale"
    readme = (ROOT / "README.md").read_text()
    assert readme == pages.counted(readme, results)
    found = pages.counted(
        "of [3\nclaims](x) 1 hold here, 2 are undecided, 4 fail; by Holm's correction 1 would", results[:0]
    )
    assert found == "of [0\nclaims](x) 0 hold here, 0 are undecided, 0 fail; by Holm's correction 0 would"


def test_earlier_results_are_those_of_the_log(pages):
    if is_shallow():
        pytest.skip("this clone lacks the history that results are in: git fetch --unshallow")
    found, stored = pages.find_earlier(pages.published_results()), pages.stored_earlier()
    assert found.keys() == stored.keys(), "run python docs/make/claims.py"
    for name, rows in found.items():
        for one, told in zip(rows, stored[name], strict=True):
            effects, told_effects = one.pop("effects"), told.pop("effects")
            assert one == told
            for mine, other in zip(effects, told_effects, strict=True):
                assert mine == pytest.approx(other)
    verdicts = {name: [one["verdict"] for one in rows] for name, rows in found.items()}
    assert verdicts["simba-v2"] == ["fails", "undecided"] and verdicts["wsrl"][:2] == ["holds", "undecided"]


def test_counts_of_earlier_results(pages):
    results = [{"claim": "gsde", "verdict": "holds"}, {"claim": "psrl", "verdict": "fails"}]
    earlier = {"gsde": [{"verdict": "holds"}], "psrl": [{"verdict": "fails"}, {"verdict": "undecided"}], "other": []}
    said = pages.told_of_earlier(results, earlier).replace("\n", " ")
    assert "2 of the claims had other results before the one that is shown, 3 in all" in said
    assert "1 hold, 1 are undecided and 1 fails" in said and "The verdict of 1 became another: *psrl*." in said


def test_what_would_not_hold_if_the_number_of_claims_counted(pages):
    def result(spread, verdict="holds"):
        arms = {"far": {"values": [1 - spread, 1, 1 + spread]}, "near": {"values": [-spread, 0, spread]}}
        rule = {"margin": 0.0, "higher": True, "confidence": 0.95}
        made = {"treatment": "far", "effects": [{"baseline": "near"}], "arms": arms, "rule": rule, "verdict": verdict}
        return made | {"claim": names.pop()}

    # p = 0.0003, 0.022, 0.031, 0.034: the last must be below 0.05, and Holm's second below 0.05 / 3.
    names = ["gsde", "psrl", "maxent", "curiosity"]
    results = [result(0.1), result(0.33), result(0.37), result(0.38)]
    assert pages.lost(results) == (4, ["gsde", "maxent", "psrl"], [])
    assert "*gsde*, *maxent* and *psrl* would not hold; with" in pages.corrected(results).replace("\n", " ")


def test_measures_of_a_curve(tmp_path):
    class DrawnHelper:
        rows = [{"steps": s, "return": [v], "q": [float(s)]} for s, v in ((0, None), (10, 2.0), (20, None), (30, 6.0))]
        curve = Run.curve
        evaluations = []
        _members = 1

    # 2 up to 10 (the first that is known), then a line to 6 at 30: (20 + 80) / 30.
    assert area(DrawnHelper()) == [pytest.approx(100 / 30)]
    assert late("q", 0.5)(DrawnHelper()) == [25.0]


@pytest.mark.parametrize("name", names())
@pytest.mark.thorough
def test_every_arm_can_be_set_up(name, monkeypatch, tmp_path):
    claim = running.load_claim(name)
    assert claim.treatment in claim.arms or claim.judge is not None
    assert set(claim.baselines) <= set(claim.arms) and claim.statement.endswith(".")
    assert set(claim.paper.arms) <= set(claim.arms)  # a misspelt label would be left out without a word
    assert min(claim.laptop.seeds) >= 1000  # apart from those for tuning, and those of the learning table
    setups = {}

    def set_up(agent, environment, *, steps, seeds, directory, **options):
        of_setup = {*signature(resolve).parameters, *PORTS}
        parts = {name: value for name, value in options.items() if name in of_setup}
        setups[directory.name] = resolve(agent, environment, steps=steps, seeds=seeds, **parts)

    monkeypatch.setattr(training, "train_or_resume", set_up)

    def all_arms():
        for label in claim.arms:
            running.train_arm(claim, label, claim.smoke, "smoke", tmp_path / label, "quiet")

    if lacks(name):
        with pytest.raises(ForageError, match=NEEDS[name]):
            all_arms()
        return
    all_arms()
    befores = {f"{label}-before" for label, arm in claim.arms.items() if arm.before is not None}
    assert setups.keys() == claim.arms.keys() | befores
    for setup in setups.values():
        assert setup.seeds == list(claim.smoke.seeds)
        setup.learner()
    both = [[setups[place].config() for place in (label, f"{label}-before") if place in setups] for label in claim.arms]
    configs = [json.dumps(one, default=repr) for one in both]
    assert len(set(configs)) == len(configs), "two arms are the same"


def lacks(name):
    return name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None


@pytest.mark.parametrize("name", names())
@pytest.mark.thorough
def test_smoke(name, tmp_path):
    if lacks(name):
        pytest.skip(f"{NEEDS[name]} is not installed")
    claim = running.load_claim(name)
    result = running.run(name, "smoke", tmp_path, "quiet")
    assert result["verdict"] in ("holds", "fails", "undecided")
    for arm in result["arms"].values():
        assert len(arm["values"]) == len(claim.smoke.seeds) and np.isfinite(arm["values"]).all()
    stored = json.loads((tmp_path / "result.json").read_text())
    assert stored == json.loads(json.dumps(result))
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    assert running.result_sentences(result)[0].startswith(f"{name}: ")


@pytest.mark.thorough
def test_goes_on_where_it_was(tmp_path, monkeypatch):
    whole = running.run(EXAMPLE, "smoke", tmp_path / "a", "quiet")
    train = training.train
    calls = []

    def run_once(*arguments, **options):
        if calls:
            raise KeyboardInterrupt
        calls.append(1)
        return train(*arguments, **options)

    monkeypatch.setattr(training, "train", run_once)
    with pytest.raises(KeyboardInterrupt):
        running.run(EXAMPLE, "smoke", tmp_path / "b", "quiet")
    monkeypatch.setattr(training, "train", train)
    (tmp_path / "b" / "constant" / "evaluation.json").unlink()  # as if it had been stopped before the end
    again = running.run(EXAMPLE, "smoke", tmp_path / "b", "quiet")
    assert again["effects"] == whole["effects"]
    # What is over leaves no checkpoints behind, and is not begun anew.
    assert not list(tmp_path.glob("b/*/checkpoints")) and len(list(tmp_path.glob("b/*/agent.npz"))) > 1
    monkeypatch.setattr(training, "train", run_once)
    assert running.run(EXAMPLE, "smoke", tmp_path / "b", "quiet")["effects"] == whole["effects"]


def seeds_of(run):
    return [float(seed) for seed in run.config["seeds"]]


@pytest.fixture
def little(monkeypatch):
    """A claim of two short arms with a measure on checkpoints. Return a function that sets one arm's options."""
    whole = running.load_claim("gsde")

    def use(gsde_options=(), **parts):
        arms = {
            "white": Arm("ppo", small.PPO),
            "gSDE": Arm("ppo", small.PPO | {"state_dependent_noise": True} | dict(gsde_options), lambda: parts),
        }
        claim = whole._replace(
            arms=arms, smoke=Scale(160, (1000, 1001)), also=(SecondMeasure(seeds_of, "seed itself"),)
        )
        monkeypatch.setattr(running, "load_claim", lambda name: claim)

    use()
    return use


def scores(result):
    return {label: arm["values"] for label, arm in result["arms"].items()}


def no_training(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("nothing was to be trained")

    monkeypatch.setattr(training, "train", refuse)
    monkeypatch.setattr(training, "resume", refuse)


@pytest.mark.thorough
def test_what_is_over_can_be_judged_again(tmp_path, monkeypatch, little):
    first = running.run("gsde", "smoke", tmp_path, "quiet")
    assert not list(tmp_path.glob("*/checkpoints"))
    for made in tmp_path.glob("*/versions.json"):  # made some time ago, in another place
        write_json(made, read_json(made) | {"date": "2020-02-02", "cores": 77, "python": "3.0"})
    no_training(monkeypatch)
    again = running.run("gsde", "smoke", tmp_path, "quiet")
    assert scores(again) == scores(first) and again["effects"] == first["effects"]
    # A second measure is kept beside the first, and decides nothing.
    (also,) = again["also"]
    assert [also] == first["also"] and also["values"] == {"white": [1000, 1001], "gSDE": [1000, 1001]}
    assert also["effects"][0]["value"] == 0 != again["effects"][0]["value"]
    assert "seed itself" in "".join(running.result_sentences(again))
    assert again["date"] == "2020-02-02" and "date" not in again["versions"]
    assert (again["versions"]["cores"], again["versions"]["python"]) == (77, "3.0")
    assert first["date"] > "2020-02-02" and first["versions"].keys() == again["versions"].keys()
    # What another measure found is not taken for this one's.
    kept = read_json(tmp_path / "white" / "measured.json")
    write_json(tmp_path / "white" / "measured.json", kept | {"measure": "another"})
    with pytest.raises(ForageError, match=r"white is over and cannot be measured anew .*no checkpoint"):
        running.run("gsde", "smoke", tmp_path, "quiet")


@pytest.mark.thorough
def test_runs_of_other_settings_or_code_are_not_taken_for_this_claim(tmp_path, capsys, little):
    first = running.run("gsde", "smoke", tmp_path, "quiet")
    little({"learning_rate": 0.01}, rewards="normalise-return")
    capsys.readouterr()
    other = running.run("gsde", "smoke", tmp_path, "plain")
    said = capsys.readouterr().out
    assert "gsde was made with other settings (agent.learning_rate, rewards." in said
    assert "it is kept as gsde-before-1, and this one is trained anew." in said
    assert "white was made" not in said
    assert scores(other)["white"] == scores(first)["white"] and scores(other)["gSDE"] != scores(first)["gSDE"]
    assert Run(tmp_path / "gsde").config["agent"]["learning_rate"] == 0.01
    assert Run(tmp_path / "gsde-before-1").config["agent"]["learning_rate"] != 0.01

    made = tmp_path / "white" / "versions.json"
    write_json(made, read_json(made) | {"code": "older"})
    again = running.run("gsde", "smoke", tmp_path, "plain")
    assert "white was made with other code of forage" in capsys.readouterr().out
    assert (tmp_path / "white-before-1").exists() and not (tmp_path / "gsde-before-2").exists()
    assert scores(again) == scores(other) and again["versions"]["code"] == read_json(made)["code"] != "older"


@pytest.mark.thorough
def test_an_arm_is_copied_from_another_claim_of_the_same_code(tmp_path, monkeypatch, capsys, little):
    monkeypatch.chdir(tmp_path)
    claim = running.load_claim("gsde")

    def folder(name, commit):
        path = running.CLAIM_RUNS / f"{name}-laptop"
        path.mkdir(parents=True)
        write_json(path / running.CODE, {"ran": {"commit": commit, "fingerprint": ""}})
        return path / "white"

    first = running.train_arm(claim, "white", claim.smoke, "laptop", folder("one", "a" * 40), "quiet")
    with monkeypatch.context() as patch:
        no_training(patch)
        second = running.train_arm(claim, "white", claim.smoke, "laptop", folder("two", "a" * 40), "plain")
        assert "white is copied from runs/claims/one-laptop/white" in capsys.readouterr().out
        assert second.evaluation == first.evaluation
        assert read_json(second.directory / running.SHARED) == {"run": "one-laptop/white"}
        # A copy of a copy names the run that was trained; other code, settings and seeds are no copy.
        shutil.rmtree(first.directory)
        running.train_arm(claim, "white", claim.smoke, "laptop", folder("three", "a" * 40), "quiet")
        assert read_json(running.CLAIM_RUNS / "three-laptop" / "white" / running.SHARED) == {"run": "one-laptop/white"}
        for name, label, seeds, commit in (
            ("four", "white", (1000, 1001), "b" * 40),
            ("five", "gSDE", (1000, 1001), "a" * 40),
            ("six", "white", (1000, 1002), "a" * 40),
        ):
            with pytest.raises(AssertionError, match="nothing was to be trained"):
                running.train_arm(claim, label, Scale(160, seeds), "laptop", folder(name, commit), "quiet")
    # A measure that needs what the other claim has deleted wants a run of its own.
    for path in running.CLAIM_RUNS.glob("*/white"):
        shutil.rmtree(path / "checkpoints")
        (path / "measured.json").unlink(missing_ok=True)
    own = running.train_arm(claim, "white", claim.smoke, "laptop", folder("seven", "a" * 40), "quiet")
    assert own.checkpoints and not (own.directory / running.SHARED).exists()


@pytest.mark.thorough
def test_a_run_that_was_evaluated_before_its_end_is_gone_on_with(tmp_path, little):
    whole = running.run("gsde", "smoke", tmp_path / "whole", "quiet")
    claim, place = running.load_claim("gsde"), tmp_path / "stopped" / "white"
    run = running.train_arm(claim, "white", claim.smoke, "smoke", place, "quiet")
    last, evaluation = run.checkpoints[-1], run.evaluation
    last.unlink()  # the one before it is of the beginning
    training.evaluate(place, episodes=2, actions="greedy")
    assert Run(place).evaluation["steps"] < 160
    again = running.train_arm(claim, "white", claim.smoke, "smoke", place, "quiet")
    assert again.evaluation == evaluation
    training.evaluate(place, episodes=2, actions="sampled")
    assert running.train_arm(claim, "white", claim.smoke, "smoke", place, "quiet").evaluation == evaluation
    # What the last rollout has beyond what was asked for is no other run.
    write_json(place / "evaluation.json", evaluation | {"steps": 176})
    assert running.train_arm(claim, "white", claim.smoke, "smoke", place, "quiet").evaluation["steps"] == 176
    assert running.run("gsde", "smoke", tmp_path / "stopped", "quiet")["effects"] == whole["effects"]


def test_arms_that_other_code_began_are_set_aside(tmp_path, capsys):
    def lies_there(name):
        return (tmp_path / name / "config.json").exists()

    (tmp_path / "white").mkdir()
    for file in ("config.json", "evaluation.json"):
        (tmp_path / "white" / file).write_text("{}")
    for fingerprint in ("one", "one", "two"):
        assert lies_there("white")
        running.begin_claim(tmp_path, {"ran": {"fingerprint": fingerprint}}, ["white", "gsde"], "plain")
    assert not lies_there("white") and lies_there("white-before-1")
    assert "white was made by other code; it is kept as white-before-1." in capsys.readouterr().out


def test_arms_have_directories_of_their_own(tmp_path, monkeypatch):
    claim = running.load_claim(EXAMPLE)
    arm = claim.arms[claim.treatment]
    monkeypatch.setattr(running, "load_claim", lambda name: claim._replace(arms={"shift +1": arm, "shift -1": arm}))
    with pytest.raises(ForageError, match="share a directory"):
        running.run(EXAMPLE, "smoke", tmp_path, "quiet")


def test_bad_input(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "uncommitted_modules", lambda name: [])  # even while somebody works on it
    with pytest.raises(ForageError, match=r"Unknown claim 'gae-lamda'.*gae-lambda"):
        running.run("gae-lamda")
    with pytest.raises(ForageError, match="laptop, smoke, paper, not 'huge'"):
        running.run(EXAMPLE, "huge")
    with pytest.raises(ForageError, match="needs hours on many cores; there is no accelerator here, and --anyway"):
        running.run(EXAMPLE, "paper", tmp_path)
    with pytest.raises(ForageError, match=r"cannot run at the paper's scale .6 seeds.*the true values of a game"):
        running.run("double-q-learning", "paper", tmp_path, anyway=True)
    with monkeypatch.context() as patched, small.no_training(), pytest.raises(BegunRunInterrupted):
        patched.setattr(session.Session, "loop", stop_at_once)
        running.run(EXAMPLE, "smoke", tmp_path / "small", "quiet")
    with pytest.raises(ForageError, match="a run of another size"):
        running.run(EXAMPLE, "laptop", tmp_path / "small", "quiet")
