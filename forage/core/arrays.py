"""Gymnasium's spaces as arrays: the observations of other libraries' environments and data sets, and their actions.

Observations. Nested spaces stay nested: a Dict a dictionary, a Tuple a dictionary with the keys "0", "1", ..., a Text
`Tokens` (one id for each character, see `encode_text`); what counts from elsewhere counts from 0.

Actions. Agents act in Discrete, in flat MultiDiscrete and in Box spaces. Many choices (MultiBinary, MultiDiscrete of
any shape, a Box of whole numbers with `MOST_CHOICES` options at most, a Dict or Tuple of choices) are one flat
MultiDiscrete; a Dict or Tuple of boxes is one flat Box, whose whole numbers are rounded; a Dict or Tuple with choices
and other numbers is `MixedSpace`: a vector of the options chosen, then the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium import spaces
from jaxtyping import Int

from forage.core.host import array_dtype
from forage.core.loading import LazyModule
from forage.core.spaces import MixedSpace, Tokens, Whole, describe_space, is_limited, to_json
from forage.core.spaces import spaces_by_path as paths
from forage.core.types import ForageError

if TYPE_CHECKING:
    import jax
else:
    jax = LazyModule("jax")

ARRAY_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
CHOICES = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
MOST_CHOICES = 4096
"""Options, over all entries, up to which whole numbers in a Box of actions are choices; more are rounded numbers."""
Spaces = tuple[spaces.Space[Any], spaces.Space[Any]]  # of observations and of actions
WITHOUT = "--env.without"  # leaves a part of an environment's observation out


def is_empty(space: Any) -> bool:
    """Return whether a part of an observation is an array without numbers; it is left out."""
    return isinstance(space, ARRAY_SPACES) and 0 in (space.shape or ())


def array_space(name: str, space: Any, path: tuple[str, ...] = (), option: str = WITHOUT) -> spaces.Space[Any]:
    """Return the space of `as_arrays`. Raise `ForageError` if an observation has no fixed size.

    `option`: what leaves a part of the observation out.
    """
    if isinstance(space, spaces.Dict):
        kept = {key: part for key, part in space.spaces.items() if not is_empty(part)}
        return spaces.Dict({key: array_space(name, part, (*path, key), option) for key, part in kept.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Dict(
            {
                str(place): array_space(name, part, (), option)
                for place, part in enumerate(space.spaces)
                if not is_empty(part)
            }
        )
    if isinstance(space, spaces.Text):
        return Tokens(space.max_length, len(space.character_set) + 1)
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n))
    if isinstance(space, spaces.MultiDiscrete) and space.start.any():
        return spaces.MultiDiscrete(space.nvec)
    if isinstance(space, ARRAY_SPACES):
        return space
    raise unreadable(name, space, path, option)


def unreadable(name: str, space: Any, path: tuple[str, ...] = (), option: str = WITHOUT) -> ForageError:
    """Return one sentence for a space, the part at `path` of the observation, that cannot be made arrays."""
    part = f" as its part {'.'.join(path)}" if path else ""
    leave = f", and {option} {'.'.join(path)} leaves that part out" if path else ""
    try:
        also = "flatten=True works for it" if space.is_np_flattenable and option == WITHOUT else "its size changes"
        shown = str(space)
    except NotImplementedError:  # a space of another library's, whose words may be anything
        also, shown = "Gymnasium does not know it", type(space).__name__
    return ForageError(
        f"{name} has observations in {shown}{part}: {also}; "
        f"spaces made of Box, Discrete, MultiDiscrete, MultiBinary, Text, Dict and Tuple work{leave}."
    )


def vector_size(space: spaces.Space[Any]) -> bool:
    """Return whether Gymnasium can make one vector of it; it asks spaces of other libraries, which may not know."""
    try:
        return space.is_np_flattenable
    except NotImplementedError:
        return False


def as_arrays(space: Any, value: Any) -> Any:
    """Return an element of `space` as nested dictionaries of arrays."""
    if isinstance(space, spaces.Dict):
        if not isinstance(value, Mapping):
            return value  # which is none of the space, as is said when it is read
        kept = {key: part for key, part in space.spaces.items() if key in value and not is_empty(part)}
        return {key: as_arrays(part, value[key]) for key, part in kept.items()}
    if isinstance(space, spaces.Tuple):
        if len(value) != len(space.spaces):
            raise ForageError(f"An observation in {space} has {len(value)} parts; it should have {len(space.spaces)}.")
        return {str(at): as_arrays(part, value[at]) for at, part in enumerate(space.spaces) if not is_empty(part)}
    if isinstance(space, spaces.Text):
        return encode_text(space, value)
    if isinstance(space, spaces.Discrete):
        return np.asarray(value) - space.start if space.start else np.asarray(value)
    if isinstance(space, spaces.MultiDiscrete) and space.start.any():
        return np.asarray(value) - space.start
    try:
        return np.asarray(value)
    except ValueError:  # lists of different lengths, as is said when they are read
        return value


def rows_as_arrays(space: Any, value: Any) -> Any:
    """Return many elements of `space`, leaves `[row, ...]`, as nested dictionaries of arrays; see `as_arrays`."""
    if isinstance(space, spaces.Dict):
        return {key: rows_as_arrays(part, value[key]) for key, part in space.spaces.items() if not is_empty(part)}
    if isinstance(space, spaces.Tuple):
        return {str(at): rows_as_arrays(part, value[at]) for at, part in enumerate(space.spaces) if not is_empty(part)}
    if isinstance(space, spaces.Text):
        return np.stack([encode_text(space, plain_text(text)) for text in value])
    return np.asarray(as_arrays(space, np.asarray(value)))


def plain_text(text: Any) -> Any:
    """Return a text of a file as a string."""
    return text.decode() if isinstance(text, bytes) else text


def encode_text(space: spaces.Text, text: str) -> Int[np.ndarray, " length"]:
    """`int32[max_length]`: for each character its place in the sorted character set, counted from 1; 0 is the pad.

    Raises `ForageError` for a text that is too long, and for a character that the space does not have.
    """
    if not isinstance(text, str) or len(text) > space.max_length:
        raise ForageError(f"{text!r} is no text of at most {space.max_length} characters.")
    place = {character: number for number, character in enumerate(sorted(space.character_set), start=1)}
    if strange := sorted(set(text) - place.keys()):
        raise ForageError(f"The text {text!r} has the character {strange[0]!r}, which its space does not have.")
    ids = np.full(space.max_length, Tokens.PAD, np.int32)
    ids[: len(text)] = [place[character] for character in text]
    return ids


def decode_text(space: spaces.Text, ids: Int[np.ndarray, " length"]) -> str:
    """Return the text that `encode_text` was given."""
    characters = sorted(space.character_set)
    return "".join(characters[number - 1] for number in ids if number != Tokens.PAD)


def float_box(low: np.ndarray, high: np.ndarray) -> spaces.Box:
    """Return a `float32` box. A bound outside the range of `float32` counts as no bound."""
    limits = np.finfo(np.float32)
    low = np.where(low < limits.min, -np.inf, np.clip(low, limits.min, limits.max))
    high = np.where(high > limits.max, np.inf, np.clip(high, limits.min, limits.max))
    least, most = low.astype(np.float32), high.astype(np.float32)
    # Rounded inwards, so that what is within these bounds is within the given ones.
    inner = np.where(least < low, np.nextafter(least, np.float32(np.inf)), least)
    outer = np.where(most > high, np.nextafter(most, np.float32(-np.inf)), most)
    crossed = inner > outer
    return spaces.Box(np.where(crossed, least, inner), np.where(crossed, most, outer), low.shape, np.float32)


def travelling(space: Any) -> spaces.Space[Any]:
    """Return the same space in the dtypes that values travel in."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: travelling(part) for key, part in space.spaces.items()})
    if isinstance(space, spaces.Box) and (dtype := array_dtype(space)) != space.dtype:
        if dtype.kind == "f":
            box = float_box(space.low, space.high)
            return box if space.dtype.kind == "f" else Whole(box.low, box.high)
        limits = np.iinfo(dtype)
        low, high = (np.clip(bound, limits.min, limits.max) for bound in (space.low, space.high))
        return spaces.Box(low.astype(dtype), high.astype(dtype), space.shape, dtype.type)
    return space


