"""Atari games in ale-py's own vector environment: `ale:Pong`. Emulators in C++ threads, all of them at once."""

from __future__ import annotations

import difflib
import inspect
import math
from typing import Any

import numpy as np
from jaxtyping import PyTree, UInt8

from forage.core.errors import did_you_mean
from forage.core.host import LIFE_LOST, HostEnvironment, HostStep
from forage.core.spaces import StackedBox
from forage.core.types import ForageError, Step


class ALEEnvironment(HostEnvironment):
    """`num_envs` copies of one game, as ale-py's `AtariVectorEnv` steps and prepares them.

    `options` are that class's own, with its defaults, but that `reward_clipping` is off: scores are then of the game.

    - Observations: the last `stack_num` frames with the newest last, `uint8[84, 84, 4]`. Before a game's first frame
      they are black. Frames in colour stand side by side, three channels each.
    - A game that ends begins anew in the same step. `life_loss_info` ends an episode where a life is lost and plays on,
      and what is acted on next is what that step led to; `episodic_life` begins a new game there.
    - `Step.info` has `life_lost`.
    - Its state cannot be saved: `snapshot` is `None`.

    Game `i` is seeded with entry `i` of `seeds(seed, num_envs)`.
    """

    def __init__(self, target: str, num_envs: int, name: str | None = None, **options: Any):
        self._target = canonical(target)
        name = name or f"ale:{self._target}"
        check_options(name, options)
        given = {"reward_clipping": False, **options}
        self._games = load_vector().AtariVectorEnv(games()[self._target], num_envs, autoreset_mode="SameStep", **given)
        usual = {key: p.default for key, p in inspect.signature(type(self._games)).parameters.items()} | given
        self._skip, self._grey = usual["frameskip"], usual["grayscale"]
        self._action_dtype = np.float32 if usual["continuous"] else np.int32
        height, width, frames = usual["img_height"], usual["img_width"], usual["stack_num"]
        shape = (height, width, frames * (1 if self._grey else 3))
        limit = usual["max_num_frames_per_episode"]
        super().__init__(
            name,
            StackedBox(np.zeros(shape, np.uint8), np.full(shape, 255, np.uint8), np.uint8, frames),
            self._games.single_action_space,
            num_envs,
            math.ceil(limit / self._skip) if limit > 0 else None,
        )
        self._lives: np.ndarray | None = None
        self._newest: np.ndarray | None = None

    def _reset(self, seed: int) -> PyTree[np.ndarray]:
        observation, info = self._games.reset(seed=np.array(self.seeds(seed)))
        self._lives = info["lives"]
        self._newest = observation[0, -1]
        return self._channels_last(observation)

    def _send(self, action: PyTree[np.ndarray]) -> None:
        if self._lives is None:
            raise ForageError(f"{self.name} was stepped before its first reset; call reset(seed) first.")
        values = np.asarray(action, self._action_dtype)
        expected = (self.num_envs, *(self.action_space.shape or ()))
        if values.shape != expected:
            raise ForageError(f"{self.name} was sent actions of shape {list(values.shape)}; it takes {list(expected)}.")
        self._games.send(values)

    def _receive(self, action: PyTree[np.ndarray]) -> HostStep:
        seen, reward, terminated, truncated, info = self._games.recv()
        lives, before = info["lives"], self._lives
        assert before is not None
        truncated = truncated & ~terminated
        # A game that began anew has its first lives again; where one only went down the game goes on, and ale-py
        # (seen with 0.12.1) leaves its final_obs unwritten.
        anew = np.flatnonzero((terminated & (lives >= before)) | truncated)
        observation = following = self._channels_last(seen)
        if len(anew):
            observation = following.copy()
            observation[anew] = self._channels_last(info["final_obs"][anew])
        lost = ((lives < before) | terminated).astype(np.float32)
        self._lives, self._newest = lives, seen[0, -1]
        step = Step(observation, reward.astype(np.float32), terminated, truncated, {LIFE_LOST: lost})
        return HostStep(step, following)

    def _channels_last(self, observation: np.ndarray) -> UInt8[np.ndarray, "env height width channels"]:
        """Copy the frames: side by side at the end, the oldest first."""
        env, frames, height, width = observation.shape[:4]
        copied = np.empty((env, height, width, frames, *observation.shape[4:]), np.uint8)
        for frame in range(frames):
            copied[:, :, :, frame] = observation[:, frame]
        return copied.reshape(env, height, width, -1)

    @property
    def info_names(self) -> tuple[str, ...]:
        return (LIFE_LOST,)

    @property
    def info_seen(self) -> tuple[str, ...]:
        return (LIFE_LOST,)

    @property
    def frames_per_second(self) -> float:
        return 60 / self._skip

    def _render(self) -> UInt8[np.ndarray, "height width 3"]:
        """Draw the agent's observation: the vector environment does not give out the emulator's own picture."""
        if self._newest is None:
            raise ForageError(f"{self.name} has nothing to draw before its first reset; call reset(seed) first.")
        picture = np.repeat(self._newest[..., None], 3, axis=-1) if self._grey else self._newest
        return picture.repeat(4, axis=0).repeat(4, axis=1)

    def close(self) -> None:
        self._games.close()


