"""Temperatures of text: by the formulas, and in a rollout that the learner scores with the same ones."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check

from forage.agents.language.grpo import GRPO
from forage.config.resolve import resolve
from forage.core.ports import ActContext, HiddenState
from forage.core.spaces import Tokens
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.nn.language.architecture import Architecture
from forage.nn.transformer import Transformer
from forage_papers.behaviours.adaptive_temperature import AdaptiveTemperature, TemperatureState
from forage_papers.behaviours.annealed_decoding import AnnealedDecoding

MODEL = Transformer(jax.random.key(0), Architecture(512, 16, 1, 2, 16, length=256))


def test_temperatures_along_an_answer():
    behaviour = AnnealedDecoding(highest=1.2, lowest=0.5, decay=2.0, growth=1.0, longest_decay=4.0, head=1.0)
    now = np.asarray(behaviour.temperatures(5, 0))
    np.testing.assert_allclose(now, [1.0, 2.2 - np.exp(0.5), 0.5, 0.5, 0.5], rtol=1e-5)  # 2.2 - e is below 0.5
    later = np.asarray(behaviour.temperatures(5, 9))
    np.testing.assert_allclose(later[1:], np.maximum(2.2 - np.exp(np.arange(1, 5) / 4), 0.5), rtol=1e-5)


def test_the_temperature_rises_as_the_policy_becomes_surer():
    behaviour = AdaptiveTemperature(annealed=0.5, final=0.8)
    scale = np.log(512) + np.log(np.log(512))
    moved = behaviour.next_temperature(jnp.float32(1.5), jnp.float32(2.0), jnp.float32(1.0), 512)
    assert moved == pytest.approx(1.5 * (1 + 1.5 * np.log(2) / scale), rel=1e-5)
    assert behaviour.next_temperature(jnp.float32(1.0), jnp.float32(2.0), jnp.float32(2.0), 512) == 1
    shares = [float(behaviour.share(Clock(jnp.int32(at), jnp.float32(100)))) for at in (0, 50, 75, 100)]
    np.testing.assert_allclose(shares, [1, 1, 0.9, 0.8], rtol=1e-5)


@pytest.mark.thorough
def test_the_first_rollout_sets_the_entropy_that_is_held():
    behaviour = AdaptiveTemperature()
    space = Tokens(3, 513, end=2)
    moment = ActContext(
        GRPO(), (), Spec("text:here", space, space), Clock(jnp.int32(0), jnp.float32(1)), jax.random.key(0)
    )
    action = jnp.array([[[3, 2, 0], [4, 5, 2]]])
    policy_info = GRPO  # stands for anything with log-probabilities

    def rollout(log_p):
        policy_info.log_probability = log_p * (action > 0)
        return Experience((), action, jnp.zeros((1, 2)), (), None, None, None, policy_info)

    state = behaviour.report(TemperatureState(jnp.float32(1.0), jnp.zeros(()), jnp.int32(0)), rollout(-0.5), moment)
    assert (state.temperature, state.target, state.rollouts) == (1, 0.5, 1)
    assert behaviour.report(state, rollout(-0.1), moment).temperature > 1
    del policy_info.log_probability


@pytest.mark.thorough
def test_the_learner_scores_each_token_at_its_temperature():
    options = {"model": MODEL, "num_envs": 8, "group_size": 4}
    setup = resolve("grpo", "text:addition", agent_options=options, steps=64, seeds=[0], behaviour="policy")
    learner, behaviour = setup.learner(), AnnealedDecoding(2.0, 0.2, decay=4.0, growth=0.0, head=0.0)
    agent, batch = learner.agent, setup.environment(8)
    behaviour.check(agent, learner.spec)
    state, seen = agent.init(jax.random.key(0), learner.spec), jax.tree.map(jnp.asarray, batch.reset(0))
    moment = ActContext(agent, state, learner.spec, Clock(jnp.int32(0), jnp.float32(64)), jax.random.key(0))

    @jax.jit
    def act(seen, keys):
        return jax.vmap(lambda o, k: behaviour.act((), HiddenState(()), o, moment._replace(key=k)))(seen, keys)

    decision = act(seen, jax.random.split(jax.random.key(1), 8))
    step = batch.step(np.asarray(decision.action)).step
    ends, source = (step.terminated, step.truncated), np.zeros(8, np.int32)
    one = Experience(seen, decision.action, step.reward, step.observation, *ends, source, decision.policy_info)
    rows = agent.rows(Batch(jax.tree.map(lambda x: jnp.asarray(x)[None], one), jnp.ones(8), jnp.arange(8)))
    assert rows.temperature.shape == rows.wrote.shape and rows.temperature[0, 0] == 2
    score = jax.jit(lambda rows: agent.score_tokens(state.network, state, rows)[0])
    np.testing.assert_allclose(score(rows) * rows.wrote, rows.sampled, atol=1e-5)
    warm = score(rows._replace(temperature=jnp.ones_like(rows.temperature)))
    assert np.abs((warm - rows.sampled) * rows.wrote).max() > 0.1


def test_what_is_no_text_or_falls_upwards_is_refused():
    box = Spec("Here", gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Discrete(2))
    for behaviour in (AnnealedDecoding(), AdaptiveTemperature()):
        with pytest.raises(ForageError, match="is for text, and GRPO in Here writes none"):
            check(behaviour, GRPO(), box)
    with pytest.raises(ForageError, match="lowest of AnnealedDecoding is at most highest"):
        AnnealedDecoding(highest=0.1, lowest=0.5)
    with pytest.raises(ForageError, match=r"lowest of AdaptiveTemperature is at most highest"):
        AdaptiveTemperature(highest=0.1, lowest=0.5)
    with pytest.raises(ForageError, match="above 0"):
        check(AdaptiveTemperature(), GRPO(temperature=0.0), Spec("text:here", Tokens(3, 9), Tokens(3, 9)))
