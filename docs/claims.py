"""Publishes claims: `python docs/claims.py [NAME ...]` takes what `forage claim NAME` found into docs/claims.

Results are kept as data (results/NAME.json) with a picture each; the table and the pages are made from these, so that
they can be made again without running anything. A claim that fails stays.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from forage.claims import running
from forage.claims.claim import verdict
from forage.claims.picture import draw
from forage.claims.provenance import fingerprint, not_fresh
from forage.evaluation.comparison import benjamini_hochberg, holm, welch_test

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "claims"
RUNS = ROOT / "runs" / "claims"

HISTORY = json.loads((PAGES / "history.json").read_text())
"""What git says of each claim; `python docs/history.py` makes it."""
RERUNS = json.loads((PAGES / "reruns.json").read_text())
"""What settings that were given up, other measures and later code said, by hand."""
RULE_SINCE = "2026-11-26"
"""From this day a result names the commit of its claim's file, and a changed claim takes fresh seeds."""

HEAD = """# Claims

The central statement of each paper, as a small experiment that runs from one command, on seeds that no search of
presets used. The verdict follows from a rule: the claim **holds** where the whole 95 % interval of the effect lies
above the rule's margin (nothing, unless its page says otherwise), **fails** where it lies below, and is **undecided**
otherwise. The effect is a difference of means over seeds with Welch's interval, which is as wide as few seeds ask for:
of two arms that are equally good it puts one ahead, with 10 seeds and normal scores, in 5 % of experiments, and with
fewer seeds in less ([where it errs](../trust.md#what-decides)); the score of an arm is its interquartile mean with a
bootstrap interval, which decides nothing. A claim with another rule says so. What is small here is said on each page;
a verdict is about the experiment that was run, not about the paper. Made by `python docs/claims.py` from the results
beside it.

Not every experiment was fixed before its first run. The last column says what git tells: an experiment may have been
changed before its first result was committed (the earlier setting may have been run, which git cannot show), or after
a result, and then run again on the same seeds or on fresh ones. Each page has the changes and the results, the first
one too, and what a setting that was given up said where that is known. Since {since} a claim's file is committed
before its first run at full scale, the result names that commit, and a changed experiment takes fresh seeds. Older
results are of older code: each page names it, and eight that were run again on 2026-11-25 had the same verdicts.

The interval was not fixed either: until 2026-11-23 it was a percentile bootstrap, too narrow for few seeds (of equally
good arms one came out ahead in 13 % with 5 and 8 % with 10). All results were judged again, from the same scores;
*level-generalisation*, which held, became undecided, and no other verdict changed.

{many}

| claim | statement | effect | verdict | seeds | steps of each | wall clock | the experiment |
|---|---|---|---|---|---|---|---|
"""


def publish(name: str) -> bool:
    """Copies a claim's result, where there is one."""
    source = RUNS / f"{name}-laptop"
    if not (source / "result.json").exists():
        return False
    (PAGES / "results").mkdir(parents=True, exist_ok=True)
    result = json.loads((source / "result.json").read_text())
    made = result.get("claim_file", {})
    if not made.get("commit"):
        sys.exit(f"{name} was run with a file that was not committed; commit it and run it again on fresh seeds.")
    if known := not_fresh(made["fingerprint"], result["seeds"], HISTORY.get(name, {}).get("results", [])):
        sys.exit(f"{name} was changed, and another version of it ran on seeds {known}; give it fresh ones.")
    (PAGES / "results" / f"{name}.json").write_text(json.dumps(result, separators=(",", ":")) + "\n")
    shutil.copyfile(source / "picture.png", PAGES / f"{name}.png")
    return True


def judged_again(result: dict[str, Any]) -> dict[str, Any]:
    """Judge a result by today's rule, and put it in today's words where the experiment is still the same.

    Arms, margin, direction and confidence are those that it was run with.
    """
    claim, found = running.load(result["claim"]), running.judge_stored(result)
    words = {} if pending(result) else {"statement": claim.statement, "note": claim.note}
    return result | words | {"effects": [effect._asdict() for effect in found], "verdict": verdict(found)}


def pending(result: dict[str, Any]) -> bool:
    """Return whether the claim's experiment was changed after this result, and not run since."""
    return fingerprint(running.file_of(result["claim"]).read_text()) != made_from(result)


