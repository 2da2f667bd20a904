// What is chosen now, and who wants to know.

/** Names: "target" and "pair" (a new one is loaded), "node" (an operation is chosen or none), "theme". */
const state = {
  target: /** @type {any} */ (null),
  pair: /** @type {any} */ (null),
  node: /** @type {number | null} */ (null),
  finding: /** @type {number | null} */ (null),
  walking: false, // the choice came from the keys of a drawing, which keep the focus
};

/** @type {Map<string, Array<() => void>>} */
const listeners = new Map();

/**
 * @param {string} name
 * @param {() => void} action
 */
function listen(name, action) {
  listeners.set(name, [...(listeners.get(name) ?? []), action]);
}

/** @param {string} name */
function tell(name) {
  for (const action of listeners.get(name) ?? []) action();
}

/**
 * Show a section and its place in the list of sections, or neither: what a chip has nothing for takes no room.
 * @param {string} name
 * @param {boolean} shown
 */
function showSection(name, shown) {
  byId(name).hidden = !shown;
  const link = /** @type {HTMLElement | null} */ (document.querySelector(`.top nav a[href="#${name}"]`));
  if (link) link.hidden = !shown;
}

let targetAsked = 0;

/** @param {number} number */
async function chooseTarget(number) {
  targetAsked += 1;
  const asked = targetAsked;
  const loaded = await loadTarget(number);
  if (asked !== targetAsked) return; // another was chosen while this one was unpacked
  state.target = loaded;
  state.finding = null;
  byId("target").value = String(number);
  for (const place of document.querySelectorAll(".on-target")) place.textContent = `on ${chipTitle(loaded.entry)}`;
  tell("target");
}

let pairAsked = 0;

/** @param {number} number */
async function choosePair(number) {
  pairAsked += 1;
  const asked = pairAsked;
  const loaded = await loadDivergence(number);
  if (asked !== pairAsked) return;
  state.pair = loaded;
  tell("pair");
}

/**
 * Choose an operation, or one of its findings.
 * @param {number | null} node
 * @param {number | null} [finding]
 */
function chooseNode(node, finding = null) {
  state.node = node;
  state.finding = finding;
  tell("node");
}
