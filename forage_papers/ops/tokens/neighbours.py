"""A memory of embedded answers by embedded prompts, and distances to the answers of the nearest prompt."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class AnswerMemory(NamedTuple):
    """Prompts, and for each the newest answers to it."""

    prompts: Float[Array, "prompt width"]
    answers: Float[Array, "prompt answer width"]
    count: Int[Array, " prompt"]  # answers that were ever put in for each prompt
    known: Int[Array, ""]  # prompts that were ever put in


class Window(NamedTuple):
    """The latest numbers, by which others are scaled to 0 to 1."""

    numbers: Float[Array, " size"]
    count: Int[Array, ""]


def empty_memory(prompts: int, answers: int, width: int) -> AnswerMemory:
    """Return a memory without entries."""
    return AnswerMemory(
        jnp.zeros((prompts, width)), jnp.zeros((prompts, answers, width)), jnp.zeros(prompts, jnp.int32), jnp.int32(0)
    )


def nearest_prompt(memory: AnswerMemory, prompt: Float[Array, " width"]) -> tuple[Int[Array, ""], Float[Array, ""]]:
    """Return the number of the nearest prompt, and its squared distance, infinite where there is none."""
    apart = jnp.sum((memory.prompts - prompt) ** 2, -1)
    apart = jnp.where(jnp.arange(len(apart)) < memory.known, apart, jnp.inf)
    return jnp.argmin(apart), jnp.min(apart)


def put_answer(
    memory: AnswerMemory, prompt: Float[Array, " width"], answer: Float[Array, " width"], wanted: Bool[Array, ""]
) -> AnswerMemory:
    """Return the memory with an answer, if it is `wanted`: with those of its prompt, in the place of the oldest.

    A new prompt takes the place of the oldest prompt.
    """
    near, apart = nearest_prompt(memory, prompt)
    new = apart > 0
    row = jnp.where(new, memory.known % len(memory.prompts), near)
    before = jnp.where(new, 0, memory.count[row])
    place = before % memory.answers.shape[1]
    after = AnswerMemory(
        memory.prompts.at[row].set(prompt),
        memory.answers.at[row, place].set(answer),
        memory.count.at[row].set(before + 1),
        memory.known + new,
    )
    return jax.tree.map(lambda x, y: jnp.where(wanted, x, y), after, memory)


def kept_answers(
    memory: AnswerMemory, prompt: Float[Array, " width"]
) -> tuple[Float[Array, "answer width"], Bool[Array, " answer"]]:
    """Return the answers kept of the nearest prompt, and a mask of entries."""
    near, _ = nearest_prompt(memory, prompt)
    there = jnp.arange(memory.answers.shape[1]) < memory.count[near]
    return memory.answers[near], there & (memory.known > 0)


def centre_distance(memory: AnswerMemory, prompt: Float[Array, " width"], answer: Float[Array, " width"]) -> Array:
    """Compute the distance of an answer to the mean of those kept of the nearest prompt; 1 where none is kept."""
    kept, there = kept_answers(memory, prompt)
    centre = jnp.sum(jnp.where(there[:, None], kept, 0.0), 0) / jnp.maximum(there.sum(), 1)
    return jnp.where(there.any(), jnp.linalg.norm(answer - centre), 1.0)


def novelty(memory: AnswerMemory, prompt: Float[Array, " width"], answer: Float[Array, " width"]) -> Array:
    """Compute 1 - the greatest cosine with an answer kept of the nearest prompt; 1 where none is kept."""
    kept, there = kept_answers(memory, prompt)
    cosine = kept @ answer / jnp.maximum(jnp.linalg.norm(kept, axis=-1) * jnp.linalg.norm(answer), 1e-12)
    return jnp.where(there.any(), 1 - jnp.max(jnp.where(there, cosine, -jnp.inf)), 1.0)


def scale_number(
    window: Window, number: Float[Array, ""], alike: Float[Array, ""] | float, real: Bool[Array, ""]
) -> tuple[Window, Float[Array, ""]]:
    """Return a window with a number, and the number scaled by the least and the greatest there, `alike` if equal.

    A number that is not `real` is neither kept nor scaled.
    """
    size = len(window.numbers)
    numbers = jnp.where(real, window.numbers.at[window.count % size].set(number), window.numbers)
    count = window.count + real
    there = jnp.arange(size) < count
    low, high = (jnp.min(jnp.where(there, numbers, jnp.inf)), jnp.max(jnp.where(there, numbers, -jnp.inf)))
    scaled = jnp.where(high > low, (number - low) / jnp.where(high > low, high - low, 1.0), alike)
    return Window(numbers, count), jnp.where(real, scaled, number)
