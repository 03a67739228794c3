"""VDN and QMIX: a team's target by hand, the values of the two-step game, and refusals."""

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from small import at_once, keep_compiled, zeros
from tiers import first

import forage
from forage.agents.q_learning.qmix import QMIX, Mixer
from forage.agents.q_learning.vdn import VDN
from forage.behaviours.epsilon_greedy import EpsilonGreedy
from forage.config.resolve import resolve
from forage.core.ports import ActInputs
from forage.core.spaces import PRESENCE, PRESENT
from forage.core.types import AGENT, GONE, Batch, Clock, Experience, ForageError, Spec
from forage.environments import spec_of
from forage.environments.adapters.on_host import OnHost
from forage.environments.teams.two_step import PAYOFFS, TwoStep
from forage.loop.host.runner import HostRunner
from forage.loop.learner import Learner, initial_memory
from forage.memory.prioritised import PrioritisedReplay
from forage.memory.uniform import UniformReplay
from forage.rewards.environment import EnvironmentReward

STATES = 4
SEEN = spaces.Dict({"observation": spaces.Discrete(STATES), PRESENT: PRESENCE})
SPEC = Spec("Table", SEEN, spaces.Discrete(2), num_agents=3)
ONLINE = np.array([[1.0, 2.0], [3.0, 5.0], [6.0, 4.0], [0.5, 0.0]], np.float32)
TARGET = np.array([[10.0, 20.0], [50.0, 30.0], [70.0, 40.0], [5.0, 8.0]], np.float32)
CLOCK = Clock(jnp.int32(0), jnp.float32(100))
DISCOUNT = 0.99


def table(agent, values):
    """Return a network with the one-hot state as features, so that its last layer is the table of Q."""
    network = zeros(lambda: agent.init(jax.random.key(0), SPEC)).network
    where = lambda n: (n.torso.body.layers[0].weight, n.advantage.layers[0].weight)  # noqa: E731
    return equinox.tree_at(where, network, (np.eye(STATES), values))


def batch(observation, action, reward, after, present, terminated=False, truncated=False):
    """Segments of one team: arguments are lists `time`, of lists `agent`."""
    shape = np.shape(action)
    rows = lambda x, dtype: np.broadcast_to(np.asarray(x, dtype), shape)[:, None]  # noqa: E731
    there = np.concatenate([np.ones((1, shape[1]), int), np.asarray(present)])  # all are there at first
    seen = lambda x, there: {"observation": rows(x, np.int32), PRESENT: rows(there, np.int8)}  # noqa: E731
    experience = Experience(
        seen(observation, there[:-1]), rows(action, np.int32), rows(reward, np.float32), seen(after, there[1:]),
        rows(terminated, bool), rows(truncated, bool), rows(np.where(there[:-1] < 0, GONE, AGENT), np.int32), (),
    )  # fmt: skip
    return jax.device_put(Batch(experience, np.ones(1), np.zeros(1, np.int32)))


ALL, ONE_LEFT = [[1, 1, 1]], [[1, -1, 1]]


@pytest.mark.parametrize(
    ("double", "present", "ends", "target"),
    first(
        2,
        [
            # Members go to states 0, 1 and 2; the team is paid the mean of 1, 2 and 6.
            (False, ALL, {}, 3 + 0.5 * (20 + 50 + 70)),
            (True, ALL, {}, 3 + 0.5 * (20 + 30 + 70)),  # the online network prefers action 1 in state 1
            (True, ONE_LEFT, {"terminated": [[False, True, False]]}, 3 + 0.5 * (20 + 70)),  # the rest play on
            (True, ALL, {"truncated": True}, 3 + 0.5 * (20 + 30 + 70)),
            (True, ALL, {"terminated": True}, 3),
            # Out of time for one of them: the team's value goes on from where that one is.
            (True, ALL, {"terminated": [[True, True, False]], "truncated": [[False, False, True]]}, 63),
        ],
    ),
)
def test_the_team_s_target_by_hand(double, present, ends, target):
    agent = VDN(double=double, discount=0.5, hidden_sizes=(STATES,), identity=False)
    online, follows = table(agent, ONLINE), table(agent, TARGET)
    # In states 3, 0 and 1 they take 0, 1 and 1: 0.5 + 2 + 5.
    given = batch([[3, 0, 1]], [[0, 1, 1]], [[1.0, 2.0, 6.0]], [[0, 1, 2]], present, **ends)
    loss, (error, metrics) = jax.jit(agent.loss)(online, follows, given)
    np.testing.assert_allclose(error, [[target - 7.5]], rtol=1e-6)
    np.testing.assert_allclose(loss, (target - 7.5) ** 2 / 2, rtol=1e-6)
    np.testing.assert_allclose(metrics["q"], 7.5, rtol=1e-6)


