"""A person looks on while the agent acts, takes over in danger, and gives back afterwards."""

from __future__ import annotations

import abc
import functools
from typing import Any, ClassVar

import equinox
import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from forage.behaviours.policy import AgentPolicy
from forage.core import spaces, trust
from forage.core.loading import Own as OwnClass
from forage.core.loading import load_class, target_name
from forage.core.ports import ActContext, Agent, Behaviour, Decision, HiddenState, Intervention, InterventionContext
from forage.core.ranges import Range, Ranges, check_order
from forage.core.types import Clock, Experience, ForageError, Spec

SCRIPTED = "scripted"


class Person(abc.ABC):
    """A person who may take over, asked in each environment before each step, in NumPy. Answers may take their time.

    One of them looks on in all environments of all seeds (`scene.seed`). What is to be saved with a run goes into the
    memory; what `self` keeps, such as a window, is made anew when a run is resumed.
    """

    def check(self, spec: Spec) -> None:  # noqa: B027
        """Raise `ForageError` if this person cannot act."""

    def begin(self, spec: Spec) -> PyTree[np.ndarray]:
        """Return the person's initial memory of one environment: NumPy arrays or numbers; `()` for none."""
        return ()

    @abc.abstractmethod
    def act(
        self, memory: PyTree[np.ndarray], scene: InterventionContext
    ) -> tuple[PyTree[np.ndarray] | None, PyTree[np.ndarray]]:
        """Return the action to take in place of `scene.action`, or `None` to leave that, and the memory.

        The leaves of `scene` are those of one environment (of many agents, of one agent).
        """


class Script(abc.ABC):
    """A rule for one kind of environment: a measure of danger, and the actions against it."""

    size: int  # numbers that are seen

    @abc.abstractmethod
    def danger(self, observation: np.ndarray) -> float:
        """Return the danger, from 0 (safe) to 1 (lost)."""

    @abc.abstractmethod
    def action(self, observation: np.ndarray) -> Any:
        """Return the action to take."""


class Balance(Script):
    """Keep the pole up and the cart on the track, by a linear rule."""

    size = 4

    def danger(self, observation: np.ndarray) -> float:
        place, speed, angle, turning = map(float, observation)
        return max(abs(place + 0.5 * speed) / 2.4, abs(angle + 0.2 * turning) / 0.2095)

    def action(self, observation: np.ndarray) -> Any:
        return int(observation @ np.array([0.1, 0.3, 3.0, 1.0]) > 0)


class Pump(Script):
    """Push the car in its direction of movement; the danger is too little energy for the mountain."""

    size = 2

    def __init__(self, left: Any, right: Any):
        self.left, self.right = left, right

    def danger(self, observation: np.ndarray) -> float:
        def energy(place: float, speed: float) -> float:  # 0 at rest at the bottom
            return 0.5 * speed**2 + 0.0025 / 3 * (1 + np.sin(3 * place))

        return 1 - energy(*map(float, observation)) / (1.5 * energy(0.5, 0.0))  # half as much again, to be sure

    def action(self, observation: np.ndarray) -> Any:
        return self.left if observation[1] < 0 else self.right


SCRIPTS: dict[str, Script] = {
    "CartPole": Balance(),
    "MountainCar": Pump(0, 2),
    "MountainCarContinuous": Pump(np.full(1, -1.0), np.full(1, 1.0)),
}
"""By the name of the environment, without library and version."""


class ScriptedPerson(Person):
    """A scripted person that takes over if the danger rises above `takes`, and gives back if it falls below `gives`."""

    def __init__(self, takes: float, gives: float):
        self.takes, self.gives = takes, gives

    def script(self, spec: Spec) -> Script | None:
        """Return the rule for an environment, or `None` if it has none."""
        script = SCRIPTS.get(spec.name.rpartition(":")[2].partition("-")[0])
        return script if script is not None and spec.observation_space.shape == (script.size,) else None

    def check(self, spec: Spec) -> None:
        if self.script(spec) is None or spec.num_agents > 1:
            raise ForageError(
                f"The scripted person knows {', '.join(SCRIPTS)}, and not {spec.name}; write one of your own and name "
                f"it with --behaviour.person my_person.py:Person."
            )

    def begin(self, spec: Spec) -> np.ndarray:
        return np.zeros((), bool)  # whether the person has taken over

    def act(self, memory: Any, scene: InterventionContext) -> tuple[Any, Any]:
        script = self.script(scene.spec)
        assert script is not None
        danger = script.danger(scene.observation)
        acts = danger > (self.gives if memory and not scene.begins else self.takes)
        return (script.action(scene.observation) if acts else None), acts


@functools.lru_cache
def load_person(target: str) -> Person:
    """Return the person that `module:Class` or `file.py:Class` names, the same one for all seeds."""
    cls = load_class(target)
    if not issubclass(cls, Person):
        raise ForageError(f"{target} is no person; a subclass of forage_papers.behaviours.takeover.Person works.")
    return cls()


def action_shapes(action: PyTree[Any]) -> PyTree[tuple[int, ...]]:
    """Return the shape of each array of an action."""
    return jax.tree.map(np.shape, action)


def by_name(person: Any) -> Any:
    """Return a person as a name that a run can import again from anywhere, if it has one."""
    if isinstance(person, type):
        person = target_name(person) or person()
    if isinstance(person, str) and ":" in person:  # imported when it is first asked
        trust.check_source(person.rpartition(":")[0])
    return OwnClass.from_target(person).target if isinstance(person, str) and ":" in person else person


