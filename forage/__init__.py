"""Forage: reinforcement learning on JAX. One loop, seven ports, honest numbers.

>>> import forage
>>> run = forage.train("ppo", "CartPole-v1")  # doctest: +SKIP
>>> action = run.agent.act(observation)  # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forage.agents.actor_critic.sac import SAC as SAC
    from forage.agents.actor_critic.sac_discrete import SACDiscrete as SACDiscrete
    from forage.agents.actor_critic.td3 import TD3 as TD3
    from forage.agents.policy_gradient.ppo import PPO as PPO
    from forage.agents.q_learning.dqn import DQN as DQN
    from forage.config.saved import load as load
    from forage.config.trusting import trust as trust
    from forage.core.errors import ForageError as ForageError
    from forage.environments import list_environments as list_environments
    from forage.environments import make as make
    from forage.loop.plain import PlainPolicy as PlainPolicy
    from forage.loop.policy import Policy as Policy
    from forage.runs.listing import list_runs as list_runs
    from forage.runs.run import Run as Run
    from forage.runs.trackers import register_tracker as register_tracker
    from forage.runs.trackers.base import Tracker as Tracker
    from forage.runs.training import evaluate as evaluate
    from forage.runs.training import resume as resume
    from forage.runs.training import train as train
    from forage.studies.chat import chat as chat
    from forage.studies.check.checking import check as check
    from forage.studies.claims.running import run as claim  # noqa: F401
    from forage.studies.comparison.compare import compare as compare
    from forage.studies.export import export as export
    from forage.studies.hub import pull as pull
    from forage.studies.hub import push as push
    from forage.studies.report import report as report
    from forage.studies.robustness import evaluate_under as evaluate_under
    from forage.studies.sb3.importing import import_policy as import_policy
    from forage.studies.study.study import study as study
    from forage.studies.tuning.tune import tune as tune
    from forage.studies.watch import watch as watch

_WHERE = {
    "check": "forage.studies.check.checking",
    "train": "forage.runs.training",
    "resume": "forage.runs.training",
    "evaluate": "forage.runs.training",
    "evaluate_under": "forage.studies.robustness",
    "watch": "forage.studies.watch",
    "chat": "forage.studies.chat",
    "export": "forage.studies.export",
    "import_policy": "forage.studies.sb3.importing",
    "compare": "forage.studies.comparison.compare",
    "report": "forage.studies.report",
    "study": "forage.studies.study.study",
    "tune": "forage.studies.tuning.tune",
    "claim": "forage.studies.claims.running:run",
    "list_runs": "forage.runs.listing",
    "Run": "forage.runs.run",
    "load": "forage.config.saved",
    "trust": "forage.config.trusting",
    "Policy": "forage.loop.policy",
    "PlainPolicy": "forage.loop.plain",
    "push": "forage.studies.hub",
    "pull": "forage.studies.hub",
    "make": "forage.environments",
    "list_environments": "forage.environments",
    "register_tracker": "forage.runs.trackers",
    "Tracker": "forage.runs.trackers.base",
    "PPO": "forage.agents.policy_gradient.ppo",
    "DQN": "forage.agents.q_learning.dqn",
    "SAC": "forage.agents.actor_critic.sac",
    "SACDiscrete": "forage.agents.actor_critic.sac_discrete",
    "TD3": "forage.agents.actor_critic.td3",
    "ForageError": "forage.core.errors",
}

__all__ = list(_WHERE)

if not TYPE_CHECKING:  # or a checker would take any name

    def __getattr__(name: str) -> Any:
        """Import a name at its first use, so that `import forage` costs almost no time."""
        if name not in _WHERE:
            raise AttributeError(f"module 'forage' has no attribute {name!r}")
        import importlib

        module, _, known = _WHERE[name].partition(":")
        return getattr(importlib.import_module(module), known or name)

    def __dir__() -> list[str]:
        """Return the names for completion, including those not imported yet."""
        return sorted({*globals(), *_WHERE})
