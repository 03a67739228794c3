"""The one pass from the arguments of a run to its configuration: names become parts, and gaps get defaults.

The arguments come from the command line, from Python, from a file of settings or from a stored run. After this pass no
part is looked up by its name.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from forage.config import former, part_data, part_options, registry, reward_functions
from forage.config.checks import check_config, seed_numbers
from forage.config.defaults import (
    NO_DEFAULTS,
    choose_defaults,
    default_behaviour,
    default_memory,
    default_steps,
    join_defaults,
    merge_over,
    missing_settings,
    of_arrays,
    suggest,
    usual_parts,
)
from forage.config.environment import World, encode_as_log, find_world
from forage.config.opponents import RANDOM
from forage.config.options import ARGUMENTS, PORTS, READING_NAMES, whole
from forage.config.recorded_text import choose_text, text_steps
from forage.config.references import take_references
from forage.config.registry import PartChoice
from forage.config.run_config import ALWAYS_STORED, SELDOM_STORED, RunConfig
from forage.config.trusting import guard_imports, of_environment
from forage.config.values import understood_part
from forage.core import ports
from forage.core.columns import Columns
from forage.core.elsewhere import ABSENT_IN_TRAINING
from forage.core.errors import ForageError, nearest
from forage.core.fields import layers, numeric_fields
from forage.core.mesh import prepare_devices
from forage.core.ports import Agent, Behaviour, Environment, Evolver, Memory, Rewards
from forage.core.schedule import Schedule, has_function
from forage.core.specs import spec_from_config, training_space
from forage.core.types import Spec
from forage.data import files, formats
from forage.data.formats import folder
from forage.data.formats.reading import Reading, parse_reading, read_description, reading_from_json
from forage.data.tables.describe import complete_reading
from forage.data.tables.rows import with_columns_of
from forage.data.text.source import is_text_data
from forage.environments.adapters.on_host import OnHost
from forage.environments.plain import from_plain
from forage.memory.around import innermost
from forage.memory.dataset import DataSet
from forage.memory.mixed import MixedReplay
from forage.memory.texts import TextSet

STORED = (*ALWAYS_STORED, *SELDOM_STORED, "workers", "worker_threads", "async_envs", "policy_lag")
SUGGESTED_FROM_DATA = "iql", "it learns from data alone, without asking for the values of actions that they lack"
UPDATES = 50_000  # of a run from a data set where nobody says how many: minutes of a laptop


def resolve(
    agent: Agent | PartChoice | str | None = None,
    environment: Any = None,
    *,
    steps: int | str | None = None,
    seeds: int | Sequence[int] | None = None,
    agent_options: Mapping[str, Any] | Callable[[PartChoice], Mapping[str, Any]] | None = None,
    environment_options: Mapping[str, Any] | None = None,
    sweep: Mapping[str, Sequence[float]] | None = None,
    wrap: Sequence[str] = (),
    evaluation_actions: str = "auto",
    visits: bool = False,
    opponent: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    evaluate: Any = None,
    held_out: float | None = None,
    reward_weights: Sequence[float] | float | None = None,
    is_stored: bool = False,
    data_spec: Spec | None = None,
    logged: Spec | None = None,
    on_spec: Callable[[Spec], object] | None = None,
    logged_reading: str = "",
    **parts: Any,
) -> RunConfig:
    """Return the configuration of a run, with defaults for all unset options. Raise `ForageError` for invalid ones.

    The arguments are those of `forage.train`. `parts` are by port, each a part, its name or a `PartChoice`; other
    entries are options of the agent, such as `learning_rate`, as in `agent_options`. That may be a function, which is
    called with the agent once it is chosen. `is_stored`: the parts are those of a trained run, to which defaults add
    nothing; `data_spec` is the spec of its data set, if no environment gave it. `logged`: the spec of the data that the
    agent learned from already; its coding of observations and actions stays, and files without a description of their
    own are read by `logged_reading`, as the data were. `on_spec` is called with the spec of the environment or the data
    before the agent and the parts are chosen.
    """
    loose = {name: parts.pop(name) for name in list(parts) if name not in PORTS}
    words = {name: loose.pop(name) for name in READING_NAMES if data is not None and name in loose}
    functions = reward_functions.take_functions(parts.get("rewards"))
    if functions:
        del parts["rewards"]
    if environment is not None and data is None and data_spec is None:
        named = agent_options if isinstance(agent_options, Mapping) else None
        apart = evaluate if isinstance(evaluate, str) and reward_functions.is_text_id(environment) else None
        environment_options = reward_functions.text_options(
            environment,
            environment_options,
            functions,
            reward_weights,
            apart,
            None if is_stored else reward_functions.model_of(agent, loose, named),
        )
        evaluate = None if apart else evaluate
    elif functions or reward_weights is not None:
        raise ForageError("Reward functions judge what a policy writes, and a data set is written already.")
    alone = environment is None and (data is not None or data_spec is not None)
    if environment is None and loose and not alone:
        raise unknown_option(next(iter(loose)), agent, ())
    held = 0.1 if held_out is None and alone and data is not None and evaluate is None else held_out
    texts = is_text_file(evaluate)
    text = choose_text(agent, agent_options or {}, loose, data, held or 0.0, os.fspath(evaluate) if texts else "")
    columns = None if logged is None else logged.columns
    reading, reading_from = "", []
    if text is not None:
        agent, agent_options, evaluate = text.agent, text.agent_options, None if texts else evaluate
        given = build_parts(with_memory(parts, text.memory), None)
    else:
        if data is not None:
            reading, reading_from = describe_data(os.fspath(data), words, alone, columns)
        given = build_parts(parts, data, held, reading)
    if isinstance(mixed := given.get("memory"), MixedReplay) and logged_reading and not mixed.reading:
        given["memory"] = dataclasses.replace(mixed, reading=logged_reading)
    evaluation_spec = None
    if text is not None and alone and evaluate is None:
        spec = text.memory.spec()
        world = World(spec.name, None, {"data": spec.name}, spec, False)
    elif text is not None:
        world = find_world(environment if evaluate is None else evaluate, environment_options, wrap)
    elif alone:
        spec = spec_of_data(os.fspath(data or ""), reading, columns) if data_spec is None else data_spec
        world, evaluation_spec = world_of_data(spec, evaluate, environment_options, wrap)
    elif evaluate is not None:
        raise ForageError(
            "--evaluate names an environment for a run from a data set, whose spaces are its own; give it with --data "
            "FILE, and no other environment."
        )
    else:
        world = find_world(environment, environment_options, wrap)
        world = world if logged is None else encode_as_log(world, logged)
    if on_spec is not None:
        on_spec(world.spec)
    choice = choose_agent(agent, agent_options or {}, loose, world, given, is_stored)
    made = complete_parts(take_references(choose_parts(choice)))  # the agent and the parts, by port
    made["rewards"] = fit_rewards(made["rewards"], made["memory"], world.spec)
    reward_functions.check_judged(world.config, made["agent"], made["rewards"])
    around, offline = environment_for(world, made), made["memory"].offline
    numbers = seed_numbers((5 if world.native else 3) if seeds is None else seeds)
    if has_function(made):  # checks look at it next, before the runner would ask for devices
        prepare_devices(len(numbers) * math.prod(map(len, (sweep or {}).values())))
    if steps is None and isinstance(made["memory"], TextSet):
        total, steps_from = text_steps(made["memory"], made["agent"])
    else:
        total, steps_from = choose_steps(steps, made["agent"], offline, world, suggested=bool(choice.why))
    config = RunConfig(
        name=world.name,
        environment=around,
        environment_config=world.config,
        spec=world.spec,
        **made,
        steps=total,
        seeds=numbers,
        sweep={key: [float(v) for v in values] for key, values in (sweep or {}).items()},
        evaluation_actions=evaluation_actions,
        visits=visits,
        opponent=choose_opponent(opponent, around, made["behaviour"]),
        why=choice.why if text is None else text.why,
        settings_from=choice.settings_from,
        left_out=choice.left_out,
        steps_from=steps_from,
        reading_from=reading_from,
        evaluation_spec=evaluation_spec,
    )
    check_config(config, choice.options)
    return config


def describe_data(
    file: str, words: Mapping[str, Any], alone: bool, columns: Columns | None = None
) -> tuple[str, list[str]]:
    """Return the description of a foreign file as JSON, and sentences about guesses in it.

    `words`: what was said about it, over the TOML file next to it. The description is empty if nothing is to be said.
    `columns`: those of the table that the agent learned from already.
    """
    said = parse_reading({name: value for name, value in words.items() if value is not None}, "forage train")
    path = Path(file).expanduser()
    if formats.kind_of(path) in ("forage", "folder"):
        if words:
            raise ForageError(f"{file} itself says what its arrays are; leave {', '.join(words)} out.")
        return "", []
    if alone and formats.is_foreign_table(path):
        if columns is not None:
            said = said_like(said, columns, file)
        reading, notes = complete_reading(path, said)
        return reading.to_json(), notes
    reading = said.fill_unset(read_description(path))
    return reading.to_json() if reading.settings else "", []


def said_like(said: Reading, columns: Columns, file: str) -> Reading:
    """Return a description with the columns of an earlier table. Raise `ForageError` if it names others."""
    for role in ("observation", "action"):
        known, given = tuple(one.name for one in getattr(columns, role)), getattr(said, role)
        if given and given != known:
            raise ForageError(
                f"The run that this one starts from has the {role} {', '.join(known)}, and for {file} "
                f"{', '.join(given)} is said; leave --{role} out."
            )
    return with_columns_of(said, columns)


def spec_of_data(file: str, reading: str = "", columns: Columns | None = None) -> Spec:
    """Return the spec of the data in a file, read by a description in JSON, or by the columns of an earlier table.

    Raise `ForageError` if it does not tell its spaces.
    """
    path = Path(file).expanduser()
    kind = formats.kind_of(path)
    if kind == "folder":
        header = folder.read_header(path)
    elif kind == "forage":
        header = files.read_header(path)
    elif kind in ("d4rl", "ogbench"):
        raise ForageError(
            f"{file} does not tell the spaces of its numbers; name the environment too, as in forage train iql "
            f"Hopper-v5 --data {file}, or write them into a file with forage data convert --env."
        )
    elif columns is not None:
        return Spec(path.stem, columns.observation_space, columns.action_space, columns=columns)
    else:
        header = formats.read_data(path, reading=reading_from_json(reading, file))[1]
    return spec_from_config(header)


def world_of_data(
    spec: Spec, evaluate: Any, options: Mapping[str, Any] | None, wrap: Sequence[str]
) -> tuple[World, Spec | None]:
    """Return a world with the spec of a data set, and the spec of the environment that it is evaluated in, if any.

    Raise `ForageError` if the two have other spaces.
    """
    if evaluate is None:
        if options or wrap:
            raise ForageError("Options and wrappers of an environment need one; name it with --evaluate ENVIRONMENT.")
        return World(spec.name, None, {"data": spec.name}, spec, True), None
    world = encode_as_log(find_world(evaluate, options, wrap), spec)
    native = isinstance(world.environment, Environment)
    config = {**world.config, "evaluates": True}
    return World(spec.name, world.environment, config, spec, native), world.spec


def is_text_file(evaluate: Any) -> bool:
    """Return whether `evaluate` names a file of recorded text, whose rows are measured, and no environment."""
    return isinstance(evaluate, str | os.PathLike) and is_text_data(Path(evaluate).expanduser())


def with_memory(parts: Mapping[str, Any], memory: TextSet) -> dict[str, Any]:
    """Return parts with a memory of recorded text. Raise `ForageError` if another memory was given."""
    if parts.get("memory") is not None:
        raise ForageError("Recorded text takes the place of a memory; leave out --memory, or --data.")
    return {**parts, "memory": memory}


def build_parts(
    parts: Mapping[str, Any],
    data: str | os.PathLike[str] | None,
    held_out: float | None = None,
    reading: str = "",
) -> dict[str, Any]:
    """Build the parts that were given, by port, from names and choices. `data` stands for a memory."""
    if data is not None:
        if parts.get("memory") is not None:
            raise ForageError(
                "A data set takes the place of a memory; name one of them, or learn from both with --memory mixed "
                "--memory.data FILE."
            )
        parts = {**parts, "memory": DataSet(os.fspath(data), held_out=held_out or 0.0, reading=reading)}
    elif held_out is not None:
        raise ForageError("held_out is a share of a data set that a run learns from alone; name its file with --data.")
    built = {}
    for port, part in parts.items():
        if isinstance(part, str):
            part = registry.choose_part(port, part)
        built[port] = part.build_part() if isinstance(part, PartChoice) else part
        if part is not None and not isinstance(built[port], contract := getattr(ports, port.capitalize())):
            raise ForageError(
                f"{port} takes a forage.core.ports.{contract.__name__} or its name, not a {type(part).__name__}. "
                f"Available: {', '.join(registry.parts(port))}."
            )
    return {port: part for port, part in built.items() if part is not None}


class AgentChoice(NamedTuple):
    """An agent with the parts that were given or that its preset names, and the reasons for them."""

    agent: Agent
    options: dict[str, Any]  # that were given beside its name
    parts: dict[str, Any]  # by port
    why: str = ""  # this agent, where nobody named one
    settings_from: str = ""  # the preset or rule behind its settings
    left_out: str = ""  # what of that an agent lacks that was given as an object


def choose_agent(
    agent: Any,
    options: Mapping[str, Any] | Callable[[PartChoice], Mapping[str, Any]],
    loose: Mapping[str, Any],
    world: World,
    parts: dict[str, Any],
    is_stored: bool,
) -> AgentChoice:
    """Build the agent from its name and its options, over its preset; without a name, a suitable agent."""
    why = ""
    if agent is None:
        offline = isinstance(parts.get("memory"), DataSet)
        agent, why = SUGGESTED_FROM_DATA if offline else suggest(world.spec, world.native)
    if isinstance(agent, str):
        agent = registry.choose_part("agent", agent)
    options = options(agent) if callable(options) else options
    if loose and isinstance(agent, PartChoice | Agent):
        options = join_options(agent, options, loose, world, parts)
    if isinstance(agent, PartChoice):
        agent = agent._replace(options={**agent.options, **options})
        given, defaults = agent.checked_options(), NO_DEFAULTS
        if not agent.is_complete:
            defaults = choose_defaults(agent.name, world.name, world.spec, world.native, given, agent.cls)
            if isinstance(memory := parts.get("memory"), DataSet) and world.config.keys() & {"data", "evaluates"}:
                in_memory = formats.kind_of(Path(memory.file).expanduser()) != "folder"
                defaults = join_defaults(defaults, of_arrays(agent.name, world.spec, in_memory, given))
        made = registry.make_part(agent.cls, {**defaults.settings, **given})
        made = with_one_schedule(made, agent.options)
        parts = merge_over(defaults.parts, parts) if defaults.parts else parts
        asked = agent.options
        if (
            agent.is_complete
        ):  # from a run's file, which has every option, so those at their defaults were not asked for
            usual = {field.name: field.default for field in part_options.fields(agent.cls)}
            asked = {name: value for name, value in asked.items() if value != usual[name]}
        return AgentChoice(made, asked, parts, why, defaults.why)
    if options:
        raise ForageError("agent_options go with an agent's name; an agent that is an object already has its own.")
    if not isinstance(agent, Agent):
        raise ForageError(
            f"An agent is a forage.core.ports.Agent or its name, such as 'ppo'; not a {type(agent).__name__}."
        )
    made = with_one_schedule(understood_part(agent), {})
    lacks = "" if is_stored else missing_settings(made, world.name, world.spec, world.native, parts)
    return AgentChoice(made, {}, parts, left_out=lacks)


def with_one_schedule(agent: Any, given: dict[str, Any]) -> Any:
    """Return an agent whose learning rate follows only its schedule, if it has one.

    Raise `ForageError` if a final learning rate is `given` too.
    """
    own = getattr(agent, "final_learning_rate", None)
    if own is None or not isinstance(getattr(agent, "learning_rate", None), Schedule) or own == 1:
        return agent
    usual = next(field.default for field in dataclasses.fields(agent) if field.name == "final_learning_rate")
    if "final_learning_rate" in given or (not given and own != usual):
        raise ForageError(
            "A learning rate with a schedule ends where that ends, so final_learning_rate has no use; leave it out."
        )
    return dataclasses.replace(agent, final_learning_rate=1.0)


def join_options(
    choice: PartChoice | Agent,
    options: Mapping[str, Any],
    loose: Mapping[str, Any],
    world: World,
    parts: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the agent's options together with those in `loose`, among the arguments of `forage.train`.

    Raise `ForageError` for an option that the agent lacks, or that the environment or one of the `parts` has too.
    """
    shown = choice.name if isinstance(choice, PartChoice) else registry.short_name(choice)
    known = {one.name for one in part_options.fields(choice.cls if isinstance(choice, PartChoice) else type(choice))}
    inside = layers(world.environment) if isinstance(world.environment, Environment) else []
    numbers = {word for layer in inside for word in numeric_fields(layer)}
    for word in loose:
        elsewhere = [f"environment_options={{{word!r}: ...}}"] if word in numbers else []
        for port, part in parts.items():
            if word in {field.name for field in part_options.fields(type(part))}:
                elsewhere.append(f"{port}={type(part).__name__}({word}=...)")
        if word not in known and not elsewhere:
            raise unknown_option(word, shown, known)
        if elsewhere:
            both = f"{shown} has an option {word!r}, and so has something else; say" if word in known else None
            others = ["agent_options={" + repr(word) + ": ...}"] if both else []
            raise ForageError(f"{both or f'{word!r} is no option of {shown}; say'} {' or '.join(others + elsewhere)}.")
        if word in options:
            raise ForageError(f"{word} is given twice, in agent_options and beside it; give it once.")
        if isinstance(choice, Agent):
            made = type(choice).__name__
            raise ForageError(f"An agent that is an object has its own {word}; say it there: {made}({word}=...).")
    return dict(options) | dict(loose)


