"""Robust policy improvement: baseline and selection by hand, learning of each value, and resuming."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from fine_tuning_helpers import SPEC, constant
from small import compute

from forage.behaviours.policy import AgentPolicy
from forage.config.resolve import resolve
from forage.config.saved import load_policy
from forage.core.types import AGENT, GONE, GUIDE, Batch, Clock, Experience, ForageError
from forage.nn.normalise import RunningNorm
from forage_papers.agents.policy_gradient.rpi import AFTER, BASELINE, RPI
from forage_papers.behaviours.raps import RAPS
from forage_papers.nn.policy_values import ActedSegments

SIZES = {"num_envs": 2, "rollout_length": 4, "minibatches": 1, "epochs": 1, "hidden_sizes": (4,), "members": 2}
SIZES |= {"value_updates": 1, "value_segments": 2, "kept_rollouts": 2, "discount": 0.5, "gae_lambda": 0.5}


def right(observation):
    return jnp.ones(2)


ONE = RPI(**SIZES, oracles=(right,), confidence=2.0, entropy_coefficient=0.0)


def saying(state, oracle, learner):
    """Return a state with these constant values of the two members of each of two policies."""
    says = [[value] for value in (*oracle, *learner)]
    return state._replace(values=constant(state.values, lambda v: v.networks.body.layers[-1].bias, says))


@pytest.mark.parametrize(
    ("oracle", "learner", "baseline", "selected"),
    [
        ((3.0, 5.0), (2.0, 2.0), 4.0, 0),  # deviation 1.41: trusted
        ((1.0, 7.0), (2.0, 2.0), 2.0, 0),  # 4.24 is too much to be the baseline, and the bound is the upper one
        ((1.0, 1.0), (0.0, 4.0), 2.0, 0),  # the learner is worth more, but its lower bound is -0.83
        ((1.0, 1.0), (3.0, 3.0), 3.0, 1),
    ],
)
def test_the_baseline_is_the_best_trusted_mean_and_oracles_go_on_by_upper_bounds(oracle, learner, baseline, selected):
    def find_results():
        state = saying(ONE.init(jax.random.key(0), SPEC), oracle, learner)
        return ONE.baseline(*state.values.estimates(jnp.ones((1, 3))))[0], ONE.select_policy(state, jnp.ones(3))

    value, chosen = compute(find_results)
    np.testing.assert_allclose(value, [baseline], rtol=1e-6)
    assert chosen == selected


def test_a_value_learns_where_its_policy_acted_and_its_member_listens():
    """For the oracle: returns 1 at the end, and 1 + 0.5 (0.5 * 2 + 0.5 * 1) = 1.75 before it, against values of 2."""
    no = jnp.zeros((2, 1), bool)
    ends = jnp.array([[False], [True]])
    drawn = ActedSegments(
        jnp.ones((2, 1, 3)), jnp.ones((2, 1, 3)), jnp.ones((2, 1)), ends, no, jnp.zeros((2, 1), jnp.int32)
    )

    def find_results():
        state = saying(ONE.init(jax.random.key(0), SPEC), (2.0, 2.0), (9.0, 9.0))
        heard = jnp.array([[True], [False]])
        loss, each = state.values.loss(drawn, None, heard, 0.5, 0.5)
        gradient = jax.grad(lambda values: values.loss(drawn, None, heard, 0.5, 0.5)[0])(state.values)
        return loss, each, gradient.networks.body.layers[-1].bias[:, 0]

    loss, each, bias = compute(find_results)
    np.testing.assert_allclose(loss, 0.5 * (0.25**2 + 1.0) / 2, rtol=1e-6)
    np.testing.assert_allclose(
        each, [(0.25**2 + 1.0) / 4, 0.0], rtol=1e-6
    )  # the mean over members, one of whom is deaf
    np.testing.assert_allclose(bias, [(0.25 + 1.0) / 2, 0.0, 0.0, 0.0], rtol=1e-6)


class Reading(NamedTuple):
    """Values of two policies, read without uncertainty from the first two numbers."""

    def estimates(self, rows):
        return rows[:, :2].T, jnp.zeros((2, len(rows)))


def test_values_read_observations_that_are_normalised():
    """A car's speed of 0.02, with speeds of deviation 0.01, is read as 2; unnormalised, it hardly affects a value."""
    assert RPI().normalise_observation
    norm = RunningNorm(jnp.float32(9), jnp.array([-0.5, 0.0, 0.0]), jnp.array([0.25, 1e-4, 1.0]))

    def find_results():
        state = ONE.init(jax.random.key(0), SPEC)._replace(norm=norm, values=Reading())
        seen, after = jnp.array([-0.5, 0.02, 0.0]), jnp.array([0.5, 0.01, 0.0])
        one = rollout(ONE.learner, AGENT)
        one = one._replace(observation=jnp.tile(seen, (4, 2, 1)), next_observation=jnp.tile(after, (4, 2, 1)))
        told, best = ONE.with_values(state, norm, one)
        return told.rewards, best, ONE.select_policy(state, seen), ONE.select_policy(state, after)

    rewards, best, *selected = compute(find_results)
    np.testing.assert_allclose(rewards[BASELINE], 2.0, rtol=1e-4)  # the second value, where the first reads 0
    np.testing.assert_allclose(rewards[AFTER], 2.0, rtol=1e-4)  # the first one: 1 above its mean, of deviation 0.5
    assert (best == 1).all() and selected == [1, 0]