def action_space(name: str, inner: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return the space that agents act in for an environment's own. Raise `ForageError` if there is none."""
    parts = list(inner_spaces(inner))
    if isinstance(inner, MixedSpace):
        return inner
    if isinstance(inner, spaces.Discrete):
        return spaces.Discrete(int(inner.n))
    if parts and is_choices(inner):
        return spaces.MultiDiscrete(np.concatenate([choices(part) for part in parts]))
    for part in parts:
        if isinstance(part, spaces.Box) and part.dtype.kind in "iu" and not is_limited(part).all():
            raise ForageError(
                f"{name} has actions in {inner}, with whole numbers without bounds; give them bounds (low and high), "
                f"or make them floats and round them in the environment."
            )
    if isinstance(inner, spaces.Box):
        return float_box(inner.low, inner.high) if inner.dtype.kind in "iu" else travelling(inner)
    boxes = [part for part in parts if not is_choices(part)]
    if not parts:
        raise ForageError(f"{name} has actions in {inner}, which has no parts; give it some, such as Discrete or Box.")
    if not all(isinstance(part, spaces.Box) and np.dtype(part.dtype).kind in "fiu" for part in boxes):
        raise ForageError(
            f"{name} has actions in {inner}; Box, Discrete, MultiDiscrete and MultiBinary work, and Dicts and Tuples "
            f"of these."
        )
    low, high = (np.concatenate([getattr(part, side).ravel() for part in boxes]) for side in ("low", "high"))
    if len(boxes) == len(parts):
        return float_box(low, high)
    chosen = spaces.MultiDiscrete(np.concatenate([choices(part) for part in parts if is_choices(part)]))
    return MixedSpace(chosen, float_box(low, high), inner)


def is_choices(space: Any) -> bool:
    """Return whether an action space is made of choices only."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return bool(space.spaces) and all(map(is_choices, inner_spaces(space)))
    return isinstance(space, CHOICES) or is_few(space)


def has_choices(space: Any) -> bool:
    """Return whether an action space is made of choices, or has some among boxes."""
    return any(map(is_choices, inner_spaces(space)))


def is_few(space: Any) -> bool:
    """Return whether a space is a box of whole numbers that are few enough to choose among."""
    if not isinstance(space, spaces.Box) or space.dtype.kind not in "iu" or 0 in space.shape:
        return False
    options = space.high.astype(float) - space.low.astype(float) + 1
    return bool(is_limited(space).all()) and bool(options.max() > 1) and bool(options.sum() <= MOST_CHOICES)


def as_actions(space: spaces.Space[Any], value: Any, count: int) -> np.ndarray:
    """Convert `count` elements of an environment's own action space to an agent's actions: the inverse of
    `ActionNesting`.

    `value`: leaves `[step, ...]`, nested as the space is.
    """
    if isinstance(space, spaces.Discrete):
        return np.asarray(value) - space.start
    chosen = is_choices(space)
    if isinstance(space, spaces.Box) and not chosen:
        return np.asarray(value, np.float32 if space.dtype.kind in "iu" else None)
    parts = [(leaf, np.asarray(array).reshape(count, -1)) for leaf, array in pair_leaves(space, value)]
    chosen_parts = [array - np.ravel(first_option(leaf)) for leaf, array in parts if is_choices(leaf)]
    numbers = [array for leaf, array in parts if not is_choices(leaf)]
    joined = np.concatenate([*chosen_parts, *numbers], axis=1)
    return joined.astype(np.float32) if chosen_parts and numbers else joined


def first_option(leaf: spaces.Space[Any]) -> np.ndarray:
    """Return the option that each entry of a choice counts from, in the shape of the leaf."""
    start = np.asarray(leaf.low if isinstance(leaf, spaces.Box) else getattr(leaf, "start", 0))
    return np.broadcast_to(start, leaf.shape or ())


class ActionNesting:
    """Conversion of an agent's actions in `space` to elements of the environment's own space `inner`.

    Actions are `[*batch, entries]`, and leaves of the elements `[*batch, ...]`, of NumPy or JAX as the actions are.
    Whole numbers are rounded, and numbers cut at the bounds of `inner`.
    """

    def __init__(self, space: spaces.Space[Any], inner: spaces.Space[Any]):
        leaves = list(inner_spaces(inner))
        self.inner = inner
        self.leaves = [ActionLeaf(leaf, is_choices(leaf)) for leaf in leaves]
        # Choices lie before numbers, each in the order of the leaves.
        order = sorted(range(len(leaves)), key=lambda i: isinstance(space, MixedSpace) and not self.leaves[i].chosen)
        ends = np.cumsum([int(np.prod(leaves[i].shape or (), dtype=int)) for i in order]).tolist()
        self.slices = [slice(0)] * len(leaves)
        for i, begin, end in zip(order, [0, *ends], ends, strict=False):
            self.slices[i] = slice(begin, end)

    def __call__(self, action: Any) -> Any:
        parts = (leaf(action[..., part]) for leaf, part in zip(self.leaves, self.slices, strict=True))
        return nest_leaves(self.inner, parts)


class ActionLeaf(NamedTuple):
    """A leaf of an environment's action space, and whether its entries are options chosen."""

    space: Any
    chosen: bool

    def __call__(self, numbers: Any) -> Any:
        """Return elements of the leaf, `[*batch, *shape]`, from their entries in an agent's actions."""
        space = self.space
        values = numbers.reshape((*numbers.shape[:-1], *(space.shape or ())))
        dtype = space.dtype if isinstance(values, np.ndarray) else jax.dtypes.canonicalize_dtype(space.dtype)
        if self.chosen:
            found = (values.astype(np.int32) + first_option(space)).astype(dtype)
            return int(found) if isinstance(found, np.integer) else found
        if space.dtype.kind in "iu":
            # Rounded before they are cut, as bounds of whole numbers may be finer than `float32`.
            found = values.round().clip(space.low, space.high).astype(dtype)
        else:
            # Agents' bounds are float32, and the environment's own may lie within those by rounding.
            found = values.astype(dtype).clip(space.low.astype(dtype), space.high.astype(dtype))
        return np.asarray(found) if isinstance(found, np.generic) else found


def map_arrays(function: Callable[..., Any], *trees: Any) -> Any:
    """Return nested dictionaries with the function's value in place of each array, or of the arrays at one place.

    Keys come in sorted order, as JAX has them. A tuple stays a tuple.
    """
    first = trees[0]
    if isinstance(first, Mapping):
        return {key: map_arrays(function, *(tree[key] for tree in trees)) for key in sorted(first)}
    if type(first) is tuple:
        return tuple(map_arrays(function, *parts) for parts in zip(*trees, strict=True))
    return function(*trees)


def list_arrays(tree: Any) -> list[Any]:
    """Return the arrays of nested dictionaries, in the order of `map_arrays`."""
    found: list[Any] = []
    map_arrays(found.append, tree)
    return found


def nest_leaves(space: spaces.Space[Any], leaves: Iterator[Any]) -> Any:
    """Return the values of a space's leaves, in order, nested as the space is."""
    if isinstance(space, spaces.Dict):
        return {key: nest_leaves(part, leaves) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(nest_leaves(part, leaves) for part in space.spaces)
    return next(leaves)


def pair_leaves(space: spaces.Space[Any], value: Any) -> Iterator[tuple[spaces.Space[Any], Any]]:
    """Return the leaves of a space, each with its part of a value."""
    if isinstance(space, spaces.Dict):
        for key, part in space.items():
            yield from pair_leaves(part, value[key])
    elif isinstance(space, spaces.Tuple):
        for at, part in enumerate(space.spaces):
            yield from pair_leaves(part, value[at])
    else:
        yield space, value


def inner_spaces(space: spaces.Space[Any]) -> Iterator[spaces.Space[Any]]:
    """Yield the spaces inside Dicts and Tuples, in order."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for part in space.values() if isinstance(space, spaces.Dict) else space.spaces:
            yield from inner_spaces(part)
    else:
        yield space


def choices(space: Any) -> np.ndarray:
    """Return the number of options of each choice of a leaf."""
    if isinstance(space, spaces.Discrete):
        return np.array([int(space.n)])
    if isinstance(space, spaces.Box):
        return np.ravel(space.high).astype(np.int64) - np.ravel(space.low).astype(np.int64) + 1
    return np.ravel(space.nvec) if isinstance(space, spaces.MultiDiscrete) else np.full(int(np.prod(space.shape)), 2)


def check_alike(name: str, first: Spaces, other: Spaces, which: str) -> None:
    """Raise `ForageError` if `other` copy of an environment has other spaces than the `first`.

    Bounds of floats that are observed may differ: nothing depends on them.
    """
    for kind, ours, theirs in zip(("observations", "actions"), first, other, strict=True):
        if meaning(kind, ours) != meaning(kind, theirs):
            found, wanted = describe_space(theirs), describe_space(ours)
            if found == wanted:
                found, wanted = str(theirs), str(ours)
            raise ForageError(
                f"{name}: {which} has {kind} in {found}, and the first has {wanted}; all copies of an environment "
                f"have the same spaces, so declare one that holds all levels and draw the level in reset."
            )


def meaning(kind: str, space: spaces.Space[Any]) -> Any:
    """Return the properties that two copies of a space of observations or actions must share."""
    if kind == "actions":
        starts = [np.asarray(getattr(leaf, "start", getattr(leaf, "low", 0))).tolist() for leaf in inner_spaces(space)]
        return to_json(action_space("", space)), starts
    kept: dict[tuple[str, ...], Any] = {}
    for path, leaf in paths(space).items():
        if isinstance(leaf, spaces.Box) and leaf.dtype.kind == "f":
            kept[path] = leaf.shape, leaf.dtype.str
        else:
            kept[path] = to_json(leaf)
    return kept
