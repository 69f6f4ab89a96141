"""A .ftbnn file as a folder of plain C99, with a program that checks itself."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from ftbnn.errors import UserError
from ftbnn.exchange.c_calls import CALLS, block, call, comment, load_f32, load_u8
from ftbnn.exchange.c_constants import lines
from ftbnn.exchange.c_cost import ACTS
from ftbnn.exchange.c_program import Program
from ftbnn.files import write_atomically
from ftbnn.packing.graph import Fused
from ftbnn.packing.read import read_graph
from ftbnn.runtime import Model, load
from ftbnn.text import line

TEMPLATES = Path(__file__).parent / "c"
HEADERS = ("ftbnn_bits.h", "ftbnn_tail.h", "ftbnn_convolutions.h", "ftbnn_stem.h", "ftbnn_between.h")
VECTOR_BYTES = 1 << 14  # of images in the test vector, which has at least one and at most MOST_IMAGES
MOST_IMAGES = 8
IDENTIFIER = re.compile(r"[a-z][a-z0-9_]{0,40}")
# Files that stand beside the network's, headers of C, which a file of that name would hide, and words of C.
TAKEN = {"main", "test_vector", *(header.removesuffix(".h") for header in HEADERS)} | set(
    "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic "
    "stdbit stdbool stdckdint stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype "
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while".split()
)


@dataclass(frozen=True)
class Footprint:
    """What a network takes as C: bytes of constants (flash, without code) and of RAM, and operations an 8-bit image."""

    constant_bytes: int
    arena_bytes: int
    float_operations: int
    binary_operations: int
    words: int
    whole_operations: int
    rows: tuple[dict[str, Any], ...]  # of each step

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class WrittenC:
    """A folder of C: its files, what it takes, and how many images its test vector has."""

    folder: str
    files: tuple[str, ...]
    images: int
    footprint: Footprint

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def program_of(path: Path, model: Model) -> Program:
    """Raises UserError for an operator that cannot be written as C."""
    graph = read_graph(path)
    for operator in graph.operators:
        if type(operator) not in CALLS:
            raise UserError(f"cannot write {line(operator.path)} as C: there is no {operator.title} operator in C")
    # As the engine has them: a product and a sum for each pixel.
    mean, std = np.array(model.mean, np.float64), np.array(model.std, np.float64)
    return Program(graph, (1 / (255 * std)).astype(np.float32), (-mean / std).astype(np.float32))


def footprint(path: Path) -> Footprint:
    """What the file takes as C."""
    program = program_of(path, load(path, threads=1))
    _calls(program)
    return _footprint(program)


def export_c(path: Path, folder: Path, name: str = "model") -> WrittenC:
    """Writes the network of a .ftbnn file into `folder`, whose functions and files are called after `name`."""
    if not IDENTIFIER.fullmatch(name) or name in TAKEN:
        raise UserError(f"a name is of small letters, digits and _, starts with a letter and is free, not {name!r}")
    model = load(path, threads=1, isa="portable")
    program = program_of(path, model)
    files = _texts(program, model, name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write into {folder}: {error.strerror or error}") from error
    for file, text in files.items():
        write_atomically(folder / file, text.encode())
    return WrittenC(str(folder), tuple(sorted(files)), _image_count(model), _footprint(program))


def _footprint(program: Program) -> Footprint:
    total = program.all_operations()
    rows = []
    for step in (program.image, *program.steps):
        took = program.operations(step)
        operator, value = step.operator, step.output
        kept = [kind for kind, has in (("floats", step.real), ("bits", bool(step.codes))) if has]
        rows.append(
            {
                "path": "" if operator is None else operator.path,
                "kind": "input" if operator is None else operator.title,
                "output_shape": (value.channels, value.height, value.width),
                "kept_as": " and ".join(kept),
                "float_operations": took.floats,
                "binary_operations": took.binary,
                "words": took.words,
                "whole_operations": took.whole,
            }
        )
    constants = program.constants.size_bytes
    return Footprint(constants, program.arena_bytes, total.floats, total.binary, total.words, total.whole, tuple(rows))


def _calls(program: Program) -> dict[str, str]:
    """The functions' bodies; the constants grow as they are written. A stem of whole numbers is the first step of 8-bit
    images and the same in floats that of others."""
    first, rest = program.steps[:1], program.steps
    if program.stem is not None:
        rest = program.steps[1:]
    of_floats = "".join(call(program, step) for step in first) if program.stem is not None else ""
    return {
        "calls": "".join(call(program, step) for step in rest),
        "load_u8": block("the image", load_u8(program)).rstrip(),
        "load_f32": (block("the image", load_f32(program)) + of_floats).rstrip(),
    }


def _texts(program: Program, model: Model, name: str) -> dict[str, str]:
    words = _calls(program) | _facts(program, model, name)
    names = [f'"{_escaped(text)}"' for text in model.class_names]
    declared = f"\n/* What the outputs are called. */\nextern const char* const {name}_class_names[{len(names)}];\n"
    defined = f"\nconst char* const {name}_class_names[{len(names)}] = {{\n{lines(names)}}};\n"
    has_curves = any(isinstance(o, Fused) and o.epilogue.act not in ACTS for o in program.graph.operators)
    curves = "\n#define FTBNN_CURVES 1" if has_curves else ""
    best = f"{name}_class_names[{name}_best(scores)]" if names else f"{name}_best(scores)"
    header = words | {"names": declared if names else "", "best": best, "arena": str(program.arena_bytes)}
    source = words | {"names": defined if names else "", "curves": curves, "arena": _arena(program)}
    source |= {"constants": "\n".join(program.constants.texts)}
    return {
        f"{name}.h": _filled("model.h", header),
        f"{name}.c": _filled("model.c", source).rstrip() + "\n",
        "main.c": _filled("main.c", words),
        "CMakeLists.txt": _filled("CMakeLists.txt", words),
        "test_vector.h": _vector(model),
        **{file: (TEMPLATES / file).read_text() for file in HEADERS},
    }


def _facts(program: Program, model: Model, name: str) -> dict[str, str]:
    channels, height, width = model.input_shape
    out = program.graph.output
    return {
        "name": name,
        "NAME": name.upper(),
        "about": comment(model.name),
        "version": metadata.version("ftbnn"),
        "channels": str(channels),
        "height": str(height),
        "width": str(width),
        "outputs": str(out.size),
        "classes": str(len(model.class_names)),
        "constants": str(program.constants.size_bytes),
        "output": program.at(out),
        "shape": f"{{{out.height}, {out.width}, {out.channels}}}",
    }


def _arena(program: Program) -> str:
    bits = {"codes": program.code_bits, "under": program.window_bits, "inside": program.window_bits}
    words = [f"  ftbnn_word {member}[FTBNN_WORDS({size})];" for member, size in bits.items() if size]
    return "\n".join([f"  float reals[{program.real_count}];", *words])


def _image_count(model: Model) -> int:
    return max(1, min(MOST_IMAGES, VECTOR_BYTES // int(np.prod(model.input_shape))))


def _vector(model: Model) -> str:
    """Images of noise, and the bits of the scores that the engine's portable kernels give them."""
    channels, height, width = model.input_shape
    images = np.random.default_rng(0).integers(0, 256, (_image_count(model), height, width, channels), np.uint8)
    scores = model(images).view(np.uint32)
    size, outputs = images[0].size, scores.shape[1]
    pixels = ",\n".join(f"  {{\n{lines(map(str, image.ravel()))}}}" for image in images)
    bits = ",\n".join(f"  {{\n{lines(f'{word:#010x}u' for word in row)}}}" for row in scores)
    return (
        f"/* Images of noise, and the bits of the scores of {comment(model.name)}. */\n"
        f"#include <stdint.h>\n\n#define TEST_IMAGES {len(images)}\n\n"
        f"static const uint8_t test_images[TEST_IMAGES][{size}] = {{\n{pixels}}};\n\n"
        f"static const uint32_t test_scores[TEST_IMAGES][{outputs}] = {{\n{bits}}};\n"
    )


def _filled(template: str, words: Mapping[str, str]) -> str:
    return re.sub(r"@(\w+)@", lambda found: words[found[1]], (TEMPLATES / f"{template}.in").read_text())


def _escaped(text: str) -> str:
    """A C string of the text's UTF-8, whatever it holds; ? too, for trigraphs."""
    plain = range(32, 127)
    special = b'"\\?'
    return "".join(chr(b) if b in plain and b not in special else f"\\{b:03o}" for b in text.encode())
