"""The map page in a real browser: it draws, filters and zooms, complains of nothing, and requests nothing from the
network."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import wayeb_py
from benchmarks.inputs.map_scene import made_episodes, made_tracks
from tests.view.browser import Browser
from wayeb_py.view.draw import draw_map
from wayeb_py.view.page import render_page
from wayeb_py.view.read_detections import ShownEpisode
from wayeb_py.view.scene import ShownPlace, build_scene
from wayeb_py.view.tracks import Tracks
from wayeb_py.view.world import outline_around

ROOT = Path(__file__).parents[2]


def small_page(**changes: Any) -> str:
    tracks = made_tracks(6, 120)
    places = [ShownPlace("port", "points", "Brest", (((-4.5, 48.4),),))]
    scene, _ = build_scene("A small map", tracks, made_episodes(tracks, 12, 20), places)
    return render_page(scene | changes)


COLOURFUL = """
const canvas = document.getElementById("map");
const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
let n = 0;
for (let i = 0; i < data.length; i += 4) {
  if (Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]) > 60) n++;
}
return n;
"""


def colourful(browser: Browser) -> int:
    """Pixels of the map in the colours of patterns: all else is grey."""
    browser.run("wayebMap.drawNow()")
    return int(browser.run(COLOURFUL))


@pytest.fixture
def page(browser: Browser) -> Browser:
    browser.show(small_page())
    return browser


def test_the_page_draws_without_a_complaint_and_without_a_request(page: Browser) -> None:
    assert page.text("#title") == "A small map"
    assert page.text("#counts") == "12 episodes, 6 entities"
    assert colourful(page) > 500
    assert page.faults() == []
    assert [address for address in page.requests() if not address.startswith("file:")] == []


def test_the_page_may_not_ask_for_anything(page: Browser) -> None:
    page.run("new Image().src = 'http://127.0.0.1:9/x.png'")
    page.wait(lambda: any("Content Security Policy" in fault for fault in page.faults()))
    assert [address for address in page.requests() if not address.startswith("file:")] == []


def test_a_pattern_that_is_not_wanted_is_not_drawn(page: Browser) -> None:
    before = colourful(page)
    page.driver.find_element(By.CSS_SELECTOR, "#patterns input").click()
    assert page.text("#counts").startswith("10 episodes")
    assert 0 < colourful(page) < before
    page.driver.find_element(By.ID, "no-patterns").click()
    assert page.text("#counts").startswith("0 episodes")
    assert colourful(page) == 0
    page.driver.find_element(By.ID, "all-patterns").click()
    assert colourful(page) == before


def test_entities_are_searched_and_chosen(page: Browser) -> None:
    page.driver.find_element(By.ID, "entity-search").send_keys("003")
    (only,) = page.driver.find_elements(By.CSS_SELECTOR, "#entities input")
    only.click()
    assert page.text("#counts") == "2 episodes, 1 entity"
    page.driver.find_element(By.ID, "clear-entities").click()
    assert page.text("#counts") == "12 episodes, 6 entities"


def test_an_episode_of_the_list_is_zoomed_to_and_shown_with_its_events(page: Browser) -> None:
    before = page.run("return wayebMap.view.scale")
    page.driver.find_element(By.CSS_SELECTOR, "#episodes button").click()
    assert page.run("return wayebMap.view.scale") > before
    assert page.text("#detail h2").startswith("Pattern")
    assert len(page.driver.find_elements(By.CSS_SELECTOR, "#detail tbody tr")) == 20
    page.driver.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
    assert page.run("return document.getElementById('detail').hidden")


MIDDLE = """
const m = wayebMap;
const row = Math.floor((m.scene.episodes.firstRow[0] + m.scene.episodes.endRow[0]) / 2);
return [m.pixelX(m.worldX[row]) - m.view.width / 2, m.pixelY(m.worldY[row]) - m.view.height / 2];
"""


def test_an_episode_on_the_map_is_hovered_and_clicked(page: Browser) -> None:
    x, y = page.run(MIDDLE)
    canvas = page.driver.find_element(By.ID, "map")
    ActionChains(page.driver).move_to_element_with_offset(canvas, round(x), round(y)).perform()
    assert not page.run("return document.getElementById('tip').hidden")
    assert "speed" in page.text("#tip")
    ActionChains(page.driver).click().perform()
    assert page.run("return wayebMap.chosen.episode") >= 0


def test_dragging_and_the_wheel_move_the_map(page: Browser) -> None:
    x, scale = page.run("return [wayebMap.view.x, wayebMap.view.scale]")
    canvas = page.driver.find_element(By.ID, "map")
    ActionChains(page.driver).drag_and_drop_by_offset(canvas, 100, 0).perform()
    moved = page.run("return wayebMap.view.x")
    assert moved == pytest.approx(x - 100 / scale, rel=1e-6)
    page.run("document.getElementById('map').dispatchEvent(new WheelEvent('wheel', {deltaY: -300, cancelable: true}))")
    assert page.run("return wayebMap.view.scale") == pytest.approx(2 * scale)


def test_keys_pan_and_zoom(page: Browser) -> None:
    scale, x = page.run("document.getElementById('map').focus(); return [wayebMap.view.scale, wayebMap.view.x]")
    page.driver.switch_to.active_element.send_keys("+", Keys.ARROW_RIGHT)
    after = page.run("return [wayebMap.view.scale, wayebMap.view.x]")
    assert after[0] == pytest.approx(1.5 * scale)
    assert after[1] > x
    page.driver.switch_to.active_element.send_keys("0")
    assert page.run("return wayebMap.view.scale") == pytest.approx(scale)


def test_the_time_slider_leaves_what_is_outside_away(page: Browser) -> None:
    slider = page.driver.find_element(By.ID, "until")
    slider.send_keys(Keys.HOME)
    n_shown = int(page.text("#counts").split()[0])
    assert n_shown < 12
    assert page.run("return document.getElementById('until').getAttribute('aria-valuetext')").startswith("2015-12-13")
    page.driver.find_element(By.ID, "all-time").click()
    assert page.text("#counts").startswith("12 ")


def test_a_click_on_the_timeline_chooses_an_episode(page: Browser) -> None:
    area = page.driver.find_element(By.ID, "timeline")
    where = page.run("return wayebMap.timelineHits()[0]")
    width, height = area.size["width"], area.size["height"]
    x, y = (where[0] + where[2]) / 2 - width / 2, (where[1] + where[3]) / 2 - height / 2
    ActionChains(page.driver).move_to_element_with_offset(area, round(x), round(y)).click().perform()
    assert page.run("return wayebMap.chosen.episode") == where[4]


def test_every_control_has_a_name_and_is_reached_by_the_keyboard(page: Browser) -> None:
    nameless = page.run(
        """return [...document.querySelectorAll("button, input, canvas[tabindex]")].filter((control) =>
          !(control.textContent || control.ariaLabel || control.closest("label")?.textContent || control.title))
          .map((control) => control.outerHTML)"""
    )
    assert nameless == []
    assert page.run("return document.querySelectorAll('[tabindex=\"-1\"]').length") == 0


def test_light_and_dark(page: Browser) -> None:
    background = "return getComputedStyle(document.body).backgroundColor"
    before = page.run(background)
    page.driver.find_element(By.ID, "theme").click()
    assert page.run(background) != before
    assert colourful(page) > 500


def test_nothing_sticks_out_at_the_width_of_a_phone(browser: Browser) -> None:
    browser.show(small_page(), size=(500, 900))
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    assert browser.run("return document.getElementById('map').getBoundingClientRect().width") >= 480
    assert colourful(browser) > 500


def test_names_are_text_and_never_code(browser: Browser) -> None:
    tracks = made_tracks(1, 30)
    evil = "</script><script>window.bad = 1</script><img src=x onerror='window.bad = 1'>"
    tracks = Tracks([evil], tracks.first, tracks.time_s, tracks.lon, tracks.lat, ())
    episode = ShownEpisode(evil, evil, evil, float(tracks.time_s[0]), float(tracks.time_s[9]), 1, 0.0)
    scene, _ = build_scene(evil, tracks, [episode])
    browser.show(render_page(scene), "#episode=0")
    assert browser.text("#title") == evil
    assert browser.text("#detail h2") == evil
    assert browser.run("return window.bad === undefined")
    assert browser.faults() == []


def test_an_empty_scene_is_a_page_too(browser: Browser) -> None:
    none = np.zeros(0)
    scene, _ = build_scene("Nothing", Tracks([], np.zeros(1, dtype=np.int64), none, none, none, ()), [])
    browser.show(render_page(scene))
    assert browser.text("#counts") == "0 episodes, 0 entities"
    assert browser.faults() == []


def test_the_fleet_sample_is_shown_with_its_places_and_reasons(browser: Browser, tmp_path: Path) -> None:
    patterns = wayeb_py.compile(ROOT / "patterns" / "fleet.sre")
    sample = pq.read_table(ROOT / "data" / "fleet_sample.parquet")
    some = sample.filter(pc.is_in(sample["vehicle_id"], sample["vehicle_id"].unique()[:8]))  # each episode has a reason
    data = tmp_path / "some.parquet"
    pq.write_table(some, data)
    found = patterns.recognise(some).to_arrow()
    scene = draw_map(found, [data], tmp_path / "map.html", patterns=patterns, title="Fleet")
    assert len(scene["why"]) == len(scene["episodes"]["pattern"])
    browser.show((tmp_path / "map.html").read_text(encoding="utf-8"), "#episode=0")
    assert browser.driver.find_elements(By.CSS_SELECTOR, "#detail .why li")
    assert browser.driver.find_elements(By.CSS_SELECTOR, "#knowledge input")
    assert browser.faults() == []


def many_patterns_page(n: int = 34) -> str:
    tracks = made_tracks(40, 60)
    begin, end = float(tracks.time_s[0]), float(tracks.time_s[9])
    episodes = [
        ShownEpisode(f"Pattern{i % n:02}", None, tracks.entities[i % 40], begin, end, 1, 0.0) for i in range(3 * n)
    ]
    scene, _ = build_scene("Many", tracks, episodes, [ShownPlace("port", "points", "Brest", (((-4.5, 48.4),),))])
    return render_page(scene)


def oklab(colour: str) -> npt.NDArray[np.float64]:
    """A colour where distances are as an eye sees them (Björn Ottosson's OKLab)."""
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    cones = np.array(
        [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
         [0.0883024619, 0.2817188376, 0.6299787005]]
    ) @ linear  # fmt: skip
    axes = [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660]]  # fmt: skip
    lab: npt.NDArray[np.float64] = np.array(axes) @ np.cbrt(cones)
    return lab


