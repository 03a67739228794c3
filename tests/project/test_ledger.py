"""The ledger: the definition of drift, refusals, and a regression that is caught."""

import json
import runpy
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from forage.cli.entry import as_command
from forage.config.resolve import resolve
from forage.core.types import ForageError
from forage.runs import capacity
from forage.starts.groups import Groups

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
from ledger import checking, flops, measuring, showing  # noqa: E402
from ledger.rows import ROWS, Row  # noqa: E402

LEDGER = BENCHMARKS / "ledger.json"
run = runpy.run_path(str(BENCHMARKS / "ledger" / "__main__.py"))["run"]
HARDWARE = {"cpu": "one", "cores": 2, "device": "cpu", "system": "Linux"}


def run_ledger(capsys, *words):
    """Run the program with these words. Return the exit code and both outputs."""
    with pytest.raises(SystemExit) as stopped:
        as_command(lambda: run([str(word) for word in words]))
    return stopped.value.code, *capsys.readouterr()


def figures(**changes):
    """Figures of a row that learned, with changes."""
    found = {
        "settings": {"threshold": 10.0},
        "returns": [9.0, 10.0, 11.0, 10.0, 10.0],
        "score": 10.0,
        "interval": [9.0, 11.0],
        "threshold_steps": [100.0, 110.0, 120.0, 130.0, 140.0],
        "threshold_reached": [True] * 5,
        "steps_per_second": 1000.0,
        "speed": 10.0,
        "compile_seconds": 5.0,
        "compile_work": 500.0,
        "memory_mib": 400.0,
        "hardware": HARDWARE,
        "versions": {"jax": "0.10.2", "jaxlib": "0.10.2"},
    }
    return found | changes


def verdicts_of(then, now):
    """The verdict on each quantity."""
    found = checking.findings(then, now)
    return {f.quantity.split(" to a return")[0]: f.verdict for f in found}


