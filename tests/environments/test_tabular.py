"""Tabular MDPs: their steps follow their arrays, and their solutions agree with tables made by hand."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from beside import Beside, assert_beside

from forage.core.types import ForageError
from forage.environments import make
from forage.environments.classic.cartpole import CartPole
from forage.environments.tabular.ids import ENTRIES
from forage.environments.tabular.makers import (
    chain,
    frozen_lake,
    garnet,
    grid_world,
    river_swim,
    russell_norvig,
    seeded_garnet,
)
from forage.environments.tabular.mdp import Tabular, TabularState
from forage.environments.tabular.values import (
    deterministic,
    expected_return,
    expected_reward,
    finite_horizon,
    finite_horizon_return,
    gain_and_bias,
    occupancy,
    optimal,
    optimal_gain,
    policy_values,
    stationary,
    uniform_policy,
)
from forage.environments.wrappers.piecewise import Piecewise

KEY = jax.random.key(0)


def loop(**changes):
    """Two states. From 0: stay for 1, or end (entering 2) with 1/2, else go to 1, for 0. From 1: back to 0, for 4."""
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 0] = 1
    transition[0, 1, 1] = transition[0, 1, 2] = 0.5
    transition[1, :, 0] = 1
    transition[2, :, 2] = 1
    arrays = {
        "transition": transition,
        "reward": np.array([[1.0, 0.0], [4.0, 4.0], [9.0, 9.0]]),  # what the end pays is never had
        "initial": np.array([0.5, 0.5, 0.0]),
        "terminal": np.array([False, False, True]),
    }
    return Tabular(**{**arrays, **changes})


def test_values_by_hand():
    """With discount 1/2. Staying: V0 = 1 / (1 - 1/2) = 2, V1 = 4 + 1 = 5. Leaving: V0 = V1 / 4, V1 = 4 + V0 / 2."""
    mdp = loop()
    stay, leave = deterministic(mdp, jnp.array([0, 0, 0])), deterministic(mdp, jnp.array([1, 0, 0]))
    np.testing.assert_allclose(policy_values(mdp, stay, 0.5), [2, 5, 0], rtol=1e-5)
    np.testing.assert_allclose(policy_values(mdp, leave, 0.5), [8 / 7, 32 / 7, 0], rtol=1e-5)
    np.testing.assert_allclose(expected_return(mdp, stay, 0.5), 3.5, rtol=1e-5)
    best = jax.jit(optimal)(mdp, 0.5)
    np.testing.assert_allclose(best.values, [2, 5, 0], rtol=1e-5)
    np.testing.assert_allclose(best.action_values, [[2, 1.25], [5, 5], [0, 0]], rtol=1e-5)
    assert best.policy[0].tolist() == [1, 0]
    # Leaving surely ends, so it has a return without discount: V0 = V1 / 2 and V1 = 4 + V0 give 4 and 8.
    np.testing.assert_allclose(policy_values(mdp, leave, 1.0), [4, 8, 0], rtol=1e-5)
    # Without memory of time, in two steps: from 0 stay and stay is 2, leave is 1/2 * 4 = 2; from 1: 4 + 1.
    values, actions = finite_horizon(mdp, 2)
    np.testing.assert_allclose(values, [[2, 5, 0], [1, 4, 0]], rtol=1e-6)
    assert actions[1, 0] == 0
    np.testing.assert_allclose(finite_horizon_return(mdp, leave, 2), (2 + 4) / 2, rtol=1e-6)


def test_occupancy_by_hand():
    """Leaving, undiscounted: n0 = 1/2 + n1 and n1 = 1/2 + n0 / 2, so 2 and 3/2 visits."""
    mdp = loop()
    leave = deterministic(mdp, jnp.array([1, 0, 0]))
    visits = occupancy(mdp, leave, 1.0)
    np.testing.assert_allclose(visits, [2, 1.5, 0], rtol=1e-5)
    earned = (visits[:, None] * leave * expected_reward(mdp)).sum()
    np.testing.assert_allclose(earned, expected_return(mdp, leave, 1.0), rtol=1e-5)
    # Episode after episode the shares are the same visits, made to sum to one.
    np.testing.assert_allclose(stationary(mdp, leave), [4 / 7, 3 / 7, 0], rtol=1e-5)


def test_gain_and_bias_by_hand():
    """Leaving earns 6 in an episode of 3.5 decisions. h0 = -g + h1 / 2 + (h0 + h1) / 4, h1 = 4 - g + h0."""
    mdp = loop()
    leave = deterministic(mdp, jnp.array([1, 0, 0]))
    gain, bias = gain_and_bias(mdp, leave)
    np.testing.assert_allclose(gain, 12 / 7, rtol=1e-5)
    h0, h1 = np.asarray(bias)[:2]
    np.testing.assert_allclose([h1 - h0, 4 * h0 / 7 + 3 * h1 / 7], [4 - 12 / 7, 0], atol=1e-5)
    np.testing.assert_allclose(h0, -12 / 7 + h1 / 2 + (h0 + h1) / 4, atol=1e-5)
    policy, best = optimal_gain(mdp)
    np.testing.assert_allclose(best.gain, 12 / 7, rtol=1e-5)  # staying earns 1
    assert policy[0].tolist() == [0, 1]


def test_chain_pays_what_is_published():
    """Strens (2000): the optimum of 1000 steps is 3677."""
    policy, best = optimal_gain(chain())
    assert abs(1000 * float(best.gain) - 3677) < 1
    np.testing.assert_array_equal(policy, deterministic(chain(), jnp.zeros(5, int)))


@pytest.mark.thorough
def test_river_swim_is_worth_swimming():
    mdp = river_swim()
    best = optimal(mdp, 0.95)
    np.testing.assert_array_equal(best.policy.argmax(-1), np.ones(6))
    left = deterministic(mdp, jnp.zeros(6, int))
    np.testing.assert_allclose(policy_values(mdp, left, 0.95)[0], 5e-4 / 0.05, rtol=1e-4)
    # The current: up with 0.3, down with 0.1 but for the last state; the detailed balance of a birth-death chain.
    share = stationary(mdp, deterministic(mdp, jnp.ones(6, int)))
    up, down = np.full(5, 0.3), np.array([0.1, 0.1, 0.1, 0.1, 0.7])
    weights = np.concatenate([[1.0], np.cumprod(up / down)])
    np.testing.assert_allclose(share, weights / weights.sum(), rtol=1e-4)


@pytest.mark.thorough
def test_russell_and_norvigs_utilities():
    """Their figure: 0.812 0.868 0.918 above 0.762 0.660 above 0.705 0.655 0.611 0.388."""
    values, _ = finite_horizon(russell_norvig(), 200)
    expected = [0.812, 0.868, 0.918, 0, 0.762, 0.660, 0, 0.705, 0.655, 0.611, 0.388]
    np.testing.assert_allclose(values[0], expected, atol=6e-4)


LAKES = [(4, True), (4, False), (8, True)]


def lake_beside(size: int, slippery: bool) -> Beside:
    """Our tables and Gymnasium's, for every action in every state that is not an end."""
    reference = gymnasium.make("FrozenLake-v1", map_name=f"{size}x{size}", is_slippery=slippery).unwrapped
    mdp = frozen_lake(size, slip=2 / 3 if slippery else 0.0)
    transition, reward = np.zeros(mdp.transition.shape), np.zeros(mdp.transition.shape[:2])
    terminal = np.zeros(mdp.num_states, bool)
    for state, actions in reference.P.items():
        for action, ways in actions.items():
            for probability, following, pay, ended in ways:
                transition[state, action, following] += probability
                reward[state, action] += probability * pay
                terminal[following] |= ended
    live = ~np.asarray(mdp.terminal)
    return {
        "transitions": (np.asarray(mdp.transition)[live], transition[live]),
        "rewards": (np.asarray(expected_reward(mdp))[live], reward[live]),
        "ends": (mdp.terminal, terminal),
        "starts": (mdp.initial, reference.initial_state_distrib),
    }


