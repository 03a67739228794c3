"""Problems, tools, games and environments of a person's own: the page's examples, and bad ones."""

import re
import textwrap
from pathlib import Path

import numpy as np
import pytest

from forage.config.environment import resolve_environment
from forage.core.errors import ForageError
from forage.core.loading import load_named
from forage.environments.text.tools.functions import own_tool

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "your-own-text.md").read_text()
FILES = dict(re.findall(r"```python title=(\S+)\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture(autouse=True)
def page_files(tmp_path, monkeypatch):
    """Write the page's files into the current directory."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)


def say(environment, *texts):
    """Take a step in which each environment writes its text."""
    action = np.zeros((len(texts), environment.answer), np.int32)
    for row, text in enumerate(texts):
        tokens = [*environment.tokenizer.encode(text), environment.ends]
        action[row, : len(tokens)] = np.array(tokens) + 1
    return environment.step(action)


def make(id, **options):
    return resolve_environment(id, options)[1](2)


def test_examples_are_short_and_commands_name_them():
    assert set(FILES) == {"twice.py", "library.py", "count.py", "counter.py"}
    assert all(len(list(filter(str.strip, text.splitlines()))) <= 15 for text in FILES.values())
    assert all(f"{name}:" in PAGE.replace(f"title={name}", "") for name in FILES)


def test_a_game_and_problems():
    environment = make("text:count.py:Count", turns=2, most=3)
    environment.reset(0)
    assert environment.expert_episode().reward == 1
    last = int(re.search(r"\d", environment.conversations()[0].said[0][1])[0])
    assert last < 3
    with pytest.raises(ForageError, match="has no option 'least'"):
        make("text:count.py:Count", least=3)
    assert "Double" in str(make("text:twice.py:Twice", level=1).expert_episode())


def test_a_game_may_begin_its_context_anew(tmp_path):
    (tmp_path / "brief.py").write_text(FILES["count.py"].replace("class Count:", "class Count:\n    anew = True"))
    environment = make("text:brief.py:Count", turns=3, context=40, response=8)
    environment.reset(0)
    observed = say(environment, "no", "no")[1]["context"][0]
    said = environment.tokenizer.decode((observed[observed > 0] - 1).tolist(), special=True)
    assert said == "Wrong.\n"
    saved = environment.snapshot()
    after = say(environment, "no", "no")[1]["context"]
    np.testing.assert_array_equal(observed, after[0])
    np.testing.assert_array_equal(environment.restore(saved)["context"][0], observed)


def test_an_environment_whose_methods_are_tools(tmp_path):
    (tmp_path / "goals.jsonl").write_text('{"prompt": "Go. ", "goal": 2}\n' * 3)
    for options, goal in (({"rows": "goals.jsonl"}, 2), ({"rows": [{"goal": 3}]}, 3), ({}, None)):
        environment = make("text:counter.py:Counter", turns=3, **options)
        environment.reset(0)
        prompts = [record.said[0][1] for record in environment.episodes.records]
        assert goal is None or prompts == [f"{'Go. ' if goal == 2 else ''}Count to {goal}."] * 2
        goals = [int(prompt[-2]) for prompt in prompts]
        step = say(environment, *(f"<call>increase: {goal}</call>" for goal in goals)).step
        assert step.info["executed"].tolist() == [1, 1] and not step.terminated.any()
        assert environment.episodes.records[0].said[-1] == ("reply", f"<result>{goals[0]}</result>")
        say(environment, "", '<call>increase: {"step": 1}</call>')
        last = say(environment, "", "")
        assert last.step.reward.tolist() == [0, 0] and [one.reward for one in environment.conversations()] == [1, 0]
    # Episodes of one start are alike, and states are those of their texts.
    first, second = (environment.begin(index, 7)["context"] for index in (0, 1))
    np.testing.assert_array_equal(first, second)
    say(environment, "<call>increase: 1</call>", "")
    state = environment.take(0)
    environment.put(1, state)
    assert environment.worlds[1].object.count == 1


def test_a_tool():
    environment = make("text:addition", tools=["library.py:search"], turns=3, context=400, response=60)
    environment.reset(0)
    said = say(environment, "<call>search: games</call>", '<call>search: {"query": "chance", "most": 1}</call>')
    assert said.step.info["executed"].tolist() == [1, 1]
    replies = [record.said[-1][1] for record in environment.episodes.records]
    assert replies == ["<result>Numbers and games; Games of chance</result>", "<result>Games of chance</result>"]
    environment.close()
    # In Python a function is named by its file.
    config = resolve_environment("text:addition", {"tools": [load_named("library.py:search")]})[2]
    assert config["options"]["tools"] == [str(Path("library.py").resolve()) + ":search"]
    with pytest.raises(ForageError, match=r"A tool is a name, or a function or class of a file.*<lambda>"):
        resolve_environment("text:addition", {"tools": [lambda text: text]})


BAD = """
    import time
    from typing import Literal
    class NoTools:
        def reset(self): return "a"
    class Untyped(NoTools):
        def go(self, step):
            \"\"\"Go.\"\"\"
    class Plain(NoTools):
        def go(self, step: int): return step
    class Star(NoTools):
        def go(self, *steps: int):
            \"\"\"Go.\"\"\"
    class Odd(NoTools):
        def go(self, step: time.struct_time):
            \"\"\"Go.\"\"\"
    class Good(NoTools):
        def go(self, step: int):
            \"\"\"Go.\"\"\"
            raise KeyError("step")
        def get_reward(self): return "much"
    class Silent(Good):
        def reset(self): return None
    class Number(Good):
        def reset(self): return 3
    class Raises(Good):
        def reset(self): raise OSError("no disk")
    class Given(Good):
        def __init__(self, size): self.size = size
    class Old:
        def reset(self): return 0
        def step(self, action): return 0
    class Half:
        def begin(self, seed): return "a"
    class Game(Half):
        def reply(self, text): return "a", "b"
    class NoText(Game):
        def begin(self, seed): return 7
    class Fails(Game):
        def begin(self): return "a"
    class Breaks(Game):
        def begin(self, seed): return "a"
        def reply(self, text): return {}["a"]
        def expert(self): return "a"
    class Rewarded(Half):
        def reply(self, text): return "a", float("nan"), False
    class NoTool:
        def call(self, text): return text
    def slow(text: str) -> str:
        \"\"\"Wait.\"\"\"
        time.sleep(60)
    def fails(text: str, kind: Literal["a", "b"] = "a", size: int | None = None) -> str:
        \"\"\"Fail.\"\"\"
        raise ValueError("oh " + text)
    async def later(number: int) -> int:
        \"\"\"Double.\"\"\"
        return 2 * number
"""


@pytest.fixture
def bad(page_files, tmp_path):
    (tmp_path / "bad.py").write_text(textwrap.dedent(BAD))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("NoTools", "bad.py:NoTools has no method that the policy could call; its public methods"),
        ("Untyped", "The argument step of the tool go has no type; annotate it, as in step: str."),
        ("Plain", "The tool go has no docstring, and its first sentence tells the policy what it does."),
        ("Star", "The tool go takes *steps: int, and a policy gives arguments by their names; name each of them."),
        ("Odd", "The argument step of the tool go is a struct_time, which JSON cannot write; int, float"),
        ("Silent", "bad.py:Silent has no prompt: reset returns it, or a row has it in `prompt`."),
        ("Number", "bad.py:Number returned 3 from reset; it returns the prompt, or None."),
        ("Raises", "bad.py:Raises failed in reset with OSError: no disk; mend it there."),
        ("Given", "bad.py:Given' needs its size; give --env.size."),
        ("Old", "Old is not an environment; a subclass of"),
        ("Half", "or a class with reset whose other methods are tools."),
        ("NoText", "bad.py:NoText began with 7; begin returns a text to read."),
        ("Fails", "bad.py:Fails failed in begin with TypeError: Fails.begin() takes 1 positional argument but 2 were"),
        ("Breaks", "bad.py:Breaks failed in reply with KeyError: 'a'; mend it there."),
        ("Missing", "has no class Missing; it has "),
    ],
)
def test_bad_classes_are_refused_before_training(bad, name, sentence):
    with pytest.raises(ForageError) as error:
        make(f"text:bad.py:{name}")
    assert sentence in str(error.value)


def test_bad_turns_end_a_run_in_a_sentence(bad):
    for name, sentence in (
        ("Good", r"bad\.py:Good returned 'much' from get_reward; it returns a finite number"),
        ("Game", r"bad\.py:Game replied \('a', 'b'\); reply returns a text, a reward and whether the game is over"),
        ("Rewarded", r"bad\.py:Rewarded replied \('a', nan, False\)"),
    ):
        environment = make(f"text:bad.py:{name}")
        environment.reset(0)
        if name == "Good":
            assert say(environment, "<call>go: 1</call>", "<call>go: x</call>").step.info["executed"].tolist() == [0, 0]
            assert environment.episodes.records[0].said[-1][1] == "<result>KeyError: 'step'</result>"
        with pytest.raises(ForageError, match=sentence):
            say(environment, "", "")
    with pytest.raises(
        ForageError,
        match=r"rows\.jsonl: line 2 is no JSON .*; a row is an object of arguments",
    ):
        Path("rows.jsonl").write_text("{}\nx\n")
        make("text:counter.py:Counter", rows="rows.jsonl")
    for options, sentence in (
        ({"rows": "none.jsonl"}, r"There is no file \S*none.jsonl"),
        ({"rows": [3]}, "Rows are mappings"),
        ({"tools": "calculator"}, "The tools of .* are its methods"),
    ):
        with pytest.raises(ForageError, match=sentence):
            make("text:counter.py:Counter", **options)
    with pytest.raises(ForageError, match="takes no rows"):
        make("text:addition", rows=[{}])


@pytest.mark.thorough
def test_bad_tools(bad):
    with pytest.raises(ForageError, match="NoTool is no tool: a tool is a function with annotations"):
        make("text:addition", tools="bad.py:NoTool")
    with pytest.raises(ForageError, match=r"has no function or class slower; it has .*slow"):
        make("text:addition", tools="bad.py:slower")
    slow, fails, later = (own_tool(f"bad.py:{name}") for name in ("slow", "fails", "later"))
    slow.seconds = 0.5
    assert slow.call("a").text == "The tool slow gave no answer within 0.5 seconds." and slow.call("a").error
    assert fails.call("a").text == "ValueError: oh a" and fails.call("a").error
    assert later.call("4").text == "8" and later.call("x").error
    assert later.invoke({"count": 1}).text == "later cannot be called so: missing a required argument: 'number'."
    assert later.invoke([1]).error
    for tool in (slow, fails, later):
        tool.close()
