"""Go-Explore: entries of the archive, choices from it, and starts that move backward."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from gymnasium.spaces import Box, Dict, Discrete

from forage.agents.policy_gradient.ppo import PPO
from forage.behaviours.policy import AgentPolicy
from forage.config.ranges import check_ranges
from forage.config.resolve import resolve
from forage.core.ports import RolloutReport, RolloutStates
from forage.core.types import Clock, Experience, ForageError, Spec
from forage.environments.classic.cartpole import CartPole
from forage.environments.classic.deep_sea import DeepSea
from forage.environments.grid.empty import Empty
from forage.environments.wrappers.together import EnvironmentCopies
from forage.loop.device.evaluate import play_episodes
from forage.loop.device.loop import DeviceLoop
from forage.loop.learner import Learner
from forage.memory.rollout import LastRollout
from forage.rewards.environment import EnvironmentReward
from forage.tasks.same import Same
from forage_papers.starts.backward import first_lesson, judge, trail_to
from forage_papers.starts.cell_archive import Link, empty, no_link, oldest
from forage_papers.starts.cells import NONE, Cells, Scale, row_hash
from forage_papers.starts.go_explore import EpisodeMark, GoExplore, Path
from forage_papers.tasks.phases import Phases

KEY = jax.random.key(0)
CLOCK = Clock(jnp.int32(0), jnp.float32(1000))
SEA = DeepSea(4)
SPEC = Spec("Sea", SEA.observation_space, SEA.action_space)


def start_marks(score, steps, slot=-1, serial=0, stage=-1, envs=1):
    """The mark of episodes that begin with this behind them."""
    link = Link(np.int32(slot), np.int32(serial))
    mark = EpisodeMark(link, Path(np.float32(score), np.int32(steps)), np.int32(stage))
    return jax.tree.map(lambda x: np.broadcast_to(x, (envs,)), mark)


def visit(starts, state, cells, rewards, ended, marks, clock=CLOCK, cut=None, fresh=None):
    """One rollout `[time, env]` through numbered cells; the observation of each state is filled with its number.

    `cut`: where episodes were truncated, though they had not `ended`; nowhere. `fresh`: which episodes begin with the
    rollout; those in environments where nothing was lived yet.
    """
    cells = np.asarray(cells, np.int32)
    seen = np.broadcast_to(cells[..., None, None], (*cells.shape, 4, 4)).astype(np.float32)
    flags, ended = np.zeros(cells.shape, bool), np.asarray(ended, bool)
    cut = flags if cut is None else np.asarray(cut, bool) & ~ended
    fresh = state.running.steps == 0 if fresh is None else np.asarray(fresh, bool)
    rollout = Experience(seen, flags, np.asarray(rewards, np.float32), seen, ended, cut, flags, ())
    envs = jax.tree.map(lambda x: np.broadcast_to(x, cells.shape), first_state())._replace(column=cells)
    marks = jax.tree.map(lambda x: np.broadcast_to(x, cells.shape), marks)
    return report(starts, state, RolloutStates(envs, marks, ended, fresh), rollout, clock)


@functools.cache
def first_state():
    return small.at_once(lambda: SEA.reset(KEY)[0])


@jax.jit
def report(starts, state, visited, rollout, clock):
    return starts.report(state, rollout, RolloutReport(SEA, visited, clock, KEY))


def entries(state):
    """Return the kept entries, by cell: score, steps, visits, the parent's cell."""
    kept, found = jax.device_get(state.archive), {}
    for slot in np.flatnonzero(kept.cell != NONE):
        parent, serial = int(kept.parent.slot[slot]), int(kept.parent.serial[slot])
        before = int(kept.env_state.column[parent]) if parent >= 0 and kept.serial[parent] == serial else None
        assert kept.env_state.column[slot] == kept.observation[slot, 0, 0]  # leaves of one state stay together
        facts = float(kept.path.score[slot]), int(kept.path.steps[slot]), int(kept.visits[slot]), before
        assert found.setdefault(int(kept.env_state.column[slot]), facts) == facts, "two entries for one cell"
    return found


