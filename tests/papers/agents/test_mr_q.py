"""MR.Q against numbers worked by hand: targets, the encoders' loss across ends, and the schedule of updates."""

import dataclasses
import functools
import math

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check
from gymnasium import spaces
from small import at_once, compute
from tiers import first

from forage.config.defaults import default_memory
from forage.core.ports import ActInputs
from forage.core.types import GONE, Batch, Clock, Experience, ForageError, Spec
from forage_papers.agents.actor_critic.mr_q import MRQ, Tally
from forage_papers.memory.lap import LAP

SEEN = spaces.Box(-1.0, 1.0, (2,), np.float32)
BOX = Spec("Box", SEEN, spaces.Box(-2.0, 2.0, (1,), np.float32))
CHOICE = Spec("Choice", SEEN, spaces.Discrete(3))
AGENT = MRQ(
    discount=0.5, encoder_horizon=3, n_step=3, target_interval=2, bins=5, latent_size=4, action_size=3, hidden_size=6,
    learning_starts=3,
)  # fmt: skip
CLOCK = Clock(jnp.int32(9), jnp.float32(10))


@functools.cache
def begin(spec=BOX):
    return at_once(lambda: AGENT.init(jax.random.key(0), spec))


def segments(spec=BOX):
    """Return three segments of three steps: one continues, one is over after two steps, and one is cut after one."""
    numbers = np.random.default_rng(0).normal(size=(2, 3, 3, 2)).astype(np.float32)
    reward = np.array([[1.0, 1.0, 1.0], [2.0, 2.0, 8.0], [4.0, 8.0, 8.0]], np.float32)
    terminated = np.zeros((3, 3), bool)
    truncated = terminated.copy()
    terminated[1, 1], truncated[0, 2] = True, True
    discrete = isinstance(spec.action_space, spaces.Discrete)
    action = np.array([[0, 1, 2]] * 3, np.int32) if discrete else np.full((3, 3, 1), 0.5, np.float32)
    who = np.zeros((3, 3), np.int32)
    return Experience(numbers[0], action, reward, numbers[1], terminated, truncated, who, ())


def constant(critics, values):
    """Critics that say one value each."""
    return equinox.tree_at(lambda c: c.head.bias, jax.tree.map(jnp.zeros_like, critics), jnp.array(values)[:, None])


def test_targets_by_hand():
    state = begin()
    target = state.target._replace(critics=constant(state.target.critics, [3.0, 2.0]))
    state = state._replace(target=target, scale=jnp.float32(4), target_scale=jnp.float32(2))
    found = compute(AGENT.goal, state, segments(), jax.random.key(0))
    # 1 + 2/2 + 4/4 + 2 * 2/8;  1 + 2/2 and over;  1 + 2 * 2/2, where the clock ran out
    np.testing.assert_allclose(found, [3.5 / 4, 2 / 4, 3 / 4], rtol=1e-6)


def test_targets_look_at_what_the_last_step_led_to():
    state, experience = begin()._replace(scale=jnp.float32(1), target_scale=jnp.float32(1)), segments()

    def total(after):
        return AGENT.goal(state, experience._replace(next_observation=after), jax.random.key(0)).sum()

    moved = np.abs(compute(jax.grad(total), experience.next_observation)).sum(-1) > 0
    assert moved.T.tolist() == [[False, False, True], [False] * 3, [True, False, False]]


def test_the_encoders_loss_by_hand():
    state = begin()
    nothing = jax.tree.map(jnp.zeros_like, state.encoder)
    state = state._replace(target=state.target._replace(encoder=nothing))
    weight = np.array([1.0, 1.0, 2.0], np.float32)

    def parts(ends):
        known = state._replace(tally=Tally(jnp.float32(1), jnp.float32(9), jnp.bool_(ends)))
        arguments = known, segments(), np.zeros((3, 3, 1), np.float32), weight, jax.random.key(0)
        return compute(AGENT.encoder_loss, nothing, *arguments)

    loss, found = parts(True)
    # Three steps, two, and one that weighs twice; all shares alike cost log 5, and one end was foretold by 0.
    np.testing.assert_allclose(found, [0, 7 * math.log(5) / 3, 1 / 3], rtol=1e-5)
    np.testing.assert_allclose(loss, 0.1 * (7 * math.log(5) / 3 + 1 / 3), rtol=1e-5)
    assert parts(False)[1][2] == 0  # where no task ends, ends are not predicted


def test_nothing_after_an_end_teaches_the_encoders():
    state, experience = begin(), segments()
    state = state._replace(tally=Tally(jnp.float32(1), jnp.float32(9), jnp.bool_(True)))

    def loss(reward, after):
        told = experience._replace(reward=reward, next_observation=after)
        return AGENT.encoder_loss(state.encoder, state, told, jnp.zeros((3, 3, 1)), jnp.ones(3), jax.random.key(0))[0]

    by_reward, by_after = compute(jax.grad(loss, (0, 1)), experience.reward, experience.next_observation)
    lived = [[True, True, True], [True, True, False], [True, False, False]]
    assert (by_reward != 0).T.tolist() == lived
    assert (np.abs(by_after).sum(-1) > 0).T.tolist() == lived


