"""stable-baselines3 and sbx, its JAX sister with the same interface: one training run on Gymnasium environments."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import common
import gymnasium
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

SETTLING_STEPS = 100
"""Off-policy steps left untimed after learning has started, in which sbx compiles its update."""


class Stopwatch(BaseCallback):
    """Notes the time at the first rollout that begins after `after` steps, and how every episode went."""

    def __init__(self, after: int):
        super().__init__()
        self.after = after
        self.began: float | None = None
        self.episodes: list[tuple[int, float]] = []

    def _on_rollout_start(self) -> None:
        if self.began is None and self.model.num_timesteps >= self.after:
            self.steps = self.model.num_timesteps
            self.updates = self.model._n_updates
            self.began = time.perf_counter()

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.episodes.append((self.model.num_timesteps, float(info["episode"]["r"])))
        return True


class Evaluations(BaseCallback):
    """Plays greedy episodes every so many steps, in an environment of its own."""

    def __init__(self, settings: Mapping[str, Any]):
        super().__init__()
        self.every, self.episodes = settings["evaluation_every"], settings["evaluation_episodes"]
        self.environment = Monitor(gymnasium.make(settings["environment"]))
        self.environment.reset(seed=10_000 + settings["seed"])
        self.found: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        if self.model.num_timesteps % self.every == 0:
            mean, _ = evaluate_policy(self.model, self.environment, n_eval_episodes=self.episodes)
            self.found.append((self.model.num_timesteps, float(mean)))
        return True

    def summarise(self, episodes: Sequence[Any], final: Any, seconds: float) -> dict[str, Any]:
        """Return what `headline.py` reads, with the curve of training episodes."""
        return {"curve": episodes, "evaluations": self.found, "evaluation": float(final), "seconds": seconds}


def ppo(algorithm: Any, environment: Any, settings: dict[str, Any]) -> Any:
    rollout = settings["num_envs"] * settings["rollout_length"]
    rate = settings["learning_rate"]
    return algorithm(
        "MlpPolicy",
        environment,
        learning_rate=(lambda remaining: rate * remaining) if settings["anneal"] else rate,
        n_steps=settings["rollout_length"],
        batch_size=rollout // settings["num_minibatches"],
        n_epochs=settings["epochs"],
        gamma=settings["discount"],
        gae_lambda=settings["gae_lambda"],
        clip_range=settings["clip"],
        clip_range_vf=settings["clip"] if settings["clip_value"] else None,
        ent_coef=settings["entropy_coefficient"],
        vf_coef=settings["value_coefficient"],
        max_grad_norm=settings["max_grad_norm"],
        policy_kwargs={"net_arch": list(settings["hidden"])},
        seed=settings["seed"],
        device="cpu",
    )


def sac(algorithm: Any, environment: Any, settings: dict[str, Any]) -> Any:
    return algorithm("MlpPolicy", environment, tau=settings["tau"], **off_policy(settings))


def dqn(algorithm: Any, environment: Any, settings: dict[str, Any]) -> Any:
    return algorithm(
        "MlpPolicy",
        environment,
        tau=1.0,
        target_update_interval=settings["target_interval"],
        exploration_initial_eps=settings["exploration_initial"],
        exploration_final_eps=settings["exploration_final"],
        exploration_fraction=settings["exploration_fraction"],
        **off_policy(settings),
    )


def off_policy(settings: dict[str, Any]) -> dict[str, Any]:
    """What SAC and DQN have in common."""
    return {
        "buffer_size": settings["buffer_size"],
        "learning_starts": settings["learning_starts"],
        "batch_size": settings["batch_size"],
        "train_freq": 1,
        "gradient_steps": settings["updates_per_step"],
        "learning_rate": settings["learning_rate"],
        "gamma": settings["discount"],
        "policy_kwargs": {"net_arch": list(settings["hidden"])},
        "seed": settings["seed"],
        "device": "cpu",
    }


def droq(algorithm: Any, environment: Any, settings: dict[str, Any]) -> Any:
    """sbx's DroQ: SAC with dropout and layer normalisation in its critics."""
    words = off_policy(settings)
    words["policy_kwargs"] |= {"dropout_rate": settings["dropout"], "layer_norm": True}
    return algorithm("MlpPolicy", environment, tau=settings["tau"], policy_delay=settings["policy_delay"], **words)


def crossq(algorithm: Any, environment: Any, settings: dict[str, Any]) -> Any:
    return algorithm("MlpPolicy", environment, **off_policy(settings))


MAKERS = {"ppo": ppo, "sac": sac, "droq": droq, "crossq": crossq, "dqn": dqn}
DEFAULT_ACTIVATIONS = {"ppo": "tanh", "sac": "relu", "droq": "relu", "crossq": "relu", "dqn": "relu"}


def run(algorithms: Mapping[str, Any], packages: Sequence[str], seconds_import: float | None) -> None:
    """Trains as the command line says, evaluates, and prints the result line."""
    _, settings = common.arguments()
    name = settings["algorithm"]
    if settings["torch_threads"]:
        torch.set_num_threads(settings["torch_threads"])
    if settings["simulator"] != "gymnasium":
        raise SystemExit(
            "These libraries train in Gymnasium's environments; give the contestant simulator='gymnasium'."
        )
    if settings["activation"] != DEFAULT_ACTIVATIONS[name]:
        raise SystemExit(f"This script keeps the libraries' own activation for {name}: {DEFAULT_ACTIVATIONS[name]}.")
    environment = make_vec_env(settings["environment"], n_envs=settings["num_envs"], seed=settings["seed"])
    model = {"ppo": ppo, "sac": sac, "droq": droq, "crossq": crossq, "dqn": dqn}[name](
        algorithms[name], environment, settings
    )
    if name == "ppo":
        stopwatch = Stopwatch(settings["num_envs"] * settings["rollout_length"])
    else:
        stopwatch = Stopwatch(settings["learning_starts"] + SETTLING_STEPS)
    evaluations = Evaluations(settings) if settings.get("evaluation_every") else None
    began = time.perf_counter()
    model.learn(settings["steps"], callback=[stopwatch, evaluations] if evaluations else stopwatch, log_interval=None)
    ended = time.perf_counter()
    if stopwatch.began is None:
        raise SystemExit(f"{settings['steps']} steps end before the timed section begins; ask for more.")

    # PPO counts epochs as updates; everyone else, and this harness, counts gradient steps.
    per_count = settings["num_minibatches"] if name == "ppo" else 1
    # On exactly divisible data an epoch has as many gradient steps as there are minibatches, in sbx as well.
    updates = (model._n_updates - stopwatch.updates) * per_count
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        final_return, _ = evaluate_policy(
            model, Monitor(gymnasium.make(settings["environment"])), n_eval_episodes=settings["evaluation_episodes"]
        )
    common.report(
        seconds_import=seconds_import,
        seconds_compile=None,
        seconds_steady=ended - stopwatch.began,
        seconds_outside=time.perf_counter() - ended,
        steps=model.num_timesteps - stopwatch.steps,
        updates=updates,
        total_steps=model.num_timesteps,
        final_return=[final_return],
        packages=packages,
        episodes=stopwatch.episodes,
        more=evaluations.summarise(stopwatch.episodes, final_return, ended - began) if evaluations else {},
    )
