"""Procedure cloning: supervised learning of the expert's search for its action, step by step.

Yang, Schuurmans, Abbeel, Nachum (2022), "Chain of Thought Imitation with Procedure Cloning", arXiv 2205.10816. In place
of p(a|s) the steps z_1 ... z_L of the expert's computation are learned with the action,

    p(z_1, ..., z_L, a | s) = prod_l p(z_l | z_(l-1), s) * p(a | z_L, s)

and when it acts they are decoded one after another, and then the action. The expert searches a grid breadth first, from
the goal outwards, until it comes to where the agent is. z_l is a map: for each cell and heading that was reached within
l steps the first action from there, else nothing. A convolutional network reads walls, goal, agent and z_(l-1), and
says z_l cell by cell; each update takes a step of Adam down

    mean -log p(z_l | z_(l-1), s)  over cells, headings, and the steps of all searches

In the last map the entry at the agent's place is the action that was taken. As the network does the same everywhere,
so does the search that it learned, in layouts too that it never saw.

Network and loss are those of the authors' program for mazes (google-research/procedure_cloning:
models/behavioral_cloning_bfs.py, utils.py, scripts/train_eval.py): five convolutions of 3 by 3, half as wide in the
first two; likeliest entries are decoded; an action is drawn where the search does not arrive. There an agent has no
heading, so that maps have one entry a cell; layers have 256 channels, and the last map is all the search's. The paper's
own tables could not be looked up.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.agents.offline.base import OfflineAgent
from forage.core.ports import ActInputs, Metrics
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.nn.layers import Conv
from forage.ops.optimiser import Optimiser, make_named_optimiser

LEFT, RIGHT, FORWARD = range(3)
"""The actions of a grid world that a search makes use of."""

ENTERED = (1, 3, 8, 10)
"""Cells that can be walked on, as pictures of grids number them: empty, floor, the goal and the agent's own."""
DOOR, GOAL, AGENT = 4, 8, 10
STEPS = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])
"""The step `(x, y)` of each heading."""

Plan = Int[Array, "width height heading"]


class Scene(NamedTuple):
    """The contents of a picture of a grid."""

    open: Bool[Array, "width height"]  # can be walked on
    goal: Bool[Array, "width height"]
    agent: Bool[Array, "width height heading"]  # where the agent stands, turned as it is


def scene(observation: Int[Array, "width height 3"]) -> Scene:
    """Read the picture of a whole grid, each cell its object, colour and state."""
    kind, state = observation[..., 0], observation[..., 2]
    walks = jnp.isin(kind, jnp.array(ENTERED)) | ((kind == DOOR) & (state == 0))
    agent = (kind == AGENT)[..., None] & (state[..., None] == jnp.arange(4))
    return Scene(walks, kind == GOAL, agent)


def wider(seen: Scene, plan: Plan, nothing: int) -> Plan:
    """Return the search's plan after one more step: it adds each state that is one action away from a known one."""
    known = (plan != nothing) | seen.goal[..., None]
    ahead = jnp.stack([jnp.roll(known[..., d], -STEPS[d], (0, 1)) for d in range(4)], -1)  # a border of walls is around
    new = jnp.full_like(plan, nothing)
    for action, there in ((RIGHT, jnp.roll(known, -1, 2)), (LEFT, jnp.roll(known, 1, 2)), (FORWARD, ahead)):
        new = jnp.where(there, action, new)
    return jnp.where(known | ~seen.open[..., None], plan, new)


class Search(NamedTuple):
    """A breadth-first search."""

    plans: Int[Array, "step width height heading"]  # after each step, the first of them after none
    length: Int[Array, ""]  # steps after which it knows what to do where the agent is; 0: never


def breadth_first(seen: Scene, depth: int, nothing: int) -> Search:
    """Search breadth first from the goal, for `depth` steps."""
    begin = jnp.full(seen.agent.shape, nothing, jnp.int32)

    def step(plan: Plan, _: None) -> tuple[Plan, Plan]:
        after = wider(seen, plan, nothing)
        return after, after

    _, plans = jax.lax.scan(step, begin, None, depth)
    arrived = jnp.any((plans != nothing) & seen.agent, (1, 2, 3))
    length = jnp.where(arrived.any(), jnp.argmax(arrived) + 1, 0)
    return Search(jnp.concatenate([begin[None], plans]), length.astype(jnp.int32))


