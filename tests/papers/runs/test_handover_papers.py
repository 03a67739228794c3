"""A run of WSRL that continues an offline run: its networks, its warm-up and no data."""

import json

import numpy as np
import pytest
import test_handover as core

import forage
from forage.core import checkpoint
from forage.runs.run import Run
from forage.runs.starting import networks

offline = core.offline


@pytest.mark.thorough
def test_a_warm_start_keeps_the_networks_and_none_of_the_data(offline, tmp_path):
    assert networks(offline, "wsrl")["critics"] == 3 and "critics" not in networks(offline, "ppo")
    run = forage.train(
        "wsrl",
        start_from=offline,
        steps=32,
        learning_starts=32,
        directory=tmp_path / "run",
        evaluation_episodes=1,
        evaluation_every=16,
        display="quiet",
        batch_size=4,
    )
    assert run.config["memory"]["part"] == "uniform" and run.config["parent"]["offline"]
    assert run.config["behaviour"]["random_steps"] == 0  # the warm-up is the policy's own
    agent = run.config["agent"]
    assert (agent["critics"], agent["critic_norm"], agent["layer_norm"], agent["hidden_sizes"]) == (
        3,
        "layer",
        False,
        [8],
    )
    assert (agent["target_subset"], agent["updates_per_rollout"], agent["backup_entropy"]) == (2, 4, False)
    # Of the two evaluations after the hand-over the first is within the warm-up, and the policy is what it was.
    whole, kept = (checkpoint.arrays(one.directory / "agent.npz") for one in (run, offline))
    assert all(updates == 4 for updates in whole[".updates"] - kept[".updates"])  # after the last step alone
    found = json.loads((run.directory / "handover.json").read_text())
    assert found["steps"] == 0 and found["most"] == 0.1
    assert found["settings"][0]["score"] == pytest.approx(np.mean(Run(run).evaluations[0]["return"]))


@pytest.mark.thorough
def test_what_only_the_offline_agent_has_stays_behind(offline, tmp_path):
    options = {"hidden_sizes": (8,), "value_sizes": (8,), "batch_size": 4, "samples": 2}
    words = {"seeds": [3, 7], "steps": 8, "evaluation_episodes": 1, "display": "quiet"}
    data = offline.directory.parent / "a.npz"
    cloned = forage.train("cql", "Pendulum-v1", data=data, agent_options=options, directory=tmp_path / "cql", **words)
    more = {"learning_starts": 16, "batch_size": 4}
    run = forage.train("wsrl", start_from=cloned, directory=tmp_path / "run", **words | {"steps": 16}, **more)
    theirs, ours = (checkpoint.arrays(one.directory / "agent.npz") for one in (cloned, run))
    assert set(theirs) - set(ours) and not set(ours) - set(theirs)
    assert run.evaluations[0]["steps"] == 0 and (run.directory / "handover.json").exists()
