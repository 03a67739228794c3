"""Every option of every part has a meaning, and every number among them a range."""

import typing

import pytest
from tiers import gate_cases

from forage.config import part_options, registry
from forage.config.part_options import MEANINGS
from forage.config.ranges import RANGES, check_ranges, range_of
from forage.core.ranges import Range
from forage.core.types import ForageError

PARTS = [(port, name) for port, table in registry.tables().items() for name in table]


def options_of(port, name):
    return part_options.fields(registry.part_class(port, name))


def is_number(kind):
    """Return whether an option holds a number, or several, or None in place of one."""
    inner = [kind for kind in typing.get_args(kind) if kind is not Ellipsis]
    return kind in (int, float) or any(map(is_number, inner))


@pytest.mark.parametrize(("port", "name"), PARTS)
def test_every_option_has_a_meaning(port, name):
    """Its sentence can be read alone: it begins with a noun, and does not continue the option's name."""
    for option in options_of(port, name):
        first, *more = option.help.split()
        assert more, f"{name} has no sentence of what {option.name} means; write it as a comment behind the field"
        assert first not in ("of", "or", "else", "likewise"), f"{option.name} of {name}: {option.help}"


def test_sources_are_read_for_meanings_alone(monkeypatch):
    def refuse(cls):
        raise AssertionError(f"the source of {cls.__name__} was read")

    monkeypatch.setattr(part_options, "field_comments", refuse)
    option = options_of("agent", "ppo")[0]
    with pytest.raises(AssertionError, match="was read"):
        _ = option.help


@pytest.mark.parametrize("name", registry.WRAPPERS)
def test_every_option_of_a_wrapper_has_a_meaning(name):
    for option in registry.wrapper_fields(registry.wrapper_class(name)):
        assert option.help.split()[1:], f"{name} has no sentence of what {option.name} means"


@pytest.mark.parametrize(("port", "name"), gate_cases(PARTS, PARTS[::5]))
def test_every_number_has_a_range(port, name):
    """Its default is in the range; so are the defaults of a part with required options."""
    cls = registry.part_class(port, name)
    for option in options_of(port, name):
        if is_number(option.type):
            assert range_of(cls, option.name), f"give {option.name} of {name} a range in {cls.__name__}.ranges"
    required = {option.name for option in options_of(port, name) if option.required}
    if not required:
        check_ranges(cls(), name)


@pytest.mark.thorough
def test_what_is_shared_is_used():
    """Meanings and ranges that all parts share are those of some part."""
    names = {option.name for part in PARTS for option in options_of(*part)}
    assert set(MEANINGS) <= names
    assert set(RANGES) <= names


@pytest.mark.parametrize(
    ("wanted", "words", "inside", "outside"),
    [
        (Range(), "a number", (-1e9, 0, float("inf")), (float("nan"),)),
        (Range(0), "0 or more", (0, 1e9), (-1e-9, float("nan"))),
        (Range(0, above=True), "above 0", (1e-9,), (0,)),
        (Range(0, 1), "from 0 to 1", (0, 1), (-0.1, 1.1)),
        (Range(0, 1, below=True), "from 0 to below 1", (0, 0.9), (1,)),
        (Range(0, 1, above=True, below=True), "above 0 and below 1", (0.5,), (0, 1)),
        (Range(high=2), "2 or less", (-5, 2), (3,)),
    ],
)
def test_ranges(wanted, words, inside, outside):
    assert wanted.words() == words
    assert all(map(wanted.fits, inside))
    assert not any(map(wanted.fits, outside))


def test_a_parts_own_range_goes_before_the_shared_one():
    cloning = registry.part_class("agent", "bc")
    assert range_of(cloning, "best") == Range(0, 1, above=True)
    assert range_of(cloning, "batch_size") == Range(1)
    assert range_of(cloning, "activation") is None
    with pytest.raises(ForageError, match=r"^initial-temperature of sac is above 0, not 0\.$"):
        check_ranges(registry.part_class("agent", "sac")(initial_temperature=0.0), "sac")
