// What the pages cannot do without a script: sending a file, waiting for work, pictures. No value is kept here.
"use strict";

const find = (selector) => document.querySelector(selector);

function seconds(count) {
  return count < 90 ? `${Math.max(1, Math.round(count))} s` : `${Math.round(count / 60)} min`;
}

// --- Opening a file

function send(file) {
  const drop = find("#drop"), bar = find("#upload-bar"), failed = find("#upload-failed");
  const fail = (text) => { failed.textContent = text; failed.hidden = false; bar.hidden = true; find("#upload").value = ""; };
  failed.hidden = true;
  if (file.size > Number(drop.dataset.limit)) return fail(drop.dataset.large);
  bar.hidden = false;
  const request = new XMLHttpRequest();
  request.open("PUT", `/upload?name=${encodeURIComponent(file.name)}`);
  request.upload.onprogress = (event) => { bar.value = event.loaded / event.total; };
  request.onerror = () => fail(drop.dataset.lost);
  request.onload = () => {
    let answer = {};
    try { answer = JSON.parse(request.responseText); } catch { /* no answer of ours */ }
    if (answer.go) location.assign(answer.go); else fail(answer.failed || drop.dataset.lost);
  };
  request.send(file);
}

function opening() {
  const drop = find("#drop");
  if (!drop) return;
  find("#upload").addEventListener("change", (event) => event.target.files[0] && send(event.target.files[0]));
  for (const kind of ["dragenter", "dragover", "dragleave", "drop"])
    drop.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.toggle("over", kind.startsWith("drage") || kind === "dragover"); });
  drop.addEventListener("drop", (event) => event.dataTransfer.files[0] && send(event.dataTransfer.files[0]));
}

// --- Waiting for work

async function waiting() {
  const work = find("#work");
  if (!work) return;
  const bar = find("#work-bar"), step = find("#work-step"), time = find("#work-time");
  let leaving = false; // what is said once is said on the page that a form leads to, not on a reload in between
  document.addEventListener("submit", () => { leaving = true; });
  for (;;) {
    let state;
    try { state = await (await fetch(work.dataset.progress)).json(); } catch { await pause(2000); continue; }
    if (leaving) return;
    if (state.over) return location.reload();
    if (state.step) step.textContent = state.step;
    if (state.share === null) bar.removeAttribute("value"); else bar.value = state.share;
    const left = state.left === null ? "" : `, ${time.dataset.left.replace("%s", seconds(state.left))}`;
    time.textContent = time.dataset.since.replace("%s", seconds(state.seconds)) + left;
    await pause(400);
  }
}

const pause = (time) => new Promise((done) => setTimeout(done, time));

// --- Forms

function forms() {
  // With the mouse a method is chosen at once; with the arrow keys one must be able to go through them.
  let pointed = false;
  document.addEventListener("pointerdown", () => { pointed = true; });
  document.addEventListener("keydown", () => { pointed = false; });
  for (const radio of document.querySelectorAll("#protect input[name=method]"))
    radio.addEventListener("change", () => pointed && find("#choose").click());
  const slider = find("input[data-ladder]");
  if (slider) slider.addEventListener("input", () => { find(`#${slider.dataset.for}`).value = slider.dataset.ladder.split("|")[slider.value]; });
  const choice = find("[name='param:perturb']");
  const show = () => {
    for (const part of document.querySelectorAll("[data-perturb]")) {
      const off = choice && part.dataset.perturb !== choice.value;
      part.hidden = off;
      part.querySelector("input, select").disabled = off;
    }
  };
  if (choice) { choice.addEventListener("change", show); show(); }
  for (const button of document.querySelectorAll("[data-copy]"))
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(find(`#${button.dataset.copy}`).textContent);
      button.textContent = button.dataset.done;
    });
}

// --- Pictures

const dark = matchMedia("(prefers-color-scheme: dark)");
const LIGHTER = { "#1f5fa8": "#7db4f0", "#c2570c": "#f2a071", "#1a1a1a": "#e8eaed", "#8a8a8a": "#9aa0a6" };

function style() {
  const ink = getComputedStyle(document.body).color;
  const grid = dark.matches ? "#3a3f47" : "#e3e6ea";
  const words = { labelColor: ink, titleColor: ink, labelFont: "inherit", titleFont: "inherit", labelFontSize: 11, titleFontSize: 12 };
  return {
    background: "transparent", font: "system-ui, sans-serif",
    axis: { ...words, gridColor: grid, domainColor: grid, tickColor: grid }, legend: { ...words },
    header: { ...words, labelFontWeight: 600 }, title: { color: ink }, view: { stroke: "transparent" },
  };
}

