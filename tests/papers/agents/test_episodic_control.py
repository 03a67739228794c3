"""Episodic control: a plain Python reference over random episodes, an episode by hand, and refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from gymnasium import spaces

from forage.core.ports import ActInputs
from forage.core.types import AGENT, Batch, Experience, ForageError, Spec
from forage_papers.agents.tabular.episodic_control import EpisodicControl

small.keep_compiled()

ACTIONS, HORIZON, ENVS = 2, 6, 2
BOX = spaces.Box(-9, 9, (2,), np.float32)
SPEC = Spec("x", BOX, spaces.Discrete(ACTIONS), horizon=HORIZON)


class Reference:
    """The two rules and the mean, one entry after another, in lists."""

    def __init__(self, agent):
        self.agent, self.entries, self.time = agent, [[] for _ in range(ACTIONS)], 0

    def nearest(self, row, action):
        return sorted(self.entries[action], key=lambda entry: float(((entry[0] - row) ** 2).sum()))

    def value(self, row, action):
        near = self.nearest(row, action)
        if not near:
            return np.inf
        if np.linalg.norm(near[0][0] - row) <= self.agent.radius:
            return near[0][1]
        return np.mean([entry[1] for entry in near[: self.agent.neighbours]])

    def learn(self, episode):
        total = 0.0
        for row, action, reward in reversed(episode):
            total, self.time = reward + self.agent.discount * total, self.time + 1
            near = self.nearest(row, action)
            if near and np.linalg.norm(near[0][0] - row) <= self.agent.radius:
                near[0][1:] = [max(near[0][1], total), self.time]
                continue
            if len(self.entries[action]) == self.agent.capacity:
                self.entries[action].pop(int(np.argmin([entry[2] for entry in self.entries[action]])))
            self.entries[action].append([row, total, self.time])


def stream(steps, draw):
    """Return transitions of two environments with episodes of one to six steps."""
    shape = (steps, ENVS)
    age, ended = np.zeros(ENVS, int), np.zeros(shape, bool)
    for t in range(steps):
        age += 1
        ended[t] = (draw.random(ENVS) < 0.3) | (age == HORIZON)
        age[ended[t]] = 0
    seen = draw.normal(size=(*shape, 2)).astype(np.float32)
    over = ended & (draw.random(shape) < 0.5)
    action, reward = draw.integers(0, ACTIONS, shape), draw.normal(size=shape).astype(np.float32)
    return Experience(seen, action, reward, seen, over, ended & ~over, np.full(shape, AGENT, np.int32), ())


@pytest.mark.parametrize("radius", [0.0, 0.4])
def test_against_a_plain_reference(radius):
    agent = EpisodicControl(discount=0.9, neighbours=3, radius=radius, capacity=12, num_envs=ENVS, rollout_length=8)
    draw = np.random.default_rng(0)
    reference, pending = Reference(agent), [[] for _ in range(ENVS)]
    points = draw.normal(size=(20, 2)).astype(np.float32)
    learn = jax.jit(lambda agent, state, rows: agent.learn(state, Batch(rows, jnp.ones(ENVS), ()), None, None)[0])
    values = jax.jit(lambda agent, state: jax.vmap(lambda x: agent.action_values(state, (), x))(points))
    state = agent.init(jax.random.key(0), SPEC)
    assert np.isinf(values(agent, state)).all()
    for _ in range(8):
        rows = stream(8, draw)
        for t in range(8):
            for env in range(ENVS):
                pending[env].append((rows.observation[t, env], rows.action[t, env], rows.reward[t, env]))
                if rows.terminated[t, env] or rows.truncated[t, env]:
                    reference.learn(pending[env])
                    pending[env] = []
        # Episodes under way at the rollout's end went on: the stream's next rollout begins others.
        state = learn(agent, state, jax.tree.map(jnp.asarray, rows))
        state, pending = agent.truncate(state), [[] for _ in range(ENVS)]
        wanted = [[reference.value(point, action) for action in range(ACTIONS)] for point in points]
        np.testing.assert_allclose(values(agent, state), wanted, rtol=1e-5)
    sizes = [len(entries) for entries in reference.entries]
    assert (state.table.written > 0).sum(-1).tolist() == sizes
    assert min(sizes) == 12  # some were replaced


def test_an_episode_by_hand():
    # Always by action 1 it goes from 0 to 1 for 2, back to 0.1 for nothing, and out for 4, at a discount of a half:
    # returns of 2 + 0 + 1, 2 and 4. 0 and 0.1 are one state, whose better return is kept.
    agent = EpisodicControl(discount=0.5, neighbours=2, radius=0.2, capacity=4)
    seen, over = np.array([[[0, 0]], [[1, 0]], [[0.1, 0]]], np.float32), np.array([[0], [0], [1]], bool)
    reward, one = np.array([[2], [0], [4]], np.float32), np.ones((3, 1), np.int32)
    rows = Experience(seen, one, reward, seen, over, over & False, one * AGENT, ())

    def run_learn(rows):
        state = agent.init(jax.random.key(0), SPEC)
        state, metrics, _ = agent.learn(state, Batch(rows, jnp.ones(1), ()), None, None)
        q = jax.vmap(lambda x: agent.action_values(state, (), jnp.array([x, 0])))(jnp.array([0.25, 1.0, 0.5]))
        return q, metrics, agent.act(state, ActInputs((), jnp.zeros(2), jax.random.key(1), False))[0]

    q, metrics, action = small.compute(run_learn, rows)
    np.testing.assert_allclose(q[:, 1], [4.0, 2.0, 3.0])  # stored, stored, and the mean of both
    assert np.isinf(q[:, 0]).all() and action == 0  # never taken, so tried first
    assert metrics["entries"] == 2 and metrics["best"] == 4


def test_observations_in_one_row_and_projected():
    parts = {"place": spaces.Discrete(3, start=1), "at": spaces.Box(-1, 1, (2,), np.float32)}
    spec = Spec("x", spaces.Dict(parts), spaces.Discrete(2), horizon=4)
    seen = {"place": np.int32(2), "at": np.array([0.5, -0.5], np.float32)}

    def run_both(seen):
        plain, projected = EpisodicControl(), EpisodicControl(projection=3)
        state = projected.init(jax.random.key(0), spec)
        return (
            plain.neighbour_features(plain.init(jax.random.key(0), spec), seen),
            projected.neighbour_features(state, seen),
            state.projection,
        )

    row, found, projection = small.compute(run_both, seen)
    np.testing.assert_allclose(row, [0.5, -0.5, 0, 1, 0])
    np.testing.assert_allclose(found, row @ projection, rtol=1e-6)


def test_what_is_refused():
    with pytest.raises(ForageError, match="have no limit; give it one with --wrap time-limit"):
        check(EpisodicControl(), Spec("x", BOX, spaces.Discrete(2)))
    with pytest.raises(ForageError, match="EpisodicControl"):
        check(EpisodicControl(), Spec("x", BOX, BOX, horizon=5))
