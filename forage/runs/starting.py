"""Runs that start from another run: from its agents' weights, and optionally its memory."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from forage.behaviours.policy import AgentPolicy
from forage.config import part_options, registry, trusting
from forage.config.files import arguments_of
from forage.config.options import OPTIONS
from forage.config.registry import PartChoice
from forage.config.run_config import RunConfig, shorten_memory
from forage.core import checkpoint
from forage.core.checkpoint import Leaf
from forage.core.specs import spec_from_config
from forage.core.sweep import best_member, member_words, members_of
from forage.core.types import ForageError
from forage.evaluation.statistics import Score, by_setting
from forage.loop.runner import Runner
from forage.runs.run import Run
from forage.runs.transfer import check_meanings, notes

NETWORKS = ("hidden_sizes", "value_sizes", "activation", "layer_norm", "encoder", "optimiser", "state_dependent_noise")
NETWORKS += ("critics", "critic_norm", "bins", "lowest_value", "highest_value", "quantiles", "discount")
NETWORKS += ("torso", "normalise_observation", "squash_deviation")
"""Fields of an agent that decide the shape and the meaning of its networks."""


def from_parent(parent: Run, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that a run takes over from the one whose weights it starts with: those not `given`.

    An agent of another kind has its own usual memory and behaviour, and only the parent's options that decide the
    networks. An agent that has learned takes no random steps at the start.
    """
    decisive = {option.name for option in OPTIONS if option.decides}
    said = {name for name, value in given.items() if value is not None}
    agent = given.get("agent")
    if isinstance(agent, str | PartChoice):  # its options are still the parent's
        said -= {"agent"}
    kept = {name: value for name, value in parent.config.items() if name in decisive - said}
    other = agent.name if isinstance(agent, PartChoice) else agent
    own: dict[str, Any] = {}
    if isinstance(other, str) and other != parent.config["agent"]["part"]:
        for name in ("agent", "memory", "behaviour"):
            kept.pop(name, None)
        own = {"agent_options": networks(parent, other)}
    if "data" in said:
        kept.pop("memory", None)
    world = parent.config["environment"]
    if "data" in world or {"logged", "evaluates"} & world.keys():  # the spaces are those of data
        own["logged"] = spec_from_config(parent.config)
        own["logged_reading"] = parent.config["memory"].get("reading", "")
        if "data" in said and "environment" not in said:
            kept.pop("environment", None)
        elif "data" in world and "environment" not in said:
            raise ForageError(
                f"{parent.directory} learned from data without an environment; name one in which its policy goes on, "
                f"as in forage train --from {parent.directory} ENVIRONMENT, or a data set with --data FILE."
            )
    where = str(parent.directory)
    trusting.check_trust(where, kept)
    found = arguments_of(where, kept) | own
    if (behaviour := found.get("behaviour")) and issubclass(behaviour.cls, AgentPolicy):
        found["behaviour"] = behaviour.with_options({"random_steps": 0})
    return found


def networks(parent: Run, agent: str) -> dict[str, Any]:
    """Return the options of a run's agent that decide its networks, as far as another agent has them."""
    of_parent = parent.part("agent")
    theirs = {field.name for field in part_options.fields(registry.part_class("agent", agent))}
    return {name: getattr(of_parent, name) for name in NETWORKS if name in theirs and hasattr(of_parent, name)}


def continue_parent(config: RunConfig, parent: Run, with_memory: bool, own_behaviour: bool) -> RunConfig:
    """Return the configuration of a run whose agent has learned already in its parent.

    It takes no random steps at the start, unless somebody named its behaviour. A memory that is taken over keeps its
    size, as its places are counted from the start.
    """
    changed: dict[str, Any] = {}
    if isinstance(config.behaviour, AgentPolicy) and not own_behaviour:
        changed["behaviour"] = dataclasses.replace(config.behaviour, random_steps=0)
    if with_memory:
        agent = parent.part("agent")
        rows = 1 if agent.joint else parent.config["spec"]["num_agents"]
        steps = parent.config["steps"] * rows
        changed["memory"] = shorten_memory(config.memory, agent, agent.num_envs * rows, steps)
    return dataclasses.replace(config, **changed)


