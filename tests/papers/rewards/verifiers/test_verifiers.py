"""Rewards Shorter needs text, of episodes made by hand: two groups of two, of two turns, all numbers worked out."""

from typing import NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check

from forage.core.spaces import Tokens
from forage.core.types import Clock, Experience, ForageError, Spec
from forage.nn.language.architecture import Architecture
from forage.nn.transformer import Transformer
from forage.rewards.scaling import Scale
from forage.rewards.verifiers.form import Format
from forage_papers.rewards.shift import Shift
from forage_papers.rewards.verifiers.diversity import Diversity
from forage_papers.rewards.verifiers.perplexity import TextCuriosity
from forage_papers.rewards.verifiers.progress import Progress, ProgressState
from forage_papers.rewards.verifiers.representation import Representation
from forage_papers.rewards.verifiers.search_stages import SearchStages
from forage_papers.rewards.verifiers.shorter import Shorter

SPACE = gymnasium.spaces.Dict({"context": Tokens(3, 30, end=29), "reference": Tokens(4, 30, end=29)})
SPEC = Spec("text:here", SPACE, Tokens(4, 30, end=29), horizon=2, info_names=("format", "truth"))
NAN = np.nan


class KeptRecord(NamedTuple):
    log_probability: np.ndarray


def rollout_of(reward=(1, 0, 0, 0), log_p=-0.5):
    """Four episodes: the first and the third are over after a turn, and wait for the others."""
    action = np.array(
        [
            [[1, 2, 0, 0], [1, 2, 3, 4], [5, 0, 0, 0], [5, 6, 0, 0]],
            [[0, 0, 0, 0], [5, 0, 0, 0], [0, 0, 0, 0], [7, 8, 9, 0]],
        ],
        np.int32,
    )
    context = np.ones((2, 4, 3), np.int32)
    context[1, [0, 2]] = 0
    seen = {"context": context, "reference": np.zeros((2, 4, 4), np.int32)}
    last = np.array([[0] * 4, [1] * 4], bool)
    paid = np.zeros((2, 4), np.float32)
    paid[[0, 1, 0, 1], range(4)] = reward  # at the turn that ends each
    info = {
        "format": np.array([[NAN] * 4, [1, 1, 0, 1]], np.float32),
        "truth": np.array([[NAN] * 4, reward], np.float32),
    }
    return Experience(
        seen,
        action,
        paid,
        seen,
        last,
        ~last & False,
        np.zeros((2, 4), np.int32),
        KeptRecord(log_p * (action > 0)),
        info=info,
    )


@jax.jit
def make_one(rewards, rollout, clock):
    state = rewards.init(jax.random.key(0), SPEC, 4)
    state, rewards_info, metrics = rewards.learn(state, rollout, clock, jax.random.key(1))
    found = rewards.relabel(state, rollout._replace(rewards_info=rewards_info))
    return found.reward, found.rewards.get("bonus", jnp.zeros((2, 4))), metrics


def pay(rewards, rollout, fraction=0.0):
    """The reward and the bonus, after learning from the rollout, and the metrics."""
    return jax.device_get(make_one(rewards, rollout, Clock(np.int32(1000 * fraction), np.float32(1000))))


def test_form_is_paid_beside_the_truth_where_the_episode_ends():
    reward, _, metrics = pay(Format(weight=0.25), rollout_of())
    np.testing.assert_allclose(reward, [[1.25, 0, 0, 0], [0, 0.25, 0, 0.25]])
    assert metrics == {"form": 0.75, "truth": 0.25}


def test_the_shortest_right_answer_sets_the_length():
    # Lengths 2, 5, 1, 5: of the first group 2, of the second, where none is right, the mean 3
    reward, _, _ = pay(Shorter(truth=2.0, price=0.1, group_size=2), rollout_of())
    np.testing.assert_allclose(reward, [[2, 0, -0.2, 0], [0, -0.3, 0, -0.2]], atol=1e-6)


def test_right_answers_are_paid_for_being_different():
    # BLEU of [1 2] against [1 2 3 4 5]: all in it, exp(1 - 5/2) for its length; the other way round, weights 0.02 and
    # 0.1 grow to 0.9 in all, with p_1 = 2/5 and p_2 = 1/4
    one = np.exp(1 - 5 / 2)
    other = np.exp(0.9 * (0.02 * np.log(2 / 5) + 0.1 * np.log(1 / 4)) / 0.12)
    reward, bonus, _ = pay(Diversity(weight=0.5, most=1.0, group_size=2), rollout_of())
    np.testing.assert_allclose(bonus, [[0.5 * (1 - (one + other) / 2), 0, 0, 0], [0, 0, 0, 0]], rtol=1e-5)
    np.testing.assert_array_equal(reward, rollout_of().reward)
    assert pay(Diversity(weight=0.5, most=0.2, group_size=2), rollout_of())[1][0, 0] == pytest.approx(0.1, rel=1e-5)
    late = pay(Diversity(weight=0.5, most=1.0, fraction=0.5, group_size=2), rollout_of(), 0.6)
    assert not late[1].any() and late[2]["bonus_weight"] == 0


