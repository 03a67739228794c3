"""The mesh of devices on which a runner puts its seeds."""

from __future__ import annotations

import math

import jax

from forage.core import mesh
from forage.core.ports import Evolver
from forage.loop.device.loop import DeviceLoop


def shape_of(seeds: int, units: int, here: list[jax.Device], asked: mesh.Devices) -> mesh.Shape:
    """Return the shape of the mesh, of all local devices unless others were requested.

    On the CPU, whose devices take from each other what they take, no seed runs twice, and environments are split only
    where devices were asked for.
    """
    on_cpu = here[0].platform == "cpu"
    if on_cpu and asked is None:
        asked = mesh.forced_devices()
    if isinstance(asked, mesh.Shape) and mesh.size_of(asked) <= len(here) and asked.seed <= seeds:
        return asked
    count = min(asked, len(here)) if isinstance(asked, int) else len(here)
    return mesh.shape_for(seeds, 1 if on_cpu and asked is None else units, count, doubles=not on_cpu)


def shared_batch(loop: DeviceLoop) -> tuple[int, str]:
    """Return the batch size that the devices of one seed must divide, and its name."""
    agent, memory = loop.agent, loop.learner.memory
    if isinstance(agent, Evolver):
        return agent.population, f"populations of {agent.population}"
    if memory.offline:
        return agent.batch_size, f"batches of {agent.batch_size}"
    if memory.on_policy:
        return agent.num_envs, f"num_envs {agent.num_envs}"
    both = f"num_envs {agent.num_envs} and batches of {agent.batch_size}"
    return math.gcd(agent.num_envs, agent.batch_size), both
