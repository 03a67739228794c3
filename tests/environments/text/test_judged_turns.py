"""Reward functions judge conversations: prompts with tools, games, and a person's own environments, as in TRL."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from forage.core.errors import ForageError
from forage.core.loading import load_named
from forage.environments.text.environment import TextEnvironment
from forage.environments.text.own import scoring

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "coming-from-trl.md"
CALL = "<call>calculator: 2 + 3</call>"
seen: list[dict] = []


def watch(prompts, completions, completion_ids, answer, trainer_state, **others):
    """Return 1 for a right last answer, and None for the answer none."""
    seen.append({"prompts": prompts, "completions": completions, "completion_ids": completion_ids, **others})
    last = [one if isinstance(one, str) else one[-1]["content"] for one in completions]
    return [None if said == "none" else float(said == right) for said, right in zip(last, answer, strict=True)]


def count(completions, environments=None, **others):
    """Return half the number of messages, with the count of an environment."""
    looks = [0] * len(completions) if environments is None else [getattr(one, "count", 0) for one in environments]
    return [len(said) / 2 + number for said, number in zip(completions, looks, strict=True)]


@pytest.fixture(autouse=True)
def functions(monkeypatch):
    monkeypatch.setattr(scoring, "objects", {"object:watch": watch, "object:count": count})
    seen.clear()


@pytest.fixture
def prompts_file(tmp_path):
    rows = [{"prompt": "Compute 2 + 3.", "answer": "5", "tools": None}] * 4
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(tmp_path / "p.jsonl")


def say(environment, *texts):
    action = np.zeros((len(texts), environment.answer), np.int32)
    for row, text in zip(action, texts, strict=True):
        tokens = [*environment.tokenizer.encode(text), environment.ends]
        row[: len(tokens)] = np.array(tokens) + 1
    return environment.step(action).step


def with_tools(file, num_envs, **options):
    environment = TextEnvironment(
        file, num_envs, tools="calculator", turns=3, held_out=0, rewards="object:watch", **options
    )
    environment.reset(0)
    return environment


def test_prompts_with_tools_are_judged_as_messages(prompts_file):
    environment = with_tools(prompts_file, 4)
    first = say(environment, "5", CALL, CALL, CALL)  # a call is answered, and any other text is the answer
    assert first.reward.tolist() == [1, 0, 0, 0] and first.info["executed"].tolist() == [1, 1, 1, 1]
    assert len(seen) == 1 and seen[0]["completions"] == [[{"role": "assistant", "content": "5"}]]
    assert seen[0]["prompts"] == [[{"role": "user", "content": "Compute 2 + 3."}]] and "environments" not in seen[0]
    with pytest.warns(UserWarning, match="as all reward functions returned None"):
        second = say(environment, "", "So it is 5", "none", CALL)
    call = {"type": "function", "function": {"name": "calculator", "arguments": {"text": "2 + 3"}}}
    result = {"role": "tool", "name": "calculator", "content": "5"}
    called = {"role": "assistant", "content": "", "tool_calls": [call]}
    assert seen[1]["completions"][0] == [called, result, {"role": "assistant", "content": "So it is 5"}]
    whole = environment.tokenizer.decode(seen[1]["completion_ids"][0], special=True)
    assert whole.count("<result>5</result>") == 1 and whole.startswith(CALL) and "Compute" not in whole
    assert second.reward.tolist() == [0, 0, 0, 0] and not second.terminated.any()
    snapshot = environment.snapshot()
    for _ in range(2):  # the judgement on an episode that waits is that of before, also after a resumption
        last = say(environment, "", "", "", f"5 is what {CALL} says")
        assert last.terminated.tolist() == [True, True, False, True] and environment.lost.tolist()[2]
        assert last.info["unscored"].tolist() == [0, 0, 1, 0] and last.info["reward_watch"][0] == 1
        assert last.info["executed"][3] == 0 and last.info["turns"].tolist() == [1, 2, 2, 3]
        content = "5 is what  says"
        assert seen[-1]["completions"][0][2:] == [called, result, {**called, "content": content}]
        assert "1, watch 1" in str(environment.conversations()[0])
        environment.restore(snapshot)
    environment.close()


def test_an_episode_that_begins_anew_has_no_judgement_of_the_one_before(prompts_file):
    environment = with_tools(prompts_file, 2)
    with pytest.warns(UserWarning, match="as all reward functions returned None"):
        say(environment, "none", "5")  # both are over, and wait for the rest of their steps
    environment.begin(0, 0)
    assert not environment.episodes.unscored.any()
    say(environment, "5", "")
    say(environment, "", "")
    assert environment.lost is None  # the second one has taken its three steps
    last = say(environment, "", "")
    assert last.terminated.tolist() == [True, False] and environment.lost is None
    environment.close()


def test_a_result_without_room_is_left_out_and_the_answer_is_judged(prompts_file):
    environment = with_tools(prompts_file, 1, context=14, response=20)
    step = say(environment, CALL)
    assert [one["role"] for one in seen[0]["completions"][0]] == ["assistant"] and step.reward.tolist() == [0]
    assert seen[0]["completion_ids"][0][-1] == environment.ends
    assert say(environment, "").reward.tolist() == say(environment, "").reward.tolist() == [0]
    assert "no longer fits" in str(environment.conversations()[0])
    environment.close()


def test_tools_are_described_behind_prompts_if_asked(prompts_file):
    environment = with_tools(prompts_file, 1, instruct=True)
    observed = environment.reset(0)["context"][0]
    text = environment.tokenizer.decode(observed[observed > 0] - 1, special=True)
    assert text.startswith("Compute 2 + 3. Call a tool by <call>name: text</call>. The tools:\ncalculator:")
    say(environment, "5")
    assert seen[0]["prompts"] == [[{"role": "user", "content": "Compute 2 + 3."}]]
    environment.close()


def test_what_a_game_pays_counts_beside_the_functions():
    environment = TextEnvironment("guess", 1, turns=2, rewards=["object:count"])
    environment.reset(0)
    secret = environment.worlds[0].game.secret
    low, done = say(environment, f"{secret % 15 + 1}"), say(environment, f"{secret}")
    assert low.reward.tolist() == [0] and done.reward.tolist() == [2.5]
    assert (done.info["reward_count"], done.info["reward_Guess"]) == (1.5, 1)
    assert (
        environment.conversations()[0].reward == 2.5 and environment.conversations()[0].verdict == "count 1.5, Guess 1"
    )
    (
        say(
            environment,
            "",
        ),
        say(environment, ""),
    )  # not over when its turns are
    assert environment.conversations()[0].reward == 1.5
    environment.close()


COUNTER = """
class Counter:
    def reset(self, start=0, **row):
        self.count = start
        return "Count."

    def get_reward(self):
        return None if self.count > 5 else 100.0 * self.count

    def add(self, step: int) -> int:
        \"\"\"Add.

        Args:
            step: The number to add.
        \"\"\"
        self.count += step
        return self.count
