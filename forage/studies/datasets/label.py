"""Labels for data that lack them: rewards by optimal transport from demonstrations, actions by an inverse model.

Luo, Jiang, Cohen, Grefenstette, Deisenroth (2023), "Optimal Transport for Offline Imitation Learning", arXiv 2303.13971
(OTR): each episode is moved onto a demonstration by entropic optimal transport between their observations
(`forage/ops/transport.py`, cost one minus the cosine), and a step is paid by what moving it costs,

    r_i = height exp(-sharpness n c_i / k),    c_i = sum_j P_ij C_ij

for n steps of the episode and k numbers in an observation; of several demonstrations the one counts that pays the
episode most in all. Rewards are then scaled so that returns span 1,000. Numbers are those of the authors' program
(ethanluoyc/optimal_transport_reward: otr_iql_mujoco.py, rewarder.py, train_offline.py), which weighs steps by 1/1000
whatever an episode's length.

Zheng, Henaff, Amos, Grover (2023), "Semi-Supervised Offline Reinforcement Learning with Action-Free Trajectories",
arXiv 2210.06518: a network is taught, on episodes whose actions are known, to say the action from the observations
around it, p(a_t | o_{t-past}, ..., o_t, o_{t+1}), and labels the others with the mode of what it says. A share of the
episodes is held out, and the network is the one that was best on them. Their program (facebookresearch/ssorl) has two
layers of 1024, dropout of 0.1 and batches of 1024 at a step size of 1e-4; here it is smaller, without dropout.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float, Key

from forage.core import prng
from forage.core.specs import spec_from_config
from forage.core.types import ForageError, Spec
from forage.data import formats
from forage.data.formats.reading import Reading
from forage.data.logged import Transitions, join_logs
from forage.nn.distributions import Actions, SquashedGaussian
from forage.nn.layers import MLP
from forage.ops.optimiser import adam
from forage.ops.transport import costs_by_row
from forage.studies.convert import read_and_check, spec_of

Paths = str | os.PathLike[str]
Tell = Callable[[str], None]
EDGE = 1 - 1e-5  # actions further out count as this far out where their density is asked for
CHECK_EVERY = 100  # updates between two looks at the episodes that are held out
LEAST_LOG_STD, MOST_LOG_STD = -5.0, 2.0  # of the authors' program


def label(
    file: Paths,
    output: Paths,
    *,
    demonstrations: Paths | None = None,
    labelled: Paths | None = None,
    environment: Any = None,
    env: dict[str, Any] | None = None,
    tell: Tell | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Write a data set with labels: rewards as in `demonstrations`, or actions as in `labelled`. Return its header.

    With `labelled`, what is written are its transitions and then those of `file`, whose own actions are not looked at.
    `environment` and `env`: for formats that do not say what they are of. `tell` is told how far the work is, in words.
    `options`: those of `transported_rewards` and `inverse_actions`.

    >>> forage.data.label("log.npz", "paid.npz", demonstrations="expert.npz")  # doctest: +SKIP
    """
    if (demonstrations is None) == (labelled is None):
        raise ForageError(
            "Name what to label by: demonstrations, for rewards (--demonstrations FILE), or a data set whose actions "
            "are known (--labelled FILE)."
        )
    target, other = Path(output), Path(demonstrations if labelled is None else labelled)  # type: ignore[arg-type]
    if target.absolute() in (Path(file).absolute(), other.absolute()):
        raise ForageError(f"{target} would be written over what is read; name another output.")
    kind, spec = formats.target_kind(target), spec_of(environment, env)
    data, header = read_and_check(Path(file), spec, Reading())
    shown, theirs = read_and_check(other, spec, Reading())
    for what in ("observation_space", "action_space"):
        if header["spec"][what] != theirs["spec"][what]:
            raise ForageError(
                f"{file} and {other} do not belong together: their {what.partition('_')[0]}s are of other spaces."
            )
    told: dict[str, Any]
    horizon = header["spec"].get("horizon")
    if demonstrations is not None:
        rewards = transported_rewards(data, shown, horizon, tell=tell, **options)
        result, told = dataclasses.replace(data, reward=rewards), {"rewards": "optimal transport"}
        header = header | {"mean_return": None}
    else:
        found = inverse_actions(data, shown, spec or spec_from_config(header), tell=tell, **options)
        guessed = dataclasses.replace(data, action=found.action, behaviour_probability=None)
        result = join_logs([dataclasses.replace(shown, behaviour_probability=None), guessed], horizon)
        told = {"actions": "inverse model", "held_out_loss": found.loss, "known": shown.transitions}
        header = header | {"mean_return": result.mean_return(horizon)}
    header |= {"transitions": result.transitions, "episodes": result.episodes}
    header |= {"source": {"labelled": header.get("source"), "by": {"file": other.name, **told}}}
    formats.write_data(target, result, header, kind)
    return header


