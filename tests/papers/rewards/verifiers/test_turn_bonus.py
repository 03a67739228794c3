"""A bonus for turns that is annealed away, worked by hand."""

import jax.numpy as jnp
import numpy as np
import pytest
from test_verifiers import rollout_of

from forage.core.schedule import Schedule, at_fraction
from forage_papers.rewards.verifiers.turn_bonus import TurnBonus


def test_turns_are_paid_for_at_first():
    rollout = rollout_of()
    turns = jnp.array([[np.nan] * 4, [1, 2, 1, 20]], jnp.float32)
    rollout = rollout._replace(info={**rollout.info, "turns": turns})
    given = TurnBonus().relabel((), rollout).reward
    # Episodes 0 and 2 are over after a turn; 20 turns bring as much as 10
    np.testing.assert_allclose(given, rollout.reward + np.array([[0.1, 0, 0.1, 0], [0, 0.2, 0, 1.0]]), rtol=1e-6)
    part = TurnBonus(coefficient=Schedule("cosine:1,0,0.5"))  # type: ignore[arg-type]
    factors = [float(at_fraction(part, fraction).coefficient) for fraction in (0.0, 0.125, 0.25, 0.5, 1.0)]
    assert factors == pytest.approx([1, (1 + np.cos(np.pi / 4)) / 2, 0.5, 0, 0], abs=1e-6)
