"""Answers in chunks, and answers continued from given tokens: contexts, verdicts, and saved states."""

import numpy as np
import pytest

from forage.core.types import ForageError
from forage.environments.text.environment import TextEnvironment
from forage.environments.text.episodes.chunks import Chunks


def pad(environment: TextEnvironment, *rows: tuple[int, ...]) -> np.ndarray:
    """Token ids, counted from 0, as actions."""
    action = np.zeros((len(rows), environment.action_space.length), np.int32)  # type: ignore[attr-defined]
    for row, tokens in zip(action, rows, strict=True):
        row[: len(tokens)] = np.array(tokens, np.int32) + 1
    return action


def read_chunks(seen: dict[str, np.ndarray], index: int = 0) -> list[int]:
    return (seen["context"][index][seen["context"][index] > 0] - 1).tolist()


def test_the_next_chunk_sees_head_and_tail():
    chunks = Chunks(4, 2, 1)
    assert chunks.turns(9) == 3
    assert chunks.excerpt([1, 2, 3, 4]) == (1, 3, 4)
    assert chunks.excerpt([1, 2, 3, 4, 5, 6]) == (1, 5, 6)
    assert chunks.excerpt([1, 2]) == (1, 2)  # nothing twice
    assert chunks.following([1, 2], [1, 2, 3, 4, 5, 6, 7]) == (3, 4, 5, 6)
    assert chunks.following([1, 9], [1, 2, 3]) == ()


def test_an_answer_in_chunks_is_judged_as_a_whole():
    environment = TextEnvironment("addition", 1, level=2, chunk=8, carry=3, head=2)
    whole = TextEnvironment("addition", 1, level=2)
    seen, prompt = environment.reset(0), read_chunks(whole.reset(0))
    assert environment.horizon == -(-whole.action_space.length // 8) and read_chunks(seen) == prompt  # type: ignore[attr-defined]
    answer: list[int] = []
    for turn in range(environment.turns):
        expert = seen["reference"][0]
        assert (expert > 0).any() == (not answer or answer[-1] != environment.ends)
        result = environment.step(expert[None])
        answer += (expert[expert > 0] - 1).tolist()
        seen = result.step.observation
        over = answer[-1] == environment.ends
        if not over:
            assert read_chunks(seen) == [*prompt, *answer[:2], *answer[-3:]]
        assert (result.step.reward[0] == 1) == (over and turn == -(-len(answer) // 8) - 1)
        if not result.step.terminated[0]:
            seen = environment.restore(environment.snapshot() or b"")
            assert read_chunks(seen) == read_chunks(result.observation)
    assert result.step.terminated[0] and result.step.info["tokens"][0] == len(answer)
    assert len(read_chunks(result.observation)) <= environment.context


def test_an_answer_goes_on_from_given_tokens():
    environment = TextEnvironment("addition", 2, level=1, branches=True)
    prompt = read_chunks(environment.reset(0))
    reference = environment.course.words.encode(environment.worlds[0].reference())
    begun, rest = reference[:4], (*reference[4:], environment.ends)
    seen = environment.branch(0, pad(environment, begun, ())[0])
    assert (seen["context"][seen["context"] > 0] - 1).tolist() == [*prompt, *begun] and not seen["reference"].any()
    saved = environment.snapshot() or b""
    state = environment.take(0)
    assert environment.step(pad(environment, rest, rest)).step.reward.tolist() == [1, 0]  # the other lacks the start
    assert read_chunks(environment.restore(saved)) == [*prompt, *begun]
    again = environment.put(1, state)
    assert (again["context"] == seen["context"]).all()
    assert environment.step(pad(environment, rest, rest)).step.reward.tolist() == [1, 1]
    with pytest.raises(ForageError, match="has ended"):
        environment.branch(0, pad(environment, (5, environment.ends), ())[0])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"chunk": 4, "carry": 5}, "carries 5"),
        ({"carry": 5}, "chunk as well"),
        ({"chunk": 4, "tools": "calculator"}, "several turns"),
        ({"chunk": 4, "branches": True}, "several turns"),
    ],
)
def test_chunks_that_cannot_be_are_refused(options, says):
    with pytest.raises(ForageError, match=says):
        TextEnvironment("addition", 1, **options)