SEEN, NO = jnp.ones((4, 2, 3)), jnp.zeros((4, 2), bool)
REWARD = jnp.tile(jnp.arange(4.0)[:, None], (1, 2))
ACTION = jnp.asarray(np.random.default_rng(0).uniform(-2, 2, (4, 2, 2)), jnp.float32)


def rollout(policy, source):
    """Return four steps of one policy in two environments, with their numbers as rewards."""
    return Experience(SEEN, ACTION, REWARD, SEEN, NO, NO, jnp.full((4, 2), source), jnp.full((4, 2), policy))


def test_advantages_are_from_the_baseline():
    def judge_case():
        return ONE.estimate(saying(ONE.init(jax.random.key(0), SPEC), (3.0, 5.0), (2.0, 2.0)), rollout(0, AGENT))

    found = compute(judge_case)
    delta = np.arange(4.0) + 0.5 * 4 - 4  # the oracle's value, 4, on both sides
    expected = [sum(0.25**i * d for i, d in enumerate(delta[t:])) for t in range(4)]
    np.testing.assert_allclose(found.advantage[:, 0], expected, rtol=1e-5)
    np.testing.assert_allclose(found.value, 4.0, rtol=1e-6)


@pytest.mark.thorough
def test_policy_and_values_learn_from_their_own_steps_alone():
    def run_learn():
        state = ONE.init(jax.random.key(0), SPEC)

        def state_after(policy, source):
            batch = Batch(rollout(policy, source), jnp.ones(2), jnp.arange(2))
            new, metrics, _ = ONE.learn(state, batch, Clock(jnp.int32(8), jnp.float32(100)), jax.random.key(1))
            moved = new.values.networks.body.layers[-1].bias - state.values.networks.body.layers[-1].bias
            return new.network.actor.weight - state.network.actor.weight, moved, metrics["own_steps"]

        kinds = jnp.array([[ONE.learner, AGENT], [ONE.roll_in, AGENT], [0, GUIDE], [ONE.learner, GONE], [0, GONE]])
        return jax.vmap(state_after)(kinds[:, 0], kinds[:, 1])

    policy, value, own = compute(run_learn)
    assert np.abs(policy[0]).max() > 1e-6
    np.testing.assert_allclose(policy[1:], 0.0, atol=1e-9)
    moved = np.abs(value).reshape(5, 2, -1).max(-1) > 0
    np.testing.assert_array_equal(moved, [[False, True], [False, False], [True, False], *[[False, False]] * 2])
    np.testing.assert_array_equal(own, [1, 0, 0, 0, 0])


@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped_and_evaluated_without_the_oracles(tmp_path, capsys):
    small.train(tmp_path / "a", "sac")
    small.train(tmp_path / "b", "ppo-continuous")
    runs = f"{tmp_path / 'a'},{tmp_path / 'b'}"
    options = SIZES | {"oracles": tuple(runs.split(","))}
    setup = resolve("rpi", "Pendulum-v1", seeds=[3, 7], steps=2000, agent_options=options)
    assert isinstance(setup.behaviour, RAPS)
    again, runner, _ = small.resume_run(setup, tmp_path, 20)
    assert small.differing(runner.state, again.state) == []
    weights = runner.state.learner.agent.oracles[0].actor.head.weight
    np.testing.assert_array_equal(weights[0], load_policy(tmp_path / "a").state.actor.head.weight)
    words = (*small.words({"oracles": runs} | SIZES), "--steps", 64, "--seeds", 2, "--directory", tmp_path / "run")
    assert small.run_command(capsys, "train", "rpi", "Pendulum-v1", *words)[0] == 0
    (tmp_path / "a").rename(tmp_path / "gone")
    assert small.run_command(capsys, "evaluate", tmp_path / "run", "--episodes", "2")[0] == 0


def test_what_is_refused():
    def check_refused(words, **given):
        with pytest.raises(ForageError, match=words):
            RPI(**SIZES, **given).check(SPEC)

    check_refused("name the runs of some with --oracles RUN,RUN, or use ppo")
    check_refused("The oracle of RPI does not return", oracles=(lambda observation: observation,))
    check_refused("a pair .agent, its state., not a int", oracles=(3,))
    check_refused("leave gru_size", oracles=(right,), gru_size=4)
    with pytest.raises(ForageError, match="use --behaviour raps"):
        resolve("rpi", "Pendulum-v1", seeds=1, agent_options={"oracles": (right,)}, behaviour=AgentPolicy())
    with pytest.raises(ForageError, match="holds no trained agent"):
        resolve("rpi", "Pendulum-v1", seeds=1, agent_options={"oracles": ("nowhere",)})