@dataclasses.dataclass
class Inheritance:
    """The weights and the memory that the members of a new run start with."""

    parent: Run
    rows: list[int]  # the parent's member for each member of the run
    each: bool  # each seed continues the same seed
    agents: Any  # leaves `member ...`
    left: list[str]  # fields of the parent's agents that those of this run lack
    memory: Any = None  # likewise, if it is taken over
    capacity: int = 0  # of that memory
    steps: int = 0  # at the start of the run: a memory counts from there
    offline: bool = False  # the parent learned from a data set alone, and the run itself does not
    notes: Sequence[str] = ()  # meanings of its spaces that changed

    def begin(self, runner: Runner) -> None:
        """Load the inheritance into a runner that has just started."""
        runner.inherit(self.agents, self.memory, self.steps)

    def lines(self) -> list[str]:
        """Describe the weights and the memory that a run starts with."""
        task = self.parent.config["spec"]["name"]
        which = (
            "seed by seed"
            if self.each
            else f"every seed with those of {member_words(members(self.parent)[self.rows[0]])}"
        )
        without = f", without {', '.join(self.left)}" if self.left else ""
        lines = [f"begins with the weights of {self.parent.directory} on {task}, {which}{without}"]
        if self.memory is not None:
            lines.append(
                f"and with its memory, which keeps the newest {self.capacity:,} transitions; steps count on from "
                f"{self.steps:,}"
            )
        return [*lines, *(f"Note: {note}" for note in self.notes)]

    def record(self) -> dict[str, Any]:
        """Return the configuration's entry on the parent."""
        found = members(self.parent)
        return {
            "run": os.path.abspath(self.parent.directory),
            "steps": checkpoint.read_header(self.parent.directory / "agent.npz")["steps"],
            "members": [found[row] for row in self.rows],
            "with_memory": self.memory is not None,
            **({"offline": True} if self.offline else {}),
        }


def members(run: Run) -> list[dict[str, Any]]:
    """Return the settings and the seed of each member of a run."""
    return members_of(run.config["sweep"], run.config["seeds"])


def make_inheritance(parent: Run, setup: RunConfig, runner: Runner, with_memory: bool) -> Inheritance:
    """Return the inheritance of a run. Raise `ForageError` if it does not fit, naming the first leaf.

    Each seed continues the same seed of the parent, with its best setting in a sweep; if the parent lacks one of the
    seeds, every seed continues the parent's best in evaluation.
    """
    check_meanings(parent, setup.spec)
    there, evaluation = members(parent), parent.evaluation
    returns = evaluation["return"] if evaluation else None
    each = {member["seed"] for member in setup.members} <= {member["seed"] for member in there}
    rows = [
        best_member(str(parent.directory), there, returns, {"seed": m["seed"]} if each else {}) for m in setup.members
    ]
    file = parent.directory / "agent.npz"
    if not file.exists():
        raise ForageError(f"{parent.directory} holds no trained agent: it has no agent.npz.")
    like = runner.learner_shapes()
    agents = {name: leaf.select_members(rows) for name, leaf in checkpoint.load_leaves(file).items()}
    known = {state_field(name) for name, _ in checkpoint.named_leaves(like.agent)}
    left = sorted({state_field(name) for name in agents} - known)
    agents = {name: leaf for name, leaf in agents.items() if state_field(name) in known}
    found = Inheritance(parent, rows, each, fit_leaves(parent, "the agent", agents, like.agent), left)
    found.notes = notes(parent, setup.spec, setup.environment_config.get("wrap") or [])
    found.offline = parent.part("memory").offline and not setup.offline
    if with_memory:
        found.capacity = getattr(setup.memory, "capacity", 0)
        memory, found.steps = take_over_memory(parent, setup, rows)
        found.memory = fit_leaves(parent, "the memory", memory, like.memory)
        if setup.steps <= found.steps:
            raise ForageError(
                f"With the memory of {parent.directory} a run counts on from its {found.steps:,} steps, so its total "
                f"is more than that; say --steps, which is {setup.steps:,} here."
            )
    return found


def state_field(name: str) -> str:
    """Return the field of an agent's state that a leaf belongs to: `.critics.body.weight` to `critics`."""
    return re.split(r"[.\[]", name.lstrip("."))[0]


def take_over_memory(parent: Run, setup: RunConfig, rows: list[int]) -> tuple[dict[str, Leaf], int]:
    """Return the memory of these members in a run's newest checkpoint, by leaf, and its steps. Check that it fits."""
    if setup.memory.on_policy or setup.memory.offline:
        raise ForageError("with_memory takes a replay memory over, and this run keeps none; leave it out.")
    if not parent.checkpoints:
        raise ForageError(f"{parent.directory} has no checkpoint, so there is no memory to begin with.")
    stored = parent.config["agent"]
    for name in ("num_envs", "rollout_length"):
        if stored.get(name) != (own := getattr(setup.agent, name)):
            raise ForageError(
                f"The memory of {parent.directory} was collected with {name} {stored.get(name)}, and this run has "
                f"{own}; leave out --with-memory, or give --{name.replace('_', '-')} {stored.get(name)}."
            )
    return stored_memory(parent, setup, rows)