def made_from(result: dict[str, Any]) -> str:
    """Return the fingerprint of the experiment that a result is of; of older results, from git's history."""
    if "claim_file" in result:
        return result["claim_file"]["fingerprint"]
    return HISTORY[result["claim"]]["results"][-1]["fingerprint"]


def up_to_date(path: Path) -> dict[str, Any]:
    """A stored result, judged again: written anew where that changes it, and drawn anew where the verdict does."""
    stored = json.loads(path.read_text())
    result = judged_again(stored)
    if result["verdict"] != stored["verdict"]:
        draw(PAGES / f"{result['claim']}.png", result)
    if result != stored:
        path.write_text(json.dumps(result, separators=(",", ":")) + "\n")
    return result


def effect(found: dict[str, Any]) -> str:
    return f"{found['value']:+.3g} [{found['low']:.3g}, {found['high']:.3g}]"


def experiment(name: str) -> str:
    """Say in a few words whether an experiment was changed before or after a result."""
    known = HISTORY[name]
    changes = [change for change in known["changes"] if change["changed"]]
    if not known["results"]:
        return ""
    first = known["results"][0]["date"]
    said = []
    if any(change["date"] < first for change in changes):
        said.append("changed before its first result")
    if any(change["date"] == first for change in changes):
        said.append("changed in the commit of its first result")
    if any(change["date"] > first for change in changes):
        reused = any(
            not_fresh(one["fingerprint"], one["seeds"], known["results"][:number])
            for number, one in enumerate(known["results"])
        )
        if max(change["date"] for change in changes) > known["results"][-1]["date"]:
            then = "not run since"
        else:
            then = "then on the same seeds" if reused else "then on fresh seeds"
        said.append(f"changed after a result, {then}")
    return "; ".join(said) or "as first committed"


def history(result: dict[str, Any]) -> list[str]:
    """Tell what changed and what each version said, in the order of time."""
    name = result["claim"]

    def words(change: dict[str, Any]) -> str:
        return f"`{'`, `'.join(change['changed'])}` changed" if change["changed"] else "first committed"

    told = [(change["date"], 0, words(change), change) for change in HISTORY[name]["changes"]]
    for one in HISTORY[name]["results"]:
        said = "; ".join(effect(found) for found in one["effects"])
        where = f"seeds {one['seeds'][0]} to {one['seeds'][-1]}, {one['steps']:,} steps, {one['measured']}"
        told.append((one["date"], 1, f"result: {said}, {one['verdict']} ({where})", one))
    lines = ["- **History**, from git; of older results the commit that published them:"]
    for date, _, what, at in sorted(told, key=lambda entry: entry[:2]):
        lines.append(f"    - {date.replace('T', ' ')}, {at['commit']}: {what}. *{at['subject']}*")
    for again in RERUNS.get(name, []):
        lines.append(f"    - {again['date']}, run again by hand: {again['what']}: {again['said']}.")
    if pending(result):
        lines.append(
            "    - The experiment was changed since; `forage claim` runs the new one, which has no result yet."
        )
    return lines


def many(results: list[dict[str, Any]]) -> str:
    """Say how many verdicts would stand if all claims were one collection."""
    p = {}
    for result in results:
        if running.load(result["claim"]).judge is None:
            arms = {label: np.array(arm["values"]) for label, arm in result["arms"].items()}
            against = [e["baseline"] for e in result["effects"]]
            p[result["claim"]] = max(welch_test(arms[result["treatment"]], arms[other]) for other in against)
    held = {result["claim"] for result in results if result["verdict"] == "holds"} & set(p)

    def lost(adjusted: np.ndarray) -> str:
        names = [name for name, value in zip(p, adjusted, strict=True) if name in held and value >= 0.05]
        return f"all but {', '.join(names)}" if names else "all"

    values = list(p.values())
    return "\n".join(
        textwrap.wrap(
            f"Many claims are judged here, each by itself. Of the {len(p)} judged by Welch's interval {len(held)} "
            f"hold; {lost(benjamini_hochberg(values))} of these do so too when at most one in twenty may be by luck "
            f"(Benjamini and Hochberg, 5 %), and {lost(holm(values))} when not a single one may be (Holm, 5 %).",
            120,
            break_on_hyphens=False,
        )
    )