def score_of(*returns):
    return {"returns": list(returns), "score": float(sorted(returns)[len(returns) // 2])}


def test_scores_drift_only_beyond_luck():
    then = figures()
    assert verdicts_of(then, figures())["score"] == "same"
    assert verdicts_of(then, figures(**score_of(5, 6, 5, 6, 5)))["score"] == "worse"
    assert verdicts_of(then, figures(**score_of(15, 16, 15, 16, 15)))["score"] == "better"
    assert verdicts_of(then, figures(**score_of(0, 10, 10, 0, 10)))["score"] == "same"  # two unlucky seeds
    slightly = figures(**score_of(9.5, 9.5, 9.5, 9.5, 9.5))
    assert verdicts_of(figures(**score_of(10, 10, 10, 10, 10)), slightly)["score"] == "same"  # certain, but small
    below = figures(**score_of(-100, -101, -99, -100, -100))  # a tolerance is as large for scores below zero
    assert verdicts_of(below, figures(**score_of(-105, -104, -106, -105, -105)))["score"] == "same"
    assert verdicts_of(below, figures(**score_of(-150, -151, -149, -150, -150)))["score"] == "worse"
    assert verdicts_of(then, figures(returns=[None] * 5, score=None))["score"] == "worse"


def test_steps_to_a_threshold_count_those_that_never_arrive():
    then = figures()
    assert verdicts_of(then, figures(threshold_steps=[x + 2 for x in then["threshold_steps"]]))["steps"] == "same"
    assert verdicts_of(then, figures(threshold_steps=[300.0, 310, 320, 330, 340]))["steps"] == "worse"
    assert verdicts_of(then, figures(threshold_steps=[20.0, 21, 22, 23, 24]))["steps"] == "better"
    never = figures(threshold_steps=[500.0] * 5, threshold_reached=[False] * 5)
    assert verdicts_of(then, never)["steps"] == "worse" and verdicts_of(never, then)["steps"] == "better"
    assert verdicts_of(never, never)["steps"] == "same"


@pytest.mark.parametrize(
    ("quantity", "worse", "same", "better"),
    [
        ("speed", {"speed": 7.0}, {"speed": 8.0}, {"speed": 14.0}),
        ("compile time", {"compile_work": 800.0}, {"compile_work": 700.0}, {"compile_work": 300.0}),
        ("peak memory", {"memory_mib": 620.0}, {"memory_mib": 580.0}, {"memory_mib": 250.0}),
    ],
)
def test_speed_and_cost_have_tolerances(quantity, worse, same, better):
    for verdict, change in (("worse", worse), ("same", same), ("better", better)):
        assert verdicts_of(figures(), figures(**change)) == verdicts_of(figures(), figures()) | {quantity: verdict}


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ({"hardware": HARDWARE | {"cpu": "another"}}, "measured with cpu one (here another)"),
        ({"versions": {"jax": "0.11.0", "jaxlib": "0.10.2"}}, "measured with jax 0.10.2 (here 0.11.0)"),
    ],
)
def test_elsewhere_only_learning_is_judged(there, said):
    found = checking.findings(figures(), figures(speed=1.0, **score_of(0, 0, 0, 0, 0), **there))
    assert [f.verdict for f in found] == ["worse", "same"] + ["not compared"] * 3
    assert said in found[2].said
    assert checking.verdict(found[1:]) == "same" and checking.verdict(found) == "worse"


def test_what_is_noisy_gets_a_second_chance_and_scores_do_not():
    slow, bad = figures(speed=5.0), figures(speed=5.0, **score_of(0, 0, 0, 0, 0))

    def check_case(*measured):
        given = iter(measured)
        return {f.quantity: f.verdict for f in checking.check("x", figures(), lambda _: next(given))}

    assert check_case(slow, figures())["speed"] == "same"
    assert check_case(slow, slow)["speed"] == "worse"
    assert check_case(figures())["speed"] == "same"  # measured once
    assert check_case(bad, figures())["score"] == "worse"


@pytest.mark.thorough
def test_bad_input_is_one_sentence(capsys, tmp_path, monkeypatch):
    def check_refused(*words):
        code, _, said = run_ledger(capsys, *words)
        assert code == 2 and said.count("\n") == 1
        return said

    monkeypatch.chdir(tmp_path)
    assert "run this in Forage's repository, or name a ledger with --file" in check_refused()
    assert "python benchmarks/ledger measure ROW --file new.json begins one" in check_refused(
        "check", "ppo-cartpole", "--file", "new.json"
    )
    file = tmp_path / "ledger.json"
    file.write_text("{}")
    assert "Did you mean 'ppo-cartpole'" in check_refused("check", "ppo-cartpol", "--file", file)
    assert "no figures of ppo-cartpole yet; python benchmarks/ledger measure" in check_refused(
        "check", "ppo-cartpole", "--file", file
    )
    assert "'bogus' is neither" in check_refused("bogus")
    assert "takes a row or more" in check_refused("check", "--file", file)
    assert "no option --steps" in check_refused("measure", "ppo-cartpole", "--steps", "3")
    settings = ROWS["ppo-cartpole"].settings() | {"steps": 5}
    file.write_text(json.dumps({"ppo-cartpole": figures(settings=settings)}))
    assert "steps of ppo-cartpole changed from 5 to 100000" in check_refused("check", "ppo-cartpole", "--file", file)
    monkeypatch.setitem(ROWS, "elsewhere", Row("ppo", "nowhere_at_all:Thing", 100, 1.0))
    assert "elsewhere could not be measured: " in (said := check_refused("measure", "elsewhere", "--file", file))
    assert "nowhere_at_all" in said
    monkeypatch.setitem(ROWS, "crash", Row("ppo", "CartPole-v1", 100, 1.0, {"hidden_sizes": "abc"}))
    assert "crash could not be measured: hidden_sizes of ppo is a list" in check_refused(
        "measure", "crash", "--file", file
    )
    assert "elsewhere" not in json.loads(file.read_text())


PLACE = """
import time
from typing import ClassVar
import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from forage.core.ports import Agent

class Lever(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (1,))
    action_space = gymnasium.spaces.Discrete(8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        time.sleep(0.0)
        return np.zeros(1, np.float32), float(action == 5), True, False, {}

class Reinforce(Agent):
    on_policy: ClassVar[bool] = True
    learning_rate: float = 5.0
    num_envs: int = equinox.field(static=True, default=8)
    rollout_length: int = equinox.field(static=True, default=16)

    def check(self, spec):
        pass

    def init(self, key, spec):
        return jnp.zeros(8)

    def act(self, state, inputs):
        return jax.random.categorical(inputs.key, state) if inputs.explore else jnp.argmax(state), inputs.hidden, ()

    def learn(self, state, batch, clock, key):
        gain = batch.experience.reward - batch.experience.reward.mean()
        chosen = jax.nn.one_hot(batch.experience.action, 8) - jax.nn.softmax(state)
        state = state + self.learning_rate * jnp.einsum("te,tea->a", gain, chosen) / gain.size
        return state, {"gain": gain.mean()}, jnp.zeros(gain.shape[1])
"""


@pytest.mark.thorough
def test_a_regression_is_caught_and_no_other(capsys, tmp_path, monkeypatch):
    place = tmp_path / "ledger_place.py"
    place.write_text(PLACE)
    row = Row("ledger_place:Reinforce", "ledger_place:Lever", 1536, 0.8, seeds=4, episodes=4)
    monkeypatch.setitem(ROWS, "lever", row)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[2]}")
    monkeypatch.setattr(checking, "SPEED", 0.6)  # so short a run on a machine that runs tests is timed badly
    monkeypatch.setattr(checking, "COMPILE", 3.0)
    file = tmp_path / "ledger.json"

    code, said, _ = run_ledger(capsys, "measure", "lever", "--file", file)
    stored = json.loads(file.read_text())["lever"]
    assert code == 0 and "lever" in said
    assert stored["score"] == 1.0 and all(stored["threshold_reached"])
    assert 0 < stored["fraction_of_peak"] < 1 and 0 < stored["compile_seconds"] < stored["seconds"]
    assert 100 < stored["memory_mib"] < 4000

    code, said, _ = run_ledger(capsys, "check", "lever", "--file", file)
    assert code == 0 and "score: same" in said and "difference between 0 and 0" in said

    place.write_text(
        PLACE.replace("sleep(0.0)", "sleep(0.0004)").replace("learning_rate: float = 5.0", "learning_rate: float = 0.0")
    )
    code, said, _ = run_ledger(capsys, "check", "lever", "--file", file, "--json")
    verdicts = {f["quantity"]: f["verdict"] for f in json.loads(said)["findings"]}
    assert code == 1 and json.loads(said)["verdict"] == "worse"
    assert verdicts["score"] == verdicts["steps to a return of 0.8"] == verdicts["speed"] == "worse"
    assert verdicts["peak memory"] == "same"


