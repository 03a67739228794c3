"""A film of a trained agent, as GIF or MP4."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

from forage import prng
from forage.environments.host import HostEnvironment
from forage.errors import ForageError
from forage.policy import Policy
from forage.ports import Environment
from forage.run import Run
from forage.setup import from_config
from forage.team import as_one


def watch(
    directory: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    seed: int | None = None,
    episodes: int = 1,
    steps: int = 1000,
    environment: Any = None,
) -> tuple[Path, list[float]]:
    """Films `episodes` episodes of at most `steps` steps each. Returns the file and each episode's return.

    `output` ends in .gif or .mp4 (which needs the extra `video`); `seed` says which seed's agent, the best otherwise.
    """
    run = Run(directory)
    path = Path(output) if output is not None else run.directory / "agent.gif"
    if path.suffix not in (".gif", ".mp4"):
        raise ForageError(f"A film is a .gif or an .mp4, and {path.name} is neither.")
    for what, number in (("episode", episodes), ("step", steps)):
        if number < 1:
            raise ForageError(f"A film has 1 {what} or more, not {number}.")
    policy = Policy.load(run.directory, seed)
    setup = from_config(run.config, environment)
    play: Any = play_native if isinstance(setup.environment, Environment) else play_host
    frames: list[np.ndarray] = []
    try:
        returns = [play(policy, setup.environment, steps, episode, frames) for episode in range(episodes)]
    except NotImplementedError:
        raise ForageError(f"{setup.name} cannot be drawn; a film needs its method render(state).") from None
    write(path, frames)
    return path, returns


def play_native(policy: Policy, environment: Environment, steps: int, episode: int, frames: list[np.ndarray]) -> float:
    key = jax.random.fold_in(prng.key(prng.WATCH), episode)
    # Closures, as JAX hashes what it compiles, and an environment that holds arrays has no hash.
    reset = jax.jit(lambda key: environment.reset(key))
    advance = jax.jit(lambda state, action, time: environment.step(state, action, jax.random.fold_in(key, time)))
    state, observation = reset(key)
    policy.reset(episode)
    total = 0.0
    frames.append(environment.render(state))
    for time in range(steps):
        action = policy.act(observation)
        state, step = advance(state, action, time)
        observation = step.observation
        step = as_one(step, environment.num_agents)
        total += float(np.sum(step.reward))
        frames.append(environment.render(state))
        if bool(step.terminated | step.truncated):
            break
    return total


def play_host(policy: Policy, build: Any, steps: int, episode: int, frames: list[np.ndarray]) -> float:
    environment: HostEnvironment = build(1)
    observation = environment.reset(prng.WATCH + episode)
    policy.reset(episode)
    total = 0.0
    frames.append(environment.render())
    for _ in range(steps):
        action = policy.act(jax.tree.map(lambda x: x[0], observation))
        step, observation = environment.step(jax.tree.map(lambda x: np.asarray(x)[None], action))
        step = as_one(step, environment.num_agents)
        total += float(step.reward.sum())
        if step.terminated[0] or step.truncated[0]:
            break
        frames.append(environment.render())
    environment.close()
    return total


def write(path: Path, frames: list[np.ndarray], per_second: int = 30) -> None:
    import imageio.v3 as imageio

    if path.suffix == ".gif":
        every = max(1, round(per_second / 25))  # browsers show at most 50 frames a second, and files stay small at 25
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            imageio.imwrite(path, frames[::every], duration=1000 * every / per_second, loop=0)
        except OSError as error:
            raise ForageError(f"Could not write {path}: {error.strerror or error}.") from error
        return
    try:
        with warnings.catch_warnings():  # ffmpeg is another program, which JAX's threads do not reach
            warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called")
            imageio.imwrite(path, frames, fps=per_second)
    except (ImportError, OSError, ValueError) as error:
        raise ForageError(
            f"MP4 needs an extra: pip install 'forage-rl[video]' ({type(error).__name__}); a .gif needs none."
        ) from error
