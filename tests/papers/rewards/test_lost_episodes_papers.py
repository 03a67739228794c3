"""Rewards of papers treat a lost episode as a truncated one, as the core's do (`test_lost_episodes`)."""

import gymnasium
import pytest
import test_lost_episodes as core
from test_lost_episodes import SMALL
from tiers import gate_cases, repeat

import forage_papers
from forage.rewards.scaling import NormaliseReturn, Scale
from forage_papers.rewards.bonuses.counts import Counts
from forage_papers.rewards.bonuses.e3b import E3B
from forage_papers.rewards.bonuses.episodic_novelty import EpisodicNovelty
from forage_papers.rewards.shift import Shift

CASES = {
    "counts": lambda: Counts(episode_size=8),
    "e3b": lambda: E3B(**SMALL, schedule="balanced", inner=Scale(0.5, inner=NormaliseReturn(inner=Shift()))),
    "episodic-novelty": lambda: EpisodicNovelty(**SMALL, neighbours=2, memory_size=4, lifelong_size=3),
}
core.CASES |= CASES
core.SPACES["counts"] = gymnasium.spaces.Discrete(3)
test_a_lost_episode_is_as_one_truncated_at_the_newest_step = repeat(
    core.test_a_lost_episode_is_as_one_truncated_at_the_newest_step, gate_cases(CASES, ["e3b", "counts"])
)


@pytest.mark.thorough
def test_what_stands_within_hears_of_it():
    core.check_nesting(forage_papers.PARTS["rewards"].values(), {"shift"})
