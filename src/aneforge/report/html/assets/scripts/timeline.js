// The predicted timeline: a lane for each unit of the engine, and a band for each program where there are several.

const ENGINES = ["host", "NE", "PE", "TE", "DMA"]; // in this order, as far as a layer runs on them
/** What limits a layer in the report and on the page, and its colour. */
const BOUNDS = [
  ["host", "the host's call", "--series-7"], ["compute", "compute", "--series-0"], ["weights", "weights", "--series-1"], ["on chip", "on-chip memory", "--series-6"],
  ["activations", "activations", "--series-2"], ["elements", "elements", "--series-3"], ["nothing", "fixed time", "--series-8"],
];
const LANE = { head: 44, height: 46, gap: 6, least: 8 };

class TimelineView {
  constructor() {
    this.axis = new Axis(56);
    this.layers = /** @type {any} */ (null);
    this.lanes = /** @type {Array<{engine: string, layers: number[], depth: Uint16Array, rows: number}>} */ ([]);
    this.programs = /** @type {Array<{program: number, start: number, end: number}>} */ ([]);
    this.order = /** @type {number[]} */ ([]);
    this.layer = /** @type {number | null} */ (null);
    this.surface = new Surface("Predicted timeline. Left and right arrows go from layer to layer, plus and minus zoom, 0 shows all, Enter opens the operation.", this);
    this.table = this.build();
    listen("target", () => this.show());
    listen("node", () => this.follow());
  }

  build() {
    const get = (/** @type {string} */ name) => (/** @type {number} */ row) => this.layers[name][row];
    const table = new Table("Layers", [
      { title: "Start", width: 100, value: get("start"), text: (row) => duration(get("start")(row)), number: true },
      { title: "Duration", width: 100, value: get("duration"), text: (row) => duration(get("duration")(row)), number: true },
      { title: "Unit", width: 80, value: get("engine") },
      { title: "Operations", width: 300, value: (row) => this.name(row), text: (row) => middle(this.name(row), 36) },
      { title: "Kind", width: 160, value: get("kind") },
      { title: "Layer", width: 190, value: get("layer"), text: (row) => middle(get("layer")(row), 22) },
      { title: "Program", width: 90, value: get("segment"), number: true },
      { title: "Limited by", width: 140, value: (row) => boundOf(get("bound")(row))[1] },
      { title: "Exactness", width: 110, value: get("exactness") },
    ], (row) => this.choose(row));
    this.legend = el("div");
    this.hint = el("p", { class: "hint", text: "This is the time of a direct dispatch of the whole model; the headline has that of Core ML." });
    this.chart = el("div", {},
      this.hint,
      el("div", { class: "tools" }, ...keyButtons(this.surface, [["+", "Zoom in", "+"], ["−", "Zoom out", "-"], ["Fit", "Show the whole time", "0"], ["◀", "Layer before", "ArrowLeft"], ["▶", "Next layer", "ArrowRight"]])),
      el("div", { class: "chart" }, this.surface.canvas, this.surface.tip),
      this.surface.status,
      this.legend,
      el("details", { class: "more" }, el("summary", { text: "Layers as a table" }), table.element));
    byId("timeline-body").append(this.chart);
    return table;
  }

  show() {
    this.layers = state.target.timeline;
    this.layer = null;
    showSection("timeline", this.layers.length > 0);
    this.hint.hidden = state.target.entry.path !== "coreml";
    this.surface.say("");
    this.arrange();
    this.legend.replaceChildren(...this.legends());
    this.table.show(this.layers.length);
    this.surface.redraw();
  }

  arrange() {
    const { start, duration: length, engine, segment } = this.layers;
    this.order = Array.from(start.keys());
    this.order.sort((one, other) => start[one] - start[other] || one - other);
    const others = [...new Set(engine)].filter((one) => !ENGINES.includes(one)).sort();
    this.lanes = [...ENGINES.filter((one) => engine.includes(one)), ...others].map((name) => this.lane(name));
    let end = 0;
    this.programs = [];
    for (const layer of this.order) {
      end = Math.max(end, start[layer] + length[layer]);
      const band = this.programs.at(-1);
      if (band && band.program === segment[layer]) band.end = end;
      else this.programs.push({ program: segment[layer], start: start[layer], end });
    }
    this.axis.reset(end);
    this.surface.canvas.style.height = `${LANE.head + this.lanes.length * (LANE.height + LANE.gap)}px`;
  }

