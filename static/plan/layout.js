// Where the operators of a plan stand: a layer for each step to the result, what is read above what reads it.

export const BOX = { width: 216, height: 74, gapX: 22, gapY: 34, margin: 8 };

/** Places of operators by number as {x, y}, and the size of the whole. */
export function layoutOf(operators) {
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
  const places = new Map(operators.map(({ number }) => [number, {
    x: BOX.margin + slot.get(number) * (BOX.width + BOX.gapX),
    y: BOX.margin + (depth - layer.get(number)) * (BOX.height + BOX.gapY),
  }]));
  const wide = Math.max(0, ...slot.values()) + 1;
  return {
    places,
    width: 2 * BOX.margin + wide * (BOX.width + BOX.gapX) - BOX.gapX,
    height: 2 * BOX.margin + (depth + 1) * (BOX.height + BOX.gapY) - BOX.gapY,
  };
}

/** The first input straight above its reader, further ones to the right of it. */
function wish(readers, slot) {
  return readers.length === 0 ? 0 : Math.min(...readers.map(([reader, i]) => slot.get(reader) + i));
}

/** The line from one operator down to its reader. */
export function edgePath(from, to, input, inputs) {
  const [x1, y1] = [from.x + BOX.width / 2, from.y + BOX.height];
  const x2 = to.x + BOX.width * (input + 1) / (inputs + 1);
  const middle = (y1 + to.y) / 2;
  return `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${to.y}`;
}
