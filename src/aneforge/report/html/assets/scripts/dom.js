// Elements. Text is always set as text: no function of these scripts turns a string into markup.

/** @typedef {Node | string | null} Child */

/**
 * Make an element. Properties that start with "on" are listeners, "class" and "text" are what they say, the rest are
 * attributes; one that is null or false is left out.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...Child} children
 * @returns {any} The element; `any`, because callers know which kind they asked for.
 */
function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === false || value === undefined) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name === "text") made.textContent = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/**
 * @param {string} id
 * @returns {any}
 */
function byId(id) {
  return document.getElementById(id);
}

/**
 * Make a labelled select.
 * @param {string} label
 * @param {Array<[string, string]>} options Value and text of each.
 * @param {(value: string) => void} chosen
 */
function choice(label, options, chosen) {
  const select = el("select", { onchange: () => chosen(select.value) });
  for (const [value, text] of options) select.append(el("option", { value, text }));
  return { field: el("label", { class: "field" }, `${label} `, select), select };
}

const SVG = "http://www.w3.org/2000/svg";

/**
 * Make a drawing of rectangles, each with a colour by the name of its custom property.
 * @param {number} width
 * @param {number} height
 * @param {Array<{x: number, y: number, width: number, height: number, colour: string}>} boxes
 * @param {Record<string, string>} attributes
 */
function boxesDrawing(width, height, boxes, attributes) {
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
  drawing.setAttribute("preserveAspectRatio", "none");
  for (const [name, value] of Object.entries(attributes)) drawing.setAttribute(name, value);
  for (const box of boxes) {
    const one = document.createElementNS(SVG, "rect");
    for (const name of /** @type {const} */ (["x", "y", "width", "height"])) one.setAttribute(name, String(box[name]));
    one.style.fill = `var(${box.colour})`;
    drawing.append(one);
  }
  return drawing;
}

/**
 * Make a legend.
 * @param {Array<string[]>} entries Custom property of the colour, the words, and what they mean.
 */
function legend(entries) {
  const list = el("ul", { class: "legend" });
  for (const [colour, text, meaning] of entries) {
    const swatch = boxesDrawing(12, 12, [{ x: 0, y: 0, width: 12, height: 12, colour }], { "aria-hidden": "true" });
    list.append(el("li", meaning ? { title: meaning, class: "meant" } : {}, swatch, text));
  }
  return list;
}

/** @param {string} verdict A verdict or a severity, with a mark next to the word: colour by itself says nothing. */
function badge(verdict) {
  return el("span", { class: `badge v-${verdict}`, "data-mark": MARKS[verdict] ?? "•", text: verdict });
}
