"""LESSON: drawing, ending and following options, and its networks' losses, against hand-worked numbers."""

import functools

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from gymnasium import spaces

from forage.agents.policy_gradient.ppo import PPO
from forage.agents.q_learning.dqn import DQN
from forage.core.ports import ActContext, HiddenState
from forage.core.types import GONE, Clock, Experience, ForageError, Spec
from forage.environments.classic.deep_sea import DeepSea
from forage.loop.device.loop import DeviceLoop
from forage.loop.learner import Learner
from forage.memory.uniform import UniformReplay
from forage.nn.normalise import RunningNorm
from forage.rewards.environment import EnvironmentReward
from forage.starts.reset import Reset
from forage.tasks.same import Same
from forage_papers.behaviours.action_advice import OPTIONS, ActionAdvice, AdviceState

SPEC = Spec("Table", spaces.Discrete(3), spaces.Discrete(4))
AGENT = DQN(hidden_sizes=(8,), num_envs=2, rollout_length=4, n_step=1, learning_starts=8, batch_size=4)
LESSON = ActionAdvice(
    hidden_sizes=(8,), capacity=64, batch_size=16, discount=0.5, sharpness=3.0, reward_scale=2.0, novelty_scale=0.1
)
CLOCK, KEY, HERE = Clock(jnp.int32(0), jnp.float32(1000)), jax.random.key(0), jnp.int32(0)


@functools.cache
def beginning():
    """The behaviour's state with all heads silent, and an agent that always takes action 3."""
    state = small.at_once(lambda: LESSON.init(KEY, AGENT, SPEC))
    quiet = jax.tree.map(jnp.zeros_like, state.networks)
    agent_state = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(lambda: AGENT.init(KEY, SPEC)))
    agent_state = equinox.tree_at(
        lambda s: s.network.advantage.layers[-1].bias, agent_state, jnp.array([0.0, 0.0, 0.0, 1.0])
    )
    return state._replace(networks=quiet, target=quiet), agent_state


def saying(networks, **numbers):
    """Return heads with these constant outputs."""
    for name, values in numbers.items():
        networks = equinox.tree_at(lambda n, k=name: getattr(n, k).top.layers[-1].bias, networks, jnp.array(values))
    return networks


def acts(state, hidden, observation=HERE, spec=SPEC, count=4000):
    keys = jax.random.split(jax.random.key(3), count)

    @jax.jit
    @jax.vmap
    def one(key):
        return LESSON.act(state, hidden, observation, ActContext(AGENT, beginning()[1], spec, CLOCK, key))

    return one(keys)


def following(option, repeated=0):
    return HiddenState((), AdviceState(jnp.bool_(True), jnp.int32(option), jnp.int32(repeated)))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([50.0, 0.0, 0.0, 0.0], [0.85, 0.05, 0.05, 0.05]),
        ([0.0, 50.0, 0.0, 0.0], [0.0, 0.95, 0.05, 0.0]),
        ([0.0, 0.0, 0.0, 50.0], [0.0, 0.05, 0.05, 0.9]),
        ([0.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]),
    ],
)
def test_the_agents_own_option_has_what_the_others_leave(values, expected):
    np.testing.assert_allclose(ActionAdvice().shares(jnp.array(values)), expected, atol=1e-6)


def test_options_are_drawn_by_their_values_within_bounds():
    values = np.array([2.0, 1.0, -50.0, 0.0])
    weights = np.exp(3 * values / 2)
    expected = np.clip(weights / weights.sum(), 0.05, 0.95)
    expected[0] = 1 - expected[1:].sum()
    np.testing.assert_allclose(LESSON.shares(jnp.asarray(values)), expected, rtol=1e-5)
    state, _ = beginning()
    state = state._replace(networks=saying(state.networks, options=values.tolist()))
    _, (_, followed), _, _, behaviour_info = acts(state, HiddenState((), LESSON.init_hidden(AGENT, SPEC)))
    np.testing.assert_allclose(np.bincount(behaviour_info, minlength=4) / 4000, expected, atol=0.04)  # 5 deviations
    np.testing.assert_array_equal(behaviour_info, followed.option)
    assert followed.begun.all()


