"""The rule for published results, checked against git: the code of a result, and the seeds that it may use.

A result names the commit that it ran with and the fingerprint of the modules that its runs import; both are looked up
in the history. A claim that is run again with other code takes seeds that none of its results had.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from forage.config.former import OPTIONS
from forage.studies.claims import claim_row, dependencies
from forage.studies.claims.provenance import commit_of, experiment, git
from forage.studies.claims.rows import parse_rows

ROOT = Path(__file__).parents[3]
"""The repository's root, in a checkout."""

RESULTS = "docs/claims/results"
BEFORE = "docs/claims/before.json"
BRIDGE = "docs/claims/bridge.json"


class Code(NamedTuple):
    """The code of a result."""

    commit: str  # empty outside of a checkout
    fingerprint: str  # of the modules that the claim's runs import
    modules: int = 0  # the number of these
    exact: bool = True  # the commit has just this code; else it is the nearest that has the experiment


def code_here(claim: str) -> Code:
    """Return the code that a claim would run with now."""
    tree = dependencies.working_tree(ROOT)
    commit = git(ROOT, "rev-parse", "HEAD").strip() if tracked() else ""
    return Code(commit, dependencies.claim_fingerprint(tree, claim), len(dependencies.modules(tree, claim)))


def tracked() -> bool:
    """Return whether the packages are files of a git repository, and not only installed below one."""
    return bool(git(ROOT, "ls-files", *dependencies.PACKAGES))


def claim_commit(claim: str) -> str:
    """Return the last commit that changed a claim's table or a module of the functions that it names; empty without."""
    file = claim_row(claim).file
    paths = dependencies.paths_of(dependencies.working_tree(ROOT), claim)
    named = {file.with_name(f"{path.rpartition('.')[2]}.py") for path in paths}
    return commit_of(file, *sorted(path for path in named if path.exists()))


def uncommitted_modules(claim: str) -> list[str]:
    """Return the files that a claim's runs import and that differ from the last commit; none outside of a checkout."""
    if not tracked():
        return []
    lines = git(ROOT, "status", "--porcelain", "--untracked-files=all", "--", *dependencies.PACKAGES).splitlines()
    changed = {line[3:].rpartition(" -> ")[2].strip('"') for line in lines}
    tree = dependencies.working_tree(ROOT)
    imported = dependencies.modules(tree, claim) | dependencies.paths_of(tree, claim)
    return sorted(path for path in changed if dependencies.module_name(path) in imported or path.endswith("/"))


# Before results named the code they ran with


@functools.cache
def early_facts() -> dict[str, Any]:
    """Return the facts on results from before they named their code: `results` by claim, and those run again."""
    return json.loads((ROOT / BEFORE).read_text())


# Before claims were rows


@functools.cache
def bridge() -> dict[str, Any]:
    """Return the bridge from claims as files to claims as rows.

    `commit`: the last that has the files. `claims`: the mark of each file's experiment there, and that of the row that
    replaced it. `gone`: settings that only files had. There is one bridge; a row that is changed has another mark.
    """
    return json.loads((ROOT / BRIDGE).read_text())


def code_of(result: Mapping[str, Any]) -> Code | None:
    """Return the code of a result; `None` if it is unknown."""
    if "ran" in result:
        return Code(**result["ran"])
    found = early_facts()["results"].get(result["claim"])
    if found is None or found["code"] != result["versions"]["code"]:
        return None
    return Code(**{name: found[name] for name in Code._fields if name in found})


# The rule


