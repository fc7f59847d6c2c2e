"""Pairs and silences on the map page, in a real browser: both tracks, both timelines, the line between the two."""

from __future__ import annotations

import numpy as np
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

from benchmarks.inputs.map_scene import made_encounters, made_tracks
from tests.view.browser import Browser
from tests.view.test_browser import colourful
from wayeb_py.view.page import render_page
from wayeb_py.view.read_detections import ShownEpisode
from wayeb_py.view.scene import build_scene
from wayeb_py.view.tracks import ShownAttribute, Tracks

BEGIN_S = 1_450_000_000.0
N = 60


def minute(number: float) -> float:
    return BEGIN_S + 60.0 * number


def two_and_one(*episodes: ShownEpisode) -> str:
    """Anna and Bert sail east beside each other, an event a minute each; Cora is alone, and falls silent half way."""
    east = np.linspace(-4.6, -4.4, N)
    n_cora = N // 2
    lon = np.concatenate([east, east, np.full(n_cora, -4.5)])
    lat = np.concatenate([np.full(N, 48.40), np.full(N, 48.42), np.full(n_cora, 48.30)])
    time_s = np.concatenate([minute(0) + 60.0 * np.arange(N)] * 2 + [minute(0) + 60.0 * np.arange(n_cora)])
    labels = {"1": "Anna", "2": "Bert", "3": "Cora"}
    shown = (ShownAttribute("speed", "kn", np.full(len(lon), 7.5)),)
    tracks = Tracks(["1", "2", "3"], np.array([0, N, 2 * N, 2 * N + n_cora]), time_s, lon, lat, shown, labels)
    scene, _ = build_scene("Two", tracks, list(episodes))
    why = {
        "0": {"summary": "Why", "events": [{"time": "00:10", "letter": "x", "values": "", "quiet": False, "of": "2"}]}
    }
    return render_page(scene | {"why": why})


MEETING = ShownEpisode("Meeting", None, "1", minute(10), minute(40), 5, minute(12), "2")
DARK = ShownEpisode("Dark", None, "3", minute(25), minute(29), 1, minute(29), None, minute(50))


@pytest.fixture
def page(browser: Browser) -> Browser:
    browser.show(two_and_one(MEETING, DARK))
    return browser


def facts(page: Browser) -> dict[str, str]:
    names, values = (
        [one.text for one in page.driver.find_elements(By.CSS_SELECTOR, f"#detail {tag}")] for tag in ("dt", "dd")
    )
    return dict(zip(names, values, strict=True))


def test_the_list_and_the_details_name_both(page: Browser) -> None:
    button = page.driver.find_elements(By.CSS_SELECTOR, "#episodes button")[0]
    assert button.text.split("\n") == ["Meeting", "2015-12-13 09:56", "Anna – Bert"]
    button.click()
    told = facts(page)
    assert (told["entity"], told["name"], told["other"], told["its name"]) == ("1", "Anna", "2", "Bert")
    assert page.text("#detail .why .of") == "Bert"
    head = [cell.text for cell in page.driver.find_elements(By.CSS_SELECTOR, "#detail th")]
    assert head == ["time", "of", "speed"]
    senders = {row.text.split()[1] for row in page.driver.find_elements(By.CSS_SELECTOR, "#detail tbody tr")}
    assert senders == {"Anna", "Bert"}
    assert page.text("#detail h3:last-of-type") == "62 events of both"
    assert page.faults() == []


def test_an_episode_of_a_pair_is_in_both_timelines_and_a_click_on_either_shows_it(page: Browser) -> None:
    hits = [hit for hit in page.run("return wayebMap.timelineHits()") if hit[4] == 0]
    assert len(hits) == 2
    assert hits[0][1] != hits[1][1], "in two rows"
    area = page.driver.find_element(By.ID, "timeline")
    for hit in hits:
        page.run("wayebMap.chooseEpisode(-1)")
        x, y = (hit[0] + hit[2] - area.size["width"]) / 2, (hit[1] + hit[3] - area.size["height"]) / 2
        ActionChains(page.driver).move_to_element_with_offset(area, round(x), round(y)).click().perform()
        assert facts(page)["its name"] == "Bert"


PLACE = """
const m = wayebMap;
const row = arguments[0];
return [m.pixelX(m.worldX[row]), m.pixelY(m.worldY[row])];
"""


