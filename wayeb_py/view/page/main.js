// Ties the parts together: size, pointer, keys, sliders. Whatever changes what is chosen ends in `changed`.

const mapArea = document.getElementById("map-area");
const tip = document.getElementById("tip");
let isScheduled = false;

function redraw() {
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame(drawNow);
}

function drawNow() {
  isScheduled = false;
  drawMap();
  drawTimeline();
}

function changed() {
  arrangeRows();
  const n = listEpisodes();
  const nShown = line.rows.length;
  document.getElementById("counts").textContent =
    `${n.toLocaleString("en")} ${n === 1 ? "episode" : "episodes"}, ${nShown.toLocaleString("en")} ${nShown === 1 ? "entity" : "entities"}`;
  showSpan();
  redraw();
}

function chooseEpisode(e) {
  chosen.episode = e;
  // The address is a link to what is shown; where the page has none of its own (in a frame), it stays as it is.
  try { history.replaceState(null, "", e < 0 ? location.pathname + location.search : `#episode=${e}`); } catch { /* as it is */ }
  showDetail();
  if (e >= 0) {
    let bounds;
    for (const [, begin, end] of spansOf[e]) bounds = boundsOf(begin, end, bounds);
    showBounds(bounds, 90);
    view.scale = Math.min(view.scale, 2 ** 24); // some surroundings, however short it is
    const row = Math.min(...spansOf[e].map(([entity]) => line.rows.indexOf(entity)).filter((at) => at >= 0));
    if (Number.isFinite(row)) timelineScroll.scrollTop = Math.max(0, row * ROW - timelineScroll.clientHeight / 2 + AXIS);
    document.querySelector("aside").scrollTop = 0;
  }
  for (const button of document.querySelectorAll("#episodes button")) {
    if (Number(button.dataset.episode) === e) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
  redraw();
}

function fitAll() {
  showBounds(boundsOfAll(), 40);
  redraw();
}

function resize() {
  const box = mapArea.getBoundingClientRect();
  view.width = box.width;
  view.height = box.height;
  arrangeRows();
  redraw();
}

// ---- pointer

const pointers = new Map();
let wasDragged = false;

function place(event) {
  const box = mapCanvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

mapCanvas.addEventListener("pointerdown", (event) => {
  mapCanvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, place(event));
  wasDragged = false;
  tip.hidden = true;
});

mapCanvas.addEventListener("pointermove", (event) => {
  const now = place(event);
  const before = pointers.get(event.pointerId);
  if (!before) { hover(...now); return; }
  const moved = Math.hypot(now[0] - before[0], now[1] - before[1]);
  if (!wasDragged && moved < 4) return;
  wasDragged = true;
  mapCanvas.classList.add("dragging");
  if (pointers.size === 2) {
    const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
    const factor = Math.hypot(now[0] - other[0], now[1] - other[1]) / Math.hypot(before[0] - other[0], before[1] - other[1]);
    if (Number.isFinite(factor) && factor > 0) zoomAt((now[0] + other[0]) / 2, (now[1] + other[1]) / 2, factor);
  } else {
    view.x -= (now[0] - before[0]) / view.scale;
    view.y -= (now[1] - before[1]) / view.scale;
  }
  pointers.set(event.pointerId, now);
  redraw();
});

mapCanvas.addEventListener("pointerup", (event) => {
  pointers.delete(event.pointerId);
  mapCanvas.classList.remove("dragging");
  if (wasDragged) return;
  const found = findUnder(...place(event));
  chooseEpisode(found ? found.episode : -1);
});
mapCanvas.addEventListener("pointercancel", (event) => pointers.delete(event.pointerId));
mapCanvas.addEventListener("pointerleave", () => { tip.hidden = true; });

mapCanvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoomAt(...place(event), 2 ** (-event.deltaY / 300));
  redraw();
}, { passive: false });

function hover(px, py) {
  const found = findUnder(px, py);
  mapCanvas.classList.toggle("pointing", Boolean(found && found.episode >= 0));
  tip.hidden = !found;
  if (!found) return;
  tip.replaceChildren(...tipFor(found));
  tip.style.left = `${px > view.width - 300 ? Math.max(4, px - tip.offsetWidth - 14) : px + 14}px`;
  tip.style.top = `${Math.max(4, Math.min(py + 12, view.height - tip.offsetHeight - 8))}px`;
}

timelineCanvas.addEventListener("click", (event) => {
  const box = timelineCanvas.getBoundingClientRect();
  const e = episodeOnTimeline(event.clientX - box.left, event.clientY - box.top);
  if (e >= 0) chooseEpisode(e);
});
timelineCanvas.addEventListener("pointermove", (event) => {
  const box = timelineCanvas.getBoundingClientRect();
  const e = episodeOnTimeline(event.clientX - box.left, event.clientY - box.top);
  timelineCanvas.style.cursor = e >= 0 ? "pointer" : "";
  timelineCanvas.title = e < 0 ? "" : `${scene.patterns[episodes.pattern[e]].name} · ${whoText(e, entityText)}\n` +
    `${timeText(episodes.start[e])} – ${timeText(untilOf(e))}`;
});
timelineScroll.addEventListener("scroll", redraw);

