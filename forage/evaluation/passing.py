"""Pass@k: the share of problems solved in k tries, compared with the model before training.

Pass@k at k = 1 is accuracy; at large k it shows the problems within a model's reach. If training raises the one and not
the other, it only made answers more likely that the first model could already write: it sharpened.

Source: Chen et al., 2021, "Evaluating Large Language Models Trained on Code", arXiv:2107.03374 (the estimator);
Mayilvahanan, Dominguez-Olmedo, Wiedemer, Brendel, 2025, "MATH-Beyond: A Benchmark for RL to Expand Beyond the Base
Model", arXiv:2510.11653 (problems solved beyond the base model). Only abstract and summaries of the latter could be
read: shares here are of all problems, and `Boundary.newly_solved` of those that the first model did not solve.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from forage.core.errors import ForageError
from forage.evaluation.look import INK, PALETTE, QUIET, head, save_figure, sheet, style
from forage.evaluation.statistics import check_interval, quantiles

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Curve(NamedTuple):
    """A number for each k, and the ends of its interval."""

    value: Float[np.ndarray, " k"]
    low: Float[np.ndarray, " k"]
    high: Float[np.ndarray, " k"]

    def words(self, index: int) -> str:
        """Return one of its numbers with its interval."""
        return f"{self.value[index]:.3f} [{self.low[index]:.3f}, {self.high[index]:.3f}]"


class Boundary(NamedTuple):
    """Shares of all problems by the models that solved them in any of the answers drawn; means over seeds."""

    gained: float  # by the trained model alone
    lost: float  # by the first model alone
    kept: float  # by both
    neither: float

    @property
    def share_newly_solved(self) -> float:
        """Return the share that the trained model solved of the problems unsolved by the first; NaN if there are
        none.
        """
        unsolved = self.gained + self.neither
        return self.gained / unsolved if unsolved else float("nan")


@dataclasses.dataclass(frozen=True)
class Passing:
    """Pass@k of a trained model and of its initial model, on the same problems."""

    ks: list[int]
    trained: Curve
    first: Curve
    difference: Curve  # trained less first, on the same problems
    boundary: Boundary
    drawn: int  # answers to each problem
    problems: int
    seeds: int

    @property
    def verdict(self) -> str:
        """Say whether learning sharpened the first model or went beyond it, as far as the intervals tell."""
        one, most = self.difference.low[0] > 0, self.ks[-1]
        if self.difference.low[-1] > 0:
            return f"beyond the first model: it solves more problems within {most} tries"
        if self.difference.high[-1] < 0:
            also = ", though more at the first try" if one else ""
            return f"narrower than the first model: it solves fewer problems within {most} tries{also}"
        if one:
            return f"sharper: it solves more problems at the first try, and no more that can be told within {most}"
        return "no better than the first model, as far as can be told"

    def __str__(self) -> str:
        curves = {"trained": self.trained, "first model": self.first, "difference": self.difference}
        lines = table(self.ks, curves)
        shares = ", ".join(f"{name} {value:.1%}" for name, value in self.boundary._asdict().items())
        return "\n".join([*lines, f"  of the problems: {shares}", f"  {self.verdict}"])

    def data(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        plain = {name: curve_data(getattr(self, name)) for name in ("trained", "first", "difference")}
        counts = {"answers": self.drawn, "problems": self.problems, "seeds": self.seeds}
        return {"k": self.ks, **plain, "boundary": self.boundary._asdict(), "verdict": self.verdict, **counts}


@dataclasses.dataclass(frozen=True)
class Choosing:
    """The share of problems solved by the first k of the answers that a rule chooses, and by k drawn at random."""

    ks: list[int]
    chosen: Curve
    random: Curve
    difference: Curve  # chosen less random, on the same answers
    drawn: int
    problems: int
    seeds: int

    def __str__(self) -> str:
        return "\n".join(table(self.ks, self.curves))

    @property
    def curves(self) -> dict[str, Curve]:
        return {"chosen": self.chosen, "at random": self.random, "difference": self.difference}

    def data(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        curves = {name: curve_data(getattr(self, name)) for name in ("chosen", "random", "difference")}
        return {"k": self.ks, **curves, "answers": self.drawn, "problems": self.problems, "seeds": self.seeds}


def curve_data(one: Curve) -> dict[str, list[float]]:
    return {end: part.tolist() for end, part in one._asdict().items()}


def table(ks: list[int], curves: dict[str, Curve]) -> list[str]:
    """Return the lines of a table of curves, a row for each k."""
    rows = [["k", *curves]]
    rows += [[str(k), *(one.words(index) for one in curves.values())] for index, k in enumerate(ks)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  " + "  ".join(x.ljust(w) for x, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def pass_at(right: Int[np.ndarray, "*shape"], drawn: int, k: int) -> Float[np.ndarray, "*shape"]:
    """Estimate the probability that at least one of k answers is right, without bias, from the right ones of `drawn`.

        1 - C(n - c, k) / C(n, k) = 1 - product over i < k of (n - c - i) / (n - i)

    with n answers drawn of which c were right. The plain estimate, 1 - (1 - c / n)^k, is too low.
    Source: Chen et al., 2021, arXiv:2107.03374, equation 1.
    """
    right = np.asarray(right)
    if not 1 <= k <= drawn:
        raise ForageError(f"Of {drawn} answers to a problem pass@k is known for k from 1 to {drawn}, not for {k}.")
    if (right < 0).any() or (right > drawn).any():
        raise ForageError(f"Of {drawn} answers 0 to {drawn} are right, not {right.min()} to {right.max()}.")
    tried = np.arange(k)
    left = np.maximum(drawn - right[..., None] - tried, 0) / (drawn - tried)
    return 1 - left.prod(-1)


def tries(drawn: int) -> list[int]:
    """Return the numbers of tries to show: powers of two up to the number of drawn answers, and that number."""
    return sorted({2**power for power in range(drawn.bit_length()) if 2**power <= drawn} | {drawn})


def passing(
    trained: Int[np.ndarray, "seed problem"],
    first: Int[np.ndarray, " problem"],
    drawn: int,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Passing:
    """Compare the right answers of a trained model and of the first one, problem by problem.

    Intervals are a percentile bootstrap that resamples problems and seeds, the same problems for both models, so that
    the shared difficulty of a problem cancels in the difference. As with any bootstrap of few seeds they are too narrow
    for few seeds; with one seed they cover the problems alone.
    """
    trained, first = np.asarray(trained), np.asarray(first)
    if trained.ndim != 2 or first.shape != trained.shape[1:] or not first.size:
        raise ForageError(
            f"Pass@k compares counts of shape (seeds, problems) with (problems,), and got {trained.shape} and "
            f"{first.shape}."
        )
    if len(first) < 2:
        raise ForageError("An interval of pass@k needs at least 2 problems, better 100, and there is 1.")
    ks, (seeds, problems) = tries(drawn), trained.shape
    ours = np.stack([pass_at(trained, drawn, k) for k in ks])  # k seed problem
    theirs = np.stack([pass_at(first, drawn, k) for k in ks])[:, None]  # k 1 problem
    one, other, apart = _curves([ours, theirs, ours - theirs], seeds, confidence, resamples, seed)
    solved, could = trained > 0, first > 0
    boundary = Boundary(
        *(float(np.mean(share)) for share in (solved & ~could, ~solved & could, solved & could, ~solved & ~could))
    )
    return Passing(ks, one, other, apart, boundary, drawn, problems, seeds)


def choosing(
    right: Bool[np.ndarray, "seed problem answer"], confidence: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Choosing:
    """Compare answers in the order in which a rule tries them with the same answers drawn at random.

    The share of problems that the first k solve is compared with pass@k, which is its mean over all orders. Intervals
    are as those of `passing`.
    """
    seeds, problems, drawn = right.shape
    if problems < 2:
        raise ForageError(f"An interval needs at least 2 problems, better 100, and there is {problems}.")
    ks, solved = tries(drawn), np.maximum.accumulate(right, axis=2)
    ours = np.stack([solved[..., k - 1].astype(float) for k in ks])
    theirs = np.stack([pass_at(right.sum(2), drawn, k) for k in ks])
    one, other, apart = _curves([ours, theirs, ours - theirs], seeds, confidence, resamples, seed)
    return Choosing(ks, one, other, apart, drawn, problems, seeds)


def _curves(
    values: list[Float[np.ndarray, "k seed problem"]], seeds: int, confidence: float, resamples: int, seed: int
) -> list[Curve]:
    """Return the means of numbers with intervals that resample problems and seeds, the same for all of them."""
    random, problems = np.random.default_rng(seed), values[0].shape[2]
    check_interval(problems, confidence, resamples)
    of_problems = random.multinomial(problems, np.full(problems, 1 / problems), size=resamples) / problems
    of_seeds = random.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples) / seeds
    found = []
    for one in values:
        low, high = quantiles(np.sum((one @ of_problems.T) * of_seeds.T, axis=1), confidence)
        found.append(Curve(one.mean((1, 2)), low, high))
    return found


def draw_passing(path: str | pathlib.Path, found: Passing, title: str) -> pathlib.Path:
    """Draw pass@k of both models over k, each in its interval, and return the path."""
    figure = sheet(7.2, 4.2, dpi=200)
    axes = figure.add_subplot()
    for curve, label, color in ((found.trained, "trained", PALETTE[0]), (found.first, "first model", QUIET)):
        axes.fill_between(found.ks, curve.low, curve.high, color=color, alpha=0.16, linewidth=0)
        axes.plot(found.ks, curve.value, color=color, linewidth=2, marker="o", markersize=4, label=label)
    style(axes, "share of problems solved", "tries")
    _in_powers(axes, found.ks)
    axes.legend(frameon=False, fontsize=8.5, labelcolor=INK)
    seeds = f"{found.seeds} seeds" if found.seeds > 1 else "1 seed"
    head(axes, title, [f"{found.problems} problems, {found.drawn} answers to each, {seeds}; shaded: 95 % intervals"])
    return save_figure(figure, pathlib.Path(path))


def _in_powers(axes: Axes, ks: Sequence[int]) -> None:
    """Lay tries out by their logarithm."""
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log", base=2)
    axes.set_xticks(list(ks), [str(k) for k in ks])
    axes.xaxis.set_minor_locator(NullLocator())