@pytest.mark.parametrize(("row", "tip"), [(20, "Meeting with Bert"), (N + 20, "Meeting with Anna")])
def test_a_click_on_either_track_shows_the_episode_with_the_others_name(page: Browser, row: int, tip: str) -> None:
    x, y = page.run(PLACE, row)
    width, height = page.run("return [wayebMap.view.width, wayebMap.view.height]")
    canvas = page.driver.find_element(By.ID, "map")
    ActionChains(page.driver).move_to_element_with_offset(canvas, round(x - width / 2), round(y - height / 2)).perform()
    assert tip in page.text("#tip")
    ActionChains(page.driver).click().perform()
    assert page.run("return wayebMap.chosen.episode") == 0
    assert {"1", "2"} == {facts(page)[name] for name in ("entity", "other")}


@pytest.mark.parametrize("name", ["Anna", "Bert"])
def test_a_pair_is_found_by_either_entity(page: Browser, name: str) -> None:
    page.driver.find_element(By.ID, "entity-search").send_keys(name)
    (only,) = page.driver.find_elements(By.CSS_SELECTOR, "#entities input")
    only.click()
    assert page.text("#counts") == "1 episode, 1 entity"
    assert page.text("#episodes .who") == "Anna – Bert"


# How many pixels around the middle between two rows are in the colour of a pattern: those of a line between them.
BETWEEN = """
wayebMap.drawNow();
const m = wayebMap;
const canvas = document.getElementById("map");
const ratio = canvas.width / canvas.clientWidth;
const [a, b] = arguments;
const x = (m.pixelX(m.worldX[a]) + m.pixelX(m.worldX[b])) / 2;
const y = (m.pixelY(m.worldY[a]) + m.pixelY(m.worldY[b])) / 2;
const size = Math.round(6 * ratio);
const data = canvas.getContext("2d").getImageData(x * ratio - size / 2, y * ratio - size / 2, size, size).data;
let n = 0;
for (let i = 0; i < data.length; i += 4) {
  const colour = [data[i], data[i + 1], data[i + 2]];
  if (Math.max(...colour) - Math.min(...colour) > 40) n++;
}
return n;
"""


def line_at(page: Browser, at: int) -> bool:
    return int(page.run(BETWEEN, at, N + at)) > 3


def is_on_track(page: Browser, row: int) -> bool:
    return int(page.run(BETWEEN, row, row + 1)) > 12


def test_both_tracks_are_in_the_colour_of_the_pattern_while_it_lasts(page: Browser) -> None:
    for chosen in (-1, 0):
        page.run("wayebMap.chooseEpisode(arguments[0])", chosen)
        assert [is_on_track(page, row) for row in (5, 20, 50)] == [False, True, False]
        assert [is_on_track(page, N + row) for row in (5, 20, 50)] == [False, True, False]


def test_a_line_between_the_two_goes_with_the_time_while_they_are_near(page: Browser) -> None:
    def until(number: int) -> None:
        page.run(f"wayebMap.chosen.until = {minute(number)}")

    assert line_at(page, 40), "at the end of their episode"
    assert not line_at(page, 20)
    until(20)
    assert line_at(page, 20)
    assert not line_at(page, 40)
    until(5)
    assert not any(line_at(page, at) for at in (5, 10, 20, 40)), "they have not met yet"


def test_a_chosen_pair_is_drawn_with_the_lines_between_the_two_all_the_way(page: Browser) -> None:
    before = colourful(page)
    page.run("wayebMap.chooseEpisode(0)")
    assert all(line_at(page, at) for at in (10, 25, 39))
    assert colourful(page) > before
    middle = page.run("return [wayebMap.view.y, wayebMap.worldY[0], wayebMap.worldY[arguments[0]]]", N)
    assert middle[0] == pytest.approx((middle[1] + middle[2]) / 2), "both are in the picture"


def test_a_silence_is_shown_until_it_is_over(page: Browser) -> None:
    (hit,) = [hit for hit in page.run("return wayebMap.timelineHits()") if hit[4] == 1]
    width = page.run("return document.getElementById('timeline-scroll').clientWidth")
    per_minute = (width - 132 - 12) / (N - 1)
    assert hit[2] - hit[0] - 4 == pytest.approx(25 * per_minute, abs=1.5), "from its first event until it was decided"
    page.driver.find_elements(By.CSS_SELECTOR, "#episodes button")[1].click()
    assert facts(page)["silent until"] == "2015-12-13 10:36:40"
    assert "other" not in facts(page)


