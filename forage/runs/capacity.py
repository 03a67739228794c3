"""The memory that a run takes, compared with the free memory before anything is allocated."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np

from forage.config.run_config import RunConfig
from forage.core import prng
from forage.core.checkpoint import Bytes, is_key
from forage.core.mesh import ONE, Shape, part_of, partition_tree
from forage.core.ports import Agent
from forage.core.spaces import Tokens
from forage.core.types import ForageError, Spec
from forage.environments.text.own.prompts import is_file
from forage.loop.runner import Runner

PARTS = {
    "memory": ("what its memory ({memory}) keeps", "a smaller capacity of the memory (--memory.capacity)"),
    "agent": ("the networks of {agent} and their optimisers", "smaller networks"),
    "rewards": ("what its rewards ({rewards}) learn and keep", "other rewards or smaller ones"),
    "behaviour": ("what its behaviour ({behaviour}) keeps", "another behaviour"),
    "starts": ("what its starts keep", "starts that keep fewer states"),
    "pool": ("the environments' starts, made in advance", "fewer environments (num_envs)"),
    "actors": ("the environments' states", "fewer environments (num_envs)"),
    "rollout": ("a rollout", "fewer environments (num_envs) or shorter rollouts (rollout_length)"),
    "visits": ("the map of visits", "a run without visits"),
}
"""For each part of a run's state: its description, and a change that makes it smaller."""


def check_memory(runner: Runner, names: Mapping[str, str]) -> None:
    """Raise `ForageError` if the state of a run is larger than the free memory; pass if that is unknown.

    `names`: those of the agent and the parts, by port.
    """
    needed, devices = bytes_of(runner), runner.devices
    free = free_on(devices)
    agent, spec = runner.learner.agent, runner.learner.spec
    if working := working_bytes(agent, spec, runner.shape):
        count = runner.shape.of_seed
        needed, free = share_of_each(needed, count), None if free is None else free // count
        check_update(agent, spec, needed, working, free, device_words(devices, count), runner.shape)
        return
    total = sum(needed.values())
    if free is None or total <= free:
        return
    part = max(needed, key=lambda name: needed[name])
    what, less = PARTS[part]
    seeds = len(runner.seeds)
    of = f"{seeds} seeds" if seeds > 1 else "1 seed"
    fewer = "fewer seeds or " if seeds > 1 else ""
    where = device_words(devices)
    raise ForageError(
        f"This run of {of} takes {byte_text(total)} of memory, and {byte_text(free)} are free {where}: "
        f"{what.format(**names)} "
        f"takes {byte_text(needed[part])} ({total:,} bytes in all); {fewer}{less} would make it less."
    )


def state_shapes(agent: Agent, spec: Spec) -> Any:
    """Return the shapes of an agent's state."""
    return jax.eval_shape(lambda key: agent.init(key, spec), prng.key(0))


def working_bytes(agent: Agent, spec: Spec, shape: Shape = ONE) -> dict[str, int]:
    """Return the bytes of acting and of an update in addition to the state; empty for most agents.

    `shape`: of a mesh of devices, on each of which they take as many.
    """
    if getattr(type(agent), "working_bytes", Agent.working_bytes) is Agent.working_bytes:
        return {}  # without a look at its state, which takes time
    return agent.working_bytes(spec, state_shapes(agent, spec), shape)


