// What charts of all pages have in common, beside uPlot: figures, colours of the theme,
// axes, a tooltip, and when charts are drawn.
const drawing = (() => {
'use strict';

// colour is one of the theme, as the page has it at the moment.
const colour = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const known = v => v !== null && v !== undefined;

function figure(v) {
  if (!known(v)) return '–';
  const digits = Math.abs(v) >= 99.95 ? 0 : Math.abs(v) >= 9.995 ? 1 : 2;
  return v.toLocaleString('en', {minimumFractionDigits: digits, maximumFractionDigits: digits});
}

function element(tag, className, text) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
}

// A tooltip follows the cursor; describe(chart, index) returns its title and lines, each
// [name, value].
function tooltip(describe) {
  let tip;
  return {hooks: {
    init: u => { tip = element('div', 'tip'); tip.hidden = true; u.over.append(tip); },
    setCursor: u => {
      const {idx, left, top} = u.cursor;
      tip.hidden = !known(idx) || left < 0;
      if (tip.hidden) return;
      const {title, lines} = describe(u, idx);
      tip.replaceChildren(element('b', '', title), ...lines.map(([name, value]) => {
        const line = element('div');
        line.append(element('span', '', name), element('span', '', value));
        return line;
      }));
      const width = u.over.clientWidth, height = u.over.clientHeight;
      const x = left > width / 2 ? left - tip.offsetWidth - 12 : left + 12;
      tip.style.left = Math.max(0, Math.min(x, width - tip.offsetWidth)) + 'px';
      tip.style.top = Math.max(0, Math.min(top - tip.offsetHeight / 2, height - tip.offsetHeight)) + 'px';
    },
  }};
}

function axis(more) {
  const font = '12px ' + getComputedStyle(document.body).fontFamily;
  return {
    stroke: colour('muted'), font, gap: 4, size: 28,
    grid: {stroke: colour('grid'), width: 1}, ticks: {stroke: colour('grid'), width: 1, size: 4},
    ...more,
  };
}

// steps are 1, 2, 5, 10, 20, … from the last below min to the first above max; powers of
// ten alone where that would be many.
function steps(min, max) {
  const factors = max / min > 1e3 ? [1] : [1, 2, 5];
  const all = [];
  for (let power = Math.floor(Math.log10(min)); all.length < 2 || all.at(-1) < max; power++) {
    for (const m of factors) {
      const step = Number((m * 10 ** power).toPrecision(1));
      if (step <= min) all.length = 0;
      if (all.length < 2 || all.at(-1) < max) all.push(step);
    }
  }
  return all;
}

// percentileName names a place on an axis where one step leaves a tenth: log10(1/(1-q)).
function percentileName(x) {
  const nines = Math.round(x);
  return nines < 1 ? 'p50' : 'p' + +(100 * (1 - 10 ** -nines)).toFixed(Math.max(0, nines - 2));
}

// keepDrawn draws plots now, again in the colours of another theme, and in the size that
// their places come to have. A plot has draw(), which makes its chart, size(), and root.
function keepDrawn(plots) {
  const draw = () => plots.forEach(p => p.draw());
  draw();
  for (const query of ['(prefers-color-scheme: dark)', 'print']) matchMedia(query).addEventListener('change', draw);
  const resized = new ResizeObserver(() => plots.forEach(p => {
    const {width, height} = p.size();
    if (p.chart.width !== width || p.chart.height !== height) p.chart.setSize({width, height});
  }));
  plots.forEach(p => resized.observe(p.root));
}

return {axis, colour, element, figure, keepDrawn, known, percentileName, steps, tooltip};
})();
