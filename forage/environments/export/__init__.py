"""The way back: a native environment for code that was written for other libraries.

    from forage.environments import export

    env = export.to_gymnasium("CartPole-v1", length=1.0)         # gymnasium.Env
    envs = export.to_gymnasium_vector("minatar:Breakout", 64)    # gymnasium.vector.VectorEnv, one jitted step for all
    env = export.to_pettingzoo(environment)                      # pettingzoo.ParallelEnv
    env = export.to_pettingzoo_aec(environment)                  # pettingzoo.AECEnv

Each takes an id with options, or an `Environment`, composed of wrappers or not. Importing this module also registers
every native id with Gymnasium, as `forage/` and the id with `-` for `:`, so that
`gymnasium.make("forage/minatar-Breakout")` and `gymnasium.make_vec("forage/CartPole-v1", num_envs=8)` work, and
`gymnasium.make("forage.environments.export:forage/CartPole-v1")` without an import.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import gymnasium

from forage.core.ports import Environment
from forage.core.types import ForageError
from forage.environments.catalogue import NATIVE
from forage.environments.export.single import GymnasiumExport
from forage.environments.export.vector import GymnasiumVectorExport
from forage.environments.registry import make

if TYPE_CHECKING:
    import pettingzoo


def to_gymnasium(environment: str | Environment, render_mode: str | None = None, **options: Any) -> GymnasiumExport:
    """Return one environment as a `gymnasium.Env`. `options` are those of an id."""
    name, made = _native(environment, options)
    return GymnasiumExport(made, name, render_mode)


def to_gymnasium_vector(
    environment: str | Environment,
    num_envs: int,
    autoreset_mode: str | gymnasium.vector.AutoresetMode = gymnasium.vector.AutoresetMode.NEXT_STEP,
    render_mode: str | None = None,
    **options: Any,
) -> GymnasiumVectorExport:
    """`num_envs` environments as a `gymnasium.vector.VectorEnv`. `options` are those of an id."""
    name, made = _native(environment, options)
    return GymnasiumVectorExport(made, num_envs, name, autoreset_mode, render_mode)


def to_pettingzoo(
    environment: str | Environment, render_mode: str | None = None, **options: Any
) -> pettingzoo.ParallelEnv[str, Any, Any]:
    """Return an environment as a `pettingzoo.ParallelEnv`. `options` are those of an id."""
    name, made = _native(environment, options)
    try:
        from forage.environments.export.parallel import ParallelExport
    except ModuleNotFoundError as error:
        if error.name != "pettingzoo":
            raise
        raise ForageError("PettingZoo is not installed: pip install 'forage-rl[pettingzoo]'.") from error
    return ParallelExport(made, name, render_mode)


def to_pettingzoo_aec(
    environment: str | Environment, render_mode: str | None = None, **options: Any
) -> pettingzoo.AECEnv[str, Any, Any]:
    """Return an environment as a `pettingzoo.AECEnv` with agents in turn. `options` are those of an id."""
    parallel = to_pettingzoo(environment, render_mode, **options)
    from pettingzoo.utils.conversions import parallel_to_aec

    return parallel_to_aec(parallel)


def gymnasium_id(id: str) -> str:
    """Return the id of a native environment in Gymnasium's registry; a colon would denote a module there."""
    name = re.sub(r"[^\w.-]", "-", id.replace("DeepSea-N", "DeepSea-10"))
    # Gymnasium has versions of all ids of a name or of none, and a suite may have a level and its old form.
    return "forage/" + (re.sub(r"-(v\d+)$", r"\1", name) if ":" in id else name)


def register() -> None:
    """Make Gymnasium know the native ids."""
    for id in NATIVE:
        gymnasium.register(
            gymnasium_id(id),
            entry_point="forage.environments.export:to_gymnasium",
            vector_entry_point="forage.environments.export:to_gymnasium_vector",
            kwargs={"environment": id.replace("DeepSea-N", "DeepSea-10")},
        )


def _native(environment: str | Environment, options: dict[str, Any]) -> tuple[str, Environment]:
    if isinstance(environment, str):
        name, made = environment, make(environment, **options)
        if not isinstance(made, Environment):
            raise ForageError(f"{name} is stepped on the host already, by its own library: use it from there.")
        return name, made
    if not isinstance(environment, Environment):
        raise ForageError(f"{environment!r} is no environment: give an id, or a forage.core.ports.Environment.")
    if options:
        raise ForageError(f"An environment that is made already takes no options, so not {', '.join(options)}.")
    return type(environment).__name__, environment


register()