class Steps(equinox.Module):
    """A network from a picture and a map to the logits of the next map's entries."""

    layers: tuple[Conv, ...]
    choices: int = equinox.field(static=True)  # actions, and nothing

    def __init__(self, key: Key[Array, ""], choices: int, width: int):
        sizes = (2 + 4 + 4 * choices, width // 2, width // 2, width, width, 4 * choices)
        keys = jax.random.split(key, len(sizes) - 1)
        gains = [2**0.5] * 4 + [1.0]
        pairs = zip(keys, sizes[:-1], sizes[1:], gains, strict=True)
        self.layers = tuple(Conv(key, inputs, outputs, 3, 1, gain) for key, inputs, outputs, gain in pairs)
        self.choices = choices

    def __call__(self, seen: Scene, plan: Plan) -> Float[Array, "width height heading choices"]:
        known = jax.nn.one_hot(plan, self.choices).reshape(*plan.shape[:2], -1)
        planes = [~seen.open[..., None], seen.goal[..., None], seen.agent]
        x = jnp.concatenate([*(plane.astype(jnp.float32) for plane in planes), known], -1)
        for number, layer in enumerate(self.layers):
            x = layer(jnp.pad(jax.nn.relu(x) if number else x, ((1, 1), (1, 1), (0, 0))))
        return x.reshape(*plan.shape, self.choices)


class ProcedureCloningState(NamedTuple):
    network: Steps
    optimiser: Any


class ProcedureCloning(OfflineAgent):
    """Imitation of an expert's search in grids (Yang et al., 2022, arXiv 2205.10816), from a data set.

    It sees the whole grid: `--env.observe full`.
    """

    example: ClassVar[str] = "forage train procedure-cloning grid:Empty-Random-6x6 --env.observe full --data expert.npz"
    ranges: ClassVar[Ranges] = {"width": Range(2), "depth": Range(1)}

    stochastic: ClassVar[bool] = False
    acting: ClassVar[str] = "network"
    unused: ClassVar[Unused] = {
        "layer_norm encoder activation": "Procedure cloning reads maps by convolutions with relu between them"
    }

    learning_rate: float = 3e-4  # step size of Adam, as in the authors' program
    batch_size: int = equinox.field(
        static=True, default=32
    )  # transitions of an update, one step of the search of each,
    # as there
    width: int = equinox.field(static=True, default=64)  # channels of the widest layers; 256 there
    depth: int = equinox.field(static=True, default=48)  # most steps of a search; farther goals are not learned from,
    # and not found

    def check(self, spec: Spec) -> None:
        box, actions = spec.observation_space, spec.action_space
        if not isinstance(actions, gymnasium.spaces.Discrete) or actions.n <= FORWARD:
            raise ForageError(
                f"Procedure cloning turns and walks in a grid, which {spec.name} is not; bc learns there."
            )
        picture = isinstance(box, gymnasium.spaces.Box) and box.dtype == np.uint8 and box.shape[2:] == (3,)
        if not (isinstance(box, gymnasium.spaces.Box) and picture and box.high.max() <= AGENT):
            raise ForageError(
                f"Procedure cloning searches the picture of a whole grid, and {spec.name} shows something else; take a "
                f"grid world with --env.observe full."
            )

    def init(self, key: Key[Array, ""], spec: Spec) -> ProcedureCloningState:
        assert isinstance(spec.action_space, gymnasium.spaces.Discrete)
        network = Steps(key, int(spec.action_space.n) + 1, self.width)
        return ProcedureCloningState(network, self.descent().init(network))

    def descent(self) -> Optimiser:
        return make_named_optimiser(self.optimiser, self.learning_rate)

    def learn(
        self, state: ProcedureCloningState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[ProcedureCloningState, Metrics, Float[Array, " batch"]]:
        now = batch.transitions
        seen, before, after, length = jax.vmap(lambda one, key: self.lesson(one, key, state.network.choices - 1))(
            now, jax.random.split(key, len(batch.weight))
        )
        # All steps of all searches count alike, and one is drawn of each.
        weight = batch.weight * length / jnp.maximum(length.mean(), 1e-8)

        def loss(network: Steps) -> tuple[Float[Array, ""], tuple[Array, Array]]:
            likely = jax.nn.log_softmax(jax.vmap(network)(seen, before))
            surprise = -jnp.take_along_axis(likely, after[..., None], -1)[..., 0].mean((1, 2, 3))
            right = (likely.argmax(-1) == after).all((1, 2, 3))
            return (weight * surprise).mean(), (surprise, (weight * right).mean())

        (value, (surprise, right)), gradient = jax.value_and_grad(loss, has_aux=True)(state.network)
        network, optimiser = self.descent().step(gradient, state.optimiser, state.network)
        metrics = {"procedure_loss": value, "steps_right": right, "search_steps": length.mean()}
        return ProcedureCloningState(network, optimiser), metrics, surprise

    def lesson(self, one: Experience, key: Key[Array, ""], nothing: int) -> tuple[Scene, Plan, Plan, Array]:
        """Draw a step of a transition's search. Return the scene, the map before and after, and the number of steps."""
        seen = scene(one.observation)
        found = breadth_first(seen, self.depth, nothing)
        step = jax.random.randint(key, (), 0, jnp.maximum(found.length, 1))
        after = found.plans[step + 1]
        after = jnp.where(seen.agent & (step + 1 == found.length), one.action, after)
        return seen, found.plans[step], after, found.length.astype(jnp.float32)

    def act(
        self, state: ProcedureCloningState, inputs: ActInputs
    ) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        seen, nothing = scene(inputs.observation), state.network.choices - 1

        def agent_entry(plan: Plan) -> Int[Array, ""]:
            return jnp.where(seen.agent, plan, 0).sum()

        def step(carry: tuple[Plan, Array]) -> tuple[Plan, Array]:
            return state.network(seen, carry[0]).argmax(-1).astype(jnp.int32), carry[1] + 1

        begin = jnp.full(seen.agent.shape, nothing, jnp.int32), jnp.int32(0)
        goes_on = lambda carry: (agent_entry(carry[0]) == nothing) & (carry[1] < self.depth)  # noqa: E731
        plan, _ = jax.lax.while_loop(goes_on, step, begin)
        drawn = jax.random.randint(inputs.key, (), 0, nothing)
        return jnp.where(agent_entry(plan) == nothing, drawn, agent_entry(plan)).astype(jnp.int32), inputs.hidden, ()

    def probabilities(self, state: Any, observation: PyTree[Array], explore: bool) -> Float[Array, " actions"]:
        raise ForageError("Procedure cloning decodes its likeliest action, and has no probabilities of actions.")
