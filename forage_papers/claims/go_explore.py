"""First return, then explore: Ecoffet and others (2021)."""

from __future__ import annotations

from forage.starts.go_explore import GoExplore
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

CLAIM = Claim(
    title="First return, then explore",
    authors="Ecoffet, Huizinga, Lehman, Stanley, Clune",
    year=2021,
    arxiv="2004.12919",
    statement="Returning to remembered states finds a reward that exploring from the start does not, and starts that "
    "move backward from there teach a policy to find it from the start.",
    environment="DeepSea-20",
    arms={
        "from the start": Arm("ppo"),
        "from the start, with RND": Arm("ppo", parts=lambda: {"rewards": "rnd"}),
        "Go-Explore": Arm("ppo", parts=lambda: {"starts": GoExplore(target=0.5)}),
    },
    treatment="Go-Explore",
    baselines=("from the start", "from the start, with RND"),
    measure=evaluated,
    measured="return",
    laptop=Scale(100_000, tuple(range(1000, 1005))),
    smoke=Scale(2000, (1000, 1001)),
    paper=Paper("gymnasium:ALE/MontezumaRevenge-v5", 3_000_000_000, 10, "many cores and weeks"),
    note="DeepSea (Osband and others, 2019, arXiv 1908.03568) and one run for both phases, in place of Montezuma's "
    "Revenge; PPO, which learns meanwhile, explores in place of random actions.",
)
