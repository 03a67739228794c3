"""Pages of parts and wrappers, from their own docstrings, options, presets and claims.

`make docs` builds them; none is kept in the repository.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import textwrap
from pathlib import Path

from forage.config import part_options, registry
from forage.config.help.describing import docstrings
from forage.config.presets import presets_of
from forage.config.ranges import range_words
from forage.studies.claims import of_part

sys.path.append(str(Path(__file__).parent))
from formulas import typeset

RESULTS = Path(__file__).parents[1] / "claims" / "results"
FOLDER = "docs/parts"


ENTITIES = {"<": "&lt;", "~": "&#126;", "$": "&#36;"}
"""Signs that Markdown does not unescape."""
PLAIN = re.compile(r"`[^`]*`|([*_<>$\\[\]|~])")


def prose(docstring: str) -> str:
    """Return a docstring as Markdown: paragraphs as such, indented formulas as they are, arguments as a list."""
    blocks = []
    for block in docstring.split("\n\n"):
        if block.startswith("    "):
            blocks.append(typeset(textwrap.dedent(block)))
        elif re.match(r"[A-Z]\w+:\n +", block):
            title, _, rest = block.partition("\n")
            said = re.sub(r"\n {4,}", " ", textwrap.dedent(rest))
            rows = [row.partition(": ") for row in said.split("\n")]
            listed = [f"- `{name}`: {escape(words)}" for name, _, words in rows]
            blocks.append("\n".join([f"**{title.rstrip(':')}**", "", *listed]))
        else:
            blocks.append(escape(block))
    return "\n\n".join(blocks)


def escape(text: str) -> str:
    """Return a text in which no sign outside of code is Markdown's."""
    return PLAIN.sub(lambda found: ENTITIES.get(found[1], f"\\{found[1]}") if found[1] else found[0], text)


VERDICTS = {
    "holds": "It **holds**",
    "fails": "It **fails**",
    "no difference": "There is **no difference**",
    "undecided": "It is **undecided**",
}
"""The words of each verdict, before the claim's name."""


def claims(name: str) -> list[str]:
    """The verdicts and pictures of a part's claims, as far as they were run."""
    lines = []
    for claim in of_part(name):
        path = RESULTS / f"{claim}.json"
        if path.exists():
            found = json.loads(path.read_text())
            verdict = VERDICTS[found["verdict"]]
            lines += [f"{found['statement']} {verdict} here: [{claim}](../claims/{claim}.md)."]
            lines += ["", f"![What each arm reached](../claims/{claim}.png)", ""]
            lines += [f"```sh\nforage claim {claim}\n```", ""]
    return ["## Claims", "", *lines] if lines else []


def page(port: str, name: str, target: str) -> str:
    """One part's page."""
    cls = registry.load(target)
    prefix = "" if port == "agent" else f"{port}."
    where = f"`{target}`{registry.package_words(target)}"
    lines = [f"# {name}", "", f"A part for the port **{port}**: {where}.", ""]
    lines += [prose(docstrings(cls)), ""]
    command = cls.example
    lines += ["## Run it", "", f"```sh\n{command}\n```" if command.startswith("forage") else f"{command}", ""]
    lines += claims(name)
    fields = part_options.fields(cls)
    if fields:
        lines += ["## Options", "", "| option | default | range | |", "|---|---|---|---|"]
        for field in fields:
            default = "required" if field.required else f"`{field.default}`"
            option = f"`--{prefix}{field.name.replace('_', '-')}`"
            lines.append(f"| {option} | {default} | {range_words(cls, field.name)} | {field.help} |")
        lines.append("")
    presets = presets_of(name)
    if presets:
        lines += [
            "## Presets",
            "",
            "| environment | steps a seed | settings | where they come from |",
            "|---|---|---|---|",
        ]
        for preset in presets:
            ids = ", ".join(f"`{pattern}`" for pattern in preset.environment.split())
            lines.append(f"| {ids} | {preset.steps:,} | {preset.words} | {preset.source} |")
        lines.append("")
    return "\n".join(lines)


def wrapper_page(name: str, target: str) -> str:
    """One wrapper's page."""
    cls = registry.wrapper_class(name)
    lines = [f"# {name}", "", f"A wrapper, for any environment in JAX that it fits: `{target}`.", ""]
    lines += [prose(inspect.cleandoc(cls.__doc__ or "")), ""]
    lines += ["## Run it", "", f"```sh\n{cls.example}\n```", ""]
    fields = registry.wrapper_fields(cls)
    if fields:
        words = ":".join([name, *(field.name.replace("_", "-").upper() for field in fields)])
        lines += ["## Options", "", f"`--wrap {words}`, or by name, as in `{name}:option=value`.", ""]
        lines += ["| option | default | |", "|---|---|---|"]
        for field in fields:
            default = "required" if field.required else f"`{field.default}`"
            lines.append(f"| `{field.name.replace('_', '-')}` | {default} | {field.help} |")
        lines.append("")
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """Return the text of each page, by its name in the repository."""
    result = {}
    index = ["# Parts", "", "Each part has a page, made of its own docstring, options, presets and claims.", ""]
    for port in registry.PORTS:
        table = registry.parts(port)
        index += [f"## {port}", ""]
        for name, target in table.items():
            result[f"{FOLDER}/{name}.md"] = page(port, name, target)
            first = (registry.load(target).__doc__ or "").strip().splitlines()[0] + registry.package_words(target)
            index.append(f"- [{name}]({name}.md): {first}")
        index.append("")
    index += ["## wrappers", ""]
    for name, target in registry.WRAPPERS.items():
        result[f"{FOLDER}/{name}.md"] = wrapper_page(name, target)
        first = (registry.wrapper_class(name).__doc__ or "").strip().splitlines()[0]
        index.append(f"- [{name}]({name}.md): {first}")
    index.append("")
    result[f"{FOLDER}/README.md"] = "\n".join(index)
    return result
