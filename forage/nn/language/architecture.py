"""The sizes and choices that make a decoder-only transformer one of a family.

All families are pre-normalised blocks of attention and a gated MLP (`forage/nn/transformer.py`); what differs between
them is a few choices, which `FAMILIES` lists as transformers 5.24 makes them (models/*/configuration_*.py and
modeling_*.py). SmolLM and SmolLM2 are of the family `llama`; SmolLM3 is one of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from forage.core.errors import ForageError, nearest


class Family(NamedTuple):
    """The choices that a family leaves open, or makes."""

    attention_bias: tuple[bool, ...] = (False, True)  # of queries, keys and values
    out_bias: bool | None = None  # of what attention returns; `None`: as those
    mlp_bias: bool = False  # whether an MLP may have biases
    head_norm: bool = False  # whether each head of queries and keys is normalised
    windows: str = "none"  # which layers may have a window: none, each, or all alike
    unrotated: bool = False  # whether layers may be without positions


FAMILIES = {
    "llama": Family(mlp_bias=True),
    "mistral": Family(attention_bias=(False,), windows="all"),
    "qwen2": Family(attention_bias=(True,), out_bias=False, windows="each"),
    "qwen3": Family(head_norm=True, windows="each"),
    "smollm3": Family(mlp_bias=True, windows="each", unrotated=True),
}
ROPES = ("default", "linear", "dynamic", "llama3")


class Rope(NamedTuple):
    """Rotary positions: the angle of pair i at position t is t f_i, with f_i = base^(-2 i / head size).

    - `linear`: f_i / factor.
    - `llama3`: f_i / factor where the wavelength 2 pi / f_i is above `original` / `low`; f_i where it is below
      `original` / `high`; and in between a mixture by s = (original / wavelength - low) / (high - low).
    - `dynamic`: as without scaling up to `original` tokens. Beyond, transformers turns all keys anew with each longer
      batch, so that what is sampled token by token differs from what is scored at once; longer texts are refused here.
    """

    base: float = 10_000.0
    kind: str = "default"
    factor: float = 1.0
    low: float = 1.0
    high: float = 4.0
    original: int = 0  # tokens of the texts that it was trained with before it was scaled

    def frequencies(self, size: int) -> Float[np.ndarray, " half"]:
        """Return the angle of each pair of a head's numbers, for one position."""
        plain = 1 / self.base ** (np.arange(0, size, 2, dtype=np.float32) / size)
        if self.kind == "linear":
            return plain / np.float32(self.factor)
        if self.kind != "llama3":
            return plain
        wavelength = 2 * np.pi / plain
        smooth = (self.original / wavelength - self.low) / (self.high - self.low)
        mixed = smooth * plain + (1 - smooth) * plain / self.factor
        found = np.where(wavelength > self.original / self.low, plain / self.factor, mixed)
        return np.where(wavelength < self.original / self.high, plain, found).astype(np.float32)


