// Chips side by side: one row each, all figures under each other.

const CHIP_COLUMNS = [
  { title: "Chip", value: (/** @type {any} */ one) => one.target },
  { title: "Runs", value: (/** @type {any} */ one) => (one.runs in RUNS_MARKS ? Object.keys(RUNS_MARKS).indexOf(one.runs) : one.runs) },
  { title: "Verdicts", value: (/** @type {any} */ one) => one.nativeFraction },
  { title: "Native", value: (/** @type {any} */ one) => one.nativeFraction, number: true },
  { title: "Decomposed", value: (/** @type {any} */ one) => one.counts.decompose, number: true },
  { title: "Oversize", value: (/** @type {any} */ one) => one.counts.oversize, number: true },
  { title: "Rejected", value: (/** @type {any} */ one) => one.counts.reject, number: true },
  { title: "Findings", value: (/** @type {any} */ one) => one.findingCount, number: true },
  { title: "Latency", value: (/** @type {any} */ one) => one.latency?.microseconds ?? null, number: true },
  { title: "Segments", value: (/** @type {any} */ one) => (one.failure === null ? one.segments : null), number: true },
  { title: "Peak on chip", value: (/** @type {any} */ one) => one.peak, number: true },
  { title: "Weights", value: (/** @type {any} */ one) => (one.failure === null ? one.weightBytes : null), number: true },
  { title: "Activations", value: (/** @type {any} */ one) => (one.failure === null ? one.activationBytes : null), number: true },
  { title: "fp16 risk", value: (/** @type {any} */ one) => one.risk },
  { title: "Exactness", value: (/** @type {any} */ one) => one.exactness },
];

function buildChips() {
  const targets = model.index.targets;
  if (!targets.length) {
    byId("chips-body").append(el("p", { class: "quiet", text: "No chip was asked for." }));
    return;
  }
  const body = el("tbody");
  const rows = targets.map((/** @type {any} */ entry, /** @type {number} */ number) => chipRow(entry, number));
  const longest = Math.max(0, ...targets.map((/** @type {any} */ one) => one.latency?.high ?? 0));
  targets.forEach((/** @type {any} */ entry, /** @type {number} */ number) => rows[number].append(...chipCells(entry, longest)));
  const head = el("tr");
  let sorted = { column: -1, direction: 1 };
  const headers = CHIP_COLUMNS.map((column, place) => {
    const sort = () => {
      const direction = sorted.column === place ? -sorted.direction : 1;
      sorted = { column: place, direction };
      const order = [...targets.keys()].sort(
        (one, other) => compare(column.value(targets[one]), column.value(targets[other]), direction) || one - other,
      );
      body.append(...order.map((one) => rows[one]));
      headers.forEach((header, one) => header.setAttribute("aria-sort", one !== place ? "none" : direction > 0 ? "ascending" : "descending"));
    };
    const header = el("th", { scope: "col", "aria-sort": "none", class: column.number ? "number" : null },
      el("button", { type: "button", text: column.title, onclick: sort }));
    head.append(header);
    return header;
  });
  body.append(...rows);
  const table = el("table", { class: "chips", "aria-label": "Chips side by side" }, el("thead", {}, head), body);
  byId("chips-body").append(
    el("div", { class: "scroller tall", tabindex: "0", role: "group", "aria-label": "Chips, scrolls sideways" }, table),
    legend(VERDICTS.map((verdict) => [`--${verdict}`, `${MARKS[verdict]} ${verdict}`])),
    el("p", { class: "hint", text: `${PATHS[targets[0].path]} Latency is predicted: the bar is the estimate, the thin line its range. Choose a chip to see everything below for it.` }),
  );
  listen("target", () => {
    rows.forEach((/** @type {HTMLElement} */ row, /** @type {number} */ number) => {
      const chosen = targets[number] === state.target.entry;
      row.classList.toggle("chosen", chosen);
      row.querySelector("button")?.setAttribute("aria-pressed", String(chosen));
    });
  });
}

/**
 * @param {any} entry
 * @param {number} number
 */
function chipRow(entry, number) {
  const button = el("button", { type: "button", "aria-pressed": "false" }, entry.target, el("span", { class: "quiet", text: entry.title, title: entry.title }));
  return el("tr", { onclick: () => void chooseTarget(number) }, el("th", { scope: "row" }, button));
}

/**
 * @param {any} entry
 * @param {number} longest Microseconds of the slowest chip.
 */
function chipCells(entry, longest) {
  const compiled = entry.failure === null;
  /** @param {string | Node} content @param {string} [title] */
  const number = (content, title) => el("td", { class: "number", title: title ?? null }, content);
  const missing = compiled ? null : entry.failure;
  return [
    el("td", { text: entry.runs, title: entry.failure ?? (entry.runs === "after splitting" ? "as it is written it does not pass the validator; the compiler splits what is oversize" : null) }),
    el("td", {}, verdictBar(entry.counts)),
    number(percent(entry.nativeFraction), counted(entry.counts.native, "operation")),
    number(count(entry.counts.decompose)),
    number(count(entry.counts.oversize)),
    number(count(entry.counts.reject)),
    number(count(entry.findingCount)),
    latencyCell(entry, longest),
    number(compiled ? count(entry.segments) : "—", missing),
    number(entry.peak === null ? "—" : bytes(entry.peak), entry.capacity === null ? missing : `of ${bytes(entry.capacity)}`),
    number(compiled ? bytes(entry.weightBytes) : "—", missing),
    number(compiled ? bytes(entry.activationBytes) : "—", missing),
    el("td", { text: entry.risk, title: entry.riskReason }),
    el("td", { text: entry.exactness, title: entry.exactnessReason }),
  ];
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
  if (latency === null) return el("td", { class: "number", text: "no program", title: entry.failure });
  const scale = 120 / Math.max(longest, 1e-9);
  const bar = boxesDrawing(120, 6, [
    { x: 0, y: 1, width: latency.microseconds * scale, height: 4, colour: "--series-0" },
    { x: latency.low * scale, y: 2.5, width: Math.max(1, (latency.high - latency.low) * scale), height: 1, colour: "--text" },
  ], { class: "bar", "aria-hidden": "true" });
  const range = el("span", { class: "quiet small", text: `${duration(latency.low)} to ${duration(latency.high)}` });
  const words = `${duration(latency.microseconds)} (${duration(latency.low)} to ${duration(latency.high)})`;
  return el("td", { class: "number", title: `${words}, predicted from ${latency.rests_on} figures` }, duration(latency.microseconds), range, bar);
}
