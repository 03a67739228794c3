"""The vocabulary: the data that flow between the parts."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium
import numpy as np

from forage.core.columns import Columns
from forage.core.errors import ForageError as ForageError
from forage.core.loading import LazyModule

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    from jaxtyping import Array, Bool, Float, Int, PyTree
else:
    jax, jnp = LazyModule("jax"), LazyModule("jax.numpy")

AGENT, GUIDE, PERSON, DATASET, MODEL, NOBODY, GONE, OPPONENT = range(8)
"""Who chose an action: the values of `Experience.source`.

`PERSON`: somebody on the host took the action over (see `Behaviour.intervene`).
`NOBODY`: the agent waited, and its action was not heard; what came of it is experience all the same.
`GONE`: it had left, so there is nothing to learn from.
`OPPONENT`: another policy plays this seat against the agent, which learns nothing from that seat's steps.
`MODEL`: nobody took the step; a memory imagined it (see `Memory.sample`). It is never in a rollout.
"""

BONUS = "bonus"
"""The name of a rewards part's bonus for exploring, among `Experience.rewards`."""


OUTCOME = "outcome"
"""The name of the environment's own reward, before a rewards part changes it, among `Experience.rewards` (see
`Agent.outcomes`).
"""


class Step(NamedTuple):
    """The results of one environment step, before any reset.

    `observation` is of the state the step led to, also when the episode ends there.
    `terminated`: the task is over, nothing comes after, the value is zero.
    `truncated`: only the clock ran out; value goes on from `observation`. Never both.
    `reward` is a scalar, or a vector whose entries `Environment.reward_names` names.
    With `Environment.num_agents` above 1 every field but `info` has a leading axis `agent`. An agent that has left
    stays terminated, with reward 0, until the episode is over for all.
    """

    observation: PyTree[Array]
    reward: Float[Array, "*objectives"]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]
    info: dict[str, Array]


class ReturnRule(NamedTuple):
    """The rule by which returns count a truncation, and an episode that only fails (`Agent.return_rule`)."""

    endless: bool = False  # after a truncation the last reward goes on for ever; else nothing follows
    failure_reward: float | None = None  # an episode in which every reward is this one is worth it for ever, at each
    # of its steps


class Experience(NamedTuple):
    """One transition, or an array of them with leading axes `time batch`: the one stream that all parts learn from.

    `next_observation` is what the step led to, never the first observation of the following episode.
    `source` says who chose the action; `policy_info` is what the agent wants back when it learns
    (log-probability, value, hidden state before the step); `rewards_info` is what the rewards part wants back when it
    relabels (what was new in that episode, at that time). `rewards` are named streams beside `reward`, once it is one
    number: those of the environment's several rewards, and what a rewards part adds (`BONUS`). An agent gets those that
    it takes (`Agent.reward_heads`). `behaviour_info` is there only in a rollout: what the behaviour wants back in its
    `report`. `info` has the numbers that `Spec.info_names` names, such as a cost or `success`, in 32-bit floats; of
    many agents each has the environment's, and NaN stands where an environment on the host did not say. `start_id`
    identifies the start of the episode (see `Starts.begin`), kept only for agents with `needs_start_ids`. `version` is
    the number of updates that had made the policy that acted, kept only for agents with `Agent.version`. `return_to_go`
    is the discounted sum of the episode's rewards from this one on, which data sets tell, and a memory that
    `tells_returns`, kept only for agents with `Agent.returns` or `Agent.contexts`; `time` counts the steps before it in
    the episode, and `complete` says whether the data have the whole episode, for the latter.
    """

    observation: PyTree[Array]
    action: PyTree[Array]
    reward: Float[Array, "*shape"]
    next_observation: PyTree[Array]
    terminated: Bool[Array, "*shape"]
    truncated: Bool[Array, "*shape"]
    source: Int[Array, "*shape"]
    policy_info: PyTree[Array]
    rewards_info: PyTree[Array] = ()
    rewards: Mapping[str, Float[Array, "*shape"]] = {}
    behaviour_info: PyTree[Array] = ()
    info: dict[str, Float[Array, "*shape"]] = {}
    start_id: PyTree[Array] = ()
    version: Int[Array, "*shape"] | tuple[()] = ()
    return_to_go: Float[Array, "*shape"] | tuple[()] = ()
    time: Int[Array, "*shape"] | tuple[()] = ()
    complete: Bool[Array, "*shape"] | tuple[()] = ()

    @property
    def ended(self) -> Bool[Array, "*shape"]:
        """Return whether the episode stops after this transition, for either reason."""
        return self.terminated | self.truncated

    @property
    def counts(self) -> Bool[Array, "*shape"]:
        """Return whether a transition is learned from: one of many agents may have left, or be another's opponent."""
        return (self.source != GONE) & (self.source != OPPONENT)


