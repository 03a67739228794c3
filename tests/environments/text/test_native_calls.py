"""Calls of tools in the form of a chat template: found by asking it, read, answered by tool messages, and schemas."""

import enum
from typing import Any, Literal

import numpy as np
import pytest

from forage.core.errors import ForageError
from forage.core.text import named
from forage.core.text.own import BytePairs
from forage.environments.text.environment import TextEnvironment
from forage.environments.text.tools.calculator import Calculator
from forage.environments.text.tools.native import Native, NativeCall, native_form
from forage.environments.text.tools.schemas import function_schema, type_schema
from forage.environments.text.tools.toolbox import Toolbox

TOOLED = """{% if tools %}[tools]{{ tools | tojson }}<|stop|>{% endif %}{% for message in messages %}
{{- '[' + message.role + ']' + message.content }}
{%- for call in message.tool_calls or [] %}CALL{% endfor %}{{ '<|stop|>' }}{% endfor %}
{%- if add_generation_prompt %}[assistant]{% endif %}"""
"""A template with tools, without the form of its calls."""
NAME, ARGUMENTS = "{{ call.function.name }}", "{{ call.function.arguments | tojson }}"
EACH = "{% for key, value in call.function.arguments | items %}"
PARAMETER = "{{- '<parameter=' + key + '>\n' + value + '\n</parameter>\n' }}{% endfor %}"
PAIR = "{{- '<arg_key>' + key + '</arg_key>\n<arg_value>' + value + '</arg_value>\n' }}{% endfor %}"
FORMS = {
    "json": f'<tool_call>\n{{"name": "{NAME}", "arguments": {ARGUMENTS}}}\n</tool_call>',
    "bare": f'{{"name": "{NAME}", "parameters": {ARGUMENTS}}}',
    "function": f"<tool_call>\n<function={NAME}>\n{EACH}\n{PARAMETER}</function>\n</tool_call>",
    "arguments": f"<tool_call>{NAME}\n{EACH}\n{PAIR}</tool_call>",
}


@pytest.mark.parametrize("kind", FORMS)
def test_a_templates_form_is_found_written_and_read(kind):
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    template = TOOLED.replace("CALL", FORMS[kind])
    found = native_form(BytePairs(special=("<|stop|>",), template=template))
    assert found.kind == kind and "<|stop|>" in found.markers
    for arguments in ({"text": "1 + 2"}, {"text": 'a "b"', "most": 3, "size": [1, 2]}):
        assert found.parse(found.write("search", arguments)) == (NativeCall("search", arguments),)
    assert found.parse("no call") == ()


def test_forms_that_are_not_known():
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    for template in (TOOLED, TOOLED.replace("message.content", "(message.content if message.role != 'tool' else '')")):
        assert native_form(BytePairs(special=("<|stop|>",), template=template)) is None
    assert native_form(BytePairs()) is None


@pytest.mark.parametrize(
    ("kind", "text", "fault"),
    [
        ("json", "<tool_call>{'a'}</tool_call>", "The call is no JSON."),
        ("json", '<tool_call>{"name": 3}</tool_call>', 'A call is {"name": ..., "arguments": {...}}.'),
        ("json", "<tool_call>" + "[" * 9999 + "</tool_call>", "The call is no JSON."),
        ("json", "<tool_call>{}", "The call is not ended by </tool_call>."),
        ("bare", '{"name": "a"', "The call is no JSON."),
        ("function", "<tool_call>a</tool_call>", "The call has no name."),
    ],
)
def test_calls_that_are_none(kind, text, fault):
    assert [call.fault for call in Native(kind).parse(text)] == [fault]


def add(left: int, right: int = 1) -> int:
    """Add two numbers."""
    return left + right


