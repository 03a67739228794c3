"""Exact snapshots of Gymnasium environments: what can be read is saved, and whether that was all is tried out."""

from __future__ import annotations

import copy
import io
import pickle
import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from forage.core.errors import ForageError

# Parts of every environment that hold no state of their own; `env` is the next layer, saved by itself.
NOT_STATE = {"env", "spec", "metadata", "render_mode", "model", "mujoco_renderer", "_cached_spec"}
CHANCE = ("_np_random", "_np_random_seed", "chance")
SURE = {type(None), bool, int, float, str, np.ndarray, np.random.Generator}
"""What pickles for certain, and comes back."""


def save(env: gymnasium.Env[Any, Any]) -> list[tuple[bytes, dict[str, Any]]]:
    """Read the state of an environment and its wrappers, outermost first.

    Attributes that pickle are kept together, so that shared arrays stay shared; MuJoCo's data and the Arcade
    Learning Environment's emulator are kept through their own serialisation. Nothing says that this is all there is:
    see `exact`.
    """
    return [_save_layer(layer) for layer in _layers(env)]


def load(env: gymnasium.Env[Any, Any], saved: list[tuple[bytes, dict[str, Any]]], chance: bool = True) -> None:
    """Write back what `save` read, into an environment made the same way.

    `chance=False` leaves each layer's generator of random numbers (`np_random`) as it is, so that what happens next is
    drawn anew and not as it was then.
    """
    for layer, (plain, special) in zip(_layers(env), saved, strict=True):
        own = {} if chance else {name: vars(layer)[name] for name in CHANCE if name in vars(layer)}
        vars(layer).update(read(plain, layer) | own)
        for name, value in special.items():
            _load_special(layer, name, value, chance)


PLAIN = {
    *(("builtins", name) for name in ("set", "frozenset", "complex", "bytearray", "slice", "range", "object")),
    *(("collections", name) for name in ("deque", "OrderedDict", "Counter")),
    *((module, "_reconstruct") for module in ("numpy.core.multiarray", "numpy._core.multiarray")),
    *((module, "scalar") for module in ("numpy.core.multiarray", "numpy._core.multiarray")),
    *((module, "_frombuffer") for module in ("numpy.core.numeric", "numpy._core.numeric")),
    *(("numpy", name) for name in ("ndarray", "dtype")),
    *(("numpy.random._pickle", f"__{name}_ctor") for name in ("generator", "bit_generator", "randomstate")),
    *(("numpy.random.bit_generator", name) for name in ("SeedSequence", "__pyx_unpickle_SeedSequence")),
    ("copyreg", "_reconstructor"),
    ("_codecs", "encode"),  # of bytes, in old protocols
}
"""What pickles of plain data, arrays and generators of random numbers name; none of it runs what it is given."""
SIMULATORS = ("mujoco", "ale_py", "gymnasium")


class Reader(pickle.Unpickler):
    """A reader of plain data, arrays, and objects whose class is of the environment's own library; nothing else.

    A pickle may name any function to be called with anything. A snapshot lies in a run's directory, which a person may
    have from somebody else, so what this does not know is refused.
    """

    def __init__(self, data: bytes, env: Any):
        super().__init__(io.BytesIO(data))
        modules = [type(layer).__module__ for layer in _layers(env)] if isinstance(env, gymnasium.Env) else []
        self.roots = {*SIMULATORS, *(module.partition(".")[0] for module in modules)}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in PLAIN:
            return super().find_class(module, name)
        if module.partition(".")[0] in ("numpy", *self.roots) and module in sys.modules:
            found = super().find_class(module, name)
            # A name with dots can lead out of its module again: where the class was made decides.
            home = found.__module__ if isinstance(found, type) else ""
            generator = home.startswith("numpy.random") and issubclass(found, np.random.BitGenerator)
            number = isinstance(found, type) and issubclass(found, np.generic | np.dtype)
            if home.partition(".")[0] in self.roots or generator or number:
                return found
        raise ForageError(
            f"A snapshot of this environment names {module}.{name}, which is neither plain data nor of the "
            f"environment's own library, so it is not read."
        )


def read(data: bytes, env: Any) -> Any:
    """Read a snapshot, or a part of one, of `env`. Raises `ForageError` for what would run code that is not its own."""
    try:
        return Reader(data, env).load()
    except ForageError:
        raise
    except Exception as error:  # what bytes that are no snapshot make of it has no common type
        raise ForageError(f"A snapshot cannot be read ({type(error).__name__}: {error}).") from error


def exact(make: Callable[[], gymnasium.Env[Any, Any]], rounds: int = 4, steps: int = 15) -> bool:
    """Return whether `save` and `load` continue an environment bit for bit, found by doing it.

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
            saved = read(pickle.dumps(save(first)), first)
            expected = _play(first, after)
            load(second, saved)
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
    """Return whether actions stick, which the Arcade Learning Environment does not save; it shows only now and then."""
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
        if name in NOT_STATE or isinstance(value, gymnasium.Space):
            continue
        if isinstance(value, gymnasium.Env):
            special[name] = save(value)  # a maze holds the robot in it as an environment of its own
        elif kind == "MjData":
            special[name] = value
        elif kind == "ALEInterface":
            special[name] = value.cloneSystemState()  # with its random numbers
        else:
            plain[name] = value
    # Pickled now, so that what is saved does not move on with the environment.
    special = {name: pickle.dumps(value) for name, value in special.items()}
    return _plain(plain, layer), special


def _plain(values: dict[str, Any], layer: Any) -> bytes:
    """Return what can be read again of some attributes, as one pickle; trying out each would take much longer."""
    return pickle.dumps({name: value for name, value in values.items() if _is_sure(value) or _pickles(value, layer)})


def _is_sure(value: Any, depth: int = 3) -> bool:
    """Return whether a value need not be tried. Deeper than `depth` nothing is looked at."""
    if type(value) in (tuple, list, dict):
        inner = [*value, *value.values()] if type(value) is dict else value
        return depth > 0 and all(_is_sure(item, depth - 1) for item in inner)
    return type(value) in SURE and not (isinstance(value, np.ndarray) and value.dtype.hasobject)


def _load_special(layer: Any, name: str, value: bytes, chance: bool) -> None:
    target, state = getattr(layer, name), read(value, layer)
    if isinstance(target, gymnasium.Env):
        load(target, state, chance)
    elif _kind(target) == "ALEInterface":
        target.restoreSystemState(state)
    else:
        import mujoco

        # In place, because the renderer holds the same object. All of it: some environments read positions that
        # MuJoCo computed one integration step earlier, which setting the physics state alone would change.
        mujoco.mj_copyData(target, layer.model, state)  # pyrefly: ignore[missing-attribute]


def _kind(value: Any) -> str:
    module = type(value).__module__.partition(".")[0]
    return type(value).__name__ if module in ("mujoco", "ale_py") else ""


def _pickles(value: Any, layer: Any) -> bool:
    try:
        read(pickle.dumps(value), layer)
    except Exception:
        return False
    return True


def _play(env: gymnasium.Env[Any, Any], actions: list[Any]) -> list[Any]:
    """Step through the actions with a reset halfway and at every end, and return all that came back."""
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
