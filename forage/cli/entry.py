"""The command line. Answers without loading JAX if it can; every error is one sentence and exit code 2.

`forage --help` loads this module and few others: what only a command needs is imported where the command begins.

Each command is a module of this package, or of its folder `sharing`, with a function `run(positional, words)` and a
text `HELP`, from which completion takes its options too. If help depends on the arguments, `explain(positional, words)`
returns it.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from forage.core import streams
from forage.core.errors import (
    ForageError,
    RunInterrupted,
    complain,
    did_you_mean,
    nearest,
    show_warning,
    unusable,
)

HELP = """\
forage: reinforcement learning with one loop, seven ports and honest numbers

  forage check ENVIRONMENT           play an environment, and report its faults and how to mend them
  forage train [AGENT] ENVIRONMENT   train; without an agent, one that suits
  forage resume RUN                  continue a run as if it had never stopped; --steps makes it longer
  forage join NAME:PORT              share a run that another process or machine leads (train --hosts N)
  forage evaluate RUN                play fresh episodes and print the score with its interval;
                                     also with other numbers, wrappers and tasks (forage evaluate --help)
  forage watch RUN                   make a film of the trained agent, or show its texts
  forage chat RUN                    talk to a language policy, or to the base model: forage chat forage
  forage study FILE                  train agents in environments with seeds, and write one table with intervals
  forage runs [FOLDER]               list the runs that are there: agent, environment, state, score and date
  forage compare RUN RUN ...         one picture of all curves, and which is better
  forage plan AGENT ENVIRONMENT      predict a run's speed on other numbers of cores from measurements here
  forage tune AGENT ENVIRONMENT      search hyper-parameters, and judge the best on unseen seeds
  forage data make ENVIRONMENT       make named data sets, to learn from without an environment; forage data record
                                     RUN writes a trained run's transitions, forage data convert IN OUT converts
                                     foreign files, forage data label FILE adds missing rewards or actions, and
                                     forage data show FILE describes one
  forage data describe TABLE         list all that is wrong with a log (.csv, .parquet), and write how to read it;
                                     then forage train iql --data TABLE learns from it
  forage estimate RUN --data FILE    estimate the value of a policy from a log of another one, with its interval
  forage select RUN ... --data FILE  judge off-policy estimates by the policies that they select (SharpeRatio@k)
  forage report RUN ...              one HTML page about runs: curves, scores, profiles, settings, films
  forage cite [RUN]                  cite Forage, a run and the papers of its parts
  forage export RUN OUTPUT           write a policy for other programs; a language policy as Hugging Face's files
  forage import MODEL.zip ENV        make a run of a policy of Stable-Baselines3
  forage serve RUN | POLICY          answer requests for actions over HTTP, JSON in and out
  forage push RUN USER/NAME          share a run on the Hugging Face Hub, with a model card
  forage pull USER/NAME              fetch a shared run from the Hub
  forage claim [NAME]                run a paper's claim: does it hold here?
  forage list [KIND]                 agents, environments and the parts of every port
  forage show NAME | RUN             explain a part or an environment: formula, paper, options, example, claim; or a
                                     run: its score, its settings and its history
  forage completion SHELL            print the completion for bash, zsh or fish

Examples
  forage train CartPole-v1
  forage train ppo CartPole-v1 --steps 500k --seeds 5 --learning-rate 3e-4
  forage train dqn minatar:Breakout --memory prioritised --n-step 3
  forage train sac gymnasium:HalfCheetah-v5 --seeds 1

