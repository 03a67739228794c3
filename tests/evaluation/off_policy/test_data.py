"""Logged data: valid and refused data with its errors; the front end; agents as policies."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest
import small
from tables import three_steps
from tiers import first

from forage.agents.actor_critic.sac import SAC
from forage.agents.actor_critic.sac_discrete import SACDiscrete
from forage.agents.policy_gradient.ppo import PPO
from forage.agents.q_learning.dqn import DQN
from forage.core import prng
from forage.core.ports import ActInputs
from forage.core.types import Experience, ForageError
from forage.data.collect import Probabilities
from forage.environments import make, spec_of
from forage.evaluation.off_policy import LoggedEpisodes, Target, estimate, log_episodes, soften_policy, tabular_policy
from forage.evaluation.off_policy.estimators.doubly_robust import doubly_robust
from forage.loop.policy import Policy

GOOD = {
    "observation": np.eye(3)[[0, 1, 0]],
    "action": np.array([0, 1, 1]),
    "reward": np.array([1.0, 2.0, 3.0]),
    "next_observation": np.eye(3)[[1, 2, 2]],
    "terminated": np.array([False, True, False]),
    "truncated": np.array([False, False, True]),
    "behaviour_probability": np.array([0.5, 0.25, 1.0]),
}
EVEN: Probabilities = tabular_policy(np.full((3, 2), 0.5))


def test_episodes_follow_from_their_ends():
    log = LoggedEpisodes(**GOOD)
    assert (log.episodes, log.transitions) == (2, 3)
    np.testing.assert_array_equal(log.numbers, [0, 0, 1])
    np.testing.assert_array_equal(log.time, [0, 1, 0])
    np.testing.assert_array_equal(log.lengths, [2, 1])
    np.testing.assert_array_equal(log.first, [0, 2])
    assert log.states[2] == 3
    np.testing.assert_array_equal(log.states[0], [0, 1, 0])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"action": np.array([0.0, 1.0, 1.0])}, "discrete actions, whole numbers from 0; the logged ones are float64"),
        ({"action": np.array([0, -1, 1])}, "are int64 with -1"),
        ({"action": np.zeros((3, 1), int)}, "shape .transitions,."),
        ({"reward": np.ones(2)}, "reward has shape .2,.; with 3 actions it should be .3,."),
        ({"reward": np.array([1.0, np.nan, 0.0])}, "reward is not finite in 1 transitions, first in 1"),
        ({"next_observation": np.full((3, 3), np.inf)}, "next_observation is not finite in 3"),
        ({"next_observation": np.ones((3, 2))}, "observation and next_observation have shapes"),
        ({"behaviour_probability": np.array([0.5, 0.0, 1.0])}, "lies in .0, 1., .* and is 0.0 in transition 1"),
        ({"behaviour_probability": np.array([0.5, 1.5, 1.0])}, "is 1.5"),
        ({"behaviour_probability": np.array([0.5, np.nan, 1.0])}, "is nan"),
        ({"truncated": np.zeros(3, bool)}, "Episode 1 is not whole"),
        ({"truncated": np.array([False, True, True])}, "Transition 1 is terminated and truncated"),
        ({"episode": np.array([0, 0, 0])}, "Episode 0 goes on after its end"),
        ({"episode": np.array([0, 1, 2])}, "Episode 0 is not whole"),
        ({"episode": np.array([0, 0, 2])}, "without gaps"),
    ],
)
def test_what_is_refused(changes, words):
    with pytest.raises(ForageError, match=words):
        LoggedEpisodes(**{**GOOD, **changes})


def test_equal_observations_are_one_state_wherever_they_stand():
    """Sums over a row are not the same to the last bit in every row of a matrix, so no state may hang on one."""
    random = np.random.default_rng(0)
    for count in (101, 203, 1003):
        seen = random.normal(size=(6, 20))
        seen[0, 3], states = 0.0, np.append(np.arange(6), random.integers(0, 6, count - 6))
        following, ended = np.roll(states, -1), np.arange(count) == count - 1
        observation = seen[states]
        observation[states == 0, 3] *= random.choice([-1.0, 1.0], (states == 0).sum())  # -0.0 is 0.0
        log = LoggedEpisodes(observation, states % 2, states * 1.0, seen[following], ended, np.zeros(count, bool))
        found, after, number = log.states
        assert number == 6
        for ours, theirs in ((found, states), (after, following)):
            assert len(np.unique(ours)) == len(set(zip(ours, theirs, strict=True))) == 6
        np.testing.assert_array_equal(found[1:], after[:-1])


def test_from_episodes_and_from_arrays_are_one():
    parts = [{name: x[:2] for name, x in GOOD.items()}, {name: x[2:] for name, x in GOOD.items()}]
    log, whole = LoggedEpisodes.from_episodes(parts), LoggedEpisodes(**GOOD)
    for name in (*GOOD, "episode"):
        np.testing.assert_array_equal(getattr(log, name), getattr(whole, name))
    del parts[0]["behaviour_probability"]
    with pytest.raises(ForageError, match="give it to all or none"):
        LoggedEpisodes.from_episodes(parts)
    with pytest.raises(ForageError, match="action is missing"):
        LoggedEpisodes.from_episodes([{"observation": np.ones((1, 1))}])
    with pytest.raises(ForageError, match="no episode"):
        LoggedEpisodes.from_episodes([])


def test_from_a_rollout_what_is_under_way_is_left_out():
    """Two environments, four steps: ends after steps 1 and 2 of the first, after step 3 of the second."""
    ended = np.array([[0, 0], [1, 0], [1, 0], [0, 1]], bool)
    number = np.arange(8).reshape(4, 2)
    zeros = np.zeros((4, 2))
    rollout = Experience(number[..., None], number, number * 1.0, number[..., None] + 1, ended, zeros > 0, zeros, ())
    log = LoggedEpisodes.from_rollout(rollout, zeros + 0.5)
    np.testing.assert_array_equal(log.action, [0, 2, 4, 1, 3, 5, 7])
    np.testing.assert_array_equal(log.numbers, [0, 0, 1, 2, 2, 2, 2])
    assert log.observation.shape == (7, 1)
    with pytest.raises(ForageError, match="an episode that ends"):
        LoggedEpisodes.from_rollout(rollout._replace(terminated=zeros > 0))


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (lambda o: np.full(len(o), 0.5), "answers observations"),
        (lambda o: np.full((len(o), 1), 1.0), "knows 1 actions, and action 1 was logged"),
        (lambda o: np.full((len(o), 2), 0.4), "sum to 1"),
        (lambda o: np.tile([1.5, -0.5], (len(o), 1)), "at least 0"),
        (lambda o: np.full((len(o), 2), np.nan), "at least 0"),
    ],
)
def test_a_policy_answers_with_probabilities(policy, words):
    with pytest.raises(ForageError, match=words):
        estimate(LoggedEpisodes(**GOOD), policy, 0.9)


def test_the_front_refuses_what_cannot_be():
    log = LoggedEpisodes(**GOOD)
    for options, words in (
        ({"discount": 1.5}, "between 0 and 1"),
        ({"estimators": ["pdiss"]}, "no estimator 'pdiss'; choose among is, wis"),
        ({"estimators": "pdis"}, "a sequence of names"),
        ({"estimators": {}}, "a sequence of names"),
        ({"horizon": 0}, "at least 1, not 0"),
        ({"horizon": 2.5}, "a whole number of steps"),
        ({"horizon": 2}, "Episode 1 was truncated after 1 steps, before the horizon 2; a horizon of 1 works"),
        ({"estimators": ["dualdice"], "horizon": 1}, "knows no horizon"),
        ({"estimators": ["dualdice"], "discount": 1.0}, "below 1"),
        ({"estimators": {"mine": lambda target: np.ones(7)}}, "mine should give one finite number for each of 2"),
    ):
        with pytest.raises(ForageError, match=words):
            estimate(log, EVEN, **{"discount": 0.9, **options})


def test_without_behaviour_probabilities():
    log = LoggedEpisodes(**{**GOOD, "behaviour_probability": None})
    for name in ("is", "wis", "pdis", "wpdis", "dr", "wdr", "magic", "mis"):
        with pytest.raises(ForageError, match=f"{name} needs the probabilities .* fqe and dualdice do without"):
            estimate(log, EVEN, 0.9, [name])
    mdp_log = log_episodes(make("tabular:Chain-5"), tabular_policy(np.full((5, 2), 0.5)), 20)
    bare = LoggedEpisodes(*(getattr(mdp_log, name) for name in list(GOOD)[:6]))
    found = estimate(bare, tabular_policy(np.full((5, 2), 0.5)), 0.9)
    assert set(found) == {"fqe", "dualdice"}
    assert found.overlap.effective_sample_size is None
    with pytest.raises(ForageError, match="discount 1 needs a horizon"):
        estimate(bare, tabular_policy(np.full((5, 2), 0.5)), 1.0)


def test_truncated_episodes_say_how_much_they_leave_unseen():
    log, table = three_steps()
    cut = LoggedEpisodes(
        log.observation, log.action, log.reward, log.next_observation, log.truncated, log.terminated,
        log.behaviour_probability,
    )  # fmt: skip
    found = estimate(cut, lambda o: o @ table, 0.5, ["pdis", "dr"])
    assert found.overlap.cut == pytest.approx((0.125 + 0.25) / 2)
    assert "cut 0.188" in str(found)
    assert estimate(cut, lambda o: o @ table, 0.5, ["pdis"], horizon=2).overlap.cut == 0
    # What went on unseen is worth what the model says: with Q = 2 for all, 2 discounts away.

    def twos(observation, time):
        return np.full((len(time), 2), 2.0)

    ends, goes_on = (doubly_robust(Target(x, lambda o: o @ table, 0.5), twos) for x in (log, cut))
    np.testing.assert_allclose(goes_on - ends, [0.75 * 0.125 * 2, 2.25 * 0.25 * 2])


def test_a_horizon_leaves_later_steps_out():
    log, table = three_steps()
    found = Target(log, lambda o: o @ table, 0.5, horizon=2)
    np.testing.assert_array_equal(found.logged.numbers, [0, 0, 1, 1])
    np.testing.assert_array_equal(found.logged.truncated, [False, True, False, False])


def test_a_softer_policy():
    np.testing.assert_allclose(soften_policy(tabular_policy(np.eye(2)), 0.2)(np.eye(2)), [[0.9, 0.1], [0.1, 0.9]])
    with pytest.raises(ForageError, match="from 0 to 1"):
        soften_policy(EVEN, 2.0)
    with pytest.raises(ForageError, match="discrete actions"):
        log_episodes(make("Pendulum-v1"), EVEN, 3)


@pytest.mark.parametrize(
    "agent",
    first(1, [PPO(hidden_sizes=(8,)), DQN(hidden_sizes=(8,)), SACDiscrete(hidden_sizes=(8,))]),
    ids=lambda a: type(a).__name__,
)
def test_agents_say_how_probable_their_actions_are(agent):
    spec = spec_of(make("CartPole-v1"), "CartPole-v1")
    policy = Policy(agent, small.at_once(lambda: agent.init(prng.key(0), spec)), spec)
    observations = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    sure = policy.probabilities(observations)
    np.testing.assert_array_equal(sure.argmax(1), [policy.act(o) for o in observations])
    np.testing.assert_array_equal(sure.max(1), 1)
    loose = policy.probabilities(observations, explore=True)
    np.testing.assert_allclose(loose.sum(1), 1, rtol=1e-5)
    keys = jax.random.split(prng.key(1), 2000)
    drawn = jax.vmap(lambda key: agent.act(policy.state, ActInputs((), observations[0], key, True))[0])(keys)
    assert abs(np.mean(np.asarray(drawn)) - loose[0, 1]) < 0.05


def test_agents_that_cannot_say():
    for agent, name, words in (
        (PPO(gru_size=4), "CartPole-v1", "PPO with memory"),
        (DQN(gru_size=4), "CartPole-v1", "DQN with memory"),
        (SAC(), "Pendulum-v1", "SAC cannot say"),
    ):
        spec = spec_of(make(name), name)
        with pytest.raises(ForageError, match=words):
            Policy(agent, (), spec).probabilities(np.zeros((2, *spec.observation_space.shape), np.float32))


def test_a_loaded_agent_is_a_policy():
    spec = spec_of(make("CartPole-v1"), "CartPole-v1")
    agent = PPO(hidden_sizes=(8,))
    policy = Policy(agent, small.at_once(lambda: agent.init(prng.key(0), spec)), spec)
    log = log_episodes(make("CartPole-v1"), lambda o: jax.numpy.full((len(o), 2), 0.5), 50, max_steps=5)
    found = estimate(log, policy, 1.0, ["wpdis"], horizon=5)
    assert found["wpdis"].value == pytest.approx(5)  # each step pays 1


def test_the_page_s_example_runs(capsys):
    page = (Path(__file__).parents[3] / "docs" / "off-policy.md").read_text()
    exec(page.split("```python\n")[1].split("```")[0], {})
    printed = capsys.readouterr().out
    assert "500 episodes, 95 % intervals" in printed
    assert all(f"\n{name} " in printed for name in ("is", "fqe", "dr", "dualdice"))
