"""Bad options of papers' parts cost one sentence, as those of the core's do (`test_bad_input`)."""

import pytest
import test_bad_input as core
from tiers import repeat

from forage.config import registry
from forage.config.ranges import Range, check_ranges, range_of
from forage.core.types import ForageError

COMMANDS = [
    ("train ppo CartPole-v1 --behaviour guide --behaviour.policy x", "cannot be given on the command line"),
    ("train maxinfo-sac Pendulum-v1 --initial-information 0", "initial-information of maxinfo-sac is above 0, not 0"),
    ("train ucbvi tabular:Chain-5 --failure 0", "failure of ucbvi is above 0 and below 1, not 0"),
    ("train ucbvi tabular:Chain-5 --failure 1", "failure of ucbvi is above 0 and below 1, not 1"),
    ("train maxent tabular:Chain-5 --step 5", r"step of maxent is from 0 to 1, not 5"),
    ("train psrl tabular:Chain-5 --sweep prior=1,-1", "prior of psrl is above 0, not -1"),
    ("claim gae", "Unknown claim 'gae'. Did you mean 'gae-lambda'"),
    ("claim gae-lambda --scale large", "not 'large'"),
    ("claim gae-lambda --skale smoke", "no option '--skale'. Did you mean '--scale'"),
    ("claim gae-lambda --scale", "--scale needs a value"),
    ("claim gae-lambda --steps 5", "forage claim has no option '--steps'"),
    ("train psrl tabular:Chain-5 --memory prioritised", "PSRL learns only from the rollout .* --memory rollout"),
]
test_one_sentence_and_code_2 = repeat(core.test_one_sentence_and_code_2, COMMANDS)


def test_a_parts_own_range_goes_before_the_shared_one():
    assert range_of(registry.part_class("rewards", "shift"), "shift") == Range()
    with pytest.raises(ForageError, match=r"^noise-variance of maxinfo-sac is above 0, not 0\.$"):
        check_ranges(registry.part_class("agent", "maxinfo-sac")(noise_variance=0.0), "maxinfo-sac")
