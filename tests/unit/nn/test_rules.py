"""Gradient rules: each is the derivative of the function that it stands for, whoever asks for it."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from ftbnn.errors import UserError
from ftbnn.nn import BConv, Fourier, Polynomial, Rule, Sign, Tanh, Wedge, Window, sign, use_backend
from ftbnn.nn.native.block import listening
from ftbnn.nn.rules import NO_RULE, RULES, rule_named

STEP = 1e-6
CASES = [
    Window(),
    Window(0.4),
    Polynomial(),
    Tanh(),
    Tanh(0.1, 10.0),
    Tanh(10.0, 1.0),
    Wedge(),
    Wedge(0.1, 10.0),
    Fourier(),
    Fourier(18.0),
    NO_RULE,
]
X = torch.linspace(-2.5, 2.5, 1001, dtype=torch.float64) + 1e-4  # off the kinks, where there is no derivative


@pytest.mark.parametrize("rule", CASES, ids=str)
def test_the_derivative_is_that_of_the_primitive(rule):
    slope = (rule.primitive(X + STEP) - rule.primitive(X - STEP)) / (2 * STEP)
    torch.testing.assert_close(rule.derivative(X), slope, rtol=1e-5, atol=1e-7)


def test_every_rule_is_tried_here():
    assert {rule.name for rule in CASES} == set(RULES)


@pytest.mark.parametrize("rule", CASES, ids=str)
@pytest.mark.parametrize("backend", ["torch", "plain"])
def test_a_sign_passes_its_gradient_by_the_rule(rule, backend):
    x, shift = X.clone().view(1, -1, 1, 1).requires_grad_(), torch.randn(len(X), dtype=torch.float64).requires_grad_()
    incoming = torch.randn_like(x)
    with use_backend(backend):
        sign(x, rule=rule, shift=shift).backward(incoming)
    expected = incoming * rule.derivative((x + shift.view(1, -1, 1, 1)).detach())
    torch.testing.assert_close(x.grad, expected)
    torch.testing.assert_close(shift.grad, expected.flatten())


@pytest.mark.parametrize("rule", CASES, ids=str)
def test_a_name_and_numbers_are_the_whole_rule(rule):
    assert rule_named(rule.name, rule.numbers) == rule


def test_a_rule_that_does_not_exist_is_named():
    with pytest.raises(UserError, match="unknown gradient rule 'windw'; did you mean window"):
        rule_named("windw", [])


@pytest.fixture
def own():
    """A rule of a user's own, forgotten again afterwards."""

    @dataclass(frozen=True)
    class Bell(Rule):
        """1 / (1 + (w x)^2)."""

        width: float = 2.0
        name = "bell"

        def primitive(self, x):
            return torch.atan(self.width * x) / self.width

        def derivative(self, x):
            return 1 / (1 + (self.width * x).square())

    yield Bell
    del RULES["bell"]


def test_a_users_own_rule_works_as_any(own):
    """The core need not know it: PyTorch applies it to the gradient that the core hands back."""
    x = torch.randn(2, 4, 5, 5, requires_grad=True)
    for layers, count in (
        (BConv(4, 4, input=Sign(rule=own(3.0))), 1),
        (nn.Sequential(Sign(rule=own(3.0)), BConv(4, 4)), 1),
    ):
        found, seen = [], []
        for backend in ("torch", "native"):
            with use_backend(backend), listening(lambda *_, seen=seen: seen.append(1)):
                (grad,) = torch.autograd.grad(layers(x).square().mean(), x)
            found.append(grad)
        torch.testing.assert_close(*found, rtol=2e-2, atol=2e-3)  # sums of bf16 products, on CPUs that have them
        assert len(seen) == 2 * count  # forward and backward
    (found,) = torch.autograd.grad(sign(x, rule=own(3.0)).sum(), x)
    torch.testing.assert_close(found, own(3.0).derivative(x).detach())


def test_a_rule_with_another_derivative_needs_another_name():
    with pytest.raises(TypeError, match="Steeper needs a name of its own"):

        class Steeper(Window):
            def derivative(self, x):
                return 2 * super().derivative(x)
