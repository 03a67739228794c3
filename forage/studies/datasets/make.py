"""Data sets that Forage's own agents make, after those of D4RL and NeoRL.

One agent is trained, with its preset, and every transition of its training is kept. `random` actions and the agent of
the best evaluation, the `expert`, are the ends of the normalised score: 0 and 1.

    random          uniform actions
    medium          the agent early in its training, at a third to a half of the expert's normalised score
    medium-replay   all that the run had experienced until then
    expert          the agent of the best evaluation
    mixed           half of the transitions by random actions, half by the expert

With `narrow` agents act greedily, and only a share `noise` of their actions is drawn from the policy, as the mistakes
of people who run a system; a `validation` part holds other episodes of the same policies.

Source: Fu et al., 2020, "D4RL: Datasets for Deep Data-Driven Reinforcement Learning", arXiv 2004.07219; its Tasks page
has `medium` at about a third of the expert's performance. Qin et al., 2022, "NeoRL: A Near Real-World Benchmark for
Offline Reinforcement Learning", arXiv 2102.00714: 80 % of actions are the policy's mean and 20 % drawn from it
(README of polixir/NeoRL). The size of its validation part could not be looked up; a tenth is ours.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from forage.config.registry import part_name
from forage.config.resolve import from_config, resolve
from forage.config.run_config import RunConfig
from forage.config.saved import load_policy
from forage.core import spaces
from forage.core.errors import ForageError, RunInterrupted, nearest
from forage.core.host import HostEnvironment
from forage.core.ports import Environment, Evolver
from forage.core.types import GONE
from forage.data import files
from forage.data.logged import EPISODE_FIELDS, Transitions, join_logs, select_transitions
from forage.environments.adapters.on_host import OnHost
from forage.loop.policy import Policy
from forage.memory.recorded import RecordedMemory
from forage.ops.ring import extent, oldest, read_segments
from forage.runs import training
from forage.runs.provenance import versions
from forage.runs.run import Run
from forage.runs.scoring import step_limit
from forage.runs.starting import fit_leaves, stored_memory
from forage.studies.datasets.manifest import Manifest, histogram, normalise_return
from forage.studies.record import (
    PlayedSteps,
    actor,
    environments_for,
    first_returns,
    header_of,
    record_steps,
)

TIERS = ("random", "medium", "medium-replay", "expert", "mixed")
STEPS = 50_000  # transitions of a data set: a few minutes for classic control on two cores
POINTS = 40  # evaluations of the agent in training, of which each may become `medium` or `expert`
LEARNING_EPISODES = 20  # of each of them
EPISODES = 100  # that the score of a policy is the mean of
MEDIUM = 0.4  # normalised score of `medium`, and within which bounds it is taken at once
WITHIN = (1 / 3, 1 / 2)
FARTHEST = (0.15, 0.85)  # beyond, no agent is called medium
CANDIDATES = 8  # agents that are played in search of `medium`
NOISE = 0.2  # with `narrow`, as in NeoRL
VALIDATION = 0.1
STARTS = {"score": 1, "random": 2, "medium": 3, "expert": 4, "medium-replay": 5, "mixed": 6}  # which episodes


def make(
    environment: str,
    tiers: Sequence[str] = TIERS,
    steps: int = STEPS,
    seed: int = 0,
    output: str | os.PathLike[str] | None = None,
    *,
    agent: str | None = None,
    agent_options: Mapping[str, Any] | None = None,
    environment_options: Mapping[str, Any] | None = None,
    train_steps: int | None = None,
    narrow: bool = False,
    noise: float | None = None,
    validation: float | None = None,
    display: str = "quiet",
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Train an agent and make data sets of it, named by tier, in one folder. Return the folder's manifest.

    `steps`: transitions of each data set; `medium-replay` has as many as the run had taken. `agent` and `train_steps`:
    those of `forage.train` unless said. `output`: the folder; `data/ENVIRONMENT` unless said. `narrow`: agents act
    greedily but for a share `noise` of their actions (0.2), which is drawn from the policy, and a `validation` part is
    made (0.1 of the transitions; 0 unless `narrow`). What the folder holds already is not made again.
    """
    tiers = check_arguments(tiers, steps, seed, narrow, noise, validation)
    noise = (NOISE if noise is None else noise) if narrow else None
    validation = (VALIDATION if narrow else 0.0) if validation is None else validation
    setup = setup_of(environment, agent, agent_options, environment_options, train_steps, seed, narrow)
    name = part_name(setup.agent)
    folder = Path("data") / environment.replace(":", "-").replace("/", "-") if output is None else Path(output)
    asked = {
        "environment": setup.environment_config,
        "agent": name,
        "agent_options": {key: repr(value) for key, value in (agent_options or {}).items()},
        "train_steps": setup.steps,
        "steps": steps,
        "seed": seed,
        "narrow": narrow,
        "noise": noise,
        "validation": validation,
    }
    manifest = Manifest(folder, asked, {"environment": setup.name, "versions": versions()})
    if all(manifest.is_made(tier) for tier in tiers):
        return manifest.data
    say(f"Training {name} on {setup.name} for {setup.steps:,} steps.")
    try:
        run = train_policies(setup, folder / "agent", name, environment, agent_options, environment_options, display)
    except RunInterrupted as stopped:
        what = str(stopped).partition(" Continue with:")[0]
        raise RunInterrupted(f"{what} Continue with the same forage data make, which goes on from there.") from None
    manifest.data["training"] = {
        "run": "agent",
        "agent": name,
        "steps": run.rows[-1]["steps"],
        "seed": seed,
        "settings": run.config["agent"],
    }
    makers = Makers(run, setup, manifest, steps, seed, noise, validation)
    try:
        makers.set_ends()
        if {"medium", "medium-replay"} & set(tiers):
            makers.choose_medium()
        manifest.write()
        for tier in tiers:
            if not manifest.is_made(tier):
                makers.make(tier)
                manifest.write()
                say(describe_set(tier, manifest.data["sets"][tier]))
    finally:
        makers.close()
    return manifest.data


