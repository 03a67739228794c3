"""Published results are of the code that they name, and their dependencies have not changed without a note."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from forage.studies.claims import dependencies, published, running
from forage.studies.claims.dependencies import (
    at_commit,
    claim_fingerprint,
    claim_settings,
    modules,
    statistics,
    working_tree,
)

ROOT = Path(__file__).parents[3]
RESULTS = sorted((ROOT / published.RESULTS).glob("*.json"))


@pytest.fixture
def whole():
    """Skip in a clone without the whole git history, such as an archive; fail there if the gate runs for all."""
    if published.is_shallow():
        said = "this clone lacks the history that results are checked against: git fetch --unshallow"
        if os.environ.get("CI"):
            pytest.fail(said)
        pytest.skip(said)


def test_results_are_of_the_commits_that_they_name(whole):
    history = published.published_results()
    for path in RESULTS:
        result = json.loads(path.read_text())
        others = [one.result for one in history.get(path.stem, [])]
        earlier = [one for one in others if published.judged_scores(one) != published.judged_scores(result)]
        said = published.breach(result, earlier, running.load_claim(path.stem).laptop.seeds)
        assert not said, said


def test_history_tells_of_every_experiment_that_no_result_was_published_of(whole):
    told = json.loads((ROOT / "docs" / "claims" / "history.json").read_text())
    for name, commits in published.unpublished_experiments(published.published_results()).items():
        named = told.get(name, {}).get("unrun", [])
        left = [commit for commit in commits if not commit.startswith(tuple(named))]
        assert not left, f"{name}: say in docs/claims/history.json why its experiment was changed in {left}"


def test_settings_that_results_depend_on_are_as_the_pages_say():
    stored = json.loads((ROOT / "docs" / "claims" / "settings.json").read_text())
    now = published.settings_here([path.stem for path in RESULTS])
    changed = published.stale(stored["now"], now.all())
    assert not changed, f"{', '.join(changed)} changed; run python docs/make/claims.py, which notes it for their pages"


@pytest.mark.thorough
def test_pages_name_the_settings_that_have_changed_since_their_results(whole):
    stored = json.loads((ROOT / "docs" / "claims" / "settings.json").read_text())
    now = published.settings_here([path.stem for path in RESULTS])
    found = {
        path.stem: changed
        for path in RESULTS
        if (changed := published.settings_changed(json.loads(path.read_text()), now.found[path.stem], stored["same"]))
    }
    assert stored["changed"] == found


def test_there_is_one_bridge_from_files_to_rows_and_it_leads_to_the_rows_that_were_recorded_with_it(whole):
    """A second bridge, or a row that was changed and put into the first one, would hide a changed experiment."""
    stored = json.loads((ROOT / published.BRIDGE).read_text())
    versions = published.changes(published.BRIDGE)
    written = dependencies.read_blobs(ROOT, [one.blob for one in versions])
    assert all(json.loads(text) == stored for text in written.values()), "the bridge was changed after it was recorded"
    there = at_commit(ROOT, stored["commit"])
    here = at_commit(ROOT, versions[0].commit) if versions else working_tree(ROOT)
    assert not there.claim_rows and stored["commit"] in published.commits()
    for name, (then, now) in stored["claims"].items():
        found = [
            published.experiment_mark(f"no {name}", dependencies.experiment_of(one, name)) for one in (there, here)
        ]
        assert found == [then, now], f"{name}: the bridge leads to another experiment than the row recorded with it"


# A small repository

FILES = {
    "agents/__init__.py": 'PARTS = {"clever": "clever:Clever"}\n',
    "agents/clever.py": "from forage.agents.base import Base\nclass Clever(Base):\n    rate: float = 0.1\n",
    "agents/base.py": "class Base:\n    epochs: int = 4\n    rate: float = 0.5\n    usual_memory: str = 'short'\n",
    "agents/idle.py": "IDLE = 1\n",
    "config/presets.py": (
        'TASKS = "Task-*"\nSMALL = {"rate": 1}\n'
        'ALL = Preset("clever", TASKS, 5, SMALL | {"width": 2}, "source"), Preset("clever", "Other-*", 5, {}, "")\n'
    ),
    "memory/__init__.py": 'PARTS = {"short": "short:Short"}\n',
    "memory/short.py": "class Short:\n    capacity: int = 10\n",
    "evaluation/statistics.py": "def score(values):\n    return middle(values)\ndef middle(values):\n    return 1\n",
    "studies/claims/claim.py": (
        "from __future__ import annotations\nfrom typing import TYPE_CHECKING\n"
        "from forage.evaluation.statistics import score\nif TYPE_CHECKING:\n    from forage.agents.idle import IDLE\n\n"
        'SEEDS = (1, 2)\ndef area(run):\n    """Say it."""\n    return run + 1\n'
        "def effects(values):\n    return verdict(values)\ndef verdict(values):\n    return values\n"
        "class Scale:\n    seeds: tuple = SEEDS\n"
    ),
    "studies/claims/played.py": "def played(rule):\n    return rule() + 1\ndef swing():\n    return 2\n",
    "studies/claims/running.py": (
        "def run():\n    from forage.config import presets\n    from forage.loop.turn import turn\n    return turn()\n"
    ),
    "loop/turn.py": "def turn():\n    return 1\ndef length(run):\n    return 2\n",
    "claims/theme.toml": (
        '[one]\nenvironment = "Task-v1"\nmeasure = "theme:longest"\nalso = [{measure = "area", measured = "area"}]\n'
        'laptop = {steps = 5}\nnote = "So it is."\nnamed.file = {call = "played", rule = {function = "swing"}}\n'
        '[one.arms]\na = {agent = "clever", data = {named = "file"}}\n[two]\nenvironment = "Other-v1"\n'
    ),
    "claims/theme.py": (
        "from forage.loop.turn import length\nFEW = 3\ndef longest(run):\n    return length(run) * FEW\n"
        "def other():\n    return 1\n"
    ),
}

OLD = {
    "studies/claims/papers/one.py": (
        "from forage.studies.claims import played\nfrom forage.studies.claims.claim import SEEDS, area\n"
        'CLAIM = Claim(arms={"a": Arm("clever", "Task-v1")}, measure=area, seeds=SEEDS,\n'
        '              data=played.played(played.swing), note="So it is.")\n'
    ),
}
"""The same claim as a file, as claims were before they were rows."""

ROWS = [name for name in FILES if name.startswith("claims/")]


class Repository:
    """A repository with one claim, its parts and helpers, and one published result."""

    def __init__(self, root, files):
        self.root = root
        for name, text in files.items():
            self.write(name, text)
        self.git("init", "--quiet")
        self.first = self.commit()

    def git(self, *words):
        names = ["-c", "user.name=a", "-c", "user.email=a@b"]
        said = subprocess.run(["git", "-C", str(self.root), *names, *words], check=True, capture_output=True, text=True)
        return said.stdout.strip()

    def write(self, name, text):
        path = self.root / "forage" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def replace(self, name, then, now):
        path = self.root / "forage" / name
        assert then in path.read_text()
        path.write_text(path.read_text().replace(then, now))

    def commit(self):
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", "a")
        forget_history()
        return self.git("rev-parse", "HEAD")

    def result(self, commit, seeds=(1, 2), **more):
        ran = {"commit": commit, "fingerprint": claim_fingerprint(at_commit(self.root, commit), "one")}
        arms = {"a": {"values": [1.0], "agent": {"part": "clever", "rate": 0.1}}}
        made = {"claim": "one", "seeds": list(seeds), "versions": {"code": "x"}, "arms": arms, "ran": ran}
        return made | {"claim_commit": self.first} | more


@pytest.fixture
def begin(tmp_path, monkeypatch):
    """Make a repository of these files, without a bridge."""

    def make(files):
        monkeypatch.setattr(published, "ROOT", tmp_path)
        monkeypatch.setattr(published, "early_facts", lambda: {"results": {}, "again": {}})
        monkeypatch.setattr(published, "bridge", lambda: {"commit": "", "gone": [], "claims": {}})
        return Repository(tmp_path, files)

    yield make
    forget_history()  # of that repository, or the next test of the process reads it as this one's


def forget_history():
    for one in (published.commits, published.experiment_at, published.settings_of_file):
        one.cache_clear()


@pytest.fixture
def repository(begin):
    return begin(FILES)


@pytest.fixture
def with_file(begin):
    return begin({name: text for name, text in FILES.items() if name not in ROWS} | OLD)


def test_what_a_claims_runs_import(repository):
    here = working_tree(repository.root)
    names = {name.removeprefix("forage.") for name in modules(here, "one")}
    # The agent by its name, its base, the memory that it names, and what is imported within a function.
    assert {"agents.clever", "agents.base", "memory.short", "loop.turn", "studies.claims.played"} <= names
    assert "agents.idle" not in names  # for types alone
    assert not any(name.startswith("claims.") for name in names)  # of these, what the row reaches counts
    there = at_commit(repository.root, repository.first)
    assert claim_fingerprint(there, "one") == claim_fingerprint(here, "one") != ""
    assert claim_fingerprint(here, "other") == ""


BREAKS = {
    "second measure": ("studies/claims/claim.py", "run + 1", "run + 2", "area"),
    "helper": ("studies/claims/played.py", "rule() + 1", "rule() + 2", "played"),
    "helper's rule": ("studies/claims/played.py", "return 2", "return 3", "swing"),
    "seeds": ("studies/claims/claim.py", "(1, 2)", "(1, 3)", "SEEDS"),
    "default": ("agents/clever.py", "0.1", "0.2", "Clever.rate"),
    "inherited default": ("agents/base.py", "epochs: int = 4", "epochs: int = 5", "Clever.epochs"),
    "default of a part that is not named": ("memory/short.py", "10", "20", "Short.capacity"),
    "preset": ("config/presets.py", '{"rate": 1}', '{"rate": 2}', "preset of clever for Task-*"),
    "statistics": ("evaluation/statistics.py", "return 1", "return 2", "middle"),
}


@pytest.mark.parametrize("what", BREAKS)
def test_a_change_of_a_setting_is_seen(repository, what):
    file, then, now, name = BREAKS[what]
    stored, tree = published.settings_here(["one"]).all(), working_tree(repository.root)
    before = claim_fingerprint(tree, "one")
    repository.replace(file, then, now)
    assert published.stale(stored, published.settings_here(["one"]).all()) == [name]
    assert claim_fingerprint(working_tree(repository.root), "one") != before
    # Run again on the same seeds, it is not published; on others it is.
    old = repository.result(repository.first)
    commit = repository.commit()
    again = repository.result(commit, claim_commit=commit)
    assert (
        "was run again by other code on seeds that it had before, such as 1; give it fresh ones, such as 4000 to"
        in (published.breach(again, [old]))
    )
    assert published.breach(repository.result(commit, (8, 9)), [old], (8, 9)) == ""
    assert published.breach(old, []) == ""  # it stays what it was
    # What only judges is judged again, and changes no run.
    since = published.settings_changed(old, claim_settings(working_tree(repository.root), "one"), [])
    assert since == ([] if what == "statistics" else [name])


def test_what_is_no_change_of_a_setting(repository):
    stored = published.settings_here(["one"]).all()
    repository.replace("studies/claims/claim.py", "Say it.", "Say it otherwise.")
    repository.replace("studies/claims/claim.py", "def area(run):", "def area(run: float) -> float:")
    repository.replace("agents/clever.py", "= 0.1", "= 0.1\n    later: int = 1")
    repository.replace("loop/turn.py", "1", "2")
    repository.replace("config/presets.py", "{}", "{'rate': 3}")  # of an environment that the claim does not have
    now = published.settings_here(["one"]).all()
    assert published.stale(stored, now) == [] and "Clever.later" in now
    old = repository.result(repository.first)
    assert published.settings_changed(old, claim_settings(working_tree(repository.root), "one"), []) == []
    # But the code is other code: run again, the claim takes fresh seeds.
    commit = repository.commit()
    assert "on seeds that it had before" in published.breach(repository.result(commit, claim_commit=commit), [old])


def test_a_row_of_named_settings_counts_as_its_class(repository):
    stored = published.settings_here(["one"]).all()
    row = 'setting("forage.agents.base:Base", summary="", example="train clever", rate=0.1)'
    repository.write("agents/settings.py", f'SETTINGS = {{"Clever": {row}}}\n')
    repository.replace("agents/__init__.py", "clever:Clever", "settings:Clever")
    assert published.settings_here(["one"]).all() == stored
    names = modules(working_tree(repository.root), "one")
    assert {"forage.agents.settings", "forage.agents.base", "forage.memory.short"} <= names
    repository.replace("agents/settings.py", "rate=0.1", "rate=0.2")
    assert published.stale(stored, published.settings_here(["one"]).all()) == ["Clever.rate"]


def test_a_default_that_every_arm_sets_otherwise_is_not_relied_on(repository):
    old = repository.result(repository.first)
    old["arms"]["a"]["agent"]["rate"] = 0.3
    repository.replace("agents/clever.py", "0.1", "0.2")
    assert published.settings_changed(old, claim_settings(working_tree(repository.root), "one"), []) == []


def test_two_versions_that_mean_the_same(repository):
    old = repository.result(repository.first)
    then = claim_settings(working_tree(repository.root), "one")["area"]
    repository.replace("studies/claims/claim.py", "run + 1", "1 + run")
    now = claim_settings(working_tree(repository.root), "one")
    assert published.settings_changed(old, now, []) == ["area"]
    pair = {"setting": "area", "then": then, "now": now["area"]}
    assert published.settings_changed(old, now, [pair]) == []
    chain = [{"setting": "area", "then": "between", "now": now["area"]}, pair | {"now": "between"}]
    assert published.settings_changed(old, now, chain) == [] and published.settings_changed(old, now, chain[1:]) != []


def test_a_result_names_a_commit_that_has_its_code(repository):
    fine = repository.result(repository.first)
    assert published.breach(fine) == ""
    assert "does not name the commit of its code" in published.breach(fine | {"ran": fine["ran"] | {"commit": ""}})
    unknown = "0123456789" * 4
    assert "names commit 012345678901, which the history does not have" in published.breach(
        fine | {"ran": fine["ran"] | {"commit": unknown}}
    )
    assert "which the history does not have" in published.breach(fine | {"claim_commit": unknown})
    repository.replace("agents/base.py", "4", "6")
    second = repository.commit()
    assert f"is not of commit {second[:12]}: " in published.breach(fine | {"ran": fine["ran"] | {"commit": second}})
    # From before the experiment: of the code, and of the claim's file.
    repository.replace("claims/theme.toml", "steps = 5", "steps = 6")
    third = repository.commit()
    now = repository.result(third, (8, 9), claim_commit=third)
    assert published.breach(now) == ""
    assert "has another experiment" in published.breach(now | {"ran": now["ran"] | {"commit": second}})
    older = {"claim_commit": second, "ran": now["ran"] | {"commit": second}}
    assert "is not of commit" in published.breach(now | older)
    assert "for its claim, which has another experiment" in published.breach(now | {"claim_commit": repository.first})
    # Words are no part of the experiment; an experiment that was changed takes fresh seeds, run or not.
    assert "has changed since its result, whose seeds it still has; give it fresh ones" in published.breach(fine)
    assert published.breach(fine, [], (8, 9)) == ""
    # A commit of a branch that was left is none of this history.
    repository.git("checkout", "--quiet", "--detach")
    repository.replace("loop/turn.py", "1", "3")
    left = repository.commit()
    aside = repository.result(left, (10, 11), claim_commit=left)
    repository.git("checkout", "--quiet", third)
    published.commits.cache_clear()
    assert "land the code first" in published.breach(aside)


SHAPES = {
    "row": ("claims/theme.toml", "steps = 5", "steps = 6"),
    "arm": ("claims/theme.toml", 'agent = "clever"', 'agent = "clever", options = {rate = 0.1}'),
    "named value": ("claims/theme.toml", 'call = "played"', 'call = "played", seed = 1'),
    "seeds": ("claims/theme.toml", "steps = 5", "steps = 5, seeds = [1, 2, 3]"),
    "measure beside the row": ("claims/theme.py", "length(run) *", "length(run) +"),
    "constant of the measure": ("claims/theme.py", "FEW = 3", "FEW = 4"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_an_experiment_that_was_changed_takes_fresh_seeds(repository, shape):
    old = repository.result(repository.first)
    before = claim_fingerprint(working_tree(repository.root), "one")
    assert published.breach(old) == ""
    repository.replace(*SHAPES[shape])
    assert "has changed since its result, whose seeds it still has; give it fresh ones" in published.breach(old)
    assert published.breach(old, [], (8, 9)) == ""
    assert claim_fingerprint(working_tree(repository.root), "one") != before


def test_other_rows_functions_and_words_are_no_part_of_an_experiment(repository):
    old = repository.result(repository.first)
    before = claim_fingerprint(working_tree(repository.root), "one")
    repository.replace("claims/theme.toml", "Other-v1", "Other-v2")
    repository.replace("claims/theme.toml", "So it is.", "So it was.")
    repository.replace("claims/theme.toml", "named.file", "parts = ['clever']\nnamed.file")
    repository.replace("claims/theme.py", "return 1", "return 2")
    repository.replace("claims/theme.py", "def longest(run):", 'def longest(run: float) -> float:\n    """Say it."""')
    assert claim_fingerprint(working_tree(repository.root), "one") == before
    assert published.breach(old) == ""
    # However it is written, it is the same.
    repository.replace(
        "claims/theme.toml", "[one.arms]\na = {agent", "every_arm.agent = 'clever'\n[one.arms]\na = {agent"
    )
    repository.replace("claims/theme.toml", 'agent = "clever", ', "")
    repository.replace("claims/theme.toml", '{named = "file"}', '{call = "played", rule = {function = "swing"}}')
    repository.replace("claims/theme.toml", 'named.file = {call = "played", rule = {function = "swing"}}\n', "")
    assert claim_fingerprint(working_tree(repository.root), "one") == before


def test_a_claims_file_is_found_where_it_lay_before(with_file):
    papers = with_file.root / "forage" / "studies" / "claims" / "papers"
    old = with_file.root / "forage" / "claims"
    old.mkdir()
    (papers / "one.py").rename(old / "one.py")
    moved = with_file.commit()
    assert published.experiment_at(moved, "one") == published.experiment_at(with_file.first, "one") != ""
    assert claim_fingerprint(at_commit(with_file.root, moved), "one")


def test_a_result_of_a_file_is_one_of_the_row_that_the_bridge_leads_to(with_file, monkeypatch):
    old = with_file.result(with_file.first)
    assert published.breach(old) == ""
    stored = claim_settings(at_commit(with_file.root, with_file.first), "one")
    then = published.experiment_at(with_file.first, "one")
    (with_file.root / "forage" / "studies" / "claims" / "papers" / "one.py").unlink()
    for name in ROWS:
        with_file.write(name, FILES[name])
    assert "has changed since its result" in published.breach(old)  # without a bridge
    with_file.commit()
    now = published.experiment_here("one")
    made = {"commit": with_file.first, "gone": ["seeds"], "claims": {"one": [then, now]}}
    monkeypatch.setattr(published, "bridge", lambda: made)
    published.experiment_at.cache_clear()
    assert published.breach(old) == "" and published.experiment_at(with_file.first, "one") == now
    assert published.settings_changed(old, claim_settings(working_tree(with_file.root), "one"), []) == []
    assert {"area", "SEEDS", "Clever.rate", "Short.capacity"} <= stored.keys()
    # Nothing else is let through: not a row that was changed after, nor a file of another experiment.
    assert published.unpublished_experiments({"one": [published.PublishedResult(with_file.first, "", old)]}) == {}
    with_file.replace("claims/theme.toml", "steps = 5", "steps = 6")
    assert "has changed since its result, whose seeds it still has" in published.breach(old)
    assert published.breach(old, [], (8, 9)) == ""
    assert published.experiment_mark("one", "another") not in (then, now)
    # And a setting that is changed after the bridge is named.
    with_file.replace("studies/claims/claim.py", "run + 1", "run + 2")
    assert published.settings_changed(old, claim_settings(working_tree(with_file.root), "one"), []) == ["area"]


def test_all_that_a_run_imports_must_be_committed(repository):
    assert published.uncommitted_modules("one") == []
    assert published.code_here("one").commit == repository.first
    repository.replace("agents/base.py", "4", "6")
    repository.replace("agents/idle.py", "1", "2")
    repository.write("memory/new.py", "NEW = 1\n")
    assert published.uncommitted_modules("one") == ["forage/agents/base.py"]  # what it does not import may differ


def test_results_of_the_history(repository):
    assert (
        published.published_results() == {}
    )  # as in a repository of somebody else's, with the package somewhere in it
    folder = repository.root / published.RESULTS
    folder.mkdir(parents=True)

    def publish(value, verdict):
        arms = {"a": {"values": [value]}}
        made = {"claim": "one", "versions": {"code": "x"}, "arms": arms, "verdict": verdict}
        (folder / "one.json").write_text(json.dumps(made))
        return repository.commit()

    first, _, third = publish(1.0, "holds"), publish(1.0, "undecided"), publish(2.0, "fails")
    found = published.published_results()["one"]
    assert [(one.commit, one.result["verdict"]) for one in found] == [(first, "holds"), (third, "fails")]
    # An experiment that was changed and changed again has no result; the one that lies there now may have one yet.
    rows = "claims/theme.toml"
    repository.replace(rows, "steps = 5", "steps = 6")
    left = repository.commit()
    repository.replace("claims/theme.py", "FEW = 3", "FEW = 4")
    also = repository.commit()
    repository.replace(rows, "steps = 6", "steps = 7")
    repository.commit()
    repository.replace(rows, "So it is.", "So it was.")
    repository.commit()
    assert published.unpublished_experiments(published.published_results()) == {"one": [left, also]}


def test_a_digest_of_a_value_is_that_of_the_default():
    import ast

    for text, value in (("0.1", 0.1), ("1e-3", 0.001), ("-1.0", -1.0), ("(64, 64)", [64, 64]), ("'adam'", "adam")):
        node = ast.parse(text, mode="eval").body
        assert dependencies.short(dependencies.without_words(node)) == dependencies.digest_of(value)


def test_the_statistics_that_judge():
    found = statistics(working_tree(ROOT))
    assert {"welch_difference", "score", "interquartile_mean", "effects", "judged", "verdict"} <= found.keys()
