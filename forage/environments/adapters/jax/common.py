"""Shared code of the adapters to other JAX libraries: spaces, types, options and pictures in Forage's form."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, UInt8

from forage.core.checkpoint import is_key
from forage.core.errors import did_you_mean
from forage.core.fields import numeric_fields
from forage.core.types import ForageError

FOREVER = np.int32(2**31 - 1)
"""A time limit that is never reached."""


def strong(tree: PyTree[Any]) -> PyTree[Array]:
    """Return the same values as arrays without weak types; random keys pass unchanged."""

    def leaf(value: Any) -> Array:
        value = jnp.asarray(value)
        if is_key(value):
            return value
        return jax.lax.convert_element_type(value, value.dtype)

    return jax.tree.map(leaf, tree)


def dtype_of(dtype: Any) -> Any:
    """Return the dtype of an observation in Forage: float32, int32, uint8 or bool."""
    dtype = np.dtype(dtype)
    if dtype in (np.dtype(np.uint8), np.dtype(np.bool_)):
        return dtype.type
    return np.float32 if jnp.issubdtype(dtype, jnp.floating) else np.int32


def to_observation(tree: PyTree[Any]) -> PyTree[Array]:
    """Return an observation in the dtypes of `dtype_of`."""
    return jax.tree.map(lambda x: jax.lax.convert_element_type(x, dtype_of(jnp.asarray(x).dtype)), tree)


def box(low: Any, high: Any, shape: tuple[int, ...], dtype: Any) -> gymnasium.spaces.Box:
    """Return a box in the dtype of `dtype_of`; float32's largest number, some libraries' sign for no bound, becomes
    infinity.
    """
    dtype = dtype_of(dtype)
    low, high = (np.broadcast_to(np.asarray(bound), shape) for bound in (low, high))
    if np.dtype(dtype) == np.bool_:
        return gymnasium.spaces.Box(0, 1, shape, dtype)
    if dtype is np.float32:
        limit = np.finfo(np.float32).max
        low, high = np.where(low <= -limit, -np.inf, low), np.where(high >= limit, np.inf, high)
    else:
        limits = np.iinfo(dtype)
        low, high = (np.clip(np.asarray(bound, np.float64), limits.min, limits.max) for bound in (low, high))
    return gymnasium.spaces.Box(low.astype(dtype), high.astype(dtype), shape, dtype)


def unbounded_box(shape: tuple[int, ...], dtype: Any) -> gymnasium.spaces.Box:
    """Return a box of every value that an array can have."""
    dtype = dtype_of(dtype)
    if dtype in (np.float32, np.bool_):
        return box(-np.inf, np.inf, shape, dtype)
    return box(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype)


def flatten_leaves(tree: PyTree[Array]) -> Float[Array, " numbers"]:
    """Return all leaves behind one another as float32, dictionaries in the order of their names."""
    leaves = [jnp.asarray(leaf).astype(jnp.float32).reshape(-1) for leaf in jax.tree.leaves(tree)]
    return jnp.concatenate(leaves)


def flat_box(space: gymnasium.Space[Any]) -> gymnasium.spaces.Box:
    """Return the space of `flatten_leaves` of an element of `space`."""
    low, high = (np.concatenate([np.asarray(b).reshape(-1) for b in bounds(space, which)]) for which in ("low", "high"))
    return gymnasium.spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)


def bounds(space: gymnasium.Space[Any], which: str) -> list[Any]:
    """Lower or upper bounds of a space's arrays, in the order of `flatten_leaves`."""
    if isinstance(space, gymnasium.spaces.Dict):
        return [bound for name in sorted(space.spaces) for bound in bounds(space.spaces[name], which)]
    if isinstance(space, gymnasium.spaces.Discrete):
        return [np.asarray(0 if which == "low" else space.n - 1, np.float32)]
    return [getattr(space, which).astype(np.float32)]


