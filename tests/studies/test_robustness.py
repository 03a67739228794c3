"""A trained run in other environments: grids, randomness, other tasks; and wrappers by name from end to end."""

import json

import numpy as np
import pytest
import small

import forage
from forage.config.environment import wrap_environment, wrap_innermost
from forage.config.resolve import from_config
from forage.core.types import ForageError
from forage.environments.classic.cartpole import CartPole
from forage.environments.classic.pendulum import Pendulum
from forage.environments.wrappers import FrameStack, TimeLimit
from forage.environments.wrappers.randomness import ActionNoise
from forage.runs import training
from forage.runs.run import Run
from forage.studies.robustness import Point, Robustness, axis, evaluate_under
from forage.tasks.contexts import Contexts

small.keep_compiled()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return small.train(tmp_path_factory.mktemp("runs") / "run").directory


@pytest.fixture(scope="module")
def wrapped_run(tmp_path_factory):
    return small.train(tmp_path_factory.mktemp("runs") / "wrapped", wrap=["time-limit:15", "frame-stack:2"]).directory


@pytest.mark.thorough
def test_other_environments_by_name(run):
    other = {"as it was": CartPole(), "short": CartPole(length=0.05)}
    found = evaluate_under(run, instead=other, episodes=4)
    assert [point.under for point in found.points] == ["", "as it was", "short"]
    assert found.points[0].returns == found.points[1].returns != found.points[2].returns
    with pytest.raises(ForageError, match="knows Box"):
        evaluate_under(run, instead={"pendulum": Pendulum()})


@pytest.mark.thorough
def test_episodes_are_as_long_as_the_other_environments(wrapped_run):
    longer = FrameStack(TimeLimit(CartPole(), 40), 2)
    found = evaluate_under(wrapped_run, instead={"longer": longer}, episodes=20)
    usual, other = (point.returns for point in found.points)
    assert max(usual) <= 15 < max(other) <= 40


def test_words_make_wrappers():
    assert wrap_environment(CartPole(), ["time-limit:200", "frame-stack"]) == FrameStack(TimeLimit(CartPole(), 200), 4)
    delay = wrap_environment(CartPole(), ["delay:observation-delay=2:most=3"])
    assert (delay.action_delay, delay.observation_delay, delay.most) == (0, 2, 3)
    masked = wrap_environment(CartPole(), ["context-visible:length,gravity:0,5:1,15", "masked:0,2,4"])
    assert masked.indices == (0, 2, 4) and masked.environment.fields == ("length", "gravity")


def test_randomness_goes_within_all_wrappers():
    stacked = FrameStack(TimeLimit(CartPole(), 200), 4)
    assert wrap_innermost(stacked, ["action-noise:0.1"]) == FrameStack(TimeLimit(ActionNoise(CartPole(), 0.1), 200), 4)
    assert wrap_innermost(stacked, []) == stacked
    with pytest.raises(ForageError, match="frame-stack:2 changes what is seen or done"):
        wrap_innermost(stacked, ["frame-stack:2"])


@pytest.mark.thorough
def test_a_wrapped_run_is_rebuilt(wrapped_run):
    config = Run(wrapped_run).config
    assert config["environment"] == {"id": "CartPole-v1", "options": {}, "wrap": ["time-limit:15", "frame-stack:2"]}
    assert config["spec"]["horizon"] == 15 and config["spec"]["observation_space"]["shape"] == [8]
    assert from_config(config).environment == FrameStack(TimeLimit(CartPole(), 15), 2)
    training.evaluate(wrapped_run, episodes=3)
    assert max(np.ravel(Run(wrapped_run).evaluation["episode_lengths"])) == 15
    assert forage.load(wrapped_run).act(np.zeros(8)) in (0, 1)


