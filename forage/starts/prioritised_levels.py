"""Prioritised level replay: training levels are replayed the more, the more there is to learn from them."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core import prng
from forage.core.ports import Environment, RolloutReport, Starts, ValueEstimates
from forage.core.ports.needs import Choices
from forage.core.ranges import Range, Ranges
from forage.core.types import Experience, Spec
from forage.starts.weighted import cumulative_weights, draw_place

SCORES = {
    "l1-value-loss": lambda estimates: jnp.abs(estimates.advantage),
    "positive-value-loss": lambda estimates: jnp.maximum(estimates.advantage, 0.0),
    "td-error": lambda estimates: jnp.abs(estimates.td_error),
}
"""The score of one step, by name; an episode's is the mean over its steps."""


class LevelsState(NamedTuple):
    score: Float[Array, " level"]  # of each level's last whole episode; 0 before its first
    played: Int[Array, " level"]  # the number of the last episode that began there, from 1; 0: none did
    episodes: Int[Array, ""]  # begun so far
    running: tuple[Float[Array, " env"], Int[Array, " env"]]  # scores of the steps so far, their sum and their number


class PrioritisedLevels(Starts):
    """Each episode begins in one of `number` levels: a new one, or a played one by its score and staleness.

    A level is what the reset draws, numbered as in `levels`. A level that was played before is drawn with probability

        (1 - staleness) P_S + staleness P_C
        P_S(i) ~ rank(S_i)^(-1 / rank_temperature)   S_i: the score of the level's last episode; the highest has rank 1
        P_C(i) ~ c - C_i                             c: episodes begun so far; C_i: the number of the level's last one

    and a new one uniformly, otherwise. The probability of a replay is the share of levels that were played, unless
    `replay_probability` gives another; once all were played it is 1. The score of a step is the absolute GAE
    (`l1-value-loss`, the published choice), its positive part (`positive-value-loss`, of the authors' later work, arXiv
    2110.02439) or the absolute TD error (`td-error`), as the agent judges the rollout before it learns from it; ppo
    does.

    Scores and counts change once a rollout, so a level may begin several episodes in between. The advantage of an
    episode that goes on in the next rollout is estimated from each rollout by itself.

    Source: Jiang, Grefenstette, Rocktäschel (2021), "Prioritized Level Replay", arXiv 2010.03934, section 3 and
    algorithm 1; the defaults are those for Procgen.
    """

    example: ClassVar[str] = "forage train ppo grid:DoorKey-5x5 --starts prioritised-levels --starts.number 200"
    ranges: ClassVar[Ranges] = {"number": Range(1), "first": Range(0)}

    adapts: ClassVar[bool] = True
    needs_estimates: ClassVar[bool] = True
    choices: ClassVar[Choices] = {"score": SCORES}

    number: int = equinox.field(static=True, default=200)  # how many levels there are to train in (200: Procgen, easy)
    first: int = equinox.field(static=True, default=0)  # the number of the first level
    score: str = equinox.field(static=True, default="l1-value-loss")  # what a level is scored by: l1-value-loss,
    # positive-value-loss or td-error
    rank_temperature: float = 0.1  # the lower, the more the highest scores are preferred; the paper's beta
    staleness: float = 0.1  # the share of replays that go by how long ago a level was played; the paper's rho
    replay_probability: float | None = None  # probability of a level played before, while there are new ones; none:
    # their share

    def init(self, key: Key[Array, ""], environment: Environment, spec: Spec, num_envs: int) -> LevelsState:
        levels, envs = jnp.zeros(self.number), jnp.zeros(num_envs)
        counts = jnp.int32
        return LevelsState(levels, levels.astype(counts), counts(0), (envs, envs.astype(counts)))

    def weights(self, state: LevelsState) -> Float[Array, " level"]:
        """Return the probabilities of replaying each level that was played; zeros if there is none."""
        seen = state.played > 0
        order = jnp.argsort(jnp.where(seen, -state.score, jnp.inf))
        rank = jnp.zeros(self.number).at[order].set(jnp.arange(1.0, self.number + 1))
        by_score = jnp.where(seen, jnp.exp(-jnp.log(rank) / self.rank_temperature), 0.0)
        by_age = jnp.where(seen, state.episodes - state.played, 0).astype(jnp.float32)
        # Where only one level was played, and last, nothing is stale.
        share = jnp.where(by_age.sum() > 0, self.staleness, 0.0)
        by_score, by_age = (x / jnp.maximum(x.sum(), 1e-8) for x in (by_score, by_age))
        return (1 - share) * by_score + share * by_age

    def begin(
        self, state: LevelsState, environment: Environment, key: Key[Array, ""], index: Int[Array, ""]
    ) -> tuple[Any, PyTree[Array], Int[Array, ""]]:
        choice_key, level_key = jax.random.split(key)
        seen = state.played > 0
        probability = seen.mean() if self.replay_probability is None else self.replay_probability
        replays = seen.all() | (seen.any() & (jax.random.uniform(choice_key) < probability))
        weights = jnp.where(replays, self.weights(state), (~seen).astype(jnp.float32))
        level = draw_place(cumulative_weights(weights), jax.random.uniform(level_key)).astype(jnp.int32)
        key = jax.random.fold_in(prng.key(prng.LEVELS), self.first + level)
        return *environment.reset(key), level

    def report(self, state: LevelsState, rollout: Experience, review: RolloutReport) -> LevelsState:
        assert review.estimates is not None
        level, begins = review.visited.start_ids.ravel(), review.visited.begins(rollout.ended)
        running, score = self.scores(state, review.estimates, begins)
        # The last episode to end in a level gives its score: one winner, on any hardware.
        place = jnp.arange(level.size)
        last = jnp.full(self.number, -1).at[level].max(jnp.where(rollout.ended.ravel(), place, -1))
        number = jnp.where(begins, state.episodes + jnp.cumsum(begins).reshape(begins.shape), 0)
        return LevelsState(
            jnp.where(last >= 0, score.ravel()[last], state.score),
            state.played.at[level].max(number.ravel()),
            state.episodes + begins.sum(),
            running,
        )

    def scores(
        self, state: LevelsState, estimates: ValueEstimates, begins: Bool[Array, "time env"]
    ) -> tuple[tuple[Float[Array, " env"], Int[Array, " env"]], Float[Array, "time env"]]:
        """Return the sums of the running episodes, and the mean score of each episode up to each step."""

        def step(running: tuple[Array, Array], inputs: tuple[Array, Array]):
            (total, steps), (score, begins) = running, inputs
            total, steps = jnp.where(begins, 0.0, total) + score, jnp.where(begins, 0, steps) + 1
            return (total, steps), total / steps

        return jax.lax.scan(step, state.running, (SCORES[self.score](estimates), begins))
