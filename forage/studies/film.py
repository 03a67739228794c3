"""The writer of a film: pictures with captions, at the speed of the environment, in a file of limited size."""

from __future__ import annotations

import dataclasses
import importlib.util
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from forage.core.errors import ForageError

Picture = UInt8[np.ndarray, "height width 3"]

MOST = {".mp4": 60.0, ".webp": 30.0, ".gif": 25.0}  # pictures a second; screens show 60, and GIFs grow large
USUAL = 30.0  # pictures a second, where an environment does not say
SMALL, LARGE = 240, 640  # pixels: smaller pictures are magnified, for the caption to fit, and larger ones reduced
MEGABYTES = 10.0  # what pages that show films accept
HELD = 0.7  # seconds that an episode's last picture stands
INK, PAPER = (31, 36, 48), (255, 255, 255)


class Frame(NamedTuple):
    """One picture and its caption."""

    picture: Picture
    caption: str


@dataclasses.dataclass
class Film:
    """The frames of a film, taken while episodes are played; `write` makes the file."""

    path: Path
    per_second: float  # steps
    who: str = ""  # plays, such as `seed 3`
    progress: Callable[[int, int, float], None] | None = None  # is told episode, step and return so far
    frames: list[Frame] = dataclasses.field(default_factory=list)
    episode: int = 0

    @property
    def next_picture(self) -> int:
        """Step from one picture to the next."""
        return max(1, round(self.per_second / MOST[self.path.suffix]))

    def take(self, draw: Callable[[], np.ndarray], step: int, total: float) -> None:
        """Draw the picture after a step, if the film includes it."""
        if self.progress is not None:
            self.progress(self.episode, step, total)
        if step % self.next_picture == 0:
            self.frames.append(Frame(resize(draw()), self.caption(step, total)))

    def end(self, draw: Callable[[], np.ndarray] | None, step: int, total: float) -> None:
        """Hold the last picture of an episode, with the whole return; without `draw`, the one before it."""
        picture = self.frames[-1].picture if draw is None else resize(draw())
        held = max(1, round(HELD * self.per_second / self.next_picture))
        self.frames += [Frame(picture, self.caption(step, total))] * held
        self.episode += 1

    def caption(self, step: int, total: float) -> str:
        """Write the caption of a picture."""
        return f"return {total:.4g}   step {step}   {self.who}"

    def write(self, megabytes: float = MEGABYTES) -> int:
        """Write the film, reduced until it is within `megabytes`. Return its width in pixels.

        Raises `ForageError` if it cannot be written, or not within so many.
        """
        even = self.path.suffix == ".mp4"  # as most players want
        pictures = [add_caption(frame, even) for frame in same_size(self.frames)]
        height, width = pictures[0].shape[:2]
        scale = 1.0
        while True:
            reduced = pictures if scale == 1 else [rescale(one, scale, even) for one in pictures]
            encode_film(self.path, reduced, self.per_second / self.next_picture)
            size = self.path.stat().st_size / 1e6
            if size <= megabytes:
                return reduced[0].shape[1]
            scale *= min(0.85, 0.95 * (megabytes / size) ** 0.5)
            if scale * min(height, width) < 64:
                self.path.unlink()
                raise ForageError(
                    f"{len(pictures):,} pictures do not fit into {megabytes:g} MB; film fewer steps, or allow more "
                    f"megabytes{'' if even else '; an .mp4 is far smaller'}."
                )


def default_suffix() -> str:
    """Return the best kind of film that can be made here: MP4 with the extra `video`, else WebP, else GIF."""
    from PIL import features

    if importlib.util.find_spec("imageio_ffmpeg") is not None:
        return ".mp4"
    return ".webp" if features.check("webp") else ".gif"


def prepare_film(path: Path) -> None:
    """Make the folder of a film. Raises `ForageError` if no film can be written, before an episode is played."""
    if path.suffix not in MOST:
        raise ForageError(f"A film is an .mp4, a .webp or a .gif, and {path.name} is none of them.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(path, error) from error
    if path.is_dir():
        raise ForageError(f"Could not write {path}: it is a folder.")
    if path.suffix == ".mp4" and importlib.util.find_spec("imageio_ffmpeg") is None:
        raise ForageError("MP4 needs an extra: pip install 'forage-rl[video]'; a .webp or a .gif needs none.")


def encode_film(path: Path, pictures: list[Picture], per_second: float) -> None:
    """Write pictures of one size. Raises `ForageError` if that fails."""
    import imageio.v3 as imageio

    try:
        path.open("wb").close()  # what writes films only warns where it cannot
        if path.suffix == ".mp4":
            with warnings.catch_warnings():  # ffmpeg is another program, which JAX's threads do not reach
                warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called")
                # Blocks of one pixel: pictures keep their size, and none is stretched to a multiple of 16.
                imageio.imwrite(path, np.stack(pictures), plugin="FFMPEG", fps=per_second, macro_block_size=1)
        else:
            imageio.imwrite(path, np.stack(pictures), plugin="pillow", duration=round(1000 / per_second), loop=0)
    except (ImportError, OSError, ValueError) as error:
        raise write_error(path, error) from error
    if not path.stat().st_size:
        raise ForageError(f"Could not write {path}: no film of {len(pictures)} pictures came out.")


def write_error(path: Path, error: Exception) -> ForageError:
    said = str(getattr(error, "strerror", None) or error or type(error).__name__).strip().splitlines()[-1]
    return ForageError(f"Could not write {path}: {said.rstrip('.')}.")


def same_size(frames: list[Frame]) -> list[Frame]:
    """Return pictures of the size of the largest, with black margins."""
    height, width = np.array([frame.picture.shape[:2] for frame in frames]).max(0)

    def pad_picture(picture: Picture) -> Picture:
        return np.pad(picture, ((0, height - picture.shape[0]), (0, width - picture.shape[1]), (0, 0)))

    return [frame._replace(picture=pad_picture(frame.picture)) for frame in frames]


def resize(picture: np.ndarray) -> Picture:
    """Return a picture that is large enough for a caption, by whole pixels, and not larger than a page shows."""
    picture = np.asarray(picture, np.uint8)
    most = max(picture.shape[:2])
    if most < SMALL:
        times = -(-SMALL // most)
        return picture.repeat(times, 0).repeat(times, 1)
    return rescale(picture, LARGE / most) if most > LARGE else picture


def rescale(picture: Picture, scale: float, even: bool = False) -> Picture:
    """Return a picture of another size, its pixels averaged; `even`: to even numbers of pixels."""
    from PIL import Image

    height, width = (round(number * scale / 2) * 2 if even else round(number * scale) for number in picture.shape[:2])
    return np.asarray(Image.fromarray(picture).resize((max(2, width), max(2, height)), Image.Resampling.LANCZOS))


def add_caption(frame: Frame, even: bool = False) -> Picture:
    """Return a picture with its caption on a strip below; `even`: both sizes are even numbers of pixels."""
    from PIL import Image, ImageDraw, ImageFont

    height, width, _ = frame.picture.shape
    size = int(np.clip(width / 24, 11, 18))
    whole = np.array([height + 2 * size, width])
    whole += whole % 2 if even else 0
    sheet = Image.new("RGB", (int(whole[1]), int(whole[0])), PAPER)
    sheet.paste(Image.fromarray(frame.picture), (0, 0))
    place = size // 2, height + size  # the middle of the strip
    ImageDraw.Draw(sheet).text(place, frame.caption, INK, ImageFont.load_default(size), anchor="lm")
    return np.asarray(sheet)