def test_returns_of_several_steps_are_the_team_s_and_who_left_adds_nothing():
    agent = VDN(double=False, discount=0.5, hidden_sizes=(STATES,), identity=False, n_step=2)
    online, follows = table(agent, ONLINE), table(agent, TARGET)
    given = batch(
        [[3, 0, 1], [0, 1, 2]], [[0, 1, 1], [0, 0, 0]], [[1.0, 2.0, 6.0], [3.0, 0.0, 3.0]], [[0, 1, 2], [3, 1, 3]],
        [[1, -1, 1], [1, -1, 1]], terminated=[[False, True, False], [False, True, False]],
    )  # fmt: skip
    _, (error, _) = jax.jit(agent.loss)(online, follows, given)
    np.testing.assert_allclose(error, [[3 + 0.5 * 2 + 0.25 * (8 + 8) - 7.5]], rtol=1e-6)
    # The same from the second step on, where the second member is gone: its Q of 3 counts no more.
    later = jax.tree.map(lambda x: x[1:], given.experience)
    one_step = VDN(double=False, discount=0.5, hidden_sizes=(STATES,), identity=False)
    _, (error, _) = jax.jit(one_step.loss)(online, follows, given._replace(experience=later))
    np.testing.assert_allclose(error, [[2 + 0.5 * (8 + 8) - (1 + 6)]], rtol=1e-6)


def least_squares():
    """Return the team's values `[state, first, second]` of the sums of members' values that fit all joint actions best.

    At 2A and 2B targets are the payoffs, at 1 the discounted best sum of the state that follows.
    """
    joint = [(a, b) for a in (0, 1) for b in (0, 1)]
    design = np.array([[a == 0, a == 1, b == 0, b == 1] for a, b in joint], float)
    fit = lambda y: (design @ np.linalg.lstsq(design, y, rcond=None)[0]).reshape(2, 2)  # noqa: E731
    safe, risky = (fit(np.array(PAYOFFS[state]).reshape(-1)) for state in (1, 2))
    choice = fit(np.array([DISCOUNT * (safe if a == 0 else risky).max() for a, _ in joint]))
    return np.stack([choice, safe, risky])


def team_values(agent, state):
    """Return the agent's learned values, in the layout of `least_squares`."""
    spec = spec_of(TwoStep(), "two steps")

    @jax.jit
    def tables(state):
        hidden = initial_memory(agent, spec)
        of_all = jax.vmap(agent.action_values, (None, 0, None))
        q = jax.vmap(lambda seen: of_all(state, hidden, seen))(jnp.eye(3))  # [state, member, action]
        return q[:, 0, :, None] + q[:, 1, None, :]

    return np.asarray(tables(state))


def test_least_squares_of_the_two_step_game_by_hand():
    found = least_squares()
    np.testing.assert_allclose(found[1], 7, atol=1e-9)
    np.testing.assert_allclose(found[2], [[-1.5, 2.5], [2.5, 6.5]], atol=1e-9)  # means of rows and columns, less all
    np.testing.assert_allclose(found[0], DISCOUNT * np.array([[7, 7], [6.5, 6.5]]), atol=1e-9)


def train_on_all(agent, updates=4000):
    """Train on every joint action in every state of the two-step game; return the state and these transitions.

    They go through the joint actions of each state in turn, as `[state, first, second]` does.
    """
    world = TwoStep()
    rows = jnp.array([(s, a, b) for s in range(3) for a in (0, 1) for b in (0, 1)])
    _, step = jax.vmap(world.step, (0, 0, None))(rows[:, 0], rows[:, 1:], jax.random.key(0))
    seen = jnp.repeat(jnp.eye(3)[rows[:, :1]], 2, 1)
    no = jnp.zeros_like(step.terminated)
    experience = Experience(
        seen, rows[:, 1:], step.reward, step.observation, step.terminated, no, jnp.full(no.shape, AGENT), ()
    )
    batch = Batch(jax.tree.map(lambda x: x[None], experience), jnp.ones(len(rows)), jnp.arange(len(rows)))

    @jax.jit
    def train(key):
        def update(i, state):
            return agent.learn(state, batch, Clock(i, jnp.float32(updates)), jax.random.fold_in(key, i))[0]

        return jax.lax.fori_loop(0, updates, update, agent.init(key, spec_of(world, "two steps")))

    return train(jax.random.key(3)), batch.experience


