"""Guided flows: plans and guidance by hand, actions behind high returns, and refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from gymnasium import spaces

from forage.core.ports import ActInputs
from forage.core.types import DATASET, Batch, Experience, ForageError, Spec
from forage_papers.agents.offline.guided_flows import GuidedFlows

small.keep_compiled()

BOX = spaces.Box(-9, 9, (1,), np.float32)
UNIT = spaces.Box(-1, 1, (1,), np.float32)
KEY = jax.random.key(0)


def test_plans_stay_where_an_episode_ended():
    agent = GuidedFlows(horizon=4)
    following = np.arange(1.0, 9.0, dtype=np.float32).reshape(4, 2, 1)  # 1, 3, 5, 7 and 2, 4, 6, 8
    there = np.array([[1, 1], [1, 0], [1, 0], [1, 0]], bool)
    plan = small.compute(agent.targets, following, there)
    np.testing.assert_array_equal(plan, [[1, 3, 5], [2, 2, 2]])


def test_guidance_by_hand():
    spec = Spec("x", spaces.Box(-9, 9, (2,), np.float32), UNIT)
    agent = GuidedFlows(horizon=3, hidden_sizes=(5,), flow_steps=2, guidance=2.5, target_return=6.0)

    def plan(now, noise):
        state = agent.init(KEY, spec)._replace(scale=jnp.float32(4))
        x = noise
        for time in (0.0, 0.5):
            without, towards = (
                state.planner.velocity(jnp.concatenate([x, jnp.array([time]), now, jnp.array(told)]))
                for told in ((0.0, 0.0), (1.5, 1.0))
            )
            x = x + (without + 2.5 * (towards - without)) / 2
        return x, agent.plan(state, now, noise)

    wanted, found = small.compute(plan, np.ones(2, np.float32), np.arange(4, dtype=np.float32))
    np.testing.assert_allclose(found, wanted.reshape(2, 2), rtol=1e-4)


def test_it_does_what_high_returns_came_from():
    # From a state near 0, half of the data go up and are paid 1, half go down and are paid nothing.
    draw = np.random.default_rng(0)
    up = np.arange(512) % 2
    seen, action = draw.normal(size=(512, 1)) * 0.1, (up - 0.5)[:, None]
    after, no = seen + 2 * action, np.zeros(512, bool)
    rows = Experience(
        *(np.asarray(x, np.float32) for x in (seen, action, up, after)), ~no, no, np.full(512, DATASET), ()
    )
    rows = rows._replace(return_to_go=np.asarray(up, np.float32), time=np.zeros(512, np.int32))
    spec = Spec("x", BOX, UNIT)
    agent = GuidedFlows(horizon=2, hidden_sizes=(32,), learning_rate=1e-2, guidance=1.5, batch_size=128)

    def run_learn(rows, guidance):
        def update(state, key):
            index = jax.random.randint(key, (1, 128), 0, 512)
            # A segment goes on to other episodes behind this one's end.
            segment = jax.tree.map(lambda x: x[jnp.concatenate([index, index + 1]) % 512], rows)
            return agent.learn(state, Batch(segment, jnp.ones(128), ()), None, key)[0], None

        state = jax.lax.scan(update, agent.init_from_dataset(agent.init(KEY, spec), rows), jax.random.split(KEY, 500))[
            0
        ]
        keys = jax.random.split(KEY, 200)

        def acts(guidance):
            asked = GuidedFlows(horizon=2, hidden_sizes=(32,), guidance=guidance)
            return jax.vmap(lambda key: asked.act(state, ActInputs((), jnp.zeros(1), key, False))[0][0])(keys)

        return jax.vmap(acts)(guidance)

    free, led = small.compute(run_learn, rows, np.array([0.0, 1.5], np.float32))
    assert 0.25 < (free > 0).mean() < 0.75  # as the data
    assert (led > 0).mean() > 0.97 and abs(np.median(led) - 0.5) < 0.1


def test_what_is_refused():
    with pytest.raises(ForageError, match="needs vectors of numbers, and x gives"):
        check(GuidedFlows(), Spec("x", spaces.Discrete(3), UNIT))
    with pytest.raises(ForageError, match="leave encoder out"):
        check(GuidedFlows(encoder="a.py:B"), Spec("x", BOX, UNIT))
    with pytest.raises(ForageError, match="draw plans and not actions"):
        GuidedFlows().probabilities(None, np.zeros(1), False)
