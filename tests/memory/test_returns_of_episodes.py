"""Returns of a run's own experience: known once an episode is over, and drawn only after that."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from test_mixed import write_file

from forage.config.resolve import resolve
from forage.core.ports import ActContext
from forage.core.schedule import Schedule
from forage.core.types import Clock, Experience, ForageError, ReturnRule
from forage.data import episodes
from forage.memory.mixed import MixedReplay
from forage.memory.returns import ReplayOfReturns
from forage.rewards.scaling import Scale

small.keep_compiled()
DISCOUNT, STEPS, ENVS = 0.9, 24, 2
SMALL = {"hidden_sizes": (8,), "value_sizes": (8,), "batch_size": 4, "learning_starts": 16, "samples": 2}


def rollouts(length):
    """Rewards and ends of two environments, in rollouts of `length`; some episodes fail throughout, others in part."""
    random = np.random.default_rng(3)
    reward = random.normal(size=(STEPS, ENVS)).astype(np.float32)
    reward[3:12, 0] = reward[22:, 0] = reward[9:16, 1] = -0.1
    terminated, truncated = np.zeros((2, STEPS, ENVS), bool)
    terminated[[4, 11, 21], 0] = True
    truncated[[8, 9, 16], 1] = True
    seen = np.broadcast_to(np.arange(STEPS, dtype=np.float32)[:, None, None], (STEPS, ENVS, 1))
    source = np.zeros((STEPS, ENVS), np.int32)
    whole = Experience(seen, seen, reward, seen, terminated, truncated, source, (), return_to_go=reward)
    return jax.tree.map(lambda x: x.reshape(STEPS // length, length, *x.shape[1:]), whole), whole


FAILING = ReturnRule(failure_reward=-0.1)
CASES = [(1, 48, None, FAILING), (4, 48, 12, ReturnRule()), (4, 24, None, ReturnRule(True, -0.1))]


@pytest.mark.parametrize(("length", "capacity", "longest", "rule"), CASES)
def test_returns_are_those_of_whole_episodes(length, capacity, longest, rule):
    memory = ReplayOfReturns(capacity, DISCOUNT, longest, rule)
    parts, whole = rollouts(length)
    example = jax.tree.map(lambda x: x[0, 0], whole)
    spec = resolve("ppo", "Pendulum-v1", seeds=1).spec

    def fill(parts):
        def add(state, now):
            number, rollout = now
            return memory.add(state, rollout, Clock(number * length * ENVS, jnp.float32(100))), ()

        first = memory.init(example, ENVS, length, spec, None)
        state = jax.lax.scan(add, first, (jnp.arange(STEPS // length), parts))[0]
        clock = Clock(jnp.int32(STEPS * ENVS), jnp.float32(100))
        moment = ActContext(None, (), spec, clock, jax.random.key(0))
        lost = memory.truncate(state, clock)
        return state, memory.sample(state, 400, 1, moment), lost, memory.sample(lost, 400, 1, moment)

    state, batch, lost, later = small.compute(fill, parts)
    assert state.running.tolist() == [2, 7] and lost.running.tolist() == [0, 0]
    for env in range(ENVS):
        ends = whole.terminated[:, env], whole.truncated[:, env].copy()
        ends[1][-1] = True  # only what is drawn is compared before the episode under way is lost
        expected = episodes.returns_to_go(whole.reward[:, env], *ends, DISCOUNT, rule)
        for drawn, last in ((batch, STEPS - state.running[env]), (later, STEPS)):
            mine = drawn.index % ENVS == env
            time = drawn.experience.observation[0, mine, 0].astype(int)
            assert set(time) == set(range(max(0, STEPS - capacity // ENVS), last))
            np.testing.assert_allclose(drawn.experience.return_to_go[0, mine], expected[time], rtol=1e-4)


def online(tmp_path, **options):
    memory = MixedReplay(write_file(tmp_path / "a.npz"), capacity=512)
    words = {"steps": 640, "seeds": [3], "memory": memory, "agent_options": SMALL, "rewards": Scale(0.1)} | options
    return resolve("cal-ql", "Pendulum-v1", **words)


@pytest.mark.thorough
def test_a_run_hears_the_returns_of_what_it_learns_from(tmp_path):
    """Pendulum's episodes are of 200 steps: until then all of a batch is from the data."""
    learner = online(tmp_path).learner()
    found = np.asarray(learner.memory.data_rows.return_to_go)
    np.testing.assert_allclose(found[9], 0.1 * 9, rtol=1e-5)  # truncated
    again, runner, _ = small.resume_run(online(tmp_path), tmp_path, 250)
    assert small.differing(runner.state, again.state) == []
    ring = runner.state.learner.memory.ring
    over = np.asarray(ring.truncated)[0, :, 0]
    reward, told = (np.asarray(x)[0, : over.argmax() + 1, 0] for x in (ring.reward, ring.return_to_go))
    assert over.argmax() == 199
    ends = np.zeros(200, bool), np.arange(200) == 199
    np.testing.assert_allclose(told, episodes.returns_to_go(0.1 * reward, *ends, 0.99), rtol=1e-3)


def test_what_is_refused(tmp_path):
    for agent in ("cql", "cal-ql"):
        with pytest.raises(ForageError, match="go on online from such a run with --memory mixed"):
            resolve(agent, "Pendulum-v1", seeds=1, agent_options=SMALL).learner()
    with pytest.raises(ForageError, match="returns that are computed once"):
        online(tmp_path, agent_options=SMALL | {"discount": Schedule("linear:0.9,0.99")}).learner()
    with pytest.raises(ForageError, match="cal-ql learns from returns that are computed once, and normalise-return"):
        online(tmp_path, rewards="normalise-return").learner()
