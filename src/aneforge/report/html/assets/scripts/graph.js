// The graph: operations coloured by verdict, divergence or time. It is dragged, zoomed, searched, and walked with keys.

const SHORT = 12; // rows that an edge may span and still be found from the rows in sight; longer ones are listed
const READABLE = 0.42; // least scale at which names are drawn

class GraphView {
  constructor() {
    const { inputs } = model.nodes;
    this.layout = layOut(inputs, model.consumers);
    this.longEdges = /** @type {Array<[number, number]>} */ ([]);
    inputs.forEach((/** @type {number[]} */ sources, /** @type {number} */ node) => {
      for (const source of sources) if (this.span(source, node) > SHORT) this.longEdges.push([source, node]);
    });
    this.scale = 1;
    this.left = 0; // of the graph, at the left edge of the canvas
    this.top = 0;
    this.mode = "verdict";
    this.classes = /** @type {string[][]} */ ([]); // colour and words of each class
    this.classOf = new Uint8Array(0); // class of each node
    this.found = /** @type {number[]} */ ([]);
    this.marked = new Set();
    this.surface = new Surface("Graph of operations. Arrow keys walk along edges, plus and minus zoom, 0 shows all, Enter opens details.", this);
    this.placed = false;
    this.build();
    listen("target", () => this.recolour());
    listen("pair", () => this.recolour());
    listen("node", () => this.follow());
  }

  /** @param {number} source @param {number} node */
  span(source, node) {
    return this.layout.rowOf[node] - this.layout.rowOf[source];
  }

