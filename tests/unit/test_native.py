"""What the core says of the machine, and which kernels a set of features leads to."""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ftbnn
from ftbnn import _native
from ftbnn import _native_tests as native

STUBS = Path(ftbnn.__file__).parent / "_native"
KNOWN = _native.capabilities()
AVX2 = ["popcnt", "fma", "f16c", "bmi1", "bmi2", "avx2"]
AVX512 = [*AVX2, "avx512f", "avx512dq", "avx512bw", "avx512vl"]


def in_use(isa):
    code = "from ftbnn import _native; print(_native.capabilities()['isa'])"
    return subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"FTBNN_ISA": isa}, capture_output=True, text=True, check=False
    )


def test_portable_runs_everywhere_and_is_the_last_choice():
    assert KNOWN["isas"][-1] == KNOWN["engine_isas"][-1] == "portable"
    assert KNOWN["cpu"]
    assert set(KNOWN["features"]) >= ({"avx2", "fma"} if "avx2" in KNOWN["isas"] else set())


def test_every_isa_of_this_cpu_can_be_forced():
    for isa in KNOWN["isas"]:
        assert in_use(isa).stdout.strip() == isa
    assert in_use("").stdout.strip() == KNOWN["isas"][0]


def test_emulated_tiles_are_used_only_by_name():
    assert "amx_emulated" not in KNOWN["isas"]
    result = in_use("amx_emulated")
    if "avx512" in KNOWN["isas"]:
        assert result.stdout.strip() == "amx_emulated"
    else:
        assert result.returncode != 0


def test_a_wrong_isa_is_refused_with_the_valid_ones():
    result = in_use("sse9")
    assert result.returncode != 0
    valid = "amx, avx512bf16, avx512, avx2, dotprod, neon, portable"
    assert f"FTBNN_ISA=sse9 is not an ISA; choose one of {valid}" in result.stderr


def test_features_are_a_part_of_what_the_kernel_reports():
    flags = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), "")
    if flags:
        assert set(KNOWN["features"]) <= set(flags.split())


def test_an_isa_takes_features_away_and_adds_none(monkeypatch):
    monkeypatch.setenv("FTBNN_ISA", "portable")
    forced = _native.capabilities()
    assert forced["isa"] == "portable"
    assert forced["kernels"] | {"stem": "none"} == dict.fromkeys(forced["kernels"], "portable") | {"stem": "none"}
    assert forced["training"] == {"faster": False, "bytes": False}


@pytest.mark.skipif("conv" not in native.chosen(AVX2) or native.chosen(AVX2)["conv"] != "avx2", reason="not x86-64")
@pytest.mark.parametrize(
    ("features", "rows"),
    [
        ([], {"conv": "portable", "bconv": "portable", "byte_gradients": "portable"}),
        (AVX2[:-1], {"conv": "portable"}),
        (AVX2, {"conv": "avx2", "bconv": "avx2 nibbles", "gradients": "avx2", "byte_gradients": "avx2"}),
        # Skylake-X and Cascade Lake add bits, or count them by tables, and keep the rest.
        (AVX512, {"conv": "avx512", "bconv": "avx512 adders", "gradients": "avx512", "byte_gradients": "avx512"}),
        ([*AVX512, "avx512_vnni"], {"bconv": "avx512 adders", "stem": "avx512vnni", "byte_gradients": "avx512vnni"}),
        ([*AVX2, "avx_vnni"], {"conv": "avx2", "stem": "avxvnni", "byte_gradients": "avxvnni"}),
        ([*AVX512, "avx512_vpopcntdq"], {"bconv": "avx512", "stem": "none"}),
        ([*AVX512, "avx512_bf16"], {"gradients": "avx512bf16"}),
        ([*AVX512, "amx_tile", "amx_int8"], {"bconv": "amx", "stem": "amx", "gradients": "avx512"}),
        ([*AVX512, "avx512_bf16", "amx_tile", "amx_bf16"], {"gradients": "amx", "stem": "none"}),
    ],
)
def test_the_first_row_whose_features_are_there_is_used(features, rows):
    chosen = native.chosen(features)
    assert {family: chosen[family] for family in rows} == rows


@pytest.mark.skipif(native.chosen(["asimd"])["conv"] != "neon", reason="not aarch64")
@pytest.mark.parametrize(
    ("features", "rows"),
    [
        ([], {"conv": "portable", "bconv": "portable", "between": "portable", "stem": "portable"}),
        (["asimd"], {"conv": "neon", "bconv": "neon", "between": "neon", "gradients": "neon", "stem": "none"}),
        (["asimd", "asimddp"], {"conv": "neon", "bconv": "neon", "stem": "dotprod", "byte_gradients": "portable"}),
    ],
)
def test_the_same_of_arm(features, rows):
    chosen = native.chosen(features)
    assert {family: chosen[family] for family in rows} == rows


@pytest.mark.skipif(platform.machine() != "aarch64", reason="not aarch64")
def test_cores_of_arm_have_names():
    kind = r"[\w-]+ \(implementer 0x\w{2}, part 0x\w{3}\)"
    assert re.fullmatch(rf"{kind}( \+ {kind})*", KNOWN["cpu"])
    emulated = os.environ.get("CPU", "max")  # as `make test-arm` says it to qemu
    assert KNOWN["cpu"].lower().startswith(emulated if emulated != "max" else "")


@pytest.mark.parametrize("isa", KNOWN["isas"])
@pytest.mark.parametrize("binary", [True, False])
def test_every_isa_but_portable_has_a_roof_for_both_kinds_of_kernels(isa, binary):
    roof = _native.bench.roof(isa, binary)
    assert (roof is None) == (isa == "portable")
    assert roof is None or roof[1] > 0


def test_tasks_that_fail_end_the_others():
    assert native.run_tasks(3, 100, 0) == 100
    with pytest.raises(MemoryError):
        native.run_tasks(3, 100, 7)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\x1b[31m", "two\\x0alines\\x1b[31m"),
        ("größe 畳", "größe 畳"),
        ("c1 \u0085 control", "c1 \\x85 control"),
        ("x" * 100, "x" * 37 + "..."),
        ("畳" * 30, "畳" * 13 + "..."),
    ],
)
def test_text_from_a_file_is_one_short_line(text, shown):
    assert native.shown(text, 40) == shown


def test_the_stubs_are_what_stubgen_writes(tmp_path):
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-r", "-m", "ftbnn._native", "-O", str(tmp_path)]
    subprocess.run(command, check=True)
    written = {path.name: path.read_text() for path in (tmp_path / "_native").iterdir()}
    kept = {path.name: path.read_text() for path in STUBS.glob("*.pyi")}
    assert written == kept, f"run: python -m nanobind.stubgen -r -m ftbnn._native -O {STUBS.parent}"
