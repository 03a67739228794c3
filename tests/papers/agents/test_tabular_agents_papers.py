"""Tabular agents: their plans against plain loops, and their exact regret."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from gymnasium import spaces
from tiers import first

from forage.agents.q_learning.dqn import DQN
from forage.config.ranges import check_ranges
from forage.core.ports import ActInputs
from forage.core.types import GONE, Batch, Clock, Experience, ForageError, Spec
from forage.environments.tabular.makers import river_swim, seeded_garnet
from forage.environments.tabular.mdp import Tabular
from forage.environments.tabular.values import finite_horizon
from forage.environments.wrappers.noisy_tv import NoisyTV
from forage.environments.wrappers.randomness.missing import Missing
from forage.environments.wrappers.randomness.observation import ObservationNoise
from forage.environments.wrappers.randomness.reward import RewardNoise
from forage.environments.wrappers.time import TimeLimit
from forage.nn.distributions import entropy
from forage.studies.regret import expected_return, policy, regret
from forage_papers.agents.q_learning.langevin_dqn import LangevinDQN
from forage_papers.agents.tabular import base as tabular
from forage_papers.agents.tabular.base import Counts
from forage_papers.agents.tabular.maxent import MaxEnt
from forage_papers.agents.tabular.psrl import PSRL
from forage_papers.agents.tabular.ucbvi import UCBVI, bound

CLOCK = Clock(jnp.int32(0), jnp.float32(200))
KEY = jax.random.key(0)
STATES, ACTIONS, HORIZON = 3, 2, 4
SPEC = Spec("Table", spaces.Discrete(STATES), spaces.Discrete(ACTIONS), horizon=HORIZON)


def experience(rows, time=None):
    """Rows of (state, action, reward, next state, terminated), one step each in one environment."""
    state, action, reward, following, terminated = (np.array(x) for x in zip(*rows, strict=True))
    column = lambda x, dtype: np.asarray(x, dtype)[:, None]  # noqa: E731
    none = column(np.zeros(len(rows)), bool)
    policy_info = column(np.arange(len(rows)) if time is None else time, jnp.int32)
    return Experience(
        column(state, jnp.int32), column(action, jnp.int32), column(reward, jnp.float32),
        column(following, jnp.int32), column(terminated, bool), none, column(0 * state, jnp.int32), policy_info,
    )  # fmt: skip


ROWS = [(0, 1, 0.0, 1, 0), (1, 1, 0.5, 1, 0), (1, 1, 1.0, 2, 0), (2, 0, 1.0, 0, 1)]


@pytest.mark.parametrize(
    "agent", first(1, [UCBVI(bonus_scale=0.0), PSRL(), MaxEnt(episodes=1)]), ids=["ucbvi", "psrl", "maxent"]
)
def test_agents_learn_nothing_from_who_has_left(agent):
    """As if the last step, which would have ended an episode, were absent."""
    state = small.at_once(lambda: agent.init(KEY, SPEC))
    gone = experience(ROWS, [0] * 4)._replace(source=np.array([[0], [0], [0], [GONE]], np.int32))
    one, other = (
        jax.jit(agent.learn)(state, Batch(rows, np.ones(1), np.zeros(1, int)), CLOCK, KEY)[0]
        for rows in (gone, experience(ROWS[:3], [0] * 3))
    )
    jax.tree.map(np.testing.assert_array_equal, one, other)


def plan_by_loops(counts, visits, before, total, kind, scale, failure=0.05):
    """UCBVI's plan, state by state, as the paper writes it."""
    n, p = np.asarray(counts.taken), np.asarray(counts.next)
    log = np.log(5 * STATES * ACTIONS * total / failure)
    values = np.zeros(STATES)
    plan = np.zeros((HORIZON, STATES, ACTIONS))
    for t in reversed(range(HORIZON)):
        for s in range(STATES):
            for a in range(ACTIONS):
                if n[s, a] == 0:
                    plan[t, s, a] = HORIZON
                    continue
                share = p[s, a] / n[s, a]
                if kind == "hoeffding":
                    bonus = 7 * HORIZON * log / np.sqrt(n[s, a])
                else:
                    spread = share @ values**2 - (share @ values) ** 2
                    rest = 0.0
                    for y in range(STATES):
                        most = HORIZON**2
                        if t + 1 < HORIZON:
                            seen = max(visits[t + 1, y], 1)
                            most = min(most, 1e4 * HORIZON**3 * STATES**2 * ACTIONS * log**2 / seen)
                        else:
                            most = 0.0
                        rest += share[y] * most
                    bonus = np.sqrt(8 * log * spread / n[s, a]) + 14 * HORIZON * log / (3 * n[s, a])
                    bonus += np.sqrt(8 * rest / n[s, a])
                reward = float(counts.reward[s, a]) / n[s, a]
                plan[t, s, a] = min(before[t, s, a], HORIZON, reward + share @ values + scale * bonus)
        values = plan[t].max(-1)
    return plan


