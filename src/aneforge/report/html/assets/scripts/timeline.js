// The predicted timeline: a lane for each engine, cuts between segments, and partitions as bands.

const ENGINES = ["NE", "PE", "DMA"]; // always shown; others where a layer runs on them
/** What limits a layer, and its colour. */
const BOUNDS = [["compute", "--series-0"], ["weights", "--series-1"], ["activations", "--series-2"], ["elements", "--series-3"], ["host", "--series-7"]];
const LANE = { head: 44, height: 46, gap: 6, least: 8 };

class TimelineView {
  constructor() {
    this.axis = new Axis(56);
    this.layers = /** @type {any} */ (null);
    this.lanes = /** @type {Array<{engine: string, layers: number[], depth: Uint16Array, rows: number}>} */ ([]);
    this.bands = /** @type {Array<{partition: number, start: number, end: number}>} */ ([]);
    this.cuts = /** @type {Array<{segment: number, start: number}>} */ ([]);
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
      { title: "Engine", width: 90, value: get("engine") },
      { title: "Kind", width: 150, value: get("kind") },
      { title: "Layer", width: 210, value: get("layer") },
      { title: "Segment", width: 90, value: get("segment"), number: true },
      { title: "Partition", width: 95, value: get("partition"), number: true },
      { title: "Limited by", width: 130, value: get("bound") },
      { title: "Exactness", width: 110, value: get("exactness") },
      { title: "Operations", width: 220, value: (row) => get("nodes")(row).map(nodeName).join(", ") },
    ], (row) => this.choose(row));
    this.none = el("p", { class: "quiet" });
    this.chart = el("div", {},
      el("div", { class: "tools" }, ...keyButtons(this.surface, [["+", "Zoom in", "+"], ["−", "Zoom out", "-"], ["Fit", "Show the whole time", "0"], ["◀", "Layer before", "ArrowLeft"], ["▶", "Next layer", "ArrowRight"]])),
      el("div", { class: "chart" }, this.surface.canvas, this.surface.tip),
      this.surface.status,
      legend([...BOUNDS.map(([name, property]) => /** @type {[string, string]} */ ([property, `limited by ${name}`])), ["--series-8", "by something else"], ["--reject", "segment cut"]]),
      el("details", { class: "more" }, el("summary", { text: "Layers as a table" }), table.element));
    byId("timeline-body").append(this.none, this.chart);
    return table;
  }

  show() {
    this.layers = state.target.timeline;
    this.layer = null;
    this.none.hidden = this.layers.length > 0;
    this.chart.hidden = !this.layers.length;
    this.none.textContent = state.target.entry.failure === null ? "The program has no layers." : `There is no compiled program: ${state.target.entry.failure}`;
    this.surface.say("");
    this.arrange();
    this.table.show(this.layers.length);
    this.surface.redraw();
  }

  arrange() {
    const { start, duration: length, engine, segment, partition } = this.layers;
    this.order = Array.from(start.keys());
    this.order.sort((one, other) => start[one] - start[other] || one - other);
    const others = [...new Set(engine)].filter((one) => !ENGINES.includes(one)).sort();
    this.lanes = [...ENGINES, ...others].map((name) => this.lane(name));
    let end = 0;
    this.bands = [];
    this.cuts = [];
    for (const layer of this.order) {
      end = Math.max(end, start[layer] + length[layer]);
      const band = this.bands.at(-1);
      if (band && band.partition === partition[layer]) band.end = end;
      else this.bands.push({ partition: partition[layer], start: start[layer], end });
      if (this.cuts.at(-1)?.segment !== segment[layer]) this.cuts.push({ segment: segment[layer], start: start[layer] });
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

  /** @param {number} layer */
  colourOf(layer) {
    const bound = this.layers.bound[layer];
    return BOUNDS.find(([name]) => name === bound)?.[1] ?? "--series-8";
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
    this.nameBands(context);
    this.lanes.forEach((lane, number) => this.drawLane(context, lane, number));
    this.drawCuts(context, height);
    context.restore();
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.fillStyle = colour("--text");
    this.lanes.forEach((lane, number) => context.fillText(lane.engine, 10, this.laneTop(number) + LANE.height / 2));
    context.fillStyle = colour("--quiet");
    context.fillText("time", 10, 9);
    context.fillText("part", 10, 31);
  }

  /** @param {number} number */
  laneTop(number) {
    return LANE.head + number * (LANE.height + LANE.gap);
  }

  /** @param {CanvasRenderingContext2D} context @param {number} height */
  drawBands(context, height) {
    this.bands.forEach((band, number) => {
      const [from, to] = this.bandEdges(band);
      if (to - from < 0.5) return;
      context.fillStyle = colour(number % 2 ? "--raised" : "--card");
      context.fillRect(from, 20, to - from, height - 20);
    });
  }

  /** @param {CanvasRenderingContext2D} context */
  nameBands(context) {
    this.bands.forEach((band, number) => {
      const [from, to] = this.bandEdges(band);
      if (to - from < 12) return;
      context.fillStyle = colour(number % 2 ? "--raised" : "--card");
      const words = fitted(context, `partition ${band.partition}`, to - from - 8);
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
    lane.layers.forEach((layer, place) => {
      const start = this.layers.start[layer];
      if (start > this.axis.to) return;
      const from = this.axis.x(start);
      const to = this.axis.x(start + this.layers.duration[layer]);
      if (to < this.axis.left || (lane.rows === 1 && to - drawn < 0.4 && layer !== this.layer)) return;
      drawn = to;
      this.drawLayer(context, layer, from, this.laneTop(number) + lane.depth[place] * height, Math.max(1, to - from), height);
    });
  }

  /** @param {CanvasRenderingContext2D} context @param {number} layer @param {number} left @param {number} top @param {number} width @param {number} height */
  drawLayer(context, layer, left, top, width, height) {
    context.fillStyle = colour(this.colourOf(layer));
    context.fillRect(left, top + 1, Math.max(1, width - (width > 3 ? 1 : 0)), height - 2);
    if (layer === this.layer) {
      context.strokeStyle = colour("--text");
      context.lineWidth = 3;
      context.strokeRect(left, top + 1.5, Math.max(3, width - 1), height - 3);
      context.lineWidth = 1;
    }
    if (width < 34 || height < 12) return;
    context.fillStyle = colour("--card");
    const shown = Math.max(left, this.axis.left) + 5;
    context.fillText(fitted(context, this.layers.kind[layer], left + width - shown - 6), shown, top + height / 2);
  }

  /** @param {CanvasRenderingContext2D} context @param {number} height */
  drawCuts(context, height) {
    context.strokeStyle = colour("--reject");
    context.setLineDash([5, 4]);
    let labelled = -Infinity;
    for (const cut of this.cuts.slice(1)) {
      const x = Math.round(this.axis.x(cut.start)) + 0.5;
      if (x < this.axis.left || x > this.axis.left + this.axis.width) continue;
      context.beginPath();
      context.moveTo(x, 20);
      context.lineTo(x, height);
      context.stroke();
      const words = `segment ${cut.segment}`;
      if (x - labelled < 76) continue;
      labelled = x;
      context.fillStyle = colour("--card");
      context.fillRect(x + 1, height - 17, context.measureText(words).width + 8, 15);
      context.fillStyle = colour("--reject-text");
      context.fillText(words, x + 4, height - 9);
    }
    context.setLineDash([]);
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
    const { kind, layer: name, engine, segment, partition, start, duration: length, bound, exactness, nodes } = this.layers;
    return [
      `${kind[layer]} ${name[layer]}`,
      `${engine[layer]}, segment ${segment[layer]}, partition ${partition[layer]}`,
      `${duration(length[layer])} from ${duration(start[layer])}, limited by ${bound[layer]}`,
      `${exactness[layer]}; ${nodes[layer].map(nodeName).join(", ") || "no operation of the model"}`,
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
