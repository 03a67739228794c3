"""A temperature that falls along each answer: early tokens explore, late ones do not spoil it."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from forage.core.ports import ActContext, Behaviour, Decision, HiddenState
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges, check_order
from forage_papers.behaviours.temperature import written_at

STEEPEST = 20.0  # logarithm of what is taken off the temperature at most


class AnnealedDecoding(Behaviour):
    """Token t of an answer, counted from 0, is drawn at the temperature

        1                                             where t < head
        max(1 + highest - exp(t / d), lowest)         after that
        d = min(decay + growth s, longest_decay)

    where s is the number of updates so far: as answers become longer, the temperature falls more slowly. It is
    `highest` at t = 0 and reaches `lowest` at t = d log(1 + highest - lowest), 0.74 d with the numbers here. The first
    tokens of an answer may be a template, which `head` leaves alone.

    The agent scores what was written at the same temperatures, so that its ratios are those of the distribution that
    drew; the authors score at temperature 1, and correct by truncated importance sampling.

    Source: Yang, Gui, Yang, Veitch, Zhang, Zhao, 2025, "Let it Calm: Exploratory Annealed Decoding for Verifiable
    Reinforcement Learning" (EAD), arXiv 2510.05251, as a review at themoonlight.io quotes the formulas, and as `negexp`
    in the authors' `annealed_sampling.py`, where d is 20 times as large; numbers are those of
    `run_annealed_sampling.sh`, for answers of thousands of tokens. For short ones, `decay` about as long as an answer,
    no growth and no head are to the point.
    """

    example: ClassVar[str] = (
        "forage train grpo text:countdown --behaviour annealed-decoding --behaviour.growth 0 --behaviour.head 0"
    )
    ranges: ClassVar[Ranges] = {
        "highest": Range(0, above=True),
        "lowest": Range(0, above=True),
        "decay": Range(0, above=True),
        "growth": Range(0),
        "longest_decay": Range(0, above=True),
        "head": Range(0),
    }
    needs: ClassVar[Needs] = Needs(writes=True)

    highest: float = 1.2  # temperature of an answer's first token; above 1 it explores more than the policy itself
    lowest: float = 0.1  # temperature that it never falls below
    decay: float = 25.0  # tokens over which it falls at first; more keep it high for longer
    growth: float = 5.0  # tokens that `decay` grows by with each update
    longest_decay: float = 40_000.0  # tokens that it grows to
    head: float = 10.0  # tokens at the beginning of an answer that are drawn at temperature 1

    def __check_init__(self):
        check_order(self, "lowest", "highest", equal=True)

    def temperatures(self, new: int, update: Array | int) -> Float[Array, " new"]:
        """Return the temperature of each token of an answer, after a number of updates."""
        token = jnp.arange(new)
        decay = jnp.minimum(self.decay + self.growth * update, self.longest_decay)
        falling = jnp.maximum(1 + self.highest - jnp.exp(jnp.minimum(token / decay, STEEPEST)), self.lowest)
        return jnp.where(token < self.head, 1.0, falling)

    def act(self, state: Any, hidden: HiddenState, observation: PyTree[Array], moment: ActContext) -> Decision:
        agent = moment.agent
        update = moment.clock.steps // (agent.num_envs * agent.rollout_length)
        new = observation["reference"].shape[-1]
        return written_at(self.temperatures(new, update), hidden, observation, moment)
