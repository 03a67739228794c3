"""Calls into one Gymnasium environment or into many in separate processes, and their errors."""

from __future__ import annotations

import contextlib
import copy
import functools
import multiprocessing
import pickle
import re
from collections.abc import Callable, Iterable
from typing import Any

import gymnasium
import numpy as np

from forage.core.host import Misfit
from forage.environments.adapters.gymnasium.batch import Layout

PATIENCE = 5.0
"""Seconds that a process has to close its environment."""


def reset_environment(env: Any, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
    """Reset an environment. Raises `Misfit` if its `reset` is not as Gymnasium has it."""
    try:
        result = env.reset() if seed is None else env.reset(seed=seed)
    except TypeError as error:
        raise misfit_of(error) or error from error
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
        raise Misfit(f"returned {describe_value(result)} from reset", "it should return (observation, info)")
    return result


def step_environment(
    env: Any, action: Any, rewards: tuple[str, ...] = ()
) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
    """Step an environment with a scalar reward, or with one reward per name. Raise `Misfit` for another result."""
    result = check_step(env.step(action))
    reward = result[1]
    usual = type(reward) in (float, np.float64) and not rewards
    if not usual and not is_reward(reward, (len(rewards),) if rewards else ()):
        wanted = f"{len(rewards)} numbers: {', '.join(rewards)}" if rewards else "one number"
        raise Misfit(f"returned as reward {describe_value(reward)}", f"it should be {wanted}")
    check_flag("terminated", result[2])
    check_flag("truncated", result[3])
    return result


def check_step(result: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    """Return the result of a step. Raise `Misfit` if it is not the five that Gymnasium has."""
    should = "it should return (observation, reward, terminated, truncated, info)"
    if not (isinstance(result, tuple) and len(result) == 5):
        raise Misfit(f"returned {describe_value(result)} from step", should)
    if not isinstance(result[4], dict):
        raise Misfit(f"returned as info {describe_value(result[4])}", "it should be a dictionary")
    return result


def check_flag(what: str, value: Any) -> None:
    """Raise `Misfit` if a flag is no truth value, nor a number that stands for one."""
    if type(value) is bool or type(value) is np.bool_:
        return
    if not (is_reward(value, ()) and float(value) in (0, 1)):
        raise Misfit(f"returned as {what} {describe_value(value)}", "it should be True or False")


def misfit_of(error: TypeError) -> Misfit | None:
    """Return the error for a `reset` without `seed` or `options`; `None` for any other `TypeError`."""
    match = re.search(r"reset\(\) got an unexpected keyword argument '(seed|options)'", str(error))
    if match is None:
        return None
    return Misfit(f"has a reset that takes no {match[1]}", "it should be reset(self, *, seed=None, options=None)")


def is_reward(value: Any, shape: tuple[int, ...]) -> bool:
    """Return whether a value is numbers in the shape of a reward."""
    try:
        array = value if isinstance(value, np.ndarray | np.generic) else np.asarray(value)
    except ValueError:  # lists of different lengths
        return False
    return array.shape == shape and array.dtype.kind in "biuf"


def describe_value(value: Any) -> str:
    """Return a short description of a value that an environment returned, for messages."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, tuple | list):
        return f"{len(value)} values" if len(value) != 1 else repr(value)
    return repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"


def info_number(name: str, value: Any) -> float:
    """Return an entry of an environment's info as a number; NaN if it is absent."""
    if value is None:
        return np.nan
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise Misfit(f"has in its info as {name} {describe_value(value)}", "one number or truth value can be kept")
    return float(array.reshape(()))


class ProcessEnded(Exception):
    """A process of an environment ended by itself."""


class CopyFinal(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A wrapper that copies the last observation and info of an episode, so that the next reset cannot change them.

    Gymnasium resets an environment before it passes these on, and some environments reuse the same arrays.
    """

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, over, cut, info = self.env.step(action)
        if over or cut:
            observation, info = copy.deepcopy(observation), own_info(info)
        return observation, reward, over, cut, info


def own_info(info: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of an info. Entries that cannot be copied, such as a simulator, are shared."""
    copied = {}
    for name, value in info.items():
        try:
            copied[name] = copy.deepcopy(value)
        except Exception:  # what objects of a simulator raise has no common type
            copied[name] = value
    return copied


class GuardedEnvironment(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment in a separate process, with every error converted to a form that can be pickled."""

    def __init__(self, env: Any, rewards: tuple[str, ...], layout: Layout, index: int):
        super().__init__(env)
        self.rewards, self.layout, self.index, self.steps = rewards, layout, index, 0
        self.looked_at = layout.empty(1)

    def reset(self, **words: Any) -> tuple[Any, dict[str, Any]]:
        # No options: many environments have none, and nobody gives any.
        result = portable(functools.partial(reset_environment, self.env, words.get("seed")))
        self.look(result[0])
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.steps += 1
        observation, reward, over, cut, info = portable(
            functools.partial(step_environment, self.env, action, self.rewards)
        )
        self.look(observation)
        if over or cut:  # the reset, which comes before this is sent, may write to the same arrays
            observation, info = copy.deepcopy(observation), own_info(info)
        return observation, reward, over, cut, info

    def look(self, observation: Any) -> None:
        """Raise `ForageError` for an observation outside the space, before a cast into shared memory hides it."""
        self.layout.write(self.looked_at, self.index, observation, self.steps, row=0)

    def render(self) -> Any:
        return portable(self.env.render)


class FailedEnvironment(gymnasium.Env[Any, Any]):
    """A substitute for an environment that could not be made; every use of it raises the original error."""

    def __init__(self, error: Exception, spaces: tuple[Any, Any]):
        self.error = error
        self.observation_space, self.action_space = spaces

    def get_wrapper_attr(self, name: str) -> Any:
        raise self.error


def portable(call: Callable[[], Any]) -> Any:
    """Return the result of a call; raise its error in a form that pickles, so that the parent process is not left
    waiting.
    """
    try:
        return call()
    except Exception as error:
        raise sendable(error) from None


def sendable(error: Exception) -> Exception:
    """Return the error itself, or a `RuntimeError` with its words if it cannot be sent to another process."""
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:
        copy = None
    # Some of a person's own can be read in the process that has them only.
    if type(copy) is type(error) and (type(error).__module__ == "builtins" or isinstance(error, Misfit)):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")


def make_guarded(
    make: Callable[[], Any], rewards: tuple[str, ...], spaces: tuple[Any, Any], layout: Layout, index: int
) -> Any:
    """Make an environment in its own process."""
    try:
        return GuardedEnvironment(make(), rewards, layout, index)
    except Exception as error:
        return FailedEnvironment(sendable(error), spaces)


class Workers(gymnasium.vector.AsyncVectorEnv):
    """Environments in processes. Index `at` is the environment that failed or died."""

    at: int | None = None

    def __init__(
        self, makers: list[Callable[[], Any]], rewards: tuple[str, ...], spaces: tuple[Any, Any], layout: Layout
    ):
        """Raise the error of an environment's constructor, or `ProcessEnded` if its process ended first."""
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            # A script without a main guard is run again by the process it started. This ends it without a word, and
            # the first process has something to say about it.
            raise SystemExit(1)
        try:
            super().__init__(
                [
                    functools.partial(make_guarded, make, rewards, spaces, layout, index)
                    for index, make in enumerate(makers)
                ],
                copy=False,  # what comes out is copied into arrays of our own
                context="forkserver",  # a fork of a process in which JAX has threads can hang
                autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP,
            )
            self.get_attr("render_mode")
        except BaseException as error:
            self.shut()
            if not isinstance(error, EOFError | OSError) or self.at is not None:
                raise
            raise ProcessEnded(
                "a process ended before its environment was made; a script that trains with parallel needs "
                "if __name__ == '__main__': around what it does"
            ) from error

    def _raise_if_errors(self, successes: Iterable[bool]) -> None:
        failed = [index for index, success in enumerate(successes) if not success]
        if not failed:
            return
        errors = {index: value for index, _, value, _ in (self.error_queue.get() for _ in failed)}
        self.at = min(errors)
        raise errors[self.at]

    def receive(self, call: Callable[[], Any]) -> Any:
        """Return the result of a call to all processes. Raise `ProcessEnded` if one of them has ended by itself."""
        self.at = None
        try:
            return call()
        except (EOFError, OSError) as error:
            if self.at is not None:  # an environment's own error
                raise
            self.at = next((index for index, process in enumerate(self.processes) if ended(process)), None)
            code = None if self.at is None else self.processes[self.at].exitcode
            how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
            raise ProcessEnded(f"the environment's process ended {how}") from error

    def shut(self) -> None:
        """End all processes, busy or dead. It can be called again."""
        self.closed = True
        for pipe in getattr(self, "parent_pipes", ()):
            with contextlib.suppress(OSError):
                pipe.send(("close", None))
        for process in getattr(self, "processes", ()):
            process.join(PATIENCE)
            if process.is_alive():
                process.terminate()
                process.join()
        for pipe in getattr(self, "parent_pipes", ()):
            pipe.close()


def ended(process: Any) -> bool:
    """Return whether a process is over; its pipe may be closed a moment before."""
    process.join(0.2)
    return process.exitcode is not None
