"""The contracts: the seven ports of the loop.

A part is a frozen pytree: numbers are leaves and are traced; sizes, names and functions are static fields.
Every method works on one environment or one trajectory; batches are made by `vmap`, from outside.
State is always an explicit value that goes in and comes out.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ranges import Ranges
from forage.core.types import AGENT, Batch, Clock, Experience, ForageError, ReturnRule, Spec, Step

State = Any
Metrics = dict[str, Array]


class Part(equinox.Module):
    """Anything that plugs into a port."""

    example: ClassVar[str] = ""
    """A command that uses the part, or an explanation of its use if there is no such command."""

    @classmethod
    def stored(cls, options: dict[str, Any]) -> dict[str, Any]:
        """Translate the options of a stored run to those of today, such as an option that was renamed."""
        return options


class Judgement(NamedTuple):
    """An agent's value estimates of a rollout, before it learns from it, for the rewards that it learns from."""

    value: Float[Array, "time env"]  # of each observation
    advantage: Float[Array, "time env"]  # of each action, as the agent estimates advantages
    td_error: Float[Array, "time env"]  # r + discount * value of the next observation - value
    log_probability: Float[Array, "time env"]  # of each action


class Environment(Part):
    """An environment: pure functions of a state that is a value, so returning to a state is copying it."""

    ranges: ClassVar[Ranges] = {}
    """The numbers that its fields may hold, by name; others are refused wherever a field is set."""

    reward_names: ClassVar[tuple[str, ...]] = ()
    """The names of the entries of a vector reward; empty for a scalar reward."""

    frames_per_second: ClassVar[float | None] = None
    """The steps per second that a film shows; `None` if the environment does not declare it."""

    @property
    @abc.abstractmethod
    def observation_space(self) -> gymnasium.Space[Any]: ...

    @property
    @abc.abstractmethod
    def action_space(self) -> gymnasium.Space[Any]: ...

    @property
    def horizon(self) -> int | None:
        """The largest number of steps of an episode; `None` without a limit."""
        return None

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """Return the bounds of a step's reward, if both are certain; an infinite bound means no limit."""
        return None

    @property
    def return_range(self) -> tuple[float, float] | None:
        """Return the bounds of an episode's return, if both are certain; an infinite bound means no limit.

        Unless an environment says more, they follow from `reward_range` and `horizon`.
        """
        return None if self.reward_range is None else range_of_returns(self.reward_range, self.horizon)

    @property
    def num_agents(self) -> int:
        """Return the number of agents that act at once. Above 1, observations, actions and rewards have a leading
        axis `agent` (see `Step`).
        """
        return 1

    @property
    def info_names(self) -> tuple[str, ...]:
        """Return the names of the entries of `Step.info` that are one number each, such as `success` or a cost.

        A run reports the mean of each over its episodes' last steps, and rewards and agents find them in
        `Experience.info`.
        """
        return ()

    @property
    def competitive(self) -> bool:
        """Return whether its agents play against one another, so that a score is that of one agent against an
        `Opponent`.
        """
        return False

    @abc.abstractmethod
    def reset(self, key: Key[Array, ""]) -> tuple[State, PyTree[Array]]:
        """Return `(state, observation)` at the start of an episode."""

    @abc.abstractmethod
    def step(self, state: State, action: PyTree[Array], key: Key[Array, ""]) -> tuple[State, Step]:
        """Return the next state, and the observation, reward and end of the step. Never resets."""

    @property
    def places(self) -> tuple[int, ...] | None:
        """Return the shape of the environment's map; `None` if states have no position on a map."""
        return None

    def place(self, state: State) -> Int[Array, ""]:
        """Return the position of a state on that map, as the number of its cell in row-major order."""
        raise ForageError(f"{type(self).__name__} has no map to say where its states are.")

    def reachable(self) -> Any:
        """Return the mask of the reachable cells of the map, `bool[places]` in NumPy; `None` if it is unknown."""
        return None

    def kept(self, observation: PyTree[Array]) -> PyTree[Array]:
        """Return the part of an observation that a start stores with the state: all of it, unless the state can
        restore some.
        """
        return observation

    def render(self, state: State) -> Any:
        """Draw one state: `uint8` array of shape (height, width, 3). On the host, in NumPy."""
        raise NotImplementedError


def range_of_returns(rewards: tuple[float, float], horizon: int | None) -> tuple[float, float]:
    """Compute the bounds of the return of an episode of 1 to `horizon` steps from the bounds of a reward."""
    low, high = rewards
    longest = math.inf if horizon is None else horizon
    return low if low >= 0 else low * longest, high if high <= 0 else high * longest


