// A table of any length: only the rows in sight are elements. It sorts, filters, and is walked with the arrow keys.

const ROW = 30; // pixels, as in the style sheet
const AROUND = 12; // rows kept ready above and below what is in sight

/**
 * @typedef {object} Column
 * @property {string} title
 * @property {number} width In pixels; the last column takes what is left over.
 * @property {(row: number) => number | string | null} value What is sorted by, and shown if there is no text.
 * @property {(row: number) => string} [text]
 * @property {(row: number) => Node} [cell] An element instead of text.
 * @property {boolean} [number]
 * @property {boolean} [prose] Sentences, which have two lines.
 * @property {string[]} [facets] Values to choose from; with them comes a select.
 */

let tablesMade = 0;

class Table {
  /**
   * @param {string} label
   * @param {Column[]} columns
   * @param {(row: number) => void} activate
   * @param {{tall?: boolean, empty?: string}} [options]
   */
  constructor(label, columns, activate, options = {}) {
    tablesMade += 1;
    this.prefix = `table-${tablesMade}`;
    this.columns = columns;
    this.activate = activate;
    this.empty = options.empty ?? "Nothing here.";
    this.length = 0;
    this.sorted = { column: -1, direction: 1 };
    this.active = -1;
    this.first = -1;
    this.last = -1;
    this.words = /** @type {string[]} */ ([]);
    this.chosen = /** @type {Map<number, string>} */ (new Map());
    this.haystacks = /** @type {string[]} */ ([]);
    this.order = new Uint32Array(0);
    this.selects = /** @type {any[]} */ ([]);
    this.headers = /** @type {any[]} */ ([]);
    this.element = this.build(label, options.tall === true);
  }

