"""Train, resume and evaluate: the commands as Python functions."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import datetime
import inspect
import itertools
import os
import stat
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax

from forage.config import former
from forage.config.files import merge_over
from forage.config.options import ARGUMENTS, AUTO, PORTS, whole
from forage.config.ranges import check_call
from forage.config.resolve import STORED, from_config, resolve
from forage.config.run_config import RunConfig
from forage.config.trusting import guard_imports, keep_own
from forage.core import prng
from forage.core.loading import check_not_importing
from forage.core.mesh import Devices, Shape, parse_mesh, prepare_devices, size_of
from forage.core.ports import Agent, Behaviour, Memory, Rewards, Starts, Tasks
from forage.core.records import range_in
from forage.core.types import ForageError, Spec
from forage.evaluation.statistics import Score, by_setting
from forage.loop.cluster.hosts import Channel
from forage.loop.runner import Runner
from forage.memory.around import innermost
from forage.memory.dataset import DataSet
from forage.runs import display as progress
from forage.runs import kept_rows
from forage.runs.callbacks import Callback, check_callbacks
from forage.runs.capacity import bytes_of, check_memory, free_on, share_of_each, shorter_answers
from forage.runs.changes import extend_setup, record_changes
from forage.runs.checkpoints import check_keeping, take_kept
from forage.runs.joining import lead, runner_on
from forage.runs.locking import RUNS, hold_new_directory, lock_directory
from forage.runs.provenance import changed_code, differences, said_of_code, version_record
from forage.runs.run import Run, draw_curve, draw_sweep, read_json, write_json
from forage.runs.scoring import MOST_EPISODE_SEED, check_episodes, load_agents, said_if_long, score_agents
from forage.runs.session import Session
from forage.runs.starting import Inheritance, continue_parent, from_parent, make_inheritance
from forage.runs.trackers import Names, open_trackers, tracker_names
from forage.runs.transfer import blame_spaces

CHECKED_APART = ("environment", "steps", "seeds", "evaluation_every", "callbacks", "options")
"""Arguments of `train` that are checked by more than their type, with sentences of their own."""
CHANGEABLE = ("agent", *PORTS, "evaluation_actions", "opponent")
"""The settings of a run that may change on resuming."""


def train(
    agent: Agent | str | None = None,
    environment: Any = None,
    *,
    steps: int | str | None = None,
    seeds: int | Sequence[int] | None = None,
    behaviour: Behaviour | str | None = None,
    rewards: Rewards | str | Callable[..., Any] | Sequence[Any] | None = None,
    memory: Memory | str | None = None,
    tasks: Tasks | str | None = None,
    starts: Starts | str | None = None,
    agent_options: Mapping[str, Any] | None = None,
    environment_options: Mapping[str, Any] | None = None,
    wrap: Sequence[str] = (),
    sweep: Mapping[str, Sequence[float]] | None = None,
    data: str | os.PathLike[str] | Sequence[Mapping[str, Any]] | None = None,
    evaluate: Any = None,
    held_out: float | None = None,
    reward_weights: Sequence[float] | float | None = None,
    opponent: str | os.PathLike[str] | None = None,
    visits: bool = False,
    evaluation_actions: Literal["auto", "greedy", "sampled"] = "auto",
    evaluation_episodes: int | None = None,
    evaluation_every: int | str | None = None,
    directory: str | os.PathLike[str] | None = None,
    devices: int | None = None,
    mesh: str | None = None,
    workers: int | str = 0,
    worker_threads: int = 1,
    async_envs: bool = False,
    policy_lag: int | None = None,
    step_timeout: float | None = None,
    hosts: int = 1,
    coordinator: str = "",
    checkpoint_seconds: float = 30.0,
    display: Literal["auto", "live", "plain", "json", "notes", "notebook", "quiet"] | progress.Progress = "auto",
    track: Names = (),
    callbacks: Sequence[Callback] = (),
    stop_at: float | None = None,
    keep: str | None = None,
    keep_every: int | None = None,
    start_from: str | os.PathLike[str] | Run | None = None,
    with_memory: bool = False,
    **options: Any,
) -> Run:
    """Train an agent and return the run.

    `agent`: an agent, its name, or `None` for one that suits. `environment`: an id, a `forage.core.ports.Environment`,
    a class, a function that makes one `gymnasium.Env`, one that builds a batch on the host from a number of
    environments, or prompts as rows, such as `[{"prompt": ..., "answer": ...}, ...]` or a data set of Hugging Face's,
    which the run's directory keeps. `steps` are of each seed: `500_000` or `"500k"`. `behaviour`, `rewards`, `memory`,
    `tasks`, `starts`: parts for the ports, or their names. `rewards` may also be reward functions, which judge answers
    of text, or their names, with `reward_weights`. `options`: those of the agent, such as `learning_rate=1e-3`, as in
    `agent_options`. `sweep={"learning_rate": [...]}`, `wrap=["frame-stack:4", "time-limit:200"]` (the first is
    innermost).

    `data`: the file of a data set to learn from, without environment steps; `steps` then count updates, and without
    `evaluation_every` there are ten evaluations. Without an environment the spaces are those of the data, and nothing
    is played but in `evaluate`, an environment of any kind with the same spaces. `held_out`: the share of its episodes
    that are measured and not learned from; 0.1 without any environment, else 0. Agents that learn from recorded text
    (`"sft"`, `"dpo"`, ...) take a file of rows, or the rows, as in `data=[{"messages": [...]}, ...]`, which the run's
    directory keeps; `evaluate` may be a file of further rows, or rows, that are measured.

    `evaluation_actions`: `"sampled"`, as in training, or `"greedy"`, the most likely action; `"auto"` takes the one
    with the higher return in separate episodes. `evaluation_every`: the steps of each seed between evaluations of
    `evaluation_episodes` episodes; the first precedes training. They affect neither the course of training nor its
    clock; see `Run.evaluations`.

    `devices`: the number that share the run of a native environment; by default all accelerators, and on the CPU one
    for each seed. If there are more devices than the seeds can use, several share the environments of one seed.
    `mesh="data:2,model:4"`: the devices that share each seed's language model, its rows and weights by `data`, its
    heads, units and vocabulary by `model`.

    `workers`: processes of each seed that step its environments, if those run on the host; each may have several
    `worker_threads`, for environments that wait, or compute outside of Python. `"ray:4"`: actors of a Ray cluster,
    which may be on other machines. With `async_envs` no worker waits for the others within a rollout; the result is the
    same. With `policy_lag=N` workers also choose the actions and play whole rollouts, with parameters that are N
    updates old, so that with N of 1 or more they play while the learner learns. `step_timeout`: the seconds that a
    worker may take for one step, 600 by default; a slower one is reported, killed and replaced, and its step is lost.

    `hosts`: processes that share the run of a native environment with all their devices. This one leads; `coordinator`
    is its address (`"machine:4711"`), and the others call `forage join`.

    `display`: `auto`, `live`, `notebook`, `plain`, `json`, `notes`, `quiet` or a `Progress`.

    `track`: trackers that also receive the numbers, such as `"wandb"` or `["csv", MyTracker]`. `callbacks` are called
    at each report, about every second, with a `forage.runs.callbacks.View` of the run; they may stop it. `stop_at`:
    train until an evaluation reaches this score. `keep="best"` and `keep_every=N` keep the agents of the best
    evaluation and of every N steps, for `forage.load(run, checkpoint="best")`.

    `start_from`: a run whose weights this one starts with, seed by seed if it has the seeds, else every seed with those
    of its best; `with_memory`: take over its memory too, and count steps on from there. Agent, environment, parts,
    steps and seeds are those of that run unless they are given; another agent has its own usual memory and behaviour,
    and that run's networks. A run that fine-tunes an offline run is evaluated before its first update, and warns if a
    later score is more than a tenth lower.

    Examples:
        >>> import forage
        >>> run = forage.train("ppo", "CartPole-v1", steps=500_000, seeds=5, learning_rate=1e-3)  # doctest: +SKIP
    """
    arguments = locals()
    check_not_importing()
    for name in kept_rows.FILES:
        if (rows := kept_rows.read_argument(arguments[name], name)) is not None:
            arguments[name] = rows
    check_call(train, {name: value for name, value in arguments.items() if name not in CHECKED_APART})
    said = {name: value for name, value in arguments.items() if value is not DEFAULTS.get(name, MISSING)}
    for option in options:
        former.check_option(option, ARGUMENTS, "forage.train")
    said |= said.pop("options")
    if start_from is None:
        return start_run(said)
    said["start_from"] = parent = start_from if isinstance(start_from, Run) else Run(start_from)
    return start_run(merge_over(str(parent.directory), from_parent(parent, said), said))


MISSING = object()
DEFAULTS = {name: parameter.default for name, parameter in inspect.signature(train).parameters.items()}
"""The default values of the arguments of `train`."""
SETTINGS = tuple(name for name in STORED if name in DEFAULTS)
"""The arguments of `train` that do not affect learning, and that are stored with a run."""


def train_on_rows(said: Mapping[str, Any], rows: Mapping[str, Sequence[Any]]) -> Run:
    """Train a new run from rows that are objects in Python, which its directory keeps as files."""
    lines = {name: kept_rows.write_lines(each, name) for name, each in rows.items()}
    with tempfile.TemporaryDirectory(prefix="forage-") as folder:
        for name, text in lines.items():
            (Path(folder) / kept_rows.FILES[name]).write_text(text, encoding="utf-8")
        try:
            return start_run(kept_rows.name_files(said, rows, Path(folder)), lines)
        except ForageError as error:
            raise ForageError(kept_rows.without_files(str(error), Path(folder))) from None


def start_run(said: Mapping[str, Any], lines: Mapping[str, str] | None = None) -> Run:
    """Train a new run. `said`: arguments of `train`, those of a file and of a parent run among them.

    `lines`: the content of files of rows that are to lie in the run's directory, by the argument that they are.
    """
    if rows := kept_rows.take_rows(said):
        return train_on_rows(said, rows)
    given = dict(said)
    shown = progress.make_steady(given.pop("display", "auto"))
    called = check_callbacks(given.pop("callbacks")) if "callbacks" in given else []
    settings = check_settings({name: given.pop(name) for name in SETTINGS if name in given})
    if settings.get("mesh") is not None:  # before a model is read, by which JAX would settle on its devices
        prepare_devices(1, parse_mesh(settings["mesh"]))
    directory, parent, with_memory = (given.pop(name, None) for name in ("directory", "start_from", "with_memory"))
    if with_memory and parent is None:
        raise ForageError("with_memory takes over what another run has collected; name that run in start_from.")
    hosts, coordinator = given.pop("hosts", 1), given.pop("coordinator", "")
    leading = None if (hosts, coordinator) == (1, "") else lead(hosts, coordinator, shown.note)

    # Configuration and runner
    specs: list[Spec] = []

    def configure() -> RunConfig:
        found = dataclasses.replace(resolve(**given, on_spec=specs.append), **settings)
        if parent is None:
            return found
        return continue_parent(found, parent, with_memory, own_behaviour=given.get("behaviour") is not None)

    with blame_spaces(parent, specs):
        setup = configure()
        if directory is not None:
            Run.check_free(Path(directory))
        check_devices(setup, leading)
        runner = build_runner(setup, setup.asked_devices, leading, shown.note)
        count, free = runner.shape.of_seed, free_on(runner.devices)
        each = None if free is None else free // count
        built = runner
        if shorter := shorter_answers(setup, lambda: share_of_each(bytes_of(built), count), each, runner.shape):
            runner.close()
            given["environment_options"] = {**(given.get("environment_options") or {}), "response": shorter}
            shown.note(
                f"Answers have at most {shorter} tokens, as longer ones would not fit into the free memory; "
                f"--env.response sets another number."
            )
            setup = configure()
            runner = build_runner(setup, setup.asked_devices, leading, shown.note)
        check_resources(setup, runner)
        inheritance = None if parent is None else make_inheritance(parent, setup, runner, with_memory)
    setup = complete_settings(setup, runner, inheritance)

    # Files and training
    path = Path(directory) if directory is not None else new_directory(setup)
    session: Session | None = None
    with hold_new_directory(path, lambda: session is None or session.learned_nothing):
        if directory is not None:  # once more: another process may have trained there meanwhile
            Run.check_free(path)
        if lines:
            setup = kept_rows.keep_rows(setup, lines, path)
        config = setup.full_config()
        keep_own(config, None if parent is None else parent.config)
        write_json(path / "versions.json", version_record(setup, config))  # first, as it marks the directory as ours
        tracking = open_trackers(setup.track, path, config, note=shown.note) if setup.track else []
        write_json(path / "config.json", config)  # last, as it makes the directory a run
        session = Session(path, setup, runner, shown, tracking, called)
        if inheritance is not None:
            session.inherit(inheritance)
        return session.run()


def check_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a run with whole numbers and names of trackers. Raise `ForageError` for invalid ones."""
    if (episodes := settings.get("evaluation_episodes")) is not None:
        check_episodes(episodes)
    if (every := settings.get("evaluation_every")) is not None:
        settings["evaluation_every"] = every = whole("evaluation_every", every)
        if every < 1:
            raise ForageError(f"Steps from one evaluation to the next are 1 or more, not {every:,}.")
    if (devices := settings.get("devices")) is not None and devices < 1:
        raise ForageError(f"A run is on 1 device or more, not {devices}.")
    if not (seconds := settings.get("checkpoint_seconds", 0.0)) >= 0:
        raise ForageError(f"Seconds between checkpoints are 0 or more, not {seconds:g}.")
    return settings | {"track": tracker_names(settings["track"])} if settings.get("track") else settings


