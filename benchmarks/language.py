"""What does each method of language add to plain GRPO? One task, one budget of answers, one table.

    python benchmarks/language.py --list                   # cells: row/seed, and which are done
    python benchmarks/language.py --jobs 2                 # train all that is missing, two at a time, a core each
    python benchmarks/language.py --only agent/grpo,tasks  # cells whose names begin so, in this order
    python benchmarks/language.py --together               # all seeds of a row in one process, on any device
    python benchmarks/language.py --table                  # results/LANGUAGE.md from results/language.json

A row is an agent as it is by name (`agent/dapo`), of all that learn from single turns, or GRPO with another part
(`tasks/filtered`) or other settings (`settings/adapters`). A cell is one seed of it: it learns from the base model
`forage`, and then both answer the same held-out problems, as in training and greedily, so that before and after are of
the same problems in all cells. Names that this version does not know are listed as missing. What is running when the
process ends is lost; what is done stays.
"""

from __future__ import annotations

import functools
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import cells
import numpy as np

from forage.config.help.outlines import class_to_describe
from forage.config.registry import parts
from forage.evaluation.statistics import student_interval

RESULTS = Path(__file__).parent / "results" / "language.json"
SEEDS = range(5)

TASK = "text:addition"
OPTIONS: dict[str, Any] = {"level": "2-3", "problems": 3000}  # numbered, so that parts can choose among them; the base
# model answers 37 % of these sums right by its most probable answer, and 98.5 % of levels 0 and 1, which left no room
STEPS = 40 * 64  # answers: 40 updates of 8 prompts with 8 answers each
HELD_OUT, DRAWN_FROM = 200, 7  # problems, and the seed that they are drawn from
DRAWS = 4  # answers to each that are drawn as in training, at temperature 1; one more is the most probable one
PLAIN = "agent/grpo"

PARTS: dict[str, list[str]] = {
    "tasks": ["filtered", "greso", "adaptive-difficulty", "dars", "cdas", "rising", "hints", "seele"],
    "behaviour": ["annealed-decoding", "adaptive-temperature"],
    "rewards": ["format", "shorter", "diversity", "text-curiosity", "representation"],
    "memory": ["successes", "self-imitation"],
}
"""Of each port, what stands beside GRPO in a row of its own."""

SETTINGS: dict[str, dict[str, Any]] = {
    "reference": {"divergence": 0.04},
    "two-epochs": {"epochs": 2, "minibatches": 2},
    "adapters": {"rank": 8},
    "entropy": {"entropy_coefficient": 0.003},
}
"""Of GRPO itself."""

ALSO: dict[str, dict[str, Any]] = {
    "tasks/hints": {"hints": 0.75},
    "tasks/seele": {"hints": 0.9},
}
"""Options of the environment that a row's method is about."""


SINGLE = "text:addition", "text:countdown"
"""Problems of one turn, which the examples of agents ask."""
BEYOND = "--data", "--teacher", "--memory", "--tasks", "--env.tools", "--env.roles"
"""Options in examples of agents that learn from files, another's run, numbered problems or several turns."""


@functools.cache
def agents() -> dict[str, dict[str, Any]]:
    """Return the agents that learn from one turn of a problem and nothing else, each with what it asks of the prompts.

    Each agent's own example says so: `forage train NAME text:addition`, with `--env.branches true` where its trees need
    it. So an agent that is new is a row without a line here.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, target in parts("agent").items():
        words = class_to_describe(target).example.split()
        if words[3:4] and words[3] in SINGLE and not any(word.startswith(BEYOND) for word in words):
            found[name] = {"branches": True} if "--env.branches" in words else {}
    return found


def rows() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return each row's agent, and what else `forage.train` is told."""
    found: dict[str, tuple[str, dict[str, Any]]] = {f"agent/{name}": (name, {}) for name in agents()}
    found |= {f"settings/{name}": ("grpo", {"agent_options": given}) for name, given in SETTINGS.items()}
    found |= {f"{port}/{name}": ("grpo", {port: name}) for port, names in PARTS.items() for name in names}
    own = ALSO | {f"agent/{name}": given for name, given in agents().items()}
    also = {row: {"environment_options": OPTIONS | own.get(row, {})} for row in found}
    return {row: (agent, also[row] | words) for row, (agent, words) in found.items()}


