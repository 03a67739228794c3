"""Evaluation: episodes apart from training, on random streams that training never uses, and the range of returns."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from forage.config.options import ACTIONS, AUTO
from forage.config.run_config import RunConfig
from forage.core import checkpoint, prng
from forage.core.ports import Environment, range_of_returns, return_range_within
from forage.core.records import range_in
from forage.core.sweep import members_of
from forage.core.types import ForageError
from forage.environments.adapters.gymnasium.make import OURS
from forage.evaluation.statistics import Score, by_setting, clip_interval, mean, name_of_mean, student_interval
from forage.loop.runner import Runner
from forage.loop.soundness import check_returns
from forage.runs.curve import column_name, to_float
from forage.runs.run import Run, normalise_score, plain_score
from forage.tasks.same import Same

MOST_EPISODES = 1_000_000  # of one evaluation: their returns are kept in one file
MOST_EPISODE_SEED = 1_000_000


def check_episodes(episodes: int) -> None:
    """Raise `ForageError` for a number of episodes that a score cannot have."""
    if episodes < 1:
        raise ForageError(f"A score takes 1 evaluation episode or more, not {episodes:,}.")
    if episodes > MOST_EPISODES:
        raise ForageError(f"A score takes at most {MOST_EPISODES:,} evaluation episodes, not {episodes:,}.")


def step_limit(setup: RunConfig) -> int:
    """Return the step after which an evaluation episode is cut: Atari's if the environment has no limit."""
    return 27_000 if setup.score_spec.horizon is None else int(setup.score_spec.horizon)


LONG = 5.0
"""Seconds of an evaluation after which a note describes it."""


@contextlib.contextmanager
def said_if_long(note: Callable[[str], None], setup: RunConfig, episodes: int, scored: bool = True) -> Iterator[None]:
    """Note the episodes of an evaluation once it takes longer than `LONG`. `scored`: the run's score is computed from
    it.
    """
    timer = threading.Timer(LONG, lambda: note(what_is_played(setup, episodes, scored)))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def what_is_played(setup: RunConfig, episodes: int, scored: bool = True) -> str:
    """Describe the number and maximal length of an evaluation's episodes, and an option to shorten them."""
    twice = scored and setup.evaluation_actions == AUTO and setup.agent.stochastic
    before = ", and as many before with each kind of action, to choose how to play" if twice else ""
    said = f"Evaluating: {episodes:,} episode{'s' * (episodes > 1)} of each seed{before}"
    limit = step_limit(setup)
    if setup.score_spec.horizon is None:
        return (
            f"{said}. {setup.score_spec.name} has no limit of steps, so an episode that does not end is cut after "
            f"{limit:,}; --wrap time-limit:1000 sets a limit."
        )
    return f"{said}, of {f'up to {limit:,} steps' if limit > 1 else 'one step'}."


def load_agents(run: Run, runner: Runner) -> int:
    """Load only the newest agents of a run. Return the step that they are of.

    They are those of the newest whole checkpoint, unless a full disk left room for later agents alone. Raise
    `ForageError` if there are none.
    """
    problems: list[ForageError] = []
    if has_later_agents(run):
        one = runner.learner_shapes().agent
        count = len(members_of(run.config["sweep"], run.config["seeds"]))
        like = jax.tree.map(lambda x: jax.ShapeDtypeStruct((count, *x.shape), x.dtype), one)
        try:
            agents, header = checkpoint.load_tree(run.directory / "agent.npz", like)
            runner.use_agents(agents)
            return header["steps"]
        except ForageError as error:
            problems.append(error)
    for path in reversed(run.checkpoints):
        try:
            return runner.load_agents(path)["steps"]
        except ForageError as error:
            problems.append(error)
    if problems:
        raise problems[0]
    raise ForageError(f"{run.directory} has no checkpoint yet, so there is no agent to evaluate.")


