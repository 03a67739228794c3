"""Prioritised level replay: probabilities worked by hand, scores by brute force, the loop, and mistakes."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small

from forage.agents.policy_gradient.ppo import PPO
from forage.behaviours.policy import AgentPolicy
from forage.config import part_data
from forage.config.ranges import check_ranges
from forage.config.resolve import resolve
from forage.core.ports import RolloutReport, RolloutStates, ValueEstimates
from forage.core.types import Clock, Experience, ForageError
from forage.environments import spec_of
from forage.environments.classic.cartpole import CartPole
from forage.loop.device.loop import DeviceLoop
from forage.loop.learner import Learner
from forage.rewards.scaling import Scale
from forage.starts.levels import Levels
from forage.starts.prioritised_levels import LevelsState, PrioritisedLevels
from forage.tasks.contexts import Contexts

KEY = jax.random.key(0)
POLE = CartPole(max_steps=20)


def state_of(score, played, episodes, envs=1):
    running = jnp.zeros(envs), jnp.zeros(envs, jnp.int32)
    return LevelsState(jnp.asarray(score, jnp.float32), jnp.asarray(played, jnp.int32), jnp.int32(episodes), running)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        # Level 2 was never played. Scores 3 > 2 > 1 have ranks 1, 2, 3; 1/rank sums to 11/6.
        ({"rank_temperature": 1.0, "staleness": 0.0}, [3 / 11, 6 / 11, 0, 2 / 11]),
        # 1/rank^2 sums to 49/36.
        ({"rank_temperature": 0.5, "staleness": 0.0}, [9 / 49, 36 / 49, 0, 4 / 49]),
        # Of 10 episodes the last were numbers 4, 10 and 7: 6, 0 and 3 episodes ago.
        ({"rank_temperature": 1.0, "staleness": 1.0}, [6 / 9, 0, 0, 3 / 9]),
        ({"rank_temperature": 1.0, "staleness": 0.25}, [9 / 44 + 6 / 36, 18 / 44, 0, 6 / 44 + 3 / 36]),
    ],
)
def test_probabilities_worked_by_hand(options, wanted):
    starts, state = PrioritisedLevels(4, **options), state_of([2.0, 3.0, 9.0, 1.0], [4, 10, 0, 7], 10)
    np.testing.assert_allclose(small.compute(PrioritisedLevels.weights, starts, state), wanted, rtol=1e-5)


def test_a_low_temperature_and_one_level_are_no_trouble():
    weights = jax.jit(PrioritisedLevels.weights)
    np.testing.assert_allclose(weights(PrioritisedLevels(4), state_of(np.zeros(4), [0, 0, 1, 0], 1)), [0, 0, 1, 0])
    np.testing.assert_array_equal(weights(PrioritisedLevels(4), state_of(np.zeros(4), np.zeros(4), 0)), 0)
    many = weights(PrioritisedLevels(4, rank_temperature=1e-3, staleness=0.0), state_of([1, 4, 3, 2], [1, 2, 3, 4], 4))
    np.testing.assert_allclose(many, [0, 1, 0, 0], atol=1e-6)


def shares(starts, state, number=4000):
    """Return the frequency of each level; five standard errors are at most 0.04."""
    draw = jax.jit(jax.vmap(lambda state, key: starts.begin(state, POLE, key, jnp.int32(0))[2], (None, 0)))
    return np.bincount(draw(state, jax.random.split(KEY, number)), minlength=starts.number) / number


def test_new_levels_come_first_and_then_less_and_less():
    starts = PrioritisedLevels(4, rank_temperature=1.0, staleness=0.0)
    nothing, some = state_of(np.zeros(4), np.zeros(4), 0), state_of([2.0, 3.0, 9.0, 1.0], [4, 10, 0, 7], 10)
    np.testing.assert_allclose(shares(starts, nothing), 0.25, atol=0.04)
    # Three of four levels were played: a quarter of the episodes begin in the new one.
    np.testing.assert_allclose(shares(starts, some), [9 / 44, 18 / 44, 1 / 4, 6 / 44], atol=0.04)
    fixed = dataclasses.replace(starts, replay_probability=0.5)
    np.testing.assert_allclose(shares(fixed, some), [3 / 22, 6 / 22, 1 / 2, 2 / 22], atol=0.04)
    every = some._replace(played=jnp.array([4, 10, 9, 7]))  # none is new: ranks 3, 2, 1, 4 of 12/25 each
    np.testing.assert_allclose(shares(fixed, every), np.array([4, 6, 12, 3]) / 25, atol=0.04)


def test_levels_are_those_of_uniform_sampling():
    state = state_of(np.zeros(3), np.zeros(3), 0)
    level = jax.jit(lambda key: PrioritisedLevels(3, first=5).begin(state, POLE, key, jnp.int32(0)))
    ours = {np.asarray(level(key)[1]).tobytes() for key in jax.random.split(KEY, 20)}
    begin = jax.jit(lambda key: Levels(3, first=5).begin((), POLE, key, jnp.int32(0)))
    assert ours == {np.asarray(begin(key)[1]).tobytes() for key in jax.random.split(KEY, 20)} and len(ours) == 3


@pytest.mark.parametrize(
    ("score", "of_step"),
    [
        ("l1-value-loss", lambda advantage, error: abs(advantage)),
        ("positive-value-loss", lambda advantage, error: max(advantage, 0)),
        ("td-error", lambda advantage, error: abs(error)),
    ],
)
def test_scores_of_episodes_that_span_rollouts(score, of_step):
    """Against a plain loop over each environment's steps."""
    rng, envs, length, number = np.random.default_rng(3), 3, 5, 4
    starts = PrioritisedLevels(number, score=score)
    state = starts.init(KEY, POLE, None, envs)
    level, begun = rng.integers(0, number, envs), np.ones(envs, bool)
    played, episodes, scores, steps = np.zeros(number, int), 0, np.zeros(number), [[] for _ in range(envs)]
    report = jax.jit(starts.report)
    for _ in range(6):
        advantage, error = rng.normal(size=(2, length, envs)).astype(np.float32)
        ended, fresh, marks = rng.random((length, envs)) < 0.25, begun, []
        for t in range(length):
            marks.append(level.copy())
            for env in range(envs):
                if begun[env]:
                    episodes += 1
                    played[level[env]] = episodes
                    steps[env] = []
                steps[env].append(of_step(advantage[t, env], error[t, env]))
                if ended[t, env]:
                    scores[level[env]] = np.mean(steps[env])
            begun = ended[t]
            level = np.where(begun, rng.integers(0, number, envs), level)
        flags = np.zeros((length, envs), np.float32)
        rollout = Experience((), flags, flags, (), ended, np.zeros_like(ended), flags, ())
        visited = RolloutStates((), np.stack(marks).astype(np.int32), ended[-1:], fresh)
        estimates = ValueEstimates(flags, advantage, error, flags)
        state = report(
            state, rollout, RolloutReport(POLE, visited, Clock(jnp.int32(0), jnp.float32(1)), KEY, estimates)
        )
        np.testing.assert_allclose(state.score, scores, rtol=1e-5)
        np.testing.assert_array_equal(state.played, played)
        assert state.episodes == episodes
    assert (played > 0).all()


