"""Comparison of runs: the pairs, and a report on both."""

import json
import re

import numpy as np
import pytest

from forage.config.resolve import resolve
from forage.core.types import ForageError
from forage.environments.classic.cartpole import CartPole
from forage.environments.wrappers import TimeLimit
from forage.runs import training
from forage.runs.run import Run, step_unit
from forage.starts.levels import Levels
from forage.studies.compare import comparison_words, gather, labels, verdicts
from forage.studies.report.page import budget, score_table, sentences_of_runs
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
        ({"wrap": ["action-noise:0.3"]}, "environments .CartPole-v1, CartPole-v1 in action-noise:0.3.; compare like"),
        ({"environment_options": {"length": 1.0}}, "environments .CartPole-v1, CartPole-v1 with length=1.0"),
        ({"tasks": WIDE}, r"tasks in evaluation .*uniform\(field=length, low=0.25, high=1.0\).*same"),
        ({"tasks": Contexts(("length=0.25:1.0",), test=("length=2.0",))}, "tasks in evaluation"),
        ({"evaluation_actions": "sampled"}, "kinds of actions in evaluation .greedy, sampled"),
        ({"evaluated": {"asked": "sampled", "actions": "sampled"}}, "kinds of actions in evaluation .greedy, sampled"),
        ({"evaluated": {"steps": 20_000}}, "numbers of steps .100,000, 20,000"),
        ({"steps": 50_000}, "numbers of steps .100,000, 50,000"),
    ],
)
def test_only_like_is_compared(lying, options, what):
    with pytest.raises(ForageError, match=f"different {what}"):
        gather([lying("one"), lying("two", **options)])


@pytest.mark.parametrize(
    "options",
    [
        {"agent": "dqn", "memory": "prioritised", "behaviour": "boltzmann"},
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
    with pytest.raises(ForageError, match=r"TimeLimit'>, of 20 steps, TimeLimit.*of 30 steps"):
        gather([one, lying("three", **cut(30))])


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
    assert labels([Run(run) for run in ppo]) == ["one/same", "two/same"]


def test_steps_of_a_run_from_data_are_updates(lying):
    runs = [Run(lying(name)) for name in ("lived", "read", "moved")]
    runs[1].config["memory"] = {"part": "dataset", "file": "a.npz"}
    runs[2].config["memory"] = {"part": "shifted", "inner": {"part": "dataset", "file": "a.npz"}}
    assert [run.unit for run in runs] == ["environment steps", "updates", "updates"]
    assert step_unit(runs[1:]) == "updates" and step_unit(runs) == "environment steps, or updates"
