// The figures of a plan's operators, worked out of EXPLAIN with live figures: rates, shares of the time, their order.

/** Two looks at a plan make rates; the shares of the time are those of the newest look. */
export class PlanFigures {
  constructor() {
    this.operators = [];
    this.before = null;
  }

  /** Take a look at a time. */
  take(document_, atMs = Date.now()) {
    const operators = document_.operators || [];
    const same = this.before !== null && this.before.shape === shapeOf(operators);
    const seconds = same ? (atMs - this.before.atMs) / 1000 : 0;
    const total = operators.reduce((sum, each) => sum + (each.timed_with === each.number ? each.microseconds ?? 0 : 0), 0);
    this.operators = operators.map((each, i) => ({
      ...each,
      perSecond: seconds > 0.2 ? Math.max(0, each.rows_out - this.before.operators[i].rows_out) / seconds : NaN,
      share: each.timed_with === each.number && each.microseconds !== null && total > 0 ? each.microseconds / total : NaN,
      part: partOf(each, document_),
      on: joinedOn(each, operators),
    }));
    if (!same || seconds > 0.2) this.before = { atMs, operators, shape: shapeOf(operators) };
    this.document = document_;
    return same;
  }

  /** Operators as a tree with the result first, each once: [operator, depth, whether it stands above already]. */
  tree() {
    const byNumber = new Map(this.operators.map((each) => [each.number, each]));
    const read = new Set(this.operators.flatMap(({ inputs }) => inputs));
    const seen = new Set();
    const lines = [];
    const visit = (each, depth) => {
      const again = seen.has(each.number);
      lines.push([each, depth, again]);
      seen.add(each.number);
      if (!again) each.inputs.forEach((number) => visit(byNumber.get(number), depth + 1));
    };
    this.operators.filter(({ number }) => !read.has(number)).forEach((each) => visit(each, 0));
    return lines;
  }
}

/** Which operators there are and what each reads: while it is the same, the drawing stays. */
export function shapeOf(operators) {
  return operators.map(({ number, operator, detail, inputs }) => `${number} ${operator} ${detail} ${inputs}`).join("\n");
}

/** The static part that a table operator reads. */
function partOf(operator, document_) {
  if (operator.operator !== "table") return null;
  return (document_.static_parts || []).find(({ name }) => name === operator.detail) ?? null;
}

/** The variables by which a join finds rows. */
function joinedOn(operator, operators) {
  if (operator.inputs.length < 2) return [];
  const sides = operator.inputs.map((number) => operators.find((each) => each.number === number)?.columns ?? []);
  return [...new Set(sides.flatMap((side, i) => side.filter((name) => sides.some((other, j) => j !== i && other.includes(name)))))];
}

/** The first operator that rows reach and none leaves; undefined where there is none. */
export function whereRowsEnd(operators) {
  return operators.find(({ rows_in: taken, rows_out: given }) => taken > 0 && given === 0);
}
