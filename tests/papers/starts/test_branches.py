"""Branches: the places of cuts, and answers of a tree that begin as their mark has it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check

from forage.agents.language.base import Aux
from forage.core.types import ForageError
from forage.environments.text.environment import TextEnvironment
from forage.loop.host.starts import HostedEnvironment, HostStarts
from forage.tasks.same import Same
from forage_papers.starts.branches import Branches

KEY = jax.random.key(0)


def cuts(answer: list[int], log_probability: list[float], **options: Any) -> list[int]:
    found = Branches(**options).cuts(jnp.asarray(answer), jnp.asarray(log_probability), KEY)
    return found.tolist()


def test_answers_are_cut_before_their_most_improbable_tokens():
    answer, log_p = [5, 6, 7, 6, 8, 1, 0, 0], [-9.0, -0.1, -2.0, -0.2, -3.0, -0.3, 0.0, 0.0]
    assert cuts(answer, log_p, prefixes=2) == [2, 4]  # not before the first token, which would leave the prompt
    assert cuts(answer, log_p, prefixes=4, times=2) == [2, 2, 4, 4]
    assert cuts(answer, log_p, prefixes=3, after=(5,)) == [0, 2, 4]  # behind 6, as tokens count from 1: two places
    assert cuts([5, 1, 0], [-1.0, -1.0, 0.0], prefixes=2) == [0, 1]


@pytest.mark.thorough
def test_answers_are_cut_in_equal_parts():
    answer = [*range(3, 12), 1, 0]  # ten tokens, nine places: 1 to 9
    assert cuts(answer, [0.0] * 11, prefixes=2, at="even") == [4, 7]
    assert cuts(answer, [0.0] * 11, prefixes=9, at="even") == list(range(1, 10))
    found = cuts(answer, [0.0] * 11, prefixes=3, at="random")
    assert found == sorted(set(found)) and found[0] >= 1 and found[-1] <= 9


@pytest.mark.parametrize("each", [False, True])
def test_a_rollout_is_a_tree(each):
    environment = TextEnvironment("addition", 4, level=1, branches=True)
    part = Branches(size=2, prefixes=2, each=each, at="even")
    starts = HostStarts(part, environment, environment.spec, seed=0)
    seen = starts.first(environment.reset(0))
    prompts, zeros = seen["context"], np.zeros(4, int)
    assert (prompts[0] == prompts[1]).all() and (prompts[2] == prompts[3]).all() and (prompts[0] != prompts[2]).any()
    answer = np.zeros((4, environment.longest), np.int32)
    answer[:, :6] = np.arange(20, 44).reshape(4, 6)
    answer[:, 6] = environment.ends + 1
    policy_info = Aux(jnp.zeros(answer.shape), jnp.zeros(4))  # type: ignore[arg-type]
    for depth, length in ((1, 3), (2, 5)):
        after = starts.after_step(environment.step(answer if depth == 1 else answer[::-1]), zeros, answer, policy_info)
        context = after.observation["context"]
        stems = range(4) if each else (0, 0, 2, 2)
        for index, stem in enumerate(stems):
            assert context[index, -length:].tolist() == answer[stem, :length].tolist()
            prompt = context[index, :-length][-20:]
            assert prompt.tolist() == prompts[index, -20:].tolist()
        assert (
            starts.state.start_ids.depth.tolist() == [depth] * 4
            and starts.state.start_ids.length.tolist() == [length] * 4
        )
    after = starts.after_step(environment.step(answer), zeros, answer, policy_info)
    assert starts.state.start_ids.depth.tolist() == [0] * 4 and starts.state.start_ids.prompt.tolist() == [2, 2, 3, 3]
    assert (after.observation["context"] != prompts).any()
    environment.close()


def test_what_cannot_be_is_refused():
    with pytest.raises(ForageError, match="improbable, even, random"):
        Branches(at="odd")
    with pytest.raises(ForageError, match="multiple of 3"):
        Branches(prefixes=4, times=3)
    environment = TextEnvironment("addition", 1)
    with pytest.raises(ForageError, match="branches true"):
        check(Branches(), HostedEnvironment(environment.spec, None, True, environment.max_answer_tokens), Same())
    environment.close()
