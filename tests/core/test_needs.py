"""Needs that parts declare are compared with the environment, the agent and the tasks."""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest
from gymnasium import spaces

from forage.agents.policy_gradient.ppo import PPO
from forage.agents.q_learning.dqn import DQN
from forage.behaviours.epsilon_greedy import EpsilonGreedy
from forage.config import registry
from forage.config.part_options import needs_words
from forage.core.ports import Behaviour
from forage.core.ports.checking import check_needs, needs_of
from forage.core.ports.needs import Choices, Needs, Unused
from forage.core.ports.part import declarations
from forage.core.ranges import check_minibatches, check_order, check_segments
from forage.core.spaces import MASK, OneHot
from forage.core.types import ForageError, Spec
from forage.environments.classic.cartpole import CartPole
from forage.tasks.contexts import Contexts
from forage.tasks.same import Same

VECTOR, TWO = spaces.Box(-1, 1, (4,)), spaces.Discrete(2)
LINE = spaces.Box(-1, 1, (1,))
HERE = Spec("Here", VECTOR, TWO, horizon=50)
TASKS = Contexts(("length=0.5:1",))


class Plain(Behaviour):
    """A behaviour with the needs of a test."""

    wants: Needs = dataclasses.field(default=Needs(), metadata={"static": True})

    @property
    def needs(self) -> Needs:
        return self.wants

    def act(self, state, hidden, observation, moment):
        raise NotImplementedError


def spec(**changed) -> Spec:
    return dataclasses.replace(HERE, **changed)


SPACES = [
    (
        {"actions": "numbered"},
        {"action_space": LINE},
        r"needs a Discrete action space, and Here has Box\(1,\); use the",
    ),
    ({"actions": "numbered"}, {"action_space": spaces.Discrete(2, start=1)}, "count from 0 .* not in Discrete"),
    ({"actions": "choices"}, {"action_space": LINE}, "needs a Discrete or MultiDiscrete action space"),
    ({"actions": "continuous"}, {}, r"needs a continuous action space, and Here has Discrete\(2\)"),
    (
        {"actions": "bounded"},
        {"action_space": spaces.Box(-np.inf, 1, (2,))},
        "continuous, bounded action space, .*, whose entry 0 goes from -inf to 1",
    ),
    (
        {"actions": "numbered or bounded"},
        {"action_space": spaces.MultiDiscrete([2, 3])},
        "needs a Discrete action space",
    ),
    ({"actions": "any"}, {"action_space": spaces.MultiBinary(2)}, "not in MultiBinary"),
    ({"observations": "any"}, {"observation_space": spaces.Tuple([TWO])}, "Networks cannot read Tuple"),
    ({"observations": "array"}, {"observation_space": spaces.MultiBinary(3)}, "needs boxes, images or numbers"),
    ({"observations": "vector"}, {"observation_space": TWO}, r"needs vectors of numbers, and Here gives Discrete\(2\)"),
    ({"observations": "numbered"}, {}, "needs numbered states"),
    ({"observations": "text"}, {}, "needs text, and Here takes something else; use text:addition"),
    ({"agents": "one"}, {"num_agents": 3}, "needs one agent, and Here has 3; use an environment with one"),
    ({"agents": "team"}, {}, "needs a team of agents, and Here has one agent"),
    ({"one_reward": True}, {"reward_names": ("time", "treasure")}, r"gives several rewards \(time, treasure\)"),
    ({"horizon": True}, {"horizon": None}, "have no limit; give it one with --wrap time-limit:200"),
    ({"single_turn": True}, {"horizon": 3}, "needs answers in one turn, and those of Here take 3"),
    ({"info": ("cost",), "instead": "take Cost-v1"}, {}, "does not return cost; take Cost-v1"),
    (
        {"unmasked": True},
        {"observation_space": spaces.Dict({"observation": VECTOR, MASK: spaces.MultiBinary(2)})},
        "forbids some by a mask",
    ),
]


