"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const redraw = [];
  let colors = data.themes.light;

  // Colours are names in the data: "@0", "@ink", "@sequential".
  const painted = (value) => {
    if (typeof value === "string" && value[0] === "@") return colors[value.slice(1)] ?? value;
    if (Array.isArray(value)) return value.map(painted);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, painted(v)]));
    }
    return value;
  };

  const axis = (own) => ({
    gridcolor: colors.grid, linecolor: colors.grid, zerolinecolor: colors.grid,
    tickfont: { color: colors.muted, size: 12 }, automargin: true, fixedrange: true, ...own,
    title: { text: own.title ?? "", font: { color: colors.ink, size: 13 }, standoff: 10 },
  });

  const layoutOf = (own, more = {}) => {
    const layout = painted(own);
    const found = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: false,
      margin: { l: 8, r: 12, t: 12, b: 8 },
      font: { family: "system-ui, sans-serif", color: colors.ink, size: 13 },
      hoverlabel: { bgcolor: colors.paper, bordercolor: colors.grid, font: { color: colors.ink } },
      legend: { orientation: "h", x: 0, y: 1.03, yanchor: "bottom", font: { size: 12 } },
      ...layout, ...more,
    };
    for (const name of ["xaxis", "yaxis", "xaxis2", "yaxis2"]) {
      if (found[name] || name === "xaxis" || name === "yaxis") found[name] = axis(found[name] ?? {});
    }
    return found;
  };

  const config = { responsive: true, displayModeBar: false, displaylogo: false };
  const draw = (element, traces, layout) =>
    Plotly.react(element, painted(traces).map((t) => ({ ...t, ...bar(t) })), layout, config);
  const bar = (trace) => {
    const of = (own) => ({
      thickness: 12, len: 0.9, outlinewidth: 0, tickfont: { color: colors.muted, size: 11 },
      ...(own ?? {}),
    });
    if (trace.type === "heatmap") return { colorbar: of(trace.colorbar) };
    if (trace.marker && trace.marker.showscale) {
      return { marker: { ...painted(trace.marker), colorbar: of(trace.marker.colorbar) } };
    }
    return {};
  };
  const narrow = () => root.clientWidth < 600;
  const show = (element, spec) => {
    let layout = spec.layout;
    if (spec.stack) {
      // Two panels stand side by side where there is room, else above each other.
      const tall = narrow();
      element.style.height = tall ? "640px" : "380px";
      const grid = { ...layout.grid, rows: tall ? 2 : 1, columns: tall ? 1 : 2 };
      layout = { ...layout, grid };
    }
    draw(element, spec.data, layoutOf(layout));
  };

  for (const element of document.querySelectorAll("[data-plot]")) {
    redraw.push(() => show(element, data.plots[element.dataset.plot]));
  }

  for (const figure of document.querySelectorAll("[data-choice]")) {
    const plots = data.choices[figure.dataset.choice];
    const select = figure.querySelector("select");
    const one = () => show(figure.querySelector(".plot"), plots[select ? Number(select.value) : 0]);
    if (select) select.addEventListener("change", one);
    redraw.push(one);
  }

  document.querySelectorAll(".sliding").forEach((block, number) => {
    const states = data.slides[number];
    const part = (name) => block.querySelector(`[data-part="${name}"]`);
    const input = block.querySelector("input");
    const rows = states.weights[0].map((_, k) => `scale ${k + 1}`);
    const steps = states.weights[0][0].map((_, k) => k + 1);
    const now = () => (input ? Number(input.value) : 0);
    const weights = () => draw(part("weights"), [{
      type: "heatmap", z: states.weights[now()], x: steps, y: rows, zmin: 0, zmax: 1,
      colorscale: "@sequential", xgap: 1, ygap: 3,
      hovertemplate: "%{y}, %{x} steps: %{z}<extra></extra>",
    }], layoutOf({
      xaxis: { title: "diffusion steps", showgrid: false },
      yaxis: { autorange: "reversed", showgrid: false },
    }));
    const responses = () => {
      const k = now();
      const lines = states.responses[k].map((y, j) => ({
        x: states.frequency[k], y, name: states.names[j], mode: "lines",
        line: { color: `@${j % 8}`, width: 2 },
      }));
      lines.push({
        x: states.frequency[k], y: states.energy[k], name: "Σ squares", mode: "lines",
        line: { color: "@ink", width: 1.5, dash: "dot" },
      });
      draw(part("responses"), lines, layoutOf({
        xaxis: { title: "graph frequency 1 − λ" }, yaxis: { title: "response", range: [0, 1.06] },
      }));
      block.querySelector(".bounds").textContent =
        `The sum of squares stays between ${states.lower[k].toFixed(3)} and ` +
        `${states.upper[k].toFixed(3)}: the frame bounds.`;
    };
    const expected = () => {
      if (!part("expected")) return;
      const here = states.labels[now()];
      const lines = rows.map((name, j) => ({
        x: states.labels, y: states.expected.map((row) => row[j]), name, mode: "lines+markers",
        marker: { size: states.labels.length > 30 ? 1 : 5 }, line: { color: `@${j % 8}`, width: 2 },
      }));
      draw(part("expected"), lines, layoutOf({
        xaxis: { title: states.label }, yaxis: { title: "diffusion steps", rangemode: "tozero" },
        shapes: [{
          type: "line", x0: here, x1: here, y0: 0, y1: 1, yref: "paper",
          line: { color: "@muted", width: 1.5, dash: "dot" },
        }],
      }));
    };
    const told = () => {
      if (!input) return;
      const label = states.words ? states.words[now()] : String(states.labels[now()]);
      block.querySelector("output").textContent = label;
      input.setAttribute("aria-valuetext", `${states.label} ${label}`);
    };
    const all = () => { weights(); responses(); expected(); told(); };
    if (input) {
      input.addEventListener("input", all);
      let timer = null;
      const play = block.querySelector(".play");
      const stop = () => { clearInterval(timer); timer = null; play.textContent = "play"; };
      play.addEventListener("click", () => {
        if (timer) return stop();
        if (now() === Number(input.max)) input.value = 0;
        play.textContent = "stop";
        timer = setInterval(() => {
          input.value = now() + 1;
          all();
          if (now() === Number(input.max)) stop();
        }, 120);
      });
    }
    redraw.push(all);
  });

  const hover = document.getElementById("hover");
  const hide = () => { hover.hidden = true; };
  const tell = (map, index, event) => {
    // Drawings are shapes that we made; everything else is text, whatever it looks like.
    hover.querySelector(".drawing").innerHTML = map.drawings[index];
    hover.querySelector("h4").textContent = map.names[index];
    const lines = map.lines[index].map((text) => {
      const line = document.createElement("p");
      line.textContent = text;
      return line;
    });
    hover.querySelector(".lines").replaceChildren(...lines);
    hover.hidden = false;
    const box = hover.getBoundingClientRect();
    const gap = 14;
    let left = event.clientX + gap;
    if (left + box.width > root.clientWidth - 8) left = event.clientX - gap - box.width;
    left = Math.max(8, Math.min(left, root.clientWidth - box.width - 8));
    let top = event.clientY + gap;
    if (top + box.height > window.innerHeight - 8) top = event.clientY - gap - box.height;
    hover.style.left = `${left}px`;
    hover.style.top = `${Math.max(8, top)}px`;
  };

  document.querySelectorAll(".map").forEach((figure, number) => {
    const map = data.maps[number];
    const element = figure.querySelector(".plot");
    const chosen = (name) => figure.querySelector(name)?.value;
    const kinds = Object.values(map.colors);
    const one = () => {
      const places = map.places[chosen(".way") ?? Object.keys(map.places)[0]];
      const coloring = kinds[Number(chosen(".color") ?? 0)];
      const trace = (indices, more) => ({
        x: indices.map((i) => places[i][0]), y: indices.map((i) => places[i][1]),
        customdata: indices, mode: "markers", type: "scatter", hoverinfo: "none", ...more,
      });
      const every = places.map((_, i) => i);
      const symbol = (shape) => (i) => (map.parts[i] === 0 ? `${shape}-open` : shape);
      const shapes = ["circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon", "x"];
      const traces = coloring.kind === "classes"
        ? coloring.names.map((name, k) => {
          const inside = every.filter((i) => coloring.values[i] === k);
          return trace(inside, {
            name, marker: {
              color: `@${k % 8}`, size: 8, opacity: 0.85,
              symbol: inside.map(symbol(shapes[k % shapes.length])),
            },
          });
        })
        : [trace(every, {
          showlegend: false, marker: {
            color: coloring.values, colorscale: "@points", showscale: true, size: 8, opacity: 0.9,
            symbol: every.map(symbol("circle")),
          },
        })];
      draw(element, traces, layoutOf({
        xaxis: { showticklabels: false, zeroline: false, showgrid: false },
        yaxis: { showticklabels: false, zeroline: false, showgrid: false },
      }, { hovermode: "closest" }));
    };
    for (const select of figure.querySelectorAll("select")) select.addEventListener("change", one);
    redraw.push(one);
    redraw.push(() => {
      if (element.dataset.listens) return;
      element.dataset.listens = "yes";
      const point = (event) => tell(map, event.points[0].customdata, event.event);
      element.on("plotly_hover", point);
      element.on("plotly_click", point);
      element.on("plotly_unhover", hide);
    });
  });
  document.addEventListener("scroll", hide, { passive: true });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  const button = document.getElementById("theme");
  const wear = (name) => {
    root.dataset.theme = name;
    colors = data.themes[name];
    button.textContent = name === "dark" ? "light" : "dark";
    button.setAttribute("aria-label", `use ${button.textContent} colours`);
    redraw.forEach((one) => one());
  };
  button.hidden = false;
  button.addEventListener("click", () => wear(root.dataset.theme === "dark" ? "light" : "dark"));
  dark.addEventListener("change", () => wear(dark.matches ? "dark" : "light"));
  let width = narrow();
  window.addEventListener("resize", () => {
    if (narrow() !== width) { width = narrow(); redraw.forEach((one) => one()); }
  });
  wear(dark.matches ? "dark" : "light");
  root.dataset.ready = "yes";
})();
