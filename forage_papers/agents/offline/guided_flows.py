"""Guided flows: plans of states, drawn by a flow that is guided towards high returns, and the actions between them.

Zheng, Le, Shaul, Lipman, Grover, Chen (2023), "Guided Flows for Generative Modeling and Decision Making", arXiv
2311.13443. A plan is the sequence of the `horizon` - 1 states that follow s_t in an episode of the data, x_1, and
R the discounted return from s_t on. Each update takes one step down the sum of two losses:

    flow       mean |v(x_t, t | s, y) - (x_1 - x_0)|^2,   x_t = (1 - t) x_0 + t x_1,  x_0 standard normal
    actions    mean |tanh(g(s_t, s_{t+1})) - a_t|^2       or -log softmax(g(s_t, s_{t+1}))[a_t]

where y is R, or nothing with probability `drop`. To act, a plan is carried from noise by

    v(x, t | s) + guidance (v(x, t | s, R*) - v(x, t | s))

in `flow_steps` Euler steps, R* the return that is asked for, and the action is what g says between the state and the
first of the plan. Every step plans anew. Plans and inverse dynamics, and that returns are dropped at random, are those
of a decision diffuser (Ajay, Du, Gupta, Tenenbaum, Jaakkola, Agrawal, 2023, arXiv 2211.15657), which the paper plans
like with a flow in place of diffusion.

Only the paper's abstract and introduction could be looked up, and no program of its authors. Both networks, layers of
rows beside one another in place of convolutions in time, and all numbers are ours. States are standardised by the data,
and returns divided by the data's largest. After an episode's end a plan stays in its last state; the last `horizon` - 1
transitions of a whole data set begin no plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.agents.offline.base import OfflineAgent, best_return
from forage.core.ports import ActInputs, Metrics
from forage.core.ports.needs import Needs, Unused
from forage.core.ranges import Range, Ranges
from forage.core.spaces import observation_part, split_mask
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.nn.distributions import Actions
from forage.nn.layers import MLP
from forage.ops.episodes import alive
from forage.ops.optimiser import Optimiser, make_named_optimiser
from forage_papers.nn.flow import guide_velocity, integrate_field, matching_error

LEAST_DEVIATION = 1e-3  # by which an entry that never changes is divided


class Planner(equinox.Module):
    """The velocities of plans, and the actions between two states."""

    velocity: MLP  # of a plan, its time, the state before, and the return with a 1, or two zeros for none
    inverse: MLP  # of two states
    actions: Actions = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, agent: GuidedFlows):
        flow_key, inverse_key = jax.random.split(key)
        self.actions = Actions.from_space(spec.action_space)
        (size,) = observation_part(spec.observation_space).shape  # type: ignore[misc]
        plan = (agent.horizon - 1) * size
        sizes, style = agent.hidden_sizes, (agent.activation, None, None, False, agent.layer_norm)
        self.velocity = MLP(flow_key, (plan + 1 + size + 2, *sizes, plan), *style)
        self.inverse = MLP(inverse_key, (2 * size, *sizes, self.actions.outputs), *style)

    def field(self, state: Float[Array, "*batch size"], told: Float[Array, "*batch 2"]) -> Callable[..., Any]:
        """Return v(x, t) after these states, for these returns."""
        return lambda x, time: self.velocity(jnp.concatenate([x, time, state, told], axis=-1))

    def infer_action(
        self, state: Float[Array, "*batch size"], following: Float[Array, "*batch size"]
    ) -> Float[Array, "*batch outputs"]:
        """Return the outputs for the action that leads from one state to the next."""
        return self.inverse(jnp.concatenate([state, following], axis=-1))


class GuidedFlowsState(NamedTuple):
    planner: Planner
    optimiser: Any
    mean: Float[Array, " size"]  # of the data's observations
    deviation: Float[Array, " size"]
    scale: Float[Array, ""]  # the data's largest return, by which returns are divided
    best: Float[Array, ""]  # the highest return of a whole episode of the data, from its start


class GuidedFlows(OfflineAgent):
    """Planning with flows that are guided to returns (Zheng et al., 2023, arXiv 2311.13443), from a data set."""

    example: ClassVar[str] = "forage train guided-flows Pendulum-v1 --data mixed.npz"
    own_choices: ClassVar[str] = "both networks, and all numbers"
    ranges: ClassVar[Ranges] = {
        "target_return": Range(),
        "horizon": Range(2),
        "guidance": Range(0),
        "drop": Range(0, 1, above=True, below=True),
        "flow_steps": Range(1),
    }

    stochastic: ClassVar[bool] = False
    acting: ClassVar[str] = "planner"
    needs: ClassVar[Needs] = Needs(observations="vector", instead="take iql or bc")
    unused: ClassVar[Unused] = {"encoder": "GuidedFlows plans in what it sees"}

    target_return: float | None = None  # discounted sum of rewards that each plan is asked for; none: the highest of a
    # whole episode of the data
    horizon: int = equinox.field(static=True, default=8)  # states of a plan, the present one among them; more look
    # further ahead and are harder to learn
    guidance: float = 1.5  # how far plans are led towards the return: 0 not at all, 1 as the data say, and beyond
    drop: float = 0.2  # share of plans that are learned without their return, as guidance needs
    flow_steps: int = equinox.field(static=True, default=10)  # Euler steps from noise to a plan; more are more exact
    discount: float = 0.99  # worth of a reward one step later, in returns
    learning_rate: float = 3e-4  # step size of Adam
    batch_size: int = equinox.field(static=True, default=128)  # plans of an update
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256))  # layers of both networks

    @property
    def segment(self) -> int:
        return self.horizon

    @property
    def contexts(self) -> bool:
        return True

    @property
    def ranks_episodes(self) -> str:
        return "target_return=NUMBER" if self.target_return is None else ""

    def descent(self) -> Optimiser:
        return make_named_optimiser(self.optimiser, self.learning_rate)

    def init(self, key: Key[Array, ""], spec: Spec) -> GuidedFlowsState:
        planner = Planner(key, spec, self)
        (size,) = observation_part(spec.observation_space).shape  # type: ignore[misc]
        numbers = jnp.zeros(size), jnp.ones(size), jnp.float32(1), jnp.float32(0)
        return GuidedFlowsState(planner, self.descent().init(planner), *numbers)

    def init_from_dataset(self, state: GuidedFlowsState, data: Experience) -> GuidedFlowsState:
        """Return the state with the data's statistics of returns and observations."""
        assert not isinstance(data.return_to_go, tuple)
        rows = split_mask(data.observation)[0]
        return state._replace(
            mean=rows.mean(0),
            deviation=jnp.maximum(rows.std(0), LEAST_DEVIATION),
            scale=jnp.maximum(jnp.abs(data.return_to_go).max(), 1e-6),
            best=best_return(data),
        )

    def standard(self, state: GuidedFlowsState, observation: PyTree[Array]) -> Float[Array, "*batch size"]:
        """Return observations as networks see them."""
        return (split_mask(observation)[0] - state.mean) / state.deviation

    def plan(
        self, state: GuidedFlowsState, now: Float[Array, " size"], noise: Float[Array, " entries"]
    ) -> Float[Array, "steps size"]:
        """Carry noise to the states after `now`, guided towards the target return."""
        asked = state.best if self.target_return is None else self.target_return
        without = state.planner.field(now, jnp.zeros(2))
        towards = state.planner.field(now, jnp.stack([asked / state.scale, jnp.float32(1)]))

        def field(x: Any, time: Any) -> Any:
            return guide_velocity(without(x, time), towards(x, time), self.guidance)

        return integrate_field(field, noise, self.flow_steps).reshape(self.horizon - 1, -1)

    def act(self, state: GuidedFlowsState, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        now, actions = self.standard(state, inputs.observation), state.planner.actions
        shape = ((self.horizon - 1) * now.size,)
        noise = jax.random.normal(inputs.key, shape) if inputs.noise is None else inputs.noise
        outputs = state.planner.infer_action(now, self.plan(state, now, noise)[0])
        if not actions.discrete:
            return actions.to_box(jnp.tanh(outputs)), inputs.hidden, ()
        choice: Any = actions.distribution(outputs, None, split_mask(inputs.observation)[1])
        return choice.mode(), inputs.hidden, ()

    def noise(self, spec: Spec) -> tuple[int, ...]:
        (size,) = observation_part(spec.observation_space).shape  # type: ignore[misc]
        return ((self.horizon - 1) * size,)

    def probabilities(self, state: Any, observation: PyTree[Array], explore: bool) -> Float[Array, " actions"]:
        raise ForageError("Guided flows draw plans and not actions, so these have no probabilities.")

    def learn(
        self, state: GuidedFlowsState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[GuidedFlowsState, Metrics, Float[Array, " batch"]]:
        e = batch.experience
        assert not isinstance(e.return_to_go, tuple)
        drop_key, flow_key = jax.random.split(key)
        now, following = self.standard(state, e.observation[0]), self.standard(state, e.next_observation)
        plan = self.targets(following, alive(e.ended))
        told = jnp.stack([e.return_to_go[0] / state.scale, jnp.ones(len(now))], -1)
        told = told * jax.random.bernoulli(drop_key, 1 - self.drop, (len(now), 1))
        actions = state.planner.actions

        def action_error(outputs: Array, observation: PyTree[Array], action: PyTree[Array]) -> Array:
            if not actions.discrete:
                return jnp.mean((jnp.tanh(outputs) - actions.action_features(action)) ** 2)
            choice: Any = actions.distribution(outputs, None, split_mask(observation)[1])
            return -choice.log_probability(action)

        def loss(planner: Planner) -> tuple[Float[Array, ""], tuple[Array, Array]]:
            flow = matching_error(planner.field(now, told), plan, flow_key)
            outputs = planner.infer_action(now, following[0])
            missed = jax.vmap(action_error)(outputs, jax.tree.map(lambda x: x[0], e.observation), e.action[0])
            return jnp.mean(batch.weight * (flow + missed)), (flow, missed)

        (_, (flow, missed)), gradient = jax.value_and_grad(loss, has_aux=True)(state.planner)
        planner, optimiser = self.descent().step(gradient, state.optimiser, state.planner)
        metrics = {"flow_loss": flow.mean(), "action_loss": missed.mean()}
        return state._replace(planner=planner, optimiser=optimiser), metrics, flow

    def targets(
        self, following: Float[Array, "time batch size"], there: Float[Array, "time batch"]
    ) -> Float[Array, "batch entries"]:
        """Return the plans of segments: the states that followed, the last of an episode again once it has ended."""
        steps = jnp.arange(len(following))[:, None]
        last = jax.lax.cummax(jnp.where(there, steps, 0), axis=0)[: self.horizon - 1]
        plan = jnp.take_along_axis(following, last[..., None], axis=0)
        return jnp.moveaxis(plan, 0, 1).reshape(following.shape[1], -1)