@pytest.mark.parametrize(("needs", "changed", "says"), SPACES)
def test_an_environment_that_lacks_a_need_is_one_sentence(needs, changed, says):
    with pytest.raises(ForageError, match=says):
        check_needs(Plain(Needs(**needs)), spec(**changed))


def test_an_environment_that_has_all_is_accepted():
    needs = Needs(actions="numbered", observations="vector", agents="one", one_reward=True, horizon=True, unmasked=True)
    check_needs(Plain(needs), HERE)
    check_needs(Plain(Needs(actions="numbered or bounded", observations="numbered")), spec(observation_space=OneHot(3)))
    check_needs(Plain(Needs(actions="numbered or bounded")), spec(action_space=LINE))
    check_needs(Plain(Needs(agents="team")), spec(num_agents=2))
    check_needs(Plain(Needs(same_task=True, provides="length")), HERE, None, CartPole(), Same())


def test_what_the_agent_and_the_tasks_lack_is_one_sentence():
    for needs, agent, says in (
        (Needs(off_policy=True), PPO(), "PPO learns only from actions that it chose itself, and Plain chooses others"),
        (Needs(without_memory=True), DQN(gru_size=4), "an agent without memory, and DQN here remembers"),
        (Needs(normal_noise=True), DQN(), "DQN makes none from it in Here"),
        (Needs(writes=True), PPO(), "Plain is for text, and PPO in Here writes none; use it with grpo"),
        (Needs(groups=True), PPO(), "PPO compares none"),
        (
            Needs(ability="selected", reason="has no oracles", instead="ask one"),
            PPO(),
            "^PPO has no oracles; ask one.$",
        ),
    ):
        with pytest.raises(ForageError, match=says):
            check_needs(Plain(needs), HERE, agent)
    with pytest.raises(ForageError, match="Plain needs one task, and Contexts draws several; use --tasks same"):
        check_needs(Plain(Needs(same_task=True)), HERE, tasks=TASKS)
    with pytest.raises(ForageError, match=r"^Plain goes home, and Here does not provide them; take the bus.$"):
        check_needs(
            Plain(Needs(provides="home", reason="{} goes home", instead="take the bus")), HERE, None, CartPole()
        )


class Calendar(DQN):
    """An agent with needs of its own, in addition to those of DQN."""

    needs: ClassVar[Needs] = Needs(agents="team", whole_episodes=2)
    choices: ClassVar[Choices] = {"optimiser": ("adam", "sgd")}
    unused: ClassVar[Unused] = {
        "n_step double": ("Calendar counts days", "take dqn"),
        "batch_size": "Calendar takes all",
    }


def test_a_class_has_the_needs_of_its_bases_too():
    assert [needs.actions for needs in needs_of(Calendar())] == ["", "numbered", ""]
    with pytest.raises(ForageError, match="Calendar needs a Discrete action space"):
        check_needs(Calendar(), spec(action_space=LINE))
    with pytest.raises(ForageError, match="Calendar needs a team of agents, and Here has one agent"):
        check_needs(Calendar(), HERE)
    with pytest.raises(ForageError, match="give it a rollout_length of 100 or more, not 99"):
        check_needs(Calendar(rollout_length=99), spec(num_agents=2))
    check_needs(Calendar(rollout_length=100), spec(num_agents=2))


def test_options_without_effect_and_unknown_words_are_refused_at_once():
    with pytest.raises(ForageError, match=r"^Calendar counts days; leave n_step out, or take dqn.$"):
        Calendar(n_step=3)
    with pytest.raises(ForageError, match=r"^Calendar counts days; leave n_step and double out, or take dqn.$"):
        Calendar(n_step=3, double=not DQN().double)
    with pytest.raises(ForageError, match=r"^Calendar takes all; leave batch_size out.$"):
        Calendar(batch_size=3)
    for value in ("rms", ["adam"], 3):
        with pytest.raises(ForageError, match=r"^optimiser of Calendar is one of adam, sgd, not "):
            Calendar(optimiser=value)
    assert Calendar(optimiser="sgd").optimiser == "sgd"


