"""EZ-greedy: durations, repetition, stopping, and refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from behaviour_helpers import BOX, FOUR, PENDULUM, AlwaysAgent, OnPolicy, at, begin, decide
from check_helpers import check
from gymnasium import spaces

from forage.config.ranges import check_ranges
from forage.core.ports import ActContext
from forage.core.types import ForageError, Spec
from forage_papers.behaviours.ez_greedy import EZGreedy


class Remembering(AlwaysAgent):
    """Its memory is the number of steps and the action that was taken last."""

    def init_hidden(self, spec):
        return jnp.zeros(2, jnp.int32)

    def act(self, state, inputs):
        return self.action, inputs.hidden.at[0].add(1), ()

    def observe_action(self, state, hidden, action):
        return hidden.at[1].set(jnp.asarray(action).sum())


def play(behaviour, action, steps, observation=None, spec=FOUR, count=500):
    """Return actions `steps count ...` of `count` parallel episodes, and the memory at the end."""
    agent = Remembering(action=jnp.asarray(action, jnp.int32))
    observation = jnp.zeros((steps, 2)) if observation is None else observation
    state = small.at_once(lambda: behaviour.init(jax.random.key(0), agent, spec))

    def step(hidden, inputs):
        key, observation = inputs

        def one(hidden, key):
            decision = decide(behaviour, state, hidden, observation, ActContext(agent, (), spec, at(0.0), key))
            return decision.hidden, (decision.action, decision.source)

        return jax.vmap(one)(hidden, jax.random.split(key, count))

    def run():
        first = jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), begin(behaviour, agent, spec))
        return jax.lax.scan(step, first, (jax.random.split(jax.random.key(1), steps), observation))

    hidden, (taken, source) = jax.jit(run)()
    assert (source == 0).all()
    np.testing.assert_array_equal(hidden.agent[:, 0], steps)  # the agent remembers, whoever chose
    np.testing.assert_array_equal(hidden.agent[:, 1], np.asarray(taken[-1]).reshape(count, -1).sum(-1))
    return np.asarray(taken)


def test_durations_have_the_truncated_zeta_distribution():
    behaviour = EZGreedy(exponent=1.5, longest=6)
    table = small.at_once(lambda: behaviour.init(jax.random.key(0), AlwaysAgent(), FOUR))
    weight = np.arange(1, 7) ** -1.5
    np.testing.assert_allclose(table, 1 - np.cumsum(weight) / weight.sum(), atol=1e-6)
    drawn = jax.jit(jax.vmap(lambda key: behaviour.duration(table, key)))(jax.random.split(jax.random.key(0), 5000))
    shares = np.bincount(np.asarray(drawn), minlength=7) / 5000
    np.testing.assert_allclose(shares, [0, *(weight / weight.sum())], atol=0.035)  # five standard deviations


def test_geometric_durations_go_on_with_the_same_chance_after_every_step():
    table = np.asarray(EZGreedy(durations="geometric", mean=5.0).init(jax.random.key(0), AlwaysAgent(), FOUR))
    np.testing.assert_allclose(table[:60], 0.8 ** np.arange(1, 61), rtol=1e-4)
    assert 1 + table.sum() == pytest.approx(5, rel=1e-4)
    once = np.asarray(EZGreedy(durations="geometric", mean=1.0).init(jax.random.key(0), AlwaysAgent(), FOUR))
    np.testing.assert_array_equal(once, 0)


def test_the_far_tail_is_not_rounded_away():
    table = np.asarray(small.at_once(lambda: EZGreedy().init(jax.random.key(0), AlwaysAgent(), FOUR)))
    exact = np.arange(1.0, 10_001) ** -2
    exact = np.append(np.cumsum(exact[::-1])[::-1][1:], 0) / exact.sum()
    np.testing.assert_allclose(table, exact, rtol=1e-4)
    assert (np.diff(table) < 0).all()


def test_with_a_longest_of_one_it_is_epsilon_greedy():
    taken = play(EZGreedy(start=0.4, end=0.4, longest=1), 2, 8)
    np.testing.assert_allclose(
        np.bincount(taken.reshape(-1), minlength=4) / taken.size, [0.1, 0.1, 0.7, 0.1], atol=0.04
    )


def test_actions_are_repeated_for_as_long_as_was_drawn():
    """Of runs of equal actions, with chance 1 / 40 that a new one continues them, nearly all are single draws."""
    spec = Spec("Forty", BOX, spaces.Discrete(40))
    taken = play(EZGreedy(start=1.0, end=1.0, exponent=0.0, longest=3), 0, 12, spec=spec)
    changes = taken[1:] != taken[:-1]
    # Durations 1, 2 and 3, a third each: half of the steps (1 of 2 on average) begin a repetition.
    assert changes[3:].mean() == pytest.approx(0.5 * 39 / 40, abs=0.04)
    runs = [len(run) for episode in taken.T for run in np.split(episode, np.flatnonzero(np.diff(episode)) + 1)[1:-1]]
    assert np.mean(np.array(runs) <= 3) > 0.95 and set(runs) >= {1, 2, 3}


def test_the_agent_acts_between_repetitions():
    """Of the steps, epsilon E[n] / (epsilon E[n] + 1 - epsilon) are explored."""
    spec = Spec("Thousand", BOX, spaces.Discrete(1000))
    taken = play(EZGreedy(start=0.25, end=0.25, exponent=0.0, longest=3), 7, 60, spec=spec, count=300)
    assert (taken[10:] != 7).mean() == pytest.approx(0.25 * 2 / (0.25 * 2 + 0.75), abs=0.02)


def test_a_repetition_stops_where_its_action_is_not_allowed():
    mask = jnp.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 1], [1, 1, 1, 1]], jnp.int8)
    observation = {"observation": jnp.zeros((4, 2)), "action_mask": mask}
    taken = play(EZGreedy(start=1.0, end=1.0, exponent=-9.0, longest=50), 1, 4, observation)  # nearly always 40 or more
    assert set(taken[0]) == {0, 1}
    np.testing.assert_array_equal(taken[0], taken[1])
    assert set(taken[2][taken[1] == 0]) == {1, 2, 3} and set(taken[2][taken[1] == 1]) == {1}
    np.testing.assert_array_equal(taken[2], taken[3])


def test_multi_discrete_actions_are_repeated_as_a_whole():
    spec = Spec("Two", BOX, spaces.MultiDiscrete([3, 5]))
    mask = jnp.array([[1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 0]], jnp.int8)
    observation = {"observation": jnp.zeros((2, 2)), "action_mask": mask}
    taken = play(EZGreedy(start=1.0, end=1.0, exponent=-9.0, longest=50), [2, 3], 2, observation, spec)
    kept = taken[0, :, 1] != 4
    np.testing.assert_array_equal(taken[0][kept], taken[1][kept])
    assert 0.1 < (~kept).mean() < 0.3 and (taken[1, :, 1] != 4).all()


def test_what_it_cannot_do():
    check(EZGreedy(), AlwaysAgent(), FOUR)
    with pytest.raises(ForageError, match=r"Pendulum-v1 has Box\(1,\)"):
        check(EZGreedy(), AlwaysAgent(), PENDULUM)
    with pytest.raises(ForageError, match="and EZGreedy chooses others"):
        check(EZGreedy(), OnPolicy(), FOUR)
    with pytest.raises(ForageError, match="longest of it is 1 or more, not 0"):
        check_ranges(EZGreedy(longest=0), "it")
    with pytest.raises(ForageError, match="durations of EZGreedy is one of zeta, geometric, not 'poisson'"):
        EZGreedy(durations="poisson")
    with pytest.raises(ForageError, match=r"mean of it is 1 or more, not 0\.5"):
        check_ranges(EZGreedy(durations="geometric", mean=0.5), "it")