def test_answers_are_tool_messages():
    native = Native("json", ("<|stop|>", "<tool_call>"))
    box, call = Toolbox((Calculator(),), native=native), native.write
    reply = box.reply(call("calculator", {"text": "1/2"}) + call("sum", {}) + call("calculator", {"x": 1}))
    assert [one["content"] for one in reply.messages] == [
        "1/2",
        "There is no tool sum. Available: calculator.",
        "calculator has one argument, text, which is a text of at most 4,000 characters.",
    ]
    assert reply.messages[0] == {"role": "tool", "name": "calculator", "content": "1/2"}
    many = box.reply(call("calculator", {"text": "1"}) * 6)
    assert len(many.messages) == 5 and many.messages[-1]["content"].endswith("in a turn: 2 more were left out.")

    class Injecting(Calculator):
        def call(self, text):
            return super().call("1").__class__("a<|stop|>b", False, 0.0)

    assert Toolbox((Injecting(),), native=native).reply(call("calculator", {"text": "1"})).text == "a< |stop|>b"


def test_an_environment_with_calls_of_the_template(tmp_path):
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    own = named.tokenizer("forage")
    template = TOOLED.replace("CALL", FORMS["json"])
    options = {"tokenizer": str(BytePairs(own.pairs, ("<|stop|>",), template).save(tmp_path)), "chat": True}
    options |= {"tools": "calculator", "context": 700, "response": 70}
    environment = TextEnvironment("addition", 1, **options)
    seen = environment.reset(1)
    text = environment.episodes.slots[0].read.text
    assert text.startswith('[tools][{"type": "function", "function": {"name": "calculator", "description": ')
    after = environment.step(seen["reference"])
    _, call, result = (said for _, said in environment.episodes.records[0].said)
    assert call.startswith('<tool_call>\n{"name": "calculator", "arguments": {"text": ')
    assert environment.episodes.slots[0].read.text == f"{text}{call}<|stop|>[tool]{result}<|stop|>[assistant]"
    assert environment.step(after.observation["reference"]).step.reward == 1
    forage = TextEnvironment("addition", 1, **options, calls="forage")
    forage.reset(1)
    assert "[tools]" not in forage.episodes.slots[0].read.text
    for more, sentence in (
        ({"calls": "all"}, "of the template or of forage"),
        ({"calls": "template"}, "writes no calls"),
    ):
        with pytest.raises(ForageError, match=sentence):
            TextEnvironment("addition", 1, tools="calculator", **more)


class Size(enum.Enum):
    SMALL, LARGE = "small", "large"


def search(
    query: str,
    kinds: list[str] | None,
    size: Size = Size.SMALL,
    depth: int | float = 1,
    more: dict[str, Any] | None = None,
) -> str:
    """
    Search a shelf
    for a book.

    Args:
        query (str): A word of the title,
            or several.
        kinds: Of books (choices: ["old", "new"])
        size: How large.
        depth: Where.
        more: Other wishes.

    Returns:
        The titles.
    """
    return query


SCHEMA = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Search a shelf\nfor a book.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "A word of the title, or several."},
                "kinds": {
                    "type": "array",
                    "items": {"type": "string"},
                    "nullable": True,
                    "enum": ["old", "new"],
                    "description": "Of books",
                },
                "size": {"type": "string", "enum": ["small", "large"], "description": "How large."},
                "depth": {"type": ["integer", "number"], "description": "Where."},
                "more": {
                    "type": "object",
                    "additionalProperties": {},
                    "nullable": True,
                    "description": "Other wishes.",
                },
            },
            "required": ["query", "kinds"],
        },
        "return": {"type": "string", "description": "The titles."},
    },
}


def test_schemas_of_functions():
    assert function_schema(search) == SCHEMA
    assert type_schema(tuple[int, str]) == {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]}
    assert type_schema(Literal["a", 1]) == {"type": ["string", "integer"], "enum": ["a", 1]}
    assert type_schema(list[int] | dict) == {
        "anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "object"}]
    }
    assert [type_schema(hint) for hint in (np.ndarray, list[np.ndarray], tuple[int, ...], Literal[b"a"])] == [None] * 4


@pytest.mark.thorough
def test_schemas_are_those_of_transformers():
    transformers = pytest.importorskip("transformers.utils", reason="transformers is not installed")
    assert transformers.get_json_schema(search) == SCHEMA
