import pickle
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ftbnn.data import CorruptImage, load
from ftbnn.data.imagefolder import decode
from ftbnn.errors import UserError
from ftbnn.photos import EXIF_ORIENTATION, crop_box

DRAFT_DIFFERENCE = 0.5  # mean of 255 levels: reduced and full decode of a smooth image differ by rounding only
JPEG_DIFFERENCE = 6  # what quality 95 does to flat colours
LEFT, RIGHT = (200, 40, 40), (40, 40, 200)


def smooth(width, height):
    """Slow waves over the whole image, different per channel."""
    y, x = np.mgrid[0:height, 0:width] / height
    waves = [np.sin(5 * x + 3 * y + k) * np.cos(4 * y - k) for k in range(3)]
    return Image.fromarray(np.rint(127.5 + 100 * np.stack(waves, -1)).astype(np.uint8))


def halves(width=60, height=40):
    """Red on the left, blue on the right."""
    image = Image.new("RGB", (width, height), LEFT)
    image.paste(RIGHT, (width // 2, 0, width, height))
    return image


def tree(root, files, *, val="val"):
    """files: path under train -> image or bytes. The val part holds one plain image of each class."""
    for name, content in files.items():
        path = root / "train" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            content.save(path)
    for label in {name.partition("/")[0] for name in files}:
        (root / val / label).mkdir(parents=True)
        halves().save(root / val / label / "one.png")
    return root


def truncated(tmp_path, name):
    smooth(300, 200).save(tmp_path / name)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).unlink()
    return data[: len(data) // 2]


def index_of(split, ending):
    return next(k for k in range(len(split)) if split.path(k).endswith(ending))


def test_labels_paths_and_facts(tmp_path):
    files = {f"{c}/{k}.{e}": halves() for c in "ba" for k, e in enumerate(("JPG", "jpeg", "png", "bmp", "webp", "ppm"))}
    files |= {"a/x.tif": halves(), "a/X.TIFF": halves(), "b/.hidden.png": halves(), "b/notes.txt": b"hello"}
    files |= {".git/x.png": halves()}
    source = load("imagefolder", tree(tmp_path, files), image_size=32)
    assert source.spec.class_names == ("a", "b")
    assert (source.spec.classes, source.spec.channels, source.spec.image_size) == (2, 3, 32)
    assert source.spec.augment == "imagenet"
    assert [source.train.label(k) for k in range(len(source.train))] == [0] * 8 + [1] * 6
    wanted = sorted(n for n in files if not n.startswith(".git") and "hidden" not in n and "notes" not in n)
    assert [source.train.path(k) for k in range(14)] == [str(tmp_path / "train" / name) for name in wanted]
    for k in range(len(source.train)):
        view = source.train.image(k, None)
        assert view.dtype == torch.uint8
        assert view.shape == (3, 32, 32)
        assert (view[:, 16, 3] - torch.tensor(LEFT)).abs().max() <= JPEG_DIFFERENCE


def test_image_size_is_224_unless_said(tmp_path):
    source = load("imagefolder", tree(tmp_path, {"a/x.png": halves()}))
    assert source.train.image(0, 1).shape == (3, 224, 224)


@pytest.mark.parametrize("val", ["val", "validation", "test"])
def test_names_of_the_test_folder(tmp_path, val):
    source = load("imagefolder", tree(tmp_path, {"a/x.png": halves()}, val=val))
    assert len(source.test) == 1
    assert source.val is None


def test_beside_a_test_folder_the_validation_folder_is_for_validation(tmp_path):
    tree(tmp_path, {"a/x.png": halves(), "a/y.png": halves()})
    (tmp_path / "test" / "a").mkdir(parents=True)
    for name in ("1.png", "2.png", "3.png"):
        halves().save(tmp_path / "test" / "a" / name)
    source = load("imagefolder", tmp_path)
    assert (len(source.train), len(source.val), len(source.test)) == (2, 1, 3)
    assert source.with_validation(0.5) is source, "nothing is held out of the training images"


def test_a_part_of_a_folder_has_its_own_images(tmp_path):
    files = {f"{c}/{'x' * k}{k}.png": Image.new("RGB", (9, 9), (10 * k, 0, 0)) for c in "ab" for k in range(4)}
    split = load("imagefolder", tree(tmp_path, files), image_size=8).train
    part = split.part(torch.tensor([1, 2, 6]))
    assert [part.path(k) for k in range(3)] == [split.path(k) for k in (1, 2, 6)]
    assert [part.label(k) for k in range(3)] == [0, 0, 1]
    assert torch.equal(part.image(2, None), split.image(6, None))


def test_wrong_trees_are_one_line(tmp_path):
    (tmp_path / "train").mkdir()
    with pytest.raises(UserError, match="no folder val"):
        load("imagefolder", tmp_path)
    (tmp_path / "val" / "cat").mkdir(parents=True)
    (tmp_path / "val" / "dog").mkdir()
    (tmp_path / "train" / "cat").mkdir()
    with pytest.raises(UserError, match=r"has not: dog$"):
        load("imagefolder", tmp_path)
    (tmp_path / "train" / "dog").mkdir()
    with pytest.raises(UserError, match=r"train: no images in class folders \(jpg "):
        load("imagefolder", tmp_path)


def test_classes_without_images_are_not_passed_over(tmp_path):
    tree(tmp_path, {"a/x.png": halves(), "b/x.png": halves()})
    (tmp_path / "val" / "b" / "one.png").unlink()
    with pytest.warns(UserWarning, match=r"val has no images \(jpg .*\) of b: no score"):
        load("imagefolder", tmp_path)
    (tmp_path / "train" / "c").mkdir()
    (tmp_path / "train" / "c" / "x.heic").write_bytes(b"")
    with pytest.raises(UserError, match=r"train has no images \(jpg .*\) of c: add some, or remove"):
        load("imagefolder", tmp_path)


def test_a_view_is_a_function_of_the_seed_also_in_another_process(tmp_path):
    split = load("imagefolder", tree(tmp_path, {"a/x.png": smooth(90, 70)}), image_size=32).train
    copy = pickle.loads(pickle.dumps(split))
    views = [split.image(0, seed) for seed in range(20)]
    torch.manual_seed(5)
    assert all(torch.equal(view, copy.image(0, seed)) for seed, view in enumerate(views))
    assert len({view.numpy().tobytes() for view in views}) == 20
    assert torch.equal(split.image(0, None), copy.image(0, None))


def test_half_of_the_training_views_are_flipped(tmp_path):
    ramp = Image.fromarray(np.tile(np.arange(64, dtype=np.uint8) * 4, (64, 1)))
    split = load("imagefolder", tree(tmp_path, {"a/x.png": ramp}), image_size=48).train
    falling = [bool(view[0, 0, 0] > view[0, 0, -1]) for view in (split.image(0, seed) for seed in range(200))]
    assert 70 < sum(falling) < 130
    assert not split.image(0, None)[0, 0, 0] > split.image(0, None)[0, 0, -1]


def test_the_test_view_is_the_centre_crop_of_the_resized_image(tmp_path):
    image = smooth(700, 512)
    split = load("imagefolder", tree(tmp_path, {"a/x.png": image})).train
    plain = image.resize((350, 256), Image.Resampling.BILINEAR).crop((63, 16, 287, 240))
    difference = split.image(0, None).permute(1, 2, 0).numpy().astype(int) - np.asarray(plain)
    assert np.abs(difference).max() <= 1


def test_training_scales_span_256_to_480(tmp_path):
    """A horizontal ramp of 1 level per pixel: the levels a view spans tell its scale."""
    ramp = Image.fromarray(np.tile(np.arange(256, dtype=np.uint8), (256, 1)))
    split = load("imagefolder", tree(tmp_path, {"a/x.png": ramp})).train
    spans = [int(view.max()) - int(view.min()) for view in (split.image(0, seed) for seed in range(150))]
    assert min(spans) == pytest.approx(256 * 224 / 480, abs=4)
    assert max(spans) == pytest.approx(256 * 224 / 256, abs=4)


@pytest.mark.parametrize("size", [(1, 1), (1, 500), (500, 1), (3, 7), (224, 224), (499, 375), (10**6 + 1, 333)])
@pytest.mark.parametrize("side", [224, 256, 333, 479, 480])
def test_crops_stay_inside(size, side):
    rng = np.random.default_rng(0)
    for across, down in [(0.0, 0.0), (1.0, 1.0), *rng.random((200, 2)).tolist()]:
        left, top, right, bottom = crop_box(size, (224 / side, 224 / side), across=across, down=down)
        assert 0 <= left < right <= size[0]
        assert 0 <= top < bottom <= size[1]
        assert right - left == pytest.approx(min(size) * 224 / side, rel=1e-6)


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 1), (2, 3), (225, 223)])
def test_odd_sizes_give_full_views(tmp_path, size):
    split = load("imagefolder", tree(tmp_path, {"a/x.png": Image.new("RGB", size, LEFT)}), image_size=40).train
    for seed in (None, *range(20)):
        assert (split.image(0, seed) == torch.tensor(LEFT)[:, None, None]).all()


