"""Train Stable-Baselines3 with its default settings, or those of its zoo, and play what it learned.

    python sb3_defaults.py ROW '{"algorithm": "ppo", "environment": "LunarLander-v3", "steps": 100000, ...}'

Prints one JSON line: the mean return of each evaluation episode, greedy and sampled, and the seconds of training.
Settings are those of Stable-Baselines3's constructor, and the zoo's `n_envs`, `normalize`; `linear` names those that
fall to zero, and text is Python for `policy_kwargs`. With `kept`, a directory, a run that the signal TERM ends writes
what it has learned there, and the next one goes on from it, at the start of an episode.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import common
import envs
import gymnasium
import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize, sync_envs_normalization

EPISODES = 20
LONGEST = 27_000  # steps of an episode in an environment without a limit of its own; Forage's limit, too


def make(name: str) -> gymnasium.Env:
    """One environment; MinAtar's and MiniGrid's packages register theirs when they are imported.

    `envs:NAME` is one of the development set's own.
    """
    if name.startswith("envs:"):
        return getattr(envs, name.removeprefix("envs:"))()
    if name.startswith("MinAtar"):
        import minatar.gym

        minatar.gym.register_envs()
    if name.startswith("MiniGrid"):
        import minigrid  # noqa: F401
        from minigrid.wrappers import ImgObsWrapper

        return ImgObsWrapper(gymnasium.make(name))
    return gymnasium.make(name)


def play(model: Any, environment: VecEnv, greedy: bool) -> list[float]:
    """One episode in each environment."""
    observation, total = environment.reset(), np.zeros(environment.num_envs)
    running = np.ones(environment.num_envs, bool)
    for _ in range(LONGEST):
        action, _ = model.predict(observation, deterministic=greedy)
        observation, reward, ended, _ = environment.step(action)
        total[running] += reward[running]
        running &= ~ended
        if not running.any():
            break
    return total.tolist()


def worth(model: Any, game: Any, greedy: bool) -> float:
    """The mean return of a policy of numbered actions, by the tree of the game."""

    def probabilities(observations: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            found = model.policy.get_distribution(torch.as_tensor(observations)).distribution.probs.double().numpy()
        return np.eye(found.shape[1])[found.argmax(1)] if greedy else found

    return game.value(probabilities)


STORED = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


class UntilTold(BaseCallback):
    """Stop at the first step after the signal TERM."""

    def __init__(self) -> None:
        super().__init__()
        self.told = False
        signal.signal(signal.SIGTERM, self.listen)

    def listen(self, *_: Any) -> None:
        self.told = True

    def _on_step(self) -> bool:
        return not self.told


def keep(model: Any, environment: VecEnv, seconds: float, directory: Path) -> None:
    """Write networks, optimisers, the replay buffer and running moments, so that `go_on` finds them."""
    directory.mkdir(parents=True, exist_ok=True)
    model.save(directory / "model.zip")
    if isinstance(environment, VecNormalize):
        environment.save(directory / "moments.pkl")
    if buffer := getattr(model, "replay_buffer", None):
        length = buffer.buffer_size if buffer.full else buffer.pos
        arrays = {name: getattr(buffer, name)[:length].astype(np.float32) for name in STORED}
        np.savez(directory / "buffer.npz", **arrays)
    (directory / "seconds.json").write_text(json.dumps(seconds))


def go_on(algorithm: Any, environment: VecEnv, seed: int, directory: Path) -> tuple[Any, VecEnv, float]:
    """Return the model that `keep` wrote, its environment, and the seconds it had taken."""
    if isinstance(environment, VecNormalize):
        environment = VecNormalize.load(str(directory / "moments.pkl"), environment.venv)
    model = algorithm.load(directory / "model.zip", env=environment, device="cpu")
    model.set_random_seed(seed + model.num_timesteps)
    if buffer := getattr(model, "replay_buffer", None):
        with np.load(directory / "buffer.npz") as arrays:
            for name in STORED:
                getattr(buffer, name)[: len(arrays[name])] = arrays[name]
            buffer.pos, buffer.full = len(arrays["rewards"]) % buffer.buffer_size, False
    return model, environment, json.loads((directory / "seconds.json").read_text())


def main() -> None:
    _, settings = common.arguments()
    torch.set_num_threads(1)
    name, seed, given = settings["environment"], settings["seed"], dict(settings["settings"])
    num_envs, normalise = given.pop("n_envs", 1), given.pop("normalize", False)
    for key in given.pop("linear", ()):
        given[key] = (lambda start: lambda remaining: start * remaining)(given[key])
    if "policy_kwargs" in given:
        given["policy_kwargs"] = eval(given["policy_kwargs"], {"nn": torch.nn})
    environment = make_vec_env(lambda: make(name), n_envs=num_envs, seed=seed)
    if "noise" in given:
        shape = environment.action_space.shape
        given["action_noise"] = NormalActionNoise(np.zeros(shape), np.full(shape, given.pop("noise")))
    if normalise:
        environment = VecNormalize(environment, gamma=given.get("gamma", 0.99))
    algorithm = getattr(stable_baselines3, settings["algorithm"].upper())
    policy = "MultiInputPolicy" if isinstance(environment.observation_space, gymnasium.spaces.Dict) else "MlpPolicy"
    began = time.monotonic()
    kept = Path(settings["kept"]) if settings.get("kept") else None
    if kept and (kept / "model.zip").exists():
        model, environment, before = go_on(algorithm, environment, seed, kept)
    else:
        model, before = algorithm(policy, environment, seed=seed, device="cpu", **given), 0.0
    until_told = UntilTold() if kept else None
    left = settings["steps"] - model.num_timesteps
    model.learn(left, log_interval=None, callback=until_told, reset_num_timesteps=not model.num_timesteps)
    seconds = before + time.monotonic() - began
    if kept and until_told and until_told.told:
        keep(model, environment, seconds, kept)
        sys.exit(f"stopped after {model.num_timesteps} steps; what was learned is in {kept}")
    game = getattr(envs, name.removeprefix("envs:"), None) if name.startswith("envs:") else None
    if hasattr(game, "value"):
        found = {way: [worth(model, game, way == "greedy")] for way in ("greedy", "sampled")}
        print(json.dumps(found | {"seconds": seconds, "steps": model.num_timesteps}), flush=True)
        return
    other: VecEnv = DummyVecEnv([lambda: make(name)] * EPISODES)
    other.seed(10_000 + seed)
    if normalise:
        other = VecNormalize(other, training=False, norm_reward=False)
        sync_envs_normalization(environment, other)
    found = {"greedy": play(model, other, True), "sampled": play(model, other, False)}
    print(json.dumps(found | {"seconds": seconds, "steps": model.num_timesteps}), flush=True)


if __name__ == "__main__":
    main()
