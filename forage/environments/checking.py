"""Checks of a native environment before a run: do its results match its spaces and the contract?

It is traced, not stepped, so this takes milliseconds and catches every mistake of shape and type.
"""

from __future__ import annotations

import inspect
import traceback
from typing import Any

import jax
from jaxtyping import PyTree

from forage.core import prng, spaces, team
from forage.core.ports import Environment
from forage.core.types import ForageError, Step


def check_environment(environment: Environment, name: str) -> None:
    """Raise `ForageError` with the name of the method and the fault if a result breaks the contract."""
    spaces.check_spaces(name, environment.observation_space, environment.action_space)
    key = jax.eval_shape(lambda: prng.key(0))
    agents = environment.num_agents
    example = jax.eval_shape(lambda: team.repeat(spaces.example(environment.observation_space), agents))
    action = jax.eval_shape(lambda: team.repeat(spaces.example(environment.action_space), agents))

    begun = trace_method(environment, name, "reset", key)
    if not isinstance(begun, tuple) or len(begun) != 2:
        raise ForageError(f"{name} returned {kind(begun)} from reset; it should be a tuple (state, observation).")
    state, observation = begun
    check_same(name, "observation from reset", observation, example)

    stepped = trace_method(environment, name, "step", state, action, key)
    if not isinstance(stepped, tuple) or len(stepped) != 2 or not isinstance(stepped[1], Step):
        raise ForageError(
            f"{name} returned {kind(stepped)} from step; it should be a tuple (state, forage.core.types.Step)."
        )
    after, step = stepped
    check_same(name, "state from step", after, state)
    check_same(name, "observation from step", step.observation, example)
    names = environment.reward_names
    axis = () if agents == 1 else (agents,)
    check_same(name, "reward", step.reward, jax.ShapeDtypeStruct((*axis, len(names)) if names else axis, "float32"))
    for flag in ("terminated", "truncated"):
        check_same(name, flag, getattr(step, flag), jax.ShapeDtypeStruct(axis, "bool"))
    for entry in environment.info_names:
        if entry not in step.info:
            raise ForageError(f"{name} has no {entry} in its info, which its info_names have; return it at every step.")
        if (shape := jax.numpy.shape(step.info[entry])) != ():
            raise ForageError(f"{name} returned as info {entry} an array of shape {shape}; info_names are of numbers.")


def trace_method(environment: Environment, name: str, method: str, *arguments: Any) -> Any:
    """Return the shapes of a method's results; an error in it becomes one sentence with its line of code."""
    try:
        return jax.eval_shape(getattr(environment, method), *arguments)
    except ForageError:
        raise
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        said = lines[0].rstrip(".") if lines else "no message"
        raise ForageError(
            f"{name} failed in {method}{code_location(environment, error)} with {type(error).__name__}: {said}; a "
            f"native environment is written in jax.numpy, so mend it there or make it a gymnasium.Env."
        ) from error


def code_location(environment: Environment, error: Exception) -> str:
    """` at line 12 of file.py`, of the environment's own code."""
    try:
        file = inspect.getfile(type(environment))
    except (OSError, TypeError):
        return ""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" at line {lines[-1]} of {file}" if lines else ""


def check_same(name: str, what: str, found: PyTree[Any], wanted: PyTree[Any]) -> None:
    """Raise `ForageError` if two trees of shapes differ."""
    found_leaves, found_structure = jax.tree_util.tree_flatten_with_path(found)
    wanted_leaves, wanted_structure = jax.tree_util.tree_flatten_with_path(wanted)
    if found_structure != wanted_structure:
        raise ForageError(f"{name} returned as {what} {kind(found)}; it should be {kind(wanted)}.")
    for (path, leaf), (_, like) in zip(found_leaves, wanted_leaves, strict=True):
        if leaf.shape != like.shape or leaf.dtype != like.dtype:
            entry = jax.tree_util.keystr(path)
            raise ForageError(
                f"{name} returned as {what} {entry + ' ' if entry else ''}{leaf.dtype}{list(leaf.shape)}; "
                f"it should be {like.dtype}{list(like.shape)}."
            )


def kind(tree: Any) -> str:
    """Return a tree of shapes in a few words."""
    if isinstance(tree, jax.ShapeDtypeStruct):
        return f"{tree.dtype}{list(tree.shape)}"
    if isinstance(tree, dict):
        return f"a dictionary of {', '.join(sorted(map(str, tree)))}"
    if isinstance(tree, tuple) and not hasattr(tree, "_fields"):
        return f"a tuple of {len(tree)}"
    return "nothing" if tree is None else f"a {type(tree).__name__}"
