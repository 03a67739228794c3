"""Teachers' answers in groups that failed: reading from files, choice, and places."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.core import spaces
from forage.core.ports import ActContext
from forage.core.spaces import Tokens
from forage.core.text import named
from forage.core.types import AGENT, DATASET, Clock, Experience, ForageError, Spec
from forage.data import files
from forage.data.logged import Transitions
from forage_papers.memory.teachers import Teachers, answer_of

WORDS, NEW = named.tokenizer("forage"), 10
TEXT = Tokens(NEW, WORDS.vocabulary + 1)
SPACE = gymnasium.spaces.Dict({"context": Tokens(2, WORDS.vocabulary + 1), "reference": TEXT})
SPEC = Spec("text:here", SPACE, TEXT, horizon=1, info_names=("truth", "tokens"))


def row_of(text):
    tokens = WORDS.encode(text)
    return np.array([*(token + 1 for token in tokens), *[0] * (NEW - len(tokens))], np.int32)


def observation_of(prompts):
    context = np.array(prompts, np.int32)[:, None] * np.ones(2, np.int32)
    return {"context": context, "reference": np.zeros((len(prompts), NEW), np.int32)}


def write_file(path, *episodes):
    """A teacher's file, of prompts, texts and rewards."""
    prompts, texts, rewards = zip(*episodes, strict=True)
    seen, ends = observation_of(prompts), np.ones(len(prompts), bool)
    action = np.stack([row_of(text) for text in texts])
    spaced = {name: spaces.to_json(getattr(SPEC, name)) for name in ("observation_space", "action_space")}
    files.write_data(
        path, Transitions(seen, action, np.array(rewards), seen, ends, ~ends), {"spec": {"name": "x", **spaced}}
    )
    return str(path)


def rollout_of(prompts, reward, size):
    """Answers of the student, `size` to each prompt."""
    seen = jax.tree.map(lambda x: np.repeat(x, size, 0)[None], observation_of(prompts))
    shape = (1, len(prompts) * size)
    action, ends = np.full((*shape, NEW), 7, np.int32), np.ones(shape, bool)
    info = {"truth": np.array([reward], np.float32), "tokens": np.full(shape, 3, np.float32)}
    paid, source = np.array([reward], np.float32), np.full(shape, AGENT, np.int32)
    return Experience(seen, action, paid, seen, ends, ~ends, source, 0.5 * action, info=info)


class Student:
    """A student with higher probabilities of tokens with larger numbers, after any context."""

    def likelihood(self, state, observation, action):
        return action / 1000


def mix(memory, rollout):
    memory = memory.load(SPEC)
    moment = ActContext(Student(), (), SPEC, Clock(jnp.int32(0), jnp.float32(1)), jax.random.key(0))
    batch = jax.jit(lambda rollout: memory.sample(memory.add((), rollout, moment.clock), 1, 1, moment))(rollout)
    return jax.device_get(batch)


def test_the_tokens_of_an_answer_are_those_between_the_last_tags():
    text = "<answer>1</answer> 2 <answer>3 4</answer>."
    row = np.zeros(NEW + 4, np.int32)
    tokens = [token + 1 for token in WORDS.encode(text)]
    row[: len(tokens)] = tokens
    found = answer_of(WORDS, np.stack([row, np.zeros_like(row)]))
    assert WORDS.decode([int(token) - 1 for token in row[found[0]]]) == "3 4" and not found[1].any()
    assert not answer_of(WORDS, row_of("no answer")[None]).any()


@pytest.mark.thorough
def test_the_best_understood_answers_stand_in_groups_that_failed(tmp_path):
    high, low = "9</answer>", "1</answer>"
    assert WORDS.encode("1")[0] < WORDS.encode("5")[0] < WORDS.encode("9")[0] < WORDS.encode("z")[0]
    one = write_file(
        tmp_path / "1.npz",
        (1, f"<answer>{low[0]}", 0.0),  # wrong
        (1, f"zzzz<answer>{low}", 1.0),  # of likely tokens, but for its answer
        (1, f"<answer>{high}", 1.0),  # a second one of this teacher
    )
    two = write_file(tmp_path / "2.npz", (2, f"<answer>{high}", 1.0), (1, f"<answer>{high}", 1.0), (3, "<answer>", 0.0))
    three = write_file(tmp_path / "3.npz", (1, "<answer>5</answer>", 1.0))
    memory = Teachers((one, two, three), group_size=3, replaced=2)
    batch = mix(memory, rollout_of([1, 2, 3], [0, 0, 0, 0, 1, 0, 0, 0, 0], 3))
    lesson = batch.experience
    # The first prompt's two best are 9 and 5; the second has a right answer, and no teacher knows the third
    texts = [WORDS.decode([int(token) - 1 for token in row if token], special=True) for row in lesson.action[0]]
    assert texts[1:3] == ["<answer>9</answer>", "<answer>5</answer>"]
    assert (lesson.action[0, [0, *range(3, 9)]] == 7).all()
    assert lesson.reward.tolist() == [[0, 1, 1, 0, 1, 0, 0, 0, 0]]
    assert lesson.source.tolist() == [[AGENT, DATASET, DATASET, *[AGENT] * 6]]
    assert not lesson.policy_info[0, 1:3].any() and (lesson.policy_info[0, 0] == 3.5).all()
    assert (
        lesson.info["truth"].tolist() == [[0, 1, 1, 0, 1, 0, 0, 0, 0]] and np.isnan(lesson.info["tokens"][0, 1:3]).all()
    )
    assert not batch.replay.older.any() and np.isnan(batch.replay.advantage).all()
    # Where one teacher knows the answer, one is replaced
    again = mix(memory, rollout_of([2, 1, 1], [0, 0, 0, 1, 1, 1, 1, 0, 0], 3)).experience
    assert again.source.tolist() == [[AGENT, DATASET, *[AGENT] * 7]]


def test_what_teaches_nothing_is_refused(tmp_path):
    wrong = write_file(tmp_path / "wrong.npz", (1, "<answer>1</answer>", 0.0))
    with pytest.raises(ForageError, match="teaches nothing"):
        Teachers(wrong).load(SPEC)
    bare = write_file(tmp_path / "bare.npz", (1, "1", 1.0))
    with pytest.raises(ForageError, match="chosen random"):
        Teachers(bare).load(SPEC)
    assert Teachers(bare, chosen="random").load(SPEC).most == 1
    with pytest.raises(ForageError, match="replaced of Teachers is below group_size"):
        Teachers(bare, replaced=8)
    with pytest.raises(ForageError, match="one of likelihood, random, not 'best'"):
        Teachers(bare, chosen="best")
    with pytest.raises(ForageError, match=r"--memory\.data"):
        Teachers(())