def unknown_option(word: str, agent: Any, known: Iterable[str]) -> ForageError:
    """Return the error for a word that neither `forage.train` nor the agent knows."""
    if word in ABSENT_IN_TRAINING:
        return ForageError(f"forage.train has no option {word!r}: {ABSENT_IN_TRAINING[word]}")
    hint = nearest(word, [*known, *ARGUMENTS])
    if agent is None:
        return ForageError(f"forage.train has no option {word!r}{hint}")
    name = agent if isinstance(agent, str) else registry.short_name(agent)
    former.check_option(word, [*known, *ARGUMENTS], name)
    return ForageError(f"Neither forage.train nor {name} has an option {word!r}{hint}")


def choose_parts(choice: AgentChoice) -> dict[str, Any]:
    """Return the agent and all parts by port: those that were given, and the agent's usual ones in their place."""
    given = {port: understood_part(part) for port, part in choice.parts.items()}
    return {"agent": choice.agent, **usual_parts(choice.agent), **given}


def complete_parts(parts: dict[str, Any]) -> dict[str, Any]:
    """Return parts with the default parts within them, and with the agent's options that the behaviour sets."""
    agent, memory, behaviour = parts["agent"], parts["memory"], parts["behaviour"]
    if getattr(memory, "inner", memory) is None:
        within: dict[str, Any] = {"inner": default_memory(agent)}
        memory = dataclasses.replace(memory, **within)
    if getattr(behaviour, "inner", behaviour) is None:
        within = {"inner": default_behaviour(agent)}
        behaviour = dataclasses.replace(behaviour, **within)
    told = {name: value for name, value in behaviour.completes(agent).items() if getattr(agent, name) is None}
    agent = dataclasses.replace(agent, **told) if told else agent
    return parts | {"agent": agent, "memory": memory, "behaviour": behaviour}


