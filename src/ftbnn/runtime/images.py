"""Photos as networks want them: the shorter side resized, the centre cut out, grey or colour as asked. Pillow only."""

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ftbnn.errors import UserError, first_line
from ftbnn.photos import FORMATS, crop_box, eight_bit, orientation, turned

MOST_PIXELS = 100_000_000  # a small file may unfold into gigabytes


def read_picture(path: Path | str) -> NDArray[np.uint8]:
    """The pixels of a picture file, or, of `-`, of standard input."""
    try:
        source = io.BytesIO(sys.stdin.buffer.read()) if str(path) == "-" else path
        with Image.open(source, formats=FORMATS) as file:
            if file.width * file.height > MOST_PIXELS:
                raise UserError(f"{file.width} x {file.height} pixels are more than {MOST_PIXELS:,}")
            return pixels(file)
    except FileNotFoundError:
        raise UserError(f"no picture at {path}") from None
    except Exception as error:  # Pillow's readers raise nearly anything over broken bytes
        raise UserError(f"{path} cannot be read as a picture: {first_line(error)}") from error


def pixels(picture: Image.Image) -> NDArray[np.uint8]:
    """8-bit grey or RGB, turned as the picture's EXIF orientation says."""
    turn, kind = orientation(picture), picture.format
    return np.asarray(turned(eight_bit(picture, kind), turn))


def centre_view(image: NDArray[Any], *, channels: int, size: tuple[int, int], side: int) -> NDArray[np.uint8]:
    """uint8 (H, W) or (H, W, C) to (height, width, channels): shorter side to `side`, centre crop, one resampling."""
    if image.ndim == 3 and image.shape[2] not in (1, 3, 4):
        raise UserError(f"an image has 1, 3 or 4 channels, not {image.shape[2]}")
    picture = Image.fromarray(image[:, :, 0] if image.ndim == 3 and image.shape[2] == 1 else image)
    if channels not in (1, 3):
        raise UserError(f"the network takes {channels} channels; give it images of its own size")
    height, width = size
    part = (min(1.0, width / side), min(1.0, height / side))
    box = crop_box(picture.size, part)
    view = picture.convert("L" if channels == 1 else "RGB")
    view = view.resize((width, height), Image.Resampling.BILINEAR, box=box)
    return np.asarray(view, np.uint8).reshape(height, width, channels)