def test_the_archive_keeps_the_best_way_to_each_cell():
    starts = GoExplore(capacity=16)
    state = small.at_once(lambda: starts.init(KEY, SEA, SPEC, 2))
    # The first goes 1 2 3 2, and is paid when it comes back to 2; the second 3 4 and ends there.
    cells, ends = [[1, 3], [2, 4], [3, 5], [2, 5]], [[0, 0], [0, 1], [0, 0], [0, 0]]
    rewards = [[0, 0], [0, 7], [0, 1], [2, 0]]
    state = visit(starts, state, cells, rewards, ends, start_marks(0, 0, envs=2))
    assert entries(state) == {
        1: (0.0, 1, 0, None),
        2: (2.0, 4, 0, 1),  # the second time it was reached with more; 3 was better reached by the other
        3: (0.0, 1, 0, None),
        5: (1.0, 1, 0, None),  # 4 ended an episode, so it is no place to begin
    }
    assert state.best.found and state.best.path.score == 7 and state.best.path.steps == 2
    # What goes on has its score and steps with it: 3 is taken from the first, whose 2 points are more than none.
    state = visit(starts, state, [[3, 2]], [[0, 2]], [[0, 1]], start_marks(0, 5, envs=2))
    assert entries(state)[3] == (2.0, 5, 0, 2)
    assert state.running.steps.tolist() == [5, 3] and state.running.score.tolist() == [2, 3]
    # The same score in as many steps changes nothing but the visits; in fewer it is better.
    state = visit(starts, state, [[5, 9]], [[-1, 0]], [[0, 0]], start_marks(0, 0, envs=2), fresh=[0, 1])
    assert entries(state)[5] == (1.0, 1, 1, None)
    state = visit(starts, state, [[4, 3]], [[0, 2]], [[0, 0]], start_marks(0, 0, envs=2))
    assert entries(state)[3] == (2.0, 2, 0, 9)


def test_what_is_vacant_is_used_oldest_first():
    """Unused slots before used ones, in the order of serial numbers, even beyond single precision."""
    large = 2**30
    serial = jnp.array([5, 0, large + 3, 2, 0, large + 1, 1, large + 2], jnp.int32)
    vacant = jnp.array([1, 1, 1, 0, 1, 1, 1, 1], bool)
    assert jax.jit(oldest, static_argnums=2)(vacant, serial, 7).tolist() == [1, 4, 6, 0, 5, 7, 2]
    assert oldest(vacant, serial, 3).tolist() == [1, 4, 6]


@pytest.mark.thorough
def test_paths_go_on_across_rollouts_and_from_what_they_began_from():
    starts = GoExplore(capacity=16)
    state = small.at_once(lambda: starts.init(KEY, SEA, SPEC, 1))
    state = visit(starts, state, [[1], [2]], [[1], [1]], [[0], [0]], start_marks(0, 0))
    state = visit(starts, state, [[3], [4]], [[1], [1]], [[0], [1]], start_marks(0, 0))
    assert entries(state)[3] == (3.0, 3, 0, 2)
    two = int(np.flatnonzero(state.archive.observation[:, 0, 0] == 2)[0])
    serial = int(state.archive.serial[two])
    state = visit(starts, state, [[6], [7]], [[5], [1]], [[0], [1]], start_marks(2, 2, two, serial), fresh=[1])
    assert entries(state)[6] == (7.0, 3, 0, 2)
    assert state.archive.chosen[two] == 1
    assert state.best.path.score == 8 and state.best.path.steps == 4


def test_the_state_that_a_burst_ends_in_is_kept():
    starts = GoExplore(capacity=16, burst=2)
    state = small.at_once(lambda: starts.init(KEY, SEA, SPEC, 1))
    state = visit(starts, state, [[1], [9]], [[0], [0]], [[0], [1]], start_marks(0, 0))
    slot = int(np.flatnonzero(state.archive.observation[:, 0, 0] == 1)[0])
    mark = start_marks(0, 1, slot, int(state.archive.serial[slot]))
    # Two bursts; the second one's last step also runs into the end of the episode.
    cells, rewards, cut = [[3], [4], [5], [6]], [[0], [1], [0], [7]], [[0], [1], [0], [1]]
    state = visit(starts, state, cells, rewards, [[0], [0], [0], [1]], mark, cut=cut, fresh=[1])
    assert entries(state) == {1: (0.0, 1, 2, None), 3: (0.0, 2, 0, 1), 4: (1.0, 3, 0, 3), 5: (0.0, 2, 0, 1)}
    # A burst that was cut came to no end; the other one is the best that did.
    assert state.best.path.score == 7 and state.best.path.steps == 3


