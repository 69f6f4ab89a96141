import os
import subprocess
import sys
from pathlib import Path

import ftbnn
from ftbnn import _native

STUB = Path(ftbnn.__file__).parent / "_native.pyi"


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


def test_a_wrong_isa_is_refused_with_the_valid_ones():
    result = in_use("sse9")
    assert result.returncode != 0
    assert "choose one of amx, avx512, avx2, portable" in result.stderr


def test_features_are_a_part_of_what_the_kernel_reports():
    flags = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), "")
    if flags:
        assert set(_native.cpu_features()) <= set(flags.split())


def test_the_stub_is_what_stubgen_writes(tmp_path):
    out = tmp_path / "stub.pyi"
    subprocess.run([sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "ftbnn._native", "-o", str(out)], check=True)
    assert out.read_text() == STUB.read_text(), f"run: python -m nanobind.stubgen -m ftbnn._native -o {STUB}"
