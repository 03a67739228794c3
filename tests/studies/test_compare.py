"""Comparison of runs: the pairs, and a report on both."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from forage.config.resolve import resolve
from forage.core.types import ForageError
from forage.environments.classic.cartpole import CartPole
from forage.environments.wrappers import TimeLimit
from forage.evaluation.curves import align_curves, smooth_curve
from forage.runs import training
from forage.runs.run import Run, step_unit
from forage.starts.levels import Levels
from forage.studies.comparison.compare import make_panel
from forage.studies.comparison.curve_files import CurveFile, write_curves
from forage.studies.comparison.gathering import gather, group_runs, run_labels
from forage.studies.comparison.remarks import metric_names, remarks
from forage.studies.comparison.verdicts import (
    common_end,
    compared_scores,
    comparison_words,
    cut_curve,
    is_beyond,
    verdicts,
)
from forage.studies.report import report
from forage.studies.report.page import budget, score_table, sentences_of_runs, whole_runs
from forage.tasks.contexts import Contexts

WIDE = Contexts(("length=0.25:1.0",))


@pytest.fixture
def lying(tmp_path):
    """Makes a run's directory as training leaves it, of settings that it would be given."""

    def lie(name, evaluated=None, agent="ppo", environment="CartPole-v1", steps=100_000, **options):
        directory = tmp_path / name
        directory.mkdir(parents=True)
        config = resolve(agent, environment, steps=steps, seeds=2, **options).config()
        (directory / "config.json").write_text(json.dumps(config))
        (directory / "metrics.jsonl").write_text(json.dumps({"steps": steps, "seconds": 1.0, "return": [1, 2]}) + "\n")
        (directory / "versions.json").write_text(json.dumps({"forage": "1", "jax": "1"}))
        asked = config["evaluation_actions"]
        actions = "greedy" if asked == "auto" else asked
        found = {"steps": steps, "asked": asked, "actions": actions, "episodes": 4, "return": [1.0, 2.0]}
        (directory / "evaluation.json").write_text(json.dumps(found | (evaluated or {})))
        return str(directory)

    return lie


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"tasks": WIDE}, r"tasks in evaluation .*uniform\(field=length, low=0.25, high=1.0\).*same"),
        ({"tasks": Contexts(("length=0.25:1.0",), test=("length=2.0",))}, "tasks in evaluation"),
        ({"evaluation_actions": "sampled"}, "kinds of actions in evaluation .greedy, sampled"),
        ({"evaluated": {"asked": "sampled", "actions": "sampled"}}, "kinds of actions in evaluation .greedy, sampled"),
    ],
)
def test_only_like_is_compared(lying, options, what):
    with pytest.raises(ForageError, match=f"different {what}"):
        gather([lying("one"), lying("two", **options)])


@pytest.mark.parametrize(
    "options",
    [
        {"agent": "dqn", "memory": "prioritised", "behaviour": "held-noise"},
        {"rewards": "rnd"},
        {"starts": Levels(5)},
        # What is drawn in training alone makes no other score: where evaluation is in the usual physics, both are.
        {"tasks": Contexts(("length=0.25:1.0",), test=("length=0.5",))},
        {"evaluated": {"steps": 100_352}},  # whole rollouts
        {"evaluated": {"actions": "sampled"}},  # both as suited what was learned
        {"evaluation_actions": "greedy"},  # as the other was
        {"evaluated": {"return": [3.0, 4.0, 5.0]}},
    ],
)
def test_what_was_done_otherwise_is_compared(lying, options):
    assert len(gather([lying("one"), lying("two", **options)])) == 2


@pytest.mark.thorough
def test_contexts_with_the_same_test_are_compared(lying):
    narrow = Contexts(("length=0.5:0.6",), test=("length=1.0:2.0",))
    assert len(gather([lying("one", tasks=narrow), lying("two", tasks=Contexts(("length=1.0:2.0",)))])) == 2
    with pytest.raises(ForageError, match="tasks in evaluation"):
        gather([lying("three", tasks=narrow), lying("four", tasks=WIDE)])


def test_of_objects_what_is_kept_of_them_is_compared(lying):
    def cut(steps):
        return {"environment": TimeLimit(CartPole(), steps)}

    one, same = lying("one", **cut(20)), lying("two", **cut(20))
    assert len(gather([one, same])) == 2
    groups = group_runs(gather([one, lying("three", **cut(30))]))
    assert [re.search(r"of \d+ steps", name)[0] for name in groups] == ["of 20 steps", "of 30 steps"]


