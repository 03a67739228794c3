"""Text as an environment: contexts, actions and rewards, and episodes that continue after a restore."""

import json
from contextlib import nullcontext

import numpy as np
import pytest
from tiers import gate_cases

from forage.core.errors import ForageError
from forage.core.text import named
from forage.environments.registry import make
from forage.environments.text import FAMILIES, worlds
from forage.environments.text.environment import TextEnvironment
from forage.environments.text.families.addition import Addition
from forage.environments.text.problems import Verdict


def texts(environment: TextEnvironment, tokens: np.ndarray) -> list[str]:
    return [environment.tokenizer.decode([t - 1 for t in row if t], special=True) for row in tokens]


def silence(environment: TextEnvironment) -> np.ndarray:
    """Return an action of only the end of a text, for each environment."""
    action = np.zeros((environment.num_envs, environment.action_space.length), np.int32)
    action[:, 0] = environment.action_space.end
    return action


@pytest.mark.parametrize("name", gate_cases(FAMILIES, ["addition", "countdown", "sql"]))
def test_the_reference_is_right_and_silence_is_wrong(name):
    environment = TextEnvironment(name, 2)
    seen = environment.reset(1)
    assert environment.turns == environment.spec.horizon == 1
    result = environment.step(seen["reference"])
    assert (result.step.reward == 1).all() and (result.step.info["format"] == 1).all()
    assert result.step.terminated.all() and not result.step.truncated.any()
    assert (result.step.info["tokens"] == (seen["reference"] > 0).sum(1)).all()
    assert texts(environment, result.observation["context"]) != texts(environment, seen["context"])
    result = environment.step(silence(environment))
    assert (result.step.reward == 0).all() and (result.step.info["truth"] == 0).all()
    environment.close()


@pytest.fixture
def several_environments(tmp_path):
    """Save Forage's tokenizer with a model that ends its answers with `</result>` as well."""
    own = named.tokenizer("forage")
    own.save(tmp_path)
    other = own.special["</result>"]
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [own.end, other]}))
    return str(tmp_path), other


def test_each_token_that_ends_a_text_ends_an_answer(several_environments):
    directory, other = several_environments
    environment = TextEnvironment("addition", 2, tokenizer=directory, response=60)
    assert (environment.ends, environment.stop) == (1, (1, other))
    assert environment.action_space.ends == (2, other + 1)
    seen, words = environment.reset(0), environment.tokenizer
    action = np.zeros((2, 60), np.int32)
    for row, end in enumerate(environment.stop):
        right = [token for token in seen["reference"][row] - 1 if token not in (-1, 1)]
        wrong = words.encode(" <answer>0</answer>")  # behind the end, so that nobody reads it
        written = [*right, end, *wrong]
        action[row, : len(written)] = np.array(written) + 1
    assert environment.step(action).step.reward.tolist() == [1, 1]
    assert all("</result>" not in dict(one.said)["answer"] for one in environment.conversations())
    talking = TextEnvironment("guess", 1, tokenizer=directory)
    begun = talking.reset(0)["context"][0]
    ended = np.zeros((1, talking.answer), np.int32)
    ended[0, :2] = np.array([words.encode("4")[0], other]) + 1
    following = talking.step(ended).observation["context"][0]
    said = following[following > 0][(begun > 0).sum() :] - 1
    assert said[:2].tolist() == [words.encode("4")[0], other] and 1 not in said  # what was written ends it, once
    environment.close()
    talking.close()


class Odd(Addition):
    """A family with a verdict set by the test."""

    says: object = "nothing"

    def verify(self, problem, text):
        return self.says


def test_what_could_not_be_judged_is_counted_and_told_of_once(monkeypatch):
    monkeypatch.setattr(worlds, "family", lambda name: Odd())
    environment = TextEnvironment("addition", 2)
    seen = environment.reset(0)
    assert environment.metrics() == {"verifier_failures": 0}
    monkeypatch.setattr(Odd, "says", Verdict(True, np.float32(0.5)))
    assert environment.step(seen["reference"]).step.reward.tolist() == [0.5, 0.5]
    for number, says in enumerate((Verdict(True, 7.0), Verdict(True, 8.0), "right"), 1):
        monkeypatch.setattr(Odd, "says", says)
        told = pytest.warns(UserWarning, match=r"could not be judged and is paid nothing, as the verifier returned")
        with nullcontext() if number == 2 else told:  # the second one differs in its number alone
            assert environment.step(seen["reference"]).step.reward.tolist() == [0, 0]
        assert environment.metrics() == {"verifier_failures": 2 * number}
    assert "not judged, as the verifier returned 'right' and no verdict" in str(environment.conversations()[0])
    environment.close()


