"""From a run to one file, with and without Python."""

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ftbnn import zoo
from ftbnn.cli.main import main
from ftbnn.data import load as load_data
from ftbnn.errors import UserError
from ftbnn.packing import pack
from ftbnn.runtime import load
from ftbnn.workflows import ship

ROOT = Path(__file__).parents[2]
A_PROJECT = f"""
cmake_minimum_required(VERSION 3.18)
project(mine C)
find_package(ftbnn REQUIRED)
add_executable(classify {ROOT}/native/examples/classify.c)
add_executable(steady {ROOT}/native/tests/steady.c)
target_link_libraries(classify PRIVATE ftbnn::ftbnn)
target_link_libraries(steady PRIVATE ftbnn::ftbnn)
if(WITH_CXX)
  enable_language(CXX)
  add_executable(classify_cc {ROOT}/native/examples/classify.cc)
  target_link_libraries(classify_cc PRIVATE ftbnn::ftbnn)
endif()
"""


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """A network trained for a moment on the digits, and its file."""
    folder = tmp_path_factory.mktemp("deploy")
    run, path = folder / "run", folder / "digits.ftbnn"
    train = ["train", "ftbnn18", "--width", "8", "--set", "epochs=4", "--out", str(run), "--threads", "1"]
    assert main(train) == 0
    assert main(["export", str(run), "-o", str(path)]) == 0
    return run, path


