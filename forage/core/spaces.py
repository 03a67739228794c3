"""Gymnasium spaces in JAX: examples, random samples, clipping, and the facts that a network needs about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium import spaces

from forage.core.loading import LazyModule
from forage.core.types import ForageError

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    from jaxtyping import Array, Bool, Float, Int, Key, PyTree, Shaped
else:
    jax, jnp = LazyModule("jax"), LazyModule("jax.numpy")

MASK, STATE, PRESENT = "action_mask", "forage:state", "forage:present"
"""The keys besides "observation" of a dictionary that carries more than the observation.

`MASK`: which discrete actions are allowed (non-zero). `STATE`: what a central critic may see, and the policy not.
`PRESENT`: 1 where the agent acts on this observation, 0 where it waits (for its turn, or because it has fallen and its
team plays on), -1 where it has left and nothing that comes is to its credit. The last two have a prefix, so that an
environment's own entries called "state" or "present" are observations like any other.
"""

ENORMOUS = 1e18
"""A bound beyond this is none: squares of such numbers leave float32, and people write the largest one for infinity."""


class Tokens(spaces.MultiDiscrete):
    """A sequence of `length` token ids, `int32[length]`: words, characters, instructions.

    Ids run from 1 to `vocabulary - 1`; 0 is the pad, which fills the places that a shorter sequence leaves. `end` is
    the id that ends a text, where one does, and `ends` has all that do, `end` first.
    """

    PAD = 0

    def __init__(
        self,
        length: int,
        vocabulary: int,
        seed: int | np.random.Generator | None = None,
        end: int | Sequence[int] | None = None,
    ):
        """`vocabulary` counts the pad. Raises `ForageError` for less than one place or two ids."""
        if length < 1 or vocabulary < 2:
            raise ForageError(
                f"Tokens need a length of 1 or more and a vocabulary of 2 or more, the pad counted; "
                f"got length={length} and vocabulary={vocabulary}."
            )
        self.length, self.vocabulary = int(length), int(vocabulary)
        self.ends: tuple[int, ...] = () if end is None else tuple(end) if isinstance(end, Sequence) else (end,)
        self.end: int | None = self.ends[0] if self.ends else None
        super().__init__(np.full(self.length, self.vocabulary), np.int32, seed)  # pyrefly: ignore[no-matching-overload]

    def __repr__(self) -> str:
        return f"Tokens({self.length}, {self.vocabulary})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokens) and all(
            getattr(self, name) == getattr(other, name) for name in ("length", "vocabulary", "ends")
        )


class MixedSpace(spaces.Space[Any]):
    """Choices and numbers in one action: a `float32` vector of the options chosen, then the numbers.

    `nested` is the environment's own space, a Dict or Tuple; `forage.core.arrays.ActionNesting` makes its elements.
    """

    def __init__(self, choices: spaces.MultiDiscrete, numbers: spaces.Box, nested: spaces.Space[Any], seed: Any = None):
        """Take the flat spaces of choices, which count from 0, and of numbers, each in the order of `nested`."""
        self.choices, self.numbers, self.nested = choices, numbers, nested
        self.low = np.concatenate([np.zeros(choices.shape), numbers.low]).astype(np.float32)
        self.high = np.concatenate([choices.nvec - 1, numbers.high]).astype(np.float32)
        super().__init__(self.low.shape, np.float32, seed)

    @property
    def split(self) -> int:
        """Return the number of choices, which is the place of the first number."""
        return len(self.choices.nvec)

    @property
    def is_np_flattenable(self) -> bool:
        return True

    def sample(self, mask: Any = None, probability: Any = None) -> np.ndarray:
        """Draw a random element; the numbers as Gymnasium's Box draws them."""
        for part in (self.choices, self.numbers):
            part.seed(int(self.np_random.integers(2**31)))
        return np.concatenate([self.choices.sample(), self.numbers.sample()]).astype(np.float32)

    def contains(self, x: Any) -> bool:
        values = np.asarray(x)
        if values.shape != self.shape or values.dtype.kind not in "iuf":
            return False
        within = bool(((values >= self.low) & (values <= self.high)).all())
        return within and bool((values[: self.split] % 1 == 0).all())

    def __repr__(self) -> str:
        return str(self.nested)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MixedSpace) and self.nested == other.nested


