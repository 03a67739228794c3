"""Go-Explore without cells: Gallouédec and Dellandréa (2023)."""

from __future__ import annotations

from forage.starts.archive import Archive
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, late
from forage_papers.starts.latent_go_explore import LatentGoExplore

CLAIM = Claim(
    title="Cell-Free Latent Go-Explore",
    authors="Gallouédec, Dellandréa",
    year=2023,
    arxiv="2208.14928",
    statement="Returning to states of low density in a learned latent space visits more than exploring from the start "
    "does, or returning to any past state alike.",
    environment="MountainCar-v0",
    arms={
        "from the start": Arm("ppo", parts=lambda: {"visits": True}),
        "from any past state": Arm("ppo", parts=lambda: {"visits": True, "starts": Archive(probability=0.9)}),
        "Latent Go-Explore": Arm("ppo", parts=lambda: {"visits": True, "starts": LatentGoExplore()}),
    },
    treatment="Latent Go-Explore",
    baselines=("from the start", "from any past state"),
    measure=late("places_visited", 0.01),
    measured="cells of position and speed that were visited",
    laptop=Scale(40_000, tuple(range(1010, 1020))),
    smoke=Scale(4096, (1000, 1001)),
    paper=Paper("gymnasium:ALE/MontezumaRevenge-v5", 50_000_000, 10, "a GPU and days"),
    note="The paper measures how much of a maze, a robot's table and Atari games is visited; here it is a car's "
    "positions and speeds, on a map of 20 by 20. Returns of policies from the start were judged before (seeds 1000 to "
    "1004, all at -200): no policy learns from the start where episodes begin elsewhere.",
)
