"""Presets of papers: each can be built, as the core's can (`test_presets`)."""

from test_presets import check_presets

from forage_papers.presets import PRESETS

PAIRS = [
    ("stream-q", "CartPole-v1"),
    *(("o-dice", f"gymnasium:{name}-v5") for name in ("HalfCheetah", "Hopper", "Walker2d")),
    ("sac-rnd", "gymnasium:HalfCheetah-v5"),
]


def test_every_preset_is_somebodys_and_can_be_built():
    check_presets(PAIRS, PRESETS)
