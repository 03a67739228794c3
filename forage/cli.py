"""The command line. Answers what it can before JAX is loaded; every error is one sentence and exit code 2."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from typing import Any

from forage import options, registry
from forage.errors import ForageError

HELP = """\
forage: reinforcement learning with one loop, seven ports and honest numbers

  forage train [AGENT] ENVIRONMENT   train; without an agent, one that suits
  forage resume RUN                  continue a run as if it had never stopped
  forage evaluate RUN                play fresh episodes and print the score with its interval
  forage watch RUN                   make a GIF or MP4 of the trained agent
  forage compare RUN RUN ...         one picture of all curves, and which is better
  forage list [KIND]                 agents, environments and the parts of every port
  forage show PART                   what a part is, its hyper-parameters and its source

Examples
  forage train CartPole-v1
  forage train ppo CartPole-v1 --steps 500k --seeds 5 --learning-rate 3e-4
  forage train dqn minatar:Breakout --memory prioritised --n-step 3
  forage train sac gymnasium:HalfCheetah-v5 --seeds 1

forage train --help lists the options of training; forage show ppo those of an agent.
"""

TRAIN_HELP = """\
forage train [AGENT] ENVIRONMENT [OPTIONS]

  --steps N              environment steps of each seed (500k, 5M, 1e6)
  --seeds N | a,b,c      how many seeds, or which; 5, and 3 on the host
  --directory PATH       where the run is kept; runs/AGENT-ENVIRONMENT-TIME
  --evaluation-episodes N   episodes of each seed that the score is made of
  --checkpoint-seconds S    how often to save
  --sweep NAME=a,b,c     train every value of a number of the agent, all in one program
  --extras tensorboard   also write the curve there
  --quiet | --json | --plain   show nothing; one JSON object a line; lines
  --learning-rate ...    any hyper-parameter of the agent (forage show AGENT)
  --env.NAME VALUE       any field or option of the environment
  --behaviour, --rewards, --memory, --tasks, --starts NAME   a part for that port (forage list)
  --memory.capacity ...  any option of such a part
"""

FLAGS = {"quiet", "json", "plain", "help", "anyway"}
PORTS = ("behaviour", "rewards", "memory", "tasks", "starts")


def main(arguments: list[str] | None = None) -> None:
    """The entry point of `forage`."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        sys.exit(run(arguments))
    except ForageError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        sys.exit(130 if type(error).__name__ == "Interrupted" else 2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)


def run(arguments: list[str]) -> int:
    command, rest = (arguments[0], arguments[1:]) if arguments else ("--help", [])
    if command in ("--help", "-h", "help"):
        print(HELP, end="")
        return 0
    if command == "--version":
        import importlib.metadata

        print(importlib.metadata.version("forage-rl"))
        return 0
    if command not in COMMANDS:
        raise ForageError(f"There is no command {command!r}{registry.nearest(command, COMMANDS)}")
    positional, words = options.split(["--help" if word == "-h" else word for word in rest], FLAGS)
    if words.pop("help", False):
        print(TRAIN_HELP if command == "train" else HELP, end="")
        return 0
    COMMANDS[command](positional, words)
    return 0


def train(positional: list[str], words: options.Words) -> None:
    if not positional or len(positional) > 2:
        raise ForageError(
            "forage train takes an environment, or an agent and an environment: forage train CartPole-v1."
        )
    agent, environment = (positional[0], positional[1]) if len(positional) == 2 else (None, positional[0])
    if agent is None and environment in registry.PORTS["agent"]:
        raise ForageError(
            f"{environment} is an agent; name an environment too: forage train {environment} CartPole-v1."
        )
    if agent is not None:
        registry.part_class("agent", agent)  # an unknown name is answered at once
    arguments: dict[str, Any] = {"display": display(words)}
    for name, kind in (("steps", int), ("evaluation_episodes", int), ("checkpoint_seconds", float), ("directory", str)):
        if name in words:
            arguments[name] = options.parse(name, words.pop(name), kind)
    if "seeds" in words:
        text = str(words.pop("seeds"))
        arguments["seeds"] = options.parse("seeds", text, tuple[int, ...] if "," in text else int)
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
        from forage.defaults import suggest
        from forage.setup import environment_spec, resolve_environment

        name, made, _ = resolve_environment(environment, environment_options)
        agent, why = suggest(environment_spec(name, made), not callable(made))
        arguments["why"] = why
    fields = registry.fields(registry.part_class("agent", agent))
    arguments["agent_options"] = options.fill(words, fields, "", agent)
    if words:
        unknown = next(iter(words))
        known = [f.name.replace("_", "-") for f in fields] + ["steps", "seeds", "directory", "sweep", "extras", *PORTS]
        shown = unknown.replace("_", "-")
        raise ForageError(f"Neither forage train nor {agent} has an option --{shown}{registry.nearest(shown, known)}")

    from forage import training

    training.use_compilation_cache()
    training.train(agent, environment, environment_options=environment_options, **arguments)


