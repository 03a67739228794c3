"""Run the core's tests in a copy of this repository without the package of papers and its tests.

`python tests/without_papers.py [WORDS ...]` copies what git tracks into build/core and runs pytest there with these
words. The copy has a distribution of its own without entry points, in place of the one that is installed, and a module
that fails to import in place of the package.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[1]
COPY = ROOT / "build" / "core"
PAPERS = ("forage_papers/", "tests/papers/")
ABSENT = "raise ModuleNotFoundError('There is no package of papers here.', name=__name__)\n"
CHECK = """
import sys, forage
from forage.config import packages
assert forage.__file__.startswith(sys.argv[1]), forage.__file__
assert not packages.load_packages(), "a package of parts is installed"
"""
METADATA = "Metadata-Version: 2.3\nName: forage-rl\nVersion: 0.1.0\n"


def copy_core(target: Path = COPY) -> None:
    """Copy the tracked files but those of papers, and write the distribution's metadata."""
    shutil.rmtree(target, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if not name.startswith(PAPERS) and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    if (cache := ROOT / ".cache").exists():
        (target / ".cache").symlink_to(cache.resolve())
    info = target / "forage_rl-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    (target / "forage_papers.py").write_text(ABSENT)


def main(words: list[str]) -> NoReturn:
    """Become pytest in the copy."""
    copy_core()
    environment = os.environ | {"PYTHONPATH": str(COPY)}
    subprocess.run([sys.executable, "-c", CHECK, str(COPY)], cwd=COPY, env=environment, check=True)
    os.chdir(COPY)
    os.execve(sys.executable, [sys.executable, "-m", "pytest", *words], environment)


if __name__ == "__main__":
    main(sys.argv[1:])
