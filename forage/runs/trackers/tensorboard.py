"""TensorBoard: events under RUN/tensorboard. `tensorboard --logdir runs` shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from forage.core.plain import dumps
from forage.runs.trackers.base import Tracker


class TensorBoard(Tracker):
    """Events under RUN/tensorboard.

    A resumed run makes TensorBoard forget its points and sends all of them again: a kill may have left points that are
    trained again, and lost others before they were on the disk.
    """

    package: ClassVar[str] = "tensorboardX"
    rewrites: ClassVar[bool] = True

    def __init__(self, directory: Path, config: dict[str, Any], again: bool) -> None:
        from tensorboardX import SummaryWriter

        folder = directory / "tensorboard"
        # Files are read in the order of their names, which hold whole seconds: another file of the same second would be
        # overwritten.
        suffix = f".{len(list(folder.glob('*')))}"
        self.writer = SummaryWriter(str(folder), purge_step=0 if again else None, filename_suffix=suffix)
        text = dumps(config, indent=1)
        self.writer.add_text("config", "".join(f"    {line}\n" for line in text.splitlines()), 0)  # a block of code

    def write(self, steps: int, numbers: dict[str, float]) -> None:
        """Add the numbers as scalars."""
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, steps)

    def close(self) -> None:
        """Write the pending events."""
        self.writer.close()
