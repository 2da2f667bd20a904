// What drawings share: a sharp canvas, colours of the style sheet, dragging, the wheel, a tip, and a line of words that
// says what is chosen for those who do not see the drawing.

const probe = el("span", { hidden: true });
/** @type {Map<string, string>} */
const colours = new Map();

/** @param {string} property A custom property, such as "--native". */
function colour(property) {
  let found = colours.get(property);
  if (found === undefined) {
    if (!probe.isConnected) document.body.append(probe);
    probe.style.color = `var(${property})`;
    found = getComputedStyle(probe).color;
    colours.set(property, found);
  }
  return found;
}

listen("theme", () => colours.clear());

/**
 * @typedef {object} Drawing What a surface asks of its owner.
 * @property {(context: CanvasRenderingContext2D, width: number, height: number) => void} draw
 * @property {(dx: number, dy: number) => void} pan
 * @property {(factor: number, x: number, y: number) => void} zoom Around a point of the canvas.
 * @property {(x: number, y: number) => number | null} hit What lies at a point.
 * @property {(item: number) => string} describe
 * @property {(item: number) => void} choose
 * @property {(key: string) => boolean} key Whether the key meant something.
 */

class Surface {
  /**
   * @param {string} label
   * @param {Drawing} owner
   */
  constructor(label, owner) {
    this.owner = owner;
    this.width = 0;
    this.height = 0;
    this.waiting = false;
    this.canvas = el("canvas", { tabindex: "0", role: "application", "aria-label": label });
    this.tip = el("div", { class: "tip", "aria-hidden": "true", hidden: true });
    this.status = el("p", { class: "status", role: "status" });
    this.drag = /** @type {{x: number, y: number, moved: boolean} | null} */ (null);
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.canvas);
    listen("theme", () => this.redraw());
  }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => this.press(event));
    canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => this.move(event));
    canvas.addEventListener("pointerup", (/** @type {PointerEvent} */ event) => this.release(event));
    canvas.addEventListener("pointercancel", () => { this.drag = null; });
    canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    canvas.addEventListener("wheel", (/** @type {WheelEvent} */ event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (this.owner.key(event.key)) event.preventDefault();
    });
  }

  resize() {
    const scale = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(this.height * scale);
    this.redraw();
  }

  /** Draw soon, once for all that changes until then. */
  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      if (!this.width || !this.height) return;
      const context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
      const scale = this.canvas.width / this.width;
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.clearRect(0, 0, this.width, this.height);
      context.font = `12px ${getComputedStyle(document.documentElement).fontFamily}`;
      this.owner.draw(context, this.width, this.height);
    });
  }

  /** @param {PointerEvent} event */
  press(event) {
    if (event.button !== 0) return;
    this.drag = { x: event.offsetX, y: event.offsetY, moved: false };
    this.canvas.setPointerCapture(event.pointerId);
  }

  /** @param {PointerEvent} event */
  move(event) {
    if (this.drag === null) {
      this.hover(event.offsetX, event.offsetY);
      return;
    }
    const [dx, dy] = [event.offsetX - this.drag.x, event.offsetY - this.drag.y];
    if (!this.drag.moved && Math.hypot(dx, dy) < 4) return; // a hand that clicks is not quite still
    this.drag = { x: event.offsetX, y: event.offsetY, moved: true };
    this.tip.hidden = true;
    this.owner.pan(dx, dy);
    this.redraw();
  }

  /** @param {PointerEvent} event */
  release(event) {
    const clicked = this.drag !== null && !this.drag.moved;
    this.drag = null;
    if (!clicked) return;
    const item = this.owner.hit(event.offsetX, event.offsetY);
    if (item !== null) this.owner.choose(item);
  }

  /** @param {WheelEvent} event The wheel scrolls the page, unless the drawing was chosen before or Ctrl is held. */
  wheel(event) {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== this.canvas) return;
    event.preventDefault();
    this.owner.zoom(Math.exp(-event.deltaY * 0.0015), event.offsetX, event.offsetY);
    this.redraw();
  }

  /**
   * @param {number} x
   * @param {number} y
   */
  hover(x, y) {
    const item = this.owner.hit(x, y);
    this.tip.hidden = item === null;
    if (item === null) return;
    this.tip.textContent = this.owner.describe(item);
    const left = Math.min(x + 14, this.width - this.tip.offsetWidth - 6);
    const below = y + 16 + this.tip.offsetHeight < this.height;
    this.tip.style.left = `${Math.max(4, left)}px`;
    this.tip.style.top = `${below ? y + 16 : Math.max(4, y - this.tip.offsetHeight - 8)}px`;
  }

  /** @param {string} text */
  say(text) {
    this.status.textContent = text;
  }
}

