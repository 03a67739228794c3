"""Layer normalisation makes Q-learning work without replay and target network: Gallici and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated

CLAIM = Claim(
    title="Simplifying Deep Temporal Difference Learning",
    authors="Gallici, Fellows, Ellis, Pou, Masmitja, Foerster, Martin",
    year=2025,
    arxiv="2407.04811",
    statement="Parallel Q-learning without replay and target network ends with higher returns if its network has layer "
    "normalisation.",
    environment="CartPole-v1",
    arms={"no normalisation": Arm("pqn", {"layer_norm": False}), "layer normalisation": Arm("pqn")},
    treatment="layer normalisation",
    baselines=("no normalisation",),
    measure=evaluated,
    measured="return",
    laptop=Scale(100_000, SEEDS[:5]),
    smoke=Scale(2048, (1000, 1001)),
    paper=Paper("gymnasium:ALE/Breakout-v5", 50_000_000, 3, "a GPU and hours"),
    note="CartPole in place of Atari.",
)
