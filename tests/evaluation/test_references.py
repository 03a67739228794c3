"""Reference scores: entries as papers print them, names however they are written, sums that a slip would change."""

from __future__ import annotations

import math

import numpy as np
import pytest

from forage.core.types import ForageError
from forage.evaluation.references import ATARI, D4RL, expert_normalised, human_normalised, min_max_normalised


def test_tables_are_whole():
    assert len(ATARI) == 57
    assert len(D4RL) == 147
    for low, high in (*ATARI.values(), *D4RL.values()):
        assert math.isfinite(low)
        assert low < high


@pytest.mark.parametrize(
    ("game", "random", "human"),
    [
        ("Alien", 227.8, 7127.7),
        ("Pong", -20.7, 14.6),
        ("Skiing", -17098.1, -4336.9),
        ("VideoPinball", 16256.9, 17667.9),
    ],
)
def test_atari_by_hand(game, random, human):
    np.testing.assert_allclose(human_normalised([random, human, 2 * human - random], game), [0, 1, 2], atol=1e-12)


@pytest.mark.parametrize(
    "name",
    [
        "MsPacman",
        "ms_pacman",
        "ALE/MsPacman-v5",
        "gymnasium:ALE/MsPacman-v5",
        "MsPacmanNoFrameskip-v4",
        "MsPacman-ramDeterministic-v0",
        "mspacman",
    ],
)
def test_a_game_goes_by_any_name(name):
    assert human_normalised(6951.6, name) == 1


def test_a_name_for_each_task():
    scores = [[227.8, 14.6], [7127.7, -20.7]]
    np.testing.assert_allclose(human_normalised(scores, ["Alien", "Pong"]), [[0, 1], [1, 0]])


def test_d4rl_by_hand():
    # As the library's own get_normalized_score: (r - min) / (max - min), before papers multiply by 100.
    for dataset in ("halfcheetah-medium-v2", "halfcheetah-full-replay-v1", "HalfCheetah-Random-v0"):
        assert expert_normalised(12135.0, dataset) == 1
        assert expert_normalised(-280.178953, dataset) == 0
    assert expert_normalised(1.0, "antmaze-large-play-v2") == 1
    assert expert_normalised(2.0, "kitchen-mixed-v0") == 0.5
    assert expert_normalised(3076.8331017826877, "pen-human-v1") == 1
    # 3 of 4 tasks in the kitchen and a hopper at its expert's return.
    found = expert_normalised([[3.0, 3234.3]], ["kitchen-complete-v0", "hopper-medium-replay-v2"])
    np.testing.assert_allclose(found, [[0.75, 1]])


def test_min_max_by_hand():
    np.testing.assert_allclose(min_max_normalised([0.0, 5, 20], 0, 10), [0, 0.5, 2])
    np.testing.assert_allclose(min_max_normalised([[1.0, 5.0]], [0.0, 3.0], [2.0, 7.0]), [[0.5, 0.5]])
    assert np.isnan(min_max_normalised([np.nan], 0, 1)[0])  # a curve's NaN stays what it was


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: human_normalised(1.0, "Breakot"), "'Breakot'. Did you mean 'Breakout'"),
        (lambda: human_normalised(1.0, "ALE/Ponk-v5"), "Did you mean 'Pong'"),
        (lambda: expert_normalised(1.0, "halfcheetah-medium-v9"), "Did you mean 'halfcheetah-medium-v"),
        (lambda: human_normalised([[1.0, 2.0]], ["Pong"] * 3), "one for each task"),
        (lambda: human_normalised([[1.0, 2.0]], []), "one for each task"),
        (lambda: min_max_normalised([1.0], 1, 1), "finite high above it"),
        (lambda: min_max_normalised([1.0], 0, np.inf), "finite high above it"),
        (lambda: min_max_normalised(1.0, [0.0], 1), "one for each task"),
    ],
)
def test_what_has_no_reference_is_refused(call, message):
    with pytest.raises(ForageError, match=message):
        call()
