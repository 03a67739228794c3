"""A film of a trained agent, as GIF or MP4."""

from __future__ import annotations

import importlib.util
import os
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

from forage.config.saved import load
from forage.config.setup import from_config
from forage.core import prng
from forage.core.errors import ForageError
from forage.core.host import HostEnvironment
from forage.core.ports import Environment, World
from forage.core.team import as_one
from forage.loop.policy import Policy
from forage.runs.run import Run


def watch(
    directory: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    seed: int | None = None,
    episodes: int = 1,
    steps: int = 1000,
    environment: Any = None,
    actions: str | None = None,
    settings: dict[str, float] | None = None,
) -> tuple[Path, list[float]]:
    """Films `episodes` episodes of at most `steps` steps each. Returns the file and each episode's return.

    `output` ends in .gif or .mp4 (which needs the extra `video`); `seed`, and `settings` of a sweep, say which agent's,
    the best otherwise, as `forage.load` does.
    `actions`: `greedy` or `sampled`; unless said, as the run was told or chose when it was evaluated.
    """
    run = Run(directory)
    path = Path(output) if output is not None else run.directory / "agent.gif"
    if path.suffix not in (".gif", ".mp4"):
        raise ForageError(f"A film is a .gif or an .mp4, and {path.name} is neither.")
    for what, number in (("episode", episodes), ("step", steps)):
        if number < 1:
            raise ForageError(f"A film has 1 {what} or more, not {number}.")
    policy = load(run.directory, seed, actions, checkpoint=None, **(settings or {}))
    setup = from_config(run.config, environment)
    prepare(path)
    frames: list[np.ndarray] = []
    if not isinstance(setup.environment, Environment):
        host = setup.environment(1)
        try:
            returns = [play_host(policy, host, steps, episode, frames) for episode in range(episodes)]
        finally:
            host.close()
        write(path, frames, host.frames_per_second or 30)
        return path, returns
    try:
        returns = [play_native(policy, setup.environment, steps, episode, frames) for episode in range(episodes)]
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
        action = policy.act(observation, world=World(environment, state))
        state, step = advance(state, action, time)
        observation = step.observation
        step = as_one(step, environment.num_agents)
        total += float(np.sum(step.reward))
        frames.append(environment.render(state))
        if bool(step.terminated | step.truncated):
            break
    return total


def play_host(
    policy: Policy, environment: HostEnvironment, steps: int, episode: int, frames: list[np.ndarray]
) -> float:
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
    return total


def prepare(path: Path) -> None:
    """Make the folder of a film. Raises `ForageError` where no film can be written, before an episode is played."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritten(path, error) from error
    if path.is_dir():
        raise ForageError(f"Could not write {path}: it is a folder.")
    if path.suffix == ".mp4" and importlib.util.find_spec("imageio_ffmpeg") is None:
        raise ForageError("MP4 needs an extra: pip install 'forage-rl[video]'; a .gif needs none.")


def unwritten(path: Path, error: Exception) -> ForageError:
    said = str(getattr(error, "strerror", None) or error or type(error).__name__).strip().splitlines()[-1]
    return ForageError(f"Could not write {path}: {said.rstrip('.')}.")


def write(path: Path, frames: list[np.ndarray], per_second: float = 30) -> None:
    import imageio.v3 as imageio

    frames = same_size(frames, even=path.suffix == ".mp4")
    try:
        path.open("wb").close()  # what writes films only warns where it cannot
        if path.suffix == ".gif":
            every = max(1, round(per_second / 25))  # browsers show at most 50 a second, and files stay small at 25
            imageio.imwrite(path, frames[::every], duration=1000 * every / per_second, loop=0)
            return
        with warnings.catch_warnings():  # ffmpeg is another program, which JAX's threads do not reach
            warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called")
            # Blocks of one pixel: pictures keep their size, and none is stretched to a multiple of 16.
            imageio.imwrite(path, np.stack(frames), plugin="FFMPEG", fps=per_second, macro_block_size=1)
    except (ImportError, OSError, ValueError) as error:
        raise unwritten(path, error) from error
    if not path.stat().st_size:
        raise ForageError(f"Could not write {path}: ffmpeg made no film of {len(frames)} pictures.")


def same_size(frames: list[np.ndarray], even: bool) -> list[np.ndarray]:
    """Pictures of the size of the largest, black where others end; `even` numbers of pixels, as most films have."""
    sizes = np.array([frame.shape[:2] for frame in frames])
    height, width = (int(most + most % 2) if even else int(most) for most in sizes.max(0))
    return [np.pad(f, ((0, height - f.shape[0]), (0, width - f.shape[1]), (0, 0))) for f in frames]