def fit_rewards(rewards: Rewards, memory: Memory, spec: Spec) -> Rewards:
    """Return rewards with the numbers that they take from the run's data set. Raise `ForageError` without one."""
    inner = getattr(rewards, "inner", None)
    if isinstance(inner, Rewards):
        within: dict[str, Any] = {"inner": fit_rewards(inner, memory, spec)}
        return rewards if within["inner"] is inner else dataclasses.replace(rewards, **within)
    if not rewards.fits_data or rewards.unit is not None:
        return rewards
    data = innermost(memory)
    if not isinstance(data, DataSet):
        name = registry.part_name(rewards)
        raise ForageError(
            f"{name} takes the deviation of a data set's rewards; name it with --data FILE, or say it with "
            f"--rewards.deviation."
        )
    return rewards.fit(data.rewards(spec))


def choose_steps(
    steps: int | str | None, agent: Agent, offline: bool, world: World, suggested: bool
) -> tuple[int, str]:
    """Return the steps of each seed, and the reason for a default number of them."""
    if steps is not None:
        return whole("steps", steps), ""
    if offline:
        return UPDATES, "each an update from the data set"
    return default_steps(agent, world.name, world.spec, world.native, suggested=suggested)


def environment_for(world: World, parts: Mapping[str, Any]) -> Any:
    """Return the environment that parts act in: on the host, if the behaviour is."""
    if not parts["behaviour"].on_host or not world.native or isinstance(parts["agent"], Evolver):
        return world.environment
    return functools.partial(OnHost, world.environment, name=world.name)


