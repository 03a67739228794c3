"""Several hosts train one run on all of their devices: the first leads, and the others do as it does.

JAX asks every process to run the same programs in the same order (`jax.distributed`). The first process is the one
that a person sees: it trains, evaluates, writes and decides. Before it calls its runner it says so to the others, by a
line of JSON in the store of JAX's coordinator, and each of them calls the same of a runner of its own:

    first     advance(8) -> evaluate(32, 500, 7) -> save("...") -> close()
    others    hear, call, hear, call, ...

So nothing that depends on a clock, a keyboard or a disk is decided twice, and no code travels, only names and numbers.
A process that dies takes the others with it, as JAX has it; `forage resume` goes on from the newest checkpoint.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import errno
import io
import ipaddress
import json
import os
import re
import selectors
import socket
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from jax._src import distributed  # its store of words has no public name
from jaxtyping import Array, PyTree

from forage.core.checkpoint import generator_of
from forage.core.mesh import bits, forced_devices, is_key
from forage.core.plain import dumps
from forage.core.types import ForageError
from forage.loop.device.runner import DeviceRunner

PATIENCE = 600_000  # milliseconds of one wait; whoever waits longer waits again
GOODBYE = 20  # seconds that the first process waits for others that do not end
REMEMBERED = 100  # messages that stay in the store
LONGEST_LINE = 4096  # bytes of how a host introduces itself
MOST_STRANGERS = 64  # connections that have said nothing yet
CALLS = ("begin", "advance", "prepare", "evaluate", "next_rollout", "save", "agent_states", "search", "attempt",
    "attempt_evaluation", "adopt", "retire")  # fmt: skip
"""Methods of a runner that run programs on all devices, or fetch arrays from them, and take plain numbers."""
SEEN = ("shown", "visits", "begun")
"""Properties that fetch arrays from all devices."""


class Hosts(NamedTuple):
    """The number of processes that train a run, the number of this one, and the address of the first one."""

    count: int
    address: str  # of the first one, such as machine:4711
    number: int = 0


def connect(hosts: Hosts, note: Callable[[str], None] = lambda text: None, seconds: float = 300.0) -> None:
    """Join the other processes. Raise `ForageError` if that cannot be; must precede JAX's first use."""
    found = re.fullmatch(r"([\w.-]+|\[[\w:.]+\]):(\d+)", hosts.address)
    if not found or not 0 < int(found[2]) < 65536:
        raise ForageError(f"The first host listens at NAME:PORT, such as localhost:4711, not at {hosts.address!r}.")
    if not 0 <= hosts.number < hosts.count:
        raise ForageError(f"Of {hosts.count} hosts the others are number 1 to {hosts.count - 1}, not {hosts.number}.")
    if forced := forced_devices():
        raise ForageError(f"On the CPU a host has one device, and XLA_FLAGS makes {forced} of it; leave that out.")
    try:
        jax.config.update("jax_num_cpu_devices", 1)  # Gloo mixes up what several of a process send
    except RuntimeError:
        raise ForageError("Hosts find each other before JAX is used; begin such a run in a new process.") from None
    # JAX itself would abort where somebody does not come, or has another release.
    (await_others if hosts.number == 0 else report_to_first)(hosts, found[1].strip("[]"), int(found[2]), note, seconds)
    here = hosts.address if hosts.number == 0 and is_loopback(found[1].strip("[]")) else None  # else on all networks
    jax.distributed.initialize(
        hosts.address, hosts.count, hosts.number, coordinator_bind_address=here, shutdown_timeout_seconds=GOODBYE
    )
    jax.devices()  # which all hosts have to ask for at once


def card(hosts: Hosts) -> dict[str, Any]:
    """Return a host's introduction of itself."""
    return {"number": hosts.number, "hosts": hosts.count, "jax": jax.__version__}


