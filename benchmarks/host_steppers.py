"""Contestants on the host: `(id, num_envs) -> step(actions)`, one step of all environments with new episodes by itself.

Each is the library's own way of stepping many environments at once; where it has none, a plain loop. All are handed
the same random actions, drawn before the clock starts.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

Stepper = Callable[[Any], Any]


def actions_of(id: str, num_envs: int, steps: int) -> list[Any]:
    """Random actions for every step, as Forage's action space has them."""
    from forage.environments import make

    with contextlib.closing(make(id).build(num_envs)) as environment:
        space, agents = environment.action_space, environment.num_agents
    space.seed(0)
    shape = (num_envs,) if agents == 1 else (num_envs, agents)
    return [
        np.stack([space.sample() for _ in range(int(np.prod(shape)))]).reshape(*shape, *space.shape)
        for _ in range(steps)
    ]


def forage(id: str, num_envs: int) -> Stepper:
    from forage.environments import make

    environment: Any = make(id).build(num_envs)
    environment.reset(0)
    return environment.step


def envpool(id: str, num_envs: int) -> Stepper:
    import envpool as library

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pool = library.make(id, env_type="gymnasium", num_envs=num_envs, seed=0)
    pool.reset()
    dtype = pool.single_action_space.dtype
    return lambda action: pool.step(np.asarray(action, dtype))


def ale(id: str, num_envs: int) -> Stepper:
    """ale-py's vector environment, in C++ threads."""
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    environment = ale_py.vector_env.AtariVectorEnv(id, num_envs, reward_clipping=False, autoreset_mode="SameStep")
    environment.reset(seed=0)
    return environment.step


def gymnasium(id: str, num_envs: int) -> Stepper:
    """`SyncVectorEnv`; a game of Atari in Gymnasium's own preprocessing."""
    import gymnasium as library

    def one() -> Any:
        if not id.startswith("ALE/"):
            return library.make(id)
        from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

        return FrameStackObservation(AtariPreprocessing(library.make(id, frameskip=1)), 4)

    if id.startswith("ALE/"):
        import ale_py

        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        library.register_envs(ale_py)
    if id.startswith("Fetch"):
        import gymnasium_robotics

        library.register_envs(gymnasium_robotics)
    mode = library.vector.AutoresetMode.SAME_STEP
    environment = library.vector.SyncVectorEnv([one] * num_envs, autoreset_mode=mode)
    environment.reset(seed=0)
    return environment.step


def mo_gymnasium(id: str, num_envs: int) -> Stepper:
    import mo_gymnasium as library

    environment = library.wrappers.vector.MOSyncVectorEnv([lambda: library.make(id)] * num_envs)
    environment.reset(seed=0)
    return environment.step


def pettingzoo(id: str, num_envs: int) -> Stepper:
    """Parallel environments in a loop: the library has no batch of its own."""
    import importlib

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        module = importlib.import_module(id)
    environments = [module.parallel_env() for _ in range(num_envs)]
    for environment in environments:
        environment.reset(seed=0)

    def step(actions: Any) -> Any:
        seen = []
        for environment, row in zip(environments, actions, strict=True):
            taken = dict(zip(environment.agents, row.tolist(), strict=True))
            observation, *_ = environment.step(taken)
            if not environment.agents:
                observation, _ = environment.reset()
            seen.append(observation)
        return seen

    return step