@pytest.mark.parametrize("kind", ["hoeffding", "bernstein"])
def test_ucbvi_plans_as_the_paper_writes_it(kind):
    agent = UCBVI(bonus=kind, bonus_scale=0.01)
    state = small.at_once(lambda: agent.init(KEY, SPEC))
    rows, time = ROWS * 5 + [(0, 0, 0.2, 2, 0)] * 3, [0, 1, 2, 3] * 5 + [0] * 3
    batch = Batch(experience(rows, time), np.ones(1), np.zeros(1, int))
    learn = jax.jit(agent.learn)
    after, _, _ = learn(state, batch, CLOCK, KEY)
    expected = plan_by_loops(after.counts, np.asarray(after.visits), np.asarray(state.plan), 200, kind, 0.01)
    np.testing.assert_allclose(after.plan, expected, rtol=1e-4)
    assert (expected < HORIZON).any() and (after.plan[:, 1, 0] == HORIZON).all()
    # Much better luck: values were lower in the episode before, and stay so.
    lucky = [(0, 1, 1.0, 1, 0), (1, 1, 1.0, 1, 0), (1, 1, 1.0, 2, 0), (2, 0, 1.0, 0, 1)] * 5
    later, _, _ = learn(after, Batch(experience(lucky, [0, 1, 2, 3] * 5), np.ones(1), np.zeros(1, int)), CLOCK, KEY)
    again = plan_by_loops(later.counts, np.asarray(later.visits), expected, 200, kind, 0.01)
    np.testing.assert_allclose(later.plan, again, rtol=1e-4)
    assert (np.asarray(later.plan) <= expected + 1e-4).all() and (again == expected).any() and (again < expected).any()


def test_a_plan_stands_until_an_episode_ends():
    agent = UCBVI()
    state = small.at_once(lambda: agent.init(KEY, SPEC))
    going_on = Batch(experience(ROWS[:3]), np.ones(1), np.zeros(1, int))
    after, _, _ = jax.jit(agent.learn)(state, going_on, CLOCK, KEY)
    np.testing.assert_array_equal(after.plan, state.plan)
    assert after.counts.taken.sum() == 3


@pytest.mark.thorough
def test_posterior_sampling_draws_around_what_was_seen():
    agent = PSRL(prior=0.5, prior_reward=0.0, prior_number=2.0, prior_shape=3.0, prior_rate=1.0)
    counts = Counts.nothing(STATES, ACTIONS).add(experience(ROWS))
    mean, number, shape, rate = (np.asarray(x)[1, 1] for x in agent.rewards(counts))
    # Two rewards, 0.5 and 1, beside two imagined zeros.
    assert (mean, number, shape) == (1.5 / 4, 4.0, 4.0)
    np.testing.assert_allclose(rate, 1.0 + (0.125 + 2 * 2 * 0.75**2 / 4) / 2)
    many = jax.tree.map(lambda x: 1e6 * x, counts)
    known = agent.posterior(counts)  # half an observation, shared by three states; of an end only what was seen
    np.testing.assert_allclose(known[1, 1], [1 / 6, 7 / 6, 7 / 6, 0], rtol=1e-6)
    np.testing.assert_allclose(known[2, 0], [1 / 6, 1 / 6, 1 / 6, 1], rtol=1e-6)
    drawn = jax.jit(agent.draw_plan, static_argnums=1)(many, HORIZON, KEY)
    state = small.at_once(lambda: agent.init(KEY, SPEC))._replace(counts=many)
    # After a million visits nothing is left to be drawn where all was tried, one step before the end.
    np.testing.assert_allclose(drawn[-1, 1, 1], 0.75, atol=1e-2)
    np.testing.assert_allclose(agent.mean_plan(state)[-1, 1, 1], 0.75, atol=1e-2)
    np.testing.assert_allclose(drawn[-1, 2, 0], 1.0, atol=1e-2)