  /**
   * Layers of one engine; those that overlap lie below each other.
   * @param {string} engine
   */
  lane(engine) {
    const layers = this.order.filter((layer) => this.layers.engine[layer] === engine);
    const depth = new Uint16Array(layers.length);
    const most = Math.floor(LANE.height / LANE.least);
    /** @type {number[]} */
    const ends = [];
    layers.forEach((layer, place) => {
      const start = this.layers.start[layer];
      // Times are rounded to a nanosecond, so neighbours may seem to overlap.
      let row = ends.findIndex((end) => end <= start + 0.002);
      if (row < 0) row = ends.length < most ? ends.length : most - 1;
      ends[row] = start + this.layers.duration[layer];
      depth[place] = row;
    });
    return { engine, layers, depth, rows: Math.max(1, ends.length) };
  }

  /** What the colours and the lanes mean, of those that are drawn. */
  legends() {
    const bounds = new Set(this.layers.bound);
    const known = BOUNDS.filter(([name]) => bounds.has(name)).map(([name, words, property]) => [property, `limited by ${words}`, term(name) || term(words)]);
    const other = [...bounds].filter((one) => !BOUNDS.some(([name]) => name === one)).map((one) => ["--heat-5", `limited by ${one}`]);
    const units = el("dl", { class: "units" });
    for (const { engine } of this.lanes) if (term(engine)) units.append(el("dt", { text: engine, title: term(engine) }), el("dd", { text: term(engine) }));
    return [legend([...known, ...other]), units];
  }