def example(space: spaces.Space[Any]) -> PyTree[Array]:
    """Zeros with the shape and dtype of one element of `space`."""
    if isinstance(space, spaces.Dict):
        return {name: example(inner) for name, inner in space.items()}
    if isinstance(space, spaces.Discrete):
        return jnp.zeros((), jnp.int32)
    if isinstance(space, spaces.MultiDiscrete):
        return jnp.zeros(space.shape, jnp.int32)
    if space.shape is None:
        raise ForageError(unknown_space(space))
    return jnp.zeros(space.shape, jax.dtypes.canonicalize_dtype(space.dtype))


def sample(space: spaces.Space[Any], key: Key[Array, ""], mask: Bool[Array, " actions"] | None = None) -> PyTree[Array]:
    """Draw a random element of an action space: discrete (where `mask` allows), multi-discrete or box.

    Choices and bounded entries are uniform; an entry without bounds is normal about its `anchor`.
    """
    if isinstance(space, MixedSpace):
        choice_key, number_key = jax.random.split(key)
        drawn = sample(space.choices, choice_key, mask), sample(space.numbers, number_key)
        return jnp.concatenate([part.astype(jnp.float32) for part in drawn])
    if isinstance(space, spaces.Discrete):
        if mask is None:
            return jax.random.randint(key, (), 0, int(space.n))
        return jnp.argmax(jnp.where(allowed(mask), jax.random.uniform(key, mask.shape), -1.0)).astype(jnp.int32)
    if isinstance(space, spaces.MultiDiscrete):
        if mask is None:
            return jax.random.randint(key, space.shape, 0, jnp.asarray(space.nvec))
        cuts = np.cumsum(space.nvec.reshape(-1))[:-1]
        scores = zip(jnp.split(jax.random.uniform(key, mask.shape), cuts), jnp.split(mask, cuts), strict=True)
        return jnp.stack([jnp.argmax(jnp.where(allowed(m), score, -1.0)) for score, m in scores]).astype(jnp.int32)
    assert isinstance(space, spaces.Box)
    low, high, bounded = np.asarray(space.low, np.float32), np.asarray(space.high, np.float32), is_bounded(space)
    if bounded.all():
        return jax.random.uniform(key, space.shape, minval=low, maxval=high)
    least, most = np.where(bounded, low, 0.0), np.where(bounded, high, 1.0)
    uniform = jax.random.uniform(key, space.shape, minval=least, maxval=most)
    normal = anchor(space) + jax.random.normal(jax.random.fold_in(key, 1), space.shape)
    return clip(space, jnp.where(bounded, uniform, normal))


def allowed(mask: Bool[Array, " actions"]) -> Bool[Array, " actions"]:
    """Return the mask of one choice; a mask without any option becomes a mask of all, as a choice must be made."""
    return mask | ~mask.any()


