"""Memory: what is kept, and what is replayed?"""

PARTS = {
    "rollout": "rollout:LastRollout",
    "queue": "queue:Queue",
    "uniform": "uniform:UniformReplay",
    "reshuffled": "reshuffled:ReshuffledReplay",
    "prioritised": "prioritised:PrioritisedReplay",
    "prioritised-reshuffled": "prioritised_reshuffled:PrioritisedReshuffled",
    "episodes": "episodes:Episodes",
    "lap": "lap:LAP",
    "hindsight": "hindsight:Hindsight",
    "dyna": "dyna:Dyna",
    "recorded": "recorded:Recorded",
    "shifted": "shifted:Shifted",
    "sqil": "sqil:SQIL",
    "dataset": "dataset:DataSet",
    "stitched": "stitched:Stitched",
    "guided": "guided:Guided",
    "trajectory-weighted": "trajectory_weighted:TrajectoryWeighted",
    "mixed": "mixed:Mixed",
    "successes": "successes:Successes",
    "self-imitation": "self_imitation:SelfImitation",
    "teachers": "teachers:Teachers",
}
"""By name: the module below this folder, and the class."""