@pytest.mark.parametrize("side", [64, 100, 130])
def test_reduced_decoding_is_close_to_the_full_one(tmp_path, side):
    path = tmp_path / "x.jpg"
    smooth(1203, 811).save(path, quality=95)
    reduced, _ = decode(str(path), side=side)
    with Image.open(path) as full:
        assert 2 * side <= min(reduced.size) < min(full.size)
        views = [i.resize((side, side), Image.Resampling.BILINEAR, box=(0, 0, *i.size)) for i in (reduced, full)]
    one, other = (np.asarray(view, dtype=float) for view in views)
    assert np.abs(one - other).mean() < DRAFT_DIFFERENCE


def test_small_images_are_decoded_in_full(tmp_path):
    smooth(511, 600).save(tmp_path / "x.jpg")
    assert decode(str(tmp_path / "x.jpg"), side=128)[0].size == (511, 600)


def test_a_huge_image_works(tmp_path):
    huge = Image.new("L", (9000, 9000), 90)
    split = load("imagefolder", tree(tmp_path, {"a/x.jpg": huge})).train
    for seed in (None, 1):
        assert (split.image(0, seed).int() - 90).abs().max() <= JPEG_DIFFERENCE


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("grey.jpg", halves().convert("L")),
        ("cmyk.jpg", halves().convert("CMYK")),
        ("alpha.png", halves().convert("RGBA")),
        ("grey_alpha.png", halves().convert("LA")),
        ("palette.png", halves().convert("P", palette=Image.Palette.ADAPTIVE)),
        ("bits.png", halves().convert("1", dither=Image.Dither.NONE)),
        ("deep.png", Image.fromarray(np.full((40, 60), 200 * 256, np.uint16))),
    ],
)
def test_every_kind_of_pixel_becomes_rgb(tmp_path, name, image):
    split = load("imagefolder", tree(tmp_path, {f"a/{name}": image}), image_size=32).train
    with Image.open(split.path(0)) as stored:
        deep = stored.mode.startswith("I")
        wanted = (200,) * 3 if deep else stored.convert("RGB").getpixel((5, 20))
    for view in (split.image(0, None), split.image(0, 7)):
        assert view.shape == (3, 32, 32)
    assert (split.image(0, None)[:, 16, 2].int() - torch.tensor(wanted)).abs().max() <= JPEG_DIFFERENCE


