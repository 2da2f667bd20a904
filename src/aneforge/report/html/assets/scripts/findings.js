// Findings of the chosen chip, worst first.

function buildFindings() {
  const get = (/** @type {string} */ name) => (/** @type {number} */ row) => state.target.findings[name][row];
  const table = new Table("Findings", [
    { title: "Severity", width: 135, value: (row) => SEVERITIES.indexOf(get("severity")(row)), text: get("severity"), cell: (row) => badge(get("severity")(row)), facets: SEVERITIES },
    { title: "Rule", width: 140, value: get("rule") },
    { title: "Operation", width: 120, value: get("op") },
    { title: "Name", width: 160, value: (row) => nodeName(get("node")(row)), text: (row) => tail(nodeName(get("node")(row)), 16) },
    { title: "Place", width: 150, value: (row) => placeText(get("place")(row)), text: (row) => tail(placeShort(get("place")(row)), 15) },
    { title: "Seen", width: 100, value: (row) => measure(get("seen")(row)), text: (row) => quantity(get("seen")(row)), number: true },
    { title: "Limit", width: 100, value: (row) => measure(get("limit")(row)), text: (row) => quantity(get("limit")(row)), number: true },
    { title: "Evidence", width: 110, value: (row) => get("evidence")(row)?.kind ?? "unknown", facets: ["measured", "decoded", "inferred", "unknown"] },
    { title: "Message", width: 420, value: get("message") },
  ], (row) => chooseNode(get("node")(row), row), { empty: "No findings for this chip." });
  byId("findings-body").append(table.element);
  listen("target", () => table.show(state.target.findings.length));
}

/** @param {number | null} node */
function nodeName(node) {
  return node === null ? "whole model" : model.nodes.name[node] || `unnamed, number ${node}`;
}
