// The land of the world, to see where the tracks are: fine rings within a box around them, coarse ones outside it.

function unpackRings(packed) {
  const ends = unpack(packed.ends, Int32Array);
  const points = unpack(packed.points, Int32Array);
  const rings = [];
  for (let r = 0; r < ends.length; r++) {
    const begin = r ? ends[r - 1] : 0;
    const line = new Float64Array(2 * (ends[r] - begin));
    const bounds = [Infinity, Infinity, -Infinity, -Infinity];
    for (let i = begin; i < ends[r]; i++) {
      const x = (line[2 * (i - begin)] = mercatorX(points[2 * i] / scene.world.perDegree));
      const y = (line[2 * (i - begin) + 1] = mercatorY(points[2 * i + 1] / scene.world.perDegree));
      if (x < bounds[0]) bounds[0] = x;
      if (y < bounds[1]) bounds[1] = y;
      if (x > bounds[2]) bounds[2] = x;
      if (y > bounds[3]) bounds[3] = y;
    }
    rings.push({ line, bounds });
  }
  return rings;
}

const land = scene.world && { coarse: unpackRings(scene.world.coarse), fine: unpackRings(scene.world.fine) };

function fillRings(pen, rings) {
  pen.beginPath();
  for (const { line, bounds } of rings) {
    if (!isInView(bounds)) continue;
    let lastX = NaN;
    let lastY = NaN;
    for (let i = 0; i < line.length; i += 2) {
      const x = pixelX(line[i]);
      const y = pixelY(line[i + 1]);
      if (!i) pen.moveTo(x, y);
      else if (Math.abs(x - lastX) + Math.abs(y - lastY) < 0.7) continue;
      else pen.lineTo(x, y);
      lastX = x;
      lastY = y;
    }
    pen.closePath();
  }
  pen.fillStyle = colours.land;
  pen.fill("evenodd");
}

function drawWorld(pen) {
  if (!land || !chosen.world) return;
  const box = scene.world.box;
  const corners = box && [pixelX(mercatorX(box[0])), pixelY(mercatorY(box[3])), pixelX(mercatorX(box[2])), pixelY(mercatorY(box[1]))];
  if (!corners) { fillRings(pen, land.coarse); return; }
  const [left, top, right, bottom] = corners;
  if (left > 0 || top > 0 || right < view.width || bottom < view.height) {
    pen.save();
    pen.beginPath();
    pen.rect(0, 0, view.width, view.height);
    pen.rect(left, top, right - left, bottom - top);
    pen.clip("evenodd");
    fillRings(pen, land.coarse);
    pen.restore();
  }
  fillRings(pen, land.fine); // they end at the box
}
