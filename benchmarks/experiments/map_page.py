"""Times the map page with 50,000 track points and 2,000 episodes in a real browser: filter, entity, pan, episode.

There are two such pages: episodes of single entities, and those of a busy harbour, most of which are of two entities
for half of all the time, so that many lie over each other.

Analysis: the page draws on a canvas without a graphics card here, so what counts is how much is drawn again. The figure
is a time and not a ratio, since it is what a reader feels.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from benchmarks.harness.chromium import REMEDY, start_chromium
from benchmarks.harness.measure import Bound, start
from benchmarks.inputs.map_scene import SEED, made_encounters, made_episodes, made_tracks
from wayeb_py.view.page import render_page
from wayeb_py.view.scene import build_scene

ROUNDS = {"quick": 3, "usual": 5, "full": 5}
MOST_MS = 100
ACTIONS = {
    "a filter": "document.querySelectorAll('#patterns input')[3].click()",
    "an entity": "document.querySelectorAll('#entities input')[0].click()",
    "a pan": "wayebMap.view.x += (window.to = -(window.to ?? 40)) / wayebMap.view.scale",
    "an episode": "wayebMap.chooseEpisode((window.shown = -(window.shown ?? 6)) > 0 ? 5 : -1)",
}
MEASURE = """
const act = new Function(arguments[0]);
const canvas = document.getElementById("map");
const once = () => {
  const begin = performance.now();
  act();
  wayebMap.drawNow();
  canvas.getContext("2d").getImageData(0, 0, 1, 1); // waits until it is really drawn
  return performance.now() - begin;
};
// Every action undoes the one before; of each two the slower counts.
const taken = Array.from({ length: 9 }, () => Math.max(once(), once()));
return taken.sort((a, b) => a - b)[4];
"""


def main() -> None:
    experiment = start("map_page", "50,000 track points and 2,000 episodes in headless Chromium", SEED)
    tracks = made_tracks(100, 500)
    pages = {"": made_episodes(tracks, 2_000, 25), " among pairs": made_encounters(tracks, 2_000, 250)}
    n_rounds = ROUNDS[experiment.size]
    taken_ms: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        driver = start_chromium(Path(folder, "profile"))
        if driver is None:
            experiment.missing(REMEDY)
        try:
            for among, episodes in pages.items():
                scene, _ = build_scene("Large", tracks, episodes)
                page.write_text(render_page(scene), encoding="utf-8")
                driver.get("about:blank")
                driver.get(page.as_uri())
                counts = driver.execute_script("return document.querySelector('#counts').textContent")
                experiment.check("all points and episodes are shown", counts == "2,000 episodes, 100 entities")
                experiment.check("nothing is thinned", scene["notes"] == [])
                with experiment.watched():
                    for what, action in ACTIONS.items():
                        rounds = [float(driver.execute_script(MEASURE, action)) for _ in range(n_rounds)]
                        taken_ms[what + among] = rounds
        finally:
            driver.quit()
    for what, taken in taken_ms.items():
        experiment.record.repeats_s[what] = [ms / 1e3 for ms in taken]
        ms, low, high = statistics.median(taken), min(taken), max(taken)
        experiment.row(action=what, ms=ms, low=low, high=high, repeats=n_rounds)
        experiment.bound(Bound(f"{what}, median", ms, MOST_MS, "at most", "ms", low, high))
    experiment.bars("The map page answers", "action", "ms", MOST_MS, "the bound")
    experiment.finish()


if __name__ == "__main__":
    main()
