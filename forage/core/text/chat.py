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


def render(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None,
    answer: bool,
    more: Mapping[str, Any],
) -> str:
    """Return a dialogue as one text. See `Tokenizer.chat`."""
    compiled = compile_template(template)
    from jinja2 import TemplateError

    try:
        return compiled.render(messages=messages, tools=tools, documents=None, add_generation_prompt=answer, **more)
    except (TemplateError, TypeError) as error:
        raise ForageError(f"The chat template refuses these messages: {error}.") from None


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
        """Renders `{% generation %}`, the mark around a model's own text, as its content."""

        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body, lineno=line)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    ours: dict[str, Any] = {"raise_exception": refuser(TemplateError)}
    ours["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    environment.globals.update(ours)
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
