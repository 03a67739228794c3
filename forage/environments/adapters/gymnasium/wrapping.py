"""Named wrappers around one Gymnasium environment: Gymnasium's own, and our additions to them.

Names, options and meaning are those of the native wrappers (`forage.environments.wrappers`); where a wrapper of
Gymnasium's differs in a number, the page says so. Random numbers come from a generator of each wrapper's own, seeded
with the environment: at strength 0 an episode is that of the bare environment.
"""

from __future__ import annotations

import collections
import copy
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import wrappers

from forage.core import spaces
from forage.core.columns.entries import LogView, log_view
from forage.core.errors import ForageError
from forage.core.plain import dumps
from forage.core.spaces import StackedBox, describe_space, resize_box
from forage.environments.adapters.gymnasium.atari import area_taps, shrink
from forage.environments.adapters.gymnasium.calls import reset_environment

Around = Sequence[tuple[str, Mapping[str, Any]]]
"""Wrappers by name with their options, the first innermost."""


class Chance(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A wrapper with its own random numbers, seeded at a reset."""

    def __init__(self, env: Any):
        super().__init__(env)
        self.chance = np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.chance = np.random.default_rng([seed, zlib.crc32(type(self).__name__.encode())])
        return reset_environment(self.env, seed)


class ActionRepeat(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Each action taken `repeats` times, the rewards added up, until the episode ends."""

    def __init__(self, env: Any, repeats: int):
        super().__init__(env)
        self.repeats = check_least("repeats", repeats, 1)
        if "render_fps" in env.metadata:
            self.metadata = {**env.metadata, "render_fps": env.metadata["render_fps"] / repeats}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        result: Any = self.env.step(action)
        observation, total, over, cut, info = result
        for _ in range(self.repeats - 1):
            if over or cut:
                break
            observation, reward, over, cut, info = self.env.step(action)
            total = total + reward
        return observation, total, over, cut, info


class StickyActions(Chance):
    """With probability `stickiness` the action before again; Gymnasium's draws from the environment's own chance."""

    def __init__(self, env: Any, stickiness: float = 0.25):
        super().__init__(env)
        self.stickiness = share("stickiness", stickiness)
        self.last: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.last = None
        return super().reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        sticks = self.chance.random() < self.stickiness and self.last is not None
        self.last = self.last if sticks else action
        return self.env.step(self.last)


class ActionNoise(Chance):
    """With probability `action_noise` a uniform, allowed action in place of the chosen one."""

    def __init__(self, env: Any, action_noise: float = 0.3):
        super().__init__(env)
        self.action_noise = share("action_noise", action_noise)
        self.allowed: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = super().reset(seed=seed)
        self.allowed = mask_of(observation, info)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self.chance.random() < self.action_noise:
            space = self.env.action_space
            space.seed(int(self.chance.integers(2**31)))  # its own generator is in no snapshot
            discrete = isinstance(space, gymnasium.spaces.Discrete) and self.allowed is not None
            action = space.sample(mask=np.asarray(self.allowed, np.int8)) if discrete else space.sample()
        result = self.env.step(action)
        self.allowed = mask_of(result[0], result[4])
        return result


class RewardNoise(Chance):
    """Rewards `(1 - b) r + reward_noise e`, with b 1 with probability `reward_loss` and e standard normal."""

    def __init__(self, env: Any, reward_noise: float = 0.0, reward_loss: float = 0.0):
        super().__init__(env)
        self.reward_noise, self.reward_loss = (
            check_least("reward_noise", reward_noise, 0),
            share("reward_loss", reward_loss),
        )

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        result: Any = self.env.step(action)
        observation, reward, over, cut, info = result
        lost, noise = self.chance.random() < self.reward_loss, self.chance.standard_normal(np.shape(reward))
        reward = reward * 0 if lost else reward
        if self.reward_noise:
            noisy = reward + self.reward_noise * noise
            reward = noisy if np.shape(reward) else float(noisy)
        return observation, reward, over, cut, info


class ObservationNoise(Chance):
    """Observations `(1 - b) (o + observation_noise e)` within their bounds; whole numbers get it times their range."""

    def __init__(self, env: Any, observation_noise: float = 0.0, blanking: float = 0.0):
        super().__init__(env)
        self.box = box_of(self, "observation-noise")
        self.observation_noise, self.blanking = check_least("observation_noise", observation_noise, 0), blanking
        share("blanking", blanking)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = super().reset(seed=seed)
        return self.disturb(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, *rest = self.env.step(action)
        return self.disturb(observation), *rest  # pyrefly: ignore[bad-return]

    def disturb(self, seen: Any) -> Any:
        blank, noise = self.chance.random() < self.blanking, self.chance.standard_normal(self.box.shape)
        low, high = (np.asarray(bound, np.float64) for bound in (self.box.low, self.box.high))
        if blank:
            return np.clip(np.zeros(self.box.shape), low, high).astype(self.box.dtype)
        if not self.observation_noise:
            return seen
        if self.box.dtype.kind == "f":
            return np.clip(seen + self.observation_noise * noise, low, high).astype(self.box.dtype)
        return np.clip(np.rint(seen + (high - low) * self.observation_noise * noise), low, high).astype(self.box.dtype)


class Delay(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Actions taken `action_delay` steps late, observations shown `observation_delay` steps late."""

    def __init__(self, env: Any, action_delay: int = 0, observation_delay: int = 0, most: int | None = None):
        super().__init__(env)
        self.action_delay = check_least("action_delay", action_delay, 0)
        self.observation_delay = check_least("observation_delay", observation_delay, 0)
        if most is not None and most < max(action_delay, observation_delay):
            raise ForageError(f"Delay keeps {most} steps, which is less than its delays; leave most out.")
        self.first_action = first_action(env)
        self.actions: collections.deque[Any] = collections.deque()
        self.seen: collections.deque[Any] = collections.deque()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = reset_environment(self.env, seed)
        self.actions = collections.deque([self.first_action] * self.action_delay)
        self.seen = collections.deque([copy.deepcopy(observation) for _ in range(self.observation_delay)])
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.actions.append(action)
        observation, *rest = self.env.step(self.actions.popleft())
        # A copy: some environments write to the same array again.
        self.seen.append(copy.deepcopy(observation) if self.observation_delay else observation)
        shown = self.seen.popleft()
        if isinstance(observation, dict) and "action_mask" in observation:  # which actions are allowed now
            shown = {**shown, "action_mask": observation["action_mask"]}
        return shown, *rest  # pyrefly: ignore[bad-return]


def frame_stack(env: Any, frames: int = 4) -> Any:
    """Return Gymnasium's stack with the frames side by side on the last axis, as the native one has them."""
    box = box_of(env, "frame-stack", (1, 2, 3))
    check_least("frames", frames, 1)
    flat = len(box.shape) == 2

    def side_by_side(stack: np.ndarray) -> np.ndarray:
        each = stack[..., None] if flat else stack
        return np.concatenate(list(each), axis=-1)

    low, high = (side_by_side(np.stack([bound] * frames)) for bound in (box.low, box.high))
    stacked = Frames(env, frames, padding_type="reset") if frames > 1 else OneFrame(env)
    return wrappers.TransformObservation(stacked, side_by_side, StackedBox(low, high, box.dtype, frames))


class Frames(wrappers.FrameStackObservation):
    """Gymnasium's frame stack with copied observations: some environments write to the same array again."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        result = super().reset(seed=seed, options=options)
        for place, frame in enumerate(self.obs_queue):
            self.obs_queue[place] = copy.deepcopy(frame)
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        result = super().step(action)
        self.obs_queue[-1] = copy.deepcopy(self.obs_queue[-1])
        return result


class OneFrame(gymnasium.ObservationWrapper[Any, Any, Any]):
    """A stack of one frame, a size that Gymnasium's stack refuses."""

    def observation(self, observation: Any) -> Any:
        return np.asarray(observation)[None]


def grey(env: Any) -> Any:
    box = box_of(env, "grey", (3,))
    if box.shape[2] != 3 or box.dtype != np.uint8:
        raise ForageError(f"grey needs pictures uint8[height, width, 3]; {title(env)} shows {describe_space(box)}.")
    return wrappers.GrayscaleObservation(env, keep_dim=True)


def resize(env: Any, height: int = 84, width: int = 84) -> Any:
    """Return the environment with pictures of another size, each pixel the mean of the area that it covers."""
    box = box_of(env, "resize", (2, 3))
    rows = area_taps(box.shape[0], check_least("height", height, 1))
    columns = area_taps(box.shape[1], check_least("width", width, 1))

    def smaller(image: np.ndarray) -> np.ndarray:
        channels = image[..., None] if image.ndim == 2 else image
        planes = np.moveaxis(channels.astype(np.float32), -1, 0)
        sized = np.stack([shrink(shrink(plane, rows).T, columns).T for plane in planes], axis=-1)
        sized = sized if box.dtype.kind == "f" else np.rint(sized)
        return (sized[..., 0] if image.ndim == 2 else sized).astype(box.dtype)

    shape = (height, width, *box.shape[2:])
    return wrappers.TransformObservation(env, smaller, resize_box(box, shape))


def select_entries(env: Any, indices: Sequence[int]) -> Any:
    box, kept = box_of(env, "masked", (1,)), list(indices)
    if outside := [entry for entry in kept if not 0 <= entry < box.shape[0]]:
        raise ForageError(f"masked cannot keep entry {outside[0]} of {title(env)}; it has 0 to {box.shape[0] - 1}.")
    space = gymnasium.spaces.Box(box.low[kept], box.high[kept], dtype=box.dtype.type)
    return wrappers.TransformObservation(env, lambda seen: np.asarray(seen)[kept], space)


def time_limit(env: Any, limit: int) -> Any:
    return wrappers.TimeLimit(env, check_least("limit", limit, 1))


def rescale(env: Any, low: float = -1.0, high: float = 1.0) -> Any:
    space = env.action_space
    if not isinstance(space, gymnasium.spaces.Box) or not low < high or not np.isfinite([space.low, space.high]).all():
        raise ForageError(f"rescale-action needs low < high and actions with bounds; {title(env)} has {space}.")
    bounds = (np.full(space.shape, bound, space.dtype) for bound in (low, high))
    return wrappers.RescaleAction(env, *bounds)


BY_NAME: dict[str, Callable[..., Any]] = {
    "frame-stack": frame_stack,
    "time-limit": time_limit,
    "action-repeat": ActionRepeat,
    "sticky-actions": StickyActions,
    "delay": Delay,
    "rescale-action": rescale,
    "resize": resize,
    "grey": grey,
    "masked": select_entries,
    "action-noise": ActionNoise,
    "reward-noise": RewardNoise,
    "observation-noise": ObservationNoise,
}
"""The wrappers of environments on the host, by the names of the native wrappers."""


class LogEncoding(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose observations and actions are coded as those of a log, see `LogView`."""

    def __init__(self, env: Any, log: str):
        super().__init__(env)
        inside = dumps([spaces.to_json(space) for space in (env.observation_space, env.action_space)])
        self.told = (log, inside, title(env))
        self.observation_space, self.action_space = self.view.observation_space, self.view.action_space

    @property
    def view(self) -> LogView:
        return log_view(*self.told)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = reset_environment(self.env, seed)
        return self.view.encode(observation, np), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, *rest = self.env.step(self.view.decode(action, np))
        return self.view.encode(observation, np), *rest  # pyrefly: ignore[bad-return]


def wrap(env: Any, around: Around) -> Any:
    """Return an environment inside these wrappers. Raise `ForageError` for a wrapper that does not fit."""
    for name, options in around:
        env = LogEncoding(env, **options) if name == "log-encoding" else BY_NAME[name](env, **options)
    return env


def title(env: Any) -> str:
    return type(env.unwrapped).__name__


def box_of(env: Any, name: str, axes: Sequence[int] = ()) -> gymnasium.spaces.Box:
    """Return the space of observations in a single array of numbers, with a number of axes among `axes` if given."""
    space = env.observation_space
    fits = isinstance(space, gymnasium.spaces.Box) and (not axes or len(space.shape) in axes)
    if not fits or space.dtype.kind not in "iuf":
        wanted = f" with {' or '.join(map(str, axes))} axes" if axes else ""
        raise ForageError(f"{name} needs observations in one box of numbers{wanted}; {title(env)} has {space}.")
    return space


def first_action(env: Any) -> Any:
    """Return the action to take until the first delayed one arrives: zero, or the allowed action nearest to it."""
    space = env.action_space
    if isinstance(space, gymnasium.spaces.Discrete):
        return space.start
    if isinstance(space, gymnasium.spaces.Box):
        return np.clip(np.zeros(space.shape, space.dtype), space.low, space.high)
    if isinstance(space, gymnasium.spaces.MultiDiscrete | gymnasium.spaces.MultiBinary):
        return np.zeros(space.shape, space.dtype)
    raise ForageError(f"delay needs actions that are numbers or choices; {title(env)} has {space}.")


def mask_of(observation: Any, info: Mapping[str, Any]) -> Any:
    """Return the mask of allowed actions, from the observation if it is a dictionary, else from the info."""
    return observation.get("action_mask") if isinstance(observation, dict) else info.get("action_mask")


def check_least(name: str, value: Any, lowest: float) -> Any:
    if not value >= lowest:
        raise ForageError(f"{name} is {lowest:g} or more, not {value}.")
    return value


def share(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise ForageError(f"{name} is a probability, from 0 to 1, not {value}.")
    return value
