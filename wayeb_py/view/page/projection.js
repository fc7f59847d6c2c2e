// Positions become pixels: Mercator, as on a chart, so that directions are true at every scale. The world is 1 wide.

const MOST_NORTH = 85.05112878;

const mercatorX = (lonDegrees) => (lonDegrees + 180) / 360;
function mercatorY(latDegrees) {
  const bounded = Math.max(-MOST_NORTH, Math.min(MOST_NORTH, latDegrees));
  const s = Math.sin((bounded * Math.PI) / 180);
  return 0.5 - Math.log((1 + s) / (1 - s)) / (4 * Math.PI);
}
const lonOfX = (x) => x * 360 - 180;
const latOfY = (y) => (Math.atan(Math.sinh(Math.PI * (1 - 2 * y))) * 180) / Math.PI;

const EARTH_M = 2 * Math.PI * 6371008.8;

// NaN where there is no position.
const worldX = new Float64Array(nPoints);
const worldY = new Float64Array(nPoints);
for (let row = 0; row < nPoints; row++) {
  const known = lon[row] !== NO_POSITION;
  worldX[row] = known ? mercatorX(lon[row] / PER_DEGREE) : NaN;
  worldY[row] = known ? mercatorY(lat[row] / PER_DEGREE) : NaN;
}

// Where an entity was silent for long, its track is interrupted: a line would tell of a way that nobody saw.
const LONG_SILENCE_S = 600;
const isInterrupted = new Uint8Array(nPoints);
for (let entity = 0; entity < nEntities; entity++) {
  const [begin, end] = [first[entity], first[entity + 1]];
  const gaps = new Float64Array(Math.max(0, end - begin - 1));
  for (let i = 0; i < gaps.length; i++) gaps[i] = time[begin + i + 1] - time[begin + i];
  const usual = gaps.slice().sort()[gaps.length >> 1];
  for (let i = 0; i < gaps.length; i++) {
    if (gaps[i] > Math.max(LONG_SILENCE_S, 20 * usual)) isInterrupted[begin + i + 1] = 1;
  }
}

function boundsOf(begin, end, bounds = [Infinity, Infinity, -Infinity, -Infinity]) {
  for (let row = begin; row < end; row++) {
    const x = worldX[row];
    const y = worldY[row];
    if (x < bounds[0]) bounds[0] = x;
    if (y < bounds[1]) bounds[1] = y;
    if (x > bounds[2]) bounds[2] = x;
    if (y > bounds[3]) bounds[3] = y;
  }
  return bounds;
}

const boundsOfEntity = Array.from({ length: nEntities }, (_, entity) => boundsOf(first[entity], first[entity + 1]));

// The middle of the screen in the world, and how many pixels the world is wide.
const view = { x: 0.5, y: 0.5, scale: 512, width: 1, height: 1 };

const pixelX = (x) => (x - view.x) * view.scale + view.width / 2;
const pixelY = (y) => (y - view.y) * view.scale + view.height / 2;
const worldOfPixel = (px, py) =>
  [(px - view.width / 2) / view.scale + view.x, (py - view.height / 2) / view.scale + view.y];

const LARGEST_SCALE = 2 ** 33;
const SMALLEST_EXTENT = 2e-6; // about 80 m: a ship at anchor is not blown up to its GPS noise

function showBounds(bounds, margin) {
  if (!(bounds[0] <= bounds[2])) return;
  const width = Math.max(bounds[2] - bounds[0], SMALLEST_EXTENT);
  const height = Math.max(bounds[3] - bounds[1], SMALLEST_EXTENT);
  view.x = (bounds[0] + bounds[2]) / 2;
  view.y = (bounds[1] + bounds[3]) / 2;
  const usable = [Math.max(40, view.width - 2 * margin), Math.max(40, view.height - 2 * margin)];
  view.scale = Math.min(usable[0] / width, usable[1] / height, LARGEST_SCALE);
}

function zoomAt(px, py, factor) {
  const [x, y] = worldOfPixel(px, py);
  view.scale = Math.max(200, Math.min(LARGEST_SCALE, view.scale * factor));
  view.x = x - (px - view.width / 2) / view.scale;
  view.y = y - (py - view.height / 2) / view.scale;
}

// What is shown, without the few positions that lie so far out that the rest would be a dot.
function boundsOfAll() {
  const bounds = [Infinity, Infinity, -Infinity, -Infinity];
  const xs = [];
  const ys = [];
  for (let entity = 0; entity < nEntities; entity++) {
    if (!isEntityShown(entity)) continue;
    boundsOf(first[entity], first[entity + 1], bounds);
    for (let row = first[entity]; row < first[entity + 1]; row++) {
      if (worldX[row] === worldX[row]) { xs.push(worldX[row]); ys.push(worldY[row]); }
    }
  }
  for (const [values, low, high] of [[xs, 0, 2], [ys, 1, 3]]) {
    const sorted = Float64Array.from(values).sort();
    const inner = [sorted[Math.floor(sorted.length * 0.005)], sorted[Math.ceil(sorted.length * 0.995) - 1]];
    if (bounds[high] - bounds[low] > 2 * (inner[1] - inner[0]) && inner[1] > inner[0]) {
      const margin = (inner[1] - inner[0]) * 0.05;
      [bounds[low], bounds[high]] = [inner[0] - margin, inner[1] + margin];
    }
  }
  return bounds;
}
