"""Mixed replay: each batch is drawn from data sets and from the run's own experience, at a ratio."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from forage.core.ports import ActContext, Agent, Environment, Memory
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.data import episodes, files
from forage.memory.dataset import DataSet, check_enough
from forage.memory.returns import ReplayOfReturns, ReturnsState
from forage.memory.uniform import UniformReplay
from forage.ops.ring import Ring
from forage.ops.rows import concatenate_rows


def text_paths(value: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return one path or several as a tuple of texts."""
    several = [value] if isinstance(value, str | os.PathLike) else value
    return tuple(os.fspath(one) for one in several)


class MixedReplay(Memory):
    """A share of each batch from data sets, the rest from the newest `capacity` transitions of the run.

    Of a batch of n, floor(share n + u) segments are from the data, u uniform in [0, 1): as many as share n says where
    that is a whole number, and so many in the mean where it is not. Both parts are drawn uniformly; of several files,
    each transition is drawn equally often. A `share` of 0.5 is the symmetric sampling of RLPD, and `linear:0.5,0` fades
    the data out.

    A run with it takes environment steps, and may do so on the device and on the host. The files are not copied into
    checkpoints: the run's configuration names them and their hashes, and the run resumes with these files alone.
    An agent that learns from the returns of episodes, as Cal-QL does, gets those of the data and of its own episodes,
    which it draws once they are over.

    `--from RUN` begins with what an offline run has learned, and with several `data` of earlier runs it is replay
    across experiments, except that those runs' replays are recorded anew (`forage data record`).

    Source: Ball, Smith, Kostrikov, Levine (2023), "Efficient Online Reinforcement Learning with Offline Data", arXiv
    2302.02948, whose program draws both halves as above (`offline_ratio` 0.5 in the authors' train_finetuning.py);
    Tirumala et al. (2023), "Replay across Experiments: A Natural Extension of Off-Policy RL", arXiv 2311.15951, of
    which only the abstract could be looked up.
    """

    example: ClassVar[str] = "forage train sac Pendulum-v1 --memory mixed --memory.data mixed.npz"
    ranges: ClassVar[Ranges] = {"share": Range(0, 1)}

    mixes: ClassVar[bool] = True

    data: tuple[str, ...] = equinox.field(
        static=True, converter=text_paths
    )  # files of transitions, as `forage data record`
    # writes them, with commas between them
    sha256: tuple[str, ...] = equinox.field(
        static=True, converter=text_paths, default=()
    )  # hash of each file; taken when a
    # run begins
    share: float = 0.5  # share of each batch that is from the data, as RLPD has it; more keeps nearer to the data
    capacity: int = equinox.field(static=True, default=100_000)  # newest transitions kept of the run's own; more replay
    # older ones

    reading: str = equinox.field(
        static=True, default="", kw_only=True
    )  # description of the files' columns as JSON, with
    # the keys of a TOML file; empty: the one of the file next to each

    def __check_init__(self):
        if not self.data or not all(self.data):
            raise ForageError("Mixed replay needs a data set; name its file with --memory.data FILE.")
        if len(self.sha256) not in (0, len(self.data)):
            raise ForageError(
                f"Mixed replay has {len(self.data)} data sets and {len(self.sha256)} hashes; leave out the hashes, "
                f"which are taken when a run begins."
            )

    @property
    def own(self) -> UniformReplay:
        """Return the replay of the run's own experience."""
        return UniformReplay(self.capacity)

    @property
    def sets(self) -> list[DataSet]:
        """Return each file as a data set."""
        hashes = self.sha256 or [""] * len(self.data)
        return [DataSet(file, sha, reading=self.reading) for file, sha in zip(self.data, hashes, strict=True)]

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        """Raise `ForageError` for an agent that needs rollouts or learns offline alone, and for several rewards."""
        super().check(agent, spec, environment)
        files.check_recordable(spec)

    def with_hashes(self) -> MixedReplay:
        """Return the same with absolute paths and the files' hashes, added if missing."""
        found = [one.with_hashes() for one in self.sets]
        return dataclasses.replace(self, data=[one.file for one in found], sha256=[one.sha256 for one in found])

    def relocate(self, path: str | os.PathLike[str]) -> MixedReplay:
        """Return the same with its data at another place: one file, or several with commas between them."""
        places = os.fspath(path).split(",")
        if len(places) != len(self.data):
            raise ForageError(
                f"This run learns from {len(self.data)} data sets beside its own experience, and --data names "
                f"{len(places)}; name all of them, in their order, with commas between them."
            )
        return dataclasses.replace(self, data=places)

    def load(self, spec: Spec) -> OpenedMixedReplay:
        """Read the files. Raise `ForageError` if one is missing, damaged, changed, or of another environment."""
        found = [one.whole(spec) for one in self.sets]
        stored = concatenate_rows(*found)
        return OpenedMixedReplay(self.data, self.sha256, self.share, self.capacity, stored)

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> Ring | ReturnsState:
        """Make an empty replay. Raise `ForageError` if transitions have notes that those of a data set lack."""
        for what in ("policy_info", "rewards_info", "start_id", "version"):
            if jax.tree.leaves(getattr(example, what)):
                who = "The rewards part" if what == "rewards_info" else "The agent"
                raise ForageError(
                    f"{who} learns from what it notes of each transition ({what}) while the run acts, and a data set "
                    f"has no such notes; use an agent without memory, such as sac or dqn, and --rewards environment, "
                    f"scale or shift."
                )
        return self.own.init(example, num_envs, rollout_length, spec, environment)

    def add(self, state: Any, rollout: Experience, clock: Clock) -> Any:
        return self.own.add(state, rollout, clock)

    def truncate(self, state: Any, clock: Clock) -> Any:
        return self.own.truncate(state, clock)

    def sample(self, state: Any, size: int, length: int, moment: ActContext) -> Batch:
        raise ForageError(f"{', '.join(self.data)} has not been read; MixedReplay.load(spec) does it.")


