"""From ids to environments: one table, and the adapters. Imports only the environment that is named."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import importlib.util
import inspect
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from forage.types import ForageError, Spec

if TYPE_CHECKING:
    from forage.environments.host import HostEnvironment
    from forage.ports import Environment


class Entry(NamedTuple):
    """One native environment: where its class is, which fields differ from the class's own, what it is."""

    target: str  # module:Class below forage.environments
    description: str
    fields: Mapping[str, Any] = {}
    keep: tuple[int, ...] = ()  # the entries of the observation that are shown, where some are hidden


class Listed(NamedTuple):
    """One row of `forage list`."""

    id: str
    kind: str
    description: str


NATIVE: dict[str, Entry] = {
    "CartPole-v1": Entry("classic.cartpole:CartPole", "Keep a pole upright on a cart; 500 steps."),
    "CartPole-v0": Entry("classic.cartpole:CartPole", "Keep a pole upright on a cart; 200 steps.", {"max_steps": 200}),
    "CartPole-masked": Entry(
        "classic.cartpole:CartPole", "CartPole with its velocities hidden: it takes memory.", keep=(0, 2)
    ),
    "Acrobot-v1": Entry("classic.acrobot:Acrobot", "Swing a two-link arm above a line by its elbow."),
    "MountainCar-v0": Entry("classic.mountain_car:MountainCar", "Rock a weak car out of a valley; reward is rare."),
    "MountainCarContinuous-v0": Entry(
        "classic.mountain_car:MountainCarContinuous", "Rock a weak car out of a valley by a continuous force."
    ),
    "Pendulum-v1": Entry("classic.pendulum:Pendulum", "Swing up a pendulum by a continuous torque and hold it."),
    "DeepSea-N": Entry("deep_sea:DeepSea", "Exploration in an N x N grid; DeepSea-10, or any size from 2 up."),
    "DeepSeaTreasure-v0": Entry(
        "treasure:DeepSeaTreasure", "Two objectives: the value of a treasure and the time to it."
    ),
    "minatar:Asterix": Entry("minatar.asterix:Asterix", "MinAtar: collect treasure, avoid enemies."),
    "minatar:Breakout": Entry("minatar.breakout:Breakout", "MinAtar: break bricks with a ball."),
    "minatar:Freeway": Entry("minatar.freeway:Freeway", "MinAtar: cross a road."),
    "minatar:Seaquest": Entry("minatar.seaquest:Seaquest", "MinAtar: rescue divers before the oxygen runs out."),
    "minatar:SpaceInvaders": Entry("minatar.space_invaders:SpaceInvaders", "MinAtar: shoot rows of aliens."),
}

SIZED = re.compile(r"deepsea-(\d+)", re.IGNORECASE)
FOREIGN = {"gymnasium": "adapters.gymnasium:GymnasiumEnvironment", "envpool": "adapters.envpool:EnvPoolEnvironment"}


@dataclasses.dataclass(frozen=True)
class HostFactory:
    """An environment that is stepped on the host: what it is, not yet made. Can be pickled to other processes."""

    id: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def build(self, num_envs: int) -> HostEnvironment:
        """Makes `num_envs` of it. Raises `ForageError` where it or what it needs is not there."""
        prefix, _, rest = self.id.partition(":")
        if prefix in FOREIGN:
            given: dict[str, Any] = {"target": rest, "num_envs": num_envs, "name": self.id}
            return _call(self.id, _load(FOREIGN[prefix]), given, self.options)
        cls = _own_class(self.id)
        from forage.environments.host import HostEnvironment

        if issubclass(cls, HostEnvironment):
            return _call(self.id, cls, {"num_envs": num_envs}, self.options)
        given = {"target": self.id, "num_envs": num_envs, "name": self.id}
        return _call(self.id, _load(FOREIGN["gymnasium"]), given, self.options)

    def spec(self) -> Spec:
        """What an agent may know of it. Makes one and closes it again."""
        environment = self.build(1)
        environment.close()
        return environment.spec


