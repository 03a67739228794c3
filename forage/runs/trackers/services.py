"""Trackers of other programs: CSV, TensorBoard, Trackio, Weights & Biases and MLflow."""

from __future__ import annotations

import contextlib
import csv
import io
import logging
import os
import re
import time
from pathlib import Path
from typing import Any, ClassVar

from forage.core.plain import dumps
from forage.core.storage import archives
from forage.runs.trackers.base import Tracker, flat_config, identity


class Csv(Tracker):
    """RUN/metrics.csv, a table of the curve, the evaluations and the score, for spreadsheets and pandas.

    It has a row for each step and a column for each number. The configuration is in metrics.config.json next to it.
    """

    rewrites: ClassVar[bool] = True

    def __init__(self, directory: Path, config: dict[str, Any], again: bool) -> None:
        self.path = directory / "metrics.csv"
        self.rows: dict[int, dict[str, float]] = {}
        (directory / "metrics.config.json").write_text(dumps(config, indent=1) + "\n")

    def write(self, steps: int, numbers: dict[str, float]) -> None:
        """Rewrite the table, as numbers of one step may come separately and add columns."""
        self.rows.setdefault(steps, {}).update(numbers)
        text = io.StringIO(newline="")
        names = dict.fromkeys(name for row in self.rows.values() for name in row)
        table = csv.DictWriter(text, ["steps", *names], lineterminator="\n")
        table.writeheader()
        table.writerows({"steps": step} | row for step, row in sorted(self.rows.items()))
        archives.write_atomically(self.path, text.getvalue().encode())


class TensorBoard(Tracker):
    """Events under RUN/tensorboard; `tensorboard --logdir runs` shows them.

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


class Trackio(Tracker):
    """A run of Trackio, named after the run's directory and a few letters of its id. A resumed run continues it.

    It is of the project `forage`, or TRACKIO_PROJECT, in a database of this machine (`trackio show`).
    """

    package: ClassVar[str] = "trackio"

    def __init__(self, directory: Path, config: dict[str, Any], again: bool) -> None:
        import trackio

        own = identity(directory, "trackio", again)
        with contextlib.redirect_stdout(io.StringIO()):  # it prints a greeting
            self.run = trackio.init(
                project=os.environ.get("TRACKIO_PROJECT", "forage"),
                name=f"{directory.name}-{own[:6]}",
                config=flat_config(config),
                resume="allow",
            )

    def write(self, steps: int, numbers: dict[str, float]) -> None:
        """Log the numbers at their step."""
        self.run.log(dict(numbers), step=steps)

    def close(self) -> None:
        """Wait for pending writes."""
        import trackio

        with contextlib.redirect_stdout(io.StringIO()):
            trackio.finish()


class WandB(Tracker):
    """A run of Weights & Biases with environment steps as the x-axis; the score is in its summary.

    It is of the project `forage`, or WANDB_PROJECT. WANDB_MODE=offline needs no account.

    A resumed run continues under the same id. `wandb sync --append` joins the parts of one that was stopped offline.
    """

    package: ClassVar[str] = "wandb"

    def __init__(self, directory: Path, config: dict[str, Any], again: bool) -> None:
        import wandb

        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "forage"),
            name=directory.name,
            id=identity(directory, "wandb", again),
            resume="allow",
            dir=str(directory),
            config=config,
            # It would print into the display, and capture prints.
            settings=wandb.Settings(silent=True, console="off"),
        )
        self.run.define_metric("*", step_metric="steps")

    def write(self, steps: int, numbers: dict[str, float]) -> None:
        """Log the numbers with their step."""
        self.run.log({"steps": steps} | numbers)

    def finish(self, steps: int, numbers: dict[str, float]) -> None:
        """Put the score into the summary."""
        self.run.summary.update(numbers)

    def close(self) -> None:
        """Wait for pending uploads."""
        self.run.finish()


MOST_PARAMETERS, MOST_METRICS = 100, 1000  # that MLflow accepts at once
LONGEST = 500  # letters that every version accepts in a parameter


class MLflow(Tracker):
    """A run of MLflow: the configuration as parameters, the numbers as metrics. A resumed run continues it.

    It is of the experiment `forage`, in `mlflow.db` next to the run, or at MLFLOW_TRACKING_URI.
    `mlflow ui --backend-store-uri sqlite:///runs/mlflow.db` shows it.
    """

    package: ClassVar[str] = "mlflow"

    def __init__(self, directory: Path, config: dict[str, Any], again: bool) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Param

        here = f"sqlite:///{(directory.resolve().parent / 'mlflow.db').as_posix()}"
        self.client = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI", here))
        self.over = "KILLED"
        logging.getLogger("mlflow").setLevel(logging.WARNING)  # it logs each table that it makes
        if again and (directory / "mlflow.id").exists():
            self.run = identity(directory, "mlflow", again)
            self.client.update_run(self.run, status="RUNNING")
            return
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "forage")
        found = self.client.get_experiment_by_name(name)
        experiment = found.experiment_id if found else self.client.create_experiment(name)
        made = self.client.create_run(experiment, run_name=directory.name)
        self.run = identity(directory, "mlflow", False, made.info.run_id)
        parameters = [Param(valid_name(key), str(value)[:LONGEST]) for key, value in flat_config(config).items()]
        for first in range(0, len(parameters), MOST_PARAMETERS):
            self.client.log_batch(self.run, params=parameters[first : first + MOST_PARAMETERS])

    def write(self, steps: int, numbers: dict[str, float]) -> None:
        """Log the numbers as metrics."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(valid_name(key), value, now, steps) for key, value in numbers.items()]
        for first in range(0, len(metrics), MOST_METRICS):
            self.client.log_batch(self.run, metrics=metrics[first : first + MOST_METRICS])

    def finish(self, steps: int, numbers: dict[str, float]) -> None:
        """Log the score; after it the run is over."""
        self.write(steps, numbers)
        self.over = "FINISHED"

    def close(self) -> None:
        """Report the status of the run's end."""
        self.client.set_terminated(self.run, status=self.over)


def valid_name(key: str) -> str:
    """Return a name with only the characters that MLflow accepts."""
    return re.sub(r"[^\w.\- /]", "_", key)