def await_others(hosts: Hosts, name: str, port: int, note: Callable[[str], None], seconds: float) -> None:
    """Wait until all other hosts have joined, and confirm it to them. A host that cannot join gets the reason."""
    listener = listen(name, port)
    came: dict[int, socket.socket] = {}
    heard: dict[socket.socket, bytes] = {}  # by who has connected: the line that it has begun
    until = time.monotonic() + seconds
    note(f"Waits for {hosts.count - 1} more at {hosts.address}, {seconds:.0f} seconds at most.")
    with listener, selectors.DefaultSelector() as ready:
        ready.register(listener, selectors.EVENT_READ)
        try:
            while len(came) < hosts.count - 1:
                left = until - time.monotonic()
                if left <= 0:
                    missing = [str(number) for number in range(1, hosts.count) if number not in came]
                    raise ForageError(f"Host {', '.join(missing)} did not come within {seconds:.0f} seconds.")
                for key, _ in ready.select(left):
                    if key.fileobj is listener:
                        with contextlib.suppress(OSError):  # it has left again, or we have no more files
                            other, _ = listener.accept()
                            other.setblocking(False)
                            heard[other] = b""
                            ready.register(other, selectors.EVENT_READ)
                            silent = [one for one in heard if one not in came.values()]
                            if len(silent) > MOST_STRANGERS:
                                dismiss(silent[0], heard, ready)
                        continue
                    other = cast(socket.socket, key.fileobj)
                    line = next_line(other, heard)
                    if other in came.values():  # who has nothing more to say
                        if line is not None:
                            came = {number: one for number, one in came.items() if one is not other}
                            dismiss(other, heard, ready)
                        continue
                    if line is None:
                        continue
                    number, wrong = identify_host(hosts, line, came)
                    if number:
                        came[number], heard[other] = other, b""
                    else:
                        dismiss(other, heard, ready, wrong)
            for other in came.values():
                other.settimeout(10.0)
                with contextlib.suppress(OSError):  # it is gone, and JAX says so
                    other.sendall(b"{}\n")
        finally:
            for other in heard:
                other.close()


def listen(name: str, port: int) -> socket.socket:
    """Return a socket that listens at a name's own address, or at all where that is not one of this machine's.

    Raise `ForageError` if that cannot be.
    """
    try:
        try:
            family, _, _, _, address = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0]
            return socket.create_server(address, family=family)
        except socket.gaierror:
            return socket.create_server(("", port))
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            return socket.create_server(("", port))
    except OSError as error:
        raise ForageError(
            f"Port {port} cannot be listened at ({error.strerror}); name another one with --coordinator."
        ) from None


def is_loopback(name: str) -> bool:
    """Return whether a name is a loopback address, reachable only from this machine."""
    with contextlib.suppress(OSError, ValueError):
        return all(ipaddress.ip_address(one[4][0]).is_loopback for one in socket.getaddrinfo(name, None))
    return False


def next_line(other: socket.socket, heard: dict[socket.socket, bytes]) -> bytes | None:
    """Return the next line of a connection, `b""` if it is closed, and `None` if the line is incomplete."""
    try:
        said = other.recv(LONGEST_LINE)
    except BlockingIOError:
        return None
    except OSError:
        return b""
    heard[other] += said
    line, end, _ = heard[other].partition(b"\n")
    if end:
        return line
    return None if said and len(line) < LONGEST_LINE else b""


def identify_host(hosts: Hosts, line: bytes, came: Collection[int]) -> tuple[int, str]:
    """Return the number of the host that sent a line, or 0 and the reason to refuse it; no reason for a stranger."""
    try:
        said = json.loads(line)
        if type(said["number"]) is not int or type(said["hosts"]) is not int or not isinstance(said["jax"], str):
            return 0, ""
    except (ValueError, KeyError, TypeError, RecursionError):  # somebody else, who knows nothing of this
        return 0, ""
    wrong = misfit(hosts, said, came)
    return (0, wrong) if wrong else (said["number"], "")


def dismiss(
    other: socket.socket, heard: dict[socket.socket, bytes], ready: selectors.BaseSelector, wrong: str = ""
) -> None:
    """Close the connection of a process that does not join; a host gets the reason."""
    ready.unregister(other)
    heard.pop(other, None)
    with contextlib.suppress(OSError):
        if wrong:
            other.sendall(dumps({"error": wrong}).encode() + b"\n")
    other.close()


