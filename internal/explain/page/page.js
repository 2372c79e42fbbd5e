// Draws waterfalls and curves from the data in the page, which has the shape of
// taper explain --json.
(() => {
'use strict';

const {axis, colour, figure, steps} = drawing;
const data = JSON.parse(document.getElementById('data').textContent);
const files = data.files ?? [], routes = data.routes ?? [], requests = data.requests ?? [];
const STREAMS = 8; // as many colours as page.css has
const PAGE = 100; // requests listed at once
const CAUSES = ['retransmit', 'dns', 'metadata', 'connect', 'tls', 'call', 'client-network', 'self'];

const at = id => document.getElementById(id);
const routeName = r => (r.method + ' ' + r.route).trim();
const isOf = route => r => r.method === route.method && r.route === route.route && r.protocol === route.protocol;

function element(tag, className, ...children) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  e.append(...children);
  return e;
}

function svg(tag, attributes, ...children) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

// Packets are counted through all files; Wireshark counts each file from 1.
// filters returns [{file, text}], a display filter for each file that has some.
function filters(packets) {
  const byFile = new Map();
  for (const n of [...new Set(packets)].filter(n => n > 0).sort((a, b) => a - b)) {
    const file = files.findLast(f => f.first_packet <= n) ?? {name: '', first_packet: 1};
    byFile.set(file, [...(byFile.get(file) ?? []), n - file.first_packet + 1]);
  }
  return [...byFile].map(([file, numbers]) => ({
    file: files.length > 1 ? file.name : '', text: `frame.number in {${numbers.join(', ')}}`,
  }));
}

let silence;
async function copy(text) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = false;
  }
  at('said').textContent = (done ? 'Copied: ' : 'Copy this: ') + text;
  clearTimeout(silence);
  silence = setTimeout(() => at('said').textContent = '', done ? 2500 : 15000);
}

function copyButton({file, text}) {
  const button = element('button', 'copy', text);
  button.type = 'button';
  button.addEventListener('click', () => copy(text));
  return file ? element('span', '', file + ': ', button) : button;
}

// strip is a request's time by cause.
function strip(r) {
  const whole = r.duration_ms || 1;
  const rects = r.slices.map(s => svg('rect', {
    class: 'fill-' + s.cause, x: 1000 * s.start_ms / whole, width: Math.max(1000 * s.ms / whole, 1), height: 10,
  }));
  const sums = CAUSES.map(c => [c, r.parts.filter(p => p.cause === c).reduce((sum, p) => sum + p.ms, 0)]).filter(([, ms]) => ms > 0);
  const label = sums.map(([c, ms]) => `${c} ${figure(ms)} ms`).join(', ');
  return svg('svg', {viewBox: '0 0 1000 10', preserveAspectRatio: 'none', role: 'img', 'aria-label': label}, ...rects);
}

function callName(c) {
  if (c.cause === 'dns') return `dns ${c.target} ${c.op}`;
  if (c.cause === 'metadata') return `metadata ${c.op} ${c.target}`;
  if (c.cause === 'tls') return `tls ${c.peer}`;
  return [c.peer, c.op, c.target].filter(Boolean).join(' ');
}

// lanes are the lines of a waterfall: each call, then what is no call, by cause and peer.
// A bar is {from, ms, packets, about}.
function lanes(r) {
  const streams = new Map();
  const stream = id => {
    if (!streams.has(id)) streams.set(id, streams.size % STREAMS);
    return streams.get(id);
  };
  const all = r.calls.map(c => ({
    name: callName(c), cause: c.cause, connection: c.stream, stream: stream(c.stream), ms: c.duration_ms, failed: c.failed,
    bars: [{
      from: c.start_ms, ms: c.duration_ms, packets: c.packets,
      about: [`${c.protocol} status ${c.status}${c.failed ? ', failed' : ''}`, `connection ${c.stream}`,
        c.link + (c.link === 'certain' ? '' : ` (${figure(100 * c.probability)} %)`)],
    }],
  }));
  const rest = new Map();
  for (const s of r.slices) {
    if (!['connect', 'retransmit', 'client-network', 'self'].includes(s.cause)) continue;
    const name = [s.cause, s.peer].filter(Boolean).join(' ');
    const lane = rest.get(name) ?? {name, cause: s.cause, ms: 0, bars: [], last: s.cause === 'self'};
    lane.ms += s.ms;
    lane.bars.push({from: s.start_ms, ms: s.ms, packets: s.packets, about: s.cause === 'self' ? ['no network activity'] : []});
    rest.set(name, lane);
  }
  return [...all, ...rest.values()].sort((a, b) => Boolean(a.last) - Boolean(b.last) || a.bars[0].from - b.bars[0].from);
}

