"""Chat templates: Jinja templates that turn a dialogue into one text (extra `language`).

A template comes with a model, from people one may not know, so it runs in Jinja's sandbox and cannot change what it is
given. The names it may use are those of Hugging Face's templates.
"""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from forage.core.errors import ForageError

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""A template for Forage's own tokenizers: the form that Qwen and SmolLM use."""
CHATML_TOKENS = "<|im_start|>", "<|im_end|>"
"""The special tokens it needs."""
BEGIN, END = "forage_generation_begin", "forage_generation_end"  # names of the marks around a model's own text


def render(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None,
    answer: bool,
    more: Mapping[str, Any],
    date: str | None = None,
) -> str:
    """Return a dialogue as one text. See `Tokenizer.chat`."""
    compiled = compile_template(template)
    from jinja2 import TemplateError

    now = datetime.datetime.now() if date is None else read_date(date)
    names: dict[str, Any] = {
        "messages": messages,
        "tools": tools,
        "documents": None,
        "add_generation_prompt": answer,
        "strftime_now": now.strftime,
        BEGIN: "",
        END: "",
    }
    try:
        return compiled.render(names | dict(more))
    except (TemplateError, TypeError, KeyError, AttributeError, ValueError) as error:
        raise ForageError(f"The chat template refuses these messages: {error}.") from None


def read_date(date: str) -> datetime.datetime:
    """Return the date of a text such as 2026-12-31. Raise `ForageError` for another form."""
    try:
        return datetime.datetime.fromisoformat(date)
    except (TypeError, ValueError):
        raise ForageError(f"A date for a chat template is written as 2026-12-31, unlike {date!r}.") from None


@functools.lru_cache(maxsize=16)
def compile_template(template: str) -> Any:
    """Return a template that Jinja renders. Raise `ForageError` if Jinja is missing or cannot read it."""
    try:
        from jinja2 import TemplateError, nodes
        from jinja2.ext import Extension, loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise ForageError("Chat templates need an extra: pip install 'forage-rl[language]'.") from None

    class Generation(Extension):
        """Renders `{% generation %}`, the mark around a model's own text, as its content between two marks."""

        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            begin, end = (nodes.Output([nodes.Name(name, "load")], lineno=line) for name in (BEGIN, END))
            return nodes.Scope([begin, *body, end], lineno=line)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    refuse: dict[str, Any] = {"raise_exception": refuser(TemplateError)}
    environment.globals.update(refuse)
    try:
        return environment.from_string(template)
    except TemplateError as error:
        raise ForageError(f"The chat template cannot be read: {error}.") from None


def tojson(value: Any, indent: int | None = None, ensure_ascii: bool = False, **more: Any) -> str:
    """Return a value as JSON. Jinja's own would write signs of HTML as entities."""
    return json.dumps(value, indent=indent, ensure_ascii=ensure_ascii, **more)


def refuser(error: type[Exception]) -> Callable[[str], None]:
    """Return the function that a template calls to refuse messages."""

    def refuse(message: str) -> None:
        raise error(message)

    return refuse