def unknown_option(name: str, option: str, known: Iterable[str]) -> ForageError:
    """Return one sentence for an option that is not there."""
    known = sorted(set(known))
    hint = did_you_mean(difflib.get_close_matches(option, known, n=3, cutoff=0.4))
    return ForageError(f"{name} has no option {option!r}" + (hint or f"; it has {', '.join(known) or 'none'}."))


def with_parameters(
    name: str, parameters: Any, options: Mapping[str, Any], others: Iterable[str] = ()
) -> tuple[Any, dict[str, Any]]:
    """Return the library's parameters with the options among them put in, and the options that are left.

    Those must be in `others`, which the library's constructor takes. Raise `ForageError` if one is neither, or
    where a value does not fit the parameter's own.
    """
    known = [] if parameters is None else numeric_fields(parameters)
    rest: dict[str, Any] = {}
    for option, value in options.items():
        if option in known:
            parameters = parameters.replace(**{option: like(name, option, value, getattr(parameters, option))})
        elif option in others:
            rest[option] = value
        else:
            raise unknown_option(name, option, (*known, *others))
    return parameters, rest


def like(name: str, option: str, value: Any, default: Any) -> Any:
    """`value` with the type and shape of `default`."""
    wanted = jnp.asarray(default)
    given = np.asarray(value)
    try:
        fits = given.shape == wanted.shape and given.dtype.kind in "biuf"
        if wanted.dtype == bool or jnp.issubdtype(wanted.dtype, jnp.integer):
            fits = fits and bool((given == given.astype(np.int64)).all())
    except (TypeError, ValueError):
        fits = False
    if not fits:
        what = "a whole number" if jnp.issubdtype(wanted.dtype, jnp.integer) else "a number"
        kind = what if not wanted.shape else f"an array of shape {wanted.shape}"
        raise ForageError(f"{name}'s {option} is {kind} such as {np.asarray(default).tolist()}, not {value!r}.")
    # A Python number stays one, as the library's own default is.
    return type(default)(value) if isinstance(default, bool | int | float) else given.astype(wanted.dtype)


def construct(name: str, make: Any, *arguments: Any, **options: Any) -> Any:
    """Call a library's constructor and turn its errors into one sentence."""
    try:
        return make(*arguments, **options)
    except ForageError:
        raise
    except Exception as error:
        said = str(error).strip().splitlines()
        raise ForageError(
            f"{name} could not be made: {type(error).__name__}: {said[0] if said else 'no message'}."
        ) from error


def picture(name: str, image: Any) -> UInt8[np.ndarray, "height width 3"]:
    """Return an image as `uint8[height, width, 3]`; fractions are taken as brightness, and one number a pixel
    as grey.
    """
    image = np.asarray(image)
    if image.ndim == 2 or (image.ndim == 3 and image.shape[-1] == 1):
        image = np.repeat(image.reshape(*image.shape[:2], 1), 3, axis=-1)
    if image.dtype == bool:
        image = image * np.uint8(255)
    if image.dtype.kind == "f":
        image = np.round(255 * image) if image.max(initial=0) <= 1 else image
    if image.ndim != 3 or image.shape[-1] < 3:
        raise ForageError(f"{name} was drawn as an array of shape {image.shape}, which is no picture.")
    return np.ascontiguousarray(np.clip(image[..., :3], 0, 255).astype(np.uint8))


def figure_picture(figure: Any) -> UInt8[np.ndarray, "height width 3"]:
    """Return the picture of a Matplotlib figure, and close the figure."""
    import matplotlib.pyplot
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    image = np.asarray(canvas.buffer_rgba())[..., :3].copy()
    matplotlib.pyplot.close(figure)
    return image


def single(tree: PyTree[Any]) -> PyTree[np.ndarray]:
    """Return a state on the host, as plain arrays and typed keys."""
    return jax.tree.map(lambda x: x if is_key(x) else np.asarray(x), tree)