@pytest.mark.thorough
def test_wrap_on_the_command_line(capsys, tmp_path):
    words = ["--num-envs", 2, "--rollout-length", 8, "--minibatches", 2, "--epochs", 1, "--hidden-sizes", 8]
    words += ["--steps", 64, "--seeds", 1, "--evaluation-episodes", 2, "--plain", "--directory", tmp_path / "run"]
    words += ["--wrap", "action-noise:0", "--wrap=time-limit:9"]
    words += ["--tasks", "contexts", "--tasks.train", "action_noise=0:0.5,length=0.5:1"]
    code, out, err = small.run_command(capsys, "train", "ppo", "CartPole-v1", *words)
    assert (code, err) == (0, "")
    assert "CartPole-v1 in action-noise:0, time-limit:9" in out
    code, out, err = small.run_command(capsys, "watch", tmp_path / "run", "--output", tmp_path / "a.gif")
    assert (code, err) == (0, "")


@pytest.mark.thorough
def test_a_grid(run):
    result = forage.evaluate_under(run, {"length": [0.5, 2.0], "max_steps": [5, 9]}, episodes=4)
    assert [point.fields for point in result.points] == [
        {"length": 0.5, "max_steps": 5},
        {"length": 0.5, "max_steps": 9},
        {"length": 2.0, "max_steps": 5},
        {"length": 2.0, "max_steps": 9},
    ]
    # Nobody falls within nine steps: the limit is what an episode is worth.
    assert [point.returns for point in result.points] == [[5, 5], [9, 9], [5, 5], [9, 9]]
    assert result.mean.value == 7 and result.worst_case.value == 5
    stored = json.loads((run / "robustness.json").read_text())
    assert stored["points"][1]["fields"] == {"length": 0.5, "max_steps": 9}
    assert stored["worst_case"]["score"] == 5
    still = {"gravity": [0.0], "force": [0.0], "reset_range": [0.0]}
    longer = forage.evaluate_under(run, {"max_steps": [600], **still}, episodes=2)
    assert longer.points[0].returns == [600, 600]  # beyond the horizon of training, with nothing that moves


@pytest.mark.thorough
def test_the_point_that_changes_nothing_is_the_evaluation(run):
    training.evaluate(run, episodes=4, seed=3)
    result = forage.evaluate_under(run, {"length": [0.5]}, under=["action-noise:0"], episodes=4, seed=3)
    for point in result.points:
        assert point.returns == pytest.approx(Run(run).evaluation["return"])


def test_the_worst_case_is_each_seeds_own():
    cut = str(Robustness("a run", 5, [Point("", {}, [1.0, 9.0], 3, 27_000), Point("missing:0.1", {}, [1.0, 2.0])]))
    assert cut.endswith("3 of 20 episodes were cut after 27,000 steps; the score counts what they had brought by then")
    points = [Point("", {"length": 1.0}, [1.0, 9.0]), Point("", {"length": 2.0}, [7.0, 3.0])]
    result = Robustness("a", 1, points)
    assert result.worst_case.value == 2  # of 1 and 3
    assert result.mean.value == 5  # of 4 and 6
    assert result.worst_point is points[0] or result.worst_point is points[1]
    assert "worst case: return 2" in str(result)


@pytest.mark.thorough
def test_conditions(run):
    before = Run(run).evaluation
    result = forage.evaluate_under(run, under=["time-limit:6", "action-noise:1"], wrap=["time-limit:8"], episodes=4)
    assert [point.under for point in result.points] == ["", "time-limit:6", "action-noise:1"]
    assert result.points[0].returns == [8, 8] and result.points[1].returns == [6, 6]
    assert Run(run).evaluation == before  # the score of the run stays


@pytest.mark.thorough
def test_a_curve_over_strengths(run):
    result = forage.evaluate_under(run, {"reward_loss": [0.0, 1.0]}, wrap=["reward-noise"], episodes=3)
    assert result.points[0].returns[0] > 5 and result.points[1].returns == [0, 0]


@pytest.mark.thorough
def test_other_tasks(run):
    short = forage.evaluate_under(run, tasks=Contexts(("max_steps=4",), test=("max_steps=choice:7",)), episodes=3)
    assert short.points[0].returns == [7, 7]


