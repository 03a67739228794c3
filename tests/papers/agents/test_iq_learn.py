"""Inverse soft Q-learning: its objective by hand, both agents' updates, and refusals."""

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from tiers import first, gate_cases

from forage.config.resolve import resolve
from forage.core.types import Batch, Clock, ForageError
from forage.data import files
from forage.data.demonstrations import Demonstrations, experience_of, join_experience
from forage.data.logged import Transitions
from forage.nn.critics import each_value
from forage_papers.agents.actor_critic.iq_learn_sac import IQLearnSAC
from forage_papers.agents.q_learning.iq_learn import IQLearn
from forage_papers.ops.inverse_q import inverse_q

SMALL = {"hidden_sizes": (8,), "batch_size": 4}
CLOCK = Clock(jnp.int32(0), jnp.float32(100))


def transitions(environment, seed=0, count=40):
    random, spec = np.random.default_rng(seed), resolve("ppo", environment, seeds=1).spec
    seen = random.normal(size=(count + 1, *spec.observation_space.shape)).astype(np.float32)
    box = spec.action_space.shape
    action = random.uniform(-2, 2, (count, *box)).astype(np.float32) if box else random.integers(0, 2, count)
    last = np.arange(count) % 10 == 9
    even = np.arange(count) % 20 == 9
    return Transitions(seen[:-1], action, random.normal(size=count), seen[1:], last & even, last & ~even)


def write_file(path, environment):
    setup = resolve("ppo", environment, seeds=1)
    files.write_data(path, transitions(environment), {"spec": setup.config()["spec"]})
    return str(path)


def test_the_objective_by_hand():
    """Two demonstrations and two own rows; the last row does not count."""
    q = np.array([3.0, 1.0, 2.0, 9.0])
    value, after = np.array([3.5, 2.0, 2.5, 9.0]), np.array([1.0, 0.0, 1.0, 0.0])
    counts = np.array([1.0, 1.0, 1.0, 0.0])

    def find_results(objective, own):
        return small.compute(lambda *rows: inverse_q(*rows, 2, counts, objective, 0.5, own), q, value, after)

    # Rewards of demonstrations are 2 and 1; of the recorded action at the own state 2 - 1 = 1. V - V' is 2.5, 2, 1.5.
    np.testing.assert_allclose(find_results("value", True), -1.5 + 2.0 + (4 + 1 + 1) / 3 / 2, rtol=1e-6)
    np.testing.assert_allclose(find_results("value", False), -1.5 + 2.0 + (4 + 1) / 2 / 2, rtol=1e-6)
    np.testing.assert_allclose(find_results("value_expert", False), -1.5 + 2.25 + 2.5 / 2, rtol=1e-6)


def test_it_has_the_settings_of_the_authors_code_for_cartpole():
    assert (IQLearn().objective, IQLearn().regularise_own) == ("value_expert", False)  # run_offline.sh, with method.chi
    assert (IQLearnSAC().objective, IQLearnSAC().regularise_own) == ("value", True)  # run_mujoco.sh
    spec = resolve("ppo", "CartPole-v1", seeds=1).spec
    network = jax.eval_shape(lambda key: IQLearn().network(key, spec), jax.random.key(0))
    assert [x.shape for x in jax.tree.leaves(network) if x.ndim == 2] == [(4, 64), (64, 64), (64, 2)]


def open_one(environment):
    """An agent's spec, demonstrations that were read, and a batch of other transitions."""
    spec = resolve("ppo", environment, seeds=1).spec
    theirs, own = (experience_of(transitions(environment, seed), spec) for seed in (0, 1))
    batch = jax.tree.map(lambda x: x[None, 8:12], own)  # the second of them ends
    return spec, Demonstrations("a.npz", "", theirs), Batch(batch, jnp.ones(4), jnp.arange(4))


