"""A few runs mislead: Agarwal, Schwarzer, Castro, Courville and Bellemare (2021)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from forage.studies.claims.claim import Arm, Claim, Effect, Paper, Rule, Scale, evaluated, judged

FEW = (3, 5)
DRAWS, RESAMPLES = 400, 400


def misled(values: Mapping[str, np.ndarray], rule: Rule) -> list[Effect]:
    """Return how often the means of a few seeds of each put the two in another order than the means of all seeds do.

    Its interval comes from drawing the seeds anew, so that it says how sure many seeds are of that share.
    """
    first, second = (np.asarray(v) for v in values.values())
    random = np.random.default_rng(0)

    def share(a: np.ndarray, b: np.ndarray, few: int) -> float:
        few = min(few, len(a))
        means = [v[random.integers(len(v), size=(DRAWS, few))].mean(1) for v in (a, b)]
        gap = means[0] - means[1]
        return float(np.mean(np.sign(gap) == -np.sign(a.mean() - b.mean())) + np.mean(gap == 0) / 2)

    found = []
    for few in FEW:
        shares = [
            share(random.choice(first, len(first)), random.choice(second, len(second)), few) for _ in range(RESAMPLES)
        ]
        low, high = (float(q) for q in np.quantile(shares, [(1 - rule.confidence) / 2, (1 + rule.confidence) / 2]))
        found.append(Effect(f"{few} seeds", share(first, second, few), low, high, judged(low, high, rule.margin)))
    return found


CLAIM = Claim(
    title="Deep Reinforcement Learning at the Edge of the Statistical Precipice",
    authors="Agarwal, Schwarzer, Castro, Courville, Bellemare",
    year=2021,
    arxiv="2108.13264",
    statement="The means of three or five runs often put two agents in another order than the means of many runs do.",
    environment="CartPole-v1",
    arms={
        "learning rate 0.001": Arm("ppo", {"learning_rate": 1e-3}),
        "learning rate 0.0007": Arm("ppo", {"learning_rate": 7e-4}),
    },
    treatment="the order of a few",
    baselines=("learning rate 0.0007",),
    measure=evaluated,
    measured="return",
    laptop=Scale(30_000, tuple(range(1000, 1100))),
    smoke=Scale(2048, tuple(range(1000, 1004))),
    paper=Paper("gymnasium:ALE/Pong-v5", 100_000, 100, "GPUs and weeks"),
    rule=Rule(margin=0.1),
    note="Our own agents, which differ in one number, in place of published ones. How far apart the two rates were "
    "chosen decides how often few seeds mislead: it would be oftener with nearer ones. The claim holds where more than "
    "one comparison in ten is the wrong way round.",
    judge=misled,
    judged_by="The effect is the share of comparisons of so few seeds that come out the other way round than those of "
    "all seeds. The claim holds where the whole 95 % interval of each share lies above 0.1, fails where one is below.",
)