def misfit(hosts: Hosts, said: dict[str, Any], came: Collection[int]) -> str:
    """Return the reason to refuse another host, or an empty text."""
    if said["hosts"] != hosts.count:
        return f"The first host is one of {hosts.count}, and this one of {said['hosts']}; give both the same --hosts."
    if not 0 < said["number"] < hosts.count or said["number"] in came:
        return f"Host {said['number']} has come already; give each a --number of its own, from 1 on."
    if said["jax"] != jax.__version__:
        return f"The first host has jax {jax.__version__}, and this one {said['jax']}; install the same."
    return ""


def report_to_first(hosts: Hosts, name: str, port: int, note: Callable[[str], None], seconds: float) -> None:
    """Tell the first host that this one is there, and wait until all are."""
    until = time.monotonic() + seconds
    while True:
        try:
            with socket.create_connection((name, port), 5.0) as first:
                first.settimeout(max(0.1, until - time.monotonic()))
                first.sendall(dumps(card(hosts)).encode() + b"\n")
                if answer := first.makefile().readline(LONGEST_LINE):
                    if wrong := json.loads(answer).get("error"):
                        raise ForageError(wrong)
                    return
        except OSError as error:
            if time.monotonic() > until:
                raise ForageError(
                    f"Nobody leads a run at {hosts.address} ({error}); call forage train --coordinator there."
                ) from None
        if time.monotonic() > until:
            raise ForageError(f"The other hosts did not come to {hosts.address} within {seconds:.0f} seconds.")
        time.sleep(0.2)


class Channel:
    """The ordered commands of the first process to the others."""

    def __init__(self) -> None:
        self.client: Any = distributed.global_state.client
        self.said = 0
        self.ended, self.lost = False, False
        if distributed.global_state.process_id == 0:  # JAX's own goodbye, registered earlier, comes later
            atexit.register(self.leave)

    def missing(self, error: jax.errors.JaxRuntimeError) -> ForageError:
        """Return an error for the loss of another process, in place of JAX's own."""
        self.lost = True
        return ForageError(
            f"Another host is gone ({str(error).splitlines()[0]}); start the others again, and go on with forage "
            f"resume --hosts"
        )

    def tell(self, name: str, *arguments: Any) -> None:
        """Send one command to all other processes."""
        self.client.key_value_set(f"forage/{self.said}", dumps([name, *arguments]))
        self.said += 1
        if self.said > REMEMBERED:
            self.client.key_value_delete(f"forage/{self.said - REMEMBERED - 1}")

    def end(self) -> None:
        """Let the others go."""
        if not self.ended and not self.lost:
            self.ended = True
            self.tell("close")

    def leave(self) -> None:
        """End this process: at once where another is lost, as JAX would wait for it to say goodbye, and abort."""
        if self.lost:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(2)
        self.end()

    def hear(self) -> tuple[str, list[Any]]:
        """Wait for the next command."""
        while True:
            try:
                text = self.client.blocking_key_value_get(f"forage/{self.said}", PATIENCE)
            except jax.errors.JaxRuntimeError as error:
                if "DEADLINE_EXCEEDED" in str(error):
                    continue
                raise
            self.said += 1
            name, *arguments = json.loads(text)
            return name, arguments

    def answer(self, number: int, text: str) -> None:
        """Reply to the leader's last command."""
        self.client.key_value_set(f"forage/{self.said - 1}/{number}", text)

    def answers(self, count: int) -> list[str]:
        """Wait for the replies of all other processes to the last command."""
        return [
            self.client.blocking_key_value_get(f"forage/{self.said - 1}/{number}", PATIENCE)
            for number in range(1, count)
        ]


