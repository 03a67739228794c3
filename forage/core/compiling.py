"""The compilation of programs, and the sharing of one program by equal ones."""

import atexit
import contextlib
import ctypes
import functools
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from types import FunctionType
from typing import Any

import jax
import numpy as np
from jax._src import compiler, config, core  # what compiling, tracing and other threads do has no public names
from jaxtyping import Array, PyTree

from forage.core.errors import ForageError, InterruptedCompiling, RunInterrupted

QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""Compiler options for a program that runs once on the CPU: compiled in less time, but several times as slow to run.

From jaxlib 0.11.1 on there is one code generator, which the second option does not know; the first alone is as quick
there as both are before.
"""

IN_ORDER = {"xla_cpu_enable_concurrency_optimized_scheduler": False}
"""Run the pieces of a program one after the other: those of an update are too small to be worth waking a thread for."""

SUMS_IN_ONE_PIECE = {"xla_disable_hlo_passes": "tree_reduction_rewriter"}
"""On the CPU, sums in one piece fuse with the code around them, and take half the kernels."""

WIDE_VECTORS = {"xla_cpu_prefer_vector_width": 512}
"""Compute with the longest vectors that the CPU has; XLA takes 256 bits, as the first CPUs with more slowed down."""

SAID_AFTER = 60.0
"""Seconds of compiling one program before the first message about it; each further message takes twice as long."""

STOPPED_AFTER = 0.5
"""Seconds that a program may still take to compile once the run was asked to stop."""


KEPT_MEMORY = {-3: 2**29, -1: 2**30, -2: 2**26}
"""Settings of glibc's `mallopt`: blocks below 512 MiB are parts of an arena; less than 1 GiB at the end of one is not
returned to the system; and an arena grows by 64 MiB, below which its end stays with it."""

ONE_ARENA = {-8: 1}
"""The setting by which threads that begin later share the first arena, the only one with blocks above 64 MiB."""


def keep_freed_memory(settings: dict[int, int]) -> bool:
    """Let glibc keep the memory that a program frees for the next one. Return whether it does.

    XLA on the CPU takes one block for all temporary arrays of a program, and frees it at the end. As glibc comes, a
    large block goes back to the system, which clears another one page by page at the next call: that was a third of an
    update of a language model of a million weights. Blocks of neighbouring sizes may stay side by side, a few at most.
    Whoever has set glibc's allocator by environment variables keeps these settings.

    Language agents ask for `ONE_ARENA` as well, when they are imported. Others do not: in the first arena lie the holes
    that tracing and compiling leave, and XLA's matrix products, each of which takes blocks of its own, would search
    them. That was a sixth of PPO's time on CartPole. A thread keeps the arena that it has: where other agents, or
    threads of a notebook, came first, a quarter more time goes into clearing pages of language agents.
    """
    own = any(name.startswith("MALLOC_") for name in os.environ)
    if own or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "") or "glibc" not in platform.libc_ver():
        return False
    library = ctypes.CDLL(None)
    return sum(library.mallopt(number, value) for number, value in settings.items()) == len(settings)


class Background:
    """Work in a separate thread that ends with the process, even if the work is unfinished.

    XLA cannot be stopped while it compiles. So another thread waits for it, and can stop waiting.
    """

    running: set["Background"] = set()
    """Works that are unfinished."""

    left: set["Background"] = set()
    """Works that are unfinished and no longer waited for."""

    def __init__(self, work: Callable[[], Any], after: "Background | None" = None):
        """Begin `work`, or wait with it until other work has ended."""
        self.work, self.after = work, after
        self.ended = threading.Event()
        self.found: Any = None
        self.error: BaseException | None = None
        self.running.add(self)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            if self.after is not None:
                self.after.ended.wait()
            self.found = self.work()
        except BaseException as error:
            self.error = error
        finally:
            del self.work, self.after
            self.ended.set()
            self.running.discard(self)
            self.left.discard(self)

    def wait_for(self, event: threading.Event) -> None:
        """Wait for an event within the work, or for the end of the work.

        Raise `InterruptedCompiling` in the main thread where the run is asked to stop meanwhile.
        """
        while not (event.wait(0.01) or self.ended.is_set()):
            if stop.by and threading.current_thread() is threading.main_thread():
                self.left.add(self)
                stop.check_requested()

    def result(self, name: str = "") -> Any:
        """Wait for the work, and return its result or raise its error.

        With the `name` of a program a line says when compiling it takes long. Raise `InterruptedCompiling` in the
        main thread where the run is asked to stop meanwhile.
        """
        began, said = time.monotonic(), SAID_AFTER
        try:
            while not self.ended.wait(0.1):
                passed = time.monotonic() - began
                if name and passed >= said:
                    said *= 2
                    line = f"Compiling {name} has taken {passed:.0f} s and goes on; Ctrl-C ends it."
                    with contextlib.suppress(OSError, ValueError):  # a line that is lost does not end a run
                        print(line, file=sys.stderr, flush=True)
                if passed >= STOPPED_AFTER and threading.current_thread() is threading.main_thread():
                    stop.check_requested()
        except BaseException:
            self.left.add(self)
            if self.ended.is_set():
                self.left.discard(self)
            raise
        if self.error is not None:
            raise self.error
        return self.found


class Count(threading.local):
    """The number of programs that this thread has had compiled, rather than read from JAX's cache on disk."""

    number = 0