def breach(
    result: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]] = (), seeds: Sequence[int] | None = None
) -> str:
    """Return the way in which a result breaks the rule, in a sentence, or an empty text.

    `earlier`: the claim's results before it; `seeds`: those that the claim would run on now, by default the result's.
    Of a result of several looks, each is checked by itself.
    """
    if "looks" in result:
        whole = {key: value for key, value in result.items() if key not in ("looks", "ran", "claim_commit")}
        return next(filter(None, (breach(whole | look, earlier) for look in result["looks"])), "")
    name = result["claim"]
    code = code_of(result)
    if code is None or not code.commit:
        return f"{name}'s result does not name the commit of its code; run it from the repository."
    if said := wrong_commit(result, code):
        return said
    snapshot = dependencies.at_commit(ROOT, code.commit)
    assert snapshot is not None  # as the history has it
    if (found := dependencies.claim_fingerprint(snapshot, name)) != code.fingerprint:
        return (
            f"{name}'s result is not of commit {code.commit[:12]}: what its runs import has the fingerprint "
            f"{found or 'of nothing'} there, and the result {code.fingerprint}."
        )
    seeds = result["seeds"] if seeds is None else seeds
    now = experiment_here(name)
    if now and now != experiment_at(code.commit, name) and set(seeds) & set(result["seeds"]):
        fresh = unused_seeds([*seeds, *result["seeds"]])
        return f"{name} has changed since its result, whose seeds it still has; give it fresh ones, such as {fresh}."
    if known_again(result):
        return ""
    said = reuse_sentence(result["seeds"], code.fingerprint, earlier)
    return f"{name} was run again by other code on {said}." if said else ""


def reuse_sentence(seeds: Sequence[int], fingerprint: str, earlier: Sequence[Mapping[str, Any]]) -> str:
    """Describe the seeds that results by other code used before, and suggest fresh ones; empty if there are none."""
    for one in earlier:
        former = code_of(one)
        both = set(one["seeds"]) & set(seeds)
        if both and (former is None or former.fingerprint != fingerprint):
            fresh = unused_seeds([*seeds, *(seed for other in earlier for seed in other["seeds"])])
            return f"seeds that it had before, such as {min(both)}; give it fresh ones, such as {fresh}"
    return ""


def wrong_commit(result: Mapping[str, Any], code: Code) -> str:
    """Return the fault of the commits that a result names, in a sentence, or an empty text."""
    name, here = result["claim"], code.commit[:12]
    for commit in filter(None, (code.commit, result.get("claim_commit"))):
        if commit not in commits():
            return (
                f"{name}'s result names commit {commit[:12]}, which the history does not have; land the code first, "
                f"then run the claim from there."
            )
    if (named := result.get("claim_commit")) and experiment_at(named, name) != experiment_at(code.commit, name):
        return f"{name}'s result names commit {named[:12]} for its claim, which has another experiment than {here}."
    if not experiment_at(code.commit, name):
        return f"{name}'s result names commit {here}, which does not have the claim."
    return ""


def known_again(result: Mapping[str, Any]) -> bool:
    """Return whether a result is of those that had the seeds of one before, from a time without this rule."""
    return early_facts()["again"].get(result["claim"]) == result["versions"]["code"]


def unused_seeds(seeds: Iterable[int]) -> str:
    """Return the first ten seeds that no result of a claim had, in words."""
    first = max(3999, *seeds) + 1
    return f"{first} to {first + 9}"


@functools.cache
def commits() -> frozenset[str]:
    """Return every commit of the history that leads here."""
    return frozenset(git(ROOT, "rev-list", "HEAD").split())


def is_shallow() -> bool:
    """Return whether this clone lacks a part of the history, or is none."""
    return git(ROOT, "rev-parse", "--is-shallow-repository").strip() != "false"


def experiment_mark(claim: str, experiment: str) -> str:
    """Return a short hash of a claim's experiment: that of its row for the file that the bridge leads to the row.

    Empty for no experiment.
    """
    found = hashlib.sha256(experiment.encode()).hexdigest()[:16] if experiment else ""
    then, now = bridge()["claims"].get(claim, ("", ""))
    return now if found and found == then else found


@functools.cache
def experiment_at(commit: str, claim: str) -> str:
    """Return the mark of a claim's experiment at a commit; empty if the commit or the claim is not there."""
    snapshot = dependencies.at_commit(ROOT, commit)
    return experiment_mark(claim, dependencies.experiment_of(snapshot, claim)) if snapshot else ""


