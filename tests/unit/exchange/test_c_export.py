"""Networks as C: compiled as a user would, and compared with the engine's portable kernels bit for bit."""

import ctypes
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from c_graphs import random_file
from export_networks import build_small, randomise, small_networks

import ftbnn
from ftbnn import zoo
from ftbnn.cli.main import main
from ftbnn.errors import UserError
from ftbnn.exchange import c_calls
from ftbnn.exchange.c_export import export_c, footprint
from ftbnn.nn import BConv, RoundedConv2d, Sign
from ftbnn.packing import pack
from ftbnn.packing.graph import MaxPool
from ftbnn.runtime import load

ROOT = Path(__file__).parents[3]
STRICT = ["-std=c99", "-ffp-contract=off", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
SANITIZED = ["-fsanitize=undefined,address", "-fno-sanitize-recover=all", "-g"]
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
WORD_BITS = (32, 64)
# What GCC itself asks for, of any shared library.
OF_THE_COMPILER = {"memcpy", "memset", "__cxa_finalize", "__gmon_start__", "__stack_chk_fail"}
OF_THE_COMPILER |= {"_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable"}


def compile_check(folder, *flags, gcc="gcc", name="check"):
    """The folder's program that checks itself."""
    program = folder / name
    sources = [str(folder / file) for file in ("model.c", "main.c")]
    subprocess.run([gcc, *STRICT, *flags, *sources, "-o", str(program)], check=True)
    return program


def check(program, *before):
    found = subprocess.run([*before, str(program)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.startswith("ok: ")


class Compiled:
    """The exported network as a shared library."""

    def __init__(self, folder, bits):
        library = folder / f"model{bits}.so"
        flags = [*STRICT, "-O1", f"-DFTBNN_WORD_BITS={bits}", "-shared", "-fPIC"]
        subprocess.run(["gcc", *flags, str(folder / "model.c"), "-o", str(library)], check=True)
        self.library = ctypes.CDLL(str(library))
        names = subprocess.run(["nm", "-D", "-u", str(library)], check=True, capture_output=True, text=True).stdout
        needed = {name.partition("@")[0] for name in names.split() if name not in ("U", "w")}
        assert needed <= OF_THE_COMPILER, "something is allocated, or a library is needed"

    def __call__(self, images, outputs):
        run = self.library.model_run if images.dtype == np.uint8 else self.library.model_run_f32
        scores = np.empty((len(images), outputs), np.float32)
        for image, row in zip(images, scores, strict=True):
            run(np.ascontiguousarray(image).ctypes.data_as(ctypes.c_void_p), row.ctypes.data_as(ctypes.c_void_p))
        return scores


def assert_same_bits(file, folder, sizes=WORD_BITS):
    export_c(file, folder)
    model, rng = load(file, isa="portable", threads=1), np.random.default_rng(1)
    channels, height, width = model.input_shape
    bytes_in = rng.integers(0, 256, (3, height, width, channels), np.uint8)
    floats_in = rng.normal(size=(3, channels, height, width)).astype(np.float32)
    for bits in sizes:
        compiled = Compiled(folder, bits)
        for images in (bytes_in, floats_in):
            expected = model(images)
            found = compiled(images, expected.shape[1])
            assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))


@needs_gcc
@pytest.mark.parametrize("name", zoo.names())
def test_every_network_of_the_zoo_checks_itself(name, tmp_path):
    export_c(zoo.resolve(f"zoo:{name}"), tmp_path)
    for bits in WORD_BITS:
        check(compile_check(tmp_path, "-O1", f"-DFTBNN_WORD_BITS={bits}"))


@needs_gcc
@pytest.mark.parametrize("seed", range(50))
def test_random_networks_give_the_same_bits(seed, tmp_path):
    file = tmp_path / "random.ftbnn"
    file.write_bytes(random_file(seed))
    one, other = WORD_BITS if seed % 2 else WORD_BITS[::-1]
    assert_same_bits(file, tmp_path, [one])
    check(compile_check(tmp_path, f"-DFTBNN_WORD_BITS={other}", *SANITIZED))


@needs_gcc
@pytest.mark.parametrize(("name", "stem"), small_networks())
def test_networks_of_the_registry_give_the_same_bits(name, stem, tmp_path):
    torch.manual_seed(0)
    network, x = build_small(name, stem)
    file = tmp_path / "small.ftbnn"
    pack(randomise(network).float(), x.float(), file)
    assert_same_bits(file, tmp_path, [64])


def binary_network():
    """Nobody reads a real number between its image and its scores: a sign, binary convolutions, pools, BatchNorms."""
    torch.manual_seed(0)
    layers = []
    for inputs, outputs in ((3, 16), (16, 24), (24, 10)):
        layers += [BConv(inputs, outputs, 3, input=Sign()), torch.nn.BatchNorm2d(outputs)]
    layers[2:2] = [torch.nn.MaxPool2d(2)]
    return randomise(torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())).eval()


