// Shares or weights of a policy's endpoints over time. A few endpoints have a
// colour each; many are drawn alike, and those that are marked stand out.

import {clock as clockTime, element, percent, time, whole, write} from './format.js';

const few = 8; // as many colours as page.css has
const colour = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();

export class Chart {
  constructor(clock, onNear) {
    Object.assign(this, {clock, onNear});
    this.pins = new Map();
    this.plot = element('div', {class: 'plot'});
    this.note = element('p');
    this.kinds = ['share', 'weight'].map(kind => element('button', {class: 'chip', type: 'button', 'aria-pressed': String(kind === 'share'), onclick: () => this.choose(kind)}, kind));
    this.kind = 'share';
    this.root = element('figure', {hidden: true}, element('figcaption', {},
      element('div', {class: 'tools'}, element('h2', {}, 'Decided, by endpoint'), ...this.kinds), this.note), this.plot);
    this.scheme = matchMedia('(prefers-color-scheme: dark)');
    this.recolour = () => this.chart?.redraw(false);
    this.scheme.addEventListener('change', this.recolour);
    this.resized = new ResizeObserver(() => {
      const {clientWidth: width, clientHeight: height} = this.plot;
      if (this.chart && (this.chart.width !== width || this.chart.height !== height)) this.chart.setSize({width, height});
    });
    this.resized.observe(this.plot);
  }

  close() {
    this.resized.disconnect();
    this.scheme.removeEventListener('change', this.recolour);
    this.chart?.destroy();
  }

  choose(kind) {
    this.kind = kind;
    this.kinds.forEach(b => b.setAttribute('aria-pressed', String(b.textContent === kind)));
    this.draw();
  }

  // until tells up to when the last decision is known to hold.
  until(now) {
    this.now = now;
    if (this.chart) this.draw();
  }

  show(history) {
    this.history = history;
    this.draw();
  }

  draw() {
    const h = this.history;
    this.root.hidden = !h || h.points.length === 0;
    if (this.root.hidden) return;
    const data = this.data(h);
    const key = h.lines.map(l => l.address).join() + this.kind;
    if (this.chart && this.key === key) {
      this.chart.setData(data);
    } else {
      this.chart?.destroy();
      this.key = key;
      this.focused = undefined;
      this.chart = new uPlot(this.options(h), data, this.plot);
    }
    this.describe(h);
  }

  // data has a last point for now. Clocks may step back, times on an axis must not.
  data(h) {
    const times = [];
    for (const p of h.points) times.push(Math.max(time(p.at) / 1000, (times.at(-1) ?? 0) + .001));
    times.push(Math.max(this.now / 1000, times.at(-1) + 1));
    const scale = this.kind === 'share' ? h.points.map(p => p.total_weight) : h.points.map(() => 1);
    return [times, ...h.lines.map(l => {
      const values = l.weights.map((w, i) => w > 0 ? w / scale[i] : null);
      values.push(values.at(-1));
      return values;
    })];
  }

  describe(h) {
    const now = h.lines.filter(l => l.weights.at(-1) > 0).length;
    const gone = h.lines.length - now;
    const parts = [now + (now === 1 ? ' endpoint' : ' endpoints') + (gone ? ', and ' + gone + ' that left' : '')];
    if (h.lines.length > few && this.pins.size === 0) parts.push('mark them in the table below to tell them apart');
    if (h.points.some(p => p.level === 'warn' || p.level === 'bad')) parts.push('bars at the top: weights held or released');
    if (h.points.some(p => !p.enforced)) parts.push('dotted at the bottom: only recommended');
    parts.push('dashed: an equal share');
    write(this.note, parts.join(' · '));
  }

  // colourOf is the number of an endpoint's own colour, if it has one.
  colourOf(address) {
    if (this.pins.has(address)) return this.pins.get(address);
    const lines = this.history?.lines ?? [];
    if (this.pins.size > 0 || lines.length > few) return undefined;
    const i = lines.findIndex(l => l.address === address);
    return i < 0 ? undefined : i;
  }

  pin(pins) {
    this.pins = new Map(pins);
    if (!this.history) return;
    this.restyle();
    this.describe(this.history);
  }

  highlight(address) {
    if (this.highlighted === address) return;
    this.highlighted = address;
    this.restyle();
  }

  restyle() { this.chart?.redraw(false); }

  // stands tells whether a line is drawn again, above the others.
  stands(line) {
    return this.pins.has(line.address) || line.address === this.highlighted || line.address === this.focused;
  }

  // stroke is how a line is drawn among the others: fainter the more there are, and
  // fainter still beside one that stands out.
  stroke(line) {
    const own = this.colourOf(line.address);
    const dim = this.highlighted !== undefined || this.pins.size > 0;
    const many = this.history.lines.length > 60;
    if (own !== undefined) return colour('line-' + own) + (dim ? '50' : '');
    return colour('accent') + (dim ? (many ? '10' : '38') : many ? '40' : 'a0');
  }

  // trace draws a line's steps anew, above what is there.
  trace(u, index) {
    const line = this.history.lines[index], values = u.data[index + 1], times = u.data[0];
    const own = this.colourOf(line.address), ratio = devicePixelRatio;
    u.ctx.strokeStyle = colour(own === undefined ? 'text' : 'line-' + own);
    u.ctx.lineWidth = (line.address === this.highlighted || line.address === this.focused ? 3 : 2) * ratio;
    u.ctx.beginPath();
    let before = null;
    values.forEach((v, i) => {
      const x = u.valToPos(times[i], 'x', true);
      if (before !== null) u.ctx.lineTo(x, u.valToPos(before, 'y', true));
      if (v !== null) u.ctx[before === null ? 'moveTo' : 'lineTo'](x, u.valToPos(v, 'y', true));
      before = v;
    });
    u.ctx.stroke();
  }

