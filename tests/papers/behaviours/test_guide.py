"""The guide of jump-start reinforcement learning; the memory of agents under it and under epsilon-greedy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check

from forage.agents.policy_gradient.ppo import PPO
from forage.agents.q_learning.dqn import DQN
from forage.behaviours.epsilon_greedy import EpsilonGreedy
from forage.core.ports import ActContext, ActInputs, HiddenState
from forage.core.types import AGENT, GONE, GUIDE, Clock, Experience, ForageError, Spec
from forage.environments.classic.cartpole import CartPole
from forage.environments.classic.deep_sea_treasure import DeepSeaTreasure
from forage.environments.classic.pendulum import Pendulum
from forage.loop.device.loop import DeviceLoop
from forage.loop.learner import Learner
from forage.memory.uniform import UniformReplay
from forage.nn.networks import GRUState
from forage.rewards.environment import EnvironmentReward
from forage.starts.reset import Reset
from forage.tasks.same import Same
from forage_papers.behaviours.guide import Curriculum, Guide


def spec_of(environment):
    spaces = environment.observation_space, environment.action_space
    return Spec(type(environment).__name__, *spaces, environment.reward_names)


def steady(observation, key):
    """Keep the pole up for a while: push in the direction of its fall."""
    return (observation[2] + 0.5 * observation[3] > 0).astype(jnp.int32)


CLOCK = Clock(jnp.int32(0), jnp.float32(1e6))
MOMENT = ActContext(PPO(), (), spec_of(CartPole()), CLOCK, jax.random.key(0))
# Without an entropy bonus, only the policy gradient moves the actor's last layer.
PUPIL = PPO(
    num_envs=4, rollout_length=16, epochs=1, minibatches=1, hidden_sizes=(8,), gru_size=3, entropy_coefficient=0.0
)
LIMIT = 11  # steps of an episode at most


@jax.jit
def train(behaviour, stage):
    """Thirty turns of the loop. Returns all rollouts, leaves `[time, env, ...]`, and the agent before and after."""
    environment = CartPole(max_steps=LIMIT)
    learner = Learner(PUPIL, behaviour, EnvironmentReward(), small.KeptRollout(), spec_of(environment))
    loop = DeviceLoop(learner, environment, Same(), Reset())
    state = small.at_once(lambda: loop.init(jax.random.key(0)))
    if behaviour.schedule == "curriculum":
        curriculum = state.learner.behaviour._replace(stage=jnp.int32(stage))
        state = state._replace(learner=state.learner._replace(behaviour=curriculum))

    def turn(carry, _):
        before, clock = carry
        after, tally = loop.iterate(before, clock)
        rollout = after.learner.memory

        network = before.learner.agent.network

        def remember(hidden, step):  # the agent's memory, followed from what was seen and done alone
            observation, action, ended = step
            new = GRUState(jax.vmap(network.remember)(hidden, observation), jax.nn.one_hot(action, 2))
            return jax.tree.map(lambda x: jnp.where(ended[:, None], 0.0, x), new), hidden

        steps = rollout.observation, rollout.action, rollout.ended
        _, memory = jax.lax.scan(remember, before.actors.hidden.agent, steps)
        clock = clock._replace(steps=clock.steps + loop.steps_per_iteration)
        return (after, clock), (rollout, memory, tally.faults)

    (after, _), (*log, faults) = jax.lax.scan(turn, (state, CLOCK), None, 30)
    log, memory = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), log)
    return log, memory, state.learner.agent.network, after.learner.agent.network, faults.sum()


def episode_steps(ended):
    """Return the number of earlier steps of the episode at each step (`time env`)."""
    step = np.zeros(ended.shape, int)
    for time in range(1, len(ended)):
        step[time] = np.where(ended[time - 1], 0, step[time - 1] + 1)
    return step


def curriculum(steps, episodes):
    return Guide(steady, steps=steps, stages=3, episodes=episodes)


@pytest.mark.parametrize(("stage", "guided"), [(0, 6), (1, 4), (2, 2), (3, 0)])
def test_the_guide_acts_the_first_steps_of_every_episode_and_never_after(stage, guided):
    log, memory, _, network, faults = jax.device_get(train(curriculum(6, episodes=10_000), stage))
    ended = log.terminated | log.truncated
    assert ended.sum() > 150 and len(set(np.flatnonzero(ended) // 4 % 16)) == 16  # also on a rollout's last step
    steps = episode_steps(ended)
    np.testing.assert_array_equal(log.source, np.where(steps < guided, GUIDE, AGENT))
    by_guide = log.source == GUIDE
    advice = np.asarray(steady(jnp.moveaxis(log.observation, -1, 0), None))
    np.testing.assert_array_equal(log.action[by_guide], advice[by_guide])
    assert (log.action[~by_guide] != advice[~by_guide]).any()
    assert log.action.dtype == np.int32
    # The agent's memory goes on while the guide acts, and starts anew with each episode.
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), log.policy_info, memory)
    for part in memory:
        assert np.abs(part[steps > 0]).max(-1).min() > 0 and np.abs(part[steps == 0]).max() == 0
    assert not faults and all(np.isfinite(x).all() for x in jax.tree.leaves(network))


def test_an_episode_keeps_the_guided_steps_it_began_with():
    log, *_ = jax.device_get(train(curriculum(6, episodes=1), 0))  # the first stages pass within episodes
    ended = log.terminated | log.truncated
    counts, first_steps = [], []
    for env in range(4):
        ends = np.flatnonzero(ended[:, env])
        for first, last in zip([0, *(ends[:-1] + 1)], ends, strict=True):
            led = log.source[first : last + 1, env] == GUIDE
            assert led[: led.sum()].all()
            assert led.sum() in (0, 2, 4, 6)
            counts.append(led.sum())
            first_steps.append(first)
    counts = np.array(counts)[np.argsort(first_steps, kind="stable")]
    assert (np.diff(counts) <= 0).all() and counts[0] == 6 and counts[-1] < 6


def test_the_policy_learns_from_its_own_actions_only_and_the_value_from_all():
    _, _, before, guided, _ = jax.device_get(train(curriculum(1000, episodes=10_000), 0))
    _, _, _, own, _ = jax.device_get(train(curriculum(0, episodes=10_000), 0))

    def change(after, part):
        return np.abs(getattr(after, part).weight - getattr(before, part).weight).max()

    assert change(guided, "actor") == 0 and change(own, "actor") > 1e-4
    assert change(guided, "critic") > 1e-3 and change(own, "critic") > 1e-3


@pytest.mark.thorough
def test_a_trained_agent_can_guide_for_a_random_number_of_steps():
    guide = PPO(hidden_sizes=(4,), gru_size=2)
    spec = spec_of(CartPole())
    guide_state = jax.jit(lambda key: jax.tree.map(lambda x: 3 * x, guide.init(key, spec)))(jax.random.key(5))
    behaviour = Guide((guide, guide_state), steps=3, schedule="random")
    behaviour.check(PUPIL, spec)
    log, *_ = jax.device_get(train(behaviour, 0))
    ended = log.terminated | log.truncated
    counts = []
    for env in range(4):
        ends = np.flatnonzero(ended[:, env])
        for first, last in zip([0, *(ends[:-1] + 1)], ends, strict=True):
            led = log.source[first : last + 1, env] == GUIDE
            assert led[: led.sum()].all() and led.sum() <= 3  # the guide's steps come first
            counts.append(led.sum())
    share = np.bincount(counts, minlength=4) / len(counts)
    assert len(share) == 4 and len(counts) > 150
    np.testing.assert_allclose(share, 0.25, atol=0.18)  # five standard errors

    # It acts from a memory of its own, with no randomness.
    @jax.jit
    def follow(log):
        def step(hidden, inputs):
            observation, taken, ended = inputs
            act = jax.vmap(lambda h, o: guide.act(guide_state, ActInputs(h, o, jax.random.key(0), explore=False))[:2])
            action, hidden = act(hidden, observation)
            hidden = hidden._replace(action=jax.nn.one_hot(taken, 2))
            return jax.tree.map(lambda x: jnp.where(ended[:, None], 0.0, x), hidden), action

        start = GRUState(jnp.zeros((4, 2)), jnp.zeros((4, 2)))
        return jax.lax.scan(step, start, (log.observation, log.action, log.ended))[1]

    by_guide = log.source == GUIDE
    np.testing.assert_array_equal(log.action[by_guide], np.asarray(follow(log))[by_guide])


@pytest.mark.parametrize(
    "behaviour", [EpsilonGreedy(end=0.5), Guide(steady, steps=6, schedule="random")], ids=["epsilon-greedy", "guide"]
)
@pytest.mark.thorough
def test_memory_hears_which_action_was_taken(behaviour):
    environment = CartPole(max_steps=LIMIT)
    agent = DQN(num_envs=4, rollout_length=16, gru_size=3, hidden_sizes=(8,), learning_starts=10_000)
    learner = Learner(agent, behaviour, EnvironmentReward(), UniformReplay(4 * 64), spec_of(environment))
    loop = DeviceLoop(learner, environment, Same(), Reset())

    @jax.jit
    def collect(key):
        def turn(state, _):
            found = loop.collect(state, CLOCK, state.key)
            return state._replace(actors=found.actors, key=jax.random.split(state.key)[0]), found.rollout

        state = loop.init(key)
        _, rollouts = jax.lax.scan(turn, state, None, 4)
        greedy = jax.vmap(jax.vmap(lambda o, h: agent.act(state.learner.agent, ActInputs(h, o, key, explore=False))[0]))
        rollout = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rollouts)
        return rollout, greedy(rollout.observation, rollout.policy_info)

    rollout, greedy = jax.device_get(collect(jax.random.key(0)))
    assert 0.01 < (greedy != rollout.action).mean() < 0.9  # the behaviour overrules the agent, but not always
    ended = rollout.terminated | rollout.truncated
    assert ended.sum() > 10
    before = np.eye(2)[rollout.action] * ~ended[..., None]
    np.testing.assert_array_equal(rollout.policy_info.action[1:], before[:-1])
    assert not rollout.policy_info.action[0].any()


def rollout_of(reward, ended, stage, source=AGENT):
    reward, ended = jnp.array(reward, jnp.float32), jnp.array(ended, bool)
    zero = jnp.zeros_like(reward)
    source, stage = (jnp.broadcast_to(jnp.array(x), reward.shape) for x in (source, stage))
    return Experience(zero, zero, reward, zero, ended, jnp.zeros_like(ended), source, (), behaviour_info=stage)


def listener(behaviour):
    """Return the initial state for two environments, and `hear(state, ...)` with the arguments of `rollout_of`."""
    state = small.at_once(lambda: behaviour.init(jax.random.key(0), PPO(num_envs=2), spec_of(CartPole())))
    report = jax.jit(lambda state, rollout: behaviour.report(state, rollout, MOMENT))
    return state, lambda state, *arguments: report(state, rollout_of(*arguments))


def test_the_curriculum_judges_episodes_played_wholly_in_a_stage():
    behaviour = Guide(steady, steps=7, tolerance=0.1, stages=2, episodes=2)
    state, hear = listener(behaviour)
    steps = jax.jit(lambda state: behaviour.guided_steps(state, jax.random.key(0)))
    assert steps(state) == 7
    # One episode of return 4 is not enough; it takes two. The other one goes on.
    state = hear(state, [[1, 5], [3, 0]], [[0, 0], [1, 0]], 0)
    assert state.stage == 0 and not jnp.isfinite(state.best) and state.running.tolist() == [0, 5]
    # Returns 4 and 5 + 7 = 12: the first mean, 8, sets the standard and passes.
    state = hear(state, [[2, 7], [2, 1]], [[0, 1], [0, 0]], 0)
    assert state.stage == 1 and state.best == 8 and steps(state) == 4  # ceil(7 / 2)
    assert state.running.tolist() == [4, 1]
    assert behaviour.truncate(state, PPO(), CLOCK).running.tolist() == [0, 0]  # had these episodes been lost
    # What was under way then does not count, however good; 7 and 7 do not reach 0.9 * 8.
    state = hear(state, [[90, 90], [3, 7], [4, 9]], [[1, 1], [0, 1], [1, 0]], [[0, 0], [1, 1], [1, 1]])
    assert state.stage == 1 and state.best == 8 and state.number == 0
    # 7.3 on average does (9 + 1 and 4.6), and does not lower the best.
    state = hear(state, [[1, 1], [3.6, 0]], [[0, 1], [1, 0]], 1)
    assert state.stage == 2 and state.best == 8 and steps(state) == 0
    # There is no stage after the last.
    state = hear(state, [[0, 0], [50, 50]], [[1, 1], [1, 1]], 2)
    state = hear(state, [[50, 50]], [[1, 1]], 2)
    assert state.stage == 2 and state.best >= 50 and steps(state) == 0


def test_an_episode_tells_the_stage_it_began_in_and_is_heard_in_no_other():
    """As on the host, which chooses the first action of a rollout before the report of the last one."""
    behaviour, spec = Guide(steady, steps=7, stages=2, episodes=1), spec_of(CartPole())
    agent, observation = DQN(hidden_sizes=(4,), num_envs=2), jnp.zeros(4)
    agent_state = small.at_once(lambda: agent.init(jax.random.key(0), spec))
    first, hear = listener(behaviour)

    @jax.jit
    def act(state, hidden):
        moment = ActContext(agent, agent_state, spec, CLOCK, jax.random.key(1))
        decision = behaviour.act(state, hidden, observation, moment)
        return decision.hidden, decision.behaviour_info

    fresh = HiddenState(agent.init_hidden(spec), behaviour.init_hidden(agent, spec))
    begun, told = act(first, fresh)
    state = hear(first, [[5, 5]], [[1, 1]], 0)  # only now the stage is over
    begun, still = act(state, begun)
    anew, now = act(state, fresh)
    assert (told, still, now) == (0, 0, 1) and (begun.behaviour.guided, anew.behaviour.guided) == (7, 4)
    after = hear(state, [[90, 0], [90, 0]], [[0, 0], [1, 0]], [[told, now], [still, now]])
    assert (after.stage, after.number, after.best) == (1, 0, 5)
    after = hear(after, [[1, 6]], [[0, 1]], [[now, now]])
    assert (after.stage, after.best) == (2, 6)


def test_who_has_left_finishes_no_episodes():
    state, hear = listener(Guide(steady, steps=7, episodes=3))
    state = hear(state, [[4, 1], [0, 1], [0, 2]], [[1, 0], [1, 0], [1, 1]], 0, [[0, 0], [GONE, 0], [GONE, 0]])
    assert (state.stage, state.number, state.total) == (0, 2, 8)


def test_tolerance_is_lenient_for_negative_returns_too():
    behaviour = Guide(steady, steps=4, tolerance=0.1, stages=4, episodes=1)
    state = Curriculum(jnp.int32(1), jnp.float32(-100), jnp.float32(0), jnp.int32(0), jnp.zeros(1))

    def stage(total):
        rollout = rollout_of([[total]], [[1]], 1)
        return behaviour.report(state, rollout, MOMENT).stage

    assert stage(-109.0) == 2
    assert stage(-111.0) == 1


@pytest.mark.parametrize(
    ("make", "environment", "words"),
    [
        (lambda: Guide(steady, 5, schedule="sudden"), CartPole(), "one of curriculum, random"),
        (lambda: Guide(steady, 5, stages=0), CartPole(), "stages of Guide is 1 or more, not 0"),
        (lambda: Guide(3.0, 5), CartPole(), "not float"),
        (lambda: Guide(steady, 5), DeepSeaTreasure(), 'schedule="random"'),
        (lambda: Guide(lambda o, k: jnp.float32(0), 5), CartPole(), "Discrete"),
        (lambda: Guide(lambda o, k: jnp.float32(0), 5), Pendulum(), "Box"),
    ],
)
def test_mistakes_are_named(make, environment, words):
    with pytest.raises(ForageError) as error:
        check(make(), PPO(), spec_of(environment))
    assert words in str(error.value), error.value
