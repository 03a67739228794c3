"""Rotary positions: frequencies by kind of scaling, and the turning of queries and keys.

Su et al., 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", arXiv 2104.09864. The kinds of scaling
follow transformers 5.24 (modeling_rope_utils.py); `yarn` is by Peng, Quesnelle, Fan, Shippole, 2023, "YaRN: Efficient
Context Window Extension of Large Language Models", arXiv 2309.00071, and `longrope` by Ding et al., 2024, "LongRoPE:
Extending LLM Context Window Beyond 2 Million Tokens", arXiv 2402.13753.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from forage.core.errors import ForageError, nearest

ROPES = ("default", "linear", "dynamic", "llama3", "yarn", "longrope")


class Rope(NamedTuple):
    """Rotary positions: the angle of pair i at position t is t f_i, with f_i = base^(-2 i / numbers turned).

    - `linear`: f_i / factor.
    - `llama3`: f_i / factor where the wavelength 2 pi / f_i is above `original` / `low`; f_i where it is below
      `original` / `high`; and in between a mixture by s = (original / wavelength - low) / (high - low).
    - `yarn`: f_i where a text of `original` tokens turns a pair `high` times or more, f_i / factor where it turns it
      `low` times or less, and a mixture that is linear in i between both.
    - `longrope`: f_i / short_i up to `original` tokens. Beyond, transformers turns all keys anew by other divisors, so
      that what is sampled token by token differs from what is scored at once; longer texts are refused here.
    - `dynamic`: as without scaling up to `original` tokens. Longer texts are refused for the same reason.
    """

    base: float = 10_000.0
    kind: str = "default"
    factor: float = 1.0
    low: float = 1.0
    high: float = 4.0
    original: int = 0  # tokens of the texts that it was trained with before it was scaled
    share: float = 1.0  # of the numbers of a head that are turned, the first ones; the others stay
    gain: float = 1.0  # factor of cosine and sine, and so, squared, of the logits of attention
    short: tuple[float, ...] = ()  # divisor of each pair's frequency, up to `original` tokens
    long: tuple[float, ...] = ()  # and beyond; kept for the files
    rounded: bool = True  # whether the pairs between which `yarn` mixes are rounded to whole ones

    def span(self, size: int) -> int:
        """Return the number of a head's numbers that are turned."""
        return int(size * self.share)

    def frequencies(self, size: int) -> Float[np.ndarray, " half"]:
        """Return the angle of each pair of a head's numbers, for one position."""
        size = self.span(size)
        plain = 1 / self.base ** (np.arange(0, size, 2, dtype=np.float32) / size)
        if self.kind == "linear":
            return plain / np.float32(self.factor)
        if self.kind == "longrope":
            return plain / np.asarray(self.short, np.float32)
        if self.kind == "yarn":
            return self._mixed_by_turns(plain, size)
        if self.kind != "llama3":
            return plain
        wavelength = 2 * np.pi / plain
        smooth = (self.original / wavelength - self.low) / (self.high - self.low)
        mixed = smooth * plain + (1 - smooth) * plain / self.factor
        found = np.where(wavelength > self.original / self.low, plain / self.factor, mixed)
        return np.where(wavelength < self.original / self.high, plain, found).astype(np.float32)

    def _mixed_by_turns(self, plain: Float[np.ndarray, " half"], size: int) -> Float[np.ndarray, " half"]:
        """Return the frequencies of `yarn`."""
        first, last = (
            size * np.log(self.original / (turns * 2 * np.pi)) / (2 * np.log(self.base))
            for turns in (self.high, self.low)
        )
        if self.rounded:
            first, last = np.floor(first), np.ceil(last)
        first, last = max(first, 0), min(last, size - 1)
        width = last - first or 0.001
        scaled = np.clip((np.arange(size // 2, dtype=np.float32) - first) / width, 0, 1)
        return (scaled * plain / self.factor + (1 - scaled) * plain).astype(np.float32)

    def check(self, size: int) -> None:
        """Raise `ForageError` for a kind that is unknown or lacks a number, with heads of this size."""
        if self.span(size) % 2 or not self.span(size):
            raise ForageError(f"Rotary positions turn pairs of numbers, and a head of {self.span(size)} is odd.")
        if self.kind not in ROPES:
            raise ForageError(f"Rotary positions of the kind {self.kind!r} are unknown{nearest(self.kind, ROPES)}")
        if self.kind in ("llama3", "yarn") and not (self.original > 0 and self.high > self.low > 0 and self.factor > 0):
            raise ForageError(
                f"Rotary positions of the kind {self.kind!r} need original > 0, factor > 0 and high > low > 0."
            )
        if self.kind == "linear" and not self.factor > 0:
            raise ForageError(f"Rotary positions of the kind 'linear' need a factor above 0, not {self.factor}.")
        if self.kind == "longrope" and (len(self.short) != self.span(size) // 2 or not self.original > 0):
            raise ForageError(
                f"Rotary positions of the kind 'longrope' need original > 0 and a short factor for each of the "
                f"{self.span(size) // 2} pairs, not {len(self.short)}."
            )


def turn_table(length: int, rope: Rope, size: int) -> tuple[Float[Array, "length half"], Float[Array, "length half"]]:
    """Return cosine and sine of the angles by which queries and keys at each position are turned, in float32."""
    angle = jnp.arange(length, dtype=jnp.float32)[:, None] * jnp.asarray(rope.frequencies(size))
    cosine, sine = jnp.cos(angle), jnp.sin(angle)
    return (cosine, sine) if rope.gain == 1 else (cosine * rope.gain, sine * rope.gain)


def rotate_pairs(
    x: Float[Array, "batch time heads size"],
    cosine: Float[Array, "#batch time half"],
    sine: Float[Array, "#batch time half"],
) -> Float[Array, "batch time heads size"]:
    """Turn each pair of numbers (i, i + half) of each head, and leave those behind the last pair as they are."""
    half = cosine.shape[-1]
    wide = x.astype(jnp.float32)
    a, b, rest = wide[..., :half], wide[..., half : 2 * half], x[..., 2 * half :]
    cosine, sine = cosine[:, :, None], sine[:, :, None]
    turned = jnp.concatenate([a * cosine - b * sine, a * sine + b * cosine], axis=-1).astype(x.dtype)
    return jnp.concatenate([turned, rest], axis=-1) if rest.shape[-1] else turned