def check_arguments(
    tiers: Sequence[str], steps: int, seed: int, narrow: bool, noise: float | None, validation: float | None
) -> tuple[str, ...]:
    """Return the tiers. Raise `ForageError` for numbers and names that cannot be."""
    for tier in tiers:
        if tier not in TIERS:
            raise ForageError(f"There is no tier {tier!r}{nearest(tier, TIERS)}")
    if not tiers or len(set(tiers)) != len(tiers):
        raise ForageError(f"Name each tier once, among {', '.join(TIERS)}.")
    if steps < 2:
        raise ForageError(f"A data set of a tier has 2 transitions or more, not {steps:,}.")
    if seed < 0:
        raise ForageError(f"A seed is 0 or more, not {seed}.")
    if noise is not None and not narrow:
        raise ForageError("--noise is the share of actions that are not greedy in data of --narrow; add --narrow.")
    if noise is not None and not 0 <= noise <= 1:
        raise ForageError(f"The noise is a share of actions, from 0 to 1, and was {noise:g}.")
    if validation is not None and not 0 <= validation <= 1:
        raise ForageError(f"The validation part is a share of the transitions, from 0 to 1, and was {validation:g}.")
    return tuple(tiers)


def setup_of(
    environment: str,
    agent: str | None,
    agent_options: Mapping[str, Any] | None,
    environment_options: Mapping[str, Any] | None,
    steps: int | None,
    seed: int,
    narrow: bool,
) -> RunConfig:
    """Return the setup to train. Raise `ForageError` if the agent or the environment does not suit a data set."""
    setup = resolve(
        agent,
        environment,
        steps=steps,
        seeds=[seed],
        agent_options=agent_options,
        environment_options=environment_options,
        evaluation_actions="greedy" if narrow else "sampled",
    )
    files.check_recordable(setup.spec)
    if setup.opponent is not None:
        raise ForageError(f"{setup.name} is played against an opponent, and a data set is of one agent alone.")
    if isinstance(setup.agent, Evolver) or setup.agent.offline or setup.agent.looks_ahead:
        raise ForageError(
            f"{part_name(setup.agent)} does not learn step by step from what it does itself; name another --agent, "
            f"such as ppo."
        )
    return setup