def port_part(port: str, words: options.Words) -> Any:
    """The part that `--port NAME --port.option value` describe, or `None`."""
    given = [word for word in words if word.startswith(port + ".")]
    if port not in words:
        if given:
            name = given[0].replace("_", "-")
            raise ForageError(f"--{name} needs --{port} NAME too, as in --{port} {next(iter(registry.PORTS[port]))}.")
        return None
    name = str(words.pop(port))
    fields = registry.fields(registry.part_class(port, name))
    return registry.build(port, name, options.fill(words, fields, port, name))


def display(words: options.Words) -> str:
    return next((kind for kind in ("quiet", "json", "plain") if words.pop(kind, False)), "auto")


def one_run(positional: list[str], command: str) -> str:
    if len(positional) != 1:
        raise ForageError(f"forage {command} takes one run's directory: forage {command} runs/NAME.")
    return positional[0]


def nothing_left(words: options.Words, command: str, known: list[str]) -> None:
    if words:
        unknown = next(iter(words)).replace("_", "-")
        raise ForageError(f"forage {command} has no option --{unknown}{registry.nearest(unknown, known)}")


def resume(positional: list[str], words: options.Words) -> None:
    directory = one_run(positional, "resume")
    shown, anyway = display(words), bool(words.pop("anyway", False))
    nothing_left(words, "resume", ["anyway", "quiet", "json", "plain"])
    from forage import training

    training.use_compilation_cache()
    training.resume(directory, display=shown, anyway=anyway)


def evaluate(positional: list[str], words: options.Words) -> None:
    directory = one_run(positional, "evaluate")
    kind = display(words)
    episodes = options.parse("episodes", words.pop("episodes", "100"), int)
    seed = options.parse("seed", words.pop("seed", "0"), int)
    nothing_left(words, "evaluate", ["episodes", "seed", "json", "quiet"])
    from forage import training
    from forage.run import Run

    training.use_compilation_cache()
    score = training.evaluate(directory, episodes, seed)
    if kind == "json":
        print(json.dumps({"score": score.value, "low": score.low, "high": score.high, "seeds": score.seeds}))
    elif kind != "quiet":
        print(f"{Run(directory).title}: return {score}")
        print(f"  interquartile mean over seeds of {episodes} evaluation episodes each, 95 % bootstrap interval")


def watch(positional: list[str], words: options.Words) -> None:
    directory = one_run(positional, "watch")
    known = {"output": str, "seed": int, "episodes": int, "steps": int}
    values = {name: options.parse(name, words.pop(name), kind) for name, kind in known.items() if name in words}
    kind = display(words)
    nothing_left(words, "watch", list(known))
    from forage.training import use_compilation_cache
    from forage.watch import watch as make

    use_compilation_cache()
    path, returns = make(directory, **values)
    if kind != "quiet":
        print(f"{path}  (returns {', '.join(f'{value:g}' for value in returns)})")


def compare(positional: list[str], words: options.Words) -> None:
    if len(positional) < 2:
        raise ForageError("forage compare takes two runs or more: forage compare runs/A runs/B.")
    output = options.parse("output", words.pop("output", "comparison.png"), str)
    nothing_left(words, "compare", ["output"])
    from forage.compare import compare as draw

    print(*draw(positional, output), sep="\n")


