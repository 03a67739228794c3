"""Agents of papers learn with the options of the shared kits or refuse them, as the core's do (`test_kit_options`)."""

import test_kit_options as core
from tiers import gate_cases, repeat

import forage_papers

CASES = [(name, options) for name in core.kinds(forage_papers.PARTS["agent"]) for options in core.OPTIONS]
test_an_option_is_learned_with_or_refused = repeat(
    core.test_an_option_is_learned_with_or_refused, gate_cases(CASES, [("i-dqn", core.OPTIONS[0])])
)