  /**
   * @param {string} label
   * @param {boolean} tall
   */
  build(label, tall) {
    this.search = el("input", { type: "search", placeholder: "words to find", oninput: () => this.filter() });
    this.output = el("output", { "aria-live": "polite" });
    this.tools = el("div", { class: "tools", role: "search", "aria-label": `Filter ${label}` });
    this.tools.append(el("label", { class: "field" }, "Filter ", this.search));
    this.selects = this.columns.map((column, place) => this.facet(column, place));
    this.tools.append(this.output);
    this.head = el("tr", { "aria-rowindex": "1" });
    this.headers = this.columns.map((column, place) => this.header(column, place));
    this.body = el("tbody");
    const widths = el("colgroup");
    this.columns.forEach((column, place) => {
      const one = el("col");
      if (place < this.columns.length - 1) one.style.width = `${column.width}px`;
      widths.append(one);
    });
    this.table = el(
      "table",
      { class: "rows", role: "grid", "aria-label": label, tabindex: "0", onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event) },
      widths,
      el("thead", {}, this.head),
      this.body,
    );
    this.table.style.minWidth = `${this.columns.reduce((sum, column) => sum + column.width, 0)}px`;
    this.scroller = el("div", { class: tall ? "scroller tall" : "scroller", onscroll: () => this.draw() }, this.table);
    this.body.addEventListener("click", (/** @type {MouseEvent} */ event) => this.click(event));
    // In the next frame: rows that are made while sizes are observed would change sizes again.
    new ResizeObserver(() => requestAnimationFrame(() => this.draw())).observe(this.scroller);
    return el("div", {}, this.tools, this.scroller);
  }

  /**
   * @param {Column} column
   * @param {number} place
   */
  facet(column, place) {
    if (!column.facets) return null;
    const options = /** @type {Array<[string, string]>} */ ([["", "all"], ...column.facets.map((one) => [one, one])]);
    const { field, select } = choice(column.title, options, (value) => {
      this.chosen.set(place, value);
      this.filter();
    });
    this.tools.append(field);
    return select;
  }

  /**
   * @param {Column} column
   * @param {number} place
   */
  header(column, place) {
    const button = el("button", { type: "button", text: column.title, title: column.title, onclick: () => this.sortBy(place) });
    const header = el("th", { scope: "col", "aria-sort": "none", class: column.number ? "number" : null }, button);
    this.head.append(header);
    return header;
  }

  /**
   * Show other rows, with the filter and the order that are set.
   * @param {number} length
   */
  show(length) {
    this.length = length;
    this.haystacks = [];
    this.active = -1;
    this.filter();
  }

  /**
   * Choose one of the values of a column from elsewhere.
   * @param {string} title
   * @param {string} value
   */
  only(title, value) {
    const place = this.columns.findIndex((column) => column.title === title);
    this.chosen.set(place, value);
    this.selects[place].value = value;
    this.search.value = "";
    this.filter();
  }

  /**
   * @param {Column} column
   * @param {number} row
   */
  text(column, row) {
    return column.text ? column.text(row) : quantity(column.value(row));
  }

  /**
   * What a shortened text stands for.
   * @param {Column} column
   * @param {number} row
   */
  full(column, row) {
    const value = column.value(row);
    return typeof value === "string" ? value : this.text(column, row);
  }

  /** @param {number} row */
  haystack(row) {
    this.haystacks[row] ??= this.columns.map((column) => `${this.text(column, row)}\n${this.full(column, row)}`).join("\n").toLowerCase();
    return this.haystacks[row];
  }

  filter() {
    this.words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const facets = [...this.chosen].filter(([, value]) => value !== "");
    const kept = [];
    for (let row = 0; row < this.length; row += 1) {
      if (!facets.every(([place, value]) => this.text(this.columns[place], row) === value)) continue;
      if (this.words.length && !this.words.every((word) => this.haystack(row).includes(word))) continue;
      kept.push(row);
    }
    this.order = Uint32Array.from(kept);
    this.output.textContent = kept.length === this.length ? counted(this.length, "row") : `${count(kept.length)} of ${counted(this.length, "row")}`;
    this.arrange();
  }

  /** @param {number} place */
  sortBy(place) {
    const { column, direction } = this.sorted;
    if (column !== place) this.sorted = { column: place, direction: this.columns[place].number ? -1 : 1 };
    else if (direction === (this.columns[place].number ? -1 : 1)) this.sorted = { column: place, direction: -direction };
    else this.sorted = { column: -1, direction: 1 };
    this.headers.forEach((header, one) => {
      const sort = one !== this.sorted.column ? "none" : this.sorted.direction > 0 ? "ascending" : "descending";
      header.setAttribute("aria-sort", sort);
    });
    this.arrange();
  }

  arrange() {
    const { column, direction } = this.sorted;
    if (column < 0) this.order.sort();
    else {
      const value = this.columns[column].value;
      this.order.sort((one, other) => compare(value(one), value(other), direction) || one - other);
    }
    this.table.setAttribute("aria-rowcount", String(this.order.length + 1));
    this.scroller.scrollTop = 0;
    this.first = -1;
    this.draw();
  }

  draw() {
    const top = this.scroller.scrollTop;
    const first = Math.max(0, Math.floor(top / ROW) - AROUND);
    const last = Math.min(this.order.length, Math.ceil((top + this.scroller.clientHeight) / ROW) + AROUND);
    if (first === this.first && last === this.last) return;
    this.first = first;
    this.last = last;
    const rows = [this.space(first)];
    for (let place = first; place < last; place += 1) rows.push(this.row(place));
    rows.push(this.order.length ? this.space(this.order.length - last) : this.nothing());
    this.body.replaceChildren(...rows);
    this.mark();
  }

  /** @param {number} rows */
  space(rows) {
    const cell = el("td", { colspan: this.columns.length });
    cell.style.height = `${rows * ROW}px`;
    return el("tr", { class: "space", "aria-hidden": "true", hidden: rows === 0 }, cell);
  }

  nothing() {
    const text = this.length ? "No row fits the filter." : this.empty;
    return el("tr", { class: "space" }, el("td", { colspan: this.columns.length }, el("div", { class: "empty", text })));
  }

  /** @param {number} place */
  row(place) {
    const row = this.order[place];
    const made = el("tr", { id: `${this.prefix}-${row}`, "data-row": row, "aria-rowindex": place + 2 });
    for (const column of this.columns) {
      const cell = el("td", { class: column.number ? "number" : null, title: this.full(column, row) });
      const text = column.cell ? column.cell(row) : this.text(column, row);
      cell.append(column.prose ? el("div", { class: "prose" }, text) : text);
      made.append(cell);
    }
    return made;
  }

  mark() {
    for (const row of this.body.querySelectorAll("tr[data-row]")) {
      const active = Number(row.dataset.row) === this.active;
      row.classList.toggle("active", active);
      row.setAttribute("aria-selected", String(active));
    }
    const shown = this.active >= 0 && byId(`${this.prefix}-${this.active}`);
    if (shown) this.table.setAttribute("aria-activedescendant", shown.id);
    else this.table.removeAttribute("aria-activedescendant");
  }

  /** @param {MouseEvent} event */
  click(event) {
    const row = /** @type {HTMLElement} */ (event.target).closest("tr")?.dataset.row;
    if (row === undefined) return;
    this.active = Number(row);
    this.mark();
    this.activate(this.active);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.target !== this.table || !this.order.length) return;
    const place = this.order.indexOf(this.active);
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW) - 2);
    /** @type {Record<string, number>} */
    const moves = { ArrowDown: place + 1, ArrowUp: place - 1, PageDown: place + page, PageUp: place - page, Home: 0, End: this.order.length - 1 };
    if (event.key in moves) this.go(Math.min(this.order.length - 1, Math.max(0, moves[event.key])));
    else if ((event.key === "Enter" || event.key === " ") && place >= 0) this.activate(this.active);
    else return;
    event.preventDefault();
  }

  /** @param {number} place */
  go(place) {
    this.active = this.order[place];
    const head = this.head.offsetHeight;
    const room = this.scroller.clientHeight - head;
    const top = place * ROW;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top + ROW > this.scroller.scrollTop + room) this.scroller.scrollTop = top + ROW - room;
    this.draw();
    this.mark();
  }
}

/**
 * Compare two values of a column; what is missing comes last in both directions.
 * @param {number | string | null} one
 * @param {number | string | null} other
 * @param {number} direction
 */
function compare(one, other, direction) {
  if (one === null || other === null) return Number(one === null) - Number(other === null);
  if (typeof one === "number" && typeof other === "number") return direction * (one - other);
  return direction * collator.compare(String(one), String(other));
}
