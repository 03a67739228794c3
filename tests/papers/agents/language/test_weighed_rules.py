"""Relatives of GRPO that weigh answers, tokens, entropies and teachers by a rule of their own."""

import jax.numpy as jnp
import pytest
import test_relatives as core
from tiers import repeat

RULES = ["siren", "egsw", "prioritised-kl", "pacs", "grao", "velocity-rank"]
"""Relatives with a rule of their own."""
test_every_rule_learns_from_several_steps = repeat(core.test_every_rule_learns_from_several_steps, RULES)
test_resumed_is_as_if_never_stopped = repeat(core.test_resumed_is_as_if_never_stopped, RULES)
test_bad_settings_are_one_sentence = repeat(
    core.test_bad_settings_are_one_sentence,
    [
        ("egsw", {"weighted": "tokens", "loss": "gmpo"}, "gmpo"),
        ("prioritised-kl", {"divergence": 0.0}, "above 0"),
        ("prioritised-kl", {"measure": "entropy"}, "largest, negentropy"),
    ],
)


@pytest.fixture(autouse=True)
def even_answers(monkeypatch):
    """Random weights are never right, so that PACS takes answers with an even first token to be."""
    even = lambda experience: (experience.action % 2 == 0)[0, :, 0].astype(jnp.float32)  # noqa: E731
    monkeypatch.setattr("forage_papers.agents.language.pacs.outcomes", even)
