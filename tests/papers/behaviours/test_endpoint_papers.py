"""Agents of papers that cannot correct the sampler of an endpoint (`test_endpoint`)."""

import test_endpoint as core
from tiers import repeat

test_agents_that_cannot_correct_are_refused = repeat(
    core.test_agents_that_cannot_correct_are_refused,
    [("rover", {"correction": "token-mask"}, "no correction of the sampler is known for")],
)
