"""Reward functions, prompts and the tokenizer of a run on text: from arguments to options of its environment."""

from __future__ import annotations

import ast
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forage.config.part_options import is_a
from forage.config.registry import choose_part
from forage.core.errors import ForageError
from forage.core.loading import find_in_module, load_class
from forage.core.text.named import FORAGE

TEXT = "text:"


def names_functions(name: str) -> bool:
    """Return whether a value of `--rewards` names reward functions: several names, or a function in a file."""
    if "," in name:
        return True
    source, _, attribute = name.rpartition(":")
    if not source or source.startswith("forage"):
        return False
    return not is_class(source, attribute)


def is_class(source: str, name: str) -> bool:
    """Return whether a file or module defines a class of this name, by its source where possible."""
    if source.endswith(".py"):
        with contextlib.suppress(OSError, SyntaxError, ValueError):
            for node in ast.parse(Path(source).expanduser().read_text()).body:
                if getattr(node, "name", None) == name:
                    return isinstance(node, ast.ClassDef)
    return isinstance(find_in_module(source, name)[1], type)


def take_functions(given: Any) -> list[Any]:
    """Return the reward functions that a value of `rewards` stands for, names or objects; empty for a part."""
    if isinstance(given, str):
        return [one.strip() for one in given.split(",") if one.strip()] if names_functions(given) else []
    if given is None or is_a(type(given), "Part") or isinstance(given, type) or hasattr(given, "build_part"):
        return []
    if isinstance(given, Sequence):
        if not given:
            raise ForageError("An empty list has no reward functions; name one, or leave rewards out.")
        for one in given:
            if not (callable(one) or isinstance(one, str)) or isinstance(one, type) or is_a(type(one), "Part"):
                raise ForageError(
                    f"Several rewards are functions, or their names such as mine.py:score, and {one!r:.80} is neither."
                )
        return list(given)
    return [given] if callable(given) else []


def name_function(function: Any) -> str:
    """Return the name by which a run keeps a reward function; an object is remembered for this process."""
    from forage.config.values import value_target
    from forage.core.loading import full_target
    from forage.environments.text.own import scoring

    if isinstance(function, str):
        return full_target(function) if ":" in function else function
    name = getattr(function, "__name__", type(function).__name__)
    target = value_target(function) or f"object:{'function' if name == '<lambda>' else name}"
    known = scoring.objects.get(target, function)
    if known is not function and target.startswith("object:"):  # another of the same name
        target = f"{target}_{sum(one.startswith(target) for one in scoring.objects) + 1}"
    scoring.objects[target] = function
    return target


def is_text_id(environment: Any) -> bool:
    """Return whether an environment's id is one of texts, or a family of problems of a person's own."""
    if not isinstance(environment, str):
        return False
    return environment.lower().startswith(TEXT) or (":" in environment and is_family(environment))


def is_family(target: str) -> bool:
    """Return whether `file.py:Class` is a class of text, such as a family of problems."""
    from forage.environments.registry import canonical_id
    from forage.environments.text.opening import kind_of

    try:
        if canonical_id(target) != target or not target.rpartition(":")[0].endswith(".py"):
            return False
        return kind_of(find_in_module(*target.rpartition(":")[::2])[1]) is not None
    except ForageError:
        return False