@pytest.mark.parametrize("spec", first(1, [BOX, CHOICE]))
def test_encoders_then_critics_and_targets_once_a_turn(spec):
    state = begin(spec)
    learn, due = jax.jit(AGENT.learn), jax.jit(AGENT.num_updates)
    batch = Batch(segments(spec), jnp.ones(3), jnp.arange(3))

    def same(a, b):
        return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))

    state = jax.jit(AGENT.observe)(state, batch.experience)
    dues, scales = [], []
    for update in range(5):
        dues.append(int(due(state)))
        before = state
        state, metrics, error = learn(state, batch, CLOCK, jax.random.key(update))
        encodes = update in (0, 1, 4)
        assert same(before.encoder, state.encoder) != encodes and same(before.critics, state.critics) == encodes
        assert same(before.actor, state.actor) == encodes and np.isnan(error).all() == encodes
        assert not encodes or not np.isfinite(error).any()
        assert same(state.target.encoder, before.encoder) == (update in (0, 4))
        assert all(np.isfinite(value) for value in metrics.values())
        scales.append((float(state.target_scale), float(state.scale)))
    mean = 35 / 9  # of all rewards' sizes
    np.testing.assert_allclose(scales, [(1, mean)] * 4 + [(mean, mean)], rtol=1e-6)
    assert dues == [3, 2, 1, 1, 3]  # two of the encoders before one of the critics; what was left off comes first


def test_the_actor_climbs_the_mean_of_the_critics():
    """The loss from its parts, and plain descent along its slope in one number, by small differences."""
    agent = dataclasses.replace(AGENT, optimiser="sgd", learning_rate=0.5, pre_activation_weight=0.25)
    state = at_once(lambda: agent.init(jax.random.key(0), BOX))
    state = state._replace(target=jax.tree.map(lambda x: 0.5 * x, state.target))  # which the actor does not see
    source = np.zeros((3, 3), np.int32)
    source[0, 1] = GONE
    experience = jax.device_put(segments()._replace(source=source))
    nothing = jnp.zeros(3)  # so that the critics stay
    bias = lambda a: a.body.layers[-1].bias  # noqa: E731

    def step(by):
        actor = equinox.tree_at(bias, state.actor, bias(state.actor) + by)
        moved = actor, state.critics, state.actor_optimiser, state.critic_optimiser
        return agent.improve(moved, state, experience, experience.action, nothing, jax.random.key(0))

    def find_results():
        states = state.encoder.states(experience.observation[0])
        taken, before = state.actor(states, None, jax.random.key(0))
        pairs = state.encoder.pairs(states, taken)
        each = jnp.stack([jax.tree.map(lambda x, i=i: x[i], state.critics)(pairs) for i in (0, 1)])
        moved, (_, loss, _), _ = step(0.0)
        higher, lower = (step(by)[1][1] for by in (1e-2, -1e-2))
        return each, before, loss, (bias(moved[0]) - bias(state.actor))[0], (higher - lower) / 2e-2

    each, before, loss, moved, slope = compute(find_results)
    assert np.abs(each[0] - each[1]).max() > 0.1
    np.testing.assert_allclose(loss, (0.25 * before[:, 0] ** 2 - each.mean(0))[[0, 2]].mean(), rtol=1e-4)
    np.testing.assert_allclose(moved, -0.5 * slope, rtol=2e-2)
    assert abs(slope) > 1e-3


def test_seeds_together_take_turns_together():
    """If each seed could be at another update, networks and memory would be copied at every one."""
    states = jax.tree.map(lambda x: jnp.stack([x, x]), begin())

    def turns(state):
        due = jax.lax.fori_loop(0, AGENT.num_updates(state), lambda _, x: x + state.scale, 0.0)
        return jax.lax.fori_loop(0, AGENT.place(state), lambda _, x: x + state.scale, due)

    program = jax.make_jaxpr(jax.vmap(turns))(states)
    loops = [each.params["cond_jaxpr"].out_avals[0].shape for each in program.eqns if each.primitive.name == "while"]
    assert loops == [(), ()]


def test_masked_numbers_are_never_taken():
    spec = Spec("Masked", spaces.Dict({"observation": SEEN, "action_mask": spaces.MultiBinary(3)}), CHOICE.action_space)
    state = begin(spec)
    seen = {"observation": jnp.ones(2), "action_mask": jnp.array([0, 1, 1], jnp.int8)}
    act = jax.jit(jax.vmap(lambda key: AGENT.act(state, ActInputs((), seen, key, True))[0]))
    assert set(act(jax.random.split(jax.random.key(0), 200)).tolist()) == {1, 2}


def test_pictures_are_shifted_where_networks_learn():
    screen = Spec("Screen", spaces.Box(0, 255, (64, 64, 1), np.uint8), CHOICE.action_space)
    encoder = jax.eval_shape(lambda: AGENT.init(jax.random.key(0), screen)).encoder
    image = (np.arange(64 * 64) % 251).astype(np.uint8).reshape(1, 64, 64, 1)
    many = np.repeat(image, 50, axis=0)
    shifted = compute(encoder.shift_images, many, jax.random.key(0))
    padded = np.pad(image[0, ..., 0], 4, mode="edge")
    wanted = {padded[i : i + 64, j : j + 64].tobytes() for i in range(9) for j in range(9)}
    found = {picture[..., 0].tobytes() for picture in shifted}
    assert found <= wanted and len(found) > 20


def test_it_remembers_by_loss_adjusted_priorities():
    assert default_memory(AGENT) == LAP()


def test_what_it_cannot_do_is_said():
    with pytest.raises(ForageError, match="can start to learn after 3 steps, not 2"):
        check(MRQ(encoder_horizon=3, n_step=3, learning_starts=2), BOX)
    with pytest.raises(ForageError, match="lowest_exponent of MRQ is below highest_exponent"):
        MRQ(lowest_exponent=1.0, highest_exponent=1.0)
    with pytest.raises(ForageError, match="needs a Discrete action space"):
        check(AGENT, Spec("Two", SEEN, spaces.MultiDiscrete([2, 2])))
    with pytest.raises(ForageError, match="needs a continuous, bounded action space"):
        check(AGENT, Spec("Open", SEEN, spaces.Box(-math.inf, math.inf, (1,), np.float32)))
