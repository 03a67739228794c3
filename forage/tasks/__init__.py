"""Tasks: the order of environments, levels and contexts."""

PARTS = {
    "same": "same:Same",
    "phases": "phases:Phases",
    "contexts": "contexts:Contexts",
}
"""By name: the module below this folder, and the class."""