def test_an_episode_that_was_lost_is_not_gone_on_with():
    """After a failure new episodes begin with the next rollout, although none ended."""
    starts = GoExplore(capacity=16)
    state = small.at_once(lambda: starts.init(KEY, SEA, SPEC, 2))
    state = visit(starts, state, [[1, 2]], [[5, 5]], [[0, 0]], start_marks(0, 0, envs=2))
    state = visit(starts, state, [[3, 4]], [[1, 1]], [[0, 0]], start_marks(0, 0, envs=2), fresh=[1, 0])
    assert entries(state)[3] == (1.0, 1, 0, None) and entries(state)[4] == (6.0, 2, 0, 2)


def test_an_episode_visits_the_cell_it_began_from_once():
    starts = GoExplore(capacity=16)
    state = small.at_once(lambda: starts.init(KEY, SEA, SPEC, 2))
    state = visit(starts, state, [[1, 1], [2, 2]], [[0, 0]] * 2, [[0, 0], [1, 1]], start_marks(0, 0, envs=2))
    one = int(np.flatnonzero(state.archive.observation[:, 0, 0] == 1)[0])
    serial = int(state.archive.serial[one])
    # The first begins from 1, leaves it and comes back; the second begins with a reset, and passes through.
    marks = jax.tree.map(
        lambda a, b: np.stack([a[..., 0], b[..., 0]], -1), start_marks(0, 1, one, serial), start_marks(0, 0)
    )
    state = visit(starts, state, [[1, 3], [4, 1], [1, 3]], [[0, 0]] * 3, [[0, 0]] * 3, marks, fresh=[1, 1])
    assert entries(state)[1][2] == 2 and state.archive.chosen[one] == 1
    # The same episodes in the next rollout: the first is still at home, the second counts once more.
    state = visit(starts, state, [[1, 1]], [[0, 0]], [[0, 0]], marks)
    assert entries(state)[1][2] == 3 and state.archive.chosen[one] == 1
    # What was kept there since is another entry, which was neither chosen nor visited.
    gone = start_marks(0, 1, one, serial + 99)
    state = visit(starts, state, [[7, 7]], [[0, 0]], [[1, 1]], marks)
    gone = jax.tree.map(lambda x: np.repeat(x, 2, -1), gone)
    state = visit(starts, state, [[7, 7]], [[0, 0]], [[0, 0]], gone, fresh=[1, 1])
    assert entries(state)[1][2] == 3 and state.archive.chosen[one] == 1


@pytest.mark.thorough
def test_a_better_state_takes_the_place_and_the_old_one_stays_a_parent():
    starts = GoExplore(capacity=16)
    state = small.at_once(lambda: starts.init(KEY, SEA, SPEC, 1))
    state = visit(starts, state, [[1], [2], [1], [9]], [[0], [1], [0], [0]], [[0], [0], [0], [1]], start_marks(0, 0))
    assert entries(state)[1] == (1.0, 3, 0, 2)  # and 2's parent was never kept: 1 won its place later
    state = small.at_once(lambda: starts.init(KEY, SEA, SPEC, 1))
    state = visit(starts, state, [[1]], [[0]], [[0]], start_marks(0, 0))
    state = visit(starts, state, [[2], [1], [9]], [[1], [0], [0]], [[0], [0], [1]], start_marks(0, 0))
    assert entries(state)[1] == (1.0, 3, 0, 2) and entries(state)[2] == (1.0, 2, 0, 1)
    lesson = trail_to(first_lesson(8), state.archive, state.best.link)
    way = [float(state.archive.observation[slot, 0, 0]) for slot in lesson.trail if slot >= 0]
    assert way == [1.0, 2.0, 1.0] and lesson.length == 3  # round the corner and back, through both


def test_a_full_archive_takes_no_new_cells_but_better_states():
    starts = GoExplore(capacity=2)
    state = small.at_once(lambda: starts.init(KEY, SEA, SPEC, 1))
    state = visit(starts, state, [[1], [2], [3]], [[0], [0], [0]], [[0], [0], [0]], start_marks(0, 0))
    kept = entries(state)
    assert len(kept) == 2
    cell = min(kept)
    state = visit(starts, state, [[cell], [8]], [[5], [0]], [[0], [1]], start_marks(0, 0))
    assert entries(state)[cell][:2] == (5.0, 4) and len(entries(state)) == 2


