"""A person's own `gymnasium.vector.VectorEnv`: many environments that are stepped at once by code of their own."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from jaxtyping import Bool, PyTree, UInt8

from forage.core.arrays import array_space, as_arrays, has_choices, rows_as_arrays, travelling
from forage.core.host import HostEnvironment, HostStep, Misfit
from forage.core.types import ForageError, Step
from forage.environments.adapters.gymnasium.actions import Door
from forage.environments.adapters.gymnasium.batch import Arrays, Layout, copy_arrays, nest
from forage.environments.adapters.gymnasium.calls import (
    CopyFinal,
    check_step,
    describe_value,
    info_number,
    reset_environment,
)
from forage.environments.adapters.gymnasium.make import failure, reward_names
from forage.environments.adapters.gymnasium.parts import name_list
from forage.environments.adapters.gymnasium.spaces import (
    apart_space,
    choice_sizes,
    flat_mask,
    has_loose_mask,
    is_masked,
    mask_fits,
    split_mask_part,
)

MODES = "vector_kwargs={'autoreset_mode': 'SameStep'}"


class StepResult(NamedTuple):
    """The results of a step of all environments, in newly allocated arrays."""

    observation: Arrays  # what each step led to
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    info: dict[str, Any]  # of the step, with those of episodes that ended still apart
    following: Arrays  # what to act on next


class View:
    """Conversion of a VectorEnv's observations to arrays and dictionaries of arrays, together with the action mask.

    It treats a batch as `spaces.wrap_plain` treats one environment: choices count from 0, a Tuple becomes a Dict, and
    the mask joins the observation, whether it is a part of it, in the infos, or returned by a method `action_masks`.
    """

    def __init__(self, name: str, envs: VectorEnv[Any, Any, Any]):
        inner: Any = envs.single_observation_space
        self.actions: Any = envs.single_action_space
        self.name, self.envs, self.inner, self.source = name, envs, inner, ""
        self.loose = mask_fits(inner["action_mask"], self.actions) if has_loose_mask(inner) else None
        space = inner if self.loose is None else apart_space(inner, self.loose)
        self.kept = isinstance(space, spaces.Dict) and is_masked(space)  # the mask is in what is shown
        self.flat = False  # the mask is made one row of options
        seen = array_space(name, space["observation"] if self.kept else space)  # pyrefly: ignore[bad-index]
        self.seen = space["observation"] if self.kept else space  # pyrefly: ignore[bad-index]
        mask: Any = space["action_mask"] if self.kept else None  # pyrefly: ignore[bad-index]
        if not self.kept and has_choices(self.actions):
            self.source = self._source()
        if self.source or isinstance(mask, spaces.Dict | spaces.Tuple):
            self.flat, mask = True, spaces.MultiBinary(sum(choice_sizes(self.actions)))
        self.space = seen if mask is None else spaces.Dict({"observation": seen, "action_mask": mask})
        self.mask_space = mask

    def _source(self) -> str:
        """Return the source of masks that are not in the observation: `method`, `info`, or empty for none."""
        if callable(getattr(self.envs.unwrapped, "action_masks", None)):
            return "method"
        try:
            return "info" if "action_mask" in reset_environment(self.envs, 0)[1] else ""
        except Exception:  # the first reset of a run will say why
            return ""

    def batch(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return a batch of observations, leaves `[env, ...]`; `info` is that of the same moment."""
        return self._with_mask(observation, info, None)

    def last(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return the last observation of one episode; `info` is that environment's own."""
        return self._with_mask(observation, info, 0)

    def _with_mask(self, observation: Any, info: Mapping[str, Any], one: int | None) -> Any:
        shown = observation if self.loose is None else split_mask_part(observation, self.loose)
        seen = self._arrays(shown["observation"] if self.kept else shown, one is None)
        if self.mask_space is None:
            return seen
        number = self.envs.num_envs
        if self.kept:
            masks = shown["action_mask"]
        elif self.source == "method":
            masks = None if one is not None else self.envs.unwrapped.action_masks()  # pyrefly: ignore[missing-attribute]
        else:
            masks = info.get("action_mask")
        if one is not None:
            return {"observation": seen, "action_mask": self._mask(masks)}
        rows = [
            self._mask(row_of(masks, i, info.get("_action_mask") if self.source == "info" else None))
            for i in range(number)
        ]
        return {"observation": seen, "action_mask": np.stack(rows)}

    def _arrays(self, observation: Any, batched: bool) -> Any:
        """Return an observation, or a batch of them, as arrays. Raise `Misfit` if it has other parts."""
        try:
            return (rows_as_arrays if batched else as_arrays)(self.seen, observation)
        except ForageError:
            raise
        except (KeyError, IndexError, TypeError) as error:
            part = (
                f" without its part {error.args[0]}"
                if isinstance(error, KeyError)
                else f", {describe_value(observation)},"
            )
            raise Misfit(f"returned an observation{part}", f"it should be of {self.inner}") from None
        except ValueError:
            raise Misfit("returned as observation lists of different lengths", "they should have one shape") from None

    def _mask(self, mask: Any) -> np.ndarray:
        """Return one environment's mask. Without one, as at the end of an episode, all actions are allowed."""
        if mask is None:
            return np.ones(self.mask_space.shape, self.mask_space.dtype)
        mask = flat_mask(self.name, self.actions, mask) if self.flat else np.asarray(mask)
        return mask.astype(self.mask_space.dtype)


class VectorEnvironment(HostEnvironment):
    """The environments of a VectorEnv, which resets itself in the step that ends an episode, or on request.

    Its `metadata["autoreset_mode"]` declares the mode. A VectorEnv that resets in the step after the end (`NextStep`)
    ignores the action of that step, which would be learned from, so it is refused.

    The rest is as for a single environment (see `GymnasiumEnvironment`): spaces, masks, vector rewards and the numbers
    of infos. Actions are arrays `[env, ...]` in the dtype of its space, nested as the space is. Its state cannot be
    saved: `snapshot` is `None`. Environment `i` is seeded with entry `i` of `seeds(seed, num_envs)`; a VectorEnv that
    takes no list of seeds gets the first.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any], name: str, num_envs: int, info: str | Sequence[str] = ()):
        self._envs: Any = envs  # whose reset takes a list of seeds, though it says one number
        for part in ("num_envs", "single_observation_space", "single_action_space"):
            if getattr(envs, part, None) is None:
                raise ForageError(f"{name} makes a {type(envs).__name__} without {part}; a VectorEnv sets it.")
        self._mode = mode_of(envs, name)
        if envs.num_envs != num_envs:
            raise ForageError(f"{name} made {envs.num_envs} environments where {num_envs} were asked for.")
        if isinstance(envs.unwrapped, SyncVectorEnv):
            envs.unwrapped.envs = [CopyFinal(env) for env in envs.unwrapped.envs]
        self.door = Door(name, envs.single_action_space, num_envs)
        self.view = View(name, envs)
        rewards = reward_names(envs)
        super().__init__(name, travelling(self.view.space), self.door.space, num_envs, horizon(envs), rewards)
        self._layout = Layout(name, self.observation_space, num_envs)
        self._rewards = (num_envs, len(rewards)) if rewards else (num_envs,)
        self._info_names, self._info_seen = name_list(info), set[str]()
        self._begun, self._one_seed = False, False

    def _reset(self, seed: int) -> PyTree[np.ndarray]:
        self._begun = True
        return nest(self.begin(seed, self._layout)[0])

    def begin(self, seed: int, layout: Any) -> tuple[Arrays, dict[str, Any]]:
        """Begin episodes everywhere. Return the observations, as `layout` reads them, and the infos."""
        seeds = self.seeds(seed)
        try:
            observation, info = reset_environment(self._envs, seeds[0] if self._one_seed else seeds)  # type: ignore[arg-type]
        except Misfit:
            raise
        except Exception:
            if self._one_seed:
                raise
            observation, info = reset_environment(
                self._envs, seeds[0]
            )  # many take one number alone, as `VectorEnv.reset` does
            self._one_seed = True
        self._no_mask(info)
        return layout.read_batch(self.view.batch(observation, info), 0), info

    def _send(self, action: PyTree[np.ndarray]) -> None:
        if not self._begun:
            raise ForageError(f"{self.name} was stepped before its first reset; call reset(seed) first.")

    def _receive(self, action: PyTree[np.ndarray]) -> HostStep:
        kept = {name: np.full(self.num_envs, np.nan, np.float32) for name in self._info_names}
        taken = self.advance(self.door.batch(action), self._layout, kept)
        over: Any = np.array(taken.terminated, bool)
        cut: Any = np.array(taken.truncated, bool) & ~over
        step = Step(nest(taken.observation), np.array(taken.reward, np.float32), over, cut, kept)  # type: ignore[arg-type]
        return HostStep(step, step.observation if taken.following is taken.observation else nest(taken.following))

    def advance(self, actions: Any, layout: Any, kept: dict[str, np.ndarray] | None = None) -> StepResult:
        """Step all environments and reset those at the end of an episode. `layout` converts their observations.

        `kept` are arrays for numbers of the infos. Raise `Misfit` if the result breaks Gymnasium's interface.
        """
        result = self._envs.step(actions)
        seen, reward, terminated, truncated, info = check_step(result)
        self._no_mask(info)
        reward = one_each("reward", reward, self._rewards)
        over, cut = (
            one_each(what, flag, (self.num_envs,))
            for what, flag in (("terminated", terminated), ("truncated", truncated))
        )
        for what, flag in (("terminated", over), ("truncated", cut)):
            if flag.dtype.kind != "b" and not np.isin(flag, (0, 1)).all():
                raise Misfit(f"returned as {what} {flag[~np.isin(flag, (0, 1))][0]}", "it should be True or False")
        ended = (over != 0) | (cut != 0)
        same = self._mode == AutoresetMode.SAME_STEP
        for index in range(self.num_envs) if kept else ():
            own = own_info(info, index, bool(ended[index]) and same)
            if ended[index]:
                self._info_seen.update(own)
            for name, array in (kept or {}).items():
                self._at = index
                array[index] = info_number(name, own.get(name))
        self._at = None
        observation = following = layout.read_batch(self.view.batch(seen, info), self._steps)
        taken = reward.copy(), over.copy(), cut.copy()  # before a reset, which may write to the same arrays
        if ended.any() and same:
            observation = copy_arrays(following)
            for index in np.flatnonzero(ended).tolist():
                self._at = index
                last = self._last(info, seen, index)
                layout.write(observation, index, self.view.last(last, own_info(info, index, True)), self._steps)
            self._at = None
        elif ended.any():
            first, begun = begin_where(self._envs, ended)
            self._no_mask(begun)
            fresh = layout.read_batch(self.view.batch(first, begun), self._steps)
            following = copy_arrays(observation)
            for path, array in following.items():
                array[ended] = fresh[path][ended]
        return StepResult(observation, *taken, info, following)

    def _last(self, info: Mapping[str, Any], seen: Any, index: int) -> Any:
        """Return the last observation of an episode that ended in environment `index`."""
        there = info.get("_final_obs")
        final = None if "final_obs" not in info or (there is not None and not there[index]) else info["final_obs"]
        last = None if final is None else entry(final, index)
        if last is None:
            raise Misfit("ended an episode without final_obs in its info", "it is what the last step led to")
        if shares(last, entry(seen, index)):
            raise Misfit(
                "gave as final_obs the array in which the new episode's first observation is",
                "it should be a copy of what the last step led to",
            )
        return last

    def _no_mask(self, info: Mapping[str, Any]) -> None:
        """Raise `ForageError` for a mask in the infos that agents would not see."""
        if "action_mask" in info and self.view.mask_space is None:
            raise ForageError(
                f"{self.name} gives an action_mask in its info that cannot be obeyed; its actions, in "
                f"{self.door.inner}, should be choices, and the mask in the info of each reset too, the first as well."
            )

    @property
    def mode(self) -> AutoresetMode:
        return self._mode

    @property
    def info_names(self) -> tuple[str, ...]:
        return self._info_names

    @property
    def info_seen(self) -> tuple[str, ...]:
        return tuple(sorted(self._info_seen))

    def _render(self) -> UInt8[np.ndarray, "height width 3"]:
        frames = self._envs.render() if self._envs.render_mode == "rgb_array" else None
        return super()._render() if not frames else np.asarray(frames[0], np.uint8)

    @property
    def frames_per_second(self) -> float | None:
        return self._envs.metadata.get("render_fps")

    def close(self) -> None:
        self._envs.close()


def make_vector(name: str, cls: Any, num_envs: int, info: Any = (), **own: Any) -> VectorEnvironment:
    """Make a batch from a user's VectorEnv class; its constructor takes `num_envs` and its `own` options."""
    parameters = inspect.signature(cls).parameters.values()
    if not any(one.name == "num_envs" or one.kind is one.VAR_KEYWORD for one in parameters):
        raise ForageError(
            f"{name} is made without num_envs, and a run says how many environments it needs; its __init__ should take "
            f"num_envs."
        )
    try:
        envs = cls(num_envs=num_envs, **own)
    except ForageError:
        raise
    except Exception as error:
        raise failure(name, cls, error, own) from error
    return VectorEnvironment(envs, name, num_envs, info)


def one_each(what: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return one number per environment. Raise `Misfit` for values that would need a cast or broadcasting."""
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        array = np.empty(0, object)
    if array.shape != shape or array.dtype.kind not in "biuf":
        kind = "one number" if what == "reward" else "one truth value"
        if len(shape) > 1:
            kind = f"{shape[1]} numbers"
        raise Misfit(
            f"returned as {what} {describe_value(values)}", f"it should be {kind} for each environment, {list(shape)}"
        )
    return array


def row_of(values: Any, index: int, there: Bool[np.ndarray, " env"] | None = None) -> Any:
    """Return the entry of one environment, of arrays nested as in infos; `None` if there is none."""
    if values is None or (there is not None and not there[index]):
        return None
    if isinstance(values, tuple):
        return tuple(row_of(value, index) for value in values)
    return entry(values, index)


def own_info(info: Mapping[str, Any], index: int, ended: bool) -> dict[str, Any]:
    """Return one environment's own info. After an episode `ended` it is that of its last step, not of the reset."""
    if ended and "final_info" in info:
        final = info["final_info"]
        if not isinstance(final, Mapping):  # an array of infos, as Gymnasium once had it
            return dict(final[index] or {})
        info = final
    own = {}
    for name, values in info.items():
        if name.startswith("_") or name in ("final_obs", "final_info"):
            continue
        there = info.get(f"_{name}")
        if (there is None or there[index]) and (isinstance(values, Mapping) or np.ndim(values) > 0):
            own[name] = entry(values, index)
    return own


def entry(values: Any, index: int) -> Any:
    """Return one environment's part of nested dictionaries or tuples of arrays."""
    if isinstance(values, Mapping):
        return {key: entry(part, index) for key, part in values.items() if not key.startswith("_")}
    if isinstance(values, tuple) and any(isinstance(part, np.ndarray | Mapping | tuple) for part in values):
        return tuple(entry(part, index) for part in values)
    return values[index]


def shares(one: Any, other: Any) -> bool:
    """Return whether two observations lie in the same memory, so that writing to one changes the other."""
    if isinstance(one, Mapping):
        return any(shares(part, other[key]) for key, part in one.items() if key in other)
    if isinstance(one, tuple):
        return any(map(shares, one, other))
    return isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and np.shares_memory(one, other)


def begin_where(envs: Any, ended: Bool[np.ndarray, " env"]) -> tuple[Any, dict[str, Any]]:
    """Reset the environments at the end of an episode."""
    result = envs.reset(options={"reset_mask": ended})
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
        raise Misfit(f"returned {describe_value(result)} from reset", "it should return (observation, info)")
    return result


def mode_of(envs: VectorEnv[Any, Any, Any], name: str) -> AutoresetMode:
    """Return the time of a reset: with the end of an episode, or on request. Raise `ForageError` for other modes."""
    said = (getattr(envs, "metadata", None) or {}).get("autoreset_mode")
    try:
        mode = AutoresetMode(said) if isinstance(said, str) else said
    except ValueError:
        mode = None
    if mode in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED):
        return mode
    how = "begins a new episode in the step after one ended" if mode else "does not say when new episodes begin"
    raise ForageError(
        f"{name} makes a {type(envs).__name__} that {how} (metadata['autoreset_mode']); SameStep and Disabled work, as "
        f"in gymnasium.make_vec(id, number, vectorization_mode='sync', {MODES})."
    )


def horizon(envs: VectorEnv[Any, Any, Any]) -> int | None:
    """Return the time limit of an episode in steps; `None` if there is no spec or it sets no limit."""
    spec = getattr(envs, "spec", None)
    return getattr(spec, "max_episode_steps", None)
