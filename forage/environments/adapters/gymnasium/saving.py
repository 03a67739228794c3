"""Exact snapshots of Gymnasium environments: readable state is saved, and replayed actions test for hidden state."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from forage.core.errors import ForageError
from forage.core.storage import packing

# Parts of every environment that hold no state of their own; `env` is the next layer, saved by itself.
NOT_STATE = {"env", "spec", "metadata", "render_mode", "model", "mujoco_renderer", "_cached_spec"}
TABLES = ("P", "initial_state_distrib")
"""The constant tables of Gymnasium's toy-text environments, most of a snapshot if they were saved."""
CHANCE = ("_np_random", "_np_random_seed", "chance")


def save_state(env: gymnasium.Env[Any, Any]) -> list[tuple[bytes, dict[str, Any]]]:
    """Read the state of an environment and its wrappers, outermost first.

    Plain attributes are kept together, so that shared arrays stay shared; of MuJoCo's data the arrays are kept, and of
    the Arcade Learning Environment's emulator its own serialisation. Nothing says that this is all there is: see
    `restores_exactly`.
    """
    return [_save_layer(layer) for layer in _layers(env)]


def restore_state(env: gymnasium.Env[Any, Any], saved: list[tuple[bytes, dict[str, Any]]], chance: bool = True) -> None:
    """Write a state read by `save_state` back into an environment made the same way.

    `chance=False` leaves each layer's random generator (`np_random`) as it is, so that later random draws differ from
    those after the snapshot.
    """
    for layer, (plain, special) in zip(_layers(env), saved, strict=True):
        own = {} if chance else {name: vars(layer)[name] for name in CHANCE if name in vars(layer)}
        found = {name: value for name, value in read_snapshot(plain, layer).items() if name not in NOT_STATE}
        vars(layer).update(found | own)
        for name, value in special.items():
            _load_special(layer, name, value, chance)


SIMULATORS = ("mujoco", "ale_py", "gymnasium")


def known_to(env: Any) -> packing.Known:
    """Return a test for the types that a snapshot of `env` may hold in addition to plain data.

    These are simple classes of the environment's own libraries: an object of such a class consists of its attributes
    alone. Classes that run code of their own when they are read, dropped or made are excluded, and so are environments.
    """
    modules = [type(layer).__module__ for layer in _layers(env)] if isinstance(env, gymnasium.Env) else []
    roots = {*SIMULATORS, *(module.partition(".")[0] for module in modules)}

    def known(cls: type) -> bool:
        if cls.__module__.partition(".")[0] not in roots or issubclass(cls, gymnasium.Env | gymnasium.Space):
            return False
        return packing.is_plain(cls)

    return known


def pack(value: Any, env: Any) -> bytes:
    """Return a snapshot, or a part of one, of `env` as bytes."""
    return packing.pack(value, known_to(env))


def read_snapshot(data: bytes, env: Any) -> Any:
    """Read a snapshot of `env`, or part of one, without running code. Raise `ForageError` for any other data."""
    return packing.unpack(data, known_to(env))


def restores_exactly(make: Callable[[], gymnasium.Env[Any, Any]], rounds: int = 4, steps: int = 15) -> bool:
    """Return whether `save_state` and `restore_state` continue an environment bit for bit, found by doing it.

    One environment is saved in mid-episode and stepped on; a second one, with another seed and other actions behind it,
    is loaded with the snapshot and must return exactly the same for the same actions, through a further reset; and that
    `rounds` times. State that hides where it cannot be read, or in a shared generator of random numbers, shows as a
    difference. It is a test, not a proof: what shows only rarely can be missed.
    """
    first, second = make(), make()
    try:
        space = first.action_space
        space.seed(0)
        if _hides_sticky_action(first):
            return False
        first.reset(seed=1)
        second.reset(seed=2)
        for _ in range(rounds):
            before, other, after = ([space.sample() for _ in range(count)] for count in (steps, steps + 4, steps))
            _play(first, before)
            _play(second, other)
            saved = read_snapshot(pack(save_state(first), first), first)
            expected = _play(first, after)
            restore_state(second, saved)
            if not _same(expected, _play(second, after)):
                return False
        return True
    except Exception:
        # Whatever goes wrong while trying means that it cannot be relied on.
        return False
    finally:
        first.close()
        second.close()


