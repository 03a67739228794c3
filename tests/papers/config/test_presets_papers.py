"""Presets of papers: each can be built, as the core's can (`test_presets`)."""

from test_presets import check_presets, largest_replay, make_one

from forage_papers.presets import PRESETS

WALKERS = ("HalfCheetah", "Hopper", "Walker2d")
SUITE = ("CartpoleSwingup", "CheetahRun", "FingerSpin", "ReacherHard", "WalkerWalk")
PAIRS = [
    ("stream-q", "CartPole-v1"),
    *(("o-dice", f"gymnasium:{name}-v5") for name in WALKERS),
    ("sac-rnd", "gymnasium:HalfCheetah-v5"),
    *((name, f"gymnasium:{where}-v5") for name in ("simba", "bro", "mr-q") for where in (*WALKERS, "Ant", "Humanoid")),
    *(("simba", f"envpool:{where}-v1") for where in SUITE),
    *(("edac", f"gymnasium:{where}-v5") for where in WALKERS),
]


def test_every_preset_is_somebodys_and_can_be_built():
    check_presets(PAIRS, PRESETS)


def test_replays_fit_into_a_laptop_and_updates_are_those_of_the_papers():
    online = [pair for pair in PAIRS if pair[0] in ("simba", "bro", "mr-q")]
    assert max(largest_replay(online).values()) < 9e9
    for name, environment in online:
        agent = make_one(name, environment)[0]
        updates = agent.updates_per_rollout / (agent.num_envs * agent.rollout_length)
        assert updates == (10.0 if name == "bro" else 1.0), (name, environment)
