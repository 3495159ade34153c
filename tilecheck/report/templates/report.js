"use strict";
// Sorts and filters tables, and copies commands. Without it the page shows the same.

function key(row, column) {
  const cell = row.cells[column];
  const value = cell.dataset.value ?? cell.textContent.trim();
  if (value === "") return null;
  const number = Number(value);
  return Number.isNaN(number) ? value.toLowerCase() : number;
}

function compare(a, b) {
  if (typeof a === typeof b) return typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
  return typeof a === "number" ? -1 : 1;
}

function sort(table, column, head) {
  const direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  const body = table.tBodies[0];
  const keyed = Array.from(body.rows, (row) => [key(row, column), row]);
  keyed.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null); // what is empty stays below
    return direction * compare(a, b);
  });
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
  body.append(...keyed.map(([, row]) => row));
}

function filter(table, input, output) {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of table.tBodies[0].rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    shown += !row.hidden;
  }
  output.textContent = words.length ? `${shown} of ${table.tBodies[0].rows.length}` : "";
}

for (const table of document.querySelectorAll("table[data-sort]")) {
  for (const [column, head] of Array.from(table.tHead.rows[0].cells).entries()) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, column, head));
    head.append(button);
  }
  const rows = table.tBodies[0].rows.length;
  if (rows > 7) {
    const box = document.createElement("div");
    const input = document.createElement("input");
    const output = document.createElement("output");
    box.className = "filter";
    input.type = "search";
    input.placeholder = `Filter ${rows} rows`;
    input.setAttribute("aria-label", `Filter ${table.dataset.sort}`);
    input.addEventListener("input", () => filter(table, input, output));
    box.append(input, output);
    table.parentElement.before(box);
  }
}

for (const box of document.querySelectorAll(".repeat")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    const command = box.querySelector("code");
    try {
      await navigator.clipboard.writeText(command.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(command); // no clipboard here: it is selected at least
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  box.append(button);
}
