"""Spaces of every kind: as data, through the networks, normalised; and every agent learns from each kind of leaf."""

import json

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from gymnasium import spaces as gym
from mixed_helpers import FLAT, PARTS

from forage.agents.actor_critic.sac import SAC
from forage.agents.actor_critic.sac_discrete import SACDiscrete
from forage.agents.actor_critic.td3 import TD3
from forage.agents.policy_gradient.ppo import PPO
from forage.agents.q_learning.dqn import DQN
from forage.behaviours.epsilon_greedy import EpsilonGreedy
from forage.config.defaults import default_behaviour, default_memory
from forage.config.resolve import from_config, resolve
from forage.core import prng, spaces
from forage.core.arrays import action_space, travelling
from forage.core.ports import ActInputs, Environment
from forage.core.spaces import MASK, PRESENT, STATE, Tokens, from_json, scale_of, to_json, with_one_factor
from forage.core.specs import BY_ENTRY, spec_from_config
from forage.core.types import ForageError, Spec, Step
from forage.environments import spec_of
from forage.environments.checking import check_environment
from forage.loop.device.loop import DeviceLoop
from forage.loop.device.programs import batch_seeds
from forage.loop.device.runner import DeviceRunner
from forage.loop.learner import Learner
from forage.loop.policy import Policy
from forage.memory.uniform import UniformReplay
from forage.nn.encoders import SequenceReader, encoder
from forage.nn.networks import Torso
from forage.nn.normalise import apply_norm, first_statistics, input_space, norms_of, update_norms
from forage.rewards.environment import EnvironmentReward
from forage.starts.reset import Reset
from forage.tasks.same import Same

MIXED = gym.Dict(
    {
        "image": gym.Box(0, 255, (5, 5, 1), np.uint8),
        "vector": gym.Box(-1, 1, (3,), np.float32),
        "inner": gym.Dict({"number": gym.Discrete(4, start=3), "choices": gym.MultiDiscrete([3, 2])}),
        "text": Tokens(4, 5),
        "bits": gym.MultiBinary((2, 2)),
    }
)


@pytest.mark.parametrize(
    "space", [MIXED, *spaces.spaces_by_path(MIXED).values(), gym.MultiDiscrete([2, 3], start=[1, 5])]
)
def test_a_space_is_kept_as_data(space):
    again = spaces.from_json(spaces.to_json(space))
    assert again == space and type(again) is type(space)
    assert space.contains(jax.tree.map(np.asarray, space.sample()))
    example = spaces.example(space)
    assert jax.tree.structure(example) == jax.tree.structure(space.sample())


def test_leaves_are_found_by_where_they_are():
    found = spaces.spaces_by_path(MIXED)
    assert set(found) == {("image",), ("vector",), ("inner", "number"), ("inner", "choices"), ("text",), ("bits",)}
    assert spaces.spaces_by_path(gym.Discrete(3)) == {(): gym.Discrete(3)}
    assert "inner: Dict(choices: MultiDiscrete([3 2])" in spaces.describe_space(MIXED)


def test_tokens():
    tokens = Tokens(4, 7)
    assert tokens.dtype == np.int32 and tokens.shape == (4,) and str(tokens) == "Tokens(4, 7)"
    assert tokens.contains(np.array([1, 6, 0, 0], np.int32)) and not tokens.contains(np.array([1, 7, 0, 0], np.int32))
    assert Tokens(4, 7, end=2).ends == (2,) and (tokens.end, tokens.ends) == (None, ())
    several = Tokens(4, 7, end=(2, 5))
    assert several.end == 2 and several != Tokens(4, 7, end=2)
    assert spaces.from_json(spaces.to_json(several)) == several
    assert spaces.to_json(Tokens(4, 7, end=2))["end"] == 2
    assert tokens != Tokens(4, 8) and tokens != gym.MultiDiscrete([7] * 4, np.int32)
    for length, vocabulary in ((0, 5), (3, 1)):
        with pytest.raises(ForageError, match="length of 1 or more"):
            Tokens(length, vocabulary)


