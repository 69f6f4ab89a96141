"""What a step minimises: cross-entropy on labels and, with a teacher, its soft labels and its attention.

loss = ce * CE(logits, labels) + kl * KL(teacher || student) + attention * sum over stages of MSE(A_student, A_teacher)
A    = channel mean of squared activations at a stage's end, flattened, divided by its maximum per image
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ftbnn.errors import UserError
from ftbnn.training.recipe import Recipe
from ftbnn.training.scores import check_labels

STAGES = (("stage1", "stage2", "stage3", "stage4"), ("layer1", "layer2", "layer3", "layer4"))


def attention_map(features: Tensor) -> Tensor:
    """(N, C, H, W) -> (N, H * W), each image's largest value 1."""
    energy = features.float().square().mean(dim=1).flatten(1)
    return energy / energy.amax(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)


class _StageEnds:
    """The outputs of a network's four stages during its last forward."""

    def __init__(self, network: nn.Module, who: str) -> None:
        children = dict(network.named_children())
        names = next((names for names in STAGES if all(name in children for name in names)), None)
        if names is None:
            raise UserError(f"attention matching needs a {who} with stages stage1..stage4 or layer1..layer4")
        self.outputs: dict[int, Tensor] = {}
        self.handles = [children[name].register_forward_hook(self._keep(k)) for k, name in enumerate(names)]

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

    def __init__(self, recipe: Recipe, network: nn.Module, teacher: nn.Module | None = None) -> None:
        if recipe.needs_teacher and teacher is None:
            raise UserError(f"recipe {recipe.name} distils from a teacher: give --teacher RUN or a resnet18 .pth file")
        self.recipe = recipe
        self.teacher = teacher.eval().requires_grad_(False) if teacher is not None and recipe.needs_teacher else None
        self.student_ends = self.teacher_ends = None
        if recipe.attention > 0 and self.teacher is not None:
            self.student_ends = _StageEnds(network, "student")
            self.teacher_ends = _StageEnds(self.teacher, "teacher")

    def loss(self, model: nn.Module, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """(loss, logits) of one batch."""
        recipe = self.recipe
        logits = model(images)
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
        for index, ours in self.student_ends.outputs.items():
            theirs = self.teacher_ends.outputs[index]
            if ours.shape[2:] != theirs.shape[2:]:
                raise UserError(
                    f"stage {index + 1} of student and teacher differ in size: "
                    f"{tuple(ours.shape[2:])} and {tuple(theirs.shape[2:])}; use the same stem, or --set attention=0"
                )
            total = total + F.mse_loss(attention_map(ours), attention_map(theirs))
        return self.recipe.attention * total
