// Opening: unpack the index, build every section, choose the first chip. `data-ready` on the root says that all stands.

const THEMES = ["system", "light", "dark"];

function buildTheme() {
  const button = byId("theme");
  let chosen = "system";
  button.addEventListener("click", () => {
    chosen = THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length];
    button.textContent = `Theme: ${chosen}`;
    document.documentElement.dataset.theme = chosen;
    tell("theme");
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => tell("theme"));
}

function buildTop() {
  const { format, tool, count: length, targets, chips } = model.index;
  byId("about").textContent = [format, counted(length, "operation"), counted(chips, "chip"), tool && `aneforge ${tool}`].filter(Boolean).join(" · ");
  const select = byId("target");
  targets.forEach((/** @type {any} */ entry, /** @type {number} */ number) => {
    select.append(el("option", { value: number, text: chipTitle(entry) + (RUNS_MARKS[entry.runs] ?? ` (${entry.runs})`) }));
  });
  select.addEventListener("change", () => void chooseTarget(Number(select.value)));
}

/** The comparison that differs most is shown first. */
function strongestPair() {
  const places = model.index.divergences.map((/** @type {any} */ one) => STRENGTHS.indexOf(one.strength));
  return places.indexOf(Math.min(...places));
}

/** Mark in the list of sections the one that is being read. */
function buildNavigation() {
  const links = [.../** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll(".top nav a"))];
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const link = links.find((one) => one.hash === `#${entry.target.id}`);
      if (entry.isIntersecting) {
        for (const one of links) one.removeAttribute("aria-current");
        link?.setAttribute("aria-current", "true");
      }
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const section of document.querySelectorAll("main > section")) watcher.observe(section);
}

async function openReport() {
  if (typeof DecompressionStream === "undefined") throw new Error("this browser cannot unpack it (no DecompressionStream)");
  await loadModel();
  buildTheme();
  buildTop();
  buildCards();
  buildChips();
  buildNavigation();
  if (!model.index.targets.length) {
    for (const section of document.querySelectorAll("main > section:not(#headline, #chips), .top nav")) section.remove();
  } else {
    buildFindings();
    new GraphView();
    new TimelineView();
    new MemoryView();
    buildTasks();
    buildDivergence();
    buildOperations();
    buildRemarks();
    buildDetail();
    await chooseTarget(0);
    if (model.index.divergences.length) await choosePair(strongestPair());
  }
  byId("content").setAttribute("aria-busy", "false");
}

openReport().catch((error) => {
  const problem = byId("problem");
  problem.hidden = false;
  problem.textContent = `This report could not be opened: ${error instanceof Error ? error.message : error}`;
  console.error(error);
}).finally(() => {
  // After the next drawing, so that whoever waits for it sees the page as it is.
  requestAnimationFrame(() => requestAnimationFrame(() => { document.documentElement.dataset.ready = "true"; }));
});
