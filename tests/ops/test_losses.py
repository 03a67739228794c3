"""Losses that users extend: metrics and a key reach them in every agent; wrong results are refused in a sentence."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from critic_helpers import inputs_of
from gymnasium import spaces
from tiers import gate_cases

from forage.agents.actor_critic.offline.td3_bc import TD3BC
from forage.agents.actor_critic.sac import SAC
from forage.agents.actor_critic.td3 import TD3
from forage.agents.offline.iql import IQL
from forage.agents.policy_gradient.ppo import METRICS, PPO
from forage.agents.q_learning.c51 import C51
from forage.agents.q_learning.dqn import DQN
from forage.core.types import AGENT, Batch, Clock, Experience, ForageError, Spec
from forage.ops.every import report_every
from forage.ops.losses import LossReport, join_metrics, loss_gradient

KEY, CLOCK = jax.random.key(1), Clock(jnp.int32(0), jnp.float32(100))
BOX = Spec("Box", spaces.Box(-1, 1, (3,)), spaces.Box(-1, 1, (2,)))
NUMBERED = Spec("Numbered", spaces.Box(-1, 1, (3,)), spaces.Discrete(2))


def batch_of(spec, time, env):
    """A batch of segments of zeros."""
    shape = (time, env)
    action = jnp.zeros(shape, jnp.int32) if spec is NUMBERED else jnp.zeros((*shape, 2))
    seen, no = jnp.zeros((*shape, 3)), jnp.zeros(shape, bool)
    experience = Experience(seen, action, jnp.zeros(shape), seen, no, no, jnp.full(shape, AGENT), ())
    return Batch(experience, jnp.ones(env), jnp.zeros(env, jnp.int32))


def random_metric(key):
    return {"drawn": jax.random.uniform(key)}


class OwnPPO(PPO):
    def loss(self, network, observation, targets, sequence, key=None):
        loss, metrics = super().loss(network, observation, targets, sequence, key)
        number = jax.random.uniform(key)
        return loss, metrics | {"drawn": number, "square": number**2, "two": 2}


class OwnDQN(DQN):
    def loss(self, network, target, batch, key=None):
        loss, report = super().loss(network, target, batch, key)
        return loss, report | random_metric(key)


class OwnC51(C51):
    def loss(self, network, target, batch, key=None):
        loss, report = super().loss(network, target, batch, key)
        return loss, report | random_metric(key)


class OwnLosses:
    """Losses of critics and of an actor with a metric each."""

    def critic_loss(self, critics, inputs, target):
        loss, report = super().critic_loss(critics, inputs, target)  # type: ignore[misc]
        return loss, report | random_metric(inputs.key)

    def actor_loss(self, actor, state, inputs):
        loss, report = super().actor_loss(actor, state, inputs)  # type: ignore[misc]
        return loss, report | {"of_actor": jnp.float32(1.0)}


class OwnSAC(OwnLosses, SAC):
    pass


class OwnTD3(OwnLosses, TD3):
    pass


class OwnTD3BC(OwnLosses, TD3BC):
    pass


class OwnIQL(IQL):
    def value_loss(self, value, inputs):
        loss, metrics = super().value_loss(value, inputs)
        return loss, metrics | random_metric(inputs.key)

    def policy_loss(self, policy, inputs):
        loss, metrics = super().policy_loss(policy, inputs)
        return loss, metrics | {"of_actor": jax.random.uniform(inputs.key)}

    def critic_loss(self, critics, inputs):
        loss, report = super().critic_loss(critics, inputs)
        return loss, report | {"of_critics": jax.random.uniform(inputs.key)}


SMALL = {"hidden_sizes": (4,)}


AGENTS = {
    "dqn": (OwnDQN(n_step=1, **SMALL), NUMBERED, {"loss", "q", "drawn"}),
    "sac": (OwnSAC(policy_delay=2, **SMALL), BOX, {"critic_loss", "actor_loss", "entropy", "drawn", "of_actor"}),
    "iql": (OwnIQL(**SMALL), BOX, {"value_loss", "policy_loss", "clipped", "drawn", "of_actor", "of_critics"}),
    "td3": (OwnTD3(**SMALL), BOX, {"critic_loss", "value", "drawn", "of_actor"}),
    "td3-bc": (OwnTD3BC(**SMALL), BOX, {"critic_loss", "value", "drawn", "of_actor"}),
    "c51": (OwnC51(n_step=1, **SMALL), NUMBERED, {"loss", "q", "drawn"}),
}


@pytest.mark.parametrize("name", gate_cases(AGENTS, ["dqn", "sac", "iql", "td3"]))
def test_metrics_of_ones_own_stand_beside_those_of_the_agent(name):
    agent, spec, names = AGENTS[name]
    found = jax.eval_shape(lambda: agent.learn(agent.init(KEY, spec), batch_of(spec, 1, 4), CLOCK, KEY)[1])
    assert found.keys() >= names
    assert all(number.shape == () for number in found.values())


def test_ppos_minibatches_have_keys_of_their_own():
    agent = OwnPPO(num_envs=2, rollout_length=4, epochs=2, minibatches=2, hidden_sizes=(2,))
    learn = jax.jit(lambda key: agent.learn(agent.init(KEY, NUMBERED), batch_of(NUMBERED, 4, 2), CLOCK, key)[1])
    one, other = learn(jax.random.key(2)), learn(jax.random.key(3))  # compiled once
    assert one.keys() == {*METRICS, "explained_variance", "drawn", "square", "two"}
    assert one["two"] == 2.0
    assert one["square"] > one["drawn"] ** 2 + 1e-4, "the mean of squares is the mean's square if all draws are one"
    assert one["drawn"] != other["drawn"]


def test_metrics_of_a_delayed_policy_count_as_often_as_it_learns():
    turn = lambda x: (x + 1, {"two": 2.0 * x})  # noqa: E731
    found = jax.jit(lambda count: report_every(3, count, turn, jnp.float32(5.0)))
    state, metrics = found(jnp.int32(6))
    assert (state, metrics["two"]) == (6.0, 3 * 10.0)
    state, metrics = found(jnp.int32(7))
    assert (state, metrics["two"]) == (5.0, 0.0)


def test_terms_move_the_gradient_and_reports_take_metrics():
    report = LossReport(jnp.ones(2), {"loss": jnp.float32(3.0)}) | {"mine": 1}
    gradient, found = loss_gradient(lambda x, y: (x * x * y, report), jnp.float32(3.0), 2.0)
    assert gradient == 12.0 and found.metrics == {"loss": 3.0, "mine": 1.0}
    assert SAC().critic_keys(KEY).loss is not None and inputs_of(jnp.zeros((1, 3))).key is None


class Wrong:
    """Losses that are none."""

    result = None

    def loss(self, network):
        return self.result


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (None, r"Wrong\.loss returns two values, the loss and its metrics, such as `return loss \+ term,.*not None\."),
        (1.0, r"returns two values, .*, not a float\."),
        ((jnp.zeros(3), {}), r"returns one number as the loss, such as a mean, not an array of shape \(3,\)\."),
        ((jnp.int32(1), {}), r"one number as the loss, such as a mean, not one number of int32\."),
        ((jnp.float32(1), jnp.zeros(6)), r"returns its metrics by name, .*, not an array of shape \(6,\)\."),
        (
            (jnp.float32(1), {"term": jnp.zeros(4)}),
            r"one number for each metric, .* for 'term' an array of shape \(4,\)",
        ),
        ((jnp.float32(1), {"term": None}), r"for 'term' None\."),
        ((jnp.float32(1), {3: 1.0}), r"for 3 a float\."),
    ],
)
def test_what_is_no_loss_is_refused_in_one_sentence(result, words):
    wrong = Wrong()
    wrong.result = result
    with pytest.raises(ForageError, match=words):
        loss_gradient(wrong.loss, jnp.float32(1.0))


def test_two_metrics_of_one_name_are_refused():
    assert join_metrics({"a": 1}, {"b": 2}) == {"a": 1, "b": 2}
    with pytest.raises(
        ForageError, match="Two losses of this agent return a metric 'a'; give one of them another name"
    ):
        join_metrics({"a": 1}, {"a": 2})


def test_the_page_names_every_loss_with_its_arguments():
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "change-a-loss.md").read_text()
    page = page.replace("`loss(network, target,", "`dqn_loss(network, target,")
    rows = dict(re.findall(r"`(\w*loss)\(([\w, ]+)\)`", page))
    assert rows.pop("loss") == PPO.signatures["loss"] and rows.pop("dqn_loss") == DQN.signatures["loss"]
    assert rows.pop("actor_loss") == SAC.signatures["actor_loss"] == TD3.signatures["actor_loss"]
    assert rows.keys() <= IQL.signatures.keys()
