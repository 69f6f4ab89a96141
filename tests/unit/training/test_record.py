import errno
import json

import pytest
import torch

from ftbnn.errors import UserError
from ftbnn.models import build
from ftbnn.nn.layer import records
from ftbnn.training.diagnose import explain, first_bad_layer, first_bad_number
from ftbnn.training.record import Flips, Recorder, read


def test_rows_after_the_resumed_step_are_dropped(tmp_path):
    recorder = Recorder(tmp_path)
    for step in (1, 2, 3):
        recorder.write({"kind": "step", "step": step, "loss": 0.5, "flips": {"a": 0.1}})
    recorder.close()
    recorder = Recorder(tmp_path, after_step=2)
    recorder.write({"kind": "step", "step": 3, "loss": 0.25})
    recorder.close()
    assert [(r["step"], r["loss"]) for r in read(tmp_path / "metrics.jsonl")] == [(1, 0.5), (2, 0.5), (3, 0.25)]
    assert any((tmp_path / "tensorboard").iterdir())


def test_a_line_cut_off_by_a_crash_is_left_out(tmp_path):
    path = tmp_path / "metrics.jsonl"
    row = {"kind": "step", "step": 1}
    path.write_text(json.dumps(row) + '\n{"step": 2, "lo')
    assert read(path) == [row]
    for broken in ('{"step": 2, "lo', "null", "{}"):
        path.write_text(f"{broken}\n{json.dumps(row)}\n")
        with pytest.raises(UserError, match="line 1"):
            read(path)


def test_an_epoch_that_will_be_finished_again_has_one_row(tmp_path):
    recorder = Recorder(tmp_path)
    recorder.write({"kind": "epoch", "step": 10, "epoch": 0})
    recorder.write({"kind": "epoch", "step": 20, "epoch": 1})
    recorder.close()
    Recorder(tmp_path, after_step=20, epochs=1).close()
    assert [row["epoch"] for row in read(tmp_path / "metrics.jsonl")] == [0]


def test_a_full_disk_ends_the_board_not_the_training(tmp_path):
    recorder = Recorder(tmp_path)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    recorder.board.add_scalar = full
    with pytest.warns(UserWarning, match="No space left"):
        recorder.write({"kind": "step", "step": 1, "loss": 0.5})
    recorder.write({"kind": "step", "step": 2, "loss": 0.5})
    recorder.close()
    assert [row["step"] for row in read(tmp_path / "metrics.jsonl")] == [1, 2]


def test_flip_ratio_counts_changed_signs():
    network = build("ftbnn-d18-g3-v5", classes=3)
    flips = Flips(network)
    conv = network.stage1[1].conv
    before = {k: v.clone() for k, v in flips.state().items()}
    with torch.no_grad():
        conv.weight.flatten()[:10] *= -1
        conv.weight.flatten()[10:20] *= 2
    ratios = flips.ratios()
    total = sum(p.numel() for p in conv.parameters())
    assert ratios["stage1.1.conv"] == pytest.approx(10 / total)
    assert sum(ratios.values()) == ratios["stage1.1.conv"]
    assert flips.ratios()["stage1.1.conv"] == 0
    flips.restore(before)
    assert flips.ratios()["stage1.1.conv"] == pytest.approx(10 / total)


def test_records_are_statistics_of_the_slopes():
    network = build("ftbnn18", width=4, classes=3)
    network.stage1[0].act.left.data = torch.tensor([0.0, 1.0, 2.0, 5.0])
    row = records(network)["stage1.0.act"]
    assert (row["left_mean"], row["left_min"], row["left_max"]) == (2.0, 0.0, 5.0)
    assert (row["right_mean"], row["right_min"]) == (1.0, 1.0)
    assert len(records(network)) == 12


def test_the_first_bad_layer_is_named():
    network, images = build("ftbnn18", width=4, classes=3), torch.randn(2, 3, 64, 64)
    assert "still finite" in first_bad_layer(network, images)
    assert "images" in first_bad_layer(network, images * float("nan"))
    network.stage2[1].norm.weight.data.fill_(1e38)
    assert first_bad_layer(network.eval(), images) == "layer stage2.1.norm was the first to go non-finite"
    network.fc.bias.data[0] = float("inf")
    assert first_bad_layer(network, images) == "fc.bias is not finite"


def test_the_advice_knows_the_all_relu_network_and_bad_data():
    images = torch.randn(2, 3, 64, 64)
    assert "all-ReLU needs lr 0.00015" in explain(build("ftbnn18-relu", width=4), images)[1]
    assert "lower rate" in explain(build("ftbnn18", width=4), images)[1]
    network = build("ftbnn18", width=4)
    network.train()(images * float("nan"))  # as the step has done: the statistics are no numbers now
    assert "look at the data" in explain(network, images * float("nan"))[1]


def test_one_bad_number_is_found_by_name():
    network = build("ftbnn18", width=4, classes=3)
    assert first_bad_number(network) is None
    network.stage1[0].norm.running_var[0] = float("inf")
    assert first_bad_number(network) == "stage1.0.norm.running_var"
