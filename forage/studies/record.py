"""Recording a data set: a trained agent, or random actions, play the run's environment."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Key, PyTree

from forage.config.options import ACTIONS
from forage.config.registry import part_name
from forage.config.resolve import from_config
from forage.config.run_config import RunConfig
from forage.config.saved import load
from forage.core import prng, spaces
from forage.core.host import HostEnvironment
from forage.core.ports import ActInputs, Environment
from forage.core.types import ForageError
from forage.data import files
from forage.data.logged import Transitions, select_transitions
from forage.environments.adapters.on_host import OnHost
from forage.loop.policy import Policy
from forage.runs.provenance import versions
from forage.runs.run import Run
from forage.tasks.same import Same

RANDOM = "random"
MOST = 1_000_000_000  # transitions: all are in memory before they are written
USUAL_HORIZON = 1000  # where an environment does not say how long its episodes can be


class PlayedSteps(NamedTuple):
    """Transitions, and the returns of the episodes that are whole."""

    transitions: Transitions
    returns: list[float]
    no_reward: int = 0  # episodes without a reward, which are left out of both


def record(
    directory: str | os.PathLike[str],
    steps: int,
    file: str | os.PathLike[str],
    *,
    actions: str | None = None,
    random: float = 0.0,
    seed: int | None = None,
    start: int = 0,
    environment: Any = None,
    checkpoint: str | int | None = None,
    tell: Callable[[str], None] | None = None,
) -> Transitions:
    """Record `steps` transitions of a run's agent in its environment, and write them as a data set.

    `actions`: `greedy`, `sampled` as in training, or `random`; unless said, as the run is evaluated. `random`: the
    share of episodes that random actions play, in place of the agent. `seed`: whose agent; the best otherwise.
    `start`: another number begins other episodes. Episodes under way at the end are truncated there; those without a
    reward, such as answers for which all reward functions returned None, are left out, and the header has their
    number, `no_reward`. `checkpoint`: `best`, or the step of agents that the run has kept; the newest otherwise. `tell`
    is told how far the work is, in words.

    >>> forage.data.record("runs/NAME", 20_000, "mixed.npz", actions="sampled", random=0.5)  # doctest: +SKIP
    """
    if steps < 1:
        raise ForageError(f"A data set has 1 transition or more, not {steps:,}.")
    if steps > MOST:
        raise ForageError(f"A data set has at most {MOST:,} transitions, not {steps:,}.")
    if start < 0:
        raise ForageError(f"The start of a data set is 0 or more, not {start}.")
    if Path(file).suffix != ".npz":
        raise ForageError(f"A data set is an .npz file, and {Path(file).name} is none.")
    if not 0 <= random <= 1:
        raise ForageError(f"The share of random episodes is from 0 to 1, not {random:g}.")
    if actions not in (None, RANDOM, *ACTIONS):
        raise ForageError(f"Actions to record are {', '.join(ACTIONS)} or {RANDOM}, not {actions!r}.")
    run = Run(directory)
    setup = from_config(run.config, environment, where=run.directory)
    setup.check_played(run.directory)
    files.check_recordable(setup.spec)
    if not isinstance(setup.tasks, Same):
        raise ForageError(f"{directory} trains in other tasks ({part_name(setup.tasks)}); record a run with one task.")
    share = 1.0 if actions == RANDOM else random
    policy = load(run.directory, seed, None if actions == RANDOM else actions, checkpoint=checkpoint)
    batch = environments(setup, steps)
    try:
        played = record_steps(policy, batch, steps, share, start, tell=tell)
    finally:
        batch.close()
    source = {
        "run": str(Path(directory).absolute()),
        "agent": run.config["agent"]["part"],
        **policy.member,
        "actions": RANDOM if actions == RANDOM else "sampled" if policy.sampled else "greedy",
        "random": share,
        "start": start,
    }
    if checkpoint is not None:
        source["checkpoint"] = checkpoint
    files.write_data(Path(file), played.transitions, header_of(run, source, played))
    return played.transitions


def header_of(run: Run, source: dict[str, Any], played: PlayedSteps) -> dict[str, Any]:
    """Return the header of a data set's file. `source`: its policy."""
    found = played.transitions
    return {
        "spec": run.config["spec"],
        "environment": run.config["environment"],
        "source": source,
        "transitions": found.transitions,
        "episodes": found.episodes,
        "no_reward": played.no_reward,
        "mean_return": float(np.mean(played.returns)) if len(played.returns) else None,
        "versions": versions(),
    }