@pytest.mark.parametrize(("size", "slippery"), LAKES)
@pytest.mark.thorough
def test_frozen_lake_is_gymnasiums(size, slippery):
    assert_beside(lake_beside(size, slippery), transitions=1e-6, rewards=1e-6)


def test_steps_follow_the_arrays():
    """Frequencies of 4000 draws from each state and action, within five standard deviations."""
    mdp = river_swim()
    keys = jax.random.split(KEY, 4000)

    def draw(index, action):
        step = lambda key: mdp.step(TabularState(index, jnp.int32(0)), action, key)  # noqa: E731
        return jax.vmap(step)(keys)

    states, actions = np.indices((6, 2)).reshape(2, -1)
    after, steps = jax.jit(jax.vmap(draw))(jnp.asarray(states), jnp.asarray(actions))
    found = np.stack([np.bincount(row, minlength=6) / 4000 for row in np.asarray(after.index)])
    expected = np.asarray(mdp.transition)[states, actions]
    assert (np.abs(found - expected) <= 5 * np.sqrt(expected * (1 - expected) / 4000)).all()
    np.testing.assert_allclose(np.asarray(steps.reward).max(1)[[0, -1]], [5e-4, 1.0])
    first, _ = jax.vmap(lambda key: mdp.reset(key))(keys)
    assert set(np.unique(first.index)) == {1, 2}