// ---- keys

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && chosen.episode >= 0) chooseEpisode(-1);
});
mapCanvas.addEventListener("keydown", (event) => {
  const step = 80 / view.scale;
  const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
  if (moves[event.key]) {
    view.x += moves[event.key][0];
    view.y += moves[event.key][1];
  } else if (event.key === "+" || event.key === "=") zoomAt(view.width / 2, view.height / 2, 1.5);
  else if (event.key === "-") zoomAt(view.width / 2, view.height / 2, 1 / 1.5);
  else if (event.key === "0") showBounds(boundsOfAll(), 40);
  else return;
  event.preventDefault();
  redraw();
});

// ---- time

const fromSlider = document.getElementById("from");
const untilSlider = document.getElementById("until");
const SLIDER_STEPS = 1000;
const timeOfStep = (step) => earliest + ((latest - earliest) * step) / SLIDER_STEPS;

function showSpan() {
  const [a, b] = [Number(fromSlider.value), Number(untilSlider.value)];
  const fill = document.getElementById("slider-fill");
  fill.style.left = `${a / 10}%`;
  fill.style.width = `${(b - a) / 10}%`;
  document.getElementById("span").textContent = `${timeText(chosen.from)} – ${timeText(chosen.until)} UTC`;
  for (const [slider, seconds] of [[fromSlider, chosen.from], [untilSlider, chosen.until]]) {
    slider.setAttribute("aria-valuetext", timeText(seconds));
  }
}

function slide(moved) {
  let [a, b] = [Number(fromSlider.value), Number(untilSlider.value)];
  if (a > b) { if (moved === fromSlider) fromSlider.value = a = b; else untilSlider.value = b = a; }
  chosen.from = timeOfStep(a);
  chosen.until = b === SLIDER_STEPS ? latest : timeOfStep(b);
  changed();
}
fromSlider.addEventListener("input", () => slide(fromSlider));
untilSlider.addEventListener("input", () => slide(untilSlider));

const playButton = document.getElementById("play");
let player = 0;

// Moves the chosen span along; a span that is everything becomes a twentieth of it first.
function play() {
  if (player) { cancelAnimationFrame(player); player = 0; playButton.textContent = "▶"; playButton.ariaLabel = "Play"; return; }
  playButton.textContent = "❚❚";
  playButton.ariaLabel = "Pause";
  let width = Number(untilSlider.value) - Number(fromSlider.value);
  if (width >= SLIDER_STEPS) { width = 50; setSpan(0, width); }
  const tick = () => {
    const end = Number(untilSlider.value) + 2;
    if (end > SLIDER_STEPS) { setSpan(SLIDER_STEPS - width, SLIDER_STEPS); play(); return; }
    setSpan(end - width, end);
    player = requestAnimationFrame(tick);
  };
  player = requestAnimationFrame(tick);
}

function setSpan(a, b) {
  fromSlider.value = a;
  untilSlider.value = b;
  slide(untilSlider);
}
playButton.addEventListener("click", play);
document.getElementById("all-time").addEventListener("click", () => setSpan(0, SLIDER_STEPS));

// ---- buttons

document.getElementById("fit").addEventListener("click", fitAll);
document.getElementById("zoom-in").addEventListener("click", () => { zoomAt(view.width / 2, view.height / 2, 2); redraw(); });
document.getElementById("zoom-out").addEventListener("click", () => { zoomAt(view.width / 2, view.height / 2, 0.5); redraw(); });
document.getElementById("all-patterns").addEventListener("click", () => {
  chosen.patterns = new Set(scene.patterns.keys());
  listPatterns();
  changed();
});
document.getElementById("no-patterns").addEventListener("click", () => {
  chosen.patterns = new Set();
  listPatterns();
  changed();
});
document.getElementById("clear-entities").addEventListener("click", () => {
  chosen.entities.clear();
  document.getElementById("entity-search").value = "";
  listEntities();
  changed();
});
document.getElementById("entity-search").addEventListener("input", listEntities);
document.getElementById("only-detected").addEventListener("change", listEntities);
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = getComputedStyle(root).colorScheme === "dark";
  root.dataset.theme = isDark ? "light" : "dark";
  readColours();
  redraw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); redraw(); });

// ---- the start

document.getElementById("title").textContent = scene.title;
const notes = document.getElementById("notes");
notes.textContent = scene.notes.join(" ");
notes.hidden = !scene.notes.length;
readColours();
listPatterns();
listKnowledge();
listEntities();
resize();
changed();
showBounds(boundsOfAll(), 40);
new ResizeObserver(resize).observe(mapArea);
drawNow();

// A link to one episode: map.html#episode=3.
function follow() {
  const linked = /^#episode=(\d+)$/.exec(location.hash);
  if (linked && Number(linked[1]) < nEpisodes) chooseEpisode(Number(linked[1]));
}
addEventListener("hashchange", follow);
follow();

// What a test or a curious reader may look at.
window.wayebMap = { timelineHits: () => line.hits, links, scene, view, chosen, colourOf, drawNow, chooseEpisode, findUnder, pixelX, pixelY, worldX, worldY };