@needs_gcc
def test_what_only_signs_read_is_whole_numbers(tmp_path):
    file = tmp_path / "binary.ftbnn"
    pack(binary_network(), torch.randn(1, 3, 12, 12), file, mean=[0.5] * 3, std=[0.2] * 3)
    took = footprint(file)
    rows = {row["kind"] + row["path"]: row for row in took.rows}
    for name in ("input", "bconv0", "bconv3"):
        assert rows[name]["kept_as"] == "bits"
        assert rows[name]["float_operations"] == 0
    assert rows["bconv5"]["kept_as"] == "floats"
    assert took.float_operations == sum(row["float_operations"] for row in took.rows) > 0
    assert_same_bits(file, tmp_path)
    assert "ftbnn_max_pool_codes" in (tmp_path / "model.c").read_text()


def whole_network(channels, bits):
    """A rounded stem, binary convolutions, pools, BatchNorms, and a binary layer that gives the scores."""
    torch.manual_seed(0)
    layers = [RoundedConv2d(channels, 16, 3, padding=1, bits=bits), torch.nn.BatchNorm2d(16), torch.nn.Hardtanh()]
    for inputs, outputs in ((16, 24), (24, 10)):
        layers += [BConv(inputs, outputs, 3, input=Sign()), torch.nn.BatchNorm2d(outputs)]
    layers[3:3] = [torch.nn.MaxPool2d(2)]
    return randomise(torch.nn.Sequential(*layers, torch.nn.Flatten())).eval()


@needs_gcc
@pytest.mark.parametrize(("channels", "std", "bits"), [(1, [0.3], 8), (3, [0.25] * 3, 8), (1, [0.3], 16)])
def test_with_a_rounded_stem_a_network_is_whole_numbers(channels, std, bits, tmp_path):
    """From pixels to the last sums; what remains is what makes scores of these: converted, scaled, shifted."""
    file = tmp_path / "whole.ftbnn"
    pack(whole_network(channels, bits), torch.randn(1, channels, 8, 8), file, mean=[0.4] * channels, std=std)
    took, scores = footprint(file), 160
    if bits == 8:  # sums of 16 bits go beyond what float32 counts
        assert took.float_operations == 3 * scores
        assert all(row["kept_as"] == "bits" for row in took.rows[1:-2])
    assert took.whole_operations > 0
    assert_same_bits(file, tmp_path)
    assert ("ftbnn_stem_codes(" in (tmp_path / "model.c").read_text()) == (bits == 8)


@needs_gcc
def test_channels_that_are_scaled_differently_take_a_sum_each(tmp_path):
    file = tmp_path / "whole.ftbnn"
    pack(whole_network(3, 8), torch.randn(1, 3, 8, 8), file, mean=[0.4, 0.5, 0.6], std=[0.2, 0.25, 0.3])
    assert_same_bits(file, tmp_path)
    assert "ftbnn_stem(" in (tmp_path / "model.c").read_text()


@needs_gcc
def test_nothing_is_allocated_and_no_library_is_needed(tmp_path):
    export_c(zoo.resolve("zoo:digits"), tmp_path)
    subprocess.run(["gcc", *STRICT, "-O2", "-c", "model.c"], check=True, cwd=tmp_path)
    names = subprocess.run(["nm", "-u", "model.o"], check=True, cwd=tmp_path, capture_output=True, text=True).stdout
    assert {name for name in names.split() if name != "U"} <= {"memcpy", "memset", "_GLOBAL_OFFSET_TABLE_"}


# Where the tools are: Debian's packages, an extra flag for each compiler, and what runs its programs.
CROSS = {
    "arm-linux-gnueabihf-gcc": ("gcc-arm-linux-gnueabihf libc6-dev-armhf-cross qemu-user", "qemu-arm"),
    "riscv64-linux-gnu-gcc": ("gcc-riscv64-linux-gnu libc6-dev-riscv64-cross qemu-user", "qemu-riscv64"),
}


def require(tools, packages):
    if missing := [tool for tool in tools if shutil.which(tool) is None]:
        pytest.skip(f"{', '.join(missing)} not installed (Debian: {packages})")


@pytest.mark.parametrize("compiler", CROSS)
def test_other_processors_give_the_same_bits(compiler, tmp_path):
    packages, emulator = CROSS[compiler]
    require((compiler, emulator), packages)
    export_c(zoo.resolve("zoo:digits"), tmp_path)
    check(compile_check(tmp_path, "-O2", "-static", gcc=compiler), emulator)


CORES = {
    "cortex-m3": ("mps2-an385", ()),  # no FPU
    "cortex-m4": ("mps2-an386", ("-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")),
    "cortex-m7": ("mps2-an500", ("-mfloat-abi=hard", "-mfpu=fpv5-d16")),
}


@pytest.mark.parametrize("name", ["digits", "digits-small", "mnist"])
@pytest.mark.parametrize("core", CORES)
def test_cortex_m_with_256_kb_of_flash_and_64_kb_of_ram(core, name, tmp_path):
    """Linked for such a part, test images and printf too, and run in QEMU."""
    export_c(zoo.resolve(f"zoo:{name}"), tmp_path)
    check_on(core, tmp_path)


