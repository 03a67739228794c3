"""A film of a trained agent, or its texts if it is a language model (`forage watch`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from forage.config.ranges import check_call
from forage.config.resolve import from_config
from forage.config.saved import load
from forage.core import checkpoint as checkpoints
from forage.core import prng
from forage.core.errors import ForageError
from forage.core.host import Conversation, HostEnvironment
from forage.core.ports import Environment, World
from forage.core.sweep import member_words
from forage.core.team import as_one
from forage.loop.policy import Policy
from forage.runs.display import Notes
from forage.runs.provenance import said_of_code
from forage.runs.run import Run
from forage.studies.film import MEGABYTES, USUAL, Film, default_suffix, prepare_film


def watch(
    directory: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    seed: int | None = None,
    episodes: int = 1,
    steps: int = 1000,
    environment: Any = None,
    actions: str | None = None,
    settings: dict[str, float] | None = None,
    megabytes: float = MEGABYTES,
    checkpoint: str | int | None = None,
    progress: Callable[[int, int, float], None] | None = None,
) -> tuple[Path, list[float | None]]:
    """Film `episodes` episodes of at most `steps` steps each. Return the file and each episode's return.

    The return is `None` for an answer without a reward.

    Of an environment in words the film is a .txt file with its conversations, of problems held out from training.
    The film plays at the environment's own rate, and has below its pictures the return so far, the step and the seed.
    `output` ends in .mp4 (which needs the extra `video`), .webp or .gif; unless said, it is the first of these that can
    be made, in the run's directory. `megabytes`: the film is reduced in size until it is within so many.
    `seed`, and `settings` of a sweep, say which agent's, the best otherwise, as `forage.load` does.
    `actions`: `greedy` or `sampled`; unless said, as the run was told or chose when it was evaluated.
    `checkpoint`: `best`, or the step of one that the run has kept; else the newest, as `forage.load` does.
    `progress` is called after each step with the number of the episode, from 0, the step and the return so far.
    """
    check_call(watch, {name: value for name, value in locals().items() if name not in ("environment", "progress")})
    run = Run(directory)
    for what, number in (("episode", episodes), ("step", steps)):
        if number < 1:
            raise ForageError(f"A film has 1 {what} or more, not {number}.")
    if not megabytes > 0:
        raise ForageError(f"The size of a film is above 0 megabytes, not {megabytes:g}.")
    setup = from_config(run.config, environment, where=run.directory)
    setup.check_played(run.directory)
    if environment is None and (changed := said_of_code(run.directory, setup)):
        Notes().note(changed)
    host = None if isinstance(setup.environment, Environment) else setup.environment(1)
    in_words = host is not None and host.in_words
    returns: list[float | None]
    try:
        name = "agent" if checkpoint is None else f"agent-{checkpoint}"
        path = run.directory / f"{name}{'.txt' if in_words else default_suffix()}" if output is None else Path(output)
        (prepare_text if in_words else prepare_film)(path)
        policy = load(run.directory, seed, actions, checkpoint=checkpoint, **(settings or {}))
        if host is not None and in_words:
            found = [converse(policy, host, steps, episode) for episode in range(episodes)]
            text = "\n\n".join(str(one) for one in found) + "\n"
            checkpoints.write_atomically(path, text.encode())
            return path, [one.reward for one in found]
        film = Film(path, USUAL, member_words(policy.member), progress)
        if host is not None:
            film.per_second = host.frames_per_second or USUAL
            returns = [play_host(policy, host, steps, episode, film) for episode in range(episodes)]
        else:
            native = setup.environment
            assert isinstance(native, Environment)
            film.per_second = native.frames_per_second or USUAL
            returns = [play_native(policy, native, steps, episode, film) for episode in range(episodes)]
    except NotImplementedError:
        raise ForageError(f"{setup.name} cannot be drawn; a film needs its method render(state).") from None
    finally:
        if host is not None:
            host.close()
    film.write(megabytes)
    return path, returns


def as_arrays(action: PyTree[Any]) -> PyTree[np.ndarray]:
    """Return an action as environments take it from agents: a choice as a number of 32 bits."""
    return jax.tree.map(lambda x: np.asarray(x, np.int32 if isinstance(x, int) else None), action)


def play_native(policy: Policy, environment: Environment, steps: int, episode: int, film: Film) -> float:
    key = jax.random.fold_in(prng.key(prng.WATCH), episode)
    # Closures, as JAX hashes what it compiles, and an environment that holds arrays has no hash.
    reset = jax.jit(lambda key: environment.reset(key))
    advance = jax.jit(lambda state, action, time: environment.step(state, action, jax.random.fold_in(key, time)))
    state, observation = reset(key)
    policy.reset(episode)
    total = 0.0
    film.take(partial(environment.render, state), 0, total)
    for time in range(1, steps + 1):
        action = policy.agent_action(observation, world=World(environment, state))
        state, step = advance(state, as_arrays(action), time - 1)
        observation = step.observation
        policy.observe_reward(step.reward)
        step = as_one(step, environment.num_agents)
        total += float(np.sum(step.reward))
        if time == steps or bool(step.terminated | step.truncated):
            film.end(partial(environment.render, state), time, total)
            break
        film.take(partial(environment.render, state), time, total)
    return total


def play_host(policy: Policy, environment: HostEnvironment, steps: int, episode: int, film: Film) -> float:
    observation = environment.reset(prng.WATCH + episode)
    policy.reset(episode)
    total = 0.0
    film.take(environment.render, 0, total)
    for time in range(1, steps + 1):
        action = policy.agent_action(jax.tree.map(lambda x: x[0], observation))
        step, observation = environment.step(jax.tree.map(lambda x: x[None], as_arrays(action)))
        policy.observe_reward(step.reward[0])
        step = as_one(step, environment.num_agents)
        total += float(step.reward.sum())
        over = bool(step.terminated[0] or step.truncated[0])
        if over or time == steps:
            film.end(None if over else environment.render, time, total)  # what has ended shows the next beginning
            break
        film.take(environment.render, time, total)
    return total


def prepare_text(path: Path) -> None:
    """Make the folder of a file of conversations. Raise `ForageError` if none can be written."""
    if path.suffix != ".txt":
        raise ForageError(f"Conversations are a .txt file, and {path.name} is none.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ForageError(f"Could not write {path}: {error.strerror or error}.") from error


def converse(policy: Policy, environment: HostEnvironment, steps: int, episode: int) -> Conversation:
    """Play an episode in words, of those held out from training. Raise `ForageError` if `steps` do not end it."""
    environment.examine()
    observation = environment.reset(prng.WATCH + episode)
    policy.reset(episode)
    for _ in range(steps):
        action = policy.agent_action(jax.tree.map(lambda x: x[0], observation))
        step, observation = environment.step(jax.tree.map(lambda x: x[None], as_arrays(action)))
        policy.observe_reward(step.reward[0])
        if step.terminated[0] or step.truncated[0]:
            return environment.conversations()[0]
    raise ForageError(f"A conversation of {environment.name} is not over after {steps} steps; allow more of them.")
