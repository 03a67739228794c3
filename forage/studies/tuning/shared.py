"""A search that several processes share, by one of Optuna's storages.

A process holds a lock for as long as it lives, and each of its trials names it. Trials of a process that died are given
up, and their settings are proposed again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forage.core.errors import ForageError
from forage.runs.locking import is_locked, lock_directory, wait_for_lock
from forage.studies.tuning.search import (
    WORST,
    Plan,
    Trial,
    distributions,
    load_optuna,
    run,
    samplers,
    worst,
)

STORAGES = ("journal", "sqlite")
POLL = 0.5  # seconds between looks at trials of other processes


def check_storage(storage: str, method: str) -> None:
    """Raise `ForageError` for a storage that is none, or a method that cannot be shared."""
    if storage not in STORAGES and "://" not in storage:
        raise ForageError(
            f"A storage is {', '.join(STORAGES)}, or the address of a database such as postgresql://host/name; not "
            f"{storage!r}."
        )
    if method == "pbt":
        raise ForageError("A population is one program; --storage shares trials of tpe, random or hyperband.")


def open_storage(optuna: Any, storage: str, directory: Path) -> Any:
    """Return a storage of Optuna: a journal or a database in the directory, or the database at an address."""
    if storage == "journal":
        return optuna.storages.JournalStorage(
            optuna.storages.journal.JournalFileBackend(str(directory / "optuna.journal"))
        )
    address = f"sqlite:///{directory.resolve() / 'optuna.db'}" if storage == "sqlite" else storage
    try:
        patience = {"connect_args": {"timeout": 60}} if storage == "sqlite" else None
        return optuna.storages.RDBStorage(address, engine_kwargs=patience)
    except Exception as error:  # SQLAlchemy's, or that of the database's own package
        raise ForageError(f"The storage {storage} cannot be opened: {str(error).splitlines()[0]}.") from error


def run_shared_trials(
    plan: Plan, trials: int, directory: Path, storage: str, tell: Callable[[list[Trial], float], None]
) -> list[Trial]:
    """Run trials together with other processes until there are `trials`. Return all of them.

    `tell` reports the batches of this process. Each is proposed from all trials so far, those under way among them.
    """
    optuna = load_optuna()
    owner = uuid.uuid4().hex
    with lock_directory(directory / ".processes" / owner):
        with wait_for_lock(directory / ".locks" / "asking"):
            study = optuna.create_study(
                study_name=f"forage-{directory.resolve().name}",
                storage=open_storage(optuna, storage, directory),
                direction="maximize",
                load_if_exists=True,
                **samplers(optuna, plan, int(owner[:7], 16)),
            )
        while True:
            with wait_for_lock(directory / ".locks" / "asking"):
                give_up_lost(optuna, study, directory)
                asked = ask_trials(optuna, study, plan, trials, owner)
            if asked:
                started = time.monotonic()
                found = [
                    trial._replace(number=one.number)
                    for one, trial in zip(asked, run(plan, asked, asked[0].number), strict=True)
                ]
                for one, trial in zip(asked, found, strict=True):
                    store_trial(optuna, study, one, trial)
                tell(found, time.monotonic() - started)
            elif not any(trial.state == optuna.trial.TrialState.RUNNING for trial in study.get_trials(deepcopy=False)):
                return stored_trials(study)
            else:
                pause()


def ask_trials(optuna: Any, study: Any, plan: Plan, trials: int, owner: str) -> list[Any]:
    """Ask for the next batch of settings, as far as there are fewer than `trials`; each names its process."""
    waiting = optuna.trial.TrialState.WAITING
    counted = [
        trial for trial in study.get_trials(deepcopy=False) if trial.state != waiting and "lost" not in trial.user_attrs
    ]
    asked = [study.ask(distributions(optuna, plan)) for _ in range(min(plan.batch, trials - len(counted)))]
    for one in asked:
        one.set_user_attr("owner", owner)
    return asked


def give_up_lost(optuna: Any, study: Any, directory: Path) -> None:
    """Give up the trials of processes that died, and propose their settings again."""
    for trial in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
        owner = trial.user_attrs.get("owner", "")
        if owner and is_locked(directory / ".processes" / owner):
            continue
        study.enqueue_trial(trial.params, user_attrs={"again": trial.number})
        study._storage.set_trial_user_attr(trial._trial_id, "lost", True)
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)


def store_trial(optuna: Any, study: Any, one: Any, trial: Trial) -> None:
    """Store a finished trial: its state and value for Optuna, and its details as an attribute."""
    one.set_user_attr("trial", trial._asdict() | {"looks": list(trial.looks)})
    if trial.state == "failed":
        study.tell(one, state=optuna.trial.TrialState.FAIL)
    elif trial.state == "pruned":
        study.tell(one, state=optuna.trial.TrialState.PRUNED)
    else:
        value = trial.value if trial.value > WORST else worst(stored_trials(study))
        study.tell(one, value)


def stored_trials(study: Any) -> list[Trial]:
    """Return the finished trials of all processes, in the order in which they were proposed."""
    found = [trial.user_attrs["trial"] for trial in study.get_trials(deepcopy=False) if "trial" in trial.user_attrs]
    return [Trial(**one) for one in sorted(found, key=lambda one: one["number"])]


def pause() -> None:
    """Wait before the next look at trials of other processes."""
    time.sleep(POLL)
