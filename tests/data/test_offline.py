"""Data sets and runs that learn from them: a file's contents, refusals, stop and resume, the page's commands."""

import dataclasses
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from tiers import gate_cases

from forage.agents.offline.iql import IQL, expectile_error
from forage.config import part_options, registry
from forage.config.resolve import from_config, resolve
from forage.core.types import DATASET, Batch, Clock, Experience, ForageError
from forage.data import files
from forage.data.demonstrations import Demonstrations
from forage.data.logged import Transitions
from forage.memory.dataset import DataSet
from forage.runs import training

small.keep_compiled()
SMALL = {"hidden_sizes": (8,), "batch_size": 4}
KEY = jax.random.key(0)


def example(environment, count=60, length=20):
    """Random numbers with the shapes of an environment's transitions."""
    random = np.random.default_rng(0)
    spec = resolve("ppo", environment, seeds=1).spec
    seen = random.normal(size=(count + 1, *spec.observation_space.shape)).astype(np.float32)
    box = spec.action_space.shape
    action = random.uniform(-2, 2, (count, *box)).astype(np.float32) if box else random.integers(0, 2, count)
    last = np.arange(count) % length == length - 1
    return Transitions(seen[:-1], action, random.normal(size=count), seen[1:], np.zeros(count, bool), last)


def write_file(path, environment, **changes):
    setup = resolve("ppo", environment, seeds=1)
    files.write_data(path, example(environment, **changes), {"spec": setup.config()["spec"]})
    return str(path)


def test_a_file_holds_what_was_written_and_numpy_reads_it(tmp_path):
    path = Path(write_file(tmp_path / "a.npz", "CartPole-v1"))
    found, header = files.read_data(path)
    wrote = example("CartPole-v1")
    for name in ("observation", "action", "reward", "terminated", "truncated", "episode"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wrote, name))
    with np.load(path, allow_pickle=False) as archive:
        assert json.loads(str(archive["header"])) == header
        assert archive["observation"].shape == (60, 4) and archive["episode"].max() == 2


def test_batches_are_rows_of_the_file(tmp_path):
    spec = resolve("ppo", "CartPole-v1", seeds=1).spec
    memory = DataSet(write_file(tmp_path / "a.npz", "CartPole-v1")).with_hashes().load(spec)
    moment = make_moment(IQL(), spec)
    batch = jax.jit(lambda: memory.sample((), 500, 3, moment))()
    rows, wrote = np.asarray(batch.index), example("CartPole-v1")
    for time in range(3):
        for name in ("observation", "action", "reward", "next_observation", "terminated", "truncated"):
            of_file = getattr(wrote, name)[rows + time]
            np.testing.assert_array_equal(getattr(batch.experience, name)[time], np.float32(of_file))
    assert (np.asarray(batch.experience.source) == DATASET).all()
    # The first row and the last are drawn as the others are: of 60 rows, a segment of 3 begins at 58.
    np.testing.assert_array_equal(np.unique(rows), np.arange(58))


def test_demonstrations_are_drawn_from_the_first_row_to_the_last():
    """Row i of twenty has reward i: rows are 0 to 19, and segments of 4 begin at 0 to 16."""
    paid = jnp.arange(20.0)
    data = Experience(paid, paid, paid, paid + 1, paid < 0, paid < 0, paid < 0, ())
    part = dataclasses.replace(Demonstrations("twenty"), data=data)
    rows, segments = jax.device_get((part.draw(KEY, 400), part.segments(KEY, 400, 4)))
    np.testing.assert_array_equal(np.unique(rows.reward), np.arange(20))
    np.testing.assert_array_equal(rows.next_observation, rows.reward + 1)
    np.testing.assert_array_equal(np.unique(segments.reward[0]), np.arange(17))
    np.testing.assert_array_equal(segments.reward, segments.reward[0] + np.arange(4)[:, None])


def make_moment(agent, spec):
    from forage.core.ports import ActContext

    return ActContext(agent, (), spec, Clock(np.int32(0), np.float32(1)), jax.random.key(0))


CASES = [(agent, environment) for agent in ("bc", "iql") for environment in ("CartPole-v1", "Pendulum-v1")]
CASES += [("td3", "Pendulum-v1"), ("dqn", "CartPole-v1")]
CASES += [(agent, "Pendulum-v1") for agent in ("td3-bc", "rebrac", "cql", "cal-ql")]
CASES += [(agent, "CartPole-v1") for agent in ("discrete-cql", "discrete-bcq")]
CASES += [("decision-transformer", "Pendulum-v1"), ("decision-transformer", "CartPole-v1")]
SEQUENCES = {"context": 3, "width": 8, "layers": 1, "batch_size": 4}  # of those that read episodes, in place of SMALL
OPTIONS = {"decision-transformer": SEQUENCES}
"""Options in place of `SMALL`; tests of a package of parts add to them."""


