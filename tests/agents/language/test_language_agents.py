"""Agents of language with another kind of learning than GRPO's: supervised, a critic."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from resuming_helpers import check_resumed
from test_grpo import SMALL, collect, model, run_learn
from test_relatives import act_out

from forage.agents.language.base import AnswerRows, LanguageAgent
from forage.agents.language.ppo_language import at_last, conversation, split_turns, token_gae
from forage.agents.language.sft import SFT
from forage.config.resolve import resolve
from forage.core.errors import ForageError
from forage.core.types import GUIDE, Clock
from forage.loop.device.programs import agent_only
from forage.nn.language.generate import ALONE, SharedPrefix
from forage.nn.transformer import Transformer
from forage.ops.optimiser import Masters
from forage.ops.tokens.masks import AGGREGATIONS

OPTIONS = {
    "sft": {},
    "ppo-language": {"minibatches": 2},
}


def setup_of(name: str, environment: str = "text:addition", **options):
    options = {"model": model(), "num_envs": 8} | OPTIONS[name] | options
    return resolve(name, environment, agent_options=options, steps=64, seeds=[0])


@pytest.mark.thorough
def test_references_are_written_and_become_likelier():
    setup = setup_of("sft", learning_rate=1e-3)
    decision, seen = act_out(setup, "sft")
    assert np.array_equal(decision.action, seen["reference"])
    assert (np.asarray(decision.source) == GUIDE).all()
    agent, state, batch = collect(setup)
    assert isinstance(agent, SFT)
    after, metrics, _ = run_learn(agent, state, batch)
    again = run_learn(agent, after, batch)[1]
    assert again["cross_entropy"] < metrics["cross_entropy"]
    # Untrained, every token is about as likely as any.
    assert abs(metrics["cross_entropy"] - np.log(512)) < 0.5 and metrics["taught"] == 1


def test_advantages_along_tokens_by_hand():
    # Of five columns the third was not written: the first answer's padding, say.
    wrote = jnp.array([[True, True, False, True]])
    value, price = jnp.array([[0.5, 0.25, 9.0, 0.75]]), jnp.array([[0.0, 0.1, 9.0, 0.0]])
    found = token_gae(jnp.array([[0.0, 0.0, 9.0, 1.0]]), price, value, wrote, 0.5, 0.5)
    last = 1 - 0.75
    second = -0.1 + 0.5 * 0.75 - 0.25 + 0.25 * last
    first = 0.5 * 0.25 - 0.5 + 0.25 * second
    assert np.allclose(found, [[first, second, 0, last]])
    rows = jnp.arange(12).reshape(4, 3)
    # Each turn is paid at its last token, and one that waits is not
    three = jnp.array([[True, True, False], [True, True, True], [False] * 3])
    assert at_last(jnp.array([1.0, 2.0, 3.0]), three).tolist() == [[0, 1, 0], [0, 0, 2], [0, 0, 0]]
    assert conversation(rows, 2).tolist() == [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]]
    assert np.array_equal(split_turns(conversation(rows, 2), 2), rows)


@pytest.mark.thorough
def test_a_critic_learns_what_answers_are_worth():
    setup = setup_of("ppo-language", value_coefficient=1.0, learning_rate=1e-3, value_clip=10.0, epochs=4)
    agent, state, batch = collect(setup, reward=np.ones(8))
    after, metrics, _ = run_learn(agent, state, batch)
    assert metrics["first_ratio"] == 0
    again = run_learn(agent, after, batch)[1]
    assert again["value_loss"] < metrics["value_loss"] < 0.5


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("sft", {"aggregation": "constant"}, "token-mean"),
        ("sft", {"minibatches": 4, "accumulate": 3}, "accumulate that divides them"),
        ("sft", {"dtype": "float16"}, "float32, bfloat16"),
    ],
)
def test_bad_settings_are_one_sentence(name, options, says):
    with pytest.raises(ForageError, match=says):
        setup_of(name, **options).learner().check()


@pytest.mark.thorough
@pytest.mark.parametrize("name", list(OPTIONS))
def test_resumed_is_as_if_never_stopped(name, tmp_path):
    check_resumed(tmp_path, setup_of(name).learner().agent, "text:addition", 24, 40)


@pytest.mark.parametrize(("name", "environment", "options", "world"), [("sft", "text:addition", {}, {})])
def test_a_program_for_both_kinds_of_evaluation_writes_each_answer_once(name, environment, options, world, monkeypatch):
    """Of the answers of an evaluation none is of a rollout, so they are the policy's own."""
    written = []

    def write(self, state, context, keys, temperature, new, explore, room=None):
        written.append(temperature.shape)
        assert not explore
        return jnp.where(temperature > 0, 7, 3), temperature

    monkeypatch.setattr(LanguageAgent, "write_answers", write)
    options = {"model": model(), "num_envs": 8} | options
    setup = resolve(name, environment, agent_options=options, environment_options=world, steps=64, seeds=[0])
    learner = dataclasses.replace(setup.learner(), agent=dataclasses.replace(setup.agent, temperature=0.5))
    agent = learner.agent
    shapes = jax.eval_shape(lambda key: agent.init(key, learner.spec), jax.random.key(0))
    state = agent_only(jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes))
    seen, keys = setup.environment(4).reset(0), jax.random.split(jax.random.key(0), 4)
    hidden = jax.tree.map(lambda x: jnp.broadcast_to(x, (4, *x.shape)), learner.init_hidden(explore=False))
    play = jax.jit(jax.vmap(learner.play, (None, 0, 0, 0, None)))
    first = jax.tree.map(lambda x: x[0], (hidden, seen, keys))
    for sampled, token in ((False, 3), (True, 7)):
        assert (np.asarray(play(state, hidden, seen, keys, np.bool_(sampled))[0]) == token).all()
        assert (np.asarray(learner.play(state, *first, sampled)[0]) == token).all()
    assert [rows for rows, _ in written].count(4) == 1


