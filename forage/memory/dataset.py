"""A data set: earlier recorded transitions, from which every segment is drawn equally often."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from forage.core.plain import dumps
from forage.core.ports import ActContext, Agent, Environment, Memory
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.data import episodes, files, formats
from forage.data.demonstrations import experience_of
from forage.data.formats import folder
from forage.data.formats.reading import reading_from_json
from forage.data.logged import Transitions


class DataSet(Memory):
    """The transitions of a data set, replayed uniformly and never extended.

    A run with it (`--data FILE`) takes no environment steps: each of its steps is one update. The file is not copied
    into checkpoints; the run's configuration names it and its hash, and the run resumes with this file alone. It is
    one that `forage data record` wrote, or of a format of others (`docs/how-to/data.md`). A folder of arrays, as
    `forage data convert` writes one, stays on disk: its batches are gathered on the host, one ahead of the device.

    Source: Levine, Kumar, Tucker, Fu, 2020, "Offline Reinforcement Learning: Tutorial, Review, and Perspectives on
    Open Problems", arXiv 2005.01643.
    """

    example: ClassVar[str] = "forage train iql Pendulum-v1 --memory dataset --memory.file mixed.npz"

    ranges: ClassVar[Ranges] = {"held_out": Range(0, 1, below=True)}
    offline: ClassVar[bool] = True

    file: str = equinox.field(static=True)  # path of the data set, a file or a folder
    sha256: str = equinox.field(static=True, default="")  # hash of the file; taken when a run begins
    held_out: float = equinox.field(static=True, default=0.0, kw_only=True)  # share of the episodes that are measured
    # and not learned from; 0.1 in a run without an environment
    reading: str = equinox.field(static=True, default="", kw_only=True)  # description of a file of others as JSON, with
    # the keys of its TOML file; empty: the one of that file

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        """Raise `ForageError` for an agent that needs rollouts, and for an environment with several rewards."""
        files.check_recordable(spec)
        if agent.on_policy:
            raise ForageError(
                f"{type(agent).__name__} learns only from the rollout it has just experienced, and a data set holds "
                f"what others did; use bc, iql, or an agent that learns from replay, such as dqn or sac."
            )

    def with_hashes(self) -> DataSet:
        """Return the same with an absolute path and the file's hash, added if missing."""
        path = Path(self.file).expanduser().absolute()
        return dataclasses.replace(self, file=str(path), sha256=self.sha256 or self.hash_file(path))

    def hash_file(self, path: Path) -> str:
        """Return the SHA-256 of a file, and of the TOML file next to it if that describes it."""
        return formats.data_hash(path, described=not self.reading)

    def ends(self, environment: dict[str, Any]) -> dict[str, float] | None:
        """Return the returns of random actions and of the expert, if the file records them for this environment."""
        path = Path(self.file)
        header = files.read_header(path) if formats.kind_of(path) == "forage" else {}
        ends = header.get("ends")
        return ends if ends and header.get("environment") == json.loads(dumps(environment)) else None

    def relocate(self, path: str | os.PathLike[str]) -> DataSet:
        """Return the same with its file at another place."""
        return dataclasses.replace(self, file=os.fspath(path))

    def load(self, spec: Spec) -> DataSet:
        """Read the file, or map the folder. Raise `ForageError` if it is missing, damaged, changed or a stranger."""
        if formats.kind_of(Path(self.file)) == "folder":
            from forage.memory.mapped import MappedDataSet

            self.check_unchanged()
            return MappedDataSet.from_folder(self, spec)
        found = self.read_transitions(spec)
        data, whole = experience_of(found, spec), found.whole(spec.horizon)
        if not self.held_out:
            return OpenedDataSet(self.file, self.sha256, data=data, complete=whole)
        kept = episodes_held_out(found.episodes, self.held_out, self.file)
        rows = kept[found.numbers]
        held = OpenedDataSet(self.file, self.sha256, select_rows(data, rows), whole[kept])
        begins = found.first[kept & found.starts]
        starts = select_rows(data, begins) if len(begins) else None
        learned = select_rows(data, ~rows)
        return OpenedDataSet(
            self.file,
            self.sha256,
            learned,
            whole[~kept],
            validation=held,
            validation_starts=starts,
            held_out=self.held_out,
        )

    def read_transitions(self, spec: Spec) -> Transitions:
        """Read all transitions, a folder's too. Raise `ForageError` as `opened` does."""
        self.check_unchanged()
        path = Path(self.file)
        found, header = formats.read_data(path, spec, reading_from_json(self.reading, self.file))
        files.check_fits(path, header, found, spec)
        return found

    def rewards(self, spec: Spec) -> Float[np.ndarray, " transition"]:
        """Read the rewards alone, of a folder without its other arrays."""
        if formats.kind_of(Path(self.file)) == "folder":
            return folder.map_arrays(Path(self.file))[0]["reward"]
        return self.read_transitions(spec).reward

    def whole(self, spec: Spec) -> Experience:
        """Return the data of `read_transitions` as experience (leaves `transition ...`)."""
        return experience_of(self.read_transitions(spec), spec)

    def check_ranked(self, complete: Bool[np.ndarray, " episode"], who: str, instead: str = "") -> None:
        """Raise `ForageError` if no episode is whole, and `who` prefers those with the highest returns."""
        if not complete.any():
            raise ForageError(
                f"{self.file} holds no whole episode: the recording cut all {len(complete):,} of them, so nobody knows "
                f"which are the best, and {who} prefers those; record more steps{instead and f', or take {instead}'}."
            )

    def check_unchanged(self) -> None:
        """Raise `ForageError` if the file has changed since the run began."""
        if self.sha256 and self.hash_file(Path(self.file)) != self.sha256:
            raise ForageError(
                f"{self.file} is not the data set that this run began with (its SHA-256 was {self.sha256[:12]}...); "
                f"put that file back, or train again."
            )

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> tuple[()]:
        return ()

    def add(self, state: tuple[()], rollout: Experience, clock: Clock) -> tuple[()]:
        return state

    def sample(self, state: tuple[()], size: int, length: int, moment: ActContext) -> Batch:
        raise ForageError(f"{self.file} has not been read; DataSet.load(spec) does it.")


