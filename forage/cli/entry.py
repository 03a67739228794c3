"""The command line. Answers what it can before JAX is loaded; every error is one sentence and exit code 2."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

from forage.cli import show as listing
from forage.cli.help import COMMANDS_HELP, HELP
from forage.config import options, registry
from forage.core.errors import ForageError, Interrupted

LISTS = {"wrap", "grid", "under", "over"}  # may be given more than once
FLAGS = {"quiet", "json", "plain", "help", "anyway", "film", "sample", "visits"}
PORTS = ("behaviour", "rewards", "memory", "tasks", "starts")


def main(arguments: list[str] | None = None) -> None:
    """The entry point of `forage`."""
    as_command(lambda: run(sys.argv[1:] if arguments is None else arguments))


def as_command(work: Callable[[], int | None]) -> NoReturn:
    """Does the work as a process of its own does it: ends with its exit code, or with one sentence and 2 or 130."""
    try:
        sys.exit(work())
    except ForageError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        sys.exit(130 if isinstance(error, Interrupted) else 2)
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
    positional, words = options.split(["--help" if word == "-h" else word for word in rest], FLAGS, LISTS)
    if words.pop("help", False):
        print(COMMANDS_HELP.get(command, HELP), end="")
        return 0
    if words.get("json"):
        from forage.runs.display import json_alone

        with json_alone():
            return COMMANDS[command](positional, words) or 0
    return COMMANDS[command](positional, words) or 0


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
    arguments: dict[str, Any] = {"wrap": wrappers(words, "wrap")}
    if agent is not None:
        registry.part_class("agent", agent)  # an unknown name is answered at once
    arguments["display"] = display(words)
    kinds = {"steps": int, "evaluation_episodes": int, "evaluation_every": int, "evaluation_actions": str}
    for name, kind in (kinds | {"checkpoint_seconds": float, "directory": str}).items():
        if name in words:
            arguments[name] = options.parse(name, words.pop(name), kind)
    if "seeds" in words:
        text = str(words.pop("seeds"))
        arguments["seeds"] = options.parse("seeds", text, tuple[int, ...] if "," in text else int)
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
        from forage.config.setup import environment_spec, resolve_environment

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
            "checkpoint-seconds",
            "sweep",
            "visits",
            "extras",
            "wrap",
            *PORTS,
        ]
        shown = unknown.replace("_", "-")
        raise ForageError(f"Neither forage train nor {agent} has an option --{shown}{registry.nearest(shown, known)}")

    from forage.runs import training

    training.use_compilation_cache()
    training.train(agent, environment, environment_options=environment_options, **arguments)


def say(data: dict[str, Any]) -> None:
    """Print a result as a line of JSON, for `--json`."""
    from forage.runs import display as progress

    progress.say(data)


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


def wrappers(words: options.Words, option: str) -> list[str]:
    """What `--wrap NAME:VALUE ...` names; an unknown name is answered at once."""
    given = options.many(words, option)
    words.pop(option, None)
    for wrapper in given:
        registry.check_wrapper(wrapper.partition(":")[0])
    return given


def display(words: options.Words) -> str:
    """The one display that was asked for. Raises `ForageError` for two, which cannot both be had."""
    asked = [kind for kind in ("quiet", "json", "plain") if words.pop(kind, False)]
    if len(asked) > 1:
        raise ForageError(f"--{asked[0]} and --{asked[1]} are two ways to show a run; give one of them.")
    return asked[0] if asked else "auto"


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
    from forage.runs import training

    training.use_compilation_cache()
    training.resume(directory, display=shown, anyway=anyway)


def evaluate(positional: list[str], words: options.Words) -> None:
    directory = one_run(positional, "evaluate")
    kind = display(words)
    episodes = options.parse("episodes", words.pop("episodes", "100"), int)
    seed = options.parse("seed", words.pop("seed", "0"), int)
    actions = str(words.pop("actions")) if "actions" in words else None
    if actions is not None:
        from forage.loop.policy import check_actions

        check_actions(actions)
    elsewhere = {name: wrappers(words, name) for name in ("wrap", "under")}
    axes = options.many(words, "grid")
    words.pop("grid", None)
    tasks = port_part("tasks", words)
    nothing_left(words, "evaluate", ["episodes", "seed", "actions", "grid", "under", "wrap", "tasks", "json", "quiet"])
    if axes or tasks is not None or any(elsewhere.values()):
        evaluate_elsewhere(
            directory, kind, axes, tasks=tasks, episodes=episodes, seed=seed, actions=actions, **elsewhere
        )
        return
    from forage.runs import training
    from forage.runs.run import Run, scored
    from forage.runs.scoring import how_scored

    training.use_compilation_cache()
    score = training.evaluate(directory, episodes, seed, actions=actions)
    run = Run(directory)
    evaluation, scores = run.evaluation or {}, run.scores
    if kind == "json":
        plain = {"score": score.value, "low": score.low, "high": score.high, "seeds": score.seeds}
        say((plain if len(scores) == 1 else {}) | scored(scores, evaluation))
    elif kind != "quiet":
        for label, one in scores.items():
            print(f"{run.title}{f' with {label}' if label else ''}: return {one}")
        print(*(f"  {line}" for line in how_scored(evaluation)), sep="\n")


def evaluate_elsewhere(directory: str, kind: str, axes: list[str], **arguments: Any) -> None:
    from forage.runs.training import use_compilation_cache
    from forage.studies.robustness import axis, evaluate_under

    grid = [axis(words) for words in axes]
    names = [name for name, _ in grid]
    if len(set(names)) != len(names):
        raise ForageError(f"The grid names {max(names, key=names.count)} twice; give all its values at once.")
    use_compilation_cache()
    result = evaluate_under(directory, dict(grid), **arguments)
    if kind == "json":
        say(result.data())
    elif kind != "quiet":
        print(result)


def watch(positional: list[str], words: options.Words) -> None:
    directory = one_run(positional, "watch")
    known = {"output": str, "seed": int, "episodes": int, "steps": int, "actions": str}
    values = {name: options.parse(name, words.pop(name), kind) for name, kind in known.items() if name in words}
    kind = display(words)
    from forage.runs.run import Run
    from forage.runs.training import use_compilation_cache
    from forage.studies.watch import watch as make

    sweep = Run(directory).config["sweep"]
    settings = {name: options.parse(name, words.pop(name), float) for name in sweep if name in words}
    nothing_left(words, "watch", [*known, *sweep])
    use_compilation_cache()
    path, returns = make(directory, **values, settings=settings)
    if kind != "quiet":
        print(f"{path}  (returns {', '.join(f'{value:g}' for value in returns)})")


def compare(positional: list[str], words: options.Words) -> None:
    if len(positional) < 2:
        raise ForageError("forage compare takes two runs or more: forage compare runs/A runs/B.")
    output = options.parse("output", words.pop("output", "comparison.png"), str)
    nothing_left(words, "compare", ["output"])
    from forage.studies.compare import compare as draw

    print(*draw(positional, output), sep="\n")


def tune(positional: list[str], words: options.Words) -> None:
    if len(positional) != 2:
        raise ForageError(
            "forage tune takes an agent and an environment: forage tune ppo CartPole-v1 --over clip=0.1,0.2."
        )
    agent, environment = positional
    part = registry.part_class("agent", agent)
    kind = display(words)
    arguments: dict[str, Any] = {"wrap": wrappers(words, "wrap"), "display": kind}
    space = options.many(words, "over")
    words.pop("over", None)
    kinds = {"method": str, "trials": int, "batch": int, "steps": int, "directory": str, "evaluation_actions": str}
    for name, wanted in kinds.items():
        if name in words:
            arguments[name] = options.parse(name, words.pop(name), wanted)
    for name in ("seeds", "tuning_seeds"):
        if name in words:
            arguments[name] = options.parse(name, words.pop(name), tuple[int, ...])
    arguments["environment_options"] = {w[4:]: options.guess(words.pop(w)) for w in list(words) if w.startswith("env.")}
    for port in PORTS:
        if (chosen := port_part(port, words)) is not None:
            arguments[port] = chosen
    fields = registry.fields(part)
    arguments["agent_options"] = options.fill(words, fields, "", agent)
    known = ["over", "method", "trials", "batch", "steps", "directory", "seeds", "tuning-seeds", "evaluation-actions"]
    known += ["wrap", *PORTS]
    nothing_left(words, "tune", [*known, *(field.name.replace("_", "-") for field in fields)])
    from forage.runs.training import use_compilation_cache
    from forage.studies.tuning.tune import sentences
    from forage.studies.tuning.tune import tune as search

    use_compilation_cache()
    result = search(agent, environment, space, **arguments)
    if kind == "json":
        say({"event": "tune", **result})
    elif kind != "quiet":
        print(*sentences(result), sep="\n")


def report(positional: list[str], words: options.Words) -> None:
    if not positional:
        raise ForageError("forage report takes one run or more: forage report runs/A runs/B.")
    output = options.parse("output", words.pop("output", "report.html"), str)
    threshold = options.parse("threshold", words.pop("threshold"), float) if "threshold" in words else None
    film = bool(words.pop("film", False))
    nothing_left(words, "report", ["output", "threshold", "film"])
    from forage.studies.report import report as write

    print(write(positional, output, threshold, film))


def claim(positional: list[str], words: options.Words) -> None:
    from forage.studies.claims import running

    if len(positional) > 1:
        raise ForageError("forage claim takes one claim: forage claim gae-lambda.")
    if not positional:
        nothing_left(words, "claim", [])
        for name in running.names():
            print(f"  {name:28} {running.load(name).statement}")
        return
    kind = display(words)
    scale = str(words.pop("scale", "laptop"))
    directory, anyway = words.pop("directory", None), bool(words.pop("anyway", False))
    nothing_left(words, "claim", ["scale", "directory", "anyway", "quiet", "json", "plain"])
    from forage.runs.training import use_compilation_cache

    use_compilation_cache()
    result = running.run(positional[0], scale, None if directory is None else str(directory), kind, anyway)
    if kind == "json":
        say({"event": "claim", **result})
    elif kind != "quiet":
        print(*running.sentences(result), sep="\n")


def ledger(positional: list[str], words: options.Words) -> int:
    from forage.studies.ledger.rows import ROWS

    action, names = (positional[0], positional[1:]) if positional else ("list", [])
    if action not in ("list", "measure", "check"):
        raise ForageError(f"forage ledger can measure ROW or check ROW; {action!r} is neither.")
    kind, file = display(words), words.pop("file", None)
    if words.pop("sample", False):
        names = [*names, *(name for name, row in ROWS.items() if row.sample and name not in names)]
    nothing_left(words, "ledger", ["file", "sample", "quiet", "json"])
    if action != "list" and not names:
        raise ForageError(f"forage ledger {action} takes a row or more: forage ledger {action} {next(iter(ROWS))}.")
    from forage.studies.ledger import checking
    from forage.studies.ledger.showing import lines

    path = checking.ledger_path(None if file is None else str(file), new=action == "measure")
    if action == "list":
        ledger = checking.read_json(path)
        say(ledger) if kind == "json" else print(*lines(ledger), sep="\n")
        return 0
    for name in names:  # what cannot be is answered before anything is measured
        checking.row_of(name)
    stored = {name: checking.stored_of(name, path) for name in names} if action == "check" else {}
    failed = False
    for name in dict.fromkeys(names):
        if action == "check":
            found = checking.check(name, stored[name])
            failed |= checking.verdict(found) == checking.WORSE
            data = {"verdict": checking.verdict(found), "findings": [finding._asdict() for finding in found]}
            said = checking.sentences(name, found)
        else:
            data = checking.measure(name)
            checking.store(name, data, path)
            said = lines({name: data}, [name])
        if kind == "json":
            say({"event": action, "row": name, **data})
        elif kind != "quiet":
            print(*said, sep="\n", flush=True)
    return int(failed)


def list_parts(positional: list[str], words: options.Words) -> None:
    nothing_left(words, "list", [])
    listing.list_parts(positional[0] if positional else None)


def show(positional: list[str], words: options.Words) -> None:
    nothing_left(words, "show", [])
    if len(positional) != 1:
        raise ForageError("forage show takes the name of a part: forage show ppo.")
    listing.show(positional[0])


COMMANDS: dict[str, Callable[[list[str], options.Words], int | None]] = {
    "train": train,
    "resume": resume,
    "evaluate": evaluate,
    "watch": watch,
    "compare": compare,
    "tune": tune,
    "report": report,
    "claim": claim,
    "ledger": ledger,
    "list": list_parts,
    "show": show,
}

if __name__ == "__main__":
    main()
