// Pairs and silences on the map: a line between two entities while they are near, a ring where an entity fell silent.

// The last row at or before a time that has a position; the first one if there is none so early, -1 if there is none.
function rowAt(begin, end, seconds) {
  let [, row] = rowsBetween(begin, end, -Infinity, seconds);
  for (row -= 1; row >= begin; row--) if (worldX[row] === worldX[row]) return row;
  for (row = begin; row < end; row++) if (worldX[row] === worldX[row]) return row;
  return -1;
}

// The rows of both at a time of their episode.
const rowsOfBoth = (e, seconds) => spansOf[e].map(([, begin, end]) => rowAt(begin, end, seconds));

// When the line between the two is drawn: at the end of what is shown of the episode, so that it moves with the slider.
const linkTime = (e) => Math.max(episodes.start[e], Math.min(episodes.end[e], chosen.until));

function addLink(pen, [a, b]) {
  if (a < 0 || b < 0 || Math.abs(worldX[a] - worldX[b]) > 0.5) return; // not around the world
  pen.moveTo(pixelX(worldX[a]), pixelY(worldY[a]));
  pen.lineTo(pixelX(worldX[b]), pixelY(worldY[b]));
}

const MOST_LINKS = 60; // of encounters that are over: in a harbour they would hide the tracks

// Between whom there is a line: those who are near at the end of what is shown; and, as long as they are few, those whose
// encounter is over by then. Beside a chosen episode there are none.
function links() {
  if (chosen.episode >= 0) return { on: [], over: [] };
  const pairs = [...episodes.pattern.keys()].filter((e) => isPair(e) && isEpisodeShown(e));
  const isOn = (e) => chosen.until <= episodes.end[e];
  const over = pairs.filter((e) => !isOn(e));
  return { on: pairs.filter(isOn), over: over.length > MOST_LINKS ? [] : over };
}

// The lines of one pattern.
function drawLinks(pen, { on, over }, p) {
  for (const [width, alpha, some] of [[1, 0.5, over], [1.5, 0.9, on]]) {
    pen.lineWidth = width;
    pen.globalAlpha = alpha;
    pen.beginPath();
    for (const e of some) if (episodes.pattern[e] === p) addLink(pen, rowsOfBoth(e, linkTime(e)));
    pen.stroke();
  }
}

const LEAST_STEP = 7; // pixels between two lines of a ladder: more of them would be a blot

// The chosen pair: a ladder of lines between the two as they went, the last one bold, and the name of each.
function drawLadder(pen, e) {
  const rows = spansOf[e].flatMap(([, begin, end]) => Array.from({ length: end - begin }, (_, i) => begin + i));
  rows.sort((a, b) => time[a] - time[b]);
  const ends = [];
  pen.beginPath();
  for (const row of rows) {
    if (time[row] < episodes.start[e] || time[row] > linkTime(e)) continue;
    const both = rowsOfBoth(e, time[row]);
    if (both.includes(-1)) continue;
    const at = both.flatMap((r) => [pixelX(worldX[r]), pixelY(worldY[r])]);
    if (ends.length && at.every((pixel, i) => Math.abs(pixel - ends.at(-1)[i]) < LEAST_STEP)) continue;
    ends.push(at);
    addLink(pen, both);
  }
  pen.strokeStyle = colourOf[episodes.pattern[e]];
  pen.globalAlpha = 0.5;
  pen.lineWidth = 1;
  pen.stroke();
  pen.globalAlpha = 1;
  for (const [width, colour] of [[5, colours.halo], [2.5, colours.ink]]) {
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.beginPath();
    addLink(pen, rowsOfBoth(e, linkTime(e)));
    pen.stroke();
  }
}

// The names of the two, each on the side of its own.
function labelsOfChosen() {
  const e = chosen.episode;
  if (e < 0 || !isPair(e)) return [];
  const rows = rowsOfBoth(e, linkTime(e));
  if (rows.includes(-1)) return [];
  const x = rows.map((row) => pixelX(worldX[row]));
  const y = rows.map((row) => pixelY(worldY[row]));
  const isFlat = Math.abs(y[0] - y[1]) < 14; // beside each other, one name goes up and the other down
  return spansOf[e].map(([entity], i) => {
    const left = x[i] < x[1 - i] || (x[i] === x[1 - i] && i === 0);
    const shift = isFlat ? (i === 0 ? -9 : 17) : y[i] < y[1 - i] ? -9 : 17;
    return [x[i] + (left ? -4 : 4), y[i] + shift, shortText(entity), left ? "right" : "left"];
  });
}

// Where an entity fell silent: a broken ring around its last position.
function drawRings(pen, shown, colour) {
  for (const e of shown) {
    if (!isSilence(e)) continue;
    for (const [, begin, end] of spansOf[e]) stamp(pen, lastPosition(begin, end), RING, "ring", colour);
  }
}
