"""Selection among policies by off-policy estimates: the quality of each estimator's choice in return and risk.

The numbers are those of `forage/evaluation/off_policy/selection.py`: SharpeRatio@k and its family (Kiyohara, Kishimoto,
Kawakami, Kobayashi, Nakata, Saito, 2024, arXiv 2311.18207), regret@k and rank correlation.
"""

from __future__ import annotations

import csv
import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from forage.core.types import ForageError
from forage.evaluation.off_policy.policy_value import PolicyValue, share
from forage.evaluation.off_policy.selection import Portfolio, normalised_regret, portfolio, rank_correlation, regret

Paths = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class EstimatorChoice:
    """The choice of one estimator, if its k best policies are tried."""

    top: tuple[str, ...]  # the k policies, best estimate first
    rank_correlation: float
    regret: float
    normalised_regret: float
    portfolio: Portfolio


@dataclasses.dataclass(frozen=True)
class Selection:
    """The result of `forage select`: policies, their true values, and each estimator's choice."""

    values: dict[str, float]
    baseline: float
    k: int
    estimates: dict[str, dict[str, float]]  # by estimator, then policy
    judged: dict[str, EstimatorChoice]  # best SharpeRatio@k first

    def __str__(self) -> str:
        """Return a table, a line for each estimator."""
        heads = ["estimator", f"SharpeRatio@{self.k}", f"best@{self.k}", f"worst@{self.k}", f"std@{self.k}"]
        heads += [f"regret@{self.k}", "rank correlation", f"the {self.k} it would try"]
        rows = [heads]
        for name, found in self.judged.items():
            chosen = found.portfolio
            numbers = (chosen.sharpe_ratio, chosen.best, chosen.worst, chosen.std, found.regret, found.rank_correlation)
            rows.append([name, *(f"{number:.4g}" for number in numbers), ", ".join(found.top)])
        widths = [max(len(row[i]) for row in rows) for i in range(len(heads))]
        lines = ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        best = max(self.values, key=lambda name: self.values[name])
        said = f"{len(self.values)} policies, the best of them {best} ({self.values[best]:.4g}); behaviour "
        return "\n".join([f"{said}{self.baseline:.4g}", *lines])

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        judged = {
            name: dataclasses.asdict(found) | {"portfolio": found.portfolio._asdict()}
            for name, found in self.judged.items()
        }
        return finite(dataclasses.asdict(self) | {"judged": judged})


