"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const config = { responsive: true, displayModeBar: false };
  const plots = [...document.querySelectorAll("[data-plot]")];
  const state = {};  // the frame that each plot shows
  const how = document.querySelector(".map .how");
  const narrow = () => root.clientWidth < 600;

  // A map has no coordinates of its own: those of the chosen method are filled in.
  const placed = (trace) => {
    const places = data.map.places[how ? how.value : Object.keys(data.map.places)[0]];
    const at = (axis) => trace.customdata.map((index) => places[index][axis]);
    return { ...trace, x: at(0), y: at(1) };
  };

  const draw = (element) => {
    const name = element.dataset.plot;
    const figure = data.figures[name];
    const frame = figure.frames?.[state[name] ?? 0] ?? {};
    const layout = { ...figure.layout, ...frame.layout, template: data.templates[root.dataset.theme] };
    if (layout.grid && narrow()) {  // panels above each other
      layout.grid = { ...layout.grid, rows: layout.grid.columns, columns: layout.grid.rows };
      layout.height *= 1.7;
    }
    element.style.height = `${layout.height}px`;
    let traces = frame.data ?? figure.data;
    if (name === "map") traces = traces.map(placed);
    Plotly.react(element, structuredClone(traces), structuredClone(layout), config);
    const caption = element.parentElement.querySelector(".state");
    if (caption) caption.textContent = layout.meta ?? "";
  };

  // Lists and the slider choose the frames of plots.
  for (const control of document.querySelectorAll(".frame")) {
    const { of, label, labels } = control.dataset;
    const chosen = plots.filter((element) => of.split(" ").includes(element.dataset.plot));
    const choose = () => {
      for (const element of chosen) state[element.dataset.plot] = Number(control.value);
      if (labels) {
        const name = labels.split(" ")[Number(control.value)];
        control.closest(".slider").querySelector("output").textContent = name;
        control.setAttribute("aria-valuetext", `${label} ${name}`);
      }
    };
    control.addEventListener("input", () => { choose(); chosen.forEach(draw); });
    choose();
  }

  const hover = document.getElementById("hover");
  const hide = () => { hover.hidden = true; };
  const show = ({ points, event }) => {
    const index = points[0].customdata;
    if (!data.map?.lines[index]) return;
    // Drawings consist of shapes alone; everything else is text.
    hover.querySelector(".drawing").innerHTML = data.map.drawings[index];
    hover.querySelector("h4").textContent = data.map.names[index];
    hover.querySelector(".lines").replaceChildren(...data.map.lines[index].map((text) => {
      const line = document.createElement("p");
      line.textContent = text;
      return line;
    }));
    hover.classList.toggle("left", event.clientX > root.clientWidth / 2);  // the other half
    hover.hidden = false;
  };
  document.addEventListener("scroll", hide, { passive: true });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  const wear = (name) => { root.dataset.theme = name; plots.forEach(draw); };
  const follow = () => wear(dark.matches ? "dark" : "light");
  dark.addEventListener("change", follow);
  let width = narrow();
  window.addEventListener("resize", () => {
    if (narrow() !== width) { width = narrow(); plots.forEach(draw); }
  });
  follow();
  for (const element of plots.filter(({ dataset }) => ["map", "residuals"].includes(dataset.plot))) {
    if (element.dataset.plot === "map") how?.addEventListener("change", () => draw(element));
    element.on("plotly_hover", show);
    element.on("plotly_click", show);
    element.on("plotly_unhover", hide);
  }

  for (const table of document.querySelectorAll(".sortable")) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    for (const cell of data.map ? body.querySelectorAll("[data-drawing]") : []) {
      cell.innerHTML = data.map.drawings[cell.dataset.drawing];
    }
    const sort = (column) => {
      const rising = heads[column].getAttribute("aria-sort") !== "ascending";
      heads.forEach((head) => head.removeAttribute("aria-sort"));
      heads[column].setAttribute("aria-sort", rising ? "ascending" : "descending");
      const text = (row) => row.cells[column].textContent;
      const number = (row) => Number(text(row).replaceAll(",", ""));
      const order = (a, b) => number(a) - number(b) || text(a).localeCompare(text(b));
      body.append(...[...body.rows].sort((a, b) => (rising ? order(a, b) : order(b, a))));
    };
    heads.forEach((head, column) => {
      if (!head.textContent) return;
      head.tabIndex = 0;
      head.addEventListener("click", () => sort(column));
      head.addEventListener("keydown", ({ key }) => { if (key === "Enter") sort(column); });
    });
  }
  const resize = () => plots.forEach((element) => Plotly.Plots.resize(element));
  window.addEventListener("beforeprint", () => { wear("light"); resize(); });
  window.addEventListener("afterprint", () => { follow(); resize(); });
  root.dataset.ready = "yes";
})();
