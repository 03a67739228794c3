"""Agents with a second network that learns from outcomes, and iterations of preference."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_relatives as core
from resuming_helpers import check_resumed
from test_grpo import collect, model, run_learn
from test_relatives import REWARD, same, setup_of
from tiers import repeat

from forage.config.registry import part_class
from forage.core.types import GUIDE, Clock

core.OWN |= {"oreal": {"freeze": 0}}
test_bad_settings_are_one_sentence = repeat(
    core.test_bad_settings_are_one_sentence,
    [
        ("istar", {"minibatches": 4}, "2 groups"),
        ("borda-dpo", {"group_size": 4, "share": 0.5, "minibatches": 2}, "1 pairs"),
        ("iterative-dpo", {"preference": "simpo"}, "dpo, robust-dpo, ipo, hinge"),
    ],
)
PAIRS = {"group_size": 4, "num_envs": 8, "model": model()}
AGENTS = {
    "oreal": PAIRS | {"top_p": None, "freeze": 1},
    "istar": PAIRS | {"rollout_length": 4},
    "iterative-dpo": PAIRS | {"interval": 2},
    "borda-dpo": PAIRS | {"share": 0.5},
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", AGENTS)
def test_resumed_is_as_if_never_stopped(name, tmp_path, monkeypatch):
    """Random weights are never right, so that an answer of even tokens is taken to be."""
    if name in ("oreal", "istar"):
        even = lambda experience: (experience.action % 2 == 0).all(0)[:, 0].astype(jnp.float32)  # noqa: E731
        monkeypatch.setattr(f"forage_papers.agents.language.{name}.outcomes", even)
    agent = part_class("agent", name)(**AGENTS[name])
    environment = "text:guess" if name == "istar" else "text:addition"
    check_resumed(tmp_path, agent, environment, 24, 40)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["oreal", "istar"])
def test_the_second_network_learns_beside_the_policy(name):
    agent, state, batch = collect(setup_of(name, minibatches=2), reward=REWARD)
    after, metrics, _ = run_learn(agent, state, batch)
    assert not same(after.network, state.network) and not same(after.kept.weights, state.kept.weights)
    assert all(np.isfinite(value) for value in metrics.values()), metrics
    assert np.isclose(metrics["judge_loss"], np.log(2), atol=0.05)  # as of a coin, before it has learned
    if name == "oreal":
        late = agent.__class__(**{"freeze": 5} | core.SMALL, model=model())
        frozen = jax.jit(lambda: late.learn(state, batch, Clock(jnp.int32(8), jnp.float32(99)), jax.random.key(1))[0])()
        assert same(frozen.network, state.network) and not same(frozen.kept.weights, state.kept.weights)


@pytest.mark.thorough
def test_the_reference_is_renewed_at_the_end_of_an_iteration():
    agent, state, batch = collect(setup_of("iterative-dpo", interval=2), reward=REWARD)
    learn = jax.jit(lambda steps: agent.learn(state, batch, Clock(steps, jnp.float32(32)), jax.random.key(1))[0])
    kept, renewed = learn(jnp.int32(8)), learn(jnp.int32(16))
    assert same(kept.reference, state.reference) and same(renewed.reference, renewed.network)
    decision, _ = core.act_out(setup_of("iterative-dpo"), "iterative-dpo")
    assert (np.asarray(decision.source) == GUIDE).all()