def test_a_small_prior_expects_few_next_states():
    """Its weights are too small for a number, but not their logarithms."""
    agent = PSRL(prior=0.01)
    counts = Counts.nothing(30, 4)
    drawn = np.asarray(jax.jit(agent.transition)(counts, KEY))
    np.testing.assert_allclose(drawn.sum(-1), 1.0, rtol=1e-5)
    assert drawn.max(-1).mean() > 0.95
    assert len(np.unique(drawn.argmax(-1))) > 20  # but not always the same


@pytest.mark.thorough
def test_with_all_known_every_plan_is_the_best():
    mdp = seeded_garnet(max_steps=6)
    weight = 1e6
    taken = np.full(mdp.transition.shape[:2], weight)
    reward = mdp.reward if mdp.reward.ndim == 2 else (mdp.transition * mdp.reward).sum(-1)
    counts = Counts(weight * mdp.transition, taken, weight * reward, weight * reward**2)
    values, actions = finite_horizon(mdp, 6)
    plan = PSRL().mean_plan(small.at_once(lambda: PSRL().init(KEY, spec(mdp)))._replace(counts=counts))
    np.testing.assert_allclose(plan.max(-1), values, rtol=1e-3, atol=1e-3)
    best = jax.nn.one_hot(actions, mdp.num_actions)
    np.testing.assert_allclose(expected_return(mdp, best), mdp.initial @ values[0], rtol=1e-5)


def spec(mdp: Tabular) -> Spec:
    return Spec("MDP", mdp.observation_space, mdp.action_space, horizon=mdp.horizon)


@pytest.mark.parametrize(("agent", "most"), [(UCBVI(bonus_scale=0.002), 30.0), (PSRL(), 70.0)], ids=["ucbvi", "psrl"])
@pytest.mark.thorough
def test_regret_stops_growing(agent, most):
    mdp = river_swim(6, max_steps=20)
    found = regret(agent, mdp, 600, [0, 1])
    assert found.shape == (2, 600) and (found > -1e-4).all()
    total = found.cumsum(1)[:, -1]
    assert (total < most).all() and (found[:, -50:].mean(1) < 0.02).all()
    assert (total < bound("bernstein", 6, 2, 20, 600)).all()


@pytest.mark.thorough
def test_without_a_bonus_regret_grows_on():
    mdp = river_swim(6, max_steps=20)
    greedy = regret(UCBVI(bonus_scale=0.0), mdp, 300, [0, 1, 2])
    assert greedy[:, -50:].mean() > 0.1


def test_the_bounds_by_hand():
    log = np.log(5 * 4 * 2 * 3 * 4 * 100 / 0.05)
    coarse = 20 * 4**1.5 * log * np.sqrt(600) + 250 * 16 * 4 * 3 * log**2
    fine = 30 * 4 * log * np.sqrt(600) + 2500 * 16 * 4 * 3 * log**2 + 4 * 4**1.5 * np.sqrt(100 * log)
    np.testing.assert_allclose(bound("hoeffding", 2, 3, 4, 100), coarse, rtol=1e-5)
    np.testing.assert_allclose(bound("bernstein", 2, 3, 4, 100), fine, rtol=1e-5)


def test_maxent_goes_where_the_mixture_was_not():
    agent = MaxEnt(episodes=1, capacity=4)
    state = small.at_once(lambda: agent.init(KEY, SPEC))
    # State 2 was never done anything in; action 1 in state 1 leads there half the time.
    rows = [(0, 1, 0.0, 1, 0), (0, 0, 0.0, 0, 0), (1, 1, 0.0, 2, 0), (1, 0, 0.0, 0, 0), (0, 0, 0.0, 0, 1)]
    batch = Batch(experience(rows, [0] * 5), np.ones(1), np.zeros(1, int))
    after, metrics, _ = jax.jit(agent.learn)(state, batch, CLOCK, KEY)
    np.testing.assert_allclose(after.mixture, [0.6, 0.4, 0.0], rtol=1e-6)
    np.testing.assert_allclose(metrics["visitation_entropy"], -(0.6 * np.log(0.6) + 0.4 * np.log(0.4)), rtol=1e-5)
    assert after.rounds == 1 and after.seen.sum() == 0 and after.ended == 0
    assert after.policies[1, 0, 1] == 1 and after.policies[1, 0, 0] == 1  # on to state 2
    batch = Batch(experience(rows, [1] * 5), np.ones(1), np.zeros(1, int))
    again, _, _ = jax.jit(agent.learn)(after, batch, CLOCK, KEY)
    np.testing.assert_allclose(again.weights[:2], [0.5, 0.5])  # rounds weigh alike
    np.testing.assert_allclose(entropy(np.array([0.25] * 4)), np.log(4), rtol=1e-6)


