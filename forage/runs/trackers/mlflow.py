"""MLflow: a run of the experiment `forage`, in `mlflow.db` next to the run, or at MLFLOW_TRACKING_URI.

`mlflow ui --backend-store-uri sqlite:///runs/mlflow.db` shows it.
"""

from __future__ import annotations

import logging
import os
import re
import time
from pathlib import Path
from typing import Any, ClassVar

from forage.runs.trackers.base import Tracker, flat_config, identity

MOST_PARAMETERS, MOST_METRICS = 100, 1000  # that MLflow accepts at once
LONGEST = 500  # letters that every version accepts in a parameter


class MLflow(Tracker):
    """A run of MLflow: the configuration as parameters, the numbers as metrics. A resumed run continues it."""

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