def test_the_marks_of_episodes_are_counted():
    """REINFORCE compares the episodes of a group, identified by their marks: a whole number a step."""
    settings = {"num_envs": 4, "rollout_length": 8, "hidden_sizes": (8,), "baseline": "group"}
    setup = resolve("reinforce", "language:Reverse-4", seeds=2, starts=Groups(2), agent_options=settings)
    mark = setup.loop().example_start_id()
    marked = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(mark))
    alone = resolve("reinforce", "language:Reverse-4", seeds=2, agent_options=settings | {"baseline": "mean"})
    rollouts = [capacity.bytes_of(each.runner())["rollout"] for each in (setup, alone)]
    assert marked and rollouts[0] - rollouts[1] == marked * 2 * 4 * 8
    assert flops.flops_per_step(setup.learner(), mark) == flops.flops_per_step(alone.learner()) > 0


def test_the_operations_of_loops_are_counted():
    a, b = jnp.zeros((4, 5)), jnp.zeros((5, 5))
    assert flops.count(jax.make_jaxpr(lambda a: a @ b)(a).jaxpr) == 2 * 4 * 5 * 5
    scanned = jax.make_jaxpr(lambda a: jax.lax.scan(lambda x, _: (x @ b, None), a, length=3))(a)
    assert flops.count(scanned.jaxpr) == 3 * 2 * 4 * 5 * 5
    looped = jax.make_jaxpr(lambda a, n: jax.lax.fori_loop(0, n, lambda _, x: jax.jit(lambda x: x @ b)(x), a))(a, 7)
    assert flops.count(looped.jaxpr, turns=7) == 7 * 2 * 4 * 5 * 5
    image, kernel = jnp.zeros((2, 3, 8, 8)), jnp.zeros((6, 3, 3, 3))
    convolved = jax.make_jaxpr(lambda x: jax.lax.conv(x, kernel, (1, 1), "VALID"))(image)
    assert flops.count(convolved.jaxpr) == 2 * (2 * 6 * 6 * 6) * (3 * 3 * 3)


def test_compilation_that_overlaps_is_counted_once():
    compiling = measuring.Compiling()
    compiling.spans = [(1.0, 4.0), (2.0, 3.0), (3.5, 5.0), (7.0, 8.0)]
    assert compiling.seconds == 5.0


def test_the_ledger_that_is_kept_is_whole():
    kept = json.loads(LEDGER.read_text())
    assert list(kept) == list(ROWS)
    assert (LEDGER.parent / "results" / "LEDGER.md").read_text() == showing.table(kept)
    for name, row in ROWS.items():
        checking.stored_figures(name, LEDGER)  # its settings are those of the row
        # A minute, where nobody else is at work and the yardstick is 186 GFLOP/s.
        assert not row.sample or kept[name]["seconds"] * kept[name]["yardstick_gflops"] < 60 * 186
    with pytest.raises(ForageError, match="no row"):
        checking.stored_figures("bogus", LEDGER)
