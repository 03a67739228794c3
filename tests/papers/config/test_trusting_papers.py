"""Stored options of papers import no code of their maker's own (`test_trusting`)."""

import test_trusting as core
from tiers import repeat

config, evil, home = core.config, core.evil, core.home
PLACES = [
    (("behaviour",), {"part": "takeover", "person": "{evil}:Env"}),
    (("behaviour",), {"part": "takeover", "person": "evil:Env"}),
]
test_no_place_of_a_configuration_imports_code = repeat(core.test_no_place_of_a_configuration_imports_code, PLACES)