class LeadingRunner:
    """The first process's runner: it sends each command to the others before it runs it. Otherwise it acts as the
    runner.
    """

    def __init__(self, runner: DeviceRunner, channel: Channel):
        self.runner, self.channel = runner, channel

    def __getattr__(self, name: str) -> Any:
        if name in SEEN:
            self.channel.tell("look", name)
        found = getattr(self.runner, name)
        if name not in CALLS:
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            self.channel.tell("call", name, plain_arguments(arguments), plain_arguments(named))
            try:
                return found(*arguments, **named)
            except jax.errors.JaxRuntimeError as error:
                if is_of_another(error):
                    raise self.channel.missing(error) from error
                raise

        return call

    def load(self, path: Path) -> dict[str, Any]:
        """Continue from a checkpoint that all hosts see."""
        self.channel.tell("see", str(path))
        hosts = self.channel.answers(jax.process_count())
        if blind := [str(number) for number, seen in enumerate(hosts, 1) if not seen]:
            raise ForageError(f"Host {', '.join(blind)} cannot see {path}; all hosts need the same folder of runs.")
        self.channel.tell("call", "load", [str(path)], {})
        return self.runner.load(path)

    def inherit(self, agents: PyTree[Array], memory: PyTree[Array] | None, steps: int) -> None:
        """Take the learned state of another run, and send it to the others."""
        self.channel.tell("inherit", pack_tree(agents), None if memory is None else pack_tree(memory), steps)
        self.runner.inherit(agents, memory, steps)

    def select(self, rows: Sequence[int]) -> LeadingRunner:
        """Return a runner that continues with these members alone."""
        self.channel.tell("select", plain_arguments(rows))
        return LeadingRunner(self.runner.select(rows), self.channel)

    def close(self) -> None:
        """Free all resources, and release the other processes."""
        self.channel.end()
        self.runner.close()


def follow_leader(runner: DeviceRunner, channel: Channel, number: int, note: Callable[[str], None]) -> None:
    """Do as the first process does, until it closes its runner."""
    while True:
        name, arguments = channel.hear()
        try:
            if name == "close":
                runner.close()
                return
            if name == "look":
                getattr(runner, arguments[0])
            elif name == "see":
                channel.answer(number, "yes" if Path(arguments[0]).exists() else "")
            elif name == "inherit":
                agents, memory, steps = arguments
                like = runner.shapes().learner
                runner.inherit(
                    unpack_tree(agents, like.agent), None if memory is None else unpack_tree(memory, like.memory), steps
                )
            elif name == "select":
                runner = runner.select(arguments[0])
            else:
                method, given, named = arguments
                if method in ("save", "load"):
                    given[0] = Path(given[0])
                getattr(runner, method)(*given, **named)
        except ForageError as error:  # the first process meets the same, and decides what follows
            note(str(error))


def is_of_another(error: jax.errors.JaxRuntimeError) -> bool:
    """Return whether an error is about the communication between processes."""
    return any(word in str(error) for word in ("Gloo", "NCCL", "UNAVAILABLE", "coordination"))


def plain_arguments(value: Any) -> Any:
    """Return arguments as JSON has them."""
    if isinstance(value, dict):
        return {str(key): plain_arguments(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain_arguments(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return str(value) if isinstance(value, Path) else value


def pack_tree(tree: PyTree[Array]) -> str:
    """Return the numbers of a tree as text."""
    buffer = io.BytesIO()
    np.savez(buffer, *(np.asarray(bits(leaf)) for leaf in jax.tree.leaves(tree)))
    return base64.b64encode(buffer.getvalue()).decode()


def unpack_tree(text: str, like: PyTree[Any]) -> PyTree[Array]:
    """Return the tree whose numbers were `pack_tree`; `like`: its shapes."""
    leaves, treedef = jax.tree.flatten(like)
    with np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False) as found:
        arrays = [found[f"arr_{i}"] for i in range(len(leaves))]
    keyed = [
        jax.random.wrap_key_data(array, impl=generator_of(leaf)) if is_key(leaf) else array
        for array, leaf in zip(arrays, leaves, strict=True)
    ]
    return jax.tree.unflatten(treedef, keyed)
