"""Forage: reinforcement learning on JAX. One loop, seven ports, honest numbers.

>>> import forage
>>> run = forage.train("ppo", "CartPole-v1")  # doctest: +SKIP
>>> action = run.agent.act(observation)  # doctest: +SKIP
"""

from typing import Any

_WHERE = {
    "train": "forage.runs.training",
    "resume": "forage.runs.training",
    "evaluate": "forage.runs.training",
    "evaluate_under": "forage.studies.robustness",
    "Run": "forage.runs.run",
    "load": "forage.config.saved",
    "Policy": "forage.loop.policy",
    "PlainPolicy": "forage.loop.plain",
    "push": "forage.studies.hub",
    "pull": "forage.studies.hub",
    "make": "forage.environments",
    "PPO": "forage.agents.policy_gradient.ppo",
    "DQN": "forage.agents.q_learning.dqn",
    "SAC": "forage.agents.actor_critic.sac",
    "SACDiscrete": "forage.agents.actor_critic.sac_discrete",
    "TD3": "forage.agents.actor_critic.td3",
    "ForageError": "forage.core.types",
}

__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    """Imports a name when it is first used, so that `import forage` costs nothing."""
    if name not in _WHERE:
        raise AttributeError(f"module 'forage' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_WHERE[name]), name)