  options(h) {
    const axis = more => ({
      stroke: () => colour('muted'), font: '12px ' + getComputedStyle(document.body).fontFamily, gap: 4, size: 30,
      grid: {stroke: () => colour('grid'), width: 1}, ticks: {stroke: () => colour('grid'), width: 1, size: 4}, ...more,
    });
    const share = this.kind === 'share';
    return {
      width: this.plot.clientWidth, height: this.plot.clientHeight, legend: {show: false},
      scales: {x: {time: true}, y: {range: (u, min, max) => [0, max > 0 ? max * 1.1 : 1]}},
      axes: [
        axis({space: 60, values: (u, all, i, space, step) => all.map(v => clockTime(v * 1000).slice(0, step < 60 ? 8 : 5))}),
        axis({size: 56, values: (u, all) => all.map(v => share ? +(100 * v).toFixed(3) + ' %' : whole(v))}),
      ],
      series: [{}, ...h.lines.map((_, i) => ({
        stroke: () => this.stroke(this.history.lines[i]), width: this.history.lines.length > few ? 1 : 2, paths: uPlot.paths.stepped({align: 1}), points: {show: false},
      }))],
      cursor: {points: {show: false}, y: false, drag: {x: false, y: false}, focus: {prox: 16}},
      hooks: {draw: [u => this.marks(u)], setSeries: [(u, i) => this.focus(i)]},
      plugins: [this.tooltip()],
    };
  }

  focus(series) {
    const address = series ? this.history.lines[series - 1]?.address : undefined;
    if (this.focused === address) return;
    this.focused = address;
    this.onNear(address);
    this.chart?.redraw(false);
  }

  // marks shows the lines that stand out, when weights were not free to move, when
  // they were only shown, and where an equal share is.
  marks(u) {
    const {points, lines} = this.history, {left, top, width, height} = u.bbox, ratio = devicePixelRatio;
    const times = u.data[0], x = v => u.valToPos(v, 'x', true);
    u.ctx.save();
    u.ctx.beginPath();
    u.ctx.rect(left, top, width, height);
    u.ctx.clip();
    lines.forEach((l, i) => this.stands(l) && this.trace(u, i));
    points.forEach((p, i) => {
      const from = x(times[i]), length = Math.max(1, x(times[i + 1]) - from);
      if (p.level === 'warn' || p.level === 'bad') {
        u.ctx.fillStyle = colour(p.level);
        u.ctx.fillRect(from, top, length, 5 * ratio);
      }
      if (!p.enforced) {
        u.ctx.fillStyle = colour('muted');
        for (let at = from; at < from + length; at += 6 * ratio) u.ctx.fillRect(at, top + height - 3 * ratio, 2 * ratio, 2 * ratio);
      }
    });
    const members = lines.filter(l => l.weights.at(-1) > 0).length;
    if (members > 0) {
      const equal = this.kind === 'share' ? 1 / members : points.at(-1).total_weight / members;
      const y = u.valToPos(equal, 'y', true);
      u.ctx.strokeStyle = colour('muted');
      u.ctx.lineWidth = ratio;
      u.ctx.setLineDash([4 * ratio, 4 * ratio]);
      u.ctx.beginPath();
      u.ctx.moveTo(left, y);
      u.ctx.lineTo(left + width, y);
      u.ctx.stroke();
    }
    u.ctx.restore();
  }

  tooltip() {
    let tip;
    const place = u => {
      const {idx, left, top} = u.cursor;
      tip.hidden = idx === null || idx === undefined || left < 0;
      if (tip.hidden) return;
      tip.replaceChildren(...this.words(u, Math.min(idx, this.history.points.length - 1)));
      const width = u.over.clientWidth, height = u.over.clientHeight;
      const x = left > width / 2 ? left - tip.offsetWidth - 14 : left + 14;
      tip.style.left = Math.max(0, Math.min(x, width - tip.offsetWidth)) + 'px';
      tip.style.top = Math.max(0, Math.min(top - tip.offsetHeight / 2, height - tip.offsetHeight)) + 'px';
    };
    return {hooks: {
      init: u => { tip = element('div', {class: 'tip', hidden: true}); u.over.append(tip); },
      setCursor: place, setSeries: place,
    }};
  }

  // words are about the decision under the cursor, and the line nearest to it.
  words(u, i) {
    const p = this.history.points[i];
    const rows = [[clockTime(time(p.at)), p.hold || (p.enforced ? 'moved' : 'recommended')]];
    const line = this.history.lines.find(l => l.address === this.focused);
    if (line) {
      const w = line.weights[i];
      rows.push([element('b', {}, line.pod || line.address), ''], ['weight', whole(w || undefined)], ['share', percent(w ? w / p.total_weight : undefined)]);
    } else {
      const values = this.history.lines.map(l => l.weights[i]).filter(w => w > 0).sort((a, b) => a - b);
      if (values.length) {
        rows.push(['smallest share', percent(values[0] / p.total_weight)], ['median', percent(values[Math.floor(values.length / 2)] / p.total_weight)],
          ['largest', percent(values.at(-1) / p.total_weight)]);
      }
    }
    return rows.map(([name, value]) => element('div', {}, element('span', {}, name), element('span', {}, value)));
  }
}