@pytest.mark.parametrize(("logit", "ends"), [(-100.0, 0.1), (0.0, 0.5), (100.0, 0.9)])
def test_an_option_is_followed_until_it_ends(logit, ends):
    state, _ = beginning()
    state = state._replace(networks=saying(state.networks, terminations=[0.0, logit, 0.0, 0.0]))
    _, (_, followed), *_ = acts(state, following(1))
    np.testing.assert_allclose(np.mean(followed.option == 1), 1 - ends + ends / 4, atol=0.04)


def test_what_each_option_does():
    state, _ = beginning()
    state = state._replace(networks=saying(state.networks, explorer=[0.0, 0.0, 5.0, 0.0], terminations=[-100.0] * 4))
    for option, only in enumerate([3, None, 1, 2]):  # the agent's, any, the one repeated, the newest
        action, (_, followed), *_ = acts(state, following(option, repeated=1))
        kept = np.asarray(action)[np.asarray(followed.option) == option]
        if only is None:
            np.testing.assert_allclose(np.bincount(kept, minlength=4) / len(kept), 0.25, atol=0.05)
        else:  # an end by chance may draw the same option anew, with another action to repeat
            assert np.mean(kept == only) > (0.95 if option == 2 else 0.999)


def test_masked_actions_are_never_taken():
    seen = spaces.Dict({"observation": spaces.Discrete(3), "action_mask": spaces.MultiBinary(4)})
    spec = Spec("Masked", seen, SPEC.action_space)
    state, _ = beginning()
    state = state._replace(networks=saying(state.networks, explorer=[5.0, 1.0, 0.0, 0.0]))
    observation = {"observation": jnp.int32(0), "action_mask": jnp.array([0, 1, 0, 1], jnp.int8)}
    action, *_ = acts(state, following(2, repeated=0), observation, spec)
    assert set(np.asarray(action).tolist()) == {1, 3}


def test_the_loss_by_hand():
    """One transition, of option 2 and action 1, and a terminal one, of option 0 and action 3."""
    state, _ = beginning()
    networks = saying(
        state.networks, options=[1.0, 2.0, 3.0, 4.0], terminations=[0.0, 0.0, 1.0, 0.0], explorer=[1.0, 2.0, 0.0, 0.5]
    )
    target = saying(state.target, options=[10.0, 20.0, 30.0, 40.0], explorer=[0.0, 6.0, 0.0, 0.0])
    state = state._replace(target=target, novelty=RunningNorm(jnp.float32(9.0), jnp.float32(0.5), jnp.float32(4.0)))
    state = state._replace(fixed=jax.tree.map(jnp.zeros_like, state.fixed))
    rows = jnp.zeros(2, jnp.int32)
    batch = Experience(
        rows, jnp.array([1, 3]), jnp.array([1.0, -1.0]), rows, jnp.array([False, True]), jnp.array([False, False]),
        rows, (), (jnp.array([2, 0]), jnp.array([4.0, 2.0])),
    )  # fmt: skip
    ends = 1 / (1 + np.exp(-1))
    new = (4 - 0.5) / 2, (2 - 0.5) / 2
    goal = 2 * 1 + 0.1 * new[0] + 0.5 * ((1 - ends) * 30 + ends * 40), -2 * 1 + 0.1 * new[1]
    choice = (3 - goal[0]) ** 2 / 2, (1 - goal[1]) ** 2 / 2
    behind = np.array([30 - 40, 10 - 40])
    termination = ends * (behind[0] - behind.mean()), 0.0
    exploring = abs(new[0] + 0.5 * 6 - 2) - 0.5, (new[1] - 0.5) ** 2 / 2
    expected = np.mean([choice[i] + termination[i] + exploring[i] for i in range(2)])
    np.testing.assert_allclose(jax.jit(LESSON.loss)(networks, state, batch), expected, rtol=1e-4)


