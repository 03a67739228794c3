"""Collecting a rollout on the device: steps of all environments, and new starts where episodes end."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.core import mesh, prng, spaces, team
from forage.core.ports import HiddenState, RolloutStates, World
from forage.core.types import Clock, Experience
from forage.loop.device.state import Actors, DeviceState, Pool, RolloutResults, Start
from forage.loop.learner import Episodes, State, where_tree
from forage.loop.visits import Places

if TYPE_CHECKING:
    from forage.loop.device.loop import DeviceLoop

LARGE = 2**14
"""Bytes of an environment's state from which on starts are copied one by one, as episodes end."""


def collect(loop: DeviceLoop, adapts: bool, state: DeviceState, clock: Clock, key: Key[Array, ""]) -> RolloutResults:
    """Step every environment `rollout_length` times, with tasks and starts as `loop` has them.

    `adapts`: starts that were drawn before are stale, so new ones are drawn first.
    """
    agent, spec = loop.learner.agent, loop.learner.spec
    num_envs, length = agent.num_envs, agent.rollout_length
    first_hidden = loop.learner.init_hidden()
    keys = jax.random.split(key, (length, 2 * num_envs + 1))
    acting = state.learner._replace(agent=agent.prepare_acting(state.learner.agent))

    # One environment
    def one(
        at: Start,
        hidden: HiddenState,
        clock: Clock,
        act_key: Key[Array, ""],
        step_key: Key[Array, ""],
        env: Int[Array, ""],
    ):
        environment = equinox.combine(at.task, loop.environment)
        world = World(environment, at.env_state)
        decision = loop.learner.act(acting, hidden, at.observation, clock, act_key, env, world)
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
            policy_info=decision.policy_info,
            info=team.repeat(info_numbers(step.info, spec.info_names), spec.num_agents),
            behaviour_info=decision.behaviour_info,
            version=team.repeat(agent.version(state.learner.agent), spec.num_agents),
        )
        if agent.needs_start_ids:
            experience = experience._replace(start_id=team.repeat(at.start_id, spec.num_agents))
        place = ()
        if loop.measured and environment.map_shape:
            place = environment.map_position(env_state), environment.map_position(at.env_state)
        return at._replace(env_state=env_state, observation=step.observation), decision.hidden, experience, place

    # One step of all environments, with new starts where episodes end
    def step(
        carry: tuple[Pool, Start, HiddenState, Int[Array, " env"]],
        inputs: tuple[Key[Array, " keys"], Int[Array, ""]],
    ):
        pool, at, hidden, age = carry
        keys, time = inputs
        (at, hidden, age), keys = mesh.split_leaves((at, hidden, age)), mesh.replicate(keys)
        now = clock._replace(steps=clock.steps + time * num_envs)
        at, hidden, experience, place = jax.vmap(one, in_axes=(0, 0, None, 0, 0, 0))(
            at, hidden, now, keys[:num_envs], keys[num_envs:-1], jnp.arange(num_envs)
        )
        if place:
            beyond = math.prod(loop.environment.map_shape or ())
            place = Places(place[0], jnp.where(age == 0, place[1], beyond))
        gone = team.as_one(experience, spec.num_agents).ended
        if loop.starts.cuts:
            cut = jax.vmap(loop.starts.cut)(at.start_id, age + 1)
            experience = experience._replace(truncated=team.truncate_teams(experience, cut))
        over = team.as_one(experience, spec.num_agents).ended
        age = jnp.where(over, 0, age + 1)
        played = at.task, at.start_id
        visited = (at.env_state, gone) if loop.starts.every_state else None
        pool, at = restart_episodes(loop, state, pool, at, over, keys[-1])
        hidden = where_tree(experience.ended, jax.tree.map(lambda x: x[None], first_hidden), hidden)
        return (pool, at, hidden, age), (experience, played, visited, place)

    # The rollout
    if adapts:
        state = state._replace(pool=state.pool._replace(used=jnp.int32(loop.pool_size)))
    if agent.whole_episodes:
        state = drop_unfinished(loop, state, jax.random.fold_in(key, prng.FRESH))
    carry = (state.pool, state.actors.at, state.actors.hidden, state.actors.episode_length)
    (pool, at, hidden, _), (rollout, played, visited, places) = jax.lax.scan(step, carry, (keys, jnp.arange(length)))
    rollout = mesh.split_leaves(rollout, 1)
    # Episode totals, computed once after the scan: carried over + collected - still running.
    told = team.as_one(rollout, spec.num_agents)
    if loop.learner.behaviour.opposes:
        told = told._replace(reward=team.own_reward(rollout))
    ended, one_each = told.ended, jnp.ones(told.ended.shape, jnp.int32)
    episode_return = running_totals(state.actors.episode_return, told.reward, ended)
    episode_length = running_totals(state.actors.episode_length, one_each, ended)
    episodes = Episodes(
        ended.sum().astype(jnp.float32),
        (state.actors.episode_return + told.reward.sum(0) - episode_return).sum(0),
        (state.actors.episode_length + length - episode_length).sum().astype(jnp.float32),
    )
    # The states that tasks and starts learn from
    if visited is None:
        visited = jax.tree.map(lambda x: x[None], (at.env_state, ended[-1]))
    (env_states, gone), (tasks, start_ids) = visited, played
    visited = RolloutStates(env_states, start_ids, gone, state.actors.episode_length == 0, tasks)
    actors = Actors(at, hidden, episode_return, episode_length)
    return RolloutResults(pool, actors, episodes, rollout, told, visited, places)