def test_a_class_that_overrides_acting_follows_greedy_only_where_it_says_so():
    class Silent(SFT):
        def act(self, state, inputs):
            return super().act(state, inputs)

    class Following(Silent):
        acts_either_way = True
        act = Silent.act

    assert SFT.follows_greedy() and Following.follows_greedy() and not Silent.follows_greedy()


def dtypes(tree):
    """Return the names of a tree's floating-point numbers."""
    return {leaf.dtype.name for leaf in jax.tree.leaves(tree) if "float" in leaf.dtype.name}


def test_what_learns_is_kept_in_float32_whatever_the_files_hold():
    def begin(files, **options):
        setup = resolve("grpo", "text:addition", agent_options={"model": model().astype(files), **options}, steps=64)
        agent, spec = setup.agent, setup.spec
        return agent, jax.eval_shape(lambda key: agent.init(key, spec), jax.random.key(0))

    for files in (jnp.bfloat16, jnp.float16):
        agent, state = begin(files, divergence=0.1)
        assert dtypes(state) == {"float32"} and not isinstance(state.optimiser, Masters)
        assert dtypes(agent.reference_of(state)) == {"float32"}
    for files in (jnp.bfloat16, jnp.float32):
        agent, state = begin(files, dtype="bfloat16")
        assert dtypes(state.network) == {"bfloat16"} and dtypes(state.optimiser) == {"float32"}
        assert agent.masters(state) is state.optimiser.weights
    for files, computes in ((jnp.bfloat16, "bfloat16"), (jnp.float16, "float32")):
        agent, state = begin(files, rank=2, divergence=0.1)
        adapters, frozen = agent.split_frozen(state.network)
        assert dtypes(adapters) == {"float32"} and dtypes(frozen) == {computes} and state.reference == ()
        first = jax.eval_shape(agent.reference_of, state)
        assert jax.tree.structure(first) == jax.tree.structure(jax.eval_shape(agent.base_model.first))


def test_rows_in_pieces_come_back_in_their_order():
    """12 rows are 3 turns of 4 conversations: pieces hold whole conversations, or parts of groups of 3."""
    agent = setup_of("sft", accumulate=2).agent
    rows = AnswerRows(*(jnp.arange(12).reshape(12, 1),) * 5)
    read = []

    def look(part, together):
        read.append((part.tokens.shape, together))
        return part.tokens * 2, part.there[:, 0]

    for together, piece in (
        (SharedPrefix(turns=3), SharedPrefix(turns=3)),
        (SharedPrefix(turns=3, by_turn=False), SharedPrefix(turns=3, by_turn=False)),
        (SharedPrefix(prompts=4), SharedPrefix(prompts=2)),
        (ALONE, ALONE),
    ):
        doubled, same = agent.in_pieces(look, rows, together)
        assert np.array_equal(doubled[:, 0], 2 * np.arange(12)) and np.array_equal(same, np.arange(12))
        assert read[-1] == ((6, 1), piece)