def make(id: str, **options: Any) -> Environment | HostFactory:
    """Returns the environment that `id` names, with fields or options replaced.

    `CartPole-v1` (native, see `list_environments`) and `package.module:Class` or `path/to/file.py:Class` of a
    `forage.ports.Environment` give an `Environment`. `gymnasium:HalfCheetah-v5`, `envpool:Pong-v5` and a class that
    is a `gymnasium.Env` or a `HostEnvironment` give a `HostFactory`. Case does not matter in ids of our own.

    Raises `ForageError` for unknown ids and options, with the nearest ones.
    """
    name = canonical_id(id)
    if match := SIZED.fullmatch(name):
        if "size" in options:
            raise ForageError(f"{name} has its size in its name; DeepSea-{options['size']} is the other one.")
        return _make_native(name, NATIVE["DeepSea-N"], {"size": int(match[1])}, options)
    if name in NATIVE:
        return _make_native(name, NATIVE[name], {}, options)
    prefix = name.partition(":")[0]
    if prefix in FOREIGN:
        return HostFactory(name, options)
    cls = _own_class(name)
    from forage.ports import Environment

    if issubclass(cls, Environment):
        _check_options(name, cls, options)
        return _call(name, cls, {}, options)
    return HostFactory(name, options)


def canonical_id(id: str) -> str:
    """The id in its proper spelling (`minatar:Breakout` for `MINATAR:breakout`); `ForageError` when there is none."""
    if match := SIZED.fullmatch(id):
        return f"DeepSea-{int(match[1])}"
    spelled = {name.lower(): name for name in NATIVE if name != "DeepSea-N"}
    if id.lower() in spelled:
        return spelled[id.lower()]
    prefix, colon, rest = id.partition(":")
    if not colon or prefix.lower() == "minatar":
        raise _unknown(id)
    if prefix.lower() == "gymnasium":
        return f"gymnasium:{_gymnasium_id(id, rest)}"
    if prefix.lower() == "envpool":
        from forage.environments.adapters.envpool import check_id

        check_id(rest)
        return f"envpool:{rest}"
    return id


def spec_of(environment: Environment, name: str) -> Spec:
    """What an agent may know of a native environment."""
    return Spec(
        name=name,
        observation_space=environment.observation_space,
        action_space=environment.action_space,
        reward_names=environment.reward_names,
        horizon=environment.horizon,
    )


def list_environments() -> list[Listed]:
    """Every environment that `make` knows here, by kind: native, Gymnasium's, and how to name the others."""
    rows = [Listed(name, "native", entry.description) for name, entry in NATIVE.items()]
    rows += [Listed(f"gymnasium:{id}", "gymnasium", _where(id)) for id in _gymnasium_ids()]
    if importlib.util.find_spec("envpool") is not None:
        rows.append(Listed("envpool:<id>", "envpool", "Any id of envpool.list_all_envs(), as envpool:Pong-v5."))
    rows.append(
        Listed("<module>:<Class>", "your own", "A forage Environment or gymnasium.Env, also path/to/file.py:Class.")
    )
    return rows


def _make_native(name: str, entry: Entry, fields: Mapping[str, Any], options: Mapping[str, Any]) -> Environment:
    cls = _load(entry.target)
    _check_options(name, cls, options)
    environment = _call(name, cls, {**entry.fields, **fields}, options)
    if entry.keep:
        return _load("wrappers:Masked")(environment, entry.keep)
    return environment


def _check_options(name: str, cls: type[Any], options: Mapping[str, Any]) -> None:
    parameters = inspect.signature(cls).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for option in options:
        if option not in parameters:
            near = difflib.get_close_matches(option, parameters, n=3, cutoff=0.4)
            hint = f"the nearest are {', '.join(near)}" if near else f"it has {', '.join(parameters) or 'none'}"
            raise ForageError(f"{name} has no option {option}; {hint}.")