def test_a_report_says_what_was_scored(lying):
    said = budget(gather([lying("usual")]))
    assert said.startswith("100,000 steps of each seed; a score") and "the policy's best guess" in said
    stopped = {"steps": 20_000, "actions": "sampled"}
    runs = gather([lying("one", stopped), lying("two", stopped, rewards="rnd")])
    assert budget(runs).startswith("20,000 steps of each seed, where 100,000 were asked for; a score")
    assert "drawn from the policy" in budget(runs)
    assert sentences_of_runs(runs)[0].startswith("After 20,000 steps one reaches")
    runs = gather([lying("rollouts", {"steps": 102_400})])  # the last rollout went on
    assert budget(runs).startswith("102,400 steps of each seed, where 100,000 were asked for; a score")
    assert sentences_of_runs(runs)[0].startswith("After 102,400 steps ppo reaches")


def test_the_mean_that_verdicts_compare_stands_beside_the_score(lying):
    five = {"return": [1.0, 2.0, 3.0, 4.0, 100.0]}
    runs = gather([lying("one", five), lying("two", {"return": [1.0, 2.0, 3.0, 4.0, 5.0]})])
    lines = verdicts(runs)
    assert (
        lines[0].startswith("one: return 3.0 [") and "an interquartile mean; the mean over all seeds is 22" in lines[0]
    )
    assert lines[1].endswith("(5 seeds)")  # where both are the same number, it is said once
    head, rows = score_table(runs, None)
    assert head[1:3] == ["return", "mean over all seeds"] and [row[2] for row in rows] == ["22", "3"]


def test_no_interval_leaves_the_range_of_a_return(lying):
    known = {"return_range": [1.0, 500.0]}
    runs = gather([lying("one", known | {"return": [452.2, 500.0]}), lying("two", known | {"return": [10.0, 200.0]})])
    lines = verdicts(runs)
    assert lines[0] == "one: return 476.1 [172.4, 500.0] (2 seeds)"
    assert "95 % CI -499 to 499, 2 seeds each" in lines[2]
    assert "95 % interval [172.4, 500]" in sentences_of_runs(runs)[0]


def test_evaluating_again_is_seen(tmp_path):
    """`forage evaluate RUN --actions sampled` does so, without a trace in the configuration."""
    import small

    small.keep_compiled()
    one, two = (small.train(tmp_path / name, evaluation_actions="greedy").directory for name in ("one", "two"))
    assert len(gather([str(one), str(two)])) == 2
    training.evaluate(two, episodes=2, actions="sampled")
    with pytest.raises(ForageError, match=r"different kinds of actions in evaluation \(greedy, sampled\)"):
        gather([str(one), str(two)])
    assert "drawn from the policy" in budget(gather([str(two)]))


def test_few_seeds_without_spread_decide_nothing():
    said = comparison_words("a", np.full(3, 500.0), "b", np.full(3, 460.0))
    assert said.startswith(
        "Inconclusive: a's mean return over all seeds is 40 higher than b's (no interval: 3 seeds each, without any"
    )
    assert said.endswith("Fewer than 5 seeds do not say how many would confirm it; train at least 5 of each.")
    shown = comparison_words("a", np.full(5, 500.0), "b", np.full(5, 460.0))
    assert shown.startswith(
        "a is better than b: its mean return over all seeds is 40 higher (95 % CI 40 to 40, 5 seeds each)."
    )
    assert shown.count("Caution: all 5 seeds of") == 2
    of_five = comparison_words("a", np.full(5, 500.0), "b", np.full(5, 460.0), looks=5)
    assert of_five.startswith("Inconclusive") and "which 20 seeds would decide" in of_five


def test_an_interval_of_several_looks_is_wider():
    a, b = np.array([1.0, 2, 4, 5, 9]), np.array([-2.0, 1, -1.5, 0, -3])
    assert comparison_words("a", a, "b", b).startswith("a is better than b")
    said = comparison_words("a", a, "b", b, looks=5)
    assert said.startswith("Inconclusive") and "98.7 % CI, so 95 % over 5 looks, -" in said


def test_cautions_come_where_the_interval_is_known_to_be_wrong_too_often():
    level, odd = np.array([420.0, 421, 418, 425, 416]), np.array([520.0, 521, 518, 525, 400])
    assert "Caution" not in comparison_words("a", level + 100, "b", level)
    assert "Caution: all 5 seeds of a have the same score" in comparison_words("a", np.full(5, 500.0), "b", level)
    assert "Caution: one seed of a is far off the others (400)" in comparison_words("a", odd, "b", level - 300)