@pytest.mark.parametrize(("choice", "weights"), [("visits", [1, 1 / 2]), ("chosen", [1 / 3, 1])])
@pytest.mark.thorough
def test_what_was_seen_or_chosen_less_is_chosen_more(choice, weights):
    starts = GoExplore(capacity=4, probability=0.8, choice=choice)
    state = small.at_once(lambda: starts.init(KEY, SEA, SPEC, 1))
    kept = state.archive._replace(
        cell=jnp.array([7, 8, NONE, NONE], jnp.uint32),
        visits=jnp.array([0, 3, 0, 0]),
        chosen=jnp.array([8, 0, 0, 0]),
        serial=jnp.array([1, 2, 3, 0]),
        env_state=state.archive.env_state._replace(column=jnp.arange(4)),
    )
    state = state._replace(archive=kept)
    keys = jax.random.split(KEY, 2000)
    *_, mark = jax.jit(jax.vmap(lambda key: starts.begin(state, SEA, key, jnp.int32(0))))(keys)
    found = np.bincount(np.asarray(mark.link.slot) + 1, minlength=5) / 2000
    wanted = np.array([0.2, *0.8 * np.array(weights) / sum(weights), 0, 0])
    np.testing.assert_allclose(found, wanted, atol=0.05)  # five standard errors


def test_episodes_that_explore_are_cut():
    starts = GoExplore(burst=5)
    mark = jax.tree.map(lambda x: x[0], start_marks(0, 0, slot=3, serial=1))
    assert [bool(starts.cut(mark, jnp.int32(n))) for n in (4, 5, 6)] == [False, True, True]
    assert not starts.cut(mark._replace(link=no_link(())), jnp.int32(9))
    assert not starts.cut(mark._replace(stage=jnp.int32(0)), jnp.int32(9))


def test_starts_move_backward_as_episodes_succeed():
    lesson = first_lesson(8)._replace(on=jnp.bool_(True), length=jnp.int32(3))

    def judge_case(lesson, successes, failures):
        ended = jnp.arange(20) < successes + failures
        return judge(lesson, jnp.arange(20) < successes, ended, 10, 0.2, 2)

    after = judge_case(lesson, 1, 8)
    assert (after.stage, after.successes, after.episodes) == (0, 1, 9)  # not enough to judge by
    assert judge_case(after, 0, 1).stage == 0 and judge_case(after, 0, 1).episodes == 0  # 1 of 10 is too few
    after = judge_case(after, 1, 0)
    assert (after.stage, after.episodes) == (2, 0)
    assert judge_case(after, 10, 0).stage == 3  # never beyond the reset


@pytest.mark.thorough
def test_what_robustifies_begins_near_the_end_of_the_best_way():
    starts = GoExplore(capacity=8, probability=1.0, target=3.0, window=1, trail=4)
    state = small.at_once(lambda: starts.init(KEY, SEA, SPEC, 1))
    ends = [[0], [0], [0], [1]]
    state = visit(starts, state, [[1], [2], [3], [4]], [[0], [0], [0], [3]], ends, start_marks(0, 0))
    assert state.lesson.on and state.lesson.length == 3
    begin = jax.jit(jax.vmap(lambda state, key: starts.begin(state, SEA, key, jnp.int32(0)), (None, 0)))
    keys = jax.random.split(KEY, 100)
    for stage, places in ((0, {2, 3}), (1, {1, 2}), (2, {0, 1}), (3, {0})):  # 0 is where a reset begins
        lesson = state.lesson._replace(stage=jnp.int32(stage))
        env_state, _, mark = begin(state._replace(lesson=lesson), keys)
        assert set(env_state.column.tolist()) == places
        assert set(mark.stage.tolist()) == {stage}
    before = entries(state)
    state = visit(starts, state, [[5], [6]], [[9], [0]], [[0], [1]], start_marks(0, 2, stage=0), fresh=[1])
    assert entries(state) == before and state.best.path.score == 3  # left as it was
    assert state.lesson.successes == state.lesson.episodes == 1


