"""Rings that keep large observations once: reads equal those of a plain ring, bit for bit."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces as gymnasium_spaces
from small import at_once
from tiers import first

from forage.agents.policy_gradient.ppo import PPO
from forage.agents.q_learning.dqn import DQN
from forage.core.checkpoint import named_leaves
from forage.core.ports import ActContext
from forage.core.spaces import StackedBox
from forage.core.types import GONE, Clock, Experience, ForageError, Spec
from forage.environments.minatar.breakout import Breakout
from forage.environments.wrappers.images import FrameStack
from forage.loop.soundness import NotFinite, check_leaf
from forage.memory.prioritised import PrioritisedReplay
from forage.memory.uniform import UniformReplay
from forage.ops import ring


class Case(NamedTuple):
    """A stream of stacked observations, and a memory for them."""

    memory: Any
    shape: tuple[int, ...] = (2, 2, 4)
    axis: int = 2
    frames: int = 4
    dtype: Any = np.uint8
    num_envs: int = 2
    rollout_length: int = 4
    capacity: int = 40
    length: int = 1  # of a segment
    episode: float = 5  # steps on average
    starts: tuple[str, ...] = ("repeat", "zero", "any")  # how the pictures before the first are filled
    sure: int = 128  # see `ring.SURE`
    few: int | None = None  # see `ring.FEW`
    beside: bool = False  # a small entry stands beside the large one


CASES = {
    "uniform": Case(UniformReplay, length=3),
    "prioritised": Case(PrioritisedReplay, (4, 3, 3), axis=0, num_envs=3, rollout_length=2, capacity=60),
    "segments": Case(PrioritisedReplay, rollout_length=8, capacity=16, length=5),  # the ring holds one rollout
    "one picture": Case(UniformReplay, (6,), 0, 1, np.float32, rollout_length=1, length=2, episode=3, beside=True),
    "lost": Case(UniformReplay, capacity=160, length=3, episode=2, sure=12),
    "lost, prioritised": Case(PrioritisedReplay, capacity=160, episode=2, sure=12),
    "fewer later": Case(PrioritisedReplay, rollout_length=16, capacity=4000, length=3, episode=30, few=40),
    "lost at once": Case(PrioritisedReplay, rollout_length=16, capacity=160, episode=2, sure=1),
}


def stream(case: Case, steps: int) -> Experience:
    """Return transitions with episodes that begin and end in all ways; each action encodes its time and environment."""
    rng = np.random.default_rng(0)
    one = list(case.shape)
    one[case.axis] //= case.frames
    # Few values, so that pictures that have nothing to do with each other are often the same.
    values = np.array([0.0, -0.0, np.nan, 1.0]) if case.dtype == np.float32 else np.arange(3)

    def picture():
        return rng.choice(values, one).astype(case.dtype)

    def start():
        kind, last = rng.choice(case.starts), picture()
        before = {"repeat": lambda: last, "zero": lambda: last * 0, "any": picture}[kind]
        return [*(before() for _ in range(case.frames - 1)), last]

    at = [start() for _ in range(case.num_envs)]
    seen, after = np.zeros((2, steps, case.num_envs, *case.shape), case.dtype)
    ended = rng.random((2, steps, case.num_envs)) < 1 / (2 * case.episode)
    for time, env in np.ndindex(steps, case.num_envs):
        seen[time, env] = np.concatenate(at[env], case.axis)
        # Sometimes an episode's last observation has nothing to do with the one before.
        following = start() if rng.random() < 0.05 else [*at[env][1:], picture()]
        after[time, env] = np.concatenate(following, case.axis)
        at[env] = start() if ended[:, time, env].any() else following
    action = np.arange(steps * case.num_envs, dtype=np.int32).reshape(steps, -1)
    if case.beside:
        seen, after = ({"large": x, "small": x[..., :1]} for x in (seen, after))
    terminated = ended[0]
    return Experience(
        seen, action, action.astype(np.float32), after, terminated, ended[1] & ~terminated, action * 0, ()
    )


def space_of(case: Case) -> gymnasium_spaces.Space:
    bounds = (np.full(case.shape, bound, case.dtype) for bound in (0, 9))
    space = StackedBox(*bounds, case.dtype, case.frames, case.axis)
    small = gymnasium_spaces.Box(0, 9, (1,), case.dtype)
    return gymnasium_spaces.Dict({"large": space, "small": small}) if case.beside else space


def assert_same_bits(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("name", first(3, CASES))
def test_what_is_drawn_is_what_a_plain_ring_gives(name, monkeypatch):
    case, rollouts = CASES[name], 24
    monkeypatch.setattr(ring, "SURE", case.sure)
    monkeypatch.setattr(ring, "SPARE", 4 if case.sure == 128 else 64)
    monkeypatch.setattr(ring, "FEW", case.capacity if case.few is None else case.few)
    lived = stream(case, rollouts * case.rollout_length)
    example = jax.tree.map(lambda x: np.zeros(x.shape[2:], x.dtype), lived)
    memory, spec = case.memory(capacity=case.capacity), Spec("x", space_of(case), gymnasium_spaces.Discrete(2))

    def empty(large):
        monkeypatch.setattr(ring, "LARGE", large)
        return at_once(lambda: memory.init(example, case.num_envs, case.rollout_length, spec, None))

    def ring_of(state):
        return state.experience if case.memory is PrioritisedReplay else state

    @jax.jit
    def turn(state, rollout, clock, key):
        state = memory.add(state, rollout, clock)
        clock = clock._replace(steps=clock.steps + rollout.terminated.size)
        batch = memory.sample(state, 16, case.length, ActContext(None, None, spec, clock, key))  # type: ignore[arg-type]
        return memory.report(state, batch, jnp.sin(1.7 * batch.index)), batch

    plain, once = empty(1000), empty(8)
    assert isinstance(ring_of(once), ring.FrameRing) and not isinstance(ring_of(plain), ring.FrameRing)
    assert (ring_of(once).observation["small"] is None) if case.beside else True
    whole, some = 0, 0
    for i in range(rollouts):
        rollout = jax.tree.map(lambda x, i=i: x[i * case.rollout_length : (i + 1) * case.rollout_length], lived)
        newest = (i + 1) * case.rollout_length
        clock = Clock(np.int32(i * rollout.terminated.size), np.float32(1000))
        (once, found), (plain, expected) = (turn(s, rollout, clock, jax.random.key(i)) for s in (once, plain))
        if newest < case.length:
            continue
        lost = max(int(frames.lost) for frames in ring.all_frames(ring_of(once)))
        if not some and lost <= max(0, newest - len(ring_of(plain).terminated)):
            assert_same_bits(found, expected)
            whole += 1
            continue
        # Older transitions are not there any more; what is drawn is as it was lived through all the same.
        time, env = np.divmod(np.asarray(found.experience.action), case.num_envs)
        assert time.min() >= lost and time.max() < newest
        np.testing.assert_array_equal(time, time[0] + np.arange(case.length)[:, None])
        assert_same_bits(found.experience, jax.tree.map(lambda x, at=(time, env): x[at], lived))
        some += 1
    assert whole > 5 or case.sure == 1
    assert bool(some) == (case.sure != 128)
    assert not some or newest - lost >= min(case.sure, newest)


def test_a_segment_that_may_not_be_there_is_refused(monkeypatch):
    monkeypatch.setattr(ring, "LARGE", 8)
    monkeypatch.setattr(ring, "SURE", 4)
    case = CASES["lost"]
    example = jax.tree.map(lambda x: np.zeros(x.shape[2:], x.dtype), stream(case, 1))
    state = jax.eval_shape(lambda: ring.empty_ring(160, example, 2, 4, space_of(case)))
    index = np.zeros(1, np.int32)
    jax.eval_shape(lambda state: ring.read_segments(state, index, 4), state)
    with pytest.raises(ForageError, match=r"80 time steps .* is sure of 4 .* no segment of 5; give it a larger"):
        ring.read_segments(state, index, 5)


def bytes_of(shape, dtype, capacity, space):
    """Return the size of a replay of these observations, plain and actual."""
    observation = jax.ShapeDtypeStruct(shape, dtype)
    one = jax.ShapeDtypeStruct((), np.float32)
    example = Experience(observation, one, one, observation, one, one, one, ())
    state = jax.eval_shape(
        lambda example: UniformReplay(capacity).init(
            example, 1, 4, Spec("x", space, gymnasium_spaces.Discrete(6)), None
        ),
        example,
    )
    plain = capacity * 2 * int(np.prod(shape)) * np.dtype(dtype).itemsize
    return plain, sum(int(np.prod(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(state))


def test_large_observations_take_what_is_new_in_them():
    atari = StackedBox(np.zeros((84, 84, 4), np.uint8), np.full((84, 84, 4), 255, np.uint8), np.uint8, 4)
    plain, once = bytes_of((84, 84, 4), np.uint8, 100_000, atari)
    assert plain == 5_644_800_000 and once < 0.165 * plain
    plain, once = bytes_of((84, 84, 4), np.uint8, 1_000_000, atari)
    assert plain > 56e9 and once < 7.6e9
    box = gymnasium_spaces.Box(-1, 1, (348,), np.float32)
    plain, once = bytes_of((348,), np.float32, 100_000, box)
    assert once < 0.65 * plain
    small = gymnasium_spaces.Box(-1, 1, (17,), np.float32)
    plain, once = bytes_of((17,), np.float32, 100_000, small)
    assert once == plain + 100_000 * 5 * 4  # as it is, beside the other fields


@pytest.mark.parametrize("at", [".learner.memory", "[1].learner.memory.experience"])
def test_what_is_not_finite_among_pictures_is_named_by_the_observation(at, monkeypatch):
    monkeypatch.setattr(ring, "LARGE", 8)
    case = CASES["one picture"]
    example = jax.tree.map(lambda x: np.zeros(x.shape[2:], x.dtype), stream(case, 1))
    made = jax.eval_shape(lambda: ring.empty_ring(40, example, 2, 1, space_of(case)))
    name, leaf = next(pair for pair in named_leaves(made) if pair[0].endswith("store"))
    array = np.zeros((1, *leaf.shape), leaf.dtype)[0 if at.startswith("[") else ...]
    check_leaf(at + name, array)
    array[..., 3, 5] = np.nan
    with pytest.raises(NotFinite) as error:
        check_leaf(at + name, array)
    assert str(error.value) == "observation['large'][3, 5] of the experience is NaN."


def test_stacks_say_so():
    space = FrameStack(Breakout(), 3).observation_space
    assert isinstance(space, StackedBox) and (space.frames, space.axis, space.shape) == (3, 2, (10, 10, 12))
    assert space.dtype == np.bool_
    for agent in (DQN(), PPO()):
        agent.check(Spec("x", space, gymnasium_spaces.Discrete(2)))


def test_pictures_are_written_in_place():
    """As in the training loop: all seeds at once, one clock. No copy of the pictures, the largest part of the state."""
    capacity, seeds, shape = 5_000, 2, (16, 16, 4)
    space = StackedBox(np.zeros(shape, np.uint8), np.full(shape, 255, np.uint8), np.uint8, 4)
    zero, no = np.zeros(shape, np.uint8), np.bool_(False)
    example = Experience(zero, np.int32(0), np.float32(0), zero, no, no, np.int32(0), ())
    memory, spec = UniformReplay(capacity), Spec("x", space, gymnasium_spaces.Discrete(2))

    def turn(i, carry):
        clock = Clock(i, jnp.float32(1000))

        def one(state, total, key):
            rollout = jax.tree.map(lambda x: jnp.full((1, 1, *np.shape(x)), i % 2, x.dtype), example)
            state = memory.add(state, rollout, clock)
            now = clock._replace(steps=i + 1)
            batch = memory.sample(state, 8, 1, ActContext(None, None, spec, now, jax.random.fold_in(key, i)))  # type: ignore[arg-type]
            return state, total + batch.experience.observation.sum()

        return jax.vmap(one)(*carry, jax.random.split(jax.random.key(0), seeds))

    state = jax.eval_shape(jax.vmap(lambda _: memory.init(example, 1, 1, spec, None)), jnp.arange(seeds))
    run = jax.jit(
        lambda state, n: jax.lax.fori_loop(0, n, turn, (state, jnp.zeros(seeds, jnp.uint32))), donate_argnums=0
    )
    program = run.lower(state, jnp.int32(60)).compile()
    assert program.memory_analysis().temp_size_in_bytes < capacity * seeds * 16  # the pictures have 256 bytes each


def steps_of(source: Any, terminated: Any) -> Experience:
    """Return steps `time env *agent` with rewards 1, 2, ..., and 0 if lost, in the layout of the host."""
    source, terminated = np.array(source, np.int32), np.array(terminated, bool)
    paid = np.arange(1, len(source) + 1, dtype=np.float32).reshape(-1, *[1] * (source.ndim - 1)) * (source != GONE)
    seen = np.broadcast_to(
        np.arange(len(source), dtype=np.float32).reshape(paid.shape[:1] + (1,) * source.ndim), (*source.shape, 1)
    )
    over = (source == GONE) & ~terminated
    return Experience(seen, np.zeros_like(source), paid, seen + 1, terminated, over, source, ())  # type: ignore[arg-type]


def test_returns_of_several_steps_end_before_one_that_was_lost():
    """Step 2 of the first of two environments was lost with its worker, after step 1 had been written."""
    told = steps_of([[0, 0], [0, 0], [GONE, 0], [0, 0]], np.zeros((4, 2)))
    example = jax.tree.map(lambda x: jnp.asarray(x[0, 0]), told)

    def draw(told: Experience) -> tuple[Experience, Any]:
        memory = ring.empty_ring(8, example, 2, 1, gymnasium_spaces.Box(0, 9, (1,)))
        for time in range(4):
            rollout = jax.tree.map(lambda x, time=time: x[time : time + 1], told)
            memory = ring.write_rollout(memory, rollout, Clock(jnp.int32(2 * time), jnp.float32(8)))
        batch = ring.read_segments(memory, jnp.array([0, 1, 2]), 3)  # step 0 of both, step 1 of the first
        return batch, DQN(n_step=3, discount=0.5).fold(batch)

    batch, folded = jax.jit(draw)(told)
    np.testing.assert_array_equal(np.asarray(batch.truncated).T, [[0, 1, 1], [0, 0, 0], [1, 1, 0]])
    total, last, bootstrap = (np.asarray(x)[0] for x in folded)
    np.testing.assert_allclose(total, [1 + 0.5 * 2, 1 + 0.5 * 2 + 0.25 * 3, 2])  # the lost step's 0 is no reward
    np.testing.assert_array_equal(last, [1, 2, 0])  # and what came after it no state that these lead to
    np.testing.assert_allclose(bootstrap, [0.25, 0.125, 0.5])


def test_of_a_team_a_step_is_lost_where_all_are_gone():
    two = [[[0, 0]], [[GONE, 0]], [[GONE, GONE]], [[0, 0]]]
    found = ring.cut_before_lost(jax.tree.map(jnp.asarray, steps_of(two, np.zeros((4, 1, 2)))))
    assert np.asarray(found.truncated)[:2].tolist() == [[[False, False]], [[True, True]]]
    ended = np.zeros((4, 1, 2), bool)
    ended[1] = True
    found = ring.cut_before_lost(jax.tree.map(jnp.asarray, steps_of(two, ended)))
    assert np.asarray(found.truncated)[:2].tolist() == [[[False, False]], [[False, False]]]  # never both
