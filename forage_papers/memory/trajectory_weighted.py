"""Trajectory weighting: a data set with more frequent draws of better episodes."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from forage.core.ports import ActContext
from forage.core.ports.needs import Choices
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Spec
from forage.data.demonstrations import experience_of
from forage.memory.dataset import DataSet, OpenedDataSet

KINDS = ("advantage", "return")


class TrajectoryWeighted(DataSet):
    """The transitions of a file, with more frequent draws of those of better episodes.

    A transition of episode i is drawn with a probability in proportion to exp(A_i / `temperature`), where A_i is the
    episode's undiscounted return less what a linear function of its first observation, fitted by least squares, says of
    it (`by` advantage), or the return itself (`by` return). A is first brought to 0 for the worst episode and 1 for the
    best one. Only whole episodes count: the return of one that the recording cut is unknown, and it is drawn like the
    worst whole one. Any agent that learns from data then learns more from better episodes, which helps if few of many
    are good. In very random environments it also prefers luck.

    Source: Hong, Agrawal, Tachet des Combes, Laroche (2023), "Harnessing Mixed Offline Reinforcement Learning Datasets
    via Trajectory Weighting", arXiv 2306.13085, whose program has a temperature of 0.1 (class AW in
    d3rlpy_impls/weighted.py of github.com/Improbable-AI/harness-offline-rl); for `return` (its class RW) it scales the
    weights and not the returns, and here both are scaled alike.
    """

    example: ClassVar[str] = (
        "forage train iql Pendulum-v1 --memory trajectory-weighted --memory.file mixed.npz --steps 6k"
    )
    ranges: ClassVar[Ranges] = {"temperature": Range(0, above=True)}
    choices: ClassVar[Choices] = {"by": KINDS}

    by: str = equinox.field(static=True, default="advantage")  # what makes an episode better: advantage over what its
    # first observation promised, or return
    temperature: float = equinox.field(static=True, default=0.1)  # how evenly episodes are drawn, as the authors have
    # it; smaller draws the best ones alone

    def load(self, spec: Spec) -> OpenedWeightedData:
        """Read the file, and weigh its episodes."""
        found = self.read_transitions(spec)
        data, length, first = experience_of(found, spec), found.lengths, found.first
        whole = found.whole(spec.horizon)
        self.check_ranked(whole, "trajectory weighting", "--data")
        seen = [np.asarray(x)[first].reshape(len(first), -1) for x in jax.tree.leaves(data.observation)]
        begins = np.concatenate(seen, 1, dtype=np.float64)
        odds = length * advantage_weights(found.returns, begins, self.by, self.temperature, whole)
        return OpenedWeightedData(
            file=self.file,
            sha256=self.sha256,
            by=self.by,
            temperature=self.temperature,
            data=data,
            reached=jnp.asarray(np.cumsum(odds / odds.sum()), jnp.float32),
            first=jnp.asarray(first, jnp.int32),
            length=jnp.asarray(length, jnp.int32),
        )


class OpenedWeightedData(TrajectoryWeighted, OpenedDataSet):
    """A trajectory-weighted data set after its file was read."""

    data: Any = None  # leaves `transition ...`
    reached: Float[Array, " episode"] = None  # type: ignore[assignment]  # probability of an episode or one before it
    first: Int[Array, " episode"] = None  # type: ignore[assignment]  # where each episode begins
    length: Int[Array, " episode"] = None  # type: ignore[assignment]  # its transitions

    def sample(self, state: tuple[()], size: int, length: int, moment: ActContext) -> Batch:
        episode_key, place_key = jax.random.split(moment.key)
        chance = jax.random.uniform(episode_key, (size,))
        episode = jnp.clip(jnp.searchsorted(self.reached, chance, side="right"), 0, len(self.reached) - 1)
        place = self.first[episode] + jax.random.randint(place_key, (size,), 0, self.length[episode])
        # Segments that the file ends before begin earlier.
        start = jnp.minimum(place, len(self.data.reward) - length)
        time = start + jnp.arange(length)[:, None]
        return Batch(jax.tree.map(lambda x: x[time], self.data), jnp.ones(size), start)


def advantage_weights(
    returns: Float[np.ndarray, " episode"],
    first: Float[np.ndarray, "episode features"],
    by: str,
    temperature: float,
    whole: Bool[np.ndarray, " episode"] | None = None,
) -> Float[np.ndarray, " episode"]:
    """Compute exp(A / temperature) up to a factor. A is scaled to [0, 1] over whole episodes, and 0 for the others.

    `whole`: which episodes are; `None`: all.
    """
    whole = np.ones(len(returns), bool) if whole is None else whole
    better = returns
    if by == "advantage":
        features = np.column_stack([first, np.ones(len(first))])
        better = returns - features @ np.linalg.lstsq(features[whole], returns[whole], rcond=None)[0]
    least, spread = better[whole].min(), np.ptp(better[whole])
    # Differences that rounding made would be drawn apart as if they were the whole spread.
    alike = spread <= 1e-9 * max(1.0, np.abs(returns[whole]).max())
    scaled = np.zeros_like(better) if alike else np.where(whole, (better - least) / spread, 0.0)
    return np.exp((scaled - 1) / temperature)
