"""GRPO's relatives: each is GRPO with its fields, or has one rule of its own that is worked by hand here."""

import dataclasses
import functools
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from resuming_helpers import check_resumed
from small import compute
from test_grpo import CLOCK, collect, model, run_learn
from test_grpo import SMALL as SIZES

from forage.agents.language.base import AnswerRows, Aux, LanguageState, fit_vocabulary
from forage.agents.language.distill import Distill
from forage.agents.language.grpo import GRPO, LossInputs
from forage.agents.language.kl_penalty import penalty_to_go, token_advantages
from forage.agents.settings import DAPO, SETTINGS
from forage.config.part_data import from_config, to_config
from forage.config.registry import part_class
from forage.config.resolve import resolve
from forage.core.errors import ForageError
from forage.core.types import OUTCOME, Batch, Experience
from forage.nn.transformer import Transformer

CHOICES = [
    *("dr-grpo", "dapo", "rloo", "reinforce-plus-plus", "reinforce-plus-plus-baseline", "gspo", "cispo"),
    *("gmpo", "sapo"),
]
"""Relatives that change defaults alone."""

RULES = ["distill"]
"""Relatives with a rule of their own."""

SMALL = {"num_envs": 8, "group_size": 4, "minibatches": 1, "epochs": 1}
OWN: dict[str, dict[str, Any]] = {}
"""Options of single relatives; tests of a package of parts add to them."""
REWARD = [1, 0, 0, 0, 1, 1, 0, 1]


def setup_of(name: str, environment: str = "text:addition", **options):
    options = {"model": model()} | SMALL | OWN.get(name, {}) | options
    if name == "distill":
        options = {"teacher": model(1)} | options
    return resolve(name, environment, agent_options=options, steps=64, seeds=[0])


def same(one, two) -> bool:
    return jax.tree.all(jax.tree.map(np.array_equal, one, two))


def check_choices(choices, settings):
    """Check that the choices are the rows of GRPO in a table of named settings."""
    rows = {name for name, row in settings.items() if row.base.endswith(":GRPO")}
    assert {part_class("agent", name).__name__ for name in choices} == rows


def test_every_choice_is_a_row_of_the_named_settings():
    check_choices(CHOICES, SETTINGS)


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.thorough
def test_a_relative_is_grpo_with_its_fields(name):
    agent, state, batch = collect(setup_of(name), reward=REWARD)
    fields = {field.name: getattr(agent, field.name) for field in dataclasses.fields(agent)}
    one, two = (run_learn(each, state, batch) for each in (agent, GRPO(**fields)))
    assert same(one[0].network, two[0].network) and one[1] == two[1]
    assert not same(one[0].network, state.network)


def test_the_price_of_a_divergence_by_hand():
    # Two turns of one conversation, two tokens each; the last one of the first turn was not written.
    old, first = jnp.array([[1.0, 9.0], [2.0, 4.0]]), jnp.array([[0.5, 0.0], [1.0, 1.0]])
    wrote = np.array([[True, False], [True, True]])
    price = compute(lambda: penalty_to_go(old, first, wrote, turns=2))
    assert price.tolist() == [[4.5, 4.0], [4.0, 3.0]]
    given = np.float32([1, 1]), 0.5 * price, np.float32([0.5, 0.5]), wrote
    rules = ("none", "remax", "reinforce++")
    plain, remax, whole = compute(lambda *given: [token_advantages(rule, *given) for rule in rules], *given)
    assert plain.tolist() == [[-1.25, 0], [-1.0, -0.5]]
    assert remax.tolist() == [[-1.75, 0], [-1.5, -1.0]]
    written = np.array([-1.25, -1.0, -0.5])
    assert np.allclose(whole[wrote], (written - written.mean()) / written.std(ddof=1), atol=1e-6)


X = np.float32([[0.5, -1, 0.2], [0.6, 0, 0]])  # log pi - log pi_first of two answers, of three tokens and of one
WROTE = np.array([[True] * 3, [True, False, False]])
K2, K3 = X, 1 - np.exp(-X)  # how the estimators rise with log pi
TOKENS, ANSWERS, LENGTH = 1 / 4, np.array([[1 / 6], [1 / 2]]), 1 / 6  # what a token counts by each aggregation