def stored_memory(parent: Run, setup: RunConfig, rows: list[int]) -> tuple[dict[str, Leaf], int]:
    """Return the memory of these members in the newest checkpoint, by leaf, and the steps it holds."""
    path = parent.checkpoints[-1]
    saved, steps = checkpoint.load_leaves(path), checkpoint.read_header(path)["steps"]
    if not any(name.startswith("[0]") for name in saved):  # made on the device
        prefix = ".learner.memory"
        return {
            n.removeprefix(prefix): leaf.select_members(rows) for n, leaf in saved.items() if n.startswith(prefix)
        }, steps
    if any(saved[f"[{row}].is_pending"].read() for row in rows):  # the newest rollout is not in the memory yet
        steps -= setup.agent.num_envs * setup.agent.rollout_length
    pattern = re.compile(r"\[0\]\.learner\.memory(.*)")
    names = [match[1] for name in saved if (match := pattern.fullmatch(name))]
    return {n: Leaf.stack([saved[f"[{row}].learner.memory{n}"] for row in rows]) for n in names}, steps


def fit_leaves(parent: Run, what: str, found: dict[str, Leaf], like: Any) -> Any:
    """Return leaves (`member ...`) as a tree like that of one member. Raise `ForageError` for the first misfit."""
    leaves: list[Any] = []
    wanted = dict(checkpoint.named_leaves(like))
    for name in [*wanted, *found]:
        if name not in found or name not in wanted:
            where = "this run" if name in wanted else "that one"
            raise ForageError(f"{parent.directory} does not fit {what} of this run: only {where} has {name}.")
    for name, leaf in wanted.items():
        bits = jax.eval_shape(jax.random.key_data, leaf) if checkpoint.is_key(leaf) else leaf
        one = found[name]
        if one.shape[1:] != bits.shape or one.dtype != bits.dtype:
            raise ForageError(
                f"{parent.directory} does not fit {what} of this run: {name} is {one.dtype}{list(one.shape[1:])} "
                f"there and {bits.dtype}{list(bits.shape)} here."
            )
    for name, leaf in wanted.items():
        one = jnp.asarray(found[name].read())
        is_key = checkpoint.is_key(leaf)
        leaves.append(jax.random.wrap_key_data(one, impl=checkpoint.generator_of(leaf)) if is_key else one)
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


CHANCE = ", which may be chance, as their intervals overlap (--evaluation-episodes plays more)"
MOST = 0.1  # share of the score at the hand-over that may be lost without a warning


def handover_record(members: list[dict[str, Any]], evaluations: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], str]:
    """Compare each evaluation with the first, that of the hand-over. Return a record, and a sentence about the newest.

    A policy that was learned from data is often lost in the first steps of learning online. So a run that starts from
    an offline one evaluates the policy before it learns, and warns if a later score is more than a tenth lower.

    The score is that of a run, the interquartile mean over seeds; each setting of a sweep has its own. The sentence is
    empty unless the newest fall is the largest so far or the score has recovered.
    """
    first, settings, said = by_setting(members, evaluations[0]["return"]), [], []
    later = [(row["steps"], by_setting(members, row["return"])) for row in evaluations[1:]]
    for label, score in first.items():
        before = score.value
        each = [(steps, scores[label].value) for steps, scores in later]
        falls = [{"steps": steps, "score": now, "fall": fall(before, now)} for steps, now in each]
        falls = [found for found in falls if found["fall"] > MOST]
        settings.append({"setting": label, "score": before, "falls": falls})
        newest, what = evaluations[-1]["steps"], f" with {label}" if label else ""
        if falls and falls[-1]["steps"] == newest:
            now, earlier = falls[-1], [found["fall"] for found in falls[:-1]]
            if now["fall"] > max(earlier, default=MOST):
                sure = is_below(later[-1][1][label], score)
                said.append(
                    f"the score{what} is {now['fall']:.0%} below the hand-over's, {now['score']:.6g} and was "
                    f"{before:.6g}" + (": learning is undoing what the run began with" if sure else CHANCE)
                )
        elif len(later) > 1 and falls and falls[-1]["steps"] == later[-2][0]:
            said.append(f"the score{what} is no longer a tenth below the hand-over's")
    record = {"steps": evaluations[0]["steps"], "most": MOST, "settings": settings}
    return record, f"Note: {'; '.join(said)}." if said else ""


def is_below(now: Score, before: Score) -> bool:
    """Return whether a score's interval is entirely below another's; without intervals, whether the score is lower."""
    ends = now.high, before.low
    if any(end is None or not math.isfinite(end) for end in ends):
        return now.value < before.value
    return now.high < before.low  # type: ignore[operator]


def fall(before: float, now: float) -> float:
    """Compute the share of a score's size that is lost, negative if it rose; of 0, all or none is lost."""
    if before == 0:
        return 1.0 if now < 0 else 0.0
    return (before - now) / abs(before)
