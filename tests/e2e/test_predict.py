"""Predicting as deployers do: odd pictures, odd inputs, answers that any JSON reader takes."""

import io
import json
import os
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
import torch
from PIL import Image

from ftbnn import load, zoo
from ftbnn.cli.main import main
from ftbnn.data import load as load_data
from ftbnn.errors import UserError
from ftbnn.packing import build_graph
from ftbnn.packing.write import InputInfo, encode

FILE = zoo.resolve("zoo:digits")
DIGIT = load_data("digits").test.images[3, 0].numpy()
MOST_KB = 500_000  # of a picture of 98 million pixels, at a byte each


def predict(*words, **options):
    command = [sys.executable, "-m", "ftbnn", "predict", "zoo:digits", *map(str, words)]
    return subprocess.run(command, capture_output=True, check=False, timeout=60, **options)


def refuse(_):
    raise ValueError("not JSON")


def strict(text):
    """JSON as the standard has it: no NaN."""
    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def digit(tmp_path):
    path = tmp_path / "digit.png"
    Image.fromarray(DIGIT).save(path)
    return path


def test_top_gives_the_likeliest_classes_of_each_image():
    model = load("zoo:digits")
    scores = model(DIGIT)[0]
    first, second = model.top([DIGIT, Image.fromarray(DIGIT)], 3)
    assert first == second
    assert [guess.index for guess in first] == np.argsort(-scores)[:3].tolist()
    assert first[0].name == str(first[0].index)
    assert first[0].share == pytest.approx(np.exp(scores.max()) / np.exp(scores).sum(), rel=1e-5)
    assert sum(guess.share for guess in model.top(DIGIT, 99)[0]) == pytest.approx(1)
    assert model.top(DIGIT, np.int64(3))[0] == first
    for k in (0, "3", 1.5):
        with pytest.raises(UserError, match="k must be a whole number from 1 on, not"):
            model.top(DIGIT, k)


def test_standard_input_is_a_picture_too(digit):
    piped = predict("-", "--json", input=digit.read_bytes())
    assert piped.returncode == 0
    (answer,) = strict(piped.stdout)
    assert answer["image"] == "-"
    assert answer["top"] == strict(predict(digit, "--json").stdout)[0]["top"]
    empty = predict("-", input=b"")
    assert empty.returncode == 2
    assert empty.stderr.count(b"\n") == 1


def test_every_image_has_an_answer_or_an_error(digit, tmp_path):
    (tmp_path / "broken.png").write_bytes(digit.read_bytes()[:40])
    result = predict(digit, tmp_path / "broken.png", tmp_path / "none.png", "--json")
    assert result.returncode == 2
    answers = strict(result.stdout)
    assert [sorted(answer) for answer in answers] == [["image", "top"], ["error", "image"], ["error", "image"]]
    assert "no picture at" in answers[2]["error"]


def test_huge_but_finite_weights_are_an_error_not_a_nan(digit, tmp_path, capsys):
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2), torch.nn.Linear(2, 2))
    for parameter in network.parameters():
        torch.nn.init.constant_(parameter, 1e30)
    graph = build_graph(network, torch.zeros(1, 1, 8, 8))  # as from elsewhere: `pack` would refuse it
    file = tmp_path / "huge.ftbnn"
    file.write_bytes(encode(graph, InputInfo(name="huge", mean=[0.0], std=[1.0], resize=8, class_names=[])))
    assert main(["predict", str(file), str(digit), "--json"]) == 2
    (answer,) = strict(capsys.readouterr().out)
    assert "not finite" in answer["error"]


def test_what_a_file_says_is_printed_on_one_safe_line(digit, tmp_path, capsys):
    graph = build_graph(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2)), torch.zeros(1, 1, 8, 8))
    names = ["\x1b[31mred\x1b[0m\nsecond line", "long " * 40]
    info = InputInfo(name="a\x1b]0;title\x07b", mean=[0.0], std=[1.0], resize=8, class_names=names)
    file = tmp_path / "odd.ftbnn"
    file.write_bytes(encode(graph, info))
    assert main(["predict", str(file), str(digit)]) == 0
    assert main(["inspect", str(file)]) == 0
    text = capsys.readouterr().out
    assert text.replace("\n", "").isprintable()
    assert max(map(len, text.splitlines())) < 120
    assert "\x1b" not in repr(load(file)).replace("\\x1b", "")
    assert main(["predict", str(file), str(digit), "--json"]) == 0
    assert {top["class"] for top in strict(capsys.readouterr().out)[0]["top"]} == set(names)


def test_a_full_disk_behind_the_answer_is_one_line(digit):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        command = [sys.executable, "-m", "ftbnn", "predict", "zoo:digits", str(digit)]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == "ftbnn predict: cannot write the output: No space left on device\n"


def test_a_pipe_is_not_waited_for(tmp_path, digit):
    os.mkfifo(tmp_path / "pipe")
    for words in ([tmp_path / "pipe"], [digit, tmp_path / "pipe"]):
        result = predict(*words)
        assert result.returncode == 2
        assert b"it is not a file" in result.stderr
    with pytest.raises(UserError, match="it is not a file"):
        load(tmp_path / "pipe")


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    with (tmp_path / "huge.ftbnn").open("wb") as file:
        file.truncate(2**31 + 1)
    with pytest.raises(UserError, match="2147483649 bytes are more than a file may have"):
        load(tmp_path / "huge.ftbnn")


