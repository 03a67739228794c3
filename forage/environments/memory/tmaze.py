"""T-maze: a sign at the start gives the direction of the rewarded turn at the end of a corridor."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, UInt8

from forage.core.ports import Environment
from forage.core.ranges import Range, Ranges
from forage.core.types import Step
from forage.environments import drawing
from forage.environments.limits import check_at_least

MOVES = ((1, 0), (0, 1), (-1, 0), (0, -1))


class TMazeState(NamedTuple):
    x: Int[Array, ""]  # 0 at the sign, `oracle_length` at the start, greatest at the junction
    y: Int[Array, ""]  # 1 and -1 are the two ends of the crossbar
    goal: Int[Array, ""]  # the end that pays: 1 or -1
    read: Bool[Array, ""]  # the sign has been seen, and shows nothing any more
    time: Int[Array, ""]  # steps taken


class TMaze(Environment):
    """A corridor with a sign at one end and a junction at the other; the turn named by the sign earns the reward.

    With `oracle_length` 0 the agent starts on the sign and only has to remember it (the passive maze). Otherwise the
    sign is `oracle_length` cells behind the start, and the agent must first go the wrong way to read it (the active
    maze of the paper has 1): then the first action earns its reward at the end, and credit is as long as memory.

    An episode lasts `2 oracle_length + corridor_length + 1` steps, just enough to read the sign and take the turn, and
    `delay` steps more (ours) without any effect of actions: so credit can be made long while memory stays short. Each
    unnecessary delay costs `penalty / corridor_length` per step: an agent does not have to find the end of the corridor
    by luck. With `penalty=0` that exploration is part of the task, as in Bakker's.

    - Observation: `float32[2]`: `(0, goal)` on the sign, the first time only; `(0, 0)` in the corridor, where all
      cells look the same; `(1, y)` at the junction and on the crossbar.
    - Action: 0 right, 1 up, 2 left, 3 down; a move into a wall leaves the agent where it is.
    - Reward: 1 at the last step for standing on the goal; before that `-penalty / corridor_length` at each step t that
      leads to an x below `t - oracle_length`.
    - Terminated: at the last step, always. Never truncated.

    Best return: 1 with memory; 1/2 without, whether the policy is deterministic or not, because reading the sign leaves
    no step to spare, so that both goals are decided by the same observation, `(1, 0)`.

    Source: Ni, Ma, Eysenbach and Bacon (2023), "When Do Transformers Shine in RL? Decoupling Memory from Credit
    Assignment" (arXiv 2307.03864); Bakker (2002), "Reinforcement Learning with Long Short-Term Memory".
    """

    ranges: ClassVar[Ranges] = {
        "corridor_length": Range(1),
        "oracle_length": Range(0),
        "delay": Range(0),
        "penalty": Range(0),
    }

    corridor_length: int = 10  # cells from the start to the junction: steps for which the sign must be remembered
    oracle_length: int = 0  # cells from the start back to the sign
    delay: int = 0  # steps between the turn and its reward
    penalty: float = 1.0  # of a whole episode that makes no way

    def __check_init__(self):
        check_at_least(self, corridor_length=1, oracle_length=0, delay=0, penalty=0)

    @property
    def memory_length(self) -> int:
        """Step from reading the sign to the turn that depends on it."""
        return self.corridor_length + self.oracle_length

    @property
    def credit_length(self) -> int:
        """Step from the first action that decides on the last reward to that reward, both counted."""
        # Every action of the passive maze but the turn is judged by the penalty at once.
        return self.horizon if self.oracle_length > 0 else self.delay + 1

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(4)

    @property
    def horizon(self) -> int:
        return self.corridor_length + 2 * self.oracle_length + 1 + self.delay

    def reset(self, key: Key[Array, ""]) -> tuple[TMazeState, Float[Array, "2"]]:
        goal = jnp.where(jax.random.bernoulli(key), jnp.int32(1), jnp.int32(-1))
        zero = jnp.zeros((), jnp.int32)
        x = jnp.asarray(self.oracle_length, jnp.int32)
        return self._look(TMazeState(x, zero, goal, jnp.zeros((), bool), zero))

    def step(self, state: TMazeState, action: Int[Array, ""], key: Key[Array, ""]) -> tuple[TMazeState, Step]:
        junction = self.corridor_length + self.oracle_length
        time = state.time + 1
        move_x, move_y = jnp.array(MOVES, jnp.int32)[action]
        x, y = state.x + move_x, state.y + move_y
        free = ((y == 0) & (x >= 0) & (x <= junction)) | ((x == junction) & (jnp.abs(y) <= 1))
        free &= time <= self.horizon - self.delay
        x, y = jnp.where(free, x, state.x), jnp.where(free, y, state.y)

        over = time >= self.horizon
        late = (x < time - self.oracle_length) & (time < self.horizon - self.delay)
        cost = jnp.where(late, self.penalty / self.corridor_length, 0.0)
        reward = jnp.where(over, y == state.goal, -cost).astype(jnp.float32)
        new_state, observation = self._look(TMazeState(x, y, state.goal, state.read, time))
        return new_state, Step(observation, reward, over, jnp.zeros((), bool), {})

    def _look(self, state: TMazeState) -> tuple[TMazeState, Float[Array, "2"]]:
        """Return the observation of this cell, and the state after it was seen."""
        at_sign = state.x == 0
        at_junction = state.x == self.corridor_length + self.oracle_length
        seen = jnp.where(at_sign & ~state.read, state.goal, jnp.where(at_junction, state.y, 0))
        return state._replace(read=state.read | at_sign), jnp.stack([at_junction, seen]).astype(jnp.float32)

    def render(self, state: TMazeState) -> UInt8[np.ndarray, "height width 3"]:
        start, junction = int(self.oracle_length), int(self.corridor_length) + int(self.oracle_length)
        width = junction + 1.6
        canvas = drawing.Canvas(400, 150, (-0.8, -1.9, junction + 0.8, 1.9))

        def cell(x: int, y: int, colour: drawing.Colour) -> None:
            canvas.rectangle((x - 0.47, y - 0.47), (x + 0.47, y + 0.47), colour, 2)

        for x in range(junction + 1):
            cell(x, 0, drawing.MIST)
        cell(start, 0, drawing.mix(drawing.MIST, drawing.STONE, 0.4))
        cell(0, 0, drawing.SKY)
        for y in (-1, 1):
            cell(junction, y, drawing.GOLD if y == int(state.goal) else drawing.MIST)
        # The sign is an arrow above its cell, and long corridors have narrow cells.
        narrow = max(0.25, 6 * width / 400)
        up = int(state.goal)
        arrow = [(-narrow, 1.1 - 0.3 * up), (narrow, 1.1 - 0.3 * up), (0.0, 1.1 + 0.4 * up)]
        canvas.polygon(arrow, drawing.STONE if bool(state.read) and int(state.x) > 0 else drawing.BLUE)
        left = junction * (1 - min(1.0, int(state.time) / int(self.horizon)))
        canvas.line([(0, -1.75), (junction, -1.75)], drawing.MIST, 4)
        canvas.line([(0, -1.75), (junction - left, -1.75)], drawing.STONE, 4)  # the time that is gone
        canvas.circle((int(state.x), int(state.y)), max(0.32, 5 * width / 400), drawing.ORANGE)
        return canvas.array()