@pytest.mark.parametrize(
    ("tolerance", "score", "successful"),
    [(0.0, 3.0, True), (0.0, 3 - 3e-6, True), (0.0, 2.9, False), (0.1, 2.9, True), (0.1, 2.6, False)],
)
def test_what_robustifies_comes_to_the_best_score(tolerance, score, successful):
    starts = GoExplore(capacity=8, target=3.0, tolerance=tolerance)
    state = small.at_once(lambda: starts.init(KEY, SEA, SPEC, 1))
    state = visit(starts, state, [[1], [2]], [[0], [3]], [[0], [1]], start_marks(0, 0))
    state = visit(starts, state, [[2]], [[score]], [[1]], start_marks(0, 1, stage=0), fresh=[1])
    assert state.lesson.episodes == 1 and state.lesson.successes == successful


@pytest.mark.thorough
def test_cells():
    numbers = np.array([[0.0, 0.0], [0.04, 0.0], [0.06, 0.0], [-0.01, 0.0], [0.0, 0.3]])
    for kind in ("observation", "binned"):
        assert same(Cells(kind, width=(0.05, 1.0)), numbers) == [0, 0, 2, 3, 0]
        scale = Scale(np.array([0.0, 0.0]), np.array([0.5, 0.5]))
        assert same(Cells(kind, bins=5), numbers, scale) == [0, 0, 0, 3, 4]
        assert same(Cells(kind, bins=5), np.array([[0.0, 0.0], [-0.0, 0.0]]), scale) == [0, 0]
        assert same(Cells(kind, bins=5), numbers, space=Box(-1, 1, (2,))) == [0, 0, 0, 0, 4]  # -1, -0.6, -0.2, 0.2
        assert same(Cells(kind), np.array([[0.5, 7.0], [0.6, 7.0], [0.5, 8.0]])) == [0, 1, 2]
        steady = Scale(np.array([0.0, 7.0]), np.array([1.0, 7.0]))  # the second did not change: bins of 1
        assert same(Cells(kind), np.array([[0.0, 7.2], [0.0, 7.9], [0.0, 8.1]]), steady) == [0, 0, 2]
    whole, space = np.array([[3], [4], [3], [100]]), Box(0, 255, (1,), np.uint8)
    assert same(Cells("observation"), whole, space=space) == [0, 1, 0, 3]
    assert same(Cells("binned"), whole, space=space) == [0, 0, 0, 3]
    assert same(Cells("binned"), whole, space=Box(0, 19, (1,), np.uint8)) == [0, 1, 0, 3]
    both = {"b": np.array([[0.01], [0.02], [0.2]]), "a": np.array([1, 1, 1]), "c": np.array([[5.0], [5.0], [5.0]])}
    kinds = Dict({"b": Box(0, 1, (1,)), "a": Discrete(2), "c": Box(0, 100, (1,))})
    assert same(Cells("observation"), both, space=kinds) == [0, 0, 2]
    half = jnp.zeros((4, 8, 8, 1)).at[1, :, :4].set(0.98).at[2, :, :4].set(1.0).at[3, 4:].set(1.0)  # of 0 to 1
    cells = Cells("image", size=(2, 2), shades=4)
    assert cells.numbers(half).shape == (4, 4)
    assert same(cells, half) == [0, 1, 1, 3]
    assert len(np.unique(row_hash(np.arange(20_000)[:, None]))) == 20_000
    swapped = row_hash(np.array([[1, 2], [2, 1], [0, 3], [3, 0]]))
    assert len(np.unique(swapped)) == 4


def same(cells, observations, scale=None, space=None):
    """For each row the first row that is in the same cell. Without `space`, numbers have no bounds."""
    space = space or Box(-np.inf, np.inf, np.shape(observations)[1:])
    scale = cells.fit_bounds(cells.bounds(space), observations) if scale is None else scale
    found = np.asarray(cells(SEA, scale, (), observations))
    return [int(np.flatnonzero(found == cell)[0]) for cell in found]


