"""Measures the table of docs/off-policy.md: off-policy estimates of tabular MDPs beside their exact values.

python docs/make/off_policy.py           prints the tables, in some minutes
python docs/make/off_policy.py --write   puts them into the page
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import numpy as np

from forage.environments.tabular.makers import frozen_lake, river_swim, seeded_garnet
from forage.environments.tabular.mdp import Tabular
from forage.environments.tabular.values import expected_return, optimal
from forage.evaluation.off_policy import ESTIMATORS, LoggedEpisodes, Target, estimate, log_episodes, tabular_policy
from forage.evaluation.off_policy.selection import normalised_regret, rank_correlation, sharpe_ratio

PAGE = Path(__file__).parents[1] / "off-policy.md"
EPISODES, LOGS, NETWORK_LOGS = 200, 40, 1
MDPS = {
    "RiverSwim-6": (river_swim, 0.9),
    "Garnet-20": (seeded_garnet, 0.9),
    "FrozenLake-4": (frozen_lake, 0.95),
}
NAMES = ("is", "wis", "pdis", "wpdis", "fqe", "dr", "wdr", "magic", "mis", "dualdice")
NETWORKS = ("fqe-network", "dualdice-network")


def best_softened(mdp: Tabular, discount: float, share: float) -> np.ndarray:
    """The best policy's table, with a share of the uniform policy."""
    return (1 - share) * np.asarray(optimal(mdp, discount).policy, np.float64) + share / mdp.num_actions


@functools.cache
def logs(name: str) -> tuple[Tabular, float, list[LoggedEpisodes]]:
    """An MDP, its discount, and what a policy half of which is uniform logged."""
    maker, discount = MDPS[name]
    mdp = maker()
    behaviour = tabular_policy(best_softened(mdp, discount, 0.5))
    whole = log_episodes(mdp, behaviour, EPISODES * LOGS, seed=1)
    return mdp, discount, [whole.select(whole.numbers // EPISODES == part) for part in range(LOGS)]


def accuracy(names: tuple[str, ...], count: int) -> list[str]:
    """How far each estimator is from the exact value, and how often its interval holds it."""
    exact, errors, hits = {}, {}, {}
    for name in MDPS:
        mdp, discount, parts = logs(name)
        table = best_softened(mdp, discount, 0.2)
        exact[name] = float(expected_return(mdp, table, discount))
        for part in parts[:count]:
            found = estimate(part, tabular_policy(table), discount, names, resamples=500)
            for one, told in found.items():
                errors.setdefault((one, name), []).append(told.value / exact[name] - 1)
                if told.low is not None and told.high is not None:
                    hits.setdefault((one, name), []).append(told.low < exact[name] < told.high)
    lines = ["| estimator | " + " | ".join(f"{name} ({value:.4g})" for name, value in exact.items()) + " |"]
    lines.append("|---|" + "---|" * len(exact))
    for one in names:
        cells = []
        for name in exact:
            off = np.array(errors[one, name])
            held = f", held {100 * np.mean(hits[one, name]):.0f} %" if (one, name) in hits else ""
            cells.append(f"{100 * (off**2).mean() ** 0.5:.1f} % ({100 * off.mean():+.1f} %){held}")
        lines.append(f"| {one} | " + " | ".join(cells) + " |")
    return lines


def selection() -> list[str]:
    """How well each estimator chooses among eight policies of Garnet-20, mean over logs."""
    mdp, discount, parts = logs("Garnet-20")
    random = np.random.default_rng(0)
    tables = [best_softened(mdp, discount, share) for share in (0.1, 0.3, 0.7, 0.9)]
    tables += [0.7 * random.dirichlet(np.full(4, 0.3), 20) + 0.3 * tables[at] for at in range(4)]
    values = [float(expected_return(mdp, table, discount)) for table in tables]
    baseline = float(expected_return(mdp, best_softened(mdp, discount, 0.5), discount))
    lines = ["| estimator | rank correlation | regret@1, share of the range | SharpeRatio@3 |", "|---|---|---|---|"]
    for one in NAMES:
        found = []
        for part in parts[:5]:
            guesses = [ESTIMATORS[one](Target(part, tabular_policy(table), discount)).mean() for table in tables]
            ratio = sharpe_ratio(guesses, values, 3, baseline)
            found.append((rank_correlation(guesses, values), normalised_regret(guesses, values), ratio))
        correlation, regret, ratio = np.mean(found, axis=0)
        lines.append(f"| {one} | {correlation:.2f} | {regret:.3f} | {ratio:.2f} |")
    return lines


def put(page: str, name: str, lines: list[str]) -> str:
    """The page with a table in place of what stands between its two marks."""
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    head, rest = page.split(start)
    return head + start + "\n".join(lines) + "\n" + end + rest.split(end)[1]


if __name__ == "__main__":
    tables = {
        "accuracy": functools.partial(accuracy, NAMES, LOGS),
        "selection": selection,
        "networks": functools.partial(accuracy, ("fqe", *NETWORKS), NETWORK_LOGS),
    }
    for name, make in tables.items():
        made = make()
        print("\n".join(made), end="\n\n", flush=True)
        if "--write" in sys.argv:
            PAGE.write_text(put(PAGE.read_text(), name, made))