def experiment_here(claim: str) -> str:
    """Return the mark of a claim's experiment in the working tree; empty if there is no such claim any more."""
    folders = [ROOT / folder.replace(".", "/") for folder in dependencies.FOLDERS]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    stamps = tuple((str(path), (about := path.stat()).st_mtime_ns, about.st_size) for path in files)
    return experiment_mark(claim, dependencies.experiment_of(claims_here(ROOT, stamps), claim))


@functools.lru_cache(1)
def claims_here(root: Path, stamps: tuple[tuple[str, int, int], ...]) -> dependencies.Snapshot:
    """Return the packages of claims in the working tree, once for all claims while the files have these stamps."""
    return dependencies.working_tree(root, *dependencies.FOLDERS)


# Results of the history


class PublishedResult(NamedTuple):
    """A result as a commit published it."""

    commit: str
    date: str
    result: dict[str, Any]


class Change(NamedTuple):
    """A file as a commit left it."""

    path: Path
    commit: str
    date: str
    blob: str  # git's id of what stands in it


def changes(*paths: str) -> list[Change]:
    """Return every version of the files below some folders, oldest first, those of branches that were left included."""
    log = ("log", "--topo-order", "--reverse", "--full-history", "-m", "--raw", "--no-abbrev", "--no-renames")
    found: list[Change] = []
    commit = date = ""
    for line in git(ROOT, *log, "--format=@%H %cs", "--", *paths).splitlines():
        if line.startswith("@"):
            commit, date = line[1:].split()
        elif line.startswith(":"):
            about, _, path = line.partition("\t")
            blob = about.split()[3]
            found += [] if blob.strip("0") == "" else [Change(Path(path), commit, date, blob)]
    return found


def published_results() -> dict[str, list[PublishedResult]]:
    """Return all results that were ever published, by claim, oldest first; the last is the current one.

    A result that was judged again from the same scores is not counted again.
    """
    return published_at(ROOT, git(ROOT, "rev-parse", "HEAD"))


@functools.cache
def published_at(root: Path, head: str) -> dict[str, list[PublishedResult]]:
    """Return all results that were ever published on the way to a commit."""
    versions = changes(RESULTS)
    texts = dependencies.read_blobs(root, sorted({one.blob for one in versions}))
    results = {blob: json.loads(text) for blob, text in texts.items()}
    marks = {blob: judged_scores(result) for blob, result in results.items()}
    found: dict[str, list[PublishedResult]] = {}
    seen: set[tuple[str, Any]] = set()
    for one in versions:
        if (mark := (one.path.stem, marks[one.blob])) not in seen:
            seen.add(mark)
            found.setdefault(one.path.stem, []).append(PublishedResult(one.commit, one.date, results[one.blob]))
    return found


def unpublished_experiments(log: Mapping[str, Sequence[PublishedResult]]) -> dict[str, list[str]]:
    """Return the commits of experiments without any published result, by claim.

    Only for claims with results; the experiment of the working tree may still be run.
    """
    folders = [folder.replace(".", "/") for folder in dependencies.FOLDERS]
    versions = changes(*folders)
    texts = dependencies.read_blobs(ROOT, sorted({one.blob for one in versions}))
    known = {name: {experiment_here(name), *map(experiment_of, rows)} for name, rows in log.items()}
    found: dict[str, list[str]] = {}

    def bring(name: str, brought: str, commit: str) -> None:
        if brought and brought not in known[name]:
            known[name].add(brought)
            found.setdefault(name, []).append(commit)

    with_rows = set()  # the folders whose claims are rows by then
    for one in versions:
        text, folder = texts[one.blob].decode(), one.path.parent
        if one.path.suffix == ".toml":
            with_rows.add(folder)
            for name in known.keys() & parse_rows(text):
                bring(name, experiment_at(one.commit, name), one.commit)
        elif folder in with_rows:  # functions beside rows
            for name in known:
                bring(name, experiment_at(one.commit, name), one.commit)
        elif (name := one.path.stem.replace("_", "-")) in known:
            bring(name, experiment_mark(name, experiment(text)), one.commit)
    return found


