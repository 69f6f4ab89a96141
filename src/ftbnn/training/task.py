"""What a step minimises: cross-entropy on labels and, with a teacher, its soft labels and its attention.

loss = ce * CE(logits, labels) + kl * KL(teacher || student) + attention * sum over stages of MSE(A_student, A_teacher)
A    = channel mean of squared activations at a stage's end, flattened, divided by its maximum per image
"""

import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ftbnn.errors import UserError
from ftbnn.training.recipe import Recipe
from ftbnn.training.scores import check_labels, loss_by, scores_of

Loss = Callable[[Any, Tensor], Tensor]


def lacks_teacher(recipe: Recipe) -> UserError:
    """The error where a recipe that distils got nothing to distil from."""
    return UserError(f"recipe {recipe.name} distils from a teacher, which must be given (teacher)")


def attention_map(features: Tensor) -> Tensor:
    """(N, C, H, W) -> (N, H * W), each image's largest value 1."""
    energy = features.float().square().mean(dim=1).flatten(1)
    return energy / energy.amax(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)


STAGES = ("stage", "layer")  # how stages are called, with a number behind


def _numbered(children: dict[str, nn.Module], word: str) -> list[nn.Module]:
    """WORD1, WORD2 and so on, as far as they go."""
    names = itertools.takewhile(children.__contains__, (f"{word}{number}" for number in itertools.count(1)))
    return [children[name] for name in names]


def _stages(network: nn.Module, who: str) -> list[nn.Module]:
    children = dict(network.named_children())
    found = next((stages for word in STAGES if (stages := _numbered(children, word))), None)
    if found is None:
        names = " or ".join(f"{word}1, {word}2, ..." for word in STAGES)
        raise UserError(f"attention matching needs a {who} with children {names}")
    return found


class _StageEnds:
    """The outputs of a network's stages during its last forward."""

    def __init__(self, stages: list[nn.Module]) -> None:
        self.outputs: dict[int, Tensor] = {}
        self.handles = [stage.register_forward_hook(self._keep(k)) for k, stage in enumerate(stages)]

    def _keep(self, index: int) -> Any:
        def hook(_: nn.Module, __: Any, output: Tensor) -> None:
            self.outputs[index] = output

        return hook

    def close(self) -> None:
        self.outputs.clear()
        for handle in self.handles:
            handle.remove()


class Task:
    """Turns a batch into a loss. `network` is the bare student (its stages are watched), `model` what is called."""

    def __init__(
        self, recipe: Recipe, network: nn.Module, teacher: nn.Module | None = None, loss: Loss | None = None
    ) -> None:
        if recipe.needs_teacher and teacher is None:
            raise lacks_teacher(recipe)
        self.recipe, self.own_loss = recipe, loss
        self.teacher = teacher.eval().requires_grad_(False) if teacher is not None and recipe.needs_teacher else None
        self.student_ends = self.teacher_ends = None
        if recipe.attention > 0 and self.teacher is not None:
            both = _stages(network, "student"), _stages(self.teacher, "teacher")
            self.student_ends, self.teacher_ends = map(_StageEnds, both)

    def loss(self, model: nn.Module, images: Tensor, labels: Tensor) -> tuple[Tensor, Any]:
        """(loss, outputs) of one batch; a loss of the user's own takes whatever the network gives."""
        recipe = self.recipe
        has_free_outputs = self.own_loss is not None and self.teacher is None
        logits = model(images) if has_free_outputs else scores_of(model, images)
        if self.own_loss is not None:
            loss = recipe.ce * loss_by(self.own_loss, logits, labels)
            if not loss.requires_grad:
                raise UserError("the loss does not depend on the network's parameters: it was computed without them")
        else:
            check_labels(labels, logits)
            loss = recipe.ce * F.cross_entropy(logits.float(), labels, label_smoothing=recipe.label_smoothing)
        if self.teacher is None:
            return loss, logits
        with torch.no_grad():
            soft = self.teacher(images)
        if soft.shape != logits.shape:
            raise UserError(f"the teacher has {soft.shape[1]} classes, the student {logits.shape[1]}")
        if recipe.kl > 0:
            student, teacher = F.log_softmax(logits.float(), 1), F.log_softmax(soft.float(), 1)
            loss = loss + recipe.kl * F.kl_div(student, teacher, reduction="batchmean", log_target=True)
        return loss + self._attention_loss(), logits

    def close(self) -> None:
        """Takes the watching off the networks: they are the user's."""
        for ends in (self.student_ends, self.teacher_ends):
            if ends is not None:
                ends.close()

    def _attention_loss(self) -> Tensor | float:
        if self.student_ends is None or self.teacher_ends is None:
            return 0.0
        total: Tensor | float = 0.0
        student, teacher = self.student_ends.outputs, self.teacher_ends.outputs
        if len(student) != len(teacher):
            raise UserError(f"the student has {len(student)} stages, the teacher {len(teacher)}; use attention=0")
        for index, ours in student.items():
            theirs = teacher[index]
            if ours.shape[2:] != theirs.shape[2:]:
                raise UserError(
                    f"stage {index + 1} of student and teacher differ in size: "
                    f"{tuple(ours.shape[2:])} and {tuple(theirs.shape[2:])}; use the same stem, or attention=0"
                )
            total = total + F.mse_loss(attention_map(ours), attention_map(theirs))
        return self.recipe.attention * total