  build() {
    this.overview = el("canvas", { class: "overview", "aria-hidden": "true", title: "The whole graph; click to go there" });
    this.overview.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => this.jump(event));
    this.overview.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => { if (event.buttons) this.jump(event); });
    this.search = el("input", {
      type: "search",
      placeholder: "name or operation",
      oninput: () => this.find(),
      onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1); },
    });
    this.matches = el("output", { "aria-live": "polite" });
    const options = /** @type {Array<[string, string]>} */ ([["verdict", "verdict"], ["time", "predicted time"]]);
    if (model.index.divergences.length) options.push(["divergence", "divergence"]);
    const colourBy = choice("Colour by", options, (value) => {
      this.mode = value;
      this.recolour();
    });
    this.classKey = el("div");
    const tools = el("div", { class: "tools" },
      el("label", { class: "field" }, "Search ", this.search),
      el("button", { type: "button", text: "Next", title: "Next match (Enter in the search field)", onclick: () => this.next(1) }),
      colourBy.field,
      ...keyButtons(this.surface, [["+", "Zoom in", "+"], ["−", "Zoom out", "-"], ["Fit", "Show the whole graph", "0"]]),
      this.matches);
    byId("graph-body").append(tools,
      el("div", { class: "chart graph-frame" }, this.surface.canvas, this.overview, this.surface.tip),
      this.surface.status, this.classKey,
      el("p", { class: "hint", text: "Drag to move; the wheel zooms with Ctrl, or once the drawing was clicked. Keys: arrows walk along edges, + − 0 zoom, Page Up and Page Down scroll, Enter opens details." }));
  }

  /** Work out the colour of every node: the place of its class in `classes`, the last drawn on top. */
  recolour() {
    if (state.target === null) return;
    const { length } = model.nodes;
    this.classOf = new Uint8Array(length);
    if (this.mode === "verdict") {
      this.classes = VERDICTS.map((verdict) => [`--${verdict}`, `${MARKS[verdict]} ${verdict}`]);
      for (let node = 0; node < length; node += 1) this.classOf[node] = Math.max(0, VERDICTS.indexOf(state.target.verdicts[node]));
    } else if (this.mode === "divergence") this.colourByDivergence();
    else this.colourByTime();
    this.classKey.replaceChildren(legend(/** @type {Array<[string, string]>} */ (this.classes)));
    this.surface.redraw();
  }

  colourByDivergence() {
    this.classes = STRENGTHS.map((strength, place) => [`--heat-${place}`, strength]).reverse();
    if (state.pair === null) return;
    this.classOf = state.pair.strengthOf.map((/** @type {number} */ place) => STRENGTHS.length - 1 - place);
  }

  colourByTime() {
    const shares = [0, 0.01, 0.05, 0.2, 0.5];
    const longest = state.target.timeOf.reduce((/** @type {number} */ most, /** @type {number} */ one) => Math.max(most, one), 0);
    this.classes = [["--heat-5", "no layer of its own"], ...shares.map((share, place) => [
      `--heat-${4 - place}`, share ? `≥ ${percent(share)} of the longest` : "less"])];
    state.target.timeOf.forEach((/** @type {number} */ time, /** @type {number} */ node) => {
      this.classOf[node] = time > 0 ? shares.filter((share) => time >= share * longest).length : 0;
    });
  }

  // Looking: the view is a scale and a corner.

  fit() {
    const { columns } = this.layout;
    const { width, height } = this.surface;
    if (!columns.length) return;
    const right = columns[columns.length - 1].right;
    const deepest = (columns[0].last - columns[0].first) * PITCH;
    this.scale = Math.min(1.2, width / (right + BETWEEN), height / (deepest + 1.6 * PITCH));
    this.left = right / 2 - width / 2 / this.scale;
    this.top = deepest / 2 - height / 2 / this.scale;
  }

  /** Rows in sight: from and to, for every column in sight. */
  rowsInSight() {
    const { width, height } = this.surface;
    const right = this.left + width / this.scale;
    const [above, below] = [Math.floor(this.top / PITCH) - 1, Math.ceil((this.top + height / this.scale) / PITCH) + 1];
    /** @type {Array<[number, number]>} */
    const found = [];
    for (const column of this.layout.columns) {
      if (column.right + BETWEEN < this.left || column.left - BETWEEN > right) continue;
      const [from, to] = [column.first + Math.max(0, above), Math.min(column.last, column.first + below)];
      if (from <= to) found.push([from, to]);
    }
    return found;
  }

  /** The first look: all of a small graph, the beginning of a large one. */
  start() {
    this.placed = true;
    if (!model.nodes.length) return;
    this.fit();
    if (this.scale >= READABLE) return;
    this.scale = 1;
    const row = this.layout.rows[0];
    this.left = mean(row, this.layout.x) - this.surface.width / 2 / this.scale;
    this.top = -PITCH;
  }

  /** @param {number} dx @param {number} dy */
  pan(dx, dy) {
    this.left -= dx / this.scale;
    this.top -= dy / this.scale;
  }

  /** @param {number} factor @param {number} x @param {number} y */
  zoom(factor, x, y) {
    const scale = Math.min(4, Math.max(1e-5, this.scale * factor));
    this.left += x / this.scale - x / scale;
    this.top += y / this.scale - y / scale;
    this.scale = scale;
  }

  /** @param {number} node */
  centre(node) {
    this.scale = Math.max(this.scale, READABLE);
    this.left = this.layout.x[node] - this.surface.width / 2 / this.scale;
    this.top = this.layout.y[node] - this.surface.height / 2 / this.scale;
  }

  /** @param {PointerEvent} event */
  jump(event) {
    const share = event.offsetY / this.overview.clientHeight;
    const row = Math.max(0, Math.min(this.layout.rows.length - 1, Math.floor(share * this.layout.rows.length)));
    if (model.nodes.length) this.centre(this.layout.rows[row][0]);
    this.surface.redraw();
  }

  // Finding and choosing.

  find() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const { name, op, length } = model.nodes;
    this.found = [];
    for (let node = 0; words.length && node < length; node += 1) {
      const text = `${name[node]} ${op[node]}`.toLowerCase();
      if (words.every((/** @type {string} */ word) => text.includes(word))) this.found.push(node);
    }
    this.marked = new Set(this.found);
    this.matches.textContent = words.length ? counted(this.found.length, "match", "matches") : "";
    if (this.found.length) this.centre(this.found[0]);
    this.surface.redraw();
  }

  /** @param {number} step */
  next(step) {
    if (!this.found.length) return;
    const at = this.found.indexOf(state.node ?? -1);
    const place = at < 0 ? 0 : (at + step + this.found.length) % this.found.length;
    chooseNode(this.found[place]);
    this.matches.textContent = `${count(place + 1)} of ${counted(this.found.length, "match", "matches")}`;
  }

  follow() {
    if (state.node !== null) {
      if (!this.inSight(state.node)) this.centre(state.node);
      this.surface.say(`Chosen: ${this.describe(state.node).replaceAll("\n", ", ")}`);
    } else this.surface.say("");
    this.surface.redraw();
  }

  /** @param {number} node */
  inSight(node) {
    const [x, y] = [(this.layout.x[node] - this.left) * this.scale, (this.layout.y[node] - this.top) * this.scale];
    return x > 40 && y > 20 && x < this.surface.width - 40 && y < this.surface.height - 20 && this.scale >= READABLE / 2;
  }

  /** @param {number} node */
  choose(node) {
    chooseNode(node);
  }

  /** @param {number} node */
  describe(node) {
    const { name, op, dtype, shape } = model.nodes;
    const findings = state.target.findingsOf.get(node)?.length ?? 0;
    const lines = [`${op[node]} ${name[node]}`, `${dtype[node]} ${shapeText(shape[node])}`, state.target.verdicts[node]];
    if (findings) lines.push(counted(findings, "finding"));
    if (this.mode === "divergence" && state.pair) lines.push(`${STRENGTHS[state.pair.strengthOf[node]]} against ${state.pair.entry.second}`);
    if (state.target.layersOf.has(node)) lines.push(duration(state.target.timeOf[node]));
    return lines.join("\n");
  }

  /** @param {number} x @param {number} y */
  hit(x, y) {
    const [gx, gy] = [this.left + x / this.scale, this.top + y / this.scale];
    const column = this.layout.columns.find((one) => gx >= one.left - BETWEEN / 2 && gx <= one.right + BETWEEN / 2);
    const row = Math.round(gy / PITCH);
    if (column === undefined || row < 0 || column.first + row > column.last) return null;
    const reach = Math.max(NODE.width / 2, 4 / this.scale);
    if (Math.abs(gy - row * PITCH) > Math.max(NODE.height / 2, 4 / this.scale)) return null;
    return this.layout.rows[column.first + row].find((node) => Math.abs(this.layout.x[node] - gx) <= reach) ?? null;
  }

  /** @param {string} key */
  key(key) {
    const { width, height } = this.surface;
    if (key === "0") this.fit();
    else if (key === "+" || key === "=") this.zoom(1.4, width / 2, height / 2);
    else if (key === "-") this.zoom(1 / 1.4, width / 2, height / 2);
    else if (key === "PageDown") this.pan(0, -height * 0.8);
    else if (key === "PageUp") this.pan(0, height * 0.8);
    else if (key === "Home" && model.nodes.length) this.centre(this.layout.rows[0][0]);
    else if (key === "End" && model.nodes.length) this.centre(/** @type {number[]} */ (this.layout.rows.at(-1))[0]);
    else if (key === "Enter" && state.node !== null) openDetail();
    else if (key.startsWith("Arrow")) this.walk(key);
    else return false;
    this.surface.redraw();
    return true;
  }

  /** @param {string} key */
  walk(key) {
    const { length, inputs } = model.nodes;
    if (!length) return;
    if (state.node === null) {
      walkTo(this.layout.rows[0][0]);
      return;
    }
    const row = this.layout.rows[this.layout.rowOf[state.node]];
    const place = row.indexOf(state.node);
    /** @type {Record<string, number | undefined>} */
    const to = { ArrowUp: inputs[state.node][0], ArrowDown: model.consumers[state.node][0], ArrowLeft: row[place - 1], ArrowRight: row[place + 1] };
    const node = to[key];
    if (node !== undefined) walkTo(node);
  }

  draw(/** @type {CanvasRenderingContext2D} */ context) {
    if (!this.placed) this.start();
    if (!this.classes.length) return;
    new GraphDrawing(this, context).draw();
    drawOverview(this);
  }
}

/**
 * Choose a node without opening its details: the keyboard stays where it is.
 * @param {number} node
 */
function walkTo(node) {
  state.walking = true;
  chooseNode(node);
  state.walking = false;
}
