// Draws latency by percentile, bandwidth over time and page loads from the data in the
// page. Figures are in the page's tables too.
(() => {
'use strict';

const {axis, colour, element, figure, keepDrawn, known, percentileName, steps, tooltip} = drawing;
const data = JSON.parse(document.getElementById('data').textContent);
const plots = [];

const pathColour = i => colour('path-' + i);

const scaled = units => v => {
  if (!known(v)) return '–';
  const [size, unit] = units.find(([size]) => Math.abs(v) >= size * .9995) ?? units.at(-1);
  return figure(v / size) + ' ' + unit;
};
const rate = scaled([[125e6, 'Gbit/s'], [125e3, 'Mbit/s'], [125, 'kbit/s'], [.125, 'bit/s']]);
const duration = scaled([[1e6, 's'], [1e3, 'ms'], [1, 'µs']]); // of microseconds
const tick = write => v => v === 0 ? '0' : write(v).replace(/\.0+ /, ' ').replace(/(\.\d*?)0+ /, '$1 ');

// chart fills a figure. Of several choices ({name, …}) a list chooses one; make(choice)
// returns {data, options(), entries: [{name, colour()}]}, an entry for each series.
function chart(id, choices, make) {
  const root = document.querySelector('#' + id + ' .plot');
  if (!root || choices.length === 0) return;
  const plot = {root, legend: element('div', 'legend')};
  plot.size = () => ({width: root.clientWidth, height: root.clientHeight});
  plot.draw = () => {
    plot.chart?.destroy();
    const {data, options, entries} = plot.made;
    plot.chart = new uPlot({...plot.size(), legend: {show: false}, ...options()}, data, root);
    plot.legend.replaceChildren(...entries.map((entry, i) => {
      const button = element('button');
      const swatch = element('i', 'swatch');
      swatch.style.background = entry.colour();
      button.type = 'button';
      button.setAttribute('aria-pressed', 'true');
      button.append(swatch, entry.name);
      button.addEventListener('click', () => {
        const show = button.getAttribute('aria-pressed') !== 'true';
        button.setAttribute('aria-pressed', String(show));
        plot.chart.setSeries(i + 1, {show});
      });
      return button;
    }));
    plot.legend.hidden = entries.every(e => e.name === '');
  };
  if (choices.length > 1) {
    const form = element('form', 'choose'), select = element('select');
    select.setAttribute('aria-label', 'which one is shown');
    select.append(...choices.map((c, i) => new Option(c.name, i)));
    select.addEventListener('change', () => { plot.made = make(choices[select.value]); plot.draw(); });
    form.append(select);
    root.before(form);
  }
  root.before(plot.legend);
  plot.made = make(choices[0]);
  plots.push(plot);
}

// One step on the axis leaves a tenth of the messages: x = log10(1/(1-q)).
function curves({lines}) {
  const tables = lines.map(l => {
    const points = l.curve.filter(p => p.quantile < 1 && p.us > 0);
    return [points.map(p => -Math.log10(1 - p.quantile)), points.map(p => p.us)];
  });
  const table = uPlot.join(tables), latencies = tables.flatMap(t => t[1]);
  const last = Math.max(table[0].at(-1) ?? 1, 1);
  const ticks = latencies.length ? steps(Math.min(...latencies), Math.max(...latencies)) : [1, 10];
  const labels = ticks.filter((v, i) => ticks.length < 9 || /^1/.test(String(v)));
  return {
    data: table,
    entries: lines.map(l => ({name: l.name, colour: () => pathColour(l.colour)})),
    options: () => ({
      scales: {x: {time: false, range: [0, last]}, y: {distr: 3, log: 10, range: [ticks[0], ticks.at(-1)]}},
      axes: [
        axis({splits: () => [Math.log10(2), 1, 2, 3, 4, 5, 6].filter(x => x <= last + 1e-9), values: (u, all) => all.map(percentileName)}),
        axis({splits: () => labels, filter: (u, all) => all, values: (u, all) => all.map(tick(duration)), size: 62}),
      ],
      series: [{}, ...lines.map(l => ({stroke: pathColour(l.colour), width: 2, spanGaps: true, points: {show: false}}))],
      plugins: [tooltip((_, i) => ({
        title: 'p' + +(100 * (1 - 10 ** -table[0][i])).toFixed(3),
        lines: lines.map((l, n) => [l.name || 'latency', duration(table[n + 1][i])]),
      }))],
    }),
  };
}

function bins({lines, bin_s}) {
  const length = Math.max(...lines.map(l => l.bins.length));
  const times = Array.from({length}, (_, i) => i * bin_s);
  const table = [times, ...lines.map(l => times.map((_, i) => known(l.bins[i]) ? l.bins[i] / bin_s : null))];
  const top = Math.max(...table.slice(1).flat(), ...lines.flatMap(l => l.levels ?? [])) || 1;
  const levels = u => {
    const {left, width} = u.bbox;
    u.ctx.save();
    u.ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
    for (const l of lines) {
      u.ctx.strokeStyle = pathColour(l.colour);
      for (const level of l.levels ?? []) {
        const y = u.valToPos(level, 'y', true);
        u.ctx.beginPath();
        u.ctx.moveTo(left, y);
        u.ctx.lineTo(left + width, y);
        u.ctx.stroke();
      }
    }
    u.ctx.restore();
  };
  return {
    data: table,
    entries: lines.map(l => ({name: l.name, colour: () => pathColour(l.colour)})),
    options: () => ({
      scales: {x: {time: false}, y: {range: [0, top * 1.05]}},
      axes: [axis({values: (u, all) => all.map(v => v + ' s')}), axis({values: (u, all) => all.map(tick(rate)), size: 76})],
      series: [{}, ...lines.map(l => ({stroke: pathColour(l.colour), width: 1.5, points: {show: false}}))],
      hooks: {draw: [levels]},
      plugins: [tooltip((_, i) => ({
        title: figure(times[i]) + ' s', lines: lines.map((l, n) => [l.name || 'bandwidth', rate(table[n + 1][i])]),
      }))],
    }),
  };
}

const users = all => all.map(v => Number.isInteger(v) ? v : '');

function throughput({loads}) {
  const table = uPlot.join(loads.map(l => [l.steps.map(s => s.users), l.steps.map(s => s.bytes_per_s)]));
  const top = Math.max(...table.slice(1).flat().filter(known)) || 1;
  return {
    data: table,
    entries: loads.map(l => ({name: l.name, colour: () => pathColour(l.colour)})),
    options: () => ({
      scales: {x: {time: false, distr: 3, log: 2}, y: {range: [0, top * 1.08]}},
      axes: [axis({values: (u, all) => users(all)}), axis({values: (u, all) => all.map(tick(rate)), size: 76})],
      series: [{}, ...loads.map(l => ({stroke: pathColour(l.colour), width: 2, spanGaps: true, points: {show: true, size: 6}}))],
      plugins: [tooltip((_, i) => ({title: table[0][i] + ' users', lines: loads.map((l, n) => [l.name, rate(table[n + 1][i])])}))],
    }),
  };
}

function loading({load}) {
  const names = ['p50', 'p90', 'p99'];
  const table = [load.steps.map(s => s.users), ...names.map(p => load.steps.map(s => known(s[p + '_ms']) ? s[p + '_ms'] * 1e3 : null))];
  const values = table.slice(1).flat().filter(v => v > 0);
  const ticks = values.length ? steps(Math.min(...values), Math.max(...values)) : [1, 10];
  return {
    data: table,
    entries: names.map((name, i) => ({name, colour: () => pathColour(i)})),
    options: () => ({
      scales: {x: {time: false, distr: 3, log: 2}, y: {distr: 3, log: 10, range: [ticks[0], ticks.at(-1)]}},
      axes: [
        axis({values: (u, all) => users(all)}),
        axis({splits: () => ticks, filter: (u, all) => all, values: (u, all) => all.map(tick(duration)), size: 62}),
      ],
      series: [{}, ...names.map((_, i) => ({stroke: pathColour(i), width: 2, spanGaps: true, points: {show: true, size: 6}}))],
      plugins: [tooltip((_, i) => ({title: table[0][i] + ' users', lines: names.map((name, n) => [name, duration(table[n + 1][i])])}))],
    }),
  };
}

// Areas on top of each other: each series is the sum of the servers up to it, the last
// drawn first.
function over({load: {over}}) {
  const times = over.bins.map((_, i) => i * over.bin_s);
  const servers = over.served.length ? over.served : [{name: 'all', bins: over.bins}];
  const per = servers.map(s => times.map((_, i) => (s.bins?.[i] ?? 0) / over.bin_s));
  const sums = per.map((_, n) => times.map((_, i) => per.slice(0, n + 1).reduce((sum, p) => sum + p[i], 0)));
  const drawn = sums.map((_, n) => servers.length - 1 - n);
  const all = over.bins.map(b => b / over.bin_s);
  const top = Math.max(...all, ...sums.at(-1)) || 1;
  const colourOf = n => pathColour(n % 9);
  return {
    data: [times, ...drawn.map(n => sums[n]), all],
    entries: [...drawn.map(n => ({name: servers[n].name, colour: () => colourOf(n)})), {name: 'all', colour: () => colour('text')}],
    options: () => ({
      scales: {x: {time: false}, y: {range: [0, top * 1.05]}},
      axes: [axis({values: (u, all) => all.map(v => v + ' s')}), axis({values: (u, all) => all.map(tick(rate)), size: 76})],
      series: [
        {},
        ...drawn.map(n => ({stroke: colourOf(n), fill: colourOf(n), width: 0, points: {show: false}})),
        {stroke: colour('text'), width: 1.5, points: {show: false}},
      ],
      plugins: [tooltip((_, i) => ({
        title: `${figure(times[i])} s, ${over.users} users`,
        lines: [...servers.map((s, n) => [s.name, rate(per[n][i])]), ['all', rate(all[i])]],
      }))],
    }),
  };
}

function start() {
  const named = list => (list ?? []).map(c => ({...c, name: c.test}));
  chart('curves', named(data.curves), curves);
  chart('bins', named(data.bins), bins);
  const loads = (data.loads ?? []).filter(l => l.steps);
  if (loads.length) chart('throughput', [{name: 'all', loads}], throughput);
  chart('loading', loads.map(load => ({name: load.name, load})), loading);
  chart('over', loads.filter(l => l.over).map(load => ({name: load.name, load})), over);

  keepDrawn(plots);
}

start();
})();
