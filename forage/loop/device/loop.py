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
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core import mesh, prng, spaces, team
from forage.core.ports import (
    Agent,
    Environment,
    Hidden,
    Metrics,
    Opponent,
    Part,
    Review,
    Starts,
    Tasks,
    Visited,
    World,
)
from forage.core.schedule import held, is_scheduled, moments
from forage.core.types import Clock, Experience, ForageError
from forage.loop import visits
from forage.loop.compatible import check_signatures
from forage.loop.learner import Episodes, Learner, LearnerState, State, Tally, finite, select
from forage.loop.runner import Played
from forage.loop.visits import Places, Visits

LARGE = 2**14
"""Bytes of an environment's state from which on starts are copied one by one, as episodes end."""


class Start(NamedTuple):
    """The start of one episode."""

    task: PyTree[Array | None]  # the environment's leaves that this task sets
    env_state: State
    observation: PyTree[Array]
    mark: PyTree[Array] = ()  # what the starts part knows the episode by


class Pool(NamedTuple):
    """Fresh starts, made in bulk and used up as episodes end, so that no step computes a reset it does not need."""

    starts: Start  # leaves [pool, ...]
    used: Int[Array, ""]
    begun: Int[Array, ""]  # episodes that began so far: the serial number of the next start


class Actors(NamedTuple):
    """The environments being stepped; leaves [env, ...]."""

    at: Start
    hidden: Hidden
    episode_return: Float[Array, "env *objectives"]
    episode_length: Int[Array, " env"]


class DeviceState(NamedTuple):
    """The complete state of a run, for one seed: saving these leaves saves the run."""

    key: Key[Array, ""]
    learner: LearnerState
    tasks: State
    starts: State
    pool: Pool
    actors: Actors
    visits: Visits | tuple[()] = ()  # where the agent has been, in a run that is asked to measure it
    groups: Key[Array, ""] | tuple[()] = ()  # the key of each group's task is folded from it, where there are groups


