"""Evaluation on the device: fresh episodes, apart from training."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key, PyTree

from forage.core import mesh, prng, spaces, team
from forage.core.ports import HiddenState, World
from forage.loop.device.collect import any_of, info_numbers
from forage.loop.device.state import Start
from forage.loop.learner import LearnerState, where_tree
from forage.loop.runner import EvaluationEpisodes

if TYPE_CHECKING:
    from forage.loop.device.loop import DeviceLoop


def play_episodes(
    loop: DeviceLoop,
    state: LearnerState,
    key: Key[Array, ""],
    episodes: int,
    max_steps: int,
    pinned: PyTree[Array | None] = None,
    sampled: bool | Bool[Array, ""] = False,
    split: bool = True,
    summarise: Callable[..., PyTree[Array]] | None = None,
    summary: PyTree[Array] = (),
) -> EvaluationEpisodes:
    """Play fresh episodes, greedily or `sampled`, apart from training (leaves `episode ...`).

    The tasks are those that `tasks.evaluation()` draws, with schedules at their end; `pinned`, shaped like one,
    says what every one of them has.
    An episode that has not ended after `max_steps`, or the horizon of its own task where that is later, counts as
    it stands. Where there is an opponent the agent takes each seat in turn, and only its own reward counts. The
    devices of a seed share the episodes if they are to be `split`. `summarise` adds the observations of each step to a
    `summary`, as `Evolver` has both.
    """
    start_key, tasks_key, key = jax.random.split(key, 3)
    tasks = loop.at(1.0).tasks.evaluation()
    tasks_state = tasks.init(tasks_key, loop.environment)

    def begin(key: Key[Array, ""]) -> tuple[Start, Int[Array, ""]]:
        task_key, reset_key = jax.random.split(key)
        task = equinox.combine(pinned, tasks.next(tasks_state, loop.environment, task_key))
        environment = equinox.combine(task, loop.environment)
        horizon = environment.horizon if tasks.varies or pinned is not None else None
        limit = jnp.maximum(max_steps, 0 if horizon is None else horizon)
        return Start(task, *environment.reset(reset_key)), limit

    at, limits = jax.vmap(begin)(jax.random.split(start_key, episodes))
    last = limits.max()
    hidden = loop.learner.init_hidden(explore=False)
    if loop.opponent is not None:
        hidden = HiddenState(
            hidden, team.repeat(loop.opponent.init_hidden(loop.learner.spec), loop.learner.spec.num_agents)
        )
    hidden = jax.tree.map(lambda x: jnp.broadcast_to(x, (episodes, *x.shape)), hidden)
    seats = jnp.arange(episodes) % loop.learner.spec.num_agents

    def one(at: Start, hidden: PyTree[Array], key: Key[Array, ""], seat: Int[Array, ""]):
        act_key, step_key = jax.random.split(key)
        world = World(equinox.combine(at.task, loop.environment), at.env_state)
        action, hidden = choose_actions(loop, state, hidden, at.observation, act_key, sampled, seat, world)
        action = spaces.clip(loop.learner.spec.action_space, action)
        env_state, step = world.environment.step(at.env_state, action, step_key)
        return at._replace(env_state=env_state, observation=step.observation), hidden, step

    def step(carry):
        time, *rest = carry
        at, hidden, running, total, length, infos, summary = mesh.split_leaves(rest) if split else rest
        if summarise is not None:
            summary = summarise(summary, at.observation, running)
        keys = jax.random.split(jax.random.fold_in(key, time), episodes)
        at, hidden, brought = jax.vmap(one)(at, hidden, keys, seats)
        hidden = loop.learner.observe_reward(state, hidden, brought.reward)
        step = team.as_one(brought, loop.learner.spec.num_agents)
        if loop.opponent is not None:
            step = step._replace(reward=brought.reward[jnp.arange(episodes), seats])
        total, length = total + where_tree(running, step.reward, 0), length + running
        infos = where_tree(running, info_numbers(step.info, loop.learner.spec.info_names), infos)
        running &= ~(step.terminated | step.truncated) & (time + 1 < last)  # others, in this program, may go on
        return time + 1, at, hidden, running, total, length, infos, summary

    objectives = len(loop.learner.spec.reward_names)
    total = jnp.zeros((episodes, objectives) if objectives else (episodes,))
    infos = {name: jnp.full(episodes, jnp.nan) for name in loop.learner.spec.info_names}
    running, length = jnp.full(episodes, last > 0), jnp.zeros(episodes, jnp.int32)
    carry = jnp.int32(0), at, hidden, running, total, length, infos, summary
    carry = jax.lax.while_loop(lambda carry: any_of(carry[3]), step, carry)
    total, length, infos, summary = carry[4:]
    if loop.opponent is not None:
        results = {"win": total > 0, "draw": total == 0, "loss": total < 0}
        infos = info_numbers(results, tuple(results)) | infos
    return EvaluationEpisodes(total, length, infos, summary)


def choose_actions(
    loop: DeviceLoop,
    state: LearnerState,
    hidden: PyTree[Array],
    observation: PyTree[Array],
    key: Key[Array, ""],
    sampled: bool | Bool[Array, ""],
    seat: Int[Array, ""],
    world: World,
) -> tuple[PyTree[Array], PyTree[Array]]:
    """Choose the actions of one environment in evaluation: the agent's in its `seat`, an opponent's elsewhere."""
    if loop.opponent is None:
        return loop.learner.play(state, hidden, observation, key, sampled, world)
    opponent, spec = loop.opponent, loop.learner.spec

    def act(hidden: PyTree[Array], observation: PyTree[Array], key: Key[Array, ""], _: Int[Array, ""]):
        return opponent.act(hidden, observation, spec, key)

    own, memory = loop.learner.play(state, hidden.agent, observation, key, sampled)
    key = jax.random.fold_in(key, prng.OPPONENT)
    others, theirs = loop.learner.by_agent(act)(hidden.behaviour, observation, key)
    return where_tree(jnp.arange(spec.num_agents) == seat, own, others), HiddenState(memory, theirs)