def _hides_sticky_action(env: gymnasium.Env[Any, Any]) -> bool:
    """Return whether actions stick: the Arcade Learning Environment does not save the previous action.

    A trial replay notices that only now and then.
    """
    emulators = [value for layer in _layers(env) for value in vars(layer).values() if _kind(value) == "ALEInterface"]
    return any(emulator.getFloat("repeat_action_probability") > 0 for emulator in emulators)


def _layers(env: gymnasium.Env[Any, Any]) -> list[Any]:
    layers: list[Any] = [env]
    while isinstance(layers[-1], gymnasium.Wrapper):
        layers.append(layers[-1].env)
    return layers


def _save_layer(layer: Any) -> tuple[bytes, dict[str, Any]]:
    plain, special = {}, {}
    for name, value in vars(layer).items():
        kind = _kind(value)
        if name in NOT_STATE or isinstance(value, gymnasium.Space) or (name in TABLES and _is_toy(layer)):
            continue
        if isinstance(value, gymnasium.Env):
            special[name] = save_state(value)  # a maze holds the robot in it as an environment of its own
        elif kind == "MjData":
            special[name] = _arrays(value)
        elif kind == "ALEInterface":
            special[name] = value.cloneSystemState().serialize()  # with its random numbers
        else:
            plain[name] = value
    # As bytes now, so that what is saved does not move on with the environment.
    special = {name: packing.pack(value) for name, value in special.items()}
    return _plain(plain, layer), special


def _plain(values: dict[str, Any], layer: Any) -> bytes:
    """Pack these attributes in one piece; if that fails, pack only those that can be packed one by one."""
    known = known_to(layer)
    try:
        return packing.pack(values, known)
    except packing.Unpackable:
        return packing.pack({name: value for name, value in values.items() if _packs(value, known)}, known)


def _load_special(layer: Any, name: str, value: bytes, chance: bool) -> None:
    target, state = getattr(layer, name), packing.unpack(value)
    if isinstance(target, gymnasium.Env):
        restore_state(target, state, chance)
    elif _kind(target) == "ALEInterface":
        target.restoreSystemState(_emulator_state(target, state))
    else:
        # In place, because the renderer holds the same object. All of it: some environments read positions that
        # MuJoCo computed one integration step earlier, which setting the physics state alone would change.
        for key, array in state.items():
            there = getattr(target, key, None)
            if not isinstance(there, np.ndarray):
                setattr(target, key, array)
            elif there.shape == array.shape:  # contacts and constraints have other shapes, and are computed anew
                there[...] = array


def _is_toy(layer: Any) -> bool:
    return type(layer).__module__.startswith("gymnasium.envs.toy_text")


def _arrays(data: Any) -> dict[str, Any]:
    """Return all arrays of MuJoCo's data, its time, and its flags of quantities already computed."""
    names = [name for name in dir(data) if not name.startswith("_")]
    scalars = {name: getattr(data, name) for name in names if name == "time" or name.startswith("flg_")}
    found = {name: getattr(data, name) for name in names if name not in scalars}
    return {name: value for name, value in found.items() if isinstance(value, np.ndarray) and value.size} | scalars


def _emulator_state(emulator: Any, data: bytes) -> Any:
    """Convert serialised bytes to the emulator's own state object."""
    cls: Any = type(emulator.cloneSystemState())
    state = cls.__new__(cls)
    try:
        state.__setstate__(data)
    except Exception as error:  # the library says nothing of what was wrong
        raise ForageError("A saved state of the Arcade Learning Environment cannot be read.") from error
    return state


def _kind(value: Any) -> str:
    module = type(value).__module__.partition(".")[0]
    return type(value).__name__ if module in ("mujoco", "ale_py") else ""


def _packs(value: Any, known: packing.Known) -> bool:
    try:
        packing.pack(value, known)
    except packing.Unpackable:
        return False
    return True


def _play(env: gymnasium.Env[Any, Any], actions: list[Any]) -> list[Any]:
    """Step through the actions, with a reset halfway and at every end, and return all results."""
    # Copies, because some environments return the same array again and again.
    heard = []
    for number, action in enumerate(actions):
        observation, reward, terminated, truncated, _ = env.step(action)
        heard.append((copy.deepcopy(observation), np.array(reward, float), bool(terminated), bool(truncated)))
        if terminated or truncated or number == len(actions) // 2:
            heard.append(copy.deepcopy(env.reset()[0]))
    return heard


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(_same(a, b) for a, b in zip(left, right, strict=True))
    return np.array_equal(left, right)