def environments_for(setup: RunConfig, steps: int) -> int:
    """Return the number of environments that play about ten episodes each in `steps` steps, 64 at most."""
    return int(np.clip(steps // (10 * (setup.spec.horizon or USUAL_HORIZON)), 1, 64))


def environments(setup: RunConfig, steps: int) -> HostEnvironment:
    """Build the environments that play `steps` steps."""
    count = environments_for(setup, steps)
    if isinstance(setup.environment, Environment):
        return OnHost(setup.environment, count, setup.name)
    return setup.environment(count)


def play_steps(
    policy: Policy, batch: HostEnvironment, steps: int, share: float, start: int
) -> tuple[Transitions, list[float]]:
    """Return the transitions of `record_steps`, and the returns of the episodes that are whole."""
    return record_steps(policy, batch, steps, share, start)[:2]


def record_steps(
    policy: Policy,
    batch: HostEnvironment,
    steps: int,
    share: float,
    start: int,
    act: Callable[..., Any] | None = None,
    tell: Callable[[str], None] | None = None,
) -> PlayedSteps:
    """Play `steps` steps over all environments.

    `act`: the compiled function that chooses actions, where it was made before for this agent; see `actor`. Raise
    `ForageError` if no episode has a reward.
    """
    count, draw = batch.num_envs, np.random.default_rng([prng.WATCH, start])
    batch.judge_singly()
    act = actor(policy) if act is None else act
    first = policy.agent.init_hidden(policy.spec)
    first = jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), first)
    hidden, key, observation = first, prng.key(start), batch.reset(start)
    wild, ended = draw.random(count) < share, np.ones(count, bool)
    rows = []
    for i in range(-(-steps // count)):
        action, hidden, key = act(policy.state, hidden, first, observation, wild, ended, key)
        action = np.asarray(action)
        result = batch.step(action)
        step = result.step
        hidden = observe_rewards(policy, hidden, step.reward)
        lost = np.zeros(count, bool) if batch.lost is None else batch.lost
        fields = (observation, action, step.reward, step.observation, step.terminated, step.truncated, lost)
        rows.append(jax.tree.map(np.array, fields))
        ended = step.terminated | step.truncated
        wild = np.where(ended, draw.random(count) < share, wild)
        observation = result.observation
        if tell is not None:
            tell(f"played {min((i + 1) * count, steps):,} of {steps:,} steps")
    joined = jax.tree.map(lambda *x: np.stack(x, 1).reshape(-1, *x[0].shape[1:])[:steps], *rows)
    seen, action, reward, following, terminated, truncated, lost = joined
    last = np.arange(len(reward)) % len(rows) == len(rows) - 1
    last[-1] = True
    found = Transitions(seen, action, reward, following, terminated, truncated | (last & ~terminated))
    over = (terminated | truncated)[found.first + found.lengths - 1]
    if (found.whole(policy.spec.horizon) != over).any():  # the time limit does not tell which ones were cut
        found = found.saying_cut(policy.spec.horizon, ~over)
    returns, without = found.returns, np.bincount(found.numbers, lost) > 0
    if without.any():
        check_some_reward(batch, without)
        found = select_transitions(found, ~without[found.numbers])
    return PlayedSteps(found, returns[over & ~without].tolist(), int(without.sum()))


def check_some_reward(batch: HostEnvironment, without: Bool[np.ndarray, " episode"]) -> None:
    """Raise `ForageError` if no recorded episode has a reward. `without`: the mask of those that have none."""
    if without.all():
        reason = f", as {batch.no_reward_reason}" if batch.no_reward_reason else ""
        raise ForageError(
            f"None of the {len(without)} recorded episodes of {batch.name} has a reward{reason}; mend that, and record "
            f"them again."
        )


def first_returns(
    policy: Policy, batch: HostEnvironment, share: float, start: int, limit: int, act: Callable[..., Any]
) -> np.ndarray:
    """Play one episode in each environment, cut after `limit` steps, with actions that `act` chooses (see `actor`).

    Return the returns of those with a reward. Raise `ForageError` if none has one.
    """
    batch.judge_singly()
    count, draw = batch.num_envs, np.random.default_rng([prng.WATCH, start])
    first = policy.agent.init_hidden(policy.spec)
    first = jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), first)
    hidden, key, observation = first, prng.key(start), batch.reset(start)
    wild, ended, going, total = draw.random(count) < share, np.ones(count, bool), np.ones(count, bool), np.zeros(count)
    without = np.zeros(count, bool)
    for _ in range(limit):
        action, hidden, key = act(policy.state, hidden, first, observation, wild, ended, key)
        result = batch.step(np.asarray(action))
        hidden = observe_rewards(policy, hidden, result.step.reward)
        total += np.where(going, result.step.reward, 0)
        if batch.lost is not None:
            without |= going & batch.lost
        ended = result.step.terminated | result.step.truncated
        going = going & ~ended
        if not going.any():
            break
        observation = result.observation
    check_some_reward(batch, without)
    return total[~without]


