"""Loading code: the user's, as `module:Class` or `file.py:Class`, and modules that are imported at their first use."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import importlib
import importlib.machinery
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from forage.core import trust
from forage.core.errors import ForageError


class LazyModule:
    """A module that is imported when an attribute of it is first used.

    Types and spaces need JAX for what they compute, and not for what they describe: so reading a table, a data set's
    header or a help text takes no second to import it. Type checkers see the import under `TYPE_CHECKING`.
    """

    def __init__(self, name: str) -> None:
        self._module_name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(importlib.import_module(self._module_name), name)
        setattr(self, name, found)  # so that the next use costs no call
        return found


FILE = "forage_file_"
"""The prefix of the names of modules that were made from a file."""


@dataclasses.dataclass(frozen=True)
class Own:
    """A person's own class or function by its name, by which it travels: another process imports it for itself."""

    target: str  # module:Class or file.py:Class, the file by its whole path

    @classmethod
    def from_target(cls, target: str) -> Own:
        return cls(full_target(target))

    @property
    def cls(self) -> Any:
        """The class, or the function that makes the object."""
        return load_class(self.target, functions=True)

    def __call__(self, **options: Any) -> Any:
        return self.cls(**options)


def load_class(target: str, functions: bool = False) -> Any:
    """Import the class that `module:Class` or `file.py:Class` names, or with `functions` the function.

    The file's folder, or the current directory, is where Python looks first from then on, as if the person had
    started the file; processes that are started later look there too.

    Raises `ForageError` when the file, module or class is not there, and for whatever the module itself raises.
    """
    source, _, name = target.rpartition(":")
    module, found = find_in_module(source, name)
    if not isinstance(found, type) and not (functions and callable(found)):
        classes = [key for key, value in vars(module).items() if isinstance(value, type) and not key.startswith("_")]
        own = [key for key in classes if getattr(module, key).__module__ == module.__name__] or classes
        near = difflib.get_close_matches(name, own, n=3, cutoff=0.4) or own[:5]
        raise ForageError(f"{source} has no class {name or '...'}; it has {', '.join(near) or 'no classes'}.")
    return found


def load_named(target: str) -> Any:
    """Import the function or class that `module:name` or `file.py:name` names, as `load_class` does."""
    source, _, name = target.rpartition(":")
    if not name:
        raise ForageError(f"{target} names no function or class; put its name behind the colon.")
    module, found = find_in_module(source, name)
    if not callable(found):
        there = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        near = difflib.get_close_matches(name, there, n=3, cutoff=0.4) or there[:5]
        raise ForageError(f"{source} has no function or class {name}; it has {', '.join(near) or 'none'}.")
    return found


def find_in_module(source: str, name: str) -> tuple[Any, Any]:
    """Return a module, imported by name or from its file, and its attribute of this name; `None` if it has none."""
    module = load_file(source, name) if source.endswith(".py") else load_module(source)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return module, found


def target_name(cls: Any) -> str | None:
    """Return the `module:Class` or `file.py:Class` by which `load_class` finds a class, or a function, again in any
    process.

    `None` for a class that was made within a function, or where no file is, as in a notebook.
    """
    module = sys.modules.get(cls.__module__)
    found: Any = module
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is not cls:
        return None
    if not cls.__module__.startswith(FILE) and cls.__module__ != "__main__":
        return f"{cls.__module__}:{cls.__qualname__}"
    path = Path(getattr(module, "__file__", None) or "").resolve()
    if path.suffix != ".py":
        return None
    return f"{path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}:{cls.__qualname__}"


def full_target(target: str) -> str:
    """Return `file.py:Class` with the file's whole path, and any other name as it is."""
    source, _, name = target.rpartition(":")
    return f"{Path(source).expanduser().resolve()}:{name}" if source.endswith(".py") else target


def short(target: str) -> str:
    """Return `file.py:Class` without the file's folder, and any other name as it is."""
    source, _, name = target.rpartition(":")
    return f"{Path(source).name}:{name}" if source.endswith(".py") else target


importing: list[str] = []
"""Files of a person's own that are being imported, the outermost first."""


def check_not_importing() -> None:
    """Raise `ForageError` if a file that is only being imported would train: it has no main guard."""
    if importing:
        raise ForageError(
            f"{importing[0]} trains while its classes are being imported; put what it does as a script under "
            f"if __name__ == '__main__':."
        )


class FileLoader(importlib.machinery.SourceFileLoader):
    """A loader that compiles a file each time and keeps no bytecode of it.

    Python takes bytecode for current while the file's size and the second of its last change are the same: a number
    that is changed within a second of a run would play as it was before.
    """

    def path_stats(self, path: Any) -> Any:
        raise OSError  # as from a loader that knows no time of change, for which Python neither reads nor keeps any


def load_file(source: str, name: str = "Mine") -> Any:
    """Import a Python file. Raise `ForageError` if it is missing or fails. `name`: the part that is wanted of it."""
    path = Path(source).expanduser().resolve()
    if not path.is_file():
        raise ForageError(f"There is no file {path}; give a path like folder/mine.py:{name}.")
    trust.check_source(source)
    # A name that depends on the file alone, so that what is pickled in one process is found in another.
    name = f"{FILE}{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path, loader=FileLoader(name, str(path)))
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        look_in(path.parent)
        sys.modules[name] = module
        importing.append(source)
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            del sys.modules[name]
            raise refusal(source, error) from error
        finally:
            importing.pop()
    return sys.modules[name]


def load_module(source: str) -> Any:
    """Import a module, which may be in the current directory. Raises `ForageError` if that fails."""
    trust.check_source(source)
    look_in(Path.cwd())  # a console script does not look there by itself
    try:
        return importlib.import_module(source)
    except ModuleNotFoundError as error:
        if error.name is None or not (source == error.name or source.startswith(f"{error.name}.")):
            raise refusal(source, error) from error
        raise ForageError(
            f"There is no module {error.name} here or among what is installed; "
            f"give package.module:Class, or path/to/file.py:Class."
        ) from error
    except BaseException as error:
        raise refusal(source, error) from error


def look_in(directory: Path) -> None:
    """Let Python look for modules in a directory, before all others, from now on."""
    # By its name, even where "" stands for the current directory: for other processes that may be another one.
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))


def refusal(source: str, error: BaseException) -> BaseException:
    """Describe an error of a module's import in one sentence with its line; return an interruption unchanged."""
    if isinstance(error, KeyboardInterrupt | ForageError):
        return error
    # The innermost line of the person's own: not the import machinery's, a library's or ours.
    others = ("site-packages", "<frozen", __file__, importlib.__file__)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not any(name in f.filename for name in others)]
    file, line = (frames[-1].filename, frames[-1].lineno) if frames else (source, None)
    if isinstance(error, SyntaxError) and error.filename:
        file, line = error.filename, error.lineno
    where = f" ({os.path.basename(file)}, line {line})" if line is not None else ""
    what = f"{type(error).__name__}: {getattr(error, 'msg', None) or error}".rstrip(": .")
    advice = "; put what a script does under if __name__ == '__main__':" if isinstance(error, SystemExit) else ""
    return ForageError(f"{source} could not be imported: {what}{where}{advice}.")
