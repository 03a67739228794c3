"""The host's contract: a batch of environments stepped in NumPy, in Python or C++."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import gymnasium
import numpy as np

from forage.core.errors import words_of
from forage.core.loading import LazyModule
from forage.core.records import printable
from forage.core.spaces import (
    check_spaces,
    choice_starts,
    describe_space,
    present,
    spaces_by_path,
    split_mask,
    unknown_space,
)
from forage.core.types import Clock, ForageError, Spec, Step

if TYPE_CHECKING:
    import jax
    from jaxtyping import Bool, Float, Int, PyTree, UInt8
else:
    jax = LazyModule("jax")


class Misfit(Exception):
    """A value of a simulator that does not fit its library: `what` is wrong, and the value it `should` have."""

    @property
    def message(self) -> str:
        return self.args[0]

    @property
    def should(self) -> str:
        return self.args[1]


class Quit(ForageError):
    """An environment called `sys.exit(code)`, which would end the run as if all were well."""

    def __init__(self, name: str, when: str, code: Any):
        said = "" if code is None else repr(code)
        super().__init__(
            f"{name} called sys.exit({said}) at {when}; let an environment end an episode with terminated, and raise "
            f"an error where it cannot go on."
        )
        self.code = code


LIFE_LOST = "life_lost"
"""The name in `Step.info` of a flag that is 1 if a step lost a life or ended the game, and 0 otherwise."""


class HostStep(NamedTuple):
    """The results of one step of the batch.

    `step.observation` is what each step led to, also where an episode ended.
    `observation` is what to act on next: the first observation of the new episode where one ended.
    Where no episode ended the two are the same arrays; treat both as read-only.
    """

    step: Step  # leaves [env, ...]
    observation: PyTree[np.ndarray]  # leaves [env, ...]


class Conversation(NamedTuple):
    """An episode in words."""

    said: tuple[tuple[str, str], ...]  # who, such as `prompt`, `answer` or `reply`, and what, one after the other
    reward: float | None  # of the whole episode; `None` if it has none
    verdict: str = ""  # what was found of it
    reference: str = ""  # what an expert would have answered, where one is known
    notes: tuple[tuple[str, str], ...] = ()  # what else was logged of it, by name

    def __str__(self) -> str:
        """Return the conversation in lines: the speaker, then the text."""
        rows = [*self.said, *([("reference", self.reference)] if self.reference else []), *self.notes]
        rows.append(("reward", self.reward_words()))
        width = max(len(who) for who, _ in rows)
        return "\n".join(f"{who:{width}}  {indent_lines(what, width + 2)}" for who, what in rows)

    def reward_words(self) -> str:
        """Return the reward and the verdict in words."""
        reward = "none" if self.reward is None else f"{self.reward:g}"
        return f"{reward}, {self.verdict}" if self.verdict else reward


def indent_lines(text: str, width: int) -> str:
    """Return a text, printable, whose lines but the first stand `width` characters to the right."""
    return printable(text).replace("\n", "\n" + " " * width)


class HostEnvironment(abc.ABC):
    """`num_envs` environments that are stepped together and start a new episode by themselves.

    Every array has the environment axis first, and with `num_agents` above 1 the agents' second: observations in
    `observation_space`'s shape and dtype, rewards `float32` of shape `[env]` (`[env, len(reward_names)]` for a vector
    reward), `terminated` and `truncated` `bool[env]`, never both.

    `step` is `send` then `receive`; what is dispatched between the two runs while the environments are simulated.
    The default simulates in `receive`, on the calling thread: JAX dispatches asynchronously, so learning that was
    dispatched after `send` computes meanwhile. A worker thread was measured and was slower than this almost everywhere
    (handing each step across threads costs more than it hides).

    A subclass implements `_reset`, `_receive`, and `_send` where its simulation can start at once;
    shapes, dtypes, NaN and infinity are checked here, and whatever it raises reaches people as one sentence.
    """

    evaluation_episodes: ClassVar[int] = 10
    """The number of evaluation episodes, unless it is set."""

    evaluation_envs: ClassVar[int] = 0
    """Most environments that an evaluation plays side by side, where they are more than training has."""

    first: int = 0
    """The place of its first environment in a larger batch, which `seeds` counts from."""

    in_words: ClassVar[bool] = False
    """Its episodes can be read: `conversations` returns them."""

    clock: Clock | None = None
    """The time in the run, as of the beginning of a rollout; `None` in an evaluation, and in a worker."""

    def __init__(
        self,
        name: str,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        num_envs: int,
        horizon: int | None = None,
        reward_names: tuple[str, ...] = (),
        num_agents: int = 1,
    ):
        """Raise `ForageError` when `num_envs` is less than 1. The spaces are those of one agent of one environment."""
        if num_envs < 1:
            raise ForageError(f"{name} cannot run with num_envs={num_envs}; 1 or more works.")
        check_spaces(name, observation_space, action_space)
        self.name = name
        self.observation_space = observation_space
        self.action_space = action_space
        self.num_envs = num_envs
        self.horizon = horizon
        self.reward_names = reward_names
        self.num_agents = num_agents
        self._check = Check(name, observation_space, num_envs, reward_names, num_agents, choice_starts(action_space))
        self._ours = type(self).__module__.startswith("forage.")
        self._steps = 0  # of the batch, since the last `reset`
        self._at: int | None = None  # the environment being stepped, where the adapter knows it
        self._sent: PyTree[np.ndarray] | None = None

    @property
    def spec(self) -> Spec:
        """Return the agent's view of these environments."""
        return Spec(
            self.name,
            self.observation_space,
            self.action_space,
            self.reward_names,
            self.num_agents,
            self.horizon,
            self.info_names,
            goal_reward=self.goal_reward,
        )

    @property
    def goal_reward(self) -> Any:
        """Return the rewards of any goal, `reward_of(achieved, desired)` and `terminates(achieved, desired)`; `None` if
        none can be computed.
        """
        return None

    def reset(self, seed: int) -> PyTree[np.ndarray]:
        """Start every environment afresh and return the observations to act on, `[env, ...]`."""
        self._steps, self._sent = 0, None
        observation = self._own(self._guard("reset", self._reset, int(seed)))
        self._check.observation("the reset", observation)
        self._check.mask("the reset", observation)
        return observation

    def step(self, action: PyTree[np.ndarray]) -> HostStep:
        """Take one action in each environment; leaves of `action` are `[env, ...]`."""
        self.send(action)
        return self.receive()

    def send(self, action: PyTree[np.ndarray]) -> None:
        """Hand the actions over. The next call must be `receive`."""
        if self._sent is not None:
            raise ForageError(f"{self.name} was sent actions twice; call receive() after each send().")
        self._sent = action
        self._guard(self._steps + 1, self._send, action)

    def receive(self) -> HostStep:
        """Wait for the results of the actions sent last."""
        action, self._sent = self._sent, None
        if action is None:
            raise ForageError(f"{self.name} has nothing to receive; call send(action) first.")
        self._steps += 1
        result = self._own(self._guard(self._steps, self._receive, action))
        self._check.step(self._steps, result)
        return result

    def _own(self, result: Any) -> Any:
        """Return arrays that are never overwritten: copies if the code of the user may reuse its own."""
        if self._ours:
            return result
        same = isinstance(result, HostStep) and result.observation is result.step.observation
        copied = jax.tree.map(lambda x: x.copy() if isinstance(x, np.ndarray) else x, result)
        return copied._replace(observation=copied.step.observation) if same else copied

    @property
    def lost(self) -> Bool[np.ndarray, " env"] | None:
        """Return the mask of environments whose last step was lost, so that it is no transition; `None` if none was.

        There the episode ended, truncated and with reward 0, and another began.
        """
        return None

    @property
    def lost_reason(self) -> str:
        """Return the reason for which steps are lost, as the subject and verb of a sentence."""
        return "workers died or hung"

    @property
    def no_reward(self) -> Bool[np.ndarray, " env"] | None:
        """Return the mask of environments whose last step ended an episode that has no reward; `None` if there is none.

        Such as an answer that a reward function failed on. These steps are `lost`, and means of returns leave the
        episodes out.
        """
        return None

    @property
    def no_reward_reason(self) -> str:
        """Return the newest reason for which an episode has no reward, as a clause; empty if none is known."""
        return ""

    @property
    def unjudged(self) -> Bool[np.ndarray, " env"] | None:
        """Return the mask of environments whose last step ended an episode that could not be judged; `None` if there is
        none.

        A reward function or a verifier failed on it. Training ends where a whole rollout has no other episodes.
        """
        return None

    @property
    def unjudged_reason(self) -> str:
        """Return the newest reason for which an episode could not be judged, as a clause."""
        return ""

    @property
    def left(self) -> bool:
        """Return whether a stop of the run left a call unfinished, so that no further call can be made."""
        return False

    def metrics(self) -> dict[str, np.ndarray]:
        """Return numbers about the stepping itself, by name, for the metrics of a run.

        Each counts something since the environments were made.
        """
        return {}

    def seeds(self, seed: int) -> list[int]:
        """Return one seed for each environment, independent of its index in a larger batch."""
        return seeds(seed, self.first + self.num_envs)[self.first :]

    @property
    def map_shape(self) -> tuple[int, ...] | None:
        """Return the shape of the map of `map_position`, its cells numbered row by row; `None` without a map."""
        return None

    @property
    def map_position(self) -> Int[np.ndarray, " env"]:
        """Return the position on that map after the last step, even if the episode ended there; zeros without a map."""
        return np.zeros(self.num_envs, np.int32)

    @property
    def returns(self) -> bool:
        """Return whether `take` and `put` work here, so that an episode can begin where another has been."""
        return False

    @property
    def may_save(self) -> bool:
        """Return whether its state might be saved exactly with `--env.snapshots true`, an option that is not set."""
        return False

    def take(self, index: int) -> bytes | None:
        """Return the state that environment `index` is in, for `put`; not between `send` and `receive`.

        `None` if that state is lost, so that the next step is (`lost`).
        """
        return self._guard("saving a state", self._take, index)

    def put(self, index: int, state: bytes | None) -> PyTree[np.ndarray]:
        """Begin a new episode in environment `index`, and return its first observation, without the environment axis.

        It begins in a state that `take` read from any of these environments, or as a reset does. What chance brings
        next is drawn anew, and not as it was when the state was taken.
        """
        return self._guard("beginning an episode", self._put, index, state)

    @property
    def seeded(self) -> bool:
        """Return whether `begin` works here, so that several episodes can have the same beginning."""
        return False

    @property
    def num_starts(self) -> int:
        """Return the number of different beginnings, such as levels or problems; 0 if they are not numbered."""
        return 0

    @property
    def pass_length(self) -> int:
        """Return the number of beginnings that training plays in passes, each once a pass; 0 where they are drawn."""
        return 0

    @property
    def difficulty(self) -> Float[np.ndarray, " number"]:
        """Return the estimated difficulty of each numbered beginning, from 0 to 1."""
        return np.zeros(self.num_starts, np.float32)

    @property
    def hints(self) -> float:
        """Return the largest share of a reference solution that `begin` can give as a hint; 0 where it gives none."""
        return 0.0

    @property
    def kinds(self) -> Int[np.ndarray, " number"]:
        """Return the number of the kind of each numbered beginning, such as a family of problems of several."""
        return np.zeros(self.num_starts, np.int32)

    @property
    def prompt_lengths(self) -> Int[np.ndarray, " number"]:
        """Return the number of tokens of the prompt of each numbered beginning; zeros without prompts."""
        return np.zeros(self.num_starts, np.int32)

    @property
    def limits(self) -> dict[str, int]:
        """Return the limits of an episode that `limit` may lower, by name, with their largest values."""
        return {}

    def limit(self, index: int, values: Mapping[str, int]) -> None:
        """Lower limits of the episodes that `begin` starts in environment `index`; others are at their largest."""
        for name, value in values.items():
            if not 1 <= value <= self.limits.get(name, 0):
                raise ForageError(f"{self.name} has a limit {name} of {self.limits.get(name, 0)}, not of {value}.")
        self._limit(index, values)

    def _limit(self, index: int, values: Mapping[str, int]) -> None:  # noqa: B027 (most have no limits)
        """Set the limits of the next episodes."""

    def begin(self, index: int, seed: int, number: int | None = None, hint: float = 0.0) -> PyTree[np.ndarray]:
        """Begin a new episode in environment `index`, and return its first observation, without the environment axis.

        It begins alike for the same seed, where `seeded`, and with `number` as that one of the `num_starts` beginnings.
        `hint`: the share of a reference solution, at most `hints`, that is given away at the beginning.
        """
        if not 0 <= hint <= self.hints:
            raise ForageError(f"{self.name} gives hints of 0 to {self.hints:g} of a solution, not {hint:g}.")
        return self._guard("beginning an episode", self._begin, index, seed, number, hint)

    @property
    def max_answer_tokens(self) -> int:
        """Return the largest number of tokens of an answer that `branch` accepts; 0 if it does not work here."""
        return 0

    def branch(self, index: int, tokens: Int[np.ndarray, " time"]) -> PyTree[np.ndarray]:
        """Begin the next answer of environment `index` with some tokens, and return the observation after them.

        The action that follows goes on after them, and both together are the answer. Tokens are those of the action
        space, padded behind.
        """
        return self._guard("going on with an answer", self._branch, index, tokens)

    def _branch(self, index: int, tokens: np.ndarray) -> PyTree[np.ndarray]:
        raise ForageError(f"{self.name} takes whole answers alone; use text:addition --env.branches true or the like.")

    def examine(self) -> None:  # noqa: B027 (most have one kind of episode)
        """Turn to the episodes that evaluation plays, such as problems held out from training, from the next reset.

        They are judged as after `judge_singly`.
        """

    def judge_singly(self) -> None:  # noqa: B027 (most have a reward for each step)
        """Judge episodes one by one, as outside of training: a failed judgement ends no run, but has no reward."""

    def conversations(self) -> list[Conversation]:
        """Return the newest finished episode of each environment, in words; empty before the first, and without
        words.
        """
        return []

    def sample(self) -> str | None:
        """Return the text of the newest finished episode; `None` before the first, and without words."""
        found = self.conversations()
        return str(found[0]) if found else None

    def expert_episode(self) -> Conversation | None:
        """Return an episode as an expert plays it, in words; `None` if there are no words."""
        return None

    def _begin(self, index: int, seed: int, number: int | None, hint: float) -> PyTree[np.ndarray]:
        raise ForageError(f"{self.name} does not begin alike for the same seed; use --starts reset.")

    def _take(self, index: int) -> bytes | None:
        raise ForageError(f"{self.name} cannot go back to a state; let its episodes begin with --starts reset.")

    def _put(self, index: int, state: bytes | None) -> PyTree[np.ndarray]:
        raise ForageError(f"{self.name} cannot go back to a state; let its episodes begin with --starts reset.")

    def snapshot(self) -> bytes | None:
        """Return the exact state of all environments, or `None` if it cannot be saved exactly.

        Not between `send` and `receive`. Whether it is `None` does not change over a run.
        """
        if self._sent is not None:
            raise ForageError(f"{self.name} cannot be saved between send() and receive(); call receive() first.")
        try:
            return self._snapshot()
        except SystemExit as error:
            raise Quit(self.name, "a snapshot", error.code) from error

    def restore(self, snapshot: bytes) -> PyTree[np.ndarray]:
        """Continue from a `snapshot`, possibly of another process, and return the observations to act on.

        Snapshots of foreign environments hold plain data and objects of their own library, and what else one names is
        refused: see `adapters.saving.Reader`.
        """
        self._sent = None
        return self._guard("restoring a snapshot", self._restore, snapshot)

    def render(self) -> UInt8[np.ndarray, "height width 3"]:
        """Draw environment 0. Raise `ForageError` if that cannot be done."""
        return self._guard("drawing", self._render)

    def _render(self) -> UInt8[np.ndarray, "height width 3"]:
        raise ForageError(f"{self.name} cannot be drawn; a video needs an environment with an rgb_array render mode.")

    @property
    def frames_per_second(self) -> float | None:
        """Return the frame rate of a film of its steps; `None` if it is not declared."""
        return None

    @property
    def info_names(self) -> tuple[str, ...]:
        """Return the names of the entries of `Step.info` that are a number of each environment, `float32[env]`,
        or NaN.
        """
        return ()

    @property
    def info_seen(self) -> tuple[str, ...]:
        """Return the names read so far from the environments' own information."""
        return ()

    broken: Mapping[str, str] = {}
    """Promises of their library that the environments have broken, in words, where a run can do without them."""

    def close(self) -> None:  # noqa: B027 (not every simulator holds something)
        """Free the resources of the simulators. No method can be called afterwards."""

    @abc.abstractmethod
    def _reset(self, seed: int) -> PyTree[np.ndarray]: ...

    @abc.abstractmethod
    def _receive(self, action: PyTree[np.ndarray]) -> HostStep:
        """Return the results of `action`, sent before. They are copied where the class is none of Forage's."""

    def _send(self, action: PyTree[np.ndarray]) -> None:  # noqa: B027 (nor can every one start early)
        """Start the simulation, where that can be done without waiting for it."""

    def _snapshot(self) -> bytes | None:
        return None

    def _restore(self, snapshot: bytes) -> PyTree[np.ndarray]:
        raise ForageError(f"{self.name} cannot be restored: its state cannot be saved exactly, so start it with reset.")

    def _guard(self, when: str | int, function: Any, *args: Any) -> Any:
        """Call the simulator, and turn any error of its into one sentence."""
        self._at = None
        try:
            return function(*args)
        except ForageError:
            raise
        except (Exception, SystemExit) as error:
            which = "" if self._at is None else f" in environment {self.first + self._at}"
            if isinstance(error, SystemExit):
                raise Quit(self.name, f"{_time_words(when)}{which}", error.code) from error
            if isinstance(error, Misfit):
                raise ForageError(
                    f"{self.name} {error.message} at {_time_words(when)}{which}; {error.should}."
                ) from error
            raise ForageError(
                f"{self.name} failed at {_time_words(when)}{which} with {words_of(error)}; "
                f"the error is the environment's own, so mend it there or check the action it was given."
            ) from error


