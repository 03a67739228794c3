"""The design of a study: its agents, environments and seeds, and the cells that they make."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from forage.config.checks import seed_numbers
from forage.config.files import arguments_of, read_file
from forage.config.resolve import resolve
from forage.core import records
from forage.core.errors import ForageError
from forage.core.plain import dumps
from forage.core.ports.checking import check_agent
from forage.core.schedule import with_plain_numbers
from forage.runs.run import write_json
from forage.runs.training import SETTINGS, check_settings

FILE = "study.json"
OWN = ("title", "agents", "environments", "seeds", "seeds_per_run")
SCALE = ("low", "high")


class Cell(NamedTuple):
    """One agent in one environment with one seed, or a few: one run."""

    agent: str  # its label
    task: str  # the label of the environment
    seeds: tuple[int, ...]
    settings: dict[str, Any]  # of the run, as a file has them

    @property
    def key(self) -> str:
        """Return the run's directory within that of the study."""
        seeds = "-".join(map(str, sorted({self.seeds[0], self.seeds[-1]})))
        return f"runs/{path_name(self.agent)}/{path_name(self.task)}/seed-{seeds}"

    def __str__(self) -> str:
        return f"{self.agent} in {self.task}, {seeds_text(self.seeds)}"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `forage.train` for this cell."""
        return arguments_of(str(self), self.settings) | {"seeds": list(self.seeds)}


class Design(NamedTuple):
    """A study as plain data; labels of agents and environments with the settings that they change."""

    agents: dict[str, dict[str, Any]]
    environments: dict[str, dict[str, Any]]
    settings: dict[str, Any]  # of all runs
    seeds: list[int]
    seeds_per_run: int = 1
    title: str = ""

    @property
    def name(self) -> str:
        return self.title or f"{', '.join(self.agents)} in {', '.join(self.environments)}"

    def cells(self) -> list[Cell]:
        """Return all cells, agent by agent."""
        size = self.seeds_per_run
        groups = [tuple(self.seeds[at : at + size]) for at in range(0, len(self.seeds), size)]
        return [
            Cell(agent, task, group, self.settings_of(agent, task))
            for agent in self.agents
            for task in self.environments
            for group in groups
        ]

    def settings_of(self, agent: str, task: str) -> dict[str, Any]:
        """Return the settings of one agent in one environment: an agent's go over an environment's and those of all."""
        of_task = {name: value for name, value in self.environments[task].items() if name not in SCALE}
        return {"agent": agent, "environment": task} | self.settings | of_task | self.agents[agent]


def path_name(label: str) -> str:
    """Return a label as the name of a directory."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", label).strip("-.") or "unnamed"