  /**
   * The user's names of what a layer carries out; the host's call carries out none.
   * @param {number} layer
   */
  name(layer) {
    const { nodes, engine, kind, segment } = this.layers;
    if (nodes[layer].length) return nodes[layer].map(nodeName).join(", ");
    return engine[layer] === "host" ? `call of program ${segment[layer] + 1}` : kind[layer];
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {number} height */
  draw(context, width, height) {
    this.axis.width = width - this.axis.left - 8;
    context.save();
    context.beginPath();
    context.rect(this.axis.left, 0, width, height);
    context.clip();
    context.textAlign = "left";
    context.textBaseline = "middle";
    this.drawBands(context, height);
    this.axis.draw(context, 0, height, duration);
    this.namePrograms(context);
    this.lanes.forEach((lane, number) => this.drawLane(context, lane, number));
    context.restore();
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.fillStyle = colour("--text");
    this.lanes.forEach((lane, number) => context.fillText(lane.engine, 10, this.laneTop(number) + LANE.height / 2));
    context.fillStyle = colour("--quiet");
    context.fillText("time", 10, 9);
  }

  /** @param {number} number */
  laneTop(number) {
    return LANE.head + number * (LANE.height + LANE.gap);
  }

  /** @param {CanvasRenderingContext2D} context @param {number} height */
  drawBands(context, height) {
    this.programs.forEach((band, number) => {
      const [from, to] = this.bandEdges(band);
      if (to - from < 0.5) return;
      context.fillStyle = colour(number % 2 ? "--raised" : "--card");
      context.fillRect(from, 20, to - from, height - 20);
    });
  }

  /** @param {CanvasRenderingContext2D} context */
  namePrograms(context) {
    this.programs.forEach((band, number) => {
      const [from, to] = this.bandEdges(band);
      if (to - from < 12) return;
      context.fillStyle = colour(number % 2 ? "--raised" : "--card");
      const words = fitted(context, `program ${band.program + 1}`, to - from - 8);
      context.fillRect(from + 2, 22, context.measureText(words).width + 4, 18);
      context.fillStyle = colour("--quiet");
      context.fillText(words, from + 4, 31);
    });
  }

  /** @param {{start: number, end: number}} band The part of it that is in sight, in pixels. */
  bandEdges(band) {
    const right = this.axis.left + this.axis.width;
    return [Math.max(this.axis.left, this.axis.x(band.start)), Math.min(right, this.axis.x(band.end))];
  }

  /** @param {CanvasRenderingContext2D} context @param {{layers: number[], depth: Uint16Array, rows: number}} lane @param {number} number */
  drawLane(context, lane, number) {
    const height = LANE.height / lane.rows;
    let drawn = -1;
    /** @type {Array<{name: string, left: number, right: number, top: number}>} */
    const runs = [];
    lane.layers.forEach((layer, place) => {
      const start = this.layers.start[layer];
      if (start > this.axis.to) return;
      const from = this.axis.x(start);
      const to = this.axis.x(start + this.layers.duration[layer]);
      if (to < this.axis.left || (lane.rows === 1 && to - drawn < 0.4 && layer !== this.layer)) return;
      drawn = to;
      const top = this.laneTop(number) + lane.depth[place] * height;
      this.drawLayer(context, layer, from, top, Math.max(1, to - from), height);
      const name = this.name(layer);
      const run = runs.at(-1);
      if (run?.name === name && run.top === top && from - run.right < 1.5) run.right = to;
      else runs.push({ name, left: from, right: to, top });
    });
    for (const run of runs) this.nameRun(context, run, height);
  }

  /** @param {CanvasRenderingContext2D} context @param {number} layer @param {number} left @param {number} top @param {number} width @param {number} height */
  drawLayer(context, layer, left, top, width, height) {
    context.fillStyle = colour(boundOf(this.layers.bound[layer])[2]);
    context.fillRect(left, top + 1, Math.max(1, width - (width > 3 ? 1 : 0)), height - 2);
    if (layer === this.layer) {
      context.strokeStyle = colour("--text");
      context.lineWidth = 3;
      context.strokeRect(left, top + 1.5, Math.max(3, width - 1), height - 3);
      context.lineWidth = 1;
    }
  }

  /**
   * Layers next to each other that carry out the same operations have its name once.
   * @param {CanvasRenderingContext2D} context
   * @param {{name: string, left: number, right: number, top: number}} run
   * @param {number} height
   */
  nameRun(context, { name, left, right, top }, height) {
    const shown = Math.max(left, this.axis.left) + 5;
    if (height >= 12) writeName(context, name, shown, top + height / 2, right - shown - 5);
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
    if (x < this.axis.left) return null;
    const number = Math.floor((y - LANE.head) / (LANE.height + LANE.gap));
    const lane = this.lanes[number];
    const within = y - this.laneTop(number);
    if (!lane || within > LANE.height) return null;
    const row = Math.floor((within / LANE.height) * lane.rows);
    const [from, to] = [this.axis.value(x - 2), this.axis.value(x + 2)];
    const place = lane.layers.findIndex((layer, one) => lane.depth[one] === row && this.layers.start[layer] <= to && this.layers.start[layer] + this.layers.duration[layer] >= from);
    return place < 0 ? null : lane.layers[place];
  }

  /** @param {number} layer */
  describe(layer) {
    const { kind, layer: name, engine, segment, start, duration: length, bound, exactness } = this.layers;
    return [
      this.name(layer),
      `${kind[layer]} ${name[layer]} on ${engine[layer]}, program ${segment[layer] + 1}`,
      `${duration(length[layer])} from ${duration(start[layer])}, limited by ${boundOf(bound[layer])[1]}`,
      exactness[layer],
    ].join("\n");
  }

  /** @param {number} layer */
  choose(layer) {
    this.point(layer);
    const node = this.layers.nodes[layer][0];
    if (node !== undefined) chooseNode(node);
  }

  /** @param {number} layer */
  point(layer) {
    this.layer = layer;
    this.axis.reveal(this.layers.start[layer], this.layers.start[layer] + this.layers.duration[layer]);
    this.surface.say(this.describe(layer).replaceAll("\n", "; "));
    this.surface.redraw();
  }

  follow() {
    const layers = state.node === null ? [] : (state.target.layersOf.get(state.node) ?? []);
    if (!layers.length || layers.includes(this.layer ?? -1)) return;
    this.point(layers[0]);
  }

  /** @param {string} key */
  key(key) {
    if (this.axis.key(key)) this.surface.redraw();
    else if (key === "ArrowRight" || key === "ArrowLeft") {
      const at = this.layer === null ? -1 : this.order.indexOf(this.layer);
      const to = this.order[key === "ArrowRight" ? at + 1 : at - 1];
      if (to !== undefined) this.point(to);
    } else if (key === "Enter" && this.layer !== null) this.choose(this.layer);
    else return false;
    return true;
  }
}

/** @param {string} bound What limits a layer: its name in the report, its words here, its colour. */
function boundOf(bound) {
  return BOUNDS.find(([name]) => name === bound) ?? [bound, bound, "--heat-5"];
}
