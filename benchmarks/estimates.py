"""Do intervals from logs hold the true values of policies? One policy a log, trained on that very log.

    python benchmarks/estimates.py --list              # the logs, and which are done
    python benchmarks/estimates.py                     # all that is missing, one log after another, and the table
    python benchmarks/estimates.py 1 3 5               # these logs
    python benchmarks/estimates.py --table             # results/ESTIMATES.md from results/estimates/LOG.json

A shop orders stock: nothing, 10 or 25 pieces, from a fast or a slow supplier; a clerk who orders up to a level, with
noise, is logged for 20,000 days, with gaps, as CSV. IQL learns from that file alone, with order and supplier as one
choice of six; `forage.studies.estimate` says what the policy is worth from the same file. Its true value is the mean of
2,000 simulated shops over 150 days. A rule that always orders the large amount is estimated on each log, too: the log
does not cover it, and a warning has to say so.

The settings were fixed before the first of these logs was made. A log that is done is not made again.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from forage.core.columns import Columns
from forage.data import formats
from forage.data.formats.reading import parse_reading
from forage.data.tables.describe import describe_table
from forage.evaluation.off_policy.encoding import PolicyActions
from forage.evaluation.off_policy.policy_value import PolicyValue
from forage.evaluation.off_policy.value import estimate_value
from forage.studies.estimate import estimate_run

RESULTS = Path(__file__).parent / "results" / "estimates"
LOGS = tuple(range(1, 21))  # seeds of the logs
ROWS, DISCOUNT, UPDATES, SHOPS, DAYS = 20_000, 0.95, 1000, 2000, 150
FULL = 95  # pieces above which a shop closes, which ends its log
TARGET = 17  # of 20 intervals; true ones of 95 % miss this in 2 of 100 cases
NAMES = ("date", "shop", "on_hand", "in_transit", "weekday", "promo", "order", "supplier", "profit", "closed")
WEEK = np.array(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
ORDERS = {"none": 0, "small": 10, "large": 25}

# From stock, stock in transit, day of the week and promotion to the number of the order and whether it is fast
Rule = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def write_log(path: Path, seed: int, rows: int = ROWS) -> None:
    """Write the log of a clerk: shops one after another, of 40 to 119 days each."""
    random = np.random.default_rng(seed)
    with open(path, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(NAMES)
        done = shop = 0
        while done < rows:
            stock, transit, shop = random.uniform(5, 40), 0.0, shop + 1
            start, length = random.integers(0, 300), int(random.integers(40, 120))
            for day in range(start, start + length):
                promotion = random.random() < 0.1
                level = stock + transit
                if random.random() < 0.3:
                    order = str(random.choice(list(ORDERS)))
                else:
                    order = "large" if level < 12 else "small" if level < 25 else "none"
                fast = random.random() < 0.5
                seen = (f"{stock:.2f}", f"{transit:.0f}", WEEK[day % 7], "yes" if promotion else "no")
                size = ORDERS[order]
                stock += transit + size * fast
                transit = 0.0 if fast else size
                sold = min(stock, random.poisson(demand(day % 7, promotion)))
                stock -= sold
                profit = earn(sold, stock, size, fast)
                closed = bool(stock > FULL)
                date = f"2024-{1 + (day // 30) % 12:02d}-{1 + day % 30:02d}"
                paid = f"{profit:.3f}"
                if random.random() < 0.002:
                    seen = ("", *seen[1:])
                if random.random() < 0.001:
                    paid = "n/a"
                choice = (order, "fast" if fast else "slow")
                table.writerow([date, f"shop-{shop:04d}", *seen, *choice, paid, "yes" if closed else ""])
                done += 1
                if closed or done >= rows:
                    break


def demand(weekday: Any, promotion: Any) -> Any:
    """Return the expected demand of a day."""
    return 6 + 4 * (weekday >= 5) + 6 * promotion


def earn(sold: Any, stock: Any, size: Any, fast: Any) -> Any:
    """Return the profit of a day."""
    return 2.0 * sold - 0.1 * stock - np.where(fast, 0.9, 0.6) * size - 1.5 * (size > 0)


def simulate(rules: dict[str, Rule | None], shops: int = SHOPS, closes: bool = False) -> dict[str, tuple[float, float]]:
    """Return the true value of each rule, and the half-width of its 95 % interval. `None`: the clerk.

    `closes`: a shop that is too full ends, as it does in the log; else it goes on.
    """
    random = np.random.default_rng(5)
    random.uniform(5, 40, shops)
    start, sizes = random.integers(0, 300, shops), np.array(list(ORDERS.values()))
    found = {}
    for name, rule in rules.items():
        stock, transit, total = random.uniform(5, 40, shops), np.zeros(shops), np.zeros(shops)
        is_open = np.ones(shops, bool)
        for day in range(DAYS):
            weekday, promotion = (start + day) % 7, random.random(shops) < 0.1
            if rule is None:
                level = stock + transit
                usual = np.where(level < 12, 2, np.where(level < 25, 1, 0))
                order = np.where(random.random(shops) < 0.3, random.integers(0, 3, shops), usual)
                fast = random.integers(0, 2, shops)
            else:
                order, fast = rule(stock, transit, weekday, promotion)
            size = sizes[order]
            stock, transit = stock + transit + size * fast, size * (1 - fast)
            sold = np.minimum(stock, random.poisson(demand(weekday, promotion)))
            stock = stock - sold
            total += is_open * DISCOUNT**day * earn(sold, stock, size, fast)
            is_open &= not closes or stock <= FULL
        found[name] = (float(total.mean()), float(1.96 * total.std() / shops**0.5))
    return found


def rule_of(agent: Any) -> Rule:
    """Return a trained agent as a rule."""
    numbers = {name: i for i, name in enumerate(ORDERS)}

    def choose(stock, transit, weekday, promotion):
        columns = {"on_hand": stock, "in_transit": transit, "weekday": WEEK[weekday]}
        chosen = agent.act(columns | {"promo": np.where(promotion, "yes", "no")})
        order = np.array([numbers[str(name)] for name in chosen["order"]])
        return order, np.array([name == "fast" for name in chosen["supplier"]], int)

    return choose


PARTS = ("policy", "large")


def run_part(part: str, seed: int) -> dict[str, Any]:
    """Train on one log and estimate the policy, or estimate the rule that always orders large."""
    import forage

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.csv"
        write_log(log, seed)
        describe_table(log, parse_reading({"action": "order,supplier", "joint": True}, "benchmarks/estimates.py"))
        if part == "policy":
            began = time.process_time()
            run = forage.train(
                "iql",
                data=log,
                agent_options={"discount": DISCOUNT},
                steps=UPDATES,
                seeds=1,
                directory=Path(folder) / "run",
                display="quiet",
            )
            trained = time.process_time()
            estimate = estimate_run(run.directory, log, discount=DISCOUNT, write=False)
            judged = time.process_time()
            truth = simulate({"policy": rule_of(forage.load(run.directory)), "clerk": None})
            seconds = {"train": trained - began, "estimate": judged - trained}
            return summarise(estimate) | {"truth": truth["policy"], "clerk": truth["clerk"], "seconds": seconds}
        data, header = formats.read_data(log)
        columns = Columns.from_json(header["spec"]["columns"])
        assert columns is not None
        choice = int(columns.encode_action({"order": "large", "supplier": "fast"}))

        def always_large(observation: np.ndarray) -> PolicyActions:
            return PolicyActions(np.full((1, len(observation)), choice), np.ones((1, len(observation))))

        estimate = estimate_value(data, always_large, columns.action_space, DISCOUNT)
        return summarise(estimate) | {"truth": simulate({"large": order_large})["large"]}


def order_large(stock: np.ndarray, *_: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the action of the rule that always orders the large amount from the fast supplier."""
    return np.full(len(stock), 2), np.ones(len(stock), int)


