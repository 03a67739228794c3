"""Tasks: which environment, level or context comes next?"""

PARTS = {
    "same": "same:Same",
    "phases": "phases:Phases",
    "contexts": "contexts:Contexts",
    "filtered": "filtered:Filtered",
    "greso": "greso:Greso",
    "adaptive-difficulty": "adaptive_difficulty:AdaptiveDifficulty",
    "dars": "dars:DARS",
    "cdas": "cdas:CDAS",
    "rising": "rising:Rising",
    "hints": "hints:Hints",
    "seele": "seele:Seele",
}
"""By name: the module below this folder, and the class."""
