// Chips side by side: a row for all chips with the same figures, all figures under each other.

/** @typedef {{title: string, value: (one: any) => any, number?: boolean, wide?: boolean}} ChipColumn */

/** @type {ChipColumn[]} */
const CHIP_COLUMNS = [
  { title: "Chip", value: (one) => one.chip },
  { title: "Runs", value: (one) => (one.runs in RUNS_MARKS ? Object.keys(RUNS_MARKS).indexOf(one.runs) : one.runs) },
  { title: "Verdicts", value: (one) => one.nativeFraction },
  { title: "Findings", value: (one) => one.findingCount, number: true },
  { title: "Latency", value: (one) => one.latency?.microseconds ?? null, number: true },
  { title: "Programs", value: (one) => (one.failure === null ? one.programs : null), number: true },
  { title: "Peak on chip", value: (one) => one.peak, number: true },
  { title: "Weights", value: (one) => (one.failure === null ? one.weightBytes : null), number: true },
  { title: "Activations", value: (one) => (one.failure === null ? one.activationBytes : null), number: true },
  { title: "fp16 risk", value: (one) => one.risk },
  { title: "Exactness", value: (one) => (one.failure === null ? one.exactness : "") },
];
const AFTER_SPLITTING = "as it is written it does not pass the validator; the compiler splits what is oversize";

/** Places of targets whose figures are all the same, together. */
function sameFigures() {
  /** @type {Map<string, number[]>} */
  const groups = new Map();
  model.index.targets.forEach((/** @type {any} */ entry, /** @type {number} */ number) => {
    const { counts, latency } = entry;
    const range = latency && [latency.low, latency.high];
    const key = JSON.stringify([...CHIP_COLUMNS.slice(1).map((column) => column.value(entry)), counts, range]);
    groups.set(key, [...(groups.get(key) ?? []), number]);
  });
  return [...groups.values()];
}

function buildChips() {
  const targets = model.index.targets;
  if (!targets.length) {
    byId("chips-body").append(el("p", { class: "quiet", text: "No chip was asked for." }));
    return;
  }
  const groups = sameFigures();
  const longest = Math.max(0, ...targets.map((/** @type {any} */ one) => one.latency?.high ?? 0));
  const rows = groups.map((group) => chipRow(group, longest));
  const body = el("tbody", {}, ...rows);
  const head = el("tr");
  let sorted = { column: -1, direction: 1 };
  const headers = CHIP_COLUMNS.map((column, place) => {
    const sort = () => {
      const direction = sorted.column === place ? -sorted.direction : 1;
      sorted = { column: place, direction };
      const value = (/** @type {number} */ row) => column.value(targets[groups[row][0]]);
      const order = [...groups.keys()].sort((one, other) => compare(value(one), value(other), direction) || one - other);
      body.append(...order.map((one) => rows[one]));
      headers.forEach((header, one) => header.setAttribute("aria-sort", one !== place ? "none" : direction > 0 ? "ascending" : "descending"));
    };
    const header = el("th", { scope: "col", "aria-sort": "none", class: column.number ? "number" : null },
      el("button", { type: "button", text: column.title, onclick: sort }));
    head.append(header);
    return header;
  });
  const table = el("table", { class: "chips", "aria-label": "Chips side by side" }, el("thead", {}, head), body);
  byId("chips-body").append(
    el("div", { class: "scroller whole", tabindex: "0", role: "group", "aria-label": "Chips side by side" }, table),
    legend(VERDICTS.map((verdict) => [`--${verdict}`, `${MARKS[verdict]} ${verdict}`, term(verdict)])),
    el("p", { class: "hint", text: `${PATHS[targets[0].path]} Latency is predicted: the bar is the estimate, the thin line its range. Choose a chip to see everything below for it.` }),
  );
  listen("target", () => {
    const chosen = targets.indexOf(state.target.entry);
    rows.forEach((row, number) => {
      row.classList.toggle("chosen", groups[number].includes(chosen));
      row.querySelector("button")?.setAttribute("aria-pressed", String(groups[number].includes(chosen)));
    });
  });
}

/**
 * @param {number[]} group Places of the targets of the row.
 * @param {number} longest Microseconds of the slowest chip.
 */
