"""Rows of claims: files, values, checks, and one sentence for each mistake."""

import copy
import tomllib
from pathlib import Path

import pytest

from forage.core.errors import ForageError
from forage.studies import claims
from forage.studies.claims import building, rows
from forage.studies.claims.claim import Rule, area, evaluation_return
from forage.studies.claims.played import swing_up
from forage.studies.claims.rows import Row

ROW = """
[swing]
title = "A Paper"
authors = "Somebody"
year = 2020
source = "2001.00001"
statement = "It is so."
environment = "Pendulum-v1"
treatment = "new"
measure = "evaluation_return"
measured = "return"
also = [{measure = {call = "late", name = "loss", share = 0.5}, measured = "loss", higher = false}]
rule = {margin = -2.0}
laptop = {steps = 5000, seeds = "1000-1004"}
smoke = {steps = 200}
paper = {environment = "gymnasium:Hopper-v5", steps = 10, seeds = 3, arms = {new = {batch_size = 256}}}
needs = "a GPU"
named.file.call = "play_rule"
named.file.environment = "Pendulum-v1"
named.file.rule = {function = "swing_up"}
named.file.random = {repeat = [[2, 0.5]]}

[swing.every_arm]
options = {hidden_sizes = [64, 64], learning_rate = 1e-3}
rewards = {part = "scale", factor = 0.1}
before = {agent = "cql", steps = 10, options = {batch_size = 128}, data = {named = "file"}}

[swing.arms]
old = {agent = "sac", options = {batch_size = 64}}
new = {agent = "td3", options = {learning_rate = 1e-2}, before = {agent = "cal-ql", options = {samples = 4}}}
"""


def row(table):
    return Row("swing", Path("theme.toml"), "forage.studies.claims", table)


@pytest.fixture
def table():
    return copy.deepcopy(rows.parse_rows(ROW)["swing"])


def test_a_row_is_a_claim(table, monkeypatch):
    asked = []
    monkeypatch.setattr(
        building, "find_function", lambda row, name, where, real=building.find_function: spy(real(row, name, where))
    )

    def spy(found):
        if found.__name__ != "play_rule":
            return found
        return lambda environment, rule, random, seed=0: asked.append((environment, rule, random)) or "a.npz"

    claim = building.build_claim(row(table))
    assert (claim.arxiv, claim.baselines, claim.measure, claim.rule) == (
        "2001.00001",
        ("old",),
        evaluation_return,
        Rule(margin=-2.0),
    )
    assert claim.laptop.seeds == tuple(range(1000, 1005)) and claim.smoke == (200, (1000, 1001))
    assert claim.paper.arms == {"new": {"batch_size": 256}} and (claim.paper.needs, claim.paper.lacks) == ("a GPU", "")
    assert claim.also[0].higher is False and claim.also[0].measure.__qualname__.startswith("late.")
    old, new = claim.arms["old"], claim.arms["new"]
    assert old.options == {"hidden_sizes": (64, 64), "learning_rate": 1e-3, "batch_size": 64}
    assert new.options == {"hidden_sizes": (64, 64), "learning_rate": 1e-2}  # the arm's own before that of every arm
    assert old.parts()["rewards"].factor == 0.1
    assert (new.before.agent, new.before.steps, new.before.options) == ("cal-ql", 10, {"batch_size": 128, "samples": 4})
    assert asked == []  # data are played when the arm is trained
    assert new.before.parts() == {"data": "a.npz"} and asked == [("Pendulum-v1", swing_up, (0.5, 0.5))]


def test_an_experiment_is_the_same_however_it_is_written(table):
    other = copy.deepcopy(table)
    for arm in other["arms"].values():
        arm["rewards"] = {"factor": 0.1, "part": "scale"}
    del other["every_arm"]["rewards"]
    other |= {"note": "Said otherwise.", "baselines": ["old"]}
    other["laptop"]["seeds"] = [1000, 1001, 1002, 1003, 1004]
    assert rows.experiment(other) == rows.experiment(table)
    other["arms"]["old"]["options"]["batch_size"] = 65
    assert rows.experiment(other) != rows.experiment(table)