HATCHED = """
wayebMap.drawNow();
const canvas = document.getElementById("timeline");
const ratio = canvas.width / canvas.clientWidth;
const [x0, y0, x1, y1] = wayebMap.timelineHits().find((hit) => hit[4] === 1);
const count = (from, to) => {
  const [x, w] = [Math.round((x0 + (x1 - x0) * from) * ratio), Math.round((x1 - x0) * (to - from) * ratio)];
  const [y, h] = [Math.round((y0 + 3) * ratio), Math.round((y1 - y0 - 6) * ratio)];
  const data = canvas.getContext("2d").getImageData(x, y, w, h).data;
  let n = 0;
  for (let i = 0; i < data.length; i += 4) {
    const colour = [data[i], data[i + 1], data[i + 2]];
    if (Math.max(...colour) - Math.min(...colour) > 60) n++;
  }
  return n / (w * h);
};
return [count(0.04, 0.14), count(0.25, 0.95)];
"""


def test_the_match_is_a_bar_and_the_silence_after_it_is_hatched(page: Browser) -> None:
    bar, silence = page.run(HATCHED)
    assert bar > 0.95
    assert 0.2 < silence < 0.8


RING = """
wayebMap.drawNow();
const m = wayebMap;
const canvas = document.getElementById("map");
const ratio = canvas.width / canvas.clientWidth;
const row = arguments[0];
let n = 0;
for (let k = 0; k < 72; k++) {
  const turn = (k * Math.PI) / 36;
  const x = m.pixelX(m.worldX[row]) + 8 * Math.cos(turn);
  const y = m.pixelY(m.worldY[row]) + 8 * Math.sin(turn);
  const [r, g, b] = canvas.getContext("2d").getImageData(Math.floor(x * ratio), Math.floor(y * ratio), 1, 1).data;
  if (Math.max(r, g, b) - Math.min(r, g, b) > 40) n++;
}
return n;
"""


def test_where_an_entity_fell_silent_there_is_a_broken_ring(page: Browser) -> None:
    assert 20 < page.run(RING, 2 * N + 29) < 65
    page.driver.find_element(By.ID, "no-patterns").click()
    assert page.run(RING, 2 * N + 29) == 0


def test_a_time_after_the_last_event_still_shows_the_silence(page: Browser) -> None:
    page.run(f"wayebMap.chosen.from = {minute(45)}")
    page.driver.find_element(By.ID, "until").send_keys("")  # nothing moves
    page.run(
        "document.getElementById('from').value = 800; document.getElementById('from').dispatchEvent(new Event('input'))"
    )
    assert page.text("#counts").startswith("1 episode")
    assert page.text("#episodes .name") == "Dark · Cora"


def test_in_a_harbour_there_are_lines_only_between_those_who_are_near_now(browser: Browser) -> None:
    tracks = made_tracks(40, 100)
    episodes = made_encounters(tracks, 900, 30)
    scene, drawn = build_scene("Harbour", tracks, episodes)
    browser.show(render_page(scene))
    assert browser.text("#counts") == "900 episodes, 40 entities"
    assert browser.run("return wayebMap.links()") == {"on": [], "over": []}, "nobody at the very end"
    at_s = drawn[500].start_s + 300.0
    browser.run(f"wayebMap.chosen.until = {at_s}")
    near = [n for n, e in enumerate(drawn) if e.other is not None and e.start_s <= at_s <= e.end_s]
    assert browser.run("return wayebMap.links()") == {"on": near, "over": []}
    assert 60 < len(near) < 600
    browser.run("wayebMap.chooseEpisode(7)")
    assert browser.run("return wayebMap.links()") == {"on": [], "over": []}, "beside the chosen one"
    assert browser.faults() == []


def test_what_has_neither_pairs_nor_silences_is_drawn_as_before(browser: Browser) -> None:
    browser.show(two_and_one(ShownEpisode("Alone", None, "1", minute(10), minute(40), 5, minute(12))))
    assert browser.text("#episodes .name") == "Alone · Anna"
    assert browser.driver.find_elements(By.CSS_SELECTOR, "#episodes .who") == []
    browser.run("wayebMap.chooseEpisode(0)")
    assert facts(browser).keys() == {"entity", "name", "from", "until", "lasting", "detections"}
    assert browser.faults() == []