def observe_rewards(policy: Policy, hidden: Any, reward: Any) -> Any:
    """Return the hidden states of a batch's agents after they observe the rewards of their steps."""
    if not policy.agent.return_conditioned:
        return hidden
    return jax.vmap(policy.agent.observe_reward, in_axes=(None, 0, 0))(policy.state, hidden, jnp.asarray(reward))


def actor(policy: Policy, noise: float | None = None) -> Callable[..., Any]:
    """Return the compiled function that chooses the actions of a batch, at random for the mask `wild`.

    `noise`: the share of actions that are not greedy, but drawn from the policy as in training, or uniform if the
    agent's policy is deterministic; `None`: all as the policy plays.
    """
    agent, spec = policy.agent, policy.spec

    def one(state: Any, hidden: Any, observation: PyTree[Array], wild: Bool[Array, ""], key: Key[Array, ""]) -> Any:
        act_key, draw_key = jax.random.split(key)
        action, after, _ = agent.act(state, ActInputs(hidden, observation, act_key, policy.sampled))
        action = spaces.clip(spec.action_space, action)
        drawn = spaces.sample(spec.action_space, draw_key, spaces.split_mask(observation)[1])
        if noise:
            slip_key, slip_act_key = jax.random.split(jax.random.fold_in(key, 1))
            slip = drawn
            if agent.stochastic:
                slip, *_ = agent.act(state, ActInputs(hidden, observation, slip_act_key, explore=True))
                slip = spaces.clip(spec.action_space, slip)
            action = jnp.where(jax.random.uniform(slip_key) < noise, slip, action)
        action = jnp.where(wild, drawn, action)
        return action, agent.observe_action(state, after, action)

    @jax.jit
    def act(state: Any, hidden: Any, first: Any, observation: Any, wild: Array, ended: Array, key: Key[Array, ""]):
        key, act_key = jax.random.split(key)
        hidden = jax.tree.map(
            lambda new, old: jnp.where(ended.reshape(-1, *(1,) * (old.ndim - 1)), new, old), first, hidden
        )
        keys = jax.random.split(act_key, len(wild))
        return *jax.vmap(one, in_axes=(None, 0, 0, 0, 0))(state, hidden, observation, wild, keys), key

    return act
