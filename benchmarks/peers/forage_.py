"""Forage, its parts put together by hand as a user of the library would: environments in JAX on the device,
Gymnasium's and EnvPool's on the host."""

from __future__ import annotations

import time
from typing import Any

import common
import numpy as np

from forage.agents.actor_critic.crossq import CrossQ
from forage.agents.actor_critic.sac import SAC
from forage.agents.evolution.open_es import OpenES
from forage.agents.policy_gradient.ppo import PPO
from forage.agents.q_learning.dqn import DQN
from forage.behaviours.epsilon_greedy import EpsilonGreedy
from forage.behaviours.policy import AgentPolicy
from forage.core.mesh import prepare_devices
from forage.core.ports import Agent, Behaviour, Evolver
from forage.environments import HostFactory, make, spec_of
from forage.loop.cluster.workers import Workers
from forage.loop.device.evolution import EvolutionLoop
from forage.loop.device.loop import DeviceLoop
from forage.loop.device.programs import batch_seeds
from forage.loop.device.runner import DeviceRunner
from forage.loop.host.runner import HostRunner
from forage.loop.learner import Learner
from forage.memory.rollout import LastRollout
from forage.memory.uniform import UniformReplay
from forage.rewards.atari import AtariRewards
from forage.rewards.environment import EnvironmentReward
from forage.starts.reset import Reset
from forage.tasks.same import Same
from forage_papers.agents.settings import DroQ

SECONDS_IMPORT = common.seconds_since_start()
SETTLING_STEPS = 100
"""Off-policy steps left untimed on the host after learning has started, in which the update compiles."""


def ppo(settings: dict[str, Any]) -> tuple[Agent, Behaviour]:
    agent = PPO(
        learning_rate=settings["learning_rate"],
        final_learning_rate=0.0 if settings["anneal"] else 1.0,
        discount=settings["discount"],
        gae_lambda=settings["gae_lambda"],
        clip=settings["clip"],
        clip_value=settings["clip_value"],
        entropy_coefficient=settings["entropy_coefficient"],
        value_coefficient=settings["value_coefficient"],
        max_gradient_norm=settings["max_grad_norm"],
        num_envs=settings["num_envs"],
        rollout_length=settings["rollout_length"],
        epochs=settings["epochs"],
        minibatches=settings["num_minibatches"],
        hidden_sizes=tuple(settings["hidden"]),
        activation=settings["activation"],
    )
    return agent, AgentPolicy()


def sac(settings: dict[str, Any]) -> tuple[Agent, Behaviour]:
    if settings["activation"] != "relu":
        raise SystemExit("Forage's SAC has relu networks; give this row activation='relu'.")
    return SAC(polyak=settings["tau"], **off_policy(settings)), AgentPolicy(random_steps=settings["learning_starts"])


def droq(settings: dict[str, Any]) -> tuple[Agent, Behaviour]:
    agent = DroQ(
        polyak=settings["tau"],
        dropout=settings["dropout"],
        policy_delay=settings["policy_delay"],
        **off_policy(settings),
    )
    return agent, AgentPolicy(random_steps=settings["learning_starts"])


def crossq(settings: dict[str, Any]) -> tuple[Agent, Behaviour]:
    agent = CrossQ(value_sizes=tuple(settings["hidden"]), **off_policy(settings))
    return agent, AgentPolicy(random_steps=settings["learning_starts"])


def dqn(settings: dict[str, Any]) -> tuple[Agent, Behaviour]:
    agent = DQN(
        double=False,
        dueling=False,
        n_step=1,
        final_learning_rate=1.0,
        target_update_interval=settings["target_interval"],
        activation=settings["activation"],
        **off_policy(settings),
    )
    behaviour = EpsilonGreedy(
        settings["exploration_initial"], settings["exploration_final"], settings["exploration_fraction"]
    )
    return agent, behaviour


def open_es(settings: dict[str, Any]) -> tuple[Agent, Behaviour]:
    agent = OpenES(
        learning_rate=settings["learning_rate"],
        sigma=settings["sigma"],
        weight_decay=0.0,
        num_envs=settings["population"],
        hidden_sizes=tuple(settings["hidden"]),
        activation=settings["activation"],
    )
    return agent, AgentPolicy()


