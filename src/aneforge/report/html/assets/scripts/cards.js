// The headline: a card for every distinct result. A card chooses the first of its chips for everything below it.

function buildCards() {
  const body = byId("cards");
  const buttons = model.index.cards.map((/** @type {any} */ card) => cardButton(card));
  body.append(...buttons);
  byId("headline-title").textContent = model.index.summary && `${sentenceCase(model.index.summary)}.`;
  listen("target", () => {
    const chosen = model.index.targets.indexOf(state.target.entry);
    model.index.cards.forEach((/** @type {any} */ card, /** @type {number} */ number) => {
      buttons[number].setAttribute("aria-pressed", String(card.places.includes(chosen)));
    });
  });
}

/** @param {any} card */
function cardButton(card) {
  const verdict = runsVerdict(card.runs);
  return el("button", { type: "button", class: "card", "data-verdict": verdict, "aria-pressed": "false", "aria-label": card.headline, onclick: () => void chooseTarget(card.places[0]) },
    el("span", { class: "card-chips" }, el("strong", { text: card.chips }), el("span", { class: "quiet mono", text: card.targets.join(" ") })),
    el("span", { class: `badge v-${verdict}`, "data-mark": MARKS[verdict], text: card.answer }),
    ...(card.reason ? [el("span", { class: "card-reason", text: card.reason })] : []),
    ...(card.time ? [el("span", { class: "card-time" }, el("b", { text: card.time }), el("span", { class: "quiet", text: card.interval }))] : []),
    ...(card.shares.length ? [shareBar(card.shares), shareWords(card)] : []),
    el("span", { class: "card-change" }, ...changeWords(card)));
}

/** @param {any} card */
function changeWords(card) {
  if (!card.changes.length) return [el("span", { class: "quiet", text: "no change worth making is known" })];
  const count = `${counted(card.changes.length, "change")} worth making`;
  return [`${count}: `, el("span", { class: "quiet", text: card.change || [...new Set(card.changes)].join(", ") })];
}

/** @param {Array<{name: string, share: number}>} shares */
function shareBar(shares) {
  let x = 0;
  const boxes = shares.map(({ name, share }, place) => {
    const box = { x: x * 200, y: 0, width: Math.max(1, share * 200 - 1), height: 8, colour: shareColour(name, place) };
    x += share;
    return box;
  });
  const words = shares.map(({ name, share }) => `${name} ${percent(Number(share.toFixed(2)))}`).join(", ");
  const bar = boxesDrawing(200, 8, boxes, { class: "bar", role: "img", "aria-label": words });
  return el("span", { class: "card-bar", title: words }, bar);
}

/** @param {string} name @param {number} place */
function shareColour(name, place) {
  return name === "other" ? "--heat-5" : `--share-${place}`;
}

/** @param {any} card What takes the time, and in how many programs it is spent. */
function shareWords(card) {
  const words = el("span", { class: "card-shares" });
  card.shares.forEach((/** @type {{name: string, share: number}} */ { name, share }, /** @type {number} */ place) => {
    if (name === "other") return;
    const swatch = boxesDrawing(10, 10, [{ x: 0, y: 0, width: 10, height: 10, colour: shareColour(name, place) }], { "aria-hidden": "true" });
    words.append(el("span", {}, swatch, `${name} ${Math.round(share * 100)}%`));
  });
  words.append(el("span", { class: "quiet", text: `in ${counted(card.programs, "program")}` }));
  return words;
}

/** @param {string} text */
function sentenceCase(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
