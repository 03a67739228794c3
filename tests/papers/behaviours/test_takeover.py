"""A person who takes over: the scripted one, a user's own, a run's record of them, and refusals."""

import json
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
import small

import forage
from forage.agents.policy_gradient.ppo import PPO
from forage.behaviours.epsilon_greedy import EpsilonGreedy
from forage.behaviours.policy import AgentPolicy
from forage.config.resolve import resolve
from forage.core.ports import InterventionContext
from forage.core.types import Clock, ForageError
from forage.runs import training
from forage_papers.behaviours.takeover import SCRIPTS, Person, ScriptedPerson, Takeover

small.keep_compiled()
DQN = small.REPLAY | {"hidden_sizes": (8,)}
OWN = '''
import numpy as np
from forage_papers.behaviours.takeover import Person


class Tired(Person):
    """Pushes right in every third step that it sees; remembers how many those were, and a fraction."""

    def begin(self, spec):
        return {"seen": np.int64(0), "sum": 0.0}

    def act(self, memory, scene):
        seen = memory["seen"] + 1
        MORE
        return (1 if seen % 3 == 0 else None), {"seen": seen, "sum": memory["sum"] + 1 / 3}
'''


def scene(observation, begins=False):
    spec = resolve("dqn", "CartPole-v1", seeds=1).spec
    return InterventionContext(
        np.float32(observation), np.int32(0), np.bool_(begins), spec, Clock(np.int32(0), np.float32(1)), 0
    )


def test_the_scripted_person_takes_over_in_danger_and_gives_back_afterwards():
    person = ScriptedPerson(takes=0.5, gives=0.2)
    assert SCRIPTS["CartPole"].danger(np.array([0, 0, 0.1, 0.02])) == pytest.approx((0.1 + 0.2 * 0.02) / 0.2095)
    assert SCRIPTS["CartPole"].danger(np.array([-1.2, -0.4, 0, 0])) == pytest.approx(1.4 / 2.4)
    # An angle of 0.1 is a danger of 0.48, 0.11 of 0.53, 0.05 of 0.24 and 0.04 of 0.19.
    memory, took = np.bool_(False), []
    for angle in (0.1, 0.11, 0.1, 0.05, 0.04, 0.05, 0.1):
        action, memory = person.act(memory, scene([0, 0, angle, 0]))
        took.append(action)
    assert took == [None, 1, 1, 1, None, None, None]
    assert person.act(np.bool_(True), scene([0, 0, -0.1, 0], begins=True))[0] is None  # a new episode, a new look
    assert person.act(np.bool_(False), scene([0, 0, -0.11, 0]))[0] == 0


@pytest.mark.parametrize(
    ("name", "least"), [("CartPole-v1", 475), ("MountainCar-v0", -130), ("MountainCarContinuous-v0", 88)]
)
def test_the_scripted_person_solves_what_it_knows_beside_an_agent_at_random(name, least):
    environment, script = gymnasium.make(name), SCRIPTS[name.partition("-")[0]]
    if "MountainCar" in name:
        assert script.danger(np.array([-np.pi / 6, 0])) == pytest.approx(1)  # at rest at the bottom
    returns = []
    for seed in range(5):
        observation, _ = environment.reset(seed=seed)
        environment.action_space.seed(seed)
        total, acts, over = 0.0, False, False
        while not over:
            acts = script.danger(observation) > (0.2 if acts else 0.5)
            action = script.action(observation) if acts else environment.action_space.sample()
            observation, reward, terminated, truncated, _ = environment.step(action)
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    assert min(returns) > least


@pytest.mark.thorough
def test_a_run_counts_what_was_taken_over_and_only_while_somebody_looks_on(tmp_path):
    behaviour = Takeover(takes=0.0, gives=0.0, fraction=0.5)
    run = training.train(
        "dqn",
        "gymnasium:CartPole-v1",
        steps=160,
        seeds=[3],
        agent_options=DQN,
        behaviour=behaviour,
        directory=tmp_path / "run",
        evaluation_episodes=2,
        display="quiet",
    )
    counts = {row["steps"]: row["taken_over"][0] for row in run.rows}
    assert counts[40] == 40 and counts[80] == counts[160] == 80
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["behaviour"]["inner"]["part"] == "epsilon-greedy"


@pytest.mark.thorough
def test_native_environments_are_stepped_on_the_host():
    setup = resolve("dqn", "CartPole-v1", seeds=1, agent_options=DQN, behaviour=Takeover())
    assert not setup.native and setup.spec.name == "CartPole-v1" and isinstance(setup.behaviour.inner, EpsilonGreedy)
    runner = setup.runner()
    runner.begin()
    assert np.isfinite(runner.advance(8).latest["taken_over"]).all()