class World(NamedTuple):
    """The environment that an agent acts in, with its task, and the state it is in."""

    environment: Environment
    state: State


class Tasks(Part):
    """The port of tasks: the next environment, level or context.

    A task is a pytree shaped like the environment with `None` wherever it leaves the environment alone,
    so only what differs between tasks is batched.
    """

    varies: ClassVar[bool] = True
    """Tasks differ from one another."""

    adapts: ClassVar[bool] = False
    """`report` changes the distribution of `next`, so starts drawn earlier are stale after each rollout."""

    judged: ClassVar[bool] = False
    """`report` needs the agent's value estimates of the rollout; they are computed only for such parts."""

    on_host: ClassVar[bool] = False
    """It chooses among the numbered beginnings of an environment on the host: its tasks set `Hosted.number`, and may
    set `Hosted.hint` (see `forage.loop.host.starts`). Episodes of one group (`Starts.group`) get one task.
    """

    def evaluation(self) -> Tasks:
        """Return the tasks that evaluation plays: these, unless there are others for test."""
        return self

    def check(self, environment: Environment) -> None:
        """Raise `ForageError` if this environment has no such tasks. Called with concrete numbers."""

    def init(self, key: Key[Array, ""], environment: Environment) -> State:
        return ()

    @abc.abstractmethod
    def next(self, state: State, environment: Environment, key: Key[Array, ""]) -> PyTree[Array | None]: ...

    def report(self, state: State, rollout: Experience, review: Review) -> State:
        """Learn from each rollout (leaves `time env ...`)."""
        return state


class Visited(NamedTuple):
    """The states that a rollout (leaves `time env ...`) visited.

    With `Starts.every_state`, `env_states` and `gone` are `time env ...`: the state that each step led to, also where
    the episode ended there, so its observation is `rollout.next_observation`. Otherwise they are `1 env ...`: where the
    environments stand after the rollout, which is a fresh start, and `gone`, where `rollout.ended[-1]`.
    """

    env_states: State
    marks: PyTree[Array]  # leaves `time env ...`: the mark of the episode that each step belongs to
    gone: Bool[Array, "time env"]  # nothing goes on from there: the episode ended by itself, not only by `cut`
    fresh: Bool[Array, " env"]  # the rollout's first step began an episode
    tasks: PyTree[Array | None] = None  # leaves `time env ...`: the task of the episode that each step belongs to

    def begins(self, ended: Bool[Array, "time env"]) -> Bool[Array, "time env"]:
        """Return the mask of each episode's first step, for a rollout whose episodes `ended` there."""
        return jnp.concatenate([self.fresh[None], ended[:-1]])


class Review(NamedTuple):
    """The context of a rollout for tasks and starts: all they may know besides its transitions."""

    environment: Environment
    visited: Visited
    clock: Clock  # as it read when the rollout began
    key: Key[Array, ""]
    judgement: Judgement | None = None  # for a part that is `judged`


class Branching(NamedTuple):
    """The rule by which answers of a rollout start from the first tokens of earlier answers."""

    prefixes: int  # of an answer: so many steps of a rollout follow the one in which it was written
    each: bool  # every answer goes on from its own prefixes; otherwise a whole group from those of its first answer
    late: bool = False  # answers go on one rollout later, beside new ones, and only some of them


