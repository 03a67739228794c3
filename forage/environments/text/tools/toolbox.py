"""Find the calls in a policy's text, ask the tools, and write the text with their answers.

A call is `<call>name: text</call>` and its answer `<result>...</result>`, unless `Syntax` is changed. Reading is
strict, and total: for any text, `parse_calls` returns calls and complaints and never raises. A complaint is one
sentence, which the policy reads in the place of an answer.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Iterable
from typing import Any

from forage.core.errors import ForageError, nearest
from forage.core.text.dialogue import Message
from forage.environments.text.tools.native import Native, NativeCall
from forage.environments.text.tools.tool import Answer, RecordedTool, Remembers, Tool, printable_text


@dataclasses.dataclass(frozen=True)
class Syntax:
    """The markers around calls and answers."""

    begin: str = "<call>"
    end: str = "</call>"
    answer_begin: str = "<result>"
    answer_end: str = "</result>"

    def __post_init__(self) -> None:
        """Raise ForageError for markers that cannot be distinguished."""
        markers = self.markers()
        if any(len(marker) < 2 or marker != marker.strip() for marker in markers):
            raise ForageError("A marker of calls has at least two characters, and no space around them.")
        if any(one is not other and one in other for one in markers for other in markers) or len(set(markers)) < 4:
            raise ForageError(f"The markers of calls must differ, and none may contain another: {', '.join(markers)}.")

    def markers(self) -> tuple[str, ...]:
        """Return all four."""
        return self.begin, self.end, self.answer_begin, self.answer_end


@dataclasses.dataclass(frozen=True)
class Call:
    """A call that can be made."""

    tool: str
    text: str


@dataclasses.dataclass(frozen=True)
class Complaint:
    """A sentence about a call that cannot be made."""

    text: str


def parse_calls(
    written: str, names: tuple[str, ...], syntax: Syntax, most: int, longest: int
) -> tuple[Call | Complaint, ...]:
    """Return the calls in a text in their order, with a complaint in the place of each that is none.

    `most` calls and complaints are returned; if there are more, one complaint says how many were left out. A call's
    text has at most `longest` characters.
    """
    found: list[Call | Complaint] = []
    shape = f"{syntax.begin}name: text{syntax.end}"
    at = 0
    while True:
        begin, end = written.find(syntax.begin, at), written.find(syntax.end, at)
        if begin < 0 and end < 0:
            break
        if begin < 0 or 0 <= end < begin:
            found.append(Complaint(f"{syntax.end} ends no call: a call is written {shape}."))
            at = end + len(syntax.end)
            continue
        inside = begin + len(syntax.begin)
        again = written.find(syntax.begin, inside)
        if end < 0 and again < 0:
            found.append(Complaint(f"The call is not ended by {syntax.end}."))
            break
        if end < 0 or 0 <= again < end:
            found.append(Complaint("A call begins within another, which is left out."))
            at = again
            continue
        found.append(read_call(written[inside:end], names, shape, longest))
        at = end + len(syntax.end)
    if len(found) > most:
        left = len(found) - most
        found = [*found[:most], Complaint(f"At most {most} calls are answered in a turn: {left} more were left out.")]
    return tuple(found)


def read_call(inside: str, names: tuple[str, ...], shape: str, longest: int) -> Call | Complaint:
    """Return the call between two markers."""
    name, colon, text = inside.partition(":")
    name = name.strip()
    if not colon:
        return Complaint(f"The call has no colon: a call is written {shape}.")
    if name not in names:
        shown = name if re.fullmatch(r"[\w-]{1,30}", name) else "of that name"
        return Complaint(f"There is no tool {shown}{nearest(name[:30], names)}")
    if not text.strip():
        return Complaint(f"The call of {name} has no text after the colon.")
    if len(text) > longest:
        return Complaint(f"The text of a call has at most {longest:,} characters, and this one {len(text):,}.")
    return Call(name, text)


@dataclasses.dataclass(frozen=True)
class Reply:
    """The reply to a policy's text."""

    text: str  # the answers, each between its markers; empty if nothing was called
    answers: tuple[Answer, ...]  # the same, one by one
    messages: tuple[Message, ...] = ()  # the same as tool messages, with the calls of a chat template
    results: tuple[Message, ...] = ()  # the same as tool messages, however the policy calls


