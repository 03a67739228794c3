"""Checks of environments in JAX: traced, compiled, played side by side."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from forage.core import prng, spaces
from forage.core.errors import ForageError
from forage.core.ports import Environment
from forage.core.spaces import describe_space, split_mask
from forage.environments.adapters.gymnasium.batch import pick
from forage.environments.checking import check_environment
from forage.studies.check.findings import NOTE, OK, WRONG, Finding
from forage.studies.check.host import PATIENCE, Looked
from forage.studies.check.watching import Watch

BESIDE = 4  # environments side by side
CHUNK = 100  # steps that are compiled into one program
FEW = 10  # of them, that one environment alone must bring too


def look_at_native(name: str, environment: Environment, steps: int, seed: int) -> Looked:
    """Check an environment in JAX."""
    try:
        check_environment(environment, name)
    except ForageError as error:
        return "traced, not played", [Finding(WRONG, "contract", str(error))], None
    seen = describe_space(environment.observation_space)
    findings = [
        Finding(OK, "spaces", f"shows {seen}, acts in {describe_space(environment.action_space)}"),
        Finding(OK, "contract", "reset and step trace, and return the shapes and dtypes that the spaces declare"),
    ]
    keys = jax.random.split(prng.key(seed), BESIDE)
    watch = Watch(environment.observation_space, BESIDE, environment.horizon)
    chunk = jax.jit(jax.vmap(lambda begun, key: play_random(environment, begun, key)))
    begun = jax.jit(jax.vmap(lambda key: fresh(environment, key)))(keys)
    first, taken, seconds, began = None, 0, 0.0, time.monotonic()
    watch.observe(rows_by_path(watch, begun[1]))
    while taken < steps and time.monotonic() - began < PATIENCE:
        keys = jax.vmap(jax.random.fold_in, (0, None))(keys, taken)
        started, at = time.perf_counter(), begun
        begun, brought = jax.block_until_ready(chunk(at, keys))
        seconds = time.perf_counter() - started  # of the last one, which does not compile
        first = first or (at, keys, brought)
        for number in range(CHUNK):
            look_on(watch, jax.tree.map(lambda x, n=number: np.asarray(x)[:, n], brought))
        taken += CHUNK
    assert first is not None
    findings += [*watch.findings(), *programs(environment, *first), check_rendering(environment, begun[0])]
    findings.append(Finding(OK, "saving", "its state is a value, which is saved exactly"))
    speed = BESIDE * CHUNK / max(seconds, 1e-9) if taken > CHUNK else None
    if speed is not None:
        findings.append(Finding(OK, "speed", f"{speed:,.0f} steps a second with {BESIDE} side by side"))
    return f"{taken:,} steps of {BESIDE} side by side with random actions, seed {seed}", findings, speed


def fresh(environment: Environment, key: Key[Array, ""]) -> tuple[PyTree[Array], PyTree[Array]]:
    return environment.reset(key)


def play_random(environment: Environment, begun: tuple[PyTree[Array], PyTree[Array]], key: Key[Array, ""]) -> Any:
    """Step with random actions, and reset after an episode's end. Return the state and the observations."""

    def step(carry: Any, key: Key[Array, ""]) -> Any:
        state, observation = carry
        choose, move, anew = jax.random.split(key, 3)
        action = choice(environment, observation, choose)
        state, brought = environment.step(state, action, move)
        over = (brought.terminated | brought.truncated).all()
        following = jax.tree.map(
            lambda new, old: jnp.where(over, new, old), environment.reset(anew), (state, brought.observation)
        )
        return following, (brought, following[1])

    return jax.lax.scan(step, begun, jax.random.split(key, CHUNK))