def test_relations_of_two_numbers():
    part = Plain()
    for low, high, equal, fine in ((1, 2, False, True), (2, 2, False, False), (2, 2, True, True), (3, 2, True, False)):
        object.__setattr__(part, "low", low)
        object.__setattr__(part, "high", high)
        if fine:
            check_order(part, "low", "high", equal)
            continue
        with pytest.raises(ForageError, match=f"low of Plain is (at most|below) high, and {low} is not"):
            check_order(part, "low", "high", equal)
    check_minibatches(PPO(minibatches=4), 8, "transitions")
    with pytest.raises(ForageError, match="PPO cannot cut 9 transitions into 4 equal minibatches"):
        check_minibatches(PPO(minibatches=4), 9, "transitions")
    check_segments(DQN(n_step=3, num_envs=8, learning_starts=24))
    with pytest.raises(ForageError, match="can start to learn after 24 steps, not 20; raise learning_starts"):
        check_segments(DQN(n_step=3, num_envs=8, learning_starts=20))


def test_declarations_name_options_of_their_class():
    for port in registry.PORTS:
        for name in registry.parts(port):
            cls = registry.part_class(port, name)
            for table in ("choices", "unused"):
                for base, options, _ in declarations(cls, table):
                    for option in options.split():
                        assert option in base.__dataclass_fields__, (name, base.__name__, table, option)
                        default = base.__dataclass_fields__[option].default
                        assert table == "choices" or default is not dataclasses.MISSING, (name, option)


def test_needs_in_use():
    with pytest.raises(ForageError, match="EpsilonGreedy needs a Discrete or MultiDiscrete action space"):
        check_needs(EpsilonGreedy(), spec(action_space=LINE), DQN())


class SingleTask(Behaviour):
    """A behaviour of one agent, one reward and one task."""

    needs: ClassVar[Needs] = Needs(agents="one", one_reward=True, same_task=True)


def test_needs_are_said_in_words():
    assert needs_words(SingleTask) == ["one agent", "one reward", "one task"]
    assert needs_words(registry.part_class("agent", "sac")) == ["bounded or bounded mixed actions"]
    assert needs_words(registry.part_class("agent", "crossq")) == ["bounded actions"]
    assert needs_words(Calendar) == ["numbered actions", "a team of agents", "rollouts of whole episodes"]
    assert needs_words(PPO) == []


class Guess(Behaviour):
    """A behaviour whose declarations are wrong, each in a test."""

    def act(self, state, hidden, observation, moment):
        raise NotImplementedError


def test_a_wrong_declaration_is_one_sentence():
    with pytest.raises(ForageError, match=r"actions that Plain needs are one of any, numbered, .*, not 'discrete'"):
        check_needs(Plain(Needs(actions="discrete")), HERE)  # pyrefly: ignore[bad-argument-type]

    class Table(Guess):
        needs = {"actions": "numbered"}  # type: ignore[assignment]

    with pytest.raises(ForageError, match=r"needs of Table is a forage.core.ports.needs.Needs, .* not a dict"):
        check_needs(Table(), HERE)

    class Typo(Guess):
        unused: ClassVar[Unused] = {"lenght": "Typo is short"}

    with pytest.raises(ForageError, match="unused of Typo names lenght, which is no option of it"):
        Typo()

    class Bare(Guess):
        needs: ClassVar[Needs] = Needs(given="teacher")

    with pytest.raises(ForageError, match=r"Bare needs teacher; name it with --behaviour\.teacher VALUE"):
        check_needs(Bare(), HERE)
    with pytest.raises(ForageError, match="PPO has no oracle, which Plain needs; use an agent that has it"):
        check_needs(Plain(Needs(ability="oracle")), HERE, PPO())


def test_an_option_called_needs_is_no_declaration():
    class Own(Guess):
        needs: str = "a rest"  # type: ignore[assignment]

    check_needs(Own(), HERE)
    assert Own().needs == "a rest"
