"""A data set: transitions that were recorded earlier, from which every segment is drawn equally often."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from forage.core import spaces
from forage.core.ports import Agent, Environment, Memory, Moment
from forage.core.types import DATASET, Batch, Clock, Experience, ForageError, Spec
from forage.data import episodes, files


class DataSet(Memory):
    """The transitions of a file that `forage data record` wrote, replayed uniformly. Nothing is added.

    A run with it (`--data FILE`) takes no environment steps: each of its steps is one update. The file is not copied
    into checkpoints; the run's configuration names it and its hash, and the run resumes with this file alone.

    Source: Levine, Kumar, Tucker, Fu, 2020, "Offline Reinforcement Learning: Tutorial, Review, and Perspectives on
    Open Problems", arXiv 2005.01643.
    """

    example: ClassVar[str] = "forage train iql Pendulum-v1 --memory dataset --memory.file mixed.npz"

    offline: ClassVar[bool] = True

    file: str = equinox.field(static=True)  # path of a file of transitions, as `forage data record` writes it
    sha256: str = equinox.field(static=True, default="")  # hash of the file; taken when a run begins

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        """Raise `ForageError` for an agent that needs rollouts, and for an environment with several rewards."""
        files.check_recordable(spec)
        if agent.on_policy:
            raise ForageError(
                f"{type(agent).__name__} learns only from the rollout it has just experienced, and a data set holds "
                f"what others did; use bc, iql, or an agent that learns from replay, such as dqn or sac."
            )

    def sealed(self) -> DataSet:
        """Return the same with an absolute path and the file's hash, where it has none yet."""
        path = Path(self.file).expanduser().absolute()
        return dataclasses.replace(self, file=str(path), sha256=self.sha256 or files.fingerprint(path))

    def opened(self, spec: Spec) -> Opened:
        """Read the file. Raise `ForageError` where it is missing, damaged, changed, or of another environment."""
        path = Path(self.file)
        if self.sha256 and files.fingerprint(path) != self.sha256:
            raise ForageError(
                f"{path} is not the data set that this run began with (its SHA-256 was {self.sha256[:12]}...); put "
                f"that file back, or train again."
            )
        found, header = files.read(path)
        files.check_fits(path, header, found, spec)

        def fitted(array: Any, space: Any) -> Any:
            return jax.tree.map(lambda x, like: jnp.asarray(x, like.dtype), array, spaces.example(space))

        # The last transition of each episode is marked as its end, so segments may run across it.
        data = Experience(
            observation=fitted(found.observation, spec.observation_space),
            action=fitted(found.action, spec.action_space),
            reward=jnp.asarray(found.reward, jnp.float32),
            next_observation=fitted(found.next_observation, spec.observation_space),
            terminated=jnp.asarray(found.terminated),
            truncated=jnp.asarray(found.truncated),
            source=jnp.full(found.transitions, DATASET, jnp.int32),
            aux=(),
        )
        return Opened(self.file, self.sha256, data)

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> tuple[()]:
        return ()

    def add(self, state: tuple[()], rollout: Experience, clock: Clock) -> tuple[()]:
        return state

    def sample(self, state: tuple[()], size: int, length: int, moment: Moment) -> Batch:
        raise ForageError(f"{self.file} has not been read; DataSet.opened(spec) does it.")


class Opened(DataSet):
    """A data set whose file was read."""

    data: Experience = None  # type: ignore[assignment]  # leaves `transition ...`

    @property
    def transitions(self) -> Experience:
        return self.data

    def prepared(self, agent: Agent, reward: Float[np.ndarray, " transition"]) -> Opened:
        """Return the episodes that the agent learns from, with the returns that it asks for.

        `reward`: what the agent learns from, of each transition. The best episodes are those of the highest sum of the
        environment's own rewards.
        """
        data, ended = self.data, (np.asarray(self.data.terminated), np.asarray(self.data.truncated))
        if agent.returns:
            discount = float(agent.discount)  # pyrefly: ignore[missing-attribute]
            told = episodes.returns_to_go(reward, *ended, discount)
            data = data._replace(return_to_go=jnp.asarray(told, jnp.float32))
        if agent.best_episodes < 1:
            kept = episodes.best(np.asarray(data.reward), ended[0] | ended[1], agent.best_episodes)
            data = jax.tree.map(lambda x: x[kept], data)
        return Opened(self.file, self.sha256, data)

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        """Raise `ForageError` where there are fewer transitions than a segment has."""
        super().check(agent, spec, environment)
        if len(self.data.reward) < agent.segment:
            raise ForageError(
                f"{self.file} holds {len(self.data.reward)} transitions, and {type(agent).__name__} learns from "
                f"segments of {agent.segment}; record more."
            )

    def sample(self, state: tuple[()], size: int, length: int, moment: Moment) -> Batch:
        first = jax.random.randint(moment.key, (size,), 0, len(self.data.reward) - length + 1)
        time = first + jnp.arange(length)[:, None]
        weight: Float[jax.Array, " batch"] = jnp.ones(size)
        return Batch(jax.tree.map(lambda x: x[time], self.data), weight, first)