@pytest.mark.thorough
def test_cells_by_position_forget_what_is_carried_and_seen():
    environment = Empty(6)
    keys = jax.random.split(KEY, 6)
    env_states, observations = jax.vmap(environment.reset)(keys)
    x = np.array([1, 2, 1, 1, 2, 3])
    env_states = env_states._replace(x=x, y=np.ones(6, int), direction=np.arange(6) % 4)
    found = np.asarray(Cells("position")(environment, (), env_states, observations))
    assert len(np.unique(found)) == 3 and found[0] == found[2] == found[3] and found[1] == found[4]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: check_ranges(GoExplore(capacity=0), "it"), "capacity of it is 1 or more"),
        (lambda: check_ranges(GoExplore(probability=1.5), "it"), "probability of it is from 0 to 1"),
        (lambda: GoExplore(choice="luck"), "choice of GoExplore is one of visits, chosen"),
        (lambda: GoExplore(cells="rooms"), "cells of GoExplore is one of"),
        (lambda: check(GoExplore(cells="binned", width=(-1.0,)), CartPole(), Same()), "width of GoExplore is above 0"),
        (lambda: check(GoExplore(cells="position"), CartPole(), Same()), "no map"),
        (lambda: check(GoExplore(cells="image"), CartPole(), Same()), "no image"),
        (lambda: check(GoExplore(cells="binned", width=(1.0, 1.0)), CartPole(), Same()), "Give 1 width or 4"),
        (lambda: check(GoExplore(), CartPole(), Phases("length", (0.5, 1.0), (10,))), "--tasks same"),
        (lambda: check(GoExplore(), EnvironmentCopies(CartPole(), 2), Same()), "needs one agent"),
    ],
)
def test_mistakes_are_named(make, words):
    with pytest.raises(ForageError, match=words):
        make()


@pytest.mark.thorough
def test_a_sea_too_deep_for_chance_is_found_and_learned():
    """In the loop: one of 2^12 ways down has a reward, and evaluation begins with a reset."""
    environment = DeepSea(12)
    agent = PPO(num_envs=8, rollout_length=48, epochs=4, minibatches=4, hidden_sizes=(32,), learning_rate=3e-3)
    spec = Spec("DeepSea", environment.observation_space, environment.action_space)
    starts = GoExplore(capacity=256, target=0.5, episodes=8)
    learner = Learner(agent, AgentPolicy(), EnvironmentReward(), LastRollout(), spec)
    loop = DeviceLoop(learner, environment, Same(), starts)
    loop.check()

    @jax.jit
    def run(loop):
        def turn(carry, _):
            state, clock = carry
            state, tally = loop.iterate(state, clock)
            clock = clock._replace(steps=clock.steps + loop.steps_per_iteration)
            return (state, clock), tally.faults

        carry = (loop.init(jax.random.key(1)), Clock(jnp.int32(0), jnp.float32(150 * 8 * 48)))
        (state, _), faults = jax.lax.scan(turn, carry, None, 150)
        return state.starts, play_episodes(loop, state.learner, KEY, 4, 12).returns, faults.sum()

    state, returns, faults = jax.device_get(run(loop))
    assert faults == 0
    kept = state.archive
    reachable = 12 * 13 // 2 - 1  # cells below the top one
    assert 12 < (kept.cell != NONE).sum() <= reachable
    np.testing.assert_array_equal(kept.env_state.time[kept.cell != NONE], kept.path.steps[kept.cell != NONE])
    assert state.best.path.score > 0.98 and state.lesson.on
    assert (returns > 0.98).all()


@pytest.mark.thorough
def test_an_empty_archive_is_never_drawn():
    archive = empty(4, SEA.reset(KEY))
    assert (archive.cell == NONE).all() and (archive.serial == 0).all()
    state = GoExplore(capacity=4, probability=1.0).init(KEY, SEA, SPEC, 1)
    *_, mark = GoExplore(capacity=4, probability=1.0).begin(state, SEA, KEY, jnp.int32(0))
    assert mark.link.slot == -1 and mark.path.steps == 0


@pytest.mark.thorough
def test_what_is_seen_as_numbers_comes_into_bins():
    """A car in a valley never shows the same numbers twice, and the archive has room for all places it may be in."""
    setup = resolve(
        "ppo",
        "MountainCar-v0",
        steps=4000,
        seeds=[0],
        agent_options={"num_envs": 4, "rollout_length": 250, "minibatches": 1, "epochs": 1, "hidden_sizes": (4,)},
        starts=GoExplore(),
    )
    runner = setup.runner()
    runner.begin()
    runner.advance(4)
    kept = jax.tree.map(lambda x: np.asarray(x[0]), runner.state.starts)
    np.testing.assert_allclose((kept.scale.low, kept.scale.high), [[-1.2, -0.07], [0.6, 0.07]], rtol=1e-6)
    full = kept.archive.cell != NONE
    low, high = kept.scale
    bins = np.floor((kept.archive.env_state.variables[full] - low) / ((high - low) / 20))
    assert 20 < full.sum() == len(np.unique(bins, axis=0)) < 400
