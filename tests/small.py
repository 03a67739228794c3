"""Runs small enough to test with: settings of every agent, and the command line in a process of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.compilation_cache import compilation_cache
from numpy_helpers import NotInNumPy, evaluate

from forage.config.resolve import from_config
from forage.core import checkpoint
from forage.core.checkpoint import is_key, named_leaves
from forage.core.ports import Environment
from forage.core.types import Experience, Spec
from forage.environments.classic.cartpole import CartPole
from forage.environments.wrappers.together import EnvironmentCopies
from forage.memory.rollout import LastRollout

PATIENCE = 1200  # seconds for a process that a test starts; where the machine is shared, compiling alone takes minutes
CACHE = Path(tempfile.gettempdir()) / f"forage-tests-{os.getuid()}"  # compiled once for all tests
PROGRAMS = CACHE / "forage" / "compiled"
PROGRAM_SECONDS = 0.1  # a program that compiles faster is not kept there

PPO: dict[str, Any] = {"num_envs": 2, "rollout_length": 8, "minibatches": 2, "epochs": 1, "hidden_sizes": (8,)}
REPLAY: dict[str, Any] = {"num_envs": 2, "rollout_length": 4, "batch_size": 4, "learning_starts": 16}
HISTORIES: dict[str, Any] = {"hidden_sizes": (8,), "lstm_size": 4, "lstm_layers": 1, "unroll": 8}
KIT: dict[str, Any] = {"hidden_sizes": (8,), "critics": 3, "updates_per_rollout": 2, "policy_delay": 2}
AGENTS: dict[str, tuple[str, str, dict[str, Any]]] = {  # name, environment, options
    "ppo": ("ppo", "CartPole-v1", PPO),
    "ppo-gru": ("ppo", "CartPole-masked", PPO | {"gru_size": 4}),
    "ppo-lstm": ("ppo", "CartPole-masked", PPO | {"gru_size": 4, "cell": "lstm"}),
    "ppo-continuous": ("ppo", "Pendulum-v1", PPO | {"normalise_observation": True}),
    "a2c": ("a2c", "CartPole-v1", {"num_envs": 2, "rollout_length": 8, "hidden_sizes": (8,)}),
    "trpo": ("trpo", "CartPole-v1", PPO),
    "appo": ("appo", "CartPole-v1", PPO),
    "impala": ("impala", "CartPole-v1", {"num_envs": 2, "rollout_length": 8, "hidden_sizes": (8,)}),
    "reinforce": (
        "reinforce",
        "language:Reverse-4",
        {"num_envs": 2, "rollout_length": 8, "hidden_sizes": (8,)},
    ),
    "dqn": ("dqn", "CartPole-v1", REPLAY | {"hidden_sizes": (8,), "target_update_interval": 8}),
    "dqn-gru": (
        "dqn",
        "CartPole-masked",
        REPLAY | {"hidden_sizes": (8,), "gru_size": 4, "burn_in": 2, "unroll": 3, "learning_starts": 32},
    ),
    "qr-dqn": ("qr-dqn", "CartPole-v1", REPLAY | {"hidden_sizes": (8,), "quantiles": 3}),
    "c51": ("c51", "CartPole-v1", REPLAY | {"hidden_sizes": (8,), "atoms": 5}),
    "iqn": (
        "iqn",
        "CartPole-v1",
        REPLAY | {"hidden_sizes": (8,), "samples": 3, "target_samples": 2, "act_samples": 2, "cosines": 4},
    ),
    "rainbow": ("rainbow", "CartPole-v1", REPLAY | {"hidden_sizes": (8,), "atoms": 5}),
    "pqn": ("pqn", "CartPole-v1", {"num_envs": 2, "rollout_length": 8, "minibatches": 2, "hidden_sizes": (8,)}),
    "dqn-histogram": (
        "dqn",
        "CartPole-v1",
        REPLAY | {"hidden_sizes": (8,), "target_update_interval": 8, "bins": 11},
    ),
    "vdn": ("vdn", "teams:TwoStep", REPLAY | {"hidden_sizes": (8,), "target_update_interval": 8}),
    "qmix": ("qmix", "teams:TwoStep", REPLAY | {"hidden_sizes": (8,), "mixing_size": 4, "target_update_interval": 8}),
    "sac": ("sac", "Pendulum-v1", REPLAY | {"hidden_sizes": (8,)}),
    "tqc": ("tqc", "Pendulum-v1", REPLAY | {"hidden_sizes": (8,), "value_sizes": (8,), "critics": 2, "quantiles": 5}),
    "redq": ("redq", "Pendulum-v1", REPLAY | KIT | {"target_subset": 2}),
    "crossq": ("crossq", "Pendulum-v1", REPLAY | {"hidden_sizes": (8,), "value_sizes": (8,)}),
    "sac-discrete": ("sac-discrete", "CartPole-v1", REPLAY | {"hidden_sizes": (8,)}),
    "td3": ("td3", "Pendulum-v1", REPLAY | {"hidden_sizes": (8,)}),
    "ddpg": ("ddpg", "Pendulum-v1", REPLAY | {"hidden_sizes": (8,)}),
    "recurrent-sac": ("recurrent-sac", "Pendulum-v1", REPLAY | HISTORIES),
    "recurrent-td3": ("recurrent-td3", "Pendulum-v1", REPLAY | HISTORIES),
    "gumbel-search": (
        "gumbel-search",
        "CartPole-v1",
        {"num_envs": 2, "rollout_length": 8, "simulations": 3, "minibatch_size": 8, "hidden_sizes": (8,)},
    ),
    "open-es": ("open-es", "BitFlip-10", {"num_envs": 4, "hidden_sizes": (4,)}),
}
ROWS = dict(AGENTS)
"""Rows by name: those above, and those that tests of a package of parts have added. Tests go through `AGENTS`."""
PARTS: dict[str, dict[str, Any]] = {}
"""Further parts of some rows, by the name of the row. Tests of a package of parts extend the table."""


@functools.lru_cache(maxsize=64)
def program_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `jax.jit` of a function. Equal functions share it, such as the methods of equal parts.

    JAX compiles again for every function that it is given, also for the same method of the same part.
    """
    return jax.jit(lambda *a: function(*a))


