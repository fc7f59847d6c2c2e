// The scene of the page: packed columns become typed arrays, and what is derived once is derived here.

const scene = JSON.parse(document.getElementById("scene").textContent);

function unpack(text, Kind) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return new Kind(bytes.buffer);
}

const NO_POSITION = -2147483648;
const PER_DEGREE = 1e7;

const first = unpack(scene.first, Int32Array); // [entity] -> its first row; one more at the end
const time = unpack(scene.time, Float64Array); // [row], seconds since 1970
const lon = unpack(scene.lon, Int32Array);
const lat = unpack(scene.lat, Int32Array);
const nEntities = scene.entities.length;
const nPoints = time.length;
const episodes = scene.episodes; // columns, one entry an episode
const nEpisodes = episodes.pattern.length;

const attributes = scene.attributes.map((given) => ({
  name: given.name,
  unit: given.unit,
  words: given.words,
  values: given.words ? unpack(given.codes, Int32Array) : unpack(given.numbers, Float32Array),
}));

function attributeText(attribute, row) {
  const value = attribute.values[row];
  if (attribute.words) return attribute.words[value] ?? "–";
  if (Number.isNaN(value)) return "–";
  const text = Number(value.toPrecision(6)).toString();
  return attribute.unit ? `${text} ${attribute.unit}` : text;
}

// An episode is on the track of one entity, or of two: [entity, its first row, the row after the last] for each.
const spansOf = Array.from({ length: nEpisodes }, (_, e) => {
  const spans = [[episodes.entity[e], episodes.firstRow[e], episodes.endRow[e]]];
  if (episodes.other?.[e] >= 0) spans.push([episodes.other[e], episodes.otherFirstRow[e], episodes.otherEndRow[e]]);
  return spans;
});
const isPair = (e) => spansOf[e].length === 2;
const isSilence = (e) => (episodes.decided?.[e] ?? null) !== null;
const untilOf = (e) => episodes.decided?.[e] ?? episodes.end[e]; // a silence lasts beyond the last event

const episodesOf = Array.from({ length: nEntities }, () => []);
for (let e = 0; e < nEpisodes; e++) for (const [entity] of spansOf[e]) episodesOf[entity].push(e);

// A forecast is a bar of its entity's row: columns as those of the episodes, where there are any.
const forecasts = scene.forecasts ?? { entity: [] };
const forecastsOf = Array.from({ length: nEntities }, () => []);
forecasts.entity.forEach((entity, f) => forecastsOf[entity].push(f));

let earliest = Infinity;
let latest = -Infinity;
for (let row = 0; row < nPoints; row++) {
  if (time[row] < earliest) earliest = time[row];
  if (time[row] > latest) latest = time[row];
}
for (let e = 0; e < nEpisodes; e++) if (isSilence(e)) latest = Math.max(latest, untilOf(e));
for (const until of forecasts.until ?? []) latest = Math.max(latest, until);
if (!(earliest <= latest)) { earliest = 0; latest = 1; }
if (earliest === latest) latest = earliest + 1;

// Forty colours that stay apart from each other, from the ground and from tracks, on light and on dark: each is as far as
// possible, in OKLab, from all before it. Then the circle of hues, which no eye tells apart any more.
const PALETTE = [
  "#d1495b", "#2f7fd1", "#e08e1b", "#2a9d6f", "#8e5bc7", "#12a3b4", "#c2569a", "#72e418", "#3018c6", "#dea8fc",
  "#783000", "#005a00", "#780672", "#00e4ba", "#fc9ca2", "#f666f6", "#423c84", "#c6cc54", "#8accfc", "#6600ae",
  "#00ae12", "#a26c4e", "#6060fc", "#90003c", "#b41eba", "#724260", "#9096fc", "#fc5a00", "#665a0c", "#005a54",
  "#fc3690", "#8aa200", "#fc7ec6", "#ccb48a", "#c08ab4", "#006090", "#ba5afc", "#3c8400", "#96d2ba", "#c0006c",
];
const colourOf = scene.patterns.map((_, i) =>
  i < PALETTE.length ? PALETTE[i] : `hsl(${(i * 137.5) % 360} ${i % 2 ? 45 : 65}% ${i % 3 ? 56 : 48}%)`);

// What a reader calls an entity: its name, where the events tell one, and its key.
const entityText = (entity) =>
  scene.labels?.[entity] ? `${scene.labels[entity]} (${scene.entities[entity]})` : scene.entities[entity];
const shortText = (entity) => scene.labels?.[entity] ?? scene.entities[entity];
// Whose an episode is: one entity, or both of a pair.
const whoText = (e, text = shortText) => spansOf[e].map(([entity]) => text(entity)).join(" – ");

function timeText(seconds, parts = "full") {
  const text = new Date(seconds * 1000).toISOString();
  if (parts === "clock") return text.slice(11, 16);
  if (parts === "day") return text.slice(0, 10);
  if (parts === "minute") return `${text.slice(0, 10)} ${text.slice(11, 16)}`;
  return `${text.slice(0, 10)} ${text.slice(11, 19)}`;
}

function durationText(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
  return `${(seconds / 86400).toFixed(1)} d`;
}

// What the reader has chosen. No entity chosen means all of them.
const chosen = {
  patterns: new Set(scene.patterns.keys()),
  entities: new Set(),
  knowledge: new Set(scene.places.map((place) => place.knowledge)),
  from: earliest,
  until: latest,
  episode: -1,
  world: Boolean(scene.world?.shown),
};

const isEntityShown = (entity) => chosen.entities.size === 0 || chosen.entities.has(entity);
const isEpisodeShown = (e) =>
  chosen.patterns.has(episodes.pattern[e]) && spansOf[e].some(([entity]) => isEntityShown(entity)) &&
  untilOf(e) >= chosen.from && episodes.start[e] <= chosen.until;