def loop(starts, tasks=None, rewards=None):
    agent = PPO(num_envs=3, rollout_length=6, epochs=1, minibatches=1, hidden_sizes=(8,), gae_lambda=0.9)
    learner = Learner(agent, AgentPolicy(), rewards or Scale(0.5), small.KeptRollout(), spec_of(POLE, "Pole"))
    experiment = DeviceLoop(learner, POLE, tasks or Contexts(("length=0.5:1",)), starts)
    experiment.check()
    return experiment


class KeptPrioritisedLevels(PrioritisedLevels):
    """Keeps the arguments of `report`."""

    def init(self, key, environment, spec, num_envs):
        return super().init(key, environment, spec, num_envs), ()

    def begin(self, state, environment, key, index):
        return super().begin(state[0], environment, key, index)

    def report(self, state, rollout, review):
        return super().report(state[0], rollout, review), review


@pytest.mark.thorough
def test_in_the_loop_the_judgement_is_of_the_network_that_acted():
    """GAE and TD errors against a plain loop, from the learned rewards; tasks and marks of every step."""
    experiment: Any = loop(KeptPrioritisedLevels(5))

    @jax.jit
    def run(experiment):
        def iterate(state, steps):
            state = state._replace(starts=(state.starts[0], ()))
            return experiment.iterate(state, Clock(jnp.int32(steps), jnp.float32(1e6)))[0]

        first = experiment.init(KEY)
        second = iterate(first, 0)
        values = jax.vmap(jax.vmap(lambda o: second.learner.agent.network.value(o)[0]))
        third = iterate(second, 18)
        rollout = third.learner.memory
        return second, third, rollout, values(rollout.observation), values(rollout.next_observation)

    second, third, rollout, value, next_value = jax.device_get(run(experiment))
    review = third.starts[1]
    estimates, visited = review.estimates, review.visited
    np.testing.assert_allclose(estimates.value, value, rtol=1e-4, atol=1e-5)
    later = np.zeros(3)
    for t in reversed(range(6)):
        delta = 0.5 * rollout.reward[t] + 0.99 * np.where(rollout.terminated[t], 0, next_value[t]) - value[t]
        later = delta + 0.99 * 0.9 * np.where(rollout.ended[t], 0, later)
        np.testing.assert_allclose(estimates.td_error[t], delta, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(estimates.advantage[t], later, rtol=1e-3, atol=1e-4)
    assert (estimates.log_probability < 0).all() and review.clock.steps == 18
    # A task and a mark stay with an episode, and the first are those that the rollout began with.
    assert visited.tasks.length.shape == visited.start_ids.shape == (6, 3)
    np.testing.assert_array_equal(visited.tasks.length[0], second.actors.at.task.length)
    np.testing.assert_array_equal(visited.start_ids[0], second.actors.at.start_id)
    goes_on = ~rollout.ended[:-1]
    for kept in (visited.tasks.length, visited.start_ids):
        assert (kept[1:] == kept[:-1])[goes_on].all()
    assert third.starts[0].episodes == second.starts[0].episodes + visited.begins(rollout.ended).sum()


class WithoutEstimates(KeptPrioritisedLevels):
    needs_estimates = False

    def report(self, state, rollout, review):
        assert review.estimates is None
        return state[0], ()


def test_nothing_is_judged_unless_asked():
    def program(starts):
        experiment = loop(starts)
        return jax.make_jaxpr(lambda s: experiment.iterate(s, Clock(jnp.int32(0), jnp.float32(1)))[0].learner.agent)(
            jax.eval_shape(experiment.init, KEY)
        )

    assert str(program(KeptPrioritisedLevels(5))).count("dot_general") > str(program(WithoutEstimates(5))).count(
        "dot_general"
    )


class OldReport(Levels):
    def report(self, state, environment, visited, rollout, clock, key):
        return state


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"number": 0}, "number of it is 1 or more, not 0"),
        ({"score": "value"}, "one of l1-value-loss, positive-value-loss, td-error, not 'value'"),
    ],
)
def test_mistakes_are_named(options, words):
    with pytest.raises(ForageError, match=words):
        check_ranges(PrioritisedLevels(**options), "it")


def test_parts_that_do_not_fit_are_named():
    with pytest.raises(
        ForageError, match=r"PrioritisedLevels needs an agent with value estimates.*DQN has none; ppo does"
    ):
        resolve("dqn", "CartPole-v1", steps=2000, seeds=1, starts="prioritised-levels").loop()
    with pytest.raises(ForageError, match=r"OldReport.report takes .* is called with \(state, rollout, review\)"):
        loop(OldReport())
    for name, value in (("rank_temperature", 0.0), ("staleness", 1.5), ("replay_probability", -1.0)):
        starts = PrioritisedLevels(**{name: value})
        with pytest.raises(ForageError, match=name.replace("_", "-")):
            resolve("ppo", "CartPole-v1", steps=2000, seeds=1, starts=starts)
    starts = PrioritisedLevels(7, staleness=0.3)
    assert part_data.from_config(part_data.to_config(starts)) == starts
