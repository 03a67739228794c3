"""A data set larger than memory: it stays on disk, and batches are gathered on the host, one ahead of the device.

Batches are those that the same data set in memory gives, bit for bit; runs differ by rounding alone. While the device
learns from one, a thread gathers the next: `Moment.upcoming` says which rows that will have.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core import spaces
from forage.core.ports import ActContext, Agent, Environment
from forage.core.types import DATASET, Batch, Experience, Spec
from forage.data import files
from forage.data.formats import folder
from forage.memory.dataset import DataSet, check_enough, episodes_held_out

MOST_AHEAD = 64  # batches that wait; more than there are seeds on a machine
MOST_STARTS = 4096  # first transitions of held episodes that are kept in memory


class Store:
    """The arrays of a folder, as a memory map. `rows` returns some of them and begins to gather the next."""

    def __init__(self, arrays: Mapping[str, np.ndarray], spec: Spec) -> None:
        self.fields = {
            name: (files.tree_of(name, space, arrays), spaces.example(space))
            for name, space in (
                ("observation", spec.observation_space),
                ("action", spec.action_space),
                ("next_observation", spec.observation_space),
            )
        }
        self.flat = {name: arrays[name] for name in ("reward", "terminated", "truncated")}
        self.waiting: OrderedDict[bytes, Future[Any]] = OrderedDict()
        self.lock, self.ready = threading.Lock(), 0
        self.helpers = ThreadPoolExecutor(2, "forage-data")

    def gather(self, time: Int[np.ndarray, "..."]) -> Experience:
        """Read rows from disk, in the dtypes of the spaces."""

        def take_rows(array: np.ndarray, like: Any) -> np.ndarray:
            return np.asarray(array[time], like.dtype)

        trees = {name: jax.tree.map(take_rows, array, like) for name, (array, like) in self.fields.items()}
        flat: dict[str, Any] = {
            "reward": self.flat["reward"][time].astype(np.float32),
            "terminated": np.asarray(self.flat["terminated"][time], bool),
            "truncated": np.asarray(self.flat["truncated"][time], bool),
            "source": np.full(time.shape, DATASET, np.int32),
        }
        return Experience(
            observation=trees["observation"],
            action=trees["action"],
            next_observation=trees["next_observation"],
            **flat,
            policy_info=(),
        )

    def rows(self, time: Any, ahead: Any) -> Experience:
        """Return the rows at `time`; a thread then gathers those of `ahead`."""
        time, ahead = np.asarray(time), np.asarray(ahead)
        with self.lock:
            waiting = self.waiting.pop(time.tobytes(), None)
            self.ready += waiting is not None
            key = ahead.tobytes()
            if key not in self.waiting:
                self.waiting[key] = self.helpers.submit(self.gather, ahead)
                while len(self.waiting) > MOST_AHEAD:
                    self.waiting.popitem(last=False)
        return self.gather(time) if waiting is None else waiting.result()


class MappedDataSet(DataSet):
    """A data set after its folder was opened."""

    transitions: int = equinox.field(static=True, default=0)
    store: Store = equinox.field(static=True, default=None)  # type: ignore[assignment]
    first: int = equinox.field(static=True, default=0)  # transition of the store that it begins with
    validation: MappedDataSet | None = equinox.field(default=None, kw_only=True)
    validation_starts: Experience | None = equinox.field(default=None, kw_only=True)

    @classmethod
    def from_folder(cls, data: DataSet, spec: Spec) -> MappedDataSet:
        """Open the folder of a data set. Raise `ForageError` if it is damaged, or of another environment."""
        path = Path(data.file)
        arrays, header = folder.map_arrays(path)
        files.check_data_spaces(path, header, spec)
        count, store = header["transitions"], Store(arrays, spec)
        if not data.held_out:
            return cls(data.file, data.sha256, count, store)
        # The last episodes: segments are drawn from one stretch of the arrays
        number = int(episodes_held_out(header["episodes"], data.held_out, data.file).sum())
        episode = arrays["episode"]
        cut = int(np.searchsorted(episode, header["episodes"] - number))
        begins = cut + np.searchsorted(episode[cut:], np.arange(header["episodes"] - number, header["episodes"]))
        held = cls(data.file, data.sha256, count - cut, store, cut)
        if "start" in arrays:
            begins = begins[np.asarray(arrays["start"][begins], bool)]
        starts = jax.tree.map(jnp.asarray, store.gather(begins[:MOST_STARTS])) if len(begins) else None
        return cls(
            data.file, data.sha256, cut, store, validation=held, validation_starts=starts, held_out=data.held_out
        )

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        """Raise `ForageError` if there are fewer transitions than a segment has."""
        super().check(agent, spec, environment)
        check_enough(agent, self.transitions, self.file)

    def sample(self, state: tuple[()], size: int, length: int, moment: ActContext) -> Batch:
        def draw_indices(key: Key[Array, ""]) -> tuple[Int[Array, " batch"], Int[Array, "time batch"]]:
            first = self.first + jax.random.randint(key, (size,), 0, self.transitions - length + 1)
            return first, first + jnp.arange(length)[:, None]

        first, time = draw_indices(moment.key)
        ahead = time if moment.upcoming is None else draw_indices(moment.upcoming)[1]
        shapes: PyTree[Any] = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), self.store.gather(np.zeros((length, size), np.int32))
        )
        experience = jax.pure_callback(self.store.rows, shapes, time, ahead, vmap_method="broadcast_all")
        weight: Float[Array, " batch"] = jnp.ones(size)
        return Batch(experience, weight, first)
