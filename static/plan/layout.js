// Where the operators of a plan stand: a layer for each step to the result, what is read above what reads it.

export const BOX = { height: 74, gapX: 22, gapY: 34, margin: 8 };
const LEAST_WIDTH = 190;
const MOST_WIDTH = 560;

/** Places of operators by number as {x, y}, the width of the boxes, and the size of the whole, which uses the `room` in pixels. */
export function layoutOf(operators, room) {
  const readers = new Map(operators.map(({ number }) => [number, []]));
  operators.forEach((each) => each.inputs.forEach((number, i) => readers.get(number).push([each.number, i])));
  // Inputs stand before those that read them, so from behind each reader has its layer already.
  const layer = new Map();
  const slot = new Map();
  for (const { number } of [...operators].reverse()) {
    layer.set(number, Math.max(-1, ...readers.get(number).map(([reader]) => layer.get(reader))) + 1);
  }
  const depth = Math.max(0, ...layer.values());
  for (let level = 0; level <= depth; level += 1) {
    const here = operators.filter(({ number }) => layer.get(number) === level).map(({ number }) => [wish(readers.get(number), slot), number]);
    here.sort(([one, a], [other, b]) => one - other || a - b);
    let free = 0;
    for (const [wanted, number] of here) {
      slot.set(number, Math.max(free, Math.round(wanted)));
      free = slot.get(number) + 1;
    }
  }
  const wide = Math.max(0, ...slot.values()) + 1;
  const box = Math.floor(Math.min(MOST_WIDTH, Math.max(LEAST_WIDTH, (room - 2 * BOX.margin + BOX.gapX) / wide - BOX.gapX)));
  // What the widest boxes leave goes between them.
  const step = wide === 1 ? 0 : Math.max(box + BOX.gapX, Math.min(2 * box, (room - 2 * BOX.margin - box) / (wide - 1)));
  const places = new Map(operators.map(({ number }) => [number, {
    x: BOX.margin + slot.get(number) * step,
    y: BOX.margin + (depth - layer.get(number)) * (BOX.height + BOX.gapY),
  }]));
  return {
    places,
    box,
    width: 2 * BOX.margin + (wide - 1) * step + box,
    height: 2 * BOX.margin + (depth + 1) * (BOX.height + BOX.gapY) - BOX.gapY,
  };
}

/** The first input straight above its reader, further ones to the right of it. */
function wish(readers, slot) {
  return readers.length === 0 ? 0 : Math.min(...readers.map(([reader, i]) => slot.get(reader) + i));
}

/** The line from one operator down to its reader. */
export function edgePath(from, to, box, input, inputs) {
  const [x1, y1] = [from.x + box / 2, from.y + BOX.height];
  const x2 = to.x + box * (input + 1) / (inputs + 1);
  const middle = (y1 + to.y) / 2;
  return `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${to.y}`;
}
