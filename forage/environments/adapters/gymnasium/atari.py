"""The standard Atari preprocessing, on the Arcade Learning Environment itself."""

from __future__ import annotations

import importlib.util
from typing import Any, NamedTuple, cast

import gymnasium
import numpy as np
from jaxtyping import Float, Int, UInt8

from forage.core.host import LIFE_LOST
from forage.core.spaces import StackedBox
from forage.core.types import ForageError


class AtariPreprocessing(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An Atari game as agents see it: `uint8[size, size, stack]`, newest frame last.

    - Up to `noop_max` times no action after a reset, at least once, so that games differ.
    - Each action is repeated `frame_skip` times; the rewards are summed.
    - Sticky actions: each emulator frame keeps the last frame's action with `repeat_action_probability`, drawn here
      rather than in the emulator, which does not save the action that sticks.
    - The grey frame is the pixelwise maximum of the last two emulator frames (sprites flicker), area-averaged to
      `size` x `size`. OpenCV's `INTER_AREA` gives the same up to one grey level where rounding ties.
    - The last `stack` frames are the observation; a new episode starts with its first frame repeated.
    - `episodic_life`: losing a life terminates, and the next reset plays on with the lives that are left.
    - `clip_reward`: the reward's sign. Both change the task, and scores with it; they are off unless asked for. The
      rewards part `atari` does the same to what is learned alone, from the info `life_lost`.

    Source: Mnih et al. (2015), "Human-level control through deep reinforcement learning"; Machado et al. (2018),
    "Revisiting the Arcade Learning Environment" (arXiv 1709.06009), whose sticky actions are in the `-v5` ids.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        noop_max: int = 30,
        frame_skip: int = 4,
        size: int = 84,
        stack: int = 4,
        repeat_action_probability: float = 0.0,
        episodic_life: bool = False,
        clip_reward: bool = False,
    ):
        super().__init__(env)
        self.noop_max, self.frame_skip = noop_max, frame_skip
        self.repeat_action_probability = repeat_action_probability
        self.episodic_life, self.clip_reward = episodic_life, clip_reward
        height, width = self.ale.getScreenDims()
        self._rows, self._columns = area_taps(height, size), area_taps(width, size)
        self._screens = np.zeros((2, height, width), np.uint8)  # the last two emulator frames
        self._frames = np.zeros((size, size, stack), np.uint8)
        self._action: Any = 0  # what the emulator was last given
        self._lives = 0
        self._plays_on = False  # a life was lost but the game is not over
        self.observation_space = StackedBox(self._frames, np.full_like(self._frames, 255), np.uint8, stack)

    @property
    def ale(self) -> Any:
        """Return the emulator."""
        return self.env.unwrapped.ale  # pyrefly: ignore[missing-attribute]

    @property
    def map_shape(self) -> tuple[int] | None:
        """Return the number of rooms of the game; `None` if its RAM address of the room is unknown."""
        room = ROOMS.get(getattr(self.env.unwrapped, "_game", ""))
        return None if room is None else (room.count,)

    @property
    def map_position(self) -> int:
        """Return the room that the player is in, read from the emulator's memory. Agents do not see it."""
        room = ROOMS[self.env.unwrapped._game]  # pyrefly: ignore[missing-attribute]
        return int(self.ale.getRAM()[room.address])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        info: dict[str, Any] = {}
        over = True
        if self.episodic_life and self._plays_on and seed is None:
            _, _, terminated, truncated, info = self.env.step(0)
            over = terminated or truncated
        if over:
            _, info = self.env.reset(seed=seed, options=options)
            self._action = 0
            noops = int(self.env.unwrapped.np_random.integers(1, self.noop_max + 1)) if self.noop_max else 0
            for _ in range(noops):
                _, _, terminated, truncated, info = self.env.step(0)
                if terminated or truncated:
                    _, info = self.env.reset(options=options)
        self._lives, self._plays_on = self.ale.lives(), False
        self.ale.getScreenGrayscale(self._screens[0])
        self._screens[1] = self._screens[0]
        self._frames = np.repeat(self._frame()[..., None], self._frames.shape[-1], axis=-1)
        return self._frames, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        total, terminated, truncated, info = 0.0, False, False, {}
        sticky, random = self.repeat_action_probability, self.env.unwrapped.np_random
        for repeat in range(self.frame_skip):
            if not sticky or random.random() >= sticky:
                self._action = action
            _, reward, terminated, truncated, info = self.env.step(self._action)
            total += float(reward)
            over = terminated or truncated
            if over or repeat >= self.frame_skip - 2:
                # Where the game ends early, its last frame still shows.
                self.ale.getScreenGrayscale(self._screens[repeat % 2])
            if over:
                break
        lives = self.ale.lives()
        info[LIFE_LOST] = float(terminated or lives < self._lives)
        if self.episodic_life and lives < self._lives and not (terminated or truncated):
            terminated = self._plays_on = True
        self._lives = lives
        # A new array each time: whoever holds the last observation keeps it.
        self._frames = np.concatenate([self._frames[..., 1:], self._frame()[..., None]], axis=-1)
        return self._frames, float(np.sign(total)) if self.clip_reward else total, terminated, truncated, info

    def _frame(self) -> UInt8[np.ndarray, "size size"]:
        screen = self._screens.max(axis=0) if self.frame_skip > 1 else self._screens[0]
        shrunk = shrink(shrink(screen.astype(np.float32), self._rows).T, self._columns).T
        return np.rint(shrunk).astype(np.uint8)