function waterfall(r) {
  const whole = r.duration_ms || 1;
  const detail = element('div', 'detail');
  const name = l => {
    const e = element('span', 'name' + (l.failed ? ' failed' : ''), element('bdi', '', l.name));
    e.title = l.name;
    const chip = element('span', 'chip', l.connection ?? '');
    if (l.connection) {
      chip.classList.add('stream-' + l.stream);
      chip.title = 'connection ' + l.connection;
    }
    return [chip, e];
  };
  const rows = lanes(r).map(l => {
    const track = element('span', 'track' + (l.connection ? ' of-stream-' + l.stream : ''), ...l.bars.map(bar => {
      const button = element('button', 'fill-' + l.cause);
      button.type = 'button';
      const to = Math.min(bar.from + bar.ms, whole), from = Math.max(bar.from, 0);
      button.style.left = 100 * from / whole + '%';
      button.style.width = 100 * Math.max(to - from, 0) / whole + '%';
      const facts = [`${figure(bar.ms)} ms`, `from ${figure(bar.from)} to ${figure(bar.from + bar.ms)} ms`, ...bar.about];
      const shown = filters(bar.packets);
      button.setAttribute('aria-label', [l.name, ...facts, ...shown.map(f => f.text)].join(', '));
      const tell = () => {
        for (const b of detail.parentElement.querySelectorAll('.chosen')) b.classList.remove('chosen');
        button.classList.add('chosen');
        detail.replaceChildren(element('b', '', l.name), element('br'), facts.join(', '), element('br'), ...shown.flatMap(f => [copyButton(f), ' ']));
      };
      button.addEventListener('mouseenter', tell);
      button.addEventListener('focus', tell);
      button.addEventListener('click', () => { tell(); if (shown.length) copy(shown[0].text); });
      return button;
    }));
    return element('div', 'lane', ...name(l), track, element('span', '', figure(l.ms)));
  });
  const about = element('p', 'about', `from ${r.client} at ${r.start}, ${r.link}` +
    (r.link === 'certain' ? '' : `, confidence ${figure(100 * r.confidence)} %`) +
    (r.link === 'ambiguous' ? ': these calls may belong to other requests' : '') +
    (r.calls_omitted ? `; ${r.calls_omitted} calls are not shown` : '') + ' ');
  for (const f of filters(r.packets)) about.append(copyButton(f), ' ');
  return element('div', 'waterfall', about, ...rows, detail);
}

function listed(r) {
  const item = element('details', 'request');
  const status = element('span', r.failed ? 'worse' : '', String(r.status));
  const what = element('span', 'what', `${r.method} ${r.target}`);
  what.title = what.textContent;
  item.append(element('summary', '', element('span', '', figure(r.duration_ms) + ' ms'), what, status, strip(r)));
  item.addEventListener('toggle', () => {
    if (item.open && item.children.length === 1) item.append(waterfall(r));
  });
  return item;
}

// What is listed, and how much of it.
const state = {route: null, order: 'slowest', shown: PAGE};

function chosen() {
  const all = state.route === null ? [...requests] : requests.filter(isOf(routes[state.route]));
  if (state.order === 'slowest') all.sort((a, b) => b.duration_ms - a.duration_ms);
  return all;
}

function list() {
  const all = chosen();
  const shown = all.slice(0, state.shown);
  at('list').replaceChildren(...shown.map(listed));
  at('shown').textContent = `${shown.length} of ${all.length} shown`;
  at('more').hidden = shown.length === all.length;
  at('more').textContent = `${Math.min(PAGE, all.length - shown.length)} more`;
  for (const button of document.querySelectorAll('button.route')) {
    button.setAttribute('aria-pressed', String(Number(button.dataset.route) === state.route));
  }
}