def list_parts(positional: list[str], words: options.Words) -> None:
    nothing_left(words, "list", [])
    kinds = {"agents": "agent", **{port: port for port in registry.PORTS}, "environments": "environments"}
    wanted = positional[0] if positional else None
    if wanted is not None and wanted not in kinds:
        raise ForageError(
            f"forage list shows agents, environments or a port, not {wanted!r}{registry.nearest(wanted, kinds)}"
        )
    for port, table in registry.PORTS.items():
        if wanted is None or kinds[wanted] == port:
            print(f"{port}")
            for name in table:
                doc = (registry.part_class(port, name).__doc__ or "").strip().splitlines()[0]
                print(f"  {name:20} {doc}")
    if wanted in (None, "environments"):
        from forage.environments import list_environments
        from forage.environments.catalogue import SUITES
        from forage.environments.registry import installed

        print("environments")
        for row in list_environments(libraries=wanted is not None):
            print(f"  {row.id:34} {row.description}")
        for prefix, suite in SUITES.items():
            if not installed(suite):
                print(f"  {prefix + ':<id>':34} needs pip install 'forage-rl[{suite.extra}]'. {suite.description}")
            elif wanted is None:
                print(f"  {prefix + ':<id>':34} {suite.description} Such as {prefix}:{suite.example}.")
        if wanted is None:
            print("forage list environments shows each of those, too.")


def show(positional: list[str], words: options.Words) -> None:
    nothing_left(words, "show", [])
    if len(positional) != 1:
        raise ForageError("forage show takes the name of a part: forage show ppo.")
    name = positional[0]
    found = [(port, table[name]) for port, table in registry.PORTS.items() if name in table]
    if not found:
        show_environment(name)
        return
    port, target = found[0]
    cls = registry.load(target)
    module = sys.modules[cls.__module__]
    print(f"{name}: {port}\n")
    print((module.__doc__ or "").strip(), "\n")
    print("options")
    for field in registry.fields(cls):
        default = "required" if field.required else field.default
        shown = field.name.replace("_", "-")
        print(f"  --{shown if port == 'agent' else f'{port}.{shown}':28} {default!s:14} {field.help}")
    print(f"\nsource {target.replace(':', ' ')}")
    from forage.defaults import PRESETS

    for preset in PRESETS:
        if preset.agent == name:
            settings = ", ".join(f"{k} {v}" for k, v in preset.settings.items()) or "defaults"
            print(f"preset {preset.environment}: {settings}; {preset.steps:,} steps ({preset.source})")


def show_environment(name: str) -> None:
    from forage.environments import make
    from forage.environments.registry import maker_of
    from forage.setup import environment_spec, resolve_environment

    try:
        title, environment, _ = resolve_environment(name, {})
    except ForageError as error:
        names = [known for table in registry.PORTS.values() for known in table]
        hint = registry.nearest(name, names)
        raise ForageError(
            f"There is no part called {name!r}{hint}" if hint.startswith("; did") else str(error)
        ) from None
    spec = environment_spec(title, environment)
    print(f"{title}: environment\n")
    made: Any = make(name)
    while hasattr(made, "environment"):
        made = made.environment
    if maker := maker_of(name):
        print(inspect.cleandoc(maker[0].__doc__ or ""), "\n")
        print(inspect.cleandoc(type(made).__doc__ or ""), "\n\noptions")
        for option, value in maker[1].items():
            print(f"  --env.{option:24} {value}")
    elif not callable(environment):
        print(inspect.cleandoc(type(made).__doc__ or ""), "\n\noptions")
        for field in registry.fields(type(made)):
            print(f"  --env.{field.name:24} {getattr(made, field.name)!s:14} {field.help}")
    print(f"\nobservation {spec.observation_space}\naction      {spec.action_space}")
    print(f"horizon     {spec.horizon or 'none'}")


COMMANDS: dict[str, Callable[[list[str], options.Words], None]] = {
    "train": train,
    "resume": resume,
    "evaluate": evaluate,
    "watch": watch,
    "compare": compare,
    "list": list_parts,
    "show": show,
}

if __name__ == "__main__":
    main()
