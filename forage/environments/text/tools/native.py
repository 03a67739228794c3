"""Calls of tools in the form of a chat template, and the tool messages that answer them.

A model writes the calls that its template shows. Of these forms a template has one, found by asking it for a call:

- Qwen2.5, Qwen3, Hermes, SmolLM3: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, several in a text.
- Llama 3: the text is `{"name": ..., "parameters": {...}}`.
- Qwen3.5: `<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>`.
- GLM 4: `<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from forage.core.errors import ForageError
from forage.core.text.dialogue import Dialogue
from forage.core.text.tokenizer import Tokenizer

BEGIN, END = "<tool_call>", "</tool_call>"
PAIRS = {
    "function": (r"<function=([^>\n]+)>", r"<parameter=([^>\n]+)>\s*(.*?)\s*</parameter>"),
    "arguments": (r"([^<\s]+)", r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>"),
}
"""Forms of names and values in tags: of a call's name, and of one argument."""
PROBE = {"type": "function", "function": {"name": "probed_name", "arguments": {"probed_key": "probed_value"}}}


class NativeCall(NamedTuple):
    """A call as the policy wrote it."""

    name: str
    arguments: Any  # a mapping, unless the policy wrote another value
    fault: str = ""  # why it is no call


class Native(NamedTuple):
    """The form of calls of a chat template."""

    kind: str  # json, bare, function or arguments
    markers: tuple[str, ...] = ()  # special tokens, which no answer of a tool may contain

    def parse(self, written: str) -> tuple[NativeCall, ...]:
        """Return the calls in a text, in their order."""
        if self.kind == "bare":
            text = written.strip().removeprefix("<|python_tag|>")
            looks_so = text.startswith("{") and '"name"' in text
            return (read_json_call(text, "parameters"),) if looks_so else ()
        found = []
        for piece in written.split(BEGIN)[1:]:
            inside, end, _ = piece.partition(END)
            if not end:
                found.append(NativeCall("", None, f"The call is not ended by {END}."))
            elif self.kind == "json":
                found.append(read_json_call(inside, "arguments"))
            else:
                found.append(read_tagged_call(inside, *PAIRS[self.kind]))
        return tuple(found)

    def without_calls(self, written: str) -> str:
        """Return a text without its calls, all of which can be read."""
        return "" if self.kind == "bare" else re.sub(f"{BEGIN}.*?{END}", "", written, flags=re.DOTALL)

    def write(self, name: str, arguments: dict[str, Any]) -> str:
        """Return a call as the template writes it."""
        if self.kind == "bare":
            return json.dumps({"name": name, "parameters": arguments}, ensure_ascii=False)
        if self.kind == "json":
            return f"{BEGIN}\n{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}\n{END}"
        values = {key: one if isinstance(one, str) else json.dumps(one) for key, one in arguments.items()}
        if self.kind == "function":
            inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
            return f"{BEGIN}\n<function={name}>\n{inner}</function>\n{END}"
        inner = "".join(f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in values.items())
        return f"{BEGIN}{name}\n{inner}{END}"


def read_json_call(text: str, key: str) -> NativeCall:
    """Return the call that is written as JSON."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return NativeCall("", None, "The call is no JSON.")
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        return NativeCall("", None, f'A call is {{"name": ..., "{key}": {{...}}}}.')
    return NativeCall(found["name"], found.get(key, {}))


def read_tagged_call(text: str, name: str, argument: str) -> NativeCall:
    """Return the call whose name and arguments stand in tags; values are JSON, or else texts."""
    begun = re.match(rf"\s*{name}", text)
    if begun is None:
        return NativeCall("", None, "The call has no name.")
    return NativeCall(
        begun[1], {key: read_value(value) for key, value in re.findall(argument, text[begun.end() :], re.DOTALL)}
    )


def read_value(text: str) -> Any:
    """Return a value as JSON has it, or else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def native_form(tokenizer: Tokenizer) -> Native | None:
    """Return the form of calls of a tokenizer's chat template; `None` if it writes none, or in an unknown form."""
    asked = {"role": "user", "content": "a"}
    messages: Sequence[dict[str, Any]] = (asked, {"role": "assistant", "content": "", "tool_calls": [PROBE]})
    result = {"role": "tool", "name": "probed_name", "content": "probed_result"}
    try:
        before = Dialogue((asked,)).text(tokenizer)
        text = Dialogue((*messages, result)).text(tokenizer).removeprefix(before)
    except ForageError:
        return None
    if "probed_result" not in text:
        return None
    called = text.partition("probed_result")[0]
    tests: dict[str, Callable[[str], bool]] = {
        "json": lambda said: re.search(rf'{BEGIN}\s*{{"name": "probed_name", "arguments": {{', said) is not None,
        "function": lambda said: "<function=probed_name>" in said and "<parameter=probed_key>" in said,
        "arguments": lambda said: f"{BEGIN}probed_name" in said and "<arg_key>probed_key</arg_key>" in said,
        "bare": lambda said: '{"name": "probed_name", "parameters": {' in said and BEGIN not in said,
    }
    markers = (*tokenizer.special, BEGIN, END, "<tool_response>", "</tool_response>")
    return next((Native(kind, markers) for kind, fits in tests.items() if fits(called)), None)