/**
 * Make the buttons that do what keys do.
 * @param {Surface} surface
 * @param {Array<[string, string, string]>} buttons Text, name and key of each.
 */
function keyButtons(surface, buttons) {
  return buttons.map(([text, name, key]) =>
    el("button", { type: "button", text, title: name, "aria-label": name, onclick: () => surface.owner.key(key) }));
}

/** A stretch of a line of numbers, such as time, that is looked at more or less closely. */
class Axis {
  /** @param {number} left Pixels that are left free for names. */
  constructor(left) {
    this.left = left;
    this.end = 1;
    this.from = 0;
    this.to = 1;
    this.width = 1;
  }

  /** @param {number} end */
  reset(end) {
    this.end = end > 0 ? end : 1;
    this.from = 0;
    this.to = this.end;
  }

  /** @param {number} value */
  x(value) {
    return this.left + ((value - this.from) / (this.to - this.from)) * this.width;
  }

  /** @param {number} x */
  value(x) {
    return this.from + ((x - this.left) / this.width) * (this.to - this.from);
  }

  /** @param {number} pixels */
  pan(pixels) {
    const by = Math.max(-this.from, Math.min(this.end - this.to, (-pixels / this.width) * (this.to - this.from)));
    this.from += by;
    this.to += by;
  }

  /**
   * @param {number} factor
   * @param {number} x
   */
  zoom(factor, x) {
    const middle = this.value(x);
    const span = Math.min(this.end, Math.max(this.end / 1e6, (this.to - this.from) / factor));
    const share = (middle - this.from) / (this.to - this.from);
    this.from = Math.max(0, Math.min(this.end - span, middle - share * span));
    this.to = this.from + span;
  }

  /**
   * Move so that a stretch is in sight.
   * @param {number} start
   * @param {number} end
   */
  reveal(start, end) {
    if (start >= this.from && end <= this.to) return;
    const span = Math.min(this.end, Math.max(this.to - this.from, end - start));
    this.from = Math.max(0, Math.min(this.end - span, (start + end - span) / 2));
    this.to = this.from + span;
  }

  /** @param {string} key */
  key(key) {
    const middle = this.left + this.width / 2;
    if (key === "+" || key === "=") this.zoom(1.6, middle);
    else if (key === "-") this.zoom(1 / 1.6, middle);
    else if (key === "0") this.reset(this.end);
    else return false;
    return true;
  }

  /**
   * Draw the numbers along the line.
   * @param {CanvasRenderingContext2D} context
   * @param {number} top
   * @param {number} bottom
   * @param {(value: number) => string} words
   * @param {number} [smallest] The least distance of two marks.
   */
  draw(context, top, bottom, words, smallest = 0) {
    const rough = (this.to - this.from) / Math.max(1, this.width / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(smallest, [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? rough);
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (let mark = Math.ceil(this.from / step - 1e-9); mark * step <= this.to; mark += 1) {
      const value = Math.max(0, mark * step); // never −0
      const x = Math.round(this.x(value)) + 0.5;
      context.strokeStyle = colour("--line");
      context.beginPath();
      context.moveTo(x, top);
      context.lineTo(x, bottom);
      context.stroke();
      context.fillStyle = colour("--quiet");
      context.fillText(words(value), x + 4, top + 9);
    }
  }
}

/**
 * Cut a text to the room that it has.
 * @param {CanvasRenderingContext2D} context
 * @param {string} text
 * @param {number} room
 * @param {(text: string, length: number) => string} [cut] Which part of it stays.
 */
function fitted(context, text, room, cut = head) {
  const long = text.slice(0, 400); // no drawing has room for more
  if (long === text && context.measureText(text).width <= room) return text;
  let [low, high] = [0, long.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(cut(text, middle)).width <= room) low = middle;
    else high = middle - 1;
  }
  return low > 1 ? cut(text, low) : "";
}

const LEAST_NAME = 6; // letters; less of a name says nothing
const LEAST_ROOM = 8; // pixels; a letter has no less, and measuring a text takes longer than drawing a box

/**
 * Write a name into a box, cut in the middle where it is too long, or not at all where too little of it would be left.
 * @param {CanvasRenderingContext2D} context
 * @param {string} name
 * @param {number} x
 * @param {number} y
 * @param {number} room
 */
function writeName(context, name, x, y, room) {
  if (room < LEAST_ROOM) return;
  const words = fitted(context, name, room, middle);
  if (words.length < Math.min(LEAST_NAME, name.length)) return;
  context.fillStyle = colour("--card");
  context.fillText(words, x, y);
}

/**
 * @param {string} text
 * @param {number} length
 */
function head(text, length) {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}
