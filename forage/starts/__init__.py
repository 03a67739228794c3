"""Starts: the initial states of episodes."""

PARTS = {
    "reset": "reset:Reset",
    "archive": "archive:Archive",
    "levels": "levels:Levels",
    "groups": "groups:Groups",
    "prioritised-levels": "prioritised_levels:PrioritisedLevels",
    "snapshot": "snapshot:Snapshot",
    "go-explore": "go_explore:GoExplore",
}
"""By name: the module below this folder, and the class."""