RIGHT = np.array([[[7 * DISCOUNT] * 2, [8 * DISCOUNT] * 2], *PAYOFFS[1:]])
"""The values of all joint actions in the two-step game, `[state, first, second]`."""


@pytest.mark.parametrize("double", first(1, [False, True]))
def test_it_learns_the_least_squares_of_the_two_step_game(double):
    """From every joint action in every state, again and again. As in the QMIX paper, the team then earns 7, not 8."""
    agent = VDN(double=double, hidden_sizes=(32,), learning_rate=3e-3, target_update_interval=100, discount=DISCOUNT)
    state, _ = train_on_all(agent)
    found = team_values(agent, state)
    np.testing.assert_allclose(found, least_squares(), atol=0.05)
    first = found[0].max(1).argmax()  # what the team plays: the safe game
    assert first == 0


@pytest.mark.thorough
def test_qmix_learns_the_values_of_the_two_step_game():
    """The mixer represents values that no sum of the members' values equals, so the team chooses the 8."""
    agent = QMIX(hidden_sizes=(32,), learning_rate=3e-3, target_update_interval=100, n_step=1, discount=DISCOUNT)
    state, experience = train_on_all(agent)
    found, _ = jax.jit(agent.values)(state.network, state.target, experience, jnp.zeros((1, 12), jnp.int32))
    np.testing.assert_allclose(found.reshape(3, 2, 2), RIGHT, atol=0.1)
    best = team_values(agent, state).reshape(3, 4).argmax(1)
    assert best[0] in (2, 3) and best[2] == 3


EXPLORE = EpsilonGreedy(start=1.0, end=1.0)
QUICK = {
    "num_envs": 8,
    "learning_rate": 3e-3,
    "hidden_sizes": (32,),
    "batch_size": 64,
    "learning_starts": 256,
    "target_update_interval": 200,
}


@pytest.mark.parametrize("memory", [UniformReplay(4096), PrioritisedReplay(4096)], ids=["uniform", "prioritised"])
@pytest.mark.thorough
def test_it_plays_the_safe_game_after_training(memory, tmp_path):
    keep_compiled()
    run = forage.train(
        "vdn",
        "teams:TwoStep",
        steps=16_000,
        seeds=5,
        directory=tmp_path / "run",
        agent_options=QUICK,
        behaviour=EXPLORE,
        memory=memory,
        display="quiet",
    )
    assert run.evaluation["return"] == [7.0] * 5
    policy = forage.load(tmp_path / "run")
    _, observation = TwoStep().reset(jax.random.key(0))
    action = policy.act(jax.device_get(observation))
    assert action.shape == (2,) and action[0] == 0
    np.testing.assert_allclose(team_values(policy.agent, policy.state)[1], 7, atol=0.5)


