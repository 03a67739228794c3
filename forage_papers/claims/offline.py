"""Data, measures and rules of claims about learning from data."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from forage.config.resolve import resolve
from forage.config.saved import load_policy
from forage.data import files
from forage.data.logged import EPISODE_FIELDS, Transitions
from forage.environments.maze.point import PointMass
from forage.environments.tabular.makers import seeded_garnet
from forage.environments.tabular.mdp import Tabular
from forage.environments.tabular.values import expected_return
from forage.environments.wrappers.goals import GoalConditioned
from forage.evaluation.off_policy import ESTIMATORS, Target, log_episodes, tabular_policy
from forage.evaluation.off_policy.selection import normalised_mse, sharpe_ratio
from forage.evaluation.statistics import student_interval
from forage.runs.run import Run
from forage.studies.claims.claim import Effect, Rule, evaluation_return, interval_verdict
from forage.studies.claims.played import FOLDER, episodes, play_rule, weak_swing_up
from forage.studies.datasets.label import label


def add_actions(known: str, hidden: str) -> str:
    """Return the file of episodes with the actions that an inverse model of others infers; write it if it is missing.

    `known`: the file of the model's episodes. `hidden`: the file of the episodes whose actions it does not see.
    """
    file = Path(known)
    output = file.with_name(f"{file.stem}-labelled.npz")
    if not output.exists():
        label(hidden, output, labelled=file)
    return str(output)


def add_rewards(file: str, demonstrations: str) -> str:
    """Return the file of episodes with the rewards that demonstrations teach; write it if it is missing."""
    output = Path(file).with_name(f"{Path(file).stem}-transported.npz")
    if not output.exists():
        label(Path(file), output, demonstrations=demonstrations)
    return str(output)


MIRROR = np.array([1.0, -1.0, -1.0])  # of cosine, sine and speed: what the pendulum does to the other side


def mirror(segment: Transitions, draw: np.random.Generator) -> Transitions:
    """Return a segment of Pendulum-v1 as it is, or mirrored."""
    side, turned = (1.0, np.ones(3)) if draw.random() < 0.5 else (-1.0, MIRROR)
    return dataclasses.replace(
        segment,
        observation=segment.observation * turned,
        action=segment.action * side,
        next_observation=segment.next_observation * turned,
    )


def accept(segment: Transitions) -> bool:
    """Accept every segment."""
    return True


def rises(segment: Transitions) -> bool:
    """Return whether a segment ends upright and slow, or with more energy than it began with."""
    cosine, _, speed = segment.next_observation[-1]
    before = segment.observation[0]
    energy = [0.5 * row[2] ** 2 + 15.0 * row[0] for row in (before, segment.next_observation[-1])]
    return bool((cosine > 0.95 and abs(speed) < 1.0) or (energy[0] + 1.0 < energy[1] < 15.0))


@functools.cache
def noiseless_return() -> float:
    """Return the mean return of 200 episodes of the rule of the data, without its noise."""
    found = files.read_data(Path(play_rule("Pendulum-v1", weak_swing_up, (0.0,) * 200, seed=1)))[0]
    return float(np.bincount(found.numbers, found.reward).mean())


def lead_over_rule(run: Run) -> list[float]:
    """Return each seed's mean return less that of the rule without noise."""
    return [value - noiseless_return() for value in evaluation_return(run)]


def judge_deficits(values: Mapping[str, np.ndarray], rule: Rule) -> list[Effect]:
    """Return each agent's deficit against the rule, with the interval of its mean."""
    found = []
    for name, differences in values.items():
        behind = -np.asarray(differences)
        low, high = student_interval(behind, rule.confidence)
        found.append(Effect(name, float(behind.mean()), low, high, interval_verdict(low, high, rule.margin)))
    return found


DISCOUNT, EPISODES, TRIED = 0.9, 10, 3
NAMES = ("is", "wis", "pdis", "wpdis", "fqe", "dr")
CANDIDATES = 8
BEHAVIOUR = 0.7  # share of random actions in the behaviour policy; the rest is greedy


def candidates(greedy: Float[np.ndarray, "state action"], seed: int) -> list[Float[np.ndarray, "state action"]]:
    """Return mixtures of the greedy policy with random ones, by shares drawn uniformly, and a tenth of all actions."""
    states, actions = greedy.shape
    draw = np.random.default_rng(seed)
    shares = draw.uniform(0, 1, CANDIDATES)
    mixed = [(1 - share) * greedy + share * draw.dirichlet(np.full(actions, 0.3), states) for share in shares]
    return [0.9 * table + 0.1 / actions for table in mixed]


