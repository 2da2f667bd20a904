// How the graph is drawn: edges first, then the nodes class by class, so that the worst lies on top.

class GraphDrawing {
  /**
   * @param {GraphView} view
   * @param {CanvasRenderingContext2D} context
   */
  constructor(view, context) {
    this.view = view;
    this.context = context;
    this.sight = view.rowsInSight();
  }

  /** @param {number} node */
  x(node) {
    return (this.view.layout.x[node] - this.view.left) * this.view.scale;
  }

  /** @param {number} node */
  y(node) {
    return (this.view.layout.y[node] - this.view.top) * this.view.scale;
  }

  draw() {
    this.edges();
    this.nodes();
    this.chosen();
  }

  edges() {
    const { context, view } = this;
    const { rows } = view.layout;
    context.strokeStyle = colour("--quiet");
    context.globalAlpha = view.scale < READABLE ? 0.35 : 0.6;
    context.lineWidth = view.scale < READABLE ? 0.6 : 1.1;
    context.beginPath();
    let drawn = -1; // rows of the column before reach into this one
    for (const [from, to] of this.sight) {
      for (let row = Math.max(drawn + 1, from); row <= Math.min(rows.length - 1, to + SHORT); row += 1) {
        for (const node of rows[row]) {
          for (const source of model.nodes.inputs[node]) if (view.span(source, node) <= SHORT) this.edge(source, node);
        }
        drawn = row;
      }
    }
    for (const [source, node] of view.longEdges) if (this.passes(source, node)) this.edge(source, node);
    context.stroke();
    context.globalAlpha = 1;
    context.lineWidth = 1;
  }

  /** @param {number} source @param {number} node Whether a long edge may be in sight. */
  passes(source, node) {
    const { width, height } = this.view.surface;
    const bend = BETWEEN * this.view.scale;
    const [x1, y1, x2, y2] = [this.x(source), this.y(source), this.x(node), this.y(node)];
    return Math.max(x1, x2) + bend > 0 && Math.min(x1, x2) < width && Math.max(y1, y2) > 0 && Math.min(y1, y2) < height;
  }

  /** @param {number} source @param {number} node */
  edge(source, node) {
    const { context, view } = this;
    const half = (NODE.height / 2) * view.scale;
    const [x1, y1, x2, y2] = [this.x(source), this.y(source) + half, this.x(node), this.y(node) - half];
    context.moveTo(x1, y1);
    const span = view.span(source, node);
    if (view.scale < 0.12) context.lineTo(x2, y2);
    else if (y2 <= y1) {
      // On to another column: up through the gap before it, each edge a little next to the others.
      const turn = NODE.down * 0.8 * view.scale;
      const between = (this.columnLeft(node) - BETWEEN * 0.3 - (source % 5) * 9 - view.left) * view.scale;
      context.bezierCurveTo(x1, y1 + turn, between, y1 + turn, between, y1 - turn);
      context.lineTo(between, y2 + turn);
      context.bezierCurveTo(between, y2 - turn, x2, y2 - turn, x2, y2);
    } else if (span <= 1) context.bezierCurveTo(x1, (y1 + y2) / 2, x2, (y1 + y2) / 2, x2, y2);
    else {
      // Around the nodes between: the further it goes, the wider it bends.
      const bend = Math.max(x1, x2) + (NODE.width * 0.62 + Math.min(span, 24) * 7) * view.scale;
      const turn = NODE.down * view.scale;
      context.bezierCurveTo(x1, y1 + turn, bend, y1, bend, y1 + turn * 1.6);
      context.lineTo(bend, y2 - turn * 1.6);
      context.bezierCurveTo(bend, y2, x2, y2 - turn, x2, y2);
    }
  }

  /** @param {number} node */
  columnLeft(node) {
    const { columns, rowOf } = this.view.layout;
    return columns[Math.floor(rowOf[node] / (columns[0].last + 1))].left;
  }

  nodes() {
    const { view } = this;
    /** @type {number[][]} */
    const classes = view.classes.map(() => []);
    const beside = NODE.width * view.scale;
    for (const [from, to] of this.sight) {
      for (const node of view.layout.rows.slice(from, to + 1).flat()) {
        if (this.x(node) > -beside && this.x(node) < view.surface.width + beside) classes[view.classOf[node]].push(node);
      }
    }
    const readable = view.scale >= READABLE;
    classes.forEach((nodes, place) => {
      const [property] = view.classes[place];
      for (const node of nodes) {
        if (readable) this.box(node, property);
        else this.dot(node, property);
      }
    });
  }

