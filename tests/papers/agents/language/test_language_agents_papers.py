"""Agents of papers for language with another kind of learning than GRPO's: evolution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_language_agents as core
from test_grpo import collect, run_learn
from test_language_agents import setup_of
from tiers import repeat

from forage_papers.agents.language.evolution import LanguageES

OPTIONS = {"language-es": {"population": 4, "sigma": 0.02, "learning_rate": 0.02}}
core.OPTIONS |= OPTIONS
test_bad_settings_are_one_sentence = repeat(
    core.test_bad_settings_are_one_sentence,
    [("language-es", {"population": 5, "num_envs": 10}, "odd"), ("language-es", {"epochs": 2}, "once")],
)
test_resumed_is_as_if_never_stopped = repeat(core.test_resumed_is_as_if_never_stopped, OPTIONS)
GROUPS = {"group_size": 4, "minibatches": 1}
test_a_program_for_both_kinds_of_evaluation_writes_each_answer_once = pytest.mark.thorough(
    repeat(
        core.test_a_program_for_both_kinds_of_evaluation_writes_each_answer_once,
        [
            ("language-es", "text:addition", OPTIONS["language-es"], {}),
            ("eepo", "text:addition", GROUPS, {}),
            ("at-grpo", "text:addition", GROUPS, {}),
            (
                "attn-rl",
                "text:addition",
                {"group_size": 2, "minibatches": 1, "places": 1, "times": 1},
                {"branches": True},
            ),
            ("archer", "text:guess", {"learning_starts": 8}, {}),
        ],
    )
)


@pytest.mark.thorough
def test_members_have_opposite_noise_and_the_better_is_followed():
    agent, state, batch = collect(setup_of("language-es"), reward=[1, 0, 0, 0, 1, 0, 0, 0])
    assert isinstance(agent, LanguageES)
    first, second = (agent.member_noise(state.network, state.seed, jnp.int32(number)) for number in (0, 1))
    assert jax.tree.all(jax.tree.map(lambda a, b: np.array_equal(a, -np.asarray(b)), first, second))
    after, metrics, _ = run_learn(agent, state, batch)
    assert metrics["best_member"] == 1 and np.isclose(metrics["spread"], np.std([1, 0, 0, 0]))
    # z is (3, -1, -1, -1) / sqrt 3; of the other pair nothing is left, and of the first 4 / sqrt 3.
    moved = jax.tree.map(lambda a, b: a - b, after.network, state.network)
    expected = jax.tree.map(lambda e: 0.02 / 4 * (4 / np.sqrt(3)) * e, first)
    assert jax.tree.all(jax.tree.map(lambda a, b: bool(np.allclose(a, b, atol=1e-5)), moved, expected))
    assert not np.array_equal(after.seed, state.seed)


@pytest.mark.thorough
def test_members_write_their_own_answers():
    setup = setup_of("language-es", sigma=1.0)
    _, _, batch = collect(setup)
    action = np.asarray(batch.experience.action[0]).reshape(2, 4, -1)
    assert any((action[:, 0] != action[:, other]).any() for other in (1, 2, 3))
    quiet = setup_of("language-es", sigma=1e-9)
    action = np.asarray(collect(quiet)[2].experience.action[0]).reshape(2, 4, -1)
    assert (action == action[:, :1]).all()