def test_an_open_comparison_says_at_least_how_many_seeds_and_how_often_one_wins():
    said = comparison_words("a", np.array([3.0, 4, 5, 6, 7]), "b", np.array([1.5, 3, 4, 5.5, 6]))
    assert "One of a's seeds beats one of b's with probability 0.66, 95 % CI 0.18 to 0.97." in said
    assert re.search(r"at least \d+ seeds each would confirm it in 4 of 5 experiments \(\d+ more\)\.$", said)


def test_labels_are_the_shortest_ends_of_paths_that_differ(lying):
    ppo = [lying(f"{folder}/same") for folder in ("one", "two")]
    assert run_labels([Run(run) for run in ppo]) == ["one/same", "two/same"]
    own = [Run(run) for run in ppo]
    own[1].config["agent"]["part"] = "/home/ada/idea.py:SmoothPPO"
    assert run_labels(own) == ["ppo", "SmoothPPO"]


def test_steps_of_a_run_from_data_are_updates(lying):
    runs = [Run(lying(name)) for name in ("lived", "read", "moved")]
    runs[1].config["memory"] = {"part": "dataset", "file": "a.npz"}
    runs[2].config["memory"] = {"part": "recorded", "inner": {"part": "dataset", "file": "a.npz"}}
    assert [run.unit for run in runs] == ["environment steps", "updates", "updates"]
    assert step_unit(runs[1:]) == "updates" and step_unit(runs) == "environment steps, or updates"


# Runs of different lengths, several environments, sweeps, and curves of other programs


def write_points(run, returns, evaluated=()):
    """Replace the curve of a run with these points: (steps, returns of both seeds)."""
    for name, points in (("metrics.jsonl", returns), ("evaluations.jsonl", evaluated)):
        text = "".join(json.dumps({"steps": steps, "return": list(values)}) + "\n" for steps, values in points)
        (Path(run) / name).write_text(text)
    return run


def test_runs_of_different_lengths_are_compared_where_both_were(lying):
    short = write_points(lying("short", {"return": [3.0, 5.0]}, steps=50), [(45, (1, 1)), (50, (2, 2))])
    points = [(steps, (steps / 10, steps / 10)) for steps in (40, 46, 50, 100)]
    long = write_points(lying("long", {"return": [9.0, 9.0]}, steps=100), points)
    runs = gather([short, long])
    assert common_end(runs) == 50 and is_beyond(runs[1], 50) and not is_beyond(runs[0], 50)
    numbers, how = compared_scores(runs)
    # The long one was not evaluated there: both by their returns after step 45.
    assert [list(values) for values in numbers] == [[2, 2], [4.8, 4.8]]
    assert how == (
        "These runs are of 50 and 100 steps, and are compared over the first 50, by the mean training return of the "
        "last tenth of them, as not all were evaluated there."
    )
    write_points(long, points, [(48, (6, 8)), (100, (9, 9))])
    numbers, how = compared_scores(gather([short, long]))
    assert [list(values) for values in numbers] == [[3, 5], [6, 8]] and how.endswith("by their evaluations there.")
    lines = verdicts(gather([short, long]))
    assert lines[1].startswith("long: return 9.00 [9.00, 9.00]") and lines[2] == how
    assert lines[4].startswith("long: 7.0 ")
    assert "long's mean return over all seeds is 3 higher than short's" in lines[5]
    steps, values = cut_curve(*gather([long])[0].curve(), 50)
    assert steps.tolist() == [40, 46, 50] and values.shape == (2, 3)


def test_runs_of_several_environments_are_compared_within_each(lying, tmp_path):
    names = [("a", "ppo", "CartPole-v1"), ("b", "dqn", "CartPole-v1"), ("c", "ppo", "Acrobot-v1")]
    runs = gather([lying(name, agent=agent, environment=environment) for name, agent, environment in names])
    assert [one.name for one in runs] == ["ppo in CartPole-v1", "dqn in CartPole-v1", "ppo in Acrobot-v1"]
    lines = verdicts(runs)
    assert len([line for line in lines if "same mean" in line]) == 1 and "dqn in CartPole-v1" in lines[2]
    assert lines[-1].startswith("Runs in different environments are not compared with each other")
    panels = [make_panel(group, name, "return", 0) for name, group in group_runs(runs).items()]
    assert [(panel.title, [label for label, _, _ in panel.runs]) for panel in panels] == [
        ("CartPole-v1", ["ppo", "dqn"]),
        ("Acrobot-v1", ["ppo"]),
    ]
    labels = [one.label for one in gather([tmp_path / "a", tmp_path / "b"], ["mine", "theirs"])]
    assert labels == ["mine", "theirs"]
    with pytest.raises(ForageError, match="Labels are one for each run, 2 here, and not 1"):
        gather([tmp_path / "a", tmp_path / "b"], ["mine"])


