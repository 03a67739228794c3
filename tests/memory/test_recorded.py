"""The recording around a memory: the run is the same, every transition is there, and a resumed run continues it."""

import jax
import numpy as np
import pytest
import small
from tiers import gate_cases

from forage.config.resolve import resolve
from forage.core.types import ForageError
from forage.data import files
from forage.data.logged import Transitions
from forage.memory.dataset import DataSet
from forage.memory.recorded import RecordedMemory
from forage.memory.uniform import UniformReplay
from forage.ops.ring import read_segments

small.keep_compiled()
CASES = [("ppo", None), ("dqn", UniformReplay(64))]


def runner_of(agent, memory, steps=128):
    name, environment, options = small.AGENTS[agent]
    setup = resolve(name, environment, steps=steps, seeds=[3, 7], agent_options=options, memory=memory)
    return setup.runner()


@pytest.mark.parametrize(("agent", "inner"), gate_cases(CASES, CASES[:1]))
def test_the_run_is_the_same_and_every_transition_is_there(agent, inner):
    plain, recorded = runner_of(agent, inner), runner_of(agent, RecordedMemory(inner, 1000))
    plain.begin()
    recorded.begin()
    lived = []
    for _ in range(6):
        lived.append(plain.next_rollout())
        plain.advance(1)
        recorded.advance(1)
    assert small.differing(plain.state.learner.agent, recorded.state.learner.agent) == []
    count = plain.learner.agent.num_envs
    lived = jax.tree.map(
        lambda *x: np.concatenate(x, 1),
        *[one._replace(behaviour_info=(), policy_info=(), rewards_info=()) for one in lived],
    )
    length = lived.reward.shape[1]
    for seed in range(2):
        ring = jax.tree.map(lambda x, seed=seed: x[seed], jax.device_get(recorded.state.learner.memory.ring))
        index = np.arange(length)[:, None] * count + np.arange(count)
        found = read_segments(ring, index.reshape(-1), 1)
        for name in ("observation", "action", "reward", "next_observation", "terminated", "truncated"):
            ours = np.asarray(getattr(found, name))[0]
            theirs = getattr(lived, name)[seed]
            # `next_rollout` is a program of its own, whose sums XLA may round otherwise.
            np.testing.assert_allclose(ours, theirs.reshape(-1, *theirs.shape[2:]), rtol=1e-5, atol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize(("agent", "inner"), CASES)
def test_resumed_is_as_if_never_stopped(agent, inner, tmp_path):
    runner, again = runner_of(agent, RecordedMemory(inner, 1000)), runner_of(agent, RecordedMemory(inner, 1000))
    runner.begin()
    runner.advance(3)
    runner.save(tmp_path / "half.npz", {"steps": runner.steps})
    runner.advance(3)
    again.load(tmp_path / "half.npz")
    again.advance(3)
    assert small.differing(runner.state, again.state) == []


def test_the_memory_within_is_the_agents_usual_and_is_checked(tmp_path):
    setup = resolve("ppo", "CartPole-v1", seeds=1, memory="recorded")
    assert type(setup.memory.inner).__name__ == "LastRollout" and setup.memory.on_policy
    assert type(resolve("dqn", "CartPole-v1", seeds=1, memory="recorded").memory.inner).__name__ == "UniformReplay"
    with pytest.raises(ForageError, match="PPO learns only from the rollout"):
        resolve("ppo", "CartPole-v1", seeds=1, memory=RecordedMemory(UniformReplay(64))).runner()
    spec = resolve("bc", "CartPole-v1", seeds=1).config()["spec"]
    seen, over = np.zeros((4, 4)), np.arange(4) == 3
    rows = Transitions(seen, np.zeros(4), np.ones(4), seen, over, np.zeros(4, bool))
    files.write_data(tmp_path / "few.npz", rows, {"spec": spec})
    with pytest.raises(ForageError, match="this one learns from a data set alone; leave the recording out"):
        resolve("bc", "CartPole-v1", seeds=1, memory=RecordedMemory(DataSet(str(tmp_path / "few.npz")))).runner()


def test_the_memory_within_has_no_more_places_than_a_run_fills():
    learner = resolve("dqn", "CartPole-v1", steps=2000, seeds=1, memory=RecordedMemory(UniformReplay(50_000))).learner()
    assert learner.memory.capacity == learner.memory.inner.capacity == 2000
