"""Demonstrations for claims, made on the way: whole episodes that a rule plays, always the same."""

from __future__ import annotations

import getpass
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from forage.config.setup import make_setup
from forage.core import prng
from forage.core.ports import Environment
from forage.data import files
from forage.data.logged import Transitions


def place(name: str) -> str:
    """Return the file that the demonstrations of a claim are written to."""
    return str(Path(tempfile.gettempdir()) / f"forage-claims-{getpass.getuser()}" / f"{name}.npz")


def demonstrate(
    name: str, environment: str, rule: Callable[[PyTree[Array], Key[Array, ""]], PyTree[Array]], episodes: int
) -> str:
    """Write episodes of a native environment with a time limit, played by a rule (observation, key) -> action.

    Return the file, `place(name)`.
    """
    setup = make_setup("ppo", environment, seeds=1)
    world, limit = setup.environment, setup.spec.horizon
    assert isinstance(world, Environment) and limit is not None

    def step(carry: Any, key: Key[Array, ""]) -> Any:
        state, observation, going = carry
        act_key, step_key = jax.random.split(key)
        action = rule(observation, act_key)
        state, told = world.step(state, action, step_key)
        row = observation, action, told.reward, told.observation, told.terminated, told.truncated, going
        return (state, told.observation, going & ~(told.terminated | told.truncated)), row

    def play(key: Key[Array, ""]) -> Any:
        first, key = jax.random.split(key)
        return jax.lax.scan(step, (*world.reset(first), jnp.bool_(True)), jax.random.split(key, limit))[1]

    rows = jax.device_get(jax.jit(jax.vmap(play))(jax.random.split(prng.key(0), episodes)))
    flat = [np.asarray(column).reshape(-1, *np.shape(column)[2:]) for column in rows]
    path = Path(place(name))
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, Transitions(*(column[flat[-1]] for column in flat[:-1])), {"spec": setup.config()["spec"]})
    return str(path)
