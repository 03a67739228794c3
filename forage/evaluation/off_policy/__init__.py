"""Off-policy evaluation: what a policy would return, from what another one logged. See docs/off-policy.md."""

from forage.data.collect import log_episodes, softened, tabular_policy
from forage.data.logged import Logged
from forage.evaluation.off_policy.estimate import ESTIMATORS, Estimate, Table, estimate
from forage.evaluation.off_policy.estimators.networks import NetworkDice, NetworkQ
from forage.evaluation.off_policy.target import Overlap, Target, overlap

__all__ = [
    "ESTIMATORS",
    "Estimate",
    "Logged",
    "NetworkDice",
    "NetworkQ",
    "Overlap",
    "Table",
    "Target",
    "estimate",
    "log_episodes",
    "overlap",
    "softened",
    "tabular_policy",
]
