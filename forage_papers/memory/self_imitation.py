"""The last rollout, together with earlier episodes that are still better than usual."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from forage.core.ports import ActContext, Agent, Environment, Memory
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Experience, ForageError, Replay, Spec
from forage_papers.memory.successes import blank, check_turns


class GoodEpisodes(NamedTuple):
    """Kept good episodes, the usual rewards, and the current rollout."""

    episodes: Experience  # leaves [room, time, ...]
    born: Int[Array, " room"]  # number of the rollout that each is from; -1 where there is none
    count: Int[Array, ""]  # episodes kept so far; the n-th is at place n modulo room
    means: Float[Array, " history"]  # mean reward of each of the newest groups; NaN where there is none
    groups: Int[Array, ""]  # that were looked at
    rollouts: Int[Array, ""]  # that were added
    drawn: Int[Array, " size"]  # places of the episodes that are replayed
    used: Bool[Array, ""]  # whether they are
    last: Experience | tuple[()]  # leaves [time, env, ...]; `()` between two turns of the loop


class SelfImitation(Memory):
    """Keeps episodes that were better than their group, and once it has `size` of them, replays these one time.

    The advantage of a replayed episode is computed anew, from what is usual now:

        A = R - median of the mean rewards of the newest `history` groups

    Episodes with A <= 0, which the policy has caught up with, and those of more than `age` rollouts ago are left out.
    Ratios are measured from the log-probabilities that were kept as the episode was written. The weight of replayed
    episodes rises with the updates n:

        coefficient (1 - cos(pi min(1, n / ascent))) / 2

    so that the policy explores first, and trusts its successes later. Once they were replayed, all that was kept is
    given up. Rewards are the environment's.

    Source: Qin, Tan, He et al., 2025, "Learn the Ropes, Then Trust the Wins: Self-imitation with Progressive
    Exploration for Agentic Reinforcement Learning" (SPEAR), arXiv 2509.22601, as in the authors'
    `ray_trainer_hybrid.py`, `dp_actor.py` and `run_qwen2-32b_spear.sh`, whose numbers these are but for `size`, 2048
    there. There replayed episodes have gradient steps of their own; here they share those of the rollout. Not here:
    the falling reward for calling tools, keeping only episodes that call them, and clipping by covariance, which are a
    reward, a rule and a loss.
    """

    example: ClassVar[str] = "forage train grpo text:countdown --memory self-imitation"
    on_policy: ClassVar[bool] = True
    ranges: ClassVar[Ranges] = {
        "coefficient": Range(0),
        "ascent": Range(1),
        "age": Range(1),
        "size": Range(1),
        "history": Range(1),
        "group_size": Range(2),
    }
    needs: ClassVar[Needs] = Needs(
        observations="text",
        ability="replays",
        reason="takes every episode for one of its newest policy, and SelfImitation puts older ones into rollouts",
        instead="use --memory rollout, or an agent that replays, such as grpo",
    )

    coefficient: float = 1.0  # weight of replayed episodes beside those of the rollout, once it has risen
    ascent: float = 200.0  # updates over which the weight rises
    age: int = equinox.field(static=True, default=10)  # rollouts after which an episode is left out
    size: int = equinox.field(static=True, default=16)  # episodes that are replayed at once
    history: int = equinox.field(static=True, default=10_240)  # groups whose mean rewards say what is usual
    group_size: int = equinox.field(static=True, default=8)  # episodes with one beginning, side by side; the agent's

    @property
    def group(self) -> int:
        return self.group_size

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        super().check(agent, spec, environment)
        if self.size % self.group_size:
            raise ForageError(
                f"SelfImitation replays {self.size} episodes, which are no whole groups of {self.group_size}; give a "
                f"size that is a multiple."
            )
        if agent.num_envs // self.group_size > self.history:
            raise ForageError(
                f"A rollout has {agent.num_envs // self.group_size} groups, and SelfImitation looks at {self.history}; "
                f"give a longer history."
            )
        check_turns(agent, self.size, "replayed episodes")

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> GoodEpisodes:
        room = self.size + num_envs  # fewer than `size` are kept when a rollout comes, or some are left out anyway
        return GoodEpisodes(
            blank(example, room, rollout_length),
            jnp.full(room, -1, jnp.int32),
            jnp.int32(0),
            jnp.full(self.history, jnp.nan, jnp.float32),
            jnp.int32(0),
            jnp.int32(0),
            jnp.zeros(self.size, jnp.int32),
            jnp.bool_(False),
            (),
        )

    def add(self, state: GoodEpisodes, rollout: Experience, clock: Clock) -> GoodEpisodes:
        return state._replace(last=rollout, rollouts=state.rollouts + 1)

    def returns(self, episodes: Experience) -> Float[Array, " room"]:
        """Return the reward of each episode (leaves `episode time ...`)."""
        return episodes.reward.sum(1)

    def advance(self, state: GoodEpisodes, size: int, length: int, moment: ActContext) -> GoodEpisodes:
        """Draw the episodes to replay together with this rollout."""
        better = self.returns(state.episodes) > jnp.nanmedian(state.means)
        good = (state.born >= 0) & (state.rollouts - 1 - state.born <= self.age) & better
        order = jnp.argsort(jnp.where(good, jax.random.uniform(moment.key, good.shape), 2.0))
        return state._replace(drawn=order[: self.size].astype(jnp.int32), used=good.sum() >= self.size)

    def sample(self, state: GoodEpisodes, size: int, length: int, moment: ActContext) -> Batch:
        rollout = state.last
        assert isinstance(rollout, Experience)
        num_envs = rollout.reward.shape[1]
        older = jax.tree.map(lambda x: x[state.drawn], state.episodes)
        mixed = jax.tree.map(lambda x, y: jnp.concatenate([x, jnp.moveaxis(y, 0, 1)], 1), rollout, older)
        updates = moment.clock.steps // rollout.reward.size
        rising = (1 - jnp.cos(jnp.pi * jnp.minimum(1.0, updates / self.ascent))) / 2
        weight = jnp.where(state.used, self.coefficient * rising, 0.0)
        advantage = jnp.nan_to_num(self.returns(older) - jnp.nanmedian(state.means))
        replay = Replay(
            jnp.arange(num_envs + self.size) >= num_envs,
            jnp.concatenate([jnp.full(num_envs, jnp.nan), advantage]),
        )
        weights = jnp.concatenate([jnp.ones(num_envs), jnp.full(self.size, weight)])
        return Batch(mixed, weights, jnp.arange(num_envs + self.size), replay)

    def after_updates(self, state: GoodEpisodes) -> GoodEpisodes:
        """Keep the episodes of the rollout that were better than their group, and its groups' mean rewards."""
        rollout = state.last
        assert isinstance(rollout, Experience)
        reward = rollout.reward.sum(0).reshape(-1, self.group_size)
        mean = reward.mean(1)
        good = (reward > mean[:, None]).reshape(-1)
        room = len(state.born)
        place = jnp.where(good, (state.count + jnp.cumsum(good) - 1) % room, room)
        born = jnp.where(state.used, -1, state.born).at[place].set(state.rollouts - 1, mode="drop")
        episodes = jax.tree.map(
            lambda kept, x: kept.at[place].set(jnp.moveaxis(x, 1, 0), mode="drop"), state.episodes, rollout
        )
        newest = (state.groups + jnp.arange(len(mean))) % self.history
        return GoodEpisodes(
            episodes,
            born,
            state.count + good.sum(),
            state.means.at[newest].set(mean),
            state.groups + len(mean),
            state.rollouts,
            jnp.zeros_like(state.drawn),
            jnp.bool_(False),
            (),
        )
