"""A policy that a small search improves: Danihelka and others (2022)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

CLAIM = Claim(
    title="Policy improvement by planning with Gumbel",
    authors="Danihelka, Guez, Schrittwieser, Silver",
    year=2022,
    arxiv="ICLR 2022, https://openreview.net/forum?id=bERaNdoegnO",
    statement="A policy that learns from searches of a few simulations in the environment plays better after as many "
    "steps than one that learns from the steps alone.",
    environment="CartPole-v1",
    arms={
        "ppo": Arm("ppo"),
        "search": Arm("gumbel-search"),
    },
    treatment="search",
    baselines=("ppo",),
    measure=evaluated,
    measured="mean return of the evaluation after training",
    laptop=Scale(20_480, tuple(range(1000, 1005))),
    smoke=Scale(1024, (1000, 1001)),
    paper=Paper(
        "Go, chess and 57 Atari games",
        20_000_000,
        3,
        "hundreds of accelerators",
        lacks="board games, and a search in a model that is learned",
    ),
    note="CartPole in place of Go, and PPO in place of AlphaZero, which is not here. Steps are those that are taken: "
    "each step of the search costs 16 more of the simulator, so PPO has a seventeenth of the simulated steps. Learning "
    "rate and value scale of the search were chosen on seeds 0 and 1, in 30,000 steps; PPO's preset for CartPole on "
    "seeds 0 to 4, for 100,000 steps.",
)
