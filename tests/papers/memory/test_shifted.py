"""Shifted pictures: by hand, in segments, and refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from gymnasium import spaces

from forage.config.resolve import resolve
from forage.core.ports import ActContext
from forage.core.types import Clock, Experience, ForageError, Spec
from forage.data import files
from forage.data.logged import Transitions
from forage.memory.dataset import DataSet
from forage.memory.uniform import UniformReplay
from forage_papers.memory.shifted import ShiftedImages
from forage_papers.ops.shift import shift_picture


def test_by_hand():
    pictures = jnp.arange(2 * 3 * 4).reshape(1, 2, 3, 4, 1)
    by = jnp.array([[1, -2], [0, 9]])
    found = jnp.stack([shift_picture(one, by, (0, 1, 2)) for one, by in zip(pictures[0], by, strict=True)])[None]
    # Down by 1 and left by 2: the uppermost row and the last column are repeated.
    assert found[0, 0, :, :, 0].tolist() == [[2, 3, 3, 3], [2, 3, 3, 3], [6, 7, 7, 7]]
    assert found[0, 1, :, :, 0].tolist() == [[12] * 4, [16] * 4, [20] * 4]  # no further than there are pixels


@pytest.mark.thorough
def test_pictures_of_a_segment_move_alike_and_all_else_stays():
    seen = spaces.Dict(
        {"clock": spaces.Box(0, 9, (2,), np.float32), "screen": spaces.Box(0, 255, (1, 40, 40), np.uint8)}
    )
    spec = Spec("here", seen, spaces.Discrete(2), (), 1, 10, ())
    memory = ShiftedImages(UniformReplay(64), pixels=2)
    agent = resolve("dqn", "minatar:Breakout").agent
    memory.check(agent, spec, None)
    random = np.random.default_rng(0)
    screens = random.integers(0, 255, (9, 1, 1, 40, 40)).astype(np.uint8)
    observations = {"clock": np.arange(18, dtype=np.float32).reshape(9, 1, 2), "screen": screens}
    now, after = (jax.tree.map(lambda x, i=i: x[i : i + 8], observations) for i in (0, 1))
    zeros, no = np.zeros((8, 1), np.float32), np.zeros((8, 1), bool)
    ends = {"terminated": no, "truncated": no}
    acted = {"action": no.astype(np.int32), "reward": zeros, "source": no.astype(np.int8), "policy_info": ()}
    lived = Experience(observation=now, next_observation=after, **acted, **ends)
    example = jax.tree.map(lambda x: jnp.asarray(x[0, 0]), lived)
    clock = Clock(*(jnp.int32(0) for _ in Clock._fields))
    state = memory.add(memory.init(example, 1, 8, spec, None), lived, clock)
    moment = ActContext(agent, None, spec, clock._replace(steps=jnp.int32(8)), jax.random.key(0))
    plain, batch = memory.inner.sample(state, 5, 3, moment), memory.sample(state, 5, 3, moment)
    assert (batch.index == plain.index).all()
    for name in ("observation", "next_observation"):
        ours, theirs = getattr(batch.experience, name), getattr(plain.experience, name)
        assert (ours["clock"] == theirs["clock"]).all()
        moves = {}
        for segment in range(5):
            for time in range(3):
                picture, was = ours["screen"][time, segment, 0], theirs["screen"][time, segment, 0]
                fits = [
                    (down, right)
                    for down in range(-2, 3)
                    for right in range(-2, 3)
                    if (picture == np.roll(was, (down, right), (0, 1)))[2:-2, 2:-2].all()
                ]
                assert len(fits) == 1 and moves.setdefault(segment, fits[0]) == fits[0]
        assert len(set(moves.values())) > 1


def test_a_data_set_within_is_sealed_read_and_learned_from(tmp_path):
    setup = resolve("bc", "minatar:Breakout", seeds=1)
    shape, random = setup.spec.observation_space.shape, np.random.default_rng(0)
    seen = random.integers(0, 2, (13, *shape)).astype(setup.spec.observation_space.dtype)
    over = np.arange(12) % 4 == 3
    rows = Transitions(seen[:-1], np.arange(12) % 3, np.ones(12), seen[1:], over, np.zeros(12, bool))
    files.write_data(tmp_path / "shown.npz", rows, {"spec": setup.config()["spec"]})
    data = DataSet(str(tmp_path / "shown.npz"))
    options = {"batch_size": 8}
    made = [
        resolve("bc", "minatar:Breakout", steps=4, seeds=1, agent_options=options, memory=memory)
        for memory in (data, ShiftedImages(data, pixels=1))
    ]
    assert made[1].memory.inner.sha256 == made[0].memory.sha256 != ""
    plain, moved = (setup.runner() for setup in made)
    for runner in (plain, moved):
        runner.begin()
        runner.advance(1)
    assert small.differing(plain.state.learner.agent, moved.state.learner.agent)  # it learned, from other pictures


def test_what_has_no_pictures_and_what_learns_from_its_rollouts_is_refused():
    with pytest.raises(ForageError, match=r"observations of CartPole-v1 are Box\(4,\)"):
        resolve("dqn", "CartPole-v1", memory=ShiftedImages(UniformReplay(64))).learner()
    with pytest.raises(ForageError, match="PPO learns from what it has just lived through"):
        resolve("ppo", "minatar:Breakout", memory="shifted").learner()
