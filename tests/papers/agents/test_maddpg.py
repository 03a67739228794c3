"""MADDPG: targets and gradients of linear networks by hand, and allowed actions."""

import equinox
import jax
import numpy as np
from gymnasium import spaces
from small import at_once, compute

from forage.agents.actor_critic.base import UpdateInputs
from forage.core.ports import ActInputs
from forage.core.types import AGENT, Experience, Spec
from forage_papers.agents.actor_critic.maddpg import MADDPG

SPEC = Spec("Pair", spaces.Box(-9.0, 9.0, (1,), np.float32), spaces.Discrete(2), num_agents=2)
ALL, OWN = (MADDPG(hidden_sizes=(), discount=0.5, regularisation=0.1, central_critic=c) for c in (True, False))
LOGITS = np.array([[1.0, 0.5], [-1.0, 2.0]], np.float32)  # of each member, times what it sees
WEIGHTS = {  # of o_1, o_2 and both members' choices, or of one's own observation and choice
    ALL: np.array([[1, 2, 3, 4, 5, 6], [0.5, 0, 1, -1, 2, 7]], np.float32),
    OWN: np.array([[1, 3, 4], [0.5, 2, 7]], np.float32),
}
SEEN, AFTER = np.array([[[1.0], [2.0]]], np.float32), np.array([[[-1.0], [1.0]]], np.float32)
TAKEN, NOISE = np.array([[1, 0]], np.int32), np.array([[[0.0, 0.2], [0.3, 0.0]]], np.float32)
FOLLOWS = [[0.0, 1.0], [0.0, 1.0]]  # logits -1, -0.5 + 0.2 and -1 + 0.3, 2
REWARD, ENDS = np.array([[1.0, 3.0]], np.float32), np.array([[False, True]])


def state_of(agent):
    """Return a state of linear networks without offsets."""
    state = jax.tree.map(np.zeros_like, at_once(lambda: agent.init(jax.random.key(0), SPEC)))
    critics = equinox.tree_at(lambda n: n.body.layers[0].weight, state.critics, WEIGHTS[agent][..., None])
    actors = equinox.tree_at(lambda n: n.head.weight, state.actors, LOGITS[:, None])
    return state._replace(actors=actors, critics=critics, targets=(actors, critics))


def inputs():
    now = Experience(SEEN, TAKEN, REWARD, AFTER, ENDS, ~ENDS, np.full((1, 2), AGENT), ())
    return UpdateInputs(now, np.eye(2, dtype=np.float32)[TAKEN], np.ones(1), NOISE, NOISE)


def values(agent, seen, choices):
    """Compute each member's Q of one team."""
    joint = np.concatenate([seen.reshape(-1), np.reshape(choices, -1)])
    own = [np.concatenate([seen[0, i], choices[i]]) for i in (0, 1)]
    return np.array([w @ x for w, x in zip(WEIGHTS[agent], [joint] * 2 if agent is ALL else own, strict=True)])


def test_targets_ask_the_critics_of_what_all_members_do_next():
    for agent in (ALL, OWN):
        state = state_of(agent)
        loss, (error, _) = compute(lambda agent=agent, state=state: agent.critic_loss(state.critics, state, inputs()))
        target = REWARD[0] + 0.5 * np.array([1, 0]) * values(agent, AFTER, np.array(FOLLOWS))
        by_hand = target - values(agent, SEEN, np.eye(2)[TAKEN[0]])
        np.testing.assert_allclose(error[0], by_hand, rtol=1e-6)
        np.testing.assert_allclose(loss, np.sum(by_hand**2), rtol=1e-6)


def test_policies_climb_their_own_critics():
    """d Q_i / d logits is (diag p - p p') w_i of the relaxed choice p; w_i weighs the choice in i's critic."""
    for agent, places in ((ALL, (slice(2, 4), slice(4, 6))), (OWN, (slice(1, 3),) * 2)):
        state = state_of(agent)
        slope = compute(
            jax.grad(lambda a, agent=agent, s=state: agent.actor_loss(a, s.critics, inputs())[0]), state.actors
        )
        for i in (0, 1):
            outputs = LOGITS[i] * SEEN[0, i]
            p = np.exp(outputs + NOISE[0, i]) / np.exp(outputs + NOISE[0, i]).sum()
            by_hand = 0.1 * outputs - (np.diag(p) - np.outer(p, p)) @ WEIGHTS[agent][i][places[i]]
            np.testing.assert_allclose(slope.head.bias[i], by_hand, rtol=1e-5)


def test_a_member_acts_by_its_own_network_and_mask():
    state = state_of(ALL)
    seen = {"observation": np.ones(1, np.float32), "action_mask": np.array([True, False])}
    act = lambda n, o: ALL.act(state, ActInputs(np.eye(2, dtype=np.float32)[n], o, jax.random.key(0), explore=False))[0]  # noqa: E731
    found = compute(lambda: [act(n, o) for n in (0, 1) for o in (seen["observation"], seen)])
    assert np.array(found).tolist() == [0, 0, 1, 0]
