"""A behaviour that intervenes on the host: its actions in memory and learning, and invalid answers."""

from typing import Any, ClassVar

import equinox
import jax
import numpy as np
import pytest
import small
from gymnasium import spaces

from forage.behaviours.policy import AgentPolicy
from forage.config import registry
from forage.config.resolve import resolve
from forage.core.checkpoint import is_key
from forage.core.errors import RunInterrupted
from forage.core.ports import Intervention
from forage.core.types import AGENT, GONE, NOBODY, PERSON, Clock, ForageError, Spec
from forage.environments import make, spec_of
from forage.environments.adapters.on_host import OnHost
from forage.environments.wrappers.together import EnvironmentCopies
from forage.loop.device.loop import DeviceLoop
from forage.loop.host.loop import HostLoop
from forage.loop.host.onlooker import InterventionRecorder
from forage.loop.learner import Learner
from forage.rewards.environment import EnvironmentReward
from forage.starts.reset import Reset
from forage.tasks.same import Same

small.keep_compiled()
FOUR = Spec("Four", spaces.Box(-1, 1, (2,)), spaces.Discrete(4))
PENDULUM = Spec("Pendulum-v1", spaces.Box(-1, 1, (2,)), spaces.Box(-2, 2, (1,)))
CLOCK = Clock(np.int32(0), np.float32(100))


class Copies(AgentPolicy):
    """Takes over everywhere, or nowhere, with the agent's own action."""

    on_host: ClassVar[bool] = True
    everywhere: bool = equinox.field(static=True, default=True)

    def intervene(self, state, scene):
        return Intervention(scene.action, np.full(scene.begins.shape, self.everywhere), state)


class Second(AgentPolicy):
    """Takes over every second step of an episode, with action 1; remembers the age of each episode."""

    on_host: ClassVar[bool] = True

    def attend(self, spec, num_envs):
        return np.zeros(num_envs if spec.num_agents == 1 else (num_envs, spec.num_agents), np.int64)

    def intervene(self, state, scene):
        age = np.where(scene.begins, 0, state)
        return Intervention(np.ones_like(scene.action), age % 2 == 1, age + 1)


def host_loop(agent: str, behaviour: Any, **more: Any) -> HostLoop:
    name, environment, options = small.ROWS[agent]
    environment = more.pop("environment", environment)
    parts = {"behaviour": behaviour} | small.PARTS.get(agent, {})
    setup = resolve(name, environment, steps=480, seeds=[3], agent_options=options | more, **parts)
    return setup.runner().loops[0]  # type: ignore[attr-defined]


def plain(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)


POLICY_GRADIENT = {"ppo", "ppo-gru", "ppo-continuous", "reinforce"}


@pytest.mark.parametrize("agent", [a for a in small.AGENTS if a != "open-es"])
@pytest.mark.thorough
def test_every_agent_learns_from_a_persons_steps_as_it_should(agent):
    """A person with the agent's own actions: values are learned as usual, and policy gradients are zero."""
    more = {"entropy_coefficient": 0.0} if agent in POLICY_GRADIENT else {}
    states = []
    for behaviour in (Copies(everywhere=False), Copies(everywhere=True)):
        loop = host_loop(agent, behaviour, **more)
        loop.begin()
        before = jax.device_get(loop.state.agent)
        report = loop.advance(6)
        each = loop.learner.agent.num_envs * loop.learner.agent.rollout_length
        assert report.latest["taken_over"] == (6 * each if behaviour.everywhere else 0)
        states.append(jax.device_get(loop.state.agent))
    ours, theirs = states
    assert small.differing(ours, before)
    if agent not in POLICY_GRADIENT:
        # What was executed is within the bounds, and may differ from what the agent says in the last bit.
        close = jax.tree.map(lambda a, b: np.allclose(plain(a), plain(b), rtol=1e-3, atol=2e-5), ours, theirs)
        assert all(jax.tree.leaves(close)), close
        return
    actors = [leaf for leaf in small.differing(ours, before) if ".actor." in leaf]
    assert actors and not [leaf for leaf in small.differing(theirs, before) if ".actor." in leaf]
    if agent != "reinforce":
        assert [leaf for leaf in small.differing(theirs, before) if ".critic." in leaf]