def compute(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return `function(*arguments)` by NumPy and in NumPy. Op by op, JAX would compile every operation of it."""
    program = shared_program(function)
    try:
        return evaluate(program, *arguments)
    except NotInNumPy:
        return jax.device_get(program(*arguments))


def compute_exactly(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return `function(*arguments)` in NumPy from one program of XLA, for tests of its last digits."""
    return jax.device_get(shared_program(function)(*arguments))


def shared_program(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        return program_of(function)
    except TypeError:  # the method of a part with arrays, which have no hash
        return jax.jit(lambda *a: function(*a))


def zeros(make: Callable[[], Any]) -> Any:
    """Return the result of `make` with zeros for its numbers, which are not computed."""
    return jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), jax.eval_shape(make))


@functools.lru_cache(maxsize=64)
def first_state(agent: Any, spec: Spec) -> Any:
    """Return an agent's first state, compiled once for all tests of a module that begin with it."""
    return at_once(lambda: agent.init(jax.random.key(0), spec))


def at_once(make: Callable[[], Any]) -> Any:
    """Return the result of `make` on the device, without a program for each of its operations."""
    program = jax.jit(make)
    try:
        return jax.device_put(evaluate(program))
    except NotInNumPy:
        return program()


def keep_compiled() -> None:
    """Lets this process share compiled programs with those that tests start."""
    jax.config.update("jax_compilation_cache_dir", str(PROGRAMS))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", PROGRAM_SECONDS)
    compilation_cache.reset_cache()  # JAX asks once, at its first compilation, whether there is a cache


def environment(**more: str) -> dict[str, str]:
    """The environment variables of a process that a test starts."""
    programs = {
        "JAX_COMPILATION_CACHE_DIR": str(PROGRAMS),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": str(PROGRAM_SECONDS),
    }
    return {**os.environ, **programs, "XDG_CACHE_HOME": str(CACHE), "COLUMNS": "100", **more}


