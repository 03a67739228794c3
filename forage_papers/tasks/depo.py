"""DEPO: each epoch leaves out more of the problems whose answers promise little exploration."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.core.ports import RolloutReport
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.spaces import Tokens
from forage.core.types import Experience
from forage_papers.tasks.numbered import NumberedProblems, NumberedState

RIGHT = 0.5  # score from which an answer counts as right


class ExplorationScores(NamedTuple):
    """The scores of each problem when it came last, and the share of epochs that are over."""

    scores: Float[Array, "number history"]  # the newest in front
    times: Int[Array, " number"]  # rollouts that it was in
    epoch: Float[Array, ""]


def explorability(
    number: Int[Array, " answer"],
    right: Bool[Array, " answer"],
    entropy: Float[Array, " answer"],
    there: Bool[Array, " answer"],
    numbered: int,
    ratio: float | Array,
) -> tuple[Float[Array, " number"], Float[Array, " number"]]:
    """Return the explorability of each problem by the answers that are `there`, and the number of these.

        score = sum of |A_i| H_i over right answers, and over wrong ones with H_i <= ratio x mean H of the right ones

    where A = (right - mean) / (deviation + 1e-8) is the answer's advantage and H its entropy.
    """

    def total(value: Float[Array, " answer"]) -> Float[Array, " number"]:
        return jnp.zeros(numbered).at[number].add(jnp.where(there, value, 0.0))

    one = right.astype(jnp.float32)
    count, solved = total(jnp.ones_like(entropy)), total(one)
    mean = solved / jnp.maximum(count, 1)
    certain = total(one * entropy) / jnp.maximum(solved, 1)
    apart = jnp.abs(one - mean[number]) / (jnp.sqrt(mean * (1 - mean))[number] + 1e-8)
    counted = right | (entropy <= ratio * certain[number])
    return total(counted * apart * entropy), count


class Depo(NumberedProblems):
    """Problems in epochs, of which each epoch leaves out those of the lowest explorability.

    The first epoch, 0, has all problems. Epoch e has those that never came, and of the others the share

        min(1, max(least, beginning - fall e))

    with the highest mean explorability (`explorability`) in the last `history` rollouts that they were in; among equals
    those that came less often go first. What is missing to whole rollouts is filled with problems that came least
    often, so that those are replayed.

    Source: Tang, Zhang, Liu, Zhao, Wen, Zhang, Zhou (2025), "Towards High Data Efficiency in Reinforcement Learning
    with Verifiable Reward", arXiv 2509.01321, as in the authors' program (txy77/DEPO:
    `verl/trainer/rollout_purning/rollout_purning.py`, `purning_by_entropy`, and `ppo_trainer.yaml` for all numbers).
    There problems are left out of each batch, here of an epoch; batches are filled up to a multiple of the GPUs, here
    of a rollout's groups; and the entropy of an answer is the mean of its tokens' entropies, here that of -log pi of
    the tokens that were drawn, whose expectation it is. Not here: the subset that is chosen before training, by
    PageRank, a determinantal point process and difficulty.
    """

    example: ClassVar[str] = "forage train grpo text:addition --env.problems 1000 --env.level 0-3 --tasks depo"
    ranges: ClassVar[Ranges] = {
        "beginning": Range(0, 1, above=True),
        "fall": Range(0, 1),
        "least": Range(0, 1, above=True),
        "ratio": Range(0),
        "history": Range(1),
    }
    needs: ClassVar[Needs] = Needs(observations="text", single_turn=True, writes=True)
    epochs: ClassVar[bool] = True

    beginning: float = 1.0  # share of the problems that have come which would be kept in the first epoch
    fall: float = 0.03  # by which that share falls from epoch to epoch
    least: float = 0.4  # lowest share
    ratio: float = 1.5  # wrong answers with more than this multiple of the right ones' entropy do not count
    history: int = equinox.field(static=True, default=3)  # rollouts whose scores are averaged, of each problem

    def first(self, environment: Any) -> ExplorationScores:
        count = environment.num_starts
        return ExplorationScores(jnp.zeros((count, self.history)), jnp.zeros(count, jnp.int32), jnp.float32(0))

    def report(self, state: NumberedState, rollout: Experience, review: RolloutReport) -> NumberedState:
        environment: Any = review.environment
        own = self.hear(state.own, rollout, review.visited.tasks.number.reshape(-1))  # type: ignore[union-attr]
        epoch = own.epoch + environment.slot / jnp.maximum(state.length, 1)
        return super().report(state._replace(own=own._replace(epoch=epoch)), rollout, review)

    def hear(self, own: ExplorationScores, rollout: Experience, number: Int[Array, " answer"]) -> ExplorationScores:
        """Return the state after the answers of a rollout, each to the problem of that number."""
        wrote = rollout.action.reshape(-1, rollout.action.shape[-1]) != Tokens.PAD
        surprise = -rollout.policy_info.log_probability.reshape(wrote.shape)
        entropy = jnp.sum(jnp.where(wrote, surprise, 0.0), 1) / jnp.maximum(wrote.sum(1), 1)
        score, truth = rollout.reward, rollout.info.get("truth")
        if truth is not None:
            score = jnp.where(jnp.isnan(truth), score, truth)
        there = (rollout.ended & rollout.counts).reshape(-1) & wrote.any(1)
        found, count = explorability(number, score.reshape(-1) >= RIGHT, entropy, there, len(own.times), self.ratio)
        met = count > 0
        scores = jnp.concatenate([found[:, None], own.scores[:, :-1]], 1)
        return own._replace(scores=jnp.where(met[:, None], scores, own.scores), times=own.times + met)

    def leaves_out(self, own: ExplorationScores, key: Key[Array, ""], environment: Any) -> Bool[Array, " number"]:
        """Return a mask of the problems that the epoch which begins now is without."""
        unknown, kept = own.times == 0, jnp.arange(self.history) < own.times[:, None]
        mean = jnp.sum(own.scores * kept, 1) / jnp.maximum(kept.sum(1), 1)
        number = jnp.round(own.epoch)
        share = jnp.where(number > 0, jnp.clip(self.beginning - self.fall * number, self.least, 1.0), 1.0)
        most = jnp.floor(share * (~unknown).sum())
        rank = jnp.argsort(jnp.lexsort((own.times, -mean, unknown)))  # of the known ones, those to keep in front
        best = unknown | (rank < most)
        missing = -best.sum() % jnp.maximum(environment.slot, 1)
        rare = jnp.argsort(jnp.lexsort((-mean, own.times, best)))  # of the others, those that came least often in front
        return ~(best | (rare < missing))
