"""Converting data sets: from the formats of others to Forage's, and back; several become one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from forage.core.bounds import data_outside
from forage.core.specs import spec_from_config
from forage.core.types import ForageError, Spec
from forage.data import files, formats
from forage.data.formats import folder, table
from forage.data.formats.reading import Reading, parse_reading
from forage.data.logged import Transitions, join_logs

Paths = str | os.PathLike[str]
Tell = Callable[[str], None]


def load(
    file: Paths, environment: Any = None, *, env: Mapping[str, Any] | None = None, **words: Any
) -> tuple[Transitions, dict[str, Any]]:
    """Read a data set of any format. Return its transitions, checked, and its header.

    `environment`: the one it is of, for formats that do not say; `env` has its options. `words`: which columns are
    what (`observation`, `action`, `reward`, `terminated`, `truncated`, `episode`, ...) and what `ends` mean.

    >>> log, header = forage.data.load("log.csv", "CartPole-v1", ends=500)  # doctest: +SKIP
    """
    reading = parse_reading({name: value for name, value in words.items() if value is not None}, "forage.data.load")
    return read_and_check(Path(file), spec_of(environment, env), reading)


def spec_of(environment: Any, options: Mapping[str, Any] | None) -> Spec | None:
    """Return the spec of an environment."""
    if environment is None:
        return None
    from forage.config.environment import environment_spec, resolve_environment  # it loads JAX

    name, made, _ = resolve_environment(environment, dict(options or {}))
    return environment_spec(name, made)


def read_and_check(
    path: Path, spec: Spec | None, reading: Reading, tell: Tell | None = None
) -> tuple[Transitions, dict[str, Any]]:
    """Read a data set and check it against its environment. `tell` reports another scale."""
    found, header = formats.read_data(path, spec, formats.complete_description(path, reading))
    spec = spec or spec_from_config(header)
    files.check_fits(path, header, found, spec)
    if tell is not None and (said := data_outside(str(path), found.observation, spec.observation_space, spec.name)):
        tell(said)
    return found, header | {"transitions": found.transitions, "episodes": found.episodes}


def convert(
    inputs: Paths | Sequence[Paths],
    output: Paths,
    *,
    to: str | None = None,
    environment: Any = None,
    env: Mapping[str, Any] | None = None,
    tell: Tell | None = None,
    **words: Any,
) -> dict[str, Any]:
    """Convert a data set, or several into one; return the header of the output.

    `to`: the format to write, by default by the output's name (a name without a suffix is a folder of arrays, into
    which several are written one by one, so that no more than one is in memory). `tell` reports a data set of another
    scale than its environment. Other arguments are those of `load`.

    >>> forage.data.convert("log.csv", "log.npz", environment="CartPole-v1", ends=500)  # doctest: +SKIP
    """
    paths = [Path(inputs)] if isinstance(inputs, (str, os.PathLike)) else [Path(path) for path in inputs]
    if not paths:
        raise ForageError("There is no data set to convert.")
    target = Path(output)
    if target.absolute() in [path.absolute() for path in paths]:
        raise ForageError(f"{target} would be written over what is read; name another output.")
    kind, spec = formats.target_kind(target, to), spec_of(environment, env)
    reading = parse_reading({name: value for name, value in words.items() if value is not None}, "forage data convert")
    if len(paths) == 1 and kind == "folder" and formats.is_foreign_table(paths[0]) and spec is None:
        return table.convert_table(paths[0], target, formats.complete_description(paths[0], reading))
    first, header = read_and_check(paths[0], spec, reading, tell)
    if len(paths) == 1:
        formats.write_data(target, first, header, kind)
        return header
    horizon = header["spec"].get("horizon")
    first_spec = spec_from_config(header)
    alike = first_spec if first_spec.columns is not None else None  # tables after the first have its codes and means
    headers, weights = [header], [int(first.whole(horizon).sum())]

    def following() -> Any:
        for path in paths[1:]:
            found, more = read_and_check(path, spec or alike, reading, tell)
            for what in ("observation_space", "action_space"):
                if more["spec"][what] != header["spec"][what]:
                    raise ForageError(
                        f"{paths[0]} and {path} do not belong together: their {what.partition('_')[0]}s are of other "
                        f"spaces."
                    )
            headers.append(more)
            weights.append(int(found.whole(horizon).sum()))
            yield path, found

    if kind == "folder":
        with folder.Writer(target, header) as writer:
            writer.add(first.saying_cut(horizon))
            for _, found in following():
                writer.add(found.saying_cut(horizon))
            writer.header |= join_headers(headers, weights)
        return folder.read_header(target)
    parts = [first]
    for path, found in following():
        if (found.behaviour_probability is None) != (first.behaviour_probability is None):
            raise ForageError(f"One of {paths[0]} and {path} has probabilities of actions, and the other has none.")
        parts.append(found)
    joined = join_logs(parts, horizon)
    header = header | join_headers(headers, weights) | {"transitions": joined.transitions, "episodes": joined.episodes}
    formats.write_data(target, joined, header, kind)
    return header


def join_headers(headers: list[dict[str, Any]], whole: list[int]) -> dict[str, Any]:
    """Return the sources and the mean return of several data sets together. `whole`: the whole episodes of each."""
    known = [
        (h["mean_return"], n) for h, n in zip(headers, whole, strict=True) if n and h.get("mean_return") is not None
    ]
    mean = float(np.average([m for m, _ in known], weights=[n for _, n in known])) if known else None
    found = {"source": [header.get("source") for header in headers], "mean_return": mean}
    return found | {"no_reward": sum(header.get("no_reward", 0) for header in headers)}
