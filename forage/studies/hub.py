"""Sharing a run on the Hugging Face Hub: its agents and numbers, with a model card.

The shared files are `FILES`. None of them holds code: configuration and numbers are JSON, agents are arrays. A run that
names its maker's own code is not pulled, as acting with it would run that code from here.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from forage.config.trusting import addresses_in, code_in
from forage.core.errors import ForageError
from forage.core.trust import entry_words
from forage.runs.run import Run, read_json
from forage.studies.card import card

FILES = [
    "config.json",
    "versions.json",
    "metrics.jsonl",
    "agent.npz",
    "evaluation.json",
    "evaluations.jsonl",
    "texts.jsonl",
    "history.jsonl",
    "opponents.json",
    "robustness.json",
    "visits.npy",
    "visits.png",
    "curve.png",
    "agent.gif",
]
"""The shared files of a run; not its checkpoints, as they are large and only for resuming."""

NEEDED = ("config.json", "versions.json", "agent.npz")
REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)


def push(
    run: Run | str | os.PathLike[str],
    repository: str,
    *,
    private: bool = False,
    token: str | None = None,
    api: Any = None,
) -> str:
    """Upload a run to `repository`, `user/name`, with a model card. Return its address.

    The repository is made where there is none. `token`: of the Hub; unless given, the one that `hf auth login` kept.
    `api`: what talks to the hub, in place of `huggingface_hub.HfApi`.
    """
    run = run if isinstance(run, Run) else Run(run)
    check_repository(repository)
    missing = [name for name in NEEDED if not (run.directory / name).exists()]
    if missing:
        raise ForageError(f"{run.directory} has nothing to share yet: it has no {missing[0]}.")
    if "id" not in run.config["environment"]:
        raise ForageError(
            f"{run.directory} was trained in a Python object, {run.config['environment']['object']}, which nobody else "
            f"has; a run in an environment with an id, or in a class that has a file, can be shared."
        )
    api = api or hub(token)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name in FILES:
            if (run.directory / name).exists():
                shutil.copyfile(run.directory / name, folder / name)
        (folder / "README.md").write_text(card(run, repository))
        call_hub(api.create_repo, repository, repo_id=repository, private=private, exist_ok=True)
        message = f"Share {run.title}"
        call_hub(api.upload_folder, repository, repo_id=repository, folder_path=str(folder), commit_message=message)
    return f"https://huggingface.co/{repository}"


def pull(
    repository: str,
    directory: str | os.PathLike[str] | None = None,
    *,
    revision: str | None = None,
    anyway: bool = False,
    token: str | None = None,
    api: Any = None,
) -> Run:
    """Download a run that was pushed to `repository`, `user/name`, and return it.

    `directory`: where to, a new one; unless given, `runs/name`. `revision`: a branch, tag or commit; unless given, the
    newest. Nothing of the repository is run: its files are data, and one that names code of its maker's own is refused,
    unless `anyway`: acting with it imports that code from here.
    """
    check_repository(repository)
    target = Path(directory) if directory is not None else Path("runs") / repository.partition("/")[2]
    if target.exists() and any(target.iterdir()):
        raise ForageError(f"{target} is there already; name another directory to pull {repository} into.")
    api = api or hub(token)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as scratch:
        call_hub(
            api.snapshot_download,
            repository,
            repo_id=repository,
            revision=revision,
            local_dir=scratch,
            allow_patterns=list(FILES),
        )
        folder = Path(scratch) / "run"
        folder.mkdir()
        for name in FILES:  # whatever else came, the hub's own notes among it, is left behind
            if (Path(scratch) / name).is_symlink():
                raise ForageError(f"{repository} has a link in place of {name}, which is not followed.")
            if (Path(scratch) / name).is_file():
                shutil.move(Path(scratch) / name, folder / name)
        missing = [name for name in NEEDED if not (folder / name).exists()]
        if missing:
            raise ForageError(f"{repository} holds no run of Forage: it has no {missing[0]}.")
        if not anyway:
            check_names_no_code(read_json(folder / "config.json"), repository)
        if target.exists():
            target.rmdir()
        folder.rename(target)
    return Run(target)


def check_names_no_code(config: dict[str, Any], repository: str) -> None:
    """Raise `ForageError` if acting with a run would import other code than Forage's or a known library's, or contact
    an address.
    """
    if own := code_in(config):
        raise ForageError(
            f"{repository} names code of its maker's own, {own[0]}, which would be imported from here; where that "
            f"code is yours, or known to you, add --anyway."
        )
    if addresses := addresses_in(config):
        raise ForageError(f"{repository} {entry_words(addresses[0])}; where that is known to you, add --anyway.")


def check_repository(repository: str) -> None:
    """Raise `ForageError` for an invalid name of a repository."""
    if not isinstance(repository, str) or not REPOSITORY.fullmatch(repository):
        raise ForageError(f"A repository of the Hub is called USER/NAME, such as ada/ppo-cartpole, not {repository!r}.")


def hub(token: str | None) -> Any:
    """Return a client of the Hub."""
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise ForageError("The Hugging Face Hub needs an extra: pip install 'forage-rl[hub]'.") from None
    return HfApi(token=token)


def call_hub(call: Any, repository: str, **arguments: Any) -> Any:
    """Call the Hub. Raise `ForageError` with its answer in one sentence if it refuses or is not reached."""
    try:
        return call(**arguments)
    except ForageError:
        raise
    except Exception as error:  # the client's errors are its own, those of the connection and those of the disk
        said = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ForageError(
            f"The Hub would not do it for {repository}: {said}; `hf auth login` keeps a token that may write."
        ) from error
