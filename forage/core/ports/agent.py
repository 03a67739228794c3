"""The port of agents."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar, Self

import equinox
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.mesh import ONE, Shape
from forage.core.ports.abilities import Estimating, Grouping, Lagging, Offline, Recurrent
from forage.core.ports.environment import World
from forage.core.ports.needs import Needs
from forage.core.ports.part import Metrics, State
from forage.core.types import Batch, Clock, Experience, ForageError, Spec


class ActInputs(equinox.Module):
    """The inputs of an agent's action in one environment."""

    hidden: PyTree[Array]  # the agent's memory within the episode; `()` if it has none
    observation: PyTree[Array]
    key: Key[Array, ""]
    explore: bool = equinox.field(static=True)  # the policy that explores; else that of evaluation
    noise: Float[Array, "*noise"] | None = None  # of the shape `Agent.noise`, in place of the standard normal numbers
    # that an exploring action is made from; never given to an agent that names no shape
    world: World | None = None  # for an agent that `looks_ahead`; see `Agent.seen_world`
    greedy: Bool[Array, ""] | None = None  # in evaluation, a traced choice between its greedy policy and drawing;
    # never given to an agent without `acts_either_way`

    @property
    def in_rollout(self) -> bool:
        """Return whether the action belongs to a rollout that is learned from."""
        return self.explore and self.greedy is None

    def replace(self, **fields: Any) -> Self:
        """Return the inputs with some of them replaced."""
        return dataclasses.replace(self, **fields)