@pytest.mark.parametrize("space", [gym.Tuple((gym.Discrete(2),)), gym.Text(3), gym.Sequence(gym.Discrete(2))])
def test_what_no_value_travels_in_is_answered_with_what_works(space):
    for use in (spaces.example, spaces.to_json, lambda s: Torso(jax.random.key(0), s, (4,), "relu")):
        with pytest.raises(ForageError, match=r'dictionary with the keys "0", "1"'):
            use(space)
    with pytest.raises(ForageError, match="nothing to see"):
        Torso(jax.random.key(0), gym.Dict({}), (4,), "relu")


# --- networks -------------------------------------------------------------------------------------------------------


def test_each_kind_of_leaf_has_its_encoder():
    encoded = small.at_once(lambda: encoder(jax.random.key(0), MIXED, 1.0))
    observation = MIXED.sample()
    observation["inner"] = {"number": np.int64(4), "choices": np.array([2, 0])}
    features = encoded(observation)
    assert features.shape == (encoded.size,) == (128 + 3 + 4 + 5 + 64 + 4,)
    parts = dict(
        zip(encoded.names, jnp.split(features, np.cumsum([p.size for p in encoded.encoders])[:-1]), strict=True)
    )
    np.testing.assert_array_equal(parts["bits"], observation["bits"].reshape(-1))
    np.testing.assert_array_equal(parts["vector"], observation["vector"])
    order = {"number": [0, 1, 0, 0], "choices": [0, 0, 1, 1, 0]}
    np.testing.assert_array_equal(parts["inner"], [x for name in MIXED["inner"] for x in order[name]])


@pytest.mark.thorough
def test_reading_hears_the_order_and_not_the_pad():
    reader = SequenceReader(jax.random.key(0), Tokens(5, 9), 1.0)
    # The same weights, with places for three more words.
    more = jnp.concatenate([reader.place, jnp.full((3, 32), 7.0)])
    longer = equinox.tree_at(lambda r: r.place, reader, more)
    tokens = jnp.array([3, 1, 4, 0, 0])
    np.testing.assert_allclose(reader(tokens), longer(jnp.pad(tokens, (0, 3))), rtol=1e-5)
    assert jnp.abs(reader(tokens) - reader(tokens[jnp.array([1, 0, 2, 3, 4])])).max() > 1e-3
    nothing = reader(jnp.zeros(5, jnp.int32))
    assert jnp.isfinite(nothing).all() and jnp.abs(reader(tokens) - nothing).max() > 1e-3


@pytest.mark.thorough
def test_plain_spaces_have_no_encoder():
    for space in (gym.Box(-1, 1, (3,)), gym.Discrete(4), gym.MultiBinary(3), MIXED["image"]):
        torso = Torso(jax.random.key(0), space, (8,), "relu")
        assert torso.encoder is None and torso.convolves == (space is MIXED["image"])
    assert Torso(jax.random.key(0), MIXED, (8,), "relu").convolves
    torso = Torso(jax.random.key(0), gym.Discrete(4, start=3), (8,), "relu")
    np.testing.assert_array_equal(torso.encoder(jnp.int32(3)), [1, 0, 0, 0])


def test_large_whole_numbers_are_seen_over_their_bound():
    clock = gym.Box(0, 4000, (), np.int32)
    torso = Torso(jax.random.key(0), gym.Dict({"clock": clock, "bits": gym.Box(0, 1, (2,), np.int8)}), (8,), "relu")
    features = torso.encoder({"clock": jnp.int32(1000), "bits": jnp.array([0, 1], jnp.int8)})
    np.testing.assert_allclose(features, [0, 1, 0.25])
    alone = Torso(jax.random.key(0), gym.Box(-800, 400, (3,), np.int32), (8,), "relu")
    np.testing.assert_allclose(alone.encoder(jnp.array([-800, 0, 400])), [-1, 0, 0.5])
    assert norms_of(clock) is None  # scaled once is enough
    board, picture = (gym.Box(0, 255, (5, 5, 3), dtype) for dtype in (np.int32, np.uint8))
    assert [Torso(jax.random.key(0), space, (8,), "relu").body.scale for space in (board, picture)] == [1.0, 1 / 255]
    assert Torso(jax.random.key(0), gym.Box(0, 10, (2,), np.int32), (8,), "relu").encoder is None
    unbounded = gym.Box(-(2**31), 2**31 - 1, (2,), np.int32)
    assert Torso(jax.random.key(0), unbounded, (8,), "relu").encoder is None
    assert norms_of(unbounded) is not None


