"""Tuning: the searched settings, trials side by side, populations, and seeds that do not meet."""

import dataclasses
import json
import sys
from types import SimpleNamespace
from typing import ClassVar
from unittest import mock

import jax
import numpy as np
import pytest
import small
from test_schedule import ToldStarts

from forage.cli import entry
from forage.config.checks import seed_numbers
from forage.config.resolve import resolve
from forage.core import checkpoint
from forage.core.types import ForageError
from forage.runs.curve import CurveRows
from forage.starts.levels import Levels
from forage.studies.tuning import population, search, shared
from forage.studies.tuning.batch import Batch
from forage.studies.tuning.space import SearchRange, is_traced, parse_range, with_settings
from forage.studies.tuning.tune import tune, verdict_sentence

small.keep_compiled()
PPO = small.PPO


def setup(environment="CartPole-v1", agent="ppo", **options):
    return resolve(agent, environment, steps=160, seeds=[0], agent_options=PPO | options)


def test_ranges_as_they_are_written():
    assert parse_range("learning_rate=1e-4:1e-2:log", setup()) == SearchRange("learning_rate", 1e-4, 1e-2, log=True)
    assert parse_range("learning-rate=0.1:0.2", setup()) == SearchRange("learning_rate", 0.1, 0.2)
    assert parse_range("epochs=1:4", setup()) == SearchRange("epochs", 1, 4, whole=True)
    assert parse_range("epochs=1,4", setup()) == SearchRange("epochs", choices=(1, 4))
    assert parse_range("activation=tanh,relu", setup()) == SearchRange("activation", choices=("tanh", "relu"))
    assert parse_range("normalise_advantage=true,false", setup()).choices == (True, False)
    rnd = resolve("ppo", "CartPole-v1", steps=160, seeds=[0], agent_options=PPO, rewards="rnd")
    assert parse_range("rewards.norm_discount=0.9:0.99", rnd).port == "rewards"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("learning_rate", "NAME=LOW:HIGH"),
        ("learning_rat=1:2", r"no hyper-parameter .learning_rat.*learning_rate"),
        ("memoir.size=1:2", "Unknown port 'memoir'"),
        ("epochs=1,1", "two different values"),
        ("activation=a:b", "is no number"),
        ("learning_rate=0.1:0.01", "lower end below"),
        ("learning_rate=0:0.1:log", "above 0"),
        ("learning_rate=0.1:0.2:lin", "LOW:HIGH:log"),
        ("discount=0.9:1.5", "discount"),
    ],
)
def test_ranges_that_cannot_be(text, error):
    with pytest.raises(ForageError, match=error):
        parse_range(text, setup())


def test_what_can_share_a_program():
    names = {"learning_rate=0.1:0.2": True, "epochs=1:4": False, "activation=tanh,relu": False, "clip=0.1,0.2": True}
    assert {text: is_traced(setup(), parse_range(text, setup())) for text in names} == names
    changed = with_settings(setup(), {"learning_rate": 0.5})
    assert changed.agent.learning_rate == 0.5 and changed.agent.clip == setup().agent.clip
    for environment, together in (("CartPole-v1", True), ("gymnasium:CartPole-v1", False)):
        one = dataclasses.replace(setup(environment), starts=ToldStarts())
        share = parse_range("starts.probability=0.2:0.8", one)
        assert is_traced(one, share) == together  # where episodes begin is the same for all seeds of a host runner
        if not together:
            with pytest.raises(ForageError, match="probability is the same for all seeds"):
                population.check_population(one, [share], 5)


def test_trials_on_the_host_begin_episodes_where_the_run_does():
    one = dataclasses.replace(setup("gymnasium:CartPole-v1"), starts=ToldStarts(), visits=True)
    batch, run = Batch(one, [{"learning_rate": 0.01}], [3], 2), one.runner()
    assert batch.runner.loops[0].way == run.loops[0].way and batch.runner.loops[0].starts is not None
    batch.close()
    run.close()
    with pytest.raises(ForageError, match="runs on the host, where episodes begin"):
        Batch(dataclasses.replace(one, starts=Levels()), [{"learning_rate": 0.01}], [3], 2)