def build_runner(setup: RunConfig, devices: Devices, channel: Channel | None, note: Callable[[str], None]) -> Runner:
    """Build the runner of a run: here alone, or on all hosts that listen at a channel."""
    workers = setup.host_workers._replace(note=note)
    return setup.runner(devices, workers=workers) if channel is None else runner_on(channel, setup, devices, workers)


def check_devices(setup: RunConfig, leading: Channel | None) -> None:
    """Raise `ForageError` for devices that cannot share the run, before anything is built on them."""
    if setup.mesh is None:
        if setup.devices and not setup.on_device:
            shared = type(setup.agent).check_mesh is not Agent.check_mesh
            instead = f"share the model with mesh, as in data:{setup.devices}" if shared else "leave out devices"
            raise ForageError(f"{setup.name} runs on the host, where one device learns; {instead}.")
        return
    shape = parse_mesh(setup.mesh)
    if setup.devices is not None:
        raise ForageError(f"mesh says how many devices there are, {shape.of_seed} here; leave out devices.")
    if leading is not None:
        raise ForageError("A mesh is of one machine's devices; leave out hosts, or mesh.")
    if setup.policy_lag is not None:
        raise ForageError("With policy_lag workers act alone, and cannot share a model; leave out policy_lag, or mesh.")
    setup.agent.check_mesh(shape, setup.offline)
    check_count(shape)


