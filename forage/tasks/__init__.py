"""Tasks: the order of environments, levels and contexts."""

PARTS = {
    "same": "same:Same",
    "contexts": "contexts:Contexts",
}
"""By name: the module below this folder, and the class."""
