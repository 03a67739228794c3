"""Outlines of parts, read from source, give the same help as the classes themselves."""

import pytest

from forage.config import part_options, registry
from forage.config.help import outlines
from forage.config.help.describing import docstrings, option_lines, own_lines
from forage.config.values import takes_schedule

PARTS = [target for table in registry.tables().values() for target in table.values()]
FEW = [registry.target_of("agent", name) for name in ("ppo", "sac", "redq")]
FEW += [registry.target_of("rewards", "rnd"), registry.target_of("memory", "dataset")]


def describe(cls):
    """Return the help about a class, piece by piece."""
    return {
        "options": list(option_lines(cls)),
        "needs": part_options.needs_words(cls),
        "schedules": [field.name for field in part_options.fields(cls) if takes_schedule(cls, field.name)],
        "words": docstrings(cls),
        "example": vars(cls).get("example"),
        "own": own_lines(cls),
        "ports": [base.__name__ for base in cls.__mro__ if base.__module__.startswith("forage.core.ports.")],
    }


@pytest.mark.parametrize("targets", [FEW, pytest.param(PARTS, marks=pytest.mark.thorough)], ids=["few", "all"])
def test_outlines_say_what_classes_say(targets):
    found = {target: outlines.outline(target) for target in targets}
    assert not [target for target, outline in found.items() if outline is None]
    assert not [target for target, outline in found.items() if describe(outline) != describe(registry.load(target))]


def test_a_class_that_computes_its_options_has_no_outline(monkeypatch):
    text = (
        "def size():\n    return 3\n\nclass Odd:\n    number: int = size()\n\nclass Plain:\n    number: int = 2 + 1\n"
    )
    monkeypatch.setattr(outlines.declared, "source", lambda module: text if module == "forage.odd" else "")
    assert outlines.outline("forage.odd:Odd") is None
    assert outlines.outline("forage.odd:Plain").number.default == 3