@pytest.mark.parametrize("ending", ["jpg", "png", "tif", "webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(tmp_path, ending, orientation):
    """The stored picture is the upright one turned backwards; every view must show the upright one."""
    upright = smooth(48, 48)
    back = "FLIP_LEFT_RIGHT ROTATE_180 FLIP_TOP_BOTTOM TRANSPOSE ROTATE_90 TRANSVERSE ROTATE_270".split()
    stored = upright if orientation == 1 else upright.transpose(Image.Transpose[back[orientation - 2]])
    split = load("imagefolder", tree(tmp_path, {"a/x.png": upright, f"a/y.{ending}": stored}), image_size=32).train
    exif = Image.Exif()
    exif[EXIF_ORIENTATION] = orientation
    turned = index_of(split, f"y.{ending}")
    stored.save(split.path(turned), exif=exif, quality=95)
    difference = split.image(0, None).int() - split.image(turned, None).int()
    assert difference.abs().float().mean() < JPEG_DIFFERENCE / 2


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_broken_exif_beside_sound_pixels_does_no_harm(tmp_path):
    split = load("imagefolder", tree(tmp_path, {"a/x.jpg": halves()}), image_size=32).train
    plain = split.image(0, None)
    halves().save(split.path(0), exif=b"Exif\0\0II*\0\xff\xff\xff\xff broken")
    assert torch.equal(split.image(0, None), plain)


@pytest.mark.parametrize(
    ("name", "make", "reason"),
    [
        ("cut.jpg", truncated, "truncated"),
        ("cut.png", truncated, ": "),
        ("cut.bmp", truncated, ": "),
        ("cut.tif", truncated, ": "),
        ("cut.webp", truncated, ": "),
        ("cut.ppm", truncated, ": "),
        ("text.jpg", lambda *_: b"this is no picture\n", "not an image that can be read"),
        ("empty.jpg", lambda *_: b"", "not an image that can be read"),
        ("head.png", lambda *_: b"\x89PNG\r\n\x1a\n" + b"\0" * 30, ": "),
        ("head.jpg", lambda *_: b"\xff\xd8\xff\xe0", ": "),
        ("vector.jpg", lambda *_: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image"),
    ],
)
@pytest.mark.parametrize("seed", [None, 3])
def test_what_cannot_be_decoded_is_named(tmp_path, name, make, reason, seed):
    split = load("imagefolder", tree(tmp_path, {f"a/{name}": make(tmp_path, name)}), image_size=32).train
    with pytest.raises(CorruptImage, match=reason) as caught:
        split.image(0, seed)
    assert str(caught.value).startswith(f"{split.path(0)}: ")
    assert "\n" not in str(caught.value)


def test_float_pixels_and_vanished_files_are_named(tmp_path):
    image = Image.fromarray(np.zeros((40, 40), np.float32))
    split = load("imagefolder", tree(tmp_path, {"a/x.tif": image}), image_size=32).train
    with pytest.raises(CorruptImage, match="no known range"):
        split.image(0, None)
    (tmp_path / "train/a/x.tif").unlink()
    with pytest.raises(CorruptImage, match="No such file"):
        split.image(0, None)


def test_a_decompression_bomb_is_refused(tmp_path, monkeypatch):
    split = load("imagefolder", tree(tmp_path, {"a/x.png": halves()}), image_size=32).train
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(CorruptImage, match="decompression bomb"):
        split.image(0, None)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_any_damage_is_a_corrupt_image_or_a_view(tmp_path):
    """Bytes overwritten at random: never another error."""
    rng = np.random.default_rng(0)
    endings = ("jpg", "png", "webp", "tif", "bmp", "ppm")
    split = load("imagefolder", tree(tmp_path, {f"a/x.{e}": smooth(64, 48) for e in endings}), image_size=16).train
    for k in range(len(split)):
        path = Path(split.path(k))
        sound = path.read_bytes()
        for _ in range(40):
            damaged = np.frombuffer(sound, np.uint8).copy()
            damaged[rng.integers(0, min(len(sound), 300), 6)] = rng.integers(0, 256, 6)
            path.write_bytes(damaged.tobytes())
            with suppress(CorruptImage):
                assert split.image(k, 1).shape == (3, 16, 16)