def choice(environment: Environment, observation: PyTree[Array], key: Key[Array, ""]) -> PyTree[Array]:
    """Draw an action, of each agent, that is allowed."""
    mask = split_mask(observation)[1]
    space = environment.action_space
    if environment.num_agents == 1:
        return spaces.sample(space, key, mask)
    keys = jax.random.split(key, environment.num_agents)
    if mask is None:
        return jax.vmap(lambda key: spaces.sample(space, key))(keys)
    return jax.vmap(lambda key, mask: spaces.sample(space, key, mask))(keys, mask)


def rows_by_path(watch: Watch, observation: PyTree[Array]) -> dict[tuple[str, ...], np.ndarray]:
    """Return rows of observations by the paths of their parts, with a row for each agent of a team."""
    found = {}
    for path, space in watch.leaves.items():
        array = np.asarray(pick(observation, path) if path else observation)
        found[path] = array.reshape(-1, *array.shape[array.ndim - len(space.shape or ()) :])
    return found


def look_on(watch: Watch, brought: Any) -> None:
    """Pass a step of all environments to the watch."""
    step, following = brought
    ended = watch.step(step.reward, step.terminated, step.truncated, step.info)
    watch.numbers.update(name for name, value in step.info.items() if np.shape(value) == (watch.rows,))
    watch.observe(rows_by_path(watch, step.observation))
    if ended.any():
        watch.observe(rows_by_path(watch, following))


def programs(environment: Environment, begun: Any, keys: Any, brought: Any) -> list[Finding]:
    """Return whether another program of the same code, and each environment alone, give the same results."""
    again = jax.jit(jax.vmap(lambda begun, key: play_random(environment, begun, key)))(begun, keys)[1]
    if (where := differs(again, brought, 0.0)) is not None:
        words = (
            f"traced twice, it brings something else in its {where}; numbers drawn by NumPy or random become constants "
            f"when it is compiled, so draw with the key"
        )
        return [Finding(WRONG, "jit", words)]
    said = [Finding(OK, "jit", "compiled twice, one key brings the same; no chance but the key's")]
    alone = jax.jit(lambda begun, key: play_random(environment, begun, key))(
        *jax.tree.map(lambda x: x[0], (begun, keys))
    )[1]
    # Only a few steps, as rounding, which is another in another program, grows in a chaotic environment.
    few, same_few = jax.tree.map(lambda x: x[:FEW], alone), jax.tree.map(lambda x: x[0, :FEW], brought)
    if (where := differs(few, same_few, 1e-3)) is not None:
        words = f"beside others it brings something else in its {where} than alone; no step may look at the batch"
        return [*said, Finding(NOTE, "vmap", words)]
    return [*said, Finding(OK, "vmap", f"{BESIDE} side by side bring what one alone does")]


def differs(one: Any, other: Any, tolerance: float) -> str | None:
    """Return the path of the first part that differs between two results, `None` if they are equal."""
    found = jax.tree_util.tree_leaves_with_path(one)
    for (path, left), right in zip(found, jax.tree.leaves(other), strict=True):
        left, right = np.asarray(left), np.asarray(right)
        if not np.allclose(left, right, rtol=tolerance, atol=tolerance, equal_nan=True):
            return jax.tree_util.keystr(path, simple=True, separator=".").partition(".")[2] or "observation"
    return None


def check_rendering(environment: Environment, states: PyTree[Array]) -> Finding:
    """Return whether a state can be drawn."""
    try:
        frame = np.asarray(environment.render(jax.tree.map(lambda x: x[0], states)))
    except NotImplementedError:
        return Finding(NOTE, "render", "cannot be drawn; a method render(state) that returns a picture would do it")
    except Exception as error:
        words = f"render failed with {type(error).__name__}: {error}; it gets a state, on the host, in NumPy"
        return Finding(WRONG, "render", words)
    if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8:
        words = f"render returned {frame.dtype}{list(frame.shape)}; it should be uint8[height, width, 3]"
        return Finding(WRONG, "render", words)
    return Finding(OK, "render", f"draws {frame.shape[1]} x {frame.shape[0]} pixels")
