"""A runner that learns on the device, from a data set, and plays its evaluation episodes on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forage.core import mesh
from forage.loop.device.programs import SeedBatch
from forage.loop.device.runner import DeviceRunner
from forage.loop.host.runner import HostRunner
from forage.loop.runner import EvaluationEpisodes


class HostScoredRunner(DeviceRunner):
    """Runs the loop of `DeviceRunner`; evaluation episodes are those of an environment in Python or C++."""

    def __init__(
        self,
        varied: SeedBatch,
        seeds: list[int],
        total_steps: int,
        devices: mesh.Devices = None,
        several_hosts: bool = False,
        *,
        play: Callable[[list[int], mesh.Shape | None], HostRunner],
    ):
        """`play`: makes a runner on the host for these seeds, which only evaluates, on a mesh of this shape."""
        super().__init__(varied, seeds, total_steps, devices, several_hosts)
        alone = self.shape.seed == 1 and self.shape.of_seed > 1
        self.player = play(list(seeds), self.shape if alone else None)
        self.usual_episodes, self.in_words = self.player.usual_episodes, self.player.in_words

    def prepare(self, episodes: int, max_steps: int, soon: bool = False) -> None:
        """Compile no program in advance: those of an evaluation on the host are small."""

    def evaluate(self, episodes: int, max_steps: int, seed: int, sampled: bool = False) -> EvaluationEpisodes:
        """Play `episodes` evaluation episodes for every seed, in environments on the host."""
        self.player.use_agents(self.agent_states())
        found = self.player.evaluate(episodes, max_steps, seed, sampled)
        self.conversations = self.player.conversations
        return found

    def evaluate_points(self, points: Any, episodes: int, max_steps: int, seed: int, sampled: bool = False) -> Any:
        """Raise `ForageError`: numbers of environments on the host cannot be set from outside."""
        return self.player.evaluate_points(points, episodes, max_steps, seed, sampled)

    def missing(self) -> dict[str, tuple[str, ...]]:
        """Return the declared info names that no evaluation episode has ended with, each with the names found."""
        return self.player.missing()

    def retire(self) -> None:
        """Free the environments that no evaluation needs."""
        self.player.retire()

    def close(self) -> None:
        """Free all environments."""
        self.player.close()
