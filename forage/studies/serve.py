"""A policy behind HTTP (`forage serve`). An exported file is served without JAX."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forage.config.packages import locate_run
from forage.core.errors import ForageError
from forage.loop.plain import PlainPolicy
from forage.studies.serving.onnx_policy import OnnxPolicy
from forage.studies.serving.server import PolicyServer
from forage.studies.serving.service import Limits, PolicyService

EXPORTED = (".npz", ".onnx")
"""The suffixes of exported files that are served."""


def open_policy(
    source: str | os.PathLike[str],
    seed: int | None = None,
    checkpoint: str | int | None = None,
    actions: str | None = None,
) -> PlainPolicy:
    """Return the policy to serve: of an exported `policy.npz` or `policy.onnx`, or of a run, as `forage export` would
    write it.

    A directory that is no run may hold one exported policy with its manifest. `seed`, `checkpoint` and `actions` choose
    among a run's policies. Raise `ForageError` for other files, and for policies that NumPy cannot run.
    """
    path = exported_file(locate_run(source))
    if path.is_file():
        if path.suffix not in EXPORTED:
            raise ForageError(
                f"forage serve takes a run or an exported policy.npz or policy.onnx, and {path.name} is neither."
            )
        if (seed, checkpoint, actions) != (None, None, None):
            raise ForageError(f"{path} holds one policy; --seed, --checkpoint and --actions choose among a run's.")
        if path.suffix == ".onnx":
            return OnnxPolicy(path)
        try:
            return PlainPolicy(path)
        except ValueError as error:
            raise ForageError(str(error)) from error
    from forage.agents.language.base import LanguageAgent
    from forage.config.saved import load
    from forage.loop.export import plain_policy
    from forage.runs.run import Run

    policy = load(Run(path).directory, seed, actions, checkpoint=checkpoint)
    if isinstance(policy.agent, LanguageAgent):
        raise ForageError(
            f"{path} is a language policy; forage export writes it for a server of language models, such as vLLM."
        )
    return plain_policy(policy)


def exported_file(path: Path) -> Path:
    """Return the one exported policy that a directory holds, by its manifest; of a run or a file, the path itself."""
    if not path.is_dir() or (path / "agent.npz").exists():
        return path
    found = sorted(one for one in path.iterdir() if one.suffix in EXPORTED and manifest_of(one).exists())
    if len(found) > 1:
        raise ForageError(f"{path} holds {', '.join(one.name for one in found)}; name one of these files.")
    if not found and (path / "model.safetensors").exists():
        raise ForageError(
            f"{path} is a language model in Hugging Face's form; a server of those, such as vLLM, runs it."
        )
    return found[0] if found else path


def manifest_of(path: Path) -> Path:
    """Return the path of an exported file's manifest."""
    return path.with_name(f"{path.name}.json")


def make_server(policy: PlainPolicy, host: str, port: int, limits: Limits) -> PolicyServer:
    """Return a server of a policy that listens already. Raise `ForageError` if it cannot."""
    try:
        return PolicyServer(PolicyService(policy, limits), host, port)
    except ValueError as error:
        raise ForageError(str(error)) from error


def serve(server: PolicyServer, ready: Callable[[PolicyServer], None] = lambda server: None) -> int:
    """Answer requests until SIGTERM, SIGINT or SIGHUP, then finish open ones. Return the number of answers.

    `ready` is called once the server answers. A second signal stops at once.
    """
    stop = threading.Event()
    with stopped_by_signals(stop):
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        try:
            ready(server)
            stop.wait()
        finally:
            server.stop()
            thread.join()
    return server.answered


@contextmanager
def stopped_by_signals(stop: threading.Event) -> Generator[None]:
    """Set an event at the first signal to stop, and raise `KeyboardInterrupt` at the second."""

    def handle(number: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