def test_the_colours_of_many_patterns_are_told_apart(browser: Browser) -> None:
    browser.show(many_patterns_page())
    colours = browser.run("return wayebMap.colourOf")
    assert len(colours) == 34
    places = [oklab(colour) for colour in colours]
    assert min(float(np.linalg.norm(a - b)) for a, b in combinations(places, 2)) > 0.07


def test_many_patterns_leave_entities_and_episodes_in_sight(browser: Browser) -> None:
    browser.show(many_patterns_page())
    for list_name in ("patterns", "entities", "episodes"):
        top, bottom = browser.run(
            "const box = document.getElementById(arguments[0]).getBoundingClientRect(); return [box.top, box.bottom]",
            list_name,
        )
        assert 0 < top < bottom <= browser.run("return innerHeight"), list_name
        assert bottom - top >= 70, list_name
    assert browser.run("const a = document.querySelector('aside'); return a.scrollHeight <= a.clientHeight + 1")


def test_an_episode_that_is_clicked_is_in_the_address(page: Browser) -> None:
    buttons = page.driver.find_elements(By.CSS_SELECTOR, "#episodes button")
    buttons[3].click()
    number = buttons[3].get_attribute("data-episode")
    assert page.run("return location.hash") == f"#episode={number}"
    page.run("location.hash = '#episode=5'")
    page.wait(lambda: page.run("return wayebMap.chosen.episode") == 5)
    page.driver.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
    assert page.run("return [location.hash, wayebMap.chosen.episode]") == ["", -1]
    assert page.faults() == []