def test_evaluation_plays_problems_that_training_does_not():
    training, evaluation = TextEnvironment("addition", 64), TextEnvironment("addition", 64)
    evaluation.examine()
    seen = [set(), set()]
    for split, environment in zip(seen, (training, evaluation), strict=True):
        observation = environment.reset(0)
        for _ in range(20):
            split.update(texts(environment, observation["context"]))
            observation = environment.step(silence(environment)).observation
    assert len(seen[0]) > 50 and len(seen[1]) > 5 and not seen[0] & seen[1]


def test_few_problems_are_numbered_and_come_again():
    environment = TextEnvironment("addition", 8, level="0-1", problems=6)
    assert environment.num_starts == 6 and environment.difficulty.tolist() == pytest.approx([0, 1 / 7] * 3)
    numbered = [environment.begin(0, 5, number)["context"] for number in range(6)]
    assert len(set(texts(environment, np.stack(numbered)))) == 6
    environment.reset(0)
    met = {
        text
        for _ in range(20)
        for text in texts(environment, environment.step(silence(environment)).observation["context"])
    }
    assert met == set(texts(environment, np.stack(numbered)))


def test_what_is_over_early_waits_for_the_others():
    environment = TextEnvironment("guess", 16)
    observation = environment.reset(0)
    total, ended = np.zeros(16), []
    for turn in range(4):
        over = ~(observation["context"] > 0).any(1)
        result = environment.step(observation["reference"])
        assert (result.step.reward[over] == 0).all()
        total += result.step.reward
        ended.append(result.step.terminated)
        observation = result.step.observation
        assert (observation["context"][over] == 0).all() or turn == 3
    assert (total == 1).all()  # halving what is left finds one of 15 numbers in 4 tries
    assert np.array_equal(np.stack(ended), np.array([[False] * 16] * 3 + [[True] * 16]))
    assert set(result.step.info) == {"turns", "tokens", "overflow", "unfinished", "executed"}
    assert set(result.step.info["turns"]) > {4.0}
    assert (result.observation["context"] > 0).any(1).all()  # the next episodes


def test_each_text_tells_whether_it_could_be_carried_out():
    environment = TextEnvironment("addition", 3, tools="calculator", response=24, context=200)
    environment.reset(0)
    told = []
    for said in (
        ("<call>calculator: 1+1</call>", "<call>1+1</call>", "<answer>1</answer>"),
        ("<answer>2",) * 3,
        ("",) * 3,
    ):
        rows = np.zeros((3, 24), np.int32)
        for row, text in zip(rows, said, strict=True):
            tokens = [*environment.tokenizer.encode(text), environment.ends]
            row[: len(tokens)] = np.array(tokens) + 1
        told.append(environment.step(rows).step.info["executed"])
    # The third is over after its answer: it tells nothing more until the end, where it says again what it said
    np.testing.assert_array_equal(told, [[1, 0, 1], [0, 0, np.nan], [0, 0, 1]])


def test_a_tool_is_answered_within_the_context():
    environment = TextEnvironment("addition", 1, level=5, tools="calculator")
    observation = environment.reset(0)
    (asked,), (call,) = (texts(environment, observation[name]) for name in ("context", "reference"))
    observation = environment.step(observation["reference"]).observation
    (read,) = texts(environment, observation["context"])
    a, b = (int(word.strip(".")) for word in asked.split() if word.strip(".").isdigit())
    assert read == f"{asked}{call}\n<result>{a + b}</result>\n"
    assert environment.step(observation["reference"]).step.reward == 1


@pytest.mark.parametrize("options", [{"target": "guess"}, {"target": "addition", "tools": "calculator", "level": 3}])
def test_an_episode_goes_on_from_where_it_was(options):
    one, other = TextEnvironment(num_envs=3, **options), TextEnvironment(num_envs=3, **options)
    observation = one.reset(4)
    other.reset(9)
    for _ in range(7):
        again = other.restore(one.snapshot())
        assert all(np.array_equal(observation[name], again[name]) for name in observation)
        moved = other.put(0, one.take(1))
        assert all(np.array_equal(observation[name][1], moved[name]) for name in observation)
        other.restore(one.snapshot())
        first, second = one.step(observation["reference"]), other.step(observation["reference"])
        assert np.array_equal(first.step.reward, second.step.reward)
        assert np.array_equal(first.observation["context"], second.observation["context"])
        observation = first.observation


