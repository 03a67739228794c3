"""Go-Explore: return to a promising state, explore from there, and practise the solutions found."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key, PyTree

from forage.core.ports import Environment, RolloutReport, Starts, Tasks
from forage.core.ports.needs import Choices, Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Experience, Spec
from forage.starts.weighted import cumulative_weights, draw_place
from forage_papers.starts.backward import BackwardProgress, Best, compare, first_lesson, judge, trail_to
from forage_papers.starts.cell_archive import (
    Archive,
    Link,
    Path,
    adopt_parents,
    drop_index,
    empty,
    empty_path,
    flatten_rows,
    follow_scores,
    no_link,
    offer,
    pick,
    trace_entries,
)
from forage_papers.starts.cells import KINDS, NONE, Cells, Scale

ROUNDING = 1e-5
"""Relative difference of scores that counts as rounding, from sums of the same rewards in another order."""


class EpisodeMark(NamedTuple):
    """The beginning of an episode."""

    link: Link
    path: Path
    stage: Int[Array, "*shape"]  # of robustifying, -1 for an episode that explores


class GoExploreState(NamedTuple):
    archive: Archive
    entries: Int[Array, ""]  # written so far
    scale: Scale
    running: Path  # of the episode in each environment
    at: Link  # its last entry
    best: Best
    lesson: BackwardProgress


class GoExplore(Starts):
    """An archive with one state for each cell, from which episodes begin with a probability proportional to

        1 / sqrt(visits + 1)        or, with `choice="chosen"`, 1 / sqrt(times chosen + 1)

    A cell enters the archive when it is first seen; its state gives way to one that was reached with a higher score or
    with the same score in fewer steps since the reset, and its counts begin anew at 0. A visit is an episode that
    begins there, or an episode of a rollout that passes through. An episode begins with a reset instead with
    1 - `probability`, and while the archive is empty. What began from the archive is truncated after `burst` steps; the
    state it is in then can be returned to like those before. A full archive takes no new cells.

    What is one cell, `cells` says: `observation`, where whole numbers are the same, and others lie in the same of
    `bins` between their bounds, or what the first rollout had; `binned`, where whole numbers lie in bins too, or all in
    bins of a given `width`; `image`, where pictures are the same once shrunk to `size` in `shades` of grey; `position`,
    where the place on the environment's map is, whatever is carried.

    Any agent and behaviour explores; as published, actions are random and repeated, 20 times in the mean, with
    geometric durations (ez-greedy). A state is restored as it was, its clock included.

    Then the backward algorithm makes sure: once `explore` of the run is over, or an episode reached a score of
    `target`, the archive is left as it is and episodes begin on the way of the best episode that ended, first at its
    end: at one of `window` + 1 entries, the nearest to the end being number `stage`. Whenever `episodes` of them are
    over and a share of `threshold` or more came to the best score, the stage moves `stride` entries towards the
    beginning, where they begin with a reset. An episode may fall short of that score by `tolerance` of its size,
    none as published, and by a hundred-thousandth, since the same rewards in another order are rounded otherwise.
    The way is that of parents: the entries that the episode left in the archive, and those before the one it began
    from. Evaluation always begins with a reset.

    Where levels are drawn anew in every episode one best episode says little of the others; leave `explore` at 1.

    Source: Ecoffet, Huizinga, Lehman, Stanley, Clune (2021), "First return, then explore", Nature 590, arXiv
    2004.12919, and (2019) "Go-Explore", arXiv 1901.10995; Salimans, Chen (2018), "Learning Montezuma's Revenge from a
    Single Demonstration", arXiv 1812.03381, whose threshold is 0.2. Here what explores may learn meanwhile, and there
    is one best episode where they robustify ten of several runs, and learn from their own best episodes too
    (self-imitation) meanwhile. The state of a reset is an entry of theirs, and none here, so with a `probability` of 1
    no episode that explores begins there again. In their backward algorithm an episode also ends when its score is
    below what the demonstration had 50 steps before, and soon after it comes to the demonstration's, and 20 % of starts
    are drawn from all later points of the demonstration.
    """

    example: ClassVar[str] = "forage train ppo DeepSea-20 --starts go-explore --starts.explore 0.3"
    ranges: ClassVar[Ranges] = {
        "width": Range(0, above=True),
        "bins": Range(1),
        "shades": Range(2),
        "explore": Range(0, 1),
        "target": Range(),
        "threshold": Range(0, 1),
        "stride": Range(1),
        "trail": Range(1),
        "window": Range(0),
    }

    unscheduled: ClassVar[tuple[str, ...]] = ("explore", "target")
    adapts: ClassVar[bool] = True
    on_host: ClassVar[bool] = True
    every_state: ClassVar[bool] = True
    cuts: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs(agents="one", one_reward=True, same_task=True)
    choices: ClassVar[Choices] = {"cells": KINDS, "choice": ("visits", "chosen")}

    capacity: int = equinox.field(static=True, default=4096)  # cells that the archive has room for; a full one takes no
    # new ones
    cells: str = equinox.field(static=True, default="observation")  # what is one cell: observation, binned, image or
    # position
    width: tuple[float, ...] = equinox.field(static=True, default=())  # width of bins, for each number or for all; by
    # `bins` where not given
    bins: int = equinox.field(static=True, default=20)  # bins in the range of each number with a fraction; more make
    # smaller cells
    size: tuple[int, ...] = equinox.field(static=True, default=(11, 8))  # columns and rows of shrunk images; more make
    # smaller cells
    shades: int = equinox.field(static=True, default=8)  # shades of grey of shrunk images; more make smaller cells
    choice: str = equinox.field(static=True, default="visits")  # which cells are preferred: those of few visits, or
    # seldom chosen
    probability: float = 0.9  # probability that an episode begins from the archive
    burst: int = 100  # steps of exploring after a return
    explore: float = 1.0  # share of the run until robustifying begins; 1: never
    target: float = float("inf")  # score that ends exploring before that
    threshold: float = 0.2  # share of episodes that must reach the best score for the stage to move on
    tolerance: float = 0.0  # share of the best score that an episode may fall short of it
    window: int = equinox.field(static=True, default=2)  # entries behind the stage's own that episodes begin at, too
    stride: int = equinox.field(static=True, default=1)  # entries that a stage moves towards the beginning; more are
    # faster, and harder
    episodes: int = equinox.field(static=True, default=20)  # episodes by which a stage is judged; more judge it more
    # surely, and later
    trail: int = equinox.field(static=True, default=512)  # most entries of the best way that are used

    @property
    def kind(self) -> Cells:
        return Cells(self.cells, self.width, self.bins, self.size, self.shades)

    def check(self, environment: Environment, tasks: Tasks) -> None:
        self.kind.check(environment)

    def init(self, key: Key[Array, ""], environment: Environment, spec: Spec, num_envs: int) -> GoExploreState:
        env_state, observation = environment.reset(key)
        place = (
            env_state,
            environment.stored_observation(observation),
        )  # fills the archive until there is something; never drawn
        best = Best(jnp.bool_(False), empty_path(()), no_link(()))
        envs = (num_envs,)
        return GoExploreState(
            empty(self.capacity, place),
            jnp.int32(0),
            self.kind.bounds(spec.observation_space),
            empty_path(envs),
            no_link(envs),
            best,
            first_lesson(self.trail),
        )

    def begin(
        self, state: GoExploreState, environment: Environment, key: Key[Array, ""], index: Int[Array, ""]
    ) -> tuple[Any, PyTree[Array], EpisodeMark]:
        reset_key, coin_key, place_key = jax.random.split(key, 3)
        archive, lesson = state.archive, state.lesson
        counts = archive.visits if self.choice == "visits" else archive.chosen
        sums = cumulative_weights(jnp.where(archive.cell != NONE, 1 / jnp.sqrt(counts + 1.0), 0.0))
        share = jax.random.uniform(place_key)
        explored = draw_place(sums, share)
        number = lesson.stage + jnp.floor(share * (self.window + 1)).astype(jnp.int32)
        taught = lesson.trail[jnp.minimum(number, self.trail - 1)]
        slot = jnp.clip(jnp.where(lesson.on, taught, explored), 0, self.capacity - 1)
        there = jnp.where(lesson.on, number < lesson.length, sums[-1] > 0)
        again = there & (jax.random.uniform(coin_key) < self.probability)
        kept = jax.tree.map(lambda x: x[slot], archive)
        env_state, observation = environment.reset(reset_key)
        place = jax.tree.map(
            lambda kept, fresh: jnp.where(again, kept, fresh),
            (kept.env_state, kept.observation),
            (env_state, environment.stored_observation(observation)),
        )
        link = pick(again, Link(slot.astype(jnp.int32), kept.serial), no_link(()))
        stage = jnp.where(lesson.on & (again | (number >= lesson.length)), lesson.stage, -1)
        return *place, EpisodeMark(link, pick(again, kept.path, empty_path(())), stage)

    def cut(self, mark: EpisodeMark, length: Int[Array, ""]) -> Bool[Array, ""]:
        return (mark.link.slot >= 0) & (mark.stage < 0) & (length >= self.burst)

    def report(self, state: GoExploreState, rollout: Experience, review: RolloutReport) -> GoExploreState:
        environment, visited, clock = review.environment, review.visited, review.clock
        marks, ended = visited.start_ids, rollout.ended
        begins = visited.begins(ended)
        paths = follow_scores(state.running, marks.path, begins, rollout.reward)
        seen = flatten_rows(rollout.next_observation)
        rows = flatten_rows(visited.env_states), environment.stored_observation(seen)
        scale = self.kind.fit_bounds(state.scale, seen)
        cells = self.kind(environment, scale, rows[0], seen)
        cells = jnp.where(visited.gone.reshape(-1) | state.lesson.on, NONE, cells)
        # A slot may have been used again since the episode began.
        slot, serial = (x.reshape(-1) for x in marks.link)
        there = (slot >= 0) & (state.archive.serial[slot] == serial)
        origins = jnp.where(there, state.archive.cell[slot], NONE)
        chosen = drop_index(there & begins.reshape(-1), slot, self.capacity)
        archive = state.archive._replace(
            visits=state.archive.visits.at[chosen].add(1, mode="drop"),
            chosen=state.archive.chosen.at[chosen].add(1, mode="drop"),
        )
        archive, found = offer(archive, state.entries, cells, paths, begins, origins, rows)
        at, before = trace_entries(state.at, marks.link, begins, found, ended.shape)
        archive = adopt_parents(archive, found, before)
        best = compare(state.best, paths, before, visited.gone & ~state.lesson.on)
        short = (self.tolerance + ROUNDING) * jnp.abs(best.path.score)
        successful = paths.score >= best.path.score - short
        ended_here = ended & (marks.stage == state.lesson.stage)
        lesson = judge(state.lesson, successful, ended_here, self.episodes, self.threshold, self.stride)
        over = best.found & ((clock.fraction >= self.explore) & (self.explore < 1) | (best.path.score >= self.target))
        lesson = pick(over & ~lesson.on, trail_to(lesson, archive, best.link), lesson)
        running = jax.tree.map(lambda x: x[-1], paths)
        return GoExploreState(archive, state.entries + found.number, scale, running, at, best, lesson)
