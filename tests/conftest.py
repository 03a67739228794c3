"""Compiled programs are kept between test runs: most of the time of these tests is XLA's."""

import os
from pathlib import Path

cache = Path(__file__).parent.parent / ".cache" / "compiled"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
os.environ.setdefault("MPLBACKEND", "agg")
# Tests share a process, and JAX settles on its devices at the first: as many as the largest run here has members.
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "4")
