"""Tasks: which environment, level or context comes next?"""

PARTS = {
    "same": "same:Same",
    "phases": "phases:Phases",
    "contexts": "contexts:Contexts",
}
"""By name: the module below this folder, and the class."""
