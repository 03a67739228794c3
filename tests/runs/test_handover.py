"""From an offline run to online learning: the hand-over, the warm-up, and a warning of a lower score."""

import numpy as np
import pytest
import small

import forage
from forage.core import checkpoint
from forage.core.types import ForageError
from forage.memory.mixed import MixedReplay
from forage.memory.uniform import UniformReplay
from forage.runs.starting import fall, handover_record
from forage.studies.record import record

small.keep_compiled()
MEMBERS = [{"seed": 0}, {"seed": 1}]


def row(steps, *returns):
    return {"steps": steps, "return": list(returns)}


def test_falls_by_hand():
    assert fall(100.0, 85.0) == pytest.approx(0.15) and fall(-100.0, -125.0) == pytest.approx(0.25)
    assert fall(-100.0, -50.0) == -0.5 and fall(0.0, -1.0) == 1.0 and fall(0.0, 1.0) == 0.0

    first = row(0, 90.0, 110.0)
    found, said = handover_record(MEMBERS, [first, row(10, 90.0, 90.0)])
    assert said == "" and found["settings"] == [{"setting": "", "score": 100.0, "falls": []}]  # a tenth, and not more
    rows = [first, row(10, 60.0, 100.0), row(20, 80.0, 90.0)]
    found, said = handover_record(MEMBERS, rows[:2])
    assert said.startswith("Note: the score is 20% below the hand-over's, 80 and was 100, which may be chance")
    found, said = handover_record(MEMBERS, rows)
    assert said == ""  # it was worse before
    assert [one["steps"] for one in found["settings"][0]["falls"]] == [10, 20]
    assert handover_record(MEMBERS, [*rows, row(30, 50.0, 50.0)])[1].startswith("Note: the score is 50% below")
    assert handover_record(MEMBERS, [*rows, row(30, 95.0, 99.0)])[1].startswith("Note: the score is no longer a tenth")
    sure = handover_record(MEMBERS, [row(0, 99.9, 100.1), row(10, 49.9, 50.1)])[1]
    assert sure.endswith(": learning is undoing what the run began with.")


@pytest.fixture(scope="module")
def offline(tmp_path_factory):
    """Train SAC from a data set of random actions."""
    folder = tmp_path_factory.mktemp("offline")
    actor = small.train(folder / "actor", "sac", steps=96)
    record(actor.directory, 64, folder / "a.npz", actions="random")
    options = {"hidden_sizes": (8,), "batch_size": 4, "critics": 3, "critic_norm": "layer"}
    return forage.train(
        "sac",
        "Pendulum-v1",
        data=folder / "a.npz",
        steps=20,
        seeds=[3, 7],
        agent_options=options,
        directory=folder / "run",
        evaluation_episodes=1,
        display="quiet",
    )


@pytest.mark.thorough
def test_the_same_agent_may_go_on_online_and_is_evaluated_at_the_hand_over(offline, tmp_path):
    run = forage.train(
        start_from=offline,
        memory=UniformReplay(64),
        agent_options={"learning_starts": 16},
        steps=20,
        directory=tmp_path / "run",
        evaluation_episodes=1,
        display="quiet",
    )
    assert [one["steps"] for one in run.evaluations] == list(range(0, 21, 2))
    assert run.config["behaviour"]["random_steps"] == 0  # and not the 16 with which an untrained agent begins
    assert (run.directory / "handover.json").exists()


@pytest.mark.thorough
def test_implicit_q_learning_goes_on_online_beside_its_data(offline, tmp_path):
    data = str(offline.directory.parent / "a.npz")
    words = {"seeds": [3, 7], "evaluation_episodes": 1, "display": "quiet"}
    options = {"hidden_sizes": (8,), "batch_size": 4}
    before = forage.train(
        "iql", "Pendulum-v1", data=data, steps=8, agent_options=options, directory=tmp_path / "before", **words
    )
    with pytest.raises(ForageError, match="IQL learns from a data set, and UniformReplay keeps"):
        forage.train(start_from=before, memory=UniformReplay(64), steps=16, directory=tmp_path / "none", **words)
    memory = MixedReplay(data, capacity=64)
    steady = {"anneal_policy": False}
    run = forage.train(
        start_from=before, memory=memory, steps=16, agent_options=steady, directory=tmp_path / "run", **words
    )
    assert run.evaluations[0]["steps"] == 0 and (run.directory / "handover.json").exists()
    first, last = (checkpoint.arrays(one.directory / "agent.npz") for one in (before, run))
    assert any("policy" in name and not np.array_equal(first[name], last[name]) for name in first)
    assert run.config["agent"]["anneal_policy"] is False
