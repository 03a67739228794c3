"""What is compared. A new adapter joins by a row here and a `Driver` in `conformance_libraries.py`."""

from __future__ import annotations

from conformance import Row

STEPS = "max_steps_in_episode"

ROWS: list[Row] = [
    Row("gymnax:CartPole-v1", "gymnax", "Gymnax", STEPS, act=lambda t: 1, wrong_option="lenght", tolerance=1e-6),
    Row("gymnax:Pendulum-v1", "gymnax", "Gymnax", STEPS, terminates="never ends by itself", tolerance=1e-6),
    Row("gymnax:Breakout-MinAtar", "gymnax", "Gymnax", STEPS),
    Row("gymnax:DeepSea-bsuite", "gymnax", "Gymnax", STEPS, drawn=False),
    Row("gymnax:FrozenLake-misc", "gymnax", "Gymnax", STEPS, wrong_option="is_slipery", drawn=False, cut=2),
    Row("gymnax:Catch-bsuite", "gymnax", "Gymnax", STEPS, wrong_option="colums"),
    Row(
        "craftax:Craftax-Classic-Symbolic-v1", "craftax", "Craftax", "max_timesteps", within=600, wrong_option="day_len"
    ),
    Row(
        "craftax:Craftax-Symbolic-v1",
        "craftax",
        "Craftax",
        "max_timesteps",
        within=800,
        wrong_option="god_mod",
        slow=("drawn",),
    ),
]
