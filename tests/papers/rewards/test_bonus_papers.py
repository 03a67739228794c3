"""Bonuses of papers ignore agents that have left, as the core's do (`test_bonus`)."""

import pytest
import test_bonus as core
from test_bonus import SMALL
from tiers import repeat

from forage_papers.rewards.bonuses.disagreement import Disagreement
from forage_papers.rewards.bonuses.e3b import E3B
from forage_papers.rewards.bonuses.episodic_novelty import EpisodicNovelty

LEARNING = {
    "disagreement": Disagreement(learning_rate=1e-2, **SMALL),
    "e3b": E3B(learning_rate=1e-2, head_size=8, **SMALL),
    "episodic-novelty": EpisodicNovelty(learning_rate=1e-2, head_size=8, lifelong_size=8, memory_size=20, **SMALL),
}
core.LEARNING |= LEARNING
test_nothing_is_learned_from_agents_that_have_left = pytest.mark.thorough(
    repeat(core.test_nothing_is_learned_from_agents_that_have_left, LEARNING)
)