def text_options(
    environment: Any,
    options: Mapping[str, Any] | None,
    functions: Sequence[Any],
    weights: Sequence[float] | float | None,
    evaluate: Any,
    model: str | None,
) -> dict[str, Any]:
    """Return the options of an environment of texts with those that stand elsewhere in the arguments.

    Args:
        environment: The environment, as it was given.
        options: Its own options.
        functions: Reward functions, names or objects.
        weights: Their weights.
        evaluate: The environment `text:FILE` of the prompts that evaluation plays.
        model: The directory or run that learning begins from, whose tokenizer is the environment's.

    Raise `ForageError` if the environment is none of texts and one of these needs it.
    """
    found = dict(options or {})
    if not is_text_id(environment):
        if functions or weights is not None:
            for one in functions:
                if isinstance(one, str) and ":" in one:
                    load_class(one, functions=True)  # raises for a name that its file does not have
            if functions and all(isinstance(one, str) and ":" not in one for one in functions):
                choose_part("rewards", ",".join(functions))  # raises with the names of parts
            raise ForageError(
                f"Reward functions judge answers to texts, and {environment} has none; take text:prompts.jsonl or the "
                f"like."
            )
        return found
    if functions:
        if "rewards" in found:
            raise ForageError("Reward functions are given twice, with --rewards and --env.rewards; give them once.")
        found["rewards"] = [name_function(one) for one in functions]
    if weights is not None:
        found["reward_weights"] = [float(one) for one in ([weights] if isinstance(weights, int | float) else weights)]
    if evaluate is not None:
        found["evaluate"] = evaluate.removeprefix(TEXT)
    for name in ("evaluate", "tokenizer"):
        if (
            isinstance(value := found.get(name), str)
            and value not in ("", FORAGE)
            and Path(value).expanduser().exists()
        ):
            found[name] = os.path.abspath(Path(value).expanduser())
    if "chat" not in found and has_messages(environment):
        found["chat"] = True
    if model is not None and "tokenizer" not in found and (tokenizer := tokenizer_of(model)):
        found["tokenizer"] = tokenizer
    return found


def check_judged(environment: Mapping[str, Any], agent: Any, rewards: Any) -> None:
    """Raise `ForageError` for prompts of a file whose answers no function and no part judges.

    `environment`: as a run keeps it.
    """
    from forage.environments.text.own.prompts import is_file

    prefix, _, target = str(environment.get("id", "")).partition(":")
    if prefix.lower() != "text" or not is_file(target) or (environment.get("options") or {}).get("rewards"):
        return
    if rewards.as_given and agent.usual_behaviour != "expert-text":
        raise ForageError(
            f"{Path(target).name} has prompts, and no function judges the answers to them; name one, as in --rewards "
            f"mine.py:score."
        )


def has_messages(environment: str) -> bool:
    """Return whether `text:FILE` has prompts that are messages, which need the chat template."""
    from forage.environments.text.own.prompts import is_conversational, is_file

    target = environment.partition(":")[2]
    return environment.lower().startswith(TEXT) and is_file(target) and is_conversational(target)


def find_moved_prompts(config: Mapping[str, Any], directory: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the configuration of a run that keeps its own prompts, and whose directory may have been moved."""
    world = dict(config["environment"])
    options = dict(world.get("options") or {})

    def find(path: str) -> str:
        moved = Path(directory) / Path(path).name
        return os.path.abspath(moved) if path and not Path(path).exists() and moved.is_file() else path

    if str(world.get("id", "")).startswith(TEXT):
        world["id"] = TEXT + find(world["id"].removeprefix(TEXT))
        if isinstance(options.get("evaluate"), str):
            world["options"] = {**options, "evaluate": find(options["evaluate"])}
    return {**config, "environment": world}


def tokenizer_of(model: str) -> str | None:
    """Return the directory of the tokenizer of a model, a directory of Hugging Face's or a run; None without one."""
    from forage.core.records import read_config
    from forage.nn.language.peft import tokenizer_directory

    path = tokenizer_directory(model)
    if (path / "tokenizer.json").exists():
        return os.path.abspath(path)
    if (path / "config.json").exists() and (path / "agent.npz").exists():
        stored = read_config(path).get("environment", {})
        return (stored.get("options") or {}).get("tokenizer")
    return None


def model_of(agent: Any, *options: Mapping[str, Any] | None) -> str | None:
    """Return the source of the model that an agent begins from; None if the arguments name no model."""
    given = [*(one or {} for one in options), getattr(agent, "options", None) or {}]
    found = next((one["model"] for one in given if one.get("model") is not None), getattr(agent, "model", None))
    source = getattr(found, "source", found)
    return source if isinstance(source, str) else None
