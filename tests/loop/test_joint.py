"""Joint agents: a team's transitions stay together, from the environment to the batch."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces as gym_spaces
from small import at_once
from tiers import first

from forage.agents.q_learning.dqn import DQN
from forage.agents.q_learning.vdn import VDN
from forage.behaviours.epsilon_greedy import EpsilonGreedy
from forage.core import team
from forage.core.ports import ActContext, Environment
from forage.core.spaces import StackedBox
from forage.core.types import Clock, Experience, Spec, Step
from forage.environments import spec_of
from forage.environments.adapters.on_host import OnHost
from forage.loop.device.loop import DeviceLoop
from forage.loop.host.runner import HostRunner
from forage.loop.learner import Learner
from forage.memory.prioritised import PrioritisedReplay
from forage.memory.uniform import UniformReplay
from forage.rewards.environment import EnvironmentReward
from forage.rewards.weighted import WeightedRewards
from forage.starts.reset import Reset
from forage.tasks.same import Same

MEMBERS, ENVS, LENGTH = 3, 4, 5
MEMORIES = [UniformReplay, PrioritisedReplay]


class MarkedEnvironment(Environment):
    """Observations of member i: a number drawn for the episode, the time, i, and every member's last action."""

    members: int = MEMBERS

    @property
    def num_agents(self):
        return self.members

    @property
    def observation_space(self):
        return gym_spaces.Box(-1, 99, (3 + self.members,), np.float32)

    @property
    def action_space(self):
        return gym_spaces.Discrete(5)

    @property
    def horizon(self):
        return 7

    def reset(self, key):
        state = jax.random.uniform(key), jnp.float32(0)
        return state, self.show(state, jnp.full(self.members, -1))

    def step(self, state, action, key):
        state = state[0], state[1] + 1
        over = jnp.full(self.members, (state[1] >= 3) & (state[0] < state[1] / 7))
        late = over & (state[0] > 0.7)
        reward = action + 10.0 * jnp.arange(self.members)
        return state, Step(self.show(state, action), reward, over & ~late, late, {})

    def show(self, state, action):
        mark = jnp.broadcast_to(jnp.stack(state), (self.members, 2))
        number = jnp.arange(self.members)[:, None]
        return jnp.concatenate([mark, number, jnp.broadcast_to(action, (self.members, self.members))], 1) * 1.0


def learner_of(memory, agent=None):
    agent = agent or VDN(num_envs=ENVS, rollout_length=LENGTH, learning_starts=20, hidden_sizes=(4,), batch_size=8)
    explore = EpsilonGreedy(start=1.0, end=1.0)
    learner = Learner(agent, explore, EnvironmentReward(), memory, spec_of(MarkedEnvironment(), "marked"))
    learner.check()
    return learner


@functools.partial(jax.jit, static_argnames=("size", "length"))
def draw(memory, state, clock, key, size, length):
    spec = Spec("any", gym_spaces.Discrete(2), gym_spaces.Discrete(2))
    return memory.sample(state, size, length, ActContext(None, None, spec, clock, key))  # type: ignore[arg-type]


def check_joint(experience):
    """Compare segments (leaves `time batch agent ...`) with the environment's marks."""
    e = jax.device_get(experience)
    time, batch = e.terminated.shape[:2]
    assert e.observation.shape == (time, batch, MEMBERS, 3 + MEMBERS) and e.reward.shape == (time, batch, MEMBERS)
    for seen in (e.observation, e.next_observation):
        assert (seen[..., :2] == seen[..., :1, :2]).all()  # one episode and one time for the whole team
        np.testing.assert_array_equal(seen[..., 2], np.broadcast_to(np.arange(MEMBERS), e.reward.shape))
    np.testing.assert_array_equal(e.next_observation[..., 1], e.observation[..., 1] + 1)
    for member in range(MEMBERS):  # each is shown what all of them did, in their order
        np.testing.assert_array_equal(e.next_observation[..., member, 3:], e.action)
    np.testing.assert_array_equal(e.reward, e.action + 10 * np.arange(MEMBERS))
    ended = e.terminated | e.truncated
    assert (ended == ended[..., :1]).all()
    goes_on = e.observation[1:] == e.next_observation[:-1]
    assert goes_on.all((-1, -2))[~ended[:-1, :, 0]].all() and (e.observation[1:, :, 0, 1] == 0)[ended[:-1, :, 0]].all()


@pytest.mark.parametrize("Memory", MEMORIES)
@pytest.mark.thorough
def test_a_transition_stays_joint_in_memory(Memory):
    """In every rollout, also across the ring's seam, drawn segments are exactly the collected ones."""
    learner = learner_of(Memory(capacity=3 * ENVS * LENGTH))
    loop = DeviceLoop(learner, MarkedEnvironment(), Same(), Reset())
    state = jax.jit(loop.init)(jax.random.key(0))
    iterate, look = jax.jit(loop.iterate), jax.jit(loop.next_rollout)
    lived = []
    for turn in range(5):
        clock = Clock(jnp.int32(turn * ENVS * LENGTH), jnp.float32(1000))
        lived.append(jax.device_get(look(state, clock)))
        state, _ = iterate(state, clock)
        after = learner.rows(Clock(clock.steps + ENVS * LENGTH, clock.total))
        drawn = draw(learner.memory, state.learner.memory, after, jax.random.key(turn), 256, 4)
        assert drawn.weight.shape == drawn.index.shape == (256,)
        check_joint(drawn.experience)
        kept = jax.tree.map(lambda *x: np.concatenate(x)[-3 * LENGTH :], *lived)
        segments = {
            kept.observation[i : i + 4, env].tobytes() + kept.action[i : i + 4, env].tobytes()
            for i in range(len(kept.reward) - 3)
            for env in range(ENVS)
        }
        found = drawn.experience
        seen, action = np.asarray(found.observation), np.asarray(found.action)
        assert {seen[:, i].tobytes() + action[:, i].tobytes() for i in range(256)} <= segments
        if Memory is UniformReplay:
            assert len({seen[:, i].tobytes() for i in range(256)}) > 0.9 * len(segments)