class LifeLost(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A game that is not preprocessed, with `life_lost` in its info."""

    _lives = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._lives = info["lives"]
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        lost = float(terminated or info["lives"] < self._lives)
        self._lives = info["lives"]
        return observation, reward, terminated, truncated, info | {LIFE_LOST: lost}


class Room(NamedTuple):
    """The address of a game's room number, and the number of rooms."""

    address: int  # in the emulator's memory of 128 bytes
    count: int


ROOMS = {"montezuma_revenge": Room(3, 24)}
"""Source: Anand et al. (2019), "Unsupervised State Representation Learning in Atari", arXiv 1906.08226."""


def area_taps(size: int, target: int) -> tuple[Int[np.ndarray, "taps target"], Float[np.ndarray, "taps target 1"]]:
    """Return the source pixels of each target pixel and their weights, for area averaging along one axis.

    Target pixel `t` covers `[t r, (t + 1) r)` with `r = size / target`; its weights sum to one.
    """
    ratio = size / target
    begin = np.arange(target) * ratio
    count = int(np.ceil(ratio)) + 1
    source = np.floor(begin).astype(np.int64) + np.arange(count)[:, None]
    overlap = np.minimum(begin + ratio, source + 1) - np.maximum(begin, source)
    weight = np.clip(overlap, 0, None) * (source < size) / ratio
    return np.minimum(source, size - 1), weight.astype(np.float32)[..., None]


def shrink(
    image: Float[np.ndarray, "size other"], taps: tuple[np.ndarray, np.ndarray]
) -> Float[np.ndarray, "target other"]:
    """Area-averages the rows of an image. A few gathers: a matrix product would be mostly zeros."""
    index, weight = taps
    total = image[index[0]] * weight[0]
    for rows, share in zip(index[1:], weight[1:], strict=True):
        total += image[rows] * share
    return total


def make_atari(id: str, preprocess: bool = True, max_episode_steps: int | None = None, **options: Any) -> Any:
    """Make one Atari game (`ALE/Pong-v5`), preprocessed unless `preprocess` is false.

    Options are those of `AtariPreprocessing` (sticky actions as the id has them: 0.25 in `-v5`) and of the game
    (`full_action_space`, `difficulty`, `mode`, ...). `max_episode_steps` counts the agent's steps, not frames.
    """
    register()
    if not preprocess:
        return LifeLost(gymnasium.make(id, disable_env_checker=True, max_episode_steps=max_episode_steps, **options))
    own = {name: options.pop(name) for name in PREPROCESSING if name in options}
    own.setdefault("repeat_action_probability", gymnasium.spec(id).kwargs.get("repeat_action_probability", 0.0))
    if clash := {"frameskip", "obs_type"} & set(options):
        raise ForageError(
            f"{id} is preprocessed here and cannot take {sorted(clash)[0]}; use frame_skip, or preprocess=False."
        )
    # The smallest observation, because it is thrown away: frames are read from the emulator.
    env = gymnasium.make(
        id, disable_env_checker=True, frameskip=1, obs_type="ram", repeat_action_probability=0.0, **options
    )
    env = AtariPreprocessing(env, **own)
    return env if max_episode_steps is None else gymnasium.wrappers.TimeLimit(env, max_episode_steps)


PREPROCESSING = (
    "noop_max",
    "frame_skip",
    "size",
    "stack",
    "repeat_action_probability",
    "episodic_life",
    "clip_reward",
)


def register() -> None:
    """Register the `ALE/...` ids with Gymnasium. Raise `ForageError` if ale-py is missing."""
    try:
        import ale_py
    except ImportError as error:
        raise ForageError("Atari games need ale-py: pip install 'forage-rl[atari]'.") from error
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # no banner on every start
    gymnasium.register_envs(ale_py)


def is_atari(id: str) -> bool:
    """Return whether an id of Gymnasium's is an Atari game: `ALE/Pong-v5`, and the older `PongNoFrameskip-v4`."""
    if id.startswith("ALE/"):
        return True
    if id not in gymnasium.registry and importlib.util.find_spec("ale_py") is not None:
        register()
    spec = gymnasium.registry.get(id)
    return spec is not None and str(spec.entry_point).startswith("ale_py")


def frames_limit(env: gymnasium.Env[Any, Any]) -> int | None:
    """Most agent steps an episode of a game lasts, preprocessed or not, from the emulator's own limit on frames.

    None where there is none, and where the emulator draws how many frames a step takes.
    """
    layer, game = env, cast(Any, env.unwrapped)
    while isinstance(layer, gymnasium.Wrapper) and not isinstance(layer, AtariPreprocessing):
        layer = layer.env
    skip = layer.frame_skip if isinstance(layer, AtariPreprocessing) else game._frameskip
    frames = game.ale.getInt("max_num_frames_per_episode")
    return -(-frames // skip) if frames > 0 and isinstance(skip, int) else None