forage COMMAND --help explains a command; forage train ppo --help lists the options of an agent.
"""

COMMANDS = (
    "check",
    "train",
    "resume",
    "join",
    "evaluate",
    "watch",
    "chat",
    "study",
    "runs",
    "compare",
    "plan",
    "tune",
    "data",
    "estimate",
    "select",
    "report",
    "cite",
    "export",
    "import",
    "serve",
    "push",
    "pull",
    "claim",
    "list",
    "show",
    "completion",
)

FOLDERS = {
    "sharing": ("export", "import", "serve", "push", "pull"),
    "studies": ("study", "runs", "compare", "report", "tune", "estimate", "select", "claim", "plan"),
}
"""Commands whose modules are in a folder of their theme."""

READERS = ["train", "resume", "evaluate", "watch", "chat", "data", "estimate", "select", "export", "serve", "report"]
"""Commands that act with runs or read files of settings, and so take `--trust`."""


def main(arguments: list[str] | None = None) -> None:
    """Run `forage`, as its entry point."""
    if arguments is None:
        collect_seldom()
    as_command(lambda: run(sys.argv[1:] if arguments is None else arguments))


def collect_seldom() -> None:
    """Look for cycles of garbage every 20,000 new objects of this process, and not at its end.

    What libraries make as they load stays until the end. To look through it after every 700 objects, as Python does,
    takes three tenths of a second.
    """
    gc.set_threshold(20_000)
    atexit.register(gc.freeze)


def as_command(work: Callable[[], int | None]) -> NoReturn:
    """Call `work` and exit with its code; with 2 and one sentence after an error; with 130 if interrupted."""
    code: Any
    usual, warnings.showwarning = warnings.showwarning, show_warning
    streams.prepare()
    try:
        try:
            code = work()
        except SystemExit as error:
            if not error.code:
                raise ForageError(exit_error(error)) from error
            code = error.code
    except ForageError as error:
        complain(str(error))
        code = 130 if isinstance(error, RunInterrupted) else 2
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        streams.silence(sys.stdout)
        code = 1
    except OSError as error:
        named = isinstance(error.filename, str | bytes)
        unwritten = None if named else streams.probe()
        if unwritten is None and not named:
            raise  # neither standard output nor a file that was named
        complain(streams.describe_loss(unwritten) if unwritten else unusable(error))
        code = 2
    finally:
        warnings.showwarning = usual
    if unwritten := streams.flush():
        if isinstance(unwritten, BrokenPipeError):
            code = code or 1
        elif not code and not streams.told:
            complain(streams.describe_loss(unwritten))
            code = 2
    if (compiling := sys.modules.get("forage.core.compiling")) is not None:
        # While programs still compile, it ends the process itself.
        vars(compiling)["exit_code"] = code if isinstance(code, int | None) else 1
    sys.exit(code)


def exit_error(error: SystemExit) -> str:
    """Return the error for a call of `sys.exit` without an error code, which no command makes itself."""
    import traceback

    frame = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"The command was not over when {frame.filename}, line {frame.lineno}, called sys.exit; raise an error there, "
        f"or end an episode."
    )


def run(arguments: list[str]) -> int:
    """Run the command in the arguments. Return the exit code."""
    command, rest = (arguments[0], arguments[1:]) if arguments else ("--help", [])
    if command in ("--help", "-h", "help"):
        print(HELP, end="")
        return 0
    if command == "--version":
        from importlib.metadata import version

        print(version("forage-rl"))
        return 0
    if command == "ledger":
        raise ForageError("forage ledger is python benchmarks/ledger of Forage's repository now.")
    if command not in COMMANDS:
        hint = nearest(command, COMMANDS)
        raise ForageError(f"Unknown command {command!r}{'; forage --help lists them.' if hint == '.' else hint}")
    from forage.cli.arguments import FLAGS, LISTS
    from forage.config import options
    from forage.core.trust import granting

    module = command_module(command)
    refuse_single_hyphens(rest, module.HELP)
    positional, words = options.split(["--help" if word == "-h" else word for word in rest], FLAGS, LISTS)
    if words.pop("help", False):
        print(module.explain(positional, words) if positional and hasattr(module, "explain") else module.HELP, end="")
        return 0
    with contextlib.ExitStack() as around:
        if command in READERS and words.pop("trust", False):
            around.enter_context(granting())
        if words.get("json"):
            from forage.runs.display import json_alone

            around.enter_context(json_alone())
        return module.run(positional, words) or 0


def command_module(command: str) -> Any:
    """Return the module of a command."""
    folder = next((f"{folder}." for folder, commands in FOLDERS.items() if command in commands), "")
    return importlib.import_module(f"forage.cli.{folder}{command}")


def refuse_single_hyphens(words: list[str], text: str) -> None:
    """Raise `ForageError` for options such as `-s`, suggesting the options of a help text that start with the
    letter.
    """
    from forage.cli.arguments import named_options

    for before, word in zip(["", *words], words, strict=False):
        if re.match(r"-[a-z]", word) and word != "-h" and not before.startswith("--"):
            meant = [f"--{name}" for name in named_options(text) if name.startswith(word[1:])]
            hint = did_you_mean(meant) or ". Options begin with two hyphens; --help lists them."
            raise ForageError(f"Unknown option {word!r}{hint}")


if __name__ == "__main__":
    main()