def test_improbable_answers_are_paid_up_to_a_share_of_the_reward():
    _, bonus, metrics = pay(TextCuriosity(share=0.3, scale=0.4), rollout_of())
    np.testing.assert_allclose(bonus, [[0.2, 0, 0, 0], [0, 0, 0, 0]], rtol=1e-6)
    assert metrics["surprise"] == pytest.approx(0.5)
    assert pay(TextCuriosity(share=0.1), rollout_of())[1][0, 0] == pytest.approx(0.1, rel=1e-5)
    falls = [pay(TextCuriosity(), rollout_of(), at)[2]["bonus_weight"] for at in (0.24, 0.6)]  # stairs
    assert falls == [1, 0.5]
    # With -1 for wrong answers, the sure ones among them are worse
    signed = TextCuriosity(scale=0.4, inner=Scale(2.0, inner=Shift(-0.25)))
    assert (pay(signed, rollout_of())[1].sum(0) > 0).all()


def test_searching_is_paid_first_and_answers_from_a_step_on():
    ends = {
        "searched": np.array([[NAN] * 4, [1, 0, 1, 0]], np.float32),
        "form": np.array([[NAN] * 4, [1, 1, 0, NAN]], np.float32),
        "overlap": np.array([[NAN] * 4, [1, 0.5, 0.5, NAN]], np.float32),
    }
    rollout, rewards = rollout_of()._replace(info=ends), SearchStages(retrieval=0.25, penalty=2.0, begins=500)
    first, _, before = pay(rewards, rollout, 0.4)
    np.testing.assert_allclose(first, [[0.75, 0, 0.25, 0], [0, 0.5, 0, 0]])
    second, _, after = pay(rewards, rollout, 0.5)
    np.testing.assert_allclose(second, [[1, 0, -1.5, 0], [0, 0.5, 0, -2]])  # the last no longer fitted
    assert before["stage"] == 1 and after["stage"] == 2 and after["searched"] == 0.5


def reader():
    return Transformer(jax.random.key(0), Architecture(30, 8, 1, 2, 8, 16))


@pytest.mark.thorough
def test_an_answer_read_as_unlike_the_others_is_paid_where_one_of_the_group_is_right():
    rewards = Representation(model=reader(), weight=2.0, size=4, group_size=2)
    _, bonus, metrics = pay(rewards, rollout_of())
    assert bonus[0, 0] > 0 and bonus[1, 1] > 0
    assert bonus[0, 0] == pytest.approx(bonus[1, 1], rel=1e-3)  # two answers are equally far from their mean
    assert not bonus[:, 2:].any() and not bonus[1, 0] and bonus.max() <= 1.0
    assert metrics["bonus"] == pytest.approx(bonus.sum(0).mean())


DONE = np.array([[1, 0, 1, 1], [1, 1, NAN, 0]], np.float32)
"""Turns that could be carried out."""


def test_turns_are_paid_what_they_contribute_and_for_being_carried_out():
    contribution = np.array([[0.5, 1, 0.25, 0], [0, -1, 0, 0.5]], np.float32)
    rollout = rollout_of()._replace(info={"executed": DONE}, rewards_info=((), contribution))
    rewards, state = Progress(reader(), share=2.0, grounding=0.5), ProgressState((), None, (), jnp.bool_(True))
    # The first and the third are over after a turn: what waits is not carried out
    expected = 2 * contribution + np.array([[0.5, 0, 0.5, 0.5], [0, 0.5, 0, 0]])
    np.testing.assert_allclose(rewards.relabel(state, rollout).reward, expected)
    # The estimator learns before it pays
    early = rewards.relabel(state._replace(ready=jnp.bool_(False)), rollout)
    np.testing.assert_array_equal(early.reward, rollout.reward)


@pytest.mark.thorough
def test_contributions_come_to_sum_to_the_completion():
    rollout = rollout_of((1, 0, 0, 1))._replace(info={"executed": DONE})
    rewards = Progress(reader(), learning_rate=1e-2, trunk_rate=1e-3, warmup=500, minibatches=2)
    told = Spec("text:game", SPACE, SPEC.action_space, horizon=2, info_names=("executed",))
    rewards.check(told)

    @jax.jit
    def run_learn(state, steps):
        state, rewards_info, metrics = rewards.learn(state, rollout, Clock(steps, jnp.float32(1000)), jax.random.key(1))
        return state, rewards_info[1], metrics

    state = rewards.init(jax.random.key(0), told, 4)
    first = run_learn(state, jnp.int32(499))
    assert not first[0].ready
    for _ in range(60):
        state, contribution, metrics = run_learn(state, jnp.int32(500))
    assert state.ready and metrics["progress_loss"] < 0.05 < first[2]["progress_loss"]
    np.testing.assert_allclose(contribution.sum(0), [1, 0, 0, 1], atol=0.35)
    assert metrics["completion"] == 0.5 and metrics["grounded"] == pytest.approx(4 / 6)
    assert not contribution[1, [0, 2]].any()  # what waits does not contribute


def test_what_is_no_text_and_has_no_verifier_is_refused():
    with pytest.raises(ForageError, match="Shorter needs text"):
        check(Shorter(), Spec("Here", gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Discrete(2)))
    with pytest.raises(ForageError, match="text:game does not return format and truth"):
        check(Format(), Spec("text:game", SPACE, Tokens(4, 30, end=29)))
    with pytest.raises(ForageError, match="text:guess"):
        check(Progress(reader()), SPEC)
    with pytest.raises(ForageError, match="equal parts"):
        Progress(reader(), minibatches=3).init(jax.random.key(0), SPEC, 4)
    with pytest.raises(ForageError, match="text:search-qa"):
        check(SearchStages(), SPEC)
    with pytest.raises(ForageError, match="reads 4"):
        check(Representation(model=Transformer(jax.random.key(0), Architecture(30, 8, 1, 2, 8, 4))), SPEC)
    with pytest.raises(ForageError, match="grpo does"):
        pay(TextCuriosity(), rollout_of()._replace(policy_info=()))