def rows_of(observation: Any) -> Float[np.ndarray, "transition features"]:
    """Return observations as rows of numbers, the parts of a dictionary side by side."""
    leaves = jax.tree.leaves(observation)
    return np.concatenate([np.asarray(x, np.float32).reshape(len(x), -1) for x in leaves], axis=1)


# Rewards


def transported_rewards(
    data: Transitions,
    shown: Transitions,
    horizon: int | None = None,
    *,
    height: float = 5.0,
    sharpness: float = 5.0,
    blur: float = 0.01,
    span: float = 1000.0,
    tell: Tell | None = None,
) -> Float[np.ndarray, " transition"]:
    """Compute the rewards of all transitions, from whole episodes as demonstrations.

    `horizon`: the environment's time limit, which tells the whole episodes among `data`: the span is that of theirs,
    and of all if none is whole.
    `height`: the most that a step is paid, before scaling. `sharpness`: how fast that falls with the cost. `blur`: of
    the transport. `span`: of the returns; 0 leaves rewards as they are. `tell` is told how many episodes are paid.
    """
    for name, number, least in (("height", height, 0), ("sharpness", sharpness, 0), ("blur", blur, 0)):
        if not number > least:
            raise ForageError(f"{name} is above {least}, not {number:g}.")
    if span < 0:
        raise ForageError(f"The span of returns is 0 or more, not {span:g}.")
    seen, theirs = pad_episodes(data), pad_episodes(shown)
    features = seen[0].shape[-1]

    @jax.jit
    def episode(points: Array, weight: Array) -> Float[Array, " step"]:
        cost = jax.vmap(lambda y, columns: costs_by_row(points, y, weight, columns, blur))(*theirs)
        paid = height * jnp.exp(-sharpness * cost * (weight > 0).sum() / features)
        best = jnp.argmax(jnp.where(weight > 0, paid, 0.0).sum(1))
        return paid[best]

    parts = []
    for i, length in enumerate(data.lengths):
        parts.append(np.asarray(episode(seen[0][i], seen[1][i]), np.float64)[:length])
        if tell is not None:
            tell(f"paid {i + 1:,} of {data.episodes:,} episodes")
    rewards = np.concatenate(parts)
    if not span:
        return rewards
    whole = data.whole(horizon)
    returns = np.bincount(data.numbers, rewards)
    spread = float(np.ptp(returns[whole] if whole.any() else returns))
    return rewards * span / spread if spread > 0 else rewards


def pad_episodes(
    data: Transitions,
) -> tuple[Float[np.ndarray, "episode step features"], Float[np.ndarray, "episode step"]]:
    """Return the observations of each episode, padded with zeros, and each step's weight: uniform, and 0 for
    padding.
    """
    rows, lengths = rows_of(data.observation), data.lengths
    points = np.zeros((data.episodes, lengths.max(), rows.shape[1]), np.float32)
    points[data.numbers, data.time] = rows
    weight = (np.arange(lengths.max()) < lengths[:, None]) / lengths[:, None]
    return points, weight.astype(np.float32)


# Actions


@dataclasses.dataclass(frozen=True)
class ActionPredictions:
    """Actions predicted by an inverse model, and its mean loss on the held-out episodes."""

    action: np.ndarray
    loss: float


class InverseModel(equinox.Module):
    """From the observations around an action to a distribution of it: squashed Gaussians, or choices."""

    mean: MLP
    log_std: MLP | None
    actions: Actions = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], inputs: int, hidden_sizes: tuple[int, ...], space: spaces.Space[Any]):
        mean_key, std_key = jax.random.split(key)
        self.actions = Actions.from_space(space)
        sizes = (inputs, *hidden_sizes, self.actions.outputs)
        self.mean = MLP(mean_key, sizes)
        self.log_std = None if self.actions.discrete else MLP(std_key, sizes)

    def loss(self, inputs: Float[Array, "batch inputs"], action: Array) -> Float[Array, ""]:
        """Compute -mean log p(action)."""
        if self.log_std is None:
            chosen = jax.vmap(lambda outputs, a: self.actions.distribution(outputs, None, None).log_probability(a))
            return -chosen(self.mean(inputs), action).mean()
        # As in the authors' program.
        log_std = LEAST_LOG_STD + 0.5 * (MOST_LOG_STD - LEAST_LOG_STD) * (jnp.tanh(self.log_std(inputs)) + 1)
        before = jnp.arctanh(jnp.clip(jax.vmap(self.actions.action_features)(action), -EDGE, EDGE))
        policy = SquashedGaussian(self.mean(inputs), log_std)
        return -policy.from_noise((before - policy.mean) / jnp.exp(log_std))[1].mean()

    def mode(self, inputs: Float[Array, "batch inputs"]) -> Array:
        """Return the most probable choice, or tanh of the mean in the bounds of the space."""
        if self.log_std is None:
            return jax.vmap(lambda outputs: self.actions.distribution(outputs, None, None).mode())(self.mean(inputs))
        return jax.vmap(self.actions.to_box)(jnp.tanh(self.mean(inputs)))