def test_what_stands_beside_an_observation_is_not_normalised():
    norm = norms_of(gym.Box(-np.inf, np.inf, (2,), np.float32))._replace(count=9.0, mean=np.array([1.0, 2.0]))
    beside = {STATE: np.ones(3), PRESENT: np.ones(2, bool), MASK: np.ones(4)}
    for names in ((STATE,), (STATE, PRESENT), (MASK, STATE, PRESENT)):
        seen = apply_norm(norm, {"observation": np.array([2.0, 2.0])} | {name: beside[name] for name in names})
        np.testing.assert_allclose(seen["observation"], [1.0, 0.0], rtol=1e-5)
        assert all(seen[name] is beside[name] for name in names)


def test_boxes_of_floats_are_normalised_where_they_are():
    norm = norms_of(MIXED)
    assert norm["image"] is None and norm["inner"] is None
    rollout = jax.tree.map(lambda *x: np.stack(x).reshape(5, 4, *np.shape(x[0])), *(MIXED.sample() for _ in range(20)))
    norm = update_norms(norm, rollout, jnp.ones((5, 4), bool))
    np.testing.assert_allclose(norm["vector"].mean, rollout["vector"].mean((0, 1)), rtol=1e-4, atol=1e-5)
    for masked in (False, True):
        one = jax.tree.map(lambda x: x[2, 3], rollout)
        seen = apply_norm(norm, {"observation": one, "action_mask": np.ones(2)} if masked else one)
        seen = seen["observation"] if masked else seen
        expected = (one["vector"] - norm["vector"].mean) / np.sqrt(norm["vector"].variance + 1e-8)
        np.testing.assert_allclose(seen["vector"], expected, rtol=1e-4)
        np.testing.assert_array_equal(seen["image"], one["image"])
        np.testing.assert_array_equal(seen["inner"]["choices"], one["inner"]["choices"])
    spec = Spec("Words", gym.Dict({"text": Tokens(3, 4)}), gym.Discrete(2))
    with pytest.raises(ForageError, match="Only numbers can be normalised"):
        PPO(normalise_observation=True).check(spec)


def test_small_maps_of_bytes_are_read_by_what_was_seen():
    """A map's codes are far below 255: PPO reads them normalised, and a first rollout by its own mean and spread."""
    grid, screen = gym.Box(0, 255, (7, 7, 3), np.uint8), gym.Box(0, 255, (84, 84, 4), np.uint8)
    assert norms_of(grid) is None
    assert norms_of(screen, maps=True) is None
    space = gym.Dict({"map": grid, "screen": screen, "heading": gym.Discrete(4)})
    norm = norms_of(space, maps=True)
    read = input_space(gym.Dict({"observation": space, "action_mask": gym.MultiBinary(2)}), norm)["observation"]
    assert (read["map"].shape, scale_of(read["map"])) == ((147,), 1)
    assert (read["screen"], read["heading"]) == (screen, space["heading"])
    codes = np.arange(2 * 147, dtype=np.uint8).reshape(1, 2, 7, 7, 3) % 11
    rollout = {"map": codes, "screen": np.zeros((1, 2, 84, 84, 4), np.uint8), "heading": np.zeros((1, 2), int)}
    later = update_norms(norm, rollout, jnp.ones((1, 2), bool))
    first = first_statistics(norm, later)
    np.testing.assert_allclose(first["map"].mean, codes[0].mean(0).reshape(-1), rtol=1e-5)
    np.testing.assert_allclose(first_statistics(first, norm)["map"].mean, first["map"].mean)  # only at the beginning
    seen = [apply_norm(first, jax.tree.map(lambda x, i=i: x[0, i], rollout))["map"] for i in (0, 1)]
    differ = (codes[0, 0] != codes[0, 1]).reshape(-1)
    np.testing.assert_allclose(np.abs(np.array(seen))[:, differ], 1, rtol=1e-4)


# --- agents ---------------------------------------------------------------------------------------------------------


