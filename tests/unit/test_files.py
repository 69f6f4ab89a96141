import subprocess
import sys

import pytest

from ftbnn.errors import UserError
from ftbnn.files import locked

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