class Agent(Recurrent, Offline, Grouping, Estimating, Lagging):
    """The port of agents. An agent does not know its runner, nor the source of the actions that it learns from.

    Static fields that say how the loop is to feed it:
    `num_envs` environments are stepped `rollout_length` times, then `updates_per_rollout` batches are learned from.
    """

    on_policy: ClassVar[bool]
    """Learns from the last rollout only; otherwise from a replay memory."""

    num_envs: equinox.AbstractVar[int]

    rollout_length: equinox.AbstractVar[int]

    signatures: ClassVar[dict[str, str]] = {"act": "state, inputs"}
    """The arguments of methods that users override; a class with others is refused."""

    def working_bytes(self, spec: Spec, state: State, shape: Shape = ONE) -> dict[str, int]:
        """Return the bytes that acting and an update take in addition to the state, by their use.

        `state` has shapes in place of arrays. Empty where that is small. `files` counts arrays that stay as they were
        read, next to the state. `shape`: of a mesh; the bytes are those of each device.
        """
        return {}

    def check_mesh(self, shape: Shape, offline: bool) -> None:
        """Raise `ForageError` if the devices of a mesh of this shape cannot share one agent's weights and rows.

        `offline`: whether it learns from recorded data.
        """
        raise ForageError(
            f"{type(self).__name__} has no language model that a mesh of devices could share; leave out mesh. Seeds "
            f"and native environments are shared by --devices."
        )

    def smaller(self) -> dict[str, dict[str, Any]]:
        """Return options that make `working_bytes` or the state smaller, by the words of the command line."""
        return {}

    updates_per_rollout: ClassVar[int] = 1
    """The number of batches to learn from between two rollouts."""

    batch_size: ClassVar[int] = 1
    """Segments in a batch drawn from a replay memory."""

    segment: ClassVar[int] = 1
    """Consecutive transitions in each segment drawn from a replay memory."""

    learning_starts: ClassVar[int] = 0
    """Environment steps before the first update; 2^31 - 1, the longest run, turns learning off."""

    def check(self, spec: Spec) -> None:
        """Raise `ForageError` for options that do not go together or with this environment, beyond `needs`."""

    @abc.abstractmethod
    def init(self, key: Key[Array, ""], spec: Spec) -> State: ...

    @abc.abstractmethod
    def act(self, state: State, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        """Return `(action, hidden, policy_info)` for one observation: the action, the memory, and data for `learn`."""

    def prepare_acting(self, state: State) -> State:
        """Return the state for `act` in the steps of a rollout, with the parts apart that each step would cut out."""
        return state

    @abc.abstractmethod
    def learn(
        self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        """Return the new state, scalar metrics, and each segment's error (how surprising it was)."""

    def measure(self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]) -> Metrics:
        """Return the metrics of a batch that is not learned from: by default those of an update that is thrown away."""
        return self.learn(state, batch, clock, key)[1]

    def observe(self, state: State, rollout: Experience) -> State:
        """See each new rollout (leaves `time stream ...`) once, with the rewards to learn from, before any update.

        Memories keep it as it is. What a data set holds is seen by `init_from_dataset`.
        """
        return state

    stochastic: ClassVar[bool] = False
    """It learns a policy that draws its actions: `act` plays it with `explore`, and otherwise a policy derived from
    it.
    """

    acts_either_way: ClassVar[bool] = False
    """`act` follows `greedy`, so that a program for both kinds of evaluation acts once. A class that overrides `act`
    declares it again.
    """

    @classmethod
    def follows_greedy(cls) -> bool:
        """Return whether the class that defines `act` declares `acts_either_way`."""
        owner = next(one for one in cls.__mro__ if "act" in vars(one))
        return bool(vars(owner).get("acts_either_way", False))

    usual_behaviour: ClassVar[str] = "policy"
    """The behaviour it is used with, unless another is named."""

    begins_at_random: ClassVar[bool] = True
    """Off-policy, its first `learning_starts` steps are uniform actions, unless a behaviour is named or it continues
    another run.
    """

    usual_memory: ClassVar[str] = ""
    """The default memory, if it is not the last rollout or uniform replay."""

    whole_episodes: ClassVar[bool] = False
    """Every rollout starts with a new episode in each environment, and episodes that are unfinished at its end are
    dropped.
    """

    leaves_out: ClassVar[bool] = True
    """Steps that were lost (`HostEnvironment.lost`) are neither learned from nor compared with others."""

    joint: ClassVar[bool] = False
    """It learns from the experience of a whole team: the leaves of its rollouts and batches are `time batch agent ...`.

    Otherwise each agent of a team is a stream of its own, `time batch ...`. Either way `act` is called for one agent.
    """

    acting: ClassVar[str] = "network"
    """The field of its state that holds the network it acts with, for behaviours that perturb it."""

    looks_ahead: ClassVar[bool] = False
    """`act` gets the `world` as well, and may step it ahead: one agent alone, in a native environment."""

    needed_behaviour: ClassVar[str] = ""
    """The name of the only behaviour it can learn from correctly; empty if any behaviour will do."""

    reward_heads: ClassVar[tuple[str, ...]] = ()
    """Name the rewards it learns from apart, as `Experience.rewards` has them; `()` when one number is enough.

    A bonus for exploring that an agent does not take is added to the reward; one that takes it may get none.
    """

    def seen_world(self, world: World | None) -> World:
        """Return the world. Raise `ForageError` if who asks for an action has none."""
        if world is None:
            raise ForageError(
                f"{type(self).__name__} looks ahead in the environment's own state and cannot act by observations "
                f"alone, as it would have to here; forage train, evaluate and watch give it the state."
            )
        return world

    def num_updates(self, state: State) -> Int[Array, ""] | None:
        """Return the number of updates to make after this rollout; `None` for `updates_per_rollout`.

        Seeds may differ, which makes updates slower; where they do not, say so with `forage.ops.every.shared_by_seeds`.
        """
        return None

    def reset_networks(self, state: State, batch: Batch, key: Key[Array, ""], spec: Spec) -> tuple[State, Metrics]:
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
    needs: ClassVar[Needs] = Needs(agents="one", whole_episodes=1)

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

    def init_summary(self, state: State) -> PyTree[Array]:
        """Return the empty summary of a member's observations; `()` for an agent that has no use for one."""
        return ()

    def summarise(
        self, summary: PyTree[Array], observation: PyTree[Array], counts: Bool[Array, " episode"]
    ) -> PyTree[Array]:
        """Add the observations (leaves `episode ...`) of one step to a member's summary; `counts` are running."""
        return summary

    def observe_summaries(self, state: State, summaries: PyTree[Array]) -> State:
        """See the summaries (leaves `member ...`) of each generation once, after `tell`."""
        return state

    def learn(
        self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        raise ForageError(f"{type(self).__name__} learns from whole returns (ask and tell), not from transitions.")
