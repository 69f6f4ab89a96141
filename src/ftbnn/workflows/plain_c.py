"""From a file, a run or a network to plain C. Of a file that takes no PyTorch."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ftbnn.errors import has_torch, lacks_torch, wrong_kind
from ftbnn.exchange.c_export import WrittenC
from ftbnn.exchange.c_export import export_c as write_c
from ftbnn.zoo import packed_file

if TYPE_CHECKING:
    from torch import nn

    from ftbnn.training import Run


def export_c(
    what: "nn.Module | Run | str | Path", folder: str | Path, *, name: str = "model", **images: Any
) -> WrittenC:
    """Writes a .ftbnn file, `zoo:NAME`, or what `export` takes, as plain C99 whose functions are called after `name`.

    `images` is what `export` must be told of a network that is no run's.
    """
    if isinstance(what, str | Path) and (given := packed_file(what)) is not None:
        return write_c(given, Path(folder), name)
    if not has_torch():
        if not isinstance(what, str | Path):
            raise wrong_kind("what becomes C is a .ftbnn file or zoo:NAME", what)
        raise lacks_torch("ftbnn.export_c of a run or a network")
    from ftbnn.workflows.deploy import packed

    with packed(what, **images) as file:
        return write_c(file, Path(folder), name)
