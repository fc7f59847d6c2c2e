// The map: graticule, places, tracks, episodes, and what is under the pointer.

const mapCanvas = document.getElementById("map");
const mapPen = mapCanvas.getContext("2d");
let colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ink", "soft", "line", "strong", "accent", "sea", "track", "grid", "area", "halo", "panel", "land"]) {
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  }
}

function fitCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const wanted = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== wanted[0] || canvas.height !== wanted[1]) {
    [canvas.width, canvas.height] = wanted;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
}

const isInView = (bounds) =>
  pixelX(bounds[2]) >= 0 && pixelX(bounds[0]) <= view.width && pixelY(bounds[3]) >= 0 && pixelY(bounds[1]) <= view.height;

// Rows of one entity in time, as a half-open range.
function rowsBetween(begin, end, from, until) {
  const search = (bound, after) => {
    let low = begin;
    let high = end;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (time[middle] < bound || (after && time[middle] === bound)) low = middle + 1; else high = middle;
    }
    return low;
  };
  return [search(from, false), search(until, true)];
}

// Adds a line through rows to the path; steps shorter than `step` pixels are left out, and the antimeridian is not
// crossed.
function addLine(pen, begin, end, step = 1, breaks = false) {
  const { x: midX, y: midY, scale } = view;
  const offsetX = view.width / 2;
  const offsetY = view.height / 2;
  let lastX = NaN;
  let lastY = NaN;
  for (let row = begin; row < end; row++) {
    const wx = worldX[row];
    if (wx !== wx) continue;
    const x = (wx - midX) * scale + offsetX;
    const y = (worldY[row] - midY) * scale + offsetY;
    if (lastX !== lastX || Math.abs(x - lastX) > scale / 2 || (breaks && isInterrupted[row])) {
      pen.moveTo(x, y);
    } else if (Math.abs(x - lastX) + Math.abs(y - lastY) < step && row < end - 1) {
      continue;
    } else {
      pen.lineTo(x, y);
    }
    lastX = x;
    lastY = y;
  }
}

function drawMap() {
  const pen = mapPen;
  fitCanvas(mapCanvas, view.width, view.height);
  pen.fillStyle = colours.sea;
  pen.fillRect(0, 0, view.width, view.height);
  drawWorld(pen);
  drawGraticule(pen);
  const labels = drawPlaces(pen);
  drawTracks(pen);
  drawEpisodes(pen);
  drawLabels(pen, [...labelsOfChosen(), ...labels]); // above the tracks, which would hide them
  drawScaleBar(pen);
}

const STEPS = [30, 15, 10, 5, 2, 1, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002, 0.0001];

function drawGraticule(pen) {
  const [left, top] = worldOfPixel(0, 0);
  const [right, bottom] = worldOfPixel(view.width, view.height);
  const [west, east, north, south] = [lonOfX(left), lonOfX(right), latOfY(top), latOfY(bottom)];
  const pixelsPerDegree = view.scale / 360;
  const step = STEPS.find((s, i) => s * pixelsPerDegree < 160 || i === STEPS.length - 1) ?? 30;
  const digits = (String(step).split(".")[1] ?? "").length;
  const degrees = (value, positive, negative) =>
    `${Math.abs(value).toFixed(digits)}° ${Math.abs(value) < step / 2 ? "" : value > 0 ? positive : negative}`.trim();
  pen.strokeStyle = colours.grid;
  pen.lineWidth = 1;
  pen.fillStyle = colours.soft;
  pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  pen.beginPath();
  for (let k = Math.ceil(Math.max(west, -180) / step); k * step <= Math.min(east, 180); k++) {
    const x = Math.round(pixelX(mercatorX(k * step))) + 0.5;
    pen.moveTo(x, 0);
    pen.lineTo(x, view.height);
    pen.fillText(degrees(k * step, "E", "W"), x + 4, 13);
  }
  for (let k = Math.ceil(Math.max(south, -85) / step); k * step <= Math.min(north, 85); k++) {
    const y = Math.round(pixelY(mercatorY(k * step))) + 0.5;
    if (y < 24) continue;
    pen.moveTo(0, y);
    pen.lineTo(view.width, y);
    if (y < view.height - 44) pen.fillText(degrees(k * step, "N", "S"), 6, y - 4); // below is the scale bar
  }
  pen.stroke();
}

