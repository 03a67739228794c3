"""The loop on the device: collect, remember and learn, a pure function from state to state for one seed.

    tasks --> starts --> ENVIRONMENT --> rewards --> memory --> agent
                              ^                                   |
                              +----------- behaviour <------------+

`runner.py` runs it for many seeds in one jitted program; `loop/host/loop.py` is the same loop for environments in
Python or C++.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from forage.core import prng
from forage.core.ports import (
    Agent,
    Environment,
    Metrics,
    Opponent,
    Part,
    RolloutReport,
    Starts,
    Tasks,
)
from forage.core.schedule import at_fraction, is_scheduled
from forage.core.types import Clock, Experience, ForageError
from forage.loop import visits
from forage.loop.device.collect import collect, last_infos, new_start
from forage.loop.device.state import Actors, DeviceState, Pool, RolloutResults
from forage.loop.learner import ChunkStats, Learner, LearnerState, finite
from forage.loop.needs import check_learner, check_starts
from forage.loop.visits import Visits


class DeviceLoop(Part):
    """The loop. All methods are for one seed; `advance` is jitted over many."""

    learner: Learner
    environment: Environment
    tasks: Tasks
    starts: Starts
    measured: bool = equinox.field(static=True, default=False)  # visits are counted
    opponent: Opponent | None = None  # plays every seat but one in evaluation; `None`: the agent plays all of them

    @property
    def agent(self) -> Agent:
        return self.learner.agent

    @property
    def steps_per_iteration(self) -> int:
        return self.agent.num_envs * self.agent.rollout_length

    def check(self) -> None:
        """Raise `ForageError` if parts and environment do not fit together."""
        check_learner(self.learner, self.environment)
        if self.learner.behaviour.on_host:
            raise ForageError(
                f"{type(self.learner.behaviour).__name__} intervenes on the host, and this loop runs on the device; "
                f"forage.train runs it on the host, and so does HostLoop."
            )
        check_starts(self.agent, self.learner.spec, self.environment, self.tasks, self.starts)
        memory = self.learner.memory
        if memory.recomputes_rewards and self.tasks.varies:
            raise ForageError(
                f"{type(getattr(memory, 'inner', memory)).__name__} computes rewards anew by the environment's own "
                f"function, and does not know which of the tasks that {type(self.tasks).__name__} draws a transition "
                f"is of; use --tasks same."
            )

    @property
    def scheduled(self) -> bool:
        """Return whether a number of tasks or starts follows a schedule."""
        return is_scheduled((self.tasks, self.starts))

    def at(self, fraction: Any) -> DeviceLoop:
        """Return the loop with tasks and starts as they are at a share of the run; the learner looks for itself."""
        if not self.scheduled:
            return self
        return dataclasses.replace(
            self, tasks=at_fraction(self.tasks, fraction), starts=at_fraction(self.starts, fraction)
        )

    def init(self, key: Key[Array, ""]) -> DeviceState:
        loop = self.at(0.0)
        key, learner_key, tasks_key, starts_key, pool_key = jax.random.split(key, 5)
        tasks_state = loop.tasks.init(tasks_key, self.environment)
        num_envs = self.agent.num_envs
        starts_state = loop.starts.init(starts_key, self.environment, self.learner.spec, num_envs)
        # Twice as many starts as environments: the first half begins the run.
        grouped = loop.tasks.varies and loop.starts.group > 1
        groups = jax.random.fold_in(starts_key, prng.TASKS) if grouped else ()
        starts = jax.vmap(functools.partial(new_start, loop, tasks_state, starts_state, groups))(
            jax.random.split(pool_key, (num_envs + self.pool_size, 2)), jnp.arange(num_envs + self.pool_size)
        )
        start_id = jax.tree.map(lambda x: x[0], starts.start_id) if self.agent.needs_start_ids else ()
        learner_state = self.learner.init(learner_key, self.environment, start_id)
        hidden = self.learner.init_hidden()
        objectives = len(self.learner.spec.reward_names)
        actors = Actors(
            at=jax.tree.map(lambda x: x[:num_envs], starts),
            hidden=jax.tree.map(lambda x: jnp.broadcast_to(x, (num_envs, *x.shape)), hidden),
            episode_return=jnp.zeros((num_envs, objectives) if objectives else (num_envs,)),
            episode_length=jnp.zeros(num_envs, jnp.int32),
        )
        pool = Pool(jax.tree.map(lambda x: x[num_envs:], starts), jnp.int32(0), jnp.int32(num_envs))
        measured = visits.no_visits(self.environment) if self.measured else ()
        return DeviceState(key, learner_state, tasks_state, starts_state, pool, actors, measured, groups)

    def example_start_id(self) -> PyTree[jax.ShapeDtypeStruct]:
        """Return the shapes of an episode's start_id, for an agent that wants them; `()` for others."""
        if not self.agent.needs_start_ids:
            return ()
        start_ids = jax.eval_shape(lambda key: self.init(key), prng.key(0)).pool.starts.start_id
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), start_ids)

    def collect(self, state: DeviceState, clock: Clock, key: Key[Array, ""]) -> RolloutResults:
        """Step every environment `rollout_length` times. Tasks and starts are as at the first of these steps."""
        adapts = self.tasks.adapts or self.starts.adapts or self.scheduled
        return collect(self.at(clock.fraction), adapts, state, clock, key)

    @property
    def pool_size(self) -> int:
        return max(self.agent.num_envs, 16)

    def iterate(self, state: DeviceState, clock: Clock) -> tuple[DeviceState, ChunkStats]:
        """Take one turn of the loop: collect, remember, learn, and tell tasks and starts about it."""
        key, collect_key, learn_key, starts_key = jax.random.split(state.key, 4)
        pool, actors, episodes, rollout, told, visited, places = self.collect(state, clock, collect_key)
        loop = self.at(clock.fraction)
        learner, metrics = self.learner.learn(state.learner, rollout, clock, learn_key)
        if self.agent.whole_episodes:
            after = clock._replace(steps=clock.steps + self.steps_per_iteration)
            learner = self.learner.truncate(learner, after)
        review = RolloutReport(self.environment, visited, clock, starts_key)
        if loop.tasks.needs_estimates or loop.starts.needs_estimates:
            review = review._replace(estimates=self.learner.estimate(state.learner, rollout, clock, learn_key))
        tasks_key = jax.random.fold_in(starts_key, prng.TASKS)
        state = DeviceState(
            key,
            learner,
            loop.tasks.report(state.tasks, told, review._replace(key=tasks_key)),
            loop.starts.report(state.starts, told, review),
            pool,
            actors,
            visits.count_visits(state.visits, places, told, clock) if isinstance(state.visits, Visits) else (),
            state.groups,
        )
        sums = {name: value if name == "updates" else value * metrics["updates"] for name, value in metrics.items()}
        sound = finite((rollout.reward, rollout.next_observation))
        return state, ChunkStats(episodes, sums, (~sound).astype(jnp.float32), last_infos(told))

    def measure(self, state: LearnerState, clock: Clock) -> Metrics:
        """Return the metrics of the held episodes of a data set: of other loops none."""
        return {}

    def latest(self, state: DeviceState) -> Metrics:
        """Return the metrics of a report that describe the final state."""
        return visits.measures(state.visits) if isinstance(state.visits, Visits) else {}

    def next_rollout(self, state: DeviceState, clock: Clock) -> Experience:
        """Return the rollout that the next turn will collect, for inspection."""
        return self.collect(state, clock, jax.random.split(state.key, 4)[1]).rollout
