"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const data = JSON.parse(document.getElementById("winml-document").textContent);
  const find = (path) => path.reduce((at, key) => (at == null ? undefined : at[key]), data);

  // Tables: a click on a heading sorts by it, numbers from the greatest down.
  const key = (row, column) => row.cells[column].dataset.v ?? row.cells[column].textContent;
  for (const table of all("table.sortable")) {
    const heads = all("th", table);
    heads.forEach((head, column) => {
      const button = head.querySelector("button");
      if (!button) return;
      button.addEventListener("click", () => {
        const numeric = head.classList.contains("n");
        const down = head.ariaSort ? head.ariaSort !== "descending" : numeric;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const compare = (a, b) => numeric
          ? (Number(key(a, column)) || 0) - (Number(key(b, column)) || 0)
          : key(a, column).localeCompare(key(b, column), "en", { numeric: true });
        const rows = all("tbody tr:not(.rest)", table).sort((a, b) => (down ? compare(b, a) : compare(a, b)));
        table.tBodies[0].prepend(...rows);
      });
    });
  }

  // Plots: the value, or the range of neighbours that share a pixel, under the pointer.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  for (const area of all("[data-source]")) {
    const source = JSON.parse(area.dataset.source);
    const values = find(source.values);
    const times = source.times && find(source.times);
    if (!Array.isArray(values) || !values.length) continue;
    const unit = source.unit === "%" ? "%" : ` ${source.unit}`;
    const say = (value) => (value * source.factor).toFixed(source.decimals) + unit;
    const nearest = (share) => {
      const at = share * times[times.length - 1];
      return times.reduce((best, time, i) => (Math.abs(time - at) < Math.abs(times[best] - at) ? i : best), 0);
    };
    area.addEventListener("pointermove", (event) => {
      const box = area.getBoundingClientRect();
      const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      const middle = times ? nearest(share) : Math.round(share * (values.length - 1));
      const half = Math.floor(values.length / box.width);
      const part = values.slice(Math.max(0, middle - half), middle + half + 1).filter((value) => value != null);
      const where = times ? `${times[middle].toFixed(2)} s` : `run ${middle + 1}`;
      const low = Math.min(...part), high = Math.max(...part);
      tip.textContent = !part.length ? `${where} · no reading`
        : low === high ? `${where} · ${say(low)}` : `${where} ± ${half} · ${say(low)} to ${say(high)}`;
      tip.hidden = false;
      tip.style.top = `${event.clientY + 16}px`;
      tip.style.left = `${Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)}px`;
    });
    area.addEventListener("pointerleave", () => { tip.hidden = true; });
  }

  // Buttons and print.
  const command = document.getElementById("command");
  document.getElementById("copy")?.addEventListener("click", async (event) => {
    const button = event.currentTarget;
    try {
      await navigator.clipboard.writeText(command.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(command);
      button.textContent = "Selected: press Ctrl+C";
    }
  });
  document.getElementById("save")?.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(data, null, 2)], { type: "application/json" }));
    link.download = "winml-perf.json";
    link.click();
    URL.revokeObjectURL(link.href);
  });
  addEventListener("beforeprint", () => all("details").forEach((part) => { part.open = true; }));
  document.documentElement.dataset.ready = "true";
})();
