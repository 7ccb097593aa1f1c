"use strict";
// Tables are readable without this: it lets readers sort them, and find groups by name.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const value = (row, at) => {
    const cell = row.cells[at];
    return "v" in cell.dataset ? Number(cell.dataset.v) : cell.textContent;
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b
      : typeof a === "number" ? -1
      : typeof b === "number" ? 1
      : a.localeCompare(b, undefined, { numeric: true });
  for (const head of table.tHead.rows[0].cells) {
    // No <button>: browsers do not repeat heads that hold one on every printed page.
    const button = document.createElement("span");
    button.setAttribute("role", "button");
    button.tabIndex = 0;
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      button.click();
    });
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const at = head.cellIndex;
      const rows = [...body.rows].sort(
        (a, b) => (up ? 1 : -1) * compare(value(a, at), value(b, at)));
      body.append(...rows);
    });
  }
  if (body.rows.length < 12) continue;
  const search = document.createElement("input");
  search.type = "search";
  search.placeholder = "Find a group";
  search.setAttribute("aria-label", "Find a group");
  search.addEventListener("input", () => {
    const wanted = search.value.toLowerCase();
    for (const row of body.rows)
      row.hidden = !row.querySelector(".name").textContent.toLowerCase().includes(wanted);
  });
  table.parentElement.before(search);
}
