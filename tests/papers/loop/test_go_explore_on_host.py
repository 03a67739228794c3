"""Go-Explore and archives on the host: states that were kept, and refusals (`test_host_starts`)."""

import jax
import numpy as np
import pytest
import test_host_starts as core
from test_host_starts import PPO, sea
from tiers import repeat

import forage
from forage.config.resolve import resolve
from forage.environments.adapters.on_host import OnHost
from forage.environments.classic.deep_sea import DeepSea
from forage.loop.host.starts import HostedEnvironment, unpack_state
from forage_papers.starts.archive import Archive
from forage_papers.starts.cells import NONE
from forage_papers.starts.go_explore import GoExplore

test_what_cannot_be_is_said_early = repeat(
    core.test_what_cannot_be_is_said_early,
    [
        (core.Forgetful, Archive(4), "Forgetful cannot be put back to where it was"),
        ("gymnasium:CartPole-v1", GoExplore(cells="position"), "has no map to make cells of"),
        ("gymnasium:CartPole-v1", GoExplore(cells="image"), "shows no image"),
    ],
)


@pytest.mark.thorough
def test_after_a_failure_new_episodes_have_nothing_behind_them():
    """Every kept state was reached in as many steps as its depth, although the first episodes were lost."""
    starts = GoExplore(capacity=64, probability=0.5, burst=3)
    setup = resolve("ppo", sea, steps=1000, seeds=[0], agent_options=PPO | {"rollout_length": 4}, starts=starts)
    runner = setup.runner()
    runner.begin()
    runner.advance(1)
    runner.failed = True
    again = setup.runner()
    again.restore(runner.state, runner.steps)
    again.advance(4)
    found = again.loops[0].starts
    archive = found.state.part.archive
    kept = np.flatnonzero(archive.cell != NONE)
    places = [found.environment.put(0, unpack_state(found.saved[int(archive.env_state.number[slot])])) for slot in kept]
    assert len(kept) > 5
    assert [int(place.any(1).argmax()) for place in places] == archive.path.steps[kept].tolist()


def test_no_picture_is_kept_twice():
    """The simulator's own state contains the observation: on the host parts keep tickets alone."""
    spec = sea(1).spec
    for part in (Archive(capacity=8), GoExplore(capacity=8)):
        leaves = jax.tree.leaves(part.init(jax.random.key(0), HostedEnvironment(spec), spec, 1))
        assert not any(leaf.shape[:1] == (8,) and leaf.ndim > 1 for leaf in leaves)


@pytest.mark.thorough
def test_go_explore_reaches_the_end_of_a_deep_sea_on_the_host(tmp_path):
    """Chance alone finds it once in 2^8 episodes; the run has 250 of 8 steps, and begins them at the frontier."""
    starts = GoExplore(capacity=64, burst=4)
    run = forage.train(
        "ppo",
        lambda num_envs: OnHost(DeepSea(8), num_envs, "Sea"),
        steps=2_000,
        seeds=[0, 1],
        agent_options=PPO,
        starts=starts,
        visits=True,
        directory=tmp_path / "run",
        display="quiet",
        evaluation_episodes=2,
    )
    last = run.rows[-1]
    assert all(step is not None for step in last["first_reward"])
    assert run.visits.shape == (2, 8, 8) and (run.visits.sum((1, 2)) == last["steps"]).all()
    assert last["places_visited"] == (run.visits > 0).sum((1, 2)).tolist()
    assert (tmp_path / "run" / "visits.png").stat().st_size > 1000