function choose(route) {
  state.route = route;
  state.shown = PAGE;
  at('route').value = route ?? '';
  list();
  openFirst();
  drawCurves();
}

// openFirst shows one waterfall, so that people see that there are some.
function openFirst() {
  const first = at('list').firstElementChild;
  if (first) first.open = true;
}

const palette = i => colour('stream-' + i % STREAMS);
const MOST_CURVES = 6;
let chart;

// drawCurves draws the routes that took most time, or the one that was chosen.
function drawCurves() {
  const root = document.querySelector('#curves .plot');
  if (!root) return;
  const curves = (state.route === null ? routes.slice(0, MOST_CURVES) : [routes[state.route]])
    .map(r => ({name: routeName(r), points: r.percentiles.filter(p => p.quantile < 1 && p.ms > 0)}))
    .filter(c => c.points.length > 0);
  if (chart) chart.destroy();
  chart = null;
  document.querySelector('#curves .names')?.remove();
  if (curves.length === 0) return;
  root.before(element('div', 'names', ...curves.map((c, i) => element('span', '', element('i', 'swatch stream-' + i % STREAMS), c.name))));
  // One step on the axis leaves a tenth of the requests: x = log10(1/(1-q)).
  const lines = uPlot.join(curves.map(c => [c.points.map(p => -Math.log10(1 - p.quantile)), c.points.map(p => p.ms)]));
  const values = curves.flatMap(c => c.points.map(p => p.ms));
  const ticks = steps(Math.min(...values), Math.max(...values));
  chart = new uPlot({
    width: root.clientWidth, height: root.clientHeight, legend: {show: false},
    scales: {x: {time: false, range: [0, 3]}, y: {distr: 3, log: 10, range: [ticks[0], ticks.at(-1)]}},
    axes: [
      axis({splits: () => [0, Math.log10(2), 1, 2, 3], values: () => ['', 'p50', 'p90', 'p99', 'p99.9']}),
      axis({size: 64, splits: () => ticks, filter: (u, all) => all, values: (u, all) => all.map(v => v + (v === ticks.at(-1) ? ' ms' : ''))}),
    ],
    series: [{}, ...curves.map((c, i) => ({stroke: palette(i), width: 2, spanGaps: true, points: {show: false}}))],
    cursor: {points: {show: false}, drag: {x: false, y: false}},
  }, lines, root);
}

function start() {
  for (const button of document.querySelectorAll('.copy[data-packets]')) {
    const shown = filters(button.dataset.packets.split(' ').map(Number));
    button.replaceWith(...shown.flatMap(f => [copyButton(f), ' ']));
  }
  for (const button of document.querySelectorAll('button.route')) {
    button.addEventListener('click', () => {
      const route = Number(button.dataset.route);
      choose(state.route === route ? null : route);
    });
  }
  if (requests.length > 0) {
    at('choose').addEventListener('submit', e => e.preventDefault());
    at('route').addEventListener('change', e => choose(e.target.value === '' ? null : Number(e.target.value)));
    at('order').addEventListener('change', e => { state.order = e.target.value; list(); openFirst(); });
    at('more').addEventListener('click', () => {
      const {length} = at('list').children;
      state.shown += PAGE;
      at('list').append(...chosen().slice(length, state.shown).map(listed));
      const all = chosen().length, shown = at('list').children.length;
      at('shown').textContent = `${shown} of ${all} shown`;
      at('more').hidden = shown === all;
      at('more').textContent = `${Math.min(PAGE, all - shown)} more`;
    });
    list();
    openFirst();
  }
  drawCurves();
  for (const query of ['(prefers-color-scheme: dark)', 'print']) matchMedia(query).addEventListener('change', drawCurves);
  const root = document.querySelector('#curves .plot');
  if (root) new ResizeObserver(() => {
    if (chart && (chart.width !== root.clientWidth || chart.height !== root.clientHeight)) {
      chart.setSize({width: root.clientWidth, height: root.clientHeight});
    }
  }).observe(root);
}

start();
})();
