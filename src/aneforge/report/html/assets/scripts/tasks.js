// The tasks that an engine would read, next to the layers and operations that they compute; what has none, and why.

/** Shows the first task of an operation; set when the section is built. */
let showTasksOf = (/** @type {number} */ _node) => {};

function buildTasks() {
  const get = (/** @type {string} */ name) => (/** @type {number} */ row) => state.target.emission.tasks[name][row];
  const lost = (/** @type {string} */ name) => (/** @type {number} */ row) => state.target.emission.refused[name][row];
  const names = (/** @type {number[]} */ nodes) => nodes.map(nodeName).join(", ");
  const table = new Table("Tasks", [
    { title: "File", width: 55, value: get("file"), number: true },
    { title: "Task", width: 60, value: get("task"), number: true },
    { title: "Layer", width: 130, value: get("layer"), text: (row) => middle(get("layer")(row), 14) },
    { title: "Operations", width: 180, value: (row) => names(get("nodes")(row)), text: (row) => middle(names(get("nodes")(row)), 19) },
    { title: "Unit", width: 65, value: get("engine"), facets: ["NE", "PE"] },
    { title: "Computes", width: 300, prose: true, value: get("computes") },
    { title: "Registers", width: 420, prose: true, value: get("registers") },
  ], (row) => choose(get("nodes")(row)), { empty: "No task of this program is known." });
  const refused = new Table("Layers without a known program", [
    { title: "Layer", width: 130, value: lost("layer"), text: (row) => middle(lost("layer")(row), 14) },
    { title: "Kind", width: 150, value: lost("kind") },
    { title: "Operations", width: 200, value: (row) => names(lost("nodes")(row)), text: (row) => middle(names(lost("nodes")(row)), 21) },
    { title: "Rule", width: 140, value: lost("rule") },
    { title: "Why", width: 420, prose: true, value: lost("reason") },
  ], (row) => choose(lost("nodes")(row)));
  const summary = el("p", { class: "quiet" });
  const without = el("div", {}, el("h3", { text: "Layers without a known program" }), refused.element);
  byId("tasks-body").append(summary, table.element, without);
  listen("target", () => {
    const { emission } = state.target;
    showSection("tasks", Boolean(emission));
    summary.textContent = tasksSummary(emission);
    table.element.hidden = !emission?.tasks.length;
    without.hidden = !emission?.refused.length;
    table.show(emission?.tasks.length ?? 0);
    refused.show(emission?.refused.length ?? 0);
  });
  showTasksOf = (node) => {
    const [first] = state.target.tasksOf.get(node) ?? [];
    byId("tasks").scrollIntoView();
    table.search.value = "";
    table.filter();
    table.go(table.order.indexOf(first));
    table.table.focus({ preventScroll: true });
  };
}

/** @param {number[]} nodes */
function choose(nodes) {
  if (nodes.length) chooseNode(nodes[0]);
}

/** @param {any} emission */
function tasksSummary(emission) {
  if (!emission) return "";
  if (emission.failure !== null) return `No tasks are known for this chip: ${emission.failure}`;
  const { tasks, refused, idle } = emission;
  const layers = new Set(tasks.layer).size;
  const files = new Set(tasks.file).size;
  return [
    `${counted(tasks.length, "task")} of ${counted(layers, "layer")} in ${counted(files, "file")}`,
    refused.length ? `${counted(refused.length, "layer")} without a known program` : "",
    idle.length ? `${counted(idle.length, "layer")} without a task, because nothing moves` : "",
  ].filter(Boolean).join("; ") + ".";
}