@pytest.mark.thorough
def test_who_only_looks_on_changes_nothing():
    watched = host_loop("dqn-gru", Copies(everywhere=False))
    # The same environment on the host for both: the plain one would run on the device.
    environment = make("CartPole-masked")
    agent = watched.learner.agent
    one = Learner(agent, AgentPolicy(), EnvironmentReward(), watched.learner.memory, watched.learner.spec)
    loops = [HostLoop(one, OnHost(environment, agent.num_envs), 3, 480), watched]
    for loop in loops:
        loop.begin()
        loop.advance(10)
    first, second = (loop.save()._replace(onlooker=(), environment=()) for loop in loops)
    assert small.differing(first, second) == []


@pytest.mark.parametrize("environment", ["CartPole-v1", "small:Pair"])
@pytest.mark.thorough
def test_what_is_taken_over_is_done_remembered_and_heard(environment):
    made = make("CartPole-v1")
    made = EnvironmentCopies(made) if ":" in environment else made
    spec = spec_of(made, "poles")
    agent = registry.build("agent", "ppo", small.PPO | {"gru_size": 3, "rollout_length": 16})
    learner = Learner(agent, Second(), EnvironmentReward(), small.KeptRollout(), spec)
    loop = HostLoop(learner, OnHost(made, agent.num_envs), 3, 480)
    sent = []
    send = loop.environment.send
    loop.environment.send = lambda action: (sent.append(np.array(action)), send(action))[1]
    loop.begin()
    loop.advance(1)
    rollout = jax.device_get(loop.state.memory)
    sent = np.stack(sent).reshape(rollout.action.shape)
    np.testing.assert_array_equal(sent, rollout.action)
    age = np.zeros(rollout.source.shape, int)
    for time in range(1, len(age)):
        age[time] = np.where(rollout.ended[time - 1], 0, age[time - 1] + 1)
    here = rollout.source != GONE
    np.testing.assert_array_equal(rollout.source[here], np.where(age % 2, PERSON, AGENT)[here])
    assert (rollout.action[here & (age % 2 == 1)] == 1).all() and (rollout.action[age % 2 == 0] == 0).any()
    # The agent's memory has the action that was taken: the one-hot of the last, and nothing as an episode begins.
    heard = np.where((age[1:] > 0)[..., None], np.eye(2)[rollout.action[:-1]], 0)
    np.testing.assert_array_equal(rollout.policy_info.action[1:], heard)
    assert loop.onlooker.taken == (here & (age % 2 == 1)).sum() and here.all() == (":" not in environment)


def test_it_is_refused_where_it_cannot_be_asked():
    environment = make("CartPole-v1")
    agent = registry.build("agent", "ppo", small.PPO)
    learner = Learner(agent, Copies(), EnvironmentReward(), small.KeptRollout(), spec_of(environment, "CartPole-v1"))
    with pytest.raises(ForageError, match="Copies intervenes on the host, and this loop runs on the device"):
        DeviceLoop(learner, environment, Same(), Reset()).check()
    with pytest.raises(ForageError, match=r"learns from the whole returns .* has no use there"):
        resolve("open-es", "BitFlip-10", seeds=1, behaviour=Copies()).runner()
    starts = registry.build("starts", "prioritised-levels", {})
    setup = resolve("ppo", "CartPole-v1", seeds=1, agent_options=small.PPO, behaviour=Copies(), starts=starts)
    with pytest.raises(ForageError, match=r"CartPole-v1 runs on the host with Copies.* that does not intervene\."):
        setup.runner()


class Answers(AgentPolicy):
    """Gives its `answer`."""

    on_host: ClassVar[bool] = True
    answer: Any = equinox.field(static=True, default=None)

    def intervene(self, state, scene):
        return Intervention(*self.answer(scene))


def ask_case(spec: Spec, answer: Any, source: Any = (AGENT, AGENT)) -> Any:
    onlooker = InterventionRecorder(Answers(answer=answer), spec, 2, seed=7)
    onlooker.begin()
    action = np.zeros((2, *np.shape(spec.action_space.sample())), spec.action_space.dtype)
    own = action.astype(np.int32) if action.dtype.kind == "i" else action
    seen = np.zeros((2, 2), np.float32)
    return onlooker.ask(
        seen, own, own, np.int32(source), np.ones(2, bool), CLOCK, policy_info={"log": np.zeros(2, np.float32)}
    )


BOTH = np.ones(2, bool)


