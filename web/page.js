"use strict";
// The explorer of series, the list of runs, and the health of the daemon. Everything that it shows comes from the daemon that
// serves it; names are only ever set as text, never as HTML.
(() => {
  const $ = (id) => document.getElementById(id);
  const LISTED = 200;
  const DRAWN = 60;
  const COLORS = 6;
  const SECTIONS = ["explore", "runs", "health"];
  // live: "" shows a fixed range, "slide" one that ends now, "grow" also keeps its beginning.
  const state = { target: "", from: 0, until: 0, past: [], plot: null, curves: [], live: "" };
  const EACH_MS = 2000;

  const api = async (path, parameters) => {
    const response = await fetch(`${path}?${new URLSearchParams(parameters)}`);
    const text = await response.text();
    if (!response.ok) throw new Error(text.trim() || `status ${response.status}`);
    return JSON.parse(text);
  };
  const make = (tag, text, attributes = {}) => {
    const element = document.createElement(tag);
    element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const number = (value, digits = 5) => {
    if (value === null || !Number.isFinite(value)) return "unknown";
    if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en");
    return value.toLocaleString("en", { maximumSignificantDigits: digits });
  };
  const time = (seconds) => new Date(seconds * 1000).toISOString().replace("T", " ").replace(/\.000Z$/, " UTC");
  const message = (text) => {
    $("message").textContent = text;
    $("message").hidden = !text;
  };

  // Where one is: in the fragment, so that a view can be sent to others and restored.
  const view = () => {
    const [name, query] = location.hash.replace(/^#/, "").split("?");
    return { name: SECTIONS.includes(name) ? name : "explore", query: new URLSearchParams(query || "") };
  };
  const remember = () => {
    const query = new URLSearchParams({ target: state.target, from: state.from, until: state.until });
    if (state.live) query.set("live", state.live);
    history.replaceState(null, "", `#explore?${query}`);
  };

  // Series.
  let searches = 0;
  const search = async () => {
    const turn = ++searches;
    const words = $("search").value.trim();
    let answer;
    try {
      answer = await api("api/series", { search: words, limit: LISTED });
    } catch (error) {
      $("count").textContent = error.message;
      return;
    }
    if (turn !== searches) return;
    const count = answer.count;
    $("count").textContent = answer.stored === 0
      ? "No series yet. Send some, or import a file: tachograph import FILE"
      : count === 0 ? `None of ${number(answer.stored)} series matches.`
      : count > answer.series.length ? `${number(count)} series, the first ${answer.series.length} shown`
      : `${number(count)} series`;
    $("found").replaceChildren(...answer.series.map((series) => {
      const item = document.createElement("li");
      const button = make("button", series.name, { type: "button" });
      if (series.tags) button.append(make("small", series.tags));
      button.addEventListener("click", () => show(series.path, null));
      item.append(button);
      return item;
    }));
    return answer;
  };

  // A new target keeps the range; without one, it shows all data.
  const show = async (target, range) => {
    $("target").value = target;
    state.target = target;
    state.past = [];
    if (range) [state.from, state.until] = range;
    if (!range && !(state.until > state.from)) return all();
    await load();
    if (!range && state.curves.every((curve) => curve.total === null)) await all();
  };
  const all = async () => {
    if (!state.target) return;
    try {
      const span = await api("api/span", { target: state.target });
      if (span.from === null) {
        state.curves = [];
        draw();
        message("");
        $("range").textContent = "";
        empty("This target selects no data.");
        return;
      }
      await zoom(span.from, span.until);
    } catch (error) {
      message(error.message);
    }
  };
  const zoom = async (from, until) => {
    follow("");
    from = Math.floor(from);
    until = Math.max(Math.ceil(until), from + 1);
    if (state.until > state.from) state.past.push([state.from, state.until]);
    [state.from, state.until] = [from, until];
    await load();
  };
  const back = async () => {
    const before = state.past.pop();
    if (!before) return;
    follow("");
    [state.from, state.until] = before;
    await load();
  };

  // Reads again every two seconds while the page is visible. Any zoom ends it.
  let ticks = 0;
  // A chart that is drawn anew would lose the selection in progress.
  let dragging = false;
  $("chart").addEventListener("pointerdown", () => { dragging = true; });
  addEventListener("pointerup", () => { dragging = false; });
  const follow = (live) => {
    state.live = live;
    clearTimeout(ticks);
    $("live").setAttribute("aria-pressed", String(Boolean(live)));
    if (live) ticks = setTimeout(tick, 0);
  };
  const tick = async () => {
    if (!state.live || view().name !== "explore") return;
    if (!document.hidden && state.target && !dragging) {
      const now = Math.floor(Date.now() / 1000);
      if (state.live === "slide") state.from += now - state.until;
      state.until = Math.max(now, state.from + 1);
      await load();
    }
    clearTimeout(ticks);
    if (state.live) ticks = setTimeout(tick, EACH_MS);
  };

  let loads = 0;
  const load = async () => {
    if (!state.target) return;
    const points = Math.max(60, Math.min(2000, Math.round($("chart").clientWidth / 2)));
    const asked = { target: state.target, from: state.from, until: state.until, maxDataPoints: points };
    const turn = ++loads;
    try {
      const answer = await api("api/curves", asked);
      if (turn !== loads) return;
      message("");
      state.curves = answer.curves;
      remember();
      draw();
      details(answer, asked);
    } catch (error) {
      if (turn === loads) message(error.message);
    }
    $("back").disabled = state.past.length === 0;
  };

  const colors = () => {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(name).trim();
    return { lines: [0, 1, 2, 3, 4, 5].map((n) => get(`--s${n}`)), ink: get("--ink"), muted: get("--muted"), grid: get("--grid") };
  };
  const dashes = [[], [8, 4], [2, 4], [10, 3, 2, 3]];
  const empty = (text) => {
    if (state.plot) state.plot.destroy();
    state.plot = null;
    $("chart").replaceChildren(make("div", text, { class: "empty" }));
  };

  // All curves over the times of any of them. The last value is repeated at the end of its slot, so
  // that its area is drawn too.
  const aligned = (curves) => {
    const places = new Map();
    for (const curve of curves) {
      for (let i = 0; i <= curve.values.length; i++) places.set(curve.start + i * curve.step, 0);
    }
    const times = [...places.keys()].sort((a, b) => a - b);
    times.forEach((at, place) => places.set(at, place));
    const rows = curves.map((curve) => {
      const row = new Array(times.length).fill(undefined);
      const values = [...curve.values, curve.values.at(-1)];
      values.forEach((value, i) => { row[places.get(curve.start + i * curve.step)] = value; });
      return row;
    });
    return [times, ...rows];
  };

  const draw = () => {
    const curves = state.curves.slice(0, DRAWN);
    const known = curves.filter((curve) => curve.values.some((value) => value !== null));
    if (known.length === 0) {
      empty(curves.length === 0 ? "No series matches this target." : "No data in this range. “All data” shows where there is some.");
      return;
    }
    const color = colors();
    const axis = { stroke: color.muted, grid: { stroke: color.grid, width: 1 }, ticks: { stroke: color.grid, width: 1 }, font: "12px system-ui, sans-serif" };
    // 24 hours, in UTC, with the date below the first time of each day.
    const day = "{YYYY}-{MM}-{DD}";
    const times = [
      [86400 * 365, "{YYYY}", null, null, null, null, null, null, 1],
      [86400 * 28, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
      [86400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
      [60, "{HH}:{mm}", `\n${day}`, null, `\n${day}`, null, null, null, 1],
      [1, "{HH}:{mm}:{ss}", `\n${day}`, null, `\n${day}`, null, null, null, 1],
    ];
    const isRate = curves.every((curve) => curve.kind === "flow");
    const stepped = uPlot.paths.stepped({ align: 1 });
    const options = {
      width: Math.max(200, $("chart").clientWidth),
      height: 340,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
      scales: { x: { time: true, min: state.from, max: state.until }, y: { range: (plot, low, high) => extent(low, high) } },
      axes: [{ ...axis, values: times, space: 70 }, { ...axis, size: 66, label: isRate ? "per second" : undefined, labelSize: 18, labelFont: axis.font, values: (plot, ticks) => ticks.map((tick) => number(tick)) }],
      series: [{}, ...curves.map((curve, n) => ({
        label: curve.name,
        stroke: color.lines[n % color.lines.length],
        dash: dashes[Math.floor(n / color.lines.length) % dashes.length],
        width: 1.6,
        fill: curves.length === 1 ? `${color.lines[0]}22` : undefined,
        paths: stepped,
        points: { show: curve.values.length < 3 },
        spanGaps: false,
      }))],
      cursor: { drag: { x: true, y: false, setScale: false }, y: false, bind: { dblclick: () => () => { back(); return null; } } },
      legend: { show: false },
      hooks: {
        setSelect: [(plot) => {
          const { left, width } = plot.select;
          if (width < 3) return;
          const [from, until] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
          plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
          zoom(from, until);
        }],
        setCursor: [(plot) => under(plot.cursor.idx)],
      },
    };
    if (state.plot) state.plot.destroy();
    $("chart").replaceChildren();
    state.plot = new uPlot(options, aligned(curves), $("chart"));
    $("chart").setAttribute("aria-label", `Chart of ${curves.length} series${isRate ? ", per second" : ""}`);
    under(null);
  };
  // Counts begin at 0, because the area is the total.
  const extent = (low, high) => {
    if (low === null || high === null) return [0, 1];
    const [least, most] = [Math.min(0, low), Math.max(0, high)];
    const margin = (most - least || 1) * 0.06;
    return [least < 0 ? least - margin : 0, most + margin];
  };
  const under = (place) => {
    const times = `${time(state.from)} to ${time(state.until)}`;
    const curve = state.curves[0];
    const step = curve ? `; one point is ${length(curve.step)}` : "";
    if (place === null || place === undefined || !state.plot) {
      $("range").textContent = times + step;
      return;
    }
    const shown = state.curves.slice(0, 4).map((one, n) => `${one.name}: ${number(state.plot.data[n + 1][place] ?? null)}`);
    $("range").textContent = `${time(state.plot.data[0][place])}  ${shown.join("; ")}`;
  };
  const length = (seconds) => {
    for (const [name, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
      if (seconds >= size && seconds % size === 0) return `${seconds / size} ${name}`;
    }
    return `${seconds} s`;
  };

  // The area under each curve in this range, and where it comes from.
  const details = (answer, asked) => {
    const rows = state.curves.slice(0, DRAWN).map((curve, n) => {
      const row = document.createElement("tr");
      const name = make("td", "");
      const key = document.createElement("i");
      key.style.borderTopColor = `var(--s${n % COLORS})`;
      key.style.borderTopStyle = Math.floor(n / COLORS) % 2 ? "dashed" : "solid";
      name.append(key, curve.name);
      const unit = curve.kind === "flow" ? "" : " ×s";
      const rate = curve.kind === "flow" ? "/s" : "";
      const known = curve.range > 0 ? curve.known / curve.range : 0;
      row.append(
        name,
        make("td", curve.total === null ? "unknown" : number(curve.total, 9) + unit),
        make("td", curve.mean === null ? "unknown" : number(curve.mean) + rate),
        make("td", curve.min === null ? "unknown" : number(curve.min) + rate),
        make("td", curve.max === null ? "unknown" : number(curve.max) + rate),
        make("td", `${number(Math.round(known * 1000) / 10)}%`),
      );
      return row;
    });
    $("totals").tBodies[0].replaceChildren(...rows);
    $("totals").hidden = rows.length === 0;
    if (state.curves.length > DRAWN) message(`${number(state.curves.length)} series; the first ${DRAWN} are drawn.`);
    const query = new URLSearchParams({ target: asked.target, from: asked.from, until: asked.until, maxDataPoints: asked.maxDataPoints });
    $("curl").textContent = `curl '${location.origin}${location.pathname}render?${query.toString().replaceAll("'", "%27")}'`;
    $("sql").textContent = answer.sql.join("\n\n") || "-- no series is selected";
    $("sources").hidden = false;
  };

  // Runs. The list is read again while one of them may be running.
  let runTicks = 0;
  const curvesOf = (run) => {
    const target = `aliasByTags(seriesByTag('run=${run.id}', 'name=requests.completed', 'offer!=calibration', 'offer!=warm-up'), 'part', 'variant', 'offer')`;
    const query = new URLSearchParams({ target, from: run.started_s, until: run.ended_s ?? run.started_s + 60 });
    if (run.live) query.set("live", "grow");
    return `#explore?${query}`;
  };
  const listRuns = async () => {
    clearTimeout(runTicks);
    try {
      const answer = await api("api/runs", {});
      $("run-list").replaceChildren(...answer.runs.map((run) => {
        const item = document.createElement("li");
        const curves = make("a", run.live ? "Watch its requests/s" : "Its requests/s", { href: curvesOf(run), class: "curves" });
        const line = make("p", `${run.id}, ${run.started} · `, { class: "small muted" });
        line.append(curves);
        item.append(make("a", run.title, { href: `runs/${encodeURIComponent(run.id)}` }), make("p", run.outcome), line);
        return item;
      }));
      if (answer.runs.some((run) => run.live)) {
        runTicks = setTimeout(() => { if (view().name === "runs") listRuns(); }, EACH_MS);
      }
      $("no-runs").textContent = answer.note;
      $("no-runs").hidden = !answer.note;
    } catch (error) {
      $("no-runs").textContent = error.message;
      $("no-runs").hidden = false;
    }
  };

  // Health: the daemon's figures about itself, in the text format of OpenMetrics.
  let healthTicks = 0;
  const bytes = (count) => {
    const units = ["B", "KiB", "MiB", "GiB"];
    const power = Math.min(Math.floor(Math.log2(Math.max(count, 1)) / 10), units.length - 1);
    return `${number(count / 1024 ** power, 3)} ${units[power]}`;
  };
  const figures = (text) => text.split("\n").flatMap((line) => {
    const found = /^tachograph_(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!found) return [];
    const labels = {};
    for (const [, name, value] of (found[2] || "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[name] = value.replace(/\\(.)/g, "$1");
    }
    return [{ name: found[1], labels, value: Number(found[3]) }];
  });
  const row = (cells) => {
    const made = document.createElement("tr");
    made.append(...cells.map((cell) => make("td", cell)));
    return made;
  };
  const REFUSED = { refused_lines_total: "lines", turned_away_total: "requests, connections or datagrams" };
  const showHealth = async () => {
    clearTimeout(healthTicks);
    try {
      const [health, metrics] = await Promise.all([fetch("health"), fetch("metrics")]);
      if (!metrics.ok) throw new Error(`the daemon's figures cannot be read: status ${metrics.status}`);
      const [said, all] = [(await health.text()).trim(), figures(await metrics.text())];
      const one = (name) => all.find((figure) => figure.name === name)?.value ?? NaN;
      const each = (name) => all.filter((figure) => figure.name === name && figure.value > 0);
      const sum = (name) => each(name).reduce((total, figure) => total + figure.value, 0);
      const dropped = sum("datagrams_dropped_total");
      const fill = (name) => {
        const [used, limit] = [one(`${name}_bytes`), one(`${name}_max_bytes`)];
        return `${bytes(used)} of ${bytes(limit)} (${(100 * used / limit).toFixed(1)}%)`;
      };
      $("figures").tBodies[0].replaceChildren(...[
        ["Record", health.ok ? "can be read and written" : said],
        ["Senders", one("full") ? "must wait" : "need not wait"],
        ["Oldest line that is not in the record", `${number(one("oldest_unwritten_seconds"), 3)} s`],
        ["Journal", fill("journal")],
        ["Memory of unwritten updates", fill("head")],
        ["Lines received", number(sum("lines_total"))],
        ...each("lines_total").map(({ labels, value }) => [`by ${labels.way.replaceAll("_", " ")}`, number(value)]),
        ["Datagrams dropped by the kernel", `${number(dropped)} of ${number(dropped + sum("datagrams_total"))}`],
        ["Updates accepted", number(one("updates_total"))],
      ].map(row));
      const refused = all.filter((figure) => figure.name in REFUSED).sort((a, b) => b.value - a.value);
      $("refused").tBodies[0].replaceChildren(...refused.map(({ name, labels, value }) =>
        row([labels.sender, labels.way, labels.reason.replaceAll("_", " "), REFUSED[name], number(value)])));
      $("refused").hidden = !refused.length;
      $("none-refused").hidden = refused.length > 0;
      $("no-figures").hidden = true;
    } catch (error) {
      $("no-figures").textContent = error.message;
      $("no-figures").hidden = false;
    }
    healthTicks = setTimeout(() => { if (view().name === "health") showHealth(); }, EACH_MS);
  };

  const route = async () => {
    const { name, query } = view();
    for (const section of SECTIONS) {
      $(section).hidden = section !== name;
      if (section === name) $(`to-${section}`).setAttribute("aria-current", "page");
      else $(`to-${section}`).removeAttribute("aria-current");
    }
    if (name !== "explore") {
      follow("");
      return name === "runs" ? listRuns() : showHealth();
    }
    const found = await search();
    const target = query.get("target");
    const [from, until] = [Number(query.get("from")), Number(query.get("until"))];
    const live = query.get("live");
    if (target) {
      await show(target, until > from ? [from, until] : null);
      follow(live === "grow" || live === "slide" ? live : "");
    } else if (!state.target) empty(found && found.stored === 0 ? "Nothing is recorded yet." : "Choose a series.");
  };

  const move = (by) => {
    const width = (state.until - state.from) * by;
    return zoom(state.from + width, state.until + width);
  };
  const scale = (by) => {
    const [middle, half] = [(state.from + state.until) / 2, (state.until - state.from) / 2 * by];
    return zoom(middle - half, middle + half);
  };
  const keys = {
    ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25),
    "+": () => scale(0.5), "=": () => scale(0.5), "-": () => scale(2), "−": () => scale(2), Backspace: back,
  };

  let typed = 0;
  $("search").addEventListener("input", () => { clearTimeout(typed); typed = setTimeout(search, 120); });
  $("query").addEventListener("submit", (event) => { event.preventDefault(); show($("target").value.trim(), null); });
  for (const button of document.querySelectorAll("[data-range]")) {
    button.addEventListener("click", () => {
      const now = Math.floor(Date.now() / 1000);
      zoom(now - Number(button.dataset.range), now);
    });
  }
  $("all").addEventListener("click", all);
  $("live").addEventListener("click", () => {
    if (!state.target) return;
    follow(state.live ? "" : "slide");
    remember();
  });
  $("back").addEventListener("click", back);
  $("chart").addEventListener("keydown", (event) => {
    const action = keys[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey || !state.target) return;
    event.preventDefault();
    action();
  });
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      const text = $(button.dataset.copy).textContent;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        // Without a secure origin there is no clipboard; the text is selected instead.
        getSelection().selectAllChildren($(button.dataset.copy));
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
  let resized = 0;
  const resize = () => {
    clearTimeout(resized);
    resized = setTimeout(() => { if (dragging) resize(); else if (state.curves.length) draw(); }, 150);
  };
  addEventListener("resize", resize);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (state.curves.length) draw(); });
  addEventListener("hashchange", route);
  route();
})();
