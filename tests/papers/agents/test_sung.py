"""Offline to online by uncertainty: uncertainty of pairs, choice of candidates, careful updates, and the hand-over."""

from typing import Any

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from critic_helpers import inputs_of
from fine_tuning_helpers import SPEC, batch, constant_critics, linear_critics
from small import at_once, compute
from tiers import gate_cases

import forage
from forage.agents.actor_critic.base import UpdateInputs
from forage.agents.actor_critic.offline.cql import CQL
from forage.agents.actor_critic.offline.td3_bc import TD3BC
from forage.config.resolve import resolve
from forage.core.ports import ActInputs
from forage.core.types import Clock, ForageError, Spec
from forage.memory.mixed import MixedReplay
from forage_papers.agents.actor_critic.offline_to_online.sung import SUNG, SUNGCQL, Density
from forage_papers.nn.vae import Autoencoder

small.keep_compiled()
SIZES: dict[str, Any] = {"hidden_sizes": (), "density_hidden": 2}
ONLINE: dict[str, Any] = SIZES | {"online": True, "candidates": 6, "kept": 2}
FEW: dict[str, Any] = {"samples": 2, "value_sizes": (4,), "hidden_sizes": (4,)}


def constant(autoencoder, mean, log_std, decoded):
    """Return an autoencoder with constant outputs."""
    still = jax.tree.map(jnp.zeros_like, autoencoder)
    biases = lambda a: (a.encoder.layers[-1].bias, a.decoder.layers[-1].bias)  # noqa: E731
    code = jnp.array([mean, mean, log_std, log_std])
    return equinox.tree_at(biases, still, (code, jnp.full(still.decoder.layers[-1].bias.shape, decoded)))


class ToldDensity(Density):
    """An uncertainty of ten times the action's first number."""

    def uncertainty(self, observation, action, key, autoencoder=None):
        return 10 * action[:, 0]


TOLD = ToldDensity(None, None, None)


def test_the_autoencoders_loss_by_hand():
    made = constant(at_once(lambda: Autoencoder(jax.random.key(0), 3, 2, 4)), 0.5, -1.0, 0.3)
    found = compute(lambda: made.error(jnp.array([[0.0, 1.0, -1.0], [0.0, 0.0, 0.0]]), jax.random.key(1)))
    deviation, decoded = np.exp(-1), np.tanh(0.3)
    price = 0.5 * (0.5**2 + deviation**2 - 1 + 2) / 2  # beta 0.5, and log s^2 = -2
    squares = [(decoded**2 + (1 - decoded) ** 2 + (1 + decoded) ** 2) / 3, decoded**2]
    np.testing.assert_allclose(found, np.array(squares) + price, rtol=1e-5)


@pytest.mark.thorough
def test_it_learns_what_the_like_of_was_seen():
    agent = SUNG(**SIZES | {"density_hidden": 16})
    density = at_once(lambda: agent.init(jax.random.key(0), SPEC)).density
    seen, action = jnp.zeros((32, 3)), jnp.full((32, 2), 0.5)

    def run_learn(density):
        def step(i, density):
            return agent.train_autoencoder(density, seen, action, jax.random.key(i))[0]

        later = jax.lax.fori_loop(0, 300, step, density)
        of = lambda action: later.uncertainty(seen, action, jax.random.key(9)).mean()  # noqa: E731
        return of(action), of(-action)

    known, unlike = compute(run_learn, density)
    assert unlike > 5 * known


def test_what_is_chosen():
    """Candidates of value 0 to 5 and uncertainty 0 to -50: softmaxes are all but certain."""
    value, unlike = jnp.arange(6.0), -10 * jnp.arange(6.0)
    choice = lambda agent, value, unlike: compute(  # noqa: E731
        lambda: agent.choice(value, unlike, jax.random.key(0))
    )
    assert choice(SUNG(**ONLINE), value, unlike) == 4  # of 4 and 5, which have most value, the less known
    assert choice(SUNGCQL(**ONLINE), 10 * value, unlike) == 1  # of 0 and 1, the least known, the better


@pytest.mark.parametrize("kind", gate_cases([SUNG, SUNGCQL], [SUNG]))
def test_acting_online(kind):
    """Critics like a large first number of the action, and so does the uncertainty here."""
    agent = kind(**ONLINE | {"candidates": 64, "kept": 8})
    state = at_once(lambda: agent.init(jax.random.key(0), SPEC))
    state = state._replace(critics=linear_critics(state.critics, jnp.array([10.0, 10.0]), 3), density=TOLD)
    act = lambda explore: compute(  # noqa: E731
        lambda: agent.act(state, ActInputs((), jnp.zeros(3), jax.random.key(1), explore))[0]
    )
    far, own = act(True), act(False)
    reach = 0.1 if kind is SUNG else 0.5  # of a box up to 2: deviations of the noise, and of the policy
    assert far[0] > own[0] + reach and far[0] <= 2.0


def test_the_policy_is_careful_where_it_is_unlike_the_data():
    """One of four rows imitates: the one with the action furthest to the right."""
    agent = SUNG(**ONLINE, uncertain_share=0.25, caution=0.3, normalise_observation=False, alpha=2.0)
    state = at_once(lambda: agent.init(jax.random.key(0), SPEC))
    critics = constant_critics(state.critics, [4.0, 9.0])
    now = batch().experience
    seen, action = now.observation[0], now.action[0] / 2
    (loss, _), own = compute(
        lambda: (
            agent.actor_loss(state.actor, state._replace(critics=critics, density=TOLD), inputs_of(seen, action)),
            state.actor(seen),
        )
    )
    row = own[:, 0].argmax()
    np.testing.assert_allclose(loss, 0.3 * np.mean((own[row] - action[row]) ** 2) - 2.0, rtol=1e-5)


