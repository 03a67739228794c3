"""Memory: storage of experience and sampling of batches from it."""

PARTS = {
    "rollout": "rollout:LastRollout",
    "queue": "queue:Queue",
    "uniform": "uniform:UniformReplay",
    "prioritised": "prioritised:PrioritisedReplay",
    "episodes": "episodes:Episodes",
    "hindsight": "hindsight:Hindsight",
    "recorded": "recorded:RecordedMemory",
    "dataset": "dataset:DataSet",
    "texts": "texts:TextSet",
    "mixed": "mixed:MixedReplay",
}
"""By name: the module below this folder, and the class."""