PEAK = """
import sys
from ftbnn.cli.main import main
code = main(["predict", "zoo:digits", sys.argv[1], "--top", "1"])
print(code, next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def peak_kb(path):
    """The exit code, and the memory it took at most."""
    result = subprocess.run([sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, check=True)
    code, size = result.stdout.split()[-2:]
    return int(code), int(size), result.stderr


def test_a_small_file_that_unfolds_does_not_take_gigabytes(tmp_path):
    Image.new("1", (9900, 9900)).save(tmp_path / "bits.png")
    assert (tmp_path / "bits.png").stat().st_size < 20_000
    code, size, err = peak_kb(tmp_path / "bits.png")
    assert code == 0
    assert size < MOST_KB
    assert err == ""
    Image.new("1", (13000, 13000)).save(tmp_path / "more.png")
    code, size, err = peak_kb(tmp_path / "more.png")
    assert code == 2
    assert size < MOST_KB / 5
    assert "13000 x 13000 pixels are more than 100,000,000" in err
    assert err.count("\n") == 1


def test_broken_exif_beside_sound_pixels_does_no_harm(tmp_path):
    picture = Image.fromarray(np.repeat(np.repeat(DIGIT, 8, 0), 8, 1))
    picture.save(tmp_path / "plain.jpg", quality=95)
    picture.save(tmp_path / "broken.jpg", quality=95, exif=b"Exif\0\0II*\0\xff\xff\xff\xff broken")
    plain, broken = strict(predict(tmp_path / "plain.jpg", tmp_path / "broken.jpg", "--json").stdout)
    assert broken["top"] == plain["top"]


@pytest.mark.parametrize("ending", ["jpg", "png", "tif"])
def test_a_photo_is_turned_once(tmp_path, ending):
    picture = Image.fromarray(np.repeat(np.repeat(DIGIT, 8, 0), 8, 1))
    picture.save(tmp_path / f"upright.{ending}")
    exif = Image.Exif()
    exif[0x0112] = 6
    picture.transpose(Image.Transpose.ROTATE_90).save(tmp_path / f"turned.{ending}", exif=exif)
    files = [tmp_path / f"{name}.{ending}" for name in ("upright", "turned")]
    upright, turned = strict(predict(*files, "--json").stdout)
    assert turned["top"][0]["share"] == pytest.approx(upright["top"][0]["share"], abs=0.02)
    model = load("zoo:digits")
    with Image.open(files[1]) as opened:
        assert model.top([opened])[0][0].index == upright["top"][0]["index"]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, io.BytesIO])
def test_a_file_may_be_in_memory(kind):
    np.testing.assert_array_equal(load(kind(FILE.read_bytes()))(DIGIT), load(FILE)(DIGIT))


@pytest.mark.parametrize("threads", ["2", 2.0, 0, -1, True, 2**31])
def test_threads_are_a_whole_number(threads):
    with pytest.raises(UserError, match=r"threads must be a whole number from 1 to 1024, not"):
        load(FILE, threads=threads)


@pytest.mark.parametrize("source", [FILE, FILE.read_bytes()], ids=["path", "bytes"])
def test_a_model_is_pickled_as_what_it_was_made_of(source):
    model = load(source, threads=2)
    again = pickle.loads(pickle.dumps(model))
    assert (again.threads, again.class_names) == (2, model.class_names)
    np.testing.assert_array_equal(again(DIGIT), model(DIGIT))


def test_a_model_reaches_another_process():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        scores = pool.submit(load(FILE, threads=1), DIGIT).result()
    np.testing.assert_array_equal(scores, load(FILE)(DIGIT))


def test_numbers_are_whole_of_whatever_type():
    model = load("zoo:digits", threads=np.int64(2), max_bytes=np.uint32(2**30), max_macs=2**70)
    assert model.threads == 2
    assert model.resize == 8


@pytest.mark.parametrize(
    ("source", "settings", "message"),
    [
        ("zoo:digits", {"max_bytes": "1"}, "max_bytes must be a whole number from 1 on, not '1'"),
        ("zoo:digits", {"max_bytes": -1}, "max_bytes must be a whole number from 1 on, not -1"),
        ("zoo:digits", {"max_macs": 1e9}, "max_macs must be a whole number from 1 on, not 1000000000.0"),
        ("zoo:digits", {"isa": 2}, "isa is a name"),
        (None, {}, "a model is a path, zoo:NAME or the bytes of a file, not None"),
        (DIGIT, {}, "not a ndarray"),
        ("a\0b", {}, r"cannot read a\\x00b: a path has no null character"),
        ("a\nb", {}, r"cannot read a\\nb: No such file"),
    ],
)
def test_what_cannot_be_loaded_is_one_clear_line(source, settings, message):
    with pytest.raises(UserError, match=message) as caught:
        load(source, **settings)
    assert "\n" not in str(caught.value)


def test_an_empty_standard_input_is_told_of():
    result = predict("-", input=b"")
    assert result.returncode == 2
    assert (
        result.stderr
        == b"ftbnn predict: standard input cannot be read as a picture: it is empty; give it the bytes of one\n"
    )
    assert b"it is none of JPEG" in predict("-", input=b"text").stderr


def test_a_path_is_printed_on_one_safe_line(digit, tmp_path, capsys):
    odd = tmp_path / "a\x1b[31m\nb.png"
    odd.write_bytes(digit.read_bytes())
    assert main(["predict", "zoo:digits", str(odd), f"{odd}x"]) == 2
    out, err = capsys.readouterr()
    for text in (out, err):
        assert "\x1b" not in text
        assert r"a\x1b[31m\nb.png" in text
    assert err.count("\n") == 1
    for words in (["eval", f"{odd}.ftbnn", "--data", "digits"], ["eval", str(odd)], ["curves", str(odd)]):
        assert main(words) == 2
        err = capsys.readouterr().err
        assert "\x1b" not in err
        assert err.count("\n") == 1
