"""Publishes claims: `python docs/make/claims.py [NAME ...]` takes what `forage claim NAME` found into docs/claims.

Results are kept as data (results/NAME.json); `make docs` makes the table, the pages and the pictures of them.
`--since NAME` lists the modules that have changed since a result. A claim that fails stays.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats

from forage.evaluation import look
from forage.evaluation.comparison import welch_p
from forage.evaluation.sequential import look_confidence
from forage.evaluation.statistics import Score, score
from forage.studies.claims import names, running
from forage.studies.claims.claim import (
    Claim,
    Effect,
    Rule,
    SecondMeasure,
    effects,
    environments,
    evaluation_return,
    exclusion_sentences,
    join_verdicts,
    judged_arms,
    refusal,
)
from forage.studies.claims.dependencies import at_commit, modules, working_tree
from forage.studies.claims.picture import draw_claim
from forage.studies.claims.published import (
    PublishedResult,
    breach,
    bridge,
    code_of,
    experiment_at,
    experiment_here,
    judged_scores,
    published_results,
    settings_changed,
    settings_here,
)

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "claims"
RUNS = ROOT / "runs" / "claims"

HEAD = """# Claims

The central statement of each paper, as a small experiment that runs from one command, on seeds that no search for
presets used. The verdict follows from a rule: the claim **holds** where the whole 95 % interval of the effect lies
above the rule's margin (nothing, unless its page says otherwise), **fails** where it lies below, and is **undecided**
otherwise. The effect is a difference of means over seeds with Welch's interval, which is as wide as few seeds ask
for: of two arms that are equally good it puts one ahead, with 10 seeds and normal scores, in 5 % of experiments, and
with fewer seeds in less ([where it errs](../trust.md#what-decides)); the score of an arm is its interquartile mean
with a bootstrap interval, which decides nothing. A claim with another rule says so. What is small here is said on
each page; a verdict is about the experiment that was run, not about the paper. Made by
`docs/make/claims.py` from the results in `docs/claims/results`.

Not everything was fixed before the run. A star marks a claim whose experiment was changed after its file was first
committed, or that was run again; what was looked at before a change was not always kept. Up to 2026-11-28 some were run
again on the same seeds, and some on seeds that were not run before: [what came before](#history) says which. Since
then a claim that is run again by other code takes seeds that none of its results had.
{earlier}

The interval was changed for all: until 2026-11-23 it was a percentile bootstrap, too narrow for few seeds (of equally
good arms one came out ahead in 13 % with 5 and 8 % with 10). All results were judged again, from the same scores;
*level-generalisation*, which held, became undecided, and no other verdict changed.

Each result is of the code that its page names by commit and fingerprint, mostly older than today's; where a measure, a
default or another setting has changed since, the page says which. [How a claim is run
again](../trust.md#claims): by one commit, on seeds that it never had. A claim that was run until it was decided
(`forage claim NAME --until-decided`) was judged at several [looks](../trust.md#looks), whose wider intervals together
err as often as one, and its verdict may be **no difference**. Each verdict stands by itself, with no
correction for their number: where arms are equally good, about one *holds* in forty is chance.
{corrected}

| claim | statement | effect | verdict | seeds | steps of each | wall clock |
|---|---|---|---|---|---|---|
"""


HISTORY = json.loads((PAGES / "history.json").read_text())
"""What of a claim was changed, and why, by hand: `said`, what else was `found`, and `unrun`, the commits of experiments
that no published result is of.
"""

BRIDGED = (
    "Until 2026-11-29 each claim was a program in a file of its own; since then it is a row of a table, with the same "
    "arms, options, environment, measure, rule and seeds, compared field by field for all {}. So results of the files "
    "are results of the rows: [bridge.json](bridge.json) leads from the mark of each file's experiment, at commit {}, "
    "to that of its row. It is the only such bridge. A row that is changed has another mark, which it does not know, "
    "and takes fresh seeds."
)
"""The history of all claims at once."""

EARLIER = PAGES / "earlier.json"
"""Each claim's published results before the one that lies there now, from the repository's log."""

SETTINGS = PAGES / "settings.json"
"""The settings that claims depend on, as they were at the last publication, and what has changed since each result."""


def publish(name: str) -> bool:
    """Copies a claim's result, where there is one."""
    decided = RUNS / f"{name}-decided"
    source = decided if (decided / "result.json").exists() else RUNS / f"{name}-laptop"
    if not (source / "result.json").exists():
        return False
    (PAGES / "results").mkdir(parents=True, exist_ok=True)
    result = json.loads((source / "result.json").read_text())
    earlier = [
        one.result for one in published_results().get(name, []) if judged_scores(one.result) != judged_scores(result)
    ]
    if broken := breach(result, earlier, running.load_claim(name).laptop.seeds):
        sys.exit(broken)
    (PAGES / "results" / f"{name}.json").write_text(json.dumps(result, separators=(",", ":")) + "\n")
    return True


def judged_again(result: dict[str, Any]) -> dict[str, Any]:
    """The result with what today's rule says of its scores, and in today's words: older ones may have been others.

    Margin, direction, confidence and arms are those that it was run with, and so are the words while the claim's
    experiment of today has not been run.
    """
    claim = running.load_claim(result["claim"])._replace(rule=Rule(**result["rule"]))
    words = result if pending(result) else {"statement": claim.statement, "note": claim.note}
    claim = as_run(claim, result)
    found = effects(claim, values_of(result))
    again = {**words, "arms": scored(result["arms"]), "effects": as_data(found), "verdict": join_verdicts(found)}
    if "also" in result:
        known = {also.measured: also for also in claim.also}
        shown = [
            (one, known.get(one["measured"], SecondMeasure(evaluation_return, one["measured"])))
            for one in result["also"]
        ]
        again["also"] = [one | {"effects": as_data(also.effects(claim, arrays(one["values"])))} for one, also in shown]
    return result | again


def as_run(claim: Claim, result: dict[str, Any]) -> Claim:
    """Return a claim with the judged arms of a result, and without its reach if that is of another experiment."""
    if pending(result):
        claim = claim._replace(reach=None)
    if claim.judge is not None:
        return claim
    return claim._replace(treatment=result["treatment"], baselines=tuple(baselines(result)))


def values_of(result: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the values of each arm of a result."""
    return arrays({label: arm["values"] for label, arm in result["arms"].items()})


def scored(arms: dict[str, Any]) -> dict[str, Any]:
    """Return the arms with their scores and intervals, by today's statistics."""
    totals = {label: score(np.array(arm["values"])) for label, arm in arms.items()}
    return {
        label: arm | {"score": totals[label].value, "interval": interval(totals[label])} for label, arm in arms.items()
    }


def interval(total: Score) -> list[float] | None:
    """Return the ends of a score's interval, where it has one."""
    return None if total.low is None or total.high is None else [total.low, total.high]


def pending(result: dict[str, Any]) -> bool:
    """Return whether the claim was changed after this result, which gave it other seeds, and has not been run since."""
    if "looks" in result:
        code = code_of(result)
        return code is None or experiment_at(code.commit, result["claim"]) != experiment_here(result["claim"])
    return tuple(result["seeds"]) != running.load_claim(result["claim"]).laptop.seeds


def arrays(values: dict[str, list[float]]) -> dict[str, np.ndarray]:
    return {label: np.array(found) for label, found in values.items()}


def as_data(found: Sequence[Effect]) -> list[dict[str, Any]]:
    return [effect._asdict() for effect in found]


def up_to_date(path: Path) -> dict[str, Any]:
    """Judge a stored result again, and store it where that changes it."""
    stored = json.loads(path.read_text())
    result = judged_again(stored)
    if result != stored:
        path.write_text(json.dumps(result, separators=(",", ":")) + "\n")
    return result


def effect(found: dict[str, Any]) -> str:
    return f"{found['value']:+.3g} [{found['low']:.3g}, {found['high']:.3g}]"


def row(result: dict[str, Any]) -> str:
    said = "; ".join(f"{effect(e)}" for e in result["effects"])
    name, word = result["claim"], result["verdict"]
    star = " *" if name in HISTORY or name in stored_earlier() else ""
    return (
        f"| [{name}]({name}.md){star} | {result['statement']} | {said} | **{word}** | {len(result['seeds'])} "
        f"| {result['steps']:,} | {result['seconds']:.0f} s |"
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
        f"forage claim {name}{' --until-decided' if 'looks' in result else ''}",
        "```",
        "",
        f"![what was found]({name}.png)",
        "",
        f"| arm | {result['measured']} | wall clock |",
        "|---|---|---|",
    ]
    for label, arm in result["arms"].items():
        low, high = arm["interval"]
        origin = f"that of {arm['shared']}" if "shared" in arm else f"{arm['seconds']:.0f} s"
        lines.append(f"| {label} | {arm['score']:.4g} [{low:.4g}, {high:.4g}] | {origin} |")
    lines += table(result, "verdict")
    for one in result.get("also", ()):
        lines += ["", f"By the {one['measured']}, which does not decide:", *table(one, "it would be")]
    interval_of = "differences of the same seeds (Student's)" if rule.get("paired") else "difference of means (Welch's)"
    said = running.load_claim(name).judged_by or (
        f"{result['treatment']} is ahead of each other arm, {better} of the measure being better, by more than "
        f"{rule['margin']:g}, with the whole {rule['confidence']:.0%} interval of the {interval_of}."
    )
    said += look_words(result)
    lines += [
        "",
        f"- **Setting**: {result['environment']}, {result['steps']:,} steps of each of {len(result['seeds'])} seeds "
        f"({seed_words(result)}). {result['note']}".rstrip(),
        f"- **Rule**: {said}",
        f"- **Made** on {result['date']} with forage {versions['forage']} (code {versions['code']}), jax "
        f"{versions['jax']}, Python {versions['python']}, {versions['cores']} cores, {versions['machine']['backend']}"
        f"{f', the claim of commit {commit[:12]}' if (commit := result.get('claim_commit')) else ''}. "
        f"Data: [results/{name}.json](results/{name}.json).",
    ]
    lines += [code_line(result), *history(name, stored_earlier())]
    if pending(result):
        lines.append("- **Changed since**: `forage claim` runs another experiment now, which has no result yet.")
    if names := stored_settings()["changed"].get(name):
        lines.append(f"- **Settings changed since**: {', '.join(f'`{one}`' for one in names)}.")
    paper = running.load_claim(name).paper
    lines.append(
        f"- **The paper's environment and length** (`--scale paper`): {paper.environment}, {paper.seeds} seeds of "
        f"{paper.steps:,} steps for each arm; needs {paper.needs}. It has not been run here"
        + (f", and cannot be: it lacks {paper.lacks}." if paper.lacks else ".")
    )
    return "\n".join(lines) + "\n"


def seed_words(result: dict[str, Any]) -> str:
    """Return the seeds of each look, or those of a result without looks, from the first to the last."""
    groups = [one["seeds"] for one in result.get("looks", [result])]
    return " and ".join(f"{seeds[0]} to {seeds[-1]}" for seeds in groups)


def look_words(result: dict[str, Any]) -> str:
    """Tell of the looks of a result, and the effects that it excludes; empty for a single look that decided."""
    said = ""
    if looks := result.get("looks"):
        level = look_confidence(result["rule"]["looks"], result["rule"]["confidence"])
        seeds = " and ".join(f"{len(one['seeds'])} seeds from {one['seeds'][0]} on ({one['date']})" for one in looks)
        said = (
            f" It was judged after each of {len(looks)} looks, at {seeds}, by intervals of {level:.1%}, which together "
            f"err as often as one of {result['rule']['confidence']:.0%} ([looks](../trust.md#looks))."
        )
        if same := result["rule"]["same"]:
            said += f" Effects of less than {same:.3g} either way are no difference."
    claim = as_run(running.load_claim(result["claim"]), result)
    refused = refusal(judged_arms(claim, values_of(result)), claim.reach)
    sentences = [refused] if refused else exclusion_sentences(result, claim.reach)
    return said + "".join(f" {one}" for one in sentences)


def code_line(result: dict[str, Any]) -> str:
    """Say which code a result is of."""
    code = code_of(result)
    assert code is not None
    of = "" if code.exact else ", the nearest to what ran, which was not committed"
    return (
        f"- **Code**: commit {code.commit[:12]}{of}. The {code.modules} modules that its runs can import have the "
        f"fingerprint {code.fingerprint}; `python docs/make/claims.py --since {result['claim']}` lists those that have "
        "changed."
    )


def stored_settings() -> dict[str, Any]:
    """Return the settings as they are stored."""
    return json.loads(SETTINGS.read_text())


def store_settings(results: Sequence[dict[str, Any]]) -> None:
    """Store the settings of today, and for each result those that have changed since."""
    stored, now = stored_settings(), settings_here([result["claim"] for result in results])
    changed = {one["claim"]: settings_changed(one, now.found[one["claim"]], stored["same"]) for one in results}
    parts = {
        "now": rows(now.all()),
        "changed": rows({name: found for name, found in changed.items() if found}),
        "same": "[\n" + ",\n".join(f"  {json.dumps(one)}" for one in stored["same"]) + "\n ]",
    }
    SETTINGS.write_text("{\n" + ",\n".join(f' "{name}": {text}' for name, text in parts.items()) + "\n}\n")


def rows(table: dict[str, Any]) -> str:
    """Return a dictionary as JSON with a line for each entry."""
    return "{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in table.items()) + "\n }"


def table(found: dict[str, Any], heading: str) -> list[str]:
    """Return the table of effects by one measure."""
    lines = ["", f"| against | effect | {heading} |", "|---|---|---|"]
    return lines + [f"| {e['baseline']} | {effect(e)} | {e['verdict']} |" for e in found["effects"]]


def history(name: str, earlier: Mapping[str, Any]) -> list[str]:
    """Tell what of a claim was changed, and what was found before."""
    before, told = earlier.get(name, []), HISTORY.get(name, {})
    said = [told["said"]] if "said" in told else []
    if before:
        said.append(f"Published before: {'; '.join(map(published_before, before))}.")
    if "found" in told:
        found = (f"against *{e['what']}* {effect(e)} ({e['interval']}), {e['verdict']}" for e in told["found"])
        said.append(f"Also found: {'; '.join(found)}.")
    return [f"- **History**: {' '.join(said)}"] if said else []


def published_before(one: dict[str, Any]) -> str:
    """Tell of an earlier result, in a phrase."""
    seeds, verdict = one["seeds"], one["verdict"]
    as_published = f" (published as {one['published']})" if one["published"] != verdict else ""
    against = ", ".join(f"{effect(e)} against *{e['baseline']}*" for e in one["effects"])
    where = f"{one['date']}, commit {one['commit'][:8]}, seeds {seeds[0]} to {seeds[-1]}"
    return f"{where}, **{verdict}**{as_published}: {against}"


def find_earlier(log: Mapping[str, Sequence[PublishedResult]]) -> dict[str, list[dict[str, Any]]]:
    """Return each claim's results before the one that lies there now, judged by today's statistics."""
    found = {}
    for name, all_of_it in sorted(log.items()):
        shown = judged_scores(json.loads((PAGES / "results" / f"{name}.json").read_text()))
        found[name] = [
            {
                "commit": one.commit,
                "date": one.date,
                "seeds": one.result["seeds"],
                "published": one.result["verdict"],
                **{key: judged_again(one.result)[key] for key in ("verdict", "effects")},
            }
            for one in all_of_it
            if judged_scores(one.result) != shown
        ]
    return {name: rows for name, rows in found.items() if rows}


def stored_earlier() -> dict[str, Any]:
    """Return the earlier results as they are stored."""
    return json.loads(EARLIER.read_text())


def told_of_earlier(results: Sequence[dict[str, Any]], earlier: Mapping[str, Any]) -> str:
    """Count the earlier results by their verdicts, and the claims whose verdict became another."""
    now = {result["claim"]: result["verdict"] for result in results}
    had = {name: [one["verdict"] for one in found] for name, found in earlier.items() if name in now}
    before = [verdict for verdicts in had.values() for verdict in verdicts]
    holds, undecided, fails = (before.count(verdict) for verdict in ("holds", "undecided", "fails"))
    others = sorted(name for name, verdicts in had.items() if set(verdicts) != {now[name]})
    return textwrap.fill(
        f"{len(had)} of the claims had other results before the one that is shown, {len(before)} in all: of these "
        f"{holds} hold, {undecided} are undecided and {fails} {'fails' if fails == 1 else 'fail'}, by today's "
        f"statistics. The verdict of {len(others)} became another: {', '.join(f'*{name}*' for name in others)}.",
        120,
        break_on_hyphens=False,
    )


def lost(results: list[dict[str, Any]]) -> tuple[int, list[str], list[str]]:
    """Return how many claims Welch's interval judges, and which of them would not hold if their number counted.

    First by Holm's correction, then by Benjamini and Hochberg's, both at 5 %. A claim's p is the largest over its
    baselines, as it must be ahead of all.
    """
    p = {}
    for result in results:
        if running.load_claim(result["claim"]).judge is None:
            values = arrays({label: arm["values"] for label, arm in result["arms"].items()})
            margin = result["rule"]["margin"] * (1 if result["rule"]["higher"] else -1)
            mine, paired = values[result["treatment"]], result["rule"].get("paired", False)
            p[result["claim"]] = max(
                welch_p(mine - values[b], np.zeros(len(mine)), margin) if paired else welch_p(mine, values[b], margin)
                for b in baselines(result)
            )
    names = sorted(p, key=p.__getitem__)
    within = [p[name] <= 0.05 / (len(p) - rank) for rank, name in enumerate(names)]
    holm = set(names[: within.index(False)] if False in within else names)
    level = scipy.stats.false_discovery_control([p[name] for name in names])
    hochberg = {name for name, value in zip(names, level, strict=True) if value <= 0.05}
    held = sorted(result["claim"] for result in results if result["verdict"] == "holds" and result["claim"] in p)
    return len(p), [name for name in held if name not in holm], [name for name in held if name not in hochberg]


def baselines(result: dict[str, Any]) -> list[str]:
    """Return the arms that the treatment was compared with."""
    return [effect["baseline"] for effect in result["effects"]]


def corrected(results: list[dict[str, Any]]) -> str:
    """Say which verdicts would not stand if the number of claims counted."""
    count, holm, hochberg = lost(results)

    def would(names: list[str]) -> str:
        said = [f"*{name}*" for name in names]
        return f"{', '.join(said[:-1])}{' and ' * (len(said) > 1)}{said[-1]} would not hold" if said else "all would"

    return textwrap.fill(
        f"With Holm's correction over the {count} claims that Welch's interval judges, earlier results not counted, "
        f"{would(holm)}; with Benjamini and Hochberg's, at 5 %, {would(hochberg)}.",
        120,
        break_on_hyphens=False,
    )


def overview(results: list[dict[str, Any]]) -> str:
    left = [name for name in names() if name not in {result["claim"] for result in results}]
    rest = f"\nNot run yet: {', '.join(left)}.\n" if left else ""
    earlier = stored_earlier()
    told = sorted({result["claim"] for result in results} & (HISTORY.keys() | earlier.keys()))
    changed = [line.replace("**History**", f"[{name}]({name}.md)") for name in told for line in history(name, earlier)]
    head = HEAD.replace("{corrected}", corrected(results)).replace("{earlier}", told_of_earlier(results, earlier))
    of_all = textwrap.fill(BRIDGED.format(len(bridge()["claims"]), bridge()["commit"][:12]), 120)
    lines = ["\n".join(map(row, results)), rest, "## History", "", of_all, "", *changed]
    return head + "\n".join(lines) + "\n"


def counted(readme: str, results: list[dict[str, Any]]) -> str:
    """Return the README with today's numbers of claims in its sentence about them."""
    said = [result["verdict"] for result in results]
    holds, undecided, fails = (said.count(verdict) for verdict in ("holds", "undecided", "fails"))
    found = said.count("no difference")
    same = f"{found} {'shows' if found == 1 else 'show'} no difference, " if found else ""
    fail = "one fails" if fails == 1 else f"{fails} fail"
    for pattern, words in (
        (r"\[\d+(\s+claims\]\()", rf"[{len(said)}\1"),
        (
            r"\d+ hold here, (\d+ shows? no difference, )?\d+ are undecided, \w+ fails?",
            f"{holds} hold here, {same}{undecided} are undecided, {fail}",
        ),
        (r"by Holm's correction \d+ would", f"by Holm's correction {holds - len(lost(results)[1])} would"),
        (r"\d+(\s+had\s+other\s+results)", rf"{sum(one['claim'] in stored_earlier() for one in results)}\1"),
    ):
        readme = re.sub(pattern, words, readme)
    return readme


def since(name: str) -> str:
    """List the modules that a claim's runs import and that have changed since its result."""
    result = json.loads((PAGES / "results" / f"{name}.json").read_text())
    code, here = code_of(result), working_tree(ROOT)
    there = at_commit(ROOT, code.commit) if code else None
    if code is None or there is None:
        return f"git does not know the commit of {name}'s result; fetch the whole history."
    found = sorted(one for one in modules(there, name) if there.blobs[one] != here.blobs.get(one))
    lines = [f"{one}{'' if one in here.blobs else ' (not here any more)'}" for one in found]
    return "\n".join([f"Changed since commit {code.commit[:12]}, by which {name} was run: {len(lines)}", *lines])


def result_paths() -> list[Path]:
    """Return the files of the results whose claims are here."""
    known = names()
    return [path for path in sorted((PAGES / "results").glob("*.json")) if path.stem in known]


def pages() -> dict[str, str]:
    """Return the text of each page, by its name in the repository."""
    results = [json.loads(path.read_text()) for path in result_paths()]
    made = {f"docs/claims/{result['claim']}.md": page(result) for result in results}
    return made | {"docs/claims/README.md": overview(results)}


def draw_pictures(folder: Path) -> None:
    """Draw the picture of each result, but for those in the folder that are newer than all that they are drawn of."""
    programs = [Path(sys.modules[one].__file__ or "").stat().st_mtime for one in (draw_claim.__module__, look.__name__)]
    for path in result_paths():
        picture = folder / f"{path.stem}.png"
        if not picture.exists() or picture.stat().st_mtime <= max(path.stat().st_mtime, *programs):
            draw_claim(picture, json.loads(path.read_text()), environments(running.load_claim(path.stem)))


def main() -> None:
    if sys.argv[1:2] == ["--since"]:
        print("\n\n".join(since(name) for name in sys.argv[2:]))
        return
    for name in sys.argv[1:] or names():
        if not publish(name) and name in sys.argv:
            sys.exit(f"{name} has not been run; forage claim {name} does it.")
    results = [up_to_date(path) for path in result_paths()]
    store_settings(results)
    EARLIER.write_text(rows(find_earlier(published_results())).replace("\n }", "\n}") + "\n")
    readme = ROOT / "README.md"
    readme.write_text(counted(readme.read_text(), results))


if __name__ == "__main__":
    main()