def test_a_round_of_maxent_is_of_the_episodes_that_its_policy_began():
    """Two environments: the first ends the round at once, the second continues its episode in the next one."""
    agent = MaxEnt(episodes=1, num_envs=2)
    state = small.at_once(lambda: agent.init(KEY, SPEC))
    learn = jax.jit(agent.learn)

    def state_after(state, number, ended):
        one = jax.tree.map(lambda x: np.repeat(x, 2, 1), experience([(0, 0, 0.0, 1, 0)]))
        one = one._replace(observation=np.array([number]), terminated=np.array([ended]), policy_info=np.array([began]))
        return learn(state, Batch(one, np.ones(2), np.arange(2)), CLOCK, KEY)[0]

    began = [0, 0]
    state = state_after(state, [0, 1], [True, False])
    assert state.rounds == 1
    began = [1, 0]
    state = state_after(state, [2, 1], [False, True])
    assert state.rounds == 1 and state.ended == 0 and state.seen.tolist() == [0, 0, 1]
    assert state.counts.taken.sum() == 4


@pytest.mark.parametrize("capacity", [1, 3])
def test_the_mixture_of_maxent_holds_as_many_policies_as_it_says(capacity):
    agent = MaxEnt(capacity=capacity)

    def rounds():
        state = agent.init(KEY, SPEC)
        for _ in range(5):
            state = agent.next_round(state)
        drawn = agent.act(state, ActInputs(agent.init_hidden(SPEC), jnp.int32(0), KEY, explore=True))[2]
        return state.weights, drawn

    weights, drawn = small.at_once(rounds)
    assert (weights > 0).sum() == capacity and weights[5 % (capacity + 1)] == 0 and drawn == 5


def test_maxent_follows_the_gradient_of_the_smoothed_entropy():
    agent = MaxEnt(smoothing=0.1)
    mixture = jnp.array([0.5, 0.3, 0.2])
    ones = jnp.ones((STATES, ACTIONS))
    here = Counts(jnp.broadcast_to(jnp.eye(STATES)[:, None], (STATES, ACTIONS, STATES)), ones, ones, ones)
    gradient = jax.grad(lambda d: -jnp.sum(d * jnp.log(d + 0.1)))(mixture)
    plan = jax.jit(agent.plan, static_argnums=2)(here, mixture, HORIZON)  # where every action stays
    paid = np.asarray(gradient - gradient.min())[:, None]
    np.testing.assert_allclose(plan, np.arange(HORIZON, 0, -1)[:, None, None] * (0 * ones + paid), atol=1e-5)


def test_maxent_believes_the_best_of_what_it_never_tried_to_the_end():
    agent = MaxEnt(smoothing=0.1)
    # From the rarest state, 2, all leads to the most frequent one, which nothing leaves; nothing was tried in state 1.
    rows = [(state, action, 0.0, 0, 0) for state in (0, 2) for action in range(ACTIONS)]
    counts = Counts.nothing(STATES, ACTIONS).add(experience(rows))
    mixture = jnp.array([0.7, 0.2, 0.1])
    gradient = np.asarray(-np.log(mixture + 0.1) - mixture / (mixture + 0.1))
    most = gradient.max() - gradient.min()
    plan = np.asarray(jax.jit(agent.plan, static_argnums=2)(counts, mixture, HORIZON))
    for action in range(ACTIONS):
        np.testing.assert_allclose(plan[:, 0, action], 0.0, atol=1e-6)
        np.testing.assert_allclose(plan[:, 1, action], most * np.arange(HORIZON, 0, -1), rtol=1e-5)
        np.testing.assert_allclose(plan[:, 2, action], most, rtol=1e-5)