@pytest.mark.parametrize("method", ["random", "tpe", "hyperband"])
def test_a_search_that_was_stopped_proposes_what_it_would_have(method, monkeypatch, tmp_path):
    def run(plan, asked, first):
        found = []
        for number, one in enumerate(asked, first):
            state, looks, rate = "complete", [], one.params["learning_rate"]
            for rung in range(1, search.RUNGS + 1) if plan.method == "hyperband" else ():
                looks.append(rung * rate)
                one.report(looks[-1], rung)
                if rung < search.RUNGS and one.should_prune():
                    state = "pruned"
                    break
            value = np.inf if number == 3 else rate  # one breaks
            found.append(search.Trial(number, dict(one.params), [value], 160, state, "", looks))
        return found

    monkeypatch.setattr(search, "run", run)
    plan = search.Plan(setup(), [SearchRange("learning_rate", 1e-4, 1e-1, log=True)], [0], 2, method, 4)

    def rates(trials, name):
        done = search.run_trials(plan, trials, tmp_path / name, lambda found, seconds: None)
        assert method != "hyperband" or {trial.state for trial in done[4:]} == {"complete", "pruned"}
        return [trial.settings["learning_rate"] for trial in done]

    stopped, gone_on = rates(8, "one"), rates(16, "one")
    assert gone_on[:8] == stopped and len(set(gone_on)) == 16
    assert rates(16, "two") == gone_on  # as never stopped, and one sitting is as another
    assert (tmp_path / "one").read_text() == (tmp_path / "two").read_text()


@pytest.mark.parametrize("environment", ["CartPole-v1", "gymnasium:CartPole-v1"])
@pytest.mark.thorough
def test_a_member_trains_as_it_would_alone(environment):
    one = setup(environment)
    settings, seeds = [{"learning_rate": 0.01}, {"learning_rate": 0.001}, {"learning_rate": 0.01}], [3, 3, 4]
    together = Batch(one, settings, seeds, 4)
    together.advance(0.5)
    together.keep([0, 2])
    together.advance(1.0)
    values = together.evaluate()
    for row, (rate, seed) in enumerate([(0.01, 3), (0.01, 4)]):
        alone = Batch(one, [{"learning_rate": rate}], [seed], 4)
        alone.advance(1.0)
        assert alone.runner.steps == together.runner.steps == 160
        ours = jax.tree.map(lambda leaf, row=row: leaf[row], together.runner.agent_states().network)
        theirs = jax.tree.map(lambda leaf: leaf[0], alone.runner.agent_states().network)
        for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)
        assert np.isfinite(values[row])
        alone.close()
    together.close()


@pytest.mark.parametrize("environment", ["CartPole-v1", "gymnasium:CartPole-v1"])
@pytest.mark.thorough
def test_who_takes_over_has_learned_what_the_other_has(environment):
    batch = Batch(setup(environment), [{"learning_rate": 0.01}, {"learning_rate": 0.001}], [3, 4], 2)
    batch.advance(0.3)
    before = jax.device_get(batch.runner.agent_states().network)
    batch.take_over(np.array([1, 1]), [{"learning_rate": 0.002}, {"learning_rate": 0.001}])
    after = jax.device_get(batch.runner.agent_states().network)
    for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(b[0], a[1])
        np.testing.assert_array_equal(b[1], a[1])
    batch.advance(1.0)
    moved = jax.tree.leaves(jax.device_get(batch.runner.agent_states().network))
    assert any((leaf[0] != leaf[1]).any() for leaf in moved)  # other episodes, another rate
    batch.close()


def test_selection_and_change():
    random = np.random.default_rng(0)
    values = np.array([5.0, -np.inf, 3, 9, 1, 7, 2, 8, 6, 4])
    source = population.select_sources(values, random)
    assert list(np.flatnonzero(source != np.arange(10))) == [1, 4]  # the lowest two of ten
    assert set(source[[1, 4]]) <= {3, 7}  # from the highest two
    space = [SearchRange("learning_rate", 1e-4, 1e-2, log=True)]
    found = [population.perturb_settings({"learning_rate": 1e-3}, space, random)["learning_rate"] for _ in range(400)]
    near = np.isclose(found, 8e-4) | np.isclose(found, 1.2e-3)
    assert 0.6 < near.mean() < 0.9 and min(found) >= 1e-4 and max(found) <= 1e-2