def has_later_agents(run: Run) -> bool:
    """Return whether a run's agent.npz is from a later step than every whole checkpoint."""

    def step(path: Path) -> int:
        try:
            return checkpoint.read_header(path)["steps"]
        except (ForageError, KeyError):
            return -1

    return step(run.directory / "agent.npz") > max(map(step, run.checkpoints), default=-1)


def score_agents(
    runner: Runner, setup: RunConfig, episodes: int, seed: int = prng.EVALUATION, choice: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Play the episodes of a score and return the data of evaluation.json. `choice`: an earlier one; see `acting`."""
    actions, choice = acting(runner, setup, episodes, choice)
    evaluation = evaluate_agents(runner, setup, episodes, seed, actions)
    return evaluation | {"asked": setup.evaluation_actions, "choice": choice}


def acting(
    runner: Runner, setup: RunConfig, episodes: int, choice: dict[str, Any] | None = None
) -> tuple[str, dict[str, Any] | None]:
    """Return whether a score uses `greedy` or `sampled` actions, and the choice behind it.

    If the setup leaves it open (`auto`) and the policy is stochastic, the two are compared, unless `choice` is of the
    same agents.
    """
    if setup.evaluation_actions != AUTO:
        return setup.evaluation_actions, choice
    if not setup.agent.stochastic:
        return "greedy", None
    if choice is None or choice["steps"] != runner.steps:
        choice = choose(runner, setup, episodes)
    return choice["actions"], choice


def choose(runner: Runner, setup: RunConfig, episodes: int) -> dict[str, Any]:
    """Play episodes greedily and with sampled actions. Return the better of the two, and both means.

    The choice is one for all seeds and settings; a tie is greedy. Both play the same starts, in episodes that no score
    counts: a choice by the scored episodes would bias the score upwards.
    """
    played = {actions: evaluate_agents(runner, setup, episodes, prng.CHOICE, actions) for actions in ACTIONS}
    means = {actions: np.mean(found["return"]) for actions, found in played.items()}
    each = {actions: means_of(setup, found) for actions, found in played.items()}
    return {
        "actions": "sampled" if means["sampled"] > means["greedy"] else "greedy",
        "steps": runner.steps,
        "episodes": episodes,
        "settings": [
            {"setting": label} | {actions: plain_score(each[actions][label]) for actions in ACTIONS}
            for label in each["greedy"]
        ],
        "return": {actions: found["return"] for actions, found in played.items()},
    }


def means_of(setup: RunConfig, evaluation: dict[str, Any]) -> dict[str, Score]:
    """Return each setting's mean return over seeds, with its interval; with one seed, the interval over episodes."""
    within = range_in(evaluation)
    found = by_setting(setup.members, evaluation["return"], mean, within)
    if len(setup.seeds) == 1 and evaluation["episodes"] > 1:
        rows = [np.array([value for value in row if value is not None]) for row in evaluation["episode_returns"]]
        intervals = [clip_interval(student_interval(row), within) if len(row) > 1 else (None, None) for row in rows]
        pairs = zip(found.items(), intervals, strict=True)
        found = {label: Score(one.value, *interval, seeds=1) for (label, one), interval in pairs}
    return found


def choice_sentences(evaluation: dict[str, Any]) -> list[str]:
    """Describe the scores of greedy and sampled actions, if they differ by more than their intervals."""
    said = []
    for one in (evaluation.get("choice") or {}).get("settings", ()):
        intervals = [one[actions]["interval"] for actions in ACTIONS]
        if None in intervals or max(low for low, _ in intervals) <= min(high for _, high in intervals):
            continue
        both = ", ".join(f"{how} {format_mean(one[actions])}" for actions, how in ACTIONS.items())
        over = "over seeds" if one["greedy"]["seeds"] > 1 else "over episodes"
        label = f" with {one['setting']}" if one["setting"] else ""
        episodes = evaluation["choice"]["episodes"]
        said.append(
            f"how to play was chosen in {episodes} other episodes{label}: {both} (means {over}, 95 % intervals)"
        )
    return said


def format_mean(one: dict[str, Any]) -> str:
    """Return a mean and its interval."""
    return str(Score(one["score"], *one["interval"], seeds=one["seeds"])).partition(" (")[0]


def score_lines(evaluation: dict[str, Any]) -> list[str]:
    """Return the normalised score in one line; no line if the data set lacks its scale."""
    how = f", played {ACTIONS[evaluation['actions']]}"
    of = f", of the reward {evaluation['reward']}" if evaluation["reward"] else ""
    how += f" against {opponent}" if (opponent := evaluation.get("opponent")) else ""
    episodes = evaluation["episodes"]
    seeds = len({member["seed"] for member in evaluation["members"]})
    said = [f"{name_of_mean(seeds)} over seeds of {episodes} evaluation episodes each{how}, 95 % interval{of}"]
    if seeds == 1:
        said = [f"mean of {episodes} evaluation episodes{how}{of}"]
    return said + choice_sentences(evaluation) + counting_sentences(evaluation)


def counting_sentences(evaluation: dict[str, Any]) -> list[str]:
    """Describe the answers that a score leaves out and the episodes that were cut, if there are any."""
    return [said for said in (no_reward_sentence(evaluation), cut_sentence(evaluation)) if said]


def no_reward_sentence(evaluation: dict[str, Any]) -> str:
    """Describe the answers of an evaluation that have no reward; empty if there are none, or an older version did not
    count them.
    """
    count, every = evaluation.get("no_reward", 0), np.size(evaluation.get("episode_lengths", ()))
    answers = f"{count:,} answer{'s' if count > 1 else ''} without a reward, of {every:,},"
    return f"{answers} {'are' if count > 1 else 'is'} left out of the score" if count else ""


def normalised_words(score: Score, ends: dict[str, float] | None) -> list[str]:
    """Return the normalised score in one line; no line if the data set lacks its scale."""
    if ends is None:
        return []
    scale = f"0 is random actions ({ends['random']:.5g}), 1 the data's expert ({ends['expert']:.5g})"
    return [f"normalised {normalise_score(score, ends)}: {scale}"]


def evaluate_agents(
    runner: Runner, setup: RunConfig, episodes: int, seed: int = prng.EVALUATION, actions: str = "greedy"
) -> dict[str, Any]:
    """Play evaluation episodes, greedily or with sampled actions. Return their returns, lengths and other measures.

    Means of returns leave out the episodes without a reward. Raise `ForageError` if a return is not finite.
    """
    limit = step_limit(setup)
    played = runner.evaluate(episodes, limit, seed, actions == "sampled")
    returns, lengths = np.asarray(played.returns, float), np.asarray(played.lengths)
    counted = np.where(played.left_out(), 0.0, returns)
    check_returns(setup.name, counted, [member["seed"] for member in setup.members])
    evaluation: dict[str, Any] = {"steps": runner.steps, "episodes": episodes, "members": setup.members}
    evaluation["actions"] = actions
    evaluation["reward"] = setup.score_reward
    if setup.opponent is not None:
        evaluation["opponent"] = setup.opponent
    for i, name in enumerate(setup.spec.reward_names):
        evaluation[f"return/{name}"] = to_float(np.nanmean(returns[..., i], axis=1))
    returns = setup.rewards.score(returns, setup.spec)
    evaluation["return"] = to_float(np.nanmean(returns, axis=1))
    if (within := holding(return_range(setup, limit), returns)) is not None:
        evaluation["return_range"] = within
    evaluation["episode_returns"] = [to_float(row) for row in returns]
    evaluation["no_reward"] = 0 if played.no_reward is None else int(played.no_reward.sum())
    evaluation["episode_lengths"] = lengths.tolist()
    evaluation["cut"] = int((lengths >= limit).sum()) if setup.score_spec.horizon is None else 0
    evaluation["cut_after"] = limit
    evaluation |= {
        column_name(name, evaluation): [mean_of(np.asarray(row)) for row in values]
        for name, values in played.infos.items()
    }
    return evaluation


def mean_of(values: np.ndarray) -> float | None:
    """Return the mean of the finite values, `None` if there are none."""
    said = values[np.isfinite(values)]
    return float(said.mean(dtype=float)) if len(said) else None


def cut_sentence(evaluation: dict[str, Any]) -> str:
    """Describe the cut episodes of an evaluation; empty if there are none, or an older version did not count them."""
    cut = evaluation.get("cut", 0)
    return cut_words(cut, np.size(evaluation["episode_lengths"]), evaluation["cut_after"]) if cut else ""


def cut_words(cut: int, episodes: int, after: int) -> str:
    """Describe the cut episodes and their effect on the score."""
    return (
        f"{cut:,} of {episodes:,} episodes were cut after {after:,} steps; the score counts what they had brought by "
        f"then"
    )


GYMNASIUM: dict[str, tuple[float, float]] = {
    "CartPole": (1.0, 1.0),
    "Acrobot": (-1.0, 0.0),
    "MountainCar": (-1.0, -1.0),
    "Pendulum": (-(math.pi**2 + 0.1 * 8.0**2 + 0.001 * 2.0**2), 0.0),
    "CliffWalking": (-100.0, -1.0),
    "Taxi": (-10.0, 20.0),
}
"""The rewards of each step of Gymnasium's environments."""
ONCE: dict[str, tuple[float, float]] = {"FrozenLake": (0.0, 1.0), "Blackjack": (-1.5, 1.5)}
"""The only reward of an episode, for environments with one reward an episode."""
HARMLESS = ("frame-stack", "time-limit", "sticky-actions", "delay")
"""Wrappers around Gymnasium's environments that keep the rewards unchanged."""


def return_range(setup: RunConfig, limit: int) -> tuple[float, float] | None:
    """Return the guaranteed range of an episode's return in evaluation, with episodes cut after `limit` steps.

    It bounds every interval of a mean.
    """
    if setup.spec.reward_names or not isinstance(setup.tasks, Same):
        return None
    environment = setup.environment
    if isinstance(environment, Environment):
        if (setup.spec.num_agents > 1 and not environment.competitive) or not pays_as_declared(environment):
            return None
        return return_range_within(environment, limit)
    config = setup.environment_config
    prefix, _, rest = str(config.get("id", "")).partition(":")
    wrapped = {words.partition(":")[0] for words in config.get("wrap", ())}
    if prefix != "gymnasium" or wrapped - {*HARMLESS} or {*(config.get("options") or {})} - {*OURS}:
        return None
    name = rest.rpartition("-")[0]
    return range_of_returns(GYMNASIUM[name], limit) if name in GYMNASIUM else ONCE.get(name)


def pays_as_declared(environment: Environment) -> bool:
    """Return whether no class of the user overrides the steps of an environment that declares their rewards."""
    layer: Any = environment
    while layer is not None:
        for cls in type(layer).__mro__:
            if {"reward_range", "return_range"} & {*vars(cls)}:
                break
            if "step" in vars(cls) and not cls.__module__.startswith("forage."):
                return False
        layer = getattr(layer, "environment", None)
    return True


def holding(found: tuple[float, float] | None, returns: np.ndarray) -> list[float | None] | None:
    """Return a range for JSON, with `None` for infinite ends; `None` if a return is outside the declared range."""
    if found is None:
        return None
    slack = 1e-4 * max(1.0, float(np.nanmax(np.abs(returns))))
    if np.nanmin(returns) < found[0] - slack or np.nanmax(returns) > found[1] + slack:
        return None
    return [end if math.isfinite(end) else None for end in found]
