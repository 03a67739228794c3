"""Off-policy evaluation: what a policy would return, from what another one logged. See docs/off-policy.md."""

from forage.evaluation.off_policy.collect import log_episodes, softened, tabular_policy
from forage.evaluation.off_policy.data import Logged
from forage.evaluation.off_policy.front import ESTIMATORS, Estimate, Table, estimate
from forage.evaluation.off_policy.networks import NetworkDice, NetworkQ
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
