// Draws the map of all pairs from the data in the page.
(() => {
'use strict';

const data = JSON.parse(document.getElementById('data').textContent);
const at = id => document.getElementById(id);
const canvas = at('map');
if (!canvas) return;
const {agents, blocks} = data, n = agents.length;
const outliers = data.outliers ?? [];
const place = new Map(agents.map((name, i) => [name, i]));
const colour = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();

function figure(v) {
  const digits = Math.abs(v) >= 99.95 ? 0 : Math.abs(v) >= 9.995 ? 1 : 2;
  return v.toLocaleString('en', {minimumFractionDigits: digits, maximumFractionDigits: digits});
}
const scaled = units => v => {
  const [size, unit] = units.find(([size]) => v >= size * .9995) ?? units.at(-1);
  return figure(v / size) + ' ' + unit;
};
const write = {
  bandwidth: scaled([[125e6, 'Gbit/s'], [125e3, 'Mbit/s'], [125, 'kbit/s'], [.125, 'bit/s']]),
  latency: scaled([[1e6, 's'], [1e3, 'ms'], [1, 'µs']]),
};

// Shares of the median and their colours, from heat-0 on; between them colours are mixed.
const STOPS = [.4, .6, .8, 1, 1.2];
const LABELLED = 11; // pixels of a row from which on its name is written
const LABEL = 120; // and how wide names may be

const state = {grid: data.grids[0], from: 0, to: Math.min(1, n - 1), wanted: ''};

// good is a value as a share of the median, below 1 if it is worse.
const good = (g, v) => g.metric === 'latency' ? g.median / v : v / g.median;

function rgb(text) {
  const c = document.createElement('canvas').getContext('2d');
  c.fillStyle = text;
  const hex = parseInt(c.fillStyle.slice(1), 16);
  return [hex >> 16, hex >> 8 & 255, hex & 255];
}

function shades() {
  const stops = STOPS.map((_, i) => rgb(colour('heat-' + i)));
  return share => {
    if (share <= STOPS[0]) return stops[0];
    for (let i = 1; i < STOPS.length; i++) {
      if (share > STOPS[i]) continue;
      const part = (share - STOPS[i - 1]) / (STOPS[i] - STOPS[i - 1]);
      return stops[i].map((c, k) => Math.round(stops[i - 1][k] + part * (c - stops[i - 1][k])));
    }
    return stops.at(-1);
  };
}

// picture has one pixel for each pair.
let picture;
function paint() {
  const g = state.grid, shade = shades(), unknown = rgb(colour('unknown')), failed = rgb(colour('failed'));
  picture = new OffscreenCanvas(n, n);
  const c = picture.getContext('2d'), image = c.createImageData(n, n);
  const problems = new Set((g.problems ?? []).map(p => p.at));
  for (let i = 0; i < n * n; i++) {
    const v = g.values[i];
    image.data.set(v === null ? (problems.has(i) ? failed : unknown) : shade(good(g, v)), 4 * i);
    image.data[4 * i + 3] = 255;
  }
  c.putImageData(image, 0, 0);
}

// layout is where the map is on the canvas, in CSS pixels.
function layout() {
  const width = canvas.clientWidth, names = (width - LABEL) / n >= LABELLED;
  const left = names ? LABEL : 0, cell = (width - left) / n;
  return {width, left, cell, names, height: cell * n + 2};
}

// boxes are the places that an outlier takes, each [row, column, rows, columns]: of a
// block alone, all that it sends and receives.
function boxes(o) {
  if (o.kind === 'sends') return [[place.get(o.name), 0, 1, n]];
  if (o.kind === 'receives') return [[0, place.get(o.name), n, 1]];
  const ends = o.name.split('→');
  if (o.kind === 'pair') return [[place.get(ends[0]), place.get(ends[1]), 1, 1]];
  const [[from, rows], [to, columns]] = [ends[0], ends.at(-1)].map(b => [blocks.indexOf(b), blocks.lastIndexOf(b) - blocks.indexOf(b) + 1]);
  return ends.length > 1 ? [[from, to, rows, columns]] : [[from, 0, rows, n], [0, to, n, columns]];
}

function draw() {
  const {width, height, left, cell, names} = layout(), ratio = devicePixelRatio || 1;
  canvas.style.height = height + 'px';
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const c = canvas.getContext('2d');
  c.scale(ratio, ratio);
  c.imageSmoothingEnabled = false;
  c.drawImage(picture, left, 1, cell * n, cell * n);
  if (cell >= 6) {
    c.strokeStyle = colour('panel');
    c.beginPath();
    for (let i = 0; i <= n; i++) {
      c.moveTo(left + i * cell, 1);
      c.lineTo(left + i * cell, 1 + n * cell);
      c.moveTo(left, 1 + i * cell);
      c.lineTo(left + n * cell, 1 + i * cell);
    }
    c.stroke();
  }
  if (names) {
    c.font = Math.min(12, cell) + 'px ' + getComputedStyle(document.body).fontFamily;
    c.textBaseline = 'middle';
    agents.forEach((name, i) => {
      c.fillStyle = state.wanted && isWanted(i) ? colour('accent') : colour('text');
      c.fillText(name, 0, 1 + (i + .5) * cell, LABEL - 6);
    });
  }
  const outline = ([from, to, rows, columns], style, wide) => {
    if (!(from >= 0 && to >= 0)) return;
    c.strokeStyle = style;
    c.lineWidth = wide;
    c.strokeRect(left + to * cell, 1 + from * cell, columns * cell, rows * cell);
  };
  for (const o of outliers) {
    if (o.path === state.grid.path && o.metric === state.grid.metric) boxes(o).forEach(b => outline(b, colour('text'), 1.5));
  }
  if (state.wanted) {
    agents.forEach((_, i) => {
      if (!isWanted(i)) return;
      outline([i, 0, 1, n], colour('accent'), 1);
      outline([0, i, n, 1], colour('accent'), 1);
    });
  }
  if (document.activeElement === canvas) outline([state.from, state.to, 1, 1], colour('accent'), 3);
}

const isWanted = i => [agents[i], blocks[i]].some(t => t.toLowerCase().includes(state.wanted));

function tell() {
  const {from, to, grid: g} = state, i = from * n + to, v = g.values[i];
  const what = v !== null ? `${write[g.metric](v)}, ${figure(100 * v / g.median)} % of the median`
    : from === to ? 'itself' : (g.problems ?? []).find(p => p.at === i)?.why ?? 'not measured';
  const named = k => agents[k] + (blocks[k] ? ` (${blocks[k]})` : '');
  const within = ([a, b, rows, columns]) => from >= a && from < a + rows && to >= b && to < b + columns;
  const odd = outliers.filter(o => o.path === g.path && o.metric === g.metric && boxes(o).some(within));
  at('told').textContent = `${named(from)} → ${named(to)}: ${what}. ${odd.map(o => o.sentence.replace(/\.?$/, '.')).join(' ')}`;
}

function pointed(event) {
  const {left, cell} = layout(), box = canvas.getBoundingClientRect();
  const to = Math.floor((event.clientX - box.left - left) / cell), from = Math.floor((event.clientY - box.top - 1) / cell);
  if (from < 0 || to < 0 || from >= n || to >= n) return;
  Object.assign(state, {from, to});
  tell();
}

const MOVES = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [-Infinity, -Infinity], End: [Infinity, Infinity]};

function moved(event) {
  const move = MOVES[event.key];
  if (!move) return;
  event.preventDefault();
  const within = (v, by) => Math.max(0, Math.min(n - 1, v + by));
  Object.assign(state, {from: within(state.from, move[0]), to: within(state.to, move[1])});
  tell();
  draw();
}

function choose() {
  const path = at('path').value, metric = at('metric').value;
  state.grid = data.grids.find(g => g.path === path && g.metric === metric) ?? data.grids.find(g => g.path === path) ?? data.grids[0];
  at('metric').value = state.grid.metric;
  paint();
  draw();
  tell();
}

function scale() {
  const entry = (name, text) => {
    const e = document.createElement('span'), swatch = document.createElement('i');
    swatch.className = 'swatch';
    swatch.style.background = colour(name);
    e.append(swatch, text);
    return e;
  };
  at('scale').replaceChildren(
    ...STOPS.map((share, i) => entry('heat-' + i, `${Math.round(100 * share)} %`)),
    entry('failed', 'failed'), entry('unknown', 'not measured'), 'Percent of the median; of latencies, the median over the figure.');
}

function start() {
  at('path').append(...[...new Set(data.grids.map(g => g.path))].map(p => new Option(p, p)));
  at('metric').append(...[...new Set(data.grids.map(g => g.metric))].map(m => new Option(m, m)));
  for (const id of ['path', 'metric']) at(id).addEventListener('change', choose);
  at('choose').addEventListener('submit', event => event.preventDefault());
  at('find').addEventListener('input', () => { state.wanted = at('find').value.trim().toLowerCase(); draw(); });
  canvas.addEventListener('pointermove', pointed);
  canvas.addEventListener('pointerdown', pointed);
  canvas.addEventListener('keydown', moved);
  canvas.addEventListener('focus', () => { tell(); draw(); });
  canvas.addEventListener('blur', draw);
  const all = () => { scale(); paint(); draw(); };
  all();
  for (const query of ['(prefers-color-scheme: dark)', 'print']) matchMedia(query).addEventListener('change', all);
  let width = canvas.clientWidth;
  new ResizeObserver(() => { if (canvas.clientWidth !== width) { width = canvas.clientWidth; draw(); } }).observe(canvas);
}

start();
})();
