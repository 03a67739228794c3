"""Write prompts of one's own: sums.jsonl to learn from, and sums-test.jsonl to evaluate on, which share no prompt.

python examples/own_prompts/make.py DIRECTORY
"""

import json
import random
import sys
from pathlib import Path

TRAIN, TEST, SEED = 500, 100, 7


def make_rows(count: int, seed: int) -> list[dict[str, str]]:
    """Draw `count` different sums of two numbers of three or four digits."""
    chance, rows = random.Random(seed), {}
    while len(rows) < count:
        low, high = chance.choice([(100, 999), (1000, 9999)])
        left, right = chance.randint(low, high), chance.randint(low, high)
        rows[f"Compute {left} + {right}.\n"] = str(left + right)
    return [{"prompt": prompt, "answer": answer} for prompt, answer in rows.items()]


def main(directory: str = ".") -> None:
    """Write both files."""
    rows = make_rows(TRAIN + TEST, SEED)
    for name, part in (("sums.jsonl", rows[:TRAIN]), ("sums-test.jsonl", rows[TRAIN:])):
        Path(directory, name).write_text("".join(json.dumps(row) + "\n" for row in part))


if __name__ == "__main__":
    main(*sys.argv[1:])
