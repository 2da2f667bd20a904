// Places for the operations of the graph: rows from inputs to outputs, and in each row near what an operation reads. A
// deep graph goes on in further columns, as a newspaper does; otherwise the whole of it would be a line.

const NODE = { width: 150, height: 36, across: 22, down: 34 };
const ROW_ROOM = 40; // operations in a row; a wider rank goes on in further rows
const SWEEPS = 3;
const PITCH = NODE.height + NODE.down;
const FOLDED = 24; // rows; a graph with no more stays in one column
const ASPECT = 2.2; // of width to height, for which columns are made
const BETWEEN = 240; // pixels between columns, in which long edges bend

/**
 * Return the centre of every node, the nodes of every row, and the columns. It takes time in proportion to nodes and edges, times
 * the logarithm of the widest row.
 * @param {number[][]} inputs Nodes that each node reads; they come before it.
 * @param {number[][]} consumers
 */
function layOut(inputs, consumers) {
  const length = inputs.length;
  const x = new Float64Array(length);
  const y = new Float64Array(length);
  const rowOf = new Uint32Array(length);
  const rows = cutRows(ranks(inputs, consumers));
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const down = sweep % 2 === 0;
    const near = down ? inputs : consumers;
    for (const row of down ? rows : [...rows].reverse()) settle(row, near, x);
  }
  const columns = fold(rows, x);
  for (const { first, last } of columns) {
    for (let row = first; row <= last; row += 1) {
      for (const node of rows[row]) {
        rowOf[node] = row;
        y[node] = (row - first) * PITCH;
      }
    }
  }
  return { x, y, rows, rowOf, columns };
}

/**
 * Cut the rows into columns and move the nodes of each column to the right of the one before.
 * @param {number[][]} rows
 * @param {Float64Array} x
 */
function fold(rows, x) {
  const widest = rows.reduce((most, row) => Math.max(most, row.length), 1) * (NODE.width + NODE.across);
  const count = rows.length <= FOLDED ? 1 : Math.max(1, Math.round(Math.sqrt((ASPECT * rows.length * PITCH) / (widest + BETWEEN))));
  const each = Math.max(1, Math.ceil(rows.length / count));
  /** @type {Array<{first: number, last: number, left: number, right: number}>} */
  const columns = [];
  let left = 0;
  for (let first = 0; first < rows.length; first += each) {
    const last = Math.min(rows.length, first + each) - 1;
    const nodes = rows.slice(first, last + 1).flat();
    const least = nodes.reduce((one, node) => Math.min(one, x[node]), Infinity) - NODE.width / 2;
    const most = nodes.reduce((one, node) => Math.max(one, x[node]), -Infinity) + NODE.width / 2;
    for (const node of nodes) x[node] += left - least;
    columns.push({ first, last, left, right: left + most - least });
    left += most - least + BETWEEN;
  }
  return columns;
}

/**
 * Return the nodes of every rank: one more than the highest rank that a node reads; what reads nothing stands right
 * above its first reader.
 * @param {number[][]} inputs
 * @param {number[][]} consumers
 */
function ranks(inputs, consumers) {
  const rank = new Uint32Array(inputs.length);
  inputs.forEach((sources, node) => {
    for (const source of sources) rank[node] = Math.max(rank[node], rank[source] + 1);
  });
  inputs.forEach((sources, node) => {
    if (sources.length || !consumers[node].length) return;
    rank[node] = consumers[node].reduce((least, reader) => Math.min(least, rank[reader]), Infinity) - 1;
  });
  /** @type {number[][]} */
  const found = [];
  rank.forEach((number, node) => (found[number] ??= []).push(node));
  return found.filter(Boolean);
}

/** @param {number[][]} wide */
function cutRows(wide) {
  /** @type {number[][]} */
  const rows = [];
  for (const rank of wide) {
    for (let start = 0; start < rank.length; start += ROW_ROOM) rows.push(rank.slice(start, start + ROW_ROOM));
  }
  return rows;
}

/**
 * Put the nodes of a row near the middle of their neighbours, without overlap.
 * @param {number[]} row Is put in order from left to right.
 * @param {number[][]} near
 * @param {Float64Array} x
 */
function settle(row, near, x) {
  const pitch = NODE.width + NODE.across;
  const wanted = new Map(row.map((node) => [node, near[node].length ? mean(near[node], x) : x[node]]));
  const want = (/** @type {number} */ node) => wanted.get(node) ?? 0;
  row.sort((one, other) => want(one) - want(other) || one - other);
  let least = -Infinity;
  for (const node of row) {
    x[node] = Math.max(want(node), least);
    least = x[node] + pitch;
  }
  const shift = row.reduce((sum, node) => sum + x[node] - want(node), 0) / row.length;
  for (const node of row) x[node] -= shift;
}

/**
 * @param {number[]} nodes
 * @param {Float64Array} x
 */
function mean(nodes, x) {
  return nodes.reduce((sum, node) => sum + x[node], 0) / nodes.length;
}