@pytest.mark.parametrize("method", ["random", "tpe", "hyperband"])
@pytest.mark.thorough
def test_search_goes_on_where_it_was(method, tmp_path):
    words = {"method": method, "batch": 3, "steps": 160, "tuning_seeds": [0, 1], "seeds": [5000, 5001], "episodes": 2}
    words |= {"agent_options": PPO, "display": "quiet", "directory": tmp_path}
    space = ["learning_rate=1e-4:1e-1:log", "epochs=1,2"]
    result = tune("ppo", "CartPole-v1", space, trials=4, **words)
    trials = search.read_trials(tmp_path / "trials.jsonl")
    assert [trial.number for trial in trials] == [0, 1, 2, 3] == list(range(result["trials"]))
    assert all(1e-4 <= t.settings["learning_rate"] <= 1e-1 and len(t.values) == 2 for t in trials)
    assert (
        result["best"]["settings"] == max((t for t in trials if t.state == "complete"), key=lambda t: t.value).settings
    )
    assert len(result["tuned"]) == len(result["default"]) == 2 and result["seeds"] == [5000, 5001]
    config = json.loads((tmp_path / f"tuned-{result['best']['number']}" / "config.json").read_text())
    assert config["seeds"] == [5000, 5001]
    assert config["agent"]["learning_rate"] == pytest.approx(result["best"]["settings"]["learning_rate"])
    # The last trial is lost, half a line of it left, and no more are run than that one.
    lines = (tmp_path / "trials.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "trials.jsonl").write_text("".join(lines[:-1]) + lines[-1][:20])
    assert len(search.read_trials(tmp_path / "trials.jsonl")) == 3
    again = tune("ppo", "CartPole-v1", space, trials=5, **words)  # and one more than before
    gone_on = search.read_trials(tmp_path / "trials.jsonl")
    assert gone_on[:3] == trials[:3] and [trial.number for trial in gone_on] == [0, 1, 2, 3, 4]
    assert again["trials_per_minute"] == pytest.approx(60 * 2 / again["search_seconds"], rel=0.05)
    config = json.loads((tmp_path / f"tuned-{again['best']['number']}" / "config.json").read_text())
    assert config["agent"]["learning_rate"] == pytest.approx(again["best"]["settings"]["learning_rate"])
    with pytest.raises(ForageError, match="another method"):
        tune("ppo", "CartPole-v1", space, trials=4, **words | {"method": "random" if method == "tpe" else "tpe"})


@pytest.mark.thorough
def test_what_cannot_be_is_a_failed_trial(tmp_path):
    words = {"method": "random", "batch": 4, "steps": 160, "tuning_seeds": [0], "seeds": [5000, 5001], "episodes": 2}
    words |= {"agent_options": PPO, "display": "quiet", "directory": tmp_path}
    tune("ppo", "CartPole-v1", ["minibatches=1,3"], trials=4, **words)  # 16 transitions are not cut into 3
    states = {t.settings["minibatches"]: (t.state, t.why) for t in search.read_trials(tmp_path / "trials.jsonl")}
    assert states[1][0] == "complete" and states[3][0] == "failed" and "3 equal minibatches" in states[3][1]


@pytest.mark.thorough
def test_a_member_that_breaks_on_the_host_breaks_alone(tmp_path):
    """At a very high rate the agent's actions are no numbers: its environment fails, and the other continues."""
    one = setup("gymnasium:Pendulum-v1")
    batch = Batch(one, [{"learning_rate": 1e38}, {"learning_rate": 0.001}], [3, 3], 1)
    batch.advance(0.5)
    batch.advance(1.0)
    values = batch.evaluate()
    assert values[0] == -np.inf and np.isfinite(values[1])
    assert batch.broken.tolist() == [True, False] and "became NaN" in batch.why[0] and batch.why[1] == ""
    batch.take_over(np.array([1, 1]), [{"learning_rate": 0.001}, {"learning_rate": 0.001}])
    assert np.isfinite(batch.evaluate()).all()
    batch.close()


def test_a_trial_that_broke_is_written_as_json(tmp_path):
    rows = CurveRows(tmp_path / "trials.jsonl")
    rows.append(search.Trial(0, {"learning_rate": 1e38}, [None, 3.0], 160, "complete", "It broke.")._asdict())
    assert "Infinity" not in rows.path.read_text()
    (trial,) = search.read_trials(rows.path)
    assert trial.value == -np.inf and trial.why == "It broke."
    said = verdict_sentence(None, np.ones(2), {"tuned": "It broke."})
    assert said == "The best setting broke on the test seeds: It broke."


@pytest.mark.thorough
def test_population(tmp_path):
    words = {"steps": 320, "seeds": [5000, 5001], "episodes": 2, "agent_options": PPO, "display": "quiet"}
    result = tune(
        "ppo", "CartPole-v1", ["learning_rate=1e-4:1e-1:log"], method="pbt", trials=5, directory=tmp_path, **words
    )
    rows = [json.loads(line) for line in (tmp_path / "population.jsonl").read_text().splitlines()]
    assert len(rows) == population.PARTS == len(result["best"]["settings"])
    assert [row["steps"] for row in rows] == [16 * part for part in range(1, 21)]
    top = int(np.argmax(rows[-1]["values"]))
    assert result["best"]["settings"][-1] == rows[-1]["settings"][top]
    assert len(result["tuned"]) == 2 and not set(result["tuning_seeds"]) & {5000, 5001}


class Members:
    """A stand-in for training members: each one's learned state is a sum of its settings and its seed."""

    made: ClassVar[list[list[int]]] = []

    def __init__(self, setup, settings, seeds, episodes):
        self.settings, self.seeds, self.steps, self.runner = [dict(s) for s in settings], list(seeds), 0, self
        self.broken, self.why, self.learned = np.zeros(len(seeds), bool), [""] * len(seeds), np.zeros(len(seeds))
        self.made.append(self.seeds)

    def advance(self, share):
        self.steps = round(320 * share)
        self.learned = self.learned + [
            s["learning_rate"] + 1e-6 * n for s, n in zip(self.settings, self.seeds, strict=True)
        ]

    def evaluate(self):
        return self.learned.copy()

    def take_over(self, source, settings):
        self.learned, self.settings = self.learned[source], [dict(s) for s in settings]

    def save(self, path, header):
        checkpoint.save_tree(path, self.learned.astype(np.float32), header)

    def load(self, path):
        learned, header = checkpoint.load_tree(path, np.zeros(len(self.seeds), np.float32))
        self.learned = np.asarray(learned)
        return header

    def close(self):
        pass


class KilledError(Exception):
    pass


@pytest.fixture
def members(monkeypatch):
    monkeypatch.setattr(population, "Batch", Members)
    monkeypatch.setattr(population.Interval, "due", lambda *_: True)
    monkeypatch.setattr(Members, "made", [])
    return Members


def test_a_population_that_was_killed_goes_on(members, tmp_path, monkeypatch):
    one, space, seeds = setup(), [SearchRange("learning_rate", 1e-4, 1e-1, log=True)], list(range(10_000, 10_010))
    monkeypatch.setattr(members, "evaluate", lambda self: self.learned.astype(np.float32))

    def evolve(name, until=population.PARTS):
        def tell(row):
            told.append(row["part"])
            if row["part"] == until < population.PARTS:
                raise KilledError

        return population.evolve(one, space, seeds, 2, tmp_path / name, tell)

    told: list[int] = []
    whole = evolve("whole.jsonl")
    for until in (1, 7, 7, 19):
        with pytest.raises(KilledError):
            evolve("killed.jsonl", until)
    told.clear()
    killed = evolve("killed.jsonl")
    assert told == [19, 20]
    assert killed.settings == whole.settings and killed.value == pytest.approx(whole.value, abs=1e-6)
    lines = [json.loads(line) for line in (tmp_path / "killed.jsonl").read_text().splitlines()]
    assert [line["part"] for line in lines] == list(range(1, 21))
    # What was over stays so, and test seeds go on as well.
    told.clear()
    assert evolve("killed.jsonl") == killed and told == []
    monkeypatch.setattr(members, "advance", stopped := mock.Mock(side_effect=[None, None, KilledError]))
    with pytest.raises(KilledError):
        population.replay_schedule(one, whole, [1, 2], 2, tmp_path / "tuned.npz")
    stopped.side_effect = None
    population.replay_schedule(one, whole, [1, 2], 2, tmp_path / "tuned.npz")
    assert stopped.call_count == 3 + population.PARTS - 2
    population.replay_schedule(one, whole, [1, 2], 2, tmp_path / "tuned.npz")
    assert stopped.call_count == 3 + population.PARTS - 2


def test_a_population_is_judged_on_seeds_it_did_not_train_on(members, tmp_path, monkeypatch):
    judged_on: list[list[int]] = []

    def whole_run(agent, environment, *, directory, display, **options):
        judged_on.append(options["seeds"])
        return SimpleNamespace(evaluation={"return": [0.0] * len(options["seeds"])})

    monkeypatch.setattr("forage.runs.training.train_or_resume", whole_run)
    words = {"steps": 320, "agent_options": PPO, "display": "quiet", "directory": tmp_path / "search"}
    result = tune("ppo", "CartPole-v1", ["learning_rate=1e-4:1e-1:log"], method="pbt", trials=5, **words)
    trained_on, tuned_on = members.made
    assert trained_on == list(range(10_000, 10_005)) == result["tuning_seeds"]
    # The default and what was tuned are judged on the same seeds, which no member has seen.
    assert [tuned_on] == judged_on == [list(range(5_000, 5_010))] and result["seeds"] == tuned_on
    assert len(result["tuned"]) == len(result["default"]) == 10
    best = result["best"]["settings"]
    total = sum(one["learning_rate"] for one in best)
    assert result["tuned"] == pytest.approx([total + 20e-6 * seed for seed in tuned_on])


def test_bad_input(tmp_path):
    words = {"display": "quiet", "directory": tmp_path / "x", "steps": 160, "agent_options": PPO}
    rate = ["learning_rate=0.1:0.2"]
    for more, space, error in (
        ({"seeds": [1, 2], "tuning_seeds": [2, 3]}, rate, "2 is among both"),
        ({"method": "pbt", "trials": 10, "seeds": [9999, 10003]}, rate, "10003 is among both .*10000 to 10009"),
        ({"starts": "levels", "environment": "gymnasium:CartPole-v1"}, rate, "runs on the host"),
        ({"method": "grid"}, rate, "tpe, random, hyperband, pbt, not 'grid'"),
        ({"trials": 0}, rate, "1 trial or more"),
        ({}, [], "needs --over"),
        ({}, [*rate, "learning_rate=0.1,0.3"], "names one twice"),
        ({"method": "pbt", "trials": 8}, ["epochs=1:4"], "part of the program's shape"),
        ({"method": "pbt", "trials": 3}, rate, "5 members or more"),
    ):
        with pytest.raises(ForageError, match=error):
            tune("ppo", space=space, **{"environment": "CartPole-v1"} | words | more)
    assert not (tmp_path / "x").exists()
    assert "Inconclusive" in verdict_sentence(np.array([1.0, 2, 3]), np.array([1.5, 2, 2]), {})
    assert verdict_sentence(np.arange(5.0), np.arange(5.0) + 90, {}).startswith("default is better than tuned")


def test_seeds_are_how_many_or_which_as_in_training(monkeypatch, tmp_path):
    """`--seeds 5` was number 5 alone in `tune`, and five of them in `train`."""
    given = []
    monkeypatch.setattr("forage.studies.tuning.tune.tune", lambda *words, **options: given.append(options) or {})
    monkeypatch.setattr("forage.studies.tuning.tune.tuning_sentences", lambda result: [])
    words = ["tune", "ppo", "CartPole-v1", "--over", "clip=0.1,0.2", "--quiet"]
    for seeds in (["--seeds", "5"], ["--seeds", "3,"], ["--seeds", "3,4", "--tuning-seeds", "2"]):
        entry.run([*words, *seeds])
    assert [options["seeds"] for options in given] == [5, (3,), (3, 4)] and given[-1]["tuning_seeds"] == 2
    assert seed_numbers(5) == [0, 1, 2, 3, 4] and seed_numbers((3,)) == [3] and seed_numbers(2, 5000) == [5000, 5001]
    monkeypatch.undo()
    search = tmp_path / "search"
    with pytest.raises(ForageError, match="5000 is among both"):
        tune("ppo", "CartPole-v1", ["clip=0.1,0.2"], seeds=2, tuning_seeds=[5000], directory=search)


def test_without_its_library_a_search_leaves_nothing_behind(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ForageError, match=r"forage-rl\[tune\]"):
        tune("ppo", "CartPole-v1", ["learning_rate=1e-4:1e-2:log"], steps=160, directory=tmp_path / "search")
    assert not list(tmp_path.iterdir()) and not capsys.readouterr().out


# One search by several processes


def run_by_value(plan, asked, first):
    """Run trials whose value is their learning rate."""
    return [search.Trial(first, dict(one.params), [one.params["learning_rate"]], 160, "complete") for one in asked]


@pytest.mark.parametrize("storage", ["journal", pytest.param("sqlite", marks=pytest.mark.thorough)])
def test_processes_share_a_search(storage, monkeypatch, tmp_path):
    """Two that ask in turn make all trials once; those of a process that died are proposed again."""
    plan = search.Plan(setup(), [SearchRange("learning_rate", 1e-4, 1e-1, log=True)], [0], 2, "tpe", 2)
    told = {"one": [], "two": [], "three": []}

    def take_part(name, trials=6):
        return shared.run_shared_trials(
            plan, trials, tmp_path, storage, lambda found, seconds: told[name].extend(found)
        )

    def run_and_call(plan, asked, first):
        if not told["two"]:  # while this process trains, another one makes a batch
            monkeypatch.setattr(shared, "run", run_by_value)
            monkeypatch.setattr(shared, "pause", lambda: 1 / 0)
            with pytest.raises(ZeroDivisionError):  # it waits for this one at its end
                take_part("two")
        return run_by_value(plan, asked, first)

    monkeypatch.setattr(shared, "run", run_and_call)
    done = take_part("one")
    assert [len(told[name]) for name in ("one", "two")] == [2, 4] and [one.number for one in done] == list(range(6))
    assert {one.settings["learning_rate"] for one in done} == {
        one.settings["learning_rate"] for name in ("one", "two") for one in told[name]
    }

    def die(plan, asked, first):
        raise KeyboardInterrupt

    monkeypatch.setattr(shared, "run", die)
    with pytest.raises(KeyboardInterrupt):
        take_part("one", 8)
    monkeypatch.setattr(shared, "run", run_by_value)
    done = take_part("three", 8)
    assert len(done) == 8 and len(told["three"]) == 2 and [one.number for one in told["three"]] == [8, 9]


def test_broken_trials_count_and_are_worth_least(monkeypatch, tmp_path):
    plan = search.Plan(setup(), [SearchRange("learning_rate", 1e-4, 1e-1, log=True)], [0], 2, "tpe", 4)
    states = ["complete", "failed", "pruned", "complete"]

    def run(plan, asked, first):
        values = [[0.5], [], [0.1], [None]]
        return [
            search.Trial(0, dict(one.params), *pair) for one, *pair in zip(asked, values, [9] * 4, states, strict=True)
        ]

    monkeypatch.setattr(shared, "run", run)
    done = shared.run_shared_trials(plan, 4, tmp_path, "journal", lambda found, seconds: None)
    assert [one.state for one in done] == states and search.best_trial(done).number == 0
    with pytest.raises(ForageError, match=r"A storage is journal, sqlite, or the address of a database .*not 'redis'"):
        shared.check_storage("redis", "tpe")
    with pytest.raises(ForageError, match="A population is one program"):
        shared.check_storage("journal", "pbt")


@pytest.mark.thorough
def test_a_shared_search_ends_with_a_verdict_and_goes_on(tmp_path):
    options = small.PPO | {"checkpoint_seconds": 0}
    found = [
        tune(
            "ppo",
            "CartPole-v1",
            ["learning_rate=1e-3:1e-2:log"],
            method="random",
            trials=trials,
            batch=2,
            steps=160,
            tuning_seeds=1,
            seeds=2,
            episodes=2,
            directory=tmp_path / "one",
            display="quiet",
            storage="journal",
            **{name: value for name, value in options.items() if name != "checkpoint_seconds"},
        )
        for trials in (2, 2)
    ]
    assert found[0]["trials"] == 2 and found[0]["tuned"] == found[1]["tuned"] and found[1]["verdict"]
    assert len((tmp_path / "one" / "trials.jsonl").read_text().splitlines()) == 2
