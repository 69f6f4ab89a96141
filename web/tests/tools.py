"""What the tests need beside what building does: Node, npm's packages, and Chromium."""

import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from build import WEB, require, run

if __name__ == "__main__":
    require("Node", bool(shutil.which("node") and shutil.which("npm")), ["nodejs", "npm"])
    require("Chromium", bool(os.environ.get("CHROMIUM") or shutil.which("chromium")), ["chromium"])
    if not (WEB / "node_modules/playwright-core").exists():
        run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=WEB)
