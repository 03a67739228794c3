"""The command `forage claim`, and explanations of papers' parts (`test_cli`)."""

import ast
import json
import re

import pytest
import small
import test_cli as core
from tiers import repeat

from forage.config import registry
from forage.config.help import declared
from forage.studies.claims import of_part

small.keep_compiled()
test_show_says_formula_paper_options_and_example = repeat(
    core.test_show_says_formula_paper_options_and_example, ["pink"]
)


def test_parts_that_are_not_wholly_their_papers_are_marked(capsys):
    targets = {name: target for table in registry.tables().values() for name, target in table.items()}
    marked = {name for name, target in targets.items() if declared.own_choices(target)}
    assert marked >= {"grpo-lambda", "d3s", "egsw", "siri", "seele", "filtered", "refill", "gmpo", "gail"}
    assert not marked & {"grpo", "ppo", "sac", "entropy-shaped", "bapo"}  # the last two are neighbours in a module
    texts = {name: ast.get_docstring(declared.definition(*target.split(":")) or ast.parse("")) or ""
             for name, target in targets.items() if not declared.row_of_settings(target)}  # fmt: skip
    said = {name for name, text in texts.items() if re.search(r"\bours\b|choices made here", text)}
    assert said and said <= marked
    _, out, _ = small.run_command(capsys, "show", "grpo-lambda")
    assert "\nForage's, not the paper's: the share, the penalty's formula and its scale\n" in out


@pytest.mark.parametrize("name", ["rnd", "ppo", "pink", "prioritised"])
def test_show_names_the_claims(capsys, name):
    _, out, _ = small.run_command(capsys, "show", name)
    assert of_part(name) and all(f"\n       forage claim {claim}\n" in out for claim in of_part(name))


@pytest.mark.thorough
def test_claims(capsys, tmp_path):
    code, out, err = small.run_command(capsys, "claim")
    assert (code, err) == (0, "") and "gae-lambda" in out
    claim = ("claim", "ppo-epochs", "--scale", "smoke", "--directory", tmp_path / "claim")
    code, out, err = small.run_command(capsys, *claim, "--json")
    assert (code, err) == (0, "") and json.loads(out.splitlines()[-1])["claim"] == "ppo-epochs"
    notes = [json.loads(line).get("text", "") for line in out.splitlines()]
    assert any(text.startswith("ppo-epochs, arm 1 of ") for text in notes)
    code, out, _ = small.run_command(capsys, *claim)  # all of it lies there
    assert code == 0 and "at the scale smoke, 2 seeds of 4,096 steps" in out
    code, _, err = small.run_command(capsys, "claim", "gae-lambada")
    assert code == 2 and "Did you mean 'gae-lambda'" in err and err.count("\n") == 1