@pytest.mark.parametrize(
    ("name", "options", "slope"),
    [
        ("grpo", {}, K3 * ANSWERS),
        ("grpo", {"estimator": "k2"}, K2 * ANSWERS),
        ("grpo", {"estimator": "k3", "aggregation": "token-mean"}, K3 * TOKENS),
        ("dr-grpo", {}, K3 * LENGTH),
        ("dr-grpo", {"estimator": "k2"}, K2 * LENGTH),
        ("dapo", {}, K3 * TOKENS),
        ("gspo", {}, K3 * ANSWERS),
        ("reinforce-plus-plus-baseline", {}, K2 * TOKENS),
        ("distill", {}, K2 * TOKENS),
        ("distill", {"estimator": "k3", "aggregation": "sequence-mean"}, K3 * ANSWERS),
        ("rloo", {}, 0 * X),  # a price in the reward has no gradient of its own
        ("reinforce-plus-plus", {}, 0 * X),
    ],
)
def test_a_divergence_moves_the_policy_as_its_estimator_does(name, options, slope, monkeypatch):
    """With advantages of zero, the gradient of the loss is that of the divergence alone."""
    monkeypatch.setattr(GRPO, "score_tokens", lambda self, network, state, rows, together: (network, 0 * network))
    own = {"teacher": model(1)} if name == "distill" else {}
    agent = part_class("agent", name)(model=model(), num_envs=2, divergence=0.5, **own, **options)
    tokens, first = jnp.zeros((2, 5), int), jnp.full((2, 3), -1.0)
    rows = AnswerRows(tokens, tokens == 0, jnp.asarray(WROTE), first, jnp.ones((2, 3)))
    lesson = LossInputs(rows, jnp.zeros((2, 1)), jnp.ones(2), first, first)
    state = LanguageState(model(), (), model(), jnp.int32(1), jnp.ones(520, bool))
    found = compute(jax.grad(lambda now: agent.objective(now, state, lesson, jnp.bool_(True))[0]), first + X)
    np.testing.assert_allclose(found, 0.5 * slope * WROTE, atol=1e-6)


def test_estimators_are_those_whose_gradient_is_right():
    with pytest.raises(ForageError, match=r"only adds noise.*take k3 or k2"):
        setup_of("grpo", estimator="k1", divergence=0.1).learner().check()
    with pytest.raises(ForageError, match=r"estimated by k1.*leave out estimator"):
        setup_of("rloo", estimator="k3").learner().check()
    setup_of("rloo", estimator="k1").learner().check()


def test_stored_runs_with_an_estimator_of_before_are_read():
    """k1 in the loss had the gradient of k2, and with a penalty in the reward every estimator was k1."""
    for name, told, known in (("grpo", "k1", "k2"), ("grpo", "k3", "k3"), ("rloo", "k3", "k1")):
        stored = to_config(part_class("agent", name)()) | {"estimator": told}
        assert from_config(stored).estimator == known


def lengthy(reward, lengths, info=None, **options):
    """DAPO, and one group of answers of such lengths, of 100 at most."""
    agent = DAPO(model=model(), num_envs=4, group_size=4, **options)
    action = jnp.where(jnp.arange(100) < jnp.array(lengths)[:, None], 5, 0)[None]
    seen = {"context": jnp.ones((1, 4, 2), jnp.int32), "reference": jnp.zeros_like(action)}
    flags, source = jnp.ones((1, 4), bool), jnp.zeros((1, 4), jnp.int32)
    policy_info = Aux(jnp.zeros(action.shape), jnp.ones(action.shape))
    paid = jnp.array([reward], jnp.float32)
    experience = Experience(seen, action, paid, seen, flags, flags, source, policy_info)
    return agent, Batch(experience._replace(info=info or {}), jnp.ones(4), jnp.arange(4))


