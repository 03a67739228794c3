"""AttnRL: advantages worked by hand, the policies of its ratios, refusals, and stopping and resuming."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from resuming_helpers import check_resumed

from forage.config.resolve import resolve
from forage.core.errors import ForageError
from forage.core.ports import ActInputs
from forage.core.types import Batch, Clock, Experience
from forage.nn.language.architecture import Architecture
from forage.nn.transformer import Transformer
from forage_papers.agents.language.trees.attn_rl import AttnRL, branch_advantages
from forage_papers.starts.attention_branches import AnswerMark

SMALL = Architecture(vocabulary=512, width=16, layers=1, heads=2, inner=16, length=256)
OPTIONS = {"num_envs": 24, "group_size": 2, "places": 2, "times": 1}


def model() -> Transformer:
    return Transformer(jax.random.key(0), SMALL)


def test_advantages_by_hand():
    """Two answers to a prompt; the first has two branches after two tokens; the value of the root is 1/2."""
    prompt, first = jnp.array([3, 3, -1, -1]), jnp.array([1.0, 0, 0, 0])
    stem, length = jnp.array([0, 0, -1, -1]), jnp.array([2, 2, 0, 0])
    grow = jax.jit(branch_advantages, static_argnums=5)
    trunk, other, weight = grow(prompt, first, stem, length, jnp.array([1.0, 0, 1, 1]), 4)
    shared = (2 * 2 / 3 - 1 / 2 - 1 / 2) * 3**0.5
    alone = 2 * 1 - 1 / 2 - 2 / 3
    np.testing.assert_allclose(trunk[0], [shared, shared, alone, alone], rtol=1e-5)
    np.testing.assert_allclose(other[:2], [alone, -1 / 2 - 2 / 3], rtol=1e-5)
    assert weight.tolist() == [1, 0, 0, 0, 1, 1, 0, 0]  # the second answer was not branched
    # From the prompt again, and after three tokens: the second part begins there
    trunk, other, _ = grow(prompt, first, stem, jnp.array([0, 3, 0, 0]), jnp.array([1.0, 0, 1, 1]), 4)
    np.testing.assert_allclose(trunk[0, :3], 0, atol=1e-6)  # 1 and 0 go on: 2 (1/2) - 1/2 - 1/2
    np.testing.assert_allclose(trunk[0, 3], 2 - 1 / 2 - 1 / 2, rtol=1e-5)
    np.testing.assert_allclose(other[:2], [1, -1], rtol=1e-5)
    # Where all that is learned from has one reward there is nothing to learn
    assert not grow(prompt, first, stem, length, jnp.ones(4), 4)[2].any()


def collect(agent, state, setup, mark, reward, seed):
    learner, batch = setup.learner(), setup.environment(agent.num_envs)
    observation = jax.tree.map(jnp.asarray, batch.reset(seed))
    keys = jax.random.split(jax.random.key(seed), agent.num_envs)
    action, _, policy_info = jax.jit(jax.vmap(lambda o, k: agent.act(state, ActInputs((), o, k, True))))(
        observation, keys
    )
    flags, source = jnp.zeros(agent.num_envs, bool), jnp.zeros(agent.num_envs, jnp.int32)
    told = Experience(
        observation, action, jnp.asarray(reward), observation, ~flags, flags, source, policy_info, start_id=mark
    )
    assert learner.spec.horizon == 1
    return Batch(jax.tree.map(lambda x: x[None], told), jnp.ones(agent.num_envs), jnp.arange(agent.num_envs))


@pytest.mark.thorough
def test_first_answers_are_learned_from_one_rollout_later_against_the_policy_that_wrote_them():
    options = OPTIONS | {"model": model(), "num_envs": 6, "minibatches": 1, "learning_rate": 1e-3}
    setup = resolve(
        "attn-rl", "text:addition", agent_options=options, environment_options={"branches": True}, steps=48, seeds=[0]
    )
    agent: AttnRL = setup.learner().agent  # type: ignore[assignment]
    state = agent.init(jax.random.key(0), setup.spec)
    clock, key = Clock(jnp.int32(0), jnp.float32(100)), jax.random.key(1)
    none, spare = np.full(6, -1), [-1] * 4
    mark = AnswerMark(np.zeros(6, int), np.array([0, 0, *spare]), none, np.zeros(6, int))  # type: ignore[arg-type]
    batch = collect(agent, state, setup, mark, [1.0, 0, 0, 0, 0, 0], 0)
    first = batch.experience.policy_info.influence
    assert (first[0, :, 0] == 0).all() and ((first[0] >= 0) == (batch.experience.action[0] > 0)).all()
    learn = jax.jit(lambda state, batch: agent.learn(state, batch, clock, key)[:2])
    waited, metrics = learn(state, batch)
    assert jax.tree.all(jax.tree.map(np.array_equal, waited.network, state.network))
    assert metrics["learned"] == 0 and metrics["prompts"] == 1

    stem = np.array([0, 0, 1, 1, -1, -1])
    mark = AnswerMark(np.ones(6, int), np.array([0, 0, 0, 0, 1, 1]), stem, np.array([1, 2, 1, 2, 0, 0]))  # type: ignore[arg-type]
    after = collect(agent, waited, setup, mark, [1.0, 0, 1, 0, 1, 0], 1)
    # The record of an earlier policy is what the ratio of first answers is to: half as probable, twice the ratio
    begun = waited.begun
    older = begun.rows._replace(sampled=jnp.where(begun.rows.wrote, begun.rows.sampled - np.log(2), 0))
    moved = [learn(waited._replace(begun=begun._replace(rows=rows)), after)[1] for rows in (begun.rows, older)]
    assert moved[0]["learned"] == 0.5 and float(moved[0]["moved"]) < 1e-4
    assert 0.1 < float(moved[1]["moved"]) < 1  # of the first answers alone
    assert moved[1]["first_ratio"] == 0  # those that go on are of the newest policy
    lost = waited._replace(begun=begun._replace(rollout=jnp.int32(5)))
    assert learn(lost, after)[1]["learned"] == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"advantage": "rloo"}, "leave advantage out"),
        ({"environment": "text:guess"}, "use grpo"),
        ({"starts": "groups"}, "--starts attention-branches"),
    ],
)
def test_what_cannot_be_is_one_sentence(options, says):
    options = dict(options)
    environment, starts = options.pop("environment", "text:addition"), options.pop("starts", None)
    env = {"branches": True} if environment == "text:addition" else {}
    given = {"model": model()} | OPTIONS | options
    with pytest.raises(ForageError, match=says):
        resolve(
            "attn-rl", environment, agent_options=given, environment_options=env, starts=starts, steps=48, seeds=[0]
        ).runner()


@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped(tmp_path):
    agent = AttnRL(model=model(), **OPTIONS)
    check_resumed(tmp_path, agent, "text:addition", 48, 96, environment_options={"branches": True})
