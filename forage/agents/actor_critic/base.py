"""Options and critics shared by agents with critics of continuous actions and a replay memory.

Most ways of learning from fewer steps are choices of these: how many critics there are and whose least value is the
target (Chen et al., 2021, "Randomized Ensembled Double Q-Learning", arXiv 2101.05982), what is dropped and normalised
in them (Hiraoka et al., 2022, "Dropout Q-Functions for Doubly Efficient Reinforcement Learning", arXiv 2110.02034),
whether a value is a number, a histogram (Farebrother et al., 2024, "Stop Regressing", arXiv 2403.03950) or quantiles
(Kuznetsov et al., 2020, "Controlling Overestimation Bias", arXiv 2005.04269), how different the critics are made (An et
al., 2021, "Diversified Q-Ensemble", arXiv 2110.01548), what the networks are made of (`torso`, in
`forage.nn.residual`), whether they see normalised observations, and how many updates follow a step
(`updates_per_rollout`).

So many updates make networks fit what came first. Against that they are begun anew now and then, with their targets and
optimisers, while the replay memory stays (`reset_interval`; Nikishin et al., 2022, "The Primacy Bias in Deep
Reinforcement Learning", arXiv 2205.07802, as the authors' `train_dense.py` does with SAC: all of the agent), or only
those units that hardly say anything (`recycle_interval`; `nn/dormant.py` has paper and formula).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core.ports import Agent, Metrics, State
from forage.core.ports.needs import Choices, Needs
from forage.core.ranges import Range, Ranges, check_order
from forage.core.spaces import describe_space, observation_part, split_mask
from forage.core.types import Batch, Experience, ForageError, Spec
from forage.nn.critics import (
    ActionValue,
    Atoms,
    Bins,
    CriticReport,
    Quantiles,
    alignment,
    each_value,
    min_of_critics,
    min_of_subset,
    stack_modules,
    truncate_quantiles,
    value_error,
)
from forage.nn.dormant import recycle_units, share_dormant
from forage.nn.encoders import is_image
from forage.nn.hypersphere import on_sphere
from forage.nn.layers import FIRST_WEIGHTS, Network, redraw_weights
from forage.nn.networks import NetworkConfig
from forage.nn.normalise import (
    Norms,
    fit_norms,
    input_space,
    normalise_transitions,
    normalised_spec,
    norms_for,
    update_norms,
)
from forage.nn.own import OwnCritic, is_plain_module, make_network
from forage.nn.residual import one_width
from forage.ops.every import run_every as run_every
from forage.ops.every import run_if
from forage.ops.optimiser import Optimiser, make_named_optimiser, reset_entries

NORMS = ("none", "layer")
POLICY_Q = ("min", "mean", "first")
FIRST = 101  # folded into the key of a network, for first weights of another kind


class CriticKeys(NamedTuple):
    """Random keys of one update; `None` for those without use."""

    subset: Key[Array, ""] | None = None  # which critics the target asks
    target: Key[Array, ""] | None = None  # what the targets drop
    critics: Key[Array, ""] | None = None  # what the critics drop
    policy_q: Key[Array, ""] | None = None  # what they drop where the policy maximises them
    sampled: Key[Array, ""] | None = None  # what other actions the critics are asked of
    loss: Key[Array, ""] | None = None  # what a loss of one's own draws


class UpdateInputs(NamedTuple):
    """The inputs of one update of an agent with critics."""

    now: Experience  # transitions as the networks read them, leaves `batch ...`
    action: Float[Array, "batch dimensions"]  # in the unit box
    weight: Float[Array, " batch"]  # of each transition in the critics' loss; 0 for one that does not count
    noise: PyTree[Array] = ()  # standard normal numbers of the policy's actions at s, `batch dimensions`
    next_noise: PyTree[Array] = ()  # the same at s'
    keys: CriticKeys = CriticKeys()

    @property
    def key(self) -> Key[Array, ""] | None:
        """Return the random key of this update, for losses that users extend."""
        return self.keys.loss


class ActorCriticState(equinox.Module):
    """The fields that the state of every agent of this kind has. A state inherits them and adds its own."""

    actor: Any
    critics: ActionValue  # leaves [critic, ...]
    target_critics: ActionValue  # `None` in an agent without target networks
    actor_optimiser: Any
    critic_optimiser: Any
    updates: Int[Array, ""]  # of the critics
    norm: Norms = equinox.field(default=None, kw_only=True)  # of observations; `None`: networks read them as they are

    def _replace(self, **fields: Any) -> Self:
        """Return the state with some fields replaced, as a named tuple does."""
        return dataclasses.replace(self, **fields)

    def _asdict(self) -> dict[str, Any]:
        """Return the fields by name, as a named tuple does."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    def extend(cls, state: ActorCriticState, **own: Any) -> Self:
        """Make a state of this class from one of the class that it inherits from, and its own fields."""
        return cls(**state._asdict(), **own)


