"use strict";
// Filters and sorting for long tables. The page says the same without it.
(() => {
  const number = (text) => {
    const plain = text.replace(/[\u202f\u00a0\s]/g, "").replace("\u2212", "-").replace("×", "");
    const found = plain.match(/^[+-]?\d+(?:[.,]\d+)?/);
    return found ? Number(found[0].replace(",", ".")) : NaN;
  };
  const filter = (table) => {
    const rows = [...table.querySelectorAll("tr[data-key]")];
    const first = rows.filter((r) => !r.classList.contains("trace"));
    const keys = [...new Set(first.map((r) => r.dataset.key))];
    if (first.length < 8 || keys.length < 2) return;
    const bar = document.createElement("p");
    bar.className = "filter";
    const press = (chosen) => {
      for (const row of rows) row.hidden = chosen !== null && row.dataset.key !== chosen;
      for (const button of bar.children) button.setAttribute("aria-pressed", String(button.dataset.key === (chosen ?? "")));
    };
    for (const key of [null, ...keys]) {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.key = key ?? "";
      const sample = key && first.find((r) => r.dataset.key === key).querySelector(".mark.m-" + CSS.escape(key));
      const count = key ? first.filter((r) => r.dataset.key === key).length : first.length;
      button.textContent = (key ? (sample ? sample.textContent : key) : document.body.dataset.all) + " " + count;
      if (key) button.className = "mark m-" + key;
      button.addEventListener("click", () => press(key));
      bar.append(button);
    }
    press(null);
    table.parentElement.before(bar);
  };
  const sort = (table) => {
    [...table.tHead.rows[0].cells].forEach((head, index) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const value = (body) => body.rows[0].cells[index].textContent.trim();
        const compare = (a, b) => {
          const [x, y] = [value(a), value(b)];
          const [m, n] = [number(x), number(y)];
          return Number.isNaN(m) || Number.isNaN(n) ? x.localeCompare(y) : m - n;
        };
        const bodies = [...table.tBodies].sort((a, b) => (up ? compare(a, b) : compare(b, a)));
        table.append(...bodies);
      });
    });
  };
  for (const table of document.querySelectorAll("table")) {
    filter(table);
    if ("sort" in table.dataset) sort(table);
  }
})();