def train_policies(
    setup: RunConfig,
    directory: Path,
    name: str,
    environment: str,
    agent_options: Mapping[str, Any] | None,
    environment_options: Mapping[str, Any] | None,
    display: str,
) -> Run:
    """Return the run that all policies come from: load, resume or train it."""
    every = -(-setup.steps // POINTS)
    return training.train_or_resume(
        name,
        environment,
        directory=directory,
        display=display,
        steps=setup.steps,
        seeds=setup.seeds,
        agent_options=dict(agent_options or {}),
        environment_options=dict(environment_options or {}),
        memory=RecordedMemory(
            setup.learner(learns=False).memory, setup.steps + setup.agent.num_envs * setup.agent.rollout_length
        ),
        evaluation_actions=setup.evaluation_actions,
        evaluation_every=every,
        evaluation_episodes=LEARNING_EPISODES,
        keep_every=every,
    )


class Makers:
    """The makers of the data sets of one folder."""

    def __init__(
        self,
        run: Run,
        setup: RunConfig,
        manifest: Manifest,
        steps: int,
        seed: int,
        noise: float | None,
        validation: float,
    ):
        self.run, self.setup, self.manifest = run, setup, manifest
        self.steps, self.seed, self.noise, self.validation = steps, seed, noise, validation
        self.actions = setup.evaluation_actions
        self.actor: Callable[..., Any] | None = None
        self.batches: dict[int, HostEnvironment] = {}

    # Who acts

    def policy(self, step: int) -> Policy:
        """Return the agent that the run has kept at a step."""
        return load_policy(self.run.directory, None, self.actions, checkpoint=step)

    def act(self, policy: Policy) -> Callable[..., Any]:
        """Return the function that chooses actions, compiled once for all policies, as only their parameters differ."""
        if self.actor is None:
            self.actor = actor(policy, self.noise)
        return self.actor

    def batch(self, count: int) -> HostEnvironment:
        """Return a batch of `count` environments, made once."""
        if count not in self.batches:
            made = self.setup.environment
            native = isinstance(made, Environment)
            self.batches[count] = OnHost(made, count, self.setup.name) if native else made(count)
        return self.batches[count]

    def close(self) -> None:
        for batch in self.batches.values():
            batch.close()

    def start(self, name: str, part: int = 0) -> int:
        """Return the number that chooses the episodes of a data set, other ones for each and for each seed."""
        return 100 * self.seed + 10 * part + STARTS[name]

    def score(self, step: int, share: float = 0.0) -> float:
        """Return a policy's mean return over `EPISODES` episodes, with the actions that it records with."""
        policy, limit = self.policy(step), step_limit(self.setup)
        batch = self.batch(EPISODES)
        return float(first_returns(policy, batch, share, self.start("score"), limit, self.act(policy)).mean())

    def kept_evaluations(self) -> list[tuple[int, float]]:
        """Return the step and the mean return of each evaluation with a kept agent, oldest first."""
        steps = {int(path.stem) for path in (self.run.directory / "kept").glob("*.npz") if path.stem.isdigit()}
        rows = [(row["steps"], row["return"][0]) for row in self.run.evaluations if row["steps"] in steps]
        if not rows:
            raise ForageError(f"{self.run.directory} is too short to have kept an agent; raise --train-steps.")
        return rows

    def set_ends(self) -> None:
        """Play random actions and the agent of the best evaluation. Raise `ForageError` if that is not better."""
        data = self.manifest.data
        if data["ends"]:
            return
        step = max(self.kept_evaluations(), key=lambda row: row[1])[0]
        ends = {"random": self.score(step, 1.0), "expert": self.score(step)}
        if not ends["expert"] > ends["random"]:
            raise ForageError(
                f"The best agent returns {ends['expert']:.5g} and random actions {ends['random']:.5g}, so there is no "
                f"expert; train longer with --train-steps, or name another --agent."
            )
        data["ends"] = ends
        data["policies"]["random"] = {"step": None, "return": ends["random"], "normalised": 0.0, "actions": "random"}
        data["policies"]["expert"] = self.describe_step(step, ends["expert"])

    def describe_step(self, step: int, value: float) -> dict[str, Any]:
        noise = {} if self.noise is None else {"noise": self.noise}
        ends = self.manifest.data["ends"]
        return {
            "step": step,
            "return": value,
            "normalised": normalise_return(value, ends),
            "actions": self.actions,
            **noise,
        }

    def choose_medium(self) -> None:
        """Choose the agent of `medium`: of those before the expert, nearest first, one between a third and a half.

        Where none of the nearest is, the nearest of them. Raise `ForageError` if that is nearly random, or nearly
        the expert.
        """
        data = self.manifest.data
        if "medium" in data["policies"]:
            return
        ends, last = data["ends"], data["policies"]["expert"]["step"]
        rows = [(step, normalise_return(value, ends)) for step, value in self.kept_evaluations() if step < last]
        best: tuple[float, int, float] | None = None
        for step, _ in sorted(rows, key=lambda row: abs(row[1] - MEDIUM))[:CANDIDATES]:
            value = self.score(step)
            found = normalise_return(value, ends)
            if best is None or abs(found - MEDIUM) < best[0]:
                best = (abs(found - MEDIUM), step, value)
            if WITHIN[0] <= found <= WITHIN[1]:
                break
        if best is None or not FARTHEST[0] <= normalise_return(best[2], ends) <= FARTHEST[1]:
            there = "none came before it" if best is None else f"the nearest is {normalise_return(best[2], ends):.2f}"
            raise ForageError(
                f"No agent of this training is at a third to a half of the expert's normalised score ({there}), so "
                f"there is no medium; take another --seed, --agent or --train-steps, or leave the two tiers out."
            )
        data["policies"]["medium"] = self.describe_step(best[1], best[2])

    # What they do

    def make(self, tier: str) -> None:
        """Make a data set, and its validation part if requested, and record them."""
        if tier == "medium-replay":
            parts, source = self.replay()
        else:
            sizes = [self.steps, *([max(2, round(self.validation * self.steps))] if self.validation else [])]
            player = self.make_mixed if tier == "mixed" else functools.partial(self.play, tier)
            parts = [player(size, part) for part, size in enumerate(sizes)]
            source = self.source(tier)
        entries = []
        for part, played in enumerate(parts):
            found, path = played.transitions, self.manifest.folder / f"{tier}{'-validation' if part else ''}.npz"
            header = header_of(self.run, source, played)
            files.write_data(path, found, header | {"tier": tier, "ends": self.manifest.data["ends"]})
            entries.append(
                {
                    "file": path.name,
                    "sha256": files.file_hash(path),
                    "source": source,
                    "transitions": found.transitions,
                    "episodes": found.episodes,
                    "no_reward": played.no_reward,
                    "mean_return": header["mean_return"],
                    "normalised": None
                    if header["mean_return"] is None
                    else normalise_return(header["mean_return"], self.manifest.data["ends"]),
                    "returns": histogram(played.returns),
                }
            )
        self.manifest.data["sets"][tier] = entries[0] | ({"validation": entries[1]} if len(entries) > 1 else {})

    def source(self, tier: str) -> dict[str, Any]:
        """Return the description of a data set's policy."""
        policies = self.manifest.data["policies"]
        who = {"random": ("random",), "medium": ("medium",), "expert": ("expert",), "mixed": ("random", "expert")}
        return {
            "agent": part_name(self.setup.agent),
            "seed": self.seed,
            "policies": {name: policies[name] for name in who[tier]},
        }

    def play(self, who: str, steps: int, part: int, tier: str = "") -> PlayedSteps:
        """Play `steps` steps."""
        policy = self.policy(self.manifest.data["policies"]["expert" if who == "random" else who]["step"])
        start = self.start(tier or who, part) + (50 if tier and who == "random" else 0)
        batch, share = self.batch(environments_for(self.setup, steps)), 1.0 if who == "random" else 0.0
        return record_steps(policy, batch, steps, share, start, self.act(policy))

    def make_mixed(self, steps: int, part: int) -> PlayedSteps:
        """Play half of the steps at random and half as the expert."""
        sizes = {"random": steps // 2, "expert": steps - steps // 2}
        halves = [self.play(who, size, part, "mixed") for who, size in sizes.items()]
        joined = join_logs([half.transitions for half in halves], self.setup.spec.horizon)
        return PlayedSteps(joined, halves[0].returns + halves[1].returns, sum(half.no_reward for half in halves))

    def replay(self) -> tuple[list[PlayedSteps], dict[str, Any]]:
        """Return the experience of the run up to the `medium` policy, and the description of its source.

        The number of episodes without a reward is that of the first part.
        """
        medium = self.manifest.data["policies"]["medium"]
        found, whole, first, without = collect_experience(self.run, self.setup, medium["step"])
        source = {
            "agent": part_name(self.setup.agent),
            "seed": self.seed,
            "training": {"from_step": first, "to_step": medium["step"]},
        }
        held_out = np.zeros(found.episodes, bool)
        if self.validation:
            draw = np.random.default_rng(self.start("medium-replay"))
            size = min(max(1, round(self.validation * found.episodes)), found.episodes - 1)
            held_out[draw.permutation(found.episodes)[:size]] = True
        parts = []
        for chosen, left_out in ((~held_out, without), (held_out, 0)):
            if chosen.any():
                kept = select_transitions(found, chosen[found.numbers])
                parts.append(PlayedSteps(kept, found.returns[chosen & whole].tolist(), left_out))
        return parts, source


class Experience(NamedTuple):
    """The transitions that a run has recorded."""

    transitions: Transitions
    whole: Bool[np.ndarray, " episode"]
    first: int  # the step at which the recording begins
    no_reward: int  # episodes without a reward, which are left out


def collect_experience(run: Run, setup: RunConfig, until: int) -> Experience:
    """Return the experience of a run up to a step. Raise `ForageError` if it has recorded none.

    With large observations and short episodes the oldest may be lost; see `forage.memory.uniform`.
    """
    recorded = from_config(run.config, where=run.directory)  # with the memory that records
    arrays, steps = stored_memory(run, recorded, [0])
    like = recorded.runner().learner_shapes().memory
    ring = jax.tree.map(lambda x: x[0], fit_leaves(run, "the recording", arrays, like)).ring
    room, count = extent(ring)
    newest = steps // count
    first = max(int(oldest(ring, jnp.int32(newest))[0]), newest - room)
    rows = np.arange(first, min(newest, until // count))
    if not len(rows):
        raise ForageError(f"{run.directory} remembers nothing from before step {until:,}.")
    index = (rows % room)[None, :] * count + np.arange(count)[:, None]
    segment = jax.device_get(read_segments(ring, jnp.asarray(index.reshape(-1)), 1))
    fields = {name: jax.tree.map(lambda x: np.asarray(x)[0], getattr(segment, name)) for name in EPISODE_FIELDS}
    fields["action"] = np.asarray(spaces.clip(setup.spec.action_space, fields["action"]))
    last = np.tile(rows == rows[-1], count)
    ended = fields["terminated"] | fields["truncated"]
    fields["truncated"] = fields["truncated"] | (last & ~fields["terminated"])
    found = Transitions(**fields)
    ends = ended[found.first + found.lengths - 1]
    begins = np.ones(found.episodes, bool)
    if first:  # the first episode of each environment may have begun before
        begins[found.numbers[np.tile(rows == rows[0], count)]] = False
        found = found.mark_starts(begins)
    found, whole = found.saying_cut(setup.spec.horizon, ~(ends & begins)), ends & begins
    without, lost = find_lost(found, np.asarray(segment.source)[0] == GONE, len(rows))
    if not lost:
        return Experience(found, whole, first * count, 0)
    if without.all():
        raise ForageError(f"No episode that {run.directory} remembers from before step {until:,} has a reward.")
    return Experience(select_transitions(found, ~without[found.numbers]), whole[~without], first * count, lost)


def find_lost(
    found: Transitions, lost: Bool[np.ndarray, " transition"], length: int
) -> tuple[Bool[np.ndarray, " episode"], int]:
    """Return the mask of episodes with a lost step or cut by one, and the number of lost steps.

    `length`: transitions of each environment. An episode of several steps was cut before its lost one, which is an
    episode of its own here.
    """
    without = np.bincount(found.numbers, lost) > 0
    follows = np.append(lost[1:], False) & ((np.arange(len(lost)) + 1) % length != 0)
    without[found.numbers[follows & found.truncated]] = True
    return without, int(lost.sum())


def describe_set(name: str, entry: dict[str, Any]) -> str:
    """Describe a data set in a line."""
    mean, score = entry["mean_return"], entry["normalised"]
    said = "no whole episode" if mean is None else f"mean return {mean:.5g}, normalised {score:.2f}"
    held = entry.get("validation")
    more = f"; {held['transitions']:,} more for validation" if held else ""
    more = files.no_reward_words(entry.get("no_reward", 0)) + more
    return f"{name}: {entry['transitions']:,} transitions in {entry['episodes']:,} episodes, {said}{more}"