def test_the_settings_of_a_sweep_are_contestants(lying):
    sweep = lying("s", {"return": [1.0, 2.0, 5.0, 6.0]}, sweep={"learning_rate": [0.1, 0.2]})
    (Path(sweep) / "metrics.jsonl").write_text(json.dumps({"steps": 100_000, "return": [1, 2, 5, 6]}) + "\n")
    runs = gather([sweep, lying("dqn", agent="dqn")])
    assert [one.label for one in runs] == ["ppo learning_rate=0.1", "ppo learning_rate=0.2", "dqn"]
    assert [one.total.value for one in runs] == [1.5, 5.5, 1.5]
    assert runs[1].curve()[1].tolist() == [[5], [6]] and [one.name for one in whole_runs(runs)] == ["ppo", "dqn"]


FOREIGN = "global_step,episodic_return,seed\n10,1,a\n30,3,a\n20,4,b\n40,6,b\n"


def test_curves_of_another_program_are_a_contestant(lying, tmp_path):
    theirs = tmp_path / "theirs.csv"
    theirs.write_text(FOREIGN)
    ours = write_points(lying("ours", steps=60), [(10, (1, 1)), (30, (7, 9)), (60, (9, 9))])
    runs = gather([ours, theirs])
    assert runs[1].label == "theirs" and runs[1].seeds == ["a", "b"]
    steps, values = runs[1].curve()  # up to the last step that both seeds reach
    assert steps.tolist() == [10, 20, 30]
    np.testing.assert_array_equal(values, [[1, 1, 3], [np.nan, 4, 4]])
    numbers, how = compared_scores(runs)
    assert [list(values) for values in numbers] == [[7, 9], [3, 4]]
    assert "compared over the first 30, by the mean training return" in how
    assert verdicts(runs)[1] == "theirs: return not evaluated"
    with pytest.raises(ForageError, match=r"theirs.csv does not say its environment"):
        gather([ours, lying("other", environment="Acrobot-v1"), theirs])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no column 'step'; its columns are none"),
        ("step,value\n1,2\n", "has no column 'return'; its columns are step, value"),
        ("step,return\n", "has no point below its head"),
        ("step,return\n1,2\n3\n", "Line 3 of .* is no point"),
        ("step,return\na,2\n", "Line 2 of .* is no point"),
        ("step,return\n-1,2\n", "Line 2 of .* is no point"),
        ("step,return\n1,2\n1,3\n", "Line 3 of .* has step 1 of seed 0 again"),
        ("step,return,seed\n1,2,0\n5,2,1\n", "have no step in common"),
    ],
)
def test_a_foreign_file_that_is_no_curve(tmp_path, text, said):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(ForageError, match=said):
        CurveFile(tmp_path / "x.csv")


def test_raw_curves_by_seed(lying, tmp_path):
    run = Run(write_points(lying("one"), [(10, (1, None)), (20, (3, 4))], [(20, (5, 6))]))
    (tmp_path / "theirs.csv").write_text(FOREIGN)
    found = [("ppo", "CartPole-v1", run), ("theirs", "", CurveFile(tmp_path / "theirs.csv"))]
    rows = list(csv.DictReader(write_curves(tmp_path / "points.csv", found).read_text().splitlines()))
    assert rows[1] == {
        "label": "ppo", "environment": "CartPole-v1", "kind": "training", "step": "20", "seed": "0", "return": "3",
    }  # fmt: skip
    assert rows[2]["return"] == "" and [row["kind"] for row in rows[:6]].count("evaluation") == 2 and len(rows) == 12
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(write_curves(tmp_path / "points.parquet", found)).to_pylist()
    assert len(table) == 12 and table[1]["return"] == 3 and table[-1]["seed"] == "b"
    with pytest.raises(ForageError, match=r"Curves are a \.csv or a \.parquet, and x\.txt is neither"):
        write_curves("x.txt", found)


def test_curves_are_aligned_and_smoothed():
    steps, values = align_curves([([1, 3], [[1, 3]]), ([2, 3, 9], [[2, np.nan, 5]])])
    assert steps.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(values, [[1, 1, 3], [np.nan, 2, 2]])
    assert align_curves([([5], [[1]]), ([2], [[1]])])[0].tolist() == [2] and align_curves([]) is None
    smooth = smooth_curve([1, 2, 3, 10], [[1, 2, np.nan, 4]], 2)
    np.testing.assert_allclose(smooth, [[1, 1.5, 2, 4]])  # means over (step - 2, step], of what is there


