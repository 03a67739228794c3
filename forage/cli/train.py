"""`forage train`: train an agent in an environment."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

from forage.cli.arguments import part_or_functions, reading_words, take_options
from forage.config import former, options, part_options, registry
from forage.config.options import PORTS
from forage.core.elsewhere import ABSENT_IN_TRAINING
from forage.core.errors import ForageError, nearest

SETTINGS_FILES = (".toml", ".yaml", ".yml", ".json")
"""Endings of a file of settings."""

HELP = f"""\
forage train [AGENT] ENVIRONMENT [OPTIONS]
forage train [AGENT] --data FILE [--evaluate ENVIRONMENT] [OPTIONS]
forage train FILE.toml [OPTIONS]
forage train --from RUN [[AGENT] ENVIRONMENT] [OPTIONS]

{options.help_lines()}
Columns of a table (--data), over the TOML file beside it that forage data describe FILE writes; without that file those
that are not given are guessed by their names, but for the action
{options.reading_lines()}
  --quiet | --json | --plain   show nothing; one JSON object a line; lines
  --OPTION VALUE         any option of the agent (forage train AGENT --help)
  --env.OPTION VALUE     any field or option of the environment
  --behaviour, --rewards, --memory, --tasks, --starts NAME   the part of that port (forage list)
  --PORT.OPTION VALUE    any option of such a part, as in --memory.capacity 50k

forage train ppo --help lists the options of an agent; forage train ppo CartPole-v1 --help also those of the
environment and of the parts at the ports.

Examples
  forage train CartPole-v1
  forage train ppo CartPole-v1 --steps 500k --seeds 5 --learning-rate 3e-4
  forage train dqn minatar:Breakout --memory prioritised --memory.capacity 50k
  forage train ppo CartPole-v1 --sweep learning-rate=1e-4,1e-3 --env.cart-mass 2
  forage train iql --data log.csv --action order,supplier
"""


def explain(positional: list[str], words: options.Words) -> str:
    """Return the help about the agent and the environment that are named."""
    from forage.config.help.describing import training_help

    return training_help("train", positional, words)


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage train`."""
    if len(positional) == 1 and positional[0].lower().endswith(SETTINGS_FILES) and "config" not in words:
        words["config"] = positional.pop()
    agent, environment = [None, None, *positional][-2:]
    if agent is None and environment is not None and "data" in words and registry.target_of("agent", environment):
        agent, environment = environment, None  # the data have the spaces
    given = {**take_options(words), "agent": agent, "environment": environment}
    if "data" in given:
        given |= reading_words(words)
    save_to = given.pop("save_config", None)
    if save_to is not None and (given.get("start_from") or given.get("data")):
        raise ForageError("--save-config keeps settings alone, without weights or data; leave out --from and --data.")
    where, base = base_arguments(given, words)
    if not positional and where and "environment" not in base and given.get("data") is None:
        raise ForageError(f"{where} names no environment; add one there, or after forage train.")
    if (not positional and not where and given.get("data") is None) or len(positional) > 2:
        raise ForageError(
            "forage train takes an environment, or an agent and an environment: forage train CartPole-v1."
        )
    if agent is None and environment is not None and registry.target_of("agent", environment):
        if registry.part_class("agent", environment).texts:
            raise ForageError(
                f"{environment} learns from recorded text; name a file with --data FILE, such as forage train "
                f"{environment} --data rows.jsonl."
            )
        raise ForageError(
            f"{environment} is an agent; name an environment too: forage train {environment} CartPole-v1."
        )
    choice = base.get("agent") if agent is None else registry.choose_part("agent", agent)
    given |= {port: part_or_functions(port, words, base.get(port)) for port in PORTS}
    # Options of an agent that nobody named are understood once the environment has suggested one.
    later = functools.partial(agent_options, words)
    given |= {"agent": agent and choice, "agent_options": later if choice is None else later(choice)}

    given = {name: value for name, value in given.items() if value is not None}
    if where:
        from forage.config.files import merge_over

        given = merge_over(where, base, given)
    if save_to is not None:
        save_settings(given, Path(save_to))
        return
    from forage.runs import training

    training.use_compilation_cache()
    training.start_run(given)


def save_settings(given: dict[str, Any], path: Path) -> None:
    """Write the settings that a training would have to a file of TOML."""
    from forage.config.resolve import resolve
    from forage.config.settings_file import write_settings
    from forage.runs.training import SETTINGS, check_settings

    settings = check_settings({name: given.pop(name) for name in SETTINGS if name in given})
    about = ("display", "directory", "hosts", "coordinator")
    config = resolve(**{name: value for name, value in given.items() if name not in about})
    write_settings(dataclasses.replace(config, **settings), path)
    print(f"{path}  (forage train {path} runs it)")


def base_arguments(given: dict[str, Any], words: options.Words) -> tuple[str, dict[str, Any]]:
    """Return the name of the file or run that settings come from, and these; empty without one."""
    file, run = given.pop("config", None), given.get("start_from")
    if given.get("with_memory") and run is None:
        raise ForageError("--with-memory takes over what another run has collected; name that run with --from RUN.")
    if file is not None:
        from forage.config.files import read_arguments

        return file, read_arguments(file)
    if run is not None:
        from forage.runs.run import Run
        from forage.runs.starting import from_parent

        given["start_from"] = Run(run)
        return run, from_parent(given["start_from"], given | {port: words[port] for port in PORTS if port in words})
    return "", {}


def agent_options(words: options.Words, agent: registry.PartChoice) -> dict[str, Any]:
    """Take the agent's options out of the words. Raise `ForageError` for a word that is left."""
    fields = part_options.fields(agent.cls)
    found = options.fill(words, fields, "", agent.name)
    if words:
        unknown = next(iter(words))
        shown = options.hyphens(unknown)
        if unknown in ABSENT_IN_TRAINING:
            raise ForageError(f"forage train has no option '--{shown}': {ABSENT_IN_TRAINING[unknown]}")
        if unknown in options.READING_NAMES:
            raise ForageError(f"--{shown} says how a table is read; name the table with --data FILE.")
        known = [options.hyphens(one) for one in (*(field.name for field in fields), *options.WORDS, "memory.capacity")]
        former.check_option(f"--{shown}", [f"--{one}" for one in known], agent.name)
        hint = nearest(shown, known, "--")
        raise ForageError(f"Neither forage train nor {agent.name} has an option '--{shown}'{hint}")
    return found