"""


def test_an_environment_of_ones_own_is_judged_with_its_object_and_its_reward(tmp_path):
    (tmp_path / "counter.py").write_text(COUNTER)
    target = f"{tmp_path / 'counter.py'}:Counter"
    rows = [{"start": 1}] * 2
    environment = TextEnvironment(target, 2, turns=2, rows=rows, rewards=["object:count"])
    environment.reset(0)
    first = say(environment, "<call>add: 2</call>", "no")
    assert first.reward.tolist() == [0, 100 + 0.5 + 1]
    last = say(environment, "done", "")
    assert last.reward.tolist() == [300 + 1.5 + 3, 0] and last.info["reward_Counter"].tolist() == [300, 100]
    say(environment, "<call>add: 9</call>", "no")
    last = say(environment, "", "")  # no reward of its own, and one of the function
    assert last.reward.tolist() == [1.5 + 10, 0] and np.isnan(last.info["reward_Counter"][0])
    assert environment.lost is None and last.info["unscored"].tolist() == [0, 0]
    environment.close()
    environment = TextEnvironment(target, 2, turns=1, rows=rows)
    environment.reset(0)
    with pytest.warns(UserWarning, match="has no reward and leaves its group, as get_reward returned None"):
        step = say(environment, "<call>add: 9</call>", "no")
    assert step.reward.tolist() == [0, 100] and environment.lost.tolist() == [True, False]
    assert step.info["unscored"].tolist() == [1, 0]
    environment.close()


def test_roles_have_rules_of_their_own():
    with pytest.raises(ForageError, match="are paid by its own rules; leave out roles, or the rewards"):
        TextEnvironment("addition", 1, tools="calculator", turns=2, roles=True, rewards="object:watch")


@pytest.mark.thorough
def test_environments_reach_functions_in_another_process(tmp_path):
    (tmp_path / "counter.py").write_text(COUNTER)
    (tmp_path / "open.py").write_text(
        COUNTER.replace("self.count = start", "self.count, self.file = start, open(__file__)")
    )
    (tmp_path / "mine.py").write_text(
        "def look(environments, **others):\n    return [one.count for one in environments]\n"
        "def any(completions, **others):\n    return [len(others)] * len(completions)\n"
    )
    mine = f"{tmp_path / 'mine.py'}:"
    environment = TextEnvironment(f"{tmp_path / 'counter.py'}:Counter", 2, turns=1, rewards=[f"{mine}look"])
    environment.reset(0)
    assert say(environment, "<call>add: 2</call>", "").reward.tolist() == [202, 0]
    environment.close()
    environment = TextEnvironment(f"{tmp_path / 'open.py'}:Counter", 1, turns=1, rewards=[f"{mine}any"])
    environment.reset(0)
    assert say(environment, "").reward.tolist() == [5]  # prompts, ids, state and two to log with
    environment.close()
    environment = TextEnvironment(f"{tmp_path / 'open.py'}:Counter", 1, turns=1, rewards=[f"{mine}look"])
    environment.reset(0)
    with pytest.raises(ForageError, match=r"mine.py:look looks at environments, and these cannot be copied"):
        say(environment, "")
    environment.close()


def test_the_example_of_the_page_is_short_and_judges_messages(tmp_path, monkeypatch):
    """`tests/project/test_pages.py` runs its commands."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (block,) = (one for one in blocks if "shop.py" in one)
    assert len(list(filter(str.strip, block.splitlines()))) <= 15
    exec(block, {"json": json, "Path": Path})
    paid, looked = (load_named(f"shop.py:{name}") for name in ("paid", "looked"))
    result = {"role": "tool", "name": "price", "content": "3.5"}
    said = [[{"role": "assistant", "content": "3.5"}], [result, {"role": "assistant", "content": "3"}]]
    assert paid(said, ["3.5", "3.5"]) == [1, 0] and looked(said) == [0, 0.2]