def clip(space: spaces.Space[Any], action: PyTree[Array]) -> PyTree[Array]:
    """Clip each number of an action to the bounds that it has, also in Dicts and Tuples; choices pass unchanged."""
    if isinstance(space, spaces.Dict):
        return {name: clip(inner, action[name]) for name, inner in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(clip(inner, part) for inner, part in zip(space.spaces, action, strict=True))
    if isinstance(space, MixedSpace):
        return jnp.clip(action, jnp.asarray(space.low), jnp.asarray(space.high))
    if not isinstance(space, spaces.Box) or not (np.isfinite(space.low).any() or np.isfinite(space.high).any()):
        return action
    return jnp.clip(action, jnp.asarray(space.low, jnp.float32), jnp.asarray(space.high, jnp.float32))


def is_bounded(space: spaces.Box) -> Bool[np.ndarray, "*shape"]:
    """Return the mask of a box's entries that have bounds on both sides below `ENORMOUS`."""
    return (np.asarray(space.low, float) >= -ENORMOUS) & (np.asarray(space.high, float) <= ENORMOUS)


def anchor(space: spaces.Box) -> Float[np.ndarray, "*shape"]:
    """Return for each entry of a box the number nearest to zero that it may be."""
    return np.clip(0.0, np.asarray(space.low, np.float32), np.asarray(space.high, np.float32))


def carries_more(keys: Iterable[str]) -> bool:
    """Return whether a dictionary with these keys is an observation with further entries."""
    beside = set(keys) - {"observation"}
    return beside < set(keys) and set() < beside <= {MASK, STATE, PRESENT}


def split_mask(observation: PyTree[Array]) -> tuple[PyTree[Array], Bool[Array, " actions"] | None]:
    """Split an observation into the observation proper and the mask of allowed actions (`None`: all)."""
    if isinstance(observation, dict) and carries_more(observation):
        mask = observation.get(MASK)
        return observation["observation"], None if mask is None else mask != 0
    return observation, None


def present(observation: PyTree[Array]) -> Int[Array, "*agent"] | None:
    """Return whether the agent acts on this observation: 1, 0 or -1 (`None`: always)."""
    if isinstance(observation, dict) and PRESENT in observation and carries_more(observation):
        return observation[PRESENT]
    return None


PRESENCE = spaces.Box(-1, 1, (), np.int8)
"""The space of `present`."""


class Picture(NamedTuple):
    """A box read as a picture: its axes in the order `axes`, then in the `shape` height, width, channels."""

    axes: tuple[int, ...]
    shape: tuple[int, int, int]

    def __call__(self, values: Any) -> Any:
        """Return values `[*batch, *box]`, of JAX or NumPy, as `[*batch, height, width, channels]`."""
        if self.axes == (0, 1, 2):
            return values
        batch = values.ndim - len(self.axes)
        order = (*range(batch), *(batch + axis for axis in self.axes))
        return values.transpose(order).reshape(*values.shape[:batch], *self.shape)


LEAST, SCREEN = 16, 32
"""The least height and width of a picture whose channels come first: 4 channels or fewer, and stacked ones (to 16)."""


def picture(space: spaces.Space[Any]) -> Picture | None:
    """Return the interpretation of a space as a picture, or `None` if it is none.

    | shape                                  | read as                                                             |
    |----------------------------------------|---------------------------------------------------------------------|
    | `(3, 64, 64)`, `(12, 84, 84)`          | channels, height, width, where the first axis is a few and the      |
    |                                        | others have the size of a picture (`LEAST`, `SCREEN`)               |
    | `(84, 84, 4)`, other three axes        | height, width, channels                                             |
    | `(84, 84)` of bytes                    | height, width, of one channel                                       |
    | `(4, 84, 84, 3)`, `(4, 3, 84, 84)`     | pictures behind one another; all their channels are one picture's   |
    """
    if not isinstance(space, spaces.Box) or 0 in space.shape:
        return None
    shape = space.shape
    if len(shape) == 3:
        first = channels_first(shape)
        height, width, channels = (*shape[1:], shape[0]) if first else shape
        return (
            Picture((1, 2, 0) if first else (0, 1, 2), (height, width, channels)) if min(height, width) >= 3 else None
        )
    if len(shape) == 2 and is_bytes(space) and min(shape) >= LEAST:
        return Picture((0, 1), (*shape, 1))
    if len(shape) == 4 and is_bytes(space):
        stack = shape[0]
        if channels_first(shape[1:]):
            return Picture((2, 3, 0, 1), (shape[2], shape[3], stack * shape[1]))
        if shape[3] <= 4 and min(shape[1:3]) >= LEAST:
            return Picture((1, 2, 0, 3), (shape[1], shape[2], stack * shape[3]))
    return None


def channels_first(shape: tuple[int, ...]) -> bool:
    """Return whether three axes are channels, height and width rather than height, width and channels."""
    few, smallest = shape[0], min(shape[1:])
    return (few <= 4 and smallest >= LEAST) or (few <= 16 and smallest >= SCREEN)


def is_bytes(space: spaces.Box) -> bool:
    """Return whether the values of a box are bytes, possibly in another dtype: its bounds are 0 and 255 throughout."""
    return bool((np.asarray(space.low) == 0).all() and (np.asarray(space.high) == 255).all())


UNBOUNDED = (2.0**31, 2.0**32)
"""Bounds of whole numbers that are none: the largest number of a type, which people write for infinity."""


class Whole(spaces.Box):
    """A `float32` box of whole numbers that may be too large for `int32`."""

    def __init__(self, low: Any, high: Any, shape: Any = None, dtype: Any = np.float32, seed: Any = None):
        super().__init__(low, high, shape, dtype, seed)


class Entries:
    """A constant of one number for each entry of a box, which can be hashed: for static fields of networks."""

    def __init__(self, values: Any):
        self.values = np.array(values)
        self.values.setflags(write=False)
        self._exact = (self.values.shape, self.values.dtype.str, self.values.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entries) and self._exact == other._exact

    def __hash__(self) -> int:
        return hash(self._exact)

    def __repr__(self) -> str:
        return f"Entries({self.values.tolist()})"


class OneFactor(spaces.Box):
    """A box of whole numbers of which networks see each entry over the largest bound of all.

    Runs from before each entry had a factor of its own have learned it so, and act and go on with it.
    """

    @classmethod
    def from_box(cls, box: spaces.Box) -> OneFactor:
        """Return a box as one of this kind."""
        return cls(box.low, box.high, box.shape, np.dtype(box.dtype).type)


def with_one_factor(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return the space with `OneFactor` in place of each box of whole numbers that is read otherwise today."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: with_one_factor(inner) for name, inner in space.items()})
    if not isinstance(space, spaces.Box) or not reads_by_entry(space):
        return space
    return (
        spaces.Box(space.low, space.high, space.shape, np.float32)
        if isinstance(space, Whole)
        else OneFactor.from_box(space)
    )


def is_whole(space: spaces.Space[Any]) -> bool:
    """Return whether a space is a box of whole numbers."""
    return isinstance(space, spaces.Box) and (space.dtype.kind in "iu" or isinstance(space, Whole))


def is_limited(space: spaces.Box) -> Bool[np.ndarray, "*shape"]:
    """Return the mask of the entries of a box of whole numbers that have meaningful bounds on both sides."""
    sides = (np.abs(np.asarray(bound, float)) for bound in (space.low, space.high))
    # With room for the rounding of `float32`, in which larger ones travel.
    each = [(side < ENORMOUS) & ~np.isclose(side[..., None], UNBOUNDED, 1e-6, 0).any(-1) for side in sides]
    return each[0] & each[1]


def reads_by_entry(space: spaces.Space[Any]) -> bool:
    """Return whether a space has a box of whole numbers whose entries have offsets or factors of their own."""
    if isinstance(space, spaces.Dict):
        return any(reads_by_entry(inner) for inner in space.values())
    if not isinstance(space, spaces.Box) or isinstance(space, OneFactor):
        return False
    return (
        not is_read_raw(space)
        if isinstance(space, Whole)
        else (offset_of(space) is not None or isinstance(scale_of(space), np.ndarray))
    )


def scale_of(space: spaces.Space[Any]) -> float | Float[np.ndarray, "*shape"]:
    """Return the factor of whole numbers before a network sees them: 1 / the bound of each entry, where it is large.

    One number where all entries have the same factor, else an array of the box's shape. Bytes of an image become 0 to
    1, and a clock that counts to 4000 drowns nothing beside it and makes nothing small. Entries that count to a
    hundred at most stay as they are, and so do boards, images of whole numbers that are no bytes: they name things,
    and names far below the bound would all become next to nothing. Floats are for `normalise_observation`, but a
    picture of floats from 0 to 255 holds bytes. Entries without bounds stay as they are.
    """
    if isinstance(space, spaces.Box) and space.dtype.kind == "f" and not isinstance(space, Whole):
        return 1 / 255 if is_bytes(space) and picture(space) is not None else 1.0
    if not isinstance(space, spaces.Box) or not is_whole(space) or 0 in space.shape:
        return 1.0
    board, pictures = len(space.shape) == 3, space.dtype == np.uint8
    if board and not pictures:
        return 1.0
    bound = np.maximum(np.abs(np.asarray(space.low, float)), np.abs(np.asarray(space.high, float)))
    if isinstance(space, OneFactor):
        bound = np.broadcast_to(bound.max(), bound.shape)
    elif (offset := offset_of(space)) is not None:
        low, high = (np.asarray(side, float) - offset for side in (space.low, space.high))
        bound = np.maximum(np.abs(low), np.abs(high))
    if isinstance(space, OneFactor):
        scaled = bound > 0 if board else (bound > 100) & (bound < UNBOUNDED[0] - 1)
    else:
        scaled = bound > 0 if board else (bound > 100) & is_limited(space)
    factor = np.where(scaled, 1 / np.maximum(bound, 1), 1.0)
    first = float(factor.flat[0])
    return first if (factor == first).all() else factor


def offset_of(space: spaces.Space[Any]) -> Shaped[np.ndarray, "*shape"] | None:
    """Return the number that each entry of a box counts from, where the bounds are whole numbers and leave zero out.

    It is the bound nearest to zero, and 0 for entries that may be zero or have no bounds. Years from 1990 to 2030 are 0
    to 40 to a network; over their bound they would all be 1. `None`: no entry of the space has one.
    """
    if not isinstance(space, spaces.Box) or isinstance(space, OneFactor) or not is_whole(space):
        return None
    if len(space.shape) == 3 or picture(space) is not None:  # names of things, and colours
        return None
    low, high = np.asarray(space.low, float), np.asarray(space.high, float)
    far = (np.maximum(np.abs(low), np.abs(high)) > 100) & is_limited(space)
    offset = np.where(far, np.clip(0, low, high), 0)
    return offset.astype(np.float32 if isinstance(space, Whole) else np.int32) if offset.any() else None


def is_read_raw(space: spaces.Space[Any]) -> bool:
    """Return whether networks see the numbers of a space as they are."""
    scale = scale_of(space)
    return isinstance(scale, float) and scale == 1 and offset_of(space) is None


def is_open(space: spaces.Space[Any]) -> bool:
    """Return whether a space is a box of whole numbers with an entry without bounds."""
    return isinstance(space, spaces.Box) and is_whole(space) and not is_limited(space).all()


def resize_box(box: spaces.Box, shape: tuple[int, ...]) -> spaces.Box:
    """Return the box of pictures of another size, whose pixels are means: each channel keeps its own bounds."""
    kept = len(box.shape) == len(shape) == 3 and box.shape[2] == shape[2]
    axes = (0, 1) if kept else tuple(range(len(box.shape)))
    low, high = (np.broadcast_to(bound, shape).copy() for bound in (box.low.min(axes), box.high.max(axes)))
    return spaces.Box(low, high, shape, np.dtype(box.dtype).type)


def reading(space: spaces.Space[Any]) -> list[str]:
    """Return a sentence for each part of an observation whose layout is not plainly height, width and channels."""
    lines = []
    for path, leaf in spaces_by_path(observation_part(space)).items():
        found = picture(leaf)
        if found is None:
            continue
        what = f"observation {'.'.join(path)}".strip()
        size, own = " x ".join(map(str, leaf.shape or ())), found.shape
        if found.axes != (0, 1, 2):
            lines.append(f"{what} of {size} is read as a picture {own[0]} high, {own[1]} wide, with {own[2]} channels")
        elif leaf.shape[0] < min(leaf.shape[1:]):  # pyrefly: ignore[unsupported-operation]
            lines.append(f"{what} of {size} is read as height x width x channels; put channels last where it is not so")
    return lines


def has_no_numbers(space: spaces.Space[Any]) -> bool:
    """Return whether an element of a space holds no number at all."""
    return all(leaf.shape is not None and 0 in leaf.shape for leaf in spaces_by_path(space).values())


def check_spaces(name: str, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
    """Raise `ForageError` for empty spaces of observations or actions, and for a mask that fits no action."""
    if has_no_numbers(observation_part(observation_space)):
        raise ForageError(
            f"{name} has observations in {describe_space(observation_part(observation_space))}: there is nothing to "
            f"see."
        )
    for path, leaf in spaces_by_path(observation_space).items():
        if leaf.shape is not None and 0 in leaf.shape:
            raise ForageError(f"{name} shows {'.'.join(path)}, in which there is nothing to see; leave that part out.")
    fixed = isinstance(action_space, spaces.Box) and bool((action_space.low == action_space.high).all())
    if has_no_numbers(action_space) or fixed:
        raise ForageError(f"{name} has actions in {action_space}: there is nothing to choose.")
    if not isinstance(observation_space, spaces.Dict) or not carries_more(observation_space.spaces):
        return
    if MASK not in observation_space.spaces:
        return
    entries, wanted = observation_space[MASK].shape, choices(action_space)
    if wanted is None:
        raise ForageError(
            f"{name} has an {MASK} beside its observation, and actions in {action_space}; a mask says which of "
            f"finitely many choices are allowed, so leave it out or make the actions choices."
        )
    if entries != (wanted,):
        shape = entries[0] if entries is not None and len(entries) == 1 else f"shape {entries}, not so many,"
        raise ForageError(
            f"{name} has an {MASK} with {shape} entries for the {wanted} choices of {action_space}; it should have one "
            f"for each."
        )


def choices(space: spaces.Space[Any]) -> int | None:
    """Return the number of entries of a mask for an action space, or `None` if actions are no choices."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    space = space.choices if isinstance(space, MixedSpace) else space
    return int(space.nvec.sum()) if isinstance(space, spaces.MultiDiscrete) else None


def choice_starts(space: spaces.Space[Any]) -> list[int] | None:
    """Return the place in a mask at which the options of each choice begin, or `None` if actions are no choices."""
    space = space.choices if isinstance(space, MixedSpace) else space
    if isinstance(space, spaces.MultiDiscrete):
        return [0, *np.cumsum(space.nvec.ravel())[:-1].tolist()]
    return [0] if isinstance(space, spaces.Discrete) else None


class OneHot(spaces.Box):
    """A number below `size`, as a vector that is 1 there and 0 elsewhere. A box, for those who need not know."""

    def __init__(self, size: int) -> None:
        super().__init__(0.0, 1.0, (size,), np.float32)


class StackedBox(spaces.Box):
    """A box of the last `frames` observations, side by side on one axis, the oldest first.

    A box, for those who need not know; a replay keeps each observation once where it does.
    """

    def __init__(self, low: Any, high: Any, dtype: Any, frames: int, axis: int = -1) -> None:
        super().__init__(low, high, dtype=dtype)
        self.frames, self.axis = frames, axis % len(self.shape)


def observation_part(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return the space of the observation proper, without the entries next to it."""
    return space["observation"] if isinstance(space, spaces.Dict) and carries_more(space.spaces) else space


def central(space: spaces.Space[Any]) -> spaces.Space[Any] | None:
    """Return the space of a central critic's observation, if there is one."""
    return space[STATE] if isinstance(space, spaces.Dict) and carries_more(space) and STATE in space.spaces else None


def fit_dtype(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return `value` in `dtype`. Raises `ValueError` if that would change it: a fraction, or a number too large."""
    if value.dtype == dtype:
        return value
    # Integers may be shortened (int64 to int32) where their values fit, floats too; a float never becomes an integer.
    whole = value.dtype.kind in "iub" and dtype.kind in "iub"
    if not (whole or np.can_cast(value.dtype, dtype, "same_kind")):
        raise ValueError(f"{value.dtype} does not become {dtype}")
    if whole and value.size and not np.can_cast(value.dtype, dtype):
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        if value.min() < low or value.max() > high:
            entry = tuple(np.argwhere((value < low) | (value > high))[0].tolist())
            where = f" at entry {entry[0] if len(entry) == 1 else entry}" if entry else ""
            raise ValueError(f"{value[entry]}{where} does not fit into {dtype}")
    with np.errstate(over="ignore"):  # infinity, which is refused by whoever learns from it
        return value.astype(dtype)


def is_bounded_box(space: spaces.Space[Any]) -> bool:
    """Return whether actions are continuous, with bounds."""
    return isinstance(space, spaces.Box) and bool(is_bounded(space).all()) and np.issubdtype(space.dtype, np.floating)


def describe_space(space: spaces.Space[Any]) -> str:
    """Return a few words for messages: `Discrete(2)`, `Box(6,)`."""
    if isinstance(space, spaces.Box):
        return f"Box{tuple(space.shape)}"
    if isinstance(space, spaces.Dict):
        return f"Dict({', '.join(f'{name}: {describe_space(inner)}' for name, inner in space.items())})"
    if isinstance(space, spaces.Tuple):
        return f"Tuple({', '.join(map(describe_space, space.spaces))})"
    return describe_space(space.nested) if isinstance(space, MixedSpace) else str(space)


def unknown_space(space: spaces.Space[Any]) -> str:
    """Say that a space is none of those that values travel in."""
    return (
        f"Spaces are boxes, discrete, multi-discrete, multi-binary, tokens or dictionaries of these, not {space}; "
        f'a tuple can be a dictionary with the keys "0", "1", ..., and a text tokens.'
    )


def spaces_by_path(space: spaces.Space[Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], spaces.Space[Any]]:
    """Return the spaces inside nested dictionaries by path; a space that is no dictionary has the path `()`."""
    if not isinstance(space, spaces.Dict):
        return {path: space}
    return {at: leaf for name, inner in space.items() for at, leaf in spaces_by_path(inner, (*path, name)).items()}


def nested_leaves(
    space: spaces.Space[Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], spaces.Space[Any]]]:
    """Yield the leaves of Dicts and Tuples with their paths, and Dicts and Tuples that are empty."""
    if isinstance(space, spaces.Dict | spaces.Tuple) and space.spaces:
        parts = space.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, part in parts:
            yield from nested_leaves(part, (*path, str(key)))
    else:
        yield path, space


def to_json(space: spaces.Space[Any]) -> dict[str, Any]:
    """Return a space as plain data, so that a saved agent needs no environment to be loaded."""
    if isinstance(space, spaces.Dict):
        return {"kind": "dict", "spaces": {name: to_json(inner) for name, inner in space.items()}}
    if isinstance(space, MixedSpace):
        parts = {"choices": to_json(space.choices), "numbers": to_json(space.numbers)}
        return {"kind": "mixed", **parts, "nested": actions_to_json(space.nested)}
    if isinstance(space, spaces.Discrete):
        return {"kind": "discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, Tokens):
        end = {} if space.end is None else {"end": space.end if len(space.ends) == 1 else list(space.ends)}
        return {"kind": "tokens", "length": space.length, "vocabulary": space.vocabulary, **end}
    if isinstance(space, spaces.MultiDiscrete):
        start = {"start": space.start.tolist()} if space.start.any() else {}
        return {"kind": "multi-discrete", "nvec": space.nvec.tolist(), **start}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "multi-binary", "shape": list(space.shape)}
    if isinstance(space, spaces.Box):
        bounds = (space.low, space.high)
        low, high = (b.flat[0].item() if b.size and (b == b.flat[0]).all() else b.tolist() for b in bounds)
        whole = {"whole": True} if isinstance(space, Whole) else {}
        return {"kind": "box", "low": low, "high": high, "shape": list(space.shape), "dtype": str(space.dtype), **whole}
    raise ForageError(unknown_space(space))


def actions_to_json(space: spaces.Space[Any]) -> dict[str, Any]:
    """Return an environment's own space of actions as plain data: with Tuples, and the order of a Dict's parts."""
    if isinstance(space, spaces.Dict):
        return {"kind": "ordered", "spaces": [[name, actions_to_json(inner)] for name, inner in space.items()]}
    if isinstance(space, spaces.Tuple):
        return {"kind": "tuple", "spaces": list(map(actions_to_json, space.spaces))}
    return to_json(space)


def from_json(data: dict[str, Any]) -> spaces.Space[Any]:
    """Return the inverse of `to_json`."""
    kind = data["kind"]
    if kind == "dict":
        return spaces.Dict({name: from_json(inner) for name, inner in data["spaces"].items()})
    if kind == "ordered":
        return spaces.Dict([(name, from_json(inner)) for name, inner in data["spaces"]])
    if kind == "tuple":
        return spaces.Tuple([from_json(inner) for inner in data["spaces"]])
    if kind == "mixed":
        return MixedSpace(*(from_json(data[name]) for name in ("choices", "numbers", "nested")))  # pyrefly: ignore
    if kind == "discrete":
        return spaces.Discrete(data["n"], start=data["start"])
    if kind == "tokens":
        return Tokens(data["length"], data["vocabulary"], end=data.get("end"))
    if kind == "multi-discrete":
        return spaces.MultiDiscrete(data["nvec"], start=data.get("start"))
    if kind == "multi-binary":
        shape = data["shape"]
        return spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)
    dtype, shape = np.dtype(data["dtype"]), tuple(data["shape"])
    low, high = (np.broadcast_to(np.asarray(data[bound], dtype), shape) for bound in ("low", "high"))
    return (Whole if data.get("whole") else spaces.Box)(low.copy(), high.copy(), shape, dtype.type)


def unknown_actions(space: spaces.Space[Any]) -> str:
    """Say that policies cannot act in a space."""
    return (
        f"Agents act in Discrete and flat MultiDiscrete spaces that count from 0 and in Box spaces of floats, not in "
        f"{space}; wrap the environment, in forage.environments.wrappers.FlatActions for one."
    )


def same_shape(one: Any, other: Any) -> bool:
    """Return whether networks for one space fit another: spaces are of one kind and shape, bounds apart."""
    if hasattr(one, "spaces") or hasattr(other, "spaces"):
        inner, theirs = getattr(one, "spaces", {}), getattr(other, "spaces", {})
        return inner.keys() == theirs.keys() and all(same_shape(inner[name], theirs[name]) for name in inner)
    if isinstance(one, MixedSpace) and isinstance(other, MixedSpace):
        return same_shape(one.choices, other.choices) and same_shape(one.numbers, other.numbers)
    sizes = [np.asarray(getattr(space, "n", getattr(space, "nvec", 0))) for space in (one, other)]
    kinds = [spaces.Box if isinstance(space, spaces.Box) else type(space) for space in (one, other)]
    return kinds[0] is kinds[1] and one.shape == other.shape and np.array_equal(sizes[0], sizes[1])
