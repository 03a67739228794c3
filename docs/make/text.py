"""Writes docs/environments/text.md: what the families of problems in text are, with an example of each.

Run after changing a family.

python docs/make/text.py           writes
python docs/make/text.py --check   exits 1 when the page is not what it would write
"""

from __future__ import annotations

import sys
from pathlib import Path

from forage.environments.text import FAMILIES, reasoning_gym, sets
from forage.environments.text.opening import family

PAGE = Path(__file__).parents[1] / "environments" / "text.md"
LEVEL = 1  # of the examples

BEGINNING = """# Problems in text

Problems that a program makes, solves and verifies, for policies that speak. Written by `docs/make/text.py`.
`text:NAME` is an environment that poses them ([language.md](../language.md)); what follows can be used from Python.

```python
from forage.environments.text import sets
from forage.environments.text.opening import family

countdown = family("countdown")
problem = sets.problem_at(countdown, level=1, seed=0, index=0)
print(problem.prompt)
print(countdown.solution(problem))
print(countdown.verify(problem, "I guess <answer>1 + 1</answer>"))
```

- **A family** makes problems of levels, from 0, the easiest, upward; each level says what it means, and a measure
  that grows with it is tested. A problem has a prompt, a right answer and the data that the verifier needs, and
  follows from family, level, seed and index alone.
- **A verdict** has form and truth apart: whether the text holds an answer of the family's form, and whether that
  is true. The answer is what stands in the last `<answer>...</answer>`; for `sql` the last block of SQL will do.
  Prompts do not ask for the tags: `problems.INSTRUCTION` does, and worked solutions show them. Where several
  answers are right, all of them are accepted.
- **A solution** is a right answer with the steps that lead to it, for pretraining.
- **Held-out problems** are those whose hash falls below a share, a tenth unless you say otherwise:
  `problem_at(..., split="held-out")` and `problem_set` draw from them, and training draws from the others. So no
  problem is in both, whatever the levels and seeds; the share has to be the same.
- **Difficulty that follows success** is `difficulty.Rule`: RLVE's window of levels, which moves up once 90 % of
  the answers at its upper level are right.
- **Verifiers run nothing that a policy wrote as Python.** Expressions have a parser of our own; patterns become
  automata, so that a text takes states x characters steps at most; queries run in SQLite in memory, for at most
  200,000 instructions, and may do nothing but read the problem's tables (`text/patterns.py` and `text/queries.py`
  state the limits). A query must be right on two more databases, which the prompt does not show.
- **`guard.Guard`** turns whatever a verifier does into a verdict: where it raises, hangs, ends its process or
  returns 7, the sample counts as wrong and the verdict says why.

A family of your own is a class of `forage.environments.text.problems.Family` with `name`, `levels`, `measure`, `make`,
`size` and `reason`, and its own `parse_answer` and `judge` where its answers are no whole numbers (`text/problems.py`).
`train`, `chat`, `evaluate` and `check` take it as `file.py:Class` ([with tools, games and environments of your
own](../how-to/your-own-text.md)):

    forage train grpo mine.py:Twice

A problem of each level is tried first: a family that lacks a part, or calls its own solution wrong, is answered with
one sentence. Unless it is `bounded`, `Guard` verifies it in a process of its own.

"""


def row(name: str) -> str:
    """A family's line of the table."""
    found = family(name)
    first = (type(found).__doc__ or "").strip().splitlines()[0]
    return f"| [{name}](#{name}) | {first} | {len(found.levels)} | {found.levels[0]} | {found.levels[-1]} |"


def example(name: str) -> list[str]:
    """A family's levels, and a problem with its solution."""
    found = family(name)
    problem = sets.problem_at(found, LEVEL, 0, 0)
    levels = "; ".join(f"{level}: {meaning}" for level, meaning in enumerate(found.levels))
    lines = [f"### {name}", "", f"Levels, whose measure is the number of {found.measure}: {levels}.", ""]
    return [*lines, "```text", problem.prompt, "", found.solution(problem), "```", ""]


def page() -> str:
    """The whole page."""
    lines = [BEGINNING.rstrip(), "", "## Families", ""]
    lines += ["| family | what is asked | levels | the easiest | the hardest |", "|---|---|---|---|---|"]
    lines += [row(name) for name in FAMILIES]
    lines += ["", "## reasoning-gym", ""]
    lines += [
        '`family("reasoning-gym:chain_sum")` opens a family of the library by its name, with the levels of the',
        "library's curriculum (`pip install 'forage-rl[reasoning-gym]'`, 320 MB with what it needs). Truth is the",
        "library's own score.",
        "These are not taken:",
        "",
        "| family | why |",
        "|---|---|",
        *(f"| {name} | {why} |" for name, why in sorted(reasoning_gym.REFUSED.items())),
        "",
        "## An example of each",
        "",
        f"Level {LEVEL}, seed 0, number 0.",
        "",
    ]
    for name in FAMILIES:
        lines += example(name)
    return "\n".join(lines)


def main() -> None:
    stale = not PAGE.exists() or PAGE.read_text() != page()
    if "--check" in sys.argv:
        sys.exit(f"python docs/make/text.py would change {PAGE.name}" if stale else 0)
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
