"""The model card of a shared run in Markdown: its score, its settings, its versions and its loading."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

from forage.core import spaces
from forage.core.plain import dumps
from forage.core.records import printable
from forage.evaluation.statistics import Score
from forage.runs.changes import flatten_config
from forage.runs.run import Run, read_json
from forage.runs.scoring import score_lines
from forage.studies.comparison.gathering import environment_of


def card(run: Run, repository: str) -> str:
    """Write the card of a run that is shared as `repository`."""
    agent, name = run.config["agent"]["part"], run.config["spec"]["name"]
    seeds, spec = run.config["seeds"], run.config["spec"]
    made = read_json(run.directory / "versions.json")
    said = str(made.get("forage", ""))
    version = f"=={said}" if re.fullmatch(r"[\w.+-]+", said) else ""  # it stands in a command
    sections = [
        f"---\n{header(run)}\n---",
        f"# {escape_markdown(agent)} on {escape_markdown(name)}",
        f"Trained with [Forage](https://pypi.org/project/forage-rl/) in {escape_markdown(environment_of(run))}: "
        f"{run.config['steps']:,} steps of each of {len(seeds)} seed{'s' if len(seeds) > 1 else ''} "
        f"({', '.join(map(str, seeds))}). This repository holds the agents of all of them.",
        "## Score",
        *card_scores(run),
    ]
    if (run.directory / "curve.png").exists():
        sections.append("![Learning curve](curve.png)")
    if (run.directory / "agent.gif").exists():
        sections.append("![The agent at play](agent.gif)")
    sections += [
        "## Use it",
        f"```sh\npip install forage-rl{version} huggingface_hub\nforage pull {repository}\n```",
        "```python\nimport forage\n\n"
        f'run = forage.pull("{repository}")\n'
        "policy = run.agent  # the best seed in evaluation; forage.load(run.directory, seed=...) for another\n"
        "action = policy.act(observation)\n```",
        "Loading reads numbers and names, and runs no code from this repository.",
        markdown_table(
            ["", ""],
            [
                ["observation", spaces.describe_space(spaces.from_json(spec["observation_space"]))],
                ["action", spaces.describe_space(spaces.from_json(spec["action_space"]))],
            ],
        ),
        "## Settings",
        markdown_table(["setting", "value"], cells(card_settings(run))),
        "## Made with",
        markdown_table(["", ""], cells(flatten_config({k: v for k, v in made.items() if k != "git"}))),
    ]
    return "\n\n".join(sections) + "\n"


def header(run: Run) -> str:
    """Return the card's header for the Hub: tags and the mean evaluation return, in JSON, which is YAML too.

    A `<` is written by its number, so that names are not HTML even for a reader that takes the header for text.
    """
    agent, name = run.config["agent"]["part"], run.config["spec"]["name"]
    data: dict[str, Any] = {
        "library_name": "forage",
        "pipeline_tag": "reinforcement-learning",
        "tags": ["reinforcement-learning", "deep-reinforcement-learning", "forage", name, agent],
    }
    found = run.scores if run.evaluation else {}
    if found:
        task = {"type": "reinforcement-learning", "name": "reinforcement-learning"}
        results = [
            {
                "task": task,
                "dataset": {"name": name, "type": name},
                "metrics": [
                    {"type": "mean_reward", "name": f"return{f', {label}' if label else ''}", "value": str(one)}
                ],
            }
            for label, one in found.items()
        ]
        data["model-index"] = [{"name": agent, "results": results}]
    return "\n".join(f"{key}: {dumps(value)}" for key, value in data.items()).replace("<", "\\u003c")


def card_scores(run: Run) -> list[str]:
    """Return a table of the score of each setting, and the method of measurement."""
    evaluation = run.evaluation
    if evaluation is None:
        return ["It has not been evaluated."]

    def row(label: str, one: Score) -> list[str]:
        interval = "none, of one seed" if one.low is None else f"[{one.low:.4g}, {one.high:.4g}]"
        return [escape_markdown(label) or "all", f"{one.value:.4g}", interval, str(one.seeds)]

    rows = [row(label, one) for label, one in run.scores.items()]
    how = escape_markdown("; ".join(score_lines(evaluation)))
    return [markdown_table(["setting", "return", "95 % interval", "seeds"], rows), f"{how[0].upper()}{how[1:]}."]


def card_settings(run: Run) -> dict[str, str]:
    """Return the settings of the run without its spaces, which the card has elsewhere."""
    config = {key: value for key, value in run.config.items() if key not in ("spec", "seeds")}
    return {name: value for name, value in flatten_config(config).items() if value not in ("", "None", "{}", "[]")}


SPEAKING = re.compile(r"([\\`\[\]!*])")
"""The characters of Markdown's links, pictures and code."""


def escape_markdown(text: str) -> str:
    """Return text that is neither HTML nor Markdown on a page of Markdown, on one line."""
    return SPEAKING.sub(r"\\\1", html.escape(" ".join(printable(text).split()), quote=False))


def cells(named: Mapping[str, str]) -> list[list[str]]:
    """Return names and values as rows of plain text."""
    return [[escape_markdown(name), escape_markdown(str(value))] for name, value in named.items()]


def markdown_table(head: Any, rows: Any) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