def test_the_same_seed_is_the_same_beginning():
    environment = TextEnvironment("countdown", 2)
    environment.reset(0)
    seen = [environment.begin(index, seed)["context"] for index, seed in ((0, 5), (1, 5), (1, 6))]
    assert np.array_equal(seen[0], seen[1]) and not np.array_equal(seen[0], seen[2])


def test_an_episode_whose_context_overflows_is_over():
    environment = TextEnvironment("guess", 1, context=24)
    observation = environment.reset(0)
    wrong = silence(environment)
    said = [environment.step(wrong).step for _ in range(4)]
    assert said[-1].info["overflow"] == 1 and said[-1].terminated and not said[0].terminated
    assert observation is not None


@pytest.mark.parametrize(
    ("id", "options", "says"),
    [
        ("text:additon", {}, "addition"),
        ("text:addition", {"level": 9}, "levels 0 to 7"),
        ("text:addition", {"level": "3-1"}, "0-3"),
        ("text:addition", {"turns": 3}, "one turn"),
        ("text:addition", {"tools": "calculater"}, "calculator"),
        ("text:addition", {"tokenizer": "nowhere"}, "tokenizer.json"),
        ("text:addition", {"context": 3}, "3"),
        ("text:addition", {"problems": -1}, "1 or more"),
        ("text:addition", {"chat": True}, "chat template"),
        ("text:addition", {"colour": 1}, "colour"),
        ("text:guess", {"tools": "calculator"}, "game"),
        ("text:guess", {"numbers": 1}, "2 to"),
    ],
)
def test_bad_input_is_one_sentence(id, options, says):
    with pytest.raises(ForageError, match=says):
        make(id, **options).build(1).reset(0)


def test_conversations_tell_what_was_said():
    environment = TextEnvironment("addition", 2)
    seen = environment.reset(1)
    assert environment.conversations() == [] and environment.sample() is None
    action = seen["reference"].copy()
    action[1] = silence(environment)[1]
    prompts = texts(environment, seen["context"])
    environment.step(action)
    right, silent = environment.conversations()
    assert (right.reward, right.verdict, silent.reward, silent.verdict) == (1, "right", 0, "no answer that can be read")
    assert [right.said[0][1] + "\n", silent.said[0][1] + "\n"] == prompts
    assert right.said[1][1] == right.reference != "" and silent.said[1] == ("answer", "")
    assert environment.sample() == str(right)
    lines = str(right).splitlines()
    assert lines[0].split()[0] == "prompt" and lines[-1].split() == ["reward", "1,", "right"]


def test_conversations_of_several_turns_go_on_after_a_snapshot():
    one, two = TextEnvironment("guess", 1), TextEnvironment("guess", 1)
    for seed in range(20):  # until the first guess is wrong
        seen = one.step(one.reset(seed)["reference"]).observation
        if seen["context"].any():
            break
    again = two.restore(one.snapshot() or b"")
    assert (again["context"] == seen["context"]).all()
    for environment in (one, two):
        observation = {name: value.copy() for name, value in seen.items()}
        while not environment.conversations():
            observation = environment.step(observation["reference"]).observation
    (told,) = one.conversations()
    assert one.conversations() == two.conversations()
    assert [who for who, _ in told.said][:4] == ["prompt", "answer", "reply", "answer"] and told.reward > 0


def test_a_mixture_poses_problems_of_each_family_at_every_level():
    environment = TextEnvironment("addition+sorting", 4, level="0-1", problems=16)
    kinds, level = environment.kinds, environment.difficulty
    assert all(((kinds == kind) & (level == one)).sum() == 4 for kind in (0, 1) for one in np.unique(level))
    assert {environment.worlds[0].kind(worlds.Start(0, number)) for number in range(0, 32, 4)} == {0, 1}
    prompts = [str(environment.worlds[0].begin(start)) for start in environment.numbered_starts[:16]]
    assert len(set(prompts)) == 16 and all(
        ("+" in text) == (kind == 0) for text, kind in zip(prompts, kinds, strict=True)
    )
    result = environment.step(environment.reset(1)["reference"])
    assert (result.step.reward == 1).all() and environment.metrics()["verifier_failures"] == 0
    environment.close()
    with pytest.raises(ForageError, match="Unknown environment 'text:addition\\+sortng'"):
        make("text:addition+sortng")
    with pytest.raises(ForageError, match="mixes families of problems, and wordle is none"):
        TextEnvironment("addition+wordle", 1)
