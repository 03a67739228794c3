"""Formulas of docstrings become MathML: names, scripts, brackets, and columns."""

import importlib.util
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from forage.config import registry
from forage.config.help.describing import docstrings

PATH = Path(__file__).parents[2] / "docs" / "make" / "formulas.py"
spec = importlib.util.spec_from_file_location("formulas", PATH)
assert spec and spec.loader
formulas = importlib.util.module_from_spec(spec)
spec.loader.exec_module(formulas)

OPEN, CLOSE = (f'<mo stretchy="false">{bracket}</mo>' for bracket in "()")
PRIME = '<mo lspace="0" rspace="0">\u2032</mo>'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Q'_i", f"<msub><mrow><mi>Q</mi>{PRIME}</mrow><mrow><mi>i</mi></mrow></msub>"),
        ("V_{t+1}", '<msub><mi>V</mi><mrow><mi>t</mi><mo stretchy="false">+</mo><mn>1</mn></mrow></msub>'),
        ("pi", "<mi>π</mi>"),
        ("value_coefficient", "<mtext>value_coefficient</mtext>"),
        ("min_j", "<msub><mtext>min</mtext><mrow><mi>j</mi></mrow></msub>"),
        ("sqrt(n)", "<msqrt><mi>n</mi></msqrt>"),
        ("x^2", "<msup><mi>x</mi><mrow><mn>2</mn></mrow></msup>"),
        ("(a)^2", f"{OPEN}<mi>a</mi><msup>{CLOSE}<mrow><mn>2</mn></mrow></msup>"),
        ("a <= b", '<mi>a</mi><mo stretchy="false">≤</mo><mi>b</mi>'),
        ("r A", '<mi>r</mi><mspace width="0.28em"/><mi>A</mi>'),
        ("pi(.|s)", f'<mi>π</mi>{OPEN}<mo stretchy="false">·</mo><mo stretchy="false">|</mo><mi>s</mi>{CLOSE}'),
    ],
)  # fmt: skip
def test_signs_and_names(text, shown):
    assert formulas.convert(text) == shown


def test_labels_stand_in_a_column():
    assert formulas.columns(["critics   a", "          b", "actor     c"]) == [
        ("critics", "a"),
        ("", "b"),
        ("actor", "c"),
    ]
    assert formulas.columns(["a + b  (c)"]) == [("", "a + b  (c)")]


@pytest.mark.thorough
def test_every_formula_keeps_its_letters_and_is_well_formed():
    """Of the core's agents, as they stand in docstrings."""
    for name, target in registry.PORTS["agent"].items():
        text = docstrings(registry.load(target))
        for block in (block for block in text.split("\n\n") if block.startswith("    ")):
            tree = ElementTree.fromstring(formulas.typeset(block))
            found = "".join(tree.itertext())
            letters = [letter for letter in re.sub("|".join(formulas.GREEK), "", block) if letter.isalnum()]
            missing = [letter for letter in set(letters) if letter not in found and letter not in "sqrt"]
            assert not missing, (name, block)