def _call(name: str, cls: Any, given: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    try:
        return cls(**{**given, **options})
    except (TypeError, ValueError) as error:
        said = ", ".join(f"{key}={value!r}" for key, value in options.items()) or "no options"
        raise ForageError(f"{name} could not be made with {said}: {error}") from error


def _load(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(f"forage.environments.{module}"), name)


def _own_class(id: str) -> type[Any]:
    import gymnasium

    from forage.environments.adapters.loading import load_class
    from forage.environments.host import HostEnvironment
    from forage.ports import Environment

    cls = load_class(id)
    if not issubclass(cls, (Environment, gymnasium.Env, HostEnvironment)):
        raise ForageError(
            f"{id} is not an environment; a subclass of forage.ports.Environment, gymnasium.Env or "
            f"forage.environments.host.HostEnvironment works."
        )
    return cls


def _gymnasium_ids() -> list[str]:
    """Ids of Gymnasium's registry, the newest version of each, with Atari where it is installed."""
    import gymnasium

    from forage.environments.adapters.atari import is_atari, register

    if importlib.util.find_spec("ale_py") is not None:
        register()
    newest: dict[str, tuple[int, str]] = {}
    for id, spec in gymnasium.registry.items():
        # Gymnasium keeps ids that only say what became of them.
        gone = getattr(spec.entry_point, "__name__", "").startswith("_raise")
        if spec.namespace not in (None, "ALE") or gone or (is_atari(id) and spec.namespace is None):
            continue
        key = f"{spec.namespace}/{spec.name}"
        newest[key] = max(newest.get(key, (-1, "")), (spec.version or 0, id))
    return sorted(id for _, id in newest.values())


def _gymnasium_id(id: str, rest: str) -> str:
    """Checks an id of Gymnasium's; `module:Id-v0` imports the module that registers it."""
    import gymnasium

    from forage.environments.adapters.atari import is_atari, register

    if is_atari(rest):
        register()
    try:
        gymnasium.spec(rest)
    except (gymnasium.error.UnregisteredEnv, gymnasium.error.Error, ModuleNotFoundError) as error:
        spelled = {known.lower(): known for known in gymnasium.registry}
        if rest.lower() in spelled:
            return spelled[rest.lower()]
        raise _unknown(id) from error
    return rest


def _unknown(id: str) -> ForageError:
    """One sentence with the nearest ids of all kinds."""
    candidates = {name.lower(): name for name in (*NATIVE, "DeepSea-10") if name != "DeepSea-N"}
    for known in _gymnasium_ids():
        candidates[f"gymnasium:{known}".lower()] = f"gymnasium:{known}"
    wanted = id.lower()
    scores = {}
    for lower, name in candidates.items():
        # A prefix that was left out or wrong must not hide the name behind it.
        bare = lower.partition(":")[2] or lower
        bare = bare.removeprefix("ale/")
        ratio = difflib.SequenceMatcher(None, wanted.partition(":")[2] or wanted, bare).ratio()
        scores[name] = max(ratio, difflib.SequenceMatcher(None, wanted, lower).ratio())
    near = [name for name in sorted(scores, key=lambda name: -scores[name]) if scores[name] >= 0.6][:4]
    hint = f"did you mean {' or '.join(near)}?" if near else "forage list shows all there are."
    return ForageError(f"There is no environment {id}; {hint}")


def _where(id: str) -> str:
    if id.startswith("ALE/"):
        return f"Atari game {id[4:].rpartition('-')[0]}, with the standard preprocessing."
    import gymnasium

    module = str(gymnasium.registry[id].entry_point).partition(":")[0].removeprefix("gymnasium.envs.")
    return f"Gymnasium's {id.rpartition('-')[0]} ({module.partition('.')[0].replace('_', ' ')})."
