"""`forage evaluate`: play fresh episodes with a trained agent, also in a changed environment."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from forage.cli.arguments import (
    checkpoint_of,
    display,
    environment_options,
    nothing_left,
    one_run,
    port_choice,
    say,
    wrappers,
)
from forage.config import options
from forage.core.errors import ForageError
from forage.core.records import printable

HELP = """\
forage evaluate RUN [OPTIONS]
forage evaluate MODEL text:FILE --rewards NAMES [--reward-weights a,b] [--episodes N] [--temperature T]

  --episodes N           episodes of each seed; default 100
  --seed N               the seed of the episodes; default 0
  --actions auto | greedy | sampled   auto chooses again; by default as the run was configured or chose
  --opponent NAME        the player of the other seats: random, perfect or a run's directory; by default the run's own
  --checkpoint best|N    kept agents, of the best evaluation or of step N; by default the newest
  --trust                use the maker's code and addresses named in the run; they are shown and remembered
  --quiet | --json       show nothing; one JSON object
  --grid NAME=LOW:HIGH:N   set a field of the environment to each of N numbers; repeat for all combinations with others
  --grid NAME=a,b,c      the same with these values
  --under NAME:VALUE     also play with this wrapper; repeat for others (forage list wrappers)
  --wrap NAME:VALUE      play with this wrapper always
  --tasks NAME           tasks in place of the run's own, with --tasks.OPTION as in training
  --pass K               on text: draw K answers to each of --episodes problems, and report the share solved in k tries
  --choose RULE          with --pass: try answers in the order of majority, certainty, best:RUN (a reward model), or a
                         rule of your own, file.py:Class, and compare with a random order
  --temperature T        temperature of the answers of --pass; by default as in training
  --wordings all | NAME  on text: problems trained on, held out, and in other wordings; several with commas

Against another opponent than its own, the run's score is unchanged, and the result is written to opponents.json. For a
kept checkpoint it is written to checkpoints.json.
For a run from a data set of forage data make, the normalised score is printed too.
With --grid, --under, --wrap or --tasks the run's score is unchanged, and the result is written to robustness.json, and
as a picture to robustness.png.
With text:FILE, a look before training: a run, a directory or the base model forage answers prompts of a file, 20 unless
--episodes says otherwise; ten are shown with their rewards, and then the means.
With --pass and --wordings the model that the run started from is evaluated too; the results are in pass.json and
pass.png, or in wordings.json; with --choose they are in choose.json.

Examples
  forage evaluate runs/NAME
  forage evaluate runs/NAME --episodes 20 --actions sampled
  forage evaluate runs/NAME --grid length=0.25:1.0:4 --under action-noise:0.1
  forage evaluate runs/NAME --pass 64
  forage evaluate runs/NAME --wordings tags,other-words
