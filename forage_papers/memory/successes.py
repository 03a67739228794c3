"""The last rollout, with an earlier success in the place of one failure of each group that failed as a whole."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from forage.core.ports import ActContext, Agent, Environment, Memory
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Experience, ForageError, Replay, Spec


class KeptSuccesses(NamedTuple):
    """The newest successes, and the rollout that is learned from."""

    episodes: Experience  # leaves [capacity, time, ...]
    count: Int[Array, ""]  # successes so far; the n-th is at place n modulo capacity
    last: Experience | tuple[()]  # leaves [time, env, ...]; `()` between two turns of the loop


class Successes(Memory):
    """Replays a success into groups of episodes with one beginning that failed as a whole.

    Where all episodes of a group fail, their rewards are equal, their advantages 0, and nothing is learned. If an
    earlier rollout has a success from the same beginning, the group's first episode gives its place to one of these,
    drawn at random, so that the group has a reward to compare with. A group has failed where the deviation of its
    rewards is below `spread` and their mean below `failure`; an episode is a success where its reward is above
    `success`. Rewards are the environment's. Beginnings are the same where all tokens of the first context are, so it
    needs problems that come again, as with `--env.problems 64`.

    An older policy wrote the success. With `recorded` its ratio is measured from the log-probabilities that were kept
    then (importance sampling); without, from those of the policy as it is, as if it had just been written, which is
    what the authors' program does.

    Source: Lu, Zhong, Liu, Fu, Jia, 2025, "ARPO: End-to-End Policy Optimization for GUI Agents with Experience Replay",
    arXiv 2505.16282, as in the authors' `replay_buffer.py` and `apply_replay` (read in a fork of their repository),
    whose bounds these are. There each task keeps its own 8 newest successes; here all share the `capacity`. Tasks that
    the first policy never solves are left out by `--tasks first-policy`, with as many rollouts `measured` as there are
    `waiting` ones here.
    """

    example: ClassVar[str] = "forage train grpo text:countdown --env.problems 64 --memory successes"
    on_policy: ClassVar[bool] = True
    ranges: ClassVar[Ranges] = {
        "success": Range(),
        "failure": Range(),
        "spread": Range(0),
        "capacity": Range(1),
        "waiting": Range(0),
        "group_size": Range(2),
    }
    needs: ClassVar[Needs] = Needs(
        observations="text",
        ability="replays",
        reason="takes every episode for one of its newest policy, and Successes puts older ones into rollouts",
        instead="use --memory rollout, or an agent that replays, such as grpo",
    )

    success: float = 0.1  # reward of an episode above which it is kept
    failure: float = 0.2  # mean reward of a group below which it may have failed
    spread: float = 0.05  # deviation of a group's rewards below which it has failed as a whole
    capacity: int = equinox.field(static=True, default=256)  # successes that are kept, of all beginnings together
    group_size: int = equinox.field(static=True, default=8)  # episodes with one beginning, side by side; the agent's
    waiting: int = equinox.field(static=True, default=0)  # rollouts of the first policy before the first update, whose
    # successes are kept
    recorded: bool = equinox.field(static=True, default=True)  # ratios are measured from the policy that wrote

    @property
    def group(self) -> int:
        return self.group_size

    @property
    def waiting_rollouts(self) -> int:  # type: ignore[override]
        return self.waiting

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        super().check(agent, spec, environment)
        if self.capacity < agent.num_envs:
            raise ForageError(
                f"Successes keeps {self.capacity} episodes, and a rollout may have {agent.num_envs}; give a capacity "
                f"of {agent.num_envs} or more."
            )

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> KeptSuccesses:
        return KeptSuccesses(blank(example, self.capacity, rollout_length), jnp.int32(0), ())

    def add(self, state: KeptSuccesses, rollout: Experience, clock: Clock) -> KeptSuccesses:
        return state._replace(last=rollout)

    def sample(self, state: KeptSuccesses, size: int, length: int, moment: ActContext) -> Batch:
        rollout = state.last
        assert isinstance(rollout, Experience)
        num_envs = rollout.reward.shape[1]
        reward = rollout.reward.sum(0).reshape(-1, self.group_size)
        failed = (reward.std(1) < self.spread) & (reward.mean(1) < self.failure)
        same = self.same(state, rollout)
        drawn = jax.random.uniform(moment.key, same.shape)
        chosen = jnp.argmax(jnp.where(same, drawn, -1.0), 1)
        replaced = failed & same.any(1)

        def put(x: Array, kept: Array) -> Array:
            older, place = jnp.moveaxis(kept[chosen], 0, 1), slice(None, None, self.group_size)
            where = replaced.reshape(1, -1, *(1,) * (x.ndim - 2))
            return x.at[:, place].set(jnp.where(where, older, x[:, place]))

        mixed = jax.tree.map(put, rollout, state.episodes)
        older = jnp.zeros(num_envs, bool).at[:: self.group_size].set(replaced & self.recorded)
        replay = Replay(older, jnp.full(num_envs, jnp.nan))
        return Batch(mixed, jnp.ones(num_envs), jnp.arange(num_envs), replay)

    def same(self, state: KeptSuccesses, rollout: Experience) -> Bool[Array, "group kept"]:
        """Return a mask of the successes with the same beginning as each group of the rollout."""
        begins = rollout.observation["context"][0, :: self.group_size]
        equal = (begins[:, None] == state.episodes.observation["context"][None, :, 0]).all(-1)
        return equal & (jnp.arange(self.capacity) < state.count)

    def after_updates(self, state: KeptSuccesses) -> KeptSuccesses:
        """Keep the successes of the rollout that was learned from."""
        assert isinstance(state.last, Experience)
        return keep_good(state, state.last, self.success)._replace(last=())


def keep_good(state: KeptSuccesses, rollout: Experience, success: float) -> KeptSuccesses:
    """Return the successes with those of a rollout, of a reward above `success`, in the places of the oldest."""
    capacity, good = len(state.episodes.reward), rollout.reward.sum(0) > success
    place = jnp.where(good, (state.count + jnp.cumsum(good) - 1) % capacity, capacity)
    episodes = jax.tree.map(
        lambda kept, x: kept.at[place].set(jnp.moveaxis(x, 1, 0), mode="drop"), state.episodes, rollout
    )
    return KeptSuccesses(episodes, state.count + good.sum(), state.last)


def check_turns(agent: Agent, size: int, what: str) -> None:
    """Raise `ForageError` if the minibatches of an agent do not divide a rollout's turns with `size` more episodes."""
    rows = (agent.num_envs + size) * agent.rollout_length
    if rows % getattr(agent, "minibatches", 1):
        raise ForageError(
            f"With {size} {what} there are {rows} turns to learn from, which minibatches does not divide; give another "
            f"size."
        )


def blank(example: Experience, size: int, length: int) -> Experience:
    """Return empty room for `size` episodes, leaves `episode time ...`."""
    return jax.tree.map(lambda x: jnp.zeros((size, length, *x.shape), x.dtype), example)
