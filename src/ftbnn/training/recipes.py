"""The recipes that ship, and which one a data set gets by default."""

from dataclasses import dataclass, replace

from ftbnn.errors import unknown
from ftbnn.training.recipe import Recipe

NAIVE = Recipe("naive")  # Adam from scratch, 60 epochs, lr 0.01, x0.1 at epochs 45 and 55 (paper, section 4)
NAIVE_COSINE = replace(NAIVE, name="naive-cosine", schedule="cosine")  # the same for the derived networks
TEACHER = replace(NAIVE_COSINE, name="teacher", epochs=90, lr=1e-3)

# Sizes that suit smaller data on a CPU. Small batches give the few images enough steps.
NAIVE_CIFAR = replace(NAIVE_COSINE, name="naive-cifar", batch_size=128, lr=5e-3, channels_last=True)
NAIVE_MNIST = replace(NAIVE_CIFAR, name="naive-mnist", epochs=10)
NAIVE_DIGITS = replace(NAIVE_CIFAR, name="naive-digits", epochs=30, batch_size=64)

# For a network that will be used: longer, with softened labels. CIFAR-10 wants its rate and small batches: ten epochs
# at width 16 end at 79.0 %, at 78.1 in batches of 128, and there at 73.4 and 73.3 with rates of 0.002 and 0.02.
BEST_CIFAR = replace(NAIVE_CIFAR, name="best-cifar", epochs=120, batch_size=64, warmup_epochs=1.0, label_smoothing=0.1)
BEST_MNIST = replace(BEST_CIFAR, name="best-mnist", epochs=30, batch_size=128, lr=2e-3)
BEST_DIGITS = replace(BEST_CIFAR, name="best-digits", epochs=100, lr=2e-3)


@dataclass(frozen=True)
class Steps:
    """Recipes run one after the other, each starting from the weights of the one before."""

    name: str
    steps: tuple[Recipe, ...]


def _multi_step(base: Recipe, suffix: str, epochs: int) -> Steps:
    """Real-to-Binary's scheme (paper, appendix C): Tanh and real weights; Sign and real weights; both binary."""
    name = f"multi-step{suffix}"
    step = replace(base, epochs=epochs)
    return Steps(
        name,
        (
            replace(step, name=f"{name}/0", activations="tanh", weights="real", kl=3.0, attention=30.0),
            replace(step, name=f"{name}/1", activations="sign", weights="real", kl=3.0, attention=30.0),
            replace(step, name=f"{name}/2", activations="sign", weights="binary", kl=0.8, attention=0.0),
        ),
    )


def _two_step(base: Recipe, suffix: str, epochs: int, *, has_teacher: bool = False) -> Steps:
    """ReActNet's scheme: binary inputs and real weights with little decay, then both binary. With a teacher its soft
    labels are all that is learned from, no labels (the distributional loss)."""
    name = f"{'distributional' if has_teacher else 'two-step'}{suffix}"
    step = replace(base, epochs=epochs, schedule="linear")
    if has_teacher:
        step = replace(step, ce=0.0, kl=1.0)
    return Steps(
        name,
        (
            replace(step, name=f"{name}/0", activations="sign", weights="real", weight_decay=1e-5),
            replace(step, name=f"{name}/1", activations="sign", weights="binary", weight_decay=0.0),
        ),
    )


RECIPES: dict[str, Recipe | Steps] = {
    "naive": NAIVE,
    "naive-cosine": NAIVE_COSINE,
    "naive-cifar": NAIVE_CIFAR,
    "naive-mnist": NAIVE_MNIST,
    "naive-digits": NAIVE_DIGITS,
    "best-cifar": BEST_CIFAR,
    "best-mnist": BEST_MNIST,
    "best-digits": BEST_DIGITS,
    "multi-step": _multi_step(replace(NAIVE, lr=1e-3), "", 75),
    "multi-step-cifar": _multi_step(replace(NAIVE_CIFAR, lr=2e-3), "-cifar", 60),
    "multi-step-mnist": _multi_step(replace(NAIVE_MNIST, lr=2e-3), "-mnist", 6),
    "multi-step-digits": _multi_step(replace(NAIVE_DIGITS, lr=2e-3), "-digits", 15),
    "two-step": _two_step(replace(NAIVE, lr=5e-4), "", 256),
    "two-step-cifar": _two_step(replace(NAIVE_CIFAR, lr=2e-3), "-cifar", 60),
    "two-step-mnist": _two_step(replace(NAIVE_MNIST, lr=2e-3), "-mnist", 6),
    "two-step-digits": _two_step(replace(NAIVE_DIGITS, lr=2e-3), "-digits", 15),
    "distributional": _two_step(replace(NAIVE, lr=5e-4), "", 256, has_teacher=True),
    "distributional-cifar": _two_step(replace(NAIVE_CIFAR, lr=2e-3), "-cifar", 60, has_teacher=True),
    "distributional-mnist": _two_step(replace(NAIVE_MNIST, lr=2e-3), "-mnist", 6, has_teacher=True),
    "distributional-digits": _two_step(replace(NAIVE_DIGITS, lr=2e-3), "-digits", 15, has_teacher=True),
    "teacher": TEACHER,
    "teacher-cifar": replace(TEACHER, name="teacher-cifar", epochs=40, batch_size=128),
    "teacher-mnist": replace(TEACHER, name="teacher-mnist", epochs=5, batch_size=128),
    "teacher-digits": replace(TEACHER, name="teacher-digits", epochs=15, batch_size=64, lr=2e-3),
}

# What `ftbnn train MODEL --data NAME` uses when neither recipe nor width is given.
DEFAULT_RECIPE = {
    "digits": "digits",
    "mnist": "mnist",
    "fashion-mnist": "mnist",
    "cifar10": "cifar",
    "cifar100": "cifar",
}
DEFAULT_WIDTH = {"digits": 16}


def find(name: str) -> Recipe | Steps:
    """The recipe of that name; raises UserError with the nearest names."""
    if name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    return RECIPES[name]


def for_data(family: str, data: str) -> str:
    """`naive` for cifar10 is `naive-cifar`: the size of the recipe that suits the data, where there is one."""
    sized = f"{family}-{DEFAULT_RECIPE.get(data, '')}".removesuffix("-")
    return sized if sized in RECIPES else family