@pytest.mark.parametrize(
    ("spec", "answer", "words"),
    [
        (
            FOUR,
            lambda s: (np.array([1, 4]), BOTH, ()),
            r"seed 7 with what is no action of Discrete\(4\): 4",
        ),
        (FOUR, lambda s: (np.array([-1, 0]), BOTH, ()), r"Discrete\(4\): -1"),
        (FOUR, lambda s: (np.array([1.5, 0]), BOTH, ()), r"float64 does not become int32"),
        (FOUR, lambda s: (np.zeros(3, int), BOTH, ()), r"shape \[3\] instead of \[2\]"),
        (PENDULUM, lambda s: (np.array([[np.nan], [0]]), BOTH, ()), r"Box\(1,\): NaN or infinity"),
        (FOUR, lambda s: (s.action, [1, 0], ()), r"taken of int64\[2\].*bool\[2\]"),
        (FOUR, lambda s: (s.action, BOTH, (), {"log": np.zeros(3)}), "other numbers for the agent"),
        (FOUR, lambda s: (s.action, BOTH, (), {"log": np.array([0, np.nan])}), "NaN or infinity for the agent"),
        (FOUR, lambda s: (s.action, BOTH, np.zeros(1)), "remembers another structure"),
        (FOUR, lambda s: (s.action, BOTH, np.array("a")), "remembers <U1 on the host"),
        (
            FOUR,
            lambda s: 1 / 0,
            r"failed at step 0 with seed 7: ZeroDivisionError.*test_intervene.py, line \d+",
        ),
        (FOUR, lambda s: s.observation.fill(1), "read-only"),
    ],
)
def test_what_it_may_not_answer(spec, answer, words):
    with pytest.raises(ForageError, match=words):
        ask_case(spec, answer)


def test_actions_come_into_the_bounds_and_only_those_who_act_are_replaced():
    executed, action, _, source = ask_case(
        PENDULUM, lambda s: (np.array([[5.0], [np.inf]]), np.array([True, False]), ())
    )
    np.testing.assert_array_equal(executed, [[2], [0]])
    np.testing.assert_array_equal(action, [[2], [0]])
    assert executed.dtype == np.float32 and source.tolist() == [PERSON, AGENT] and source.dtype == np.int32
    executed, _, _, source = ask_case(FOUR, lambda s: (np.array([3, 3]), BOTH, ()), source=(NOBODY, GONE))
    assert executed.tolist() == [0, 0] and source.tolist() == [NOBODY, GONE]


def test_it_may_say_who_acted_and_what_the_agent_learns_from():
    def answer(scene):
        return (
            scene.action + 1,
            np.array([True, False]),
            (),
            {"log": np.float64([-0.5, np.nan])},
            np.array([GONE, GONE]),
        )

    _, action, policy_info, source = ask_case(FOUR, answer)
    assert action.tolist() == [1, 0] and source.tolist() == [GONE, AGENT]
    assert policy_info["log"].tolist() == [-0.5, 0] and policy_info["log"].dtype == np.float32


def test_ctrl_c_while_it_is_asked_stops_the_run():
    def press(scene):
        raise KeyboardInterrupt

    with pytest.raises(RunInterrupted, match="Stopped by Ctrl-C while Answers was asked at step 0 with seed 7"):
        ask_case(FOUR, press)


def test_its_memory_is_kept_to_the_bit():
    onlooker = InterventionRecorder(Answers(answer=lambda s: (s.action, BOTH, ())), FOUR, 2, 7)
    onlooker.begin()
    onlooker.state, onlooker.taken = np.float64(1) / 3, 5
    saved = onlooker.dump()
    with pytest.raises(ForageError, match="remembers 0 arrays on the host, and remembered 1"):
        onlooker.restore(saved)
    second = InterventionRecorder(Second(), FOUR, 2, 7)
    second.begin()
    second.state, second.taken = np.array([2**40, 1]), 5
    again = InterventionRecorder(Second(), FOUR, 2, 7)
    again.restore(second.dump())
    assert again.taken == 5 and again.state.tolist() == [2**40, 1] and again.state.dtype == np.int64


def test_scenes_say_when_episodes_begin():
    loop = host_loop("dqn", Second())
    loop.begin()
    loop.advance(3)
    assert loop.onlooker.state.dtype == np.int64 and (loop.onlooker.state == loop.episode_length).any()
