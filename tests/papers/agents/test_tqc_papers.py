"""Truncated quantile critics of papers: refusals."""

import pytest

from forage.agents.actor_critic.sac import SAC
from forage.agents.actor_critic.tqc import TQC
from forage.core.types import ForageError
from forage_papers.agents.actor_critic.mex import MEX


@pytest.mark.parametrize(
    ("words", "make"),
    [
        ("leave bins or quantiles out", lambda: SAC(bins=11, quantiles=5)),
        ("leave target_subset or quantiles out", lambda: SAC(quantiles=5, target_subset=1)),
        ("To drop 5 of 5 quantiles leaves no target", lambda: TQC(quantiles=5, dropped_quantiles=5)),
        ("TQC's critics learn quantiles", lambda: TQC(quantiles=0, dropped_quantiles=0)),
        ("One critic by itself has no diversity", lambda: SAC(critics=1, diversity=1.0)),
        ("MEX has a loss of its own", lambda: MEX(quantiles=5)),
    ],
)
def test_what_is_refused(words, make):
    with pytest.raises(ForageError, match=words):
        make()
