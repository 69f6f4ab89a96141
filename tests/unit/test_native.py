import os
import subprocess
import sys
from pathlib import Path

import ftbnn
from ftbnn import _native

STUBS = Path(ftbnn.__file__).parent / "_native"


def in_use(isa):
    code = "from ftbnn import _native; print(_native.isa_in_use())"
    return subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"FTBNN_ISA": isa}, capture_output=True, text=True, check=False
    )


def test_portable_runs_everywhere_and_is_the_last_choice():
    assert _native.isas()[-1] == "portable"
    assert _native.cpu_name()
    assert set(_native.cpu_features()) >= ({"avx2", "fma"} if "avx2" in _native.isas() else set())


def test_every_isa_of_this_cpu_can_be_forced():
    for isa in _native.isas():
        assert in_use(isa).stdout.strip() == isa
    assert in_use("").stdout.strip() == _native.isas()[0]


def test_emulated_tiles_are_used_only_by_name():
    assert "amx_emulated" not in _native.isas()
    result = in_use("amx_emulated")
    if "avx512" in _native.isas():
        assert result.stdout.strip() == "amx_emulated"
    else:
        assert result.returncode != 0


def test_a_wrong_isa_is_refused_with_the_valid_ones():
    result = in_use("sse9")
    assert result.returncode != 0
    assert "choose one of amx, avx512bf16, avx512, avx2, portable" in result.stderr


def test_features_are_a_part_of_what_the_kernel_reports():
    flags = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), "")
    if flags:
        assert set(_native.cpu_features()) <= set(flags.split())


def test_the_stubs_are_what_stubgen_writes(tmp_path):
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-r", "-m", "ftbnn._native", "-O", str(tmp_path)]
    subprocess.run(command, check=True)
    written = {path.name: path.read_text() for path in (tmp_path / "_native").iterdir()}
    kept = {path.name: path.read_text() for path in STUBS.glob("*.pyi")}
    assert written == kept, f"run: python -m nanobind.stubgen -r -m ftbnn._native -O {STUBS.parent}"
