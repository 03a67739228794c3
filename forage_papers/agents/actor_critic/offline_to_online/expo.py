"""Expressive policy optimisation: a flow that imitates, small edits that maximise the critics, and the best of both.

Dong, Li, Sadigh, Finn (2025), "EXPO: Stable Reinforcement Learning with Expressive Policies", arXiv 2507.07986. A base
policy learns by imitation alone, so no gradient of a value runs through its many steps, and a Gaussian edit policy
corrects its actions. Whenever an action is needed, to act and in targets, `candidates` are drawn from the base b(.|s),
`edited` of them are corrected, and of all these the one of the largest value is taken:

    a*(s) = argmax over b_1 ... b_N and b_k + edit_scale e_k, e_k ~ pi(.|s, b_k), of min over some of Q'_j(s, .)

    critics   sum_i (Q_i(s, a) - r - discount (1 - terminated) min over some of Q'_j(s', a*(s')))^2 / 2
    edits     alpha log pi(e|s, a) - mean_i Q_i(s, a + edit_scale e),  e ~ pi(.|s, a), a as it was done
    base      |v(s, x_t, t) - (a - x_0)|^2,  x_t = (1 - t) x_0 + t a,  x_0 ~ N(0, 1), t ~ U(0, 1)

with actions in the unit box. The base is a flow here (Lipman et al., 2023, "Flow Matching for Generative Modeling",
arXiv 2210.02747), which the paper allows; the authors' program has a diffusion model of as many steps. Update, numbers
and sizes are those of that program (expo_learner.py, expo_config.py and scripts/expo_mimicgen of
github.com/Servo97/EXPO, a copy of github.com/pd-perry/EXPO, which could not be had); the paper's tables could not be
looked up. The base that acts follows the one that learns slowly, as there. There the base's optimiser is AdamW, step
sizes of base and edits fall to zero by a cosine, and edited actions may leave the unit box, to which they are cut here.
There the entropy that the temperature aims at is of edits in the action's units, which for small edits is beyond reach;
here it is of e. There weights of critics and edits begin uniform in +-sqrt(6 / (inputs + outputs)) and biases at zero
(`--first-weights glorot`); here both begin uniform in +-1/sqrt(inputs).
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from forage.agents.actor_critic.base import UpdateInputs, run_every
from forage.agents.actor_critic.sac import SAC, SACState
from forage.core.ports import ActInputs, Metrics, State
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges, check_order
from forage.core.types import Experience, Spec
from forage.nn.critics import ActionValue, each_value, min_of_subset
from forage.nn.layers import MLP
from forage.nn.networks import NetworkConfig, Torso
from forage.ops.optimiser import blend
from forage.ops.rows import weighted_mean
from forage_papers.nn.base_policy import beside_base
from forage_papers.nn.flow import Field, integrate_field, matching_error


class Flow(equinox.Module):
    """The velocity by which noise flows to an action in the unit box, given observation, place and time."""

    torso: Torso  # reads the observation
    body: MLP

    def __init__(self, key: Key[Array, ""], spec: Spec, dimensions: int, sizes: tuple[int, ...], style: NetworkConfig):
        torso_key, body_key = jax.random.split(key)
        self.torso = Torso(torso_key, spec.observation_space, (), style)
        self.body = MLP(body_key, (self.torso.size + dimensions + 1, *sizes, dimensions), "silu", layer_norm=True)

    def field(self, observation: PyTree[Array]) -> Field:
        """Return the velocities for a batch of observations."""
        features = self.torso.rows(observation)
        return lambda place, time: self.body(jnp.concatenate([features, place, time], axis=1))

    def actions(
        self, observation: PyTree[Array], noise: Float[Array, "batch dimensions"], steps: int
    ) -> Float[Array, "batch dimensions"]:
        """Return the actions at the end of the flow from standard normal noise, in `steps` steps of equal length."""
        return jnp.clip(integrate_field(self.field(observation), noise, steps), -1.0, 1.0)

    def loss(
        self,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        counts: Bool[Array, " batch"],
        key: Key[Array, ""],
    ) -> Float[Array, ""]:
        """Compute the squared distance of velocities from those of straight lines from noise to actions."""
        error = matching_error(self.field(observation), action, key)
        return weighted_mean(action.shape[1] * error, counts)


class EXPOState(SACState):
    """State of SAC with an actor of edits."""

    base: Flow
    target_base: Flow  # which acts
    base_optimiser: Any


class EXPO(SAC):
    """The best of a flow's actions and of edits of them (Dong et al., 2025, arXiv 2507.07986).

    Data come in with `--memory mixed`, half of each batch as published; the base imitates all that is in a batch, as
    published. Beforehand it can learn from data alone with `--data FILE`, and go on with `--from RUN`.
    """

    example: ClassVar[str] = "forage train expo Pendulum-v1 --memory mixed --memory.data mixed.npz"
    ranges: ClassVar[Ranges] = {
        "candidates": Range(1),
        "edited": Range(0),
        "edit_scale": Range(0, 1, above=True),
        "flow_steps": Range(1),
        "base_polyak": Range(0, 1),
    }

    stochastic: ClassVar[bool] = False
    unused: ClassVar[Unused] = {
        "normalise_observation": ("EXPO reads observations as they are", "take sac"),
        "recycle_interval count_dormant": "EXPO does not look for dormant units",
        "state_dependent_noise": "EXPO's edits see an action beside the observation",
        "quantiles": "EXPO's targets choose by single values",
    }

    critics: int = equinox.field(static=True, default=10)
    target_subset: int = equinox.field(static=True, default=2)
    policy_q: str = equinox.field(static=True, default="mean")
    critic_norm: str = equinox.field(static=True, default="layer")
    target_entropy: float = -0.5
    backup_entropy: bool = equinox.field(static=True, default=False)  # no effect: targets count no entropy, as the
    # authors' do not
    updates_per_rollout: int = equinox.field(static=True, default=20)
    policy_delay: int = equinox.field(static=True, default=20)
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256, 256))
    candidates: int = equinox.field(static=True, default=8)  # actions drawn from the base, of which the best is taken;
    # more edit further; the authors' for manipulation
    edited: int = equinox.field(static=True, default=8)  # how many of them are edited as well, the authors'
    edit_scale: float = 0.05  # largest edit, in the unit box; larger leaves what is imitated further behind; the
    # authors' for manipulation
    flow_steps: int = equinox.field(static=True, default=10)  # steps from noise to an action of the base; more follow
    # the flow closer
    base_polyak: float = 0.001  # how far each update moves the base that acts towards the one that learns; the authors'

    def __check_init__(self):
        check_order(self, "edited", "candidates", equal=True)

    def init(self, key: Key[Array, ""], spec: Spec) -> EXPOState:
        actor_key, critic_key, base_key = jax.random.split(key, 3)
        actor = self.make_actor(actor_key, beside_base(spec))
        dimensions = actor.actions.outputs
        critics = self.make_critics(critic_key, spec, dimensions)
        base = Flow(base_key, spec, dimensions, self.hidden_sizes, NetworkConfig.from_agent(self))
        log_temperature = jnp.log(jnp.asarray(self.initial_temperature, jnp.float32))
        of_policy, copied = self.policy_descent(), jax.tree.map(jnp.copy, (critics, base))
        return EXPOState(
            actor=actor,
            critics=critics,
            target_critics=copied[0],
            log_temperature=log_temperature,
            actor_optimiser=of_policy.init(actor),
            critic_optimiser=self.descent().init(critics),
            temperature_optimiser=of_policy.init(log_temperature),
            updates=jnp.int32(0),
            base=base,
            target_base=copied[1],
            base_optimiser=of_policy.init(base),
        )

    def act(self, state: State, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        """Return the best candidate, also in evaluation, as the authors have it."""
        row = jax.tree.map(lambda x: jnp.asarray(x)[None], inputs.observation)
        return state.actor.actions.to_box(self.best(state, state.target_base, row, inputs.key)[0]), inputs.hidden, ()

    def noise(self, spec: Spec) -> None:  # type: ignore[override]
        """Return `None`: the agent selects its action itself, so a behaviour cannot give it noise."""

    def best(
        self, state: State, base: Flow, observation: PyTree[Array], key: Key[Array, ""]
    ) -> Float[Array, "batch dimensions"]:
        """Return the best of the candidates for each observation of a batch."""
        flow_key, edit_key, subset_key = jax.random.split(key, 3)
        batch, dimensions = len(jax.tree.leaves(observation)[0]), state.actor.actions.outputs

        def rows(number: int) -> PyTree[Array]:
            return jax.tree.map(lambda x: jnp.repeat(x, number, axis=0), observation)

        noise = jax.random.normal(flow_key, (batch * self.candidates, dimensions))
        drawn = base.actions(rows(self.candidates), noise, self.flow_steps).reshape(batch, self.candidates, dimensions)
        if self.edited:
            some = drawn[:, : self.edited].reshape(-1, dimensions)
            edits = state.actor({"observation": rows(self.edited), "base": some})
            edits = edits.from_noise(jax.random.normal(edit_key, some.shape))[0]
            edited = self.apply_edit(some, edits).reshape(batch, self.edited, dimensions)
            drawn = jnp.concatenate([drawn, edited], axis=1)
        number = drawn.shape[1]
        values = each_value(state.target_critics, rows(number), drawn.reshape(-1, dimensions))
        values = min_of_subset(values, self.target_subset, subset_key).reshape(batch, number)
        return jnp.take_along_axis(drawn, values.argmax(1)[:, None, None], axis=1)[:, 0]

    def apply_edit(
        self, action: Float[Array, "batch dimensions"], edit: Float[Array, "batch dimensions"]
    ) -> Float[Array, "batch dimensions"]:
        """Return edited actions, within the unit box."""
        return jnp.clip(action + self.edit_scale * edit, -1.0, 1.0)

    def target(self, state: State, inputs: UpdateInputs) -> Float[Array, " batch"]:
        """Compute r + discount (1 - terminated) min over some of Q'_j(s', a*(s'))."""
        now, keys = inputs.now, inputs.keys
        assert keys.sampled is not None
        action = self.best(state, state.base, now.next_observation, keys.sampled)
        value = self.next_value(state.target_critics, now.next_observation, action, keys)
        return now.reward + self.discount * jnp.where(now.terminated, 0.0, value)

    def update(self, state: State, inputs: UpdateInputs) -> tuple[State, Metrics, Float[Array, " batch"]]:
        """Update the critics and, if it is time, base, edits and temperature; return the same as `learn`."""
        now, action, keys = inputs.now, inputs.action, inputs.keys
        state, report = self.evaluate(state, inputs)

        def turn(both: tuple[State, Metrics]) -> tuple[State, Metrics]:
            assert keys.sampled is not None
            state, imitated = self.imitate(both[0], now, action, jax.random.fold_in(keys.sampled, 1))
            # The edits' policy sees the action that was done in place of the base's.
            shown = now._replace(observation={"observation": now.observation, "base": action})
            state, told = self.improve(state, inputs._replace(now=shown))
            return state, told | {"base_loss": imitated}

        nothing = dict.fromkeys(("actor_loss", "entropy", "base_loss"), jnp.float32(0))
        state, told = run_every(self.policy_delay, state.updates, turn, (state, nothing))
        told = {name: self.policy_delay * value for name, value in told.items()}  # as in SAC
        state = self.follow(state)
        metrics = {"critic_loss": report.loss, "value": report.value, "temperature": jnp.exp(state.log_temperature)}
        metrics |= report.metrics
        return state, metrics | told, report.error * now.counts

    def imitate(
        self, state: State, now: Experience, action: Float[Array, "batch dimensions"], key: Key[Array, ""]
    ) -> tuple[State, Float[Array, ""]]:
        """Take one step of the base towards the actions taken, and one of the acting base towards the base."""
        loss, gradient = jax.value_and_grad(Flow.loss)(state.base, now.observation, action, now.counts, key)
        base, optimiser = self.policy_descent().step(gradient, state.base_optimiser, state.base)
        acting = blend(base, state.target_base, self.base_polyak)
        return state._replace(base=base, base_optimiser=optimiser, target_base=acting), loss

    def policy_value(
        self,
        critics: ActionValue,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        key: Key[Array, ""] | None = None,
    ) -> Float[Array, " batch"]:
        """Compute the value that edits maximise; `action` is the edit of the action taken."""
        edited = self.apply_edit(observation["base"], action)
        return super().policy_value(critics, observation["observation"], edited, key)
