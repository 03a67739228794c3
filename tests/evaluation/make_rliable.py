"""Make data/rliable.json: rliable's results for some score matrices, so that the tests need no rliable.

    python -m venv rliable && rliable/bin/pip install rliable==1.2.0 "pandas<3" jaxtyping
    PYTHONPATH=. rliable/bin/python tests/evaluation/make_rliable.py ATARI_100K

ATARI_100K is a folder with SPR.json, DrQ(eps).json and SimPLe.json: the runs behind Agarwal et al., 2021, as
`{game: [score of each run]}`. They are in the bucket gs://rl-benchmark-data/atari_100k, and under results/data of
github.com/eloialonso/iris. They are not stored here, only what rliable says of them. The other matrices are made up,
of the same shape, and stored.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import pathlib
import sys

import numpy as np

REPETITIONS = 8000
FEW_REPETITIONS = 1000  # of the probability of improvement, which takes rliable a hundredth of a second each
PUBLISHED = ("SPR", "DrQ(eps)", "SimPLe")
THRESHOLDS = [0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0]
OUTPUT = pathlib.Path(__file__).parent / "data" / "rliable.json"


def make_up() -> dict[str, np.ndarray]:
    """Two algorithms on 26 tasks with a few tasks far above the rest; rounded, so that some scores tie."""
    random = np.random.default_rng(20211)
    hard = random.normal(-1.2, 1.3, size=26)
    return {
        "ten seeds": np.exp(random.normal(hard, 0.4, size=(10, 26))).round(2),
        "five seeds": np.exp(random.normal(0.8 * hard - 0.2, 0.6, size=(5, 26))).round(2) - 0.05,
    }


def made_up_curves() -> np.ndarray:
    """`seeds tasks points`"""
    random = np.random.default_rng(20212)
    return (np.cumsum(random.exponential(0.2, size=(5, 6, 4)), axis=-1)).round(3)


def publish(folder: str, name: str) -> np.ndarray:
    """Human-normalised, `seeds tasks`."""
    from forage.evaluation.references import human_normalised

    runs = json.loads((pathlib.Path(folder) / f"{name}.json").read_text())
    games = sorted(runs)
    return human_normalised(np.array([runs[game] for game in games], float).T, games)


def main(folder: str) -> None:
    from rliable import library, metrics

    names = ("iqm", "mean", "task_median", "optimality_gap", "optimality_gap_half")

    def aggregates(scores: np.ndarray) -> np.ndarray:
        half = metrics.aggregate_optimality_gap(scores, gamma=0.5)
        whole = (metrics.aggregate_iqm, metrics.aggregate_mean, metrics.aggregate_median)
        return np.array([*(f(scores) for f in whole), metrics.aggregate_optimality_gap(scores), half])

    def estimate(scores, function, repetitions: int = REPETITIONS) -> list[list[float]]:
        """Value, low and high of each number that the function returns."""
        np.random.seed(0)  # rliable draws from NumPy's global stream
        values, intervals = library.get_interval_estimates({"": scores}, function, reps=repetitions)
        return np.stack([np.atleast_1d(values[""]), *intervals[""]], axis=-1).tolist()

    def profile(scores: np.ndarray, of_scores: bool) -> list[list[float]]:
        np.random.seed(0)
        shares, bands = library.create_performance_profile(
            {"": scores}, np.array(THRESHOLDS), use_score_distribution=of_scores, reps=REPETITIONS
        )
        return np.stack([shares[""], *bands[""]], axis=-1).tolist()

    def improvement(a: np.ndarray, b: np.ndarray) -> list[float]:
        return estimate([a, b], lambda x, y: np.array([metrics.probability_of_improvement(x, y)]), FEW_REPETITIONS)[0]

    matrices, curves = make_up(), made_up_curves()
    everything = matrices | {name: publish(folder, name) for name in PUBLISHED}
    points = range(curves.shape[-1])
    result = {
        "made by": {name: importlib.metadata.version(name) for name in ("rliable", "arch", "numpy", "scipy")},
        "command": "PYTHONPATH=. rliable/bin/python tests/evaluation/make_rliable.py ATARI_100K",
        "repetitions": REPETITIONS,
        "few_repetitions": FEW_REPETITIONS,
        "thresholds": THRESHOLDS,
        "matrices": {name: scores.tolist() for name, scores in matrices.items()},
        "curves": curves.tolist(),
        "sha256": {
            name: hashlib.sha256((pathlib.Path(folder) / f"{name}.json").read_bytes()).hexdigest() for name in PUBLISHED
        },
        "aggregates": {
            name: dict(zip(names, estimate(scores, aggregates), strict=True)) for name, scores in everything.items()
        },
        "score_distribution": {name: profile(scores, True) for name, scores in everything.items()},
        "average_score_distribution": {name: profile(scores, False) for name, scores in everything.items()},
        "probability_of_improvement": {
            "ten seeds, five seeds": improvement(matrices["ten seeds"], matrices["five seeds"]),
            "SPR, SimPLe": improvement(everything["SPR"], everything["SimPLe"]),
        },
        "sample_efficiency": estimate(
            curves, lambda scores: np.array([metrics.aggregate_iqm(scores[..., point]) for point in points])
        ),
    }
    OUTPUT.parent.mkdir(exist_ok=True)
    lines = (f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in result.items())
    OUTPUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1])