class Starts(Part):
    """The port of starts: the first state of each episode."""

    adapts: ClassVar[bool] = False
    """`report` changes the distribution of `begin`, so starts drawn earlier are stale after each rollout."""

    judged: ClassVar[bool] = False
    """`report` needs the agent's value estimates of the rollout; they are computed only for such parts."""

    unscheduled: ClassVar[tuple[str, ...]] = ()
    """Numbers that are used once, or are shares of the run themselves, so that none of them may follow a schedule."""

    on_host: ClassVar[bool] = False
    """It only stores and returns states, so it also works with tickets for the states of a simulator."""

    repeats: ClassVar[bool] = False
    """It resets an environment with one key several times, to get the same beginning."""

    @property
    def group(self) -> int:
        """Return the number of consecutive episodes that share a first state."""
        return 1

    heeds: ClassVar[bool] = False
    """`heed` is called after every step, so that a start may depend on the current rollout. On the host."""

    @property
    def branching(self) -> Branching | None:
        """Return the rule by which answers start from the first tokens of others; `None` without such answers."""
        return None

    def check(self, environment: Environment, tasks: Tasks) -> None:
        """Raise `ForageError` if the environment and its tasks cannot have these starts."""

    def heed(
        self, state: State, action: PyTree[Array], aux: PyTree[Array], reward: Float[Array, "env *objectives"]
    ) -> State:
        """Return the state after a step of all environments, leaves `env ...`, before other episodes begin."""
        return state

    @property
    def joins(self) -> bool:
        """Return whether an episode may continue from another's state: `joined` is called after every step. On the
        host.
        """
        return False

    def joined(self, reward: Float[Array, " env"]) -> Int[Array, " env"]:
        """Return the environment that each continues from after a step with this reward; -inf marks an ended
        episode.
        """
        return jnp.arange(len(reward))

    def init(self, key: Key[Array, ""], environment: Environment, spec: Spec, num_envs: int) -> State:
        return ()

    every_state: ClassVar[bool] = False
    """`report` gets the states after every step rather than after the last."""

    cuts: ClassVar[bool] = False
    """Episodes may be cut short: `cut` is asked after every step."""

    def cut(self, mark: PyTree[Array], length: Int[Array, ""]) -> Bool[Array, ""]:
        """Return whether an episode whose start has this mark is truncated after `length` steps."""
        return jnp.bool_(False)

    @abc.abstractmethod
    def begin(
        self, state: State, environment: Environment, key: Key[Array, ""], index: Int[Array, ""]
    ) -> tuple[State, PyTree[Array], PyTree[Array]]:
        """Return `(environment state, observation, mark)` for one new episode.

        `index` is the serial number of the start: how many episodes began before it in this run. A start that is
        drawn but never used, because the part adapted in between, leaves its number to the next one.
        The mark is what `report` is to know the episode by, such as which of its starts this was; `()` for nothing.
        """

    def report(self, state: State, rollout: Experience, review: Review) -> State:
        """Learn from each rollout (leaves `time env ...`)."""
        return state


