"""The whole path from a wheel whose train extra is there: trained natively, exported, loaded, evaluated."""

import sys
from pathlib import Path

import ftbnn

folder = Path(sys.argv[1])
assert "site-packages" not in ftbnn.__file__, f"{ftbnn.__file__} is not the wheel's"
net = ftbnn.build("ftbnn18", width=8, classes=10, in_channels=1, stem="small")
recipe = ftbnn.Recipe(epochs=4, batch_size=64, backend="native")
scores = ftbnn.fit(net, "digits", recipe, folder / "run", ftbnn.Options(quiet=True))
ftbnn.export(folder / "run", folder / "digits.ftbnn")
packed = ftbnn.evaluate(folder / "digits.ftbnn", "digits")
assert packed["test_top1"] == scores["test_top1"] > 50, (packed, scores)
print(f"test top-1 {packed['test_top1']:.1f} % after {recipe.epochs} epochs")
