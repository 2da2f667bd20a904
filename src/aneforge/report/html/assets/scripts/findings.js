// Findings of the chosen chip, worst first: those of one rule together with what to do about them, and all as a table.

const GROUPS_SHOWN = 40;
const NAMES_SHOWN = 8;

function buildFindings() {
  const get = (/** @type {string} */ name) => (/** @type {number} */ row) => state.target.findings[name][row];
  const table = new Table("Findings", [
    { title: "Severity", width: 130, value: (row) => SEVERITIES.indexOf(get("severity")(row)), text: get("severity"), cell: (row) => badge(get("severity")(row)), facets: SEVERITIES },
    { title: "Rule", width: 150, value: get("rule") },
    { title: "Operation", width: 120, value: get("op") },
    { title: "Name", width: 170, value: (row) => nodeName(get("node")(row)), text: (row) => middle(nodeName(get("node")(row)), 19) },
    { title: "Place", width: 150, value: (row) => placeText(get("place")(row)), text: (row) => middle(placeShort(get("place")(row)), 16) },
    { title: "Seen", width: 90, value: (row) => measure(get("seen")(row)), text: (row) => quantity(get("seen")(row)), number: true },
    { title: "Limit", width: 90, value: (row) => measure(get("limit")(row)), text: (row) => quantity(get("limit")(row)), number: true },
    { title: "Evidence", width: 100, value: (row) => get("evidence")(row)?.kind ?? "unknown", facets: ["measured", "decoded", "inferred", "unknown"] },
    { title: "Message", width: 360, prose: true, value: (row) => inShopWords(get("message")(row)) },
  ], (row) => chooseNode(get("node")(row), row), { empty: "No findings for this chip." });
  const groups = el("div", { class: "groups" });
  const all = el("details", { class: "more" }, el("summary", { text: "All findings as a table" }), table.element);
  byId("findings-body").append(groups, all);
  listen("target", () => {
    const found = state.target.groups;
    const cards = found.slice(0, GROUPS_SHOWN).map(groupCard);
    groups.replaceChildren(...cards);
    if (!found.length) groups.append(el("p", { class: "quiet", text: "No findings for this chip." }));
    if (found.length > cards.length) groups.append(el("p", { class: "quiet", text: `${counted(found.length - cards.length, "more kind")} in the table below.` }));
    all.hidden = !found.length;
    table.show(state.target.findings.length);
  });
}

/** @param {{numbers: number[], share: number | null}} together Findings of one kind, the worst first. */
function groupCard({ numbers: group, share }) {
  const findings = state.target.findings;
  const [first] = group;
  return el("article", { class: "finding group", "data-severity": findings.severity[first] },
    el("div", { class: "group-head" },
      badge(findings.severity[first]),
      el("b", { text: group.length === 1 ? findings.op[first] : `${[...new Set(group.map((one) => findings.op[one]))].slice(0, 3).join(", ")} × ${count(group.length)}` }),
      el("span", { class: "quiet mono", text: findings.rule[first] }),
      share === null ? null : el("span", { class: "share", text: `${percent(share)} of the time` })),
    el("p", { text: inShopWords(findings.message[first]) }),
    bothNumbers(findings.seen[first], findings.limit[first]) ? el("p", { class: "quiet", text: `got ${quantity(findings.seen[first])}, limit ${quantity(findings.limit[first])}` }) : null,
    findings.remedy[first] ? el("p", { class: "remedy" }, el("b", { text: "Remedy: " }), findings.remedy[first]) : null,
    groupLinks(group));
}

/** @param {any} seen @param {any} limit */
function bothNumbers(seen, limit) {
  return typeof measure(seen) === "number" && typeof measure(limit) === "number";
}

/** @param {number[]} group */
function groupLinks(group) {
  const { node } = state.target.findings;
  const links = group.slice(0, NAMES_SHOWN).map((one) =>
    el("button", { type: "button", class: "name", title: nodeName(node[one]), text: middle(nodeName(node[one]), 60), onclick: () => chooseNode(node[one], one) }));
  const more = group.length - links.length;
  return el("div", { class: "links" }, ...links, more > 0 ? el("span", { class: "quiet", text: `and ${count(more)} more` }) : null);
}

/** @param {string} text Of the chosen chip, which is called as shops call it, not as the compiler does. */
function inShopWords(text) {
  const { target, short } = state.target.entry;
  return text.replace(new RegExp(`\\b${target.replace(/[^\w-]/g, "\\$&")}\\b`, "g"), () => short);
}

/** @param {number | null} node */
function nodeName(node) {
  return node === null ? "whole model" : model.nodes.name[node] || `unnamed, number ${node}`;
}
