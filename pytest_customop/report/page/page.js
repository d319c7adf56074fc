"use strict";
(() => {
  const table = JSON.parse(document.getElementById("rows").textContent);
  const { texts, count } = table;
  const states = table.states.map(([key, mark, word]) => ({ key, mark, word }));
  const columns = {};
  for (const [name, values] of Object.entries(table.columns)) {
    columns[name] = Array.isArray(values) ? values : new Array(count).fill(values);
  }
  const text = (name, row) => texts[columns[name][row]];
  const family = (check) => check.split(".")[0];
  const gradients = ["", "without gradients", "with gradients"];
  const BAD = new Set(["failed", "error", "xpassed"]);
  const $ = (id) => document.getElementById(id);
  const by = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  // What is selected, as the address has it.
  const KEYS = ["state", "device", "dtype", "grad", "finding", "q", "op", "check"];
  const SELECTS = ["device", "dtype", "grad", "finding"];
  let selected = {};
  let expanded = null; // families whose checks have a column each
  let shown = 100; // rows of the list

  const nodeid = (row) =>
    text("test", row) + text("case", row) +
    (columns.usual[row] ? `-${text("check", row)}]` : "");

  const caseOf = (row) => {
    const place = [text("device", row), text("dtype", row), gradients[columns.grad[row]]];
    if (text("layout", row) !== "contiguous") place.push(text("layout", row));
    const variant = text("variant", row);
    const sample = [text("sample", row), variant === "*" ? "" : variant].filter(Boolean).join("~");
    return [place.filter(Boolean).join(" "), sample && `sample ${sample}`].filter(Boolean).join(", ");
  };

  let haystacks = null; // what the search looks through, made at the first search
  const haystack = (row) => {
    haystacks ??= new Array(count);
    haystacks[row] ??= [nodeid(row), text("op", row), text("check", row), text("finding", row),
      caseOf(row), text("message", row)].join("\n").toLowerCase();
    return haystacks[row];
  };

  /** The rows that the filters leave; `cell` adds the op and the check that are chosen in the grid. */
  function filtered(cell) {
    const wanted = {};
    for (const name of ["device", "dtype", "finding"]) {
      if (selected[name]) wanted[name] = texts.indexOf(selected[name]);
    }
    if (selected.grad) wanted.grad = gradients.indexOf(selected.grad);
    const keys = selected.state ? selected.state.split(",") : [];
    const inState = states.map((one) => !keys.length || keys.includes(one.key));
    const words = (selected.q || "").toLowerCase().split(/\s+/).filter(Boolean);
    const conditions = Object.entries(wanted).map(([name, value]) => [columns[name], value]);
    const found = [];
    for (let row = 0; row < count; row++) {
      if (!inState[columns.state[row]]) continue;
      if (conditions.some(([values, value]) => values[row] !== value)) continue;
      if (cell && selected.op && text("op", row) !== selected.op) continue;
      if (cell && selected.check) {
        const check = text("check", row);
        if (check !== selected.check && family(check) !== selected.check) continue;
      }
      if (words.length && !words.every((word) => haystack(row).includes(word))) continue;
      found.push(row);
    }
    return found;
  }

  // The grid

  const every = (name) => [...new Set(columns[name].map((at) => texts[at]))].filter(Boolean).sort(by);
  const checks = every("check");
  const NOT_RUN = "not run";
  const families = [...new Set(checks.map(family))].sort(
    (a, b) => (a === NOT_RUN) - (b === NOT_RUN) || by(a, b));
  const checksOf = (name) => checks.filter((check) => family(check) === name);
  const worstOf = new Map(); // of each op
  for (let row = 0; row < count; row++) {
    const op = text("op", row);
    worstOf.set(op, Math.min(worstOf.get(op) ?? states.length, columns.state[row]));
  }
  const rank = (op) => (BAD.has(states[worstOf.get(op)].key) ? worstOf.get(op) : states.length);
  const ops = every("op").sort((a, b) => rank(a) - rank(b) || by(a, b));

  /** The families whose checks fit beside the others, those with failures first. */
  function fitting() {
    const bad = new Set();
    for (let row = 0; row < count; row++) {
      if (BAD.has(states[columns.state[row]].key)) bad.add(family(text("check", row)));
    }
    const names = Math.min(300, 8 * Math.max(...ops.map((op) => op.length)) + 16);
    let room = $("grid").parentElement.clientWidth - names - families.length * 68;
    const found = new Set();
    for (const name of [...families].sort((a, b) => bad.has(b) - bad.has(a))) {
      const more = checksOf(name).length * 42 - 68;
      if (more <= room && checksOf(name).length > 1) {
        found.add(name);
        room -= Math.max(more, 0);
      }
    }
    return found;
  }

  /** Mark the chosen cell: the one stop of the tab key; the arrow keys move on from it. */
  function markChosen() {
    const grid = $("grid");
    for (const td of grid.querySelectorAll('[aria-selected], [tabindex="0"]')) {
      td.removeAttribute("aria-selected");
      td.tabIndex = -1;
    }
    const op = ops.indexOf(selected.op);
    const chosen = selected.check && grid.querySelector(
      `td[data-op="${op}"][data-column="${CSS.escape(selected.check)}"]`);
    if (chosen) chosen.setAttribute("aria-selected", "true");
    const stop = chosen || grid.querySelector("td[data-column]");
    if (stop) stop.tabIndex = 0;
  }

  let drawn = ""; // what the grid was drawn for
  function drawGrid() {
    const shows = JSON.stringify([{ ...selected, op: "", check: "" }, [...expanded]]);
    if (shows === drawn) return markChosen();
    drawn = shows;
    const counts = new Map();
    for (const row of filtered(false)) {
      const check = text("check", row);
      const column = expanded.has(family(check)) ? check : family(check);
      const key = `${text("op", row)}\n${column}`;
      let cell = counts.get(key);
      if (!cell) counts.set(key, (cell = new Array(states.length).fill(0)));
      cell[columns.state[row]]++;
    }
    const top = element("tr");
    const below = element("tr");
    top.append(element("th", { scope: "col", rowspan: 2, class: "op" }, "op"));
    const names = [];
    for (const name of families) {
      const open = expanded.has(name);
      const mine = open ? checksOf(name) : [name];
      names.push(...mine.map((column) => [name, column]));
      const heading = element("th", { scope: "colgroup", colspan: mine.length, class: "family" });
      if (checksOf(name).length > 1) {
        const label = open ? "show the family as one column" : "show a column a check";
        heading.append(element("button", { type: "button", "data-family": name, title: label,
          "aria-expanded": String(open) }, `${open ? "\u25BE" : "\u25B8"} ${name}`));
      } else heading.append(name);
      top.append(heading);
      for (const column of mine) {
        const check = checksOf(name).length > 1 ? column : checksOf(name)[0];
        const th = element("th", { scope: "col", class: "turned", title: check });
        if (check !== name) th.append(element("div", {}, check.slice(name.length + 1)));
        below.append(th);
      }
    }
    const body = element("tbody");
    ops.forEach((op, at) => {
      const line = element("tr", {}, element("th", { scope: "row", class: "op", title: op }, op));
      let any = false;
      for (const [, column] of names) {
        const cell = counts.get(`${op}\n${column}`);
        const td = element("td", { role: "gridcell", "data-column": column, "data-op": at, tabindex: -1 });
        if (cell) {
          any = true;
          const worst = cell.findIndex((number) => number);
          const total = cell.reduce((sum, number) => sum + number, 0);
          const state = states[worst];
          td.className = state.key;
          const of = total !== cell[worst] && state.key !== "passed" ? `/${total}` : "";
          td.textContent = `${state.mark} ${cell[worst]}${of}`;
          const told = cell.map((number, i) => number && `${number} ${states[i].word}`).filter(Boolean);
          td.setAttribute("aria-label", `${op}, ${column}: ${told.join(", ")}`);
          td.title = `${op}\n${column}: ${told.join(", ")}`;
        } else {
          td.removeAttribute("data-column");
        }
        line.append(td);
      }
      if (any) body.append(line);
    });
    if (!body.children.length) {
      body.append(element("tr", {}, element("td", { colspan: names.length + 1 }, "Nothing matches these filters.")));
    }
    $("grid").replaceChildren(element("thead", {}, top, below), body);
    markChosen();
  }

  // The list

  function drawList(rows) {
    const list = $("list");
    const some = KEYS.some((key) => selected[key]);
    list.hidden = !some;
    $("reset").hidden = !some;
    $("told").textContent = some
      ? `${rows.length} of ${count} results`
      : "Choose a cell, or a filter, to see its results.";
    if (!some) return list.replaceChildren();
    const of = [selected.op, selected.check].filter(Boolean).join(" ");
    const title = element("h3", { tabindex: -1 }, `${rows.length} ${rows.length === 1 ? "result" : "results"}${of && ` of ${of}`}`);
    const lines = element("ul", { tabindex: 0, "aria-label": "results" });
    for (const row of rows.slice(0, shown)) {
      const state = states[columns.state[row]];
      const line = element("li", { title: nodeid(row) },
        element("span", { class: `mark ${state.key}`, title: state.word }, state.mark),
        element("span", {}, [selected.op ? "" : text("op", row), text("check", row)].filter(Boolean).join(" ")),
        element("span", {}, caseOf(row)));
      const card = columns.card[row];
      if (card && $(`card-${card}`)) {
        line.append(element("button", { type: "button", class: "open", "data-open": card }, "details"));
      }
      line.append(element("span", { class: "ms" }, `${columns.ms[row]} ms`));
      const message = [text("finding", row), text("message", row)].filter(Boolean).join(": ");
      if (message) line.append(element("span", { class: "message" }, message));
      lines.append(line);
    }
    list.replaceChildren(title, lines);
    if (rows.length > shown) {
      const more = element("button", { type: "button", id: "more" }, `${rows.length - shown} more`);
      more.addEventListener("click", () => { shown += 500; drawList(rows); });
      list.append(more);
    }
  }

  /** Hide the cards none of whose results the filters leave. */
  function drawCards(rows) {
    const kept = new Set(rows.map((row) => columns.card[row]));
    const all = rows.length === count;
    for (const one of document.querySelectorAll("[data-card]")) {
      one.hidden = !all && !kept.has(Number(one.dataset.card));
    }
    for (const section of document.querySelectorAll("section.cards")) {
      const numbered = [...section.querySelectorAll("[data-card]")];
      const left = numbered.filter((one) => !one.hidden);
      const number = section.querySelector(".count");
      number.textContent = all ? number.dataset.all : `${left.length} of ${number.dataset.all}`;
      section.hidden = !left.length;
      const rest = section.querySelector(".rest");
      if (rest) rest.hidden = !all && !left.some((one) => rest.contains(one));
    }
  }

  function draw() {
    const rows = filtered(true);
    drawGrid();
    drawList(rows);
    drawCards(rows);
    const chosen = selected.state ? selected.state.split(",") : [];
    for (const chip of document.querySelectorAll(".chip")) {
      chip.setAttribute("aria-pressed", String(chosen.includes(chip.dataset.state)));
    }
    for (const name of SELECTS) $(name).value = selected[name] || "";
    if ($("q").value !== (selected.q || "")) $("q").value = selected.q || "";
  }

  // The address

  function read() {
    const anchor = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (anchor) { // of this page, not a view of it
      goTo(anchor);
      if (expanded) return;
    }
    const given = new URLSearchParams(anchor ? "" : location.hash.slice(1));
    selected = {};
    for (const key of KEYS) if (given.get(key)) selected[key] = given.get(key);
    expanded = given.has("open") ? new Set(given.get("open").split(",")) : fitting();
    shown = 100;
    draw();
    const card = given.get("card");
    if (card) open(card);
  }

  function write(change, keep) {
    Object.assign(selected, change);
    for (const key of KEYS) if (!selected[key]) delete selected[key];
    shown = 100;
    const given = new URLSearchParams(selected);
    if (keep || new URLSearchParams(location.hash.slice(1)).has("open")) {
      given.set("open", [...expanded].join(","));
    }
    const card = document.querySelector("#failures .card[open], #known .card[open], #notes .card[open]");
    draw();
    if (card && !card.hidden) given.set("card", card.dataset.card);
    history.replaceState(null, "", `#${given}`);
  }

  const open = (number) => goTo($(`card-${number}`));

  function goTo(card) {
    if (!card) return;
    card.hidden = false;
    card.closest("section").hidden = false;
    if (card.tagName === "DETAILS") {
      card.open = true;
      card.querySelector("summary").focus();
    }
    card.scrollIntoView({ block: "start" });
  }

  // What a reader does

  for (const name of SELECTS) {
    const values = name === "grad" ? gradients.slice(1).filter((_, at) => columns.grad.includes(at + 1)) : every(name);
    $(name).append(element("option", { value: "" }, "all"),
      ...values.map((value) => element("option", { value }, value)));
    $(name).parentElement.hidden = !values.length;
    $(name).addEventListener("change", () => write({ [name]: $(name).value }));
  }
  let waiting;
  $("q").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => write({ q: $("q").value }), 120);
  });
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("reset").addEventListener("click", () => {
    write(Object.fromEntries(KEYS.map((key) => [key, ""])));
    $("q").focus();
  });
  $("states").addEventListener("click", (event) => {
    const chip = event.target.closest(".chip");
    if (!chip) return;
    const chosen = new Set(selected.state ? selected.state.split(",") : []);
    if (!chosen.delete(chip.dataset.state)) chosen.add(chip.dataset.state);
    write({ state: [...chosen].join(",") });
  });

  function choose(td) {
    const op = ops[Number(td.dataset.op)];
    const check = td.dataset.column;
    const again = selected.op === op && selected.check === check;
    write(again ? { op: "", check: "" } : { op, check });
    const now = document.querySelector('#grid [aria-selected="true"]');
    if (now) now.focus({ preventScroll: true });
    if (!again) $("list").scrollIntoView({ block: "nearest" });
  }

  $("grid").addEventListener("click", (event) => {
    const heading = event.target.closest("[data-family]");
    if (heading) {
      const name = heading.dataset.family;
      if (!expanded.delete(name)) expanded.add(name);
      write({}, true);
      document.querySelector(`[data-family="${CSS.escape(name)}"]`)?.focus();
      return;
    }
    const td = event.target.closest("td[data-column]");
    if (td) choose(td);
  });
  $("grid").addEventListener("keydown", (event) => {
    const td = event.target.closest("td[data-column]");
    if (!td) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return choose(td);
    }
    const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    const rows = [...document.querySelectorAll("#grid tbody tr")];
    let at = rows.indexOf(td.parentElement);
    let column = td.cellIndex;
    for (;;) {
      at += step[0];
      column += step[1];
      const next = rows[at]?.cells[column];
      if (!next || next.tagName !== "TD") return;
      if (!next.dataset.column) continue;
      td.tabIndex = -1;
      next.tabIndex = 0;
      return next.focus();
    }
  });
  $("expand").addEventListener("click", () => { expanded = new Set(families); write({}, true); });
  $("collapse").addEventListener("click", () => { expanded = new Set(["-"]); write({}, true); });
  $("list").addEventListener("click", (event) => {
    const number = event.target.dataset.open;
    if (number) open(number);
  });

  async function copy(button) {
    const content = button.closest(".code").querySelector("pre").textContent;
    let done = true;
    try {
      await navigator.clipboard.writeText(content);
    } catch { // no permission, or an old browser that opens the page from a file
      const area = element("textarea");
      area.value = content;
      document.body.append(area);
      area.select();
      done = document.execCommand("copy");
      area.remove();
      button.focus();
    }
    button.textContent = done ? "Copied" : "Copy failed";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }
  document.addEventListener("click", (event) => {
    if (event.target.matches(".copy")) copy(event.target);
    const link = event.target.closest('a[href^="#"]');
    if (link) { // the address keeps the view
      event.preventDefault();
      goTo(document.getElementById(decodeURIComponent(link.getAttribute("href").slice(1))));
    }
  });

  for (const card of document.querySelectorAll(".card[data-card]")) {
    card.addEventListener("toggle", () => {
      const given = new URLSearchParams(location.hash.slice(1));
      if (card.open) given.set("card", card.dataset.card);
      else if (given.get("card") === card.dataset.card) given.delete("card");
      history.replaceState(null, "", `#${given}`);
    });
  }

  if (!count) return;
  document.querySelector(".gridbar").hidden = false;
  window.addEventListener("hashchange", read);
  read();
})();