class MixedEnvironment(Environment):
    """Each of five leaves has a sign that only it shows; the right action depends on all of them.

    Discrete actions: 1 for a positive sum, else 0; the reward is whether that is right. Whoever misses one leaf is
    right in 13 of 16 cases. Continuous actions: the reward is 1 - (a - sum / 5)^2; missing one leaf costs 0.04.
    Episodes last one step.
    """

    continuous: bool = equinox.field(static=True, default=False)

    @property
    def observation_space(self):
        return MIXED

    @property
    def action_space(self):
        return gym.Box(-1.5, 1.5, (1,), np.float32) if self.continuous else gym.Discrete(2)

    def reset(self, key):
        sign_key, noise_key = jax.random.split(key)
        signs = jax.random.bernoulli(sign_key, 0.5, (5,))
        return signs, self.look(signs, noise_key)

    def look(self, signs, key):
        image, vector, number, text, choice = signs
        keys = jax.random.split(key, 4)
        column = jnp.where(image, 3, 1)
        row = jax.random.randint(keys[0], (), 1, 4)
        words = jnp.where(text, jnp.array([2, 3]), jnp.array([3, 2]))  # the same words in another order
        return {
            "image": jnp.zeros((5, 5, 1), jnp.uint8).at[row, column, 0].set(255),
            "vector": jax.random.uniform(keys[1], (3,), minval=-1.0).at[1].set(jnp.where(vector, 0.7, -0.7)),
            "inner": {
                "number": jnp.where(number, 4, 6).astype(jnp.int32) - jax.random.bernoulli(keys[2]).astype(jnp.int32),
                "choices": jnp.stack([jnp.where(choice, 2, 1), jax.random.randint(keys[3], (), 0, 2)]).astype(
                    jnp.int32
                ),
            },
            "text": jnp.concatenate([jnp.array([4]), words, jnp.array([0])]).astype(jnp.int32),
            "bits": jnp.zeros((2, 2), jnp.int8),
        }

    def step(self, signs, action, key):
        total = jnp.sum(2.0 * signs - 1.0)
        right = (action == (total > 0)).astype(jnp.float32)
        reward = 1 - (action[0] - total / 5) ** 2 if self.continuous else right
        return signs, Step(self.look(signs, key), reward, jnp.bool_(True), jnp.bool_(False), {})


