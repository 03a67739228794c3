"""The value of a run's policy from a log: on the command line, among runs and on the page."""

import dataclasses
import json

import numpy as np
import pytest
import small

import forage
from forage.core.types import ForageError, Spec
from forage.data import files
from forage.data.logged import Transitions
from forage.environments.classic.cartpole import CartPole
from forage.evaluation.off_policy import log_episodes
from forage.runs.run import Run
from forage.studies.estimate import answer_of, hashes_in
from forage.studies.report.page import wrong_estimate
from forage.studies.select import rank_runs


class Agent:
    """The abilities that `answer_of` looks at."""

    return_conditioned = looks_ahead = False


class Acts:
    """A policy of two choices: greedily 1, drawn 0 with 1/4."""

    def __init__(self, sampled=False, remembers=False, space=None):
        import gymnasium

        self.agent, self.sampled, self.remembers = Agent(), sampled, remembers
        self.spec = Spec("Two", gymnasium.spaces.Box(-1, 1, (1,)), space or gymnasium.spaces.Discrete(2))

    def reset(self):
        pass

    def act(self, observation):
        return np.ones(len(observation), int)

    def probabilities(self, observation, explore):
        assert explore
        return np.tile([0.25, 0.75], (len(observation), 1))


def test_policies_answer_as_they_are_evaluated():
    seen = np.zeros((3, 1))
    action, probability = answer_of(Acts())(seen)
    assert action.tolist() == [[1, 1, 1]] and probability.tolist() == [[1, 1, 1]]
    action, probability = answer_of(Acts(sampled=True))(seen)
    assert action.tolist() == [[0] * 3, [1] * 3] and probability.tolist() == [[0.25] * 3, [0.75] * 3]
    with pytest.raises(ForageError, match="Agent remembers the episode so far, so that an observation alone"):
        answer_of(Acts(remembers=True))


def test_data_sets_of_a_memory_are_found_at_any_depth():
    memory = {"part": "mixed", "inner": [{"file": "a.npz", "sha256": "abc"}], "other": {"sha256": "def"}, "size": 3}
    assert hashes_in(memory) == {"abc", "def"} and hashes_in(None) == set()


def test_a_damaged_estimate_is_named():
    numbers = dict.fromkeys(("value", "low", "high", "discount", "transitions", "effective_transitions", "rare"), 1.0)
    whole = numbers | {"logged": {"value": 1.0}, "warnings": []}
    assert wrong_estimate(whole) == ""
    assert wrong_estimate(whole | {"low": None}) == "it has no number low"
    assert wrong_estimate(whole | {"logged": 3}) == "it has no return of the log, or no warnings"


@pytest.mark.thorough
def test_a_run_is_estimated_ranked_and_shown(tmp_path, capsys):
    run, other, log = tmp_path / "run", tmp_path / "other", tmp_path / "log.npz"
    small.train(run)
    small.train(other)
    (other / "evaluation.json").unlink()

    def random(observation):
        return np.full((*np.shape(observation)[:-1], 2), 0.5)

    logged = log_episodes(CartPole(), random, episodes=60)
    data = Transitions(**{field.name: getattr(logged, field.name) for field in dataclasses.fields(Transitions)})
    files.write_data(log, data, {"spec": Run(run).config["spec"]})
    code, out, err = small.run_command(capsys, "estimate", run, "--data", log, "--discount", 0.9)
    assert code == 0, err
    assert "fqe " in out and "dr " in out and "wpdis " in out and "logged " in out and "effective transitions" in out
    code, out, _ = small.run_command(capsys, "estimate", run, "--data", log, "--discount", 0.9, "--json")
    found = json.loads(out)
    # A pole that does not fall is worth 10.
    assert 5 < found["value"] < 11 and found["low"] < found["value"] < found["high"] and found["episodes"] == 60
    assert json.loads((run / "estimate.json").read_text())["value"] == found["value"]
    page = forage.report([run], tmp_path / "page.html").read_text()
    assert "Estimated from logs" in page and f"{found['value']:.4g} [{found['low']:.4g}" in page
    ranking = rank_runs([run, other], log, 0.9).found
    assert set(ranking) == {"run", "other"} and not (other / "estimate.json").exists()
    code, out, _ = small.run_command(capsys, "select", run, other, "--data", log)
    assert code == 0 and "Estimators are not judged" in out and "effective episodes" in out
