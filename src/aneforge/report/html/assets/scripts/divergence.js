// Divergence: how far operations of each name part between the first chip and the others.

function buildDivergence() {
  const body = byId("divergence-body");
  const pairs = model.index.divergences;
  showSection("divergence", pairs.length > 0);
  if (!pairs.length) return;
  const ops = hottestFirst(pairs);
  const get = (/** @type {string} */ name) => (/** @type {number} */ row) => state.pair.differences[name][row];
  const table = new Table("Differences", [
    { title: "Strength", width: 125, value: (row) => STRENGTHS.indexOf(get("strength")(row)), text: get("strength"), facets: STRENGTHS.slice(0, -1) },
    { title: "Operation", width: 125, value: get("op"), facets: ops },
    { title: "Name", width: 190, value: (row) => nodeName(get("node")(row)), text: (row) => middle(nodeName(get("node")(row)), 21) },
    { title: "Layer", width: 120, value: get("layer"), text: (row) => middle(get("layer")(row), 13) },
    { title: "Cause", width: 150, value: get("cause") },
    { title: "Bound", width: 90, value: (row) => measure(get("bound")(row)), text: (row) => boundText(get("bound")(row)), number: true },
    { title: "Detail", width: 380, prose: true, value: get("detail") },
  ], (row) => { if (get("node")(row) !== null) chooseNode(get("node")(row)); }, { empty: "These two give the same bits." });
  const choose = choice("Compare", pairs.map((/** @type {any} */ one, /** @type {number} */ number) => [String(number), `${one.firstChip} with ${one.secondChip}`]), (value) => void choosePair(Number(value)));
  const words = el("p", { class: "quiet" });
  body.append(heatTable(pairs, ops, (number, op) => {
    void choosePair(number).then(() => table.only("Operation", op));
  }), legend(STRENGTHS.slice(0, -1).map((strength, place) => [`--heat-${place}`, strength])), el("div", { class: "more tools" }, choose.field, words), table.element);
  listen("pair", () => {
    const { word, strength, seen } = state.pair.entry;
    choose.select.value = String(pairs.indexOf(state.pair.entry));
    words.textContent = [word, strength, seen].filter(Boolean).join(", ");
    table.show(state.pair.differences.length);
  });
}

/** @param {number | string | null} bound */
function boundText(bound) {
  if (bound === null) return "unknown";
  return typeof bound === "number" ? significant(bound) : bound;
}

/**
 * Names of operations that differ somewhere, those that differ most first.
 * @param {any[]} pairs
 */
function hottestFirst(pairs) {
  /** @type {Map<string, number>} */
  const hottest = new Map();
  for (const pair of pairs) {
    for (const [op, counts] of Object.entries(pair.heat)) hottest.set(op, Math.min(hottest.get(op) ?? STRENGTHS.length, strongest(counts)));
  }
  return [...hottest].sort(([one, heat], [other, least]) => heat - least || collator.compare(one, other)).map(([op]) => op);
}

/**
 * Rows are operations, columns are chips.
 * @param {any[]} pairs
 * @param {string[]} ops
 * @param {(pair: number, op: string) => void} choose
 */
function heatTable(pairs, ops, choose) {
  if (!ops.length) return el("p", { class: "quiet", text: "No operation differs between these chips." });
  const head = el("tr", {}, el("th", { scope: "col", text: `against ${pairs[0].firstChip}` }), ...pairs.map((pair) => el("th", { scope: "col", text: pair.secondChip, title: pair.second })));
  const body = el("tbody");
  for (const op of ops) {
    const row = el("tr", {}, el("th", { scope: "row", text: op }));
    pairs.forEach((pair, number) => row.append(heatCell(pair, number, op, choose)));
    body.append(row);
  }
  const table = el("table", { class: "heat", "aria-label": "Divergence by operation and chip" }, el("thead", {}, head), body);
  return el("div", { class: "scroller", tabindex: "0", role: "group", "aria-label": "Divergence by operation, scrolls" }, table);
}

/**
 * @param {any} pair
 * @param {number} number
 * @param {string} op
 * @param {(pair: number, op: string) => void} choose
 */
function heatCell(pair, number, op, choose) {
  const counts = pair.heat[op];
  if (!counts) return el("td", {}, el("span", { text: "·", "aria-label": "same bits" }));
  const place = strongest(counts);
  const words = `${op} on ${pair.secondChip}: ${STRENGTHS.filter((one) => counts[one]).map((one) => `${counts[one]} ${one}`).join(", ")}`;
  const total = Object.values(counts).reduce((sum, one) => sum + one, 0);
  return el("td", {}, el("button", { type: "button", class: `h${place}`, title: words, "aria-label": words, onclick: () => choose(number, op) }, `${STRENGTHS[place] ?? "other"} ${count(total)}`));
}

/** @param {any} counts Place of the strongest in STRENGTHS. */
function strongest(counts) {
  const place = STRENGTHS.findIndex((strength) => counts[strength]);
  return place < 0 ? STRENGTHS.length - 1 : place;
}