  /** @param {number} node @param {string} property */
  dot(node, property) {
    const { context, view } = this;
    const width = Math.max(2, NODE.width * view.scale);
    const height = Math.max(2, NODE.height * view.scale);
    context.fillStyle = colour(view.marked.has(node) ? "--accent" : property);
    context.fillRect(this.x(node) - width / 2, this.y(node) - height / 2, width, height);
  }

  /** @param {number} node @param {string} property */
  box(node, property) {
    const { context, view } = this;
    const [width, height] = [NODE.width * view.scale, NODE.height * view.scale];
    const [left, top] = [this.x(node) - width / 2, this.y(node) - height / 2];
    context.beginPath();
    context.roundRect(left, top, width, height, 5 * view.scale);
    context.fillStyle = colour("--card");
    context.fill();
    context.save();
    context.clip();
    context.fillStyle = colour(property);
    context.globalAlpha = 0.16;
    context.fillRect(left, top, width, height);
    context.globalAlpha = 1;
    context.fillRect(left, top, 6 * view.scale, height);
    context.restore();
    context.strokeStyle = colour(view.marked.has(node) ? "--accent" : property);
    context.lineWidth = view.marked.has(node) ? 2.5 : 1;
    context.stroke();
    context.lineWidth = 1;
    this.words(node, left + 12 * view.scale, this.y(node), width - 18 * view.scale);
  }

  /** @param {number} node @param {number} x @param {number} y @param {number} room */
  words(node, x, y, room) {
    const { context, view } = this;
    const size = Math.max(8, 12 * view.scale);
    const family = context.font.slice(context.font.indexOf("px ") + 3);
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillStyle = colour("--text");
    context.font = `600 ${size}px ${family}`;
    const mark = view.mode === "verdict" ? `${MARKS[state.target.verdicts[node]] ?? ""} ` : "";
    const findings = state.target.findingsOf.get(node)?.length ?? 0;
    context.fillText(fitted(context, `${mark}${model.nodes.op[node]}${findings ? ` (${findings})` : ""}`, room), x, y - 7.5 * view.scale);
    context.fillStyle = colour("--quiet");
    context.font = `${size * 0.86}px ${family}`;
    context.fillText(fitted(context, model.nodes.name[node], room, middle), x, y + 8 * view.scale);
  }

  chosen() {
    const { context, view } = this;
    if (state.node === null) return;
    const [width, height] = [Math.max(10, NODE.width * view.scale + 6), Math.max(10, NODE.height * view.scale + 6)];
    context.strokeStyle = colour("--accent");
    context.lineWidth = 3;
    context.beginPath();
    context.roundRect(this.x(state.node) - width / 2, this.y(state.node) - height / 2, width, height, 6);
    context.stroke();
    context.lineWidth = 1;
  }
}

/**
 * Draw the strip next to the graph: every row of it, its worst node's colour, and what is in sight.
 * @param {GraphView} view
 */
function drawOverview(view) {
  const canvas = view.overview;
  const scale = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(scale, 0, 0, scale, 0, 0);
  const { rows } = view.layout;
  const pitch = height / Math.max(1, rows.length);
  const worst = new Int8Array(Math.ceil(height)).fill(-1);
  rows.forEach((row, number) => {
    const [from, to] = [Math.floor(number * pitch), Math.max(Math.floor(number * pitch) + 1, Math.floor((number + 1) * pitch))];
    const most = row.reduce((one, node) => Math.max(one, view.classOf[node]), 0);
    for (let y = from; y < to && y < worst.length; y += 1) worst[y] = Math.max(worst[y], most);
  });
  worst.forEach((place, y) => {
    if (place < 0) return;
    context.fillStyle = colour(view.classes[place][0]);
    context.fillRect(4, y, width - 8, 1);
  });
  context.strokeStyle = colour("--text");
  context.lineWidth = 2;
  for (const [from, to] of view.rowsInSight()) context.strokeRect(1, from * pitch, width - 2, Math.max(6, (to - from + 1) * pitch));
}