async function draw(place, spec) {
  let text = JSON.stringify(spec);
  if (dark.matches) for (const [from, to] of Object.entries(LIGHTER)) text = text.replaceAll(from, to);
  const lite = JSON.parse(text);
  lite.config = { ...lite.config, ...style() };
  // As many small pictures in a row as there is room for; those with names at their side are wider.
  if (lite.columns) lite.columns = Math.max(1, Math.floor(place.clientWidth / (lite.facet ? 310 : 245)));
  const compiled = vegaLite.compile(lite).spec;
  const view = new vega.View(vega.parse(compiled, null, { ast: true }), {
    expr: vegaInterpreter.expressionInterpreter, renderer: "svg", container: place, hover: true,
  });
  await view.runAsync();
  // The figure says what it shows; its parts are nothing to read out one by one.
  for (const part of place.querySelectorAll("svg, svg *"))
    for (const name of ["role", "aria-label", "aria-roledescription"]) part.removeAttribute(name);
  place.querySelector("svg").setAttribute("aria-hidden", "true");
}

async function pictures() {
  const place = find("#pictures");
  if (!place) return;
  const found = await (await fetch(place.dataset.pictures)).json();
  const render = async () => {
    place.textContent = "";
    for (const picture of found) {
      const card = Object.assign(document.createElement("section"), { className: "card" });
      const title = Object.assign(document.createElement("h2"), { textContent: picture.title });
      const words = Object.assign(document.createElement("p"), { className: "small", textContent: picture.description });
      const figure = document.createElement("figure");
      figure.className = "scroll";
      figure.tabIndex = 0;
      figure.setAttribute("role", "img");
      figure.setAttribute("aria-label", `${picture.title}. ${picture.description}`);
      card.append(title, words, figure);
      place.append(card);
      try { await draw(figure, picture.spec); } catch { figure.textContent = place.dataset.absent; }
    }
    place.dataset.drawn = "yes";
  };
  await render();
  dark.addEventListener("change", render);
}

async function scatter() {
  const place = find("#scatter");
  if (!place) return;
  const points = await (await fetch(place.dataset.points)).json();
  const [before, after] = place.dataset.words.split("|");
  const render = async () => {
    const x = find("#across").value, y = find("#up").value;
    const values = [["original", before], ["released", after]].flatMap(([file, word]) =>
      points[file][x].map((value, row) => ({ file: word, x: value, y: points[file][y][row] })));
    place.textContent = "";
    await draw(place, {
      data: { values }, width: 330, height: 300,
      mark: { type: "point", filled: true, size: 22, opacity: 0.55 },
      encoding: {
        column: { field: "file", type: "nominal", title: null, sort: [before, after] },
        x: { field: "x", type: "quantitative", title: x, axis: { tickCount: 5, format: "~s" } },
        y: { field: "y", type: "quantitative", title: y, axis: { tickCount: 5, format: "~s" } },
        color: { field: "file", type: "nominal", legend: null, scale: { domain: [before, after], range: ["#c2570c", "#1f5fa8"] } },
      },
    });
    place.dataset.drawn = "yes";
  };
  for (const id of ["#across", "#up"]) find(id).addEventListener("change", render);
  await render();
  dark.addEventListener("change", render);
}

// --- Raters

function rating() {
  const form = find("#rate");
  if (!form) return;
  const given = (side) => form.querySelector(`input[name=${side}]:checked`);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (/^[1-5]$/.test(event.key)) {
      const side = given("left") ? "right" : "left";
      const box = form.querySelector(`input[name=${side}][value="${event.key}"]`);
      box.checked = true;
      box.focus();
    } else if (event.key === "Backspace") {
      const last = given("right") || given("left");
      if (last) last.checked = false;
    } else if (event.key === "Enter" && event.target.tagName !== "BUTTON") {
      form.requestSubmit();
    } else return;
    event.preventDefault();
  });
  form.dataset.ready = "yes";
}

async function views() {
  for (const place of document.querySelectorAll("[data-view]")) {
    const found = await (await fetch(place.dataset.view)).json();
    const render = async () => {
      place.textContent = "";
      const charts = Object.assign(document.createElement("div"), { className: "charts" });
      place.append(charts);
      for (const spec of found.charts) {
        const figure = document.createElement("figure");
        figure.setAttribute("role", "img");
        figure.setAttribute("aria-label", `${place.dataset.side}: ${spec.title.text}`);
        charts.append(figure);
        try { await draw(figure, spec); } catch { figure.textContent = place.dataset.absent; }
      }
      place.append(figuresOf(found, place.dataset.side));
      place.dataset.drawn = "yes";
    };
    await render();
    dark.addEventListener("change", render);
  }
}

function figuresOf(found, side) {
  const box = Object.assign(document.createElement("div"), { className: "scroll", tabIndex: 0 });
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", side);
  const table = Object.assign(document.createElement("table"), { className: "data cells" });
  const line = (part, cells, first, others) => {
    const row = part.insertRow();
    cells.forEach((text, at) => {
      const cell = document.createElement(at ? others : first);
      if (cell.tagName === "TH") cell.scope = part.tagName === "THEAD" ? "col" : "row";
      cell.textContent = text;
      row.append(cell);
    });
  };
  line(table.createTHead(), ["", ...found.headings], "td", "th");
  const body = table.createTBody();
  for (const row of found.figures) line(body, row, "th", "td");
  box.append(table);
  return box;
}

opening();
rating();
views();
waiting();
forms();
pictures();
scatter();
