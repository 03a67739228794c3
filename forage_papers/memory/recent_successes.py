"""Successes of all rollouts so far, of which newer ones are learned from more often."""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from forage.core.ports import ActContext, Agent, Environment, Memory
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Experience, ForageError, Replay, Spec
from forage_papers.memory.successes import KeptSuccesses, blank, check_turns, keep_good


class RecentSuccesses(Memory):
    """Replays successes alone, drawn from all rollouts so far with a preference for the newest.

    After each rollout `size` of the n successes so far, the newest among them, are drawn without replacement; the i-th
    of them, counted from 0 for the oldest, in each draw with a probability in proportion to

        recency (i + 1) / (1 + 2 + ... + n) + (1 - recency) / n

    Each has the advantage 1, and the rest of the rollout none, so that an agent with the loss `reinforce`, such as
    `tti`, clones them (filtered behaviour cloning). Where there are not more than `size`, all are learned from. Rewards
    are the environment's.

    Source: Shen, Bai, Zhang, Zhou, Setlur, Tong, Caples, Jiang, Zhang, Talwalkar, Kumar (2025), "Thinking vs. Doing:
    Agents that Reason by Scaling Test-Time Interaction", arXiv 2506.07976, as in the authors' program
    (test-time-interaction/TTI: `filteredbc/trainer.py`, `update`, and `filter_trajectories`), whose share of recency is
    1/2. There the other half prefers successes on web sites that have fewer of them, which with a single site is the
    rule above; the draw is of as many as a rollout has; and answers that say that there is none are left out. The
    cap on turns that rises is `--tasks phases`.
    """

    example: ClassVar[str] = "forage train tti text:guess --memory recent-successes"
    own_choices: ClassVar[str] = "size and capacity"
    on_policy: ClassVar[bool] = True
    ranges: ClassVar[Ranges] = {
        "success": Range(),
        "recency": Range(0, 1),
        "size": Range(1),
        "capacity": Range(1),
    }
    needs: ClassVar[Needs] = Needs(
        observations="text",
        ability="replays",
        reason="takes every episode for one of its newest policy, and RecentSuccesses puts older ones into rollouts",
        instead="use --memory rollout, or an agent that replays, such as tti",
    )

    success: float = 0.0  # reward of an episode above which it is kept
    recency: float = 0.5  # share of the probability that grows with the place in time
    size: int = equinox.field(static=True, default=64)  # successes to learn from after each rollout, at most
    capacity: int = equinox.field(static=True, default=1024)  # successes that are kept, the newest

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        super().check(agent, spec, environment)
        if getattr(agent, "loss", "") != "reinforce":
            raise ForageError("RecentSuccesses clones successes; give the agent --loss reinforce, or take tti.")
        if self.capacity < max(self.size, agent.num_envs):
            raise ForageError(
                f"RecentSuccesses keeps {self.capacity} episodes, of which {self.size} are drawn and a rollout may add "
                f"{agent.num_envs}; give a capacity of {max(self.size, agent.num_envs)} or more."
            )
        check_turns(agent, self.size, "successes")

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> KeptSuccesses:
        return KeptSuccesses(blank(example, self.capacity, rollout_length), jnp.int32(0), ())

    def add(self, state: KeptSuccesses, rollout: Experience, clock: Clock) -> KeptSuccesses:
        return keep_good(state, rollout, self.success)._replace(last=rollout)

    def probabilities(self, state: KeptSuccesses) -> Float[Array, " kept"]:
        """Return the probability of each place to be drawn first, 0 for empty ones."""
        kept = jnp.minimum(state.count, self.capacity)
        place = (jnp.arange(self.capacity) - jnp.maximum(state.count - self.capacity, 0)) % self.capacity
        whole = jnp.maximum(kept, 1)
        rising = (place + 1) / (whole * (whole + 1) / 2)
        return jnp.where(place < kept, self.recency * rising + (1 - self.recency) / whole, 0.0)

    def sample(self, state: KeptSuccesses, size: int, length: int, moment: ActContext) -> Batch:
        rollout = state.last
        assert isinstance(rollout, Experience)
        num_envs = rollout.reward.shape[1]
        # The largest sums of a log-probability and Gumbel noise are draws without replacement
        noisy = jnp.log(self.probabilities(state)) + jax.random.gumbel(moment.key, (self.capacity,))
        drawn, chosen = jax.lax.top_k(noisy, self.size)
        kept = jax.tree.map(lambda x: jnp.moveaxis(x[chosen], 0, 1), state.episodes)
        mixed = jax.tree.map(lambda x, y: jnp.concatenate([x, y], 1), rollout, kept)
        advantage = jnp.concatenate([jnp.full(num_envs, jnp.nan), jnp.ones(self.size)])
        weight = jnp.concatenate([jnp.zeros(num_envs), jnp.isfinite(drawn).astype(jnp.float32)])
        index = jnp.arange(num_envs + self.size)
        return Batch(mixed, weight, index, Replay(index >= num_envs, advantage))

    def after_updates(self, state: KeptSuccesses) -> KeptSuccesses:
        return state._replace(last=())