@pytest.mark.parametrize("Memory", first(1, MEMORIES))
def test_a_transition_stays_joint_on_the_host(Memory):
    learner = learner_of(Memory(capacity=3 * ENVS * LENGTH))
    runner = HostRunner([learner], lambda num_envs: OnHost(MarkedEnvironment(), num_envs), [0], 200)
    runner.begin()
    report = runner.advance(7)
    assert report.environment_finite[0] and report.agent_finite[0]
    loop = runner.loops[0]
    clock = Clock(jnp.int32(6 * ENVS * LENGTH), jnp.float32(200))  # the newest rollout waits
    check_joint(draw(learner.memory, loop.state.memory, clock, jax.random.key(0), 64, 4).experience)


def test_other_agents_still_get_streams():
    learner = learner_of(UniformReplay(60), DQN(num_envs=ENVS, rollout_length=LENGTH, learning_starts=60))
    state = at_once(lambda: learner.init(jax.random.key(0)))
    assert not learner.joint and state.memory.reward.shape == (5, ENVS * MEMBERS)
    clock = Clock(jnp.int32(20), jnp.float32(100))
    assert learner.rows(clock) == Clock(60, 300) and learner_of(UniformReplay(60)).rows(clock) == clock


def test_streams_and_teams_are_the_same_numbers():
    x = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    experience = Experience(x, x, *[x[..., 0]] * 6)
    back = team.as_team(team.as_agent_batch(experience, 4), 4)
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: a.shape == b.shape and (a == b).all(), experience, back)))


def test_rewards_see_each_member_by_itself():
    """A rewards part that makes one number of several rewards does so for every member of a team."""

    class Vector(MarkedEnvironment):
        reward_names = ("first", "second")

        def step(self, state, action, key):
            state, step = super().step(state, action, key)
            return state, step._replace(reward=jnp.stack([step.reward, jnp.ones(MEMBERS)], -1))

    agent = VDN(num_envs=ENVS, rollout_length=LENGTH, learning_starts=20, hidden_sizes=(4,))
    rewards = WeightedRewards(("first", "second"), (2.0, 0.5))
    learner = Learner(agent, EpsilonGreedy(), rewards, UniformReplay(60), spec_of(Vector(), "two rewards"))
    learner.check()
    rollout = Experience(*[jnp.zeros((2, 3, MEMBERS))] * 8)
    reward = jnp.arange(2 * 3 * MEMBERS * 2.0).reshape(2, 3, MEMBERS, 2)
    weighing = rewards.init(jax.random.key(0), learner.spec, ENVS)
    found = learner.relabel(weighing, rollout._replace(reward=reward))
    np.testing.assert_allclose(found.reward, 2 * reward[..., 0] + 0.5 * reward[..., 1])


def test_large_observations_of_a_team_are_kept_once_and_read_as_they_were():
    """Stacked pictures of two members, through the ring's store of frames."""
    members, frames, steps = 2, 3, 60
    space = StackedBox(np.zeros((16, 16, frames), np.uint8), np.full((16, 16, frames), 255, np.uint8), np.uint8, frames)
    spec = Spec("pictures", space, gym_spaces.Discrete(2), num_agents=members)
    chance = np.random.default_rng(0)
    pictures = chance.integers(0, 255, (steps + frames, ENVS, members, 16, 16), np.uint8)
    stacks = np.stack([np.stack(pictures[t : t + frames], -1) for t in range(steps + 1)])
    seen, after = stacks[:-1], stacks[1:].copy()
    ended = chance.random((steps, ENVS)) < 0.1
    after[ended] = chance.integers(0, 255, after[ended].shape, np.uint8)  # an episode's last, seen nowhere else
    no = np.zeros((steps, ENVS, members), bool)
    flags = np.repeat(ended[..., None], members, -1)
    action = chance.integers(0, 2, no.shape)
    whole = Experience(seen, action, action * 1.0, after, flags, no, action, ())
    memory = UniformReplay(capacity=200)
    example = jax.tree.map(lambda x: jnp.asarray(x[0, 0]), whole)
    state = at_once(lambda: memory.init(example, ENVS, LENGTH, spec, None))
    assert state.experience.observation.shape == (50, ENVS, frames)  # places, of pictures of the whole team
    add = jax.jit(memory.add)
    for begin in range(0, steps, LENGTH):
        rollout = jax.tree.map(lambda x, begin=begin: x[begin : begin + LENGTH], whole)
        state = add(state, rollout, Clock(jnp.int32(begin * ENVS), jnp.float32(999)))
    clock = Clock(jnp.int32(steps * ENVS), jnp.float32(999))
    drawn = jax.device_get(draw(memory, state, clock, jax.random.key(1), 300, 3))
    for i, index in enumerate(drawn.index):
        time, env = 10 + (index // ENVS - 10) % 50, index % ENVS
        for name in ("observation", "next_observation", "action", "terminated"):
            want = getattr(whole, name)[time : time + 3, env]
            np.testing.assert_array_equal(getattr(drawn.experience, name)[:, i], want)