def experiment_of(one: PublishedResult) -> str:
    """Return the experiment of a result, at the commit that it names, else at the commit that published it."""
    name, code = one.result["claim"], code_of(one.result)
    named = one.result.get("claim_commit") or (code.commit if code else "")
    return (named and experiment_at(named, name)) or experiment_at(one.commit, name)


def judged_scores(result: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the scores that a result was judged from, to tell it from others."""
    arms = {label: tuple(round(value, 6) for value in arm["values"]) for label, arm in result["arms"].items()}
    return result["versions"]["code"], tuple(sorted(arms.items()))


# Changes since


class Settings(NamedTuple):
    """The settings of all claims with results, here and now."""

    found: dict[str, dict[str, str]]  # by claim
    statistics: dict[str, str]

    def all(self) -> dict[str, list[str]]:
        """Return the digests of each setting; a name may be that of several."""
        said: dict[str, set[str]] = {}
        for one in (*self.found.values(), self.statistics):
            for name, digest in one.items():
                said.setdefault(name, set()).add(digest)
        return {name: sorted(digests) for name, digests in sorted(said.items())}


def settings_here(claims: Iterable[str]) -> Settings:
    """Return the settings that results depend on, as they are in the working tree."""
    tree = dependencies.working_tree(ROOT)
    return Settings({name: dependencies.claim_settings(tree, name) for name in claims}, dependencies.statistics(tree))


def stale(stored: Mapping[str, list[str]], now: Mapping[str, list[str]]) -> list[str]:
    """Return the settings that were changed or removed since they were stored. New ones do not count."""
    return [name for name, digests in stored.items() if set(digests) - set(now.get(name, ()))]


def settings_changed(result: Mapping[str, Any], now: Mapping[str, str], same: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the settings that have changed since a result, as far as it depends on them.

    `same`: pairs of digests of a setting that mean the same; `*.field` is the field of any part. The default of an
    agent's field that every arm sets otherwise is none that the result depends on.
    """
    code = code_of(result)
    snapshot = dependencies.at_commit(ROOT, code.commit) if code else None
    if snapshot is None:
        return []
    claim = result["claim"]
    if claim not in snapshot.claim_rows:
        now = {**settings_of_file(claim), **now}

    def differs(name: str, digest: str) -> bool:
        """Return whether a setting had another meaning."""
        return digest != now.get(name) and now.get(name) not in equal_digests(name, digest, same)

    return [
        name
        for name, digest in dependencies.claim_settings(snapshot, claim).items()
        if differs(name, digest) and relies(result, name, digest)
    ]


def equal_digests(name: str, digest: str, same: Iterable[Mapping[str, str]]) -> set[str]:
    """Return the digests that a setting has had since, from one change that kept its meaning to the next."""
    names = (name, "*." + name.partition(".")[2])
    later: dict[str, set[str]] = {}
    for one in same:
        if one["setting"] in names:
            later.setdefault(one["then"], set()).add(one["now"])
    found, left = {digest}, [digest]
    while left:
        new = later.get(left.pop(), set()) - found
        found |= new
        left += new
    return found


@functools.cache
def settings_of_file(claim: str) -> dict[str, str]:
    """Return the settings that only files of claims had, by their last version."""
    snapshot = dependencies.at_commit(ROOT, bridge()["commit"])
    found = dependencies.claim_settings(snapshot, claim) if snapshot else {}
    return {name: digest for name, digest in found.items() if name in bridge()["gone"]}


def relies(result: Mapping[str, Any], name: str, digest: str) -> bool:
    """Return whether some arm used a field's default, as far as the result shows."""
    field = name.partition(".")[2]
    agents = [arm.get("agent", {}) for arm in result["arms"].values()]
    had = [agent[one] for agent in agents for one in (field, *OPTIONS.get(field, ())) if field and one in agent]
    return not had or any(dependencies.digest_of(value) == digest for value in had)
