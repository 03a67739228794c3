"""Starts: where does an episode begin?"""

PARTS = {
    "reset": "reset:Reset",
    "archive": "archive:Archive",
    "levels": "levels:Levels",
    "groups": "groups:Groups",
    "prioritised-levels": "prioritised_levels:PrioritisedLevels",
    "latent-go-explore": "latent_go_explore:LatentGoExplore",
    "snapshot": "snapshot:Snapshot",
    "reference": "reference:Reference",
    "go-explore": "go_explore:GoExplore",
    "branches": "branches:Branches",
    "attention-branches": "attention_branches:AttentionBranches",
}
"""By name: the module below this folder, and the class."""