const placeShapes = scene.places.map((place) => {
  const bounds = [Infinity, Infinity, -Infinity, -Infinity];
  const lines = place.lines.map((line) => {
    const world = new Float64Array(line.length);
    for (let i = 0; i < line.length; i += 2) {
      world[i] = mercatorX(line[i]);
      world[i + 1] = mercatorY(line[i + 1]);
      bounds[0] = Math.min(bounds[0], world[i]);
      bounds[1] = Math.min(bounds[1], world[i + 1]);
      bounds[2] = Math.max(bounds[2], world[i]);
      bounds[3] = Math.max(bounds[3], world[i + 1]);
    }
    return world;
  });
  return { ...place, lines, bounds };
});

// Draws the places, and gives their labels: [x, y, text, alignment].
function drawPlaces(pen) {
  const labels = [];
  for (const place of placeShapes) {
    if (!chosen.knowledge.has(place.knowledge) || !isInView(place.bounds)) continue;
    pen.beginPath();
    if (place.shape === "points") {
      for (const line of place.lines) {
        const [x, y] = [pixelX(line[0]), pixelY(line[1])];
        pen.moveTo(x, y - 4.5);
        pen.lineTo(x + 4.5, y);
        pen.lineTo(x, y + 4.5);
        pen.lineTo(x - 4.5, y);
        pen.closePath();
        labels.push([x + 8, y + 4, place.name]);
      }
      pen.fillStyle = colours.area;
      pen.fill();
      continue;
    }
    for (const line of place.lines) {
      for (let i = 0; i < line.length; i += 2) {
        if (i) pen.lineTo(pixelX(line[i]), pixelY(line[i + 1])); else pen.moveTo(pixelX(line[i]), pixelY(line[i + 1]));
      }
      if (place.shape === "areas") pen.closePath();
    }
    pen.strokeStyle = colours.area;
    pen.lineWidth = 1.2;
    if (place.shape === "areas") {
      pen.globalAlpha = 0.13;
      pen.fillStyle = colours.area;
      pen.fill("evenodd");
      pen.globalAlpha = 1;
      pen.setLineDash([5, 3]);
      const [x, y] = [pixelX((place.bounds[0] + place.bounds[2]) / 2), pixelY((place.bounds[1] + place.bounds[3]) / 2)];
      if (pixelX(place.bounds[2]) - pixelX(place.bounds[0]) > 50) labels.push([x, y, place.name, "center"]);
    }
    pen.stroke();
    pen.setLineDash([]);
  }
  return labels;
}

function drawLabels(pen, labels) {
  pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  pen.lineWidth = 3;
  pen.strokeStyle = colours.halo;
  pen.lineJoin = "round";
  pen.fillStyle = colours.ink;
  const taken = [];
  for (const [x, y, text, align] of labels) {
    if (!text || x < -200 || y < 0 || x > view.width + 200 || y > view.height) continue;
    const width = text.length * 6.2;
    const left = align === "center" ? x - width / 2 : align === "right" ? x - width : x;
    if (taken.some((t) => left < t[1] && left + width > t[0] && Math.abs(y - t[2]) < 13)) continue;
    taken.push([left, left + width, y]);
    pen.textAlign = align ?? "left";
    pen.strokeText(text, x, y);
    pen.fillText(text, x, y);
  }
  pen.textAlign = "left";
}

function drawTracks(pen) {
  const dimmed = chosen.episode >= 0;
  pen.lineWidth = 1;
  pen.lineJoin = "round";
  pen.strokeStyle = colours.track;
  pen.globalAlpha = dimmed ? 0.3 : 0.75;
  pen.beginPath();
  for (let entity = 0; entity < nEntities; entity++) {
    if (!isEntityShown(entity) || !isInView(boundsOfEntity[entity])) continue;
    const [begin, end] = rowsBetween(first[entity], first[entity + 1], chosen.from, chosen.until);
    addLine(pen, begin, end, 1, true);
  }
  pen.stroke();
  if (dimmed) {
    pen.globalAlpha = 1;
    pen.beginPath();
    for (const [entity] of spansOf[chosen.episode]) {
      const [begin, end] = rowsBetween(first[entity], first[entity + 1], chosen.from, chosen.until);
      addLine(pen, begin, end, 1, true);
    }
    pen.stroke();
  }
  pen.globalAlpha = 1;
}