compilations = Count()


def compile_program(function: Any, *arguments: Any, lowered: Callable[[], None] = lambda: None) -> tuple[Any, bool]:
    """Compile a function that was jitted for arguments of which only shapes and placement matter.

    Return the program, and whether it was compiled now, rather than read from JAX's cache on disk. `lowered` is called
    once it is traced and lowered, as only one thread can do that at a time.
    """
    text, before = function.lower(*arguments), compilations.number
    lowered()
    return text.compile(), compilations.number > before


class Stop:
    """A request to stop the run while it compiles, from Ctrl-C for example; empty without one."""

    by = ""

    def ask(self, by: str) -> None:
        """Ask for a stop, from a handler of signals. Raise `InterruptedCompiling` if one is traced."""
        self.by = by
        if not core.trace_state_clean():
            self.check_requested()

    def check_requested(self, during: str = "a program was compiled") -> None:
        """Raise `InterruptedCompiling` once if a stop was requested. `during`: the run's activity, for the message."""
        if self.by:
            by, self.by = self.by, ""
            raise InterruptedCompiling(f"Stopped by {by} while {during}.")


stop = Stop()
keep_freed_memory(KEPT_MEMORY)


def _compile_beside(*arguments: Any, **options: Any) -> Any:
    """Compile as JAX does, but in another thread, so that signals are handled meanwhile."""
    module = options.get("module", arguments[1] if len(arguments) > 1 else None)
    name = str(module.operation.attributes["sym_name"]).strip('"') if module is not None else "a program"
    compilations.number += 1
    return Background(lambda: _compile(*arguments, **options)).result(name)


_compile = compiler.backend_compile_and_load
compiler.backend_compile_and_load = _compile_beside

exit_code: int | None = None
"""The exit code of a command that is over."""


@atexit.register  # after JAX was imported, and so before it takes apart what compiling still uses
def _leave() -> None:
    """End the process while programs compile: at once after a command, or if their compilation was abandoned.

    A person's own script waits for them first. Python itself may not end while a thread is within XLA, as that would
    abort the process.
    """
    code = exit_code
    try:
        while Background.running and not Background.left and code is None:
            time.sleep(0.02)
    except KeyboardInterrupt:
        code = 130
    if not Background.running:
        return
    if code is None:
        error = getattr(sys, "last_value", None)
        code = 0 if error is None else 130 if isinstance(error, KeyboardInterrupt | RunInterrupted) else 1
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):  # closed
                stream.flush()
    os._exit(code)


def check_precision() -> None:
    """Raise `ForageError` if JAX is set to 64 bits, in this thread or in others, as programs compile in another.

    No other thread is asked: it would leave an arena behind before a language agent asks for one (`ONE_ARENA`).
    """
    if config.enable_x64.get_global() or jax.config.read("jax_enable_x64"):
        raise ForageError(
            "Forage counts and learns in 32 bits, and JAX is set to 64 here; unset JAX_ENABLE_X64, or in Python call "
            'jax.config.update("jax_enable_x64", False) first.'
        )


