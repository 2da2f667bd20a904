// All operations of the model with what the chosen chip makes of them.

function buildOperations() {
  const nodes = model.nodes;
  const table = new Table("Operations", [
    { title: "Number", width: 90, value: (row) => row, number: true },
    { title: "Verdict", width: 135, value: (row) => VERDICTS.indexOf(state.target.verdicts[row]), text: (row) => state.target.verdicts[row], cell: (row) => badge(state.target.verdicts[row]), facets: VERDICTS },
    { title: "Operation", width: 150, value: (row) => nodes.op[row] },
    { title: "Name", width: 260, value: (row) => nodes.name[row], text: (row) => middle(nodes.name[row], 28) },
    { title: "Findings", width: 100, value: (row) => state.target.findingsOf.get(row)?.length ?? 0, number: true },
    { title: "Time", width: 110, value: (row) => (state.target.layersOf.has(row) ? state.target.timeOf[row] : null), text: (row) => (state.target.layersOf.has(row) ? duration(state.target.timeOf[row]) : ""), number: true },
    { title: "Type", width: 80, value: (row) => nodes.dtype[row] },
    { title: "Shape", width: 170, value: (row) => shapeText(nodes.shape[row]) },
    { title: "Place", width: 240, value: (row) => placeText(nodes.place[row]), text: (row) => middle(placeShort(nodes.place[row]), 27) },
  ], (row) => chooseNode(row), { tall: true, empty: "The model has no operations." });
  byId("operations-body").append(table.element);
  listen("target", () => table.show(nodes.length));
}

function buildRemarks() {
  const body = byId("remarks-body");
  listen("target", () => {
    const { entry, notes, placement } = state.target;
    const parts = [];
    if (entry.failure !== null) parts.push(el("h3", { text: "No program" }), el("p", { text: entry.reason }));
    if (model.index.notes.length) parts.push(el("h3", { text: "The model" }), noteList(model.index.notes));
    if (entry.failure === null) parts.push(el("h3", { text: "fp16 and exactness" }), facts([
      ["fp16 risk", [entry.risk, entry.riskReason].filter(Boolean).join(": ")],
      ["exactness", [entry.exactness, entry.exactnessReason].filter(Boolean).join(": ")],
      ["prediction rests on", entry.latency === null ? "" : `${entry.latency.rests_on} figures`],
    ]));
    if (entry.rescaling !== null) {
      const { before, after, detail } = entry.rescaling;
      parts.push(el("h3", { text: "Rescaling by powers of two" }), el("p", { text: `fp16 risk ${before} → ${after}. ${detail}` }));
    }
    if (placement !== null) parts.push(...placementParts(placement));
    if (notes.length) parts.push(el("h3", { text: "What the compiler did" }), noteList(notes));
    body.replaceChildren(...parts);
  });
}

const NOTES_SHOWN = 200;

/** @param {string[]} notes */
function noteList(notes) {
  const list = el("ul", { class: "notes" }, ...notes.slice(0, NOTES_SHOWN).map((text) => el("li", { text })));
  if (notes.length > NOTES_SHOWN) list.append(el("li", { class: "quiet", text: `${count(notes.length - NOTES_SHOWN)} more are in the JSON report` }));
  return list;
}

/** @param {Array<[string, string | Node | null]>} pairs Those without a value are left out. */
function facts(pairs) {
  const list = el("dl", { class: "facts" });
  for (const [name, value] of pairs) if (value !== null && value !== "") list.append(el("dt", { text: name }), el("dd", {}, value));
  return list;
}

/**
 * A time, or what a scheduler counts in units of its own.
 * @param {number | null} microseconds @param {number | null} units
 */
function amount(microseconds, units) {
  return microseconds === null ? `${(units ?? 0).toFixed(1)} scheduler units` : duration(microseconds);
}

/** @param {any} placement */
function placementParts(placement) {
  const runs = placement.segments.slice(0, NOTES_SHOWN).map((/** @type {any} */ one) =>
    `${one.device}: ${counted(one.nodes.length, "operation")}, ${amount(one.microseconds, one.scheduler_units)}`);
  const more = placement.segments.length - runs.length;
  if (more > 0) runs.push(`${counted(more, "further part")}`);
  return [
    el("h3", { text: `Placement by ${placement.path}` }),
    facts([
      ["on the engine", percent(placement.on_engine)],
      ["changes of device", amount(placement.hops_microseconds, placement.hops_scheduler_units)],
      ["evidence", placement.evidence],
    ]),
    noteList([...runs, ...placement.advice, ...placement.notes]),
  ];
}
