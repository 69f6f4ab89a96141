"""What the tests of JavaScript compare with: networks with Python's scores, photos with Python's pixels and classes.

    python web/tests/expect.py OUT [--imagenette FILE.npz] [--mnist DIR]

Photos are made here; real ones, 50 of Imagenette and 100 digits of MNIST, are taken where they are given.
"""

import argparse
import gzip
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from ftbnn import zoo
from ftbnn.runtime import load
from ftbnn.runtime.images import centre_view, read_picture

TESTS = Path(__file__).resolve().parents[2] / "tests"


def write_networks(out: Path) -> list[dict[str, Any]]:
    """The zoo, and small networks that have every operator between them; scores are portable's, bit for bit."""
    folder = out / "networks"
    folder.mkdir()
    sys.argv = ["", str(folder)]
    runpy.run_path(str(TESTS / "damage_files.py"))
    for name in zoo.names():
        (folder / f"zoo-{name}.ftbnn").write_bytes(zoo.resolve(f"zoo:{name}").read_bytes())
    numbers = np.random.default_rng(0)
    rows = []
    for path in sorted(folder.glob("*.ftbnn")):
        with load(path, threads=1, isa="portable") as model:
            channels, height, width = model.input_shape
            pixels = numbers.integers(0, 256, (2, height, width, channels), np.uint8)
            floats = numbers.normal(size=(2, channels, height, width)).astype(np.float32)
            for kind, images in (("u8", pixels), ("f32", floats)):
                (folder / f"{path.stem}.{kind}").write_bytes(images.tobytes())
                (folder / f"{path.stem}.{kind}.scores").write_bytes(model(images).tobytes())
            rows.append({"name": path.stem, "classes": model.class_names, "resize": model.resize})
    return rows


def scene(width: int, height: int, seed: int, mode: str = "RGB") -> Image.Image:
    """Something with edges, colours, grain and slopes."""
    numbers = np.random.default_rng(seed)
    small = numbers.integers(0, 256, (5, 7, 3), np.uint8)
    picture = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(picture)
    for _ in range(12):
        box = sorted(numbers.integers(0, width, 2)), sorted(numbers.integers(0, height, 2))
        color = tuple(int(value) for value in numbers.integers(0, 256, 3))
        draw.ellipse((int(box[0][0]), int(box[1][0]), int(box[0][1]), int(box[1][1])), fill=color)
    return picture.filter(ImageFilter.SHARPEN).convert(mode)


def write_photos(out: Path, imagenette: Path | None, mnist: Path | None) -> list[dict[str, Any]]:
    folder = out / "photos"
    folder.mkdir()
    turn = Image.Exif()
    turn[0x0112] = 6
    scene(640, 480, 1).save(folder / "plain.jpg", quality=90)
    scene(333, 517, 2).save(folder / "upright.jpg", quality=80, subsampling=0)
    scene(500, 375, 3).save(folder / "turned.jpg", exif=turn)
    scene(401, 300, 4, "L").save(folder / "grey.jpg")
    scene(250, 250, 5).save(folder / "square.png")
    scene(97, 201, 6).save(folder / "narrow.png")
    scene(300, 200, 7, "P").save(folder / "palette.gif")
    scene(320, 240, 8).save(folder / "lossless.webp", lossless=True)
    scene(61, 47, 9).save(folder / "small.bmp")
    scene(5200, 3900, 10).save(folder / "20-megapixels.jpg", quality=85)
    scene(28, 28, 11, "L").save(folder / "digit-size.png")
    if imagenette is not None:
        arrays = np.load(imagenette)
        for k in np.random.default_rng(0).permutation(len(arrays["label"]))[:50]:
            data = arrays["jpeg"][arrays["offset"][k] : arrays["offset"][k + 1]].tobytes()
            (folder / f"imagenette-{k:04d}.jpg").write_bytes(data)
    if mnist is not None:
        digits = np.frombuffer(gzip.decompress((mnist / "t10k-images-idx3-ubyte.gz").read_bytes()), np.uint8, offset=16)
        for k, digit in enumerate(digits.reshape(-1, 28, 28)[:100]):
            Image.fromarray(digit).save(folder / f"mnist-{k:03d}.png")
    models = {name: load(f"zoo:{name}", threads=1) for name in ("imagenette", "cifar10", "mnist")}
    rows = []
    for path in sorted(folder.iterdir()):
        only = path.name.split("-")[0]
        for name, model in models.items():
            if only in ("imagenette", "mnist") and only != name:
                continue
            picture = read_picture(path)
            channels, height, width = model.input_shape
            pixels = centre_view(picture, channels=channels, size=(height, width), side=model.resize)
            best = model.top([picture], 1)[0][0]
            file = f"{path.name}.{name}.pixels"
            (out / "pixels" / file).write_bytes(pixels.tobytes())
            rows.append({"photo": path.name, "network": name, "pixels": file, "class": best.name})
    return rows


def write_resamplings(out: Path) -> list[dict[str, Any]]:
    """Pillow's resampling alone, of raw pixels: odd sizes, larger, smaller and the very one, colour and grey."""
    (out / "raw").mkdir()
    numbers = np.random.default_rng(1)
    rows = []
    for number, (width, height) in enumerate(
        [(5, 7), (28, 28), (64, 33), (129, 128), (301, 97), (640, 427), (97, 201), (60, 900), (31, 65)]
    ):
        picture = Image.fromarray(numbers.integers(0, 256, (height, width, 3), np.uint8))
        (out / "raw" / f"{number}.rgba").write_bytes(picture.convert("RGBA").tobytes())
        for channels, side, resize in ((3, 32, 32), (3, 128, 146), (1, 28, 28), (1, 28, 32), (1, 8, 9), (3, 17, 23)):
            pixels = centre_view(picture, channels=channels, size=(side, side), side=resize)
            row = {"raw": number, "width": width, "height": height, "channels": channels, "side": side}
            row |= {"resize": resize, "pixels": f"raw-{number}-{channels}-{side}-{resize}.pixels"}
            (out / "pixels" / str(row["pixels"])).write_bytes(pixels.tobytes())
            rows.append(row)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--imagenette", type=Path)
    parser.add_argument("--mnist", type=Path)
    args = parser.parse_args()
    (args.out / "pixels").mkdir(parents=True)
    found = {
        "networks": write_networks(args.out),
        "photos": write_photos(args.out, args.imagenette, args.mnist),
        "resamplings": write_resamplings(args.out),
    }
    (args.out / "expected.json").write_text(json.dumps(found))
    print({name: len(rows) for name, rows in found.items()})