def off_policy(settings: dict[str, Any]) -> dict[str, Any]:
    """What SAC and DQN have in common."""
    return {
        "learning_rate": settings["learning_rate"],
        "discount": settings["discount"],
        "num_envs": settings["num_envs"],
        "rollout_length": 1,
        "updates_per_rollout": settings["updates_per_step"] * settings["num_envs"],
        "batch_size": settings["batch_size"],
        "learning_starts": settings["learning_starts"],
        "hidden_sizes": tuple(settings["hidden"]),
    }


MAKERS = {"ppo": ppo, "sac": sac, "droq": droq, "crossq": crossq, "dqn": dqn, "open-es": open_es}


def build(settings: dict[str, Any]) -> tuple[DeviceRunner | HostRunner, int]:
    """Return the runner, and the horizon of an episode."""
    agent, behaviour = MAKERS[settings["algorithm"]](settings)
    evolves = isinstance(agent, Evolver)
    memory = LastRollout() if agent.on_policy or evolves else UniformReplay(settings["buffer_size"])
    simulator, name = settings["simulator"], settings["environment"]
    environment = make(name if simulator == "jax" else f"{simulator}:{name}")
    spec = environment.spec() if isinstance(environment, HostFactory) else spec_of(environment, name)
    rewards = AtariRewards() if settings.get("rewards") == "atari" else EnvironmentReward()
    learner = Learner(agent, behaviour, rewards, memory, spec)
    learner.check()
    if spec.horizon is None:
        raise SystemExit(f"{name} has no horizon, so its evaluation might never end.")
    seeds = [settings["seed"] + 1000 * number for number in range(settings["num_seeds"])]
    if isinstance(environment, HostFactory):
        workers = Workers(settings.get("workers", 0), policy_lag=settings.get("policy_lag"))
        host = HostRunner([learner] * len(seeds), environment.build, seeds, settings["steps"], workers=workers)
        return host, spec.horizon
    prepare_devices(len(seeds))
    loop = (EvolutionLoop if evolves else DeviceLoop)(learner, environment, Same(), Reset())
    return DeviceRunner(batch_seeds(loop, {}), seeds, settings["steps"]), spec.horizon


def main() -> None:
    _, settings = common.arguments()
    evolves, on_policy = settings["algorithm"] == "open-es", settings["algorithm"] in ("ppo", "open-es")
    began = time.perf_counter()
    runner, horizon = build(settings)
    runner.begin()
    iterations = settings["steps"] // runner.steps_per_iteration
    compiled: float | None = None
    outside = 0.0

    if isinstance(runner, DeviceRunner):
        runner.advance(0)  # compiles: the same program serves any number of iterations
        compiled = time.perf_counter() - began
        if on_policy:
            before = 0
            if settings["phase"] == "steady":
                start = time.perf_counter()
                runner.advance(iterations)
                runner.steps = 0
                runner.begin()
                outside = time.perf_counter() - start
        else:
            before = settings["learning_starts"] // runner.steps_per_iteration
    else:  # acting and learning compile when they first happen
        before = 1 if on_policy else (settings["learning_starts"] + SETTLING_STEPS) // runner.steps_per_iteration
    if before:
        runner.advance(before)

    ready = time.perf_counter()
    report = runner.advance(iterations - before)
    ended = time.perf_counter()
    steps = (iterations - before) * runner.steps_per_iteration * settings["num_seeds"]
    if evolves:  # a generation may be shorter than an iteration, so that several fit into one
        steps = round(float(np.sum(report.latest["played"])))
        updates = round(float(np.sum(report.metrics["updates"])))
    elif on_policy:
        updates = (iterations - before) * settings["epochs"] * settings["num_minibatches"] * settings["num_seeds"]
    else:
        updates = round(float(np.sum(report.metrics["updates"])))

    returns = runner.evaluate(settings["evaluation_episodes"], horizon, seed=10_000).returns
    common.report(
        seconds_import=SECONDS_IMPORT,
        seconds_compile=compiled,
        seconds_steady=ended - ready,
        seconds_outside=outside + time.perf_counter() - ended,
        steps=steps,
        updates=updates,
        total_steps=runner.steps,
        final_return=np.mean(returns, axis=1).tolist(),
        packages=("forage-rl", "jax", "equinox", "optax", "gymnasium")
        + (() if isinstance(runner, DeviceRunner) else ("mujoco",))
        + (("envpool",) if settings["simulator"] == "envpool" else ()),
    )


if __name__ == "__main__":
    main()
