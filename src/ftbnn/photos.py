"""What training and the runtime must do alike to a photo: its 8 bits, its turn, and where a crop lies. Pillow only."""

import warnings
from io import BytesIO

import numpy as np
from PIL import Image

from ftbnn.errors import UserError

Box = tuple[float, float, float, float]
EXIF_ORIENTATION = 0x0112
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# By content, whatever the name says. Pillow's other readers stay shut: one of them starts Ghostscript.
FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "PPM", "TIFF", "GIF")


def picture_format(data: bytes) -> str | None:
    """The format of a picture's bytes; None of anything else."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # nothing is unfolded here
            with Image.open(BytesIO(data), formats=FORMATS) as picture:
                kind: str | None = picture.format
                return kind
    except Exception:  # Pillow's readers raise nearly anything over other bytes
        return None


def eight_bit(picture: Image.Image, kind: str | None) -> Image.Image:
    """Grey or RGB, of a file of this format: Pillow itself would cut 16-bit grey off at 255, which leaves it white."""
    if picture.mode in ("L", "RGB"):
        return picture
    if picture.mode == "1":  # RGB would take four times the memory for two colours
        return picture.convert("L")
    if picture.mode.startswith("I;16") or (picture.mode == "I" and kind == "PNG"):
        return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8))
    if picture.mode in ("I", "F"):
        raise UserError(f"pixels of mode {picture.mode} have no known range")
    return picture.convert("RGB")


def orientation(picture: Image.Image) -> int:
    """How the file says that its pixels are to be turned."""
    if picture.format == "TIFF":  # Pillow has turned it already
        return 1
    try:
        return int(picture.getexif().get(EXIF_ORIENTATION, 1))
    except Exception:  # broken EXIF beside sound pixels: the image stays as it is stored
        return 1


def turned(picture: Image.Image, orientation: int) -> Image.Image:
    return picture.transpose(TURNS[orientation]) if orientation in TURNS else picture


def crop_box(size: tuple[int, int], part: tuple[float, float], *, across: float = 0.5, down: float = 0.5) -> Box:
    """A box of `part` (width, height) of the shorter side, in pixels of the image; `across` and `down` say where."""
    width, height = size
    wide, high = (share * min(size) for share in part)
    left, top = across * (width - wide), down * (height - high)
    return left, top, left + wide, top + high
