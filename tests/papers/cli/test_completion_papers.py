"""Names of papers' parts and claims are completed, as the core's are (`test_completion`)."""

import test_completion as core
from tiers import repeat

test_candidates = repeat(
    core.test_candidates,
    [
        ("forage train p", {"ppo", "psrl"}),
        ("forage claim gae", {"gae-lambda"}),
        ("forage claim gae-lambda --scale ", {"laptop", "smoke", "paper"}),
    ],
)