@pytest.mark.parametrize(
    ("agent", "environment"),
    gate_cases(CASES, [("iql", "CartPole-v1")]),
)
def test_resumed_is_as_if_never_stopped(agent, environment, tmp_path):
    data = write_file(tmp_path / "a.npz", environment)
    options = OPTIONS.get(agent, SMALL)
    if "demonstrations" in (field.name for field in part_options.fields(registry.part_class("agent", agent))):
        options = options | {"demonstrations": data}
    setup = resolve(agent, environment, steps=40, seeds=[3, 7], data=data, agent_options=options)
    runner = setup.runner()
    runner.begin()
    runner.advance(7)
    runner.save(tmp_path / "half.npz", {"steps": runner.steps})
    report = runner.advance(7)
    assert (np.asarray(report.metrics["updates"]) == 7).all() and runner.steps == 14
    again = from_config(json.loads(json.dumps(setup.config()))).runner()
    again.load(tmp_path / "half.npz")
    again.advance(7)
    assert small.differing(runner.state, again.state) == []
    assert not jax.tree.leaves(runner.state.learner.memory)  # checkpoints have no copy of the data


def test_what_is_refused(tmp_path):
    data = write_file(tmp_path / "a.npz", "CartPole-v1")

    def check_refused(words, agent, environment, **options):
        with pytest.raises(ForageError, match=words):
            resolve(agent, environment, seeds=1, **options).runner()

    check_refused(
        "holds transitions of CartPole-v1, whose observations are Box.4,., and Pendulum",
        "iql",
        "Pendulum-v1",
        data=data,
    )
    check_refused("PPO learns only from the rollout", "ppo", "CartPole-v1", data=data)
    check_refused("BC learns from a data set alone", "bc", "CartPole-v1")
    check_refused("There is no data set .*none.npz", "bc", "CartPole-v1", data=tmp_path / "none.npz")
    check_refused("leave out --starts", "bc", "CartPole-v1", data=data, starts="levels")
    check_refused("RND learns from rollouts", "bc", "CartPole-v1", data=data, rewards="rnd")
    damaged = tmp_path / "damaged.npz"
    damaged.write_bytes(Path(data).read_bytes()[:-500])
    check_refused("damaged.npz is not a whole data set", "bc", "CartPole-v1", data=damaged)
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    check_refused("has no header of a data set", "bc", "CartPole-v1", data=tmp_path / "other.npz")


def test_several_rewards_are_refused(tmp_path):
    spec = resolve("ppo", "DeepSeaTreasure-v0", seeds=1).spec
    with pytest.raises(ForageError, match="has several rewards"):
        files.check_recordable(spec)
    with pytest.raises(ForageError, match="has several rewards"):
        DataSet("a.npz").check(IQL(), spec, None)


@pytest.mark.thorough
def test_a_run_resumes_with_its_own_file_alone(tmp_path):
    data = write_file(tmp_path / "a.npz", "CartPole-v1")
    options = {"data": data, "agent_options": SMALL, "seeds": [3], "evaluation_episodes": 2, "display": "quiet"}
    run = training.train("bc", "CartPole-v1", steps=20, directory=tmp_path / "run", **options)
    assert run.config["memory"]["file"] == data and len(run.config["memory"]["sha256"]) == 64
    assert [row["steps"] for row in run.evaluations] == list(range(0, 21, 2))
    Path(data).rename(tmp_path / "moved.npz")
    with pytest.raises(ForageError, match="There is no data set"):
        training.resume(run.directory, display="quiet")
    assert training.resume(run.directory, display="quiet", data=tmp_path / "moved.npz").score.seeds == 1
    write_file(tmp_path / "moved.npz", "CartPole-v1", count=40)  # where the run looks from then on
    with pytest.raises(ForageError, match="is not the data set that this run began with"):
        training.resume(run.directory, display="quiet")
    (tmp_path / "moved.npz").unlink()
    assert training.evaluate(run.directory, 2).seeds == 1  # which needs no data


def test_the_expectile_error_by_hand():
    found = expectile_error(np.array([2.0, -2.0]), 0.7)
    np.testing.assert_allclose(found, [0.7 * 4, 0.3 * 4], rtol=1e-6)


def test_iql_moves_as_its_equations_say(tmp_path):
    """Weights are clipped, and the critics' target is r + discount V(s') with the new V, 0 after termination."""
    spec = resolve("ppo", "Pendulum-v1", seeds=1).spec
    agent = IQL(**SMALL, discount=0.5)
    state = small.at_once(lambda: agent.init(jax.random.key(0), spec))
    memory = DataSet(write_file(tmp_path / "a.npz", "Pendulum-v1")).load(spec)
    batch: Batch = small.compute(lambda: memory.sample((), 4, 1, make_moment(agent, spec)))
    ended = batch.experience._replace(terminated=np.array([[True, False, False, False]]))
    learned, metrics, error = small.compute(
        lambda state: agent.learn(state, batch._replace(experience=ended), Clock(0, 10.0), jax.random.key(1)), state
    )
    now = jax.tree.map(lambda x: np.asarray(x)[0], ended)

    def find_values(value, critics):
        each = [jax.tree.map(lambda x, i=i: x[i], critics)(now.observation, now.action / 2.0) for i in range(2)]
        return value(now.next_observation), each

    following, values = small.compute(find_values, learned.value, state.critics)
    target = now.reward + 0.5 * ~now.terminated * following
    np.testing.assert_allclose(error, np.abs(np.stack(values) - target).mean(0), rtol=1e-4, atol=1e-5)
    assert metrics["clipped"] == 0
    for new, old, online in zip(
        *map(jax.tree.leaves, (learned.target_critics, state.target_critics, learned.critics)), strict=True
    ):
        np.testing.assert_allclose(new, 0.995 * np.asarray(old) + 0.005 * np.asarray(online), rtol=1e-4, atol=1e-6)