def test_groups_are_dropped_by_what_is_right_and_not_by_their_lengths():
    """Shorter answers are not better if all are wrong, even if a rewards part subtracts a price of length."""
    lengths = [60, 92, 100, 70]  # the last fifth of 100 costs 0, 0.6, 1 and 0
    shorter = [0.9, 0.5, 0.4, 0.8]  # as a rewards part pays, whatever is right

    @functools.partial(jax.jit, static_argnames="told")
    def assign(reward, right, told):
        agent, batch = lengthy(reward, lengths, {"truth": right[None]} if told == "truth" else None)
        if told == OUTCOME:
            batch = batch._replace(experience=batch.experience._replace(rewards={OUTCOME: right[None]}))
        paid = agent.penalised_rewards(batch, agent.rows(batch)).reshape(1, 4)
        return agent.assign_credit(batch, agent.collect_answers(batch), paid)

    def weights(reward, right, told="truth"):
        lesson = assign(jnp.array(reward, jnp.float32), jnp.array(right, jnp.float32), told)
        assert np.any(lesson.advantage)
        return lesson.weight.tolist()

    wrong, right, mixed = [0] * 4, [1] * 4, [0, 1, 0, 0]
    assert weights(wrong, wrong, "") == weights(right, right) == weights(shorter, right) == [0] * 4
    assert weights(shorter, wrong, OUTCOME) == [0] * 4
    assert weights(mixed, mixed, "") == weights(shorter, mixed) == [1] * 4
    # A verifier that did not say is no verdict of "wrong"
    assert weights([0, 1, 0, 0], [np.nan] * 4) == [1] * 4