@pytest.mark.thorough
def test_returns_of_play_agree_with_values():
    mdp = loop(max_steps=6)

    def play(key):
        reset_key, key = jax.random.split(key)
        state, _ = mdp.reset(reset_key)

        def advance(carry, key):
            state, over = carry
            state, step = mdp.step(state, jnp.int32(1), key)
            ended = step.terminated | step.truncated
            return (state, over | ended), (jnp.where(over, 0.0, step.reward), step.truncated & ~over)

        keys = jax.random.split(key, 6)
        (_, over), (rewards, truncated) = jax.lax.scan(advance, (state, jnp.zeros((), bool)), keys)
        return rewards.sum(), over, truncated

    returns, over, truncated = jax.jit(jax.vmap(play))(jax.random.split(KEY, 4000))
    expected = finite_horizon_return(mdp, deterministic(mdp, jnp.array([1, 1, 1])), 6)
    assert over.all() and truncated[:, 5].any() and not truncated[:, :5].any()
    assert abs(returns.mean() - expected) < 5 * returns.std() / np.sqrt(4000)


@pytest.mark.thorough
def test_a_batch_of_random_mdps_is_one_vmap():
    mdps = jax.vmap(lambda key: garnet(key, states=8, actions=3, branching=2))(jax.random.split(KEY, 5))
    assert mdps.transition.shape == (5, 8, 3, 8)
    np.testing.assert_allclose(mdps.transition.sum(-1), 1, atol=1e-5)
    assert ((mdps.transition > 0).sum(-1) == 2).all() and len(np.unique(mdps.reward)) > 100

    @jax.jit
    @jax.vmap
    def solve(mdp):
        best = optimal(mdp, 0.9)
        residual = jnp.abs(best.action_values.max(-1) - best.values).max()
        after = mdp.step(TabularState(jnp.int32(0), jnp.int32(0)), jnp.int32(2), KEY)[0]
        return residual, expected_return(mdp, best.policy, 0.9) - expected_return(mdp, uniform_policy(mdp), 0.9), after

    residual, advantage, after = solve(mdps)
    assert residual.max() < 2e-4 and (advantage > 0.1).all()
    assert (np.take_along_axis(np.asarray(mdps.transition[:, 0, 2]), np.asarray(after.index)[:, None], 1) > 0).all()


def test_policy_iteration_agrees_with_backward_induction():
    mdp = garnet(KEY, states=8, actions=3, branching=2)
    np.testing.assert_allclose(jax.jit(optimal)(mdp, 0.8).values, finite_horizon(mdp, 80, 0.8)[0][0], rtol=1e-4)


@pytest.mark.thorough
def test_grid_world_in_letters():
    mdp = grid_world(("S.#", "#.G"), step_reward=-1.0, goal_reward=10.0)
    assert mdp.num_states == 4 and mdp.positions == ((0, 0), (1, 0), (1, -1), (2, -1))
    # Right, down, right: two prices and the goal.
    values, actions = finite_horizon(mdp, 5)
    np.testing.assert_allclose(values[0], [7, 8, 9, 0])
    assert actions[0, :3].tolist() == [2, 1, 2]


