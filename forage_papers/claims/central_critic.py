"""A critic that sees everything helps a team: Yu and others (2021)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

CLAIM = Claim(
    title="The Surprising Effectiveness of PPO in Cooperative Multi-Agent Games",
    authors="Yu, Velu, Vinitsky, Gao, Wang, Bayen, Wu",
    year=2021,
    arxiv="2103.01955",
    statement="A team whose critic sees the whole state (MAPPO) does better than one without (IPPO).",
    environment="jaxmarl:MPE_simple_spread_v3",
    arms={
        "IPPO": Arm("ppo"),
        "MAPPO": Arm("ppo", {"central_critic": True}),
    },
    treatment="MAPPO",
    baselines=("IPPO",),
    measure=evaluated,
    measured="return",
    laptop=Scale(500_000, tuple(range(1000, 1005))),
    smoke=Scale(2048, (1000, 1001)),
    paper=Paper("jaxmarl:MPE_simple_spread_v3", 20_000_000, 10, "a GPU and an hour"),
    note="The paper finds MAPPO ahead on few tasks and on par on most, simple spread among those where both do well.",
)