def array_dtype(space: gymnasium.Space[Any]) -> np.dtype:
    """Return the dtype in which values of an array-like space travel.

    `float32` for floats and for integers that a Box lets grow beyond `int32`; `int32` for other long integers.
    """
    dtype = np.dtype(space.dtype)
    if dtype.kind == "f":
        return np.dtype(np.float32)
    if dtype.kind not in "iu" or dtype.itemsize < 4 or dtype == np.int32:
        return dtype
    limits = np.iinfo(np.int32)
    fits = not isinstance(space, gymnasium.spaces.Box) or (
        (space.low >= limits.min).all() and (space.high <= limits.max).all()
    )
    return np.dtype(np.int32 if fits else np.float32)


class ArrayForm(NamedTuple):
    """The required shape and dtype of an array of a batch."""

    path: tuple[str, ...]  # in a Dict observation; empty otherwise
    shape: tuple[int, ...]
    dtype: np.dtype


class Check:
    """A check of all values that a batch of environments returns, before they can spoil a memory or a network.

    Raises `ForageError` naming the environment, the step and what was wrong: structure, shape, dtype, NaN, infinity, an
    episode that both terminated and was truncated, or a mask that allows no action where one has to be taken. Runs
    after every step, so what it expects is worked out once.
    """

    def __init__(
        self,
        name: str,
        observation_space: gymnasium.Space[Any],
        num_envs: int,
        reward_names: tuple[str, ...] = (),
        num_agents: int = 1,
        starts: list[int] | None = None,
    ):
        """Prepare the check. `starts`: the place in a mask where each choice begins; `None` without choices."""
        self.name, self.starts = name, starts
        flags = (num_envs,) if num_agents == 1 else (num_envs, num_agents)
        for leaf in spaces_by_path(observation_space).values():
            if leaf.shape is None:
                raise ForageError(f"{name} shows {describe_space(leaf)}. {unknown_space(leaf)}")
        self.space = observation_space
        self.single = not isinstance(observation_space, gymnasium.spaces.Dict)
        self.observations = [
            ArrayForm(path, (*flags, *(leaf.shape or ())), array_dtype(leaf))
            for path, leaf in spaces_by_path(observation_space).items()
        ]
        shape = (*flags, len(reward_names)) if reward_names else flags
        self.reward = ArrayForm((), shape, np.dtype(np.float32))
        self.flag = ArrayForm((), flags, np.dtype(np.bool_))

    def observation(self, when: str | int, observation: PyTree[np.ndarray]) -> None:
        """Check observations `[env, ...]`. `when` is the number of a step, or words."""
        if self.single:
            self._array(when, "observation", observation, self.observations[0])
            return
        self._keys(when, "", self.space, observation)
        for expected in self.observations:
            array = observation
            for key in expected.path:
                array = array[key]
            self._array(when, "observation", array, expected)

    def mask(self, when: str | int, observation: PyTree[np.ndarray]) -> None:
        """Check that each choice of the next action has an option; agents that do not act now need none."""
        allowed = split_mask(observation)[1]
        if allowed is None or self.starts is None:
            return
        none = ~np.logical_or.reduceat(allowed, self.starts, axis=-1)
        acting = present(observation)
        if acting is not None:
            none &= (acting == 1)[..., None]
        if none.any():
            environment, *agent, choice = (int(index) for index in np.argwhere(none)[0])
            which = f", agent {agent[0]}" if agent else ""
            option = f"option of choice {choice}" if len(self.starts) > 1 else "action"
            raise ForageError(
                f"{self.name} has an action_mask that allows no {option} after {_time_words(when)} in environment "
                f"{environment}{which}; allow one, or end the episode before."
            )

    def _keys(self, when: str | int, where: str, space: Any, observation: Any) -> None:
        """Look for the parts of a dictionary: all of them, and no others."""
        if not isinstance(observation, Mapping) or observation.keys() != space.spaces.keys():
            found = sorted(map(str, observation)) if isinstance(observation, Mapping) else type(observation).__name__
            raise ForageError(
                f"{self.name} returned as observation{where} {found} at {_time_words(when)}; its space has "
                f"{list(space)}."
            )
        for key, part in space.spaces.items():
            if isinstance(part, gymnasium.spaces.Dict):
                self._keys(when, f"{where} {key}", part, observation[key])

    def step(self, number: int, result: HostStep) -> None:
        """Check the result of step `number`."""
        step = result.step
        self.observation(number, step.observation)
        if result.observation is not step.observation:
            self.observation(f"step {number}, in the first observation of a new episode,", result.observation)
        self._array(number, "reward", step.reward, self.reward)
        self._array(number, "terminated", step.terminated, self.flag)
        self._array(number, "truncated", step.truncated, self.flag)
        self.mask(number, result.observation)
        both = step.terminated & step.truncated
        if both.any():
            raise ForageError(
                f"{self.name} said both terminated and truncated at {_time_words(number)} in environment "
                f"{np.flatnonzero(both)[0]}; an adapter must let terminated win."
            )

    def _array(self, when: str | int, what: str, array: Any, expected: ArrayForm) -> None:
        path, shape, dtype = expected
        if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
            what = " ".join([what, ".".join(path)]).strip()
            found = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
            raise ForageError(
                f"{self.name} returned as {what} {found} at {_time_words(when)}; it should be {dtype}{list(shape)}."
            )
        if dtype.kind == "f":
            flat = array.ravel()
            # One pass that allocates nothing. Squares cannot cancel, so what is not finite shows in their sum.
            with np.errstate(over="ignore"):
                total = flat.dot(flat)
            if not total < np.inf and not np.isfinite(array).all():  # the sum also overflows where numbers are large
                what = " ".join([what, ".".join(path)]).strip()
                environment, *where = (int(index) for index in np.argwhere(~np.isfinite(array))[0])
                entry = f", entry {where[0] if len(where) == 1 else tuple(where)}" if where else ""
                value = "NaN" if np.isnan(array[(environment, *where)]) else "infinity (beyond what float32 holds)"
                raise ForageError(
                    f"{self.name} returned {value} as {what} at {_time_words(when)} in environment {environment}{entry}"
                    f"; fix the environment, or restrict actions to a range where it is stable."
                )


def _time_words(when: str | int) -> str:
    return f"step {when}" if isinstance(when, int) else when


def seeds(seed: int, num_envs: int) -> list[int]:
    """Return one seed for each environment: unlike `seed + i`, no two runs with neighbouring seeds share an
    environment.
    """
    return [int(number) for number in np.random.SeedSequence(seed).generate_state(num_envs) >> 1]  # below 2^31