LEAST = dict.fromkeys(("img_height", "img_width", "stack_num", "frameskip", "max_num_frames_per_episode"), 1)
LEAST |= dict.fromkeys(("noop_max", "num_threads"), 0)
"""The least that whole numbers can be: ale-py looks at few of them, and fails at the others without a word."""

FIXED = {"game", "num_envs", "batch_size", "autoreset_mode"}
"""Options of ale-py that the adapter decides."""


def check_options(name: str, options: dict[str, Any]) -> None:
    """Raise `ForageError` for an option, or a number, that ale-py does not have."""
    parameters = inspect.signature(load_vector().AtariVectorEnv).parameters
    known = sorted(set(parameters) - FIXED)
    for option, value in options.items():
        if option not in known:
            hint = did_you_mean(difflib.get_close_matches(option, known, n=3, cutoff=0.4))
            raise ForageError(f"{name} has no option {option!r}" + (hint or f"; it has {', '.join(known)}."))
        truth, number = isinstance(value, bool), isinstance(value, int) and not isinstance(value, bool)
        if isinstance(parameters[option].default, bool) and not truth:
            raise ForageError(f"{name} takes as {option} true or false, not {value!r}.")
        if option in LEAST and not (number and value >= LEAST[option]):
            raise ForageError(f"{name} takes as {option} a whole number from {LEAST[option]} on, not {value!r}.")
        if option == "repeat_action_probability" and not (not truth and 0 <= value <= 1):
            raise ForageError(f"{name} takes as {option} a number from 0 to 1, not {value!r}.")
    if options.get("episodic_life") and options.get("life_loss_info"):
        raise ForageError(
            f"{name} begins a new game where a life is lost (episodic_life) or plays on there (life_loss_info); "
            f"choose one."
        )


def load_vector() -> Any:
    """Import ale-py's vector environment. Raise `ForageError` with the command that installs it if it is missing."""
    try:
        import ale_py
        from ale_py import vector_env
    except ImportError as error:
        raise ForageError("Atari games need ale-py 0.11 or newer: pip install 'forage-rl[atari]'.") from error
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # no banner on every start
    return vector_env


def games() -> dict[str, str]:
    """Return every game by its name, `MsPacman`, with ale-py's word for it, `ms_pacman`."""
    load_vector()
    from ale_py import registration, roms

    return {registration.rom_id_to_name(rom): rom for rom in sorted(roms.get_all_rom_ids())}


def ids() -> dict[str, str]:
    """Return every game with a line of description."""
    return {name: f"Atari's {name}, in ale-py's vector environment." for name in games()}


def canonical(target: str) -> str:
    """Return a game's name (`MsPacman` for `ms_pacman`). Raise `ForageError` with the nearest names if unknown."""
    known = games()
    spelled = {word.lower(): name for name, rom in known.items() for word in (name, rom)}
    if target.lower() in spelled:
        return spelled[target.lower()]
    bare = target.lower().removeprefix("ale/").partition("-")[0].removesuffix("noframeskip")
    near = [f"ale:{spelled[word]}" for word in difflib.get_close_matches(bare, spelled, n=3, cutoff=0.6)]
    hint = did_you_mean(list(dict.fromkeys(near))) or "; forage list environments shows all."
    raise ForageError(f"ale-py has no game {target!r}{hint}")
