// Words and numbers as people read them.

const VERDICTS = ["native", "decompose", "oversize", "reject"];
const SEVERITIES = ["reject", "oversize", "decompose", "warn", "info"];
const STRENGTHS = ["saturation", "approximation", "roundings", "round1", "ulp1", "none"];
/** @type {Record<string, string>} */
const MARKS = { native: "✓", decompose: "÷", oversize: "▲", reject: "✕", warn: "!", info: "i" };

/** @type {Record<string, string>} How a model reaches the engine. */
const PATHS = {
  direct: "Path: direct dispatch, all operations on the engine.",
  coreml: "Path: Core ML, which runs elsewhere what the engine does not take.",
};
/** @type {Record<string, string>} What stands after the name of a chip on which a model runs, or not as it is written. */
const RUNS_MARKS = { yes: "", "after splitting": " ▲", no: " ✕" };

/** @param {string} runs The verdict whose mark and colour an answer has. */
function runsVerdict(runs) {
  /** @type {Record<string, string>} */
  const known = { yes: "native", "after splitting": "oversize", split: "oversize", no: "reject" };
  return known[runs] ?? (runs.startsWith("100%") ? "native" : "decompose");
}

/** @param {any} entry A chip as shops call it, then as the compiler does. */
function chipTitle(entry) {
  return entry.chip === entry.target ? entry.chip : `${entry.chip} (${entry.target})`;
}

const grouped = new Intl.NumberFormat("en");
const collator = new Intl.Collator("en", { numeric: true });

/** @param {number} value */
function count(value) {
  return grouped.format(value);
}

/**
 * @param {number} value
 * @param {string} one
 * @param {string} [many]
 */
function counted(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** @param {number} value */
function significant(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-4) return value.toExponential(2);
  return grouped.format(Number(value.toPrecision(3)));
}

/** @param {number | string | null} value A limit or what was seen: a number, or words. */
function quantity(value) {
  if (value === null) return "";
  if (typeof value === "string") return value;
  if (Number.isInteger(value)) return grouped.format(value);
  return String(Number(value.toPrecision(6)));
}

/**
 * Return a number for words that stand for one, so that they sort as such.
 * @param {number | string | null} value
 */
function measure(value) {
  if (typeof value !== "string") return value;
  if (value === "inf" || value === "-inf") return value === "inf" ? Infinity : -Infinity;
  return /^-?\d+$/.test(value) ? Number(value) : value;
}

/** @param {number} microseconds */
function duration(microseconds) {
  if (microseconds >= 1e6) return `${significant(microseconds / 1e6)} s`;
  if (microseconds >= 1e3) return `${significant(microseconds / 1e3)} ms`;
  return `${significant(microseconds)} µs`;
}

/** @param {number} value */
function bytes(value) {
  // Units of a thousand, as the terminal and the other forms have them.
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  let size = value;
  while (size >= 999.5 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? count(size) : significant(size)} ${units[unit]}`;
}

/** @param {number} fraction */
function percent(fraction) {
  // Never 100 % while something is left over.
  const value = fraction < 1 ? Math.min(99.9, fraction * 100) : 100;
  return `${Number(value.toFixed(1))} %`;
}

/** @param {{file: string | null, line: number | null, node: string | null} | null} place */
function placeText(place) {
  if (place === null) return "";
  const file = place.file === null ? "" : place.line === null ? place.file : `${place.file}:${place.line}`;
  return [file, place.node].filter(Boolean).join(" ");
}

/** @param {any} place The name of the file without its folders. */
function placeShort(place) {
  return place === null ? "" : placeText({ ...place, file: place.file?.split(/[\\/]/).at(-1) ?? null });
}

/**
 * Shorten a name in its middle: it begins with where it is, and its end tells it from its neighbours.
 * @param {string} text
 * @param {number} length
 */
function middle(text, length) {
  if (text.length <= length) return text;
  const end = Math.ceil((length - 1) * 0.6);
  return `${text.slice(0, Math.max(0, length - 1 - end))}…${end > 0 ? text.slice(-end) : ""}`;
}

/** @param {string} word What the glossary says of a word that the page uses; empty if it has no such word. */
function term(word) {
  return model.index.terms[word] ?? "";
}

/** @param {number[]} shape */
function shapeText(shape) {
  return shape.length ? shape.join(" × ") : "scalar";
}