class Architecture(NamedTuple):
    """The sizes of a decoder-only transformer. Without a family's name it is a Llama."""

    vocabulary: int  # tokens
    width: int  # numbers that stand for a token
    layers: int
    heads: int  # of queries
    inner: int  # units of an MLP
    length: int = 2048  # tokens of the longest text
    family: str = "llama"
    key_heads: int = 0  # of keys and values; 0: as many as of queries
    head_size: int = 0  # numbers of a head; 0: width / heads
    epsilon: float = 1e-6  # added to the mean square in a norm
    rope: Rope = Rope()
    attention_bias: bool = False  # of queries, keys and values, and, but in qwen2, of what attention returns
    mlp_bias: bool = False
    windows: tuple[int, ...] = ()  # of each layer: how many tokens it looks back on, itself counted; 0: all. (): all 0
    rotated: tuple[bool, ...] = ()  # of each layer: whether it knows positions. (): all
    tied: bool = True  # whether logits are products with the vectors that tokens come in as

    def check(self) -> None:
        """Raise `ForageError` for sizes that do not divide, and for choices that the family does not have."""
        family = FAMILIES.get(self.family)
        if family is None:
            raise ForageError(f"There is no family of transformers {self.family!r}{nearest(self.family, FAMILIES)}")
        sizes = {name: getattr(self, name) for name in ("vocabulary", "width", "layers", "heads", "inner", "length")}
        if small := [name for name, value in sizes.items() if value < 1]:
            raise ForageError(f"{small[0]} of a transformer is 1 or more, not {sizes[small[0]]}.")
        if not self.head_size and self.width % self.heads:
            raise ForageError(
                f"A transformer of width {self.width} has no {self.heads} equal heads; its width must be a multiple of "
                f"its heads, or head_size be given."
            )
        if self.size % 2:
            raise ForageError(f"Rotary positions turn pairs of numbers, and a head of {self.size} is odd.")
        if self.heads % self.kv_heads:
            raise ForageError(f"{self.heads} heads cannot share {self.kv_heads} of keys; take a number that divides.")
        for name in ("windows", "rotated"):
            if len(getattr(self, name)) not in (0, self.layers):
                raise ForageError(f"{name} has an entry for each of the {self.layers} layers, or none.")
        self._check_family(family)
        self._check_rope()

    def _check_family(self, family: Family) -> None:
        """Raise `ForageError` for choices that the family does not have."""
        windows = set(self.windows) - {0}
        wrong = None
        if self.attention_bias not in family.attention_bias:
            wrong = f"attention_bias={self.attention_bias}"
        elif self.mlp_bias and not family.mlp_bias:
            wrong = "biases in its MLPs"
        elif windows and family.windows == "none":
            wrong = "windows"
        elif len(windows) > 1 or (windows and family.windows == "all" and 0 in self.windows):
            wrong = f"windows {self.windows} of different lengths" if len(windows) > 1 else "layers without its window"
        elif not all(self.rotated) and not family.unrotated:
            wrong = "layers without positions"
        if wrong:
            raise ForageError(f"A transformer of the family {self.family} cannot have {wrong}.")

    def _check_rope(self) -> None:
        """Raise `ForageError` for rotary positions that are unknown or lack a number."""
        rope = self.rope
        if rope.kind not in ROPES:
            raise ForageError(f"Rotary positions of the kind {rope.kind!r} are unknown{nearest(rope.kind, ROPES)}")
        if rope.kind == "llama3" and not (rope.original > 0 and rope.high > rope.low > 0 and rope.factor > 0):
            raise ForageError("Rotary positions of the kind 'llama3' need original > 0, factor > 0 and high > low > 0.")
        if rope.kind == "linear" and not rope.factor > 0:
            raise ForageError(f"Rotary positions of the kind 'linear' need a factor above 0, not {rope.factor}.")

    def canonical(self) -> Architecture:
        """Return the same architecture in its shortest form, which alone may be compared."""
        rope = self.rope._replace(original=0) if self.rope.kind == "linear" else self.rope
        return self._replace(
            key_heads=0 if self.key_heads == self.heads else self.key_heads,
            head_size=0 if self.head_size * self.heads == self.width else self.head_size,
            windows=self.windows if any(self.windows) else (),
            rotated=() if all(self.rotated) else self.rotated,
            rope=Rope(self.rope.base) if self.rope.kind == "default" else rope,
        )

    @property
    def size(self) -> int:
        """Return the size of a head."""
        return self.head_size or self.width // self.heads

    @property
    def kv_heads(self) -> int:
        """Return the number of heads of keys and values."""
        return self.key_heads or self.heads

    @property
    def longest(self) -> int:
        """Return the largest number of tokens of a text."""
        return min(self.length, self.rope.original or self.length) if self.rope.kind == "dynamic" else self.length

    @property
    def out_bias(self) -> bool:
        """Return whether the output projection of attention has a bias."""
        own = FAMILIES[self.family].out_bias
        return self.attention_bias if own is None else own

    @property
    def head_norm(self) -> bool:
        """Return whether each head of queries and keys is normalised."""
        return FAMILIES[self.family].head_norm

    def window(self, layer: int) -> int:
        """Return the number of tokens in a layer's attention window; 0 for all."""
        return self.windows[layer] if self.windows else 0

    def turns(self, layer: int) -> bool:
        """Return whether a layer knows positions."""
        return self.rotated[layer] if self.rotated else True


def turn_table(length: int, rope: Rope, size: int) -> tuple[Float[Array, "length half"], Float[Array, "length half"]]:
    """Return cosine and sine of the angles by which queries and keys at each position are turned, in float32."""
    angle = jnp.arange(length, dtype=jnp.float32)[:, None] * jnp.asarray(rope.frequencies(size))
    return jnp.cos(angle), jnp.sin(angle)


def rotate_pairs(
    x: Float[Array, "batch time heads size"],
    cosine: Float[Array, "#batch time half"],
    sine: Float[Array, "#batch time half"],
) -> Float[Array, "batch time heads size"]:
    """Turn each pair of numbers (i, i + size / 2) of each head (Su et al., 2021, "RoFormer", arXiv 2104.09864)."""
    a, b = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    cosine, sine = cosine[:, :, None], sine[:, :, None]
    return jnp.concatenate([a * cosine - b * sine, a * sine + b * cosine], axis=-1).astype(x.dtype)
