"""A reference motion to follow: its phase in the observation, a tracking reward, and an end of lost episodes.

Peng, Abbeel, Levine, van de Panne (2018), "DeepMimic: Example-Guided Deep Reinforcement Learning of Physics-Based
Character Skills", arXiv 1804.02717. A clip is one recorded episode. In its frame t an agent sees the state and the
phase t / (frames - 1), and its step to frame t + 1 tracks the clip as well as

    sum_g w_g exp(-c_g |x_g - x_g(t + 1)|^2) / sum_g w_g,   with x_g the entries of the observation in group g

for poses (w = 0.65, c = 2), velocities (0.1, 0.1), end effectors (0.15, 40) and the centre of mass (0.1, 10). The
rewards part `tracking` gives that as reward, the starts part `reference` begins in any frame (reference state
initialisation), and an episode terminates if it tracks worse than `least` (early termination).

The paper itself could not be looked up; comments in programs built on it call 0.65 and 0.1 its own. The authors'
program (xbpeng/DeepMimic: DeepMimicCore/scenes/SceneImitate.cpp) has the form and the other numbers but for 40, which
is 10 in its newest version; it has 0.5 and 0.05, adds a term for the root, divides by the sum of the weights, and draws
the first frame evenly. Two differences are ours: groups are differences of observed entries, instead of rotations of
joints; and an episode is lost by its tracking, instead of by a character's fall to the ground.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core.plain import dumps
from forage.core.ports import Environment, State
from forage.core.storage import archives
from forage.core.types import ForageError, Step
from forage.environments.wrappers.base import Wrapper, WrapperState, check_entries, environment_name, flat_box

FORMAT = "forage-motion-1"
GROUPS = {"pose": (0.65, 2.0), "velocity": (0.1, 0.1), "ends": (0.15, 40.0), "centre": (0.1, 10.0)}
"""The weight and the scale of each group of entries."""


class Motion(Wrapper):
    """A clip that an agent follows, frame by frame: `motion:FILE:POSE:VELOCITY`, with numbers of entries.

    Appends the phase, from 0 to 1, to a flat observation. An episode begins in the clip's first frame, or where starts
    `reference` put it. It is truncated where the clip ends. `Step.info["tracking"]` says how near the clip each step
    leads; the environment's own reward stays.

    `forage.environments.wrappers.motion.record_clip` writes a clip. The environment must be the one that it was
    recorded in.
    """

    example: ClassVar[str] = "forage train ppo Pendulum-v1 --wrap motion:swing.npz:0,1:2"
    own_choices: ClassVar[str] = (
        "groups of observed entries in place of joints' rotations, and the end of lost episodes"
    )

    file: str = equinox.field(static=True)  # the clip, as record writes it
    pose: tuple[int, ...] = equinox.field(static=True, default=(), converter=tuple)  # entries of what is seen that are
    # poses, such as the sine and cosine of angles
    velocity: tuple[int, ...] = equinox.field(static=True, default=(), converter=tuple)  # entries that are velocities
    ends: tuple[int, ...] = equinox.field(static=True, default=(), converter=tuple)  # entries that are places of hands,
    # feet and the like
    centre: tuple[int, ...] = equinox.field(static=True, default=(), converter=tuple)  # entries that are the place of
    # the centre of mass
    least: float = 0.1  # tracking below which the motion is lost and the episode terminated; 0: never

    remembers = True

    def __check_init__(self):
        size = flat_box(self).shape[0]
        check_entries(self, "track", [index for name in GROUPS for index in getattr(self, name)], size)
        clip = read_clip(self.file)
        if clip["observation"].shape[1:] != (size,):
            raise ForageError(
                f"The clip {self.file} shows {clip['observation'].shape[1]} numbers in a frame, and "
                f"{environment_name(self.environment)} shows {size}; record it there."
            )
        wanted = [(leaf.shape, np.dtype(leaf.dtype)) for leaf in jax.tree.leaves(self._states)]
        if [(clip[name].shape[1:], clip[name].dtype) for name in leaf_names(clip)] != wanted:
            raise ForageError(
                f"The states of {self.file} are not those of {environment_name(self.environment)}; record it there."
            )

    @property
    def frames(self) -> int:
        """Return the number of frames in the clip."""
        return len(read_clip(self.file)["observation"])

    @property
    def _states(self) -> State:
        """Return the shapes of the environment's state."""
        return jax.eval_shape(self.environment.reset, jax.random.key(0))[0]

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        space = flat_box(self)
        low, high = np.append(space.low, np.float32(0)), np.append(space.high, np.float32(1))
        return gymnasium.spaces.Box(low, high, dtype=np.float32)

    @property
    def info_names(self) -> tuple[str, ...]:
        return (*self.environment.info_names, "tracking")

    @property
    def horizon(self) -> int | None:
        limit = self.environment.horizon
        return self.frames - 1 if limit is None else min(limit, self.frames - 1)

    def reset(self, key: Key[Array, ""]) -> tuple[WrapperState, PyTree[Array]]:
        return self.at_frame(jnp.int32(0))

    def at_frame(self, frame: Int[Array, ""]) -> tuple[WrapperState, Float[Array, " all"]]:
        """Return the state of a frame of the clip, and its observation."""
        clip = read_clip(self.file)
        leaves = [jnp.asarray(clip[name])[frame] for name in leaf_names(clip)]
        inner = jax.tree.unflatten(jax.tree.structure(self._states), leaves)
        return WrapperState(inner, frame), self._append(jnp.asarray(clip["observation"])[frame], frame)

    def step(self, state: WrapperState, action: PyTree[Array], key: Key[Array, ""]) -> tuple[WrapperState, Step]:
        inner, step = self.environment.step(state.inner, action, key)
        frame = state.own + 1
        tracking = self.similarity(step.observation, frame)
        terminated = step.terminated | (tracking < self.least)
        truncated = (step.truncated | (frame >= self.frames - 1)) & ~terminated
        info = step.info | {"tracking": tracking}
        seen = self._append(step.observation, frame)
        return WrapperState(inner, frame), step._replace(
            observation=seen, terminated=terminated, truncated=truncated, info=info
        )

    def similarity(self, observation: Float[Array, " seen"], frame: Int[Array, ""]) -> Float[Array, ""]:
        """Return the similarity of an observation to a frame of the clip, from 0 to 1."""
        wanted = jnp.asarray(read_clip(self.file)["observation"])[jnp.minimum(frame, self.frames - 1)]
        total, sum_of_weights = jnp.zeros(()), 0.0
        for name, (weight, scale) in GROUPS.items():
            if indices := np.array(getattr(self, name), int).tolist():
                error = jnp.sum((observation - wanted)[jnp.array(indices)] ** 2)
                total, sum_of_weights = total + weight * jnp.exp(-scale * error), sum_of_weights + weight
        return (total / sum_of_weights).astype(jnp.float32)

    def _append(self, observation: Float[Array, " seen"], frame: Int[Array, ""]) -> Float[Array, " all"]:
        phase = jnp.minimum(frame / (self.frames - 1), 1.0).astype(jnp.float32)
        return jnp.concatenate([observation, phase[None]])


