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
  --evaluation-actions A    greedy, or sampled as in training; auto, what did better in episodes of their own
  --opponent NAME           who plays the other seats in evaluation: random, perfect or the directory of a run
  --devices N            how many devices share the run; all accelerators, and on the CPU one for each seed
  --visits                  count where the agent goes on the environment's map, and when it is first paid
  --checkpoint-seconds S    how often to save
  --sweep NAME=a,b,c     train every value of a number of the agent, all in one program
  --track wandb,csv      also write the numbers there: tensorboard, wandb, mlflow, trackio, csv or file.py:Class
  --quiet | --json | --plain   show nothing; one JSON object a line; lines
  --learning-rate ...    any hyper-parameter of the agent (forage show AGENT)
  --env.NAME VALUE       any field or option of the environment
  --wrap NAME:VALUE      put a wrapper around the environment; again for one around that (forage list wrappers)
  --behaviour, --rewards, --memory, --tasks, --starts NAME   a part for that port (forage list)
  --memory.capacity ...  any option of such a part
"""


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
    for name in ("track", "extras"):  # the second is its old name
        if name in words:
            arguments[name] = options.parse(name, words.pop(name), tuple[str, ...])
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
            "track",
            "wrap",
            "quiet",
            "plain",
            "memory.capacity",
            *PORTS,
        ]
        shown = unknown.replace("_", "-")
        raise ForageError(f"Neither forage train nor {agent} has an option --{shown}{nearest(shown, known)}")

    from forage.runs import training

    training.use_compilation_cache()
    training.train(agent, environment, environment_options=environment_options, **arguments)