def is_there(row: str) -> bool:
    """Return whether this version has what a row names."""
    port, _, name = row.partition("/")
    return port == "settings" or name in parts(port)


def cells_of() -> list[str]:
    """Return the cells that this version can train, seed by seed, so that all rows have some seeds early."""
    return [f"{row}/{seed}" for seed in SEEDS for row in rows() if is_there(row)]


def made_from(row: str) -> str:
    """Return what stands for all that a cell is made from; a cell of another is trained anew."""
    return cells.fingerprint([TASK, STEPS, HELD_OUT, DRAWN_FROM, DRAWS, rows()[row]])


def train(row: str, seeds: list[int], **also: Any) -> dict[str, Any]:
    """Train seeds of a row, let them and the base model answer the held-out problems, and return their cells."""
    import forage
    from forage.runs.run import Run
    from forage.studies.asking import SIDE_BY_SIDE, LoadedRun, ask, problems_of, with_temperature

    agent, own = rows()[row]
    words: dict[str, Any] = {"steps": STEPS, **own}
    words["agent_options"] = {**own.get("agent_options", {}), **also}
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        how: dict[str, Any] = {
            "seeds": seeds,
            "display": "quiet",
            "evaluation_actions": "greedy",
            "evaluation_episodes": 1,
        }
        run = forage.train(agent, TASK, directory=f"{folder}/run", **how, **words)
        seconds = time.monotonic() - began
        trained = LoadedRun.from_run(Run(run.directory))
        environment = trained.environment(SIDE_BY_SIDE)
        environment.examine()
        environment.reset(DRAWN_FROM)
        problems = problems_of(environment, HELD_OUT, DRAWN_FROM)
        asked = functools.partial(ask, with_temperature(trained.agent, 1.0), environment=environment, problems=problems)
        heard = [
            (asked(state, answers=DRAWS), asked(state, answers=1, greedy=True))
            for state in (trained.first, *trained.states)
        ]
        environment.close()
    told: dict[str, Any] = {"made": made_from(row), "seconds": round(seconds / len(seeds)), "problems": len(problems)}
    told |= {"together": len(seeds)} if len(seeds) > 1 else {}
    before, *after = (
        {
            "drawn": float((drawn.truth >= 1).mean()),
            "greedy": float((greedy.truth >= 1).mean()),
            "tokens": float(drawn.tokens.mean()),
        }
        for drawn, greedy in heard
    )
    return {f"{row}/{seed}": told | {"before": before, "after": one} for seed, one in zip(seeds, after, strict=True)}


def done(results: dict[str, Any], row: str) -> dict[int, dict[str, Any]]:
    """Return what is there of a row, by seed."""
    named = {seed: results.get(f"{row}/{seed}") for seed in SEEDS}
    return {seed: cell for seed, cell in named.items() if cell is not None and cell["made"] == made_from(row)}


def gained(cell: dict[str, Any]) -> float:
    """Return how much more of the draws are right after training than before."""
    return cell["after"]["drawn"] - cell["before"]["drawn"]


def verdict(here: dict[int, dict[str, Any]], plain: dict[int, dict[str, Any]]) -> tuple[str, str]:
    """Return how much more a row gained over its own start than plain GRPO, on shared seeds, and what that says.

    A row that draws otherwise, such as without improbable tokens, begins elsewhere, and has not learned that.
    """
    shared = sorted(here.keys() & plain.keys())
    if len(shared) < 2:
        return "", f"{len(shared)} of {len(SEEDS)} seeds"
    gain = np.array([gained(here[seed]) - gained(plain[seed]) for seed in shared])
    low, high = student_interval(gain)
    if low == high == 0:
        return cells.with_interval(gain), "the same"
    return cells.with_interval(gain), "better" if low > 0 else "worse" if high < 0 else "no difference seen"