def test_dapo_pays_less_for_long_answers_that_are_right():
    def pay():
        agent, batch = lengthy([1, 1, 0, 0], [60, 92, 100, 70])
        return agent.penalised_rewards(batch, agent.rows(batch))

    np.testing.assert_allclose(compute(pay), [1, 0.4, -1, 0], atol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("placement", ["reward-sequence", "reward-token"])
def test_a_divergence_in_the_reward_costs_nothing_at_first(placement):
    """Rewards are unchanged under the first policy; once it has moved, likelier tokens cost their answers reward."""
    advantage = {"reward-sequence": "dr-grpo", "reward-token": "none"}[placement]
    setup = setup_of("grpo", divergence=0.5, kl_placement=placement, advantage=advantage)
    agent, state, batch = collect(setup, reward=REWARD)
    grouped = jnp.array(REWARD, jnp.float32).reshape(2, 4)
    lesson = agent.assign_credit(batch, agent.with_log_probabilities(state, agent.collect_answers(batch)), grouped)
    free = dataclasses.replace(agent, divergence=0.0).assign_credit(batch, agent.collect_answers(batch), grouped)
    assert np.allclose(lesson.advantage, jnp.where(lesson.advantage == 0, 0, free.advantage), atol=1e-5)
    gathered = agent.collect_answers(batch)
    moved = gathered._replace(old=gathered.old + 0.1 * (jnp.arange(8) == 1)[:, None], reference=gathered.old)
    each = agent.assign_credit(batch, moved, grouped).advantage[:, 0]
    assert each[1] < lesson.advantage[1, 0] and each[2] >= lesson.advantage[2, 0] - 1e-5


def act_out(setup, name: str):
    """Return the temperature, the source and the tokens of a rollout's answers as its behaviour chooses them."""
    from forage.core.ports import ActContext, HiddenState

    learner = setup.learner()
    agent = learner.agent
    state = agent.init(jax.random.key(0), learner.spec)
    seen = jax.tree.map(jnp.asarray, setup.environment(agent.num_envs).reset(0))

    def one(observation, key, who):
        moment = ActContext(agent, state, learner.spec, CLOCK, key, who)
        return learner.behaviour.act((), HiddenState(()), observation, moment)

    keys = jax.random.split(jax.random.key(1), agent.num_envs)
    decision = jax.jit(jax.vmap(one))(seen, keys, jnp.arange(agent.num_envs))
    return decision, seen


@pytest.mark.parametrize("name", ["expert-text"])
def test_behaviours_of_text_say_what_they_need(name):
    with pytest.raises(ForageError, match="text"):
        resolve("ppo", "CartPole-v1", behaviour=name, steps=64, seeds=[0]).learner().check()


@pytest.mark.thorough
@pytest.mark.parametrize("over", ["tokens", "vocabulary"])
def test_a_student_comes_to_resemble_its_teacher(over):
    setup = setup_of("distill", over=over, reward_share=0.0, divergence=1.0, learning_rate=1e-3, epochs=3)
    agent, state, batch = collect(setup, reward=np.zeros(8))
    assert isinstance(agent, Distill)
    assert same(state.reference, agent.teacher.first())
    after, metrics, _ = run_learn(agent, state, batch)
    again = run_learn(agent, after, batch)[1]
    assert metrics["divergence"] > 0
    if over == "vocabulary":
        assert again["divergence"] < metrics["divergence"]


def test_a_teacher_is_another_one():
    with pytest.raises(ForageError, match="nothing to learn"):
        resolve("distill", "text:addition", steps=64, seeds=[0]).learner().check()


def widen_vocabulary(network: Transformer, vocabulary: int) -> Transformer:
    """Return a model with as many more entries of its vocabulary, which have vectors of their own."""
    like = small_vocabulary(vocabulary)
    table, *others = jax.tree.leaves(network)
    more = np.ones((vocabulary - len(table), table.shape[1]), np.float32)
    return jax.tree.unflatten(jax.tree.structure(like), [jnp.concatenate([table, more]), *others])


def small_vocabulary(size: int) -> Transformer:
    """Return shapes of a model with another vocabulary."""
    return jax.eval_shape(lambda: Transformer(jax.random.key(1), SIZES._replace(vocabulary=size)))


def test_a_teacher_may_have_a_vocabulary_of_another_size():
    known = jnp.arange(4) < 3
    for size, expected in ((2, [1, 1]), (4, [1, 1, 1, 0]), (6, [1, 1, 1, 0, 0, 0])):
        like = SimpleNamespace(architecture=SimpleNamespace(vocabulary=size))
        assert fit_vocabulary(known, like).tolist() == expected
    with pytest.raises(ForageError, match=r"knows 100 tokens and the tokenizer of text:addition has \d+"):
        setup_of("distill", teacher=small_vocabulary(100)).learner().check()
    setup_of("distill", teacher=small_vocabulary(600)).learner().check()


@pytest.mark.thorough
@pytest.mark.parametrize("over", ["tokens", "vocabulary"])
def test_padding_of_a_vocabulary_changes_nothing(over):
    options = {"over": over, "reward_share": 0.0, "divergence": 1.0}
    found = []
    for student, teacher in (
        (model(), model(1)),
        (model(), widen_vocabulary(model(1), 600)),
        (widen_vocabulary(model(), 600), model(1)),
    ):
        setup = setup_of("distill", model=student, teacher=teacher, **options)
        agent, state, batch = collect(setup, reward=np.zeros(8))
        found.append((batch.experience.action, run_learn(agent, state, batch)[1]["divergence"]))
    assert found[0][1] > 0
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-4)
    agent, state, batch = collect(setup, reward=np.zeros(8))  # the last one's rollout, once more without the padding
    bare = setup_of("distill", teacher=model(1), **options).learner().agent
    state = state._replace(network=model(), known=state.known[:520], optimiser=bare.steps(1.0).init(model()))
    np.testing.assert_allclose(run_learn(bare, state, batch)[1]["divergence"], found[2][1], rtol=1e-4)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.thorough
def test_every_rule_learns_from_several_steps(name):
    options = {"epochs": 2, "minibatches": 2} if name != "distill" else {"minibatches": 2}
    agent, state, batch = collect(setup_of(name, **options), reward=REWARD)
    after, metrics, _ = run_learn(agent, state, batch)
    assert not same(after.network, state.network)
    assert all(np.isfinite(value) for value in metrics.values()), metrics
    assert metrics["first_ratio"] == 0


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("rloo", {"kl_placement": "reward-token"}, "reward-sequence"),
        ("grpo", {"advantage": "remax"}, "use the agent remax"),
        ("grpo", {"kl_placement": "rewards"}, "loss, reward-sequence, reward-token"),
        ("distill", {"over": "letters"}, "tokens, vocabulary"),
    ],
)
def test_bad_settings_are_one_sentence(name, options, says):
    with pytest.raises(ForageError, match=says):
        setup_of(name, **options).learner().check()


@pytest.mark.thorough
@pytest.mark.parametrize("name", CHOICES + RULES)
def test_resumed_is_as_if_never_stopped(name, tmp_path):
    check_resumed(tmp_path, setup_of(name).learner().agent, "text:addition", 24, 40)