function lastPosition(begin, end) {
  for (let row = end - 1; row >= begin; row--) if (worldX[row] === worldX[row]) return row;
  return -1;
}

function drawEpisodes(pen) {
  pen.lineJoin = "bevel"; // rounding the corners of wide lines takes much longer
  const near = links();
  for (let p = 0; p < scene.patterns.length; p++) {
    if (!chosen.patterns.has(p)) continue;
    pen.strokeStyle = pen.fillStyle = colourOf[p];
    pen.globalAlpha = chosen.episode >= 0 ? 0.25 : 0.9;
    pen.lineWidth = 3;
    const shown = episodesOfPattern[p].filter((e) => isEpisodeShown(e) && e !== chosen.episode);
    drawWays(pen, shown);
    drawLinks(pen, near, p);
    pen.globalAlpha = chosen.episode >= 0 ? 0.25 : 0.9;
    const ends = new Set(); // episodes that end at one event have one dot
    for (const e of shown) for (const [, begin, end] of spansOf[e]) ends.add(lastPosition(begin, end));
    for (const row of ends) stamp(pen, row, DOT, "dot", colourOf[p]);
    drawRings(pen, shown, colourOf[p]);
  }
  pen.globalAlpha = 1;
  pen.lineJoin = "round";
  if (chosen.episode >= 0) drawChosen(pen, chosen.episode);
}

const isInEpisode = new Uint8Array(nPoints); // [row] -> the way to it from the row before is drawn

// The ways of some episodes. However many lie over each other, as in a harbour, each part of a track is drawn once.
function drawWays(pen, shown) {
  isInEpisode.fill(0);
  for (const e of shown) for (const [, begin, end] of spansOf[e]) isInEpisode.fill(1, begin + 1, end);
  pen.beginPath();
  for (let entity = 0; entity < nEntities; entity++) {
    const end = first[entity + 1];
    for (let row = first[entity] + 1; row < end; row++) {
      if (!isInEpisode[row]) continue;
      const begin = row - 1;
      while (row < end && isInEpisode[row]) row++;
      addLine(pen, begin, row, 2.5);
    }
  }
  pen.stroke();
}

const DOT = 3.5;
const RING = 9;
const stamps = new Map();

// Round marks as pictures: stamping one is several times faster than drawing circles.
const MARKS = {
  dot(pen, middle) {
    pen.arc(middle, middle, middle, 0, 2 * Math.PI);
    pen.fill();
  },
  ring(pen, middle, ratio) {
    pen.lineWidth = 1.5 * ratio;
    pen.setLineDash([3 * ratio, 3 * ratio]);
    pen.arc(middle, middle, middle - ratio, 0, 2 * Math.PI);
    pen.stroke();
  },
};

function stamp(pen, row, radius, mark, colour) {
  if (row < 0) return;
  const ratio = window.devicePixelRatio || 1;
  const key = `${mark} ${colour} ${ratio}`;
  if (!stamps.has(key)) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = Math.ceil(2 * radius * ratio);
    const own = canvas.getContext("2d");
    own.fillStyle = own.strokeStyle = colour;
    own.beginPath();
    MARKS[mark](own, canvas.width / 2, ratio);
    stamps.set(key, canvas);
  }
  pen.drawImage(stamps.get(key), pixelX(worldX[row]) - radius, pixelY(worldY[row]) - radius, 2 * radius, 2 * radius);
}

function addDot(path, row, radius) {
  if (row < 0) return;
  const x = pixelX(worldX[row]);
  const y = pixelY(worldY[row]);
  if (x < -9 || y < -9 || x > view.width + 9 || y > view.height + 9) return;
  path.moveTo(x + radius, y);
  path.arc(x, y, radius, 0, 2 * Math.PI);
}

