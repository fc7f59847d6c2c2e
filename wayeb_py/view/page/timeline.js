// The timeline: a row an entity, a bar an episode, which stands in the rows of both of a pair; a silence is hatched, and
// a forecast is a shaded bar, the darker the likelier. Only the rows in view are drawn, so their number does not matter.

const timelineCanvas = document.getElementById("timeline");
const timelineScroll = document.getElementById("timeline-scroll");
const timelinePen = timelineCanvas.getContext("2d");
const ROW = 18;
const AXIS = 20;
const line = { left: 132, right: 12, rows: [], hits: [] };

// Entities with shown episodes first, the busiest on top.
function arrangeRows() {
  const counts = new Array(nEntities).fill(0);
  for (let e = 0; e < nEpisodes; e++) if (isEpisodeShown(e)) for (const [entity] of spansOf[e]) counts[entity]++;
  line.rows = [];
  for (let entity = 0; entity < nEntities; entity++) if (isEntityShown(entity)) line.rows.push(entity);
  line.rows.sort((a, b) => counts[b] - counts[a] || a - b);
  document.getElementById("timeline-height").style.height =
    `${Math.max(0, line.rows.length * ROW + AXIS + 6 - timelineScroll.clientHeight)}px`;
}

const timeX = (seconds, width) => line.left + ((seconds - earliest) / (latest - earliest)) * (width - line.left - line.right);

const TIME_STEPS = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800, 2592000, 7776000];

function drawTimeline() {
  const pen = timelinePen;
  const width = timelineScroll.clientWidth;
  const height = timelineScroll.clientHeight;
  line.left = width < 600 ? 20 : 132;
  fitCanvas(timelineCanvas, width, height);
  pen.fillStyle = colours.panel;
  pen.fillRect(0, 0, width, height);
  drawTimeAxis(pen, width, height);
  line.hits = [];
  const offset = timelineScroll.scrollTop;
  pen.save();
  pen.beginPath();
  pen.rect(0, AXIS, width, height - AXIS);
  pen.clip();
  pen.font = "12px system-ui, 'DejaVu Sans', sans-serif";
  const begin = Math.floor(offset / ROW);
  for (let i = begin; i < Math.min(line.rows.length, begin + Math.ceil(height / ROW) + 1); i++) {
    drawRow(pen, line.rows[i], AXIS + i * ROW - offset, width);
  }
  pen.restore();
  pen.fillStyle = colours.panel;
  pen.globalAlpha = 0.65;
  const [fromX, untilX] = [timeX(chosen.from, width), timeX(chosen.until, width)];
  pen.fillRect(line.left, AXIS, fromX - line.left, height);
  pen.fillRect(untilX, AXIS, width - line.right - untilX, height);
  pen.globalAlpha = 1;
}

function drawTimeAxis(pen, width, height) {
  const perPixel = (latest - earliest) / Math.max(1, width - line.left - line.right);
  const step = TIME_STEPS.find((s) => s / perPixel > 76) ?? 31536000;
  pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  pen.fillStyle = colours.soft;
  pen.strokeStyle = colours.grid;
  pen.lineWidth = 1;
  pen.textAlign = "center";
  pen.beginPath();
  for (let t = Math.ceil(earliest / step) * step; t <= latest; t += step) {
    const x = Math.round(timeX(t, width)) + 0.5;
    pen.moveTo(x, AXIS - 4);
    pen.lineTo(x, height);
    const text = t % 86400 === 0 ? timeText(t, "day") : step < 60 ? timeText(t).slice(11) : timeText(t, "clock");
    if (x > line.left + 8 && x < width - line.right - 8) pen.fillText(text, x, 12);
  }
  pen.stroke();
  if (line.left > 60) { // the day of the first clock that is shown
    pen.textAlign = "right";
    pen.fillText(timeText(earliest, "day"), line.left - 8, 12);
  }
  pen.textAlign = "left";
}

function drawRow(pen, entity, y, width) {
  const middle = y + ROW / 2;
  if (line.left > 60) {
    pen.fillStyle = chosen.entities.has(entity) ? colours.accent : colours.ink;
    pen.textAlign = "right";
    const name = shortText(entity);
    pen.fillText(name.length > 17 ? `${name.slice(0, 16)}…` : name, line.left - 8, middle + 4);
    pen.textAlign = "left";
  }
  if (first[entity] < first[entity + 1]) {
    pen.fillStyle = colours.strong;
    const from = timeX(time[first[entity]], width);
    pen.fillRect(from, middle - 0.5, Math.max(1, timeX(time[first[entity + 1] - 1], width) - from), 1);
  }
  for (const f of forecastsOf[entity]) {
    if (!chosen.patterns.has(forecasts.pattern[f])) continue;
    const x = Math.max(line.left, timeX(forecasts.from[f], width));
    const end = Math.min(timeX(forecasts.until[f], width), width - line.right);
    pen.fillStyle = colourOf[forecasts.pattern[f]];
    pen.globalAlpha = 0.06 + 0.3 * forecasts.probability[f];
    if (end > x) pen.fillRect(x, middle - 8, Math.max(2, end - x), 16);
    pen.globalAlpha = 1;
  }
  const shown = episodesOf[entity].filter((e) => isEpisodeShown(e) && e !== chosen.episode);
  if (chosen.episode >= 0 && episodesOf[entity].includes(chosen.episode)) shown.push(chosen.episode); // above the others
  for (const e of shown) {
    const x = Math.max(line.left, timeX(episodes.start[e], width)); // what is shown may begin within an episode
    const solid = Math.max(4, Math.min(timeX(episodes.end[e], width), width - line.right) - x);
    const length = Math.max(solid, Math.min(timeX(untilOf(e), width), width - line.right) - x);
    pen.fillStyle = colourOf[episodes.pattern[e]];
    pen.globalAlpha = chosen.episode >= 0 && chosen.episode !== e ? 0.45 : 0.95;
    pen.fillRect(x, middle - 5, solid, 10);
    if (length > solid) {
      pen.fillStyle = hatchOf(colourOf[episodes.pattern[e]]);
      pen.fillRect(x + solid, middle - 5, length - solid, 10);
    }
    pen.globalAlpha = 1;
    if (chosen.episode === e) {
      pen.strokeStyle = colours.ink;
      pen.lineWidth = 1.5;
      pen.strokeRect(x - 1, middle - 6, length + 2, 12);
    }
    line.hits.push([x - 2, middle - 7, x + length + 2, middle + 7, e]);
  }
}

const hatches = new Map();

// Diagonal lines of a colour, to fill with: something that did not happen.
function hatchOf(colour) {
  if (!hatches.has(colour)) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 6;
    const pen = canvas.getContext("2d");
    pen.strokeStyle = colour;
    pen.lineWidth = 1.5;
    pen.beginPath();
    for (const x of [-6, 0, 6]) {
      pen.moveTo(x - 1, 7);
      pen.lineTo(x + 7, -1);
    }
    pen.stroke();
    hatches.set(colour, timelinePen.createPattern(canvas, "repeat"));
  }
  return hatches.get(colour);
}

function episodeOnTimeline(px, py) {
  for (let i = line.hits.length - 1; i >= 0; i--) {
    const [x0, y0, x1, y1, e] = line.hits[i];
    if (px >= x0 && px <= x1 && py >= y0 && py <= y1) return e;
  }
  return -1;
}
