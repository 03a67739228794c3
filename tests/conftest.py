"""Programs are compiled quickly rather than well, and kept between test runs: most of the time of these tests is XLA's.

What users run is compiled with optimisation, so tests that train for long ask for it too (`optimised`).

FORAGE_TEST_MINUTES: what has not begun when they are over is skipped. FORAGE_TEST_ORDER: each text orders the files
differently, so that what is skipped is not always the same. FORAGE_TEST_SHAPES: what functions are given and return is
compared with their annotations, shapes and all.
"""

import gc
import hashlib
import itertools
import os
import re
import tempfile
import threading
import time
from importlib.metadata import version
from pathlib import Path

# What is imported stays: to look through it for garbage again and again takes half a minute.
gc.disable()

cache = Path(__file__).parent.parent / ".cache" / "compiled"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
# Less time to compile. Processes that tests start inherit both.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "true")
# XLA's older code generator takes two thirds of the time. A jaxlib without it would abort at the flag, so its version
# decides. LLVM has been seen to compile an optimised program of it without an end: a random number in a loop that it
# vectorised; so FORAGE_TEST_AS_USED asks for the one that users get. And a program is compiled in one piece: it is cut
# into up to 32 otherwise, each with LLVM's passes, which with a core for each test process takes half as long again.
if not os.environ.get("FORAGE_TEST_AS_USED"):
    flags = ["--xla_cpu_parallel_codegen_split_count=1"]
    if tuple(map(int, re.findall(r"\d+", version("jaxlib"))[:3])) < (0, 11, 1):
        flags.append("--xla_cpu_use_fusion_emitters=false")
    os.environ.setdefault("XLA_FLAGS", " ".join(flags))
os.environ.setdefault("MPLBACKEND", "agg")
# Which code is known is kept apart from what the person who runs the tests knows.
os.environ["XDG_DATA_HOME"] = str(Path(tempfile.gettempdir()) / f"forage-tests-{os.getuid()}" / "data")
# Tests share a process, and JAX settles on its devices at the first: as many as the largest run here has members.
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "4")

import jax  # noqa: E402
import jaxtyping  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from jax._src import compiler  # noqa: E402
from jax._src.interpreters import mlir  # noqa: E402
from jaxlib.mlir import ir  # noqa: E402

if os.environ.get("FORAGE_TEST_SHAPES"):
    jaxtyping.Array = jax.Array | np.ndarray  # NumPy's arrays do wherever JAX's do
    checked = [
        f"{package}.{room}" for package in ("forage", "forage_papers") for room in ("agents", "memory", "nn", "ops")
    ]
    jaxtyping.install_import_hook(checked, "beartype.beartype")

from picture_helpers import render_once  # noqa: E402
from program_helpers import keep_last_programs  # noqa: E402
from small import program_of  # noqa: E402

from forage.core import compiling  # noqa: E402
from forage.loop.device import programs as device  # noqa: E402
from forage.runs import summary, training  # noqa: E402


def share_contexts(make, number=100):
    """Return `make` for MLIR's contexts, with one context for `number` programs: JAX makes one for each.

    To make one, to load its dialects and to drop it takes a quarter of all that a small program takes until it runs.
    A context keeps all that it has seen, so each is dropped in turn. A program that is lowered within another, or in
    another thread, has a context of its own: in a shared one its operations would go where the outer program stands.
    """
    shared, programs = [], itertools.count()

    def share():
        if ir.Context.current is not None or threading.current_thread() is not threading.main_thread():
            return make()
        if next(programs) % number == 0:
            shared[:] = [make()]
        return shared[0]

    return share


# A private function of JAX: a release without it makes a context for every program, and is as right.
if hasattr(mlir, "make_ir_context") and not os.environ.get("FORAGE_TEST_AS_USED"):
    mlir.make_ir_context = share_contexts(mlir.make_ir_context)

# These are private, too. Without them each program is compiled or read from the disk.
if hasattr(compiler, "_cache_read") and hasattr(compiler, "_cache_write"):
    compiler._cache_read, compiler._cache_write = keep_last_programs(compiler._cache_read, compiler._cache_write)

if not os.environ.get("FORAGE_TEST_AS_USED"):
    summary.draw_curve = training.draw_curve = render_once(summary.draw_curve)

BEGAN, MINUTES = time.monotonic(), float(os.environ.get("FORAGE_TEST_MINUTES", "inf"))


def pytest_collection_modifyitems(items):
    order = os.environ.get("FORAGE_TEST_ORDER")
    if order is not None:
        items.sort(key=lambda item: hashlib.sha256(f"{order} {item.path.name}".encode()).digest())


def pytest_collection_finish():
    gc.freeze()
    gc.enable()
    gc.set_threshold(200_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if "monkeypatch" in item.fixturenames:  # a program may be of what is changed there
        program_of.cache_clear()
    if time.monotonic() - BEGAN > 60 * MINUTES:
        pytest.skip(f"the {MINUTES:g} minutes are over")


def pytest_runtest_teardown(item):
    if "monkeypatch" in item.fixturenames:
        program_of.cache_clear()


@pytest.fixture
def no_programs():
    """Clear the compiled programs that runs of one kind share."""
    for programs in (compiling.jit_shared, device.jit_program, program_of):
        programs.cache_clear()


@pytest.fixture
def optimised_programs(no_programs):
    """This test's programs are optimised: it runs them for longer than that takes."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