@pytest.mark.thorough
def test_a_person_of_ones_own_goes_on_from_anywhere(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tired.py").write_text(OWN.replace("MORE", ""))
    words = ["train", "dqn", "gymnasium:CartPole-v1", "--behaviour", "takeover", "--behaviour.person", "tired.py:Tired"]
    words += ["--seeds", "1", *small.words(DQN), "--evaluation-episodes", "2", "--quiet"]
    code, _, said = small.run_command(capsys, *words, "--steps", "96", "--directory", "whole")
    assert code == 0, said
    row = forage.Run("whole").rows[-1]
    assert row["taken_over"] == [32.0]  # each of two environments in 16 of 48 steps
    config = json.loads((tmp_path / "whole" / "config.json").read_text())
    assert config["behaviour"]["person"] == str(tmp_path / "tired.py:Tired")
    monkeypatch.chdir("/")
    assert forage.evaluate(tmp_path / "whole", episodes=1) is not None


def test_what_a_person_raises_loses_nothing_that_was_learned(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "clumsy.py"
    file.write_text(OWN.replace("MORE", "if seen == 31: scene.observation.missing"))
    words = [
        "train",
        "dqn",
        "gymnasium:CartPole-v1",
        "--behaviour",
        "takeover",
        "--behaviour.person",
        "clumsy.py:Tired",
    ]
    words += ["--seeds", "1", *small.words(DQN), "--evaluation-episodes", "2", "--quiet"]
    code, _, said = small.run_command(capsys, *words, "--steps", "96", "--directory", "run")
    assert code == 2 and "Takeover failed at step 60 with seed 0: AttributeError" in said
    assert "(clumsy.py, line 14)" in said and "The run is kept as of step 56" in said
    file.write_text(OWN.replace("MORE", ""))
    for name in [name for name in small.sys.modules if "clumsy" in name]:
        del small.sys.modules[name]
    from forage_papers.behaviours import takeover

    takeover.load_person.cache_clear()
    code, _, said = small.run_command(capsys, "resume", tmp_path / "run", "--quiet", "--anyway")
    assert code == 0, said
    row = forage.Run(tmp_path / "run").rows[-1]
    assert row["steps"] == 96 and row["taken_over"][0] >= 30


@pytest.mark.parametrize(
    ("environment", "options", "words"),
    [
        ("Pendulum-v1", {}, r"knows CartPole, MountainCar, MountainCarContinuous, and not Pendulum-v1; write one"),
        ("CartPole-masked", {}, "and not CartPole-masked"),
        ("CartPole-v1", {"person": "nobody"}, "A person is scripted or a class of one's own"),
        ("CartPole-v1", {"person": "forage.behaviours.policy:AgentPolicy"}, "is no person; a subclass of"),
        ("CartPole-v1", {"takes": 0.1, "gives": 0.2}, "gives of Takeover is at most takes"),
        ("CartPole-v1", {"fraction": 2.0}, "fraction of takeover is from 0 to 1, not 2"),
        ("CartPole-v1", {"inner": Takeover()}, "around a behaviour that does not intervene itself"),
    ],
)
def test_what_is_refused(environment, options, words):
    with pytest.raises(ForageError, match=words):
        resolve("ppo", environment, seeds=1, agent_options=small.PPO, behaviour=Takeover(**options)).runner()


def test_what_its_inner_behaviour_says_of_itself_holds():
    class Inner(AgentPolicy):
        opposes: ClassVar[bool] = True
        labels: ClassVar[bool] = True

        def completes(self, agent):
            return {"correction": "sequence"}

    around, plain = Takeover(inner=Inner()), Takeover()
    assert around.opposes and around.labels and around.completes(PPO()) == {"correction": "sequence"}
    assert not plain.opposes and not plain.labels and not plain.completes(PPO())


def test_a_person_that_is_an_object_must_be_given_again():
    class Nobody(Person):
        def act(self, memory, scene):
            return (np.zeros(3) if scene.begins else None), memory

    setup = resolve("dqn", "CartPole-v1", seeds=1, agent_options=DQN, behaviour=Takeover(person=Nobody()))
    assert "Nobody" in setup.config()["behaviour"]["person"]["object"]
    runner = setup.runner()
    runner.begin()
    with pytest.raises(ForageError, match=r"Nobody answered with an action of shape \(3,\).*Discrete\(2\)"):
        runner.advance(1)