def check_count(asked: Devices) -> None:
    """Raise `ForageError` if there are fewer devices than a run asks for."""
    devices = size_of(asked) if asked else 0
    if devices > (here := len(jax.devices())):
        raise ForageError(
            f"A run on {devices} devices needs as many, and JAX has {here} here; ask for {here} or fewer, or, on the "
            f"CPU, before JAX is in use."
        )


def check_resources(setup: RunConfig, runner: Runner) -> None:
    """Raise `ForageError` if there are fewer devices than a run asks for, or too little memory."""
    check_count(setup.devices)
    check_memory(runner, setup.names)


def complete_settings(setup: RunConfig, runner: Runner, inheritance: Inheritance | None) -> RunConfig:
    """Return a configuration with the settings that depend on its runner and on the run that it starts from."""
    every = setup.evaluation_every
    data = innermost(setup.memory) if setup.offline else None
    # Offline, no training episodes make a curve; after a hand-over, a fall has to be noticed.
    if not setup.scored:
        check_unscored(setup)
        every = None
    elif every is None and (setup.offline or (inheritance is not None and inheritance.offline)):
        every = -(-setup.steps // 10)
    if every is None and runner.in_words:  # so that people can read how answers change
        every = -(-setup.steps // 4)
    check_keeping(setup.stop_at, setup.keep, setup.keep_every, every)
    return dataclasses.replace(
        setup,
        evaluation_every=every,
        evaluation_episodes=setup.evaluation_episodes or (runner.usual_episodes if setup.scored else None),
        devices=len(runner.devices),
        devices_per_seed=runner.shape.env,
        parent=None if inheritance is None else inheritance.record(),
        ends=(data.ends(setup.environment_config) or None) if isinstance(data, DataSet) else None,
    )


def check_unscored(setup: RunConfig) -> None:
    """Raise `ForageError` for settings that need a score, in a run without one."""
    for name in ("evaluation_every", "evaluation_episodes", "stop_at", "keep", "opponent"):
        if getattr(setup, name) is not None:
            raise ForageError(
                f"A run from data without an environment has no score, so {name.replace('_', '-')} has no use; name "
                f"one with --evaluate ENVIRONMENT, or leave it out."
            )


def resume(
    directory: str | os.PathLike[str],
    *,
    steps: int | str | None = None,
    display: str | progress.Progress = "auto",
    anyway: bool = False,
    environment: Any = None,
    data: str | os.PathLike[str] | None = None,
    callbacks: Sequence[Callback] = (),
    hosts: int = 1,
    coordinator: str = "",
    mesh: str | None = None,
    **parts: Any,
) -> Run:
    """Continue a run from its newest whole checkpoint, as if it had never stopped.

    `steps`: a new, larger total for each seed, also for a finished run. Schedules follow it from then on, and the run's
    history keeps both totals. `callbacks`: as in `train`; a run does not store its own. An environment that was a
    Python object must be given again, as it was before `wrap`, and so must a part that holds one (`behaviour=`, ...).
    Changed settings apply from here on: config.json has the new ones, and history.jsonl the earlier ones with the step
    of the change. `data`: the new path of the run's data set, if it was moved. `mesh`: another one than at the start,
    for a run of a language model; `data:1` is one device. `hosts` and `coordinator`: as in
    `train`; all hosts need to see the run's directory. If there are fewer devices than at the start, the run uses those
    and notes it. Raise `ForageError` if code or versions differ from those of the run, unless `anyway`.
    """
    given = {"directory": directory, "display": display, "anyway": anyway, "data": data}
    check_call(resume, given | {"hosts": hosts, "coordinator": coordinator})
    if others := [name for name in parts if name not in CHANGEABLE]:
        raise ForageError(
            f"forage.resume has no option {others[0]!r}; a run keeps what it was made with, but for steps, environment "
            f"and {', '.join(CHANGEABLE)}."
        )
    steps = None if steps is None else whole("steps", steps)
    shown, called = progress.make_steady(display), check_callbacks(callbacks)
    run = Run(directory)
    if run.config.get("imported") and not run.checkpoints:
        raise ForageError(
            f"{directory} was imported and has no training to resume; forage train --from {directory} trains it on."
        )

    def differs(what: str) -> None:
        if what and not anyway:
            raise ForageError(
                f"{directory} was made with {what}, so it would not continue bit for bit; add --anyway to go on."
            )

    before = shape_before(run.config)
    shape = before if mesh is None else parse_mesh(mesh)
    leading = lead(hosts, coordinator, shown.note)
    if leading is None:  # before all else: even a look at the versions makes JAX settle on its devices
        prepare_devices(1, shape)
    if "mesh" in run.config and mesh is None and shape is not None:
        shape = shape.fit_devices(len(jax.devices()))
    other = differences(read_json(run.directory / "versions.json"))
    differs(other)
    setup, extension = extend_setup(run, from_config(run.config, environment, data, run.directory, **parts), steps)
    if own := changed_code(read_json(run.directory / "versions.json"), setup):
        differs(own)
        other = f"{other} and {own}" if other else own
    if mesh is not None:
        check_devices(dataclasses.replace(setup, mesh=mesh, devices=None), leading)
    runner = build_runner(setup, shape, leading, shown.note)
    moved = ""
    if before is not None and moves(before, runner):
        then, here = size_of(before), len(runner.devices)
        many, now = f"{then} device{'s' * (then > 1)}", str(here)
        if then == here:
            many, now = f"a mesh of {before}", str(runner.shape)
        moved = f"begun on {many}, and goes on with {now} here: sums may round otherwise"
        other = f"{other} and {many} (here {now})" if other else f"{many} (here {now})"
    check_memory(runner, setup.names)
    with lock_directory(run.directory):
        session = Session(run.directory, setup, runner, shown, callbacks=called)
        session.restore(run)
        if (parent := setup.parent) and session.checkpoints.steps is None:  # stopped before it began
            inheritance = make_inheritance(Run(parent["run"]), setup, runner, parent["with_memory"])
            if inheritance.record() != parent:
                raise ForageError(f"{parent['run']} has changed since {directory} began with it; train anew from it.")
            session.inherit(inheritance)
        if moved:
            session.said.append(moved)
        if extension:
            session.said += extension.lines(setup, runner.steps)
            extension.record(setup, runner.steps)
        with guard_imports(run.directory, run.config):
            session.trackers = open_trackers(setup.track, run.directory, run.config, again=True, note=shown.note)
        session.track_again(run)
        record_changes(run, setup.config(), session.checkpoints.steps or 0, other)
        return session.run()


def shape_before(config: Mapping[str, Any]) -> Shape | None:
    """Return the shape of the devices that a run began on; `None` for a run from before that was kept."""
    if words := config.get("mesh"):
        return parse_mesh(words)
    devices, split = config.get("devices"), config.get("devices_per_seed", 1)
    return Shape(devices // split, split) if devices else None


def moves(before: Shape, runner: Runner) -> bool:
    """Return whether a run continues with other devices, so that its sums may round otherwise."""
    return len(runner.devices) != size_of(before) or runner.shape.model != before.model


def train_or_resume(agent: Any, environment: Any, *, directory: Path, display: str, **options: Any) -> Run:
    """Return the run that `train` would make: load it if it is in `directory`, else resume it or train it.

    A run that was evaluated before its end, or with other actions than its own, is resumed and evaluated again. The
    caller must check that a run in `directory` has the same settings.
    """
    if not Run.begun(directory):
        return train(agent, environment, directory=directory, display=progress.make_display(display), **options)
    run = Run(directory)
    if run.evaluation is not None:
        own = run.config.get("evaluation_actions", "greedy")
        how = run.evaluation.get("asked", run.evaluation.get("actions", own))
        if run.evaluation.get("steps", 0) >= run.config["steps"] and how == own:
            return run
    # A run's configuration holds named parts and environments, but no Python objects.
    given = {port: part for port, part in options.items() if port in PORTS and not isinstance(part, str | None)}
    return resume(
        directory, display=display, environment=None if isinstance(environment, str) else environment, **given
    )


def evaluate(
    directory: str | os.PathLike[str],
    episodes: int = 100,
    seed: int = 0,
    environment: Any = None,
    actions: str | None = None,
    opponent: str | os.PathLike[str] | None = None,
    checkpoint: str | int | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> Score:
    """Evaluate a run's newest checkpoint again, on episodes chosen by `seed`. Return the score; writes it too.

    No episode is one of the run's own evaluation. The score of a sweep is the best setting's: `Run.scores` has all of
    them. `actions`: `greedy`, `sampled`, or `auto`, which chooses between them anew; by default as configured, or as
    chosen when the run was evaluated. `opponent`: the player of the other seats. Against another opponent than the
    run's own, its score is unchanged, and the results are written to opponents.json. `checkpoint`: `best`, or the step
    of a kept checkpoint, instead of the newest; the run's score is unchanged, and the results are written to
    checkpoints.json. `note` receives a description of an evaluation that takes longer than a moment. Only the agents
    are read, and the episodes are not saved: no code in the run's files is executed.
    """
    check_call(evaluate, locals())
    check_episodes(episodes)
    if not 0 <= seed <= MOST_EPISODE_SEED:
        raise ForageError(f"The seed of an evaluation is from 0 to {MOST_EPISODE_SEED:,}, not {seed:,}.")
    run = Run(directory)
    setup = from_config(run.config, environment, None, run.directory, evaluation_actions=actions, opponent=opponent)
    if environment is None and (changed := said_of_code(run.directory, setup)):
        progress.Notes().note(changed)
    if checkpoint is not None and setup.opponent != run.config.get("opponent"):
        raise ForageError("A kept checkpoint plays against the run's own opponent; leave out the other one.")
    setup.check_played(directory)
    known = run.evaluation  # read first, so that damage is reported before anything is played
    runner, score = setup.runner(learns=False), None
    try:
        at = load_agents(run, runner) if checkpoint is None else take_kept(run, setup, runner, checkpoint)
        runner.retire()
        choice = None if actions == AUTO or checkpoint is not None else run.choice
        with said_if_long(note, setup, episodes, choice is None):
            evaluation = score_agents(runner, setup, episodes, prng.EVALUATION_AGAIN + seed, choice) | {"steps": at}
        scores = by_setting(setup.members, evaluation["return"], within=range_in(evaluation))
        score = max(scores.values(), key=lambda one: one.value)
        if checkpoint is not None:
            evaluation["choice"] = evaluation["choice"] and evaluation["choice"] | {"steps": at}
            write_json(run.directory / "checkpoints.json", run.kept_evaluations | {str(checkpoint): evaluation})
        elif setup.opponent == run.config.get("opponent"):
            before = None if known is None else known["return"]
            write_json(run.directory / "evaluation.json", evaluation)
            if evaluation["return"] != before:
                draw_sweep(run) if setup.sweep else draw_curve(run)
        else:
            write_json(run.directory / "opponents.json", run.opponents | {setup.opponent: evaluation})
    except (ForageError, OSError) as error:
        if score is None:
            raise
        why = str(error) if isinstance(error, ForageError) else f"{error.strerror or error}: {error.filename}"
        raise ForageError(f"{run.title}: return {score}, which could not be kept. {why}") from error
    finally:
        runner.close()
    return score


def new_directory(setup: RunConfig, suffix: str = "") -> Path:
    """Make a new directory `runs/AGENT-ENVIRONMENT-TIME`, unique even for runs that start in the same second."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    safe = setup.name.replace(":", "-").replace("/", "-")[:100]  # file systems take 255 bytes
    base = RUNS / f"{setup.names['agent']}-{safe}-{stamp}".replace(":", "-")
    for number in itertools.count():
        path = base.with_name(f"{base.name}{f'-{number}' if number else ''}{suffix}")
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            continue
        except OSError as error:
            raise ForageError(f"Could not make {path}: {error.strerror or error}.") from error
    raise AssertionError("numbers do not end")


CACHE_BYTES = 2 << 30
"""The most bytes that compiled programs may take on disk between two commands."""


def use_compilation_cache() -> None:
    """Keep compiled programs on disk between processes, unless the user has configured this already.

    The least recently used are deleted if all take more than `JAX_COMPILATION_CACHE_MAX_SIZE` bytes, or 2 GiB.
    """
    if getattr(jax.config, "jax_compilation_cache_dir", None) is not None:
        return
    most = getattr(jax.config, "jax_compilation_cache_max_size", -1)
    if most == 0:
        return
    # JAX's own limit needs another package, and fails on programs that were kept without it.
    jax.config.update("jax_compilation_cache_max_size", -1)
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(cache, "forage", "compiled")
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    limit = CACHE_BYTES if most < 0 else most
    keep_within(folder, limit)
    atexit.register(keep_within, folder, limit)


def keep_within(folder: str, most: int) -> None:
    """Delete the least recently used files of a folder if all together take more than `most` bytes.

    A quarter is free afterwards. Other processes may write, read and delete there meanwhile.
    """
    found: list[tuple[float, int, str]] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # another process has deleted it
                one = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(one.st_mode):
                    # On disks that do not record access, the oldest files go.
                    found.append((max(one.st_atime, one.st_mtime), one.st_size, entry.path))
    total = sum(size for _, size, _ in found)
    if total <= most:
        return
    for _, size, path in sorted(found):
        if total <= most * 3 // 4:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
            total -= size