def share_of_each(needed: dict[str, int], count: int) -> dict[str, int]:
    """Return the bytes of each of some devices that together take as many."""
    return {part: -(-size // count) for part, size in needed.items()}


def device_words(devices: list[Any], count: int = 1) -> str:
    """Return the place of a memory for a sentence: of these devices, or of each of the `count` that share a model."""
    each = f"each of {count} devices of " if count > 1 else ""
    return f"on {each}this machine" if devices[0].platform == "cpu" else f"on {each}{devices[0].device_kind}"


def peak_bytes(needed: Mapping[str, int], working: Mapping[str, int]) -> int:
    """Return the largest number of bytes of a run: its state, and either writing or an update."""
    update = sum(size for use, size in working.items() if use not in ("cache", "files"))
    return sum(needed.values()) + working.get("files", 0) + max(working.get("cache", 0), update)


def check_update(
    agent: Agent,
    spec: Spec,
    needed: dict[str, int],
    working: dict[str, int],
    free: int | None,
    where: str,
    shape: Shape = ONE,
) -> None:
    """Raise `ForageError` if state and update of an agent do not fit into the free memory, with changes that do.

    `shape`: of a mesh of devices, on each of which that is.
    """
    peak = peak_bytes(needed, working)
    if free is None or peak <= free:
        return

    seeds = round(needed["agent"] / max(part_bytes(state_shapes(agent, spec), shape), 1))

    def changed_peak(options: dict[str, Any]) -> int:
        other = dataclasses.replace(agent, **options)
        state = state_shapes(other, spec)
        own = {"agent": seeds * part_bytes(state, shape)}
        return peak_bytes(needed | own, other.working_bytes(spec, state, shape))

    peaks = {words: changed_peak(options) for words, options in agent.smaller().items() if options}
    fitting = [f"{words} ({byte_text(size)})" for words, size in peaks.items() if size <= free]
    least = min(peaks, key=lambda words: peaks[words])
    instead = (
        f"{' or '.join(fitting)} would fit"
        if fitting
        else f"{least} would take {byte_text(peaks[least])}, so it needs a smaller model, fewer or shorter answers too"
    )
    raise ForageError(
        f"This run takes {byte_text(peak)} of memory, and {byte_text(free)} are free {where}: "
        f"{', '.join(use_words(needed, working))}; {instead}."
    )


def shorter_answers(
    setup: RunConfig, count: Callable[[], Mapping[str, int]], free: int | None, shape: Shape = ONE
) -> int | None:
    """Return the number of tokens of an answer with which a run fits into the free memory, a half, a quarter and so on.

    `None` where the default of prompts of a file fits, where the option `response` is given, and where none fits.
    `count` returns the bytes of the run's state by part; most runs are not asked, as it takes time. `shape`: as in
    `check_update`.
    """
    prefix, _, target = str(setup.environment_config.get("id", "")).partition(":")
    given = setup.environment_config.get("options") or {}
    longest = getattr(setup.spec.action_space, "length", 0)
    agent = setup.agent
    if free is None or prefix != "text" or not is_file(target) or {"response", "chunk"} & given.keys():
        return None

    if not working_bytes(agent, setup.spec):
        return None
    state, needed = state_shapes(agent, setup.spec), count()

    def fits(response: int) -> bool:
        spec = with_answers(setup.spec, response, "context" not in given)
        return peak_bytes(needed, agent.working_bytes(spec, state, shape)) <= free

    if fits(longest):
        return None
    return next((one for part in range(1, 6) if (one := longest >> part) >= SHORTEST and fits(one)), None)


def with_answers(spec: Spec, response: int, grows: bool) -> Spec:
    """Return the spec of texts with answers of `response` tokens. `grows`: contexts of several turns hold them too."""
    action, observed = spec.action_space, spec.observation_space
    assert isinstance(action, Tokens) and isinstance(observed, gymnasium.spaces.Dict)
    context = observed["context"]
    assert isinstance(context, Tokens)
    less = (action.length - response) * ((spec.horizon or 1) - 1) if grows else 0
    shorter = Tokens(response, action.vocabulary, end=action.ends)
    read = Tokens(max(context.length - less, 1), context.vocabulary, end=context.ends)
    spaces = gymnasium.spaces.Dict({**observed.spaces, "context": read, "reference": shorter})
    return dataclasses.replace(spec, observation_space=spaces, action_space=shorter)


def use_words(needed: Mapping[str, int], working: Mapping[str, int]) -> list[str]:
    """Return the uses of a run's memory with their sizes, largest first."""
    uses = {"weights and optimiser": needed["agent"], "weights as they were read": working.get("files", 0)}
    uses |= {use: size for use, size in working.items() if use != "files"}
    uses["all else"] = sum(size for part, size in needed.items() if part != "agent")
    return [f"{use} {byte_text(size)}" for use, size in sorted(uses.items(), key=lambda one: -one[1]) if size >= 10**6]


def memory_lines(runner: Runner) -> list[str]:
    """Return lines about a large memory, such as `memory: 7.5 GB, 7,475 bytes a transition`; none for a small one."""
    everything = bytes_of(runner)
    agent, spec = runner.learner.agent, runner.learner.spec
    if working := working_bytes(agent, spec, runner.shape):
        count = runner.shape.of_seed
        everything = share_of_each(everything, count)
        peak = peak_bytes(everything, working)
        if peak < WORTH_SAYING:
            return []
        where = f" on each of {count} devices" if count > 1 else ""
        return [f"memory: about {byte_text(peak)}{where}: {', '.join(use_words(everything, working))}"]
    needed = everything["memory"]
    capacity = getattr(runner.learner.memory, "capacity", None)
    if capacity is None or needed < WORTH_SAYING:
        return []
    seeds = len(runner.seeds)
    each = f"{needed // (seeds * capacity):,} bytes a transition, {capacity:,} of them"
    return [f"memory: {byte_text(needed)}, {each}" + (f" for each of {seeds} seeds" if seeds > 1 else "")]


SHORTEST = 16  # tokens of an answer, if memory allows no more
WORTH_SAYING = 10**8
"""The bytes from which the start of a run states a memory's size."""


def bytes_of(runner: Runner) -> dict[str, int]:
    """Count the bytes that each part of a run takes, over all seeds, without making any of it."""
    return {part: tree_bytes(shapes) for part, shapes in runner.array_shapes().items()}


def tree_bytes(tree: Any) -> int:
    """Return the bytes of a tree of arrays or shapes, on all devices together."""
    total = 0
    for leaf in jax.tree.leaves(tree):
        if isinstance(leaf, Bytes):
            continue
        shape = jax.eval_shape(jax.random.key_data, leaf) if is_key(leaf) else leaf
        # Python's integers do not overflow.
        one = int(np.prod([int(n) for n in shape.shape], dtype=object)) * np.dtype(shape.dtype).itemsize
        total += one * copies(getattr(leaf, "sharding", None))
    return total


def copies(sharding: Any) -> int:
    """Count the copies of each element across the devices. Devices of one seed copy every axis that they do not
    split.
    """
    if not isinstance(sharding, jax.sharding.NamedSharding):
        return 1
    return sharding.mesh.size // part_of(sharding.spec, Shape(*sharding.mesh.devices.shape))


def part_bytes(tree: Any, shape: Shape) -> int:
    """Return the bytes of a tree of shapes on each device of a mesh."""
    parts = partition_tree(tree, shape)
    return sum(jax.tree.leaves(jax.tree.map(lambda x, spec: tree_bytes(x) // part_of(spec, shape), tree, parts)))


def free_on(devices: list[Any]) -> int | None:
    """Return the free bytes of these devices together; `None` if a device does not report them."""
    if devices[0].platform == "cpu":
        return free_here()
    free = 0
    for device in devices:
        stats = device.memory_stats()
        if not stats or "bytes_limit" not in stats:
            return None
        free += stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    return free


def free_here(root: Path = Path("/")) -> int | None:
    """Return the bytes that this process may still take: those free on the machine or in its control group, if less."""
    found = [free for free in (_free_of_machine(root), _free_of_group(root)) if free is not None]
    return min(found, default=None)


def _free_of_machine(root: Path) -> int | None:
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:  # other systems report the total at least
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _free_of_group(root: Path) -> int | None:
    """Return the bytes that a container has left: its limit, less the usage that it cannot reclaim (cgroup version 2,
    or 1).
    """
    for folder, limit, usage in (
        (root / "sys/fs/cgroup", "memory.max", "memory.current"),
        (root / "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        try:
            most, used = int((folder / limit).read_text()), int((folder / usage).read_text())
            stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):  # missing, or `max`: no limit
            continue
        return most - used + int(stat.get("inactive_file", stat.get("total_inactive_file", 0)))
    return None


def byte_text(count: int) -> str:
    """`4.2 GB`, `310 MB`, `12 kB`."""
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count / 1000:.3g} kB"
