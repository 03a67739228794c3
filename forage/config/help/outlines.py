"""Outlines of parts: classes with a part's options and declarations alone, made from its source without importing it.

An agent's module imports JAX, networks and operators, which takes seconds, and its help needs the fields. So an outline
has the bases, docstring, fields and declarations (`needs`, `ranges` ...) of the class, and none of its methods. The
functions that describe a class take an outline in its place; `tests/config/test_outlines.py` compares the two.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import dataclasses
import functools
import importlib
import inspect
import types
from collections.abc import Mapping
from typing import Any, ClassVar

from forage.config import packages, registry
from forage.config.help import declared
from forage.config.part_options import needs_words
from forage.core.settings import make_class

USUAL = ("usual_behaviour", "usual_memory", "usual_starts", "on_policy")
"""Names in an agent's class that its default parts follow from."""
DECLARATIONS = ("example", "own_choices", "needs", "ranges", "on_host", "unscheduled", *USUAL)
"""Names in a class, besides its fields, that an outline has."""
LIGHT = ("forage.core.ranges", "forage.core.ports.needs", "forage.core.types")
"""Modules of Forage that are imported for the names in declarations, as they load no JAX."""
STANDARD = ("math", "typing", "collections.abc", "dataclasses", "types")
"""Modules of Python that declarations use."""
FIELD_MAKERS = ("equinox.field", "eqx.field", "field", "dataclasses.field")


class UnreadableError(Exception):
    """Source that an outline cannot be made from, such as a default that a function computes."""


def outline(target: str) -> type | None:
    """Return the outline of the class that `module:Class` names; `None` if it has to be imported."""
    module, _, name = target.partition(":")
    if not declared.source(module):
        return None
    try:
        cls = make_outline(module, name)
        needs_words(cls)  # which a property may compute
        return cls
    except Exception:  # what an unusual declaration raises has no common type, and importing it is always right
        return None


def class_to_describe(target: str) -> type:
    """Return a class for help about it: its outline, or itself if it has none."""
    return outline(target) or registry.load(target)


def arguments_of(target: str) -> dict[str, Any] | None:
    """Return the arguments of the function that `module:name` names, with their defaults.

    `None` for a class, and for a function with defaults that have to be computed.
    """
    module, _, name = target.partition(":")
    found = declared.definition(module, name)
    if not isinstance(found, ast.FunctionDef) or found.args.vararg or found.args.kwarg or found.args.posonlyargs:
        return None
    given = found.args
    missing = [None] * (len(given.args) - len(given.defaults))
    pairs = zip((*given.args, *given.kwonlyargs), (*missing, *given.defaults, *given.kw_defaults), strict=True)
    names = ModuleNames(module)
    try:
        return {one.arg: inspect.Parameter.empty if node is None else names.evaluate(node) for one, node in pairs}
    except Exception:  # as in `outline`
        return None


def part_to_describe(port: str, name: str) -> type:
    """Return the class of a part for help about it, by its name at `port` or as `module:Class`."""
    target = registry.target_of(port, name)
    return class_to_describe(target) if target else registry.part_class(port, name)


@functools.cache
def make_outline(module: str, name: str) -> type:
    """Return the outline of a class. Raise `UnreadableError`, or an error of its declarations, if there can be none."""
    if row := declared.row_of_settings(f"{module}:{name}"):
        made = make_class(module, name, row, make_outline(*row.base.split(":")))
        return dataclasses.dataclass(eq=False)(made)
    origin = declared.origin_of(module, name)
    if origin and origin != f"{module}:{name}":
        return make_outline(*origin.split(":"))
    found = declared.definition(module, name)
    if not isinstance(found, ast.ClassDef):
        raise UnreadableError(f"{module} defines no class {name}")
    bases = [base for node in found.bases if (base := base_outline(module, node)) is not None]
    is_module = any(ast.unparse(node) in ("equinox.Module", "eqx.Module") for node in found.bases)
    namespace = class_namespace(module, found)
    cls = types.new_class(name, tuple(bases), {}, lambda body: body.update(namespace))
    if is_module or found.decorator_list or any(dataclasses.is_dataclass(base) for base in bases):
        cls = dataclasses.dataclass(eq=False)(cls)
    cls.__doc__ = ast.get_docstring(found, clean=False)  # `dataclass` writes one where there is none
    return cls


def base_outline(module: str, node: ast.expr) -> type | None:
    """Return the outline of a base class, `None` for a base of another library, which has no options."""
    text = ast.unparse(node)
    if text.startswith(("equinox.", "eqx.", "abc.", "Generic[", "typing.")) or text in ("ABC", "object"):
        return None
    if isinstance(node, ast.Name) and (origin := declared.origin_of(module, node.id)):
        return make_outline(*origin.split(":"))
    raise UnreadableError(f"{module} has a base {text}")


