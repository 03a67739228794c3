"""DAgger: acting, labels, learning from the labels, and refusals."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from tiers import first

from forage.agents.offline.bc import BC
from forage.config.resolve import from_config, resolve
from forage.core.ports import ActContext, HiddenState
from forage.core.types import AGENT, GUIDE, Batch, Clock, Experience, ForageError, Label
from forage_papers.behaviours.dagger import DAgger

SMALL = {"hidden_sizes": (8,), "batch_size": 4}


def lean(observation, key):
    """Push to the side that the pole leans to."""
    return (observation[2] > 0).astype(jnp.int32)


def make(steps=400, **more):
    return resolve("bc", "CartPole-v1", steps=steps, seeds=[3, 7], agent_options=SMALL | {"num_envs": 2}, **more)


@pytest.mark.parametrize(("at", "share"), first(1, [(0, 1.0), (50, 0.5), (100, 0.0), (400, 0.0)]))
def test_the_expert_acts_ever_less_and_labels_everything(at, share):
    setup = make(behaviour=DAgger(lean, fraction=0.25))
    learner = setup.learner()
    state = small.at_once(lambda: learner.agent.init(jax.random.key(0), setup.spec))

    @jax.jit
    @jax.vmap
    def decide(key):
        seen = jax.random.normal(key, (4,))
        moment = ActContext(learner.agent, state, setup.spec, Clock(jnp.int32(at), jnp.float32(400)), key)
        return seen, learner.behaviour.act((), HiddenState(()), seen, moment)

    seen, decision = jax.device_get(decide(jax.random.split(jax.random.key(1), 500)))
    np.testing.assert_array_equal(decision.policy_info.action, seen[:, 2] > 0)
    expert = decision.source == GUIDE
    assert abs(expert.mean() - share) < 0.08 and set(np.unique(decision.source)) <= {AGENT, GUIDE}
    np.testing.assert_array_equal(decision.action[expert], decision.policy_info.action[expert])
    if share < 1:
        assert (decision.action != decision.policy_info.action).any()


def test_the_learner_learns_the_label_and_not_what_was_done():
    spec = make(behaviour=DAgger(lean)).spec
    agent = BC(**SMALL)
    state = small.at_once(lambda: agent.init(jax.random.key(0), spec))
    seen, done, label = np.ones((1, 4, 4), np.float32), np.zeros((1, 4), np.int32), np.ones((1, 4), np.int32)
    nothing = np.zeros((1, 4), bool)
    experience = Experience(seen, done, np.zeros((1, 4)), seen, nothing, nothing, done, Label(label))
    batch = Batch(experience, np.ones(4), np.arange(4))
    clock = Clock(0, 10.0)
    learned, metrics, surprise = small.compute(lambda s: agent.learn(s, batch, clock, jax.random.key(1)), state)
    before, after = (np.asarray(agent.probabilities(s, seen[0, 0], True)) for s in (state, learned))
    np.testing.assert_allclose(surprise, -np.log(before[1]), rtol=1e-4)
    np.testing.assert_allclose(metrics["policy_loss"], -np.log(before[1]), rtol=1e-4)
    assert after[1] > before[1]


@pytest.mark.thorough
@pytest.mark.parametrize("environment", ["CartPole-v1", "gymnasium:CartPole-v1"])
def test_resumed_is_as_if_never_stopped(environment, tmp_path):
    small.train(tmp_path / "expert", "ppo")
    given = {"behaviour": DAgger(str(tmp_path / "expert")), "agent_options": SMALL | {"num_envs": 2}}
    setup = resolve("bc", environment, steps=80, seeds=[3, 7], **given)
    runner = setup.runner()
    runner.begin()
    runner.advance(7)
    runner.save(tmp_path / "half.npz", {"steps": runner.steps})
    assert (np.asarray(runner.advance(7).metrics["updates"]) > 0).all()
    again = from_config(json.loads(json.dumps(setup.config()))).runner()
    again.load(tmp_path / "half.npz")
    again.advance(7)
    assert small.differing(runner.state, again.state) == []


@pytest.mark.thorough
def test_a_run_on_the_command_line_and_its_evaluation_without_the_expert(tmp_path, capsys):
    small.train(tmp_path / "expert", "ppo")
    words = ("--behaviour", "dagger", "--behaviour.expert", tmp_path / "expert", "--steps", "64", "--seeds", "2")
    words += ("--hidden-sizes", "8", "--directory", tmp_path / "run")
    assert small.run_command(capsys, "train", "bc", "CartPole-v1", *words)[0] == 0
    (tmp_path / "expert").rename(tmp_path / "gone")
    assert small.run_command(capsys, "evaluate", tmp_path / "run", "--episodes", "2")[0] == 0


@pytest.mark.thorough
def test_what_is_refused(tmp_path):
    small.train(tmp_path / "expert", "ppo")

    def check_refused(words, agent="bc", environment="CartPole-v1", expert=str(tmp_path / "expert"), **options):
        with pytest.raises(ForageError, match=words):
            resolve(agent, environment, seeds=1, steps=4000, behaviour=DAgger(expert), **options).runner()

    check_refused("PPO learns from rewards; use bc", agent="ppo")
    check_refused("holds no trained agent", expert=str(tmp_path / "none"))
    check_refused("plays CartPole-v1, which shows or takes other things", environment="Pendulum-v1")
    check_refused("An expert is a run's directory", expert=3)
    check_refused("The expert's actions are not", expert=lambda observation, key: observation)
    setup = resolve("bc", "CartPole-v1", seeds=1, steps=100, behaviour=DAgger(str(tmp_path / "expert")))
    agent = tmp_path / "expert" / "agent.npz"
    agent.write_bytes(agent.read_bytes() + b" ")
    with pytest.raises(ForageError, match="has changed since this run began"):
        setup.learner()
