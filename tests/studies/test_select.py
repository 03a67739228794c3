"""`forage select`: a table worked by hand, the printed output, and estimates from a log."""

import json

import numpy as np
import pytest
import small

from forage.core.types import ForageError
from forage.data import files
from forage.data.collect import log_episodes, soften_policy, tabular_policy
from forage.environments.tabular.makers import chain
from forage.runs import training
from forage.runs.run import Run
from forage.studies.select import of_runs, read_table, select

small.keep_compiled()
TABLE = "policy,value,shy,bold\na,2,1,9\nb,10,5,5\nc,4,2,6\nd,6,3,8\ne,8,4,7\n"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(TABLE)
    return path


def test_by_hand(table):
    """Bold tries a, d, e: 2, 6, 8, of mean 16/3 and variance 56/9. Shy tries b, e, d: 10, 8, 6, of variance 8/3."""
    found = select(*read_table(table), baseline=5.0, k=3, threshold=7.0)
    assert list(found.judged) == ["shy", "bold"]
    shy, bold = found.judged["shy"], found.judged["bold"]
    assert shy.top == ("b", "e", "d") and bold.top == ("a", "d", "e")
    np.testing.assert_allclose(bold.portfolio, [8, 2, 16 / 3, np.sqrt(56 / 9), 2 / 3, 3 / np.sqrt(56 / 9)])
    np.testing.assert_allclose(shy.portfolio.sharpe_ratio, 5 / np.sqrt(8 / 3))
    assert (shy.regret, bold.regret, bold.normalised_regret) == (0, 2, 0.25)
    assert shy.rank_correlation == pytest.approx(1) and bold.rank_correlation == pytest.approx(-0.7)
    one = select(*read_table(table), baseline=1.0, k=1)
    assert one.judged["bold"].portfolio.sharpe_ratio == np.inf


def test_the_command(table, capsys):
    code, said, err = small.run_command(capsys, "select", table, "--baseline", 5)
    lines = said.splitlines()
    assert (code, err) == (0, "")
    assert lines[0] == "5 policies, the best of them b (10); behaviour 5"
    assert lines[1].split()[:3] == ["estimator", "SharpeRatio@3", "best@3"]
    assert lines[2].split() == ["shy", "3.062", "10", "6", "1.633", "0", "1", "b,", "e,", "d"]
    code, said, _ = small.run_command(capsys, "select", table, "--baseline", 5, "--k", 2, "--threshold", 3, "--json")
    found = json.loads(said)["judged"]["bold"]
    assert code == 0 and found["top"] == ["a", "d"] and found["portfolio"]["violations"] == 0.5


@pytest.mark.parametrize(
    ("words", "text", "said"),
    [
        ("--k 3", TABLE, "does not say what the policy that acted is worth"),
        ("--baseline 5 --k 6", TABLE, "The top 6 of 5 policies are asked for"),
        ("--baseline 5 --discount 0.9", TABLE, "--discount is for estimates made here"),
        ("--baseline 5", "policy,worth,x\n", "begins with the columns policy and value"),
        ("--baseline 5", "policy,value,x\n", "names no policy"),
        ("--baseline 5", "policy,value,x\na,1\n", "line 2 has 2 cells"),
        ("--baseline 5", "policy,value,x\na,1,one\n", "line 2 has something that is no number"),
        ("--baseline 5", "policy,value,x\na,1,2\na,1,3\n", "line 3 names a policy again"),
        ("--baseline 5", "policy,value,x\na,1,nan\n", "are finite numbers; leave out"),
    ],
)
def test_one_sentence(words, text, said, table, capsys):
    table.write_text(text)
    code, _, err = small.run_command(capsys, "select", table, *words.split())
    assert code == 2 and said in err and err.count("\n") == 1


def test_runs_need_a_data_set(capsys):
    assert "name it with --data FILE" in small.run_command(capsys, "select", "runs/a", "runs/b")[2]
    assert "forage select takes a table, or runs" in small.run_command(capsys, "select")[2]


@pytest.mark.thorough
def test_runs_are_judged_from_a_log(tmp_path, capsys):
    environment = chain(max_steps=20)
    half = soften_policy(tabular_policy(np.tile([0.5, 0.5], (5, 1))), 0.0)
    log = log_episodes(environment, half, episodes=50)
    runs = [tmp_path / name for name in ("a", "b", "c")]
    for seed, path in enumerate(runs):
        training.train(
            "ppo", environment, agent_options=small.PPO, steps=64, seeds=[seed], evaluation_episodes=4,
            display="quiet", directory=path,
        )  # fmt: skip
    files.write_data(tmp_path / "log.npz", log, {"spec": Run(runs[0]).config["spec"]})
    values, estimates, baseline = of_runs(runs, tmp_path / "log.npz", 0.99, estimators=("wpdis", "fqe"))
    assert list(values) == ["a", "b", "c"] and set(estimates) == {"wpdis", "fqe"}
    assert values["a"] == Run(runs[0]).evaluation["return"][0]
    assert baseline == pytest.approx(np.bincount(log.numbers, log.reward).mean())
    code, said, _ = small.run_command(capsys, "select", *runs, "--data", tmp_path / "log.npz", "--k", 2)
    assert code == 0 and "SharpeRatio@2" in said and "fqe" in said
    with pytest.raises(ForageError, match="Two runs have the same name"):
        of_runs([runs[0], runs[0]], tmp_path / "log.npz")
