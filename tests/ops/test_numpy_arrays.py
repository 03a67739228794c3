"""Every operator takes NumPy arrays as well as JAX's: traced with both, without compiling anything."""

import importlib
import inspect
import math
import pkgutil
import types
import typing

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage import ops
from forage.config.packages import load_packages
from forage.ops.sampling import Sampling

APART = {
    "ring": "rings of experience, which memories alone make",
    "optimiser": "trees of parameters, which `Optimiser.init` makes",
    "every": "functions of a state",
    "episodes.groups": "a tree of marks",
    "rows.fit": "a loss and its optimiser",
    "action_values.updates_in": "an agent",
    "action_values.update_target": "an agent",
    "returns.fold_segments": "transitions",
    "losses": "functions of parameters",
    "trust_region": "functions of parameters",
    "rows.concatenate_rows": "trees",
    "rows.merge_time": "a tree",
    "rows.observation_rows": "observations",
    "tokens.masks.check_name": "names",
    "tokens.neighbours": "memories and windows, which rewards alone make",
    "tokens.preferences.preference_loss": "what the loss of that name takes",
}
"""Operators, or modules of them, that take more than arrays and numbers, with their special argument."""

MORE = {
    "convolution.by_block": {"kernel": 2, "stride": 1, "weight": (4, 3)},
    "convolution.convolve_patches": {
        "kernel": 2,
        "stride": 1,
        "weight": (12, 3),
        "images": np.ones((3, 3, 3, 3), np.float32),
    },
    "convolution.blocks": {"kernel": 2, "stride": 1, "images": np.ones((3, 3, 3, 3), np.float32)},
    "convolution.flatten_weights": {"weight": (2, 2, 3, 3)},
    "convolution.sum_blocks": {"weight": (2, 2, 3, 3)},
    "inverse_q.inverse_q": {"objective": "value", "own": True},
    "shift.shift_picture": {"axes": (0, 1), "picture": np.ones((3, 3, 1), np.float32), "by": np.array([1, 0])},
    "sampling.support": {"sampling": Sampling(top_k=2)},
    "sampling.noise": {"shape": (3,), "key": jax.random.key(0)},
    "tokens.influence.steps_between": {"ends": (1,)},
    "tokens.influence.influential": {"number": 2},
    "tokens.losses.gmpo": {"advantage": (3, 1)},
    "tokens.losses.policy_loss": {"name": "clip"},
    "tokens.advantages.pass_at_k": {"reward": (3, 4)},
    "tokens.advantages.max_at_k": {"reward": (3, 4)},
    "tokens.advantages.group_advantage": {"name": "grpo"},
    "tokens.advantages.advantage_of_those_there": {"name": "grpo"},
}
"""Arguments without a fitting value in their annotation: the value, or a shape of floats."""


def operators():
    found = {}
    packages = [ops, *(importlib.import_module(f"{package.name}.ops") for package in load_packages() if package.own)]
    for module in (
        one for package in packages for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ):
        short = module.name.partition(".ops.")[2]
        for name, one in vars(importlib.import_module(module.name)).items():
            its = inspect.isfunction(one) and one.__module__ == module.name
            if its and not name.startswith("_") and short not in APART and f"{short}.{name}" not in APART:
                found[f"{short}.{name}"] = one
    return found


def example(hint):
    """A value of an annotation: ones for floats, and zeros of other arrays, with three of each axis."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        hint = typing.get_args(hint)[0]
    if hint in (float, int):
        return hint(1)
    if hasattr(hint, "_fields"):
        return hint(*map(example, typing.get_type_hints(hint).values()))
    assert hasattr(hint, "dim_str"), hint
    shape = tuple(int(axis) if axis.isdecimal() else 3 for axis in hint.dim_str.split())
    kind = hint.dtypes[0]
    dtype = np.bool_ if kind == "bool" else np.float32 if "float" in kind else np.uint32 if "uint" in kind else np.int32
    return np.ones(shape, dtype) if dtype == np.float32 else np.zeros(shape, dtype)


def arguments(name, one):
    given, hints, more = [], typing.get_type_hints(one), MORE.get(name, {})
    for parameter in inspect.signature(one).parameters.values():
        if parameter.name in more:
            value = more[parameter.name]
            floats = isinstance(value, tuple) and hasattr(hints[parameter.name], "dim_str")
            given.append(np.ones(value, np.float32) if floats else value)
        elif parameter.default is inspect.Parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            given.append(example(hints[parameter.name]))
    return given


FOUND = operators()


def test_they_are_all_here():
    assert len(FOUND) > 90 and {name for name in MORE if "influence" not in name or load_packages()} <= {*FOUND}


@pytest.mark.parametrize("name", FOUND)
def test_numpy_arrays_are_taken(name):
    arrays = arguments(name, FOUND[name])
    traced = jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, np.ndarray) else x, arrays)
    shapes = [jax.eval_shape(lambda given=given: FOUND[name](*given)) for given in (arrays, traced)]
    assert [(x.shape, x.dtype) for x in jax.tree.leaves(shapes[0])] == [
        (x.shape, x.dtype) for x in jax.tree.leaves(shapes[1])
    ]
    assert all(math.prod(x.shape) for x in jax.tree.leaves(shapes[0]))
