"""Guided augmentation: a data set, extended by copies of its segments that the user's functions improved."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import equinox
import jax
import numpy as np

from forage.core.ranges import Range, Ranges
from forage.core.types import Experience, ForageError, Spec
from forage.data import files, formats
from forage.data.demonstrations import experience_of
from forage.data.logged import EPISODE_FIELDS, Transitions
from forage.memory.dataset import DataSet, OpenedDataSet
from forage.ops.rows import concatenate_rows

TRIES = 1000  # segments in a row that make no progress, after which the rules are said to accept none


class GuidedAugmentation(DataSet):
    """The transitions of a file and `copies` times as many augmented ones, by two functions that a person writes.

    `augmentation(segment, draw)` returns a changed copy of a segment of an episode: translated, rotated, mirrored, as
    the task allows. `progress(segment)` says whether such a copy is progress in the task; one that is not is dropped,
    and another is drawn. Segments of `length` transitions begin at any transition of the data alike, and end with their
    episode. Then every transition, augmented or not, is drawn equally often, so any agent that learns from data learns
    from both. With a `progress` that always agrees this is random augmentation.

    A segment is a `forage.data.Transitions` (arrays in NumPy), of which `dataclasses.replace(segment,
    observation=...)` makes a changed copy, and `draw` a NumPy random generator. The copy keeps its length. Where its
    last transition does not terminate, it is truncated there. All of this happens once, when the file is read.

    Source: Corrado, Qu, Balis, Labiosa, Hanna (2024), "Guided Data Augmentation for Offline Reinforcement Learning and
    Imitation Learning", arXiv 2310.18247, whose abstract and first pages could be looked up: users restrict the space
    of augmentations to segments that are progress, and off-the-shelf agents learn from the result. How many
    transitions a segment and the augmented data have there could not; these numbers are ours.
    """

    example: ClassVar[str] = (
        "forage train td3-bc Pendulum-v1 --memory guided --memory.file few.npz "
        "--memory.augmentation mine.py:mirrored --memory.progress mine.py:upward"
    )
    own_choices: ClassVar[str] = "the numbers"
    ranges: ClassVar[Ranges] = {"copies": Range(0, above=True), "length": Range(1), "draws": Range(0)}

    augmentation: str | Callable[..., Any] | None = equinox.field(static=True, default=None)  # function of a segment
    # and a random generator that returns a changed copy, as file.py:function
    progress: str | Callable[..., Any] | None = equinox.field(static=True, default=None)  # function of a changed
    # segment that says whether it is kept, as file.py:function
    copies: float = equinox.field(static=True, default=1.0)  # augmented transitions for each one of the file; more
    # cover more of what the rules allow
    length: int = equinox.field(static=True, default=10)  # transitions of a segment; longer ones tell more of progress
    draws: int = equinox.field(static=True, default=0)  # seed of the segments and of the changes drawn

    def __check_init__(self):
        for name in ("augmentation", "progress"):
            if not callable(getattr(self, name)):
                raise ForageError(
                    f"Guided augmentation needs a function {name}; name it with --memory.{name} file.py:function."
                )

    def load(self, spec: Spec) -> OpenedGuidedData:
        """Read the file, and augment it. Raise `ForageError` if a function returns an invalid segment."""
        self.check_unchanged()
        path = Path(self.file)
        found, header = formats.read_data(path, spec)
        files.check_fits(path, header, found, spec)
        added = self.augment(found)
        files.check_fits(path, header, added, spec)
        parts = [experience_of(found, spec), experience_of(added, spec)]
        data: Experience = concatenate_rows(*parts)
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(GuidedAugmentation)}
        return OpenedGuidedData(**fields, data=data)

    def augment(self, found: Transitions) -> Transitions:
        """Return the augmented segments, one after another. Raise `ForageError` if none is accepted."""
        draw = np.random.default_rng(self.draws)
        ends = (found.first + found.lengths)[found.numbers]  # of each transition's episode
        wanted, kept, refused = max(1, round(self.copies * found.transitions)), [], 0
        while wanted > 0:
            begin = int(draw.integers(found.transitions))
            changed = self.change_segment(cut(found, begin, min(begin + self.length, int(ends[begin]))), draw)
            if self.is_progress(changed):
                kept.append(changed)
                wanted, refused = wanted - changed.transitions, 0
            elif (refused := refused + 1) == TRIES:
                raise ForageError(
                    f"{function_name(self.progress)} accepted none of {TRIES} augmented segments of {self.file} in a "
                    f"row; "
                    f"it returns whether a segment is progress."
                )
        return join_segments(kept)

    def is_progress(self, changed: Transitions) -> bool:
        """Return whether a copy is kept. Raise `ForageError` if the function returns neither yes nor no."""
        said = np.asarray(self.progress(changed))  # type: ignore[operator]
        if said.size != 1:
            raise ForageError(
                f"{function_name(self.progress)} returned an array of shape {said.shape}; it returns whether a segment "
                f"is progress, yes or no."
            )
        return bool(said)

    def change_segment(self, segment: Transitions, draw: np.random.Generator) -> Transitions:
        """Return a changed copy of a segment. Raise `ForageError` if the function returns no such copy."""
        changed = self.augmentation(segment, draw)  # type: ignore[operator]
        if not isinstance(changed, Transitions) or changed.transitions != segment.transitions:
            what = f"{changed.transitions} transitions" if isinstance(changed, Transitions) else type(changed).__name__
            raise ForageError(
                f"{function_name(self.augmentation)} returned {what} for a segment of {segment.transitions}; it "
                f"returns "
                f"a changed copy, as dataclasses.replace(segment, observation=...) does."
            )
        return changed


class OpenedGuidedData(GuidedAugmentation, OpenedDataSet):
    """A data set with augmented segments after its file was read."""

    data: Any = None  # leaves `transition ...`


def cut(found: Transitions, begin: int, end: int) -> Transitions:
    """Return a copy of some transitions of one episode, truncated at their end unless it terminates there."""
    fields = {name: jax.tree.map(lambda x: x[begin:end].copy(), getattr(found, name)) for name in EPISODE_FIELDS}
    fields["truncated"] = np.append(np.zeros(end - begin - 1, bool), ~fields["terminated"][-1:])
    return Transitions(**fields)


def join_segments(parts: Sequence[Transitions]) -> Transitions:
    """Return segments one after another."""
    return Transitions(
        **{
            name: jax.tree.map(lambda *x: np.concatenate(x), *(getattr(part, name) for part in parts))
            for name in EPISODE_FIELDS
        }
    )


def function_name(function: Any) -> str:
    """Return the name of a function."""
    return getattr(function, "__name__", type(function).__name__)
