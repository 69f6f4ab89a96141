import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ftbnn.errors import UserError
from ftbnn.models import build
from ftbnn.training import Recipe
from ftbnn.training.task import Task, attention_map

IMAGES, LABELS = torch.randn(4, 1, 16, 16), torch.tensor([0, 1, 2, 1])


def student(stem="small"):
    return build("ftbnn18", width=4, classes=3, in_channels=1, stem=stem)


def teacher(stem="small", classes=3):
    return build("resnet18", width=4, classes=classes, in_channels=1, stem=stem)


def test_without_a_teacher_it_is_cross_entropy():
    network = student().eval()
    loss, logits = Task(Recipe("x"), network).loss(network, IMAGES, LABELS)
    torch.testing.assert_close(loss, F.cross_entropy(logits, LABELS))


def test_attention_map_is_the_written_formula():
    features = torch.randn(2, 3, 4, 5)
    energy = (features**2).mean(1).reshape(2, 20)
    torch.testing.assert_close(attention_map(features), energy / energy.max(dim=1, keepdim=True).values)
    assert torch.isfinite(attention_map(torch.zeros(1, 2, 3, 3))).all()


def test_distillation_adds_its_terms():
    network, master = student().eval(), teacher().eval()
    recipe = Recipe("x", kl=2.0)
    loss, logits = Task(recipe, network, master).loss(network, IMAGES, LABELS)
    soft = master(IMAGES).softmax(1)
    divergence = (soft * (soft.log() - logits.log_softmax(1))).sum(1).mean()
    torch.testing.assert_close(loss, F.cross_entropy(logits, LABELS) + 2 * divergence)


def test_attention_of_a_network_with_itself_is_zero():
    network = teacher().eval()
    import copy

    master = copy.deepcopy(network)
    with_attention, _ = Task(Recipe("x", attention=30.0), network, master).loss(network, IMAGES, LABELS)
    without, _ = Task(Recipe("x"), network).loss(network, IMAGES, LABELS)
    torch.testing.assert_close(with_attention, without)
    other, _ = Task(Recipe("x", attention=30.0), network, teacher()).loss(network, IMAGES, LABELS)
    assert other > without


def test_the_teacher_gets_no_gradient():
    network, master = student(), teacher()
    Task(Recipe("x", kl=1.0, attention=1.0), network, master).loss(network, IMAGES, LABELS)[0].backward()
    assert all(p.grad is None for p in master.parameters())
    assert network.stage1[0].conv.weight.grad is not None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Task(Recipe("x", kl=1.0), student()), "distils from a teacher, which must be given"),
        (
            lambda: Task(Recipe("x", attention=1.0), nn.Conv2d(1, 3, 1), teacher()),
            "a student with children stage1, stage2, ",
        ),
        (
            lambda: Task(Recipe("x", kl=1.0), n := student(), teacher(classes=5)).loss(n, IMAGES, LABELS),
            "5 classes, the student 3",
        ),
        (
            lambda: Task(Recipe("x", attention=1.0), n := student(), teacher("imagenet")).loss(n, IMAGES, LABELS),
            "same stem",
        ),
    ],
)
def test_mistakes_are_explained(make, message):
    with pytest.raises(UserError, match=message):
        make()
