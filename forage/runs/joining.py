"""Lead a run on several hosts, or join the run of another host (`loop/cluster/hosts.py`)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import cast

import jax

from forage.config.resolve import from_config
from forage.config.run_config import RunConfig
from forage.core.mesh import Devices, Shape
from forage.core.types import ForageError
from forage.loop.cluster.hosts import Channel, Hosts, LeadingRunner, connect, follow_leader, plain_arguments
from forage.loop.cluster.workers import NO_WORKERS, Workers
from forage.loop.device.runner import DeviceRunner
from forage.loop.runner import Runner
from forage.runs.display import Progress


def lead(count: int, address: str, note: Callable[[str], None] = lambda text: None) -> Channel | None:
    """Wait for the other hosts, if there are any. Call it before JAX's first use."""
    if count < 1:
        raise ForageError(f"A run is on 1 host or more, not {count}.")
    if count == 1:
        if address:
            raise ForageError("A coordinator is where several hosts meet; say how many with --hosts N.")
        return None
    if not address:
        raise ForageError(f"{count} hosts need a place to meet; name this one's with --coordinator NAME:PORT.")
    connect(Hosts(count, address), note)
    return Channel()


def runner_on(channel: Channel, setup: RunConfig, devices: Devices, workers: Workers = NO_WORKERS) -> Runner:
    """Build the runner on all hosts."""
    config = setup.config()
    if setup.native and "id" not in config["environment"]:
        raise ForageError("Other hosts make the environment from its name, and this one is a Python object.")
    runner = setup.runner(devices, workers=workers, hosts=jax.process_count())
    channel.tell("run", config, plain_arguments(devices), isinstance(devices, Shape), os.getcwd())
    return cast(Runner, LeadingRunner(cast(DeviceRunner, runner), channel))


def follow_host(address: str, number: int, count: int, display: Progress) -> None:
    """Follow the first host until its run is over."""
    if count < 2:
        raise ForageError(f"Several hosts are 2 or more, not {count}.")
    if number == 0:
        raise ForageError("Host 0 leads, with forage train or forage resume; the others are number 1 and up.")
    connect(Hosts(count, address, number), display.note)
    channel = Channel()
    heard, told = channel.hear()
    if heard != "run":
        display.note("The first host ended before it began to train.")
        return
    config, shape, is_shape, folder = told
    with contextlib.suppress(OSError):  # on machines that differ, the run's relative paths may not exist
        os.chdir(folder)
    setup = from_config(config, where=None)  # the user chose the leading host
    display.note(f"Host {number} of {count} trains {setup.name} with the first, at {address}.")
    runner = setup.runner(Shape(*shape) if is_shape else shape, hosts=count)
    follow_leader(cast(DeviceRunner, runner), channel, number, display.note)
    display.note("The first host's run is over.")
