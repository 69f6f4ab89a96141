import inspect
import json
from dataclasses import replace

import pytest

from ftbnn.errors import UserError
from ftbnn.training import RECIPES, Recipe, Steps, find, with_settings
from ftbnn.training.recipe import parse_settings
from ftbnn.training.recipes import for_data

ALL = [step for recipe in RECIPES.values() for step in (recipe.steps if isinstance(recipe, Steps) else (recipe,))]


def test_the_naive_recipe_is_the_papers():
    naive = find("naive")
    assert (naive.epochs, naive.lr, naive.batch_size, naive.schedule) == (60, 0.01, 256, "multi-step")
    assert [round(m * naive.epochs) for m in naive.milestones] == [45, 55]


def test_multi_step_goes_from_tanh_to_binary():
    steps = find("multi-step").steps
    assert [(s.activations, s.weights) for s in steps] == [("tanh", "real"), ("sign", "real"), ("sign", "binary")]
    assert [(s.ce, s.attention, s.kl) for s in steps] == [(1, 30, 3), (1, 30, 3), (1, 0, 0.8)]
    assert [s.epochs for s in steps[1:]] == [75, 75]


@pytest.mark.parametrize("recipe", ALL, ids=lambda r: r.name)
def test_every_recipe_survives_json(recipe):
    assert Recipe.from_json(json.loads(json.dumps(recipe.to_json()))) == recipe


def test_settings_are_read_as_their_type():
    changed = Recipe("x").changed(
        parse_settings(["lr=0.003", "epochs=30", "compile=true", "milestones=0.5,0.75", "augment=none"])
    )
    assert (changed.lr, changed.epochs, changed.compile) == (0.003, 30, True)
    assert (changed.milestones, changed.augment) == ((0.5, 0.75), "none")


def test_settings_of_a_multi_step_recipe_reach_all_steps_or_one():
    changed = with_settings(find("multi-step"), {"epochs": "2", "step1.lr": "0.5"})
    assert [s.epochs for s in changed.steps] == [2, 2, 2]
    assert [s.lr for s in changed.steps] == [1e-3, 0.5, 1e-3]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["lrr=1"], "lr"),
        (["lr"], "KEY=VALUE"),
        (["epochs=many"], "epochs"),
        (["epochs=0"], "1 to"),
        (["lr=-1"], "lr must be"),
        (["lr=inf"], "lr must be"),
        (["lr=nan"], "lr must be"),
        (["weight_decay=-1"], "weight_decay"),
        (["label_smoothing=2"], "label_smoothing"),
        (["milestones=3,5"], "shares"),
        (["schedule=cosin"], "cosine"),
        (["compile=maybe"], "compile"),
        (["accumulate=999"], "batch_size"),
        (["name=mine"], "unknown recipe setting"),
        (["schedule=cosine", "milestones=0.5"], "schedule=cosine has no milestones"),
    ],
)
def test_wrong_settings_are_one_clear_line(texts, message):
    with pytest.raises(UserError, match=message) as caught:
        Recipe("x").changed(parse_settings(texts))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("key", "name"), [("learning_rate", "lr"), ("batch", "batch_size"), ("wd", "weight_decay")])
def test_a_setting_is_found_under_what_others_call_it(key, name):
    with pytest.raises(UserError, match=f"it is called {name}$"):
        Recipe().changed({key: "1"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr": "abc"}, "lr is a number, not 'abc'"),
        ({"epochs": 2.5}, "epochs is a whole number, not 2.5"),
        ({"epochs": True}, "epochs is a whole number, not True"),
        ({"compile": 1}, "compile is true or false, not 1"),
        ({"schedule": "cosin"}, "cosine"),
        ({"milestones": "0.5"}, "milestones are shares"),
        ({"milestones": (0.5, "late")}, "milestones are shares"),
        ({"validation": 1.0}, "validation must be 0 to 0.9"),
        ({"patience": -1}, "patience must be 0"),
    ],
)
def test_wrong_values_in_python_are_one_clear_line(settings, message):
    with pytest.raises(UserError, match=message):
        Recipe(**settings)


def test_a_setting_of_a_later_version_is_named():
    with pytest.raises(UserError, match="lookahead"):
        Recipe.from_json(Recipe("x").to_json() | {"lookahead": 0.9})


@pytest.mark.parametrize("values", [{}, {"name": "x", "lr": "fast"}, {"name": "x", "milestones": 3}])
def test_a_broken_recipe_file_is_one_line(values):
    with pytest.raises(UserError):
        Recipe.from_json(values)


def test_a_setting_no_step_knows_is_refused():
    for key in ("step9.lr", "stepsize", "step1.lrr"):
        with pytest.raises(UserError):
            with_settings(find("multi-step"), {key: "1"})


def test_differences_are_listed():
    recipe = Recipe("x")
    assert replace(recipe, lr=1.0).difference(recipe) == ["lr: 0.01 -> 1.0"]


def test_the_recipe_fits_the_data():
    assert for_data("naive", "cifar100") == "naive-cifar"
    assert for_data("naive", "imagefolder") == "naive"
    assert for_data("multi-step", "digits") == "multi-step-digits"
    with pytest.raises(UserError, match="naive-cifar"):
        find("naive-cifra")


def test_a_setting_that_a_recipe_does_not_have_is_told_of():
    with pytest.raises(UserError, match="unknown recipe setting 'learning_rate'; it is called lr"):
        Recipe(learning_rate=1)
    with pytest.raises(UserError, match="unknown recipe setting 'epoks'; did you mean epochs"):
        replace(Recipe(), epoks=1)
    assert "epochs: int = 60" in str(inspect.signature(Recipe)).replace("'", "")


def test_a_distributional_recipe_learns_from_the_teacher_alone():
    steps = find("distributional").steps
    assert [(step.activations, step.weights) for step in steps] == [("sign", "real"), ("sign", "binary")]
    assert all((step.ce, step.kl, step.needs_teacher) == (0, 1, True) for step in steps)
    assert for_data("distributional", "cifar10") == "distributional-cifar"
    assert not any(step.needs_teacher for step in find("two-step").steps)
