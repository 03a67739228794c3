"""Messages about an evaluation that takes long."""

import time
from types import SimpleNamespace

import pytest

from forage.runs import scoring
from forage.runs.scoring import said_if_long, what_is_played


def setup(horizon, actions="auto", stochastic=True):
    return SimpleNamespace(
        spec=SimpleNamespace(horizon=horizon),
        score_spec=SimpleNamespace(horizon=horizon, name="gymnasium:CliffWalking-v1"),
        name="gymnasium:CliffWalking-v1",
        evaluation_actions=actions,
        agent=SimpleNamespace(stochastic=stochastic),
    )


ENDLESS = (
    ". gymnasium:CliffWalking-v1 has no limit of steps, so an episode that does not end is cut after 27,000; --wrap "
    "time-limit:1000 sets a limit."
)
CHOICE = ", and as many before with each kind of action, to choose how to play"


@pytest.mark.parametrize(
    ("given", "episodes", "said"),
    [
        (setup(None), 10, f"Evaluating: 10 episodes of each seed{CHOICE}{ENDLESS}"),
        (setup(None, "greedy"), 1, f"Evaluating: 1 episode of each seed{ENDLESS}"),
        (setup(500, stochastic=False), 1000, "Evaluating: 1,000 episodes of each seed, of up to 500 steps."),
        (setup(1, stochastic=False), 100, "Evaluating: 100 episodes of each seed, of one step."),
    ],
)
def test_an_evaluation_says_what_it_plays(given, episodes, said):
    assert what_is_played(given, episodes) == said


def test_only_a_long_evaluation_says_so(monkeypatch):
    monkeypatch.setattr(scoring, "LONG", 0.02)
    said = []
    with said_if_long(said.append, setup(500), 2):
        pass
    time.sleep(0.1)
    assert said == []
    with said_if_long(said.append, setup(500), 2, scored=False):
        time.sleep(0.2)
    assert said == ["Evaluating: 2 episodes of each seed, of up to 500 steps."]