@pytest.mark.thorough
def test_it_learns_the_same_on_the_host():
    agent = VDN(**QUICK, discount=DISCOUNT)
    learner = Learner(agent, EXPLORE, EnvironmentReward(), UniformReplay(4096), spec_of(TwoStep(), "two steps"))
    learner.check()
    runner = HostRunner([learner], lambda num_envs: OnHost(TwoStep(), num_envs), [0], 16_000)
    runner.begin()
    runner.advance(16_000 // runner.steps_per_iteration)
    found = team_values(agent, jax.device_get(runner.loops[0].state.agent))
    np.testing.assert_allclose(found, least_squares(), atol=0.5)


def test_a_member_that_is_told_its_number_has_values_of_its_own():
    spec = spec_of(TwoStep(), "two steps")
    for identity in (True, False):
        agent = VDN(hidden_sizes=(8,), identity=identity)
        hidden, state = initial_memory(agent, spec), at_once(lambda agent=agent: agent.init(jax.random.key(0), spec))
        np.testing.assert_array_equal(hidden.number, np.eye(2))
        first, second = jax.jit(jax.vmap(agent.action_values, (None, 0, None)))(state, hidden, jnp.eye(3)[0])
        assert bool((first == second).all()) is not identity


@pytest.mark.thorough
def test_memory_within_an_episode_is_each_member_s_own():
    """The values of every step of a replayed sequence are those at the time of acting."""
    spec = spec_of(TwoStep(), "two steps")
    agent = VDN(hidden_sizes=(8,), gru_size=4, burn_in=0, unroll=2, double=False)
    state = at_once(lambda: agent.init(jax.random.key(0), spec))
    hidden, seen, rows, told = initial_memory(agent, spec), jnp.eye(3)[jnp.array([[0, 0], [2, 2]])], [], []
    for time, action in enumerate(([1, 0], [1, 1])):
        told.append(jax.vmap(agent.action_values, (None, 0, 0))(state, hidden, seen[time]))
        act = jax.vmap(lambda h, o: agent.act(state, ActInputs(h, o, jax.random.key(0), False)))
        _, hidden, policy_info = act(hidden, seen[time])
        action = jnp.array(action)
        hidden = jax.vmap(agent.observe_action, (None, 0, 0))(state, hidden, action)
        over = jnp.full(2, time == 1)
        rows.append(
            Experience(seen[time], action, jnp.ones(2), seen[1], over, ~over & False, jnp.zeros(2, int), policy_info)
        )
    experience = jax.tree.map(lambda *x: jnp.stack(x)[:, None], *rows)
    q, _ = agent.values(state.network, state.target, experience, jnp.zeros((2, 1), int))
    want = [told[0][0, 1] + told[0][1, 0], told[1][0, 1] + told[1][1, 1]]
    np.testing.assert_allclose(q[:, 0], want, rtol=1e-5)


def test_bad_input():
    def make_one(environment, **more):
        return resolve("vdn", environment, steps=4000, seeds=1, **more).loop().check()

    with pytest.raises(ForageError, match="CartPole-v1 has one agent; use dqn there"):
        make_one("CartPole-v1")

    class Singles(UniformReplay):
        joint = False

    with pytest.raises(ForageError, match="VDN learns from transitions of a whole team, and Singles keeps those of"):
        make_one("teams:TwoStep", memory=Singles())
    with pytest.raises(ForageError, match="VDN acts for a team, and has no probabilities"):
        VDN().probabilities((), jnp.zeros(3), False)


def test_qmix_mixes_by_the_state():
    """Q(s, q) = elu(q |W_1(s)| + b_1(s)) |w_2(s)| + V(s), by hand in one state of two numbers."""
    spec = Spec("Team", spaces.Box(-1, 1, (1,)), spaces.Discrete(2), num_agents=2)
    mixer = jax.tree.map(np.zeros_like, at_once(lambda: Mixer(jax.random.key(0), spec, QMIX(mixing_size=2))))
    where = lambda m: (m.first.weight, m.offset.weight, m.second.bias, m.value.layers[1].bias)  # noqa: E731
    first = np.array([[1.0, -2.0, -3.0, 0.5], [0.0, 0.0, 0.0, 0.0]], np.float32)  # of the first number alone
    offset = np.array([[0.0, 0.0], [-1.0, 1.0]], np.float32)  # of the second
    mixer = equinox.tree_at(where, mixer, (first, offset, np.array([-2.0, 1.0]), np.array([0.25])))
    seen = jnp.array([[[[1.0], [7.0]]]])  # what two members see, as leaves `time batch agent ...`
    np.testing.assert_array_equal(mixer.state(seen), [[[1.0, 7.0]]])
    q = jnp.array([2.0, -1.0])
    hidden = np.array([2 * 1 - 1 * 3 - 7, 2 * 2 - 1 * 0.5 + 7])
    expected = 2 * (np.exp(hidden[0]) - 1) + hidden[1] + 0.25
    np.testing.assert_allclose(mixer.mix(q, jnp.array([1.0, 7.0])), expected, rtol=1e-5)
    slope = jax.grad(mixer.mix)(q, jnp.array([-0.3, 0.2]))
    assert (slope >= 0).all(), "no member's value lowers the team's"


@pytest.mark.thorough
def test_qmix_finds_the_eight_where_sums_prefer_the_seven():
    """No sum of values gives the payoffs of the second game; a monotonic function does."""
    options = QUICK | {"updates_per_rollout": 4, "num_envs": 4}
    every = {"behaviour": EpsilonGreedy(end=1.0), "steps": 20_000, "seeds": 3, "display": "quiet"}
    found = {
        name: forage.train(name, "teams:TwoStep", agent_options=options, evaluation_episodes=4, **every)
        for name in ("vdn", "qmix")
    }
    assert found["qmix"].score.value == 8 and found["vdn"].score.value == 7
