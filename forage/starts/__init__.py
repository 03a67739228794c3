"""Starts: the initial states of episodes."""

PARTS = {
    "reset": "reset:Reset",
    "levels": "levels:Levels",
    "groups": "groups:Groups",
    "prioritised-levels": "prioritised_levels:PrioritisedLevels",
}
"""By name: the module below this folder, and the class."""
