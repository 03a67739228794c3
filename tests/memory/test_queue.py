"""A queue of rollouts: the acting and the learning policy, against a simulation without a queue."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from small import differing
from tiers import gate_cases

from forage.config.resolve import resolve
from forage.core.types import Batch, Clock, Experience, ForageError
from forage.memory.queue import Queue

small.keep_compiled()
SMALL = {"num_envs": 2, "rollout_length": 8, "hidden_sizes": (8,), "learning_rate": 1e-2}
EACH = 16


def setup_of(agent="impala", environment="CartPole-v1", memory=None, steps=320, **options):
    options = (SMALL if agent == "impala" else small.PPO) | options
    return resolve(agent, environment, steps=steps, seeds=[3, 7], agent_options=options, memory=memory)


def clock_at(rollouts, total=320.0):
    return Clock(jnp.int32(EACH * rollouts), jnp.float32(total))


@pytest.mark.thorough
@pytest.mark.parametrize("lag", gate_cases([0, 1, 4], [1]))
def test_the_batch_is_as_old_as_it_says(lag):
    loop = setup_of(memory=Queue(lag=lag)).loop()
    agent = loop.agent
    state = jax.jit(loop.init)(jax.random.key(5))
    iterate, collect, learn = jax.jit(loop.iterate), jax.jit(loop.next_rollout), jax.jit(agent.learn)
    read = jax.jit(lambda network, rollout: agent.apply_to_rollout(network, None, rollout).log_ratio)
    simulated, rollouts = state.learner.agent, []
    for now in range(9):
        acting = state.learner.agent
        rollouts.append(collect(state, clock_at(now)))
        # What is kept with the rollout is of the policy that acted, and of no other.
        assert (np.asarray(rollouts[-1].version) == max(now - lag, 0)).all()
        np.testing.assert_allclose(read(acting.network, rollouts[-1]), 0, atol=1e-5)
        if now > lag + 1:
            assert np.abs(read(acting.network, rollouts[now - lag - 1])).max() > 1e-4
        state, tally = iterate(state, clock_at(now))

        # The same run without a queue: rollout `now - lag` is learned from, once there is one.
        if now >= lag:
            batch = Batch(rollouts[now - lag], jnp.ones(2), jnp.arange(2))
            simulated, _, _ = learn(simulated, batch, clock_at(now + 1), jax.random.key(0))
            assert tally.metrics["lag"] == min(lag, now - lag)
        assert tally.metrics["updates"] == (now >= lag)
        for ours, theirs in zip(*map(jax.tree.leaves, (state.learner.agent, simulated)), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.thorough
def test_on_the_host_the_lag_is_the_same():
    runner = setup_of(environment="gymnasium:CartPole-v1", memory=Queue(lag=3)).runner()
    runner.begin()
    for now in range(9):
        report = runner.advance(1)
        assert (np.asarray(report.metrics["updates"]) == (now >= 3)).all()
        for loop in runner.loops:
            assert loop.state.agent.updates == max(now - 2, 0)
            waiting = loop.state.memory.waiting
            newest = [n for n in range(now - 2, now + 1) if n >= 0]
            for n in newest:
                assert (np.asarray(waiting.version[n % 3]) == max(n - 3, 0)).all()
        if now >= 3:
            assert (np.asarray(report.metrics["lag"]) == min(3, now - 3)).all()
    runner.close()


@pytest.mark.parametrize(
    ("agent", "environment"),
    gate_cases(
        [
            ("impala", "CartPole-v1"),
            ("ppo", "CartPole-v1"),
            ("impala", "small:Pair"),
            ("impala", "gymnasium:CartPole-v1"),
        ],
        [("impala", "CartPole-v1")],
    ),
)
def test_without_a_lag_it_is_the_last_rollout(agent, environment):
    states = []
    for memory in (None, Queue(lag=0)):
        runner = setup_of(agent, environment, memory).runner()
        runner.begin()
        runner.advance(6)
        states.append(runner.state)
    assert differing(*states) == []


@pytest.mark.thorough
def test_many_agents_have_the_version_of_their_policy():
    loop = setup_of(environment="small:Pair", memory=Queue(lag=2)).loop()
    state = jax.jit(loop.init)(jax.random.key(5))
    iterate = jax.jit(loop.iterate)
    for now in range(6):
        rollout = jax.jit(loop.next_rollout)(state, clock_at(now))
        assert rollout.version.shape == (8, 2, 2) and (np.asarray(rollout.version) == max(now - 2, 0)).all()
        state, tally = iterate(state, clock_at(now))
        assert tally.metrics["updates"] == (now >= 2)
        assert state.learner.agent.updates == max(now - 1, 0)
        assert now < 2 or tally.metrics["lag"] == min(2, now - 2)


def test_lost_episodes_end_with_the_newest_rollout():
    """Three places of one environment and two steps each, rewards tell the rollouts apart."""
    memory, shape = Queue(lag=3), (2, 1)
    no, number = np.zeros(shape, bool), np.zeros(shape, np.float32)
    example = jax.tree.map(lambda x: x[0, 0], Experience(number, number, number, number, no, no, number, ()))
    state = memory.init(example, 1, 2, None, None)  # type: ignore[arg-type]
    for i in range(5):
        rollout = Experience(number, number, number + i, number, no, no, number, ())
        state = memory.add(state, rollout, Clock(jnp.int32(2 * i), jnp.float32(20)))
        assert i < 3 or (np.asarray(state.due.reward) == i - 3).all()
        state = memory.after_updates(state)
    cut = memory.truncate(state, Clock(jnp.int32(10), jnp.float32(20))).waiting
    truncated = {int(r[0, 0]): t[:, 0].tolist() for r, t in zip(cut.reward, np.asarray(cut.truncated), strict=True)}
    assert truncated == {4: [False, True], 3: [False, False], 2: [False, False]}


def test_who_may_wait():
    with pytest.raises(ForageError, match=r"PPO takes every rollout.*of 1 rollouts ago.*--memory rollout.*impala"):
        setup_of("ppo", memory=Queue(lag=1)).loop()
    with pytest.raises(ForageError, match="DQN learns from batches that are drawn from a replay memory"):
        resolve("dqn", "CartPole-v1", memory=Queue(lag=0)).loop()
    with pytest.raises(ForageError, match=r"queue holds back 4 rollouts of 16 steps each.*of 64 steps is over before"):
        setup_of(memory=Queue(lag=4), steps=64).loop()
    setup_of(memory=Queue(lag=4), steps=65).loop()
    with pytest.raises(ForageError, match="lag of queue is 0 or more, not -1"):
        setup_of(memory=Queue(lag=-1))
