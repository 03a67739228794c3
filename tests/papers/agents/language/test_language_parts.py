"""Rewards, behaviours and memory of text with GRPO: one turn of the loop, by its shapes alone."""

import jax
import jax.numpy as jnp
import pytest
from test_grpo import model
from tiers import gate_cases

from forage.behaviours.policy import AgentPolicy
from forage.config.resolve import resolve
from forage.core import prng
from forage.core.errors import ForageError
from forage.core.types import Clock
from forage.memory.rollout import LastRollout
from forage.rewards.verifiers.form import Format
from forage_papers.behaviours.adaptive_temperature import AdaptiveTemperature
from forage_papers.behaviours.annealed_decoding import AnnealedDecoding
from forage_papers.memory.self_imitation import SelfImitation
from forage_papers.memory.successes import Successes
from forage_papers.rewards.verifiers.diversity import Diversity
from forage_papers.rewards.verifiers.perplexity import TextCuriosity
from forage_papers.rewards.verifiers.representation import Representation
from forage_papers.rewards.verifiers.shorter import Shorter

GROUP = {"group_size": 4}
TURNS = {
    "diversity, annealed-decoding, self-imitation": lambda: (
        Diversity(inner=Format(), **GROUP),
        AnnealedDecoding(),
        SelfImitation(size=8, **GROUP),
    ),
    "shorter, adaptive-temperature, successes": lambda: (Shorter(**GROUP), AdaptiveTemperature(), Successes(**GROUP)),
    "text-curiosity": lambda: (TextCuriosity(), AgentPolicy(), LastRollout()),
    "representation, successes": lambda: (Representation(model=model(1), **GROUP), AgentPolicy(), Successes(**GROUP)),
}


@pytest.mark.parametrize("name", gate_cases(TURNS, list(TURNS)[:1]))
def test_a_turn_of_the_loop_keeps_its_shapes(name):
    rewards, behaviour, memory = TURNS[name]()
    options = {"model": model(), "num_envs": 8, "group_size": 4, "minibatches": 2}
    parts = {"rewards": rewards, "behaviour": behaviour, "memory": memory}
    learner = resolve("grpo", "text:addition", agent_options=options, steps=64, seeds=[0], **parts).learner()

    def turn():
        state = learner.init(prng.key(0))
        example = learner.example(state.agent, state.behaviour)
        rollout = jax.tree.map(lambda x: jnp.zeros((1, 8, *x.shape), x.dtype), example)
        return state, *learner.learn(state, rollout, Clock(jnp.int32(0), jnp.float32(64)), prng.key(1))

    before, after, metrics = jax.eval_shape(turn)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), before) == jax.tree.map(lambda x: (x.shape, x.dtype), after)
    assert {"reward", "policy_loss"} <= metrics.keys()


@pytest.mark.parametrize(("port", "part"), [("memory", Successes()), ("rewards", Shorter())])
def test_groups_of_another_size_are_refused(port, part):
    options = {"model": model(), "num_envs": 8, "group_size": 4}
    with pytest.raises(ForageError, match="compares 8 episodes with one beginning"):
        resolve("grpo", "text:addition", agent_options=options, **{port: part}).runner()
