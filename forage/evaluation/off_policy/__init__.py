"""Off-policy evaluation: the return of a policy, estimated from another policy's log. See docs/off-policy.md."""

from forage.data.collect import log_episodes, soften_policy, tabular_policy
from forage.data.logged import LoggedEpisodes
from forage.evaluation.off_policy.estimate import ESTIMATORS, Estimate, Table, estimate
from forage.evaluation.off_policy.estimators.networks import NetworkDice, NetworkQ
from forage.evaluation.off_policy.target import Overlap, Target, overlap

__all__ = [
    "ESTIMATORS",
    "Estimate",
    "LoggedEpisodes",
    "NetworkDice",
    "NetworkQ",
    "Overlap",
    "Table",
    "Target",
    "estimate",
    "log_episodes",
    "overlap",
    "soften_policy",
    "tabular_policy",
]
