"""Several networks as one (BENN, Zhu et al. 2019): the mean of what they score, for any method and shape."""

from collections.abc import Sequence

from torch import Tensor, nn

from ftbnn.errors import UserError


class Ensemble(nn.Module):
    """The mean of its members' scores: a soft vote, by the geometric mean of their probabilities, that a file can hold.

    Members are trained one by one, as runs with other seeds; together they cost what all of them cost.
    """

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        if not members:
            raise UserError("an ensemble needs members")
        if len({id(member) for member in members}) < len(members):
            raise UserError("an ensemble needs different members: train further ones with another seed")
        self.members = nn.ModuleList(members)

    def forward(self, x: Tensor) -> Tensor:
        first, *others = (member(x) for member in self.members)
        if any(scores.shape != first.shape for scores in others):
            raise UserError("the members of an ensemble score different classes")
        total: Tensor = sum(others, first)
        return total / len(self.members)