def test_nothing_is_learned_of_who_has_left():
    state, _ = beginning()
    rows = jnp.arange(8).reshape(4, 2) % 3
    source = jnp.zeros((4, 2), jnp.int32).at[2:, 1].set(GONE)
    no = jnp.zeros((4, 2), bool)

    @jax.jit
    def report(seen):
        rollout = Experience(rows, rows, 1.0 * rows, seen, no, no | (source == GONE), source, (), behaviour_info=rows)
        return LESSON.report(state, rollout, ActContext(AGENT, beginning()[1], SPEC, CLOCK, KEY))

    one, other = report(rows), report(jnp.where(source == GONE, (rows + 1) % 3, rows))
    assert one.novelty.count == 6
    jax.tree.map(np.testing.assert_array_equal, one.novelty, other.novelty)


def test_an_end_is_compared_with_those_of_who_is_there():
    state, _ = beginning()
    state = state._replace(target=saying(state.target, options=[1.0, 2.0, 3.0, 4.0]))
    rows = jnp.zeros(3, jnp.int32)
    no = jnp.zeros(3, bool)

    @jax.jit
    def slope(options):
        source = jnp.array([0, 0, GONE])
        batch = Experience(rows, rows, 1.0 * rows, rows, no, no, source, (), (options, jnp.zeros(3)))
        return jax.grad(LESSON.loss)(state.networks, state, batch).terminations.top.layers[-1].bias

    for gone in (0, 1):  # which option that one followed makes no difference
        np.testing.assert_allclose(slope(jnp.array([1, 3, gone])), [0, -1 / 12, 0, 1 / 12], atol=1e-6)


@pytest.mark.thorough
def test_in_the_loop_it_learns_remembers_and_keeps_to_itself():
    environment = DeepSea(4)
    spec = Spec("DeepSea-4", environment.observation_space, environment.action_space)
    learner = Learner(AGENT, LESSON, EnvironmentReward(), UniformReplay(capacity=64), spec)
    learner.check()
    loop = DeviceLoop(learner, environment, Same(), Reset())

    @jax.jit
    def run():
        state = loop.init(KEY)

        def turn(carry, _):
            state, clock = carry
            after, _ = loop.iterate(state, clock)
            clock = clock._replace(steps=clock.steps + loop.steps_per_iteration)
            return (after, clock), after.learner.behaviour.ring.rewards_info[0]

        return state, *jax.lax.scan(turn, (state, CLOCK), None, 40)

    before, (after, _), options = run()
    assert (
        after.learner.memory.policy_info == after.learner.memory.behaviour_info == ()
    )  # the agent hears nothing of it
    lesson = after.learner.behaviour
    assert lesson.novelty.count == 40 * 8 and lesson.updates == 40
    assert set(np.unique(options[-1]).tolist()) == set(range(len(OPTIONS)))  # 64 draws
    np.testing.assert_array_equal(options[-1], lesson.ring.rewards_info[0])
    np.testing.assert_array_equal(lesson.ring.observation, after.learner.memory.observation)
    start = before.learner.behaviour
    for name in lesson.networks._fields:
        pairs = zip(*(jax.tree.leaves(getattr(s.networks, name)) for s in (start, lesson)), strict=True)
        assert any((a != b).any() for a, b in pairs), name
    jax.tree.map(np.testing.assert_array_equal, start.fixed, lesson.fixed)


@pytest.mark.parametrize(
    ("agent", "spec", "words"),
    [
        (AGENT, Spec("Pendulum-v1", SPEC.observation_space, spaces.Box(-2, 2, (1,))), r"Pendulum-v1 has Box\(1,\)"),
        (PPO(), SPEC, "PPO learns only from actions that it chose itself"),
        (AGENT, Spec("Two", SPEC.observation_space, SPEC.action_space, ("gold", "time")), "several rewards"),
    ],
)
def test_what_it_cannot_do(agent, spec, words):
    with pytest.raises(ForageError, match=words):
        check(LESSON, agent, spec)
