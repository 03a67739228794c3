"""A run's settings as a TOML file that a person edits: each option with its value and its meaning."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from forage.config import part_options, registry
from forage.config.checks import SIZES, check_sizes
from forage.config.files import KINDS
from forage.config.options import OPTIONS, PORTS
from forage.config.run_config import RunConfig
from forage.core.errors import ForageError
from forage.core.storage.archives import write_atomically

NONE = "none"
"""The word for no value, which TOML has none of."""


def write_settings(config: RunConfig, path: Path) -> None:
    """Write the settings of a run to a new TOML file. Raise `ForageError` if it exists or cannot hold them."""
    if path.suffix.lower() != ".toml":
        raise ForageError(f"Settings are saved as TOML, so {path} ends with .toml.")
    if path.exists():
        raise ForageError(f"{path} is there already; name another file, or delete it.")
    text = "\n".join(settings_lines(config, path)) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
    except OSError as error:
        raise ForageError(f"{path} cannot be written: {error.strerror or error}.") from None


def settings_lines(config: RunConfig, path: Path) -> Iterator[str]:
    """Yield the lines of a file of settings."""
    stored = config.full_config()
    if "id" not in stored["environment"]:
        raise ForageError(
            f"A file of settings names its environment by an id, and {config.name} has none; give options by hand."
        )
    meanings = {option.name: option.meaning for option in OPTIONS}
    yield f"# {config.names['agent']} on {config.name}. Run it with: forage train {path}"
    yield "# A line that you delete takes the default again. Options on the command line go over those here."
    for name in KINDS:
        if stored.get(name) is not None and stored[name] not in ({}, [], ()):
            yield line_of(name, stored[name], meanings[name])
    yield from ("", "[environment]", line_of("id", stored["environment"]["id"]))
    if wrap := stored["environment"].get("wrap"):
        yield line_of("wrap", wrap, "wrappers, the first innermost")
    yield line_of("options", stored["environment"].get("options") or {}, f"forage show {config.name} lists them")
    stored["agent"] = {name: value for name, value in stored["agent"].items() if has_effect(config, name)}
    for port in ("agent", *PORTS):
        yield from part_lines(port, port, stored[port])


def has_effect(config: RunConfig, name: str) -> bool:
    """Return whether an option of the agent has an effect in the environment, as a file with others is refused."""
    try:
        check_sizes(config.agent, config.spec, {name: getattr(config.agent, name)} if name in SIZES else {})
    except ForageError:
        return False
    return True


def part_lines(table: str, port: str, stored: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table of a part, then those of the parts within it."""
    name = stored["part"]
    fields = part_options.fields(registry.part_class(port, name))
    meanings = {field.name: field.help for field in fields}
    inner = {key: value for key, value in stored.items() if isinstance(value, Mapping) and "part" in value}
    yield from ("", f"[{table}]")
    for key, value in stored.items():
        if key not in inner:
            yield line_of(key, value, f"forage show {name} explains it" if key == "part" else meanings.get(key, ""))
    for key, value in inner.items():
        yield from part_lines(f"{table}.{key}", port, value)


def line_of(name: str, value: Any, meaning: str = "") -> str:
    """Return a line of TOML, with its meaning as a comment."""
    return f"{key_of(name)} = {toml_value(value)}" + (f"  # {meaning}" if meaning else "")


def key_of(name: str) -> str:
    """Return a key of TOML, in quotes where it needs them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def toml_value(value: Any) -> str:
    """Return plain data as a value of TOML."""
    if value is None:
        return json.dumps(NONE)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)  # 1e-05, inf and nan are TOML's words, too
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key_of(name)} = {toml_value(inner)}' for name, inner in value.items())}}}"
    return f"[{', '.join(map(toml_value, value))}]"