@pytest.mark.thorough
def test_piecewise_changes_at_its_times():
    first, second = loop(), loop(reward=np.array([[-1.0, 0.0], [4.0, 4.0], [9.0, 9.0]]))
    env = Piecewise.from_phases((first, second, first), times=(2, 5))
    state, _ = env.reset(KEY)
    state = state._replace(inner=state.inner._replace(index=jnp.int32(0)))
    step = jax.jit(lambda env, state: env.step(state, jnp.int32(0), KEY))
    rewards = []
    for _ in range(7):
        state, out = step(env, state)
        rewards.append(float(out.reward))
    assert rewards == [1, 1, -1, -1, -1, 1, 1]
    assert env.horizon is None
    # Any environment: a pole that grows.
    poles = Piecewise.from_phases((CartPole(), CartPole(length=1.5)), times=(3,))
    assert poles.horizon == 500 and poles.observation_space.shape == (4,)
    state, _ = poles.reset(KEY)
    state = state._replace(time=jnp.int32(3))
    grown = CartPole(length=1.5).step(state.inner, jnp.int32(1), KEY)[1].observation
    np.testing.assert_allclose(poles.step(state, jnp.int32(1), KEY)[1].observation, grown, rtol=1e-6)


def test_every_id_is_made():
    for name in ENTRIES:
        env = make(name)
        assert isinstance(env, Tabular) and env.horizon >= 100
    assert make("tabular:riverswim-6", size=9).num_states == 9
    one, other = make("tabular:Garnet-20"), make("tabular:Garnet-20", seed=1)
    assert not np.array_equal(one.transition, other.transition)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: loop(transition=np.ones((3, 3))), ["transition", "(3, 3)", "(states, actions, states)"]),
        (lambda: loop(transition=np.ones((3, 2, 4))), ["(3, 2, 4)"]),
        (lambda: loop(transition=np.full((3, 2, 3), 0.4)), ["transition[0, 0]", "sum to 1", "1.2"]),
        (lambda: loop(transition=np.tile([2.0, -1.0, 0.0], (3, 2, 1))), ["at least 0"]),
        (lambda: loop(transition=np.full((3, 2, 3), np.nan)), ["transition[0, 0]", "nan"]),
        (lambda: loop(reward=np.zeros(3)), ["reward has shape (3,)", "(3, 2) or (3, 2, 3)"]),
        (lambda: loop(initial=np.zeros(3)), ["initial", "sum to 1"]),
        (lambda: loop(initial=np.ones(2) / 2), ["initial has shape (2,)", "(3,)"]),
        (lambda: loop(initial=np.array([0.0, 0.0, 1.0])), ["state 2, which is terminal"]),
        (lambda: loop(max_steps=0), ["max_steps 0"]),
        (lambda: loop(positions=((0.0, 0.0),)), ["positions has 1", "3 states"]),
        (lambda: river_swim(2), ["size 2", "from 3 up"]),
        (lambda: chain(slip=1.5), ["slip 1.5", "probability"]),
        (lambda: river_swim("long"), ["size of river_swim", "'long'"]),
        (lambda: chain(slip=-0.5), ["slip -0.5"]),
        (lambda: seeded_garnet(seed=-1), ["seed -1"]),
        (lambda: garnet(KEY, states=3, branching=4), ["4 of 3"]),
        (lambda: frozen_lake(5), ["size 5", "4 and 8"]),
        (lambda: grid_world(("S.", "G")), ["rows of one length"]),
        (lambda: grid_world(("..G",)), ["a start"]),
        (lambda: grid_world(("S?G",)), ["'?'"]),
        (lambda: Piecewise.from_phases((loop(),), times=(3,)), ["1 environments", "(3,)"]),
        (lambda: Piecewise.from_phases((loop(), loop()), times=(0,)), ["from 1 up"]),
        (lambda: Piecewise.from_phases((loop(), river_swim()), times=(3,)), ["one class and size"]),
    ],
)
def test_mistakes_are_named(make, words):
    with pytest.raises(ForageError) as error:
        make()
    assert all(word in str(error.value) for word in words), error.value
    assert "\n" not in str(error.value)
