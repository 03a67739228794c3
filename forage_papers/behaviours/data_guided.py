"""Data-guided noise: demonstrations give the directions of exploration, and no other guidance.

Dong, Lessing, Chen, Finn (2025), "Reinforcement Learning via Implicit Imitation Guidance", arXiv 2506.07505 (DGN). A
network says for each observation how demonstrated actions differ from the policy's: the covariance of a normal
distribution about zero, fitted by likelihood,

    maximise  mean over demonstrations of log N(a - pi(s); 0, C(s)),  C(s) = L(s) L(s)^T,  pi(s) the greedy action

and what is explored with is drawn from it, and added to the agent's own exploring action:

    a = clip(action + beta e, -1, 1),  e ~ N(0, C(s)),  beta falling from 1 to 0 over the first `fraction` of the run

in the unit box. The agent's losses know nothing of it. The paper itself could not be looked up: that the mean is the
policy's, the covariance depends on the state and is learned from demonstrated actions less the policy's, and that the
noise is annealed, is in its abstract and in its reviews (OpenReview); form of the covariance, networks, numbers and
schedule are choices made here.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.core.ports import ActContext, ActInputs, Agent, Behaviour, Decision, HiddenState
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Experience, Spec
from forage.data.demonstrations import Demonstrations, as_demonstrations
from forage.nn.distributions import Actions
from forage.nn.networks import NetworkConfig, TorsoHead
from forage.ops.optimiser import Optimiser, make_named_optimiser

LEAST = 1e-3  # of the deviation in each direction, in the unit box: what is demonstrated may be what the policy does


class Spread(TorsoHead):
    """The factor L of a covariance L L^T for each observation: lower triangular, its diagonal positive."""

    actions: Actions = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, sizes: tuple[int, ...]):
        self.actions = Actions.from_space(spec.action_space)
        super().__init__(key, spec.observation_space, sizes, NetworkConfig(), self.actions.outputs**2)

    def __call__(self, observation: PyTree[Array]) -> Float[Array, "dimensions dimensions"]:
        """Return the factor for one observation."""
        size = self.actions.outputs
        square = self.head(self.torso(observation)).reshape(size, size)
        return jnp.tril(square, -1) + jnp.diag(jax.nn.softplus(jnp.diag(square)) + LEAST)

    def log_probability(self, observation: PyTree[Array], apart: Float[Array, " dimensions"]) -> Float[Array, ""]:
        """Compute log N(apart; 0, L L^T), less a constant."""
        factor = self(observation)
        z = jax.scipy.linalg.solve_triangular(factor, apart, lower=True)
        return -0.5 * jnp.sum(z**2) - jnp.sum(jnp.log(jnp.diag(factor)))


class Guidance(NamedTuple):
    spread: Spread
    optimiser: Any


class DataGuided(Behaviour):
    """Exploration noise learned from demonstrations (Dong et al., 2025, arXiv 2506.07505), DGN.

    For agents without memory that act in continuous bounded spaces and learn from a replay. The noise is fitted after
    each rollout, by `updates` steps; where demonstrations also fill half of each batch, as RLPD has it, that is
    `--memory mixed --memory.data FILE`.
    """

    example: ClassVar[str] = (
        "forage train rlpd Pendulum-v1 --behaviour data-guided --behaviour.demonstrations demos.npz --memory mixed "
        "--memory.data demos.npz"
    )
    own_choices: ClassVar[str] = "the covariance's form, the networks, the numbers and the schedule"
    ranges: ClassVar[Ranges] = {"fraction": Range(0, 1), "updates": Range(1), "rows": Range(1)}
    needs: ClassVar[Needs] = Needs(actions="bounded", off_policy=True, without_memory=True)

    demonstrations: str | Demonstrations = equinox.field(converter=as_demonstrations)  # file of the transitions that
    # say where to explore, as forage data record writes it
    fraction: float = 0.5  # share of the run over which the noise falls to nothing; larger follows the data for longer
    learning_rate: float = 3e-4  # step size of the noise's optimiser, Adam
    updates: int = equinox.field(static=True, default=1)  # steps of it after each rollout; more follow the
    # policy closer
    rows: int = equinox.field(static=True, default=256)  # demonstrated transitions in each step
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256))  # layers of the noise's network

    @property
    def demonstration_rows(self) -> Demonstrations:
        """Return the demonstrations."""
        assert isinstance(self.demonstrations, Demonstrations)
        return self.demonstrations

    def descent(self) -> Optimiser:
        return make_named_optimiser("adam", self.learning_rate)

    def init(self, key: Key[Array, ""], agent: Agent, spec: Spec) -> Guidance:
        spread = Spread(key, spec, self.hidden_sizes)
        return Guidance(spread, self.descent().init(spread))

    def act(self, state: Guidance, hidden: HiddenState, observation: PyTree[Array], moment: ActContext) -> Decision:
        act_key, noise_key = jax.random.split(moment.key)
        action, memory, policy_info = moment.own(hidden.agent, observation, act_key)
        factor, actions = state.spread(observation), state.spread.actions
        share = moment.clock.anneal(1.0, 0.0, self.fraction)
        noise = factor @ jax.random.normal(noise_key, (len(factor),))
        unit = jnp.clip(actions.to_unit(action) + share * noise, -1.0, 1.0)
        moved = jnp.where(share > 0, actions.to_box(unit), action).astype(action.dtype)
        return Decision(moved, hidden._replace(agent=memory), policy_info)

    def report(self, state: Guidance, rollout: Experience, moment: ActContext) -> Guidance:
        def step(state: Guidance, key: Key[Array, ""]) -> tuple[Guidance, None]:
            shown = self.demonstration_rows.draw(key, self.rows)
            gradient = jax.grad(self.loss)(
                state.spread, shown, self.action_differences(state.spread.actions, shown, moment)
            )
            return Guidance(*self.descent().step(gradient, state.optimiser, state.spread)), None

        return jax.lax.scan(step, state, jax.random.split(moment.key, self.updates))[0]

    def action_differences(
        self, actions: Actions, shown: Experience, moment: ActContext
    ) -> Float[Array, "row dimensions"]:
        """Compute the differences between demonstrated actions and the policy's own, in the unit box."""

        def own(observation: PyTree[Array]) -> PyTree[Array]:
            return moment.agent.act(moment.agent_state, ActInputs((), observation, moment.key, explore=False))[0]

        unit = jax.vmap(actions.action_features)
        return unit(shown.action) - unit(jax.vmap(own)(shown.observation))

    def loss(self, spread: Spread, shown: Experience, apart: Float[Array, "row dimensions"]) -> Float[Array, ""]:
        """Compute the mean of -log N(a - pi(s); 0, C(s)), less a constant."""
        return -jax.vmap(spread.log_probability)(shown.observation, apart).mean()
