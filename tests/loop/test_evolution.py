"""The loop of agents that evolve: its count of steps, and resuming as if never stopped."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small

from forage.config.resolve import resolve
from forage.core.types import ForageError
from forage.loop.device.collect import any_of
from forage.loop.device.evaluate import play_episodes

small.keep_compiled()
LONGEST = 8 * 500  # steps of a generation


def runner_of(seeds, **options):
    given = {"num_envs": 8, "hidden_sizes": (8,), "sigma": 0.1} | options
    return resolve("open-es", "CartPole-v1", steps=10 * LONGEST, seeds=seeds, agent_options=given).runner()


def test_steps_are_those_played():
    runner = runner_of([3, 7], episodes=2)
    runner.begin()
    before, lengths, generations = np.zeros(2), np.zeros(2), np.zeros(2)
    for iteration in range(1, 9):
        report = runner.advance(1)
        lengths += report.episodes.length
        generations += report.metrics["updates"]
        played = report.latest["played"]
        assert (played == lengths).all()
        assert runner.steps == iteration * LONGEST
        assert (played > before).all() and (played <= runner.steps).all() and (played > runner.steps - LONGEST).all()
        assert (report.episodes.count == 8 * report.metrics["updates"]).all()
        before = played
    assert (generations > 8).all(), "episodes end early, so more generations than iterations were played"
    assert len(set(played.tolist())) == 2


def test_resumed_is_as_if_never_stopped(tmp_path):
    runner = runner_of([3, 7])
    runner.begin()
    runner.advance(3)
    runner.save(tmp_path / "half.npz", {"steps": runner.steps})
    runner.advance(3)
    again = runner_of([3, 7])
    again.load(tmp_path / "half.npz")
    again.advance(3)
    assert again.steps == runner.steps
    assert small.differing(again.state, runner.state) == []


@pytest.mark.thorough
def test_the_clock_of_the_agent_counts_what_was_played():
    """Play by the code that evaluates, and tell the mean return of each member's episodes."""
    runner = runner_of([3], episodes=2)
    loop = runner.varied.common
    clock = runner._clock()

    def first():
        state = loop.init(jax.random.key(3))
        _, ask_key, play_key = jax.random.split(state.key, 3)
        agent = state.learner.agent
        member = jax.tree.map(lambda x: x[1], loop.agent.ask(agent, ask_key))
        learner = state.learner._replace(agent=agent._replace(network=member))
        played = play_episodes(loop, learner, jax.random.split(play_key, 4)[1], 2, 500)
        return played, loop.generation(state, clock)

    played, (state, tally) = small.at_once(first)
    assert played.returns.shape == (2,) and int(state.played) == int(tally.episodes.length)
    assert float(tally.metrics["best_return"]) >= float(jnp.mean(played.returns))


def test_there_is_no_rollout_and_no_transition_to_learn_from():
    runner = runner_of([3])
    with small.no_training():
        runner.begin()
    with pytest.raises(ForageError, match="OpenES keeps returns alone"):
        runner.next_rollout()
    with pytest.raises(ForageError, match="OpenES learns from whole returns"):
        runner.learner.agent.learn((), None, None, None)
    assert "rollout" not in runner.array_shapes()


@pytest.mark.thorough
def test_members_play_on_together_and_count_their_own_steps():
    def play(limit):
        def step(carry):
            turns, own = carry
            return turns + 1, own + (turns < limit)

        return jax.lax.while_loop(lambda carry: any_of(carry[0] < limit), step, (jnp.int32(0), jnp.int32(0)))

    limits = jnp.array([[2, 5], [0, 3]])
    turns, own = jax.jit(jax.vmap(jax.vmap(play)))(limits)
    assert own.tolist() == limits.tolist() and (turns == 5).all()

    # And so do episodes: those of two seeds in one program are those of each alone.
    both = runner_of([3, 7])
    both.begin()
    played = both.evaluate(3, 60, 1)
    assert len(set(np.asarray(played.lengths).ravel().tolist())) > 1
    for row, seed in enumerate((3, 7)):
        alone = runner_of([seed])
        alone.begin()
        found = alone.evaluate(3, 60, 1)
        assert (np.asarray(found.lengths)[0] == np.asarray(played.lengths)[row]).all()
        assert (np.asarray(found.returns)[0] == np.asarray(played.returns)[row]).all()
