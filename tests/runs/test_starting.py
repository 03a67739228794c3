"""A run starts from another run's weights and collected data."""

import numpy as np
import pytest
import small
from small import differing_files

import forage
from forage.behaviours.policy import AgentPolicy
from forage.core import checkpoint
from forage.core.errors import RunInterrupted
from forage.core.types import ForageError
from forage.runs import session
from forage.runs.run import Run

small.keep_compiled()


class BegunRunInterrupted(RunInterrupted):
    """Stopped as a person would, so that the directory stays."""


def stop_at_once(self):
    raise BegunRunInterrupted


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    return small.train(tmp_path_factory.mktemp("parent") / "run", "dqn", steps=96, behaviour=AgentPolicy(4))


def beginning(monkeypatch, directory, parent, **more):
    """Return the first agents, by leaf, of a run that is stopped before its first step."""
    monkeypatch.setattr(session.Session, "loop", stop_at_once)
    with pytest.raises(BegunRunInterrupted), small.no_training():
        forage.train(start_from=parent.directory, directory=directory, display="quiet", evaluation_episodes=2, **more)
    return checkpoint.arrays(Run(directory).checkpoints[0])


def agents(arrays):
    prefix = ".learner.agent"
    return {name.removeprefix(prefix): leaf for name, leaf in arrays.items() if name.startswith(prefix)}


def test_each_seed_goes_on_from_its_own(parent, tmp_path, monkeypatch):
    own = checkpoint.arrays(parent.directory / "agent.npz")
    begun = agents(beginning(monkeypatch, tmp_path / "run", parent, seeds=[7, 3], steps=48))
    assert list(begun) == list(own)
    for name, leaf in own.items():
        assert np.array_equal(begun[name], leaf[[1, 0]])
    config = Run(tmp_path / "run").config
    assert config["parent"] == {
        "run": str(parent.directory),
        "steps": 96,
        "members": [{"seed": 7}, {"seed": 3}],
        "with_memory": False,
    }
    assert config["agent"] == parent.config["agent"] and config["steps"] == 48


@pytest.mark.thorough
def test_other_seeds_go_on_from_the_best(parent, tmp_path, monkeypatch):
    best = int(np.argmax(parent.evaluation["return"]))
    own = checkpoint.arrays(parent.directory / "agent.npz")
    begun = agents(beginning(monkeypatch, tmp_path / "run", parent, seeds=3, agent_options={"learning_rate": 0.5}))
    for name, leaf in own.items():
        assert np.array_equal(begun[name], leaf[[best] * 3])
    config = Run(tmp_path / "run").config
    assert config["agent"] == parent.config["agent"] | {"learning_rate": 0.5}


@pytest.mark.thorough
def test_a_run_that_never_began_begins_with_them_again(parent, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        beginning(patch, tmp_path / "run", parent, steps=48)
    Run(tmp_path / "run").checkpoints[0].unlink()
    run = forage.resume(tmp_path / "run", display="quiet")
    again = forage.train(
        start_from=parent, steps=48, directory=tmp_path / "whole", display="quiet", evaluation_episodes=2
    )
    assert differing_files(run.checkpoints[-1], again.checkpoints[-1]) == []


def test_an_agent_that_goes_on_acts_by_itself_from_its_first_step_on(parent, tmp_path, monkeypatch, capsys):
    """Its parent began with random steps, and so does a run whose words ask for some."""
    assert parent.config["behaviour"]["random_steps"] == 4
    monkeypatch.setattr(session.Session, "loop", stop_at_once)
    words = ["train", "dqn", "CartPole-v1", "--from", parent.directory, "--steps", "32", "--evaluation-episodes", "1"]
    for name, more, steps in (("a", [], 0), ("b", ["--behaviour.random-steps", "5"], 5)):
        with small.no_training():
            small.run_command(capsys, *words, *more, "--directory", tmp_path / name, "--quiet")
        assert Run(tmp_path / name).config["behaviour"]["random_steps"] == steps


@pytest.mark.thorough
@pytest.mark.parametrize(
    "environment", ["CartPole-v1", pytest.param("gymnasium:CartPole-v1", marks=pytest.mark.thorough)]
)
def test_with_memory_it_counts_on(environment, parent, tmp_path, capsys):
    if environment != "CartPole-v1":
        parent = small.train(tmp_path / "parent", "dqn", steps=96, environment=environment)
    words = ["train", "--from", parent.directory, "--with-memory", "--directory", tmp_path / "run"]
    code, out, err = small.run_command(capsys, *words, "--steps", "112", "--evaluation-episodes", "2", "--plain")
    assert code == 0, err
    assert "begins with the weights of" in out and "seed by seed" in out and "steps count on from" in out
    run = Run(tmp_path / "run")
    assert run.evaluation is not None and run.evaluation["steps"] == 112 and run.config["parent"]["with_memory"]
    prefix = "[0]" if environment != "CartPole-v1" else ""

    def memory(run, name):
        leaf = checkpoint.arrays(run.checkpoints[-1])[f"{prefix}.learner.memory.{name}"]
        return leaf if prefix else leaf[0]

    old, new = memory(parent, "reward"), memory(run, "reward")
    assert len(old) == len(new) == 48
    # All places were taken, and the ring goes on at its beginning. The episodes under way were lost.
    assert np.array_equal(old[12:44], new[12:44])
    if not prefix:  # on the host the last rollout was not in the memory yet, and is overwritten
        ended = [memory(one, "truncated")[47] | memory(one, "terminated")[47] for one in (parent, run)]
        assert not ended[0].all() and ended[1].all()
    forage.resume(run.directory, steps=128, display="quiet")
    assert Run(run.directory).evaluation["steps"] == 128


def test_with_memory_the_total_is_more(parent, tmp_path, capsys):
    words = ["train", "--from", parent.directory, "--with-memory", "--directory", tmp_path / "run"]
    code, _, err = small.run_command(capsys, *words)
    assert code == 2 and "its total is more than that; say --steps, which is 96 here" in err


@pytest.mark.thorough
def test_what_does_not_fit_is_refused(parent, tmp_path):
    def check_refused(match, **more):
        with pytest.raises(ForageError, match=match):
            forage.train(**{"start_from": parent.directory, "directory": tmp_path / "run", "display": "quiet", **more})
        assert not (tmp_path / "run").exists()

    check_refused(
        r"does not fit the agent of this run: \.\S+ is float32\[.*\] there and float32\[.*\] here\.",
        agent_options={"hidden_sizes": (16,)},
    )
    check_refused(
        r"in CartPole-v1, which shows Box\(4,\) and takes Discrete\(2\), and Acrobot-v1 shows", environment="Acrobot-v1"
    )
    check_refused(r"does not fit the agent of this run: only this run has", agent="ppo")
    check_refused(r"is not a run: it has no config.json", start_from=tmp_path)
    check_refused(r"name that run in start_from", start_from=None, with_memory=True, environment="CartPole-v1")
    check_refused(
        r"collected with num_envs 2, and this run has 4",
        with_memory=True,
        steps=192,
        agent_options={"num_envs": 4, "learning_starts": 32},
    )


@pytest.mark.thorough
def test_ppo_has_no_memory_to_take(tmp_path):
    run = small.train(tmp_path / "ppo")
    with pytest.raises(ForageError, match=r"takes a replay memory over, and this run keeps none"):
        forage.train(start_from=run, with_memory=True, steps=320, display="quiet", directory=tmp_path / "run")
