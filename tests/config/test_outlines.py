"""Outlines of parts, read from source, give the same help as the classes themselves."""

import pytest

from forage.config import part_options, registry
from forage.config.defaults import usual_parts
from forage.config.help import describing, outlines
from forage.config.help.describing import docstrings, option_lines, own_lines
from forage.config.values import takes_schedule
from forage.environments.catalogue import NATIVE

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


@pytest.mark.thorough
def test_environments_agents_and_wrappers_have_the_same_help_without_an_import(monkeypatch):
    ids = [name for name in NATIVE if name != "DeepSea-N"] + ["DeepSea-20"]
    read = {name: list(describing.environment_lines(name)) for name in ids if describing.native_options(name)}
    assert len(read) >= 70 and "CartPole-v0" in read
    monkeypatch.setattr(describing, "native_options", lambda name: None)
    assert read == {name: list(describing.environment_lines(name)) for name in read}
    for name in registry.parts("agent"):
        usual = usual_parts(registry.part_class("agent", name)())
        assert describing.usual_names(name) == {port: registry.part_name(part) for port, part in usual.items()}
    for target in registry.WRAPPERS.values():
        both = outlines.outline(target), registry.load(target)
        described = [repr((registry.wrapper_fields(cls), describe(cls))) for cls in both]
        assert described[0] == described[1]


def test_the_fields_that_a_class_computes_are_not_read():
    assert describing.native_options("grid:Empty-5x5") is None  # max_steps
    assert ("max_steps", 200) in [found[:2] for found in describing.native_options("cartpole-V0")]


def test_a_class_that_computes_its_options_has_no_outline(monkeypatch):
    text = (
        "def size():\n    return 3\n\nclass Odd:\n    number: int = size()\n\nclass Plain:\n    number: int = 2 + 1\n"
    )
    monkeypatch.setattr(outlines.declared, "source", lambda module: text if module == "forage.odd" else "")
    assert outlines.outline("forage.odd:Odd") is None
    assert outlines.outline("forage.odd:Plain").number.default == 3
