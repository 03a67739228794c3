"""Install Forage, its zoo and the package of docs/how-to/publish-a-part.md from wheels, and use them by name.

    python benchmarks/publish.py [FOLDER]

Builds the wheels, makes a new environment in FOLDER (default: build/publish), installs the wheels there with pip,
which fetches their dependencies, and runs the commands of the page in an empty folder. Prints each command with its
seconds and the end of its output; the exit code is 1 if one fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "how-to" / "publish-a-part.md"
CHECK = (
    "import forage, forage_effort, sys; assert all(m.__file__.startswith(sys.prefix) for m in (forage, forage_effort))"
)

PLAY = "forage evaluate zoo:ppo-cartpole --episodes 20"


def write_package(folder: Path) -> None:
    """Write the files that the page shows."""
    text = PAGE.read_text()
    files = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", text, re.DOTALL))
    files["pyproject.toml"] = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0]
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def commands() -> list[str]:
    """Return the commands of the page's last block, as written."""
    return re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)[-1].splitlines()


def run(words: list[str], folder: Path, shown: int = 3) -> bool:
    """Run a command in a folder, and print its seconds, its exit code and its last lines. Return whether it worked."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    began = time.monotonic()
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    print(f"$ {' '.join(words)}\n  {time.monotonic() - began:.0f} s, exit code {done.returncode}")
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line and not line.startswith("WARNING")]
    print(*(f"  | {line}" for line in lines[-shown:]), sep="\n", flush=True)
    return done.returncode == 0


def main(folder: Path) -> int:
    """Build, install and use the package. Return the exit code."""
    shutil.rmtree(folder, ignore_errors=True)
    wheels, package, empty = (folder / name for name in ("wheels", "package", "empty"))
    for one in (wheels, package, empty):
        one.mkdir(parents=True)
    write_package(package)
    python, bin = sys.executable, folder / "environment" / "bin"
    steps = [
        [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(wheels), str(one)]
        for one in (ROOT, ROOT / "zoo", package)
    ]
    steps += [[python, "-m", "venv", str(bin.parent)]]
    if not all(run(step, empty) for step in steps):
        return 1
    built = sorted(map(str, wheels.glob("*.whl")))
    steps = [[str(bin / "pip"), "install", "--quiet", "--no-compile", *built], [str(bin / "python"), "-c", CHECK]]
    steps += [["sh", "-c", f"PATH={bin}:$PATH; {command}"] for command in ("forage list", PLAY, *commands())]
    failed = [step for step in steps if not run(step, empty, 12)]
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "publish").resolve()))
