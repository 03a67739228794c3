"""A trained agent that acts: no environment and no training options needed."""

from __future__ import annotations

import functools
import os
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from gymnasium.spaces import Space

from forage.core import checkpoint, prng, spaces, team
from forage.core.arrays import ActionNesting
from forage.core.compiling import Flat, on_host
from forage.core.loading import FILE, load_file
from forage.core.ports import ActInputs, Agent, World
from forage.core.schedule import at_fraction
from forage.core.sweep import member_words
from forage.core.types import ForageError, Spec
from forage.loop.learner import initial_memory
from forage.loop.needs import check_signatures
from forage.loop.plain import PlainProgram

MOST_ROWS = 256
"""The largest batch that acts greedily in NumPy on the CPU, if the overhead of a call of JAX is longer."""


class Policy:
    """A trained agent that acts as it does in evaluation, or as it explores. Remembers within an episode.

    Examples:
        >>> agent = forage.load("runs/ppo-CartPole-v1")  # doctest: +SKIP
        >>> action = agent.act(observation)  # doctest: +SKIP
        >>> actions = agent.act(observations)  # doctest: +SKIP
    """

    member: dict[str, Any] = {}
    """The seed, and the settings of a sweep, with which this agent was trained; empty if it is of no run."""

    directory: str | None = None
    """The run that it was loaded from."""

    members, settings, evaluated = 1, 1, False  # among how many, of how many settings, it was chosen by evaluation

    def __init__(self, agent: Agent, state: Any, spec: Spec, sampled: bool = False):
        agent = at_fraction(agent, 1.0)
        check_signatures(agent, **agent.signatures)
        self.agent, self.state, self.spec, self.sampled = agent, state, spec, sampled
        self._flat = Flat.flatten(state)

        def decide(
            state: Any, hidden: Any, observation: Any, key: Any, explore: bool, world: World | None = None
        ) -> Any:
            """Act for one observation of the environment: one agent's, or those of all its agents."""

            def act(hidden: Any, observation: Any, key: Any) -> Any:
                action, hidden, _ = agent.act(state, ActInputs(hidden, observation, key, explore, world=world))
                return spaces.clip(spec.action_space, action), agent.observe_action(state, hidden, action)

            if spec.num_agents == 1:
                return act(hidden, observation, key)
            return jax.vmap(act)(hidden, observation, jax.random.split(key, spec.num_agents))

        # Keys go in and out as their bits, and are split within: by themselves both take as long as a small network.
        def step(state: Flat, hidden: Any, observation: Any, bits: Any, explore: bool, world: World | None) -> Any:
            later, key = jax.random.split(prng.from_data(bits))
            return *decide(state.tree, hidden, observation, key, explore, world), jax.random.key_data(later)

        def steps(state: Flat, hidden: Any, observations: Any, bits: Any, explore: bool) -> Any:
            later, key = jax.random.split(prng.from_data(bits))
            keys = jax.random.split(key, jax.tree.leaves(observations)[0].shape[0])
            one = lambda hidden, observation, key: decide(state.tree, hidden, observation, key, explore)  # noqa: E731
            return *jax.vmap(one)(hidden, observations, keys), jax.random.key_data(later)

        self._decide, self._step, self._steps = (
            decide,
            jax.jit(step, static_argnums=4),
            jax.jit(steps, static_argnums=4),
        )
        pay = lambda state, hidden, reward: agent.observe_reward(state.tree, hidden, reward)  # noqa: E731
        self._pay = jax.jit(pay), jax.jit(jax.vmap(pay, in_axes=(None, 0, 0)))
        self._like = team.repeat(spaces.example(spec.observation_space), spec.num_agents)
        self._plain = None if isinstance(self._like, dict) else (self._like.dtype, self._like.shape)
        self._action = jax.tree.structure(jax.eval_shape(lambda: spaces.example(spec.action_space)))
        self._start = initial_memory(agent, spec)
        self._nest = nesting(spec.action_space)
        self.reset()

    def __repr__(self) -> str:
        which = f", {member_words(self.member)}" if self.member else ""
        remembers = ", remembers within an episode" if self.remembers else ""
        how = "sampled" if self.sampled else "greedy"
        return f"<Policy: {type(self.agent).__name__} on {self.spec.name}{which}, {how} actions{remembers}>"

    @property
    def action_example(self) -> Any:
        """Return the shapes and types of an exported action; mixed ones are nested as the environment takes them."""
        action = jax.eval_shape(lambda: spaces.example(self.spec.action_space))
        return action if self._nest is None else jax.eval_shape(self._nest, action)

    @property
    def remembers(self) -> bool:
        """Return whether it keeps a memory within an episode, so that it must be `reset` before the next one."""
        return bool(jax.tree.leaves(self._start))

    @property
    def choice_words(self) -> str:
        """Describe in one sentence which member of its run this is, if it was chosen among several; otherwise empty."""
        if self.members < 2:
            return ""
        why = "the best in evaluation" if self.evaluated else "the first, as none is evaluated yet,"
        if self.evaluated and self.settings > 1:
            why = f"the best seed of the best of {self.settings} settings in evaluation,"
        names = " and ".join(["seed", *(name for name in self.member if name != "seed")])
        return (
            f"Took {member_words(self.member)}: {why} of {self.members} trained agents; "
            f"{names} can be named to take another."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the pickled form for another process: the arrays, and the user's own files that it needs."""
        try:
            kept = pickle.dumps((self.agent, self.spec, self.sampled, portable(self)))
        except Exception as error:  # what one's own objects raise has no common type
            where = repr(self.directory) if self.directory else "RUN"
            raise ForageError(
                f"This {type(self.agent).__name__} cannot be pickled ({type(error).__name__}: {error}); load it where "
                f"it is to act: forage.load({where})."
            ) from error
        own = [m.__file__ for name, m in list(sys.modules.items()) if name.startswith(FILE) and name.encode() in kept]
        return unpickle_policy, (own, kept)

    def reset(self, seed: int = 0, only: Any = None) -> None:
        """Forget the episode, and draw from `seed` again.

        `only`: in a batch, forget the episodes where this is true, such as `terminated | truncated`; the others, and
        what is drawn, go on.
        """
        if only is None:
            self._unpaid = False
            self._hidden, self._batch = self._start, None
            self._key = np.asarray(jax.random.key_data(prng.key(seed)))
            return
        self._check_paid()
        ended = np.asarray(only, bool)
        if self._batch is not None and self._batch != ended.shape:
            raise ForageError(
                f"`only` says of each episode whether to forget it, and has shape {ended.shape} where {self._batch} "
                f"are acted in."
            )
        if ended.any() and self._batch is not None:

            def reset_ended(start: Any, now: Any) -> Any:
                return np.where(ended.reshape(*ended.shape, *(1,) * start.ndim), start, now)

            self._hidden = jax.tree.map(reset_ended, self._start, self._hidden)

    def act(self, observation: Any, explore: bool | None = None, world: World | None = None) -> Any:
        """Return the action for an observation, or those for a batch `[batch, ...]`, as NumPy.

        A single choice is an `int`, and mixed actions are nested as the environment takes them, with an axis for the
        batch in each leaf. In an environment of many agents an observation is what all of them see, and an
        action what all of them do. An agent with memory keeps one for each row of the batch, which is an episode of
        its own until it is `reset`.

        `explore`: whether actions are drawn as in training; unless said, as the run was evaluated. `world`: the
        environment as it stands, for an agent that looks ahead, which acts for one observation at a time.

        A policy that learned from a table takes its columns by name, one value or a list of each, and gives the action
        so: `act({"on_hand": 3, "weekday": "Mon"})` returns `{"order": "small"}`.
        """
        if self.spec.columns is not None and isinstance(observation, Mapping):
            array = self.spec.columns.encode_observation(observation)
            return self.spec.columns.decode_action(self.act(array, explore, world))
        action = self.agent_action(observation, explore, world)
        return action if self._nest is None else self._nest(action)

    def agent_action(self, observation: Any, explore: bool | None = None, world: World | None = None) -> Any:
        """Return the same as `act`, with mixed actions as the vectors that agents learn from."""
        self._check_paid()
        explore = self.sampled if explore is None else explore
        observation, batch = self._to_arrays(observation)
        hidden = self._memory(batch)
        if not explore and sum(batch) <= MOST_ROWS and self._numpy is not None:
            return as_number(self._act_in_numpy(self._numpy, hidden, observation, batch))
        if not batch:
            world = world if self.agent.looks_ahead else None
            found = self._step(self._flat, hidden, observation, self._key, explore, world)
        elif self.agent.looks_ahead:
            raise ForageError(f"{type(self.agent).__name__} looks ahead in one world; give one observation at a time.")
        else:
            found = self._steps(self._flat, hidden, observation, self._key, explore)
        action, self._hidden, self._key = found
        self._unpaid = self.agent.return_conditioned
        return as_number(on_host(action))

    def observe_reward(self, reward: Any) -> None:
        """Give a return-conditioned agent the reward of the step after its last action, or of a batch of steps."""
        if not self._unpaid:
            return
        batch = self._batch or ()
        reward = np.asarray(reward, np.float32)
        if reward.shape != batch:
            raise ForageError(f"The rewards of the last actions have shape {batch}, not {reward.shape}.")
        self._hidden, self._unpaid = self._pay[len(batch)](self._flat, self._hidden, reward), False

    def _check_paid(self) -> None:
        """Raise `ForageError` if the agent is return-conditioned and did not get the last reward."""
        if self._unpaid:
            raise ForageError(
                f"{type(self.agent).__name__} acts by the rewards that it has had; call paid(reward) after each step."
            )

    @functools.cached_property
    def _numpy(self) -> PlainProgram | None:
        """The program that acts greedily in NumPy, made at its first use; `None` if only JAX can act, or on a GPU."""
        from forage.loop.export import plain_program

        if jax.default_backend() != "cpu":
            return None
        try:
            return plain_program(self)
        except Exception:  # what networks make of a batch of unknown size has no common type; compiled, they act
            return None

    def _act_in_numpy(self, program: PlainProgram, hidden: Any, observation: Any, batch: tuple[int, ...]) -> Any:
        """Return the greedy actions of the compiled program, to within rounding, and remember the same."""
        given, remembered = jax.tree.flatten(hidden)
        leaves = [np.asarray(x) for x in (*given, *jax.tree.leaves(observation))]
        found = program(batch[0] if batch else 1, leaves if batch else [x[None] for x in leaves])
        if not batch:
            found = [x.reshape(x.shape[1:]) for x in found]
        if given:
            self._hidden = jax.tree.unflatten(remembered, found[: len(given)])
        return jax.tree.unflatten(self._action, found[len(given) :])

    def _memory(self, batch: tuple[int, ...]) -> Any:
        """Return the memory for a batch of this shape, `()` for one observation."""
        if not self.remembers:
            return self._start
        if self._batch is None:
            self._hidden = jax.tree.map(lambda x: np.broadcast_to(x, (*batch, *x.shape)), self._start)
        elif self._batch != batch:
            number, now = (f"a batch of {b[0]}" if b else "one observation" for b in (self._batch, batch))
            raise ForageError(f"This policy remembers the episodes of {number}, and got {now}; call reset() before.")
        self._batch = batch
        return self._hidden

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write the acting part as a file for programs without Forage's loop, and return its path.

        `policy.npz` runs in plain NumPy (`forage.PlainPolicy`), `policy.onnx` in any ONNX runtime (extra `onnx`);
        both act greedily. `policy.safetensors` holds the weights by name (extra `safetensors`).
        """
        from forage.loop.export import export

        return export(self, path)

    def probabilities(self, observations: Any, explore: bool = False) -> Any:
        """Return the probabilities `[batch, action]` of numbered actions, for observations `[batch, ...]`, as NumPy.

        Without `explore`, of the policy as it is evaluated: 1 for the action it takes. Raise `ForageError` for agents
        with memory, whose actions depend on more, and for those whose actions are not numbered.
        """

        def one(state: Any, observation: Any) -> Any:
            observation = jax.tree.map(lambda like, x: x.astype(like.dtype), self._like, observation)
            return self.agent.probabilities(state, observation, explore)

        found = jax.jit(jax.vmap(one, in_axes=(None, 0)))(self.state, jax.tree.map(np.asarray, observations))
        return np.asarray(found)

    def _to_arrays(self, observation: Any) -> tuple[Any, tuple[int, ...]]:
        """Return an observation as arrays of the right types, and the shape of the batch: `()` for one alone.

        Raise `ForageError` when it is not of the space.
        """
        if type(observation) is np.ndarray and self._plain is not None:  # what is right already is not looked at long
            dtype, shape = self._plain
            if observation.dtype == dtype and observation.shape == shape:
                return observation, ()
            if observation.dtype == dtype and observation.shape[1:] == shape:
                return observation, observation.shape[:1]
        try:
            observation = jax.tree.map(
                lambda like, x: spaces.fit_dtype(np.asarray(x), like.dtype), self._like, observation
            )
        except (TypeError, ValueError) as error:
            raise ForageError(
                f"One observation of {self.spec.name} is an element of "
                f"{spaces.describe_space(self.spec.observation_space)}, not {type(observation).__name__} "
                f"({str(error).splitlines()[0].rstrip('.')})."
            ) from error
        batch = None
        for found, like in zip(jax.tree.leaves(observation), jax.tree.leaves(self._like), strict=True):
            before = found.shape[: found.ndim - like.ndim]
            if found.shape != (*before, *like.shape) or len(before) > 1 or batch not in (None, before):
                raise ForageError(
                    f"One observation of {self.spec.name} has shape {like.shape}, not {found.shape}; a batch has one "
                    f"axis before it, as in {(8, *like.shape)}."
                )
            batch = before
        return observation, batch or ()


def nesting(space: Space[Any]) -> ActionNesting | None:
    """Return the conversion of mixed actions to the environment's own; `None` for other actions."""
    return ActionNesting(space, space.nested) if isinstance(space, spaces.MixedSpace) else None


def as_number(action: Any) -> Any:
    """Return an action with each single number as Python's, which is equal to others and can be a key."""
    return jax.tree.map(lambda x: np.asarray(x).item() if np.ndim(x) == 0 else x, action)


REMEMBERED = ("directory", "member", "members", "settings", "evaluated", "_batch", "_key", "_unpaid")
"""Attributes that a policy has in another process too."""


def bits_of(tree: Any) -> list[tuple[np.ndarray, str]]:
    """Return the leaves of a tree as NumPy's arrays, each with its random generator's name if it is a key."""
    return [
        (np.asarray(jax.random.key_data(x)), checkpoint.generator_of(x))
        if checkpoint.is_key(x)
        else (np.asarray(x), "")
        for x in jax.tree.leaves(tree)
    ]


def from_bits(bits: list[tuple[np.ndarray, str]]) -> list[Any]:
    """Return the leaves that `bits_of` made arrays of."""
    return [jax.random.wrap_key_data(jax.numpy.asarray(x), impl=generator) if generator else x for x, generator in bits]


def portable(policy: Policy) -> tuple[Any, ...]:
    """Return a policy's networks and memory as arrays, and the tree of its networks with the number of each array.

    Instead of that tree `None`, where the agent makes one like it: what activations are made of may not be pickled.
    """
    structure = jax.tree.structure(policy.state)
    alike = structure == structure_of(policy.agent, policy.spec)
    numbered = None if alike else jax.tree.unflatten(structure, range(structure.num_leaves))
    return numbered, bits_of(policy.state), bits_of(policy._hidden), {n: getattr(policy, n) for n in REMEMBERED}


def structure_of(agent: Agent, spec: Spec) -> Any:
    """Return the tree of an agent's state."""
    return jax.tree.structure(jax.eval_shape(lambda key: agent.init(key, spec), prng.key(0)))


def unpickle_policy(own: list[str], kept: bytes) -> Policy:
    """Return the policy that another process pickled, after the user's own files that it needs are imported."""
    if own:
        for file in own:
            load_file(file)
    agent, spec, sampled, (numbered, networks, memory, remembered) = pickle.loads(kept)
    structure = structure_of(agent, spec) if numbered is None else jax.tree.structure(numbered)
    state = jax.device_put(jax.tree.unflatten(structure, from_bits(networks)))
    policy = Policy(agent, state, spec, sampled)
    policy._hidden = jax.tree.unflatten(jax.tree.structure(policy._start), from_bits(memory))
    for name, value in remembered.items():
        setattr(policy, name, value)
    return policy