def test_whole_numbers_on_a_part_without_fpu(tmp_path):
    pack(whole_network(1, 8), torch.randn(1, 1, 8, 8), tmp_path / "whole.ftbnn", mean=[0.4], std=[0.3])
    export_c(tmp_path / "whole.ftbnn", tmp_path)
    check_on("cortex-m3", tmp_path)


def check_on(core, tmp_path):
    require(("arm-none-eabi-gcc", "qemu-system-arm"), "gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm")
    board, flags = CORES[core]
    example = ROOT / "native/examples/cortex-m"
    newlib = ["--specs=nano.specs", "--specs=rdimon.specs", "-nostartfiles", "-T", str(example / "small.ld")]
    cpu = [f"-mcpu={core}", "-mthumb", *flags, "-Os", str(example / "startup.c")]
    program = compile_check(tmp_path, *cpu, *newlib, gcc="arm-none-eabi-gcc", name="check.elf")
    machine = ["-M", board, "-nographic", "-monitor", "none", "-serial", "none"]
    check(program, "qemu-system-arm", *machine, "-semihosting-config", "enable=on,target=native", "-kernel")


def test_an_operator_that_c_has_not_is_named(tmp_path, monkeypatch):
    monkeypatch.delitem(c_calls.CALLS, MaxPool)
    pack(torch.nn.Sequential(torch.nn.MaxPool2d(2)), torch.randn(1, 1, 4, 4), tmp_path / "pool.ftbnn")
    with pytest.raises(UserError, match="cannot write 0 as C: there is no max-pool"):
        export_c(tmp_path / "pool.ftbnn", tmp_path)


@pytest.mark.parametrize("name", ["main", "Model", "1st", "a b", "ftbnn_bits", "int", "x" * 60, "a;b", "math", "stdio"])
def test_names_that_c_cannot_have(name, tmp_path):
    with pytest.raises(UserError, match="a name is"):
        export_c(zoo.resolve("zoo:digits"), tmp_path, name)


@needs_gcc
def test_texts_of_a_file_do_no_harm(tmp_path):
    names = ['quo"te', "back\\slash", "tri??/graph", "new\nline", "*/ int x; /*", "ünï"]
    file = tmp_path / "texts.ftbnn"
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, len(names)))
    pack(network, torch.randn(1, 1, 2, 2), file, class_names=names, name="*/ int y; /* \\\n??/")
    assert_same_bits(file, tmp_path)
    library = Compiled(tmp_path, 64).library
    found = (ctypes.c_char_p * len(names)).in_dll(library, "model_class_names")
    assert [text.decode() for text in found] == names


def test_the_command_line(tmp_path, capsys):
    assert main(["export", "zoo:digits", "--format", "c", "-o", str(tmp_path / "c"), "--name", "digits", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert {"digits.c", "digits.h", "main.c", "CMakeLists.txt", "test_vector.h"} <= set(made["files"])
    assert main(["inspect", "zoo:digits", "--mcu", "--json"]) == 0
    took = json.loads(capsys.readouterr().out)
    assert took == made["footprint"]
    assert f"DIGITS_ARENA_BYTES {took['arena_bytes']}\n" in (tmp_path / "c/digits.h").read_text()
    assert main(["inspect", "zoo:digits", "--mcu"]) == 0
    assert "RAM: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["export", "zoo:digits", "--format", "c"], "into which folder"),
        (["export", "zoo:nothing", "--format", "c", "-o", "x"], "unknown zoo network"),
        (["export", "none.ftbnn", "--format", "c", "-o", "x"], "cannot read none.ftbnn"),
        (["export", "zoo:digits", "--format", "c", "-o", "/proc/none"], "cannot write into"),
        (["export", "zoo:digits", "--format", "c", "-o", "x", "--name", "A"], "a name is"),
        (["inspect", "zoo:digits", "--mcu", "--profile"], "give one of them"),
    ],
)
def test_mistakes_are_one_line(argv, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err


@needs_gcc
def test_networks_in_python_are_exported_too(tmp_path):
    network = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 3))
    made = ftbnn.export_c(network, tmp_path, image_size=(1, 8, 8), mean=0.5, std=0.25)
    assert made.footprint.binary_operations == 0
    check(compile_check(tmp_path))
    with pytest.raises(UserError, match="export_c"):
        ftbnn.export(network, tmp_path / "x", image_size=(1, 8, 8), mean=0.5, std=0.25, format="c")


@needs_gcc
def test_a_wrong_bit_is_noticed(tmp_path):
    export_c(zoo.resolve("zoo:digits-small"), tmp_path)
    source = (tmp_path / "model.c").read_text()
    before = re.search(r"FTBNN_HALF\(0x([0-9a-f])", source)
    (tmp_path / "model.c").write_text(
        source[: before.start(1)] + f"{int(before[1], 16) ^ 7:x}" + source[before.end(1) :]
    )
    found = subprocess.run([compile_check(tmp_path)], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "scores differ" in found.stdout


def test_the_form_of_an_image_size_is_told(tmp_path):
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
    with pytest.raises(
        ftbnn.UserError, match=r"image_size is \(channels, height, width\), as \(3, 224, 224\), not 224"
    ):
        ftbnn.export(net, tmp_path / "n.ftbnn", image_size=224, mean=0.0, std=1.0)