def test_dates_have_their_year(page: Browser) -> None:
    when = page.text("#episodes .when")
    assert re.fullmatch(r"2015-12-\d\d \d\d:\d\d", when)


def labelled_page() -> str:
    tracks = made_tracks(2, 120)
    middle = (float(tracks.lon[60]), float(tracks.lat[60]))
    labels = {tracks.entities[0]: "EVER GIVEN"}
    tracks = Tracks(tracks.entities, tracks.first, tracks.time_s, tracks.lon, tracks.lat, tracks.shown, labels)
    episode = ShownEpisode("P", None, tracks.entities[0], float(tracks.time_s[0]), float(tracks.time_s[119]), 1, 0.0)
    places = [ShownPlace("port", "points", "XXXXXXXXXXXXXXXXXXXX", ((middle,),))]
    outline = outline_around((middle[0] - 1, middle[1] - 1, middle[0] + 1, middle[1] + 1))
    scene, _ = build_scene("Labels", tracks, [episode], places, outline=outline)
    return render_page(scene)


def test_an_entity_is_shown_by_its_name_and_found_by_it(browser: Browser) -> None:
    browser.show(labelled_page(), "#episode=0")
    key = browser.run("return wayebMap.scene.entities[0]")
    assert browser.text("#entities .name") == f"EVER GIVEN ({key})"
    assert browser.text("#episodes .name") == "P · EVER GIVEN"
    assert "EVER GIVEN" in browser.text("#detail dl")
    browser.driver.find_element(By.ID, "entity-search").send_keys("ever g")
    assert len(browser.driver.find_elements(By.CSS_SELECTOR, "#entities input")) == 1


