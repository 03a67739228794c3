"""Episodes that begin in the environment's own initial states."""

from __future__ import annotations

from typing import Any, ClassVar

from jaxtyping import Array, Int, Key, PyTree

from forage.core.ports import Environment, Starts


class Reset(Starts):
    """`environment.reset`."""

    example: ClassVar[str] = "forage train ppo CartPole-v1 --starts reset"

    def begin(
        self, state: Any, environment: Environment, key: Key[Array, ""], index: Int[Array, ""]
    ) -> tuple[Any, PyTree[Array], tuple[()]]:
        return *environment.reset(key), ()
