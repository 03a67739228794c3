"""Shifted pictures: random shifts by a few pixels of the samples of another memory."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import gymnasium
import jax
from jaxtyping import Array, Key, PyTree

from forage.core import spaces
from forage.core.ports import ActContext, Agent, Environment
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, ForageError, Spec
from forage.memory.around import MemoryWrapper
from forage_papers.ops.shift import shift_picture


class ShiftedImages(MemoryWrapper):
    """Another memory with random shifts of its pictures by up to `pixels` in each direction at each draw.

    Each segment has one shift for its observations and one for those that they lead to, uniform over all
    (2 `pixels` + 1)^2, and where a picture is moved away its edge is repeated. What is stored stays as it is, and so
    does what is no picture. An agent that learns from pixels then fits less what it happened to see.

    Source: Yarats, Fergus, Lazaric, Pinto (2021), "Mastering Visual Continuous Control: Improved Data-Augmented
    Reinforcement Learning", arXiv 2107.09645: `RandomShiftsAug` of the authors' drqv2.py, 4 pixels of 84, with whole
    pixels; the idea is of Kostrikov, Yarats, Fergus (2020), "Image Augmentation Is All You Need", arXiv 2004.13649.
    """

    example: ClassVar[str] = "forage train dqn minatar:Breakout --memory shifted --memory.pixels 1"
    ranges: ClassVar[Ranges] = {"pixels": Range(1)}

    pixels: int = equinox.field(static=True, default=4)  # how far a picture is shifted at most, the authors' for 84;
    # larger forgets more of where things are

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        """Raise `ForageError` if there are no pictures to shift, or for an agent that learns from latest rollouts."""
        super().check(agent, spec, environment)
        seen = spaces.observation_part(spec.observation_space)
        if all(spaces.picture(leaf) is None for leaf in spaces.spaces_by_path(seen).values()):
            raise ForageError(
                f"Shifted replay moves pictures, and observations of {spec.name} are {spaces.describe_space(seen)}; "
                f"leave it "
                f"out, or use an environment with pictures such as minatar:Breakout."
            )
        if self.on_policy:
            raise ForageError(
                f"{type(agent).__name__} learns from what it has just lived through, whose probabilities are of "
                f"pictures as they were; use an agent that learns from a replay memory, such as dqn."
            )

    def sample(self, state: Any, size: int, length: int, moment: ActContext) -> Batch:
        batch = super().sample(state, size, length, moment)
        experience = batch.experience
        now_key, next_key = jax.random.split(jax.random.fold_in(moment.key, 1))
        now = self.shift_segments(experience.observation, moment.spec, now_key)
        after = self.shift_segments(experience.next_observation, moment.spec, next_key)
        return batch._replace(experience=experience._replace(observation=now, next_observation=after))

    def shift_segments(self, observation: PyTree[Array], spec: Spec, key: Key[Array, ""]) -> PyTree[Array]:
        """Shift all pictures of segments (leaves `time batch ...`), all in a segment by the same shift."""
        many = jax.tree.leaves(observation)[0].shape[1]
        by = jax.random.randint(key, (many, 2), -self.pixels, self.pixels + 1)

        def move(space: gymnasium.spaces.Space[Any], values: PyTree[Array]) -> PyTree[Array]:
            if isinstance(space, gymnasium.spaces.Dict):
                return {name: move(space[name], part) for name, part in values.items()}
            found = spaces.picture(space)
            if found is None:
                return values
            one = lambda picture, by: shift_picture(picture, by, found.axes)  # noqa: E731
            return jax.vmap(jax.vmap(one, (0, 0)), (0, None))(values, by)

        return move(spec.observation_space, observation)
