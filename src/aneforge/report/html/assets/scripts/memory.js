// On-chip memory over the steps of the schedule: how much is in use, and which value lies where in which state.

const MEMORY = { head: 20, usage: 150, gap: 26, map: 260 };

class MemoryView {
  constructor() {
    this.axis = new Axis(74);
    this.plan = /** @type {any} */ (null);
    this.capacity = 1;
    this.top = 1; // the highest address
    this.most = 1; // the most in use
    this.states = /** @type {string[]} */ ([]);
    this.onChip = /** @type {number[]} */ ([]);
    this.chosen = /** @type {number | null} */ (null);
    this.surface = new Surface("On-chip memory over time. Left and right arrows go from value to value, plus and minus zoom, 0 shows all, Enter opens the operation.", this);
    this.surface.canvas.style.height = `${MEMORY.head + MEMORY.usage + MEMORY.gap + MEMORY.map}px`;
    this.table = this.build();
    listen("target", () => this.show());
  }

  build() {
    const get = (/** @type {string} */ name) => (/** @type {number} */ row) => this.plan.allocations[name][row];
    const table = new Table("Allocations", [
      { title: "Operations", width: 280, value: (row) => this.name(row), text: (row) => middle(this.name(row), 33) },
      { title: "Value", width: 200, value: get("value"), text: (row) => middle(get("value")(row), 23) },
      { title: "State", width: 180, value: (row) => stateWords(get("state")(row)) },
      { title: "Memory", width: 90, value: get("memory") },
      { title: "Offset", width: 130, value: get("offset"), number: true },
      { title: "Size", width: 110, value: get("size"), text: (row) => bytes(get("size")(row)), number: true },
      { title: "First step", width: 100, value: get("first"), number: true },
      { title: "Last step", width: 100, value: get("last"), number: true },
    ], (row) => this.choose(row));
    this.summary = el("p", { class: "quiet" });
    this.legend = el("div");
    this.chart = el("div", {},
      el("div", { class: "tools" }, ...keyButtons(this.surface, [["+", "Zoom in", "+"], ["−", "Zoom out", "-"], ["Fit", "Show all steps", "0"], ["◀", "Value before", "ArrowLeft"], ["▶", "Next value", "ArrowRight"]]), this.summary),
      el("div", { class: "chart" }, this.surface.canvas, this.surface.tip),
      this.surface.status, this.legend,
      el("details", { class: "more" }, el("summary", { text: "Allocations as a table" }), table.element));
    byId("memory-body").append(this.chart);
    return table;
  }

  show() {
    const { entry, memory } = state.target;
    this.plan = memory;
    this.chosen = null;
    this.surface.say("");
    showSection("memory", memory !== null);
    if (memory === null) {
      this.table.show(0);
      return;
    }
    const { steps, allocations } = memory;
    this.capacity = entry.capacity;
    this.states = [...new Set(allocations.state)].sort(collator.compare);
    this.onChip = Array.from(allocations.state.keys()).filter((one) => allocations.memory[one] !== "DRAM");
    this.onChip.sort((one, other) => allocations.first[one] - allocations.first[other] || one - other);
    const last = this.onChip.reduce((most, one) => Math.max(most, allocations.last[one]), steps.length ? steps.step.at(-1) : 0);
    this.top = this.onChip.reduce((most, one) => Math.max(most, allocations.offset[one] + allocations.size[one]), 1);
    this.most = Math.max(1, entry.peak, this.used());
    this.axis.reset(last + 1);
    const share = this.capacity > 0 ? ` (${percent(entry.peak / this.capacity)})` : "";
    this.summary.textContent = `Peak ${bytes(entry.peak)} of ${bytes(this.capacity)}${share}; ${count(this.onChip.length)} of ${counted(allocations.length, "value")} on chip.`;
    this.legend.replaceChildren(legend([["--series-0", "in use: buffers", term("buffers")], ["--series-1", "in use: windows", term("windows")], ...this.states.map((one, place) => [stateColour(place), stateWords(one), term(stateWords(one))])]));
    this.table.show(allocations.length);
    this.surface.redraw();
  }

