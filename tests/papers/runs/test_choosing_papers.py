"""Agents of papers say whether they learn to draw (`test_choosing`)."""

from test_choosing import drawing

import forage_papers


def test_agents_say_whether_they_learn_to_draw():
    policy_gradients = {"ppo-lagrangian", "ppo-imitation", "residual-ppo", "mdpo", "stream-ac", "rpi", "ppg"}
    soft = {"sac-rnd", "maxinfo-sac", "adaptive-ratio-sac", "mdpo-off", "ro2o", "h2o", "residual-sac", "sac-flow"}
    soft |= {"droq", "sac-n", "edac", "iq-learn-sac", "rlpd", "wsrl", "simba", "simba-v2", "bro"}
    found, silent = drawing(forage_papers.PARTS["agent"])
    assert found == policy_gradients | soft | {"varl", "iq-learn", "f-dvl", "o-dice", "recoil"}
    assert silent == {"language-es"}