function chipRow(group, longest) {
  const entries = group.map((number) => model.index.targets[number]);
  const chips = [...new Set(entries.map((one) => one.chip))].join(", ");
  const names = [...new Set(entries.map((one) => one.target))].join(" ");
  const button = el("button", { type: "button", "aria-pressed": "false" }, chips, el("span", { class: "quiet mono", text: names }));
  return el("tr", { onclick: () => void chooseTarget(group[0]) }, el("th", { scope: "row" }, button), ...chipCells(entries[0], longest));
}

/**
 * @param {any} entry
 * @param {number} longest
 */
function chipCells(entry, longest) {
  const compiled = entry.failure === null;
  const missing = compiled ? null : entry.reason;
  /** @param {string} text @param {string | null} [title] */
  const number = (text, title) => el("td", { class: "number", title: title ?? null, text });
  const cells = [
    el("td", { title: missing ?? (entry.runs === "after splitting" ? AFTER_SPLITTING : null) }, runsBadge(entry.runs)),
    el("td", {}, verdictBar(entry.counts), el("span", { class: "quiet small", text: verdictWords(entry.counts) })),
    number(count(entry.findingCount)),
    latencyCell(entry, longest),
    number(compiled ? count(entry.programs) : "—", missing),
    number(entry.peak === null ? "—" : bytes(entry.peak), entry.capacity === null ? missing : `of ${bytes(entry.capacity)}`),
    number(compiled ? bytes(entry.weightBytes) : "—", missing),
    number(compiled ? bytes(entry.activationBytes) : "—", missing),
    el("td", { text: entry.risk, title: entry.riskReason }),
    el("td", { text: compiled ? entry.exactness : "—", title: compiled ? entry.exactnessReason : missing }),
  ];
  cells.forEach((cell, place) => { cell.dataset.title = CHIP_COLUMNS[place + 1].title; });
  return cells;
}

/** @param {string} runs */
function runsBadge(runs) {
  const verdict = runsVerdict(runs);
  return el("span", { class: `badge v-${verdict}`, "data-mark": MARKS[verdict], text: runs });
}

/** @param {any} counts Those that are not zero. */
function verdictWords(counts) {
  return VERDICTS.filter((verdict) => counts[verdict]).map((verdict) => `${MARKS[verdict]} ${count(counts[verdict])}`).join("  ");
}

/** @param {any} counts */
function verdictBar(counts) {
  const total = Math.max(1, VERDICTS.reduce((sum, verdict) => sum + counts[verdict], 0));
  let x = 0;
  const boxes = VERDICTS.filter((verdict) => counts[verdict]).map((verdict) => {
    // A single rejected operation among thousands must still be seen.
    const width = Math.max(2, (counts[verdict] / total) * 200);
    const box = { x, y: 0, width, height: 12, colour: `--${verdict}` };
    x += width;
    return box;
  });
  const words = VERDICTS.map((verdict) => `${counts[verdict]} ${verdict}`).join(", ");
  return boxesDrawing(Math.max(200, x), 12, boxes, { class: "bar", role: "img", "aria-label": words });
}

/**
 * @param {any} entry
 * @param {number} longest
 */
function latencyCell(entry, longest) {
  const latency = entry.latency;
  if (latency === null) return el("td", { class: "number", text: "no program", title: entry.reason });
  const scale = 120 / Math.max(longest, 1e-9);
  const bar = boxesDrawing(120, 6, [
    { x: 0, y: 1, width: latency.microseconds * scale, height: 4, colour: "--series-0" },
    { x: latency.low * scale, y: 2.5, width: Math.max(1, (latency.high - latency.low) * scale), height: 1, colour: "--text" },
  ], { class: "bar", "aria-hidden": "true" });
  const range = el("span", { class: "quiet small", text: `${duration(latency.low)} to ${duration(latency.high)}` });
  const words = `${duration(latency.microseconds)} (${duration(latency.low)} to ${duration(latency.high)})`;
  return el("td", { class: "number", title: `${words}, predicted from ${latency.rests_on} figures` }, duration(latency.microseconds), range, bar);
}
