"""What training and the runtime must do alike to a photo: its 8 bits, and where a crop lies. Pillow only."""

import numpy as np
from PIL import Image

from ftbnn.errors import UserError

Box = tuple[float, float, float, float]
# By content, whatever the name says. Pillow's other readers stay shut: one of them starts Ghostscript.
FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "PPM", "TIFF", "GIF")


def eight_bit(picture: Image.Image, kind: str | None) -> Image.Image:
    """Grey or RGB, of a file of this format: Pillow itself would cut 16-bit grey off at 255, which leaves it white."""
    if picture.mode in ("L", "RGB"):
        return picture
    if picture.mode.startswith("I;16") or (picture.mode == "I" and kind == "PNG"):
        return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8))
    if picture.mode in ("I", "F"):
        raise UserError(f"pixels of mode {picture.mode} have no known range")
    return picture.convert("RGB")


def crop_box(size: tuple[int, int], part: tuple[float, float], *, across: float = 0.5, down: float = 0.5) -> Box:
    """A box of `part` (width, height) of the shorter side, in pixels of the image; `across` and `down` say where."""
    width, height = size
    wide, high = (share * min(size) for share in part)
    left, top = across * (width - wide), down * (height - high)
    return left, top, left + wide, top + high
