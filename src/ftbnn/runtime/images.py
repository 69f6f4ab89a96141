"""Photos as networks want them: the shorter side resized, the centre cut out, grey or colour as asked. Pillow only."""

import io
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from ftbnn.errors import UserError, first_line
from ftbnn.photos import FORMATS, crop_box, eight_bit, orientation, turned
from ftbnn.text import line

CHANNELS = (1, 3, 4)  # of a picture: grey, colour, colour and alpha
MOST_PIXELS = 100_000_000  # a small file may unfold into gigabytes


def read_picture(path: Path | str) -> Image.Image:
    """The upright picture of a file, or, of `-`, of standard input."""
    name = "standard input" if str(path) == "-" else line(str(path), 200)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit here is another
            file = Image.open(_source(path), formats=FORMATS)
        with file:
            if file.width * file.height > MOST_PIXELS:
                raise UserError(f"{file.width} x {file.height} pixels are more than {MOST_PIXELS:,}")
            return upright(file)
    except FileNotFoundError:
        raise UserError(f"no picture at {name}") from None
    except UnidentifiedImageError:  # whose text names the file once more
        raise UserError(f"{name} cannot be read as a picture: it is none of {', '.join(FORMATS)}") from None
    except Exception as error:  # Pillow's readers raise nearly anything over broken bytes
        raise UserError(f"{name} cannot be read as a picture: {first_line(error)}") from error


def _source(path: Path | str) -> Path | io.BytesIO:
    if str(path) == "-":
        if not (data := sys.stdin.buffer.read()):
            raise UserError("it is empty; give it the bytes of one")
        return io.BytesIO(data)
    if Path(path).exists() and not Path(path).is_file():  # a pipe would block for ever
        raise UserError("it is not a file")
    return Path(path)


def upright(picture: Image.Image) -> Image.Image:
    """8-bit grey or RGB, turned as the picture's EXIF orientation says, once."""
    turn, kind = orientation(picture), picture.format
    view = turned(eight_bit(picture, kind), turn)
    if view is not picture:
        view.info = {}
    view.load()
    return view


def picture_of(image: NDArray[Any]) -> Image.Image:
    """uint8 (H, W) or (H, W, C), of as many channels as a picture may have."""
    return Image.fromarray(image[:, :, 0] if image.ndim == 3 and image.shape[2] == 1 else image)


def centre_view(picture: Image.Image, *, channels: int, size: tuple[int, int], side: int) -> NDArray[np.uint8]:
    """To (height, width, channels): shorter side to `side`, centre crop, one resampling; a picture that has the size
    already is taken as it is."""
    if channels not in (1, 3):
        raise UserError(f"the network takes {channels} channels; give it images of its own size")
    if 0 in picture.size:
        raise UserError(f"a picture of {picture.width} x {picture.height} pixels shows nothing")
    height, width = size
    mode = "L" if channels == 1 else "RGB"
    view = picture if picture.mode == mode else picture.convert(mode)
    if view.size != (width, height):
        part = (min(1.0, width / side), min(1.0, height / side))
        view = view.resize((width, height), Image.Resampling.BILINEAR, box=crop_box(view.size, part))
    return np.asarray(view, np.uint8).reshape(height, width, channels)