"""

SHOWN = 10  # conversations that a look at prompts prints


def look_at_prompts(model: str, environment: str, kind: str, words: options.Words) -> None:
    """Answer prompts of a file with a model, and show their rewards, before anything is trained."""
    from forage.config.reward_functions import take_functions, text_options
    from forage.environments.text.own.prompts import is_file

    if environment.partition(":")[0] != "text" and ".py:" not in environment:
        file = environment if Path(environment).exists() else "prompts.jsonl"
        raise ForageError(
            f"A model answers texts, as in forage evaluate {model} text:{file}, and {environment} is no environment of "
            f"texts."
        )
    number = options.parse("episodes", words.pop("episodes", "20"), int)
    kinds = {"seed": int, "temperature": float, "reward_weights": tuple[float, ...]}
    given: dict[str, Any] = {
        name: options.parse(name, words.pop(name), of) for name, of in kinds.items() if name in words
    }
    weights = given.pop("reward_weights", None)
    functions = take_functions(str(words.pop("rewards"))) if "rewards" in words else []
    own = text_options(environment, environment_options(words), functions, weights, None, model)
    nothing_left(words, "evaluate", ["episodes", "seed", "temperature", "rewards", "reward-weights", "json", "quiet"])
    if number < 1:
        raise ForageError(f"Episodes to play are 1 or more, not {number}.")
    from forage.runs.training import use_compilation_cache
    from forage.studies.chat import chat

    use_compilation_cache()
    whole = {"held_out": 0.0} if is_file(environment.partition(":")[2]) else {}  # all prompts of a file, in its order
    found = chat(model, **given).look(environment, number, **{**whole, **own})
    if kind == "json":
        say(found.scores | {"no_reward": found.no_reward})
    elif kind != "quiet":
        for one in found.conversations[:SHOWN]:
            print(printable(str(one)), end="\n\n")
        print(
            f"{model} on {number} prompts: " + ", ".join(f"{name} {value:.3g}" for name, value in found.scores.items())
        )
        if found.no_reward:
            print(f"  answers without a reward, which the mean reward leaves out: {found.no_reward}")


OF_TEXT = ("pass", "wordings")
"""Options of language models."""


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage evaluate`."""
    kind = display(words)
    if len(positional) == 2:
        look_at_prompts(positional[0], positional[1], kind, words)
        return
    directory = one_run(positional, "evaluate")
    if asked := [name for name in OF_TEXT if name in words]:
        evaluate_text(directory, kind, asked, words)
        return
    episodes = options.parse("episodes", words.pop("episodes", "100"), int)
    seed = options.parse("seed", words.pop("seed", "0"), int)
    actions = str(words.pop("actions")) if "actions" in words else None
    if actions is not None:
        options.check_actions(actions)
    opponent = str(words.pop("opponent")) if "opponent" in words else None
    checkpoint = checkpoint_of(words)
    elsewhere = {name: wrappers(words, name) for name in ("wrap", "under")}
    axes = options.many(words, "grid")
    words.pop("grid", None)
    tasks = choice.build_part() if (choice := port_choice("tasks", words)) else None
    known = ["episodes", "seed", "actions", "opponent", "checkpoint", "grid", "under", "wrap", "tasks", "json", "quiet"]
    nothing_left(words, "evaluate", [*known, *OF_TEXT])
    if axes or tasks is not None or any(elsewhere.values()):
        if opponent is not None:
            raise ForageError("In a changed environment the run's own opponent plays; leave out --opponent.")
        if checkpoint is not None:
            raise ForageError("In a changed environment the newest agents play; leave out --checkpoint.")
        evaluate_elsewhere(
            directory,
            kind,
            axes,
            tasks=tasks,
            episodes=episodes,
            seed=seed,
            actions=actions,
            **elsewhere,
        )
        return
    from forage.core.records import range_in
    from forage.evaluation.statistics import by_setting
    from forage.runs import training
    from forage.runs.display import Notes, Progress, duration
    from forage.runs.run import Run, score_data
    from forage.runs.scoring import normalised_words, score_lines

    training.use_compilation_cache()
    began, note = time.monotonic(), (Progress() if kind == "quiet" else Notes()).note
    score = training.evaluate(
        directory, episodes, seed, actions=actions, opponent=opponent, checkpoint=checkpoint, note=note
    )
    took = time.monotonic() - began
    run = Run(directory)
    evaluation = run.evaluation or {}
    if checkpoint is not None:
        evaluation = run.kept_evaluations[str(checkpoint)]
    elif opponent is not None and opponent != run.config.get("opponent"):
        evaluation = run.opponents[opponent]
    scores = by_setting(evaluation["members"], evaluation["return"], within=range_in(evaluation))
    if kind == "json":
        plain = {"score": score.value, "low": score.low, "high": score.high, "seeds": score.seeds}
        say((plain if len(scores) == 1 else {}) | score_data(scores, evaluation, run.config.get("ends")))
    elif kind != "quiet":
        for label, one in scores.items():
            after = f" after {evaluation['steps']:,} steps" if checkpoint is not None else ""
            print(f"{run.title}{f' with {label}' if label else ''}{after}: return {one}")
            print(*(f"  {line}\n" for line in normalised_words(one, run.config.get("ends"))), sep="", end="")
        print(*(f"  {line}" for line in score_lines(evaluation)), f"  in {duration(took)}", sep="\n")


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
        if result.picture is not None:
            print(f"  picture {result.picture}")


def evaluate_text(directory: str, kind: str, asked: list[str], words: options.Words) -> None:
    """Evaluate a run on text, and the model that it started from, with `--pass` or `--wordings`."""
    if len(asked) > 1:
        raise ForageError("--pass and --wordings ask for different things; give one of them.")
    name, value = asked[0], str(words.pop(asked[0]))
    given: dict[str, Any] = {
        "problems": options.parse("episodes", words.pop("episodes", "100"), int),
        "seed": options.parse("seed", words.pop("seed", "0"), int),
    }
    if name == "pass":
        given["answers"] = options.parse("pass", value, int)
        if "choose" in words:
            given["rule"] = str(words.pop("choose"))
        if "temperature" in words:
            given["temperature"] = options.parse("temperature", words.pop("temperature"), float)
    else:
        given["wordings"] = () if value == "all" else tuple(value.split(","))
    known = ["episodes", "seed", "json", "quiet", *(["temperature", "choose"] if name == "pass" else [])]
    nothing_left(words, f"evaluate --{name}", known)
    from forage.runs.training import use_compilation_cache
    from forage.studies.choosing import choose
    from forage.studies.passing import pass_at
    from forage.studies.wordings import reword

    use_compilation_cache()
    found = (choose if "rule" in given else pass_at if name == "pass" else reword)(directory, **given)
    if kind == "json":
        say(found.data())
    elif kind != "quiet":
        print(found)
        if (picture := getattr(found, "picture", None)) is not None:
            print(f"  picture {picture}")
