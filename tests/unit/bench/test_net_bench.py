import json
import sys

import pytest
import torch

from ftbnn import _native
from ftbnn.bench import onednn, peers
from ftbnn.bench.net import Comparison, compare, ratios
from ftbnn.bench.rounds import Contender, interleave
from ftbnn.cli.main import main
from ftbnn.models import build
from ftbnn.packing import pack

KEYS = ["name", "engine", "precision", "isa", "threads", "batch", "median_ms", "min_ms", "images_per_s"]
QUICK = ("--image-size", "32", "--width", "8", "--rounds", "1")


@pytest.fixture(autouse=True)
def _short_turns(monkeypatch):
    monkeypatch.setattr("ftbnn.bench.rounds.PAUSE_S", 0)
    monkeypatch.setattr("ftbnn.bench.rounds.TURN_S", 0.001)
    monkeypatch.setattr("ftbnn.bench.ours.FIRST_ANSWERS", 1)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def test_turns_are_interleaved_and_the_first_round_is_not_timed(monkeypatch):
    monkeypatch.setattr("ftbnn.bench.rounds.TURN_S", 0)
    monkeypatch.setattr("ftbnn.bench.rounds.TURN_CALLS", 2)
    calls = []
    both = [Contender(name, "ftbnn", "binary", "avx2", 1, 4, lambda name=name: calls.append(name)) for name in "ab"]
    monkeypatch.setattr("ftbnn.bench.rounds.turn", lambda call: [call() or 0.002, 0.004])
    rows = interleave(both, rounds=3)
    assert calls == list("ab" * 4)
    assert [row["min_ms"] for row in rows] == [2, 2]
    assert rows[0]["median_ms"] == pytest.approx(3)
    assert rows[0]["images_per_s"] == pytest.approx(4 / 0.003)


def test_json_rows(capsys):
    assert main(["bench", "net", "ftbnn18", *QUICK, "--threads", "1,2", "--batch", "2", "--json"]) == 0
    out, err = capsys.readouterr()
    rows = json.loads(out)
    assert all(list(row) == KEYS for row in rows)
    assert all(0 < row["min_ms"] <= row["median_ms"] for row in rows)
    kinds = [("ftbnn", "binary"), ("torch", "binary"), ("torch", "fp32")]
    for name in ("onnxruntime", "openvino"):
        if peers.version(name):
            kinds += [(name, "fp32"), (name, "int8")]
    if peers.version("openvino"):
        kinds.append(("openvino", "binary"))
    for cell in ((1, 2), (2, 2)):
        mine = [(r["engine"], r["precision"]) for r in rows if (r["threads"], r["batch"]) == cell]
        assert sorted(mine) == sorted(kinds)
    assert "random weights" in err
    assert "first answer" in err


def test_ratios():
    def row(name, engine, precision, threads, ms):
        times = {"median_ms": ms, "min_ms": ms / 2}
        return {
            "name": name,
            "engine": engine,
            "precision": precision,
            "isa": "",
            "threads": threads,
            "batch": 1,
        } | times

    rows = [
        row("a", "ftbnn", "binary", 1, 2.0),
        row("a", "ftbnn", "binary", 2, 1.0),
        row("r", "onnxruntime", "fp32", 1, 30.0),
        row("r", "openvino", "fp32", 1, 20.0),
        row("a", "torch", "binary", 1, 50.0),
        row("b", "openvino", "binary", 1, 1.0),
    ]
    one, two = ratios(rows)
    assert (one["fp32"], one["fp32_engine"], one["binary"], one["one_thread"]) == (10, "openvino", 25, 1)
    assert two == {"name": "a", "isa": "", "threads": 2, "batch": 1, "one_thread": 2}


def test_onednn_is_held_back_only_where_the_tiles_are_hidden(monkeypatch):
    monkeypatch.setenv(onednn.VARIABLE, "")  # so that whatever was there comes back
    monkeypatch.delenv(onednn.VARIABLE)
    monkeypatch.setattr(_native, "hides_tile_palette", lambda: False)
    assert onednn.protect() is None
    monkeypatch.setattr(_native, "hides_tile_palette", lambda: True)
    assert onednn.protect() == "AVX512_CORE_BF16"
    monkeypatch.setenv(onednn.VARIABLE, "AVX2")
    assert onednn.protect() == "AVX2"


def test_every_isa_in_one_run():
    isas = _native.capabilities()["engine_isas"]
    what = Comparison(["toy-relu"], peers=[], isas=isas, rounds=1)
    result = compare(what, lambda _: None)
    assert [row["isa"] for row in result.rows] == isas
    assert list(result.files[0]["first_answer_ms"]) == isas