def seeds_text(seeds: Sequence[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {', '.join(map(str, seeds))}"


def read_design(source: str | os.PathLike[str] | Mapping[str, Any]) -> Design:
    """Return the design in a file (TOML, YAML or JSON), in the directory of a study, or in a mapping of the same keys.

    Raise `ForageError` for keys and values that no study has.
    """
    if isinstance(source, Mapping):
        return parse_design("The study", source)
    path = Path(source)
    if path.is_dir():
        if not (path / FILE).exists():
            raise ForageError(f"{path} holds no study: it has no {FILE}; name a file or agents x environments.")
        path = path / FILE
    return parse_design(str(path), read_file(path))


def parse_design(where: str, found: Mapping[str, Any]) -> Design:
    """Return the design in plain data. `where` it is from, for sentences."""
    found = {name.replace("-", "_"): value for name, value in found.items()}
    settings = found.pop("settings", {}) if where.endswith(FILE) else {}
    settings = settings | {name: value for name, value in found.items() if name not in OWN}
    for name in ("agents", "environments"):
        if not found.get(name):
            raise ForageError(f'{where} names no {name}, as in {name} = ["{EXAMPLES[name]}"].')
    if unknown := sorted(settings.keys() & {"agent", "environment"}):
        raise ForageError(f"{where} has {unknown[0]!r}; a study has several: {unknown[0]}s.")
    if not isinstance(settings, dict) or "sweep" in settings:
        raise ForageError(f"{where} has a sweep; name an agent for each of its values, each with its own settings.")
    agents = settings_by_label(where, "agents", found["agents"])
    environments = settings_by_label(where, "environments", found["environments"])
    for task, own in environments.items():
        check_scale(where, task, own)
    size = found.get("seeds_per_run", 1)
    if not records.is_whole(size) or size < 1:
        raise ForageError(f"seeds_per_run in {where} is 1 or more, the seeds that train in one program; not {size!r}.")
    title = found.get("title", "")
    if not isinstance(title, str):
        raise ForageError(f"title in {where} is a text, not {title!r}.")
    design = Design(agents, environments, settings, seed_numbers(found.get("seeds", 5)), size, records.one_line(title))
    for cell in design.cells():
        cell.arguments()
    check_paths(where, design)
    return design


EXAMPLES = {"agents": "ppo", "environments": "CartPole-v1"}


def settings_by_label(where: str, name: str, found: Any) -> dict[str, dict[str, Any]]:
    """Return labels with settings, of a list of names or a table of tables."""
    if isinstance(found, str):
        found = [found]
    if isinstance(found, list) and found and all(isinstance(one, str) and one.strip() for one in found):
        if twice := next((one for one in found if found.count(one) > 1), None):
            raise ForageError(f"{name} in {where} has {twice} twice; name each once.")
        return {one: {} for one in found}
    if isinstance(found, Mapping) and all(isinstance(own, Mapping) for own in found.values()):
        return {label: {key.replace("-", "_"): value for key, value in own.items()} for label, own in found.items()}
    raise ForageError(
        f"{name} in {where} is a list of names, or a table with a table of settings for each, as in [{name}."
        f'"{EXAMPLES[name]}"]; not {found!r}.'
    )


def check_scale(where: str, task: str, own: Mapping[str, Any]) -> None:
    """Raise `ForageError` unless the references of an environment are two finite numbers in order, or missing."""
    given = [name for name in SCALE if name in own]
    numbers = all(records.is_number(own[name]) and abs(own[name]) < float("inf") for name in given)
    if given and (len(given) < 2 or not numbers or own["low"] >= own["high"]):
        raise ForageError(
            f"{task} in {where} needs a number low, the return of a score of 0, and a higher one, high, that of "
            f"a score of 1."
        )


def check_paths(where: str, design: Design) -> None:
    """Raise `ForageError` if two labels would be the same directory."""
    for names in (design.agents, design.environments):
        places: dict[str, str] = {}
        for label in names:
            other = places.setdefault(path_name(label).lower(), label)
            if other != label:
                raise ForageError(f"{where} has {other!r} and {label!r}, whose directories would be one; rename one.")


def check_pairs(design: Design) -> None:
    """Raise `ForageError` for an agent that cannot learn in an environment, before any run begins."""
    for agent in design.agents:
        for task in design.environments:
            cell = Cell(agent, task, tuple(design.seeds), design.settings_of(agent, task))
            arguments = {name: value for name, value in cell.arguments().items() if name not in SETTINGS}
            try:
                check_settings({name: value for name, value in cell.arguments().items() if name in SETTINGS})
                setup = resolve(**arguments)
                check_agent(with_plain_numbers(setup.agent), setup.spec)
                if not setup.native:
                    setup.check_host()
            except ForageError as error:
                raise ForageError(f"{agent} in {task}: {error}") from error


def store_design(directory: Path, design: Design) -> None:
    """Write the design into the directory of a study; the one there may have other cells, but none with other settings.

    Raise `ForageError` if a run that is there, or should be, would have changed.
    """
    path = directory / FILE
    plain = json.loads(dumps(design._asdict()))
    if path.exists():
        then = {cell.key: cell for cell in read_design(directory).cells()}
        for cell in parse_design(str(path), plain).cells():
            before = then.get(cell.key)
            if before is None or before == cell:
                continue
            names = [n for n in before.settings | cell.settings if before.settings.get(n) != cell.settings.get(n)]
            what = f"another {names[0]} for {cell.agent} in {cell.task}" if names else f"other seeds in {cell.key}"
            raise ForageError(f"{directory} holds a study with {what}; name another --directory, or the same settings.")
    write_json(path, plain)


def parse_words(words: Sequence[str]) -> dict[str, Any]:
    """Return the design in words: `ppo,sac x Hopper-v5,Walker2d-v5 x 5`."""
    groups = [group.strip() for group in re.split(r"\s(?:[xX*]|\N{MULTIPLICATION SIGN})\s", f" {' '.join(words)} ")]
    if len(groups) not in (2, 3) or not all(groups):
        raise ForageError(
            "forage study takes a file, a study's directory, or agents x environments x seeds: forage study ppo,dqn x "
            "CartPole-v1,Acrobot-v1 x 5."
        )
    names = [[one.strip() for one in group.split(",") if one.strip()] for group in groups[:2]]
    found: dict[str, Any] = {"agents": names[0], "environments": names[1]}
    if len(groups) == 3:
        text = groups[2]
        try:
            numbers = [int(one) for one in text.split(",") if one.strip()]
        except ValueError:
            raise ForageError(
                f"Seeds of a study are how many, such as 5, or which, such as 0,1,2; not {text!r}."
            ) from None
        found["seeds"] = numbers if "," in text else numbers[0]
    return found
