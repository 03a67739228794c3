"""Self-play: the players of seats, learning, and evaluation against opponents with known results."""

import functools

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from tiers import first

from forage.agents.policy_gradient.ppo import PPO
from forage.agents.policy_gradient.reinforce import Reinforce
from forage.agents.q_learning.dqn import DQN
from forage.behaviours.self_play import SelfPlay
from forage.config.opponents import Random, TrainedOpponent
from forage.config.resolve import from_config, resolve
from forage.core import spaces, team
from forage.core.ports import ActContext
from forage.core.types import AGENT, NOBODY, OPPONENT, Batch, Clock, ForageError
from forage.environments import make, spec_of
from forage.environments.boards.solve import Perfect, best_moves, free_cells, is_lost, play_move
from forage.environments.classic.cartpole import CartPole
from forage.environments.wrappers.together import EnvironmentCopies
from forage.loop.device.evaluate import play_episodes
from forage.loop.device.loop import DeviceLoop
from forage.loop.learner import Learner
from forage.memory.rollout import LastRollout
from forage.rewards.environment import EnvironmentReward
from forage.runs import training
from forage.runs.run import Run
from forage.starts.reset import Reset
from forage.tasks.same import Same

small.keep_compiled()
GAME = make("boards:TicTacToe")
SPEC = spec_of(GAME, "game")
AGENT_OF_TEST = PPO(num_envs=16, rollout_length=48, minibatches=1, epochs=2, hidden_sizes=(8,), discount=1.0)
CLOCK = Clock(jnp.int32(0), jnp.float32(1e5))


def preferring(agent, order):
    """Return a state of `agent` that marks the first free cell of this order."""
    state = agent.init(jax.random.key(0), SPEC)
    bias = jnp.zeros(9).at[jnp.asarray(order)].set(100.0 * jnp.arange(9, 0, -1))
    values = jnp.zeros_like(state.network.actor.weight), bias
    return state._replace(network=equinox.tree_at(lambda n: (n.actor.weight, n.actor.bias), state.network, values))


def loop_of(behaviour=None, agent=AGENT_OF_TEST, opponent=None):
    learner = Learner(agent, behaviour or SelfPlay(snapshots=4), EnvironmentReward(), LastRollout(), SPEC)
    loop = DeviceLoop(learner, GAME, Same(), Reset(), opponent=opponent)
    loop.check()
    return loop


@functools.cache
def play(opponents="past"):
    """Return a rollout in which past self i marks cell i if it is free, and the state before it."""
    loop = loop_of(SelfPlay(snapshots=4, opponents=opponents))

    @jax.jit
    def run(key):
        state = loop.init(key)
        if opponents == "past":
            each = [preferring(loop.agent, [i, *(c for c in range(9) if c != i)]) for i in range(4)]
            selves = jax.tree.map(lambda *x: jnp.stack(x), *each)
            pool = state.learner.behaviour._replace(selves=selves, count=jnp.int32(3))
            state = state._replace(learner=state.learner._replace(behaviour=pool))
        return state, loop.collect(state, CLOCK, key)

    return jax.device_get(run(jax.random.key(1)))


def games(rollout):
    """Yield environment and steps of each whole game of a rollout."""
    for env in range(rollout.reward.shape[1]):
        begin = 0
        for end in np.flatnonzero(rollout.terminated[:, env, 0]):
            yield env, slice(begin, end + 1)
            begin = end + 1


@pytest.mark.parametrize("opponents", first(1, ["past", "random"]))
def test_one_seat_of_each_game_is_the_agents(opponents):
    _, found = play(opponents)
    rollout, own_seats, rivals, returns = found.rollout, [], [], 0.0
    for env, steps in games(rollout):
        source = rollout.source[steps, env]
        opposed = (source == OPPONENT).all(0)
        assert opposed.sum() == 1 and not (source[:, ~opposed] == OPPONENT).any()
        seat = int(np.argmin(opposed))
        present = rollout.observation[spaces.PRESENT][steps, env, seat]
        np.testing.assert_array_equal(source[:, seat], np.where(present == 1, AGENT, NOBODY))
        np.testing.assert_array_equal(present, np.arange(len(present)) % 2 == seat)
        rival = set(rollout.behaviour_info[steps, env].ravel().tolist())
        assert len(rival) == 1  # both seats know the same one, through the game
        rivals += rival
        own_seats.append(seat)
        returns += rollout.reward[steps, env, seat].sum()
        if opponents == "past":  # its first move tells who it is, unless the agent was quicker
            first = 1 - seat
            cell = rollout.action[steps, env][first, 1 - seat]
            taken = first == 1 and rollout.action[steps, env][0, 0] == rivals[-1]
            assert taken or cell == rivals[-1]
    assert len(own_seats) > 60 and 0.3 < np.mean(own_seats) < 0.7
    if opponents == "past":
        assert set(rivals) == {0, 1, 2}  # three of four places are filled
    # What is told of training is the agent's own return.
    assert found.episodes.count == len(own_seats)
    assert found.episodes.episode_return == pytest.approx(returns) and returns != 0


