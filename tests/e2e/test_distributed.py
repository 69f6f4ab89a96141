"""Two gloo processes under torchrun: one network, each image once, and a death that is survived."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

from ftbnn.data.batches import derive_seed
from ftbnn.machine import capabilities
from ftbnn.training.record import read

PROBES = ("ddp", "backends", "sick", "settle")
PROBE, BACKENDS, SICK, SETTLE = (Path(__file__).parent / f"probe_{name}.py" for name in PROBES)
FLOAT_ISAS = ("avx512", "avx2", "portable")  # gradients in float32
FLOAT_ISA = next(isa for isa in FLOAT_ISAS if isa in capabilities()["isas"])
BACKENDS_TOLERANCE = 1e-6  # of parameters up to 1 that moved by up to 3e-2: float32's rounding, three steps of it


def torchrun(*argv, **environment):
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *map(str, argv)],
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def launch(out, die_at, restarts):
    out.mkdir()
    return torchrun("--max-restarts", restarts, PROBE, out, die_at)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("ddp") / "undisturbed"
    result = launch(out, die_at=-1, restarts=0)
    assert result.returncode == 0, result.stderr
    return out


def parameters(out, rank):
    state = torch.load(out / f"weights{rank}.pt", weights_only=True)
    return {name: tensor for name, tensor in state.items() if "running" not in name and "tracked" not in name}


def test_all_processes_keep_the_same_parameters(undisturbed):
    first, second = parameters(undisturbed, 0), parameters(undisturbed, 1)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_each_image_is_seen_once_per_epoch(undisturbed):
    seen = Counter(line for rank in (0, 1) for line in (undisturbed / f"seen{rank}.0").read_text().split())
    assert seen == Counter({str(k): 2 for k in range(61)})


def test_metrics_are_of_all_processes_and_written_once(undisturbed):
    rows = [row for row in read(undisturbed / "run" / "metrics.jsonl") if row["kind"] == "epoch"]
    assert [row["epoch"] for row in rows] == [0, 1]
    assert all((row["val_top1"] / 100 * 7) % 1 == pytest.approx(0, abs=1e-6) for row in rows)


def test_the_steps_of_a_multi_step_recipe_follow_each_other(tmp_path):
    train = ["train", "ftbnn18", "--width", "4", "--recipe", "multi-step-digits", "--set", "epochs=1", "--threads", "1"]
    options = ["--set", "kl=0", "--set", "attention=0", "--out", str(tmp_path / "run"), "--json"]
    result = torchrun("-m", "ftbnn", *train, *options)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["epoch"] == 1, "one process speaks for all"
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["step0", "step1", "step2"]


def test_the_death_of_a_worker_is_survived_and_changes_nothing(undisturbed, tmp_path):
    out = tmp_path / "disturbed"
    result = launch(out, die_at=40, restarts=2)
    assert result.returncode == 0, result.stderr
    assert (out / "died").exists()
    ours, theirs = parameters(out, 0), parameters(undisturbed, 0)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_statistics_that_are_no_numbers_in_one_process_end_all_of_them(tmp_path):
    """Nobody waits for the one that noticed."""
    result = torchrun(SICK, tmp_path)
    assert result.returncode == 0, result.stderr
    ends = [(tmp_path / f"end{rank}").read_text() for rank in (0, 1)]
    assert ends == ["1.running_mean is not finite at epoch 1, after step 2"] * 2
    assert not (tmp_path / "run" / "best.pt").exists()
    seeds = [int((tmp_path / f"seed{rank}").read_text()) for rank in (0, 1)]
    assert seeds == [derive_seed(0, "rank", rank) for rank in (0, 1)]
    assert not set(seeds) & {derive_seed(0, epoch) for epoch in range(100)}, "the order of no epoch is drawn from them"


def test_both_backends_end_with_the_same_parameters(tmp_path):
    """Accumulated gradients too; and two trainings one after the other in the same processes do not meet."""
    result = torchrun(BACKENDS, tmp_path, FTBNN_ISA=FLOAT_ISA)
    assert result.returncode == 0, result.stderr
    names = ("native0", "native1", "torch0")
    (start, native), (_, other), (_, plain) = (torch.load(tmp_path / f"{name}.pt") for name in names)
    for name in start:
        assert torch.equal(native[name], other[name]), name
        assert not torch.equal(native[name], start[name]), name
        assert (native[name] - plain[name]).abs().max() < BACKENDS_TOLERANCE, name


def test_statistics_taken_anew_are_of_the_images_of_all_processes(tmp_path):
    result = torchrun(SETTLE, tmp_path)
    assert result.returncode == 0, result.stderr
    for rank in (0, 1):
        torch.testing.assert_close(*torch.load(tmp_path / f"means{rank}.pt"))
