"""Finding a person's own class: `package.module:Class` or `path/to/file.py:Class`."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

from forage.types import ForageError


def load_class(target: str) -> type[Any]:
    """Imports the class that `module:Class` or `file.py:Class` names; modules are also sought in the current directory.

    Raises `ForageError` when the file, module or class is not there. What goes wrong while the module itself runs
    is raised as it is.
    """
    source, _, name = target.rpartition(":")
    module = _load_file(source) if source.endswith(".py") else _load_module(source)
    found = getattr(module, name, None)
    if not isinstance(found, type):
        classes = [key for key, value in vars(module).items() if isinstance(value, type) and not key.startswith("_")]
        own = [key for key in classes if getattr(module, key).__module__ == module.__name__] or classes
        near = difflib.get_close_matches(name, own, n=3, cutoff=0.4) or own[:5]
        raise ForageError(f"{source} has no class {name}; it has {', '.join(near) or 'no classes'}.")
    return found


def _load_file(source: str) -> Any:
    path = Path(source).expanduser().resolve()
    if not path.is_file():
        raise ForageError(f"There is no file {path}; give a path like my_environments.py:MyEnvironment.")
    # A name that depends on the file alone, so that what is pickled in one process is found in another.
    name = f"forage_file_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def _load_module(source: str) -> Any:
    directory = os.getcwd()
    added = directory not in sys.path
    if added:
        # A console script does not look in the current directory by itself.
        sys.path.insert(0, directory)
    try:
        return importlib.import_module(source)
    except ModuleNotFoundError as error:
        if error.name is None or not (source == error.name or source.startswith(f"{error.name}.")):
            raise
        raise ForageError(
            f"There is no module {error.name} here or among what is installed; "
            f"give package.module:Class, or path/to/file.py:Class."
        ) from error
    finally:
        if added:
            sys.path.remove(directory)