def run_learn(rollout, state, agent=AGENT_OF_TEST):
    streams = team.as_agent_batch(rollout, 2)._replace(behaviour_info=())
    number = streams.reward.shape[1]
    batch = Batch(streams, jnp.ones(number), jnp.arange(number))
    after, metrics, _ = agent.learn(state.learner.agent, batch, CLOCK, jax.random.key(3))
    return jax.device_get((after.network, metrics))


@pytest.mark.thorough
def test_nothing_is_learned_from_what_opponents_did_and_no_policy_from_waiting():
    state, found = play()
    rollout = found.rollout
    learn = jax.jit(lambda rollout: run_learn(rollout, state))

    def change(where, **entries):
        """Return the change of the network's update for a rollout with other entries there."""

        def mix(old, new):
            return np.where(where.reshape(where.shape + (1,) * (np.ndim(old) - 3)), new, old).astype(old.dtype)

        altered = rollout._replace(**{name: mix(getattr(rollout, name), new) for name, new in entries.items()})
        leaves = zip(jax.tree.leaves(learn(rollout)[0]), jax.tree.leaves(learn(altered)[0]), strict=True)
        return max(np.abs(a - b).max() for a, b in leaves)

    opposed, waits, own = (rollout.source == kind for kind in (OPPONENT, NOBODY, AGENT))
    other = (rollout.action + 1) % 9
    assert change(opposed, action=other, reward=rollout.reward + 5.0) < 1e-6
    assert change(waits, action=other) < 1e-6
    assert change(waits, reward=rollout.reward + 5.0) > 1e-4  # what comes of the other's move is the agent's
    assert change(own, action=other) > 1e-4


def test_the_advantage_of_a_move_is_the_result_less_its_value():
    state, found = play()
    rollout = found.rollout
    agent = PPO(num_envs=16, rollout_length=48, minibatches=1, hidden_sizes=(8,), discount=1.0, gae_lambda=1.0)
    estimates = jax.device_get(
        agent.estimate(state.learner.agent, team.as_agent_batch(rollout, 2)._replace(behaviour_info=()))
    )
    advantage, value = (x.reshape(48, 16, 2) for x in (estimates.advantage, estimates.value))
    for env, steps in games(rollout):
        seat = int(np.argmin((rollout.source[steps, env] == OPPONENT).all(0)))
        result = rollout.reward[steps, env, seat].sum()
        np.testing.assert_allclose(advantage[steps, env, seat], result - value[steps, env, seat], atol=1e-4)
        assert not advantage[steps, env, 1 - seat].any()


@pytest.mark.thorough
def test_the_pool_holds_the_agent_at_even_shares_of_the_run():
    behaviour, agent = SelfPlay(snapshots=4), AGENT_OF_TEST
    pool = behaviour.init(jax.random.key(0), agent, SPEC)
    counts = []
    for number in range(10):
        state = jax.tree.map(lambda x, n=number: jnp.full_like(x, n), agent.init(jax.random.key(0), SPEC))
        clock = Clock(jnp.int32(100 * number), jnp.float32(1000))
        pool = behaviour.report(pool, None, ActContext(agent, state, SPEC, clock, jax.random.key(0)))
        counts.append(int(pool.count))
    assert counts == [1, 1, 1, 2, 2, 3, 3, 3, 4, 4]  # at 0.25, 0.5 and 0.75 of the run, or just after
    bias = np.asarray(pool.selves.network.actor.bias)
    np.testing.assert_array_equal(bias[1:, 0], [3, 5, 8])
    first = agent.init(jax.random.split(jax.random.key(0))[0], SPEC)
    np.testing.assert_array_equal(bias[0], first.network.actor.bias)


@pytest.mark.parametrize(("recent", "possible"), [(0.0, {0, 1, 2, 3}), (0.5, {2, 3}), (0.8, {3}), (1.0, {3})])
@pytest.mark.thorough
def test_opponents_are_drawn_from_the_recent_part(recent, possible):
    behaviour = SelfPlay(recent=recent, snapshots=8)
    pool = behaviour.init(jax.random.key(0), AGENT_OF_TEST, SPEC)._replace(count=jnp.int32(4))

    def draw(who, steps):
        moment = ActContext(AGENT_OF_TEST, (), SPEC, Clock(steps, jnp.float32(1e5)), jax.random.key(9), who)
        return behaviour.draw(pool, moment)

    streams, times = jnp.arange(200), jnp.arange(20)
    own, rival = jax.vmap(lambda steps: jax.vmap(lambda who: draw(who, steps))(streams))(times)
    own, rival = np.asarray(own).reshape(20, 100, 2), np.asarray(rival).reshape(20, 100, 2)
    assert (own.sum(-1) == 1).all() and (rival[..., 0] == rival[..., 1]).all()
    shares = np.array([(rival == i).mean() for i in sorted(possible)])
    assert set(np.unique(rival)) == possible and np.abs(shares - 1 / len(possible)).max() < 0.05
    assert abs(own[..., 0].mean() - 0.5) < 0.05