function drawChosen(pen, e) {
  for (const [width, colour] of [[8, colours.halo], [4, colourOf[episodes.pattern[e]]]]) {
    pen.lineWidth = width;
    pen.strokeStyle = colour;
    pen.beginPath();
    for (const [, begin, end] of spansOf[e]) addLine(pen, begin, end);
    pen.stroke();
  }
  if (isPair(e)) drawLadder(pen, e);
  const dots = new Path2D();
  for (const [, begin, end] of spansOf[e]) {
    let [lastX, lastY] = [Infinity, Infinity];
    for (let row = begin; row < end; row++) {
      const [x, y] = [pixelX(worldX[row]), pixelY(worldY[row])];
      if (x !== x || Math.abs(x - lastX) + Math.abs(y - lastY) < 12) continue; // dots side by side would hide the line
      addDot(dots, row, 3);
      [lastX, lastY] = [x, y];
    }
    addDot(dots, lastPosition(begin, end), 6);
  }
  pen.fillStyle = colourOf[episodes.pattern[e]];
  pen.strokeStyle = colours.halo;
  pen.lineWidth = 1.5;
  pen.fill(dots);
  pen.stroke(dots);
  drawRings(pen, [e], colourOf[episodes.pattern[e]]);
}

const episodesOfPattern = scene.patterns.map(() => []);
for (let e = 0; e < nEpisodes; e++) episodesOfPattern[episodes.pattern[e]].push(e);

function drawScaleBar(pen) {
  const metresPerPixel = (EARTH_M * Math.cos((latOfY(view.y) * Math.PI) / 180)) / view.scale;
  const most = 130 * metresPerPixel;
  const power = 10 ** Math.floor(Math.log10(most));
  const length = [5, 2, 1].map((n) => n * power).find((n) => n <= most);
  const pixels = length / metresPerPixel;
  const text = length >= 1000 ? `${length / 1000} km` : length >= 1 ? `${length} m` : `${Math.round(length * 100)} cm`;
  const y = view.height - 14;
  pen.font = "12px system-ui, 'DejaVu Sans', sans-serif";
  for (const [width, colour] of [[5, colours.halo], [2, colours.ink]]) {
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.beginPath();
    pen.moveTo(14, y - 5);
    pen.lineTo(14, y);
    pen.lineTo(14 + pixels, y);
    pen.lineTo(14 + pixels, y - 5);
    pen.stroke();
  }
  pen.lineWidth = 3;
  pen.strokeStyle = colours.halo;
  pen.fillStyle = colours.ink;
  pen.strokeText(text, 20, y - 6);
  pen.fillText(text, 20, y - 6);
}

// The nearest shown point within reach of a pixel: {row, entity, episode}; episodes come before bare tracks, the chosen
// one before the others. Each point is looked at once, however many episodes it is in.
function findUnder(px, py, reach = 9) {
  let best = null;
  for (let entity = 0; entity < nEntities; entity++) {
    if (!isInView(boundsOfEntity[entity])) continue;
    const shown = episodesOf[entity].filter(isEpisodeShown);
    if (!shown.length && !isEntityShown(entity)) continue;
    for (let row = first[entity]; row < first[entity + 1]; row++) {
      const dx = pixelX(worldX[row]) - px;
      const dy = pixelY(worldY[row]) - py;
      if (!(dx * dx + dy * dy <= reach * reach)) continue; // nor where there is no position
      const isHere = (e) => spansOf[e].some(([, begin, end]) => begin <= row && row < end);
      const episode = shown.includes(chosen.episode) && isHere(chosen.episode) ? chosen.episode : shown.find(isHere) ?? -1;
      if (episode < 0 && !(isEntityShown(entity) && chosen.from <= time[row] && time[row] <= chosen.until)) continue;
      const distance = Math.sqrt(dx * dx + dy * dy) - (episode < 0 ? 0 : episode === chosen.episode ? 7 : 5);
      if (!best || distance < best.distance) best = { row, entity, episode, distance };
    }
  }
  return best;
}
