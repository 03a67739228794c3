"""Adaptive replay ratio: the settling of critics by hand, and the number of updates after a rollout."""

import jax.numpy as jnp
import numpy as np
import pytest
from agent_rows import AGENTS

from forage.config.resolve import resolve
from forage.core.types import ForageError
from forage_papers.agents.actor_critic.adaptive_ratio_sac import Activity, AdaptiveRatioSAC


def test_activity_has_settled_when_its_mean_stands_still_between_two_checks():
    agent = AdaptiveRatioSAC(check_interval=4, window=2, gap=0.01)
    shares = [0.9, 0.1, 0.5, 0.7, 0.0, 0.0, 0.7, 0.4, 1.0, 1.0, 0.5, 0.6, 0.0, 0.0, 0.0, 0.0]
    # Means at checks: 0.6 beside the first share, 0.9; 0.55; 0.55, which settles it; 0.
    activity, found = Activity(jnp.float32(0), jnp.float32(0), jnp.bool_(False)), []
    for number, share in enumerate(shares):
        activity = agent.add_batch(activity, jnp.float32(share), jnp.int32(number))
        found.append(bool(activity.settled))
        if number == 3:
            assert float(activity.last) == pytest.approx(0.6) and float(activity.total) == 0
    assert found == [False] * 11 + [True] * 5  # once settled it stays so
    assert float(activity.last) == 0.0


@pytest.mark.thorough
def test_there_are_few_updates_until_then_and_many_from_then_on():
    name, environment, options = AGENTS["adaptive-ratio-sac"]
    setup = resolve(name, environment, steps=480, seeds=[3, 7], agent_options=options)
    runner = setup.runner()
    runner.begin()
    made, before = [], np.zeros(2, int)
    for _ in range(30):
        settled = np.asarray(runner.state.learner.agent.activity.settled)
        runner.advance(1)
        updates = np.asarray(runner.state.learner.agent.updates)
        made.append((updates - before, settled))
        before = updates
    learning = [row for row in made if row[0].any()]
    assert len(learning) > 20
    for updates, settled in learning:
        assert updates.tolist() == [4 if is_settled else 1 for is_settled in settled]
    assert {bool(x) for _, settled in learning for x in settled} == {False, True}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"low_updates": 5}, "low_updates of AdaptiveRatioSAC is at most updates_per_rollout"),
        ({"window": 7, "check_interval": 6}, "window of AdaptiveRatioSAC is at most check_interval"),
    ],
)
def test_what_cannot_be(options, words):
    with pytest.raises(ForageError, match=words):
        AdaptiveRatioSAC(**options)
