"""How often a comparison at several looks errs: made-up scores of two sides, judged as claims and comparisons are.

    python benchmarks/looks.py                # the table of docs/trust.md; about four minutes of one core
    python benchmarks/looks.py --number 500   # a quick look

Each experiment draws 80 scores of each side and looks at the first 5, 10, 20, 40 and 80 until it decides. Of the first
rows the true means are equal, and any decision of one being better is an error. Of the last, they differ by just the
distance that *no difference* excludes, and saying it is an error.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from forage.evaluation.sequential import look_sizes, repeated_interval

Draw = Callable[[np.random.Generator, int], np.ndarray]


def normal(mean: float = 0.0, spread: float = 1.0) -> Draw:
    return lambda random, n: random.normal(mean, spread, n)


def two_valued(low: float, high: float, share: float) -> Draw:
    """Scores that are `low` in a share of seeds, else `high`."""
    return lambda random, n: np.where(random.random(n) < share, low, high)


def same(value: float) -> Draw:
    return lambda random, n: np.full(n, value)


EQUAL: dict[str, tuple[Draw, Draw]] = {
    "both normal": (normal(), normal()),
    "both normal, spreads 1 and 5": (normal(), normal(spread=5.0)),
    "both exponential": (lambda random, n: random.exponential(size=n),) * 2,
    "both 0 or 1, half each": (two_valued(0.0, 1.0, 0.5),) * 2,
    "both 0 or 1, 1 in a fifth": (two_valued(1.0, 0.0, 0.2),) * 2,
    "one normal, the other the same for all seeds": (normal(), same(0.0)),
    "one exponential, the other the same for all seeds": (lambda random, n: random.exponential(size=n) - 1, same(0.0)),
    "one 500, or 100 in a fifth; the other N(420, 5)": (two_valued(100.0, 500.0, 0.2), normal(420.0, 5.0)),
    "one 500, or 100 in a tenth; the other always 460": (two_valued(100.0, 500.0, 0.1), same(460.0)),
    "both always the same": (same(1.0), same(1.0)),
}
APART: dict[str, tuple[Draw, Draw, float]] = {
    "both normal, 0.3 apart": (normal(0.3), normal(), 0.3),
    "both normal, 1 apart": (normal(1.0), normal(), 1.0),
    "exponential, 0.5 apart": (lambda random, n: random.exponential(size=n) + 0.5, EQUAL["both exponential"][0], 0.5),
    "both 0 or 1, 0.2 apart": (two_valued(0.0, 1.0, 0.4), two_valued(0.0, 1.0, 0.6), 0.2),
}


PAIRED = {
    "paired: both normal, correlated by 0.8": normal(spread=0.2**0.5),
    "paired: one exponential more than the other": lambda random, n: random.exponential(size=n) - 1,
    "paired: the same but for 1 or -1 in a tenth": lambda random, n: (
        random.choice([-1.0, 1.0], n) * (random.random(n) < 0.1)
    ),
}
"""Differences of paired scores whose mean is 0; the part that both have in common cancels."""


def errors(a: Draw, b: Draw, excluded: float, number: int, paired: bool = False) -> list[float]:
    """Return the share of experiments that err at each look, for `excluded` = 0 by a verdict of better or worse."""
    random = np.random.default_rng(0)
    sizes = look_sizes()
    found = np.zeros(len(sizes))
    for _ in range(number):
        one, other = a(random, sizes[-1]), b(random, sizes[-1])
        for look, seeds in enumerate(sizes):
            _, low, high = repeated_interval(one[:seeds], other[:seeds], paired=paired)
            if low > 0 or high < 0:
                found[look] += not excluded
                break
            if excluded and -excluded < low and high < excluded:
                found[look] += 1
                break
    return (found / number).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=20_000, help="experiments of each row")
    number = parser.parse_args().number
    print("| scores | " + " | ".join(map(str, look_sizes())) + " | in all |\n" + "|---" * (len(look_sizes()) + 2) + "|")
    rows = {name: (*sides, 0.0) for name, sides in EQUAL.items()} | APART
    rows |= {name: (draw, same(0.0), 0.0) for name, draw in PAIRED.items()}
    for name, (a, b, excluded) in rows.items():
        shares = errors(a, b, excluded, number, name in PAIRED)
        print(f"| {name} | " + " | ".join(f"{share:.1%}" for share in shares) + f" | {sum(shares):.1%} |", flush=True)


if __name__ == "__main__":
    main()
