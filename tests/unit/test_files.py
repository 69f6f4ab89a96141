import os
import subprocess
import sys

import pytest

from ftbnn.errors import UserError
from ftbnn.files import MAGIC, is_packed, locked, write_atomically

HOLD = """
import sys
from pathlib import Path
from ftbnn.files import locked
with locked(Path(sys.argv[1])) as is_ours:
    print(is_ours, flush=True)
    sys.stdin.read()
"""


def holder(path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"True\n"
    return process


@pytest.mark.parametrize("end", [subprocess.Popen.communicate, subprocess.Popen.kill], ids=["ends", "is killed"])
def test_a_lock_is_held_by_one_process_until_it(end, tmp_path):
    path = tmp_path / "made" / "lock"
    with holder(path) as process:
        with locked(path, wait=False) as is_ours:
            assert not is_ours
        end(process)
    with locked(path, wait=False) as is_ours:
        assert is_ours


def test_a_lock_that_cannot_be_made_says_why(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot work in"), locked(tmp_path / "file" / "lock"):
        pass


WRITE = """
import sys
from pathlib import Path
from ftbnn.files import write_atomically
for size in range(100):
    write_atomically(Path(sys.argv[1]), sys.argv[2].encode() * (1 + size % 7 * 1000))
"""


def test_writers_of_one_file_do_not_tear_it(tmp_path):
    path = tmp_path / "file"
    path.touch()
    writers = [subprocess.Popen([sys.executable, "-c", WRITE, str(path), letter]) for letter in "ab"]
    while any(writer.poll() is None for writer in writers):
        assert len(set(path.read_bytes())) <= 1
    assert [writer.returncode for writer in writers] == [0, 0]
    assert [it.name for it in tmp_path.iterdir()] == ["file"]


def test_what_an_old_crash_left_goes(tmp_path):
    old, young = (tmp_path / f".file.{name}.tmp" for name in ("old", "young"))
    for half in (old, young):
        half.touch()
    os.utime(old, (0, 0))
    write_atomically(tmp_path / "file", b"whole")
    assert young.exists()
    assert not old.exists()


def test_a_packed_file_is_known_by_its_first_bytes(tmp_path):
    for name, data in (
        ("net.bin", MAGIC + b"more"),
        ("net", MAGIC),
        ("damaged.ftbnn", b"else"),
        ("short.bin", MAGIC[:4]),
    ):
        (tmp_path / name).write_bytes(data)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "run.ftbnn").mkdir()
    for name in ("net.bin", "net", "damaged.ftbnn", "missing.ftbnn"):  # the last two: their reader says what is wrong
        assert is_packed(tmp_path / name), name
    for name in ("short.bin", "pipe", "run.ftbnn", "missing", "missing/" * 2000, "nu\0ll"):
        assert not is_packed(tmp_path / name), name