def start(*words: object, cwd: Path | None = None, **more: Any) -> subprocess.Popen[str]:
    """Starts `forage WORDS` in a process of its own."""
    command = [sys.executable, "-m", "forage", *map(str, words)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=cwd, env=environment(), **(pipes | more))


def forage(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs `forage WORDS` to its end."""
    process = start(*words, cwd=cwd)
    out, err = process.communicate(timeout=PATIENCE)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def run_command(capsys: Any, *words: object) -> tuple[int, str, str]:
    """Run `forage WORDS` in this process, which shares compiled programs. Return the exit code and both outputs.

    `capsys` is pytest's.
    """
    from forage.cli import entry as cli

    try:
        cli.main([str(word) for word in words])
    except SystemExit as stopped:
        return stopped.code, *capsys.readouterr()  # type: ignore[return-value]
    raise AssertionError("the command line always ends with an exit code")


def words(options: dict[str, Any]) -> list[str]:
    """Options as the command line takes them."""
    pairs = ((name.replace("_", "-"), value) for name, value in options.items())
    return [w for n, v in pairs for w in (f"--{n}", ",".join(map(str, v)) if isinstance(v, tuple) else str(v))]


def resume_run(setup, folder, turns):
    """Run on from a checkpoint in a new runner; return it, the runner that did not stop, and the report of that one."""
    runner = setup.runner()
    runner.begin()
    runner.advance(turns)
    runner.save(folder / "half.npz", {"steps": runner.steps})
    report = runner.advance(turns)
    again = from_config(json.loads(json.dumps(setup.config()))).runner()
    again.load(folder / "half.npz")
    again.advance(turns)
    return again, runner, report


def differing(left: Any, right: Any) -> list[str]:
    """Return the leaves that differ between two states, bit for bit; NaN is equal to NaN."""
    found = []
    for (name, a), (other, b) in zip(named_leaves(left), named_leaves(right), strict=True):
        assert name == other
        if getattr(a, "dtype", None) != getattr(b, "dtype", None):  # keys of different generators too
            found.append(name)
            continue
        a, b = (np.asarray(jax.random.key_data(x) if is_key(x) else x) for x in (a, b))
        if a.shape != b.shape or a.dtype != b.dtype or a.tobytes() != b.tobytes():
            found.append(name)
    return found


def differing_files(left: Path, right: Path) -> list[str]:
    """Return the leaves that differ between two checkpoints, bit for bit."""
    a, b = checkpoint.arrays(left), checkpoint.arrays(right)
    assert list(a) == list(b)
    return [name for name in a if a[name].tobytes() != b[name].tobytes()]


def train(directory: Path, agent: str = "ppo", **more: Any) -> Any:
    """Trains a row of AGENTS briefly, in this process."""
    from forage.runs import training

    name, environment, options = AGENTS[agent]
    settings: dict[str, Any] = {"steps": 160, "seeds": [3, 7], "evaluation_episodes": 2, "display": "quiet"}
    settings |= {"environment": environment, "agent_options": options | more.pop("agent_options", {})}
    return training.train(name, directory=directory, **(settings | more))


@contextlib.contextmanager
def no_training() -> Iterator[None]:
    """Let runs on the device begin without compiling their loop and an evaluation: the test takes no step with them."""
    from forage.loop.device.runner import DeviceRunner

    loop = SimpleNamespace(wait_for=lambda event: None)
    with mock.patch.multiple(DeviceRunner, _loop=lambda runner: loop, prepare=lambda *_, **__: None):
        yield


class KeptRollout(LastRollout):
    """A memory that keeps the last rollout after it was learned from, for tests that inspect it."""

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> Any:
        return jax.tree.map(lambda x: jnp.zeros((rollout_length, num_envs, *x.shape), x.dtype), example)

    def after_updates(self, state: Experience) -> Any:
        return state


class Pair(EnvironmentCopies):
    """Two agents, each with a pole of its own; for runs that name it, as `small:Pair`."""

    environment: Environment = dataclasses.field(default_factory=CartPole)
