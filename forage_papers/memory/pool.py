"""Rollouts of one policy that are pooled: answers to one prompt from several rollouts, or refilled batches."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from forage.core.ports import ActContext, Agent, Environment, Memory
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges, check_minibatches, check_order
from forage.core.spaces import Tokens
from forage.core.types import Batch, Clock, Experience, Replay, Spec
from forage_papers.memory.successes import blank


class PooledEpisodes(NamedTuple):
    """The episodes since the last update."""

    episodes: Experience  # leaves [time, room, ...]
    count: Int[Array, ""]  # places that are filled, the first ones
    rollouts: Int[Array, ""]  # that were added


class RolloutPool(Memory):
    """Pools the answers of `rounds` rollouts, between which the policy stays as it is, and learns from them at once.

    Answers to the same problem are one group, however many there are, so that tasks can allot answers within a step of
    learning: `dars` gives hard problems more of them, `hints` asks again with a hint, `seele` with several. Problems
    are the same where one prompt begins with the other, as a prompt with a hint does. With `newest` the answers to the
    longest prompt of a problem count alone: a group with a hint takes the place of the one without.
    """

    example: ClassVar[str] = (
        "forage train grpo text:addition --env.problems 1000 --env.level 0-3 --tasks dars --tasks.rounds 2 "
        "--memory pool"
    )
    on_policy: ClassVar[bool] = True
    ranges: ClassVar[Ranges] = {"rounds": Range(1), "group_size": Range(2)}
    needs: ClassVar[Needs] = Needs(
        observations="text",
        ability="pools",
        reason="compares groups of one size in the order of a rollout, and RolloutPool brings groups of any size",
        instead="use grpo or one of its settings, or --memory rollout",
    )

    rounds: int = equinox.field(static=True, default=2)  # rollouts to an update
    newest: bool = equinox.field(static=True, default=False)  # only answers to the longest prompt of a problem count
    group_size: int = equinox.field(static=True, default=8)  # episodes with one beginning, side by side; the agent's

    @property
    def group(self) -> int:
        return self.group_size

    def room(self, num_envs: int) -> int:
        """Return the number of episodes of a batch."""
        return self.rounds * num_envs

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        super().check(agent, spec, environment)
        if hasattr(agent, "minibatches"):
            check_minibatches(agent, self.room(agent.num_envs) * agent.rollout_length, "answers")

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> PooledEpisodes:
        empty = jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), blank(example, self.room(num_envs), rollout_length))
        return PooledEpisodes(empty, jnp.int32(0), jnp.int32(0))

    def add(self, state: PooledEpisodes, rollout: Experience, clock: Clock) -> PooledEpisodes:
        return self.put(state, rollout, jnp.ones(rollout.reward.shape[1], bool))

    def put(self, state: PooledEpisodes, rollout: Experience, kept: Bool[Array, " env"]) -> PooledEpisodes:
        """Return the state with the kept episodes of a rollout in the next places, as far as there are some."""
        room = state.episodes.reward.shape[1]
        place = jnp.where(kept, state.count + jnp.cumsum(kept) - 1, room)
        episodes = jax.tree.map(lambda x, new: x.at[:, place].set(new, mode="drop"), state.episodes, rollout)
        count = jnp.minimum(state.count + kept.sum(), room).astype(jnp.int32)
        return PooledEpisodes(episodes, count, state.rollouts + 1)

    def is_ready(self, state: PooledEpisodes) -> Bool[Array, ""]:
        return state.rollouts >= self.rounds

    def sample(self, state: PooledEpisodes, size: int, length: int, moment: ActContext) -> Batch:
        room = state.episodes.reward.shape[1]
        there = jnp.arange(room) < state.count
        context = state.episodes.observation["context"][0]
        same = same_problem(context) & there & there[:, None]
        counts = there
        if self.newest:
            read = (context != Tokens.PAD).sum(1)
            counts &= read == jnp.where(same, read, 0).max(1)
        group = jnp.where(counts, jnp.argmax(same & counts, axis=1), jnp.arange(room))
        replay = Replay(jnp.zeros(room, bool), jnp.full(room, jnp.nan), group.astype(jnp.int32))
        return Batch(state.episodes, counts.astype(jnp.float32), jnp.arange(room), replay)

    def after_updates(self, state: PooledEpisodes) -> PooledEpisodes:
        ready = self.is_ready(state)
        return state._replace(count=jnp.where(ready, 0, state.count), rollouts=jnp.where(ready, 0, state.rollouts))


class RefilledPool(RolloutPool):
    """Drops groups of answers whose success rate is beyond two bounds, and samples others until the batch is full.

    The expected improvement of a group is bounded by the variance p (1 - p) of its success rate p, so that a balanced
    band around 1/2 maximises it. The policy stays as it is until `num_envs` answers were kept; what is left over of the
    last rollout is dropped. After `most` rollouts it learns from what there is. Dropped answers count as steps. With
    bounds just above 0 and below 1 it is DAPO's dynamic sampling.

    Source: Bae, Hong, Lee, Kim, Nam, Kwak (2025), "Online Difficulty Filtering for Reasoning Oriented Reinforcement
    Learning", arXiv 2504.03380, of which the abstract was read; it has no public program. There rollouts that replace
    dropped ones are sampled asynchronously; here a whole rollout is sampled at a time. The paper's bounds could not be
    looked up, and these are ours, as `most` is.
    """

    example: ClassVar[str] = "forage train grpo text:addition --env.level 0-3 --memory refill"
    own_choices: ClassVar[str] = "both bounds, and `most`"
    ranges: ClassVar[Ranges] = {"low": Range(0, 1), "high": Range(0, 1), "most": Range(1), "group_size": Range(2)}

    low: float = 0.2  # groups that are solved more rarely are dropped
    high: float = 0.8  # groups that are solved more often are dropped
    most: int = equinox.field(static=True, default=8)  # rollouts to an update, at most

    def __check_init__(self):
        check_order(self, "low", "high")

    def room(self, num_envs: int) -> int:
        return num_envs

    def add(self, state: PooledEpisodes, rollout: Experience, clock: Clock) -> PooledEpisodes:
        rate = jnp.clip(scores(rollout), 0, 1).reshape(-1, self.group_size).mean(1)
        kept = (rate >= self.low) & (rate <= self.high)
        return self.put(state, rollout, jnp.repeat(kept, self.group_size))

    def is_ready(self, state: PooledEpisodes) -> Bool[Array, ""]:
        full = state.count >= state.episodes.reward.shape[1]
        return full | ((state.rollouts >= self.most) & (state.count > 0))

    def sample(self, state: PooledEpisodes, size: int, length: int, moment: ActContext) -> Batch:
        room = state.episodes.reward.shape[1]
        there = jnp.arange(room) < state.count
        place = jnp.arange(room, dtype=jnp.int32)
        # Each group stands as it was sampled: one prompt that came twice is two groups
        group = jnp.where(there, place - place % self.group_size, place)
        replay = Replay(jnp.zeros(room, bool), jnp.full(room, jnp.nan), group)
        return Batch(state.episodes, there.astype(jnp.float32), jnp.arange(room), replay)


def scores(rollout: Experience) -> Float[Array, " env"]:
    """Return the score of each episode: the verified truth of its answer, else its return."""
    paid = rollout.reward.sum(0)
    if "truth" not in rollout.info:
        return paid
    truth = rollout.info["truth"]
    return jnp.where(jnp.isnan(truth).all(0), paid, jnp.nan_to_num(truth).sum(0))


def same_problem(context: Int[Array, "row time"]) -> Bool[Array, "row row"]:
    """Return a mask of the prompts, padded in front, of which one begins with the whole of the other."""
    time = context.shape[1]
    shift = jnp.argmax(context != Tokens.PAD, axis=1)[:, None] + jnp.arange(time)
    left = jnp.where(shift < time, jnp.take_along_axis(context, jnp.minimum(shift, time - 1), axis=1), Tokens.PAD)
    begins = ((left[:, None] == left[None]) | (left[:, None] == Tokens.PAD)).all(-1)
    return begins | begins.T
