"""Answers in the order of their novelty: by hand, and of a run."""

import jax
import numpy as np
import pytest
from test_grpo import SMALL

import forage
from forage.agents.language.grpo import GRPO
from forage.nn.transformer import Transformer
from forage.studies.choosing import choose
from forage_papers.studies.diverse import novel_order


def test_the_next_answer_is_unlike_those_before():
    features = np.array([[2.0, 0], [1.9, 0], [0, 1], [0, 0.1]])
    # After (2, 0) with a ridge of 1 the second is worth 3.61 / 5, and (0, 1) is worth 1
    assert novel_order(features, 1.0).tolist() == [0, 2, 1, 3]
    # With a large ridge nothing that was seen counts, and the longest come first
    assert novel_order(features, 1e6).tolist() == [0, 1, 2, 3]
    random = np.random.default_rng(0).normal(size=(6, 3))
    found = novel_order(random, 0.5)
    for place, taken in enumerate(found):
        seen = random[found[:place]]
        bonus = np.diag(random @ np.linalg.inv(0.5 * np.eye(3) + seen.T @ seen) @ random.T)
        assert taken == max(found[place:], key=bonus.__getitem__)


@pytest.mark.thorough
def test_answers_of_a_run_are_tried_by_novelty(tmp_path):
    Transformer(jax.random.key(0), SMALL).save(tmp_path / "model")
    agent = GRPO(model=str(tmp_path / "model"), num_envs=8, group_size=4)
    given = {"environment_options": {"response": 12}, "steps": 8, "display": "quiet", "evaluation_episodes": 1}
    run = forage.train(agent, "text:addition", directory=tmp_path / "run", **given)
    found = choose(run.directory, "forage_papers.studies.diverse:Diverse", 4, problems=3)
    assert found.choosing.chosen.value[-1] == found.choosing.random.value[-1]
