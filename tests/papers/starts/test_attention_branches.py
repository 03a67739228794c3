"""Attention branches: the branched answers and places, and the number of new prompts."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check

from forage.core.types import ForageError
from forage.environments.text.environment import TextEnvironment
from forage.loop.host.starts import HostedEnvironment, HostStarts
from forage.tasks.same import Same
from forage_papers.starts.attention_branches import AttentionBranches

ENVS = 12


class Aux(NamedTuple):
    influence: Any


def begin(**options: Any) -> tuple[TextEnvironment, HostStarts, np.ndarray]:
    environment = TextEnvironment("addition", ENVS, level=1, branches=True)
    part = AttentionBranches(size=2, places=1, times=2, **options)
    starts = HostStarts(part, environment, environment.spec, seed=0)
    return environment, starts, starts.first(environment.reset(0))["context"]


def answers(environment: TextEnvironment) -> np.ndarray:
    answer = np.zeros((ENVS, environment.longest), np.int32)
    answer[:, :6] = np.arange(20, 20 + 6 * ENVS).reshape(ENVS, 6)
    answer[:, 6] = environment.ends + 1
    return answer


def step_on(environment: TextEnvironment, starts: HostStarts, reward: list[float], influence: np.ndarray) -> Any:
    """Return the observation after a rollout of answers with these rewards."""
    answer = answers(environment)
    result = environment.step(answer)
    result = result._replace(step=result.step._replace(reward=np.asarray(reward, np.float32)))
    return starts.after_step(result, np.zeros(ENVS, int), answer, Aux(jnp.asarray(influence))).observation["context"]


def scores(environment: TextEnvironment, place: int, most: float = 0.5) -> np.ndarray:
    found = np.full((ENVS, environment.longest), -1, np.float32)
    found[:, :7] = 0
    found[:, place] = most
    return found


def test_answers_go_on_beside_new_prompts():
    environment, starts, context = begin()
    mark = starts.state.start_ids
    assert mark.prompt.tolist() == [0, 0, 1, 1] + [-1] * 8  # trees of 6 answers to each of two prompts
    assert (context[0] == context[1]).all() and (context[0] != context[2]).any()
    # The first is mixed: ceil(2 exp(-1/2)) = 2 are branched. The second is not solved: both, and before the first
    after = step_on(environment, starts, [1, 0, 0, 0] + [0] * 8, scores(environment, 3))
    mark = starts.state.start_ids
    assert mark.stem.tolist() == [2, 2, 3, 3, 0, 0, 1, 1] + [-1] * 4
    assert mark.prompt.tolist() == [1, 1, 1, 1, 0, 0, 0, 0, 2, 2, 3, 3]
    assert mark.length.tolist() == [3] * 8 + [0] * 4 and mark.rollout.tolist() == [1] * ENVS
    told = answers(environment)
    for index, stem in enumerate(mark.stem[:8].tolist()):
        assert after[index, -3:].tolist() == told[stem, :3].tolist()
        assert after[index, -20:-3].tolist() == context[stem, -17:].tolist()
    assert (after[8] == after[9]).all() and (after[8] != after[10]).any()
    environment.close()


def test_easy_prompts_go_on_where_their_steps_are_attended_to():
    environment, starts, _ = begin()
    # Both are solved; the steps of the second are attended to more than those of both on average
    seen = scores(environment, 2)
    seen[2:4, 2] = 0.9
    step_on(environment, starts, [1, 1, 1, 1] + [0] * 8, seen)
    mark = starts.state.start_ids
    assert mark.prompt.tolist() == [1] * 2 + [2, 2, 3, 3] + [-1] * 6  # one answer: ceil(2 exp(-1))
    assert set(mark.stem[:2].tolist()) <= {2, 3} and mark.stem[0] == mark.stem[1]
    assert starts.state.part.influence == pytest.approx((0.5 + 0.9) / 2 / 7) and starts.state.part.easy == 2
    # What goes on is solved as well: nothing of that tree is mixed, so more prompts are posed
    step_on(environment, starts, [1] * ENVS, scores(environment, 2, 0.1))
    assert starts.state.part.batch == pytest.approx(0.9 * 2 + 0.1 * 2 * 12)
    environment.close()


def test_the_rarer_answers_are_branched():
    part, key = AttentionBranches(size=4), jax.random.key(0)
    together, reward = jnp.ones((4, 4), bool), jnp.array([1.0, 1, 0, 1])
    wanted = part.wanted(together, jnp.full(4, 0.75), reward, key)  # ceil(4 exp(-3/4)) = 2, the wrong one among them
    assert wanted[2] and wanted.sum() == 2
    assert part.wanted(together, jnp.full(4, 0.25), 1 - reward, key)[2]
    assert part.wanted(together, jnp.full(4, 0.0), 0 * reward, key).all()


def test_what_cannot_be_is_refused():
    environment = TextEnvironment("addition", 1)
    world = HostedEnvironment(environment.spec, None, True, environment.max_answer_tokens)
    with pytest.raises(ForageError, match="branches true"):
        check(AttentionBranches(), world, Same())
    with pytest.raises(ForageError, match="num_envs=30 or more"):
        AttentionBranches().init(jax.random.key(0), world, environment.spec, 29)
    environment.close()
