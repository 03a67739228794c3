"""Is it still as fast? Forage's own rows of this checkout beside those of another commit, in turns.

    python benchmarks/before.py 9005032                  # all rows, five repeats
    python benchmarks/before.py 9005032 ppo-cartpole --repeats 9

The other commit is laid beside this one as a work tree for as long as the measurement takes; each side runs its own
`peers/forage_.py`, with this Python's packages. Both are warm, and compile before what is timed. The ratio of a row
is the median over repeats of the two runs of one repeat, so that a machine that slows down slows both. Writes
`results/BEFORE-COMMIT.md`, where rows that are not measured this time keep their lines.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rows import ROWS, STEADY
from run import HERE, REPOSITORY, RESULTS, commit, machine, run_once, settings_of

HEAD = (
    "| row | before | now | ratio | pairs | cores kept busy by others | commit |\n|---|---:|---:|---:|---:|---:|---|\n"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="the commit to compare with")
    parser.add_argument("rows", nargs="*", help="rows of rows.py; all when none is named")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    lines = kept(arguments.commit)
    with tempfile.TemporaryDirectory(prefix="before-") as scratch:
        other = Path(scratch) / "before"
        git = ["git", "-C", str(REPOSITORY), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(other), arguments.commit], check=True)
        try:
            for name in arguments.rows or ROWS:
                lines[name] = measured(name, other, Path(scratch), arguments.repeats)
                print(lines[name], flush=True)
        finally:
            subprocess.run([*git, "remove", "--force", str(other)], check=True)
    about = machine()
    text = (
        f"{title(arguments.commit)}\n\n`python benchmarks/before.py {arguments.commit}` wrote this page: steps or "
        "updates a second of a commit and of that one, medians of runs in turns, with one Python and one set of "
        f"packages, on {about['cpu']}, {about['cores']} cores. The ratio is the median over the pairs, with the "
        f"lowest and the highest.\n\n{HEAD}"
    )
    page_of(arguments.commit).write_text(text + "\n".join(lines[name] for name in ROWS if name in lines) + "\n")


def page_of(other: str) -> Path:
    return RESULTS / f"BEFORE-{other[:7]}.md"


def title(other: str) -> str:
    return f"# Speed beside {other}"


def kept(other: str) -> dict[str, str]:
    """Return the lines of the page as it stands, by row, where it is about the same commit."""
    page = page_of(other)
    text = page.read_text() if page.exists() else ""
    if not text.startswith(f"{title(other)}\n"):
        return {}
    return {line.split(" | ")[0].removeprefix("| "): line for line in text.partition(HEAD)[2].splitlines()}


def measured(name: str, other: Path, scratch: Path, repeats: int) -> str:
    """One line of the table."""
    row, rates, busy = ROWS[name], {"before": [], "now": []}, []
    settings = settings_of(row, row.contestants[0], smoke=False) | {"phase": STEADY, "seed": 0}
    for _ in range(repeats):
        for side, checkout in (("before", other), ("now", HERE.parent)):
            script = checkout / "benchmarks" / "peers" / "forage_.py"
            # The checkout's own code, whichever one is installed.
            start = f"import sys, runpy; sys.path[:0] = [{str(checkout)!r}, {str(script.parent)!r}]; "
            start += (
                f"sys.argv = [{str(script)!r}, *sys.argv[1:]]; runpy.run_path({str(script)!r}, run_name='__main__')"
            )
            command = [sys.executable, "-c", start, name, json.dumps(settings)]
            run = run_once(command, scratch / f"compiled-{side}", timeout=1800)
            rates[side].append(run[row.rate])
            busy.append(run["busy_cores_of_others"] or 0.0)
    ratios = [now / before for before, now in zip(rates["before"], rates["now"], strict=True)]
    before, now = (statistics.median(rates[side]) for side in ("before", "now"))
    return (
        f"| {name} | {before:,.0f} | {now:,.0f} | {statistics.median(ratios):.3f} [{min(ratios):.3f}, "
        f"{max(ratios):.3f}] | {repeats} | {max(busy):.1f} | {commit()} |"
    )


if __name__ == "__main__":
    main()