def table(results: dict[str, Any]) -> str:
    """Return the page: each row beside plain GRPO, and the names that this version does not know."""
    plain, levels = done(results, PLAIN), OPTIONS["level"]
    lines = [
        "# Methods of language",
        "",
        f"From the base model `forage` on {TASK}, levels {levels}: {STEPS:,} answers to {OPTIONS['problems']:,}",
        f"problems. Then each of {HELD_OUT} problems that are held out is answered {DRAWS} times as in training, at",
        f"temperature 1, and once by the most probable answer. Shares that are right: means over {len(SEEDS)} seeds,",
        "with Student's 95 % interval. A row is judged by what it gained, the share after training less that before,",
        "and by how much more that is than plain GRPO's gain, seed by seed: Lite PPO draws without improbable tokens",
        "(top-p 0.99), before as after, and so begins ahead. Of so many rows one in twenty has an interval that",
        "leaves out 0 by chance. Tokens are of what is drawn. Seconds are of training a seed on one core, which may",
        "have had other work; in brackets, a fifth of all seeds' in one process. Memories bring back little where",
        "few problems come twice. `python benchmarks/language.py` trains what is missing.",
        "",
        "| row | seeds | drawn before | drawn after | most probable before, after | tokens before, after "
        "| gained more than GRPO | verdict | seconds |",
        "|---" * 9 + "|",
    ]
    for row in rows():
        here = done(results, row)
        if not here:
            continue
        after = np.array([cell["after"]["drawn"] for cell in here.values()])
        shown = cells.with_interval(after) if len(after) > 1 else f"{after.mean():.4g}"
        mean = {
            (when, what): np.mean([cell[when][what] for cell in here.values()])
            for when in ("before", "after")
            for what in ("drawn", "greedy", "tokens")
        }
        greedy, tokens = (f"{mean['before', what]:.3g}, {mean['after', what]:.3g}" for what in ("greedy", "tokens"))
        gain, says = ("", "") if row == PLAIN else verdict(here, plain)
        seconds = f"{np.median([cell['seconds'] for cell in here.values()]):.0f}"
        seconds = f"[{seconds}]" if any("together" in cell for cell in here.values()) else seconds
        row_cells = [row, f"{len(here)}", f"{mean['before', 'drawn']:.3g}", shown, greedy, tokens, gain, says]
        lines.append(f"| {' | '.join(row_cells)} | {seconds} |")
    if missing := [row for row in rows() if not is_there(row)]:
        lines += ["", f"Not in this version: {', '.join(missing)}."]
    if waiting := [row for row in rows() if is_there(row) and not done(results, row)]:
        lines += ["", f"Not trained yet: {', '.join(waiting)}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the arguments, and train, list or make the page."""
    parser = cells.parser(__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="how many cells at a time")
    parser.add_argument("--together", action="store_true", help="all seeds of a row in one process")
    arguments = parser.parse_args()
    if arguments.here:
        row, _, seed = arguments.here.rpartition("/")
        print(json.dumps(train(row, [int(one) for one in seed.split(",")])), flush=True)
        return
    results = cells.read(RESULTS)
    wanted = cells.chosen(cells_of(), arguments.only)
    finished = {f"{row}/{seed}" for row in rows() for seed in done(results, row)}
    if arguments.list:
        print(*(f"{cell} {'done' if cell in finished else ''}".rstrip() for cell in wanted), sep="\n")
        print(*(f"{row} missing: not in this version" for row in rows() if not is_there(row)), sep="\n")
        return
    if arguments.together:
        cells.train_together(__file__, RESULTS, [cell for cell in wanted if cell not in finished])
    elif not arguments.table:
        cells.train_all(__file__, RESULTS, [cell for cell in wanted if cell not in finished], arguments.jobs)
    RESULTS.with_name("LANGUAGE.md").write_text(table(cells.read(RESULTS)))


if __name__ == "__main__":
    main()
