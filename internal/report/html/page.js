// Draws the charts of the page from the data in it. Everything drawn here is in
// the page's tables too.
(() => {
'use strict';

const {axis, colour, element, figure, keepDrawn, known, percentileName, steps, tooltip} = drawing;
const {arms, lines} = JSON.parse(document.getElementById('data').textContent);
const ARMS = 12, DEMANDS = 6; // as many colours as page.css has of each

// A plot is a figure's chart; draw() makes it anew, in the colours of the moment.
const plots = [];

const armColour = i => colour('arm-' + i % ARMS);
const demandColour = i => colour('demand-' + i % DEMANDS);

// The first arm is dashed, as what the others are compared with; colours that are like
// another's come as dots.
const armDash = i => i === 0 ? [6, 4] : i >= ARMS / 2 ? [2, 2] : undefined;
const armSwatch = i => i === 0 ? 'line dashed' : i >= ARMS / 2 ? 'line dotted' : 'line';

function swatch(kind, value) {
  const e = element('i', 'swatch ' + kind);
  e.style.setProperty('--swatch', value);
  return e;
}

// demands are the kinds of endpoint, in the order in which they first appear.
const demands = [...new Set(arms.flatMap(a => a.endpoints.map(e => e.demand)))];

// Each entry of a legend shows and hides its series.
// entries: [{name, kind, colour(), series: [index into the chart's series]}]
function legend(plot, entries, note) {
  const list = element('div', 'legend');
  for (const entry of entries) {
    const button = element('button');
    button.type = 'button';
    button.setAttribute('aria-pressed', 'true');
    entry.paint = () => button.replaceChildren(swatch(entry.kind, entry.colour()), entry.name);
    button.addEventListener('click', () => {
      entry.hidden = !entry.hidden;
      button.setAttribute('aria-pressed', String(!entry.hidden));
      for (const i of entry.series) plot.chart.setSeries(i, {show: !entry.hidden});
    });
    list.append(button);
  }
  if (note) list.append(note);
  plot.root.before(list);
  plot.entries = entries;
}

// add makes a plot in a figure; options() and data are as uPlot has them.
function add(root, data, options) {
  const plot = {root};
  plot.size = () => ({width: root.clientWidth, height: root.clientHeight});
  plot.draw = () => {
    if (plot.chart) plot.chart.destroy();
    for (const entry of plot.entries) entry.paint();
    plot.chart = new uPlot({...plot.size(), legend: {show: false}, ...options()}, data, root);
    for (const entry of plot.entries) {
      if (entry.hidden) entry.series.forEach(i => plot.chart.setSeries(i, {show: false}));
    }
  };
  plots.push(plot);
  return plot;
}

function drawCurves(root) {
  const curves = arms.map((a, i) => ({...a.curve, name: a.name, arm: i})).filter(c => c.quantiles.length > 1);
  // One step on the axis leaves a tenth of the requests: x = log10(1/(1-q)).
  const tables = curves.map(c => [c.quantiles.map(q => -Math.log10(1 - q)), c.latencies]);
  const data = uPlot.join(tables);
  const last = data[0].at(-1);
  // The fastest tenth may be of any size, and nobody asks for it.
  const latencies = curves.flatMap(c => c.latencies.filter((v, i) => c.quantiles[i] >= Math.min(.1, c.quantiles.at(-1))));
  const ticks = steps(latencies.reduce((a, b) => Math.min(a, b)), latencies.reduce((a, b) => Math.max(a, b)));
  const plot = add(root, data, () => ({
    scales: {
      x: {time: false, range: [0, Math.max(last, 1)]},
      y: {distr: 3, log: 10, range: [ticks[0], ticks.at(-1)]},
    },
    axes: [
      axis({splits: () => [Math.log10(2), 1, 2, 3, 4, 5, 6].filter(x => x <= last + 1e-9), values: (u, all) => all.map(percentileName)}),
      axis({splits: () => ticks, filter: (u, all) => all, values: (u, all) => all.map(v => v + (v === ticks.at(-1) ? ' ms' : '')), size: 68}),
    ],
    series: [{}, ...curves.map(c => ({
      stroke: armColour(c.arm), width: 2, dash: armDash(c.arm), spanGaps: true, points: {show: false},
    }))],
    plugins: [tooltip((u, i) => ({
      title: 'p' + +(100 * (1 - 10 ** -data[0][i])).toFixed(3),
      lines: curves.map((c, n) => [c.name, figure(data[n + 1][i]) + ' ms']),
    }))],
  }));
  legend(plot, curves.map((c, n) => ({
    name: c.name, kind: armSwatch(c.arm), colour: () => armColour(c.arm), series: [n + 1],
  })));
}

// groups are neighbouring endpoints of the same demand, to label them once.
function groups(endpoints) {
  const all = [];
  endpoints.forEach((e, i) => {
    const name = e.demand || e.address;
    if (all.length && all.at(-1).name === name) all.at(-1).last = i;
    else all.push({name, first: i, last: i});
  });
  return all;
}

// spaced leaves out labels that would run into the one before.
function spaced(u, centres, names) {
  let free = -Infinity;
  u.ctx.save();
  u.ctx.font = u.axes[0].font[0];
  const shown = centres.map((centre, i) => {
    const half = u.ctx.measureText(names[i]).width / 2, at = u.valToPos(centre, 'x', true);
    if (at - half < free) return '';
    free = at + half + 4 * devicePixelRatio;
    return names[i];
  });
  u.ctx.restore();
  return shown;
}

function drawBars(root, field, unit) {
  const endpoints = arms.reduce((most, a) => a.endpoints.length > most.length ? a.endpoints : most, []);
  const labels = groups(endpoints);
  const centres = labels.map(g => (g.first + g.last) / 2);
  const of = arms.map(a => new Map(a.endpoints.map(e => [e.address, e[field]])));
  const data = [endpoints.map((e, i) => i), ...of.map(values => endpoints.map(e => values.get(e.address) ?? null))];
  const slot = .8 / arms.length;
  const bars = n => uPlot.paths.bars({disp: {
    x0: {unit: 1, values: () => endpoints.map((e, i) => i - .4 + n * slot)},
    size: {unit: 1, values: () => [slot * .92]},
  }});
  const separate = u => {
    u.ctx.save();
    u.ctx.fillStyle = colour('line');
    for (const g of labels.slice(1)) {
      u.ctx.fillRect(Math.round(u.valToPos(g.first - .5, 'x', true)), u.bbox.top, 1, u.bbox.height + 6 * devicePixelRatio);
    }
    u.ctx.restore();
  };
  const plot = add(root, data, () => ({
    scales: {x: {time: false, range: [-.5, endpoints.length - .5]}, y: {range: (u, min, max) => [0, max > 0 ? max * 1.08 : 1]}},
    axes: [
      axis({splits: () => centres, values: u => spaced(u, centres, labels.map(g => g.name)), gap: 8, grid: {show: false}, ticks: {show: false}}),
      axis({size: 44}),
    ],
    series: [{}, ...arms.map((a, n) => ({fill: armColour(n), stroke: armColour(n), width: 0, paths: bars(n), points: {show: false}}))],
    hooks: {drawAxes: [separate]},
    cursor: {points: {show: false}, y: false},
    plugins: [tooltip((u, i) => ({
      title: endpoints[i].address + (endpoints[i].address.endsWith(endpoints[i].demand) ? '' : ' ' + endpoints[i].demand),
      lines: arms.map((a, n) => [a.name, figure(data[n + 1][i]) + unit]),
    }))],
  }));
  legend(plot, arms.map((a, n) => ({name: a.name, kind: '', colour: () => armColour(n), series: [n + 1]})));
}

// All arms' shares are drawn to one scale, to be compared.
const topShare = () => arms.reduce((top, a) => a.decisions.reduce((t, d) => d.shares.reduce((s, v) => Math.max(s, v ?? 0), t), top), 0);

function drawShares(root, arm) {
  const {endpoints, decisions} = arm;
  const times = decisions.map(d => d.at_s);
  // A decision holds until the next, the last one for as long as the one before.
  const end = times.at(-1) + (times.length > 1 ? times.at(-1) - times.at(-2) : 1);
  const data = [[...times, end], ...endpoints.map((e, n) => [...decisions, decisions.at(-1)].map(d => d.shares[n]))];
  const top = topShare() * 1.08 || 1;
  const range = (kind, i) => {
    const shares = endpoints.flatMap((e, n) => e.demand === kind && known(data[n + 1][i]) ? [data[n + 1][i] * 100] : []);
    const low = figure(Math.min(...shares)), high = figure(Math.max(...shares));
    return shares.length === 0 ? '–' : (low === high ? low : low + '..' + high) + ' %';
  };
  const marks = u => {
    const x = v => u.valToPos(v, 'x', true), {left, top, width, height} = u.bbox;
    u.ctx.save();
    u.ctx.fillStyle = colour('held');
    decisions.forEach((d, i) => {
      if (d.held) u.ctx.fillRect(x(times[i]), top, x(times[i + 1] ?? end) - x(times[i]), 5 * devicePixelRatio);
    });
    u.ctx.strokeStyle = colour('muted');
    u.ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
    u.ctx.beginPath();
    const y = u.valToPos(arm.equal, 'y', true);
    u.ctx.moveTo(left, y);
    u.ctx.lineTo(left + width, y);
    u.ctx.stroke();
    u.ctx.restore();
  };
  const kinds = demands.filter(kind => endpoints.some(e => e.demand === kind));
  const plot = add(root, data, () => ({
    scales: {x: {time: false, range: [times[0], end]}, y: {range: [0, top]}},
    axes: [
      axis({values: (u, all) => all.map(v => v + ' s')}),
      axis({values: (u, all) => all.map(v => +(v * 100).toPrecision(3) + ' %'), size: 56}),
    ],
    series: [{}, ...endpoints.map(e => ({
      stroke: demandColour(demands.indexOf(e.demand)), width: 1.5, paths: uPlot.paths.stepped({align: 1}), points: {show: false},
    }))],
    hooks: {draw: [marks]},
    cursor: {points: {show: false}, y: false},
    plugins: [tooltip((u, i) => {
      const d = decisions[Math.min(i, decisions.length - 1)];
      return {
        title: d.at_s + ' s' + (d.held ? ', held: ' + d.held : ''),
        lines: kinds.map(kind => [kind || 'endpoints', range(kind, i)]),
      };
    })],
  }));
  const guards = [...new Set(decisions.map(d => d.held).filter(Boolean))];
  const note = element('span');
  note.append(swatch('held', 'var(--held)'), 'held: ' + guards.join(', '));
  legend(plot, kinds.map(kind => ({
    name: kind || 'endpoints', kind: 'line', colour: () => demandColour(demands.indexOf(kind)),
    series: endpoints.flatMap((e, n) => e.demand === kind ? [n + 1] : []),
  })), guards.length ? note : null);
}

// far tells whether values are too far apart for an axis from 0.
const far = (low, high) => low > 0 && high / low > 20;

// extent is the lowest and the highest of what lines have, spread included.
function extent(lines) {
  const values = lines.flatMap(l => [...l.values, ...(l.low ?? []), ...(l.high ?? [])]).filter(known);
  return values.length ? [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))] : [1, 10];
}

