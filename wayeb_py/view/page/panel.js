// The panel: filters, the list of episodes, and one episode with its events and the reason for it.

const MOST_LISTED = 100;
const MOST_TOLD = 6; // names under the pointer: in a harbour there may be dozens

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((child) => child !== null));
  return made;
}

function choice(text, count, checked, colour, onChange) {
  const box = element("input", { type: "checkbox", checked });
  box.addEventListener("change", () => onChange(box.checked));
  const swatch = colour ? element("span", { className: "swatch" }) : null;
  if (swatch) swatch.style.background = colour;
  return element("label", {}, box, swatch, element("span", { className: "name", textContent: text, title: text }),
    element("span", { className: "count", textContent: count }));
}

function listPatterns() {
  const list = document.getElementById("patterns");
  list.replaceChildren(...scene.patterns.map((pattern, p) => {
    const count = episodesOfPattern[p].length.toLocaleString("en");
    const label = choice(pattern.name, count, chosen.patterns.has(p), colourOf[p], (on) => {
      if (on) chosen.patterns.add(p); else chosen.patterns.delete(p);
      changed();
    });
    const only = element("button", { type: "button", className: "plain", textContent: "only" });
    only.setAttribute("aria-label", `Only ${pattern.name}`);
    only.addEventListener("click", () => {
      chosen.patterns = new Set([p]);
      listPatterns();
      changed();
    });
    return element("div", { className: "choice" }, label, only);
  }));
  if (!scene.patterns.length) list.replaceChildren(element("p", { className: "more", textContent: "No detections." }));
}

function listKnowledge() {
  const names = [...new Set(scene.places.map((place) => place.knowledge))];
  document.getElementById("knowledge-filter").hidden = !names.length && !scene.world;
  const rows = names.map((name) => {
    const count = scene.places.filter((place) => place.knowledge === name).length;
    return choice(name, count.toLocaleString("en"), chosen.knowledge.has(name), null, (on) => {
      if (on) chosen.knowledge.add(name); else chosen.knowledge.delete(name);
      redraw();
    });
  });
  if (scene.world) {
    const row = choice("land (Natural Earth, coarse)", "", chosen.world, null, (on) => {
      chosen.world = on;
      redraw();
    });
    row.title = "An outline of the world, some hundred metres off: to look at, not to navigate by";
    rows.push(row);
  }
  document.getElementById("knowledge").replaceChildren(...rows);
}

function listEntities() {
  const sought = document.getElementById("entity-search").value.trim().toLowerCase();
  const onlyDetected = document.getElementById("only-detected").checked;
  const found = [];
  for (let entity = 0; entity < nEntities; entity++) {
    if (onlyDetected && !episodesOf[entity].length) continue;
    if (!sought || entityText(entity).toLowerCase().includes(sought)) found.push(entity);
  }
  found.sort((a, b) => chosen.entities.has(b) - chosen.entities.has(a) || episodesOf[b].length - episodesOf[a].length || a - b);
  const rows = found.slice(0, MOST_LISTED).map((entity) =>
    choice(entityText(entity), episodesOf[entity].length || "", chosen.entities.has(entity), null, (on) => {
      if (on) chosen.entities.add(entity); else chosen.entities.delete(entity);
      changed();
    }));
  if (found.length > MOST_LISTED) rows.push(moreNote(found.length - MOST_LISTED));
  if (!found.length) rows.push(element("p", { className: "more", textContent: "Nothing of that name." }));
  document.getElementById("entities").replaceChildren(...rows);
}

const moreNote = (n) => element("p", { className: "more", textContent: `… and ${n.toLocaleString("en")} more` });

function listEpisodes() {
  const rows = [];
  let n = 0;
  for (let e = 0; e < nEpisodes; e++) {
    if (!isEpisodeShown(e)) continue;
    if (++n <= MOST_LISTED) rows.push(episodeButton(e));
  }
  if (n > MOST_LISTED) rows.push(element("li", {}, moreNote(n - MOST_LISTED)));
  document.getElementById("episodes").replaceChildren(...rows);
  return n;
}

function episodeButton(e) {
  const swatch = element("span", { className: "swatch" });
  swatch.style.background = colourOf[episodes.pattern[e]];
  const pattern = scene.patterns[episodes.pattern[e]].name;
  const button = element("button", { type: "button", title: `${pattern} · ${whoText(e)}\n${whoText(e, entityText)}` }, swatch,
    element("span", { className: "name", textContent: isPair(e) ? pattern : `${pattern} · ${whoText(e)}` }),
    element("span", { className: "when", textContent: timeText(episodes.start[e], "minute") }),
    isPair(e) ? element("span", { className: "who", textContent: whoText(e) }) : null); // two names need a line
  button.dataset.episode = e;
  if (e === chosen.episode) button.setAttribute("aria-current", "true");
  button.addEventListener("click", () => chooseEpisode(e));
  return element("li", {}, button);
}

// ---- one episode