def test_export_reports_sizes_and_agreement(deployed, tmp_path, capsys):
    run, _ = deployed
    assert main(["export", str(run), "-o", str(tmp_path / "again.ftbnn"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["size_bytes"] == (tmp_path / "again.ftbnn").stat().st_size
    assert report["size_bytes"] < report["fp32_bytes"] / 6
    assert report["top1_agreement"] >= 0.98
    assert (tmp_path / "again.ftbnn").read_bytes() == deployed[1].read_bytes(), "the same bytes every time"


def test_the_file_is_as_accurate_as_the_checkpoint(deployed, capsys):
    run, path = deployed
    assert main(["eval", str(run), "--json"]) == 0
    checkpoint = json.loads(capsys.readouterr().out)
    assert main(["eval", str(path), "--data", "digits", "--json"]) == 0
    packed = json.loads(capsys.readouterr().out)
    assert packed["test_images"] == checkpoint["test_images"]
    assert packed["test_top1"] == pytest.approx(checkpoint["test_top1"], abs=0.35)  # one image of 297


def test_predict_reads_pictures_of_any_kind(deployed, tmp_path, capsys):
    _, path = deployed
    digits = load_data("digits", None).test
    picture = tmp_path / "digit.png"
    Image.fromarray(digits.images[0, 0].numpy()).save(picture)
    Image.new("RGB", (300, 200), (9, 9, 9)).save(tmp_path / "photo.jpg")
    assert main(["predict", str(path), str(picture), str(tmp_path / "photo.jpg"), "--top", "3", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert len(first["top"]) == len(second["top"]) == 3
    expected = int(load(path)(digits.images[:1].permute(0, 2, 3, 1).numpy())[0].argmax())
    assert first["top"][0]["index"] == expected
    assert main(["predict", str(path), str(picture)]) == 0
    assert "%" in capsys.readouterr().out


def test_a_broken_picture_does_not_take_the_others_answers(deployed, tmp_path, capsys):
    _, path = deployed
    (tmp_path / "page.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n")
    Image.new("L", (8, 8)).save(tmp_path / "good.png")
    words = [str(tmp_path / name) for name in ("page.jpg", "missing.png", "good.png")]
    assert main(["predict", str(path), *words, "--json"]) == 2
    out, err = capsys.readouterr()
    answers = json.loads(out)
    assert [answer["image"] for answer in answers] == words
    assert ["error" in answer for answer in answers] == [True, True, False]
    assert "page.jpg cannot be read" in answers[0]["error"]
    assert answers[2]["top"]
    assert err.count("\n") == 1
    assert "page.jpg cannot be read" in err
    assert "and 1 more of 3" in err
    assert main(["predict", str(path), *words]) == 2
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == words[2]
    first, second = err.splitlines()
    assert first.startswith(f"ftbnn predict: {words[0]} cannot be read")
    assert second == f"ftbnn predict: no picture at {words[1]}"


def test_a_file_may_have_any_name(deployed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(deployed[1], "digits.bin")
    for words in (
        ["eval", "digits.bin", "--data", "digits"],
        ["export", "digits.bin", "--format", "c", "-o", "c"],
        ["export", "digits.bin", "--format", "qonnx", "-o", "digits.onnx"],
        ["bench", "net", "digits.bin", "--peers", "", "--rounds", "1"],
        ["train", "ftbnn18", "--width", "8", "--init", "digits.bin", "--set", "epochs=1", "--out", "run"],
    ):
        assert main(words) == 0, capsys.readouterr().err
    capsys.readouterr()


def test_a_file_is_named_after_its_run(deployed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "lr0.005"
    shutil.copytree(deployed[0], run)
    for given, name in ((run, "lr0.005.ftbnn"), (run / "last.pt", "lr0.005.ftbnn")):
        assert main(["export", str(given)]) == 0
        assert (tmp_path / name).exists()
        (tmp_path / name).unlink()
    assert main(["export", str(run), "-o", "mine"]) == 0
    assert main(["eval", "mine.ftbnn", "--data", "digits"]) == 0
    capsys.readouterr()


def test_what_is_in_the_zoo_stays_until_the_new_one_is_whole(deployed, tmp_path, monkeypatch, capsys):
    words = ["export", str(deployed[0]), "--zoo", "mine", "--zoo-dir", str(tmp_path)]
    assert main(words) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(before) == {"mine.ftbnn", "mine.json"}
    monkeypatch.setattr(ship, "compare_file", lambda *_: (_ for _ in ()).throw(UserError("no data")))
    assert main(words) == 2
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    capsys.readouterr()


def test_predict_keeps_the_upper_bits_of_16_bit_grey(deployed, tmp_path, capsys):
    _, path = deployed
    grey = load_data("digits", None).test.images[0, 0].numpy()
    Image.fromarray(grey).save(tmp_path / "8.png")
    Image.fromarray(grey.astype(np.uint16) << 8).save(tmp_path / "16.png")
    assert main(["predict", str(path), str(tmp_path / "8.png"), str(tmp_path / "16.png"), "--json"]) == 0
    eight, sixteen = json.loads(capsys.readouterr().out)
    assert eight["top"] == sixteen["top"]


def test_eval_refuses_a_file_of_another_width(tmp_path, capsys):
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(40, 10))
    pack(network, torch.zeros(1, 1, 8, 5), tmp_path / "narrow.ftbnn")
    assert main(["eval", str(tmp_path / "narrow.ftbnn"), "--data", "digits"]) == 2
    assert "takes 1x8x5 images" in capsys.readouterr().err


def test_inspect(deployed, capsys):
    _, path = deployed
    assert main(["inspect", str(path), "--profile"]) == 0
    text = capsys.readouterr().out
    assert "stage1.0.conv" in text
    assert "GMAC/s" in text
    assert main(["inspect", str(path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["operators"]) > 16


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["predict", "{file}", "none.png"], "no picture at none.png"),
        (["predict", "none.ftbnn", "none.png"], "cannot read none.ftbnn"),
        (["predict", "{file}", "{file}"], "cannot be read as a picture"),
        (["predict", "{file}", "{file}", "--top", "0"], "--top"),
        (["predict", "{file}", "{file}", "--threads", "5000"], "threads"),
        (["inspect", "{run}"], "cannot read"),
        (["inspect", "{run}/recipe.json"], "not a .ftbnn file"),
        (["eval", "{file}"], "does not say what it was trained on: say it (--data)\n"),
        (
            ["eval", "zoo:mnist"],
            "mnist lies in a directory (`ftbnn data mnist` fills one): say in which (--data-dir)\n",
        ),
        (["eval", "{file}", "--data", "synthetic"], "takes 1x8x8"),
        (["eval", "zoo:cifar10", "--data", "synthetic"], "tells other classes apart"),
        (["export", "{run}", "-o", "x.onnx"], "--format onnx"),
        (["export", "{run}", "--data-dir", "."], "--zoo"),
        (["export", "{run}", "--name", "mine"], "--name is of --format c; leave it out"),
        (["export", "nothing/here"], "no checkpoint"),
        (["export", "zoo:digits", "--format", "onnx"], "zoo:digits is packed already: --format c"),
        (["export", "none.ftbnn"], "no checkpoint at none.ftbnn"),
        (["export", "{file}", "-o", "x.ftbnn"], "is packed already: --format c"),
        (["export", "{file}", "--zoo", "mine"], "is made of a run or a checkpoint"),
        (["export", "{run}", "-o", "{run}"], "is a directory"),
        (["export", "{run}", "-o", "/no/such/folder/x.ftbnn"], "/no/such/folder"),
    ],
)
def test_mistakes_are_one_line(deployed, argv, message, capsys):
    run, path = deployed
    assert main([word.format(file=path, run=run) for word in argv]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err


def test_without_torch_a_file_still_predicts(deployed, tmp_path):
    """The light install: an import hook that refuses torch."""
    _, path = deployed
    picture = tmp_path / "digit.png"
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(picture)
    code = "import sys; sys.modules['torch'] = None\nfrom ftbnn.cli.main import main; sys.exit(main(sys.argv[1:]))"
    words = ["predict", str(path), str(picture)]
    subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True)


def install(folder, *settings):
    """Configured, built, installed and found by another project, as a user of the C API would: where it lies."""
    tools = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    build, prefix, mine = folder / "build", folder / "prefix", folder / "mine"
    mine.mkdir()
    (mine / "CMakeLists.txt").write_text(A_PROJECT)
    for command in (
        ["cmake", "-S", str(ROOT), "-B", str(build), "-DFTBNN_C=ON", "-DCMAKE_BUILD_TYPE=Release", *settings],
        ["cmake", "--build", str(build), "--target", "ftbnn", "classify", "--parallel", "2"],
        ["cmake", "--install", str(build), "--prefix", str(prefix)],
        ["cmake", "-S", str(mine), "-B", str(mine / "build"), f"-DCMAKE_PREFIX_PATH={prefix}", *settings],
        ["cmake", "--build", str(mine / "build")],
    ):
        subprocess.run(command, check=True, capture_output=True, env=tools)
    shutil.rmtree(build)
    return prefix, mine


def as_the_page_says(prefix, folder):
    """The project of docs/deploy.md."""
    page = (ROOT / "docs/deploy.md").read_text()
    folder.mkdir()
    for kind, name in (("cmake", "CMakeLists.txt"), ("c", "mine.c")):
        (folder / name).write_text(re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL)[1])
    shutil.copy(zoo.resolve("zoo:cifar10"), folder / "cifar.ftbnn")
    tools = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for command in (["cmake", ".", f"-DCMAKE_PREFIX_PATH={prefix}"], ["cmake", "--build", "."]):
        subprocess.run(command, check=True, capture_output=True, env=tools, cwd=folder)
    return subprocess.run([folder / "mine"], check=True, capture_output=True, text=True, cwd=folder).stdout


def compiled_by_pkg_config(prefix, program):
    """The example in C, with what pkg-config says and nothing else."""
    found = {"PKG_CONFIG_PATH": str(next(prefix.glob("lib*/pkgconfig")))}
    asked = ["pkg-config", "--cflags", "--libs", "ftbnn"]
    flags = subprocess.run(asked, check=True, capture_output=True, text=True, env=os.environ | found).stdout.split()
    source = str(ROOT / "native" / "examples" / "classify.c")
    subprocess.run(["cc", source, "-o", str(program), *flags], check=True, capture_output=True)


@pytest.mark.parametrize("shared", ["ON", "OFF"])
def test_a_c_program_gives_the_same_answer(deployed, tmp_path, shared):
    """Run on a raw image; of a static library, too, in a project of C alone."""
    _, path = deployed
    prefix, mine = install(tmp_path, f"-DBUILD_SHARED_LIBS={shared}", f"-DWITH_CXX={shared}")
    if shutil.which("pkg-config"):
        compiled_by_pkg_config(prefix, tmp_path / "by-pkg-config")
    assert (prefix / "include" / "ftbnn.h").exists()
    image = load_data("digits", None).test.images[3, 0].numpy()
    (tmp_path / "image.raw").write_bytes(image.tobytes())
    classify = str(mine / "build" / "classify")
    result = subprocess.run(
        [classify, str(path), str(tmp_path / "image.raw")], capture_output=True, text=True, check=True
    )
    index, name, score = result.stdout.split()
    scores = load(path)(image[:, :, None])[0]
    assert (int(index), name) == (int(scores.argmax()), str(scores.argmax()))
    assert float(score) == pytest.approx(float(scores.max()), abs=1e-5)
    (tmp_path / "long.raw").write_bytes(image.tobytes() + b"more")
    os.mkfifo(tmp_path / "pipe")
    for file, raw, said in (
        (__file__, "image.raw", f": {__file__}: this is not a .ftbnn file"),
        (tmp_path / "pipe", "image.raw", "not a file of its own, but a pipe"),
        (path, "long.raw", "has not height x width x channels bytes"),
    ):
        words = [classify, str(file), str(tmp_path / raw)]
        wrong = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        assert wrong.returncode == 2
        assert said in wrong.stderr
    if shared == "OFF":
        return
    assert as_the_page_says(prefix, tmp_path / "page").startswith("10 classes")
    in_cxx(mine / "build" / "classify_cc", path, tmp_path / "image.raw", load(path).top(image[:, :, None], 3)[0])
    by_functions(next(prefix.glob("lib*/libftbnn.so")), path, image)
    from_memory(next(prefix.glob("lib*/libftbnn.so")), path.read_bytes())
    for threads, batch in ((1, 1), (1, 4), (2, 1), (2, 5)):
        command = [str(mine / "build" / "steady"), str(path), str(threads), str(batch)]
        allocations = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        # A thread that gets its first task late makes its own few buffers then.
        assert allocations <= 8 * (threads - 1), f"{allocations} in 200 calls, {threads} threads, batches of {batch}"


def in_cxx(program, path, image, expected):
    """The example in C++: contexts on threads of its own, the best classes, a profile."""
    words = [str(program), str(path), *[str(image)] * 4, __file__]
    *answers, wrong = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
    assert len(set(answers)) == 1
    found = answers[0].split()
    assert found[::3] == [str(guess.index) for guess in expected]
    assert [float(share) for share in found[2::3]] == pytest.approx([guess.share for guess in expected], abs=1e-5)
    assert "not height x width x channels bytes" in wrong
    profile = subprocess.run([str(program), str(path), "--profile"], check=True, capture_output=True, text=True).stdout
    assert len(profile.splitlines()) == len(load(path).operators()) + 1
    assert "bconv stage1.0.conv" in profile


class Guess(ctypes.Structure):
    _fields_ = (("index", ctypes.c_int32), ("share", ctypes.c_float))


def by_functions(library, path, image):
    """Contexts give the model's bits; mistakes have their codes."""
    lib = ctypes.CDLL(str(library))
    for function in ("ftbnn_load", "ftbnn_context_new"):
        getattr(lib, function).restype = ctypes.c_void_p
    lib.ftbnn_error.restype = ctypes.c_char_p
    assert lib.ftbnn_error_code() == 0
    assert not lib.ftbnn_load(b"/nothing/here", 1)
    assert lib.ftbnn_error_code() == 2
    assert not lib.ftbnn_load(__file__.encode(), 1)
    assert lib.ftbnn_error_code() == 3
    model = ctypes.c_void_p(lib.ftbnn_load(str(path).encode(), 1))
    context = ctypes.c_void_p(lib.ftbnn_context_new(model))
    pixels, scores = image.tobytes(), [(ctypes.c_float * 10)() for _ in range(2)]
    assert lib.ftbnn_run_u8(model, pixels, 1, scores[0]) == 0
    assert lib.ftbnn_context_run_u8(context, pixels, 1, scores[1]) == 0
    assert bytes(scores[0]) == bytes(scores[1])
    assert lib.ftbnn_context_run_u8(context, pixels, 0, scores[1]) == 1
    assert lib.ftbnn_context_run_u8(None, pixels, 1, scores[1]) == 1
    guesses = (Guess * 10)()
    assert lib.ftbnn_top((ctypes.c_float * 4)(1, 3, 3, 2), 4, guesses, 4) == 0
    assert [guess.index for guess in guesses[:4]] == [1, 2, 3, 0]
    assert sum(guess.share for guess in guesses[:4]) == pytest.approx(1)
    for wrong in (0, 5):
        assert lib.ftbnn_top((ctypes.c_float * 4)(), 4, guesses, wrong) == 1
    assert lib.ftbnn_top((ctypes.c_float * 2)(float("nan")), 2, guesses, 1) == 1
    assert b"not finite" in lib.ftbnn_error()
    lib.ftbnn_context_free(context)
    lib.ftbnn_free(model)


def from_memory(library, data):
    """ftbnn_load_bytes: a whole file, and half of it."""
    lib = ctypes.CDLL(str(library))
    lib.ftbnn_load_bytes.restype = ctypes.c_void_p
    lib.ftbnn_error.restype = ctypes.c_char_p
    load_bytes = lib.ftbnn_load_bytes
    model = load_bytes(data, ctypes.c_size_t(len(data)), 1)
    assert model
    image = (ctypes.c_float * 64)(float("nan"))
    assert lib.ftbnn_run(ctypes.c_void_p(model), image, 1, (ctypes.c_float * 10)()) != 0
    assert b"not finite" in lib.ftbnn_error()
    lib.ftbnn_free(ctypes.c_void_p(model))
    assert not load_bytes(data, ctypes.c_size_t(len(data) // 2), 1)
    assert b"bytes, its header says" in lib.ftbnn_error()
    assert not load_bytes(data, ctypes.c_size_t(len(data)), 10**6)
    assert b"threads must be 1 to 1024" in lib.ftbnn_error()


def test_a_rounded_stem_from_the_command_to_the_zoo(tmp_path, capsys):
    """`--stem-bits` is the network's: in its record, its file and its card, and whoever goes on from them has it."""
    run, path = tmp_path / "run", tmp_path / "digits.ftbnn"
    short = ["--width", "8", "--stem-bits", "8", "--set", "epochs=1", "--threads", "1"]
    assert main(["train", "ftbnn18", *short, "--out", str(run)]) == 0
    assert main(["export", str(run), "-o", str(path)]) == 0
    capsys.readouterr()
    assert main(["inspect", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["operators"][0]["weight_bits"] == 8
    scores = []
    for what in ([str(run)], [str(path), "--data", "digits"]):
        assert main(["eval", *what, "--json"]) == 0
        scores.append(json.loads(capsys.readouterr().out)["test_top1"])
    assert scores[0] == pytest.approx(scores[1], abs=0.5)
    card = ship.ship(run, "rounded", None, tmp_path)
    assert card["stem_bits"] == 8
    assert "--stem-bits 8" in card["commands"][0]
    for start in (run, path):
        again = tmp_path / f"from-{start.stem}"
        assert main(["train", "ftbnn18", *short, "--init", str(start), "--out", str(again)]) == 0
    capsys.readouterr()
    assert main(["train", "ftbnn18", "--width", "8", "--init", str(path), "--out", str(tmp_path / "other")]) == 2
    assert "another network, or stem" in capsys.readouterr().err