@pytest.mark.parametrize("use_target", first(1, [True, False]))
def test_values_move_as_the_equations_say(use_target):
    """One step of plain descent goes down the slope of the objective, worked out with NumPy's values."""
    spec, shown, batch = open_one("CartPole-v1")
    settings = {"temperature": 0.5, "objective": "value_expert", "regularise_own": False, "use_target": use_target}
    agent = IQLearn(demonstrations=shown, **SMALL, **settings, optimiser="sgd", learning_rate=0.1, activation="tanh")
    agent.check(spec)
    state = small.at_once(lambda: agent.init(jax.random.key(0), spec))
    state = state._replace(target=jax.tree.map(lambda x: 0.5 * x, state.target))
    key = jax.random.key(1)
    drawn = small.compute(lambda: shown.draw(jax.random.fold_in(key, 2), 4))

    def soft(q):
        return 0.5 * np.log(np.exp(q / 0.5).sum(-1))

    def objective(network):
        q, later = np.asarray(network.rows(drawn.observation)), (state.target if use_target else network)
        after = 0.99 * ~drawn.terminated * soft(np.asarray(later.rows(drawn.next_observation)))
        reward = q[np.arange(4), drawn.action] - after
        return -reward.mean() + (soft(q) - after).mean() + (reward**2).mean() / 2

    learned, metrics, error = small.compute(lambda s: agent.learn(s, batch, CLOCK, key), state)
    np.testing.assert_allclose(metrics["loss"], objective(state.network), rtol=1e-4)
    assert objective(learned.network) < objective(state.network)
    bias = state.network.advantage.layers[-1].bias
    for i in range(2):  # the slope in the last bias, by small differences

        def move_by(by, i=i):
            return equinox.tree_at(lambda n: n.advantage.layers[-1].bias, state.network, bias.at[i].add(by))

        slope = (objective(move_by(1e-2)) - objective(move_by(-1e-2))) / 2e-2
        np.testing.assert_allclose(
            learned.network.advantage.layers[-1].bias[i] - bias[i], -0.1 * slope, rtol=2e-2, atol=1e-4
        )
    assert error.shape == (4,) and int(learned.updates) == 1


def test_the_policy_is_the_softmax_of_values():
    spec, shown, _ = open_one("CartPole-v1")
    agent = IQLearn(demonstrations=shown, **SMALL, temperature=0.5)
    state = small.at_once(lambda: agent.init(jax.random.key(0), spec))
    seen = np.ones(4, np.float32)
    q = np.asarray(state.network(seen))
    found = small.compute(lambda: agent.probabilities(state, seen, True))
    np.testing.assert_allclose(found, np.exp(q / 0.5) / np.exp(q / 0.5).sum(), rtol=1e-4)
    assert small.compute(lambda: agent.probabilities(state, seen, False)).max() == 1


