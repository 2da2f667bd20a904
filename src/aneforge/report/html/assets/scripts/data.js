// Data: blocks of gzip-compressed JSON in base64, unpacked when they are asked for and then kept.

/** @type {Map<number, Promise<any>>} */
const unpackedBlocks = new Map();

/** @param {number} number */
function block(number) {
  let content = unpackedBlocks.get(number);
  if (content === undefined) {
    content = unpack(byId(`block-${number}`).textContent);
    unpackedBlocks.set(number, content);
  }
  return content;
}

/** @param {string} text */
async function unpack(text) {
  const characters = atob(text);
  const content = new Uint8Array(characters.length);
  for (let place = 0; place < content.length; place += 1) content[place] = characters.charCodeAt(place);
  const stream = new Blob([content]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/**
 * Return a column with every value in its place.
 * @param {any} packed A list, or the values and their places.
 * @returns {any[]}
 */
function column(packed) {
  if (Array.isArray(packed)) return packed;
  const { values, places } = packed;
  return places.map((/** @type {number} */ place) => values[place]);
}

/**
 * Return all columns of a table, and how many rows it has.
 * @param {Record<string, any>} packed
 * @returns {any}
 */
function columnsOf(packed) {
  /** @type {Record<string, any>} */
  const made = {};
  for (const [name, values] of Object.entries(packed)) made[name] = column(values);
  made.length = Object.values(made)[0].length;
  return made;
}

/** The model: index, nodes, and for every node its consumers. */
const model = { index: /** @type {any} */ (null), nodes: /** @type {any} */ (null), consumers: /** @type {number[][]} */ ([]) };

async function loadModel() {
  model.index = await block(0);
  model.nodes = columnsOf(await block(model.index.nodes));
  model.consumers = Array.from({ length: model.nodes.length }, () => []);
  model.nodes.inputs.forEach((/** @type {number[]} */ inputs, /** @type {number} */ node) => {
    for (const input of inputs) model.consumers[input].push(node);
  });
}

/** @type {Map<number, Promise<any>>} */
const loadedTargets = new Map();

/** @param {number} number */
function loadTarget(number) {
  let loaded = loadedTargets.get(number);
  if (loaded === undefined) {
    loaded = readTarget(model.index.targets[number]);
    loadedTargets.set(number, loaded);
  }
  return loaded;
}

/** @param {any} entry */
async function readTarget(entry) {
  const [verdicts, findings, groups, timeline, memory, tasks, remarks] = await Promise.all(
    [entry.verdicts, entry.findings, entry.groups, entry.timeline, entry.memory, entry.tasks, entry.remarks].map(block),
  );
  const target = {
    entry,
    verdicts: column(verdicts),
    findings: columnsOf(findings),
    groups,
    timeline: columnsOf(timeline),
    memory: memory && { steps: columnsOf(memory.steps), allocations: columnsOf(memory.allocations) },
    emission: tasks && { ...tasks, tasks: columnsOf(tasks.tasks), refused: columnsOf(tasks.refused) },
    tasksOf: /** @type {Map<number, number[]>} */ (new Map()),
    notes: column(remarks.notes),
    placement: remarks.placement,
    findingsOf: /** @type {Map<number, number[]>} */ (new Map()),
    layerNamed: /** @type {Map<string, number>} */ (new Map()),
    layersOf: /** @type {Map<number, number[]>} */ (new Map()),
    timeOf: new Float64Array(model.nodes.length),
  };
  target.findings.node.forEach((/** @type {number | null} */ node, /** @type {number} */ number) => {
    if (node !== null) listUnder(target.findingsOf, node).push(number);
  });
  target.timeline.layer.forEach((/** @type {string} */ name, /** @type {number} */ layer) => target.layerNamed.set(name, layer));
  target.timeline.nodes.forEach((/** @type {number[]} */ nodes, /** @type {number} */ layer) => {
    for (const node of nodes) {
      listUnder(target.layersOf, node).push(layer);
      // A layer that carries out several operations has one time; each gets an equal share.
      target.timeOf[node] += target.timeline.duration[layer] / nodes.length;
    }
  });
  target.emission?.tasks.nodes.forEach((/** @type {number[]} */ nodes, /** @type {number} */ task) => {
    for (const node of nodes) listUnder(target.tasksOf, node).push(task);
  });
  return target;
}

/**
 * @template T
 * @param {Map<number, T[]>} lists
 * @param {number} key
 * @returns {T[]}
 */
function listUnder(lists, key) {
  const list = lists.get(key) ?? [];
  lists.set(key, list);
  return list;
}

/** @type {Map<number, Promise<any>>} */
const loadedDivergences = new Map();

/** @param {number} number */
function loadDivergence(number) {
  let loaded = loadedDivergences.get(number);
  if (loaded === undefined) {
    loaded = readDivergence(model.index.divergences[number]);
    loadedDivergences.set(number, loaded);
  }
  return loaded;
}

/** @param {any} entry */
async function readDivergence(entry) {
  const differences = columnsOf(await block(entry.differences));
  // Place of the strongest difference of each node in STRENGTHS; the last one is "none".
  const strengthOf = new Uint8Array(model.nodes.length).fill(STRENGTHS.length - 1);
  differences.node.forEach((/** @type {number | null} */ node, /** @type {number} */ number) => {
    if (node === null) return;
    const strength = STRENGTHS.indexOf(differences.strength[number]);
    if (strength >= 0) strengthOf[node] = Math.min(strengthOf[node], strength);
  });
  return { entry, differences, strengthOf };
}
