"""Gumbel search: trees worked by hand, ends and clocks, masks, the value targets, and learning."""

import dataclasses
import functools
import math

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small

from forage.agents.search import gumbel_search
from forage.agents.search.gumbel_search import GumbelSearch, SearchResult
from forage.config.resolve import resolve
from forage.core import prng
from forage.core.ports import ActInputs, World
from forage.core.types import Experience, ForageError
from forage.environments import spec_of
from forage.environments.tabular.mdp import Tabular, TabularState
from forage.environments.tabular.probes import PROBES

small.keep_compiled()
KEY = prng.key(0)
DISCOUNT = 0.9
END = 5


def fork(max_steps: int | None = None) -> Tabular:
    """0 -1-> 2 -1-> 4 -1-> end gives 0, 0 and 3; all other actions end the episode, from 0 with 1, elsewhere with 0.

    What its end would pay is never paid: a search that goes on from there is found out.
    """
    transition = np.zeros((6, 2, 6))
    transition[:, :, END] = 1
    for state, following in ((0, 2), (2, 4)):
        transition[state, 1] = np.eye(6)[following]
    reward = np.zeros((6, 2))
    reward[0, 0], reward[4, 1], reward[END] = 1, 3, 100
    return Tabular(transition, reward, np.eye(6)[0], np.arange(6) == END, max_steps)


def search_case(environment, value=0.0, logits=0.0, explore=False, state=None, keys=KEY[None], **options):
    """Return the search's results, for each key, by a network with one value for all states and these logits."""
    agent, spec = GumbelSearch(discount=DISCOUNT, **options), spec_of(environment, "a table")
    agent.check(spec)
    logits = jnp.broadcast_to(jnp.asarray(logits, jnp.float32), (spec.action_space.n,))
    found = jax.device_get(search(agent, environment, jnp.float32(value), logits, state, keys, explore, spec))
    return found if len(keys) > 1 else jax.tree.map(lambda x: x[0], found)


@functools.partial(jax.jit, static_argnums=(6, 7))
def search(agent, environment, value, logits, state, keys, explore, spec):
    def parameters(state):
        network = state.network
        return network.actor.weight, network.actor.bias, network.critic.weight, network.critic.bias

    before = agent.init(KEY, spec)
    zeros = jax.tree.map(jnp.zeros_like, parameters(before))
    before = equinox.tree_at(parameters, before, (zeros[0], zeros[1] + logits, zeros[2], zeros[3] + value))
    first, observation = environment.reset(KEY)
    world = World(environment, first if state is None else state)
    action, _, found = jax.vmap(lambda key: agent.act(before, ActInputs((), observation, key, explore, world=world)))(
        keys
    )
    return action, found


def softmax(*logits):
    return np.exp(logits) / np.exp(logits).sum()


def test_two_simulations_by_hand():
    """One simulation per action: q = (1, 0.9 V), rescaled to 1 and 0, times (50 + 1) value_scale, plus the logits."""
    action, found = search_case(fork(), value=0.5, logits=[0.0, 2.0], simulations=2, value_scale=0.02)
    expected = softmax(51 * 0.02, 2.0)
    assert found.weights == pytest.approx(expected, rel=1e-5)
    assert found.value == pytest.approx(expected @ [1.0, 0.45], rel=1e-5)
    assert action == 1  # 2 > 1.02
    assert search_case(fork(), value=0.5, logits=[0.0, 1.0], simulations=2, value_scale=0.02)[0] == 0


@pytest.mark.thorough
def test_one_simulation_completes_the_values_by_hand():
    """Only the action of the higher logit is visited; the other counts as the mix of V and q, (0.5 + 1) / 2."""
    _, found = search_case(fork(), value=0.5, logits=[1.0, 0.0], simulations=1, value_scale=0.02)
    assert found.weights == pytest.approx(softmax(1 + 51 * 0.02, 0.0), rel=1e-5)
    assert found.value == pytest.approx(1.0)