def test_the_rate_rises_and_falls():
    agent = dataclasses.replace(setup_of("sft").agent, learning_rate=1.0, warmup_share=0.5, final_learning_rate=0.0)
    steps = agent.num_envs * jnp.arange(1, 5)  # of four rollouts
    rates = [float(agent.rate(Clock(step, jnp.float32(4 * agent.num_envs)))) for step in steps]
    assert np.allclose(rates, [0.5 * 1, 1 * 0.75, 1 * 0.5, 1 * 0.25])


@pytest.mark.thorough
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_accumulated_pieces_are_one_large_batch(aggregation):
    """Answers have different lengths, so that means of pieces are not the mean of all."""
    options = {"aggregation": aggregation, "divergence": 0.1, "entropy_coefficient": 0.01, "entropy_share": 0.5}
    options |= {"model": model(), "num_envs": 8, "group_size": 4, "optimiser": "sgd", "learning_rate": 0.1}
    agent, state, batch = collect(resolve("grpo", "text:addition", agent_options=options, steps=64))
    cut = np.arange(batch.experience.action.shape[-1]) < np.array([3, 9, 4, 5, 1, 2, 8, 7])[:, None]
    experience = batch.experience._replace(
        action=jnp.where(cut, batch.experience.action, 0),
        reward=jnp.array([[1.0, 0, 0, 1, 0, 1, 0, 0]]),
    )
    batch = batch._replace(experience=experience)
    whole = run_learn(agent, state, batch)
    for minibatches in (1, 4):
        parts = dataclasses.replace(agent, minibatches=minibatches, accumulate=4)
        found = run_learn(parts, state, batch)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), found[0].network, whole[0].network)
        np.testing.assert_allclose(found[1]["policy_loss"], whole[1]["policy_loss"], atol=1e-6)


def learn_from(directory, **options):
    """Return the losses of 100 steps of the same texts, and the share of the masters that moved."""
    options |= {"learning_rate": 1e-3, "warmup_share": 0.0}
    agent, state, batch = collect(setup_of("sft", model=str(directory), **options))
    step = jax.jit(lambda state, key: agent.learn(state, batch, Clock(jnp.int32(0), jnp.float32(1000)), key)[:2])
    first, found = agent.masters(state), []
    for number in range(100):
        state, metrics = step(state, jax.random.key(number))
        found.append(float(metrics["cross_entropy"]))
    after = agent.masters(state)
    moved = [np.mean(a != b) for a, b in zip(*map(jax.tree.leaves, (first, after)), strict=True)]
    assert dtypes(after) == {"float32"}
    return np.array(found), np.mean(moved)


def save_twins(network, name, directory):
    """Save a network rounded to 16 bits, and the same numbers in float32; return both directories."""
    network.astype(name).save(directory / name)
    network.astype(name).astype(jnp.float32).save(directory / f"{name}-twin")
    return directory / name, directory / f"{name}-twin"


@pytest.mark.thorough
def test_rounded_files_learn_like_their_float32_twin(tmp_path):
    """100 steps of the same texts: in float32 they are the twin's, and in bfloat16 within 2 %."""
    rounded, whole = save_twins(model(), "bfloat16", tmp_path)
    twin, all_moved = learn_from(whole)
    assert twin[-1] < 0.8 * twin[0]
    same, moved = learn_from(rounded)
    np.testing.assert_allclose(same, twin, rtol=1e-5)
    assert moved == all_moved
    computed, moved = learn_from(rounded, dtype="bfloat16")
    np.testing.assert_allclose(computed, twin, rtol=0.02)
    assert moved > 0.9 * all_moved
    half, whole = save_twins(model(), "float16", tmp_path)
    np.testing.assert_allclose(learn_from(half)[0], learn_from(whole)[0], rtol=1e-5)


@pytest.mark.thorough
def test_another_family_learns_like_its_float32_twin(tmp_path):
    """GPT-2; `benchmarks/twins.py` has all families."""
    choices = {"family": "gpt2", "attention_bias": True, "mlp_bias": True}
    network = Transformer(jax.random.key(0), SMALL._replace(**choices))
    rounded, whole = save_twins(network, "bfloat16", tmp_path)
    twin, all_moved = learn_from(whole)
    assert twin[-1] < 0.8 * twin[0]
    computed, moved = learn_from(rounded, dtype="bfloat16")
    np.testing.assert_allclose(computed, twin, rtol=0.02)
    assert moved > 0.9 * all_moved


@pytest.mark.thorough
def test_masters_are_saved_and_resumed(tmp_path):
    check_resumed(tmp_path, setup_of("sft", dtype="bfloat16").learner().agent, "text:addition", 24, 40)