def test_the_mixture_plays_one_policy_for_a_whole_episode():
    agent = MaxEnt(capacity=2)
    state = small.at_once(lambda: agent.init(KEY, SPEC))
    both = state.policies.at[1].set(1)
    state = state._replace(policies=both, weights=np.array([0.3, 0.7, 0.0]))

    def play(key):
        def step(hidden, key):
            action, hidden, _ = agent.act(state, ActInputs(hidden, jnp.int32(0), key, explore=False))
            return hidden, action

        return jax.lax.scan(step, agent.init_hidden(SPEC), jax.random.split(key, HORIZON))[1]

    actions = np.asarray(jax.jit(jax.vmap(play))(jax.random.split(KEY, 400)))
    assert (actions == actions[:, :1]).all() and abs(actions[:, 0].mean() - 0.7) < 0.1


@pytest.mark.parametrize("agent", [UCBVI(), PSRL(), MaxEnt()])
def test_what_they_cannot_do(agent):
    with pytest.raises(ForageError, match="needs numbered states"):
        check(agent, Spec("Vector", spaces.Box(-1, 1, (3,)), spaces.Discrete(2), horizon=5))
    with pytest.raises(ForageError, match="needs a Discrete action space"):
        check(agent, Spec("Push", spaces.Discrete(3), spaces.Box(-1, 1, (1,)), horizon=5))
    with pytest.raises(ForageError, match="have no limit"):
        check(agent, dataclasses.replace(SPEC, horizon=None))
    masked = spaces.Dict({"observation": spaces.Discrete(3), "action_mask": spaces.MultiBinary(2)})
    with pytest.raises(ForageError, match=r"Table forbids some by a mask; try dqn or ppo"):
        check(agent, dataclasses.replace(SPEC, observation_space=masked))


def test_regret_wants_episodes_of_one_length():
    with pytest.raises(ForageError, match="episodes of the same length"):
        regret(PSRL(), river_swim(max_steps=None), 10, [0])
    with pytest.raises(ForageError, match="bonus of UCBVI is one of hoeffding, bernstein"):
        UCBVI(bonus="large")
    with pytest.raises(ForageError, match="episodes of it is 1 or more, not 0"):
        check_ranges(MaxEnt(episodes=0), "it")
    with pytest.raises(ForageError, match="above 0"):
        check_ranges(PSRL(prior=0.0), "it")


@pytest.mark.parametrize("agent", [DQN(), LangevinDQN()], ids=["dqn", "langevin-dqn"])
def test_regret_is_of_what_is_played(agent):
    with pytest.raises(ForageError, match=r"plays at random as well; .* such as ucbvi, psrl or ppo"):
        regret(agent, river_swim(max_steps=5), 10, [0])


def test_a_vector_that_is_no_number_is_refused():
    """A vector of zeros and ones looks the same; its largest entry is no state's number."""
    halves = spec(river_swim(max_steps=5))
    halves = dataclasses.replace(halves, observation_space=spaces.Box(0.0, 1.0, (6,), np.float32))
    for agent in (UCBVI(), PSRL(), MaxEnt()):
        with pytest.raises(ForageError, match=r"needs numbered states, as numbers from 0 up or one-hot, .* Box\(6,\)"):
            check(agent, halves)


@pytest.mark.parametrize("wrapper", [ObservationNoise, Missing, NoisyTV])
def test_states_that_are_blurred_are_no_longer_numbered(wrapper):
    """A one-hot observation stays one if only time, actions or rewards change."""
    blurred = wrapper(river_swim(max_steps=5))
    assert blurred.observation_space == blurred.environment.observation_space  # trained agents can be played there
    for environment in (blurred, TimeLimit(blurred, 3)):
        with pytest.raises(ForageError, match=r"needs numbered states, .* gives Box\(6,\)"):
            check(PSRL(), spec(environment))
    check(PSRL(), spec(RewardNoise(TimeLimit(river_swim(max_steps=5), 3))))


def test_one_hot_states_are_numbered():
    assert tabular.index(np.eye(3)).tolist() == [0, 1, 2]
    mdp = river_swim(max_steps=5)
    assert tabular.table_sizes(spec(mdp)) == (6, 2, 5)
    state = small.at_once(lambda: UCBVI().init(KEY, spec(mdp)))
    assert policy(UCBVI(), state, mdp, 5).shape == (5, 6, 2)
