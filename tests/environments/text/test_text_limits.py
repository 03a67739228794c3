"""Limits of episodes that tasks lower: turns, the context of later turns, and the tokens of an answer."""

import numpy as np
import pytest

from forage.core.errors import ForageError
from forage.environments.text.environment import TextEnvironment


def write(environment: TextEnvironment, *texts: str) -> np.ndarray:
    """Return an action that writes a text and its end in each environment."""
    action = np.zeros((environment.num_envs, environment.action_space.length), np.int32)
    for row, text in enumerate(texts):
        tokens = [*environment.tokenizer.encode(text), environment.ends]
        action[row, : len(tokens)] = np.array(tokens) + 1
    return action


def begin(environment: TextEnvironment, *limits: dict[str, int]) -> None:
    environment.reset(0)
    for index, one in enumerate(limits):
        environment.limit(index, one)
        environment.begin(index, 7)


def test_an_episode_is_over_after_its_limit_of_turns():
    environment = TextEnvironment("guess", 2, turns=4)
    assert environment.limits == {"turns": 4, "context": environment.context}
    begin(environment, {"turns": 2}, {"turns": 4})
    first = environment.step(write(environment, "1", "1"))
    assert (first.step.observation["context"] > 0).any(1).all()
    second = environment.step(write(environment, "2", "2"))
    assert (second.step.observation["context"] > 0).any(1).tolist() == [False, True]
    saved = environment.snapshot()
    for _ in range(2):
        last = environment.step(write(environment, "3", "3"))
    assert last.step.terminated.all() and last.step.info["turns"].tolist() == [2, 4]
    again = TextEnvironment("guess", 2, turns=4)
    again.reset(1)
    seen = again.restore(saved)
    assert (seen["context"] > 0).any(1).tolist() == [False, True]  # a snapshot keeps the limits


def test_a_call_in_the_last_turn_that_is_left_is_a_wrong_answer():
    environment = TextEnvironment("addition", 1, tools="calculator", turns=3)
    begin(environment, {"turns": 1})
    call = write(environment, "<call>calculator: 1 + 1</call>")
    steps = [environment.step(call).step for _ in range(3)]
    assert not (steps[0].observation["context"] > 0).any() and steps[2].info["truth"].tolist() == [0]


def test_later_turns_read_no_more_than_the_limit_of_the_context():
    environment = TextEnvironment("guess", 2, turns=3)
    environment.reset(0)
    prompt = int((environment.begin(0, 7)["context"] > 0).sum())
    begin(environment, {"context": prompt + 2}, {"context": environment.context})
    environment.step(write(environment, "1", "1"))
    for _ in range(2):
        last = environment.step(write(environment, "1", "1"))
    assert last.step.info["overflow"].tolist() == [1, 0]


def test_an_answer_has_no_more_tokens_than_its_room():
    environment = TextEnvironment("addition", 2, room=True)
    most = environment.answer
    assert environment.limits == {"response": most}
    assert environment.observation_space["room"].n == most + 1  # type: ignore[index]
    begin(environment, {"response": 3}, {"response": most})
    seen = environment.episodes.contexts()
    assert seen["room"].tolist() == [3, most]
    assert (seen["reference"] > 0).any(1).tolist() == [False, True]  # an expert's text would not fit
    result = environment.step(np.stack([seen["reference"][1]] * 2))
    assert result.step.info["tokens"][0] == 3 and result.step.info["unfinished"].tolist() == [1, 0]
    assert result.step.reward.tolist() == [0, 1]


def test_limits_beyond_the_environments_are_refused():
    environment = TextEnvironment("addition", 1, room=True)
    for wrong in ({"response": environment.answer + 1}, {"response": 0}, {"turns": 1}):
        with pytest.raises(ForageError, match="has a limit"):
            environment.limit(0, wrong)
    with pytest.raises(ForageError, match="shortens whole answers"):
        TextEnvironment("addition", 1, room=True, branches=True)
    assert TextEnvironment("addition", 1, chunk=8).limits == {}