// shade marks what comes before a time.
const shade = (from, until) => u => {
  if (!known(until)) return;
  const left = u.valToPos(from, 'x', true);
  u.ctx.save();
  u.ctx.fillStyle = colour('warm-up');
  u.ctx.fillRect(left, u.bbox.top, u.valToPos(until, 'x', true) - left, u.bbox.height);
  u.ctx.restore();
};

// whiskers reach from the lowest to the highest round.
const whiskers = (x, lines) => u => lines.forEach((l, n) => {
  if (!l.low || !u.series[n + 1].show) return;
  u.ctx.save();
  u.ctx.strokeStyle = armColour(l.arm);
  u.ctx.lineWidth = 1.5 * devicePixelRatio;
  u.ctx.beginPath();
  x.forEach((v, i) => {
    if (!known(l.low[i]) || !known(l.high[i])) return;
    const at = u.valToPos(v, 'x', true);
    u.ctx.moveTo(at, u.valToPos(l.low[i], 'y', true));
    u.ctx.lineTo(at, u.valToPos(l.high[i], 'y', true));
  });
  u.ctx.stroke();
  u.ctx.restore();
});

// A line per arm: over time, or over the values of a sweep.
function drawLines(root, chart) {
  const {x, each, unit, lines} = chart;
  const data = [x, ...lines.map(l => l.values)];
  const logarithmic = chart.wide && far(...extent(lines));
  // What is hidden does not count, so that the others can be looked at closely.
  const shown = u => extent(lines.filter((l, n) => u.series[n + 1].show));
  const ticks = u => steps(...shown(u));
  const y = logarithmic ? {distr: 3, log: 10, range: u => [ticks(u)[0], ticks(u).at(-1)]} : {range: u => [0, (shown(u)[1] || 1) * 1.08]};
  const name = v => chart.x_name + v + chart.x_unit;
  const range = (low, high) => known(low) && low < high ? ` (${figure(low)}–${figure(high)})` : '';
  const plot = add(root, data, () => ({
    scales: {
      x: {time: false, ...(each && far(x[0], x.at(-1)) ? {distr: 3} : {}), range: x.length > 1 ? [x[0], x.at(-1)] : [x[0] - 1, x[0] + 1]},
      y,
    },
    axes: [
      axis(each ? {splits: () => x, filter: (u, all) => all, values: u => spaced(u, x, x.map(String))} : {values: (u, all) => all.map(name)}),
      axis({
        ...(logarithmic ? {splits: ticks, filter: (u, all) => all} : {}),
        values: (u, all) => all.map((v, i) => i === all.length - 1 ? v + unit : v),
        size: (u, all) => 16 + 7 * Math.max(4, ...(all ?? []).map(v => String(v).length)),
      }),
    ],
    series: [{}, ...lines.map(l => ({
      stroke: armColour(l.arm), width: each ? 2 : 1.5, dash: armDash(l.arm), points: {show: each, size: 6, fill: armColour(l.arm)},
    }))],
    padding: each ? [null, 24, null, null] : undefined, // for half of the last value's name
    hooks: {drawClear: [shade(x[0], chart.until)], draw: [whiskers(x, lines)]},
    plugins: [tooltip((u, i) => ({
      title: name(+x[i].toFixed(3)),
      lines: lines.map((l, n) => [arms[l.arm].name, figure(data[n + 1][i]) + unit + range(l.low?.[i], l.high?.[i])]),
    }))],
  }));
  legend(plot, lines.map((l, n) => ({
    name: arms[l.arm].name, kind: armSwatch(l.arm), colour: () => armColour(l.arm), series: [n + 1],
  })));
}

function start() {
  const root = id => document.querySelector('#' + id + ' .plot');
  for (const e of document.querySelectorAll('.figures .swatch')) e.style.setProperty('--swatch', `var(--arm-${e.dataset.arm % ARMS})`);
  if (root('curves')) drawCurves(root('curves'));
  if (root('requests')) drawBars(root('requests'), 'requests_per_s', ' /s');
  if (root('cpu')) drawBars(root('cpu'), 'cpu_cores', ' cores');
  for (const chart of lines) drawLines(root(chart.id), chart);
  for (const f of document.querySelectorAll('.weights')) drawShares(f.querySelector('.plot'), arms[f.dataset.arm]);

  keepDrawn(plots);
}

start();
})();