def tool_message(name: str, answer: Answer) -> Message:
    """Return the answer of a tool as a message."""
    return {"role": "tool", "name": name, "content": answer.text}


@dataclasses.dataclass(frozen=True)
class Toolbox:
    """The policy's tools, with limits of the number of calls and the length of answers."""

    tools: tuple[Tool, ...]
    syntax: Syntax = Syntax()
    most: int = 4  # calls that are answered in a turn
    longest: int = 4000  # characters of a call's text
    limit: int = 1000  # characters of an answer, before it is cut
    native: Native | None = None  # the form of calls of a chat template, in place of the syntax

    def __post_init__(self) -> None:
        """Check the tools and the limits."""
        object.__setattr__(self, "tools", tuple(self.tools))
        for tool in self.tools:
            if not isinstance(tool, Tool):
                raise ForageError(f"A tool has a name, a description and `call`, and {tool!r} lacks one of them.")
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", tool.name):
                raise ForageError(f"A tool's name is of letters, digits, _ and -, unlike {tool.name!r}.")
        names = self.names()
        if len(set(names)) < len(names) or not names:
            raise ForageError(f"A toolbox needs tools with different names, and has {', '.join(names) or 'none'}.")
        for name in ("most", "longest", "limit"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ForageError(f"A toolbox's {name} is a whole number of at least 1, not {value!r}.")

    def names(self) -> tuple[str, ...]:
        """Return the names of the tools."""
        return tuple(tool.name for tool in self.tools)

    @property
    def waits(self) -> bool:
        """Return whether a tool has its calls computed by another process, or waits for one."""
        return any(getattr(tool, "waits", False) for tool in self.tools)

    def description(self) -> str:
        """Return the part of a prompt about the tools."""
        syntax = self.syntax
        lines = [f"Call a tool by {syntax.begin}name: text{syntax.end}. The tools:"]
        return "\n".join([*lines, *(f"{tool.name}: {tool.description}" for tool in self.tools)])

    def schemas(self) -> tuple[dict[str, Any], ...]:
        """Return the JSON schemas of the tools; one whose calls are texts has a single argument `text`."""
        text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        return tuple(
            getattr(tool, "schema", None)
            or {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": text},
            }
            for tool in self.tools
        )

    def write_call(self, name: str, text: str) -> str:
        """Return the call of a tool by a text, as the policy would write it."""
        if self.native is not None:
            return self.native.write(name, {"text": text})
        return f"{self.syntax.begin}{name}: {text}{self.syntax.end}"

    def reply(self, written: str) -> Reply:
        """Return the answers to all calls in a policy's text."""
        if self.native is not None:
            return self.reply_natively(self.native, written)
        answers, results = [], []
        for one in parse_calls(written, self.names(), self.syntax, self.most, self.longest):
            answers.append(Answer(one.text, True, 0.0) if isinstance(one, Complaint) else self.ask(one))
            results.append(tool_message("" if isinstance(one, Complaint) else one.tool, answers[-1]))
        syntax = self.syntax
        text = "\n".join(f"{syntax.answer_begin}{answer.text}{syntax.answer_end}" for answer in answers)
        return Reply(text, tuple(answers), results=tuple(results))

    def reply_natively(self, native: Native, written: str) -> Reply:
        """Return the answers to calls in the form of a chat template, as tool messages."""
        calls = native.parse(written)
        left = len(calls) - self.most
        if left > 0:
            last = NativeCall("", None, f"At most {self.most} calls are answered in a turn: {left} more were left out.")
            calls = (*calls[: self.most], last)
        answers = tuple(self.ask_natively(native, call) for call in calls)
        messages = tuple(tool_message(call.name, answer) for call, answer in zip(calls, answers, strict=True))
        return Reply("\n".join(answer.text for answer in answers), answers, messages, messages)

    def has_calls(self, written: str) -> bool:
        """Return whether a text calls, or tries to."""
        if self.native is not None:
            return bool(self.native.parse(written))
        return any(marker in written for marker in (self.syntax.begin, self.syntax.end))

    def message(self, written: str) -> Message:
        """Return a policy's text as a message of the assistant: its calls apart, as transformers has them.

        A text with a call that cannot be read stays whole.
        """
        found: list[tuple[str, Any]] = []
        if self.native is not None:
            read = self.native.parse(written)
            found = [] if any(one.fault for one in read) else [(one.name, one.arguments) for one in read]
        else:
            parsed = parse_calls(written, self.names(), self.syntax, self.most, self.longest)
            if all(isinstance(one, Call) for one in parsed):
                found = [(one.tool, self.arguments(one)) for one in parsed if isinstance(one, Call)]
        if not found:
            return {"role": "assistant", "content": written}
        begin, end = map(re.escape, (self.syntax.begin, self.syntax.end))
        own = re.sub(f"{begin}.*?{end}", "", written, flags=re.DOTALL)
        content = (own if self.native is None else self.native.without_calls(written)).strip()
        calls = [{"type": "function", "function": {"name": name, "arguments": given}} for name, given in found]
        return {"role": "assistant", "content": content, "tool_calls": calls}

    def arguments(self, call: Call) -> Any:
        """Return the arguments of a call by name; of a tool that reads a text, the `text`."""
        tool: Any = self.tools[self.names().index(call.tool)]
        read = tool.read_text(call.text) if hasattr(tool, "read_text") else None
        return {"text": call.text.strip()} if read is None else read

    def ask_natively(self, native: Native, call: NativeCall) -> Answer:
        """Return the answer to one call in the form of a chat template."""
        if call.fault:
            return Answer(call.fault, True, 0.0)
        if call.name not in self.names():
            shown = call.name if re.fullmatch(r"[\w-]{1,30}", call.name) else "of that name"
            return Answer(f"There is no tool {shown}{nearest(call.name[:30], self.names())}", True, 0.0)
        tool: Any = self.tools[self.names().index(call.name)]
        if hasattr(tool, "invoke"):
            return self.guard(tool, lambda: tool.invoke(call.arguments), native.markers)
        text = call.arguments.get("text") if isinstance(call.arguments, dict) else None
        if not isinstance(text, str) or len(text) > self.longest:
            wanted = f"a text of at most {self.longest:,} characters"
            return Answer(f"{call.name} has one argument, text, which is {wanted}.", True, 0.0)
        return self.guard(tool, lambda: tool.call(text), native.markers)

    def ask(self, call: Call) -> Answer:
        """Return a tool's answer to a call."""
        tool = self.tools[self.names().index(call.tool)]
        return self.guard(tool, lambda: tool.call(call.text), self.syntax.markers())

    def guard(self, tool: Tool, compute: Callable[[], Answer], markers: Iterable[str]) -> Answer:
        """Return a tool's answer, cut and without markers, so that it cannot imitate other answers.

        A tool that raises costs this call and not the run; only a ForageError, which a person has to mend, is passed
        on.
        """
        start = time.perf_counter()
        try:
            answer = compute()
        except ForageError:
            raise
        except Exception as error:
            said = f"The tool {tool.name} failed: {type(error).__name__}: {error}"
            answer = Answer(said, True, time.perf_counter() - start)
        if not isinstance(answer, Answer) or not isinstance(answer.text, str):
            raise ForageError(f"The tool {tool.name} answered with {answer!r:.60}, and a tool's answer is an Answer.")
        text = printable_text(answer.text, self.limit)
        for marker in markers:
            text = text.replace(marker, f"{marker[0]} {marker[1:]}")
        return dataclasses.replace(answer, text=text)

    def close(self) -> None:
        """Free the resources of the tools, such as processes."""
        for tool in self.tools:
            if close := getattr(tool, "close", None):
                close()

    def begin(self, seed: int) -> None:
        """Begin an episode: tools that remember forget the last one."""
        for tool in self.tools:
            if isinstance(tool, Remembers):
                tool.begin(seed)

    def save(self) -> dict[str, bytes]:
        """Return the states of the tools within an episode, by name."""
        return {tool.name: tool.save() for tool in self.tools if isinstance(tool, Remembers)}

    def restore(self, saved: dict[str, bytes]) -> None:
        """Restore the saved states."""
        for tool in self.tools:
            if isinstance(tool, Remembers):
                tool.restore(saved[tool.name])

    def record(self) -> dict[str, Any]:
        """Return the tools' records for a run's files, such as the promises of the sandbox that held."""
        return {tool.name: tool.record() if isinstance(tool, RecordedTool) else {} for tool in self.tools}