def row(result: dict[str, Any]) -> str:
    said = "; ".join(f"{effect(e)}" for e in result["effects"])
    name, word = result["claim"], result["verdict"]
    return (
        f"| [{name}]({name}.md) | {result['statement']} | {said} | **{word}** | {len(result['seeds'])} "
        f"| {result['steps']:,} | {result['seconds']:.0f} s | {experiment(name)} |"
    )


def page(result: dict[str, Any]) -> str:
    name, rule, versions = result["claim"], result["rule"], result["versions"]
    where = f"https://arxiv.org/abs/{result['arxiv']}" if result["arxiv"][0].isdigit() else ""
    source = f"[arXiv {result['arxiv']}]({where})" if where else result["arxiv"]
    better = "more" if rule["higher"] else "less"
    lines = [
        f"# {name}: {result['verdict']}",
        "",
        f'{result["authors"]} ({result["year"]}), "{result["title"]}", {source}.',
        "",
        f"> {result['statement']}",
        "",
        "```sh",
        f"forage claim {name}",
        "```",
        "",
        f"![what was found]({name}.png)",
        "",
        f"| arm | {result['measured']} | mean | wall clock |",
        "|---|---|---|---|",
    ]
    for label, arm in result["arms"].items():
        low, high = arm["interval"]
        shown = f"{arm['score']:.4g} [{low:.4g}, {high:.4g}] | {np.mean(arm['values']):.4g}"
        lines.append(f"| {label} | {shown} | {arm['seconds']:.0f} s |")
    lines += ["", "| against | effect | verdict |", "|---|---|---|"]
    lines += [f"| {e['baseline']} | {effect(e)} | {e['verdict']} |" for e in result["effects"]]
    for words in next(iter(result["arms"].values())).get("also", {}):
        beside = {label: arm | {"values": arm["also"][words]} for label, arm in result["arms"].items()}
        found = running.judge_stored(result | {"arms": beside})
        lines += [
            "",
            f"By another measure, the {words}, which does not decide:",
            "",
            "| against | effect | it would be |",
        ]
        lines += ["|---|---|---|", *(f"| {e.baseline} | {effect(e._asdict())} | {e.verdict} |" for e in found)]
    said = running.load(name).judged_by or (
        f"{result['treatment']} is ahead of each other arm, {better} of the measure being better, by more than "
        f"{rule['margin']:g}, with the whole {rule['confidence']:.0%} interval of the difference of means (Welch's)."
    )
    lines += [
        "",
        f"- **Setting**: {result['environment']}, {result['steps']:,} steps of each of {len(result['seeds'])} seeds "
        f"({result['seeds'][0]} to {result['seeds'][-1]}). {result['note']}".rstrip(),
        f"- **Rule**: {said}",
        f"- **Made** on {result['date']} with forage {versions['forage']} (code {versions['code']}), jax "
        f"{versions['jax']}, Python {versions['python']}, {versions['cores']} cores, {versions['machine']['backend']}. "
        f"Data: [results/{name}.json](results/{name}.json)."
        + (f" The claim's file is that of commit {made['commit'][:7]}." if (made := result.get("claim_file")) else ""),
        *history(result),
    ]
    paper = running.load(name).paper
    lines.append(
        f"- **The paper's environment and length** (`--scale paper`): {paper.environment}, {paper.seeds} seeds of "
        f"{paper.steps:,} steps for each arm; needs {paper.needs}. It has not been run here"
        + (f", and cannot be: it lacks {paper.lacks}." if paper.lacks else ".")
    )
    return "\n".join(lines) + "\n"


def overview(results: list[dict[str, Any]]) -> str:
    left = [name for name in running.names() if name not in {result["claim"] for result in results}]
    rest = f"\nNot run yet: {', '.join(left)}.\n" if left else ""
    head = HEAD.format(since=RULE_SINCE, many=many(results))
    return head + "\n".join(map(row, results)) + "\n" + rest


def main() -> None:
    for name in sys.argv[1:] or running.names():
        if not publish(name) and name in sys.argv:
            sys.exit(f"{name} has not been run; forage claim {name} does it.")
    known = running.names()
    results = [up_to_date(path) for path in sorted((PAGES / "results").glob("*.json")) if path.stem in known]
    for result in results:
        (PAGES / f"{result['claim']}.md").write_text(page(result))
    (PAGES / "README.md").write_text(overview(results))


if __name__ == "__main__":
    main()
