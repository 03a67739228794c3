"""Models of Stable-Baselines3 act here as there; their files run no code, and mistakes are sentences.

`sb3/` has small models that Stable-Baselines3 2.9 saved (without optimisers), and the actions of `predict`.
"""

import io
import json
import os
import pickle
import re
import zipfile
from pathlib import Path

import jax
import numpy as np
import pytest
import small
import tiers
from gymnasium import spaces

from forage.core.errors import ForageError
from forage.core.types import Spec
from forage.loop.policy import Policy
from forage.runs import training
from forage.runs.run import Run
from forage.studies.sb3 import policies
from forage.studies.sb3.archive import Opaque, SafeUnpickler, Statistics, read_model, read_statistics, rebuild_tensor
from forage.studies.sb3.importing import find_statistics, import_policy

small.keep_compiled()
FILES = Path(__file__).parent / "sb3"
ACTIONS = json.loads((FILES / "actions.json").read_text())
CART = spaces.Box(-np.inf, np.inf, (4,), np.float32), spaces.Discrete(2)
PENDULUM = spaces.Box(np.float32([-1, -1, -8]), np.float32([1, 1, 8])), spaces.Box(-2, 2, (1,), np.float32)
KINDS = {"ppo": PENDULUM, "ppo_discrete": CART, "dqn": CART, "sac": PENDULUM, "td3": PENDULUM}


def policy_of(name):
    """Return a stored model as a policy, and its agent's name."""
    path = FILES / f"{name}.zip"
    model, spec = read_model(path), Spec(name, *KINDS[name], (), 1, horizon=10)
    kind, found = policies.kind_of(model), find_statistics(path, None)
    statistics = None if found is None else read_statistics(found)
    policies.check_trained_spaces(model, spec)
    agent = policies.agent_of(model, kind, statistics)
    return Policy(agent, policies.state_of(model, kind, agent, spec, statistics), spec), kind, model


@pytest.mark.parametrize("name", tiers.gate_cases(KINDS, ["sac"]))
def test_a_model_acts_as_predict_does(name):
    policy, kind, model = policy_of(name)
    observations, actions = ACTIONS[name]
    np.testing.assert_allclose(policy.act(np.float32(observations)), actions, atol=1e-5)
    assert kind == name.partition("_")[0] and len(np.unique(actions)) > 1
    if kind == "sac":  # critics are in the model's order, observation first
        critic = jax.tree.map(lambda x: x[1], policy.state.critics)
        seen, action = np.float32(observations), np.float32(actions) / 2
        weights = model.weights
        x = np.concatenate([seen, action], axis=1)
        for layer in (0, 2, 4):
            x = x @ weights[f"critic.qf1.{layer}.weight"].T + weights[f"critic.qf1.{layer}.bias"]
            x = np.maximum(x, 0) if layer < 4 else x
        np.testing.assert_allclose(small.compute(critic, seen, action), x[:, 0], atol=1e-5)
        assert policy.agent.critics == 2


@pytest.mark.thorough
def test_an_import_is_a_run_that_others_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = []
    run = import_policy(FILES / "ppo.zip", "Pendulum-v1", directory="run", note=said.append)
    assert re.fullmatch(r"ppo\.zip is ppo of 64 steps, observations normalised by .*ppo_vecnormalize\.pkl\.", said[0])
    assert run.config["imported"]["steps"] == 64 and run.config["evaluation_actions"] == "greedy"
    observations, actions = ACTIONS["ppo"]
    np.testing.assert_allclose(Run("run").agent.act(np.float32(observations)), actions, atol=1e-5)
    with pytest.raises(ForageError, match="run was imported and has no training to resume; forage train --from run"):
        training.resume("run")
    with pytest.raises(ForageError, match="run already holds a run"):
        import_policy(FILES / "sac.zip", "Pendulum-v1", directory="run")


class Harm:
    """An object whose pickle asks for a command to be run."""

    def __reduce__(self):
        return os.system, ("touch harm",)


def test_a_pickle_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = SafeUnpickler(pickle.dumps({"a": Harm(), "b": np.arange(3.0), "c": np.float32(2)})).load()
    assert isinstance(found["a"], Opaque) and not Path("harm").exists()
    assert found["b"].tolist() == [0, 1, 2] and found["c"] == 2
    with zipfile.ZipFile("model.zip", "w") as archive, zipfile.ZipFile(inner := io.BytesIO(), "w") as weights:
        weights.writestr("archive/data.pkl", pickle.dumps({"w": Harm()}))
        weights.close()
        archive.writestr("data", "{}")
        archive.writestr("policy.pth", inner.getvalue())
    with pytest.raises(ForageError, match=r"model\.zip is none of PPO, A2C, SAC, TD3, DDPG and DQN"):
        policies.kind_of(read_model(Path("model.zip")))
    assert not Path("harm").exists()


def test_a_tensor_reads_its_numbers_and_no_further():
    numbers = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(rebuild_tensor(numbers, 1, (2, 2), (1, 2)), [[1, 3], [2, 4]])
    for offset, size, stride in [(5, (2,), (1,)), (0, (2, 2), (4, 4)), (-1, (1,), (1,)), (0, (1000,), (0,))]:
        with pytest.raises(pickle.UnpicklingError, match="larger than its numbers"):
            rebuild_tensor(numbers, offset, size, stride)


def model_with(name, settings=None, **weights):
    """Return a stored model with other settings and further weights."""
    model = read_model(FILES / f"{name}.zip")
    return model._replace(settings=model.settings | (settings or {}), weights=model.weights | weights)


def test_policies_that_are_not_imported_are_named():
    flat = np.zeros((2, 2))
    for model, said in [
        (
            model_with("dqn", **{"q_net.features_extractor.cnn.0.weight": flat}),
            "reads observations by a network of its own",
        ),
        (model_with("ppo", **{"lstm_actor.weight": flat}), "has an LSTM, and policies without memory are imported"),
    ]:
        with pytest.raises(ForageError, match=said):
            policies.kind_of(model)
    gelu = {"policy_kwargs": {"activation_fn": "<class 'torch.nn.modules.activation.GELU'>"}}
    squash = {"use_sde": True, "policy_kwargs": {"squash_output": "True"}}
    for settings, statistics, said in [
        (gelu, None, "has the activation GELU; imported are Tanh"),
        (squash, None, "squashes its actions by a tanh"),
        ({}, Statistics(np.zeros(3), np.ones(3), 1.0, 5.0, 1e-8), "has clip_obs 5 and epsilon 1e-08"),
    ]:
        with pytest.raises(ForageError, match=said):
            policies.agent_of(model_with("ppo", settings), "ppo", statistics)
    other = spaces.Box(-1, 1, (1,), np.float32)
    for seen, acts, said in [
        (PENDULUM[0], other, r"actions whose low is \[-2\.0\], and in here it is \[-1\.0\]"),
        (PENDULUM[0], CART[1], r"actions in Box\(1,\) of float32, and here takes Discrete\(2\)"),
        (CART[0], other, r"observations in Box\(3,\) of float32, and here sees Box\(4,\)"),
    ]:
        with pytest.raises(ForageError, match=said):
            policies.check_trained_spaces(read_model(FILES / "ppo.zip"), Spec("here", seen, acts, (), 1))
