"""Networks and optimisers that agents of papers refuse, as the core's do (`test_own_networks`)."""

import test_own_networks as core
from tiers import repeat

test_what_cannot_be_is_said_before_anything_begins = repeat(
    core.test_what_cannot_be_is_said_before_anything_begins,
    [("langevin-dqn", {"optimiser": "sgd"}, "an optimiser itself")],
)