class Label(NamedTuple):
    """The action that an expert would have taken, as `policy_info` with a behaviour that labels states."""

    action: PyTree[Array]


class Replay(NamedTuple):
    """The marks of a rollout's segments that are from earlier rollouts, for agents that take them (`Agent.replays`).

    Segments beyond the agent's `num_envs` were added, and belong to no group of episodes that are compared, unless
    `group` says which segments are compared (`Agent.pools`).
    """

    older: Bool[Array, " batch"]  # an earlier policy chose the actions, with the log-probabilities in `policy_info`
    advantage: Float[Array, " batch"]  # of all actions of a segment; NaN: as the agent estimates it
    group: (
        Int[Array, " batch"] | tuple[()]
    ) = ()  # the number of one of the segments that each is compared with; those of
    # a group name the same one; (): segments of a rollout are compared in order


class Batch(NamedTuple):
    """Experience to learn from: segments of consecutive transitions, time axis first.

    A one-step sample has `time == 1`; a rollout has one segment for each environment.
    A segment may run across the end of an episode; `experience.ended` marks where.
    """

    experience: Experience  # leaves [time, batch, ...]
    weight: Float[Array, " batch"]  # importance weight of each segment, 1 when sampled uniformly
    index: Int[Array, " batch"]  # where the memory found the segment
    replay: Replay | tuple[()] = ()  # of a memory that puts older episodes into a rollout

    @property
    def transitions(self) -> Experience:
        """Return the first transition of each segment, leaves `batch ...`: all there is if segments are one step."""
        return jax.tree.map(lambda x: x[0], self.experience)


class Clock(NamedTuple):
    """The time in the run. Shared by all seeds, so schedules and ring-buffer pointers cost no memory under `vmap`."""

    steps: Int[Array, ""]  # environment steps taken by each seed
    total: Float[Array, ""]  # environment steps planned for each seed

    @property
    def fraction(self) -> Float[Array, ""]:
        """Share of the planned steps already taken, 1 at most: the last rollout may take more than were planned."""
        return jnp.minimum(1.0, self.steps / self.total)

    def anneal(self, start: float, end: float, fraction: float) -> Float[Array, ""]:
        """From `start` to `end`, linearly over the first `fraction` of the run, and `end` from then on."""
        done = jnp.minimum(1.0, self.fraction / jnp.maximum(fraction, 1e-9))
        return start + (end - start) * done


def exact_space(value: Any) -> Hashable:
    """Return a hashable value that identifies a space to the bit. Spaces have no hash, and equality allows rounding."""
    if isinstance(value, gymnasium.Space):
        return type(value), exact_space({name: what for name, what in vars(value).items() if name != "_np_random"})
    if isinstance(value, Mapping):
        return tuple((name, exact_space(what)) for name, what in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(exact_space, value))
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    return value if isinstance(value, Hashable) else id(value)


@dataclasses.dataclass(frozen=True, eq=False)
class Spec:
    """The facts about an environment that an agent may know. Spaces are those of one agent."""

    name: str
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    reward_names: tuple[str, ...] = ()
    num_agents: int = 1
    horizon: int | None = None
    info_names: tuple[str, ...] = ()  # see `Environment.info_names`
    columns: Columns | None = None  # the columns of the table that observations and actions are of
    goal_reward: Any = None  # see `HostEnvironment.goal_reward`

    @functools.cached_property
    def _exact(self) -> Hashable:
        return tuple(exact_space(getattr(self, field.name)) for field in dataclasses.fields(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self._exact == other._exact

    def __hash__(self) -> int:
        return hash(self._exact)