WRONG = {
    "unknown key statment. Did you mean 'statement'": lambda t: t.update(statment="x"),
    "needs is missing.": lambda t: t.pop("needs"),
    "paper.steps is missing.": lambda t: t["paper"].pop("steps"),
    "treatment 'newer' is no arm. Did you mean 'new'": lambda t: t.update(treatment="newer"),
    "baseline 'elder' is no arm. Did you mean 'old'": lambda t: t.update(baselines=["elder"]),
    "baselines is empty; add an arm that 'new' is compared with.": lambda t: t["arms"].pop("old"),
    "arms has no arm; name at least a treatment and a baseline.": lambda t: t.update(arms={}),
    "measure names an unknown function 'evaluation_returns'. Did you mean 'evaluation_return'": lambda t: t.update(
        measure="evaluation_returns"
    ),
    "measure names played:jump, and forage.studies.claims.played has no function 'jump'": lambda t: t.update(
        measure="played:jump"
    ),
    "measure names nowhere:jump, and there is no module nowhere in forage.studies.claims": lambda t: t.update(
        measure="nowhere:jump"
    ),
    "also.measured is missing.": lambda t: t.update(also=[{"measure": "area"}]),
    "unknown key rule.margn. Did you mean 'margin'": lambda t: t.update(rule={"margn": 1}),
    "laptop.seeds has to be a range such as '1000-1009' or a list of numbers.": lambda t: t["laptop"].update(
        seeds="few"
    ),
    "paper.arms has 'newest', which is no arm. Did you mean 'new'": lambda t: t["paper"].update(arms={"newest": {}}),
    "unknown key arms.\"old\".rewads. Did you mean 'rewards'": lambda t: t["arms"]["old"].update(rewads=1),
    "arms.\"old\" has an unknown agent 'sacc'. Did you mean": lambda t: t["arms"]["old"].update(agent="sacc"),
    'unknown key arms."old".before.stpes': lambda t: t["arms"]["old"].update(before={"stpes": 1}),
    "laptop has to be a table, not 5.": lambda t: t.update(laptop=5),
    "statement has to be text, not 5.": lambda t: t.update(statement=5),
    "environment has to be an id or a call, not 3.": lambda t: t.update(environment=3),
}
LATE = {
    "rewards: scale has no option 'facter'. Did you mean 'factor'": {"part": "scale", "facter": 1},
    "rewards names an unknown part 'scalee'. Did you mean": {"part": "scalee"},
    "rewards calls late with wrong arguments: missing a required argument: 'name'.": {"call": "late", "nme": "loss"},
    "rewards.repeat has to be a list of pairs": {"repeat": [1]},
}


@pytest.mark.parametrize("said", WRONG)
def test_a_wrong_key_is_named_with_file_and_claim(table, said):
    WRONG[said](table)
    with pytest.raises(ForageError) as error:
        building.build_claim(row(table))
    assert str(error.value).startswith(f"theme.toml, claim swing: {said}"), str(error.value)


@pytest.mark.parametrize("said", LATE)
def test_a_wrong_value_of_an_arm_is_named_when_it_is_trained(table, said):
    table["arms"]["old"]["rewards"] = LATE[said]
    claim = building.build_claim(row(table))
    with pytest.raises(ForageError) as error:
        claim.arms["old"].parts()
    assert str(error.value).startswith(f'theme.toml, claim swing: arms."old".{said}'), str(error.value)


def test_a_named_value_that_is_not_there():
    table = rows.parse_rows(ROW.replace('{named = "file"}', '{named = "fil"}'))["swing"]
    with pytest.raises(
        ForageError, match=r"theme.toml, claim swing: there is no value named 'fil'. Did you mean 'file'"
    ):
        building.build_claim(row(table))


def test_claims_of_packages(tmp_path, monkeypatch):
    """The first package has the name, a broken file costs a sentence, and parts have the claims that list them."""
    for number, text in enumerate((ROW + "\n[third]\nparts = ['swing', 'pair']\nstatement = 'Third.'\n", ROW), 1):
        folder = tmp_path / f"package_of_claims_{number}"
        folder.mkdir()
        (folder / "__init__.py").touch()
        (folder / "theme.toml").write_text(text)
    (tmp_path / "package_of_claims_2" / "worse.toml").write_text("[swing\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(rows, "folders", lambda: ["package_of_claims_1", "package_of_claims_2"])
    rows.find_rows.cache_clear()
    try:
        with pytest.warns(UserWarning, match=r"The claims of .*worse.toml are left out: "):
            assert claims.names() == ["swing", "third"]
        assert claims.claim_row("swing").package == "package_of_claims_1"
        assert list(claims.of_part("swing")) == ["swing", "third"] and claims.of_part("pair") == {"third": "Third."}
        assert claims.statement("third") == "Third."
        with pytest.raises(ForageError, match=r"Unknown claim 'swng'. Did you mean 'swing'"):
            claims.claim_row("swng")
    finally:
        rows.find_rows.cache_clear()


def test_text_that_is_no_table():
    with pytest.raises(tomllib.TOMLDecodeError):
        rows.parse_rows("[swing\n")
    assert rows.parse_rows("top = 1\n" + ROW).keys() == {"swing"}
    assert rows.seeds_of("4000-4002", ()) == (4000, 4001, 4002) and rows.seeds_of(None, (1,)) == (1,)
    assert callable(area)
