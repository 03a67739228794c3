"""Claims: the central statements of papers, each as a small experiment that runs (`forage claim NAME`).

A file of `papers` holds one claim, `CLAIM`; its name is the file's, with dashes. What a claim is stands in
`claim.py`.
"""

import functools
import pkgutil

try:
    from forage_papers import claims as papers
except ModuleNotFoundError:
    papers = None

CLAIMS = {
    "reinforce": ("group-baseline",),
    "groups": ("group-baseline",),
    "ppo": ("ppo-clip", "ppo-epochs", "gae-lambda", "central-critic", "recurrence", "bang-bang"),
    "dqn": (
        "target-network",
        "double-q-learning",
        "dueling-network",
        "n-step-returns",
        "histogram-values",
        "dormant-units",
    ),
    "i-dqn": ("iterated-dqn",),
    "bc": ("weighted-cloning",),
    "iql": ("iql", "action-free", "transported-rewards"),
    "cal-ql": ("cal-ql", "cal-ql-online"),
    "gumbel-search": ("gumbel-search",),
    "episodic-control": ("state-aggregation",),
    "vdn": ("value-decomposition",),
    "sac": ("sac-sample-efficiency", "sac-temperature", "resets"),
    "td3": ("td3-delay",),
    "contexts": ("domain-randomisation",),
    "filtered": ("difficulty-filter",),
    "hints": ("solution-hints",),
    "levels": ("level-generalisation",),
    "archive": ("restart-distribution",),
    "guide": ("jump-start",),
    "mixed": ("rlpd",),
    "prioritised": ("prioritised-replay",),
    "rnd": ("rnd-exploration",),
    "counts": ("count-bonus", "mbie-eb"),
    "icm": ("curiosity",),
    "e3b": ("elliptical-bonus",),
    "shift": ("reward-shift",),
    "held-noise": ("gsde",),
    "pink": ("pink-noise",),
}
"""What was claimed of a part; of any other part, the claim of its name, where there is one."""


@functools.cache
def names() -> list[str]:
    """Return every claim's name."""
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(papers.__path__ if papers else ()))


def of_part(name: str) -> list[str]:
    """Return the names of the claims about a part."""
    return [claim for claim in CLAIMS.get(name, (name,)) if claim in names()]
