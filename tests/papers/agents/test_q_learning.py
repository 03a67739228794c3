"""Q-learning: every update by hand, ties, masks, and the values it must come to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check
from gymnasium import spaces

from forage.config.resolve import resolve
from forage.core.ports import ActInputs
from forage.core.spaces import MASK
from forage.core.types import GONE, Batch, Clock, Experience, ForageError, Spec
from forage.environments import make, spec_of
from forage.memory.uniform import UniformReplay
from forage_papers.agents.tabular.q_learning import QLearning, QLearningState

CLOCK, KEY = Clock(jnp.int32(0), jnp.float32(10)), jax.random.key(0)
AGENT = QLearning(learning_rate=0.5, discount=0.8)


def batch(rows, weight=None):
    """Rows of (state, action, reward, next state, terminated, truncated, source), a segment of one step each."""
    state, action, reward, following, terminated, truncated, source = (
        np.array(x)[None] for x in zip(*rows, strict=True)
    )
    experience = Experience(
        state.astype(np.int32), action.astype(np.int32), reward.astype(np.float32), following.astype(np.int32),
        terminated.astype(bool), truncated.astype(bool), source.astype(np.int32), (),
    )  # fmt: skip
    return Batch(experience, np.ones(len(rows), np.float32) if weight is None else weight, np.zeros(len(rows), int))


def test_updates_follow_one_another_by_hand():
    rows = [
        (1, 0, 1.0, 2, 0, 0, 0),  # 0 + 0.5 (1 + 0.8 * 4 - 0) = 2.1
        (0, 1, 0.0, 1, 0, 0, 0),  # hears that at once: 0.5 (0.8 * 2.1) = 0.84
        (2, 0, 2.0, 0, 1, 0, 0),  # the end: 4 + 0.5 (2 - 4) = 3
        (2, 0, 2.0, 0, 0, 1, 0),  # cut: 3 + 0.5 (2 + 0.8 * 0.84 - 3) = 2.836
        (0, 0, 9.0, 0, 0, 0, GONE),  # nobody was there
        (1, 1, 1.0, 1, 0, 0, 0),  # weighs half: 0.25 (1 + 0.8 * 2.1) = 0.67
    ]
    before = QLearningState(jnp.zeros((3, 2)).at[2, 0].set(4.0))
    after, metrics, error = jax.jit(AGENT.learn)(
        before, batch(rows, np.array([1, 1, 1, 1, 1, 0.5], np.float32)), CLOCK, KEY
    )
    np.testing.assert_allclose(after.q, [[0, 0.84], [2.1, 0.67], [2.836, 0]], rtol=1e-6)
    np.testing.assert_allclose(error, [4.2, 1.68, 2, 0.328, 0, 2.68], rtol=1e-5)
    np.testing.assert_allclose(metrics["error"], np.mean(error), rtol=1e-6)


def test_equal_actions_are_drawn_alike_and_forbidden_ones_never():
    state = QLearningState(jnp.array([[1.0, 2.0, 2.0, 2.0]]))
    seen = {"observation": jnp.int32(0), MASK: jnp.array([True, True, False, True])}
    draw = jax.jit(jax.vmap(lambda key: AGENT.act(state, ActInputs((), seen, key, True))[0]))
    counts = np.bincount(draw(jax.random.split(KEY, 2000)), minlength=4)
    assert counts[0] == counts[2] == 0 and abs(counts[1] - 1000) < 120
    np.testing.assert_allclose(AGENT.probabilities(state, seen, True), [0, 0.5, 0, 0.5])


def test_what_is_forbidden_next_is_worth_nothing():
    rows = batch([(0, 0, 0.0, 1, 0, 0, 0)])
    shown = lambda numbers: {"observation": numbers, MASK: np.array([[[True, False]]])}  # noqa: E731
    old = rows.experience
    rows = rows._replace(
        experience=old._replace(observation=shown(old.observation), next_observation=shown(old.next_observation))
    )
    after, _, _ = AGENT.learn(QLearningState(jnp.array([[0.0, 0], [1, 5], [0, 0]])), rows, CLOCK, KEY)
    np.testing.assert_allclose(after.q[0], [0.5 * 0.8 * 1.0, 0], rtol=1e-6)


def test_a_batch_of_one_is_the_newest_step_where_the_memory_keeps_one():
    setup = resolve("q-learning", "tabular:Chain-5", steps=50, seeds=[0], memory=UniformReplay(capacity=1))
    runner = setup.runner()
    runner.begin()
    before = None
    for _ in range(12):
        runner.advance(1)
        q = np.asarray(runner.agent_states().q)[0]
        if before is not None:
            assert (q != before).sum() <= 1  # one pair a step, the one that was made
        before = q


def test_what_is_not_numbered_is_refused():
    with pytest.raises(ForageError, match=r"QLearning needs numbered states, .* CartPole-v1 gives Box"):
        check(QLearning(), spec_of(make("CartPole-v1"), "CartPole-v1"))
    with pytest.raises(ForageError, match="QLearning needs a Discrete action space, and x has MultiDiscrete"):
        check(QLearning(), Spec("x", spaces.Discrete(3), spaces.MultiDiscrete([2, 2])))
    with pytest.raises(ForageError, match="learning-rate of q-learning is 0 or more"):
        resolve("q-learning", "tabular:Chain-5", steps=10, agent_options={"learning_rate": -1.0})
