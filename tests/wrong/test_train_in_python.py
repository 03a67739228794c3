"""Journey 2: train in Python."""

import jax
import numpy as np
import pytest

import forage

WRONG = [
    ({"steps": -5}, "from 1 to .* steps of each seed, not -5"),
    ({"steps": True}, "steps is a whole number such as 500_000 or '500k', not True"),
    ({"steps": [100]}, r"steps is a whole number .* not \[100\]"),
    ({"seeds": "a"}, "Seeds are one or more different whole numbers .* or how many there are; not 'a'"),
    ({"seeds": 1.5}, "Seeds are .* not 1.5"),
    ({"seeds": [0.5]}, r"Seeds are .* not \[0.5\]"),
    ({"seeds": [None]}, r"Seeds are .* not \[None\]"),
    ({"seeds": -1}, "Seeds are .* not -1"),
    ({"learning_rate": float("inf")}, "learning-rate of ppo is 0 or more, not inf"),
    ({"learning_rate": [1e-3, 1e-4]}, r"learning_rate of ppo is a number, not \[0.001, 0.0001\]"),
    ({"learning_rate": np.array([1.0, 2.0])}, r"learning_rate of ppo is a number, not array\(\[1., 2.\]\)"),
    ({"learning_rate": True}, "learning_rate of ppo is a number, not True"),
    ({"hidden_sizes": 64}, r"hidden_sizes of ppo is a list of whole numbers such as \(64, 64\), not 64"),
    ({"hidden_sizes": [64.5]}, "hidden_sizes of ppo is a list of whole numbers"),
    ({"hidden_sizes": "64,64"}, "hidden_sizes of ppo is a list of whole numbers"),
    ({"num_envs": 2.5}, "num_envs of ppo is a whole number, not 2.5"),
    ({"num_envs": "2"}, "num_envs of ppo is a whole number, not '2'"),
    ({"normalise_observation": "yes"}, "normalise_observation of ppo is true or false, not 'yes'"),
    ({"agent": forage.PPO(clip="a")}, "clip of ppo is a number, not 'a'"),
    ({"agent": forage.PPO(hidden_sizes=64)}, "hidden_sizes of ppo is a list of whole numbers"),
    ({"agent_options": [("clip", 1)]}, "agent_options is a dictionary or None, not"),
    ({"environment_options": "gravity=9"}, "environment_options is a dictionary or None, not 'gravity=9'"),
    ({"environment_options": {"gravity": "x"}}, "gravity of CartPole-v1 is a number, such as 9.8, not 'x'"),
    ({"environment_options": {"length": None}}, "length of CartPole-v1 is a number, such as 0.5, not None"),
    ({"directory": "x" * 300}, r"xxx\.\.\.x+ is a longer name than the file system allows; a shorter one works"),
    ({"directory": "runs/" + "y/" * 3000}, r"/y/ is a longer name than the file system allows"),
    ({"directory": "a\0b"}, r"'a\\x00b' is no path"),
    ({"opponent": "x" * 300}, r"x+ is a longer name than the file system allows"),
    ({"start_from": "x" * 300}, r"x+ is a longer name than the file system allows"),
    ({"directory": 5}, "directory is a text or a path or None, not 5"),
    ({"evaluation_episodes": "many"}, "evaluation_episodes is a whole number or None, not 'many'"),
    ({"evaluation_episodes": 2.5}, "evaluation_episodes is a whole number or None, not 2.5"),
    ({"checkpoint_seconds": "often"}, "checkpoint_seconds is a number, not 'often'"),
    ({"checkpoint_seconds": None}, "checkpoint_seconds is a number, not None"),
    ({"devices": 1.5}, "devices is a whole number or None, not 1.5"),
    ({"devices": jax.devices()}, "devices is a whole number or None, not"),
    ({"mesh": 8}, "mesh is a text or None, not 8"),
    ({"mesh": "fsdp:8"}, "A mesh is a number of devices for data, for model or for both, as in data:8 or data:2,model"),
    ({"mesh": "data:1"}, "PPO has no language model that a mesh of devices could share; leave out mesh"),
    ({"visits": 3}, "visits is true or false, not 3"),
    ({"opponent": 5}, "opponent is a text or a path or None, not 5"),
    ({"sweep": {"learning_rate": 1e-3}}, "sweep is a dictionary of a list of numbers or None, not"),
    ({"sweep": {"learning_rate": ["a"]}}, "sweep is a dictionary of a list of numbers or None, not"),
    ({"sweep": ["learning_rate"]}, "sweep is a dictionary of a list of numbers or None, not"),
    ({"wrap": "frame-stack:4"}, "wrap is a list of texts, not 'frame-stack:4'"),
    ({"wrap": 5}, "wrap is a list of texts, not 5"),
    ({"evaluation_actions": None}, "Actions in evaluation are auto, greedy or sampled, not None"),
    ({"environment": None}, "An environment is an id such as CartPole-v1"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[str(arguments)[:60] for arguments, _ in WRONG])
def test_one_sentence(arguments, said, refuse, train):
    refuse(lambda: train(**arguments), said)
