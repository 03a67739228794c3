"""Environments of the development set whose packages need a word more than an id."""

from __future__ import annotations

import gymnasium


class DoorKey(gymnasium.Wrapper):
    """MiniGrid's DoorKey-5x5 without its text: 7 x 7 cells of three numbers each."""

    def __init__(self, render_mode: str | None = None):
        import minigrid  # noqa: F401
        from minigrid.wrappers import ImgObsWrapper

        super().__init__(ImgObsWrapper(gymnasium.make("MiniGrid-DoorKey-5x5-v0", render_mode=render_mode)))


class Breakout(gymnasium.Wrapper):
    """MinAtar's Breakout with the actions that have an effect."""

    def __init__(self, render_mode: str | None = None):
        import minatar.gym

        if "MinAtar/Breakout-v1" not in gymnasium.registry:
            minatar.gym.register_envs()
        super().__init__(gymnasium.make("MinAtar/Breakout-v1", render_mode=render_mode))