def test_critics_move_as_the_equations_say():
    """The loss of one update, from the same random numbers, worked out with NumPy; the temperature stays."""
    spec, shown, batch = open_one("Pendulum-v1")
    agent = IQLearnSAC(demonstrations=shown, **SMALL)
    agent.check(spec)
    state = small.at_once(lambda: agent.init(jax.random.key(0), spec))
    key = jax.random.key(1)

    def parts():
        rows = join_experience(
            shown.draw(jax.random.fold_in(key, 2), 4), jax.tree.map(lambda x: x[0], batch.experience)
        )
        _, here, there = jax.random.normal(key, (3, 8, 1))
        now = state.actor(rows.observation).from_noise(here)
        later = state.actor(rows.next_observation).from_noise(there)
        taken = each_value(state.critics, rows.observation, rows.action / 2.0)
        drawn = each_value(state.critics, rows.observation, now[0])
        return rows, taken, drawn, now[1], each_value(state.target_critics, rows.next_observation, later[0]), later[1]

    rows, taken, drawn, log_now, following, log_later = small.compute(parts)
    after = 0.99 * ~rows.terminated * (following.min(0) - 0.01 * log_later)
    value = drawn.min(0) - 0.01 * log_now
    losses = []
    for q in taken:
        losses.append(-(q - after)[:4].mean() + (value - after).mean() + ((q - after) ** 2).mean() / 2)
    learned, metrics, error = small.compute(lambda s: agent.learn(s, batch, CLOCK, key), state)
    np.testing.assert_allclose(metrics["critic_loss"], np.mean(losses), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(error, np.abs(taken - after).mean(0)[4:], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(metrics["temperature"], 0.01, rtol=1e-5)
    assert learned.log_temperature == state.log_temperature and int(learned.updates) == 1


CASES = [("iq-learn", "CartPole-v1"), ("iq-learn-sac", "Pendulum-v1"), ("iq-learn", "gymnasium:CartPole-v1")]


@pytest.mark.parametrize(("agent", "environment"), gate_cases(CASES, CASES[:1]))
@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped(agent, environment, tmp_path):
    data = write_file(tmp_path / "a.npz", environment.removeprefix("gymnasium:"))
    options = SMALL | {"demonstrations": data, "learning_starts": 8, "num_envs": 2}
    setup = resolve(agent, environment, steps=80, seeds=[3, 7], agent_options=options)
    again, runner, report = small.resume_run(setup, tmp_path, 7)
    assert (np.asarray(report.metrics["updates"]) > 0).all()
    assert small.differing(runner.state, again.state) == []
    assert not any(40 in x.shape for x in jax.tree.leaves(runner.agent_states()))  # no copy of the data


@pytest.mark.thorough
def test_a_file_alone_will_do(tmp_path, capsys):
    data = write_file(tmp_path / "a.npz", "CartPole-v1")
    words = ("--demonstrations", data, "--data", data, "--objective", "value_expert", "--regularise-own", "false")
    words += ("--steps", "64", "--seeds", "2", "--hidden-sizes", "8", "--directory", tmp_path / "run")
    code, out, _ = small.run_command(capsys, "train", "iq-learn", "CartPole-v1", *words)
    assert code == 0 and "64 updates" in out
    code, _, _ = small.run_command(capsys, "evaluate", tmp_path / "run", "--episodes", "2")
    assert code == 0


@pytest.mark.parametrize(
    ("agent", "environment", "options", "words"),
    [
        ("iq-learn", "CartPole-v1", {}, "name a file of them with --demonstrations"),
        ("iq-learn-sac", "Pendulum-v1", {}, "name a file of them with --demonstrations"),
        ("iq-learn", "CartPole-v1", {"demonstrations": "none.npz"}, "There is no data set"),
        ("iq-learn-sac", "CartPole-v1", {"demonstrations": "a.npz"}, "continuous"),
        ("iq-learn", "Pendulum-v1", {"demonstrations": "a.npz"}, "Discrete|discrete"),
        (
            "iq-learn",
            "CartPole-v1",
            {"demonstrations": "a.npz", "objective": "v1"},
            "objective of IQLearn is one of value",
        ),
        ("iq-learn", "CartPole-v1", {"demonstrations": "a.npz", "n_step": 3}, "leave n_step out"),
        ("iq-learn", "CartPole-v1", {"demonstrations": "a.npz", "strength": 0.0}, "above 0"),
        ("iq-learn-sac", "Pendulum-v1", {"demonstrations": "a.npz", "bins": 11}, "leave (bins|quantiles) out"),
        ("iq-learn-sac", "Pendulum-v1", {"demonstrations": "a.npz", "quantiles": 5}, "leave (bins|quantiles) out"),
        ("iq-learn-sac", "Pendulum-v1", {"demonstrations": "a.npz", "backup_entropy": False}, "backup_entropy out"),
        ("iq-learn", "CartPole-v1", {"demonstrations": "a.npz", "bins": 11}, "leave bins out"),
    ],
)
def test_what_is_refused(agent, environment, options, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_file(tmp_path / "a.npz", environment)
    with pytest.raises(ForageError, match=words):
        resolve(agent, environment, seeds=1, steps=2000, agent_options=options).runner()
