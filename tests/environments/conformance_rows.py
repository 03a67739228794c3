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
        "craftax:Craftax-Classic-Symbolic-v1",
        "craftax",
        "Craftax",
        "max_timesteps",
        within=600,
        wrong_option="day_len",
        tolerance=1e-5,
    ),
    Row(
        "craftax:Craftax-Symbolic-v1",
        "craftax",
        "Craftax",
        "max_timesteps",
        within=800,
        wrong_option="god_mod",
        tolerance=1e-5,
        slow=True,
    ),
    Row(
        "brax:inverted_pendulum",
        "brax",
        "Brax",
        "episode_length",
        act=lambda t: [1.0],
        wrong_option="bakend",
        tolerance=1e-5,
        within=100,
        drawn=None,
    ),
    Row(
        "brax:reacher",
        "brax",
        "Brax",
        "episode_length",
        terminates="never ends by itself",
        wrong_option="gravty",
        tolerance=1e-5,
        drawn=None,
    ),
    Row("jumanji:Snake-v1", "jumanji", "Jumanji", "time_limit", act=lambda t: 0, wrong_option="time_limt"),
    Row("jumanji:BinPack-v2", "jumanji", "Jumanji"),
    Row("jumanji:Cleaner-v0", "jumanji", "Jumanji", "time_limit", act=lambda t: [0, 0, 0]),
    Row("jumanji:Connector-v3", "jumanji", "Jumanji", "time_limit", within=60),
    Row(
        "jumanji:RubiksCube-partly-scrambled-v0", "jumanji", "Jumanji", "time_limit", terminates="not solved by chance"
    ),
    Row("navix:Navix-Empty-5x5-v0", "navix", "Navix", "max_steps", act=lambda t: (2, 2, 1, 2, 2)[t % 5]),
    Row("xland:MiniGrid-Empty-5x5", "xminigrid", "XLand", "max_steps", act=lambda t: (0, 0, 1, 0, 0)[t % 5]),
    Row("xland:XLand-MiniGrid-R1-9x9", "xminigrid", "XLand", "max_steps", terminates="not reached by chance"),
    Row(
        "playground:CartpoleBalance",
        "mujoco_playground",
        "Playground",
        "episode_length",
        terminates="never ends by itself",
        tolerance=1e-5,
        drawn=None,
        slow=True,
    ),
]
