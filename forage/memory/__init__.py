"""Memory: storage of experience and sampling of batches from it."""

PARTS = {
    "rollout": "rollout:LastRollout",
    "queue": "queue:Queue",
    "uniform": "uniform:UniformReplay",
    "prioritised": "prioritised:PrioritisedReplay",
    "episodes": "episodes:Episodes",
    "lap": "lap:LAP",
    "hindsight": "hindsight:Hindsight",
    "recorded": "recorded:Recorded",
    "shifted": "shifted:Shifted",
    "dataset": "dataset:DataSet",
    "mixed": "mixed:Mixed",
}
"""By name: the module below this folder, and the class."""