def summarise(found: PolicyValue) -> dict[str, Any]:
    """Return the numbers of an estimate that the table is made of."""
    weighed = {name: [one.value, one.low, one.high] for name, one in found.others.items()}
    names = ("value", "low", "high", "shift", "effective_transitions", "effective_episodes", "weighed_episodes")
    names += ("episodes", "transitions", "rare")
    return {name: getattr(found, name) for name in names} | weighed | {"warnings": list(found.warnings)}


def read_results() -> dict[int, dict[str, Any]]:
    """Return the finished parts of each log."""
    paths = ((seed, RESULTS / f"{seed}.json") for seed in LOGS)
    return {seed: json.loads(path.read_text()) for seed, path in paths if path.exists()}


def covers(one: dict[str, Any]) -> bool:
    """Return whether an interval holds the true value."""
    return one["low"] <= one["truth"][0] <= one["high"]


def table(results: dict[int, dict[str, Any]]) -> str:
    """Return the page of the results."""
    done = {seed: one for seed, one in results.items() if "policy" in one}
    if not done:
        raise SystemExit("No log is done; python benchmarks/estimates.py 1 begins with the first.")
    policies = [one["policy"] for one in done.values()]
    held = sum(map(covers, policies))
    widths = [(one["high"] - one["low"]) / 2 for one in policies]
    bounds = [abs(one["truth"][0] - one["clerk"][0]) / 2 for one in policies]
    errors = np.array([one["value"] - one["truth"][0] for one in policies])
    large = [one["large"] for one in done.values() if "large" in one]
    warned = sum(is_warned(one) for one in large)
    ended, give = simulate({"large": order_large}, closes=True)["large"]
    held_ended = sum(one["low"] <= ended <= one["high"] for one in large)
    lines = [
        "# Intervals of estimated values, beside the true ones",
        "",
        f"`python benchmarks/estimates.py`: {ROWS:,} logged days of a simulated shop; IQL, {UPDATES:,} updates on that "
        f"very log at discount {DISCOUNT}, one seed, its other options as they come; order and supplier are one choice "
        f"of six. The estimate has the default options of `forage estimate` and the same log. Settings were fixed "
        f"before the first log was made.",
        "",
        f"- **{held} of {len(done)} 95 % intervals hold the true value** (asked: {TARGET} of {len(LOGS)}"
        f"{'' if len(done) == len(LOGS) else f'; {len(LOGS) - len(done)} logs were not run'}).",
        f"- Median half-width {np.median(widths):.3g}; half the distance between clerk and policy is "
        f"{np.median(bounds):.3g} in the median log. "
        f"{sum(w <= b for w, b in zip(widths, bounds, strict=True))} of {len(done)} intervals are as narrow as that.",
        f"- Errors: mean {errors.mean():+.3g}, root of the mean square {(errors**2).mean() ** 0.5:.3g}; "
        f"{int((errors > 0).sum())} of {len(done)} are too high.",
        f"- *Always large* is warned of on {warned} of {len(large)} logs; its interval holds the true value on "
        f"{sum(map(covers, large))}. That value is of shops that go on when they are too full, which the log never "
        f"shows: there they close, and with that end the rule is worth {ended:.1f} ± {give:.1f}, which "
        f"{held_ended} of the intervals hold."
        if large
        else "- *Always large* was not run.",
        "",
        f"True values are means of {SHOPS:,} simulated shops over {DAYS} days, ± the half-width of their own 95 % "
        f"interval. ESS: effective transitions and episodes.",
        "",
        "| log | clerk | true value | estimate | interval | holds it | half-width | half the distance | ESS | "
        "always large: true | estimate | interval | ESS | warned of |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (seed, one), width, bound in zip(done.items(), widths, bounds, strict=True):
        policy, rule = one["policy"], one.get("large")
        cells = [str(seed), f"{policy['clerk'][0]:.1f}", f"{policy['truth'][0]:.1f} ± {policy['truth'][1]:.1f}"]
        cells += [*interval_cells(policy), "yes" if covers(policy) else "**no**", f"{width:.1f}", f"{bound:.1f}"]
        cells.append(effective_cell(policy))
        if rule is None:
            cells += ["", "", "", "", "not run"]
        else:
            cells += [f"{rule['truth'][0]:.1f}", *interval_cells(rule), effective_cell(rule)]
            cells.append("yes" if is_warned(rule) else "**no**")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def interval_cells(one: dict[str, Any]) -> list[str]:
    return [f"{one['value']:.1f}", f"[{one['low']:.1f}, {one['high']:.1f}]"]


def effective_cell(one: dict[str, Any]) -> str:
    return f"{one['effective_transitions']:,.0f} / {one['effective_episodes']:,.0f}"


def is_warned(one: dict[str, Any]) -> bool:
    """Return whether the first warning says that the log does not cover the policy."""
    return any("does not cover" in text for text in one["warnings"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*", type=int, help="seeds of the logs; default all")
    parser.add_argument("--list", action="store_true", help="print the logs, and which are done")
    parser.add_argument("--table", action="store_true", help="only write the table")
    given = parser.parse_args()
    results = read_results()
    if given.list:
        for seed in LOGS:
            print(seed, ", ".join(name for name in ("policy", "large") if name in results.get(seed, {})) or "missing")
        return
    RESULTS.mkdir(parents=True, exist_ok=True)
    for part in () if given.table else PARTS:
        for seed in given.logs or LOGS:
            done = read_results().get(seed, {})
            if part in done:
                continue
            done[part] = run_part(part, seed)
            unfinished = RESULTS / f"{seed}.part"
            unfinished.write_text(json.dumps(done, indent=1) + "\n")
            os.replace(unfinished, RESULTS / f"{seed}.json")
            print(f"log {seed}: {part} is done", flush=True)
    text = table(read_results())
    RESULTS.with_name("ESTIMATES.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
