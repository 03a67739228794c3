"""Forage: reinforcement learning on JAX. One loop, seven ports, honest numbers.

>>> import forage
>>> run = forage.train("ppo", "CartPole-v1")  # doctest: +SKIP
>>> action = run.agent.act(observation)  # doctest: +SKIP
"""

from typing import Any

_WHERE = {
    "train": "forage.training",
    "resume": "forage.training",
    "evaluate": "forage.training",
    "evaluate_under": "forage.robustness",
    "Run": "forage.run",
    "load": "forage.policy",
    "Policy": "forage.policy",
    "make": "forage.environments",
    "PPO": "forage.agents.ppo",
    "DQN": "forage.agents.dqn",
    "SAC": "forage.agents.sac",
    "SACDiscrete": "forage.agents.sac_discrete",
    "TD3": "forage.agents.td3",
    "ForageError": "forage.types",
}

__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    """Imports a name when it is first used, so that `import forage` costs nothing."""
    if name not in _WHERE:
        raise AttributeError(f"module 'forage' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_WHERE[name]), name)