class Collected(NamedTuple):
    """The results of a rollout."""

    pool: Pool
    actors: Actors
    episodes: Episodes
    rollout: Experience  # leaves `time env *agent ...`
    visited: Visited
    places: Places | tuple[()]  # where the steps were on the environment's map, where measured


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
        self.learner.check(self.environment)
        if self.learner.behaviour.on_host:
            raise ForageError(
                f"{type(self.learner.behaviour).__name__} intervenes on the host, and this loop runs on the device; "
                f"forage.train runs it on the host, and so does HostLoop."
            )
        for tasks, starts in moments((self.tasks, self.starts)):
            tasks.check(self.environment)
            starts.check(self.environment, tasks)
        for part in (self.tasks, self.starts):
            check_signatures(part, report="state, rollout, review")
            self.learner.check_judge(part)
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
        return dataclasses.replace(self, tasks=held(self.tasks, fraction), starts=held(self.starts, fraction))

    def init(self, key: Key[Array, ""]) -> DeviceState:
        self = self.at(0.0)
        key, learner_key, tasks_key, starts_key, pool_key = jax.random.split(key, 5)
        tasks_state = self.tasks.init(tasks_key, self.environment)
        num_envs = self.agent.num_envs
        starts_state = self.starts.init(starts_key, self.environment, self.learner.spec, num_envs)
        # Twice as many starts as environments: the first half begins the run.
        grouped = self.tasks.varies and self.starts.group > 1
        groups = jax.random.fold_in(starts_key, prng.TASKS) if grouped else ()
        starts = jax.vmap(functools.partial(self.new_start, tasks_state, starts_state, groups))(
            jax.random.split(pool_key, (num_envs + self.pool_size, 2)), jnp.arange(num_envs + self.pool_size)
        )
        mark = jax.tree.map(lambda x: x[0], starts.mark) if self.agent.marks else ()
        learner_state = self.learner.init(learner_key, self.environment, mark)
        hidden = self.learner.hidden()
        objectives = len(self.learner.spec.reward_names)
        actors = Actors(
            at=jax.tree.map(lambda x: x[:num_envs], starts),
            hidden=jax.tree.map(lambda x: jnp.broadcast_to(x, (num_envs, *x.shape)), hidden),
            episode_return=jnp.zeros((num_envs, objectives) if objectives else (num_envs,)),
            episode_length=jnp.zeros(num_envs, jnp.int32),
        )
        pool = Pool(jax.tree.map(lambda x: x[num_envs:], starts), jnp.int32(0), jnp.int32(num_envs))
        measured = visits.nothing(self.environment) if self.measured else ()
        return DeviceState(key, learner_state, tasks_state, starts_state, pool, actors, measured, groups)

    def mark(self) -> PyTree[jax.ShapeDtypeStruct]:
        """Return the shapes of an episode's mark, for an agent that wants them; `()` for others."""
        if not self.agent.marks:
            return ()
        marks = jax.eval_shape(lambda key: self.init(key), prng.key(0)).pool.starts.mark
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), marks)

    def new_start(
        self,
        tasks_state: State,
        starts_state: State,
        groups: Key[Array, ""] | tuple[()],
        keys: Key[Array, "2"],
        index: Int[Array, ""],
    ) -> Start:
        """Begin an episode. Those of one group get one task, but where the tasks learn before it is full."""
        task_key = keys[0] if isinstance(groups, tuple) else jax.random.fold_in(groups, index // self.starts.group)
        task = self.tasks.next(tasks_state, self.environment, task_key)
        return Start(task, *self.starts.begin(starts_state, equinox.combine(task, self.environment), keys[1], index))

    def collect(self, state: DeviceState, clock: Clock, key: Key[Array, ""]) -> Collected:
        """Step every environment `rollout_length` times. Tasks and starts are as at the first of these steps."""
        adapts, self = self.tasks.adapts or self.starts.adapts or self.scheduled, self.at(clock.fraction)
        num_envs, length, spec = self.agent.num_envs, self.agent.rollout_length, self.learner.spec
        first_hidden = self.learner.hidden()
        keys = jax.random.split(key, (length, 2 * num_envs + 1))

        def one(
            at: Start,
            hidden: Hidden,
            clock: Clock,
            act_key: Key[Array, ""],
            step_key: Key[Array, ""],
            env: Int[Array, ""],
        ):
            environment = equinox.combine(at.task, self.environment)
            world = World(environment, at.env_state)
            decision = self.learner.act(state.learner, hidden, at.observation, clock, act_key, env, world)
            action = decision.action
            env_state, step = environment.step(at.env_state, spaces.clip(spec.action_space, action), step_key)
            experience = Experience(
                observation=at.observation,
                action=action,
                reward=step.reward,
                next_observation=step.observation,
                terminated=step.terminated,
                truncated=step.truncated,
                source=decision.source,
                aux=decision.aux,
                info=team.repeat(numbers(step.info, spec.info_names), spec.num_agents),
                memo=decision.memo,
                version=team.repeat(self.agent.version(state.learner.agent), spec.num_agents),
            )
            if self.agent.marks:
                experience = experience._replace(mark=team.repeat(at.mark, spec.num_agents))
            place = ()
            if self.measured and environment.places:
                place = environment.place(env_state), environment.place(at.env_state)
            return at._replace(env_state=env_state, observation=step.observation), decision.hidden, experience, place

        def step(
            carry: tuple[Pool, Start, Hidden, Int[Array, " env"]],
            inputs: tuple[Key[Array, " keys"], Int[Array, ""]],
        ):
            pool, at, hidden, age = carry
            keys, time = inputs
            (at, hidden, age), keys = mesh.split((at, hidden, age)), mesh.whole(keys)
            now = clock._replace(steps=clock.steps + time * num_envs)
            at, hidden, experience, place = jax.vmap(one, in_axes=(0, 0, None, 0, 0, 0))(
                at, hidden, now, keys[:num_envs], keys[num_envs:-1], jnp.arange(num_envs)
            )
            if place:
                beyond = math.prod(self.environment.places or ())
                place = Places(place[0], jnp.where(age == 0, place[1], beyond))
            gone = team.as_one(experience, spec.num_agents).ended
            if self.starts.cuts:
                cut = jax.vmap(self.starts.cut)(at.mark, age + 1)
                experience = experience._replace(truncated=team.truncated(experience, cut))
            over = team.as_one(experience, spec.num_agents).ended
            age = jnp.where(over, 0, age + 1)
            played = at.task, at.mark
            visited = (at.env_state, gone) if self.starts.every_state else None
            pool, at = self.begin_anew(state, pool, at, over, keys[-1])
            hidden = select(experience.ended, jax.tree.map(lambda x: x[None], first_hidden), hidden)
            return (pool, at, hidden, age), (experience, played, visited, place)

        if adapts:
            state = state._replace(pool=state.pool._replace(used=jnp.int32(self.pool_size)))
        if self.agent.whole_episodes:
            state = self.drop_unfinished(state, jax.random.fold_in(key, prng.FRESH))
        carry = (state.pool, state.actors.at, state.actors.hidden, state.actors.episode_length)
        (pool, at, hidden, _), (rollout, played, visited, places) = jax.lax.scan(
            step, carry, (keys, jnp.arange(length))
        )
        rollout = mesh.split(rollout, 1)
        # Returns and lengths in bulk, as no step needs them: what was under way, and came in, and is not under way.
        told = self.as_one(rollout)
        ended, one_each = told.ended, jnp.ones(told.ended.shape, jnp.int32)
        episode_return = under_way(state.actors.episode_return, told.reward, ended)
        episode_length = under_way(state.actors.episode_length, one_each, ended)
        episodes = Episodes(
            ended.sum().astype(jnp.float32),
            (state.actors.episode_return + told.reward.sum(0) - episode_return).sum(0),
            (state.actors.episode_length + length - episode_length).sum().astype(jnp.float32),
        )
        if visited is None:
            visited = jax.tree.map(lambda x: x[None], (at.env_state, ended[-1]))
        (env_states, gone), (tasks, marks) = visited, played
        visited = Visited(env_states, marks, gone, state.actors.episode_length == 0, tasks)
        actors = Actors(at, hidden, episode_return, episode_length)
        return Collected(pool, actors, episodes, rollout, visited, places)

    def as_one(self, rollout: Experience) -> Experience:
        """Return a rollout as its environments see it; of a team with opponents, with the reward of the others."""
        told = team.as_one(rollout, self.learner.spec.num_agents)
        return told._replace(reward=team.own_reward(rollout)) if self.learner.behaviour.opposes else told

    def drop_unfinished(self, state: DeviceState, key: Key[Array, ""]) -> DeviceState:
        """Replace the unfinished episodes by new ones, without counting them."""
        running = state.actors.episode_length > 0
        pool, at = self.begin_anew(state, state.pool, state.actors.at, running, key)
        hidden = select(running, jax.tree.map(lambda x: x[None], self.learner.hidden()), state.actors.hidden)
        nothing = jnp.zeros_like(state.actors.episode_return), jnp.zeros_like(state.actors.episode_length)
        return state._replace(pool=pool, actors=Actors(at, hidden, *nothing))

    @property
    def pool_size(self) -> int:
        return max(self.agent.num_envs, 16)

    def begin_anew(
        self, state: DeviceState, pool: Pool, at: Start, over: Bool[Array, " env"], key: Key[Array, ""]
    ) -> tuple[Pool, Start]:
        """Put a start from the pool in place of each episode that is over; each start is handed out once."""
        count = over.sum()

        def refill(pool: Pool) -> Pool:
            # The keys depend on the pool, or else XLA would make the starts outside the loop, at every step.
            keys = jax.random.split(jax.random.fold_in(key, pool.used), (self.pool_size, 2))
            index = pool.begun + jnp.arange(self.pool_size)
            starts = jax.vmap(functools.partial(self.new_start, state.tasks, state.starts, state.groups))(keys, index)
            return Pool(starts, jnp.int32(0), pool.begun)

        # A loop of at most one turn rather than `cond`: under `vmap` over seeds a loop runs only while some seed
        # needs it, whereas both branches of a `cond` would run at every step.
        pool = jax.lax.while_loop(lambda pool: pool.used + count > self.pool_size, refill, pool)
        handed_out = pool._replace(used=pool.used + count, begun=pool.begun + count)
        if sum(x.nbytes for x in jax.tree.leaves(at)) < LARGE * over.size:
            index = jnp.clip(pool.used + jnp.cumsum(over) - 1, 0, self.pool_size - 1)
            fresh = jax.tree.map(lambda x: x[index], pool.starts)
            return handed_out, select(over, fresh, at)

        # Where a start is large, copying one for every environment at every step would take longer than the step.
        def replace(loop: tuple[Int[Array, ""], Bool[Array, " env"], Start]):
            used, over, at = loop
            env = jnp.argmax(over)
            at = jax.tree.map(lambda x, starts: x.at[env].set(starts[used]), at, pool.starts)
            return used + 1, over.at[env].set(False), at

        *_, at = jax.lax.while_loop(lambda loop: loop[1].any(), replace, (pool.used, over, at))
        return handed_out, at

    def iterate(self, state: DeviceState, clock: Clock) -> tuple[DeviceState, Tally]:
        """Take one turn of the loop: collect, remember, learn, and tell tasks and starts about it."""
        key, collect_key, learn_key, starts_key = jax.random.split(state.key, 4)
        pool, actors, episodes, rollout, visited, places = self.collect(state, clock, collect_key)
        self = self.at(clock.fraction)
        learner, metrics = self.learner.learn(state.learner, rollout, clock, learn_key)
        if self.agent.whole_episodes:
            after = clock._replace(steps=clock.steps + self.steps_per_iteration)
            learner = self.learner.truncate(learner, after)
        told = self.as_one(rollout)
        review = Review(self.environment, visited, clock, starts_key)
        if self.tasks.judged or self.starts.judged:
            review = review._replace(judgement=self.learner.judge(state.learner, rollout, clock, learn_key))
        tasks_key = jax.random.fold_in(starts_key, prng.TASKS)
        state = DeviceState(
            key,
            learner,
            self.tasks.report(state.tasks, told, review._replace(key=tasks_key)),
            self.starts.report(state.starts, told, review),
            pool,
            actors,
            visits.hear(state.visits, places, told, clock) if isinstance(state.visits, Visits) else (),
            state.groups,
        )
        sums = {name: value if name == "updates" else value * metrics["updates"] for name, value in metrics.items()}
        sound = finite((rollout.reward, rollout.next_observation))
        return state, Tally(episodes, sums, (~sound).astype(jnp.float32), last_infos(told))

    def latest(self, state: DeviceState) -> Metrics:
        """Return the metrics of a report that describe the final state."""
        return visits.measures(state.visits) if isinstance(state.visits, Visits) else {}

    def next_rollout(self, state: DeviceState, clock: Clock) -> Experience:
        """Return the rollout that the next turn will collect, for inspection."""
        return self.collect(state, clock, jax.random.split(state.key, 4)[1]).rollout

    def evaluate(
        self,
        state: LearnerState,
        key: Key[Array, ""],
        episodes: int,
        max_steps: int,
        pinned: PyTree[Array | None] = None,
        sampled: bool | Bool[Array, ""] = False,
        split: bool = True,
    ) -> Played:
        """Play fresh episodes, greedily or `sampled`, apart from training (leaves `episode ...`).

        The tasks are those that `tasks.evaluation()` draws, with schedules at their end; `pinned`, shaped like one,
        says what every one of them has.
        An episode that has not ended after `max_steps`, or the horizon of its own task where that is later, counts as
        it stands. Where there is an opponent the agent takes each seat in turn, and only its own reward counts. The
        devices of a seed share the episodes if they are to be `split`.
        """
        start_key, tasks_key, key = jax.random.split(key, 3)
        tasks = self.at(1.0).tasks.evaluation()
        tasks_state = tasks.init(tasks_key, self.environment)

        def begin(key: Key[Array, ""]) -> tuple[Start, Int[Array, ""]]:
            task_key, reset_key = jax.random.split(key)
            task = equinox.combine(pinned, tasks.next(tasks_state, self.environment, task_key))
            environment = equinox.combine(task, self.environment)
            horizon = environment.horizon if tasks.varies or pinned is not None else None
            limit = jnp.maximum(max_steps, 0 if horizon is None else horizon)
            return Start(task, *environment.reset(reset_key)), limit

        at, limits = jax.vmap(begin)(jax.random.split(start_key, episodes))
        last = limits.max()
        hidden = self.learner.hidden(explore=False)
        if self.opponent is not None:
            hidden = Hidden(hidden, team.repeat(self.opponent.hidden(self.learner.spec), self.learner.spec.num_agents))
        hidden = jax.tree.map(lambda x: jnp.broadcast_to(x, (episodes, *x.shape)), hidden)
        seats = jnp.arange(episodes) % self.learner.spec.num_agents

        def one(at: Start, hidden: PyTree[Array], key: Key[Array, ""], seat: Int[Array, ""]):
            act_key, step_key = jax.random.split(key)
            world = World(equinox.combine(at.task, self.environment), at.env_state)
            action, hidden = self.play(state, hidden, at.observation, act_key, sampled, seat, world)
            action = spaces.clip(self.learner.spec.action_space, action)
            env_state, step = world.environment.step(at.env_state, action, step_key)
            return at._replace(env_state=env_state, observation=step.observation), hidden, step

        def step(carry):
            time, *rest = carry
            at, hidden, running, total, length, infos = mesh.split(rest) if split else rest
            keys = jax.random.split(jax.random.fold_in(key, time), episodes)
            at, hidden, brought = jax.vmap(one)(at, hidden, keys, seats)
            hidden = self.learner.paid(state, hidden, brought.reward)
            step = team.as_one(brought, self.learner.spec.num_agents)
            if self.opponent is not None:
                step = step._replace(reward=brought.reward[jnp.arange(episodes), seats])
            total, length = total + select(running, step.reward, 0), length + running
            infos = select(running, numbers(step.info, self.learner.spec.info_names), infos)
            running &= ~(step.terminated | step.truncated) & (time + 1 < last)  # others, in this program, may go on
            return time + 1, at, hidden, running, total, length, infos

        objectives = len(self.learner.spec.reward_names)
        total = jnp.zeros((episodes, objectives) if objectives else (episodes,))
        infos = {name: jnp.full(episodes, jnp.nan) for name in self.learner.spec.info_names}
        carry = (jnp.int32(0), at, hidden, jnp.full(episodes, last > 0), total, jnp.zeros(episodes, jnp.int32), infos)
        carry = jax.lax.while_loop(lambda carry: some(carry[3]), step, carry)
        total, length, infos = carry[4:]
        if self.opponent is not None:
            results = {"win": total > 0, "draw": total == 0, "loss": total < 0}
            infos = numbers(results, tuple(results)) | infos
        return Played(total, length, infos)

    def play(
        self,
        state: LearnerState,
        hidden: PyTree[Array],
        observation: PyTree[Array],
        key: Key[Array, ""],
        sampled: bool | Bool[Array, ""],
        seat: Int[Array, ""],
        world: World,
    ) -> tuple[PyTree[Array], PyTree[Array]]:
        """Choose the actions of one environment in evaluation: the agent's in its `seat`, an opponent's elsewhere."""
        if self.opponent is None:
            return self.learner.play(state, hidden, observation, key, sampled, world)
        opponent, spec = self.opponent, self.learner.spec

        def act(hidden: PyTree[Array], observation: PyTree[Array], key: Key[Array, ""], _: Int[Array, ""]):
            return opponent.act(hidden, observation, spec, key)

        own, memory = self.learner.play(state, hidden.agent, observation, key, sampled)
        key = jax.random.fold_in(key, prng.OPPONENT)
        others, theirs = self.learner.by_agent(act)(hidden.behaviour, observation, key)
        return select(jnp.arange(spec.num_agents) == seat, own, others), Hidden(memory, theirs)


@jax.custom_batching.custom_vmap
def some(flags: Bool[Array, "..."]) -> Bool[Array, ""]:
    """Return whether any flag is set, in any member of a `vmap`.

    A loop that goes on while `some` are running has one condition for all of them. Where each member had its own, every
    turn would choose between what all that it carries was and is.
    """
    return flags.any()


@some.def_vmap
def some_of_all(size: int, batched: list[bool], flags: Bool[Array, "..."]) -> tuple[Bool[Array, ""], bool]:
    return some(flags), False


def numbers(info: dict[str, Any], names: tuple[str, ...]) -> dict[str, Float[Array, "*env"]]:
    """Return the entries of these names in 32-bit floats."""
    return {name: jnp.asarray(info[name], jnp.float32) for name in names}


def last_infos(told: Experience) -> dict[str, tuple[Array, Array]]:
    """Sum the info values of the last steps of episodes (leaves `time env`), and count them."""
    return sums_said({name: jnp.where(told.ended, values, jnp.nan) for name, values in told.info.items()})


def sums_said(infos: Mapping[str, Any]) -> dict[str, tuple[Array, Array]]:
    """Sum the numbers of each name, and count them; NaN marks a missing value."""
    said = {name: ~jnp.isnan(values) for name, values in infos.items()}
    return {
        name: (jnp.where(said[name], values, 0).sum(), said[name].sum().astype(jnp.float32))
        for name, values in infos.items()
    }


def under_way(
    before: Float[Array, "env *objectives"], new: Float[Array, "time env *objectives"], ended: Bool[Array, "time env"]
) -> Float[Array, "env *objectives"]:
    """Compute the running sums of the unfinished episodes: `new` since each one's start, and `before` if it started
    earlier.
    """
    time = jnp.arange(1, len(ended) + 1)[:, None]
    last = jnp.where(ended, time, 0).max(0)  # steps up to the last end, 0 where there was none
    extra = (1,) * (new.ndim - 2)
    total = jnp.where((time > last).reshape(ended.shape + extra), new, 0).sum(0)
    return total + jnp.where((last == 0).reshape(last.shape + extra), before, 0)
