"""The loading of policies from a run's files."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import jax

from forage.config.options import AUTO, check_actions
from forage.config.packages import locate_run
from forage.config.part_data import from_config
from forage.config.ranges import check_kinds
from forage.config.trusting import guard_imports
from forage.config.values import at_last
from forage.core import prng, records
from forage.core.checkpoint import load_tree as load_tree
from forage.core.compiling import check_precision
from forage.core.ports import Agent
from forage.core.specs import spec_from_config
from forage.core.sweep import best_member, members_of
from forage.core.types import ForageError, Spec
from forage.evaluation.statistics import interquartile_mean
from forage.loop.policy import Policy

KEPT = "kept"  # the folder of the agents that a run keeps beside its newest


def load_policy(
    directory: str | os.PathLike[str],
    seed: int | None = None,
    actions: str | None = None,
    *,
    checkpoint: str | int | None = None,
    **settings: float,
) -> Policy:
    """Return the agent of the best member in evaluation (the first without one); its `member` is set.

    In a sweep it is the best seed of the setting with the best score.

    `seed`, and `settings` of a sweep such as `learning_rate=0.001`, restrict the members. `actions`: `greedy` or
    `sampled`; by default as configured or, with `auto`, as its evaluation chose. `checkpoint`: `best`, or the step of a
    kept one (`--keep best`, `--keep-every N`); by default the newest.
    """
    check_precision()
    check_kinds({"directory": directory, "seed": seed}, {"directory": str | os.PathLike[str], "seed": int | None})
    path = locate_run(directory)
    if not (path / "agent.npz").exists():
        raise ForageError(f"{path} holds no trained agent: it has no agent.npz.")
    config = records.read_config(path)
    with guard_imports(path, {"agent": config["agent"]}):
        agent = from_config(at_last(config["agent"]))
    spec = spec_from_config(config)
    members = members_of(config["sweep"], config["seeds"])
    evaluation = records.read_evaluation(path)
    wanted = settings if seed is None else {"seed": seed} | settings
    returns = None if evaluation is None else evaluation["return"]
    if returns is not None and len(returns) != len(members):
        raise ForageError(
            f"{path / 'evaluation.json'} cannot be read: it is of another number of members than the run."
        )
    index = best_member(str(path), members, returns, wanted, interquartile_mean)
    states, _ = agent_states(path, agent, spec, len(members), checkpoint)
    sampled = actions_of(config, evaluation, actions) == "sampled"
    policy = Policy(agent, jax.tree.map(lambda x: x[index], states), spec, sampled)
    fits = [member for member in members if wanted.items() <= member.items()]
    policy.directory = os.fspath(path)
    policy.member, policy.members = members[index], len(fits)
    policy.settings = len({tuple(member.values())[1:] for member in fits})
    policy.evaluated = evaluation is not None
    return policy


def agent_states(
    directory: Path, agent: Agent, spec: Spec, members: int, checkpoint: str | int | None = None
) -> tuple[Any, dict[str, Any]]:
    """Return the states of a run's agents, leaves `member ...`, and the header of their file."""
    one = jax.eval_shape(lambda key: agent.init(key, spec), prng.key(0))
    like = jax.tree.map(lambda x: jax.ShapeDtypeStruct((members, *x.shape), x.dtype), one)
    return load_tree(agent_file(directory, checkpoint), like)


def agent_file(directory: Path, checkpoint: str | int | None = None) -> Path:
    """Return the file of a run's newest agents, or of those that it has kept as `best` or at a step."""
    if checkpoint is None:
        return directory / "agent.npz"
    paths = [path for path in sorted((directory / KEPT).glob("*.npz")) if path.stem == "best" or path.stem.isdecimal()]
    kept: dict[str | int, Path] = {path.stem if path.stem == "best" else int(path.stem): path for path in paths}
    if checkpoint not in kept:
        there = ", ".join(str(name) for name in kept)
        raise ForageError(
            f"{directory} has kept no checkpoint {checkpoint}; it has {there}."
            if kept
            else f"{directory} has kept no checkpoints; a run does that with --keep best and --keep-every N."
        )
    return kept[checkpoint]


def load(
    directory: str | os.PathLike[str],
    seed: int | None = None,
    actions: str | None = None,
    *,
    checkpoint: str | int | None = None,
    **settings: float,
) -> Policy:
    """Load a trained agent, the best one unless `seed` and `settings` of a sweep name it; see `load_policy`.

    Which one that is `Policy.member` says, and a line on standard error where it was chosen.

    Examples:
        >>> forage.load("runs/sweep", seed=1, learning_rate=0.001).member  # doctest: +SKIP
    {'seed': 1, 'learning_rate': 0.001}
    """
    policy = load_policy(directory, seed, actions, checkpoint=checkpoint, **settings)
    if policy.choice_words:
        print(policy.choice_words, file=sys.stderr)
    return policy


def actions_of(config: dict[str, Any], evaluation: dict[str, Any] | None, asked: str | None = None) -> str:
    """Return the way a run's agent plays, as its configuration sets it, unless `asked` to play otherwise.

    Where that is `auto`, as was chosen when the run was evaluated; greedily, where nothing was chosen.
    """
    asked = asked or config.get("evaluation_actions", "greedy")
    check_actions(asked)
    if asked != AUTO:
        return asked
    return ((evaluation or {}).get("choice") or {}).get("actions", "greedy")
