"""What agents with critics of continuous actions and a replay memory share: their options, and how critics are made.

Most ways of learning from fewer steps are choices of these: how many critics there are and whose least value is the
target (Chen et al., 2021, "Randomized Ensembled Double Q-Learning", arXiv 2101.05982), what is dropped and normalised
in them (Hiraoka et al., 2022, "Dropout Q-Functions for Doubly Efficient Reinforcement Learning", arXiv 2110.02034),
whether a value is a number or a histogram (Farebrother et al., 2024, "Stop Regressing", arXiv 2403.03950), what their
networks are made of (`torso`, in `forage.nn.residual`), whether they see normalised observations, and how many updates
follow a step (`updates_per_rollout`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.core.ports import Agent, State
from forage.core.ranges import Range, Ranges
from forage.core.spaces import check_bounded, describe, seen, split_mask
from forage.core.types import Experience, ForageError, Spec
from forage.nn.critics import ActionValue, Bins, CriticReport, each_value, several, value_error
from forage.nn.encoders import is_image
from forage.nn.networks import Style, input_size
from forage.nn.normalise import normalised, norms_for, read_after, updated
from forage.nn.residual import one_width
from forage.ops.optimiser import Optimiser, named

NORMS = ("none", "layer")
CLIMBS = ("least", "mean", "first")


class CriticKeys(NamedTuple):
    """What an update draws with; `None` where nothing is drawn."""

    subset: Key[Array, ""] | None = None  # which critics the target asks
    target: Key[Array, ""] | None = None  # what the targets drop
    critics: Key[Array, ""] | None = None  # what the critics drop
    climbed: Key[Array, ""] | None = None  # what they drop where the policy climbs them


class ActorCritic(Agent):
    """Critics of continuous actions, several side by side, and the updates that they learn by."""

    ranges: ClassVar[Ranges] = {
        "critics": Range(1),
        "target_subset": Range(0),
        "dropout": Range(0, 1, below=True),
        "bins": Range(0),
        "lowest_value": Range(),
        "highest_value": Range(),
    }

    on_policy: ClassVar[bool] = False
    acting: ClassVar[str] = "actor"

    learning_rate: float = 3e-4
    discount: float = 0.99
    polyak: float = 0.005  # how far each update of the targets moves them towards the networks
    num_envs: int = equinox.field(static=True, default=1)
    rollout_length: int = equinox.field(static=True, default=1)
    updates_per_rollout: int = equinox.field(static=True, default=1)
    batch_size: int = equinox.field(static=True, default=256)
    learning_starts: int = equinox.field(static=True, default=1000)
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256))
    value_sizes: tuple[int, ...] = equinox.field(static=True, default=())
    activation: str | Callable[[Any], Any] = equinox.field(static=True, default="relu")
    layer_norm: bool = equinox.field(static=True, default=False)
    encoder: str | type | None = equinox.field(static=True, default=None)
    optimiser: str | Callable[[Any], Any] = equinox.field(static=True, default="adam")
    torso: str = equinox.field(static=True, default="mlp")  # what the networks of policy and critics are: mlp, or
    # residual ones, simba or bro, whose sizes are one width, once for each block
    normalise_observation: bool = equinox.field(static=True, default=False)
    policy_delay: int = equinox.field(static=True, default=1)  # updates of the critics for each one of the policy
    critics: int = equinox.field(static=True, default=2)  # how many critics learn side by side
    target_subset: int = equinox.field(static=True, default=0)  # how many of them, drawn anew at each update, the
    # target takes the least value of; 0: all
    climb: str = equinox.field(static=True, default="least")  # which of the critics' values the policy climbs: least,
    # mean or first
    critic_norm: str = equinox.field(static=True, default="none")  # what each layer of the critics is normalised by:
    # none or layer (which layer_norm has in all networks)
    dropout: float = equinox.field(static=True, default=0.0)  # share of each layer of the critics that is dropped at
    # random while they learn, and in their targets
    bins: int = equinox.field(static=True, default=0)  # bins of values that are histograms; 0: values are numbers
    lowest_value: float = equinox.field(static=True, default=-100.0)  # lower end of the histograms, a sum of discounted
    # rewards
    highest_value: float = equinox.field(static=True, default=100.0)  # upper end of the histograms

    def check(self, spec: Spec) -> None:
        check_bounded(type(self).__name__, spec)
        input_size(seen(spec.observation_space))
        read = read_after(spec.observation_space, norms_for(spec, self.normalise_observation))
        if self.torso != "mlp" and is_image(seen(read)) and self.encoder is None:
            raise ForageError(
                f"A {self.torso} torso reads numbers, and {spec.name} shows {describe(seen(read))}, which convolutions "
                f"read; torso=mlp works."
            )

    def __check_init__(self):
        for name, known in (("critic_norm", NORMS), ("climb", CLIMBS)):
            if getattr(self, name) not in known:
                raise ForageError(f"There is no {name} {getattr(self, name)!r}; there are {', '.join(known)}.")
        if self.torso != "mlp":
            for sizes in (self.hidden_sizes, self.value_sizes or self.hidden_sizes):
                one_width(self.torso, sizes)
            if self.layer_norm or self.critic_norm != "none" or self.dropout:
                raise ForageError(
                    f"A {self.torso} torso has its own normalisation and drops nothing; leave layer_norm, critic_norm "
                    f"and dropout out."
                )
        if self.target_subset > self.critics:
            raise ForageError(
                f"A target_subset of {self.target_subset} is more than there are critics; have {self.critics} or "
                f"fewer, or more critics."
            )
        if self.bins and self.lowest_value >= self.highest_value:
            raise ForageError(
                f"Histograms of values from {self.lowest_value:g} to {self.highest_value:g} are empty; "
                f"lowest_value must be below highest_value."
            )

    def style(self) -> Style:
        """Return what the networks are made with; the critics' normalisation and dropout are added to theirs."""
        return Style.of(self)

    def read_spec(self, spec: Spec) -> Spec:
        """Return the spec as the networks know it, behind what normalises observations."""
        norm = norms_for(spec, self.normalise_observation)
        return dataclasses.replace(spec, observation_space=read_after(spec.observation_space, norm))

    def observe(self, state: State, rollout: Experience) -> State:
        if state.norm is None:
            return state
        return state._replace(norm=updated(state.norm, split_mask(rollout.observation)[0], rollout.counts))

    def read(self, state: State, now: Experience) -> Experience:
        """Return transitions (leaves `batch ...`) as the networks read them: memories keep observations raw."""
        if state.norm is None:
            return now
        both = now.observation, now.next_observation
        observation, next_observation = jax.vmap(lambda both: tuple(normalised(state.norm, o) for o in both))(both)
        return now._replace(observation=observation, next_observation=next_observation)

    def make_critics(self, key: Key[Array, ""], spec: Spec, dimensions: int, outputs: int = 1) -> ActionValue:
        """Return all critics as one module, whose leaves have a leading axis. `spec`: as the networks know it."""
        sizes, own = self.value_sizes or self.hidden_sizes, self.style()
        style = own._replace(layer_norm=self.layer_norm or self.critic_norm == "layer", dropout=self.dropout)
        bins = Bins(self.bins, self.lowest_value, self.highest_value) if self.bins else None
        make = lambda k: ActionValue(k, spec.observation_space, dimensions, sizes, style, outputs, bins)  # noqa: E731
        return several(make, key, self.critics)

    def descent(self) -> Optimiser:
        return named(self.optimiser, self.learning_rate)

    def critic_loss(
        self,
        critics: ActionValue,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        target: Float[Array, " batch"],
        weight: Float[Array, " batch"],
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, ""], CriticReport]:
        """Compute the `value_error` of all critics."""
        return value_error(critics, observation, action, target, weight, key)

    def climbed(
        self,
        critics: ActionValue,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        key: Key[Array, ""] | None = None,
    ) -> Float[Array, " batch"]:
        """Compute the value that the policy climbs; `key`: what the critics drop is drawn with."""
        if self.climb == "first":
            return jax.tree.map(lambda x: x[0], critics)(observation, action, key)
        values = each_value(critics, observation, action, key=key)
        return values.min(0) if self.climb == "least" else values.mean(0)

    def critic_keys(self, key: Key[Array, ""] | None) -> CriticKeys:
        """Return what one update draws with."""
        if key is None or not (self.dropout or self.target_subset):
            return CriticKeys()  # what is not drawn leaves all other numbers as they are without such a choice
        subset, *drops = jax.random.split(jax.random.fold_in(key, 1), 4)
        return CriticKeys(subset, *drops) if self.dropout else CriticKeys(subset)


def every(interval: int, count: Any, turn: Callable[[Any], Any], state: Any) -> Any:
    """Return `turn(state)` where `count` is a multiple of the interval, else `state`.

    A loop of at most one turn rather than `cond`: under `vmap` over seeds a loop runs only when some seed needs it,
    whereas both branches of a `cond` would run at every update.
    """
    if interval == 1:
        return turn(state)
    return jax.lax.fori_loop(0, jnp.where(count % interval == 0, 1, 0), lambda _, state: turn(state), state)
