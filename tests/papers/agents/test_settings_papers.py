"""Rows of named settings of papers, with the core's tests (`test_settings`)."""

import test_settings as core
from tiers import repeat

from forage.config import part_options, registry
from forage.config.help import declared
from forage.config.help.describing import docstrings
from forage_papers.agents.settings import SETTINGS

MODULE = "forage_papers.agents.settings"
core.ROWS |= SETTINGS
core.NAMES |= {name: registry.name_of_target(f"{MODULE}:{name}") for name in SETTINGS}
test_a_row_is_its_part_with_other_defaults = repeat(core.test_a_row_is_its_part_with_other_defaults, SETTINGS)
test_a_row_has_words_a_source_and_a_page = repeat(core.test_a_row_has_words_a_source_and_a_page, SETTINGS)


def test_help_reads_rows():
    """Without importing the parts."""
    assert declared.summary(f"{MODULE}:SACN") == "SAC with ten critics (SAC-N), for learning from data."
    known = {field.name: field.help for field in part_options.fields(registry.part_class("agent", "edac"))}
    assert declared.meanings(f"{MODULE}:EDAC") == known
    assert declared.meanings(f"{MODULE}:WSRL")["learning_starts"].startswith("steps of the warm-up")


def test_the_behaviour_that_a_row_changes_is_shown():
    cls = registry.part_class("agent", "remax")
    assert docstrings(cls).endswith("--kl-placement reward-token --behaviour greedy-first-sample.")