def drop_unfinished(loop: DeviceLoop, state: DeviceState, key: Key[Array, ""]) -> DeviceState:
    """Replace the unfinished episodes by new ones, without counting them."""
    running = state.actors.episode_length > 0
    pool, at = restart_episodes(loop, state, state.pool, state.actors.at, running, key)
    hidden = where_tree(running, jax.tree.map(lambda x: x[None], loop.learner.init_hidden()), state.actors.hidden)
    nothing = jnp.zeros_like(state.actors.episode_return), jnp.zeros_like(state.actors.episode_length)
    return state._replace(pool=pool, actors=Actors(at, hidden, *nothing))


def restart_episodes(
    loop, state: DeviceState, pool: Pool, at: Start, over: Bool[Array, " env"], key: Key[Array, ""]
) -> tuple[Pool, Start]:
    """Put a start from the pool in place of each episode that is over; each start is handed out once."""
    count = over.sum()

    def refill(pool: Pool) -> Pool:
        # The keys depend on the pool, or else XLA would make the starts outside the loop, at every step; and behind a
        # barrier, or else it would take the first rounds of the cipher out of the loop.
        used, own = jax.lax.optimization_barrier((pool.used, key))
        keys = jax.random.split(jax.random.fold_in(own, used), (loop.pool_size, 2))
        index = pool.begun + jnp.arange(loop.pool_size)
        starts = jax.vmap(functools.partial(new_start, loop, state.tasks, state.starts, state.groups))(keys, index)
        return Pool(starts, jnp.int32(0), pool.begun)

    # A loop of at most one turn rather than `cond`: under `vmap` over seeds a loop runs only while some seed
    # needs it, whereas both branches of a `cond` would run at every step.
    pool = jax.lax.while_loop(lambda pool: pool.used + count > loop.pool_size, refill, pool)
    handed_out = pool._replace(used=pool.used + count, begun=pool.begun + count)
    if sum(x.nbytes for x in jax.tree.leaves(at)) < LARGE * over.size:
        index = jnp.clip(pool.used + jnp.cumsum(over) - 1, 0, loop.pool_size - 1)
        fresh = jax.tree.map(lambda x: x[index], pool.starts)
        return handed_out, where_tree(over, fresh, at)

    # Where a start is large, copying one for every environment at every step would take longer than the step.
    def replace(carry: tuple[Int[Array, ""], Bool[Array, " env"], Start]):
        used, over, at = carry
        env = jnp.argmax(over)
        at = jax.tree.map(lambda x, starts: x.at[env].set(starts[used]), at, pool.starts)
        return used + 1, over.at[env].set(False), at

    *_, at = jax.lax.while_loop(lambda carry: carry[1].any(), replace, (pool.used, over, at))
    return handed_out, at


def new_start(
    loop: DeviceLoop,
    tasks_state: State,
    starts_state: State,
    groups: Key[Array, ""] | tuple[()],
    keys: Key[Array, "2"],
    index: Int[Array, ""],
) -> Start:
    """Begin an episode. Those of one group get one task, but where the tasks learn before it is full."""
    task_key = keys[0] if isinstance(groups, tuple) else jax.random.fold_in(groups, index // loop.starts.group)
    task = loop.tasks.next(tasks_state, loop.environment, task_key)
    return Start(task, *loop.starts.begin(starts_state, equinox.combine(task, loop.environment), keys[1], index))


# Totals of episodes and their infos


@jax.custom_batching.custom_vmap
def any_of(flags: Bool[Array, "..."]) -> Bool[Array, ""]:
    """Return whether any flag is set, in any member of a `vmap`.

    A loop whose condition is `any_of` its members has one condition for all. With a condition each, every turn would
    select between the old and the new value of all that it carries.
    """
    return flags.any()


@any_of.def_vmap
def some_of_all(size: int, batched: list[bool], flags: Bool[Array, "..."]) -> tuple[Bool[Array, ""], bool]:
    return any_of(flags), False


def info_numbers(info: dict[str, Any], names: tuple[str, ...]) -> dict[str, Float[Array, "*env"]]:
    """Return the entries of these names in 32-bit floats."""
    return {name: jnp.asarray(info[name], jnp.float32) for name in names}


def last_infos(told: Experience) -> dict[str, tuple[Array, Array]]:
    """Sum the info values of the last steps of episodes (leaves `time env`), and count them."""
    return sum_infos({name: jnp.where(told.ended, values, jnp.nan) for name, values in told.info.items()})


def sum_infos(infos: Mapping[str, Any]) -> dict[str, tuple[Array, Array]]:
    """Sum the numbers of each name, and count them; NaN marks a missing value."""
    given = {name: ~jnp.isnan(values) for name, values in infos.items()}
    return {
        name: (jnp.where(given[name], values, 0).sum(), given[name].sum().astype(jnp.float32))
        for name, values in infos.items()
    }


def running_totals(
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