  used() {
    const { buffers, windows } = this.plan.steps;
    return buffers.reduce((/** @type {number} */ most, /** @type {number} */ one, /** @type {number} */ step) => Math.max(most, one + windows[step]), 0);
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {number} height */
  draw(context, width, height) {
    if (this.plan === null) return;
    this.axis.width = width - this.axis.left - 8;
    context.save();
    context.beginPath();
    context.rect(this.axis.left, 0, width, height);
    context.clip();
    this.axis.draw(context, 0, height, (step) => `step ${count(step)}`, 1);
    this.drawUsage(context, width);
    this.drawMap(context);
    context.restore();
    context.fillStyle = colour("--quiet");
    context.textAlign = "right";
    context.textBaseline = "middle";
    const right = this.axis.left - 6;
    context.fillText(bytes(this.scaleTop()), right, MEMORY.head + 8);
    context.fillText("in use", right, MEMORY.head + MEMORY.usage / 2);
    context.fillText("0", right, MEMORY.head + MEMORY.usage - 6);
    context.fillText(bytes(this.top), right, this.mapTop() + 8);
    context.fillText("address", right, this.mapTop() + MEMORY.map / 2);
    context.fillText("0", right, this.mapTop() + MEMORY.map - 8);
  }

  mapTop() {
    return MEMORY.head + MEMORY.usage + MEMORY.gap;
  }

  /** The capacity is drawn where the use comes near to it; else the use would be a thin line. */
  scaleTop() {
    return this.capacity <= 3 * this.most ? Math.max(this.capacity, this.most) : this.most * 1.1;
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width */
  drawUsage(context, width) {
    const { step, buffers, windows, length } = this.plan.steps;
    const bottom = MEMORY.head + MEMORY.usage;
    const scale = (MEMORY.usage - 4) / this.scaleTop();
    for (let place = 0; place < length; place += 1) {
      const [from, to] = [this.axis.x(step[place]), this.axis.x(step[place] + 1)];
      if (to < this.axis.left || from > width) continue;
      const wide = Math.max(1, to - from);
      context.fillStyle = colour("--series-0");
      context.fillRect(from, bottom - buffers[place] * scale, wide, buffers[place] * scale);
      context.fillStyle = colour("--series-1");
      context.fillRect(from, bottom - (buffers[place] + windows[place]) * scale, wide, windows[place] * scale);
    }
    this.drawLevel(context, width, bottom - state.target.entry.peak * scale, `peak ${bytes(state.target.entry.peak)}`, "--text");
    if (this.scaleTop() >= this.capacity) this.drawLevel(context, width, bottom - this.capacity * scale, `capacity ${bytes(this.capacity)}`, "--reject-text");
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {number} y @param {string} words @param {string} property */
  drawLevel(context, width, y, words, property) {
    context.strokeStyle = colour(property);
    context.setLineDash([5, 4]);
    context.beginPath();
    context.moveTo(this.axis.left, y);
    context.lineTo(width, y);
    context.stroke();
    context.setLineDash([]);
    context.textAlign = "right";
    context.textBaseline = "middle";
    const room = context.measureText(words).width;
    const middle = y + 10;
    context.fillStyle = colour("--card");
    context.fillRect(width - room - 18, middle - 8, room + 8, 16);
    context.fillStyle = colour(property);
    context.fillText(words, width - 14, middle);
  }

  /** @param {number} one Left, top, width and height of an allocation. */
  box(one) {
    const { first, last, offset, size } = this.plan.allocations;
    const scale = MEMORY.map / this.top;
    const left = this.axis.x(first[one]);
    const height = Math.max(1, size[one] * scale);
    return [left, this.mapTop() + MEMORY.map - offset[one] * scale - height, Math.max(1, this.axis.x(last[one] + 1) - left), height];
  }

  /** @param {CanvasRenderingContext2D} context */
  drawMap(context) {
    const { state: states, first, last } = this.plan.allocations;
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (const one of this.onChip) {
      if (first[one] > this.axis.to || last[one] + 1 < this.axis.from) continue;
      const [left, top, width, height] = this.box(one);
      context.fillStyle = colour(stateColour(this.states.indexOf(states[one])));
      context.fillRect(left, top, Math.max(1, width - (width > 3 ? 1 : 0)), Math.max(1, height - (height > 3 ? 1 : 0)));
      const shown = Math.max(left, this.axis.left) + 4;
      if (height < 13 || left + width - shown - 5 < LEAST_ROOM) continue;
      writeName(context, this.name(one), shown, top + height / 2, left + width - shown - 5);
    }
    if (this.chosen === null || !this.onChip.includes(this.chosen)) return;
    const [left, top, width, height] = this.box(this.chosen);
    context.strokeStyle = colour("--text");
    context.lineWidth = 3;
    context.strokeRect(left, top, Math.max(3, width), Math.max(3, height));
    context.lineWidth = 1;
  }

  /** @param {number} dx */
  pan(dx) {
    this.axis.pan(dx);
  }

  /** @param {number} factor @param {number} x */
  zoom(factor, x) {
    this.axis.zoom(factor, x);
  }

  /** @param {number} x @param {number} y */
  hit(x, y) {
    if (this.plan === null || x < this.axis.left) return null;
    return this.onChip.findLast((one) => {
      const [left, top, width, height] = this.box(one);
      return x >= left - 1 && x <= left + width + 1 && y >= top - 1 && y <= top + height + 1;
    }) ?? null;
  }

  /**
   * Operations whose layer makes a value: the compiler names a value by its layer.
   * @param {number} one
   * @returns {number[]}
   */
  nodesOf(one) {
    const layer = state.target.layerNamed.get(this.plan.allocations.value[one]);
    return layer === undefined ? [] : state.target.timeline.nodes[layer];
  }

  /** @param {number} one The user's names of the operations that make a value, or else the compiler's. */
  name(one) {
    return this.nodesOf(one).map(nodeName).join(", ") || this.plan.allocations.value[one];
  }

  /** @param {number} one */
  describe(one) {
    const { value, state: states, memory, offset, size, first, last } = this.plan.allocations;
    const nodes = this.nodesOf(one);
    return [
      `${value[one]}: ${stateWords(states[one])}`,
      ...(nodes.length ? [nodes.map(nodeName).join(", ")] : []),
      `${bytes(size[one])} in ${memory[one]} at ${count(offset[one])}`,
      first[one] === last[one] ? `step ${first[one]}` : `steps ${first[one]} to ${last[one]}`,
    ].join("\n");
  }

  /** @param {number} one */
  choose(one) {
    this.point(one);
    const [node] = this.nodesOf(one);
    if (node !== undefined) chooseNode(node);
  }

  /** @param {number} one */
  point(one) {
    this.chosen = one;
    const { first, last } = this.plan.allocations;
    this.axis.reveal(first[one], last[one] + 1);
    this.surface.say(this.describe(one).replaceAll("\n", "; "));
    this.surface.redraw();
  }

  /** @param {string} key */
  key(key) {
    if (this.axis.key(key)) this.surface.redraw();
    else if (key === "ArrowRight" || key === "ArrowLeft") {
      const at = this.chosen === null ? -1 : this.onChip.indexOf(this.chosen);
      const to = this.onChip[key === "ArrowRight" ? at + 1 : at - 1];
      if (to !== undefined) this.point(to);
    } else if (key === "Enter" && this.chosen !== null) this.choose(this.chosen);
    else return false;
    return true;
  }
}

/** @param {number} place */
function stateColour(place) {
  return `--series-${(place + 2) % 9}`;
}

/** @param {string} name An allocation state as the glossary writes it. */
function stateWords(name) {
  return name.replaceAll("_", " ");
}
