"""Data sets for claims: whole episodes of simple rules, made without any training."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from forage.config.resolve import resolve
from forage.core import prng, spaces
from forage.core.compiling import QUICK, known_options
from forage.core.ports import Environment
from forage.data import files
from forage.data.logged import Transitions
from forage.runs.provenance import code_hash

FOLDER = Path("runs") / "claims" / "data" / code_hash()  # other code may play and learn otherwise

PlayedBy = Callable[[Float[Array, " observation"]], Array]
"""From an observation to the action of a rule."""


def swing_up(observation: Float[Array, "observation=3"]) -> Float[Array, "action=1"]:
    """Swing Pendulum-v1 up by its energy, and hold it there."""
    cosine, sine, speed = observation
    lacking = 15.0 - (0.5 * speed * speed + 15.0 * cosine)  # of the energy that it has at rest above
    held = -(8.0 * jnp.arctan2(sine, cosine) + 1.5 * speed)
    torque = jnp.where((cosine > 0.9) & (jnp.abs(speed) < 3.0), held, speed * lacking)
    return jnp.clip(torque, -2.0, 2.0)[None]


def weak_swing_up(observation: Float[Array, "observation=3"]) -> Float[Array, "action=1"]:
    """Swing Pendulum-v1 up with half of the torque, and hold it with too little damping: it falls again."""
    cosine, sine, speed = observation
    lacking = 15.0 - (0.5 * speed * speed + 15.0 * cosine)  # of the energy that it has at rest above
    held = -(4.0 * jnp.arctan2(sine, cosine) + 0.3 * speed)
    torque = jnp.where((cosine > 0.9) & (jnp.abs(speed) < 3.0), held, speed * lacking)
    return jnp.clip(torque, -1.0, 1.0)[None]


def balance(observation: Float[Array, "observation=4"]) -> Array:
    """Push CartPole-v1 in the direction of the pole's lean."""
    return (observation @ jnp.array([0.1, 0.5, 10.0, 2.0]) > 0).astype(jnp.int32)


def push(observation: Float[Array, "observation=2"]) -> Float[Array, "action=1"]:
    """Push the car of MountainCarContinuous-v0 with full force in its direction of motion."""
    return jnp.where(observation[1] < 0, -1.0, 1.0)[None]


def pump(observation: Float[Array, "observation=2"]) -> Array:
    """Push the car of MountainCar-v0 in its direction of motion: 0 is left, 2 is right."""
    return jnp.where(observation[1] < 0, 0, 2).astype(jnp.int32)


def steer(observation: Float[Array, "observation=6"]) -> Float[Array, "action=2"]:
    """Push the ball of maze:Open straight to its goal, and brake."""
    return jnp.clip(2.0 * (observation[4:] - observation[:2]) - observation[2:4], -1.0, 1.0)


@functools.cache
def play_rule(environment: str, rule: PlayedBy, random: Sequence[float], seed: int = 0) -> str:
    """Return the file of episodes played by a rule; play and write them if the file is missing.

    `random`: for each episode, the share of its actions that are uniform instead.
    """
    sources = [inspect.getsource(one) for one in (rule, episodes)]  # pyrefly: ignore[bad-argument-type]
    told = f"{environment} {sources} {tuple(random)} {seed}"
    mark = hashlib.sha256(told.encode()).hexdigest()[:8]
    file = FOLDER / f"{environment.partition('-')[0].lower().replace(':', '-')}-{mark}.npz"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        setup = resolve("ppo", environment, seeds=1)
        native = setup.environment
        assert isinstance(native, Environment)
        files.write_data(file, episodes(native, rule, random, seed), {"spec": setup.config()["spec"]})
    return str(file)


def episodes(environment: Environment, rule: PlayedBy, random: Sequence[float], seed: int) -> Transitions:
    """Play one episode for each share of random actions."""
    space, limit = environment.action_space, environment.horizon
    assert limit is not None

    def episode(key: Key[Array, ""], share: Array) -> Any:
        def step(now: Any, key: Key[Array, ""]) -> Any:
            state, observation = now
            draw_key, random_key, step_key = jax.random.split(key, 3)
            drawn = jax.random.uniform(draw_key) < share
            action = jnp.where(drawn, spaces.sample(space, random_key), rule(observation))
            state, after = environment.step(state, action, step_key)
            ends = after.observation, after.terminated, after.truncated
            return (state, after.observation), (observation, action, after.reward, *ends)

        return jax.lax.scan(step, environment.reset(key), jax.random.split(key, int(limit)))[1]

    keys = jax.random.split(prng.key(seed), len(random))
    # It runs once: compiled quickly rather than well.
    run = jax.jit(jax.vmap(episode), compiler_options=known_options(QUICK))
    rows = jax.device_get(run(keys, jnp.asarray(random, jnp.float32)))
    lengths = [int(np.argmax(ended)) + 1 for ended in rows[4] | rows[5]]

    def whole(row: np.ndarray) -> np.ndarray:
        return np.concatenate([row[i][:length] for i, length in enumerate(lengths)])

    return Transitions(*jax.tree.map(whole, rows))
