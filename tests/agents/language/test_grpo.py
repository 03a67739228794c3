"""GRPO: sampler and learner are one distribution, right answers become likelier, and it can be stopped and resumed."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Dict
from resuming_helpers import check_resumed
from tiers import gate_cases

from forage.agents.language.base import AnswerRows, Aux, LanguageState
from forage.agents.language.grpo import GRPO, LossInputs
from forage.config.resolve import resolve
from forage.core.errors import ForageError
from forage.core.ports import ActInputs
from forage.core.spaces import Tokens
from forage.core.types import Batch, Clock, Experience, Spec
from forage.nn.language.architecture import Architecture
from forage.nn.language.generate import ALONE, SharedPrefix
from forage.nn.transformer import Transformer
from forage.ops.tokens.losses import LOSSES
from forage.ops.tokens.masks import AGGREGATIONS

SMALL = Architecture(vocabulary=520, width=16, layers=1, heads=2, inner=16, length=256)  # 8 tokens more than are known
CLOCK = Clock(jnp.int32(0), jnp.float32(1000))


def model(seed: int = 0) -> Transformer:
    return Transformer(jax.random.key(seed), SMALL)


def setup_of(environment: str = "text:addition", **options):
    options = {"model": model(), "num_envs": 8, "group_size": 4} | options
    return resolve("grpo", environment, agent_options=options, steps=64, seeds=[0])


def group_case(seen, size: int):
    """Return observations with the first prompt of each group in the whole group, as the starts `groups` give them."""
    return jax.tree.map(lambda x: np.repeat(np.asarray(x)[::size], size, axis=0), seen)


def collect(setup, reward=None, seed: int = 0):
    """Return a rollout of the policy with given rewards."""
    learner = setup.learner()
    agent, batch = learner.agent, setup.environment(learner.agent.num_envs)
    state = agent.init(jax.random.key(seed), learner.spec)
    observation, steps = group_case(batch.reset(seed), agent.group), []
    act = jax.jit(jax.vmap(lambda o, k: agent.act(state, ActInputs((), o, k, True))))
    for turn in range(agent.rollout_length):
        keys = jax.random.split(jax.random.key(seed + turn), agent.num_envs)
        seen = jax.tree.map(jnp.asarray, observation)
        action, _, policy_info = act(seen, keys)
        step = batch.step(np.asarray(action)).step
        paid = step.reward if reward is None else np.asarray(reward, np.float32)
        source = np.zeros(agent.num_envs, np.int32)
        steps.append(
            Experience(
                observation, action, paid, step.observation, step.terminated, step.truncated, source, policy_info
            )
        )
        observation = step.observation
    experience = jax.tree.map(lambda *x: jnp.stack([jnp.asarray(one) for one in x]), *steps)
    return agent, state, Batch(experience, jnp.ones(agent.num_envs), jnp.arange(agent.num_envs))


def run_learn(agent, state, batch):
    return jax.jit(lambda *told: agent.learn(*told, CLOCK, jax.random.key(1)))(state, batch)


SAMPLERS = [{}, {"temperature": 0.7}, {"top_k": 5}, {"top_p": 0.8}, {"min_p": 0.05, "temperature": 1.3}]
SAMPLERS += [{"temperature": 0.8, "top_k": 50, "top_p": 0.9, "min_p": 0.01}]


@pytest.mark.parametrize("sampler", gate_cases(SAMPLERS, [SAMPLERS[3]]))
def test_the_sampler_is_the_policy(sampler):
    agent, state, batch = collect(setup_of(minibatches=2, epochs=2, **sampler))
    _, metrics, _ = run_learn(agent, state, batch)
    assert metrics["first_ratio"] == 0
    assert metrics["sampler_gap"] < 1e-5
    rows = agent.rows(batch)
    assert np.array_equal(rows.sampled != 0, rows.wrote & (np.asarray(rows.sampled) != 0))
    assert (np.asarray(rows.wrote).sum(1) > 0).all()
    assert (np.asarray(rows.tokens) < 512).all()  # what the tokenizer does not know is masked, and not part of it


@pytest.mark.thorough
def test_a_prompt_that_a_group_shares_is_read_once_and_nothing_else_changes(monkeypatch):
    agent, state, batch = collect(setup_of(divergence=0.1, epochs=2, learning_rate=1e-3), reward=[1, 0, 0, 0] * 2)
    rows = agent.rows(batch)
    assert agent.shared_prefix(rows) == SharedPrefix(prompts=4)
    shared = run_learn(agent, state, batch)
    monkeypatch.setattr(GRPO, "shared_prefix", lambda self, rows: ALONE)
    alone = run_learn(agent, state, batch)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), shared[0].network, alone[0].network)
    for name in ("policy_loss", "entropy", "divergence", "moved"):
        np.testing.assert_allclose(shared[1][name], alone[1][name], rtol=1e-4, atol=1e-6)
    assert shared[1]["first_ratio"] == 0


def test_what_rows_have_in_common_is_read_once_only_where_they_stand_in_the_rollouts_order():
    agent = GRPO(model=model(), num_envs=8, group_size=4)
    rollout, longer, turns = (AnswerRows(*[np.zeros((count, 3))] * len(AnswerRows._fields)) for count in (8, 12, 16))
    assert agent.shared_prefix(rollout) == SharedPrefix(prompts=4)
    assert agent.shared_prefix(longer) == ALONE  # such as older answers behind the rollout's
    assert dataclasses.replace(agent, rollout_length=2).shared_prefix(turns) == SharedPrefix(turns=2)
    for options in ({"rollout_length": 2}, {"minibatches": 2}):
        assert dataclasses.replace(agent, **options).shared_prefix(rollout) == ALONE


def test_the_loop_begins_all_of_a_group_with_one_prompt():
    """Were one of another prompt among them, the learner would score its answer after words it was not asked."""
    runner = setup_of().runner()
    runner.begin()
    assert runner.advance(2).metrics["sampler_gap"] < 1e-5


def test_each_of_several_tokens_ends_an_answer():
    """Two of the three tokens in use end an answer, and only padding follows either of them."""
    agent = GRPO(model=model(), num_envs=8, group_size=4)
    spaces = {"context": Tokens(4, 521), "reference": Tokens(6, 521)}
    spec = Spec("text", Dict(spaces), Tokens(6, 521, end=(2, 3)), horizon=1)
    state = agent.init(jax.random.key(0), spec)
    assert state.end.tolist() == [1, 2]
    state = state._replace(known=jnp.isin(jnp.arange(520), jnp.array([1, 2, 9])))
    seen = {"context": jnp.full((64, 4), 5, jnp.int32), "reference": jnp.zeros((64, 6), jnp.int32)}
    keys = jax.random.split(jax.random.key(1), 64)
    action = np.asarray(jax.jit(jax.vmap(lambda o, k: agent.act(state, ActInputs((), o, k, True))[0]))(seen, keys))
    text = ["".join({0: ".", 2: "E", 3: "F", 10: "9"}[token] for token in row) for row in action]
    assert {len(row.rstrip(".")) for row in text} > {1, 2}
    for row in text:
        first = min((row.find(end) for end in "EF" if end in row), default=5)
        assert set(row[:first]) <= {"9"} and set(row[first + 1 :]) <= {"."}
    assert any("E" in row for row in text) and any("F" in row for row in text)


@pytest.mark.thorough
def test_answers_side_by_side_are_those_of_one_alone():
    setup = setup_of(temperature=1.0)
    learner = setup.learner()
    state = learner.agent.init(jax.random.key(0), learner.spec)
    seen = jax.tree.map(jnp.asarray, setup.environment(4).reset(0))
    keys = jax.random.split(jax.random.key(3), 4)
    together, _, _ = jax.vmap(lambda o, k: learner.agent.act(state, ActInputs((), o, k, False)))(seen, keys)
    alone = [
        learner.agent.act(state, ActInputs((), jax.tree.map(lambda x, i=i: x[i], seen), keys[i], False))[0]
        for i in range(4)
    ]
    assert np.array_equal(together, np.stack(alone))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.thorough
def test_a_right_answer_becomes_likelier_and_a_wrong_one_less_likely(loss):
    agent, state, batch = collect(setup_of(loss=loss, learning_rate=1e-3), reward=[1, 0, 0, 0, 0, 0, 0, 0])
    after, metrics, _ = run_learn(agent, state, batch)
    rows = agent.rows(batch)
    change = (
        agent.score_tokens(after.network, state, rows)[0] - agent.score_tokens(state.network, state, rows)[0]
    ) * rows.wrote
    change = np.asarray(change.sum(1))
    assert change[0] > 0 > change[1:4].mean()
    assert metrics["zero_variance"] == 0.5


@pytest.mark.parametrize("aggregation", gate_cases(AGGREGATIONS, ["constant"]))
def test_a_group_of_one_reward_teaches_nothing(aggregation):
    agent, state, batch = collect(setup_of(aggregation=aggregation, zero_variance_groups="drop"), reward=np.ones(8))
    after, metrics, _ = run_learn(agent, state, batch)
    assert jax.tree.all(jax.tree.map(np.array_equal, after.network, state.network))
    assert metrics["zero_variance"] == 1


def test_nothing_flows_through_tokens_that_others_wrote():
    agent, state, batch = collect(setup_of("text:guess"), reward=[1, 0, 0, 0, 1, 0, 0, 0])
    experience = batch.experience
    # The same answers, with other words after their end and other references.
    junk = jnp.where(experience.observation["reference"] > 0, 7, 9)
    other = experience._replace(observation=experience.observation | {"reference": junk})
    learn = jax.jit(lambda batch: agent.learn(state, batch, CLOCK, jax.random.key(1))[0].network)
    one, two = learn(batch), learn(batch._replace(experience=other))
    assert jax.tree.all(jax.tree.map(np.array_equal, one, two))
    lesson = agent.rows(batch)
    assert not np.asarray(lesson.wrote)[np.asarray(experience.action.reshape(lesson.wrote.shape)) == 0].any()


def test_no_gradient_flows_through_what_others_wrote(monkeypatch):
    """The network's scores of a tool's tokens or of padding do not change the loss, and their gradient is 0."""
    monkeypatch.setattr(GRPO, "score_tokens", lambda self, network, state, rows, together: network)
    wrote = jnp.array([[1, 1, 0, 0], [0, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1]], bool)
    old = jnp.linspace(-3, -1, 16).reshape(4, 4)
    tokens, ones = jnp.zeros((4, 6), int), jnp.ones((4, 4))
    rows = AnswerRows(tokens, tokens == 0, wrote, old, ones)
    lesson = LossInputs(rows, jnp.array([[1.0], [-1.0], [1.0], [0.5]]), ones[0], old, 0 * old)
    state = LanguageState(model(), (), (), jnp.int32(1), jnp.ones(520, bool))
    agent = GRPO(model=model(), entropy_coefficient=0.1, num_envs=4, group_size=2)

    def loss(said):
        return agent.objective(said, state, lesson, jnp.bool_(True))[0]

    clean = old + 0.1, 2 * ones
    odd = jnp.where(wrote, clean[0], -jnp.inf), jnp.where(wrote, clean[1], 9.0)
    value, slopes = jax.value_and_grad(loss)(odd)
    assert value == loss(clean)
    for slope in map(np.asarray, slopes):
        assert (slope[~wrote] == 0).all() and (slope[wrote] != 0).all()


@pytest.mark.thorough
def test_the_first_policy_is_kept_to_compare_with():
    agent, state, batch = collect(setup_of(divergence=0.1, epochs=3), reward=[1, 0, 0, 0, 0, 0, 0, 0])
    after, metrics, _ = run_learn(agent, state, batch)
    assert metrics["divergence"] > 0
    assert jax.tree.all(jax.tree.map(np.array_equal, after.reference, state.network))


@pytest.mark.thorough
@pytest.mark.thorough
def test_adapters_learn_alone():
    agent, state, batch = collect(setup_of(rank=2, epochs=2), reward=[1, 0, 0, 0, 0, 0, 0, 0])
    after, _, _ = run_learn(agent, state, batch)
    block, before = after.network.blocks[0].queries, state.network.blocks[0].queries
    assert (block.weight == before.weight).all() and (block.lora_b != before.lora_b).any()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"advantage": "grop"}, "grpo"),
        ({"loss": "klip"}, "clip"),
        ({"loss": "gspo", "ratio_cap": 2.0}, "gspo has no ratio_cap"),
        ({"num_envs": 10}, "12"),
        ({"minibatches": 3}, "equal minibatches"),
        ({"advantage": "pass@k", "best_of": 9}, "2 to 4"),
        ({"model": "nowhere"}, "nowhere"),
    ],
)
def test_bad_settings_are_one_sentence(options, says):
    with pytest.raises(ForageError, match=says):
        setup_of(**options).runner()


def test_other_environments_and_starts_are_refused():
    with pytest.raises(ForageError, match="needs text"):
        setup_of("gymnasium:CartPole-v1").runner()
    with pytest.raises(ForageError, match="starts groups"):
        resolve("grpo", "text:addition", agent_options={"model": model()}, starts="reset").runner()
    small = SMALL._replace(vocabulary=99)
    with pytest.raises(ForageError, match="tokenizer"):
        setup_of(model=Transformer(jax.random.key(0), small)).runner()


@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped(tmp_path):
    agent = GRPO(model=model(), rollout_length=4, num_envs=8, group_size=4, minibatches=2)
    check_resumed(tmp_path, agent, "text:guess", 64, 128)


def test_clipped_tokens_are_those_beyond_the_bound_of_their_advantage():
    agent = GRPO(clip_high=0.3)
    ratio, mask = np.float32([[1.25, 1.35, 0.7, 0.5], [1.35, 0.7, 0.85, 0.1]]), np.ones((2, 4), bool)
    mask[1, 3] = False
    # Above 1.3 where the advantage is positive, below 0.8 where it is negative: one of four and one of three.
    np.testing.assert_allclose(agent.clip_share(ratio, np.float32([[1], [-1]]), jnp.asarray(mask)), 2 / 7, rtol=1e-6)


def test_answers_without_an_end_teach_nothing_if_they_are_masked():
    tokens, nothing = np.ones((1, 2, 3), np.int32), np.zeros((1, 2, 3), np.float32)
    one = np.zeros((1, 2), np.float32)
    source, info = np.zeros((1, 2), np.int32), {"unfinished": np.float32([[1, 0]])}
    seen = {"context": tokens, "reference": tokens}
    experience = Experience(seen, tokens, one, seen, one > 1, one > 1, source, Aux(nothing, nothing), info=info)
    batch = Batch(jax.tree.map(jnp.asarray, experience), jnp.ones(2), jnp.arange(2))
    for mask, weight in ((True, [0, 1]), (False, [1, 1])):
        assert GRPO(num_envs=2, mask_unfinished=mask).collect_answers(batch).weight.tolist() == weight