def class_namespace(module: str, found: ast.ClassDef) -> dict[str, Any]:
    """Return the fields and declarations in a class's body."""
    names = ModuleNames(module)
    annotations: dict[str, Any] = {}
    text = declared.class_source(module, found)
    result: dict[str, Any] = {"__module__": module, "__qualname__": found.name, "source_text": text}
    for node in found.body:
        if isinstance(node, ast.FunctionDef):
            # Its source stands for a method, so that it can be seen whether a class overrides it.
            result[node.name] = names.compile_function(node) if node.name in DECLARATIONS else node
            if node.name == "__init__":
                result["__post_init__"] = node  # `dataclass` replaces the other one
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            result[name] = names.evaluate(node.value, result) if name in DECLARATIONS else node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            option = node.target.id
            if declared.is_of_class(node):
                annotations[option] = ClassVar  # it keeps the place of a field that a subclass makes of it
                if node.value is not None:
                    result[option] = names.evaluate(node.value, result) if option in DECLARATIONS else node
                continue
            annotations[option] = names.evaluate_type(node.annotation)
            if node.value is not None:
                result[option] = names.evaluate_default(node.value, result)
    return result | {"__annotations__": annotations}


class ModuleNames(Mapping[str, Any]):
    """The values of names in a module, each read from its source at its first use."""

    def __init__(self, module: str) -> None:
        self.module = module

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __getitem__(self, name: str) -> Any:
        for node in declared.statements(self.module):
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                return self.evaluate(node.value)
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
                if node.value is None:
                    break
                return self.evaluate(node.value)
            if isinstance(node, ast.ClassDef) and node.name == name:
                return make_outline(self.module, name)
            if isinstance(node, ast.ImportFrom) and node.module:
                for one in node.names:
                    if (one.asname or one.name) == name:
                        return imported_value(node.module, one.name)
            if isinstance(node, ast.Import):
                for one in node.names:
                    if (one.asname or one.name) == name and one.name in STANDARD:
                        return importlib.import_module(one.name)
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise UnreadableError(f"{self.module} has no plain value {name}")

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def evaluate(self, node: ast.expr, known: Mapping[str, Any] | None = None) -> Any:
        """Return the value of an expression. `known`: names that go before those of the module."""
        return eval(compile(ast.Expression(node), self.module, "eval"), Scope(self, known or {}))

    def compile_function(self, node: ast.FunctionDef) -> Any:
        """Return a function or property of a class."""
        scope = Scope(self, {})
        code = compile(ast.Module([node], []), self.module, "exec", __future__.annotations.compiler_flag)
        exec(code, scope)
        return scope[node.name]

    def evaluate_default(self, node: ast.expr, known: Mapping[str, Any]) -> Any:
        """Return a field of a dataclass with the default that an expression gives."""
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in FIELD_MAKERS:
            return dataclasses.field(default=self.evaluate(node, known))
        given: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg == "static":
                given["metadata"] = {"static": bool(self.evaluate(keyword.value, known))}
            elif keyword.arg == "default_factory" and isinstance(keyword.value, ast.Lambda):
                value = self.evaluate(keyword.value.body, known)
                given["default_factory"] = lambda value=value: value
            elif keyword.arg in ("default", "default_factory", "kw_only"):
                given[keyword.arg] = self.evaluate(keyword.value, known)
            elif keyword.arg not in ("converter", "init", "repr"):
                raise UnreadableError(f"{self.module} has a field with {keyword.arg}")
        return dataclasses.field(**given)

    def evaluate_type(self, node: ast.expr) -> Any:
        """Return the type that an annotation names, `Any` for one of another library."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self.evaluate_type(node.left) | self.evaluate_type(node.right)
        try:
            return self.evaluate(node)
        except Exception:  # as in `outline`
            return Any


class Scope(dict[str, Any]):
    """Names that an expression may use: those of the class before those of its module."""

    def __init__(self, names: ModuleNames, known: Mapping[str, Any]) -> None:
        super().__init__(known)
        self.names = names

    def __missing__(self, name: str) -> Any:
        return self.names[name]


def imported_value(module: str, name: str) -> Any:
    """Return a name that a module imports from another one."""
    if module in LIGHT or module in STANDARD:
        return getattr(importlib.import_module(module), name)
    if declared.source(f"{module}.{name}"):
        return ModuleNames(f"{module}.{name}")
    if declared.source(module) and (module.startswith("forage.") or packages.package_of(module)):
        return ModuleNames(module)[name]
    raise UnreadableError(f"{name} of {module} is no plain value")
