"""Mixed replay: the data's share of a batch, refusals, and stop and resume on both runners."""

from pathlib import Path

import jax
import numpy as np
import pytest
import small
from tiers import first

from forage.agents.actor_critic.sac import SAC
from forage.config.resolve import from_config, resolve
from forage.core.ports import ActContext
from forage.core.schedule import Schedule, at_fraction
from forage.core.types import DATASET, Clock, ForageError
from forage.data import files
from forage.data.logged import Transitions
from forage.memory.mixed import MixedReplay

small.keep_compiled()
SMALL = {"hidden_sizes": (8,), "batch_size": 4, "learning_starts": 16, "num_envs": 2, "rollout_length": 4, "critics": 3}


def write_file(path, environment="Pendulum-v1", count=30, first=0.0):
    """Write transitions with rewards that count from `first` on."""
    setup, random = resolve("ppo", environment, seeds=1), np.random.default_rng(0)
    seen = random.normal(size=(count + 1, *setup.spec.observation_space.shape)).astype(np.float32)
    box = setup.spec.action_space.shape
    action = random.uniform(-2, 2, (count, *box)).astype(np.float32) if box else random.integers(0, 2, count)
    last = np.arange(count) % 10 == 9
    rows = Transitions(seen[:-1], action, first + np.arange(count), seen[1:], np.zeros(count, bool), last)
    files.write_data(Path(path), rows, {"spec": setup.config()["spec"]})
    return str(path)


def draw(memory, spec, size, seeds):
    """Return batches of a memory with eight own transitions that are all zero except for their source."""
    agent = SAC(**SMALL)
    learner = resolve(agent, "Pendulum-v1", seeds=1, steps=100).learner(learns=False)
    state = jax.eval_shape(lambda: learner.init(jax.random.key(0)))
    example = jax.tree.map(lambda x: np.zeros(x.shape[2:], x.dtype), state.memory)
    ring = memory.init(example, 2, 4, spec, None)

    def sample(key):
        return memory.sample(ring, size, 1, ActContext(agent, (), spec, Clock(np.int32(8), np.float32(100)), key))

    return small.compute(jax.vmap(sample), jax.random.split(jax.random.key(0), seeds))


def test_a_share_of_each_batch_is_from_the_files(tmp_path):
    spec = resolve("ppo", "Pendulum-v1", seeds=1).spec
    data = write_file(tmp_path / "a.npz"), write_file(tmp_path / "b.npz", first=100.0)
    memory = MixedReplay(data, capacity=8).load(spec)
    batch = draw(memory, spec, 8, 200)
    from_data = batch.experience.source[:, 0] == DATASET
    assert (from_data == (np.arange(8) < 4)).all()
    assert (batch.index[from_data] == -1).all() and (batch.index[~from_data] >= 0).all()
    rewards = batch.experience.reward[:, 0]
    assert set(rewards[from_data]) == {*range(30), *range(100, 130)} and not rewards[~from_data].any()
    found = files.read_data(Path(data[0]))[0]
    ours = from_data & (rewards < 100)
    np.testing.assert_array_equal(
        batch.experience.observation[:, 0][ours], found.observation[rewards[ours].astype(int)]
    )


@pytest.mark.parametrize(("share", "least", "most"), first(1, [(0.0, 0, 0), (1.0, 5, 5), (0.3, 1, 2)]))
def test_other_shares_hold_in_the_mean(share, least, most, tmp_path):
    spec = resolve("ppo", "Pendulum-v1", seeds=1).spec
    batch = draw(MixedReplay(write_file(tmp_path / "a.npz"), share=share, capacity=8).load(spec), spec, 5, 400)
    number = (batch.experience.source[:, 0] == DATASET).sum(1)
    assert number.min() == least and number.max() == most
    assert abs(number.mean() - 5 * share) < 0.1  # four standard errors of a fair coin


def test_the_share_may_follow_a_schedule(tmp_path):
    memory = MixedReplay(write_file(tmp_path / "a.npz"), share=Schedule("linear:0.5,0"))
    assert [float(at_fraction(memory, done).share) for done in (0.0, 0.5, 1.0)] == [0.5, 0.25, 0.0]


@pytest.mark.parametrize("environment", ["Pendulum-v1", "gymnasium:Pendulum-v1"])
@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped(environment, tmp_path):
    memory = MixedReplay(write_file(tmp_path / "a.npz"), share=Schedule("linear:0.5,0"), capacity=64)
    setup = resolve("sac", environment, steps=400, seeds=[3, 7], memory=memory, agent_options=SMALL)
    again, runner, report = small.resume_run(setup, tmp_path, 5)
    assert (np.asarray(report.metrics["updates"]) > 0).all()
    assert small.differing(runner.state, again.state) == []
    with np.load(tmp_path / "half.npz") as saved:  # the replay's 32 rows of 2 are there, the data's 30 are not
        assert not any(30 in saved[name].shape for name in saved.files)


def test_the_run_knows_its_files_again(tmp_path):
    data = write_file(tmp_path / "a.npz")
    config = resolve("sac", "Pendulum-v1", seeds=1, steps=100, memory=MixedReplay(data), agent_options=SMALL).config()
    assert config["memory"]["data"] == [data] and len(config["memory"]["sha256"][0]) == 64
    Path(data).rename(tmp_path / "moved.npz")
    assert from_config(config).memory.data == (data,)  # evaluation reads no data
    with pytest.raises(ForageError, match="There is no data set"):
        from_config(config).runner()
    moved = from_config(config, data=tmp_path / "moved.npz")
    moved.runner()
    with pytest.raises(ForageError, match="learns from 1 data sets beside its own experience, and --data names 2"):
        from_config(config, data="a.npz,b.npz")
    write_file(tmp_path / "moved.npz", first=7.0)
    with pytest.raises(ForageError, match="is not the data set that this run began with"):
        moved.runner()


def test_what_is_refused(tmp_path):
    data = write_file(tmp_path / "a.npz")
    learned = {"agent_options": SMALL}

    def check_refused(words, agent, environment="Pendulum-v1", memory=data, **options):
        with pytest.raises(ForageError, match=words):
            resolve(
                agent, environment, seeds=1, steps=100, memory=MixedReplay(memory), **options
            ).runner().array_shapes()

    check_refused("PPO learns only from the rollout", "ppo")
    check_refused("BC learns from a data set alone", "bc")
    check_refused("There is no data set .*none.npz", "sac", memory=tmp_path / "none.npz", **learned)
    check_refused("holds transitions of Pendulum-v1, whose observations", "dqn", "CartPole-v1")
    options = {"gru_size": 4, "burn_in": 1, "unroll": 2, "learning_starts": 32, "num_envs": 2, "batch_size": 4}
    cartpole = write_file(tmp_path / "c.npz", "CartPole-v1")
    check_refused("The agent learns from what it notes", "dqn", "CartPole-v1", cartpole, agent_options=options)
    with pytest.raises(ForageError, match="share of mixed is from 0 to 1"):
        resolve("sac", "Pendulum-v1", seeds=1, memory=MixedReplay(data, share=1.5))
    with pytest.raises(ForageError, match="Mixed replay needs a data set"):
        MixedReplay(())
    with pytest.raises(ForageError, match="--memory mixed"):
        resolve("sac", "Pendulum-v1", seeds=1, memory=MixedReplay(data), data=data)
