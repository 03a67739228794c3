"""Options of an agent among those of a run, whole numbers in Python, and names from other libraries."""

import numpy as np
import pytest

from forage.config import options, part_options, registry
from forage.config.resolve import resolve
from forage.core import elsewhere
from forage.core.errors import ForageError, nearest


def test_options_of_the_agent_beside_those_of_the_run():
    beside = resolve("ppo", "CartPole-v1", steps="10k", learning_rate=1e-3, clip=0.1)
    within = resolve("ppo", "CartPole-v1", steps=10_000, agent_options={"learning_rate": 1e-3, "clip": 0.1})
    assert beside.config() == within.config() and beside.agent.learning_rate == 1e-3
    suggested = resolve(None, "CartPole-v1", steps=1e4, agent_options={"clip": 0.1}, learning_rate=1e-3)
    assert suggested.agent == within.agent


@pytest.mark.parametrize("value", [500_000, 5e5, "500k", "5e5", np.int64(500_000)])
def test_whole_numbers_in_python(value):
    found = options.whole("steps", value)
    assert found == 500_000 and type(found) is int


@pytest.mark.parametrize("value", ["many", 1.5, "1.5", [5], None, float("nan"), float("inf")])
def test_what_is_no_whole_number(value):
    with pytest.raises(ForageError, match="steps is a whole number such as 500_000 or '500k', not "):
        options.whole("steps", value)


@pytest.mark.thorough
def test_names_of_other_libraries_lead_somewhere():
    known = {"quiet", "plain", "trials", "memory.capacity", *options.ARGUMENTS, *options.WORDS}
    for name in registry.parts("agent"):
        known |= {field.name for field in part_options.fields(registry.part_class("agent", name))}
    for ours in elsewhere.NAMES:
        assert set(ours) <= known, ours
    theirs = [name for names in elsewhere.NAMES.values() for name in names]
    assert len(set(theirs)) == len(theirs) and not set(theirs) & set(options.ARGUMENTS)


def test_a_name_of_another_library_goes_before_what_looks_alike():
    assert nearest("n-steps", ["n-step", "rollout-length", "steps"]) == ". Did you mean 'rollout-length' or 'n-step'?"
    assert nearest("gamma", ["discount", "gamble"]) == ". Did you mean 'discount'?"
    assert nearest("gamma", ["gamble"]) == ". Did you mean 'gamble'?"
