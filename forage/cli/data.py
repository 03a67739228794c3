"""`forage data record` and `forage data convert`: write transitions of a trained run, or of others, as a data set."""

from __future__ import annotations

from typing import Any

from forage.cli.arguments import display, nothing_left, say
from forage.config import options
from forage.core.errors import ForageError

HELP = """\
forage data record RUN --steps N --output FILE [OPTIONS]

  --steps N              transitions to record
  --output FILE          the data set, a NumPy archive (.npz): forage train iql ENVIRONMENT --data FILE learns from it
  --actions greedy | sampled | random   otherwise as the run is evaluated
  --random SHARE         the share of episodes that random actions play; 0
  --seed N               which seed's agent; the best
  --start N              another number begins other episodes; 0
  --quiet | --json       show nothing; one JSON object

forage data convert IN [IN ...] OUT [OPTIONS]

  --to FORMAT            forage (.npz), folder, minari, d4rl (.hdf5), ogbench or parquet; as the name of OUT says, and a
                         name without a suffix is a folder of arrays, which need not fit into memory
  --env ENVIRONMENT      whose transitions they are, where the file does not say (--env.OPTION VALUE its options)
  --ends WHAT            of an end that the file does not explain: terminated, truncated, or N (steps until time is up)
  --observation A,B,...  columns of a table; so are --action, --next-observation, --reward, --terminated, --truncated,
                         --episode and --behaviour-probability. All of these can stand in IN's name with .toml instead

Examples
  forage data record runs/NAME --steps 100k --output cartpole.npz
  forage data record runs/NAME --steps 100k --output mixed.npz --random 0.5
  forage data convert log.csv log.npz --env CartPole-v1
  forage data convert hopper.hdf5 hopper --env Hopper-v5 --ends 1000
"""


def run(positional: list[str], words: options.Words) -> None:
    """Do what the words after `forage data` ask for."""
    if positional[:1] == ["convert"]:
        convert(positional[1:], words)
        return
    if len(positional) != 2 or positional[0] != "record":
        raise ForageError(
            "forage data records a run's transitions, or converts a data set: forage data record runs/NAME --steps N "
            "--output FILE, or forage data convert IN OUT."
        )
    kind = display(words)
    for needed in ("steps", "output"):
        if needed not in words:
            raise ForageError(f"forage data record needs --{needed} {'N' if needed == 'steps' else 'FILE'}.")
    steps, output = options.parse("steps", words.pop("steps"), int), str(words.pop("output"))
    given: dict[str, Any] = {}
    for name, wanted in {"actions": str, "random": float, "seed": int, "start": int}.items():
        if name in words:
            given[name] = options.parse(name, words.pop(name), wanted)
    nothing_left(words, "data record", ["steps", "output", "actions", "random", "seed", "start", "json", "quiet"])
    from pathlib import Path

    from forage.data import files
    from forage.runs.training import use_compilation_cache
    from forage.studies.record import record

    use_compilation_cache()
    found = record(positional[1], steps, output, **given)
    _, header = files.read(Path(output))
    if kind == "json":
        say({"file": output} | {name: header[name] for name in ("transitions", "episodes", "mean_return", "source")})
    elif kind != "quiet":
        mean = header["mean_return"]
        said = "no whole one" if mean is None else f"mean return of the whole ones {mean:.5g}"
        print(f"{output}: {found.transitions:,} transitions in {found.episodes:,} episodes, {said}")


def convert(paths: list[str], words: options.Words) -> None:
    """Do what the words after `forage data convert` ask for."""
    if len(paths) < 2:
        raise ForageError("forage data convert takes what to read and what to write: forage data convert IN OUT.")
    kind = display(words)
    from forage.data.formats.reading import NAMES
    from forage.studies.convert import convert as work

    to = str(words.pop("to")) if "to" in words else None
    environment = str(words.pop("env")) if "env" in words else None
    env = {word[4:]: options.guess(words.pop(word)) for word in list(words) if word.startswith("env.")}
    said = {name: str(words.pop(name)) for name in NAMES if name in words}
    nothing_left(words, "data convert", ["to", "env", *(options.hyphens(name) for name in NAMES), "json", "quiet"])
    *inputs, output = paths
    header = work(inputs, output, to=to, environment=environment, env=env, **said)
    if kind == "json":
        say(
            {"file": output} | {name: header.get(name) for name in ("transitions", "episodes", "mean_return", "source")}
        )
    elif kind != "quiet":
        mean, left = header.get("mean_return"), header.get("left_out")
        said_mean = "" if mean is None else f", mean return {mean:.5g}"
        said_left = f"; {left:,} left out, as nothing says what they led to" if left else ""
        print(
            f"{output}: {header['transitions']:,} transitions in {header['episodes']:,} episodes{said_mean}{said_left}"
        )