def inverse_actions(
    data: Transitions,
    shown: Transitions,
    spec: Spec,
    *,
    updates: int = 5000,
    past: int = 1,
    hidden_sizes: tuple[int, ...] = (256, 256),
    learning_rate: float = 1e-3,
    batch_size: int = 256,
    held_out: float = 0.1,
    seed: int = 0,
    tell: Tell | None = None,
) -> ActionPredictions:
    """Train an inverse model on `shown`, and return its predictions of the actions of `data`.

    `past`: the observations before the action's own in its input, besides that and the next one. `held_out`: the share
    of the episodes that select the model instead of training it. `tell` receives the number of updates done.
    """
    if min(updates, batch_size) < 1 or past < 0 or not 0 < held_out < 1:
        raise ForageError(
            f"An inverse model takes updates and batch_size of 1 or more, past of 0 or more and held_out between 0 and "
            f"1; got {updates}, {batch_size}, {past} and {held_out:g}."
        )
    if shown.episodes < 2:
        raise ForageError("An inverse model is taught on 2 episodes or more, of which one is held out; record more.")
    known, unknown = inverse_inputs(shown, past), inverse_inputs(data, past)
    mean, deviation = known.mean(0), known.std(0) + 1e-3
    known, unknown = ((x - mean) / deviation for x in (known, unknown))
    order = np.random.default_rng(seed).permutation(shown.episodes)
    out = np.isin(shown.numbers, order[: max(1, int(held_out * shown.episodes))])
    action = jnp.asarray(shown.action, jnp.float32 if shown.action.dtype.kind == "f" else jnp.int32)
    teach, check = (jnp.asarray(known[~out]), action[~out]), (jnp.asarray(known[out]), action[out])
    descent = adam(learning_rate)

    Carry = tuple[tuple[InverseModel, Any], InverseModel, Float[Array, ""]]  # now and its optimiser, best, its loss

    @jax.jit
    def init_model(key: Key[Array, ""]) -> Carry:
        model = InverseModel(key, known.shape[1], hidden_sizes, spec.action_space)
        return (model, descent.init(model)), model, model.loss(*check)

    @jax.jit
    def train_step(key: Key[Array, ""], carry: Carry, first: Array, last: Array) -> Carry:
        def update(i: Any, now: Any) -> Any:
            model, optimiser = now
            rows = jax.random.randint(jax.random.fold_in(key, i), (batch_size,), 0, len(teach[1]))
            gradient = jax.grad(lambda model: model.loss(teach[0][rows], teach[1][rows]))(model)
            return descent.step(gradient, optimiser, model)

        now, best, least = carry
        now = jax.lax.fori_loop(first, last, update, now)
        loss = now[0].loss(*check)
        better = loss < least
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), now[0], best)
        return now, best, jnp.minimum(loss, least)

    key = prng.key(seed)
    carry = init_model(key)
    for first in range(0, updates, CHECK_EVERY):
        last = min(first + CHECK_EVERY, updates)
        carry = train_step(key, carry, jnp.asarray(first), jnp.asarray(last))
        if tell is not None:
            tell(f"{last:,} of {updates:,} updates, loss on episodes held out {float(carry[2]):.4g}")
    _, model, loss = carry
    if not np.isfinite(loss):
        raise ForageError("The inverse model's loss is not finite; a smaller learning_rate may do.")
    said = np.asarray(jax.jit(lambda x: model.mode(x))(jnp.asarray(unknown)))
    return ActionPredictions(said.astype(shown.action.dtype), float(loss))


def inverse_inputs(data: Transitions, past: int) -> Float[np.ndarray, "transition inputs"]:
    """Return the inputs of the inverse model, one row for each transition; zeros precede an episode's first
    observation.
    """
    rows, after, time = rows_of(data.observation), rows_of(data.next_observation), data.time
    parts = [after, rows]
    for back in range(1, past + 1):
        before = rows[np.maximum(np.arange(len(rows)) - back, 0)]
        parts.append(np.where((time >= back)[:, None], before, 0.0).astype(np.float32))
    return np.concatenate(parts[::-1], axis=1)