class Agent(Part):
    """The port of agents. An agent does not know its runner, nor the source of the actions that it learns from.

    Static fields that say how the loop is to feed it:
    `num_envs` environments are stepped `rollout_length` times, then `updates_per_rollout` batches are learned from.
    """

    on_policy: ClassVar[bool]
    """Learns from the last rollout only; otherwise from a replay memory."""

    stochastic: ClassVar[bool] = False
    """It learns a policy that draws its actions: `act` plays it with `explore`, and otherwise a policy derived from
    it.
    """

    usual_behaviour: ClassVar[str] = "own"
    """The behaviour it is used with, unless another is named."""

    begins_at_random: ClassVar[bool] = True
    """Off-policy, its first `learning_starts` steps are uniform actions, unless a behaviour is named or it continues
    another run.
    """

    usual_memory: ClassVar[str] = ""
    """The default memory, if it is not the last rollout or uniform replay."""

    usual_starts: ClassVar[str] = ""
    """The default starts, if they are not the environment's own."""

    whole_episodes: ClassVar[bool] = False
    """Every rollout starts with a new episode in each environment, and episodes that are unfinished at its end are
    dropped.
    """

    marks: ClassVar[bool] = False
    """It gets the mark of each transition's start in `Experience.mark`; otherwise none are kept."""

    corrects: ClassVar[bool] = False
    """It also learns from rollouts of its own earlier policies, with a correction for the change since.

    Such an agent keeps the log-probabilities of its actions in `aux`, as its network will be another when it learns.
    """

    replays: ClassVar[bool] = False
    """It also learns from older episodes that a memory puts into a rollout, marked by `Batch.replay`."""

    outcomes: ClassVar[bool] = False
    """It gets the environment's own reward, before a rewards part changed it, in `Experience.rewards["outcome"]`."""

    joint: ClassVar[bool] = False
    """It learns from the experience of a whole team: the leaves of its rollouts and batches are `time batch agent ...`.

    Otherwise each agent of a team is a stream of its own, `time batch ...`. Either way `act` is called for one agent.
    """

    acting: ClassVar[str] = "network"
    """The field of its state that holds the network it acts with, for behaviours that perturb it."""

    offline: ClassVar[bool] = False
    """It learns from a data set alone: from a memory that is `offline`; or from labels (`Behaviour.labels`)."""

    fine_tunes: ClassVar[bool] = False
    """It is `offline`, and fine-tunes online with a memory that `mixes` data with the run's own experience."""

    imitates: ClassVar[bool] = False
    """It imitates the actions of the data, or the `Label` in `Experience.aux` with a behaviour that `labels`."""

    looks_ahead: ClassVar[bool] = False
    """`act` takes the `world` as well, and may step it ahead: one agent alone, in a native environment."""

    hears_rewards: ClassVar[bool] = False
    """It conditions on rewards: `paid` follows every step that it acts in. It learns from a data set alone."""

    num_envs: equinox.AbstractVar[int]
    rollout_length: equinox.AbstractVar[int]

    @property
    def updates_per_rollout(self) -> int:
        """Return the number of batches to learn from between two rollouts."""
        return 1

    @property
    def batch_size(self) -> int:
        """Segments in a batch drawn from a replay memory."""
        return 1

    @property
    def segment(self) -> int:
        """Consecutive transitions in each segment drawn from a replay memory."""
        return 1

    @property
    def learning_starts(self) -> int:
        """Environment steps before the first update; 2^31 - 1, the longest run, turns learning off."""
        return 0

    @property
    def group(self) -> int:
        """Return the number of episodes with a shared first state that it compares (`Starts.group`); 1 if it
        compares none.
        """
        return 1

    @property
    def needed_behaviour(self) -> str:
        """Return the name of the only behaviour it can learn from correctly; empty if any behaviour will do."""
        return ""

    @property
    def branching(self) -> Branching | None:
        """Return the answers of a rollout that must start from the first tokens of others; `None` if it needs none."""
        return None

    @property
    def starts_options(self) -> dict[str, Any]:
        """Return the options of `usual_starts`, in addition to the size of its groups."""
        return {}

    @property
    def streams(self) -> tuple[str, ...]:
        """Name the rewards it learns from apart, as `Experience.rewards` has them; `()` when one number is enough.

        A bonus for exploring that an agent does not take is added to the reward; one that takes it may get none.
        """
        return ()

    @property
    def returns(self) -> bool:
        """Return whether it learns from `Experience.return_to_go`, by its `discount`.

        Data sets tell that, and to agents that go on online (`fine_tunes`) a memory that `tells_returns`.
        """
        return False

    @property
    def return_rule(self) -> ReturnRule:
        """Return the rule by which `Experience.return_to_go` counts truncations and episodes that only fail."""
        return ReturnRule()

    @property
    def contexts(self) -> bool:
        """Return whether it learns from episodes as sequences.

        `Experience.return_to_go` is then the sum of rewards to the last transition that the data have of the episode,
        by the agent's `discount` where it has one, and `Experience.time` and `Experience.complete` are set; only data
        sets tell these.
        """
        return False

    @property
    def best_episodes(self) -> float:
        """Return the share of a data set's whole episodes that it learns from, those of highest return; 1: all."""
        return 1.0

    @property
    def ranks_episodes(self) -> str:
        """Return the option that does without the best of a data set's whole episodes; empty if it does not need
        them.
        """
        return "best=1" if self.best_episodes < 1 else ""

    @abc.abstractmethod
    def check(self, spec: Spec) -> None:
        """Raise `ForageError` if the agent cannot work there, and name a working alternative."""

    @abc.abstractmethod
    def init(self, key: Key[Array, ""], spec: Spec) -> State: ...

    @property
    def looks_at_data(self) -> bool:
        """Return whether `primed` needs the whole data set in memory."""
        return type(self).primed is not Agent.primed

    def primed(self, state: State, data: Experience) -> State:
        """Return the first state of an agent that learns from this data set (leaves `transition ...`) alone."""
        return state

    def hidden(self, spec: Spec) -> PyTree[Array]:
        """Return the agent's memory at the start of an episode; `()` if it has none."""
        return ()

    def member(self, hidden: PyTree[Array], number: Int[Array, ""]) -> PyTree[Array]:
        """Return the memory of member `number` of a team at the start of an episode, for an agent that is `joint`."""
        return hidden

    @abc.abstractmethod
    def act(
        self,
        state: State,
        hidden: PyTree[Array],
        observation: PyTree[Array],
        key: Key[Array, ""],
        explore: bool,
        noise: Float[Array, "*noise"] | None = None,
    ) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        """Return `(action, hidden, aux)` for one observation. `explore=False` gives the evaluation policy.

        `noise`, of the shape that `noise` names, takes the place of the standard normal numbers that an exploring
        action is made from; an agent that names no shape never gets any.

        An agent that `looks_ahead` has one more argument, `world: World | None = None`, and calls `seen_world`.
        """

    def seen_world(self, world: World | None) -> World:
        """Return the world. Raise `ForageError` if who asks for an action has none."""
        if world is None:
            raise ForageError(
                f"{type(self).__name__} looks ahead in the environment's own state and cannot act by observations "
                f"alone, as it would have to here; forage train, evaluate and watch give it the state."
            )
        return world

    def noise(self, spec: Spec) -> tuple[int, ...] | None:
        """Return the shape of the standard normal numbers from which `act` makes an action; `None`: from none."""
        return None

    def action_values(
        self, state: State, hidden: PyTree[Array], observation: PyTree[Array]
    ) -> Float[Array, " actions"] | None:
        """Return the agent's estimated values of numbered actions for an observation; `None` if it has no such
        values.
        """
        return None

    def acted(self, state: State, hidden: PyTree[Array], action: PyTree[Array]) -> PyTree[Array]:
        """Return the agent's memory updated with the action that was taken, its own or the behaviour's."""
        return hidden

    def paid(self, state: State, hidden: PyTree[Array], reward: Float[Array, ""]) -> PyTree[Array]:
        """Return the agent's memory updated with the reward of its step, for an agent that `hears_rewards`."""
        return hidden

    def check_unpaid(self, role: str) -> None:
        """Raise `ForageError` if the agent needs the rewards of its steps, which `role` does not give it."""
        if self.hears_rewards:
            raise ForageError(
                f"{type(self).__name__} acts by the rewards that it has had, which {role} is not told; take an agent "
                f"that acts by observations alone, such as iql."
            )

    def check_lag(self, lag: int, whose: str, instead: str) -> None:
        """Raise `ForageError` if the agent does not correct for a lag: for rollouts of policies before its newest.

        `whose`: who gives it such rollouts, as a sentence goes on; `instead`: what does not.
        """
        if lag and not self.corrects:
            raise ForageError(
                f"{type(self).__name__} takes every rollout for one of its newest policy, and {whose} of {lag} "
                f"rollouts ago; use {instead}, or an agent that corrects for the lag, such as impala."
            )

    def probabilities(self, state: State, observation: PyTree[Array], explore: bool) -> Float[Array, " actions"]:
        """Return the probabilities with which `act` chooses among numbered actions, of an agent without memory."""
        raise ForageError(f"{type(self).__name__} cannot say how probable its actions are.")

    def log_probability(self, state: State, observation: PyTree[Array], action: PyTree[Array]) -> Float[Array, " row"]:
        """Compute the log-probability of taking actions (leaves `row ...`) in an exploring `act`, for an agent that
        is `stochastic` and has no memory; for continuous actions, the log-density in the unit box.
        """

        def one(observation: PyTree[Array], action: Int[Array, ""]) -> Float[Array, ""]:
            return jnp.log(self.probabilities(state, observation, True)[action] + 1e-20)

        return jax.vmap(one)(observation, action)

    def version(self, state: State) -> Int[Array, ""] | tuple[()]:
        """Return the number of updates that made the policy, for `Experience.version`; `()` to store none there."""
        return ()

    def judge(self, state: State, rollout: Experience) -> Judgement:
        """Judge a rollout (leaves `time env ...`, with the rewards to learn from) that this state acted in.

        One that is `joint` gets leaves `time env agent ...`, and judges the team.
        """
        raise ForageError(f"{type(self).__name__} does not judge its rollouts; an agent that does is ppo.")

    @property
    def judges(self) -> bool:
        """Return whether it has a method `judge` of its own."""
        return type(self).judge is not Agent.judge

    def observe(self, state: State, rollout: Experience) -> State:
        """See each new rollout (leaves `time stream ...`) once, with the rewards to learn from, before any update.

        Memories keep it as it is. What a data set holds is seen by `primed`.
        """
        return state

    @abc.abstractmethod
    def learn(
        self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        """Return the new state, scalar metrics, and each segment's error (how surprising it was)."""

    def due(self, state: State) -> Int[Array, ""] | None:
        """Return the number of updates to make after this rollout; `None` for `updates_per_rollout`.

        Seeds may differ, which makes updates slower; where they do not, say so with `forage.ops.every.alike`.
        """
        return None

    def renew(self, state: State, batch: Batch, key: Key[Array, ""], spec: Spec) -> tuple[State, Metrics]:
        """Return the state with its due networks reset after an update, and metrics in addition to those of `learn`.

        `batch` is what the update learned from. Networks that are reset now and then, or some of their units, are
        begun here, where the spec is known.
        """
        return state, {}

    def truncate(self, state: State) -> State:
        """Truncate the unfinished episodes: they were lost, and the next rollout starts with new ones."""
        return state


class Evolver(Agent):
    """An agent that learns from whole returns, not from transitions.

    Its loop asks for a population, plays every member for whole episodes and tells the returns. A member is what takes
    the place of the field `acting` of the agent's state. An episode without a horizon is cut after `rollout_length`.
    """

    on_policy: ClassVar[bool] = True
    whole_episodes: ClassVar[bool] = True

    episodes: equinox.AbstractVar[int]  # that each member plays

    @property
    def population(self) -> int:
        """Return the number of members, each of which plays `episodes`, in `num_envs` environments."""
        return self.num_envs // self.episodes

    @abc.abstractmethod
    def ask(self, state: State, key: Key[Array, ""]) -> PyTree[Array]:
        """Return the next population, leaves `member ...`."""

    @abc.abstractmethod
    def tell(self, state: State, population: PyTree[Array], returns: Float[Array, " member"], clock: Clock) -> State:
        """Learn from the mean return of each member. `clock` counts the steps of this generation, too."""

    def learn(
        self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        raise ForageError(f"{type(self).__name__} learns from whole returns (ask and tell), not from transitions.")


class Moment(NamedTuple):
    """The context in which a part acts: all it may know besides its own state."""

    agent: Agent
    agent_state: State
    spec: Spec
    clock: Clock
    key: Key[Array, ""]
    who: Int[Array, ""] = np.int32(0)  # type: ignore[assignment]  # the stream: environment * num_agents + agent
    world: World | None = None  # for an agent that `looks_ahead`, where it acts
    upcoming: Key[Array, ""] | None = None  # the next sample's key, where a run from a data set knows it

    def own(
        self, hidden: PyTree[Array], observation: PyTree[Array], key: Key[Array, ""]
    ) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        """Return the result of the agent's exploring `act`, with lookahead if the agent looks ahead."""
        world: dict[str, Any] = {"world": self.world} if self.agent.looks_ahead else {}
        return self.agent.act(self.agent_state, hidden, observation, key, explore=True, **world)


class Hidden(NamedTuple):
    """The memory within one episode. The loop keeps it, and resets it with the episode."""

    agent: PyTree[Array]
    behaviour: PyTree[Array] = ()


class Decision(NamedTuple):
    """An action with its source, its information for the agent and the new memory."""

    action: PyTree[Array]
    hidden: Hidden  # after `Agent.act`; the loop calls `Agent.acted`
    aux: PyTree[Array]  # what the agent wants back in `learn`
    source: Int[Array, ""] = np.int32(AGENT)  # type: ignore[assignment]  # who chose the action
    memo: PyTree[Array] = ()  # what the behaviour wants back in `report`


class Scene(NamedTuple):
    """The view of a behaviour on the host before a step: read-only NumPy arrays, leaves `env *agent ...`."""

    observation: PyTree[np.ndarray]
    action: PyTree[np.ndarray]  # that is taken unless somebody intervenes
    begins: Bool[np.ndarray, "env *agent"]  # whether the step begins an episode
    spec: Spec
    clock: Clock
    seed: int
    aux: PyTree[np.ndarray] = ()  # what the agent wants back in `learn`
    policy: Callable[[], State] | None = None  # returns the agent's state that acts now


class Intervention(NamedTuple):
    """The answer of a behaviour on the host to a scene."""

    action: PyTree[np.ndarray]  # leaves `env *agent ...`; looked at where `taken`
    taken: Bool[np.ndarray, "env *agent"]
    state: PyTree[np.ndarray]
    aux: PyTree[np.ndarray] | None = None  # what the agent gets back in `learn` where `taken`; `None`: its own
    source: Int[np.ndarray, "env *agent"] | None = None  # who chose each action that was taken; `None`: `PERSON`


class Behaviour(Part):
    """The port of behaviours: the choice of actions while learning."""

    opposes: ClassVar[bool] = False
    """It gives some seats of a team to opponents of the agent (`OPPONENT`), so the agent's own return counts alone."""

    labels: ClassVar[bool] = False
    """It puts a `Label`, the right action, in place of the agent's own `aux`, for an agent that `imitates`.

    Such an agent has something to learn from while it acts, even one that is `offline` otherwise.
    """

    on_host: ClassVar[bool] = False
    """It has a method `intervene`, so the loop runs on the host, for native environments too."""

    def check(self, agent: Agent, spec: Spec) -> None:
        """Raise `ForageError` when the combination cannot work."""

    def init(self, key: Key[Array, ""], agent: Agent, spec: Spec) -> State:
        return ()

    def hidden(self, agent: Agent, spec: Spec) -> PyTree[Array]:
        """Return the behaviour's own memory at the start of an episode; `()` when it has none."""
        return ()

    @abc.abstractmethod
    def act(self, state: State, hidden: Hidden, observation: PyTree[Array], moment: Moment) -> Decision:
        """Choose the action for one observation."""

    def report(self, state: State, rollout: Experience, moment: Moment) -> State:
        """Learn from each rollout (leaves `time env ...`), before the agent does.

        `rollout.memo` is what `act` returned. `moment.clock` reads as it did when the rollout began, and `moment.who`
        means nothing.
        """
        return state

    def attend(self, spec: Spec, num_envs: int) -> PyTree[np.ndarray]:
        """Return the first state of `intervene`, NumPy arrays that checkpoints store; `()` for none."""
        return ()

    def intervene(self, state: PyTree[np.ndarray], scene: Scene) -> Intervention:
        """Take over actions that `act` chose, before the environments take them.

        It is called in Python with NumPy, never traced, and may take its time, as people do. `Experience.source` is
        `PERSON` where an action was taken over, unless the intervention says who chose it, and `Agent.acted` gets the
        action that was taken.
        """
        raise NotImplementedError

    def measured(self, state: PyTree[np.ndarray]) -> dict[str, float]:
        """Return metrics of the state of `intervene`; if there are none, a run reports the number of steps taken
        over.
        """
        return {}

    def completes(self, agent: Agent) -> dict[str, Any]:
        """Return the agent's options that this behaviour sets, for those that are left at `None`."""
        return {}

    def truncate(self, state: State, agent: Agent, clock: Clock) -> State:
        """Truncate the unfinished episodes: they were lost, and the next rollout starts with new ones.

        `clock` reads as it does after the newest rollout. The loop resets `Hidden`.
        """
        return state


class Opponent(Part):
    """The player of all seats except the agent's own in an evaluation of a competitive environment."""

    def hidden(self, spec: Spec) -> PyTree[Array]:
        """Return the opponent's memory at the start of an episode; `()` if it has none."""
        return ()

    @abc.abstractmethod
    def act(
        self, hidden: PyTree[Array], observation: PyTree[Array], spec: Spec, key: Key[Array, ""]
    ) -> tuple[PyTree[Array], PyTree[Array]]:
        """Return the action for one observation, and the memory after it."""


class Rewards(Part):
    """The port of rewards. They are applied when experience is learned from, so old experience gets today's rewards."""

    as_given: ClassVar[bool] = False
    """`relabel` changes no reward: an agent that looks ahead in the environment sees the rewards it will learn from."""

    ends: ClassVar[bool] = False
    """`relabel` ends episodes that continue in the environment, which an agent's memory could not follow."""

    asks: ClassVar[bool] = False
    """`learn` takes `policy` as well: `(observation, action) -> Agent.log_probability` of the agent as it is."""

    @property
    def group(self) -> int:
        """Return the number of episodes with a shared first state, side by side in a rollout, that it compares; 1
        for none.
        """
        return 1

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> State:
        return ()

    def check(self, spec: Spec) -> None:
        """Raise `ForageError` if this part cannot make one number of the environment's reward."""

    @abc.abstractmethod
    def relabel(self, state: State, experience: Experience) -> Experience:
        """Return the experience (leaves `time batch ...`) with the reward to learn from, one number each.

        `experience.rewards` has each of the environment's several rewards by its name, and is handed on to agents that
        take them. What is paid for exploring is added there as `BONUS`: most agents learn from the sum.
        """

    def streams(self, spec: Spec) -> tuple[str, ...]:
        """Name the reward streams that `relabel` passes on, without a bonus: those of the environment."""
        inner = getattr(self, "inner", None)
        return inner.streams(spec) if isinstance(inner, Rewards) else spec.reward_names

    def score(self, returns: Float[np.ndarray, "*shape rewards"], spec: Spec) -> Float[np.ndarray, "*shape"]:
        """Return the score of episodes with these returns in each of the environment's several rewards.

        Scores, the best seed and tuning go by it. A part around an `inner` one leaves it to that; where the environment
        has one reward, a return is its own score.
        """
        if not spec.reward_names:
            return returns
        if isinstance(inner := getattr(self, "inner", None), Rewards):
            return inner.score(returns, spec)
        raise ForageError(
            f"{spec.name} has several rewards ({', '.join(spec.reward_names)}), and {type(self).__name__} does not say "
            f"what they are worth together; give it a method score(returns, spec), as Weighted has."
        )

    def note(self, spec: Spec) -> PyTree[Array]:
        """Return an example of the note of `learn` on one transition; `()` for none."""
        return ()

    def learn(
        self, state: State, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, PyTree[Array], Metrics]:
        """Learn from each new rollout (leaves `time env ...`), before it is remembered.

        Returns the state, what is to be remembered of each transition as its `note` (leaves `time env ...`), because
        it cannot be told later from the transition alone, and metrics. `clock` reads as when the rollout began.
        """
        return state, (), {}

    def truncate(self, state: State) -> State:
        """Truncate the unfinished episodes: they were lost, and the next rollout starts with new ones."""
        return state


class Memory(Part):
    """The port of memories: the experience that is stored and replayed."""

    on_policy: ClassVar[bool] = False
    """It gives the last rollout, whole, to agents that learn from no older one; other memories also draw from older
    ones.
    """

    judged: ClassVar[bool] = False
    """`rate` needs the agent's value estimates of each rollout; they are computed only for such memories."""

    joint: ClassVar[bool] = False
    """It keeps the transitions of whole teams (leaves `time env agent ...`) for agents that are `joint`."""

    offline: ClassVar[bool] = False
    """It is a data set, never added to, and the only source of experience. A step of the run is an update of one
    batch.
    """

    mixes: ClassVar[bool] = False
    """Its batches come partly from a data set and partly from the run's own experience."""

    recomputes_rewards: ClassVar[bool] = False
    """It recomputes rewards with the environment's own function, which is the same for all tasks."""

    @property
    def group(self) -> int:
        """Return the number of episodes with a shared first state, side by side in a rollout, that it compares; 1
        for none.
        """
        return 1

    @property
    def transitions(self) -> Experience | None:
        """Return the transitions of a data set (leaves `transition ...`); `None` for other memories."""
        return None

    @property
    def read_files(self) -> Mapping[str, Experience]:
        """Return the experience that it loaded from data sets, by the names of their files."""
        return {}

    @property
    def tells_returns(self) -> bool:
        """Return whether it computes `Experience.return_to_go` for the run's own experience.

        In the rollouts that it is given this field holds the reward that is learned from.
        """
        return False

    @property
    def held_back(self) -> int:
        """Return the number of rollouts that it holds back: sampling and updates start one rollout later than that."""
        return 0

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        """Raise `ForageError` for an agent that cannot learn from the batches of this memory.

        `environment`: the native one that the experience comes from; `None` for one on the host. A memory that needs
        more of it than its spec raises `ForageError` where that is not there.
        """
        who, memory = type(agent).__name__, type(self).__name__
        if agent.on_policy and not self.on_policy:
            raise ForageError(
                f"{who} learns only from the rollout it has just lived through, and {memory} replays older ones; use "
                f"--memory rollout, or an agent that learns from a replay memory, such as dqn."
            )
        if self.on_policy and not agent.on_policy:
            raise ForageError(
                f"{who} learns from batches that are drawn from a replay memory, and {memory} gives the last rollout "
                f"whole; use --memory uniform or prioritised, or an agent that learns from its rollouts, such as ppo."
            )

    def sealed(self) -> Memory:
        """Return the memory with the hash of every file that it reads, so that a resumed run can recognise them."""
        return self

    def moved(self, path: Any) -> Memory:
        """Return the memory with the file that it reads at another path."""
        raise ForageError("This run does not learn from a data set; leave out --data.")

    def opened(self, spec: Spec) -> Memory:
        """Return the memory with its files loaded. Their content is part of the loop, not of checkpoints."""
        return self

    @abc.abstractmethod
    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> State:
        """Make an empty memory for transitions like `example` (no leading axes).

        `environment`: as in `check`. What `sample` needs of it is kept in the state.
        """

    @abc.abstractmethod
    def add(self, state: State, rollout: Experience, clock: Clock) -> State:
        """Keep a rollout (leaves `time env ...`). `clock` reads as it did when the rollout began."""

    def rate(self, state: State, judgement: Judgement, clock: Clock) -> State:
        """Rate the rollout that was just added by the agent's value estimates, for a memory that is `judged`."""
        return state

    def truncate(self, state: State, clock: Clock) -> State:
        """Truncate the unfinished episodes: they were lost, and the next rollout to be added has new ones.

        `clock` reads as it does after the newest rollout.
        """
        return state

    def turn(self, state: State, size: int, length: int, moment: Moment) -> State:
        """Return the state from which the next batch is drawn, for a memory whose batches follow one another.

        It is called before each `sample`, with the same arguments.
        """
        return state

    @abc.abstractmethod
    def sample(self, state: State, size: int, length: int, moment: Moment) -> Batch:
        """Draw `size` segments of `length` transitions. The clock reads as it does after the newest rollout.

        A memory that learns a model of the environment may imagine some of them, in which `Experience.source` is
        `MODEL`. Value estimates learn from these as from all others; policy gradients leave them out, as no steps of
        the agent's own, and so does a model that an agent learns.
        """

    def report(self, state: State, batch: Batch, errors: Float[Array, " batch"]) -> State:
        """Update the priorities with each segment's error; NaN leaves a priority unchanged."""
        return state

    def rest(self, state: State) -> State:
        """Return the state to store until the next `add`, after the agent has learned: the shapes are those of
        `init`.
        """
        return state
