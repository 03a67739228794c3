"""Hindsight replay: relabels transitions as if states reached later had been the goal."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from gymnasium import spaces as gymnasium_spaces
from jaxtyping import Array, Bool, Float, Int, PyTree

from forage.core import spaces
from forage.core.fields import layers
from forage.core.ports import ActContext, Agent, Environment, Memory, Part
from forage.core.ports.needs import Choices
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.memory.uniform import UniformReplay
from forage.ops.ring import Ring, oldest, read_segments, stored_transitions, truncate, write_rollout

STRATEGIES = ("future", "final", "episode")
GOALS = {"observation", "achieved_goal", "desired_goal"}


class HindsightState(NamedTuple):
    """The ring, and the ends of the episodes in it.

    Each environment numbers its episodes. No more of them reach into the ring than it has steps, so a table of as many
    rows as the ring, in which an episode's row is its number modulo that, has the end of each of them.
    """

    experience: Ring
    number: Int[Array, "time env"]  # of the episode that each transition belongs to
    ends: Int[Array, "time env"]  # the step that the episode ended with, by number; steps count from the run's start
    running: Int[Array, " env"]  # the number of the episode that the next step belongs to
    goal_reward: Part  # the environment's


class Span(NamedTuple):
    """The steps of an episode that can be read, from `first` to `last`."""

    first: Int[Array, "*shape"]
    last: Int[Array, "*shape"]


class Hindsight(Memory):
    """The newest `capacity` transitions, replayed uniformly, most of them with a goal that was reached later.

    With probability `replay_k` / (`replay_k` + 1) the goal of a drawn transition is replaced by what the same episode
    achieved at a step that `strategy` draws: `future`, any from this transition on; `final`, the last; `episode`, any.
    Of an episode that is not over, or whose start was overwritten, the steps that are there count. The reward, and
    whether reaching the goal terminates the episode, follow from the environment's own `goal_reward`; where an episode
    did end and for the new goal would not have, the transition is truncated. A segment of several transitions has one
    goal for each episode in it, drawn for the first of them.

    It takes an environment whose observation has an `achieved_goal` and a `desired_goal`. One in JAX has a
    `goal_reward` with `reward_of(achieved, desired)` and `terminates(achieved, desired)`, as any `GoalConditioned` has;
    one on the host has `compute_reward`, as those of Gymnasium-Robotics have.
    An end of the environment's own that falls on the very step that reaches the goal counts as the goal's. An agent
    with memory starts from the hidden state that was stored, of the goal of that time.

    Source: Andrychowicz et al., 2017, "Hindsight Experience Replay", arXiv:1707.01495; k and the strategy are those of
    its section 4.5. The paper keeps 1,000,000 transitions.
    """

    example: ClassVar[str] = "forage train dqn BitFlip-20 --memory hindsight"

    recomputes_rewards: ClassVar[bool] = True
    choices: ClassVar[Choices] = {"strategy": STRATEGIES}

    capacity: int = equinox.field(static=True, default=100_000)  # transitions of all environments together
    strategy: str = equinox.field(static=True, default="future")  # where new goals are from: future, final or episode
    replay_k: float = 4.0  # transitions with a new goal for each one with its own; 0: uniform replay

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        super().check(agent, spec, environment)
        check_goals("Hindsight replay", "use --memory uniform", spec, environment)

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> HindsightState:
        ring = self.uniform.init(example, num_envs, rollout_length, spec, environment)
        shape = stored_transitions(ring).terminated.shape
        goal_reward = goal_reward_of(spec, environment)
        zeros = jnp.zeros(shape, jnp.int32)
        return HindsightState(ring, zeros, zeros - 1, jnp.zeros(num_envs, jnp.int32), goal_reward)

    @property
    def uniform(self) -> UniformReplay:
        """Return the replay that segments are drawn from."""
        return UniformReplay(self.capacity)

    def add(self, state: HindsightState, rollout: Experience, clock: Clock) -> HindsightState:
        steps, num_envs = stored_transitions(state.experience).terminated.shape
        length, newest = len(rollout.terminated), clock.steps // num_envs
        over = jnp.cumsum(rollout.ended, axis=0, dtype=jnp.int32)
        number = state.running + over - rollout.ended
        time = jnp.broadcast_to(newest + jnp.arange(length)[:, None], number.shape)
        row = jnp.where(rollout.ended, number % steps, steps)  # of those that go on there is none to write
        return state._replace(
            experience=write_rollout(state.experience, rollout, clock),
            number=jax.lax.dynamic_update_slice_in_dim(state.number, number, newest % steps, 0),
            ends=state.ends.at[row, jnp.arange(num_envs)].set(time, mode="drop"),
            running=state.running + over[-1],
        )

    def truncate(self, state: HindsightState, clock: Clock) -> HindsightState:
        steps, num_envs = stored_transitions(state.experience).terminated.shape
        newest = clock.steps // num_envs - 1
        goes_on = ~stored_transitions(state.experience).ended[newest % steps]
        row = jnp.where(goes_on, state.running % steps, steps)
        return state._replace(
            experience=truncate(state.experience, clock),
            ends=state.ends.at[row, jnp.arange(num_envs)].set(newest, mode="drop"),
            running=state.running + goes_on,
        )

    def sample(self, state: HindsightState, size: int, length: int, moment: ActContext) -> Batch:
        draw_key, share_key, goal_key = jax.random.split(moment.key, 3)
        batch = self.uniform.sample(state.experience, size, length, moment._replace(key=draw_key))
        steps, num_envs = state.number.shape
        newest = moment.clock.steps // num_envs
        time = newest - 1 - (newest - 1 - batch.index // num_envs) % steps + jnp.arange(length)[:, None]
        env = jnp.broadcast_to(batch.index % num_envs, time.shape)

        # Draw a goal for every transition; each episode of a segment then takes the one of its first transition.
        span = self.episode(state, time, env, newest)
        first = {"future": time, "final": span.last, "episode": span.first}[self.strategy]
        goal_time = jax.random.randint(goal_key, time.shape, first, span.last + 1)
        replaced = jax.random.uniform(share_key, time.shape) < self.replay_k / (self.replay_k + 1)
        leader = leaders(batch.experience.ended)
        goal_time, replaced = (jnp.take_along_axis(x, leader, axis=0) for x in (goal_time, replaced))

        index = goal_time % steps * num_envs + env
        goals = read_segments(state.experience, index.reshape(-1), 1).next_observation
        goal = jax.tree.map(lambda x: x[0].reshape(*time.shape, *x.shape[2:]), goal_part(goals)["achieved_goal"])
        return batch._replace(experience=relabel_goals(batch.experience, goal, replaced, state.goal_reward))

    def episode(
        self, state: HindsightState, time: Int[Array, "*shape"], env: Int[Array, "*shape"], newest: Int[Array, ""]
    ) -> Span:
        """Find the steps of the episodes that some transitions belong to. `newest`: steps since the run began."""
        steps = len(state.number)
        number = state.number[time % steps, env]
        last = jnp.where(number == state.running[env], newest - 1, state.ends[number % steps, env])
        # The end of the episode before; where its row has gone to a later episode, its steps are gone as well.
        before = state.ends[(number - 1) % steps, env]
        first, _ = oldest(state.experience, newest)
        return Span(jnp.maximum(first, jnp.where(before < time, before + 1, first)), last)


def check_goals(who: str, instead: str, spec: Spec, environment: Environment | None) -> None:
    """Raise `ForageError` if there are no goals, or no reward that can be computed for another goal."""
    seen = spaces.observation_part(spec.observation_space)
    if not (isinstance(seen, gymnasium_spaces.Dict) and set(seen.spaces) >= GOALS) or spec.reward_names:
        what = "several rewards" if spec.reward_names else f"observations in {spaces.describe_space(seen)}"
        raise ForageError(
            f"{who} needs one reward and observations with achieved_goal and desired_goal, and "
            f"{spec.name} has {what}; maze:UMaze-Goal and BitFlip-20 have both, as any GoalConditioned."
        )
    if environment is None and spec.goal_reward is not None:
        spec.goal_reward.check()
        return
    if environment is None:
        raise ForageError(
            f"{who} computes rewards of other goals, and {spec.name} on the host has no compute_reward(achieved, "
            f"desired, info) for that, or a wrapper around it; {instead} there, or an environment such as "
            f"robotics:FetchReach-v4 or maze:UMaze-Goal."
        )
    if not hasattr(environment, "goal_reward"):
        raise ForageError(
            f"{spec.name} has goals and no goal_reward that computes a reward for another goal; give it one, as "
            f"GoalConditioned has, or {instead}."
        )
    for layer in layers(environment):
        if "goal_reward" in vars(type(layer)):
            break
        if getattr(layer, "changes_reward", False):
            raise ForageError(
                f"{type(layer).__name__} changes what a step of {spec.name} pays, so {who.lower()} cannot "
                f"compute it for another goal; leave that wrapper out or {instead}."
            )


def goal_reward_of(spec: Spec, environment: Environment | None) -> Any:
    """Return the rewards of any goal, with their numbers as arrays; `environment`: `None` if it is on the host."""
    own = spec.goal_reward if environment is None else getattr(environment, "goal_reward")  # noqa: B009
    return jax.tree.map(jnp.asarray, own)


def leaders(ended: Bool[Array, "time batch"]) -> Int[Array, "time batch"]:
    """Return for each transition of a segment the first one there of the same episode."""
    begins = jnp.concatenate([jnp.ones_like(ended[:1]), ended[:-1]])
    return jax.lax.cummax(jnp.where(begins, jnp.arange(len(ended))[:, None], 0), axis=0)


def goal_part(observation: PyTree[Array]) -> dict[str, PyTree[Array]]:
    """Return the part of an observation that holds the goals."""
    return spaces.split_mask(observation)[0]


def relabel_goals(
    experience: Experience, goal: Float[Array, "*shape goal"], replaced: Bool[Array, "*shape"], goal_reward: Any
) -> Experience:
    """Return the experience, relabelled for another goal at the rows that are `replaced`."""
    achieved = goal_part(experience.next_observation)["achieved_goal"]
    desired = goal_part(experience.observation)["desired_goal"]

    def with_goal(observation: dict[str, PyTree[Array]]) -> dict[str, PyTree[Array]]:
        if spaces.carries_more(observation):
            return observation | {"observation": with_goal(observation["observation"])}
        where = replaced.reshape(replaced.shape + (1,) * (goal.ndim - replaced.ndim))
        return observation | {"desired_goal": jnp.where(where, goal, observation["desired_goal"])}

    own = experience.terminated & ~goal_reward.terminates(achieved, desired)
    terminated = jnp.where(replaced, own | goal_reward.terminates(achieved, goal), experience.terminated)
    reward = goal_reward.reward_of(achieved, goal).astype(experience.reward.dtype)
    return experience._replace(
        observation=with_goal(experience.observation),
        next_observation=with_goal(experience.next_observation),
        reward=jnp.where(replaced, reward, experience.reward),
        terminated=terminated,
        truncated=experience.ended & ~terminated,
    )
