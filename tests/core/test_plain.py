"""Numbers of NumPy and JAX in JSON, and in options."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from forage.config.environment import resolve_environment
from forage.config.registry import build
from forage.core.plain import dumps, python_numbers


def test_numbers_in_json_are_the_numbers_that_they_are():
    data = {
        "whole": np.int64(2), "real": np.float32(0.5), "truth": np.bool_(True), "row": np.arange(3), "jax": jnp.ones(2),
        "none": None, "text": "a", "nested": [{"here": np.uint8(7)}, (np.float64(1.5),)],
    }  # fmt: skip
    read = json.loads(dumps(data))
    assert read["whole"] == 2 and type(read["whole"]) is int and read["real"] == 0.5 and read["truth"] is True
    assert read["row"] == [0, 1, 2] and read["jax"] == [1.0, 1.0] and read["nested"] == [{"here": 7}, [1.5]]
    with pytest.raises(TypeError, match="Object of type set is not JSON serializable"):
        dumps({"a": {1}})


def test_numbers_of_options_are_pythons_own():
    given = python_numbers({"a": np.int64(3), "b": [np.float32(0.5), "x"], "c": (np.bool_(False),), "d": np.ones(2)})
    assert type(given["a"]) is int and type(given["b"][0]) is float and given["c"] == (False,)
    assert isinstance(given["d"], np.ndarray)
    agent = build(
        "agent", "ppo", {"num_envs": np.int64(4), "hidden_sizes": (np.int64(8),), "discount": np.float32(0.5)}
    )
    assert type(agent.num_envs) is int and type(agent.hidden_sizes[0]) is int and type(agent.discount) is float
    _, made, config = resolve_environment("gymnasium:CartPole-v1", {"max_episode_steps": np.int64(10)})
    assert json.loads(json.dumps(config))["options"] == {"max_episode_steps": 10} and made(1).horizon == 10
