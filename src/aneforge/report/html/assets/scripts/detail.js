// The panel next to the page: one operation with its findings, layers, neighbours and verdicts on every chip.

let detailReturn = /** @type {HTMLElement | null} */ (null);

function buildDetail() {
  const panel = byId("detail");
  byId("detail-close").addEventListener("click", closeDetail);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !panel.hidden) closeDetail();
  });
  listen("node", () => {
    if (state.node === null && state.finding === null) panel.hidden = true;
    else if (!panel.hidden) fillDetail();
    else if (!state.walking) openDetail();
  });
  listen("target", () => {
    if (!panel.hidden && state.node !== null) fillDetail();
    else panel.hidden = true;
  });
}

function openDetail() {
  const panel = byId("detail");
  if (panel.hidden) detailReturn = /** @type {HTMLElement} */ (document.activeElement);
  panel.hidden = false;
  fillDetail();
  panel.focus({ preventScroll: true });
}

function closeDetail() {
  byId("detail").hidden = true;
  if (detailReturn?.isConnected) detailReturn.focus({ preventScroll: true });
}

function fillDetail() {
  const { node, finding, target } = state;
  byId("detail-title").textContent = nodeName(node);
  const parts = [];
  if (node !== null) parts.push(nodeFacts(node));
  const numbers = node !== null ? (target.findingsOf.get(node) ?? []) : finding !== null ? [finding] : [];
  parts.push(el("h3", { text: numbers.length ? `${counted(numbers.length, "finding")} on ${target.entry.chip}` : `No findings on ${target.entry.chip}` }));
  for (const number of numbers) parts.push(findingCard(number, number === finding));
  if (node !== null) parts.push(...nodeLinks(node));
  byId("detail-body").replaceChildren(...parts);
  byId("detail-body").querySelector(".chosen")?.scrollIntoView({ block: "nearest" });
  if (node !== null) void fillVerdicts(node);
}

/** @param {number} node */
function nodeFacts(node) {
  const { op, dtype, shape, place } = model.nodes;
  const { target } = state;
  const layers = target.layersOf.get(node) ?? [];
  return facts([
    ["operation", op[node]],
    ["number", count(node)],
    ["type", `${dtype[node]}, ${shapeText(shape[node])}`],
    ["place", placeText(place[node])],
    ["verdict", badge(target.verdicts[node])],
    ["predicted time", layers.length ? duration(target.timeOf[node]) : ""],
    ["layers", layers.map((/** @type {number} */ one) => `${target.timeline.kind[one]} ${target.timeline.layer[one]} (${target.timeline.engine[one]})`).join(", ")],
    ["divergence", state.pair ? `${STRENGTHS[state.pair.strengthOf[node]]} between ${state.pair.entry.firstChip} and ${state.pair.entry.secondChip}` : ""],
  ]);
}

/**
 * @param {number} number
 * @param {boolean} chosen
 */
function findingCard(number, chosen) {
  const findings = state.target.findings;
  const get = (/** @type {string} */ name) => findings[name][number];
  const evidence = get("evidence");
  const card = el("article", { class: chosen ? "finding chosen" : "finding", "data-severity": get("severity") },
    badge(get("severity")), " ", el("span", { class: "mono", text: get("rule") }),
    el("p", { text: inShopWords(get("message")) }),
    facts([
      ["seen", bothNumbers(get("seen"), get("limit")) ? quantity(get("seen")) : ""],
      ["limit", bothNumbers(get("seen"), get("limit")) ? quantity(get("limit")) : ""],
      ["remedy", get("remedy")],
      ["place", placeText(get("place"))],
      ["evidence", evidence === null ? "the limit is unknown" : [evidence.kind, evidence.on.length ? `on ${evidence.on.join(", ")}` : "", evidence.source, evidence.note].filter(Boolean).join("; ")],
    ]));
  for (const thread of get("threads")) card.append(el("p", {}, threadLink(thread)));
  return card;
}

/** @param {string} thread Only an address of the web becomes a link. */
function threadLink(thread) {
  if (!/^https?:\/\//.test(thread)) return thread;
  return el("a", { href: thread, rel: "noopener noreferrer", target: "_blank", text: thread });
}

const LINKS_SHOWN = 40;

/** @param {number} node */
function nodeLinks(node) {
  const parts = [];
  for (const [title, nodes] of /** @type {Array<[string, number[]]>} */ ([["Reads", model.nodes.inputs[node]], ["Is read by", model.consumers[node]]])) {
    if (!nodes.length) continue;
    const links = nodes.slice(0, LINKS_SHOWN).map((one) =>
      el("button", { type: "button", text: `${model.nodes.op[one]} ${model.nodes.name[one]}`, onclick: () => chooseNode(one) }));
    const more = nodes.length - links.length;
    parts.push(el("h3", { text: title }), el("div", { class: "links" }, ...links, more > 0 ? `and ${count(more)} more` : null));
  }
  const tasks = state.target.tasksOf.get(node) ?? [];
  if (tasks.length) {
    const { task, computes } = state.target.emission.tasks;
    const texts = tasks.slice(0, LINKS_SHOWN).map((one) => el("li", { text: `task ${task[one]}: ${computes[one]}` }));
    parts.push(el("h3", { text: counted(tasks.length, "task") }), el("ul", { class: "notes" }, ...texts));
    parts.push(el("p", {}, el("button", { type: "button", text: "Show the tasks", onclick: () => { byId("detail").hidden = true; showTasksOf(node); } })));
  }
  parts.push(el("h3", { text: "On every chip" }), el("div", { id: "detail-verdicts" }));
  parts.push(el("p", {}, el("button", { type: "button", text: "Show in the graph", onclick: showInGraph })));
  return parts;
}

function showInGraph() {
  byId("graph").scrollIntoView();
  byId("detail").hidden = true;
  document.querySelector(/** @type {"canvas"} */ ("#graph-body canvas"))?.focus({ preventScroll: true });
}

/** @param {number} node Unpacks the verdicts of every chip, which is little: chips mostly share them. */
async function fillVerdicts(node) {
  const lists = await Promise.all(model.index.targets.map((/** @type {any} */ one) => block(one.verdicts)));
  const place = byId("detail-verdicts");
  if (place === null || state.node !== node) return;
  const verdicts = lists.map((list) => (Array.isArray(list) ? list[node] : list.values[list.places[node]]));
  place.replaceChildren(facts(VERDICTS.filter((verdict) => verdicts.includes(verdict)).map((verdict) => [
    verdict, model.index.targets.filter((/** @type {any} */ _, /** @type {number} */ number) => verdicts[number] === verdict).map((/** @type {any} */ one) => one.chip).join(", "),
  ])));
}