@pytest.mark.thorough
def test_four_simulations_by_hand():
    """Two each. The second below state 2 takes action 0, which ends with 0 (both seem equal): q = 0.9 (V + 0) / 2."""
    _, found = search_case(fork(), value=0.5, simulations=4, value_scale=0.02)
    q, weights = np.array([1.0, 0.9 * 0.25]), softmax(52 * 0.02, 0.0)
    assert found.weights == pytest.approx(weights, rel=1e-5)
    assert found.value == pytest.approx(weights @ q, rel=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize(("simulations", "best"), [(4, 0), (64, 1)])
def test_an_untrained_network_finds_what_pays_later_with_enough_simulations(simulations, best):
    """The best return is 0.9^2 * 3 = 2.43, three steps ahead, against 1 at once."""
    action, found = search_case(fork(), simulations=simulations)
    assert action == best and np.argmax(found.weights) == best
    assert found.value <= 2.43 + 1e-5


@pytest.mark.thorough
def test_nothing_comes_after_the_end():
    """State 4: action 1 ends with 3 and action 0 with 0, for any value of the end by the network."""
    state = TabularState(jnp.int32(4), jnp.int32(2))
    action, found = search_case(fork(), value=50.0, state=state, simulations=32)
    assert action == 1 and found.value == pytest.approx(found.weights @ [0.0, 3.0], rel=1e-5)
    assert found.value < 3.0001


@pytest.mark.thorough
def test_a_clock_that_runs_out_leaves_the_value():
    """After the one step that is left, V takes the place of the rest: q = (1, 0.9 V), however often it is visited."""
    for simulations in (2, 33):
        _, found = search_case(fork(max_steps=1), value=2.0, simulations=simulations, value_scale=0.0)
        assert found.value == pytest.approx((1.0 + 0.9 * 2.0) / 2, rel=1e-5)


@pytest.mark.thorough
def test_gumbel_noise_explores_and_only_then():
    """Without simulations that tell anything, actions are drawn from the policy: 0 with probability 1 / (1 + e)."""
    same = dataclasses.replace(fork(), reward=jnp.zeros((6, 2)))
    many = {"simulations": 2, "logits": [0.0, 1.0], "keys": jax.random.split(KEY, 4000)}
    drawn, _ = search_case(same, explore=True, **many)
    assert (drawn == 0).mean() == pytest.approx(1 / (1 + math.e), abs=0.025)
    assert (search_case(same, **many)[0] == 1).all()


@pytest.mark.thorough
def test_the_policy_improves():
    """Of values that are known (each action ends), the improved policy's is never below that of the prior."""
    draw = np.random.default_rng(0)
    for _ in range(5):
        reward, logits = draw.normal(size=(2, 6)), draw.normal(size=6)
        transition = np.broadcast_to(np.eye(2)[1], (2, 6, 2))
        one = Tabular(transition, reward, [1.0, 0.0], [False, True])
        prior = softmax(*logits)
        value = float(prior @ reward[0])  # the network is right
        _, found = search_case(one, value=value, logits=logits, simulations=3)
        assert found.weights @ reward[0] >= value


@pytest.mark.thorough
def test_actions_that_are_not_allowed_are_not_tried():
    """Their reward is NaN in this probe, which would spread to the value."""
    probe = PROBES["mask"].build(False, masked=True)
    mask = np.asarray(probe.observe(probe.reset(KEY)[0])["action_mask"], bool)
    assert not mask.all()
    action, found = search_case(probe, simulations=32)
    assert mask[action] and np.isfinite(found.value)
    assert (found.weights[~mask] == 0).all() and found.weights.sum() == pytest.approx(1)


@pytest.mark.thorough
def test_chance_is_not_foreseen():
    """An even bet: with one simulation of each action, its outcome is no better known than by guessing."""
    transition = np.zeros((3, 2, 3))
    transition[:, 0, 1:], transition[:, 1, 2] = 0.5, 1
    reward = np.zeros((3, 2, 3))
    reward[0, 0, 1], reward[0, 0, 2], reward[0, 1] = 1, -1, 0.1
    bet = Tabular(transition, reward, [1.0, 0, 0], [False, True, True])
    agent = GumbelSearch(simulations=2, hidden_sizes=(4,), num_envs=64, rollout_length=16)
    setup = resolve(agent, bet, steps=2048, seeds=[0])
    runner = setup.runner()
    runner.begin()
    rollout = runner.next_rollout()
    bets = np.asarray(rollout.reward)[np.asarray(rollout.action) == 0]
    assert len(bets) > 200 and abs(bets.mean()) < 4 / math.sqrt(len(bets))


@pytest.mark.thorough
def test_value_targets_by_hand():
    """Step 0 continues, step 1 is truncated, step 2 terminates, step 3 is the rollout's last."""
    agent = GumbelSearch(discount=0.5, trace_lambda=0.5)
    state = agent.init(KEY, spec_of(fork(), "a table"))
    following = jnp.eye(6)[jnp.array([1, 2, 3, 4])]
    value = np.asarray(state.network.values(following))[:, 0]
    experience = Experience(
        observation=following,
        action=jnp.zeros(4, jnp.int32),
        reward=jnp.array([1.0, 2, 3, 4]),
        next_observation=following,
        terminated=jnp.array([False, False, True, False]),
        truncated=jnp.array([False, True, False, False]),
        source=jnp.zeros(4, jnp.int32),
        policy_info=SearchResult(jnp.full((4, 2), 0.5), jnp.array([10.0, 20, 30, 40])),
    )
    targets = agent.value_targets(state, jax.tree.map(lambda x: x[:, None], experience))
    second = 2 + 0.5 * value[1]
    first = 1 + 0.5 * (0.5 * 20 + 0.5 * second)
    assert np.asarray(targets)[:, 0] == pytest.approx([first, second, 3.0, 4 + 0.5 * value[3]], rel=1e-5)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ("Pendulum-v1", "GumbelSearch needs a Discrete action space, and Pendulum-v1 has"),
        ("gymnasium:CartPole-v1", "GumbelSearch looks ahead in the environment's own state"),
    ],
)
def test_where_it_cannot_search_is_one_sentence(environment, said):
    with pytest.raises(ForageError, match=said):
        resolve("gumbel-search", environment, steps=10_000, seeds=1).runner()


def test_without_mctx_is_one_sentence(monkeypatch):
    monkeypatch.setattr(gumbel_search.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ForageError, match=r"needs the library mctx: pip install 'forage-rl\[search\]'"):
        resolve("gumbel-search", "CartPole-v1", steps=10_000, seeds=1).runner()


def test_options_out_of_range_are_one_sentence():
    for option, value in (("simulations", 0), ("considered", 0), ("trace_lambda", 1.5), ("value_scale", -1.0)):
        with pytest.raises(ForageError, match=f"{option.replace('_', '-')} of gumbel-search is"):
            resolve("gumbel-search", "CartPole-v1", steps=10_000, seeds=1, agent_options={option: value})