def choose_opponent(opponent: str | os.PathLike[str] | None, environment: Any, behaviour: Behaviour) -> str | None:
    """Return the opponent in evaluation: by default `random` if agents play against one another, else `None`."""
    if opponent is not None:
        return os.fspath(opponent)
    competitive = isinstance(environment, Environment) and environment.competitive
    return RANDOM if competitive or behaviour.opposes else None


def from_config(
    config: dict[str, Any],
    environment: Any = None,
    data: str | os.PathLike[str] | None = None,
    where: str | os.PathLike[str] | None = "This configuration",
    **given: Any,
) -> RunConfig:
    """Return the configuration that `RunConfig.full_config` wrote. Python objects must be given again.

    `given` are parts by port, `evaluation_actions` and `opponent`, if they are to replace the run's own (or `None`).
    `data`: the present path of the run's data set. `where`: the run's directory. Raise `ForageError` if it names code
    that is not known here; `where=None` does not check.
    """
    if where is not None:
        config = reward_functions.find_moved_prompts(config, where)
        named = list(of_environment(environment)) if isinstance(environment, str) else []
        with guard_imports(where, config, *named):
            return from_config(config, environment, data, None, **given)
    world = config["environment"]
    if environment is None and "id" not in world and "data" not in world:
        raise ForageError(
            f"This run's environment was a Python object, {world['object']}; continue it from Python with "
            f"forage.resume(directory, environment=...)."
        )
    given = {name: value for name, value in given.items() if value is not None}
    parts: dict[str, Any] = {
        "evaluation_actions": config.get("evaluation_actions", "greedy"),
        "visits": config.get("visits", False),
        "opponent": config.get("opponent"),
        **given,
    }
    if data is not None:
        given["memory"] = parts["memory"] = part_data.from_config(config["memory"]).relocate(data)
    for port in ("agent", *PORTS):
        if port in given:
            continue
        try:
            parts[port] = part_data.from_config(config[port])
        except part_data.PythonObject as error:
            raise ForageError(
                f"In this run {str(error).rstrip('.')}; continue it from Python with "
                f"forage.resume(directory, {port}=...)."
            ) from None
    apart = "data" in world or world.get("evaluates")  # the spaces are those of the data
    logged = spec_from_config(config) if world.get("logged") and not apart else None
    played = world.get("id") if environment is None else environment
    resolved = resolve(
        parts.pop("agent"),
        None if apart else played,
        evaluate=played if apart else None,
        data_spec=spec_from_config(config) if apart else None,
        logged=logged,
        steps=config["steps"],
        seeds=config["seeds"],
        environment_options=from_plain(world.get("options")) if environment is None else None,
        sweep=config["sweep"],
        wrap=world.get("wrap", ()),
        is_stored=True,
        **parts,
    )
    seen = training_space(config, resolved.spec.observation_space)
    spec = resolved.spec
    spec = spec if seen is spec.observation_space else dataclasses.replace(spec, observation_space=seen)
    settings = {name: value for name, value in former.with_today(config, STORED).items() if name in STORED}
    return dataclasses.replace(resolved, spec=spec, **settings)