@functools.cache
def expectation(board, own_turn, opponent):
    """Return the mean result of marking the lowest free cell; `board` is from the mover's view."""
    if is_lost(board):
        return -1.0 if own_turn else 1.0
    if not (cells := free_cells(board)):
        return 0.0
    if own_turn:
        cells = cells[:1]
    elif opponent == "perfect":
        cells = np.flatnonzero(best_moves()[int(np.dot(board, 3 ** np.arange(9)))]).tolist()
    elif opponent == "highest":
        cells = cells[-1:]
    return float(np.mean([expectation(play_move(board, cell), not own_turn, opponent) for cell in cells]))


@pytest.mark.parametrize("name", ["random", "perfect", "highest"])
@pytest.mark.thorough
def test_evaluation_against_an_opponent_gives_the_exact_mean_of_each_seat(name):
    highest = TrainedOpponent(AGENT_OF_TEST, preferring(AGENT_OF_TEST, range(8, -1, -1)), False)
    loop = loop_of(opponent={"random": Random(), "perfect": Perfect(), "highest": highest}[name])

    @jax.jit
    def run(key):
        state = loop.init(key).learner._replace(agent=preferring(AGENT_OF_TEST, range(9)))
        return play_episodes(loop, state, key, 8000, 9)

    result = jax.device_get(run(jax.random.key(5)))
    for seat in (0, 1):
        mean = expectation((0,) * 9, seat == 0, name)
        assert result.returns[seat::2].mean() == pytest.approx(mean, abs=0.045)
    for word, sign in (("win", 1), ("draw", 0), ("loss", -1)):
        np.testing.assert_array_equal(result.infos[word], result.returns == sign)
    assert result.lengths.max() <= 9


@pytest.mark.thorough
def test_agents_with_memory_and_whole_episodes_play_themselves():
    for agent in (
        PPO(num_envs=4, rollout_length=18, minibatches=2, hidden_sizes=(4,), gru_size=3),
        Reinforce(num_envs=4, rollout_length=18, hidden_sizes=(4,)),
    ):
        loop = loop_of(SelfPlay(snapshots=2), agent)
        state, tally = jax.jit(loop.iterate)(loop.init(jax.random.key(0)), CLOCK)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((state.learner.agent, tally.metrics)))


@pytest.mark.thorough
def test_a_run_is_evaluated_against_opponents(tmp_path):
    options = {"num_envs": 4, "rollout_length": 16, "hidden_sizes": (8,), "minibatches": 2}
    run = training.train(
        "ppo",
        "boards:TicTacToe",
        steps=128,
        seeds=2,
        agent_options=options,
        behaviour="self-play",
        evaluation_every=64,
        evaluation_episodes=6,
        directory=tmp_path / "run",
        display="quiet",
    )
    assert run.config["opponent"] == run.evaluation["opponent"] == "random"
    for row in (*run.evaluations, run.evaluation):
        np.testing.assert_allclose(np.sum([row[name] for name in ("win", "draw", "loss")], 0), 1, atol=1e-6)
        np.testing.assert_allclose(np.subtract(row["win"], row["loss"]), row["return"], atol=1e-6)
    before = run.evaluation
    training.evaluate(run.directory, 6, opponent="perfect")
    training.evaluate(run.directory, 6, opponent=str(run.directory))
    again = Run(run.directory)
    assert again.evaluation == before and set(again.opponents) == {"perfect", str(run.directory)}
    assert again.opponents["perfect"]["win"] == [0, 0]
    training.evaluate(run.directory, 8, opponent="random")
    assert Run(run.directory).evaluation["episodes"] == 8
    assert from_config(run.config).opponent == "random"
    with pytest.raises(ForageError, match="An opponent is random, perfect or a run's directory, not 'nobody'"):
        training.evaluate(run.directory, 6, opponent="nobody")


def test_bad_input():
    with pytest.raises(ForageError, match="one of past, random"):
        SelfPlay(opponents="future")
    with pytest.raises(ForageError, match="recent of self-play is from 0 to 1, not 2"):
        resolve("ppo", "boards:TicTacToe", behaviour=SelfPlay(recent=2.0))
    with pytest.raises(ForageError, match=r"SelfPlay needs a team of agents, and CartPole-v1 has one agent"):
        check(SelfPlay(), PPO(), spec_of(CartPole(), "CartPole-v1"))
    with pytest.raises(ForageError, match=r"DQN draws no actions from a policy of its own.*; ppo and reinforce do"):
        check(SelfPlay(), DQN(), SPEC)
    with pytest.raises(ForageError, match="CartPole-v1 has one agent, so there is no seat"):
        resolve("ppo", "CartPole-v1", opponent="random")
    with pytest.raises(ForageError, match="runs on the host, and opponents play in native environments alone"):
        resolve("ppo", "gymnasium:CartPole-v1", behaviour="self-play")
    with pytest.raises(
        ForageError, match=r"perfect player of boards:TicTacToe as it is, and none of EnvironmentCopies"
    ):
        resolve("ppo", EnvironmentCopies(CartPole(), 2), opponent="perfect")
