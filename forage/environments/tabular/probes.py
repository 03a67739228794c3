"""Probes: the smallest environments that catch a wrong agent or a wrong loop, each with its values known exactly.

A probe is a table: a handful of states, what each shows, what leaving it pays and where that leads. All tables have
the same shapes and are traced, so one compiled program trains an agent on every probe at once, one in each seed
(`forage.loop.device.runner.vary`). What an agent ought to learn is worked out from the table by dynamic programming.

The idea of testing an agent bottom up, each environment telling one mistake from all others, follows Andy Jones (2020),
"Debugging RL, Without the Agonizing Pain", and the unit-like experiments of Osband et al. (2019), "Behaviour Suite for
Reinforcement Learning", arXiv 1908.03568.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ports import Environment
from forage.core.spaces import MASK
from forage.core.types import ForageError, Step

STATES, ACTIONS, WIDTH = 8, 3, 4
"""Rows of every table (the last one is the end of the episode), discrete actions, and numbers in an observation."""

LOW, HIGH = -1.0, 3.0
"""Bounds of continuous actions: off centre and wider than the unit box, so that a wrong scaling shows."""

END = STATES - 1


class Probe(Environment):
    """A table of states. In state s, action a has reward `pay[s, a]` and leads to s' with probability `to[s, a, s']`.

    - Entering a state that is `final` terminates; the last state is shown once more, so that an agent that wrongly
      bootstraps from it finds a value there. Otherwise the step is truncated with probability `cut[s]`, which is
      random so that an agent with memory, too, has met every history that bootstraps.
    - Observation: `seen[s]`; with `masked`, a dictionary with `action_mask`, which is `allowed[s]`.
    - Action: one of three; or `continuous`, a number in [-1, 3]: -1, 1 and 3 are the three actions, and numbers in
      between mix the two neighbours linearly. A continuous action also costs `curvature[s] (a - target[s])^2`.
    - An action that is not allowed, or outside its bounds, has reward NaN, so that it cannot go unnoticed.
    """

    start: Float[Array, " states"]  # probabilities
    seen: Float[Array, "states width"]
    pay: Float[Array, "states actions"]
    to: Float[Array, "states actions states"]  # probabilities
    final: Bool[Array, " states"]
    cut: Float[Array, " states"]
    allowed: Bool[Array, "states actions"]
    target: Float[Array, " states"]
    curvature: Float[Array, " states"]
    continuous: bool = equinox.field(static=True, default=False)
    masked: bool = equinox.field(static=True, default=False)

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        box = gymnasium.spaces.Box(-1.0, 1.0, self.seen.shape[-1:], np.float32)
        if not self.masked:
            return box
        return gymnasium.spaces.Dict({"observation": box, MASK: gymnasium.spaces.MultiBinary(ACTIONS)})

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        if self.continuous:
            return gymnasium.spaces.Box(LOW, HIGH, (1,), np.float32)
        return gymnasium.spaces.Discrete(ACTIONS)

    def reset(self, key: Key[Array, ""]) -> tuple[Int[Array, ""], PyTree[Array]]:
        state = draw_row(key, self.start)
        return state, self.observe(state)

    def step(self, state: Int[Array, ""], action: Array, key: Key[Array, ""]) -> tuple[Int[Array, ""], Step]:
        next_key, cut_key = jax.random.split(key)
        if self.continuous:
            action = action.reshape(())
            mix = mixture(action)
            fine = (action >= LOW - 1e-5) & (action <= HIGH + 1e-5)
            cost = self.curvature[state] * (action - self.target[state]) ** 2
        else:
            mix = jnp.where(jnp.arange(ACTIONS) == action, 1.0, 0.0)
            fine, cost = self.allowed[state, action], 0.0
        reward = jnp.where(fine, mix @ self.pay[state] - cost, jnp.nan)
        following = draw_row(next_key, mix @ self.to[state])
        terminated = self.final[following]
        truncated = ~terminated & (jax.random.uniform(cut_key) < self.cut[state])
        observation = self.observe(jnp.where(terminated, state, following))
        return following, Step(observation, reward, terminated, truncated, {})

    def observe(self, state: Int[Array, ""]) -> PyTree[Array]:
        if self.masked:
            return {"observation": self.seen[state], MASK: self.allowed[state].astype(jnp.int8)}
        return self.seen[state]

    def optimal_values(self, discount: float) -> list[OptimalChoice]:
        """Return the values and actions to be learned: one entry for each state that optimal play can reach."""
        value, actions, best = solve(self, discount)
        to = np.asarray(self.to, float)
        paths = {int(state): [int(state)] for state in np.flatnonzero(np.asarray(self.start))}
        queue = list(paths)
        for state in queue:  # breadth first: the list grows while it is read
            for action in actions[best[state]].tolist():
                for following in np.flatnonzero(action_weights(self, action) @ to[state]):
                    if not self.final[following] and int(following) not in paths:
                        paths[int(following)] = [*paths[state], int(following)]
                        queue.append(int(following))
        choices = np.asarray(self.allowed).sum(1) if not self.continuous else np.full(len(value), len(actions))
        return [
            OptimalChoice(
                state,
                [jax.tree.map(np.asarray, self.observe(jnp.int32(s))) for s in path],
                float(value[state]),
                None if best[state].sum() == choices[state] else float(actions[best[state]].mean()),
                path,
            )
            for state, path in sorted(paths.items())
        ]


class OptimalChoice(NamedTuple):
    """The optimal value and action after a history of observations that ends with the present one."""

    state: int
    history: list[PyTree[np.ndarray]]
    value: float
    action: float | None  # the best action, a whole number when actions are discrete; `None` when all are as good
    states: list[int]  # of the history


def draw_row(key: Key[Array, ""], probabilities: Float[Array, " states"]) -> Int[Array, ""]:
    """Return a row, by its probability."""
    cumulative = jnp.cumsum(probabilities)
    return jnp.sum(cumulative <= jax.random.uniform(key) * cumulative[-1]).astype(jnp.int32)


def mixture(action: Float[Array, ""]) -> Float[Array, " actions"]:
    """Return the shares of the discrete actions in a continuous one."""
    place = (action - LOW) / (HIGH - LOW) * (ACTIONS - 1)
    return jnp.maximum(0.0, 1 - jnp.abs(place - jnp.arange(ACTIONS)))


def action_weights(probe: Probe, action: float) -> np.ndarray:
    if probe.continuous:
        return np.asarray(mixture(jnp.float32(action)), float)
    return np.eye(ACTIONS)[int(action)]


def solve(probe: Probe, discount: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value iteration: `V(s) = max_a pay + discount sum_s' to(s' | s, a) V(s')`, and zero in final states.

    Being cut short does not enter: truncation is not termination. Where states look alike these are the values for an
    agent that remembers. Returns values `state`, the actions that were compared, and `state action`: the best ones.
    """
    actions = np.linspace(LOW, HIGH, 81) if probe.continuous else np.arange(ACTIONS)
    mix = np.stack([action_weights(probe, action) for action in actions.astype(float).tolist()])
    pay = np.asarray(probe.pay, float) @ mix.T
    if probe.continuous:
        pay -= np.asarray(probe.curvature)[:, None] * (actions - np.asarray(probe.target)[:, None]) ** 2
    else:
        pay = np.where(probe.allowed, pay, -np.inf)
    to = np.einsum("ga,san->sgn", mix, np.asarray(probe.to, float))
    value, quality = np.zeros(len(pay)), pay
    for _ in range(2000):
        quality = pay + discount * to @ value
        value = np.where(probe.final, 0.0, quality.max(1))
    return value, actions, quality >= quality.max(1, keepdims=True) - 1e-6


Where = int | Mapping[int, float]
"""The next state, or several with their probabilities."""


class State(NamedTuple):
    """One row of a table. `pay` and `to` hold for all actions, or name three, one for each."""

    seen: Sequence[float]
    pay: float | tuple[float, float, float] = 0.0
    to: Where | tuple[Where, Where, Where] = END
    cut: float = 0.0
    allowed: tuple[bool, bool, bool] = (True, True, True)
    target: float = 0.0
    curvature: float = 0.0


class Case(NamedTuple):
    """A probe as it is written down. It starts in each of the states in `start` equally often."""

    finds: str  # what is wrong with an agent that fails
    states: tuple[State, ...]
    start: tuple[int, ...] = (0,)
    needs: str = ""  # "memory", "mask" or "continuous": what an agent must have for the probe to mean something

    def build(self, continuous: bool = False, masked: bool = False) -> Probe:
        """Return the table. Raise `ForageError` for a form that this probe does not have."""
        if self.needs in ("mask", "continuous") and not {"mask": masked, "continuous": continuous}[self.needs]:
            raise ForageError(f"This probe is about {self.needs} actions; build it with them.")
        if continuous and masked:
            raise ForageError("Only discrete actions can be masked; build the probe as one or the other.")
        start, cut, target, curvature = np.zeros((4, STATES), np.float32)
        seen = np.zeros((STATES, WIDTH), np.float32)
        pay = np.zeros((STATES, ACTIONS), np.float32)
        allowed = np.ones((STATES, ACTIONS), bool)
        to = np.zeros((STATES, ACTIONS, STATES), np.float32)
        to[len(self.states) :, :, END] = 1  # rows without use lead to the end
        for index, state in enumerate(self.states):
            seen[index, : len(state.seen)] = state.seen
            pay[index], allowed[index], cut[index] = state.pay, state.allowed, state.cut
            target[index], curvature[index] = state.target, state.curvature
            ways = state.to if isinstance(state.to, tuple) else (state.to,) * ACTIONS
            for action, way in enumerate(ways):
                for following, probability in (way if isinstance(way, Mapping) else {way: 1.0}).items():
                    to[index, action, following] = probability
        start[list(self.start)] = 1 / len(self.start)
        final = np.arange(STATES) == END
        leaves = (start, seen, pay, to, final, cut, allowed, target, curvature)
        return Probe(*map(jnp.asarray, leaves), continuous=continuous, masked=masked)


LEFT, RIGHT = (1.0, 0.0, -1.0), (-1.0, 0.0, 1.0)
"""Rewards by action: 1 for the first (or the third), 0 for the middle one, -1 for the opposite."""

PROBES: dict[str, Case] = {
    "constant": Case(
        "The value's loss or its optimiser: one step, and it pays 1.",
        (State((1,), pay=1.0),),
    ),
    "observation": Case(
        "How observations reach the value: one step pays the -1 or 1 that was seen.",
        (State((-1,), pay=-1.0), State((1,), pay=1.0)),
        start=(0, 1),
    ),
    "discounting": Case(
        "Discounting, or credit over time: three steps, and only the last one pays.",
        (State((1,), to=1), State((0, 1), to=2), State((0, 0, 1), pay=1.0)),
    ),
    "action": Case(
        "How the policy is improved: one step, and one action pays most.",
        (State((1,), pay=(0.0, 0.5, 1.0)),),
    ),
    "action and observation": Case(
        "Rows of a batch out of line: one step, and the best action is the one that was seen.",
        (State((-1,), pay=LEFT), State((1,), pay=RIGHT)),
        start=(0, 1),
    ),
    "delay": Case(
        "Greed: the first action pays a little at once, the third more, one step later.",
        (State((1,), pay=(0.4, 0.2, 0.0), to=(END, {END: 0.5, 1: 0.5}, 1)), State((0, 1), pay=1.0)),
    ),
    "coin": Case(
        "A value that is not an expectation: a coin decides whether the second step pays 2 or nothing.",
        (State((1,), to={1: 0.5, 2: 0.5}), State((0, 1), pay=2.0), State((0, 0, 1))),
    ),
    "termination": Case(
        "Going on after the end: every step pays 0.5, and one in four is the last.",
        (State((1,), pay=0.5, to={0: 0.75, END: 0.25}),),
    ),
    "truncation": Case(
        "Truncation taken for termination: every step pays 0.5, for ever, but the clock runs out at one step in four.",
        (State((1,), pay=0.5, to=0, cut=0.25),),
    ),
    "reset": Case(
        "The next episode's first observation in place of the last one's: three steps, the last pays, and the clock "
        "runs out before it as often as not. Also n-step returns that reach over the end of an episode.",
        (State((1,), to=1, cut=0.5), State((0, 1), to=2, cut=0.5), State((0, 0, 1), pay=1.0)),
    ),
    "next episode": Case(
        "Credit over the end of an episode: the first step pays 3, the last costs 1.",
        (State((1,), pay=3.0, to=1), State((0, 1), pay=-1.0)),
    ),
    "target": Case(
        "The scaling of actions to their bounds: the best one is 2, in [-1, 3].",
        (State((1,), pay=1.0, target=2.0, curvature=0.25),),
        needs="continuous",
    ),
    "mask": Case(
        "Actions that are not allowed, in acting or in the value of the next state: the others all cost something.",
        (
            State((1,), pay=(-0.5, 0.0, 0.0), to=1, allowed=(True, True, False)),
            State((0, 1), pay=(0.0, -1.0, -0.5), allowed=(False, True, True)),
        ),
        needs="mask",
    ),
    "recall": Case(
        "Forgetting within an episode: what was seen first says which action pays two steps later.",
        (
            State((1, 1), to=2), State((1, -1), to=3),
            State((0, 0, 1), to=4), State((0, 0, 1), to=5),
            State((0, 0, 0, 1), pay=LEFT), State((0, 0, 0, 1), pay=RIGHT),
        ),
        start=(0, 1),
        needs="memory",
    ),
    "forgetting": Case(
        "Remembering the last episode: all looks alike, the first step wants one action, the second another, "
        "and a coin decides whether there is a second, which pays double.",
        (State((1,), pay=LEFT, to={1: 0.5, END: 0.5}), State((1,), pay=(-2.0, 0.0, 2.0))),
        needs="memory",
    ),
}  # fmt: skip


def combine_probes(probes: Sequence[Probe]) -> Probe:
    """Return all of them as one environment: each episode is of one of them, and each is seen in entries of its own.

    State s of probe i becomes state `i * 8 + s`. For runners whose environment is one and not a batch.
    """
    count = len(probes)
    start, cut, target, curvature, final = (
        np.concatenate([np.asarray(getattr(probe, name)) for probe in probes])
        for name in ("start", "cut", "target", "curvature", "final")
    )
    pay, allowed = (
        np.concatenate([np.asarray(getattr(probe, name)) for probe in probes]) for name in ("pay", "allowed")
    )
    seen = np.zeros((count, STATES, count, WIDTH), np.float32)
    to = np.zeros((count, STATES, ACTIONS, count, STATES), np.float32)
    for index, probe in enumerate(probes):
        seen[index, :, index], to[index, :, :, index] = probe.seen, probe.to
    seen = seen.reshape(count * STATES, count * WIDTH)
    to = to.reshape(count * STATES, ACTIONS, count * STATES)
    leaves = (start / count, seen, pay, to, final, cut, allowed, target, curvature)
    return Probe(*map(jnp.asarray, leaves), continuous=probes[0].continuous, masked=probes[0].masked)
