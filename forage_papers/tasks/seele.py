"""SEELE: each problem gets the hint at which a model of item responses predicts the target success rate."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
from jaxtyping import Array, Float, Int

from forage.core.ranges import Range, Ranges
from forage_papers.tasks.hints import check_hints
from forage_papers.tasks.numbered import NumberedProblems, ProblemOutcomes

SLOPES, OFFSETS, FLOORS = (4.0, 8.0, 16.0, 32.0), np.linspace(-0.5, 1.25, 29), (0.0, 0.1, 0.25)
GRID = np.stack(np.meshgrid(SLOPES, OFFSETS, FLOORS, indexing="ij"), -1).reshape(-1, 3).astype(np.float32)
RIDGE = 0.01  # how strongly the model is drawn to slope 8, offset 1/2 and floor 0, which decide where answers do not


class Responses(NamedTuple):
    """Rollout records of each problem."""

    hint: Float[Array, " number"]  # the next one
    round: Int[Array, " number"]  # of its rollouts, counted from 0
    hints: Float[Array, "number round"]  # given in each round
    rates: Float[Array, "number round"]  # success rates with them


class Seele(NumberedProblems):
    """Problems in epochs, each for `rounds` rollouts, with hints that keep its success rate at `target`.

    After each round the three-parameter logistic model

        p(h) = c + (1 - c) sigmoid(a (h - b))

    of the success rate with the share h of the solution given away is fitted to the problem's rounds by least squares,
    and the next hint is the h with p(h) = target, from 0 to `largest`. Improvement is bounded by p (1 - p), so 1/2 is
    best. The first round has no hint; in later epochs the one that the rounds before led to.

    Source: Li, Sun, Zhao, Min, Zeng, Wu, Cai, Wang, Yin, Chen, Deng (2025), "Staying in the Sweet Spot: Responsive
    Reasoning Evolution via Capability-Adaptive Hint Scaffolding", arXiv 2509.06923, of which the abstract and a summary
    were read, which name the model, the rounds and the target; no public program was found. How the authors fit the
    model, how many rounds they have and what the first hint is could not be looked up: the search on a grid with a weak
    prior, four rounds and no hint at first are ours. There all rounds are in one step, and their answers are one group,
    as here with `--memory pool --memory.rounds 4`.
    """

    example: ClassVar[str] = "forage train grpo text:countdown --env.problems 1000 --env.hints 0.9 --tasks seele"
    own_choices: ClassVar[str] = "the fit of the model, the number of rounds, and no hint at first"
    ranges: ClassVar[Ranges] = {
        "target": Range(0, 1, above=True, below=True),
        "largest": Range(0, 1, above=True),
        "rounds": Range(1),
    }
    epochs: ClassVar[bool] = True

    target: float = 0.5  # success rate that hints aim at
    largest: float = 0.9  # share of a solution that is given away at most
    rounds: int = equinox.field(static=True, default=4)  # rollouts with a problem before another takes its place

    def check(self, environment: Any) -> None:
        super().check(environment)
        check_hints(type(self).__name__, self.largest, environment)

    def first(self, environment: Any) -> Responses:
        one, each = environment.num_starts, (environment.num_starts, self.rounds)
        return Responses(jnp.zeros(one), jnp.zeros(one, jnp.int32), jnp.zeros(each), jnp.zeros(each))

    def update_state(self, own: Responses, heard: ProblemOutcomes, environment: Any) -> Responses:
        now = heard.met[:, None] & (jnp.arange(self.rounds) == own.round[:, None])
        hints = jnp.where(now, own.hint[:, None], own.hints)
        rates = jnp.where(now, heard.rate[:, None], own.rates)
        known = jnp.arange(self.rounds) <= own.round[:, None]
        hint = self.target_hint(fit_model(hints, rates, known))
        after = (own.round + 1) % self.rounds
        return Responses(
            jnp.where(heard.met, hint, own.hint), jnp.where(heard.met, after, own.round).astype(jnp.int32), hints, rates
        )

    def target_hint(self, model: Float[Array, "number 3"]) -> Float[Array, " number"]:
        """Return the hint for a success rate at the target."""
        slope, offset, floor = model[:, 0], model[:, 1], model[:, 2]
        rest = jnp.clip((self.target - floor) / (1 - floor), 1e-6, 1 - 1e-6)
        return jnp.clip(offset + jax.scipy.special.logit(rest) / slope, 0, self.largest)

    def owes(self, own: Responses, environment: Any) -> Int[Array, " number"]:
        return (own.round > 0).astype(jnp.int32)

    def hint(self, own: Responses, number: Int[Array, ""]) -> Float[Array, ""]:
        return own.hint[number]


def fit_model(
    hints: Float[Array, "number round"], rates: Float[Array, "number round"], known: Array
) -> Float[Array, "number 3"]:
    """Return slope, offset and floor of the model that fits each problem's known rounds best, of those on a grid."""

    def one(hints: Float[Array, " round"], rates: Float[Array, " round"], known: Array) -> Float[Array, "3"]:
        slope, offset, floor = (jnp.asarray(GRID[:, i, None]) for i in range(3))
        expected = floor + (1 - floor) * jax.nn.sigmoid(slope * (hints - offset))
        error = (known * (rates - expected) ** 2).sum(1)
        apart = (offset - 0.5) ** 2 + (jnp.log2(slope) - 3) ** 2 / 16 + floor**2
        return jnp.asarray(GRID)[jnp.argmin(error + RIDGE * apart[:, 0])]

    return jax.lax.map(lambda x: one(*x), (hints, rates, known), batch_size=256)