class Takeover(Behaviour):
    """The behaviour `inner`, with a person who takes over while the agent is in danger.

    Steps that the person takes have the source PERSON: value estimates learn from them as from all others, policy
    gradients leave them out. In the first `fraction` of the run the person looks on, and is not asked afterwards; in
    evaluation the agent is alone.

    `person`: `scripted`, which knows CartPole, MountainCar and MountainCarContinuous, or a class of one's own (see
    docs/write-your-own.md). The scripted one measures danger from 0 to 1: how near the pole or the cart, in half a
    second, is to where the episode ends; how much the car lacks of the energy that it needs.

    Works on the host, where native environments are stepped too.

    Source: Kelly, Sidrane, Driggs-Campbell, Kochenderfer (2019), "HG-DAgger: Interactive Imitation Learning with Human
    Experts", arXiv 1810.02890. There the novice is fitted to the actions of the person alone, and how often the person
    takes over estimates what risk is acceptable; here any agent learns from all steps and their rewards.
    """

    on_host: ClassVar[bool] = True
    example: ClassVar[str] = "forage train dqn gymnasium:MountainCar-v0 --behaviour takeover --behaviour.fraction 0.3"

    ranges: ClassVar[Ranges] = {"takes": Range(0), "gives": Range(0)}

    person: str | Person = equinox.field(static=True, default=SCRIPTED, converter=by_name)  # the one who looks on
    takes: float = 0.5  # danger above which the scripted person takes over
    gives: float = 0.2  # danger below which the scripted person gives back
    fraction: float = 1.0  # share of the run, from its beginning, in which the person looks on
    inner: Behaviour | None = None  # how the agent acts meanwhile; its usual behaviour

    def __check_init__(self):
        check_order(self, "gives", "takes", equal=True)

    @property
    def base_behaviour(self) -> Behaviour:
        """Return the behaviour that acts unless the person does."""
        return self.inner or AgentPolicy()

    def someone(self) -> Person:
        """Return the person. Raise `ForageError` if there is none of that name."""
        if self.person == SCRIPTED:
            return ScriptedPerson(float(self.takes), float(self.gives))
        return load_person(self.person) if isinstance(self.person, str) else self.person

    def check(self, agent: Agent, spec: Spec) -> None:
        if not isinstance(self.person, Person) and self.person != SCRIPTED and ":" not in str(self.person):
            raise ForageError(
                f"A person is {SCRIPTED} or a class of one's own, as in --behaviour.person my_person.py:Person, not "
                f"{self.person!r}."
            )
        if self.base_behaviour.on_host:
            raise ForageError("A takeover goes around a behaviour that does not intervene itself, such as own.")
        self.base_behaviour.check(agent, spec)
        self.someone().check(spec)

    def attend(self, spec: Spec, num_envs: int) -> PyTree[np.ndarray]:
        return [self.someone().begin(spec) for _ in range(num_envs * spec.num_agents)]

    def intervene(self, state: PyTree[np.ndarray], scene: InterventionContext) -> Intervention:
        shape, spec = scene.begins.shape, scene.spec
        if scene.clock.steps >= self.fraction * float(scene.clock.total):
            return Intervention(scene.action, np.zeros(shape, bool), state)
        person, actions, taken, memories = self.someone(), [], [], []
        for memory, at in zip(state, np.ndindex(shape), strict=True):
            seen, own, begins = jax.tree.map(lambda x, at=at: x[at], (scene.observation, scene.action, scene.begins))
            given, memory = person.act(memory, scene._replace(observation=seen, action=own, begins=begins))
            if given is not None and action_shapes(given) != action_shapes(own):
                raise ForageError(
                    f"{type(person).__name__} answered with an action of shape {action_shapes(given)}, and "
                    f"{spec.name} takes "
                    f"one of {spaces.describe_space(spec.action_space)}, of shape {action_shapes(own)}."
                )
            taken.append(given is not None)
            actions.append(own if given is None else given)
            memories.append(memory)
        action = jax.tree.map(lambda *x: np.stack(x).reshape(*shape, *np.shape(x[0])), *actions)
        return Intervention(action, np.array(taken).reshape(shape), memories)

    # Otherwise all is as `inner` has it.

    opposes = property(lambda self: self.base_behaviour.opposes)  # type: ignore[assignment]
    labels = property(lambda self: self.base_behaviour.labels)  # type: ignore[assignment]

    def completes(self, agent: Agent) -> dict[str, Any]:
        return self.base_behaviour.completes(agent)

    def init(self, key: Key[Array, ""], agent: Agent, spec: Spec) -> Any:
        return self.base_behaviour.init(key, agent, spec)

    def init_hidden(self, agent: Agent, spec: Spec) -> PyTree[Array]:
        return self.base_behaviour.init_hidden(agent, spec)

    def act(self, state: Any, hidden: HiddenState, observation: PyTree[Array], moment: ActContext) -> Decision:
        return self.base_behaviour.act(state, hidden, observation, moment)

    def report(self, state: Any, rollout: Experience, moment: ActContext) -> Any:
        return self.base_behaviour.report(state, rollout, moment)

    def truncate(self, state: Any, agent: Agent, clock: Clock) -> Any:
        return self.base_behaviour.truncate(state, agent, clock)
