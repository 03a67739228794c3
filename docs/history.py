"""Derive from git how figures came to be: `python docs/history.py` writes what the pages of claims and learning show.

Of a claim: when its file's experiment changed, and each result with what that said. Of a learning row: each figure it
ever had. Pages are made from the stored history, so that they need no git. Run it in a clone with its whole history
after results were committed, and `python docs/claims.py` and `python benchmarks/learning.py --table` after it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from forage.claims import running
from forage.claims.claim import verdict
from forage.claims.provenance import fingerprint, parts

ROOT = Path(__file__).parent.parent
CLAIMS = ROOT / "docs" / "claims" / "history.json"
LEARNING = ROOT / "benchmarks" / "results" / "learning" / "history.json"


def git(*words: str) -> str:
    """Return what git says, run at the root of the repository."""
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def versions(path: str) -> list[tuple[dict[str, str], str]]:
    """Return each committed version of a file with its commit, oldest first."""
    found = []
    for line in git("log", "--reverse", "--format=%h%x09%cI%x09%s", "--", path).splitlines():
        commit, date, subject = line.split("\t", 2)
        try:
            found.append(({"commit": commit, "date": date[:16], "subject": subject}, git("show", f"{commit}:{path}")))
        except subprocess.CalledProcessError:
            continue  # the file was removed there
    return found


def of_claim(name: str) -> dict[str, Any]:
    """Return a claim's changes of the experiment, and its results that differ in their numbers."""
    file = f"forage/claims/{name.replace('-', '_')}.py"
    changes, before = [], None
    for at, source in versions(file):
        now = parts(source)
        if before is None:
            changes.append(at | {"changed": []})
        elif changed := sorted(key for key in now | before if now.get(key) != before.get(key)):
            changes.append(at | {"changed": changed})
        before = now
    results, last = [], None
    for at, text in versions(f"docs/claims/results/{name}.json"):
        result = json.loads(text)
        values = {label: arm["values"] for label, arm in result["arms"].items()}
        if values == last:
            continue
        last = values
        found = running.judge_stored(result)
        kept = {key: result[key] for key in ("environment", "steps", "seeds", "measured", "statement")}
        source = git("show", f"{at['commit']}:{file}")
        said = result.get("claim_file", {}).get("fingerprint", fingerprint(source))
        results.append(
            at | kept | {"fingerprint": said, "effects": [one._asdict() for one in found], "verdict": verdict(found)}
        )
    return {"changes": changes, "results": results}


def of_rows() -> dict[str, list[dict[str, Any]]]:
    """Return each figure that a learning row ever had, with its settings."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for at, text in versions("benchmarks/results/learning/results.json"):
        for name, row in json.loads(text).items():
            kept = {key: row.get(key) for key in ("steps", "seeds", "actions", "score", "interval")}
            past = rows.setdefault(name, [])
            if not past or any(past[-1][key] != value for key, value in kept.items()):
                past.append(at | kept)
    return rows


def main() -> None:
    if git("rev-parse", "--is-shallow-repository").strip() == "true":
        sys.exit("This clone is shallow; git fetch --unshallow brings the history that this is made from.")
    CLAIMS.write_text(json.dumps({name: of_claim(name) for name in running.names()}, indent=1) + "\n")
    LEARNING.write_text(json.dumps(of_rows(), indent=1) + "\n")


if __name__ == "__main__":
    main()