def test_the_gap_is_over_uncertain_rows_and_counts_less():
    agent, plain = SUNGCQL(**ONLINE | FEW, uncertain_share=0.25, caution=0.2), CQL(**FEW)
    state = at_once(lambda: agent.init(jax.random.key(0), SPEC))._replace(density=TOLD)
    action = jnp.array([[0.1, 0.0], [-9.0, 0.3], [9.0, -0.2], [0.0, 0.0]])  # the third is all but sure to be drawn
    now = jax.tree.map(lambda x: x[0], batch().experience)
    target, weight = jnp.arange(4.0), jnp.array([1.0, 1.0, 0.5, 1.0])
    keys = agent.critic_keys(jax.random.key(2))

    def losses():
        sampled = agent.sample(state, UpdateInputs(now, action, weight, keys=keys))
        told = agent.conservative_loss(state.critics, state, UpdateInputs(now, action, weight), target, sampled)
        error = agent.critic_loss(state.critics, UpdateInputs(now, action, weight), target)[0]
        some = UpdateInputs(*jax.tree.map(lambda x: x[2:3], (now, action, weight)))
        one = sampled._replace(action=sampled.action[2:3], log_density=sampled.log_density[2:3])
        return told[0], told[1][1], error, plain.gaps(state.critics, some, one)

    loss, gap, error, expected = compute(losses)
    np.testing.assert_allclose(gap, 0.2 * expected, rtol=1e-5)
    np.testing.assert_allclose(loss, 2 * error + agent.conservatism * 0.2 * expected.sum(), rtol=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "base"), [(SUNG, TD3BC), (SUNGCQL, CQL)])
def test_offline_it_is_the_offline_agent_beside_which_the_autoencoder_learns(kind, base):
    more = {"hidden_sizes": (4,), "policy_delay": 1} | ({"samples": 2} if base is CQL else {})
    guided, plain = kind(**more, density_hidden=4), base(**more)
    clock = Clock(jnp.int32(0), jnp.float32(100))

    def state_after(agent):
        state = agent.init(jax.random.key(0), SPEC)
        state = agent.init_from_dataset(state, jax.tree.map(lambda x: x[0], batch().experience))
        return state, agent.learn(state, batch(), clock, jax.random.key(1))[0]

    (before, state), (_, expected) = compute(lambda: state_after(guided)), compute(lambda: state_after(plain))
    for name in expected._asdict():
        for ours, theirs in zip(*map(jax.tree.leaves, (getattr(state, name), getattr(expected, name))), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6, err_msg=name)
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), before.density.autoencoder, state.density.autoencoder)
    assert max(jax.tree.leaves(moved)) > 0


@pytest.mark.thorough
@pytest.mark.parametrize("agent", ["sung", "sung-cql"])
def test_an_offline_run_goes_on_online_and_resumes(agent, tmp_path):
    actor = small.train(tmp_path / "actor", "sac", steps=96)
    forage.data.record(actor.directory, 64, tmp_path / "a.npz", actions="random")
    options = {"hidden_sizes": (8,), "batch_size": 4, "density_hidden": 8, "candidates": 8, "kept": 2}
    options |= {"samples": 2, "value_sizes": (8,)} if agent == "sung-cql" else {}
    words = {"seeds": [3, 7], "evaluation_episodes": 1, "display": "quiet"}
    data = {"data": tmp_path / "a.npz", "steps": 8, "agent_options": options}
    offline = forage.train(agent, "Pendulum-v1", directory=tmp_path / "run", **words, **data)
    memory = MixedReplay(str(tmp_path / "a.npz"), share=0.1, capacity=64)
    more = {"agent_options": {"online": True, "learning_starts": 4}, "memory": memory}
    run = forage.train(start_from=offline, directory=tmp_path / "on", steps=24, **words, **more)
    assert run.config["agent"]["density_hidden"] == 8 and run.config["behaviour"]["random_steps"] == 0
    assert (run.directory / "handover.json").exists()
    setup = resolve(
        agent, "Pendulum-v1", steps=80, seeds=[3], agent_options=options | more["agent_options"], memory=memory
    )
    again, runner, _ = small.resume_run(setup, tmp_path, 12)
    assert small.differing(runner.state, again.state) == []


def test_what_is_refused():
    with pytest.raises(ForageError, match="SUNG keeps 7 of 6 candidates"):
        SUNG(**ONLINE | {"kept": 7})
    with pytest.raises(ForageError, match="SUNG learns from a data set"):
        resolve("sung", "Pendulum-v1", seeds=1, steps=10).learner()
    with pytest.raises(ForageError, match="go on online from such a run with --memory mixed"):
        resolve("sung", "Pendulum-v1", seeds=1, steps=2000, agent_options={"online": True}).learner()
    picture = Spec("Eye", gymnasium.spaces.Box(0, 255, (8, 8, 3), np.uint8), SPEC.action_space)
    with pytest.raises(ForageError, match="needs vectors of numbers"):
        check(SUNG(normalise_observation=False), picture)
