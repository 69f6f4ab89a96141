"""Every network that ships: its file is the one of its card, and runs without PyTorch."""

import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from ftbnn import zoo
from ftbnn.cli.main import main
from ftbnn.errors import UserError
from ftbnn.runtime import load
from ftbnn.workflows.deploy import evaluate_file

MOST_BYTES = 8_000_000  # of all files together: they lie in the repository and in every wheel


@pytest.mark.parametrize("name", zoo.names())
def test_the_card_tells_of_the_file(name):
    card, path = zoo.card(name), zoo.resolve(f"zoo:{name}")
    assert card["name"] == name
    assert card["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert card["size_bytes"] == path.stat().st_size
    assert abs(card["packed_top1"] - card["checkpoint_top1"]) <= 0.1
    assert card["commands"][0].startswith("ftbnn train ")
    assert ("best by test accuracy" in card["epoch"]) == (card["chosen_on_test"] == "epoch")
    assert card["test_images"] > 0
    assert card["budget"] == pytest.approx(card["flops"] + card["bops"] / 64, rel=1e-5)
    assert card["licence"]
    assert 0 < len(card["worst_classes"]) <= 3
    assert all(worst["class"] in card["classes"] and worst["top1"] < 100 for worst in card["worst_classes"])
    model = load(f"zoo:{name}")
    assert list(model.input_shape) == card["input"]
    assert model.class_names == card["classes"]
    assert np.isfinite(model(np.zeros(model.input_shape[1:], np.uint8))).all()


def test_the_zoo_is_small():
    assert sum(zoo.resolve(f"zoo:{name}").stat().st_size for name in zoo.names()) <= MOST_BYTES


def test_the_digits_are_as_accurate_as_their_card_says():
    scores = evaluate_file(zoo.resolve("zoo:digits"), "digits", None)
    assert scores["test_top1"] == pytest.approx(zoo.card("digits")["packed_top1"], abs=0.35)  # one image of 297


def test_it_needs_no_torch(tmp_path):
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / "x.png")
    code = "import sys; sys.modules['torch'] = None\nfrom ftbnn.cli.main import main; sys.exit(main(sys.argv[1:]))"
    for words in (["models", "--zoo"], ["predict", "zoo:digits", str(tmp_path / "x.png")], ["inspect", "zoo:digits"]):
        subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True)


def test_the_verbs_take_its_names(capsys):
    assert main(["models", "--zoo", "--json"]) == 0
    assert {card["name"] for card in json.loads(capsys.readouterr().out)} == set(zoo.names())
    assert main(["models", "--zoo", "digits"]) == 0
    assert "ftbnn train" in capsys.readouterr().out
    assert main(["eval", "zoo:digits", "--json"]) == 0, "the card knows the data"
    assert json.loads(capsys.readouterr().out)["data"] == "digits"
    for words in (["predict", "zoo:digit", "x.png"], ["models", "--zoo", "xyz"], ["inspect", "zoo:"]):
        assert main(words) == 2
        assert "unknown zoo network" in capsys.readouterr().err


def test_an_unknown_name_is_a_users_mistake():
    with pytest.raises(UserError, match="digits"):
        zoo.resolve("zoo:digit")


def test_a_card_is_renewed_from_the_file_alone(tmp_path, capsys):
    for suffix in (".json", ".ftbnn"):
        (tmp_path / f"digits{suffix}").write_bytes((zoo.FOLDER / f"digits{suffix}").read_bytes())
    told = ("flops", "bops", "budget", "worst_classes", "licence", "test_images", "latency_command")
    before = zoo.card("digits")
    older = {key: value for key, value in before.items() if key not in told} | {"val_images": 297}
    (tmp_path / "digits.json").write_text(json.dumps(older))
    words = ["export", "zoo:digits", "--zoo", "digits", "--zoo-dir", str(tmp_path)]
    assert main(words) == 0
    assert json.loads((tmp_path / "digits.json").read_text()) == before
    (tmp_path / "digits.json").write_text(json.dumps(older | {"packed_top1": 50.0}))
    for more, message in (([], "not the 50.00 % of its card"), (["--about", "x"], "without --about")):
        capsys.readouterr()
        assert main([*words, *more]) == 2
        assert message in capsys.readouterr().err