def record_clip(
    environment: Environment,
    rule: Callable[[PyTree[Array]], PyTree[Array]],
    file: str | Path,
    frames: int,
    seed: int = 0,
) -> str:
    """Write the clip of `frames` frames that a rule, from an observation to an action, plays. Return its file.

    Raise `ForageError` if the episode is over before, or the environment's state is no plain numbers.
    """

    def step(now: Any, key: Key[Array, ""]) -> Any:
        state, observation = now
        after, step = environment.step(state, rule(observation), key)
        return (after, step.observation), (state, observation, step.terminated | step.truncated)

    first, *keys = jax.random.split(jax.random.key(seed), frames + 1)
    play = jax.jit(lambda first, keys: jax.lax.scan(step, environment.reset(first), keys)[1])
    states, observation, ended = play(first, jnp.stack(keys))
    leaves = jax.tree.leaves(states)
    if any(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves):
        raise ForageError(f"A state of {type(environment).__name__} holds a random key, which a clip cannot hold.")
    if bool(ended[:-1].any()):
        over = int(jnp.argmax(ended)) + 1
        raise ForageError(f"The rule's episode was over after {over} steps, before the {frames} frames of a clip.")
    head = {"header": np.array(dumps({"format": FORMAT})), "observation": np.asarray(observation)}
    arrays = head | {f"state_{number:03}": np.asarray(leaf) for number, leaf in enumerate(leaves)}
    archives.write_atomically(Path(file), lambda to: np.savez_compressed(to, **arrays))  # pyrefly: ignore[bad-argument-type]
    return str(file)


@functools.lru_cache(maxsize=8)
def read_clip(file: str) -> dict[str, np.ndarray]:
    """Read a clip. Raise `ForageError` if the file is missing, damaged or of another kind."""
    advice = "forage.environments.wrappers.motion.record_clip writes one"
    try:
        with archives.open_archive(file) as archive:
            arrays = {name: archive[name] for name in archive.files}
        if json.loads(str(arrays["header"])).get("format") != FORMAT or len(arrays["observation"]) < 2:
            raise KeyError(FORMAT)
    except FileNotFoundError:
        raise ForageError(f"There is no clip {file}; {advice}.") from None
    except Exception as error:  # what damaged bytes make NumPy, zipfile and json raise has no common type
        raise ForageError(f"{file} is not a clip of a motion; {advice}.") from error
    return arrays


def leaf_names(clip: dict[str, np.ndarray]) -> list[str]:
    """Return the names of the leaves of a clip's states, in order."""
    return sorted(name for name in clip if name.startswith("state_"))