@pytest.mark.thorough
def test_tasks_of_test(tmp_path):
    """Training and its score are in other contexts."""
    still = ("gravity=0", "force=0", "reset_range=0")
    run = small.train(tmp_path / "run", tasks=Contexts(("max_steps=5",), test=("max_steps=700", *still)))
    assert run.evaluation["return"] == [700, 700]  # beyond the horizon that the environment has by itself
    assert {length for row in run.rows for length in row["length"]} == {5.0}


@pytest.mark.parametrize("words", ["watch", "resume"])
@pytest.mark.thorough
def test_contexts_at_the_other_doors(capsys, tmp_path, words):
    run = small.train(tmp_path / "run", tasks=Contexts(("length=0.2:1.0",)), wrap=["context-visible:length:0.2:1"])
    code, _, err = small.run_command(
        capsys, words, run.directory, *(["--steps", 5] if words == "watch" else ["--quiet"])
    )
    assert (code, err) == (0, "")


@pytest.mark.thorough
def test_on_the_command_line(capsys, run):
    words = ["--grid", "length=0.5:2:2", "--grid", "max-steps=5,9", "--under", "action-noise:0.5", "--episodes", 2]
    code, out, err = small.run_command(capsys, "evaluate", run, *words)
    assert (code, err) == (0, "")
    assert "mean over 8 rows: return" in out and "worst case: return" in out and "action-noise:0.5" in out
    code, out, err = small.run_command(capsys, "evaluate", run, *words, "--json")
    assert len(json.loads(out)["points"]) == 8
    words = ["--tasks", "contexts", "--tasks.train", "max_steps=6", "--episodes", 2, "--json"]
    code, out, err = small.run_command(capsys, "evaluate", run, *words)
    assert (code, err) == (0, "") and json.loads(out)["mean"]["score"] == 6
    code, out, _ = small.run_command(capsys, "evaluate", "--help")
    assert code == 0 and "--grid NAME=LOW:HIGH:N" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--grid lenght=1,2", "no field 'lenght'. Did you mean 'length'"),
        ("--grid length=1:2", "as in length=0.25:2.0:8"),
        ("--grid length=2:1:3", "low < high and 2 points or more"),
        ("--grid length=a,b", "as in length=0.25:2.0:8"),
        ("--grid length", "as in length=0.25:2.0:8"),
        ("--grid length=-1:1:3", "length of CartPole is above 0, not -1"),
        ("--grid length=nan", "A grid is of numbers, and length has nan"),
        ("--grid max_steps=1:2:4", "max_steps is a whole number, and 1.33333 on the grid is none"),
        ("--grid length=1 --grid length=2", "The grid names length twice"),
        ("--under action-nois:1", "Unknown wrapper 'action-nois'. Did you mean 'action-noise'"),
        ("--under frame-stack:2", "frame-stack:2 changes what is seen or done"),
        ("--under action-noise:7", "from 0 to 1, not 7"),
        ("--under action-noise:0.1 --episodes 0", "1 evaluation episode or more"),
        ("--tasks contexts", "contexts needs --tasks.train"),
        ("--grit length=1", "no option '--grit'. Did you mean '--grid'"),
    ],
)
def test_bad_input(capsys, run, words, said):
    code, out, err = small.run_command(capsys, "evaluate", run, *words.split())
    assert code == 2 and out == "" and err.count("\n") == 1
    assert said in err


@pytest.mark.thorough
def test_runs_that_cannot_be_played_elsewhere(tmp_path):
    host = small.train(tmp_path / "host", environment="gymnasium:CartPole-v1")
    with pytest.raises(ForageError, match="is stepped on the host"):
        forage.evaluate_under(host.directory, {"length": [1.0]})
    sweep = small.train(tmp_path / "sweep", sweep={"learning_rate": [1e-3, 1e-4]}, seeds=[3])
    with pytest.raises(ForageError, match="is a sweep"):
        forage.evaluate_under(sweep.directory, {"length": [1.0]})


def test_axes():
    assert axis("length=0.5:2:4") == ("length", [0.5, 1.0, 1.5, 2.0])
    assert axis("pole-mass=0.1,1") == ("pole_mass", [0.1, 1.0])
