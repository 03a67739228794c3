"""An evaluator of JAX's programs in NumPy, for programs that a test runs once: most take XLA seconds to compile.

Operations that it has no function for run one by one in JAX. What a program computes is the same but for last digits.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import scipy.special
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from forage.core import prng
from forage.loop.plain import OPERATIONS

LIMIT = 30_000  # operations, from which on XLA is quicker
LOOP = 100  # turns of a loop of unknown length, for an estimate
AS_USED = bool(os.environ.get("FORAGE_TEST_AS_USED"))  # `make thorough` runs the programs of users
KEY = np.dtype([("first", np.uint32), ("second", np.uint32)])
KEYS: dict[str, Any] = {"key<forage>": prng.FUSED}
if jax.config.jax_threefry_partitionable:  # JAX's own keys draw the same numbers in this order of counters alone
    KEYS["key<fry>"] = "threefry2x32"


class NotInNumPy(Exception):
    """The program is for XLA: it is long, has effects or keys of another generator."""


def evaluate(program: Any, *arguments: Any) -> Any:
    """Return the result of a jitted function, in NumPy. Raise `NotInNumPy` for a program that XLA should run."""
    if AS_USED:
        raise NotInNumPy
    traced = program.trace(*arguments)
    closed, leaves = traced.jaxpr, jax.tree.leaves(arguments)
    if closed.effects or len(leaves) != len(closed.jaxpr.invars) or operations(closed.jaxpr) > LIMIT:
        raise NotInNumPy
    with np.errstate(all="ignore"):
        found = run(closed.jaxpr, closed.consts, leaves)
    found = [leave(x, variable.aval) for x, variable in zip(found, closed.jaxpr.outvars, strict=True)]
    return jax.tree.unflatten(jax.tree.structure(traced.out_info), found)


def operations(jaxpr: Jaxpr) -> int:
    """Estimate the number of operations in a run of the program."""
    total = 0
    for equation in jaxpr.eqns:
        turns = {"scan": equation.params.get("length", 1), "while": LOOP}.get(equation.primitive.name, 1)
        inner = [jaxpr_of(x) for p in equation.params.values() for x in (p if isinstance(p, tuple) else (p,))]
        total += 1 + turns * sum(operations(x) for x in inner if x is not None)
    return total


def jaxpr_of(x: Any) -> Jaxpr | None:
    """Return the program that is a parameter of an operation, or `None` for another parameter."""
    return x.jaxpr if isinstance(x, ClosedJaxpr) else x if isinstance(x, Jaxpr) else None


def enter(x: Any, aval: Any) -> np.ndarray:
    """Return an argument as an array; keys as pairs of words."""
    if str(aval.dtype) in KEYS:
        words = np.ascontiguousarray(jax.random.key_data(x), np.uint32)
        return words.view(KEY)[..., 0]
    if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended):
        raise NotInNumPy
    return np.asarray(x, aval.dtype)


def leave(x: np.ndarray, aval: Any) -> Any:
    """Return a result as JAX has it: an array, or random keys."""
    if str(aval.dtype) in KEYS:
        return jax.random.wrap_key_data(words_of(x), impl=KEYS[str(aval.dtype)])
    return np.array(x, aval.dtype)


def words_of(keys: np.ndarray) -> np.ndarray:
    return np.stack([keys["first"], keys["second"]], axis=-1)


def run(jaxpr: Jaxpr, constants: Sequence[Any], arguments: Sequence[Any]) -> list[np.ndarray]:
    """Run the operations of a program one by one. Those without a function below, or that decline, run in JAX."""
    values: dict[Any, np.ndarray] = {}

    def value(x: Any) -> np.ndarray:
        return np.asarray(x.val, x.aval.dtype) if isinstance(x, Literal) else values[x]

    for variables, given in ((jaxpr.constvars, constants), (jaxpr.invars, arguments)):
        for variable, x in zip(variables, given, strict=True):
            done = type(x) is np.ndarray and x.dtype in (KEY, variable.aval.dtype)
            values[variable] = x if done else enter(x, variable.aval)
    for equation in jaxpr.eqns:
        name, params = equation.primitive.name, equation.params
        inputs = [value(x) for x in equation.invars]
        found: Any
        if name in CALLS:
            found = CALLS[name](*inputs, **params)
        elif name in FUNCTIONS:
            found = [FUNCTIONS[name](*inputs, **params)]
        else:
            found = NotImplemented
        if found is NotImplemented or (len(found) == 1 and found[0] is NotImplemented):
            given = [leave(x, v.aval) for x, v in zip(inputs, equation.invars, strict=True)]
            found = equation.primitive.bind(*given, **params)
            found = list(found) if equation.primitive.multiple_results else [found]
        for variable, x in zip(equation.outvars, found, strict=True):
            aval = variable.aval
            if not (isinstance(x, np.ndarray) and x.dtype in (KEY, aval.dtype)):
                x = enter(x, aval)
            assert x.shape == aval.shape, f"{name} in NumPy has shape {x.shape}, not {aval.shape}"
            values[variable] = x
    return [value(x) for x in jaxpr.outvars]


# Programs within programs


def call(*inputs: Any, **params: Any) -> list[np.ndarray]:
    (inner,) = (params[name] for name in ("jaxpr", "call_jaxpr") if name in params)
    return run(inner.jaxpr, inner.consts, inputs) if isinstance(inner, ClosedJaxpr) else run(inner, (), inputs)


def scan(*inputs: Any, jaxpr: Any, length: int, reverse: bool, num_consts: int, num_carry: int, **_: Any) -> Any:
    constants, carry = inputs[:num_consts], list(inputs[num_consts : num_consts + num_carry])
    rows, results = inputs[num_consts + num_carry :], [None] * length
    for i in reversed(range(length)) if reverse else range(length):
        out = run(jaxpr.jaxpr, jaxpr.consts, [*constants, *carry, *(np.asarray(x[i]) for x in rows)])
        carry, results[i] = out[:num_carry], out[num_carry:]
    if not length:
        avals = [v.aval for v in jaxpr.jaxpr.outvars[num_carry:]]
        return carry + [np.zeros((0, *a.shape), KEY if str(a.dtype) in KEYS else a.dtype) for a in avals]
    return carry + [np.stack(x) for x in zip(*results, strict=True)]


def repeat(*inputs: Any, cond_jaxpr: Any, body_jaxpr: Any, cond_nconsts: int, body_nconsts: int, **_: Any) -> Any:
    asks, does = inputs[:cond_nconsts], inputs[cond_nconsts : cond_nconsts + body_nconsts]
    carry = list(inputs[cond_nconsts + body_nconsts :])
    while run(cond_jaxpr.jaxpr, cond_jaxpr.consts, [*asks, *carry])[0]:
        carry = run(body_jaxpr.jaxpr, body_jaxpr.consts, [*does, *carry])
    return carry


def choose(index: np.ndarray, *inputs: Any, branches: Any, **_: Any) -> list[np.ndarray]:
    branch = branches[min(max(int(index), 0), len(branches) - 1)]
    return run(branch.jaxpr, branch.consts, inputs)


# Random numbers


def cipher(keys: np.ndarray, counters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two words for each key and counter; the axes of the counters come last."""
    first, second = (keys[name].reshape(keys.shape + (1,) * counters.ndim) for name in ("first", "second"))
    return prng.threefry((first, second), np.zeros_like(counters), counters, prng.mix)