INK_BY_THE_PORT = """
const m = wayebMap;
const canvas = document.getElementById("map");
const ratio = canvas.width / canvas.clientWidth;
const place = m.scene.places[0].lines[0];
const x = m.pixelX((place[0] + 180) / 360);
const s = Math.sin(place[1] * Math.PI / 180);
const y = m.pixelY(0.5 - Math.log((1 + s) / (1 - s)) / (4 * Math.PI));
const data = canvas.getContext("2d").getImageData((x + 8) * ratio, (y - 8) * ratio, 100 * ratio, 14 * ratio).data;
let n = 0;
for (let i = 0; i < data.length; i += 4) if (Math.max(data[i], data[i + 1], data[i + 2]) < 120) n++;
return n;
"""


def test_labels_are_not_hidden_under_tracks(browser: Browser) -> None:
    # The track goes to and fro over all of the label: drawn above it, nothing of it would be seen.
    lon = np.tile([-5.0, -4.0, -4.0, -5.0], 100)
    lat = np.repeat(np.linspace(48.4, 48.5, 200), 2)
    tracks = Tracks(["a"], np.array([0, 400]), np.arange(400.0), lon, lat, ())
    places = [ShownPlace("port", "points", "MMMMMMMMMMMMMMMM", (((-4.7, 48.45),),))]
    scene, _ = build_scene("Labels", tracks, [ShownEpisode("P", None, "a", 0.0, 399.0, 1, 0.0)], places)
    browser.show(render_page(scene))
    browser.run("wayebMap.drawNow()")
    above = browser.run(INK_BY_THE_PORT)
    browser.run("wayebMap.chosen.patterns.clear(); wayebMap.drawNow()")
    assert above >= 0.8 * browser.run(INK_BY_THE_PORT) > 100


def test_the_land_can_be_shown_and_hidden(browser: Browser) -> None:
    browser.show(labelled_page())
    land = browser.run("return getComputedStyle(document.documentElement).getPropertyValue('--land').trim()")
    wanted = [int(land[i : i + 2], 16) for i in (1, 3, 5)]
    count = """
      wayebMap.drawNow();
      const canvas = document.getElementById("map");
      const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      let n = 0;
      for (let i = 0; i < data.length; i += 4)
        if (data[i] === arguments[0][0] && data[i + 1] === arguments[0][1] && data[i + 2] === arguments[0][2]) n++;
      return n;"""
    browser.run("wayebMap.view.scale = 3000")
    assert browser.run(count, wanted) > 10_000
    browser.driver.find_elements(By.CSS_SELECTOR, "#knowledge input")[-1].click()
    assert browser.run(count, wanted) == 0
    assert browser.faults() == []
