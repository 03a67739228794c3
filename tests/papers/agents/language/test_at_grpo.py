"""AT-GRPO: a group for each turn, policies of roles apart, refusals, and stopping and resuming."""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from resuming_helpers import check_resumed

from forage.agents.language.base import Aux, LanguageState
from forage.config.resolve import resolve
from forage.core.errors import ForageError
from forage.core.ports import ActInputs
from forage.core.types import Batch, Clock, Experience
from forage.nn.language.architecture import Architecture
from forage.nn.transformer import Transformer
from forage.studies.chat import one_network
from forage_papers.agents.language.turns.at_grpo import ATGRPO

SMALL = Architecture(vocabulary=512, width=16, layers=1, heads=2, inner=16, length=512)
WORKFLOW = {"tools": "calculator", "roles": True}


def model(seed: int = 0) -> Transformer:
    return Transformer(jax.random.key(seed), SMALL)


def setup_of(environment: str = "text:addition", env: Any = WORKFLOW, **options: Any):
    options = {"model": model(), "num_envs": 4, "group_size": 2} | options
    return resolve("at-grpo", environment, agent_options=options, environment_options=env, steps=64, seeds=[0])


def batch_of(reward: list[list[float]], new: int = 3) -> Batch:
    """Return two turns of four conversations, with one token written in each."""
    paid = jnp.asarray(reward)
    action = jnp.zeros((*paid.shape, new), jnp.int32).at[..., 0].set(jnp.arange(4) + 5)
    context = jnp.ones((*paid.shape, 2), jnp.int32)
    role = jnp.broadcast_to(jnp.arange(len(paid))[:, None] % 2, paid.shape)
    seen = {"context": context, "reference": jnp.zeros_like(action), "role": role}
    flags, source = jnp.zeros(paid.shape, bool), jnp.zeros(paid.shape, jnp.int32)
    policy_info = Aux(jnp.zeros(action.shape), jnp.ones(action.shape))
    return Batch(Experience(seen, action, paid, seen, flags, flags, source, policy_info), jnp.ones(4), jnp.arange(4))


def test_each_turn_of_a_group_is_compared_by_itself():
    """The first group's texts differ in the first turn, and the second's in the second; both episodes have reward 2."""
    batch = batch_of([[2.0, 0, 1, 1], [0, 2.0, 1, 0]])
    agent = ATGRPO(
        model=model(), num_envs=4, group_size=2, rollout_length=2, advantage="dr-grpo", zero_variance_groups="drop"
    )
    credited = jax.jit(lambda b: agent.assign_credit(b, agent.collect_answers(b), b.experience.reward.reshape(-1, 2)))
    lesson = credited(batch)
    assert lesson.advantage[:, 0].tolist() == [1, -1, 0, 0, -1, 1, 0.5, -0.5]
    assert lesson.weight.tolist() == [1, 1, 0, 0, 1, 1, 1, 1]
    second = agent.turns_of(lesson, 1, 2)
    assert second.advantage[:, 0].tolist() == [-1, 1, 0.5, -0.5]
    assert second.rows.tokens[:, 2].tolist() == [4, 5, 6, 7]


def test_turns_that_are_left_count_in_no_mean():
    """Rewards 2, 0, 1 and 1 have the mean 1 and the deviation sqrt(2/3), even if two more turns may follow."""
    agent = ATGRPO(model=model(), num_envs=4, group_size=2, rollout_length=3, advantage="reinforce++")
    batch = batch_of([[2.0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]])
    action = batch.experience.action.at[1:].set(0)
    batch = batch._replace(experience=batch.experience._replace(action=action))
    lesson = agent.assign_credit(batch, agent.collect_answers(batch), batch.experience.reward.reshape(-1, 2))
    np.testing.assert_allclose(lesson.advantage[:4, 0], np.array([1, -1, 0, 0]) / (2 / 3) ** 0.5, rtol=1e-3)
    assert lesson.weight.tolist() == [1] * 4 + [0] * 8


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.thorough
def test_own_policies_learn_from_their_own_turns(rank):
    setup = setup_of(policies="own", rank=rank, learning_rate=1e-2)
    agent: ATGRPO = setup.learner().agent  # type: ignore[assignment]
    state = agent.init(jax.random.key(0), setup.spec)
    learn = jax.jit(lambda batch: agent.learn(state, batch, Clock(jnp.int32(0), jnp.float32(64)), jax.random.key(1)))
    after, metrics, _ = learn(batch_of([[1.0, 1, 1, 1], [0, 2.0, 1, 0]]))

    def moved(role: int) -> bool:
        same = jax.tree.map(np.array_equal, after.network[role], state.network[role])
        return not jax.tree.all(same)

    assert [moved(0), moved(1)] == [False, True]  # the caller's texts were all paid alike
    assert (metrics["reward_turn_1"], metrics["reward_turn_2"]) == (1, 0.75) and metrics["zero_variance"] == 0.5
    if rank:  # adapters alone differ
        assert (after.network[0].table == after.network[1].table).all()


@pytest.mark.thorough
def test_the_policy_whose_turn_it_is_writes():
    setup = setup_of(policies="own", temperature=1.0)
    agent: ATGRPO = setup.learner().agent  # type: ignore[assignment]
    state = agent.init(jax.random.key(0), setup.spec)
    state = state._replace(network=(model(0), model(1)))
    seen = jax.tree.map(jnp.asarray, setup.environment(4).reset(0)) | {"role": jnp.array([0, 1, 1, 0])}
    keys = jax.random.split(jax.random.key(3), 4)

    def write_file(state: Any, role: Any) -> Any:
        told = seen | {"role": jnp.asarray(role)}
        return jax.jit(jax.vmap(lambda o, k: agent.act(state, ActInputs((), o, k, False))))(told, keys)

    both, _, policy_info = write_file(state, [0, 1, 1, 0])
    for role, mine in ((0, [0, 3]), (1, [1, 2])):
        alone = LanguageState(state.network[role], (), (), state.end, state.known)
        found, _, scores = write_file(alone, [0, 0, 0, 0])
        assert np.array_equal(both[np.array(mine)], found[np.array(mine)])
        np.testing.assert_allclose(
            policy_info.log_probability[np.array(mine)], scores.log_probability[np.array(mine)], rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"overlong_buffer": 0.2}, "leave overlong_buffer out"),
        ({"policies": "two"}, "shared, own"),
        ({"policies": "own", "environment": "text:guess", "env": {}}, "whose turn it is"),
        ({"policies": "own", "minibatches": 8}, "4 texts of a role"),
    ],
)
def test_what_cannot_be_is_one_sentence(options, says):
    with pytest.raises(ForageError, match=says):
        setup_of(**options).runner()


def test_policies_of_roles_are_not_one_model():
    run, policy = SimpleNamespace(directory="runs/one"), SimpleNamespace(state=SimpleNamespace(network=(1, 2)))
    with pytest.raises(ForageError, match="runs/one has a policy of several networks"):
        one_network(policy, run)  # type: ignore[arg-type]


@pytest.mark.thorough
@pytest.mark.parametrize("policies", ["shared", "own"])
def test_resumed_is_as_if_never_stopped(policies, tmp_path):
    agent = ATGRPO(model=model(), num_envs=4, group_size=2, rollout_length=2, policies=policies)
    check_resumed(tmp_path, agent, "text:addition", 16, 32, environment_options=WORKFLOW)
