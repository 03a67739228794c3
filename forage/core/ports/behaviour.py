"""The port of behaviours, and of opponents."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from jaxtyping import Array, Bool, Int, Key, PyTree

from forage.core.ports.agent import ActInputs, Agent
from forage.core.ports.environment import World
from forage.core.ports.part import Part, State
from forage.core.types import AGENT, Clock, Experience, Spec


class InterventionContext(NamedTuple):
    """The view of a behaviour on the host before a step: read-only NumPy arrays, leaves `env *agent ...`."""

    observation: PyTree[np.ndarray]
    action: PyTree[np.ndarray]  # that is taken unless somebody intervenes
    begins: Bool[np.ndarray, "env *agent"]  # whether the step begins an episode
    spec: Spec
    clock: Clock
    seed: int
    policy_info: PyTree[np.ndarray] = ()  # what the agent wants back in `learn`
    policy: Callable[[], State] | None = None  # returns the agent's state that acts now


class Intervention(NamedTuple):
    """The answer of a behaviour on the host to a scene."""

    action: PyTree[np.ndarray]  # leaves `env *agent ...`; looked at where `taken`
    taken: Bool[np.ndarray, "env *agent"]
    state: PyTree[np.ndarray]
    policy_info: PyTree[np.ndarray] | None = None  # what the agent gets back in `learn` where `taken`; `None`: its own
    source: Int[np.ndarray, "env *agent"] | None = None  # who chose each action that was taken; `None`: `PERSON`


class OnHost(Part):
    """A behaviour that takes over actions on the host, such as a person; by default it has none to take over."""

    on_host: ClassVar[bool] = False
    """It has a method `intervene`, so the loop runs on the host, for native environments too."""

    def attend(self, spec: Spec, num_envs: int) -> PyTree[np.ndarray]:
        """Return the first state of `intervene`, NumPy arrays that checkpoints store; `()` for none."""
        return ()

    def intervene(self, state: PyTree[np.ndarray], scene: InterventionContext) -> Intervention:
        """Take over actions that `act` chose, before the environments take them.

        It is called in Python with NumPy, never traced, and may take its time, as people do. `Experience.source` is
        `PERSON` where an action was taken over, unless the intervention says who chose it, and `Agent.observe_action`
        gets the action that was taken.
        """
        raise NotImplementedError

    def intervention_metrics(self, state: PyTree[np.ndarray]) -> dict[str, float]:
        """Return metrics of the state of `intervene`; if there are none, a run reports the number of steps taken
        over.
        """
        return {}


class ActContext(NamedTuple):
    """The context in which a part acts: all it may know besides its own state."""

    agent: Agent
    agent_state: State
    spec: Spec
    clock: Clock
    key: Key[Array, ""]
    stream_index: Int[Array, ""] = np.int32(0)  # type: ignore[assignment]  # the stream: environment * num_agents + agent
    world: World | None = None  # for an agent that `looks_ahead`, where it acts
    upcoming: Key[Array, ""] | None = None  # the next sample's key, where a run from a data set knows it

    def own(
        self, hidden: PyTree[Array], observation: PyTree[Array], key: Key[Array, ""]
    ) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        """Return the result of the agent's exploring `act`, with lookahead if the agent looks ahead."""
        world = self.world if self.agent.looks_ahead else None
        return self.agent.act(self.agent_state, ActInputs(hidden, observation, key, explore=True, world=world))


class HiddenState(NamedTuple):
    """The memory within one episode. The loop keeps it, and resets it with the episode."""

    agent: PyTree[Array]
    behaviour: PyTree[Array] = ()


class Decision(NamedTuple):
    """An action with its source, its information for the agent and the new memory."""

    action: PyTree[Array]
    hidden: HiddenState  # after `Agent.act`; the loop calls `Agent.observe_action`
    policy_info: PyTree[Array]  # what the agent wants back in `learn`
    source: Int[Array, ""] = np.int32(AGENT)  # type: ignore[assignment]  # who chose the action
    behaviour_info: PyTree[Array] = ()  # what the behaviour wants back in `report`


class Behaviour(OnHost):
    """The port of behaviours: the choice of actions while learning."""

    opposes: ClassVar[bool] = False
    """It gives some seats of a team to opponents of the agent (`OPPONENT`), so the agent's own return counts alone."""

    names_run: ClassVar[bool] = False
    """It names a run whose policy it uses: `with_run_hash` when a run is configured, `with_run` when it is built."""

    def with_run_hash(self, hash_run: Callable[[str], tuple[str, str]]) -> Self:
        """Return the part with the hash of the run that it names, unless it has one.

        `hash_run` returns the absolute path of a run and the hash of its agents.
        """
        return self

    def with_run(self, load_run: Callable[[str, str, Spec, str, str], Any], spec: Spec, learns: bool) -> Self:
        """Return the part with the policy of the run that it names; to act alone, without `learns`, it needs none.

        `load_run(run, hash, spec, use, role)` returns the policy, with its `agent` and `state`, or raises `ForageError`
        that says what it was to be here.
        """
        return self

    labels: ClassVar[bool] = False
    """It puts a `Label`, the right action, in place of the agent's own `policy_info`, for an agent that `imitates`.

    Such an agent has something to learn from while it acts, even one that is `offline` otherwise.
    """

    def check(self, agent: Agent, spec: Spec) -> None:
        """Raise `ForageError` when the combination cannot work."""

    def init(self, key: Key[Array, ""], agent: Agent, spec: Spec) -> State:
        return ()

    def init_hidden(self, agent: Agent, spec: Spec) -> PyTree[Array]:
        """Return the behaviour's own memory at the start of an episode; `()` when it has none."""
        return ()

    @abc.abstractmethod
    def act(self, state: State, hidden: HiddenState, observation: PyTree[Array], moment: ActContext) -> Decision:
        """Choose the action for one observation."""

    def report(self, state: State, rollout: Experience, moment: ActContext) -> State:
        """Learn from each rollout (leaves `time env ...`), before the agent does.

        `rollout.behaviour_info` is what `act` returned. `moment.clock` reads as at the rollout's start, and
        `moment.stream_index` means nothing.
        """
        return state

    def completes(self, agent: Agent) -> dict[str, Any]:
        """Return the agent's options that this behaviour sets, for those that are left at `None`."""
        return {}

    def truncate(self, state: State, agent: Agent, clock: Clock) -> State:
        """Truncate the unfinished episodes: they were lost, and the next rollout starts with new ones.

        `clock` reads as it does after the newest rollout. The loop resets `HiddenState`.
        """
        return state


class Opponent(Part):
    """The player of all seats except the agent's own in an evaluation of a competitive environment."""

    def init_hidden(self, spec: Spec) -> PyTree[Array]:
        """Return the opponent's memory at the start of an episode; `()` if it has none."""
        return ()

    @abc.abstractmethod
    def act(
        self, hidden: PyTree[Array], observation: PyTree[Array], spec: Spec, key: Key[Array, ""]
    ) -> tuple[PyTree[Array], PyTree[Array]]:
        """Return the action for one observation, and the memory after it."""