class OpenedMixedReplay(MixedReplay):
    """Mixed replay after its files were read."""

    data_rows: Experience = None  # type: ignore[assignment]  # leaves `transition ...`
    told: ReplayOfReturns | None = None  # what keeps the run's own experience, for agents that learn from returns

    @property
    def own(self) -> UniformReplay:
        return super().own if self.told is None else self.told

    @property
    def tells_returns(self) -> bool:
        return self.told is not None

    @property
    def read_files(self) -> Mapping[str, Experience]:
        return {", ".join(self.data): self.data_rows}

    def with_returns(
        self, agent: Any, reward: Float[np.ndarray, " transition"], longest: int | None
    ) -> OpenedMixedReplay:
        """Return the same with the returns of the data's episodes and of the run's own.

        `reward`: what the agent learns from, of each transition of the data. `longest`: steps of the longest episode.
        """
        data, discount = self.data_rows, float(agent.discount)
        ended = np.asarray(data.terminated), np.asarray(data.truncated)
        returns = episodes.returns_to_go(reward, *ended, discount, agent.return_rule)
        told = ReplayOfReturns(self.capacity, discount, longest, agent.return_rule)
        stored = data._replace(return_to_go=jnp.asarray(returns, jnp.float32))
        return OpenedMixedReplay(self.data, self.sha256, self.share, self.capacity, stored, told)

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        """Raise `ForageError` if the data has fewer transitions than a segment."""
        super().check(agent, spec, environment)
        check_enough(agent, len(self.data_rows.reward), ", ".join(self.data))

    def sample(self, state: Any, size: int, length: int, moment: ActContext) -> Batch:
        own_key, place_key, number_key = jax.random.split(moment.key, 3)
        lived = self.own.sample(state, size, length, moment._replace(key=own_key))

        # Segments of the data
        first = jax.random.randint(place_key, (size,), 0, len(self.data_rows.reward) - length + 1)
        time = first + jnp.arange(length)[:, None]
        read = jax.tree.map(lambda leaf: leaf[time], self.data_rows)
        # What the environment names beside the reward is not in the file.
        unsaid = {name: jnp.full_like(value, jnp.nan) for name, value in lived.experience.info.items()}
        read = read._replace(info=unsaid)

        # How many of them there are
        number = jnp.floor(size * jnp.asarray(self.share, jnp.float32) + jax.random.uniform(number_key))
        if self.told is not None:  # before the first episode is over all are
            number = jnp.where(self.told.ready(state, length, moment)[0].sum() > 0, number, size)
        from_data = jnp.arange(size) < number

        def select_source(read: Array, lived: Array) -> Array:
            return jnp.where(from_data.reshape(1, size, *(1,) * (lived.ndim - 2)), read, lived)

        weight: Float[Array, " batch"] = jnp.ones(size)
        experience: Any = jax.tree.map(select_source, read, lived.experience)
        return Batch(experience, weight, jnp.where(from_data, -1, lived.index))