def pairs(words: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    made = np.empty(np.shape(words[0]), KEY)
    made["first"], made["second"] = words
    return made


def counter(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(math.prod(shape), dtype=np.uint32).reshape(shape)


def random_bits(keys: np.ndarray, *, bit_width: int, shape: tuple[int, ...], **_: Any) -> np.ndarray:
    if bit_width > 32:
        raise NotInNumPy
    first, second = cipher(keys, counter(shape))
    return (first ^ second).astype(f"uint{bit_width}")


def fold_in(keys: np.ndarray, data: np.ndarray, **_: Any) -> np.ndarray:
    numbers = data.astype(np.uint32)
    return pairs(prng.threefry((keys["first"], keys["second"]), np.zeros_like(numbers), numbers, prng.mix))


# One operation


def divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind not in "iu":
        return np.divide(x, y)
    return np.where(y == 0, -1, (np.abs(x) // np.where(y == 0, 1, np.abs(y))) * np.sign(x) * np.sign(y)).astype(x.dtype)


def dot_general(x: np.ndarray, y: np.ndarray, *, dimension_numbers: Any, preferred_element_type: Any, **_: Any) -> Any:
    (over_x, over_y), (batch_x, batch_y) = dimension_numbers
    free_x = [i for i in range(x.ndim) if i not in (*over_x, *batch_x)]
    free_y = [i for i in range(y.ndim) if i not in (*over_y, *batch_y)]
    batch, inner = [x.shape[i] for i in batch_x], math.prod(x.shape[i] for i in over_x)
    left = x.transpose(*batch_x, *free_x, *over_x).reshape(*batch, math.prod(x.shape[i] for i in free_x), inner)
    right = y.transpose(*batch_y, *over_y, *free_y).reshape(*batch, inner, math.prod(y.shape[i] for i in free_y))
    kind = preferred_element_type or x.dtype
    product = np.matmul(left.astype(kind), right.astype(kind))
    return product.reshape([*batch, *(x.shape[i] for i in free_x), *(y.shape[i] for i in free_y)])


def broadcast_in_dim(x: np.ndarray, *more: Any, shape: Any, broadcast_dimensions: Any, **_: Any) -> np.ndarray:
    sizes = [1] * len(shape)
    for axis, size in zip(broadcast_dimensions, x.shape, strict=True):
        sizes[axis] = size
    return np.broadcast_to(x.reshape(sizes), shape)


def convert(x: np.ndarray, *, new_dtype: Any, **_: Any) -> Any:
    if x.dtype.kind == "f" and np.issubdtype(new_dtype, np.integer):
        whole = np.iinfo(new_dtype)  # XLA keeps within it; NaN becomes 0
        inside = np.clip(
            np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=whole.max, neginf=whole.min), whole.min, whole.max
        )
        return inside.astype(new_dtype)
    return x.astype(new_dtype)


def dynamic_slice(x: np.ndarray, *starts: Any, slice_sizes: Any, **_: Any) -> np.ndarray:
    return x[window(x.shape, starts, slice_sizes)]


def dynamic_update_slice(x: np.ndarray, update: np.ndarray, *starts: Any, **_: Any) -> np.ndarray:
    result = x.copy()
    result[window(x.shape, starts, update.shape)] = update
    return result


def window(shape: Sequence[int], starts: Sequence[Any], sizes: Sequence[int]) -> tuple[slice, ...]:
    begins = [min(max(int(start), 0), whole - size) for start, whole, size in zip(starts, shape, sizes, strict=True)]
    return tuple(slice(begin, begin + size) for begin, size in zip(begins, sizes, strict=True))


def pad(x: np.ndarray, fill: np.ndarray, *, padding_config: Any) -> np.ndarray:
    low, high, inside = zip(*padding_config, strict=True) if padding_config else ((), (), ())
    spread = [size + max(size - 1, 0) * gap for size, gap in zip(x.shape, inside, strict=True)]
    shape = [max(a, 0) + size + max(b, 0) for a, size, b in zip(low, spread, high, strict=True)]
    result = np.full(shape, fill, x.dtype)
    at = zip(low, spread, inside, strict=True)
    result[tuple(slice(max(a, 0), max(a, 0) + size, gap + 1) for a, size, gap in at)] = x
    cut = zip(low, high, shape, strict=True)
    return result[tuple(slice(max(-a, 0), size - max(-b, 0)) for a, b, size in cut)]


def beyond_end(dtype: np.dtype) -> Any:
    """Return the number that JAX reads beyond the end of an array by default."""
    if dtype.kind == "b":
        return True
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max
    return np.nan


def first_corner(
    shape: Sequence[int],
    sizes: Sequence[int],
    indices: np.ndarray,
    axes: Sequence[int],
    at: tuple[int, ...],
    batching: Sequence[tuple[int, int]],
) -> tuple[list[int], bool]:
    """Return the first place of a window of these sizes in an array, and whether all of it is within the array.

    `indices` go along `axes` of the array. `batching`: its axes that go with an axis of the place `at` in the indices.
    """
    start = [0] * len(shape)
    for axis, index in zip(axes, indices, strict=True):
        start[axis] = int(index)
    for axis, other in batching:
        start[axis] = at[other]
    return start, all(0 <= s <= whole - size for s, size, whole in zip(start, sizes, shape, strict=True))


def gather(x: np.ndarray, indices: np.ndarray, **params: Any) -> np.ndarray:
    numbers, sizes, mode = params["dimension_numbers"], params["slice_sizes"], params["mode"]
    batch = indices.shape[:-1]
    if math.prod(batch) > 1000:
        return NotImplemented
    fill = beyond_end(x.dtype) if params["fill_value"] is None else params["fill_value"]
    dropped = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    offset = [size for axis, size in enumerate(sizes) if axis not in dropped]
    result = np.empty((*batch, *offset), x.dtype)
    batching = tuple(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    for at in np.ndindex(*batch):
        start, inside = first_corner(x.shape, sizes, indices[at], numbers.start_index_map, at, batching)
        lost = not inside and mode == jax.lax.GatherScatterMode.FILL_OR_DROP
        result[at] = fill if lost else x[window(x.shape, start, sizes)].reshape(offset)
    axes = [axis for axis in range(result.ndim) if axis not in numbers.offset_dims]
    return np.moveaxis(result, range(result.ndim), [*axes, *numbers.offset_dims])


def scatter(combine: Callable[..., Any]) -> Callable[..., Any]:
    def place(x: np.ndarray, indices: np.ndarray, updates: np.ndarray, **params: Any) -> np.ndarray:
        numbers, mode = params["dimension_numbers"], params["mode"]
        batch, result = indices.shape[:-1], x.copy()
        if math.prod(batch) > 1000:
            return NotImplemented
        axes = [axis for axis in range(updates.ndim) if axis not in numbers.update_window_dims]
        updates = updates.transpose(*axes, *numbers.update_window_dims)
        rest, inserted = (
            iter(updates.shape[len(axes) :]),
            (*numbers.inserted_window_dims, *numbers.operand_batching_dims),
        )
        sizes = [1 if axis in inserted else next(rest) for axis in range(x.ndim)]
        batching = tuple(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True))
        onto = numbers.scatter_dims_to_operand_dims
        for at in np.ndindex(*batch):
            start, inside = first_corner(x.shape, sizes, indices[at], onto, at, batching)
            if inside or mode == jax.lax.GatherScatterMode.CLIP:
                where = window(x.shape, start, sizes)
                result[where] = combine(result[where], updates[at].reshape(sizes))
        return result

    return place


def sort(*inputs: np.ndarray, dimension: int, num_keys: int, **_: Any) -> Any:
    if num_keys > 1 or any(x.dtype == KEY for x in inputs):
        return NotImplemented
    order = np.argsort(inputs[0], axis=dimension, kind="stable")
    return [np.take_along_axis(x, order, dimension) for x in inputs]


def select(which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    if len(cases) == 2:
        return np.where(which, cases[1], cases[0])
    return np.choose(which, cases)


def reduce(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *, axes, **_: function(x, axis=tuple(axes)) if axes else x


def index_of(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *, axes, index_dtype: function(x, axis=axes[0]).astype(index_dtype)


def accumulate(function: Any) -> Callable[..., Any]:
    def accumulate_axis(x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
        if reverse:
            return np.flip(function.accumulate(np.flip(x, axis), axis=axis, dtype=x.dtype), axis)
        return function.accumulate(x, axis=axis, dtype=x.dtype)

    return accumulate_axis


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *inputs, **_: function(*inputs)


CALLS: dict[str, Callable[..., Any]] = {
    "jit": call,
    "closed_call": call,
    "checkpoint": call,
    "remat2": call,
    "custom_jvp_call": call,
    "custom_vjp_call": call,
    "scan": scan,
    "while": repeat,
    "cond": choose,
    "optimization_barrier": lambda *inputs, **_: list(inputs),
    "sort": sort,
    "unstack": lambda x, *, axis, **_: list(np.moveaxis(x, axis, 0)),
    "iota_2x32_shape": lambda *, shape: [np.zeros(shape, np.uint32), counter(shape)],
    "threefry2x32": lambda first, second, high, low: list(prng.threefry((first, second), high, low, prng.mix)),
    "split": lambda x, *, sizes, axis: np.split(x, np.cumsum(sizes)[:-1], axis),
}
ARITHMETIC = ("add", "sub", "mul", "max", "min", "neg", "abs", "sign", "floor", "square", "sqrt", "pow")
CURVES = ("exp", "expm1", "log", "log1p", "tanh")
LOGIC = ("and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "is_finite")
PLAIN: dict[str, Callable[..., Any]] = {
    **{name: OPERATIONS[name] for name in (*ARITHMETIC, *CURVES, *LOGIC)},  # as in policies that were exported
    **{name: getattr(np, name) for name in ("ceil", "exp2", "sin", "cos", "tan", "sinh", "cosh", "cbrt")},
    "add_any": np.add,
    "div": divide,
    "rem": np.fmod,
    "atan2": np.arctan2,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "asinh": np.arcsinh,
    "xor": np.bitwise_xor,
    "nextafter": np.nextafter,
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "erf_inv": scipy.special.erfinv,
    "lgamma": scipy.special.gammaln,
    "digamma": scipy.special.digamma,
    "logistic": scipy.special.expit,
    "rsqrt": lambda x: (1 / np.sqrt(x)).astype(x.dtype),
    "shift_left": lambda x, by: np.where(by < 8 * x.dtype.itemsize, x << by, 0),
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "select_n": select,
    "copy": lambda x: x,
    "copy_p": lambda x: x,
    "stop_gradient": lambda x: x,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: plain(function) for name, function in PLAIN.items()},
    "shift_right_logical": lambda x, by: (
        (x.view(f"uint{8 * x.dtype.itemsize}") >> by.astype(f"uint{8 * x.dtype.itemsize}")).astype(x.dtype)
        if x.dtype.kind == "i"
        else np.where(by < 8 * x.dtype.itemsize, x >> by, 0)
    ),
    "integer_pow": lambda x, *, y: np.power(x, y) if y >= 0 else 1 / np.power(x, -y),
    "round": lambda x, *, rounding_method: (
        np.rint(x) if int(rounding_method) == 1 else np.copysign(np.floor(np.abs(x) + np.asarray(0.5, x.dtype)), x)
    ),
    "reduce_sum": lambda x, *, axes, **_: np.sum(x, axis=tuple(axes), dtype=x.dtype),
    "reduce_prod": lambda x, *, axes, **_: np.prod(x, axis=tuple(axes), dtype=x.dtype),
    "reduce_max": reduce(np.max),
    "reduce_min": reduce(np.min),
    "reduce_and": reduce(np.bitwise_and.reduce),
    "reduce_or": reduce(np.bitwise_or.reduce),
    "argmax": index_of(np.argmax),
    "argmin": index_of(np.argmin),
    "cumsum": accumulate(np.add),
    "cumprod": accumulate(np.multiply),
    "cummax": accumulate(np.maximum),
    "cummin": accumulate(np.minimum),
    "dot_general": dot_general,
    "broadcast_in_dim": broadcast_in_dim,
    "reshape": lambda x, *, new_sizes, dimensions, **_: x.reshape(new_sizes),
    "squeeze": lambda x, *, dimensions: x.reshape([n for i, n in enumerate(x.shape) if i not in dimensions]),
    "expand_dims": lambda x, *, dimensions: np.expand_dims(x, dimensions),
    "transpose": lambda x, *, permutation: x.transpose(permutation),
    "rev": lambda x, *, dimensions: np.flip(x, dimensions),
    "concatenate": lambda *inputs, dimension: np.concatenate(inputs, dimension),
    "stack": lambda *inputs, axis, **_: np.stack(inputs, axis),
    "slice": lambda x, *, start_indices, limit_indices, strides: x[
        tuple(map(slice, start_indices, limit_indices, strides or (1,) * x.ndim))
    ],
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
    "pad": pad,
    "gather": gather,
    "scatter": scatter(lambda old, new: new),
    "scatter-add": scatter(np.add),
    "scatter-mul": scatter(np.multiply),
    "scatter-max": scatter(np.maximum),
    "scatter-min": scatter(np.minimum),
    "iota": lambda *, dtype, shape, dimension, **_: broadcast_in_dim(
        np.arange(shape[dimension], dtype=dtype), shape=shape, broadcast_dimensions=(dimension,)
    ),
    "convert_element_type": convert,
    "bitcast_convert_type": lambda x, *, new_dtype: np.ascontiguousarray(x).view(new_dtype).reshape(x.shape),
    "random_seed": lambda x, **_: pairs((np.zeros(x.shape, np.uint32), x.astype(np.uint32))),
    "random_wrap": lambda x, **_: pairs((x[..., 0], x[..., 1])),
    "random_unwrap": lambda keys: words_of(keys),
    "random_split": lambda keys, *, shape: pairs(cipher(keys, counter(tuple(shape)))),
    "random_fold_in": fold_in,
    "random_bits": random_bits,
}