class OpenedDataSet(DataSet):
    """A data set after its file was read."""

    data: Experience = None  # type: ignore[assignment]  # leaves `transition ...`
    complete: Bool[np.ndarray, " episode"] | None = None  # which episodes are whole; all, where nothing is said
    validation: OpenedDataSet | None = equinox.field(default=None, kw_only=True)
    validation_starts: Experience | None = equinox.field(default=None, kw_only=True)

    @property
    def transitions(self) -> Experience:
        return self.data

    @property
    def read_files(self) -> Mapping[str, Experience]:
        return {self.file: self.data}

    def with_returns(self, agent: Agent, reward: Float[np.ndarray, " transition"]) -> OpenedDataSet:
        """Return the episodes that the agent learns from, with the returns that it asks for.

        `reward`: what the agent learns from, of each transition. The best episodes are those of the highest sum of the
        environment's own rewards, among the whole ones.
        """
        told = self.tell_returns(agent, reward)
        data, complete = told.data, told.complete
        over = np.asarray(data.terminated) | np.asarray(data.truncated)
        if complete is None:
            complete = np.ones(int(over.sum()) + (not over[-1]), bool)
        if agent.ranks_episodes:
            self.check_ranked(complete, type(agent).__name__, agent.ranks_episodes)
        if agent.best_episodes < 1:
            kept = episodes.best_episodes(np.asarray(data.reward), over, agent.best_episodes, complete)
            data = select_rows(data, kept)
        return dataclasses.replace(told, data=data, complete=None)

    def tell_returns(self, agent: Agent, reward: Float[np.ndarray, " transition"]) -> OpenedDataSet:
        """Return all episodes with the returns that an agent asks for; see `with_returns`."""
        data, ended = self.data, (np.asarray(self.data.terminated), np.asarray(self.data.truncated))
        over = ended[0] | ended[1]
        episode = np.concatenate([[0], np.cumsum(over)[:-1]])
        complete = np.ones(episode[-1] + 1, bool) if self.complete is None else np.asarray(self.complete)
        if agent.returns:
            discount = float(agent.discount)  # pyrefly: ignore[missing-attribute]
            told = episodes.returns_to_go(reward, *ended, discount, agent.return_rule)
            data = data._replace(return_to_go=jnp.asarray(told, jnp.float32))
        if agent.contexts:
            discount = float(getattr(agent, "discount", 1.0))
            told = episodes.sums_to_go(reward, over, discount)
            time = jnp.asarray(episodes.times(over), jnp.int32)
            told = jnp.asarray(told, jnp.float32)
            data = data._replace(return_to_go=told, time=time, complete=jnp.asarray(complete[episode]))
        return dataclasses.replace(self, data=data, complete=complete)

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        """Raise `ForageError` if there are fewer transitions than a segment has."""
        super().check(agent, spec, environment)
        check_enough(agent, len(self.data.reward), self.file)

    def sample(self, state: tuple[()], size: int, length: int, moment: ActContext) -> Batch:
        first = jax.random.randint(moment.key, (size,), 0, len(self.data.reward) - length + 1)
        time = first + jnp.arange(length)[:, None]
        weight: Float[jax.Array, " batch"] = jnp.ones(size)
        return Batch(jax.tree.map(lambda x: x[time], self.data), weight, first)


def select_rows(data: Experience, rows: Any) -> Experience:
    """Return some transitions, by a mask or by number; on the host, as JAX compiles several programs for each shape."""
    return jax.tree.map(lambda x: jax.device_put(np.asarray(x)[rows]), data)


def episodes_held_out(count: int, share: float, file: str, unit: str = "episode") -> Bool[np.ndarray, " episode"]:
    """Return the mask of the episodes that are measured and not learned from, the same for each seed and session.

    `unit`: the name of one in messages.

    Raise `ForageError` if too few are left to learn from.
    """
    if not 0 <= share < 1:
        raise ForageError(f"The share of {unit}s that are held out is at least 0 and below 1, not {share:g}.")
    number = max(1, round(share * count))
    if number >= count:
        raise ForageError(
            f"{file} holds {count} {unit}{'s' * (count > 1)}, too few to hold {share:.0%} of them out; say --held-out "
            f"0 to learn from all."
        )
    kept = np.zeros(count, bool)
    kept[np.random.default_rng(0).permutation(count)[:number]] = True
    return kept


def check_held_out(memory: Memory, opened: Memory, name: str) -> None:
    """Raise `ForageError` for a memory that cannot hold episodes out but is asked to. `name`: of its part."""
    if getattr(memory, "held_out", 0) and opened.validation is None:
        raise ForageError(
            f"{name} learns from all episodes of its file and holds none out; leave held_out at 0, or use --data FILE "
            f"--held-out SHARE without another memory."
        )


def check_enough(agent: Agent, count: int, file: str) -> None:
    """Raise `ForageError` if a data set has fewer transitions than a segment of the agent."""
    if count < agent.segment:
        raise ForageError(
            f"{file} holds {count} transitions, and {type(agent).__name__} learns from segments of {agent.segment}; "
            f"record more."
        )
