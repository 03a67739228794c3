"""`forage train`: train an agent in an environment."""

from __future__ import annotations

from typing import Any

from forage.cli.arguments import PORTS, display, port_part, wrappers
from forage.config import options, registry
from forage.core.errors import ForageError, nearest

HELP = """\
forage train [AGENT] ENVIRONMENT [OPTIONS]

  --steps N              environment steps of each seed (500k, 5M, 1e6); with --data updates
  --data FILE            learn from a data set alone (forage data record), without environment steps
  --seeds N | a,b,c      how many seeds, or which; 5, and 3 on the host
  --directory PATH       where the run is kept; runs/AGENT-ENVIRONMENT-TIME
  --evaluation-episodes N   episodes of each seed that the score is made of
  --evaluation-every N      also evaluate every N steps of each seed, apart from training
  --evaluation-actions auto | greedy | sampled   auto: what did better in episodes of their own
  --opponent NAME           who plays the other seats in evaluation: random, perfect or the directory of a run
  --devices N            how many devices share the run; all accelerators, and on the CPU one for each seed
  --visits                  count where the agent goes on the environment's map, and when it is first paid
  --checkpoint-seconds S    how often to save
  --sweep NAME=a,b,c     train every value of a number of the agent, all in one program
  --extras tensorboard   also write the curve there
  --quiet | --json | --plain   show nothing; one JSON object a line; lines
  --OPTION VALUE         any option of the agent (forage train AGENT --help)
  --env.OPTION VALUE     any field or option of the environment
  --wrap NAME:VALUE      put a wrapper around the environment; again for one around that (forage list wrappers)
  --behaviour, --rewards, --memory, --tasks, --starts NAME   a part for that port (forage list)
  --PORT.OPTION VALUE    any option of such a part, as in --memory.capacity 50k

forage train ppo --help lists the options of an agent, and forage train ppo CartPole-v1 --help also those of the
environment and of the parts at the ports.

Examples
  forage train CartPole-v1
  forage train ppo CartPole-v1 --steps 500k --seeds 5 --learning-rate 3e-4
  forage train dqn minatar:Breakout --memory prioritised --memory.capacity 50k
  forage train ppo CartPole-v1 --sweep learning-rate=1e-4,1e-3 --env.cart-mass 2
"""


def explain(positional: list[str], words: options.Words) -> str:
    """Return the help about the agent and the environment that are named."""
    from forage.cli.describing import training_help

    return training_help("train", positional, words)


def run(positional: list[str], words: options.Words) -> None:
    """Do what the words after `forage train` ask for."""
    if not positional or len(positional) > 2:
        raise ForageError(
            "forage train takes an environment, or an agent and an environment: forage train CartPole-v1."
        )
    agent, environment = (positional[0], positional[1]) if len(positional) == 2 else (None, positional[0])
    if agent is None and environment in registry.PORTS["agent"]:
        raise ForageError(
            f"{environment} is an agent; name an environment too: forage train {environment} CartPole-v1."
        )
    arguments: dict[str, Any] = {"wrap": wrappers(words, "wrap")}
    if agent is not None:
        registry.part_class("agent", agent)  # an unknown name is answered at once
    arguments["display"] = display(words)
    kinds = {
        "steps": int,
        "evaluation_episodes": int,
        "evaluation_every": int,
        "evaluation_actions": str,
        "opponent": str,
        "devices": int,
    }
    for name, kind in (kinds | {"checkpoint_seconds": float, "directory": str}).items():
        if name in words:
            arguments[name] = options.parse(name, words.pop(name), kind)
    if "seeds" in words:
        text = str(words.pop("seeds"))
        arguments["seeds"] = options.parse("seeds", text, tuple[int, ...] if "," in text else int)
    if "data" in words:
        arguments["data"] = str(words.pop("data"))
    if words.pop("visits", False):
        arguments["visits"] = True
    if "extras" in words:
        arguments["extras"] = options.parse("extras", words.pop("extras"), tuple[str, ...])
    if "sweep" in words:
        name, _, values = str(words.pop("sweep")).partition("=")
        arguments["sweep"] = {name.replace("-", "_"): options.parse("sweep", values, tuple[float, ...])}
    environment_options = {w[4:]: options.guess(words.pop(w)) for w in list(words) if w.startswith("env.")}
    for port in PORTS:
        part = port_part(port, words)
        if part is not None:
            arguments[port] = part

    if agent is None:
        from forage.config.defaults import suggest
        from forage.config.environment import environment_spec, resolve_environment

        name, made, _ = resolve_environment(environment, environment_options, arguments["wrap"])
        agent, why = suggest(environment_spec(name, made), not callable(made))
        arguments["why"] = why
    fields = registry.fields(registry.part_class("agent", agent))
    arguments["agent_options"] = options.fill(words, fields, "", agent)
    if words:
        unknown = next(iter(words))
        known = [f.name.replace("_", "-") for f in fields] + [
            "steps",
            "seeds",
            "directory",
            "evaluation-episodes",
            "evaluation-every",
            "evaluation-actions",
            "opponent",
            "devices",
            "checkpoint-seconds",
            "sweep",
            "data",
            "visits",
            "extras",
            "wrap",
            *PORTS,
            "memory.capacity",
        ]
        shown = options.hyphens(unknown)
        raise ForageError(f"Neither forage train nor {agent} has an option '--{shown}'{nearest(shown, known, '--')}")

    from forage.runs import training

    training.use_compilation_cache()
    training.train(agent, environment, environment_options=environment_options, **arguments)
