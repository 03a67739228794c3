"""`forage study`: train agents in environments with seeds, and write one table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forage.cli.arguments import display, port_choice, say, take_options
from forage.config import options
from forage.config.options import PORTS
from forage.core.errors import ForageError, nearest

HELP = """\
forage study FILE [OPTIONS]
forage study AGENT,... x ENVIRONMENT,... [x SEEDS] [OPTIONS]
forage study DIRECTORY [OPTIONS]

Trains each agent in each environment with each seed, every cell a run of its own, and writes tables (study.md,
study.tex, scores.csv, aggregates.csv) and pictures (PDF and SVG): returns in each environment, and IQM, mean, median,
optimality gap and performance profiles of normalised scores over all environments, with intervals. The same command
continues a study that was stopped, and processes that run it at once share its cells.

  --directory PATH       folder of the study; default runs/NAME of the file, or of agents and environments
  --jobs N | ray:N       processes at once on this machine, or tasks of a Ray cluster; default 1
  --anyway               continue runs although code or versions differ from those that they were made with
  --OPTION VALUE         a setting of all runs, as in forage train: --steps, --env.NAME, --memory ... (not an agent's)
  --quiet | --json | --plain   show nothing; one JSON object; also the progress of each run

A file names what differs between agents and environments (docs/studies.md).

Examples
  forage study ppo,dqn x CartPole-v1,Acrobot-v1 x 5 --steps 100k
  forage study walkers.toml --jobs 4
  forage study runs/walkers
"""


def run(positional: list[str], words: options.Words) -> int:
    """Run `forage study`."""
    kind, anyway = display(words), bool(words.pop("anyway", False))
    directory = words.pop("directory", None)
    jobs = str(words.pop("jobs", "1"))
    if "seeds" in words:
        raise ForageError("Seeds of a study stand in its file, or after an x: forage study ppo,dqn x CartPole-v1 x 5.")
    taken = take_options(words)
    taken.pop("display", None)
    taken |= {port: choice for port in PORTS if (choice := port_choice(port, words)) is not None}
    if words:
        unknown = options.hyphens(next(iter(words)))
        known = ["directory", "jobs", "anyway", *map(options.hyphens, options.WORDS)]
        raise ForageError(
            f"forage study has no option '--{unknown}'{nearest(unknown, known, '--')} Options of an agent stand in "
            f"a file."
        )
    from forage.runs.training import use_compilation_cache
    from forage.studies.study.design import parse_words
    from forage.studies.study.study import study, study_data, study_sentences

    settings = plain_settings(taken)
    source: Any = positional[0] if len(positional) == 1 else parse_words(positional) if positional else None
    if source is None:
        parse_words([])
    around = {
        name: taken[key] for name, key in (("options", "environment_options"), ("wrap", "wrap")) if taken.get(key)
    }
    if isinstance(source, dict):
        source |= settings
        source["environments"] = {
            task: {"environment": {"id": task, **around}} if around else {} for task in source["environments"]
        }
    elif settings or around:
        raise ForageError(f"Settings of a study stand in its file; put {next(iter(settings | around))} into {source}.")
    elif not Path(source).exists():
        raise ForageError(f"There is no file and no study at {source}; a study in words is ppo,dqn x CartPole-v1 x 5.")
    use_compilation_cache()

    def note(text: str) -> None:
        if kind not in ("quiet", "json"):
            print(text, flush=True)

    shown = "plain" if kind == "plain" else "quiet"
    result = study(
        source, None if directory is None else str(directory), jobs=jobs, display=shown, anyway=anyway, note=note
    )
    if kind == "json":
        say({"event": "study", **study_data(result)})
    elif kind != "quiet":
        print(*study_sentences(result), sep="\n")
    return 1 if result.failed else 0


def plain_settings(taken: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a training as a file of settings has them."""
    found = {name: value for name, value in taken.items() if name not in (*PORTS, "environment_options", "wrap")}
    for name in found:
        if name in ("start_from", "with_memory", "data", "hosts", "coordinator", "config", "trust", "sweep"):
            raise ForageError(f"A study has no --{'from' if name == 'start_from' else options.hyphens(name)}.")
    for port in PORTS:
        if port in taken:
            found[port] = {"part": taken[port].name, **taken[port].options}
    return found