def ratio_loss_of(mdp: Tabular, greedy: Float[np.ndarray, "state action"], seed: int) -> float:
    """Return the share of the best SharpeRatio@3 that the estimator of least squared error does not reach."""
    behaviour = (1 - BEHAVIOUR) * greedy + BEHAVIOUR / greedy.shape[1]
    tables = candidates(greedy, seed)
    log = log_episodes(mdp, tabular_policy(behaviour), EPISODES, seed=seed)
    values = [float(expected_return(mdp, jnp.asarray(table), DISCOUNT)) for table in tables]
    baseline = float(expected_return(mdp, jnp.asarray(behaviour), DISCOUNT))
    errors, ratios = [], []
    for name in NAMES:
        told = [ESTIMATORS[name](Target(log, tabular_policy(table), DISCOUNT)).mean() for table in tables]
        errors.append(normalised_mse(told, values))
        ratios.append(sharpe_ratio(told, values, TRIED, baseline))
    best = max(ratios)
    return 1 - ratios[int(np.argmin(errors))] / best if best > 0 else 0.0


def ratio_loss(run: Run) -> list[float]:
    """Return the loss of each seed, whose greedy policy the candidates are made of."""
    mdp, found = seeded_garnet(), []
    for seed in run.config["seeds"]:
        table = load_policy(run.directory, seed).probabilities(np.eye(mdp.num_states, dtype=np.float32))
        found.append(ratio_loss_of(mdp, np.asarray(table, np.float64), seed))
    return found


def judge_loss(values: Mapping[str, np.ndarray], rule: Rule) -> list[Effect]:
    """Return the mean loss, with its interval."""
    ((name, shares),) = values.items()
    low, high = student_interval(np.asarray(shares), rule.confidence)
    return [Effect(name, float(np.mean(shares)), low, high, interval_verdict(low, high, rule.margin))]


MAZE = ("########", "#.....##", "#####.##", "#......#", "#####.##", "#####.##", "########")
START, WEST, EAST, SOUTH, HIGH = (3, 3), (3, 1), (3, 6), (5, 5), (1, 1)  # rows and columns of ends of the ways
JUNCTION = 1.5  # m to the right of the middle, in the middle row
SPEED = 3.0  # m/s


def crossing(start: tuple[int, int], goal: tuple[int, int]) -> GoalConditioned:
    """Return a maze in which two ways cross, to be walked from one cell to another."""
    walls = np.array([[letter == "#" for letter in row] for row in MAZE])
    starts, goals = np.zeros_like(walls), np.zeros_like(walls)
    starts[start] = goals[goal] = True
    return GoalConditioned(PointMass(walls, starts, goals, max_steps=600), on_success="end")


def walk(observation: Mapping[str, Array]) -> Float[Array, "2"]:
    """Go along the middle row to a goal there; to others up from the junction, and west in the top row."""
    place, velocity = observation["observation"][:2], observation["observation"][2:]
    x, y = place
    along = jnp.array([jnp.sign(observation["desired_goal"][0] - x), -2.0 * y])
    up, west = jnp.array([2.0 * (JUNCTION - x), 1.0]), jnp.array([-1.0, 2.0 * (2.0 - y)])
    wanted = jnp.where(observation["desired_goal"][1] < 1.0, along, jnp.where(y < 1.9, up, west))
    return jnp.clip(SPEED * wanted - velocity, -1.0, 1.0)


@functools.cache
def crossing_episodes(shares: Sequence[float]) -> str:
    """Return the file of episodes from the start to west and east, and from south to the top row; write it if missing.

    None goes from the start to the top row: its west end is near the middle row's, and the way there leads east.
    """
    told = "".join(inspect.getsource(one) for one in (crossing, walk)) + str((MAZE, shares, SPEED))
    file = FOLDER / f"crossing-{hashlib.sha256(told.encode()).hexdigest()[:8]}.npz"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        ways = [
            episodes(crossing(*ends), walk, shares, seed)  # pyrefly: ignore[bad-argument-type]
            for seed, ends in enumerate(((START, WEST), (START, EAST), (SOUTH, HIGH)))
        ]
        spec = resolve("ppo", crossing(START, HIGH), seeds=1).config()["spec"]
        files.write_data(file, join_episodes(ways), {"spec": spec})
    return str(file)


def join_episodes(ways: Sequence[Transitions]) -> Transitions:
    """Join the episodes of several files, one after another."""
    return Transitions(
        **{
            name: jax.tree.map(lambda *x: np.concatenate(x), *(getattr(way, name) for way in ways))
            for name in EPISODE_FIELDS
        }
    )
