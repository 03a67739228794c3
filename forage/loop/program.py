"""A traced function as a flat list of operations, without those that its result does not depend on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import Literal

CALLS = {"jaxpr", "call_jaxpr", "fun_jaxpr"}
"""The parameters in which an operation that only calls another program keeps it."""

CALLERS = {"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "checkpoint", "remat2"}


class ProgramSlot(NamedTuple):
    """A value that is computed when the program runs."""

    number: int


class Operation(NamedTuple):
    """One primitive of JAX. Inputs are slots, or arrays that are known."""

    primitive: Any
    params: dict[str, Any]
    inputs: tuple[Any, ...]
    outputs: tuple[ProgramSlot, ...]
    shapes: tuple[tuple[int, ...], ...]  # of the outputs


@dataclasses.dataclass
class Program:
    """Operations in the order of their run; those without dependence on an input or its unknown sizes are precomputed.

    >>> traced(jax.numpy.tanh, 0.0)(1.0)  # doctest: +SKIP
    """

    operations: list[Operation]
    inputs: list[ProgramSlot]
    outputs: list[Any]  # slots, or arrays that are known

    def __call__(self, *inputs: Any) -> list[Any]:
        """Run the program, also under JAX's transformations."""
        values = dict(zip(self.inputs, inputs, strict=True))

        def lookup(value: Any) -> Any:
            return values[value] if isinstance(value, ProgramSlot) else value

        for operation in self.operations:
            found = bound(operation.primitive, operation.params, [lookup(value) for value in operation.inputs])
            values |= zip(operation.outputs, found, strict=True)
        return [lookup(value) for value in self.outputs]


def trace_function(function: Callable[..., Any], *examples: Any) -> Program:
    """Trace a function of arrays, flattened as JAX does. Inputs that its result does not depend on stay inputs."""
    closed = jax.make_jaxpr(function)(*examples)
    inputs = [ProgramSlot(number) for number in range(len(closed.jaxpr.invars))]
    operations: list[Operation] = []
    outputs = inline(closed.jaxpr, closed.consts, inputs, operations, len(inputs))
    return Program(needed_operations(operations, outputs), inputs, outputs)


def inline(jaxpr: Any, consts: Sequence[Any], inputs: Sequence[Any], operations: list[Operation], count: int) -> list:
    """Append the operations of a program on `inputs` to `operations`. Return its outputs.

    `count` slots are inputs of the whole; each operation's outputs are numbered after them.
    """
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *inputs], strict=True))

    def lookup(variable: Any) -> Any:
        if isinstance(variable, Literal):
            return np.asarray(variable.val, variable.aval.dtype)  # pyrefly: ignore[missing-attribute]
        return values[variable]

    for equation in jaxpr.eqns:
        given = [lookup(variable) for variable in equation.invars]
        if equation.primitive.name in CALLERS:
            called = next(equation.params[name] for name in CALLS if name in equation.params)
            found = inline(getattr(called, "jaxpr", called), getattr(called, "consts", ()), given, operations, count)
        elif not any(isinstance(value, ProgramSlot) for value in given) and is_sized(equation):
            found = bound(equation.primitive, equation.params, given)
        else:
            begun = count + sum(len(operation.outputs) for operation in operations)
            found = [ProgramSlot(begun + i) for i in range(len(equation.outvars))]
            shapes = tuple(variable.aval.shape for variable in equation.outvars)
            operations.append(Operation(equation.primitive, equation.params, tuple(given), tuple(found), shapes))
        values |= zip(equation.outvars, found, strict=True)
    return [lookup(variable) for variable in jaxpr.outvars]


def is_sized(equation: Any) -> bool:
    """Return whether all sizes of a result are known numbers; the size of a batch is not."""
    return all(isinstance(size, int) for variable in equation.outvars for size in variable.aval.shape)


def bound(primitive: Any, params: dict[str, Any], inputs: Sequence[Any]) -> Sequence[Any]:
    """Apply a primitive. Return its outputs, also where it has one."""
    found = primitive.bind(*inputs, **params)
    return found if primitive.multiple_results else [found]


def needed_operations(operations: Sequence[Operation], outputs: Sequence[Any]) -> list[Operation]:
    """Return the operations that outputs depend on."""
    wanted = {value for value in outputs if isinstance(value, ProgramSlot)}
    kept = []
    for operation in reversed(operations):
        if wanted & set(operation.outputs):
            wanted |= {value for value in operation.inputs if isinstance(value, ProgramSlot)}
            kept.append(operation)
    return kept[::-1]


def uses(program: Program, slots: Sequence[ProgramSlot]) -> bool:
    """Return whether the result depends on one of these inputs."""
    read = {value for operation in program.operations for value in operation.inputs if isinstance(value, ProgramSlot)}
    return bool((read | {value for value in program.outputs if isinstance(value, ProgramSlot)}) & set(slots))
