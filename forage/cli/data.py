"""`forage data`: make data sets, record a run's transitions, describe, convert or label others, show one."""

from __future__ import annotations

import sys
from typing import Any

from forage.cli.arguments import checkpoint_of, display, environment_options, nothing_left, reading_words, say
from forage.config import options, part_options, registry
from forage.core.errors import ForageError, nearest

HELP = f"""\
forage data make ENVIRONMENT [OPTIONS]
forage data record RUN --steps N --output FILE [OPTIONS]
forage data label FILE --output FILE [OPTIONS]
forage data show FILE [OPTIONS]
forage data describe TABLE [OPTIONS]

make: train an agent and make named data sets of it; existing ones are not made again
  --tiers NAME,...       random, medium, medium-replay, expert, mixed; default all
  --steps N              transitions of each data set; default 50k
  --seed N               seed of training and of the episodes; default 0
  --output DIR           the folder; default data/ENVIRONMENT
  --agent NAME           the agent to train, with --agent.OPTION VALUE for its options; by default one that suits
  --env.OPTION VALUE     an option of the environment
  --train-steps N        steps of training; by default as for forage train
  --narrow               mostly greedy actions, and a validation part, like data of the real world
  --noise SHARE          with --narrow, the share of sampled actions; default 0.2
  --validation SHARE     validation episodes, as a share of the transitions; default 0, with --narrow 0.1

record: write transitions of a trained run
  --steps N              transitions to record
  --output FILE          the data set, a NumPy archive (.npz): forage train iql ENVIRONMENT --data FILE learns from it
  --actions greedy | sampled | random   by default as in the run's evaluation
  --random SHARE         the share of episodes with random actions; default 0
  --checkpoint best|N    kept agents of the run; by default the newest
  --seed N               the seed of the agent; by default the best
  --start N              seed of the episodes; default 0

label: write a data set again with new rewards or actions, ignoring those it has
  --output FILE          the data set to write
  --demonstrations FILE  reward each step by its episode's distance to one of these, by optimal transport (OTR)
  --height X             maximal reward of a step, before returns are scaled; default 5
  --sharpness X          decay of the reward with the distance; default 5
  --blur X               entropic regularisation of the transport; smaller is more exact, and slower; default 0.01
  --span X               best minus worst return after scaling, 0 for unscaled rewards; default 1000
  --labelled FILE        write these transitions, then the input's with actions predicted by a network trained on these
  --updates N            updates of that network; default 5k
  --past N               earlier observations in its input, besides the two around the action; default 1
  --hidden-sizes N,...   its layers; default 256,256
  --seed N               seed of its weights, and of the held-out episodes; default 0
  --env ENVIRONMENT      the environment, if the file does not name it (--env.OPTION VALUE for its options)

show: describe a data set and its faults
  --page FILE            also write a page with a picture (.html)

describe: profile a table (.csv, .parquet), list all that is wrong with it, and write how to read it to TABLE.toml
  --action A,B,...       columns that a policy chooses; the other columns have options, too, those of forage data
                         convert below, and columns that are not given are guessed by their names

  --trust                use the maker's code and address named in the run; they are shown and remembered
  --quiet | --json       show nothing; one JSON object

forage data convert IN [IN ...] OUT [OPTIONS]

  --to FORMAT            forage (.npz), folder, minari, d4rl (.hdf5), ogbench, parquet; by default by the suffix of OUT;
                         a name without one is a folder of arrays, which need not fit into memory
  --env ENVIRONMENT      the environment, if the file does not name it (--env.OPTION VALUE for its options)
{options.reading_lines()}                         A file named as IN with .toml can hold all of these

Examples
  forage data make Pendulum-v1 --steps 50k --output data/pendulum
  forage data make CartPole-v1 --tiers medium,expert --narrow
  forage data show data/pendulum/medium.npz --page medium.html
  forage data record runs/NAME --steps 100k --output cartpole.npz
  forage data record runs/NAME --steps 100k --output mixed.npz --random 0.5
  forage data label mixed.npz --demonstrations expert.npz --output paid.npz
  forage data label watched.npz --labelled few.npz --output all.npz
  forage data describe log.csv --action order,supplier --reward profit
  forage data convert log.csv log
  forage data convert log.csv log.npz --env CartPole-v1
  forage data convert hopper.hdf5 hopper --env Hopper-v5 --ends 1000
"""
ACTIONS = ("make", "record", "convert", "label", "show", "describe")
TRANSPORT: dict[str, Any] = {"height": float, "sharpness": float, "blur": float, "span": float}
INVERSE: dict[str, Any] = {"updates": int, "past": int, "hidden_sizes": tuple[int, ...], "seed": int}


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage data`."""
    if not positional or positional[0] not in ACTIONS:
        hint = nearest(positional[0], ACTIONS) if positional else f". Available: {', '.join(ACTIONS)}."
        raise ForageError(f"forage data has no action {positional[0] if positional else 'by that name'}{hint}")
    if positional[0] == "convert":
        convert(positional[1:], words)
        return
    what = {"make": "an environment", "record": "a run", "describe": "a table"}.get(positional[0], "a file")
    if len(positional) != 2:
        raise ForageError(f"forage data {positional[0]} takes {what}; forage data --help explains it.")
    work = {"make": make, "record": record, "label": label, "show": show, "describe": describe}[positional[0]]
    work(positional[1], words)


def make(environment: str, words: options.Words) -> None:
    """Make data sets of an environment."""
    kind = display(words)
    given: dict[str, Any] = {"narrow": bool(words.pop("narrow", False))}
    kinds = {"tiers": tuple[str, ...], "steps": int, "seed": int, "train_steps": int, "noise": float}
    for name, wanted in (kinds | {"validation": float, "output": str, "agent": str}).items():
        if name in words:
            given[name] = options.parse(name, words.pop(name), wanted)
    given["environment_options"] = environment_options(words)
    own = [word for word in words if word.startswith("agent.")]
    if own and "agent" not in given:
        raise ForageError(f"--{options.hyphens(own[0])} needs --agent NAME too.")
    if "agent" in given:
        fields = part_options.fields(registry.part_class("agent", given["agent"]))
        given["agent_options"] = options.fill(words, fields, "agent", given["agent"])
    nothing_left(words, "data make", [*kinds, "validation", "output", "agent", "narrow", "json", "quiet"])
    from forage.runs.training import use_compilation_cache
    from forage.studies.datasets.make import describe_set
    from forage.studies.datasets.make import make as made

    use_compilation_cache()
    quiet = kind in ("json", "quiet")
    shown: list[str] = []

    def tell(line: str) -> None:
        shown.append(line)
        if not quiet:
            print(line, flush=True)

    manifest = made(environment, display="quiet" if quiet else kind, say=tell, **given)
    if kind == "json":
        say(manifest)
    elif kind != "quiet":
        ends = manifest["ends"]
        print(f"normalised: 0 is {ends['random']:.5g} of random actions, 1 the expert's {ends['expert']:.5g}")
        for name, entry in manifest["sets"].items():
            if (line := describe_set(name, entry)) not in shown:
                print(f"{line} (made earlier)")


def record(run: str, words: options.Words) -> None:
    """Record a run's transitions."""
    kind = display(words)
    for needed in ("steps", "output"):
        if needed not in words:
            raise ForageError(f"forage data record needs --{needed} {'N' if needed == 'steps' else 'FILE'}.")
    steps, output = options.parse("steps", words.pop("steps"), int), str(words.pop("output"))
    given: dict[str, Any] = {}
    for name, wanted in {"actions": str, "random": float, "seed": int, "start": int}.items():
        if name in words:
            given[name] = options.parse(name, words.pop(name), wanted)
    given["checkpoint"] = checkpoint_of(words)
    known = ["steps", "output", "actions", "random", "checkpoint", "seed", "start", "json", "quiet"]
    nothing_left(words, "data record", known)
    from pathlib import Path

    from forage.data import files
    from forage.runs.display import Waiting
    from forage.runs.training import use_compilation_cache
    from forage.studies.record import record as recorded

    use_compilation_cache()
    with Waiting(kind) as tell:
        found = recorded(run, steps, output, tell=tell, **given)
    _, header = files.read_data(Path(output))
    if kind == "json":
        names = ("transitions", "episodes", "no_reward", "mean_return", "source")
        say({"file": output} | {name: header[name] for name in names})
    elif kind != "quiet":
        mean = header["mean_return"]
        said = "no whole one" if mean is None else f"mean return of the whole ones {mean:.5g}"
        said += files.no_reward_words(header["no_reward"])
        print(f"{output}: {found.transitions:,} transitions in {found.episodes:,} episodes, {said}")


def convert(paths: list[str], words: options.Words) -> None:
    """Run `forage data convert`."""
    if len(paths) < 2:
        raise ForageError("forage data convert takes what to read and what to write: forage data convert IN OUT.")
    kind = display(words)
    from forage.studies.convert import convert as work

    to = str(words.pop("to")) if "to" in words else None
    environment = str(words.pop("env")) if "env" in words else None
    env = environment_options(words)
    said = reading_words(words)
    known = ["to", "env", *map(options.hyphens, options.READING_NAMES), "json", "quiet"]
    nothing_left(words, "data convert", known)
    *inputs, output = paths

    def tell(said: str) -> None:
        print(f"Note: {said}", file=sys.stderr)

    header = work(inputs, output, to=to, environment=environment, env=env, tell=tell, **said)
    if kind == "json":
        say(
            {"file": output} | {name: header.get(name) for name in ("transitions", "episodes", "mean_return", "source")}
        )
    elif kind != "quiet":
        mean, left = header.get("mean_return"), header.get("left_out")
        said_mean = ", no whole one" if mean is None else f", mean return of the whole ones {mean:.5g}"
        said_left = f"; {left:,} left out, as nothing says what they led to" if left else ""
        print(
            f"{output}: {header['transitions']:,} transitions in {header['episodes']:,} episodes{said_mean}{said_left}"
        )


def describe(file: str, words: options.Words) -> None:
    """Run `forage data describe`: profile a table, and write a proposal for its description."""
    kind = display(words)
    said = reading_words(words)
    nothing_left(words, "data describe", [*map(options.hyphens, options.READING_NAMES), "json", "quiet"])
    from pathlib import Path

    from forage.data.formats.reading import description_path, parse_reading
    from forage.data.tables.describe import describe_table

    path = Path(file)
    found = describe_table(path, parse_reading(said, "forage data describe"))
    written = description_path(path)
    if kind == "json":
        say(found.data() | {"description": str(written)})
    elif kind != "quiet":
        wrong = sum(fault.fatal for fault in found.faults)
        after = "decide what is marked with !, and correct it" if wrong else "correct what is wrong in it"
        print("\n".join(found.lines()))
        print(f"  wrote {written}: {after}, then: forage train iql --data {file}")


def label(file: str, words: options.Words) -> None:
    """Run `forage data label`: write a data set with rewards or actions that it lacks."""
    kind = display(words)
    if "output" not in words:
        raise ForageError("forage data label needs --output FILE.")
    output = str(words.pop("output"))
    by = {name: str(words.pop(name)) for name in ("demonstrations", "labelled") if name in words}
    environment = str(words.pop("env")) if "env" in words else None
    env = environment_options(words)
    kinds = TRANSPORT if "demonstrations" in by else INVERSE
    given = {name: options.parse(name, words.pop(name), kinds[name]) for name in kinds if name in words}
    nothing_left(words, "data label", ["output", "demonstrations", "labelled", *kinds, "env", "json", "quiet"])
    from forage.runs.display import Waiting
    from forage.runs.training import use_compilation_cache
    from forage.studies.datasets.label import label as labelled

    use_compilation_cache()
    with Waiting(kind) as tell:
        header = labelled(file, output, environment=environment, env=env, tell=tell, **by, **given)
    said = header["source"]["by"]
    if kind == "json":
        say({"file": output} | {name: header[name] for name in ("transitions", "episodes", "source")})
    elif kind != "quiet":
        how = f"rewards by optimal transport from {said['file']}"
        if "actions" in said:
            how = f"actions of all but {said['known']:,} by a network with a loss of {said['held_out_loss']:.3g}"
            how += " on the episodes held out"
        print(f"{output}: {header['transitions']:,} transitions in {header['episodes']:,} episodes, {how}")


def show(file: str, words: options.Words) -> None:
    """Run `forage data show`: describe a data set and its faults."""
    kind = display(words)
    page = str(words.pop("page")) if "page" in words else None
    nothing_left(words, "data show", ["page", "json", "quiet"])
    from forage.studies.datasets.show import show_data_set as shown

    found = shown(file, page)
    if kind == "json":
        say(found.data())
    elif kind != "quiet":
        print(found)
