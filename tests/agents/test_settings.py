"""Named settings: each row is its part with other defaults, and its class is like any other."""

import dataclasses
import importlib
import pickle
import re
import subprocess
import sys

import pytest

from forage.agents.settings import SETTINGS
from forage.config import part_data, part_options, registry
from forage.config.help import declared
from forage.config.help.describing import docstrings
from forage.core.settings import class_of, setting

NAMES = {name: registry.name_of_target(f"forage.agents.settings:{name}") for name in SETTINGS}
ROWS = dict(SETTINGS)
"""Rows by class. Tests of a package of parts extend both tables."""


@pytest.mark.parametrize("name", SETTINGS)
def test_a_row_is_its_part_with_other_defaults(name):
    row, cls = ROWS[name], registry.part_class("agent", NAMES[name])
    base = registry.load(row.base)
    assert issubclass(cls, base) and pickle.loads(pickle.dumps(cls)) is cls is registry.load(f"{cls.__module__}:{name}")
    theirs, ours = ({field.name: field for field in dataclasses.fields(one)} for one in (base, cls))
    assert ours.keys() == theirs.keys()
    assert {one for one in ours if ours[one].default != theirs[one].default} == row.defaults.keys() & ours.keys()
    for one in ours:
        assert ours[one].default == row.defaults.get(one, theirs[one].default), one
        assert ours[one].metadata == theirs[one].metadata, f"{one} is not static alike"
    assert all(getattr(cls, one) == value for one, value in row.defaults.items())
    assert not [one for one, value in vars(cls).items() if callable(value) and not one.startswith("__")]


@pytest.mark.parametrize("name", SETTINGS)
def test_a_row_has_words_a_source_and_a_page(name):
    row, cls = ROWS[name], registry.part_class("agent", NAMES[name])
    assert row.summary.endswith(".") and re.search(r"\(20\d\d\), \".+\", arXiv \d{4}\.\d{5}$", row.source)
    assert f" {NAMES[name]} " in row.example
    assert cls.__doc__.startswith(f"{row.summary}\n\n{row.source}.")
    shown = docstrings(cls)
    options = [option for option in row.defaults if option in {field.name for field in part_options.fields(cls)}]
    assert options and all(f"--{option.replace('_', '-')} " in shown for option in options)
    said = {field.name: field.help for field in part_options.fields(cls)}
    assert all(said[option] == meaning for option, meaning in row.meanings.items()) and all(said.values())


def test_the_options_that_a_row_changes_are_shown():
    cls = registry.part_class("agent", "ddpg")
    said = docstrings(cls)
    assert said.endswith("\n\nIt is td3 with --target-noise 0.0 --policy-delay 1 --critics 1.")


def test_help_reads_rows():
    """Without importing the parts, also for a class that builds on a row."""
    summary = "Deep deterministic policy gradient (DDPG): TD3 with one critic, no delay and no smoothing."
    assert declared.summary("forage.agents.settings:DDPG") == summary
    meanings = declared.meanings("forage.agents.settings:REDQ")
    known = {field.name: field.help for field in part_options.fields(registry.part_class("agent", "redq"))}
    assert meanings == known
    assert declared.meanings("forage.agents.settings:DDPG")["policy_delay"].startswith("critic updates for each")


def test_stored_agents_are_of_their_class():
    stored = {"part": "redq", "critics": 5, "policy_q": "mean", "target_subset": 2}
    agent = part_data.from_config(stored)
    assert type(agent).__name__ == "REDQ" and (agent.critics, agent.policy_delay) == (5, 20)
    assert part_data.to_config(agent) | stored == part_data.to_config(agent)


def test_a_part_is_imported_with_its_row_alone():
    code = "import sys, forage.agents.settings; print('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_rows_that_cannot_be():
    with pytest.raises(AttributeError, match=r"module 'forage\.agents\.settings' has no attribute 'SAC2'"):
        importlib.import_module("forage.agents.settings").SAC2  # noqa: B018
    table = {"Wrong": setting("forage.agents.actor_critic.sac:SAC", summary="", source="", example="", critic=3)}
    with pytest.raises(TypeError, match="Wrong sets critic, and SAC has no such option"):
        class_of(__name__, table, "Wrong")