def known_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the compiler options that this release of XLA knows; XLA refuses a program if it has an unknown option."""
    return {name: value for name, value in options.items() if _is_known(name, value)}


@functools.cache
def _is_known(name: str, value: Any) -> bool:
    try:
        _nothing().compile(compiler_options={name: value})
    except jax.errors.JaxRuntimeError as error:
        if "No such compile option" not in str(error):
            raise
        return False
    return True


@functools.cache
def _nothing() -> jax.stages.Lowered:
    """Lower an empty program, to ask about options: each answer takes a few hundredths of a second."""
    return jax.jit(lambda: 0).lower()


@functools.cache
def follows_every_path() -> bool:
    """Return whether programs run on the CPU, compiled by an LLVM that does not end on long chains of whole numbers.

    It is the one of jaxlib 0.11.1 and later.
    """
    return jax.default_backend() == "cpu" and not _is_known("xla_cpu_use_fusion_emitters", False)


@jax.tree_util.register_pytree_node_class
class Flat:
    """A tree that was flattened once, for a program that is called with it many times: parts are flattened slowly."""

    def __init__(self, leaves: tuple[Any, ...], structure: Any):
        self.leaves, self.structure = leaves, structure

    @classmethod
    def flatten(cls, tree: PyTree[Any]) -> "Flat":
        leaves, structure = jax.tree.flatten(tree)
        return cls(tuple(leaves), structure)

    @property
    def tree(self) -> PyTree[Any]:
        return jax.tree.unflatten(self.structure, self.leaves)

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        return self.leaves, self.structure

    @classmethod
    def tree_unflatten(cls, structure: Any, leaves: Any) -> "Flat":
        return cls(tuple(leaves), structure)


def on_host(tree: PyTree[Array]) -> PyTree[np.ndarray]:
    """Return arrays as NumPy's, which on the CPU are the same bytes; from elsewhere all are fetched at once."""
    return jax.tree.map(np.asarray, tree) if jax.default_backend() == "cpu" else jax.device_get(tree)


def on_device(tree: PyTree[Any]) -> PyTree[Any]:
    """Return a tree with its single numbers on the device, so that a program called many times need not copy them."""
    return jax.tree.map(lambda x: jax.device_put(x) if np.ndim(x) == 0 else x, tree)


def kind(tree: PyTree[Any]) -> Hashable:
    """Return a key that is equal for trees of the same structure and classes of the same code; leaves do not matter.

    The code, because notebooks reload a class in place when its file is edited, and tests replace methods. What these
    classes call is not looked at, such as functions of a module or networks: after a change there, call
    `jax.clear_caches()`.
    """
    structure = jax.tree.structure(tree)
    return structure, frozenset(code for part in set(_classes(structure)) for code in _code(part))


@functools.lru_cache(maxsize=128)
def jit_shared(kind: Hashable, function: Any, once: bool = False, in_order: bool = False, **options: Any) -> Any:
    """Jit `function` once for all arguments of one `kind`, so that different numbers share one trace and one program.

    The kinds used last are kept. What runs `once` is compiled quickly rather than well. `in_order`: all devices
    communicate in the same order, without which those of a CPU wait for each other forever. `options` are those of
    `jax.jit`.
    """
    chosen = (QUICK if once else {}) | (IN_ORDER if in_order else {})
    # JAX knows a function again, also in another `jit`; each kind has one of its own.
    return jax.jit(functools.partial(function), compiler_options=known_options(chosen) if chosen else None, **options)


def _classes(structure: Any) -> Iterator[type]:
    data = structure.node_data()
    if data is not None:
        yield data[0]
    for child in structure.children():
        yield from _classes(child)


def _code(part: type) -> Iterator[Any]:
    for base in part.__mro__:
        for name, value in vars(base).items():
            function = getattr(value, "__func__", getattr(value, "fget", value))
            if isinstance(function, FunctionType):
                yield base, name, function.__code__