def test_a_forced_isa_is_the_one_measured(monkeypatch):
    monkeypatch.setenv("FTBNN_ISA", "portable")
    result = compare(Comparison(["toy-relu"], peers=[], rounds=1), lambda _: None)
    assert result.rows[0]["isa"] == "portable"


def test_a_peer_that_is_not_installed_is_one_line(monkeypatch):
    monkeypatch.setattr(peers, "find_spec", lambda name: None if name == "openvino" else object())
    said = []
    result = compare(Comparison(["toy-relu"], (1, 2), peers=["openvino", "torch"], rounds=1), said.append)
    assert {row["engine"] for row in result.rows} == {"ftbnn", "torch"}
    assert [line for line in said if "openvino" in line] == [
        "openvino is left out: it is not installed (pip install openvino)"
    ]


def test_a_file_is_measured_beside_the_same_network(tmp_path, capsys):
    path = tmp_path / "mine.ftbnn"
    pack(build("ftbnn18-prelu", width=8, stem="small", classes=5).eval(), torch.zeros(1, 3, 16, 16), path, name="mine")
    assert main(["bench", "net", str(path), "--rounds", "1", "--peers", "torch"]) == 0
    out = capsys.readouterr().out
    assert [line.split()[:3] for line in out.splitlines()[2:4]] == [
        ["mine", "ftbnn", "binary"],
        ["mine", "torch", "binary"],
    ]
    assert "times the least" in out


def test_the_name_of_a_file_is_shown_on_one_safe_line(tmp_path, capsys):
    network, name = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2)), "a\x1b[31m\nb"
    pack(network, torch.zeros(1, 1, 2, 2), tmp_path / "x.ftbnn", name=name)
    assert main(["bench", "net", str(tmp_path / "x.ftbnn"), "--peers", "", "--rounds", "1"]) == 0
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert r"a\x1b[31m\nb" in out
    assert "1 round of 1 contender\n" in err


def test_two_of_one_name_are_two_networks(tmp_path):
    for width in (4, 8):
        network = build("ftbnn18", width=width, stem="small", classes=5).eval()
        pack(network, torch.zeros(1, 3, 16, 16), tmp_path / f"{width}.ftbnn", name="ftbnn18")
    names = [str(tmp_path / f"{width}.ftbnn") for width in (4, 8)]
    result = compare(Comparison(names, peers=["torch"], rounds=1), lambda _: None)
    assert {row["name"] for row in result.rows if row["precision"] == "binary"} == set(names)
    assert result.files[0]["size_bytes"] < result.files[1]["size_bytes"]


def test_report_and_picture(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["ftbnn", "bench", "net", "toy-relu"])
    folder, plot = tmp_path / "report", tmp_path / "bars.png"
    net = [
        "bench",
        "net",
        "toy-relu",
        "--peers",
        "torch",
        "--rounds",
        "1",
        "--plot",
        str(plot),
        "--report",
        str(folder),
    ]
    assert main(net) == 0
    assert plot.stat().st_size > 1000
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "net.json", "net.png"]
    report = json.loads((folder / "net.json").read_text())
    assert set(report) == {"command", "machine", "rows", "ratios", "files", "text"}
    text = (folder / "README.md").read_text()
    assert "`ftbnn bench net toy-relu`" in text
    assert _native.capabilities()["cpu"] in text
    capsys.readouterr()


@pytest.mark.parametrize(
    "wrong",
    [
        ["ftbn18"],
        ["missing.ftbnn"],
        ["ftbnn18", "--peers", "tvm"],
        ["ftbnn18", "--threads", "0"],
        ["ftbnn18", "--batch", "0"],
        ["ftbnn18", "--rounds", "0"],
        ["ftbnn18", "--image-size", "0"],
        ["ftbnn18", "--isa", "sse9"],
        ["ftbnn18", "--plot", "no/such/folder/bars.png"],
        ["ftbnn18", "--plot", "bars.foo"],
        ["ftbnn18", "toy-relu"],
        [],
        ["ftbnn18", "--paper"],
    ],
    ids=" ".join,
)
def test_mistakes_are_one_line(wrong, capsys):
    assert main(["bench", "net", *wrong]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("wrong", [[], ["nett"], ["net", "ftbnn18", "--threads", "one"]], ids=" ".join)
def test_wrong_usage_is_one_line(wrong, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["bench", *wrong])
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_peers_are_held_to_the_isa_that_is_measured(monkeypatch):
    monkeypatch.setenv(onednn.VARIABLE, "")
    monkeypatch.delenv(onednn.VARIABLE)
    assert onednn.protect(["avx2"]) == "AVX2"
    monkeypatch.delenv(onednn.VARIABLE)
    assert onednn.protect(["avx512", "avx2"]) != "AVX2"
