"""Missions as tokens: one small vocabulary for every family, so that one network can read them all."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from forage.core.types import ForageError
from forage.environments.grid.cells import COLOURS

COLOUR = "{colour}"
"""The word of a mission that the level's target gives."""

LENGTH = 16
"""Tokens of a mission; shorter ones are filled with 0."""

_WORDS = (
    "the to get green goal square reach use key open door and then traverse rooms pick up ball box avoid lava "
    "go matching object at end of hallway red blue"
)
VOCABULARY = ("", *COLOURS, *(word for word in _WORDS.split() if word not in COLOURS))
"""The word of each token. Token 0 is no word, tokens 1 to 6 are the colours."""

_TOKENS = {word: token for token, word in enumerate(VOCABULARY)}


def mission_tokens(text: str) -> Int[np.ndarray, " length"]:
    """Return the tokens of a mission. Raise `ForageError` for a word that no mission has, or for too many."""
    words = text.split()
    unknown = [word for word in words if word not in _TOKENS]
    if unknown or len(words) > LENGTH:
        what = f"the word {unknown[0]!r}" if unknown else f"{len(words)} words"
        raise ForageError(f"A mission cannot have {what}; it has at most {LENGTH} of {', '.join(VOCABULARY[1:])}.")
    return np.array([_TOKENS[word] for word in words] + [0] * (LENGTH - len(words)), np.int32)


def mission_text(tokens: Int[np.ndarray, " length"]) -> str:
    """Return the mission that the tokens spell: MiniGrid's own string."""
    return " ".join(VOCABULARY[int(token)] for token in np.asarray(tokens) if token)


def fill_colour(template: str, colour: Int[Array, ""]) -> Int[Array, " length"]:
    """Return the tokens of a mission, with the colour in place of its open word if it has one."""
    tokens = jnp.asarray(mission_tokens(template.replace(COLOUR, COLOURS[0])))
    words = template.split()
    if COLOUR not in words:
        return tokens
    return jnp.where(jnp.arange(LENGTH) == words.index(COLOUR), colour.astype(jnp.int32) + 1, tokens)
