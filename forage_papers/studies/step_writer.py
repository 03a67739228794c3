"""Steps of answers, written and valued one at a time."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from forage.agents.language.base import LanguageAgent, answers
from forage.core.spaces import Tokens
from forage.environments.text.environment import TextEnvironment
from forage.nn.language.scorer import text_scores

AT_ONCE = 32
"""Texts that are written at once."""


class StepWriter:
    """Writes steps of answers and values them."""

    def __init__(
        self,
        agent: LanguageAgent,
        state: Any,
        environment: TextEnvironment,
        parted: Int[np.ndarray, " token"],
        key: Any,
    ):
        self.longest, self.key = environment.longest, key
        ends = np.atleast_1d(np.asarray(state.end))
        self.ends, sampling = ends + 1, agent.sampling(jnp.float32(agent.temperature))
        stopping = state._replace(end=jnp.asarray(np.union1d(ends, parted), jnp.int32))

        @jax.jit
        def write(context: Array, key: Array, room: Array) -> Int[Array, "row new"]:
            keys = jax.random.key_data(key)[None]
            return answers(stopping, context, keys, sampling, self.longest, room)[0]

        @jax.jit
        def value(text: Array) -> Float[Array, " row"]:
            network, head = state.critic
            return text_scores(network, head, jnp.maximum(text - 1, 0), text != Tokens.PAD)

        self.step, self.value = write, value

    def write(
        self, prompts: list[np.ndarray], told: list[tuple[int, ...]]
    ) -> tuple[list[tuple[int, ...]], Bool[np.ndarray, " text"], Float[np.ndarray, " text"]]:
        """Return each answer with one more step, whether it has ended, and its value without the token that ends it."""
        texts, values = [], []
        for n in range(0, len(told), AT_ONCE):
            part = list(zip(prompts[n : n + AT_ONCE], told[n : n + AT_ONCE], strict=True))
            part += [part[-1]] * (AT_ONCE - len(part))  # the last rows count for nothing
            self.key, own = jax.random.split(self.key)
            room = jnp.array([self.longest - len(text) for _, text in part])
            new = np.asarray(self.step(self.pad([(p, t) for p, t in part]), own, room))
            whole = [(*text, *row[row != Tokens.PAD].tolist()) for (_, text), row in zip(part, new, strict=True)]
            bare = [tuple(t for t in text if t not in self.ends) for text in whole]
            texts += whole
            values += np.asarray(self.value(self.pad([(p, t) for (p, _), t in zip(part, bare, strict=True)]))).tolist()
        texts, values = texts[: len(told)], values[: len(told)]
        over = np.array([text[-1] in self.ends or len(text) >= self.longest for text in texts])
        return texts, over, np.array(values)

    def pad(self, rows: list[tuple[np.ndarray, tuple[int, ...]]]) -> Int[np.ndarray, "row time"]:
        """Return prompts with the texts behind them as rows of one length, padded in front."""
        found = np.full((len(rows), len(rows[0][0]) + self.longest), Tokens.PAD, np.int32)
        for row, (prompt, text) in zip(found, rows, strict=True):
            there = [*prompt[prompt != Tokens.PAD].tolist(), *text]
            row[len(row) - len(there) :] = there
        return found


def judge(
    environment: TextEnvironment, problems: list[int], texts: list[tuple[int, ...]]
) -> Float[np.ndarray, " problem"]:
    """Return the verifier's truth of an answer to each problem."""
    rows, found = environment.num_envs, []
    for n in range(0, len(problems), rows):
        part = list(zip(problems[n : n + rows], texts[n : n + rows], strict=True))
        for index in range(rows):
            environment.begin(index, part[min(index, len(part) - 1)][0])
        action = np.full((rows, environment.longest), Tokens.PAD, np.int32)
        for row, (_, text) in zip(action, part, strict=False):
            row[: len(text)] = text
        found += np.asarray(environment.step(action).step.info["truth"])[: len(part)].tolist()
    return np.array(found)
