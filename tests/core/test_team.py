"""Environments with many agents: the loop's treatment of the agent axis, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from gymnasium import spaces as gym_spaces

import forage
from forage.agents.policy_gradient.ppo import PPO
from forage.behaviours.policy import AgentPolicy
from forage.config.defaults import default_behaviour
from forage.core import spaces, team
from forage.core.ports import ActContext, Environment
from forage.core.types import AGENT, GONE, NOBODY, Clock, Experience, ForageError, Spec, Step
from forage.environments import spec_of
from forage.environments.adapters.on_host import OnHost
from forage.environments.checking import check_environment
from forage.environments.classic.cartpole import CartPole
from forage.environments.wrappers.together import EnvironmentCopies
from forage.loop.device.loop import DeviceLoop
from forage.loop.learner import Learner
from forage.memory.rollout import LastRollout
from forage.rewards.environment import EnvironmentReward
from forage.starts.reset import Reset
from forage.studies.watch import watch
from forage.tasks.same import Same


class Countdown(Environment):
    """Lasts 2, 3 or 4 steps, drawn at its start; the steps left are observation and reward. By the clock after 3."""

    @property
    def observation_space(self):
        return gym_spaces.Box(-10, 10, (1,), np.float32)

    @property
    def action_space(self):
        return gym_spaces.Discrete(2)

    def reset(self, key):
        left = jax.random.randint(key, (), 2, 5)
        return (left, left), left.astype(jnp.float32)[None]

    def step(self, state, action, key):
        start, left = state
        left = left - 1
        over = left == 0
        shown = left.astype(jnp.float32)[None]
        return (start, left), Step(shown, left + 1.0, over & (start != 3), over & (start == 3), {})


class NumberedAgentPolicy(AgentPolicy):
    """Keeps the number of the stream in its own information."""

    def act(self, state, hidden, observation, moment):
        return super().act(state, hidden, observation, moment)._replace(behaviour_info=moment.stream_index)


def rollout_of(environment, num_envs=4, length=24, behaviour=None):
    spec = spec_of(environment, "many")
    agent = PPO(num_envs=num_envs, rollout_length=length, minibatches=1, hidden_sizes=(4,), gru_size=3)
    learner = Learner(agent, behaviour or default_behaviour(agent), EnvironmentReward(), LastRollout(), spec)
    loop = DeviceLoop(learner, environment, Same(), Reset())
    loop.check()
    check_environment(environment, "many")

    @jax.jit
    def run(key):
        state = loop.init(key)
        return loop.collect(state, Clock(jnp.int32(0), jnp.float32(100)), key)

    return jax.device_get(run(jax.random.key(0)))


@pytest.mark.thorough
def test_episodes_go_on_until_the_last_agent_is_done():
    found = rollout_of(EnvironmentCopies(Countdown(), 3))
    episodes, rollout = found.episodes, found.rollout
    assert rollout.reward.shape == (24, 4, 3)
    ended = rollout.terminated | rollout.truncated
    assert not (rollout.terminated & rollout.truncated).any()
    assert {GONE, AGENT} == set(np.unique(rollout.source)) and rollout.truncated.any()
    returns, lengths, hidden_first = [], [], 0
    for env in range(4):
        begin = 0
        for time in range(24):
            if not ended[time, env].all():
                continue
            steps = slice(begin, time + 1)
            total = np.zeros(3)
            for agent in range(3):
                shown = rollout.observation["observation"][steps, env, agent, 0]
                present = rollout.observation[spaces.PRESENT][steps, env, agent]
                own = int(shown[0])  # how long this agent's episode lasts
                np.testing.assert_array_equal(shown[:own], np.arange(own, 0, -1))
                np.testing.assert_array_equal(present, np.where(np.arange(len(present)) < own, 1, -1))
                np.testing.assert_array_equal(rollout.source[steps, env, agent] == GONE, present == -1)
                np.testing.assert_array_equal(ended[steps, env, agent], np.arange(1, len(present) + 1) >= own)
                assert rollout.truncated[begin + own - 1, env, agent] == (own == 3)
                assert not rollout.truncated[begin + own : time + 1, env, agent].any()
                total[agent] = rollout.reward[steps, env, agent].sum()
                assert total[agent] == own * (own + 1) / 2
                # Memory is empty where an agent's episode begins, and is not emptied by another's end.
                features = rollout.policy_info.features[steps, env, agent]
                assert not features[0].any() and all(features[i].any() for i in range(1, own))
                hidden_first += 1
            assert len(present) == max(rollout.observation["observation"][begin, env, :, 0])
            returns.append(total.mean())
            lengths.append(time + 1 - begin)
            begin = time + 1
    assert hidden_first > 20
    assert episodes.count == len(returns) and episodes.length == sum(lengths)
    np.testing.assert_allclose(episodes.episode_return, sum(returns), rtol=1e-6)


def test_behaviours_know_the_number_of_the_stream():
    rollout = rollout_of(EnvironmentCopies(Countdown(), 3), length=2, behaviour=NumberedAgentPolicy()).rollout
    for behaviour_info in team.as_agent_batch(rollout, 3).behaviour_info:
        np.testing.assert_array_equal(behaviour_info, np.arange(12))


def test_streams_keep_agents_apart_and_in_order():
    x = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    flat = team.as_agent_batch(Experience(x, x, *[x[..., 0]] * 6), 4)
    assert flat.observation.shape == (2, 12, 5) and flat.reward.shape == (2, 12)
    np.testing.assert_array_equal(flat.observation[:, 1 * 4 + 2], x[:, 1, 2])
    assert team.as_agent_batch("anything", 1) == "anything"


@pytest.mark.parametrize(
    ("terminated", "truncated", "want"),
    [
        ([True, False], [False, False], (False, False)),
        ([True, True], [False, False], (True, False)),
        ([True, False], [False, True], (False, True)),
        ([False, False], [True, True], (False, True)),
    ],
)
def test_an_episode_ends_when_all_have(terminated, truncated, want):
    step = Step(None, np.array([1.0, 3.0]), np.array(terminated), np.array(truncated), {})  # type: ignore[arg-type]
    one = team.as_one(step, 2)
    assert (bool(one.terminated), bool(one.truncated)) == want and one.reward == 2.0
    vector = team.as_one(step._replace(reward=np.array([[1.0, 10.0], [3.0, 30.0]])), 2)
    np.testing.assert_array_equal(vector.reward, [2.0, 20.0])


@pytest.mark.thorough
def test_both_runners_see_the_same_world():
    """`OnHost` resets an environment only after all its agents are done."""
    host = OnHost(EnvironmentCopies(Countdown(), 2), 6)
    observation = host.reset(0)
    assert host.spec.num_agents == 2
    for _ in range(20):
        result = host.step(np.zeros((6, 2), np.int32))
        over = (result.step.terminated | result.step.truncated).all(1)
        begun = result.observation[spaces.PRESENT] == 1
        assert begun[over].all()
        now, after = result.step.observation["observation"], result.observation["observation"]
        np.testing.assert_array_equal(after[~over], now[~over])
        observation = result.observation
    assert observation["observation"].shape == (6, 2, 1)


def learn_from(agent, spec, source, action_shift=0.0):
    """Return one PPO update from a rollout of noise with these sources."""
    key = jax.random.key(1)
    state = small.first_state(agent, spec)
    shape = source.shape
    observation = {
        "observation": jax.random.normal(key, (*shape, 2)),
        spaces.PRESENT: jnp.where(source == GONE, -1, jnp.where(source == NOBODY, 0, 1)).astype(jnp.int8),
    }
    action = jax.random.randint(jax.random.key(2), shape, 0, 2)
    reward = jax.random.normal(jax.random.key(3), shape) + action_shift * (source == GONE)
    no = np.zeros(shape, bool)
    gone = (source == GONE) | jnp.roll(source == GONE, -1, 0).at[-1].set(False)  # it ended on the step before
    experience = Experience(observation, action, reward, observation, gone, no, source, ())
    batch = LastRollout().sample(
        experience, 1, 1, ActContext(agent, state, spec, Clock(jnp.int32(0), jnp.float32(1)), key)
    )
    return small.compute(agent.learn, state, batch, Clock(jnp.int32(0), jnp.float32(1)), key)[0].network


def differ(a, b):
    return max(float(np.abs(x - y).max()) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def test_nothing_is_learned_from_one_that_has_left_and_only_its_value_from_one_that_waits():
    shown = gym_spaces.Dict({"observation": gym_spaces.Box(-9, 9, (2,), np.float32), spaces.PRESENT: spaces.PRESENCE})
    spec = Spec("noise", shown, gym_spaces.Discrete(2), num_agents=2)
    agent = PPO(num_envs=2, rollout_length=8, minibatches=1, epochs=1, hidden_sizes=(4,), normalise_advantage=False)
    agent_only = np.full((8, 4), AGENT)
    gone = agent_only.copy()
    gone[5:, 1] = GONE
    # What is paid after an agent has left changes nothing at all.
    assert differ(learn_from(agent, spec, gone), learn_from(agent, spec, gone, action_shift=50.0)) == 0
    assert differ(learn_from(agent, spec, gone), learn_from(agent, spec, agent_only)) > 0
    # Where all wait, no policy gradient: with no reward for entropy the policy stays as it was, the value does not.
    quiet = PPO(num_envs=2, rollout_length=8, minibatches=1, epochs=1, hidden_sizes=(4,), entropy_coefficient=0.0)
    waiting = learn_from(quiet, spec, np.full((8, 4), NOBODY))
    start = small.first_state(quiet, spec).network
    assert differ(waiting.actor, start.actor) == 0 and differ(waiting.critic, start.critic) > 0


def test_a_central_critic_sees_the_state_and_the_policy_does_not():
    environment = EnvironmentCopies(CartPole(), 2)
    spec = spec_of(environment, "two poles")
    agent = PPO(central_critic=True, hidden_sizes=(8,))
    agent.check(spec)
    state = small.at_once(lambda: agent.init(jax.random.key(0), spec))
    _, observation = environment.reset(jax.random.key(1))
    one = jax.tree.map(lambda x: x[0], observation)
    other = one | {spaces.STATE: one[spaces.STATE] + 1.0}
    network = state.network
    act = lambda o: network.actor(network.torso(0)(o))  # noqa: E731
    np.testing.assert_array_equal(act(one), act(other))
    assert float(network.value(one)[0]) != float(network.value(other)[0])
    moved = one | {"observation": one["observation"] + 1.0}
    assert float(network.value(one)[0]) == float(network.value(moved)[0])
    with pytest.raises(ForageError, match="state"):
        agent.check(spec_of(CartPole(), "one pole"))


@pytest.mark.thorough
def test_two_poles_are_balanced_and_the_trained_agent_acts_for_both(tmp_path):
    """End to end: trained, saved, loaded, evaluated, filmed."""
    small.keep_compiled()
    options = {"learning_rate": 1e-3, "epochs": 10, "minibatches": 8, "central_critic": True}
    both, where = EnvironmentCopies(CartPole(), 2), tmp_path / "run"
    run = forage.train("ppo", both, steps=16_384, seeds=1, directory=where, agent_options=options, display="quiet")
    assert run.evaluation["return"][0] > 60  # random play gets about 22
    policy = forage.load(tmp_path / "run")
    assert policy.spec.num_agents == 2
    _, observation = EnvironmentCopies(CartPole(), 2).reset(jax.random.key(0))
    assert policy.act(jax.device_get(observation)).shape == (2,)
    film, _ = watch(tmp_path / "run", steps=3, environment=EnvironmentCopies(CartPole(), 2))
    assert film.exists()


def test_bad_input():
    with pytest.raises(ForageError, match="2 agents or more"):
        EnvironmentCopies(CartPole(), 1)

    class Forgetful(EnvironmentCopies):
        def step(self, state, action, key):
            state, step = super().step(state, action, key)
            return state, step._replace(reward=step.reward.sum())

    with pytest.raises(ForageError, match=r"float32\[\]; it should be float32\[2\]"):
        check_environment(Forgetful(CartPole(), 2), "forgetful")


@pytest.mark.parametrize("environment", [Countdown(), EnvironmentCopies(Countdown(), 3)], ids=["one", "many"])
@pytest.mark.thorough
def test_large_starts_are_handed_out_as_small_ones_are(environment, monkeypatch):
    """One by one or all at once: the same starts begin the same episodes, and use up the same number of the pool."""
    small_ones = rollout_of(environment)
    monkeypatch.setattr("forage.loop.device.loop.LARGE", 0)
    large_ones = rollout_of(environment)
    same = jax.tree.map(lambda a, b: bool((np.asarray(a) == np.asarray(b)).all()), small_ones[1:], large_ones[1:])
    assert all(jax.tree.leaves(same))
    assert small_ones[0].used == large_ones[0].used