function showDetail() {
  const detail = document.getElementById("detail");
  const e = chosen.episode;
  detail.hidden = e < 0;
  if (e < 0) { detail.replaceChildren(); return; }
  const pattern = scene.patterns[episodes.pattern[e]];
  const swatch = element("span", { className: "swatch" });
  swatch.style.background = colourOf[episodes.pattern[e]];
  const close = element("button", { type: "button", textContent: "Close" });
  close.addEventListener("click", () => chooseEpisode(-1));
  const other = isPair(e) ? episodes.other[e] : -1;
  const facts = [
    ["entity", scene.entities[episodes.entity[e]]],
    ["name", scene.labels?.[episodes.entity[e]] ?? null],
    ["other", scene.entities[other] ?? null],
    ["its name", scene.labels?.[other] ?? null],
    ["place", episodes.place[e] < 0 ? null : scene.placeNames[episodes.place[e]]],
    ["from", timeText(episodes.start[e])],
    ["until", timeText(episodes.end[e])],
    ["silent until", isSilence(e) ? timeText(untilOf(e)) : null],
    ["lasting", durationText(untilOf(e) - episodes.start[e])],
    ["detections", episodes.detections[e].toLocaleString("en")],
  ];
  const list = element("dl");
  for (const [name, value] of facts) {
    if (value !== null) list.append(element("dt", { textContent: name }), element("dd", { textContent: value }));
  }
  const parts = [element("div", { className: "head" }, swatch, element("h2", { textContent: pattern.name }), close), list];
  if (pattern.text) parts.push(element("code", { textContent: pattern.text }));
  const why = scene.why[e];
  if (why) parts.push(element("h3", { textContent: why.summary }), whyList(why));
  else if (scene.whyNote) parts.push(element("p", { className: "more", textContent: scene.whyNote }));
  parts.push(...eventTable(e));
  detail.replaceChildren(...parts);
}

function table(head, rows) {
  const body = element("tbody");
  for (const cells of rows) {
    const row = element("tr");
    cells.forEach((cell, i) => row.append(element("td", { textContent: cell, className: head[i].kind ?? "" })));
    body.append(row);
  }
  const titles = element("tr", {}, ...head.map((column) => element("th", { scope: "col", textContent: column.name })));
  const box = element("div", { className: "table", tabIndex: 0 }, element("table", {}, element("thead", {}, titles), body));
  return box;
}

// Letter and values below each other: side by side they would not fit the panel.
function whyList(why) {
  const list = element("ol", { className: "why" });
  for (const event of why.events) {
    list.append(element("li", { className: event.quiet ? "quiet" : "" },
      element("span", { className: "when", textContent: event.time }),
      element("span", { className: "letter", textContent: event.letter }),
      event.of ? element("span", { className: "of", textContent: shortText(entityOfKey.get(event.of)) }) : null,
      event.values ? element("span", { className: "values", textContent: event.values }) : null));
  }
  return list;
}

const entityOfKey = new Map(scene.entities.map((key, entity) => [key, entity]));

// The events of an episode in the order of time: those of both tracks of a pair, each with whose it is.
function eventTable(e) {
  const isOneDay = timeText(episodes.start[e], "day") === timeText(episodes.end[e], "day");
  const clock = (row) => (isOneDay ? timeText(time[row]).slice(11) : timeText(time[row]));
  const listed = spansOf[e].flatMap(([entity, begin, end]) => Array.from({ length: end - begin }, (_, i) => [begin + i, entity]));
  listed.sort((a, b) => time[a[0]] - time[b[0]]);
  const head = [{ name: "time" }, ...(isPair(e) ? [{ name: "of" }] : []),
    ...attributes.map((a) => ({ name: a.name, kind: a.words ? "" : "number" }))];
  const rows = listed.slice(0, MOST_LISTED).map(([row, entity]) =>
    [clock(row), ...(isPair(e) ? [shortText(entity)] : []), ...attributes.map((a) => attributeText(a, row))]);
  const n = episodes.events[e] + (isPair(e) ? episodes.otherEvents[e] : 0);
  const shown = rows.length < n ? `, ${rows.length} of them here` : "";
  const noun = n === 1 ? "event" : "events";
  return [element("h3", { textContent: `${n.toLocaleString("en")} ${noun}${isPair(e) ? " of both" : ""}${shown}` }), table(head, rows)];
}

function tipFor(found) {
  const lines = [];
  const strong = (text) => element("b", { textContent: text });
  if (found.episode >= 0) {
    const isHere = ([, begin, end]) => begin <= found.row && found.row < end;
    const names = episodesOf[found.entity].filter((e) => isEpisodeShown(e) && spansOf[e].some(isHere)).map((e) => {
      const other = spansOf[e].find(([entity]) => entity !== found.entity);
      return scene.patterns[episodes.pattern[e]].name + (other ? ` with ${shortText(other[0])}` : "");
    });
    const told = [...new Set(names)];
    const more = told.length > MOST_TOLD ? `, and ${told.length - MOST_TOLD} more` : "";
    lines.push(strong(told.slice(0, MOST_TOLD).join(", ") + more), document.createElement("br"));
  }
  lines.push(`${entityText(found.entity)} · ${timeText(time[found.row])}`);
  for (const attribute of attributes.slice(0, 8)) {
    lines.push(document.createElement("br"), `${attribute.name} ${attributeText(attribute, found.row)}`);
  }
  return lines;
}
