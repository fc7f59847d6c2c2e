"""The map of the maritime sample becomes the picture on top of README: docs/assets/map.png.

    python -m tools.map_picture            # needs chromium with its driver

The picture is what a user sees: the page of `wayeb run … --map`, in a headless Chromium. A test holds it below 300 kB.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from selenium.webdriver.support.ui import WebDriverWait

from benchmarks.harness.chromium import REMEDY, start_chromium

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "assets" / "map.png"
SIZE = (1280, 800)
PAINTED = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "maritime.html"
        run = [sys.executable, "-m", "wayeb_py.cli", "run", "patterns/maritime.sre", "--clean", "ais", "--quiet"]
        run += ["--data", "data/maritime_sample.parquet", "--out", f"{folder}/maritime.parquet", "--map", str(page)]
        subprocess.run([*run, "--engine", "local"], cwd=ROOT, check=True)
        browser = start_chromium(Path(folder) / "profile")
        if browser is None:
            raise SystemExit(REMEDY)
        try:
            browser.set_window_size(*SIZE)
            browser.get(page.as_uri())
            WebDriverWait(browser, 20).until(lambda shown: shown.find_elements("tag name", "canvas"))
            browser.execute_async_script(PAINTED)
            browser.save_screenshot(str(PICTURE))
        finally:
            browser.quit()
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