# Sentences about the course of a training, each by its rule


def points(name, values, steps=1000):
    """Make the points of a curve with one metric of one seed."""
    return [{"steps": steps * (at + 1), "return": [0.0], name: [value]} for at, value in enumerate(values)]


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("entropy", [1, 0.5, 0.009, 0.008, 0.01], "Entropy fell to 0 after 3k steps"),
        ("entropy", [1, 0.5, 0.009, 0.008, 0.02], ""),  # it rose again
        ("entropy", [1, 0.5, 0.4, 0.3, 0.001], ""),  # the last point alone
        ("entropy", [None, 1, 0.001, 0.001], "Entropy fell to 0 after 3k steps"),
        ("explained_variance", [0.9] * 18 + [0.02, 0.04], "The value explains 3 % of the variance of returns."),
        ("explained_variance", [0.1] * 18 + [0.5, 0.5], ""),
        ("explained_variance", [0.1] * 18 + [0.94, 0.96], "The value explains 95 % of the variance of returns."),
        ("explained_variance", [-0.2] * 5, "The value explains none of the variance of returns"),
        ("actions_at_bounds", [0.5] * 18 + [0.01, 0.03], "2 % of actions are at their bounds."),
        ("actions_at_bounds", [0.5] * 18 + [0.0, 0.01], ""),
        ("approximate_kl", [0.1] * 10, "their mean KL divergence is 0.1, where 0.01 to 0.02 is usual"),
        ("approximate_kl", [0.01] * 10, ""),
        ("episodes", [1, 1] + [0] * 2, "No episode has ended since step 2,000."),
        ("episodes", [0, 0], "No episode has ended."),
        ("episodes", [1] * 19 + [0], ""),
    ],
)
def test_a_sentence_needs_its_rule(name, values, said):
    found = remarks(points(name, values), discrete=True)
    assert (not found) if not said else (len(found) == 1 and said in found[0]), found


def test_entropy_of_continuous_actions_has_no_zero():
    assert not remarks(points("entropy", [1, 0.5, 0.001, 0.001, 0.001]), discrete=False)


def test_metrics_are_those_with_values_losses_first():
    rows = [{"steps": 1, "return": [1.0], "entropy": [None], "q": [1.0], "value_loss": [2.0], "seconds": 3.0}]
    assert metric_names(rows) == ["value_loss", "q"]


def test_a_report_is_of_several_environments_lengths_and_sweeps(lying, tmp_path):
    sweep = lying("s", {"return": [1.0, 2.0, 5.0, 6.0]}, sweep={"learning_rate": [0.1, 0.2]})
    row = {"steps": 100_000, "seconds": 1.0, "return": [1, 2, 5, 6], "entropy": [0.5, 0.4, 0.3, 0.2]}
    (Path(sweep) / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    short = lying("short", agent="dqn", steps=50_000)
    runs = [sweep, short, lying("other", environment="Acrobot-v1")]
    text = report(runs, tmp_path / "page.html", labels=["a", "b", "c"], title="Mine & yours", smooth=10).read_text()
    assert "<h1>Mine &amp; yours</h1>" in text and "Lines are means over 10 steps." in text
    for said in ("<h2>Learning: CartPole-v1</h2>", "<h2>Learning: Acrobot-v1</h2>", "<h3>entropy</h3>"):
        assert said in text, said
    places = re.findall(r'<div class="chart" id="([^"]+)">', text)
    assert len(places) == len(set(places)) == 5  # learning and profiles of both, and entropy
    learning = json.loads(re.search(r'id="learning"><script type="application/json">(.*?)</script>', text)[1])
    assert learning["arms"] == ["a learning_rate=0.1", "a learning_rate=0.2", "b"]
    assert "are compared over the first 50,000" in text and "a learning_rate=0.2 in CartPole-v1: return 5.5 [" in text
    assert text.count("<th>a in CartPole-v1</th>") >= 1  # settings are of the run, not of each setting of its sweep
    with pytest.raises(
        ForageError, match=r"theirs\.csv is no run of Forage, which a report is about; forage compare draws it"
    ):
        (tmp_path / "theirs.csv").write_text(FOREIGN)
        report([short, tmp_path / "theirs.csv"], tmp_path / "page.html")
