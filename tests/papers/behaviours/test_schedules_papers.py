"""Parts of papers take schedules as the core's do (`test_schedule`)."""

import test_schedule as core
from tiers import repeat

from forage.config import registry
from forage.config.values import takes_schedule

test_epsilon_itself = repeat(core.test_epsilon_itself, ["ez-greedy"])


def test_which_numbers_take_one():
    assert takes_schedule(registry.part_class("starts", "latent-go-explore"), "p")
