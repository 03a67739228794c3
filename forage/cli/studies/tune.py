"""`forage tune`: search hyper-parameters, and judge the best on unseen seeds."""

from __future__ import annotations

from forage.cli.arguments import (
    nothing_left,
    port_choice,
    say,
    seeds,
    take_options,
)
from forage.config import options, part_options, registry
from forage.config.options import PORTS
from forage.core.errors import ForageError

HELP = """\
forage tune AGENT ENVIRONMENT --over NAME=RANGE [--over ...] [OPTIONS]

  --over NAME=LOW:HIGH[:log]   a range for a number of the agent, or of another part (memory.exponent); repeatable
  --over NAME=A,B,C      a choice of these values
  --method tpe | random | hyperband | pbt   method of the search; pbt changes settings during training; default tpe
  --trials N             number of settings, or the size of the population; default 32
  --batch N              trials at once, in one program if their shapes allow it; default 8
  --storage KIND         share the search: processes with the same --directory propose and train trials together,
                         by a journal, sqlite (files in it), or the address of a database
  --tuning-seeds N | a,b,c   seeds of every trial, by number or list; not for pbt; default 0,1,2
  --seeds N | a,b,c      seeds that judge the best and the default, by number or list (3, with its comma: seed 3
                         alone); default 10, from 5000 on
  --steps, --directory, --evaluation-actions, --wrap, --env.NAME, ports and the agent's options   as for forage train

The same call with the same --directory continues a search that was stopped.

forage tune ppo --help lists the options of an agent.

Examples
  forage tune ppo CartPole-v1 --over learning-rate=1e-4:1e-2:log --over clip=0.1,0.2
  forage tune dqn CartPole-v1 --over memory.capacity=1k,10k --memory uniform --method random --trials 8
"""


def explain(positional: list[str], words: options.Words) -> str:
    """Return the help about the agent and the environment that are named."""
    from forage.config.help.describing import training_help

    return training_help("tune", positional, words)


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage tune`."""
    if len(positional) != 2:
        raise ForageError(
            "forage tune takes an agent and an environment: forage tune ppo CartPole-v1 --over clip=0.1,0.2."
        )
    agent, environment = positional
    part = registry.part_class("agent", agent)
    common = ("display", "environment_options", "wrap", "steps", "directory", "evaluation_actions", "seeds")
    arguments = take_options(words, *common)
    kind = arguments["display"]
    space = options.many(words, "over")
    words.pop("over", None)
    kinds = {"method": str, "trials": int, "batch": int, "storage": str}
    for name, wanted in kinds.items():
        if name in words:
            arguments[name] = options.parse(name, words.pop(name), wanted)
    if "tuning_seeds" in words:
        arguments["tuning_seeds"] = seeds(words, "tuning_seeds")
    for port in PORTS:
        if (chosen := port_choice(port, words)) is not None:
            arguments[port] = chosen.build_part()
    fields = part_options.fields(part)
    arguments["agent_options"] = options.fill(words, fields, "", agent)
    known = [
        "over",
        "method",
        "storage",
        "trials",
        "batch",
        "steps",
        "directory",
        "seeds",
        "tuning-seeds",
        "evaluation-actions",
    ]
    known += ["wrap", *PORTS]
    nothing_left(words, "tune", [*known, *(field.name.replace("_", "-") for field in fields)])
    from forage.runs.training import use_compilation_cache
    from forage.studies.tuning.tune import tune as search
    from forage.studies.tuning.tune import tuning_sentences

    use_compilation_cache()
    result = search(agent, environment, space, **arguments)
    if kind == "json":
        say({"event": "tune", **result})
    elif kind != "quiet":
        print(*tuning_sentences(result), sep="\n")