class ActorCritic(Agent):
    """Critics of continuous actions, several side by side, and the updates that they learn by."""

    ranges: ClassVar[Ranges] = {
        "critics": Range(1),
        "target_subset": Range(0),
        "dropout": Range(0, 1, below=True),
        "bins": Range(0),
        "lowest_value": Range(),
        "highest_value": Range(),
        "quantiles": Range(0),
        "dropped_quantiles": Range(0),
        "diversity": Range(0),
        "reset_interval": Range(0),
        "recycle_interval": Range(0),
        "dormant_threshold": Range(0),
    }

    on_policy: ClassVar[bool] = False
    acting: ClassVar[str] = "actor"

    """Observations can be normalised (`normalise_observation`)."""

    """Reason not to recycle dormant units of this agent's networks; empty if they may be recycled."""
    needs: ClassVar[Needs] = Needs(actions="bounded", observations="any")
    choices: ClassVar[Choices] = {"critic_norm": NORMS, "policy_q": POLICY_Q, "first_weights": FIRST_WEIGHTS}

    signatures: ClassVar[dict[str, str]] = Agent.signatures | {"critic_loss": "critics, inputs, target"}

    reset_keeps: ClassVar[tuple[str, ...]] = ("updates", "norm")
    """Fields of the state that stay as they are when the networks are reset."""

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
    # residual ones, simba, simba-v2 or bro, whose sizes are one width, once for each block
    first_weights: str = equinox.field(static=True, default="uniform")  # how the layers of an mlp begin: uniform, as
    # PyTorch's, glorot, lecun (Flax's) or orthogonal; the last three are wider, with biases at zero
    normalise_observation: bool = equinox.field(static=True, default=False)
    policy_delay: int = equinox.field(static=True, default=1)  # updates of the critics for each one of the policy
    critics: int = equinox.field(static=True, default=2)  # how many critics learn side by side
    target_subset: int = equinox.field(static=True, default=0)  # how many of them, drawn anew at each update, the
    # target takes the least value of; 0: all
    policy_q: str = equinox.field(static=True, default="min")  # value of the critics that the policy
    # maximises: min, mean or first
    critic_norm: str = equinox.field(static=True, default="none")  # what each layer of the critics is normalised by:
    # none or layer (which layer_norm has in all networks)
    dropout: float = equinox.field(static=True, default=0.0)  # share of each layer of the critics that is dropped at
    # random while they learn, and in their targets
    bins: int = equinox.field(static=True, default=0)  # bins of values that are histograms; 0: values are numbers
    lowest_value: float = equinox.field(static=True, default=-100.0)  # lower end of the histograms, a sum of discounted
    # rewards
    highest_value: float = equinox.field(static=True, default=100.0)  # upper end of the histograms
    quantiles: int = equinox.field(static=True, default=0)  # quantiles of the return that each critic learns; 0: values
    # are numbers
    dropped_quantiles: int = equinox.field(static=True, default=0)  # largest quantiles that the target drops for each
    # critic; more keep values lower
    diversity: float = equinox.field(static=True, default=0.0)  # weight of the cosines between the critics' gradients
    # with respect to the action, beside their squared errors; larger makes them differ more in untried actions
    reset_interval: int = equinox.field(static=True, default=0)  # updates after which all networks and optimisers begin
    # anew, the memory staying; 0: never (the authors' example for SAC: 600,000, three for each of 200,000 steps)
    recycle_interval: int = equinox.field(static=True, default=0)  # updates after which dormant units of actor and
    # critics begin anew (ReDo); 0: never
    dormant_threshold: float = 0.025  # share of its layer's mean activation up to which a unit is dormant
    count_dormant: bool = equinox.field(static=True, default=False)  # report the share of dormant units as `dormant`

    uncalled: ClassVar[dict[str, str]] = {}
    """Losses of the classes above that this one does not call, each with the end of the sentence about that."""

    def check(self, spec: Spec) -> None:
        classes = type(self).__mro__
        heirs = classes[: next(i for i, cls in enumerate(classes) if "uncalled" in vars(cls))]
        for cls, name in itertools.product(heirs, self.uncalled):
            if name in vars(cls):
                above = classes[len(heirs)].__name__
                raise ForageError(f"{cls.__name__} defines {name}, which {above} never calls; {self.uncalled[name]}.")
        read = input_space(spec.observation_space, norms_for(spec, self.normalise_observation))
        if self.torso != "mlp" and is_image(observation_part(read)) and self.encoder is None:
            raise ForageError(
                f"A {self.torso} torso reads numbers, and {spec.name} shows {describe_space(observation_part(read))}, "
                f"which convolutions read; torso=mlp works."
            )

    def __check_init__(self):
        if self.torso != "mlp":
            for sizes in (self.hidden_sizes, self.value_sizes or self.hidden_sizes):
                one_width(self.torso, sizes)
            if self.layer_norm or self.critic_norm != "none" or self.dropout:
                raise ForageError(
                    f"A {self.torso} torso has its own normalisation and drops nothing; leave layer_norm, critic_norm "
                    f"and dropout out."
                )
            if self.first_weights != "uniform":
                raise ForageError(f"A {self.torso} torso has first weights of its own; leave first_weights out.")
        if self.torso == "simba-v2" and self.recycle_interval:
            raise ForageError(
                "A simba-v2 torso keeps its weights at length one, and recycling sets some to zero; leave "
                "recycle_interval out."
            )
        if self.target_subset > self.critics:
            raise ForageError(
                f"A target_subset of {self.target_subset} is more than there are critics; have {self.critics} or "
                f"fewer, or more critics."
            )
        if self.bins:
            check_order(self, "lowest_value", "highest_value")
        if self.quantiles and self.bins:
            raise ForageError("Values are histograms or quantiles, not both; leave bins or quantiles out.")
        if self.quantiles and self.target_subset:
            raise ForageError("Quantiles of all critics make the target; leave target_subset or quantiles out.")
        if self.dropped_quantiles and self.dropped_quantiles >= self.quantiles:
            raise ForageError(
                f"To drop {self.dropped_quantiles} of {self.quantiles} quantiles leaves no target; drop fewer, or have "
                f"more quantiles."
            )
        if self.diversity and self.critics < 2:
            raise ForageError("One critic by itself has no diversity; have more critics, or leave diversity out.")

    def style(self) -> NetworkConfig:
        """Return the style of the networks; the critics' normalisation and dropout are added to the policy's."""
        return NetworkConfig.from_agent(self)

    def read_spec(self, spec: Spec) -> Spec:
        """Return the spec that the networks get, with normalised observations."""
        return normalised_spec(spec, self.normalise_observation)

    @property
    def needs_whole_dataset(self) -> bool:
        return self.normalise_observation

    def init_from_dataset(self, state: State, data: Experience) -> State:
        return state if state.norm is None else state._replace(norm=fit_norms(state.norm, data))

    def observe(self, state: State, rollout: Experience) -> State:
        if state.norm is None:
            return state
        return state._replace(norm=update_norms(state.norm, split_mask(rollout.observation)[0], rollout.counts))

    def normalise_batch(self, state: State, now: Experience) -> Experience:
        """Return transitions (leaves `batch ...`) as the networks read them: memories keep observations raw."""
        return normalise_transitions(state.norm, now)

    def transitions(self, state: State, batch: Batch) -> tuple[Experience, Float[Array, "batch dimensions"]]:
        """Return segments of one transition as the networks read them, and their actions in the unit box."""
        now = self.normalise_batch(state, batch.transitions)
        return now, jax.vmap(state.actor.actions.action_features)(now.action)

    def make_critics(self, key: Key[Array, ""], spec: Spec, dimensions: int, outputs: int = 1) -> ActionValue:
        """Return all critics as one module with a leading axis in every leaf. `spec`: as the networks get it."""
        norm = self.layer_norm or self.critic_norm == "layer"
        style = self.style()._replace(layer_norm=norm, dropout=self.dropout)
        bins = Bins(self.bins, self.lowest_value, self.highest_value) if self.bins else None
        bins = Quantiles(self.quantiles) if self.quantiles else bins

        def one(key: Key[Array, ""]) -> ActionValue:
            make = lambda: self.make_critic(key, spec, dimensions, style, outputs, bins)  # noqa: E731
            critic = make_network(make, f"make_critic of {type(self).__name__}")
            if not is_plain_module(critic):
                return self.with_first_weights(key, critic)
            if bins or outputs > 1:
                raise ForageError(
                    f"{type(critic).__name__} is a critic of one value; leave bins, quantiles and mixed actions out."
                )
            own: Any = OwnCritic(critic, spec, dimensions)
            return own

        return stack_modules(one, key, self.critics)

    def with_first_weights(self, key: Key[Array, ""], network: Network) -> Network:
        """Return the network with its weights drawn again by the rule `first_weights`."""
        return redraw_weights(network, self.first_weights, jax.random.fold_in(key, FIRST))

    def make_critic(
        self,
        key: Key[Array, ""],
        spec: Spec,
        dimensions: int,
        style: NetworkConfig,
        outputs: int,
        bins: Bins | Quantiles | Atoms | None,
    ) -> ActionValue:
        """Return one critic."""
        sizes = self.value_sizes or self.hidden_sizes
        return ActionValue(key, spec.observation_space, dimensions, sizes, style, outputs, bins)

    def make_actor(self, key: Key[Array, ""], spec: Spec) -> Any:
        """Return the policy's network."""
        raise NotImplementedError

    def descent(self) -> Optimiser:
        return self.bounded_steps(make_named_optimiser(self.optimiser, self.learning_rate))

    def bounded_steps(self, optimiser: Optimiser) -> Optimiser:
        """Return an optimiser that keeps the networks of a simba-v2 torso on the sphere."""
        return on_sphere(optimiser) if self.torso == "simba-v2" else optimiser

    def policy_descent(self) -> Optimiser:
        """Return the optimiser of the policy and its temperature; subclasses may give it another rate than the
        critics'.
        """
        return self.descent()

    def reset_networks(self, state: State, batch: Batch, key: Key[Array, ""], spec: Spec) -> tuple[State, Metrics]:
        now, action = self.transitions(state, batch)
        metrics: Metrics = {}
        if self.count_dormant:
            share = lambda critic: share_dormant(critic.units(now.observation, action), self.dormant_threshold)  # noqa: E731
            metrics["dormant"] = jax.vmap(share)(state.critics).mean()
            metrics["dormant_actor"] = share_dormant(state.actor.units(now.observation), self.dormant_threshold)
        if self.recycle_interval:
            turn = lambda state: self.recycle(state, now.observation, action, self.init(key, spec))  # noqa: E731
            state = run_every(self.recycle_interval, state.updates, turn, state)
        if self.reset_interval:
            # With the first update that follows: who stops there, or is scored there, has what was learned.
            due = (state.updates > self.reset_interval) & ((state.updates - 1) % self.reset_interval == 0)
            state = run_if(due, lambda state: self.restart(state, key, spec), state)
        return state, metrics

    def restart(self, state: State, key: Key[Array, ""], spec: Spec) -> State:
        """Return a first state with the fields `reset_keeps` of this one."""
        return self.init(key, spec)._replace(**{name: getattr(state, name) for name in self.reset_keeps})

    def recycle(
        self, state: State, observation: PyTree[Array], action: Float[Array, "batch dimensions"], fresh: State
    ) -> State:
        """Reset dormant units of actor and critics to the weights of a `fresh` state."""

        def critic(old: ActionValue, new: ActionValue) -> tuple[ActionValue, PyTree[Array]]:
            return recycle_units(old, new, old.units(observation, action), self.dormant_threshold)

        critics, critics_changed = jax.vmap(critic)(state.critics, fresh.critics)
        actor, actor_changed = recycle_units(
            state.actor, fresh.actor, state.actor.units(observation), self.dormant_threshold
        )
        return state._replace(
            actor=actor,
            critics=critics,
            actor_optimiser=reset_entries(state.actor_optimiser, fresh.actor_optimiser, actor_changed),
            critic_optimiser=reset_entries(state.critic_optimiser, fresh.critic_optimiser, critics_changed),
        )

    def critic_loss(
        self, critics: ActionValue, inputs: UpdateInputs, target: Float[Array, "*samples batch"]
    ) -> tuple[Float[Array, ""], CriticReport]:
        """Compute the `value_error` of all critics; `diversity` adds the similarity of their gradients.

        A subclass adds a term, and its metrics by `report | {"name": number}`; `inputs.key` is a random key.

        That has half its weight, as the squared errors are halved. The report is of the `value_error`.
        """
        asked = inputs.now.observation, inputs.action
        loss, report = value_error(critics, *asked, target, inputs.weight, inputs.keys.critics)
        if self.diversity:
            alike = alignment(critics, *asked, inputs.keys.critics)
            loss = loss + 0.5 * self.diversity * jnp.mean(inputs.weight * alike)
        return loss, report

    def step_critics(self, state: State, gradient: ActionValue) -> State:
        """Return the state after one step of the critics down their gradient."""
        critics, optimiser = self.descent().step(gradient, state.critic_optimiser, state.critics)
        return state._replace(critics=critics, critic_optimiser=optimiser, updates=state.updates + 1)

    def step_actor(self, state: State, gradient: Any) -> State:
        """Return the state after one step of the policy down its gradient."""
        actor, optimiser = self.policy_descent().step(gradient, state.actor_optimiser, state.actor)
        return state._replace(actor=actor, actor_optimiser=optimiser)

    def next_value(
        self,
        critics: ActionValue,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        keys: CriticKeys,
    ) -> Float[Array, "*samples batch"]:
        """Compute the value that targets are made of, from the target critics: the least of all or of some.

        Of quantiles it is all of them that are not dropped. `keys` draw which critics are asked, and what they drop.
        """
        if self.quantiles:
            outputs = each_value(critics, observation, action, key=keys.target, ask=ActionValue.outputs)
            return truncate_quantiles(outputs, self.dropped_quantiles)
        values = each_value(critics, observation, action, key=keys.target)
        return min_of_subset(values, self.target_subset, keys.subset)

    def policy_value(
        self,
        critics: ActionValue,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        key: Key[Array, ""] | None = None,
    ) -> Float[Array, " batch"]:
        """Compute the value that the policy maximises; `key` draws the critics' dropout."""
        if self.policy_q == "first":
            return jax.tree.map(lambda x: x[0], critics)(observation, action, key)
        values = each_value(critics, observation, action, key=key)
        return min_of_critics(values) if self.policy_q == "min" else values.mean(0)

    def critic_keys(self, key: Key[Array, ""] | None) -> CriticKeys:
        """Return the random keys of one update."""
        if key is None:
            return CriticKeys()
        sampled, loss = jax.random.fold_in(key, 2), jax.random.fold_in(key, 3)
        if not (self.dropout or self.target_subset):
            return CriticKeys(sampled=sampled, loss=loss)  # without such a choice all other numbers stay as they are
        subset, *drops = jax.random.split(jax.random.fold_in(key, 1), 4)
        keys = CriticKeys(subset, *drops) if self.dropout else CriticKeys(subset)
        return keys._replace(sampled=sampled, loss=loss)