OFF_POLICY = {
    "num_envs": 16,
    "rollout_length": 4,
    "updates_per_rollout": 4,
    "learning_starts": 512,
    "batch_size": 64,
    "hidden_sizes": (64,),
    "learning_rate": 2e-3,
}
COLD = {"polyak": 0.02, "initial_temperature": 0.01}
ROLLOUT = {"num_envs": 32, "rollout_length": 16, "learning_rate": 2e-3}
GRU = {"gru_size": 16, "burn_in": 1, "unroll": 3, "target_update_interval": 256}
TRIALS = {
    "ppo": (PPO(**ROLLOUT, normalise_observation=True), False, 20_000),
    "ppo-continuous": (PPO(**ROLLOUT, entropy_coefficient=0.0), True, 40_000),
    "dqn": (DQN(**OFF_POLICY, n_step=1, target_update_interval=256), False, 8_000),
    "dqn-gru": (DQN(**(OFF_POLICY | GRU | {"batch_size": 32}), n_step=1), False, 10_000),
    "sac": (SAC(**OFF_POLICY, **COLD, target_entropy=-3.0), True, 8_000),
    "sac-discrete": (SACDiscrete(**OFF_POLICY, **COLD, target_entropy=0.1), False, 8_000),
    "td3": (TD3(**(OFF_POLICY | {"learning_rate": 1e-3}), polyak=0.02, exploration_noise=0.3), True, 16_000),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", TRIALS)
@pytest.mark.usefixtures("optimised_programs")
def test_every_agent_learns_from_every_kind_of_leaf(name):
    agent, continuous, steps = TRIALS[name]
    environment = MixedEnvironment(continuous=continuous)
    spec = spec_of(environment, "Mixed")
    check_environment(environment, "Mixed")
    behaviour = EpsilonGreedy(end=0.05) if isinstance(agent, DQN) else default_behaviour(agent)
    memory = default_memory(agent) if agent.on_policy else UniformReplay(capacity=8192)
    learner = Learner(agent, behaviour, EnvironmentReward(), memory, spec)
    learner.check()
    runner = DeviceRunner(batch_seeds(DeviceLoop(learner, environment, Same(), Reset()), {}), [0], steps)
    runner.begin()
    report = runner.advance(steps // runner.steps_per_iteration)
    assert report.environment_finite.all() and report.agent_finite.all()
    state = jax.tree.map(lambda x: x[0], runner.agent_states())

    def play(key):
        begin, rest = jax.random.split(key)
        signs, observation = environment.reset(begin)
        action, _, _ = agent.act(state, ActInputs(agent.init_hidden(spec), observation, rest, explore=False))
        return environment.step(signs, spaces.clip(spec.action_space, action), rest)[1].reward

    mean = jax.jit(jax.vmap(play))(jax.random.split(prng.key(1), 1000)).mean()
    assert mean > (0.98 if continuous else 0.95), f"mean reward {mean:.3f}"


@pytest.mark.thorough
def test_a_policy_takes_nested_observations_and_names_wrong_ones():
    spec = Spec("Mixed", MIXED, gym.Discrete(2))
    agent = PPO(hidden_sizes=(8,))
    policy = Policy(agent, small.at_once(lambda: agent.init(jax.random.key(0), spec)), spec)
    observation = MIXED.sample()
    assert policy.act(observation) in (0, 1)
    with pytest.raises(ForageError, match="One observation of Mixed"):
        policy.act({**observation, "inner": {}})
    with pytest.raises(ForageError, match=r"has shape \(3,\), not \(2,\)"):
        policy.act({**observation, "vector": np.zeros(2)})


def box(low, high, dtype=np.int64):
    return gym.Box(np.array(low, dtype), np.array(high, dtype), dtype=dtype)


PLANES = np.full((10, 10, 2), 255, np.uint8)
PLANES[..., 0] = 1


@pytest.mark.parametrize(
    ("space", "shown", "read", "before"),
    [
        (box([0, 0], [1, 1000], np.int32), [1, 500], [1, 0.5], [0.001, 0.5]),
        (box([0, 0], [1, 1000], np.int16), [1, 500], [1, 0.5], [0.001, 0.5]),
        (box([-5, -2000], [5, 1000]), [-5, -2000], [-5, -1], [-0.0025, -1]),
        (box([0, 0, 0], [100, 101, 0]), [100, 101, 0], [100, 1, 0], [100 / 101, 1, 0]),
        (box([1990, 0], [2030, 1]), [2000, 1], [10, 1], [2000 / 2030, 1 / 2030]),
        (box([-2030], [-1030]), [-1530], [-0.5], [-1530 / 2030]),
        (box([7000, 0], [7000, 1]), [7000, 1], [0, 1], [1, 1 / 7000]),
        (box([0, 0], [2**31 - 1, 1000], np.int32), [5, 1000], [5, 1], [5, 1000]),
        (box([0, 0], [1, 10**12]), [1, 5 * 10**11], [1, 0.5], [1, 5e11]),
        (box([-(2**63), 0, 0], [2**63 - 1, 1000, 1]), [7, 500, 1], [7, 0.5, 1], [7, 500, 1]),
        (box([0, 0], [2**32 - 1, 1000], np.uint32), [7, 500], [7, 0.5], [7, 500]),
        (box([0, 0], [255, 255], np.uint8), [255, 51], [1, 0.2], [1, 0.2]),
        (box([0, 2000], [4000, 2000]), [1000, 2000], [0.25, 0], [0.25, 0.5]),
    ],
)
def test_each_whole_number_is_read_by_its_own_bounds(space, shown, read, before):
    """By hand; `before` is the reading of older versions' runs, which stays the same."""
    inside = travelling(space)
    for kept, wanted in ((inside, read), (from_json(to_json(inside)), read), (with_one_factor(inside), before)):
        reader = encoder(prng.key(0), kept, None)
        np.testing.assert_allclose(reader(np.asarray(shown, kept.dtype)), wanted, rtol=1e-6)
        assert hash(reader.scale) == hash(encoder(prng.key(1), kept, None).scale)


def test_each_plane_of_a_picture_is_read_by_its_own_bound():
    reader = encoder(prng.key(0), gym.Box(np.zeros_like(PLANES), PLANES, dtype=np.uint8), None)
    np.testing.assert_allclose(reader.pixels(PLANES), np.ones_like(PLANES), rtol=1e-6)
    smaller = spaces.resize_box(gym.Box(np.zeros_like(PLANES), PLANES, dtype=np.uint8), (5, 5, 2))
    assert smaller.high[..., 0].max() == 1 and smaller.high[..., 1].min() == 255
    rows = np.stack([PLANES, PLANES // 2])
    np.testing.assert_allclose(reader.rows(rows), [reader(row) for row in rows], rtol=1e-4, atol=1e-6)
    assert scale_of(gym.Box(0, 255, (84, 84, 4), np.uint8)) == 1 / 255


def test_a_run_from_before_reads_whole_numbers_as_it_learned_to():
    space = gym.Dict({"counts": box([0, 0], [1, 1000], np.int32), "seen": gym.Box(-1, 1, (2,))})
    spec = {"name": "Shop", "observation_space": to_json(space), "action_space": to_json(gym.Discrete(2))}
    config = {"spec": spec | {"reward_names": [], "horizon": None}}
    old = spec_from_config(config).observation_space
    config["spec"]["scales"] = BY_ENTRY
    new = spec_from_config(config).observation_space
    assert scale_of(old["counts"]) == 0.001 and scale_of(new["counts"]).tolist() == [1, 0.001]
    assert (to_json(old), to_json(new)) == (to_json(space),) * 2 and old["seen"] == space["seen"]


class Counter(gymnasium.Env):
    observation_space = box([0, 0], [1, 1000])
    action_space = gym.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, int), {}


def test_a_resumed_run_goes_on_reading_as_it_learned_to():
    config = resolve("ppo", Counter, steps=100, seeds=1).config()
    assert config["spec"].pop("scales") == BY_ENTRY
    old = from_config(config, Counter)
    assert scale_of(old.spec.observation_space) == 0.001 and "scales" not in old.config()["spec"]


# --- mixed actions


def test_mixed_actions_are_vectors_that_know_their_parts():
    assert FLAT.shape == (5,) and FLAT.split == 3 and spaces.choices(FLAT) == 6
    np.testing.assert_array_equal(FLAT.low, [0, 0, 0, -3, 0])
    np.testing.assert_array_equal(FLAT.high, [1, 1, 1, 90_000, 2])
    stored = json.loads(json.dumps(spaces.to_json(FLAT)))
    again = spaces.from_json(stored)
    assert again == FLAT and again.nested == PARTS and spaces.to_json(again) == stored
    words = "Dict(more: Tuple(MultiBinary(2), Box()), power: Box(1,), side: Discrete(2, start=5))"
    assert spaces.describe_space(FLAT) == words
    unsorted = action_space("x", gym.Dict(b=gym.Discrete(2), a=gym.Tuple((gym.Box(0, 1), gym.Discrete(3)))))
    assert list(spaces.from_json(json.loads(json.dumps(spaces.to_json(unsorted)))).nested) == ["b", "a"]
    assert FLAT.contains([1, 0, 1, 7, 0.5]) and not FLAT.contains([0.5, 0, 1, 7, 0.5])
    assert not FLAT.contains([1, 0, 1, 7, 2.5]) and not FLAT.contains([1, 0, 1, 7])
    np.testing.assert_array_equal(spaces.clip(FLAT, jnp.array([1.0, 0, 1, 1e6, -1])), [1, 0, 1, 90_000, 0])
    np.testing.assert_array_equal(spaces.example(FLAT), np.zeros(5, np.float32))


def test_random_mixed_actions_obey_the_mask_of_their_choices():
    mask = jnp.array([0, 1, 1, 0, 1, 1], bool)
    drawn = jax.vmap(lambda key: spaces.sample(FLAT, key, mask))(jax.random.split(jax.random.key(0), 200))
    assert all(FLAT.contains(row) for row in np.asarray(drawn))
    assert (drawn[:, 0] == 1).all() and (drawn[:, 1] == 0).all() and 0.3 < drawn[:, 2].mean() < 0.7
    np.testing.assert_allclose(drawn[:, 4].mean(), 1, atol=0.15)
    FLAT.seed(0)
    assert all(FLAT.contains(FLAT.sample()) for _ in range(20))


def test_a_mask_of_mixed_actions_has_an_entry_for_each_option():
    seen = lambda size: gym.Dict(observation=gym.Box(-1, 1, (2,)), action_mask=gym.MultiBinary(size))  # noqa: E731
    spaces.check_spaces("mine", seen(6), FLAT)
    with pytest.raises(ForageError, match=r"action_mask with 7 entries for the 6 choices of Dict"):
        spaces.check_spaces("mine", seen(7), FLAT)
