"""Ensembles of the values of several policies, each learned from its own policy's steps.

Policy k has members V_k1 ... V_kn with mean m_k(s) and standard deviation d_k(s). A segment of a rollout says which
policy acted at each step, and member j of policy k goes down

    sum over steps where k acted, in segments that j hears, of (V_kj(s_t) - G_t)^2 / 2,  over their number,

G being the lambda-return with m_k as the value of what comes after (`lambda_returns`). Who acts on to the end of an
episode, once it acts, has a value of its own there. Liu, Yoneda, Wang, Walter, Chen (2023), "Active Policy Improvement
from Multiple Black-box Oracles", arXiv 2306.10259, with their program's deviation of means (ripl/maps); there each
member draws its own transitions, whose targets were computed before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core import spaces
from forage.core.types import Experience, Spec
from forage.nn.critics import ActionValue, each_value, stack_modules
from forage.nn.networks import NetworkConfig
from forage.nn.normalise import Norms, apply_norm
from forage.ops.returns import lambda_returns
from forage.ops.rows import merge_time


class ActedSegments(NamedTuple):
    """The data that values learn from: segments, leaves `time segment ...`; of several rollouts `slot time env ...`."""

    observation: PyTree[Array]
    next_observation: PyTree[Array]
    reward: Float[Array, "*shape"]
    terminated: Bool[Array, "*shape"]
    truncated: Bool[Array, "*shape"]
    policy: Int[Array, "*shape"]  # who acted; a number beyond the policies' is nobody who learns from it

    @classmethod
    def from_rollout(cls, rollout: Experience, policy: Int[Array, "time env"]) -> ActedSegments:
        """Return the segments of a rollout and the policies that acted in it."""
        seen = rollout.observation, rollout.next_observation
        return cls(*seen, rollout.reward, rollout.terminated, rollout.truncated, policy)

    @classmethod
    def empty(cls, shape: tuple[int, ...], spec: Spec, nobody: int) -> ActedSegments:
        """Return empty segments with the policy `nobody`."""

        def zeros(like: Array) -> Array:
            return jnp.zeros((*shape, *jnp.shape(like)), jnp.asarray(like).dtype)

        seen = spaces.example(spec.observation_space)
        first, second = (jax.tree.map(zeros, seen) for _ in range(2))
        no = jnp.bool_(False)
        return cls(first, second, jnp.zeros(shape), zeros(no), zeros(no), jnp.full(shape, nobody, jnp.int32))


def segments(
    kept: ActedSegments,
    written: Int[Array, ""],
    newest: ActedSegments,
    learner: int,
    size: int,
    keys: Sequence[Key[Array, ""]],
) -> ActedSegments:
    """Draw segments of kept rollouts for the oracles, and as many of the newest for the learner.

    Args:
        kept: Rollouts, leaves `slot time env ...`.
        written: How many of them there are so far.
        newest: The last rollout.
        learner: The number of the learner; those of oracles are below it, and the next one is nobody's.
        size: How many segments are drawn of each.
        keys: Three, for slots, for their environments, and for those of the newest.
    """
    slot_key, env_key, own_key = keys
    envs = newest.reward.shape[1]
    slot, env = jax.random.randint(slot_key, (size,), 0, written), jax.random.randint(env_key, (size,), 0, envs)
    # The learner has changed since older rollouts, and oracles have not.
    older = jax.tree.map(lambda x: jnp.moveaxis(x[slot, :, env], 0, 1), kept)
    older = older._replace(policy=jnp.where(older.policy < learner, older.policy, learner + 1))
    own_env = jax.random.randint(own_key, (size,), 0, envs)
    own = jax.tree.map(lambda x: x[:, own_env], newest)
    own = own._replace(policy=jnp.where(own.policy == learner, own.policy, learner + 1))
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b], 1), older, own)


class PolicyValues(equinox.Module):
    """The values of several policies, as many members for each."""

    networks: ActionValue  # of no action; leaves [policy * member, ...]
    members: int = equinox.field(static=True)

    def __init__(
        self, key: Key[Array, ""], spec: Spec, sizes: tuple[int, ...], style: NetworkConfig, policies: int, members: int
    ):
        """`spec`: as the networks know it."""
        make = lambda key: ActionValue(key, spec.observation_space, 0, sizes, style)  # noqa: E731
        self.networks, self.members = stack_modules(make, key, policies * members), members

    def __call__(self, observation: PyTree[Array]) -> Float[Array, "policy member batch"]:
        """Return all values of a batch (leaves `batch ...`)."""
        rows = jax.tree.leaves(observation)[0].shape[0]
        values = each_value(self.networks, observation, jnp.zeros((rows, 0)))
        return values.reshape(-1, self.members, rows)

    def estimates(
        self, observation: PyTree[Array]
    ) -> tuple[Float[Array, "policy batch"], Float[Array, "policy batch"]]:
        """Return mean and deviation over the members of each policy."""
        each = self(observation)
        return each.mean(1), each.std(1, ddof=1)

    def loss(
        self, drawn: ActedSegments, norm: Norms, heard: Bool[Array, "member segment"], discount: float, trace: float
    ) -> tuple[Float[Array, ""], Float[Array, " policy"]]:
        """Compute the sum of all members' losses, and each policy's mean squared error."""
        shape = drawn.reward.shape
        read = jax.vmap(jax.vmap(lambda o: apply_norm(norm, o)))
        now, later = (merge_time(read(o)) for o in (drawn.observation, drawn.next_observation))
        value, after = self(now), jax.lax.stop_gradient(self(later).mean(1))
        value, after = value.reshape(*value.shape[:2], *shape), after.reshape(-1, *shape)

        def target(after: Array, reward: Array, terminated: Array, truncated: Array) -> Float[Array, " time"]:
            return lambda_returns(reward, after, terminated, truncated, discount, trace)

        of_segments = jax.vmap(target, in_axes=1, out_axes=1)
        goal = jax.vmap(of_segments, in_axes=(0, None, None, None))(
            after, drawn.reward, drawn.terminated, drawn.truncated
        )
        acted = drawn.policy == jnp.arange(len(value))[:, None, None]
        weight = (acted[:, None] & heard[None, :, None]).astype(jnp.float32)
        error = (weight * (value - goal[:, None]) ** 2).sum((2, 3)) / jnp.maximum(weight.sum((2, 3)), 1.0)
        return 0.5 * error.sum(), error.mean(1)
