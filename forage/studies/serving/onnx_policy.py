"""An exported ONNX model as a policy to serve, run by onnxruntime without JAX."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from forage.core.columns import Columns
from forage.core.errors import ForageError
from forage.loop.plain import PlainPolicy
from forage.studies.serving.requests import by_path


class OnnxPolicy(PlainPolicy):
    """A policy that acts by the ONNX model of `Policy.export("policy.onnx")`.

    Of a model whose inputs are the columns of a table the manifest here has the coded observation in their place, as
    that of `policy.npz` has.
    """

    def __init__(self, path: Path):
        """Raise `ForageError` if the model cannot be run, or is not of Forage's export."""
        try:
            import onnxruntime
        except ImportError:
            raise ForageError(
                f"Serving {path.name} needs an extra: pip install 'forage-rl[onnx]'; policy.npz takes nothing."
            ) from None
        try:
            self._session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
            text = self._session.get_modelmeta().custom_metadata_map.get("forage", "{}")
            manifest = json.loads(text)
        except Exception as error:  # onnxruntime's errors and those of damaged bytes have no common type
            said = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
            raise ForageError(f"{path} is no whole ONNX model ({said[:200]}).") from error
        if "action_structure" not in manifest:
            raise ForageError(f"{path} has no manifest of today's Forage; export the policy again.")
        self._table = Columns.from_json(manifest.get("columns"))
        self._names = [entry["name"] for entry in [*manifest["memory"], *manifest["inputs"]]]
        if self._table is not None:
            entries = [name for column in self._table.observation for name in column.entries()]
            coded = {"name": "observation", "dtype": "float32", "shape": [len(entries)], "columns": entries}
            manifest = manifest | {"inputs": [coded]}
        self.manifest, self.agent, self.environment = manifest, manifest["agent"], manifest["environment"]
        self._action = manifest["action_structure"]
        self._observation = number_paths([path for path, _ in by_path(manifest["observation_space"])])
        self._start = [np.array(entry["start"], entry["dtype"]) for entry in manifest["memory"]]
        self._inputs = [(np.dtype(entry["dtype"]), tuple(entry["shape"])) for entry in manifest["inputs"]]
        self.reset()

    def __repr__(self) -> str:
        return f"<OnnxPolicy: {self.agent} on {self.environment}>"

    def step(self, given: list[np.ndarray], memory: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the arrays of the actions and of the next memory for those of a batch, as `PlainPolicy.step` does."""
        if self._table is not None:
            given = column_codes(self._table, given[0])
        found = self._session.run(None, dict(zip(self._names, [*memory, *given], strict=True)))
        actions = found[len(memory) :]
        if self._table is not None:
            actions = [join_columns(self._table, actions)]
        return actions, found[: len(memory)]


def number_paths(paths: list[tuple[str, ...]]) -> Any:
    """Return nested dictionaries with the number of each path in its place; 0 for a single array."""
    if paths == [()]:
        return 0
    found: dict[str, Any] = {}
    for number, path in enumerate(paths):
        place = found
        for key in path[:-1]:
            place = place.setdefault(key, {})
        place[path[-1]] = number
    return found


def column_codes(table: Columns, rows: np.ndarray) -> list[np.ndarray]:
    """Return the value or the code of each column for rows of coded observations `[batch, entries]`."""
    found, at = [], 0
    for column in table.observation:
        entries = rows[:, at : at + column.width]
        at += column.width
        if column.kind == "category":
            found.append(entries.argmax(1).astype(np.int32))
        elif column.kind == "boolean":
            found.append((entries[:, 0] > 0.5).astype(np.int32))
        else:
            found.append((entries[:, 0] * column.deviation + column.mean).astype(np.float32))
    return found


def join_columns(table: Columns, codes: list[np.ndarray]) -> np.ndarray:
    """Return the policy's own actions for the codes of a table's columns; the inverse of an ONNX model's last step."""
    if len(codes) == 1 and table.action[0].numbered:
        return codes[0]
    if table.joint:
        return np.ravel_multi_index(tuple(codes), tuple(table.counts))
    return np.stack(codes, axis=1)