def finite(data: Any) -> Any:
    """Return plain data with `None` for numbers that are NaN or infinite, as JSON lacks them."""
    if isinstance(data, dict):
        return {name: finite(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    return None if isinstance(data, float) and not np.isfinite(data) else data


def select(
    values: Mapping[str, float],
    estimates: Mapping[str, Mapping[str, float]],
    baseline: float,
    k: int = 3,
    threshold: float | None = None,
) -> Selection:
    """Judge estimators by their choices. `values`: true values by policy; `estimates`: by estimator, then policy.

    `baseline`: value of the behaviour policy, which may always be kept. `threshold`: value below which a policy is
    unsafe.
    """
    names, true = list(values), np.array(list(values.values()), float)
    found = {}
    for estimator, by_policy in estimates.items():
        told = np.array([by_policy[name] for name in names], float)
        chosen = portfolio(told, true, k, baseline, threshold)
        top = tuple(names[i] for i in np.argsort(-told, kind="stable")[:k])
        errors = rank_correlation(told, true), regret(told, true, k), normalised_regret(told, true, k)
        found[estimator] = EstimatorChoice(top, *errors, chosen)

    def order(name: str) -> tuple[bool, float]:
        ratio = found[name].portfolio.sharpe_ratio
        return np.isnan(ratio), -ratio

    plain = {name: {policy: float(x) for policy, x in told.items()} for name, told in estimates.items()}
    return Selection(dict(values), baseline, k, plain, {name: found[name] for name in sorted(found, key=order)})


def read_table(path: Paths) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Read values and estimates from a CSV: columns `policy`, `value` and one for each estimator.

    Raise `ForageError` with the first bad line.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            lines = csv.reader(file)
            heads = [name.strip() for name in next(lines, [])]
            if heads[:2] != ["policy", "value"] or len(heads) < 3 or len(set(heads)) < len(heads):
                raise ForageError(
                    f"{path} begins with the columns policy and value and then one for each estimator, not with "
                    f"{', '.join(heads) or 'nothing'}."
                )
            values: dict[str, float] = {}
            estimates: dict[str, dict[str, float]] = {name: {} for name in heads[2:]}
            for cells in lines:
                if not cells:
                    continue
                if len(cells) != len(heads) or cells[0] in values:
                    what = "names a policy again" if len(cells) == len(heads) else f"has {len(cells)} cells"
                    raise ForageError(f"{path}: line {lines.line_num} {what}; there are {len(heads)} columns.")
                try:
                    values[cells[0]], *told = (float(cell) for cell in cells[1:])
                except ValueError:
                    raise ForageError(f"{path}: line {lines.line_num} has something that is no number.") from None
                for name, number in zip(heads[2:], told, strict=True):
                    estimates[name][cells[0]] = number
    except FileNotFoundError:
        raise ForageError(f"There is no table {path}; one is a CSV of policies, values and estimates.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ForageError(f"{path} cannot be read as a table: {error}.") from None
    if not values:
        raise ForageError(f"{path} names no policy.")
    return values, estimates


@dataclasses.dataclass(frozen=True)
class Ranking:
    """Runs by the estimated value of their policies, the highest lower end of an interval first."""

    found: dict[str, PolicyValue]

    def __str__(self) -> str:
        """Return a table, a line for each run, and the warnings."""
        rows = [["policy", "value", "95 % interval", "effective transitions", "effective episodes", "rarely logged"]]
        for name, one in self.found.items():
            behind = f"{one.effective_transitions:,.0f}", f"{one.effective_episodes:,.0f}"
            interval = f"[{one.low:.4g}, {one.high:.4g}]"
            rows.append([name, f"{one.value:.4g}", interval, *behind, share(one.rare)])
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        one = next(iter(self.found.values()))
        lines.append(f"{'logged':<{widths[0]}}  {one.logged}".rstrip() + ", the mean discounted return of the log")
        lines += [f"Warning of {name}: {text}" for name, one in self.found.items() for text in one.warnings]
        return "\n".join(lines)

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {name: finite(one.data()) for name, one in self.found.items()}


def rank_runs(runs: Sequence[Paths], file: Paths, discount: float = 0.99) -> Ranking:
    """Estimate the value of each run's policy from a data set, and rank the runs by it; no run need be evaluated."""
    from forage.studies.estimate import estimate_run

    check_names(runs)
    found = {Path(run).name: estimate_run(run, file, discount, write=False) for run in runs}
    return Ranking(dict(sorted(found.items(), key=lambda item: -item[1].low)))


def check_names(runs: Sequence[Paths]) -> None:
    """Raise `ForageError` for runs whose directories end in the same name."""
    if len({Path(run).name for run in runs}) < len(runs):
        raise ForageError("Two runs have the same name; name directories that end differently.")


def reason_not_to_judge(runs: Sequence[Paths]) -> str:
    """Say in a sentence why the estimators cannot be judged by these runs; empty if they can."""
    from forage.core import spaces
    from forage.core.specs import spec_from_config
    from forage.runs.run import Run

    for path in runs:
        run = Run(path)
        if run.evaluation is None:
            return f"Estimators are not judged: {path} was not evaluated, so nobody knows its true value."
        if spaces.choices(spec_from_config(run.config).action_space) is None:
            return "Estimators are not judged: the twelve of them are for one choice out of a few, such as 0, 1, 2."
    return ""


def of_runs(
    runs: Sequence[Paths],
    file: Paths,
    discount: float = 0.99,
    horizon: int | None = None,
    estimators: Sequence[str] | None = None,
) -> tuple[dict[str, float], dict[str, dict[str, float]], float]:
    """Estimate runs' policies from a data set; return true values, estimates and the data's own mean return.

    A run's true value is the mean return of its evaluation, of the agent that `forage.load` takes. Estimates are of
    discounted returns and are only compared with one another.
    """
    from forage.config.saved import load_policy
    from forage.core.columns import Columns
    from forage.core.specs import spec_from_config
    from forage.data import files, formats
    from forage.data.logged import LoggedEpisodes
    from forage.evaluation.off_policy import estimate
    from forage.runs.run import Run

    check_names(runs)
    values, estimates = {}, {}
    header: dict[str, Any] = {}
    logged: LoggedEpisodes | None = None
    columns: Columns | None = None  # of the table as it was read; each run has its own
    opened = {path: Run(path) for path in runs}
    for path, run in opened.items():  # all of them, before the first estimate
        if run.evaluation is None:
            raise ForageError(f"{path} was not evaluated, so nobody knows its value; forage evaluate {path} does it.")
    for path, run in opened.items():
        spec = spec_from_config(run.config)
        if logged is None or spec.columns != columns:
            reading = formats.description_for(Path(file), run.config.get("memory"))
            data, header = formats.read_data(Path(file), spec, reading)
            logged, columns = LoggedEpisodes.from_data(data), spec.columns
        files.check_data_spaces(Path(file), header, spec)
        policy: Any = load_policy(path)  # `estimate` also takes what has `probabilities`
        assert run.evaluation is not None
        members = run.evaluation["members"]
        values[Path(path).name] = float(run.evaluation["return"][members.index(policy.member)])
        for name, found in estimate(logged, policy, discount, estimators, horizon).items():
            estimates.setdefault(name, {})[Path(path).name] = found.value
    assert logged is not None
    own = logged.mean_return(header["spec"].get("horizon"))
    if own is None:
        raise ForageError(
            f"{file} holds no whole episode: the recording cut all {logged.episodes:,} of them, so nobody knows the "
            f"return of the policy that acted there; record more steps."
        )
    return values, estimates, own
