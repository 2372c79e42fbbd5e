// How values are written. What is unknown is a dash, never a zero.

export const unknown = '–';
export const known = v => v !== undefined && v !== null;

// digits has about three digits that count, small numbers two.
export function digits(v) {
  if (!known(v)) return unknown;
  if (Math.abs(v) < .0995) return v.toLocaleString('en', {maximumSignificantDigits: 2});
  const places = Math.abs(v) >= 99.95 ? 0 : Math.abs(v) >= 9.995 ? 1 : 2;
  return v.toLocaleString('en', {minimumFractionDigits: places, maximumFractionDigits: places});
}

export const percent = v => known(v) ? digits(100 * v) + ' %' : unknown;
export const whole = v => known(v) ? v.toLocaleString('en') : unknown;

// span is a duration in words; seconds may be a fraction.
export function span(seconds) {
  const s = Math.round(seconds);
  if (s < 120) return s + ' s';
  if (s < 7200) return Math.floor(s / 60) + ' min';
  if (s < 172800) return Math.floor(s / 3600) + ' h';
  return Math.floor(s / 86400) + ' d';
}

// ago tells how long a time in milliseconds lies back; clocks differ by a little.
export const ago = (now, at) => known(at) ? span(Math.max(0, now - at) / 1000) + ' ago' : 'never';

export const time = text => text ? Date.parse(text) : undefined;

const zone = () => new Intl.DateTimeFormat('en', {timeZoneName: 'short'}).formatToParts().find(p => p.type === 'timeZoneName').value;
export const clock = at => new Date(at).toLocaleTimeString('en', {hourCycle: 'h23'}) + ' ' + zone();

// element makes an element; children are elements and texts, never markup.
export function element(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) e.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) e.setAttribute(name, value === true ? '' : value);
  }
  e.append(...children);
  return e;
}

// write changes a text only when it differs: most of a page stays as it is.
export function write(e, text) {
  if (e.textContent !== text) e.textContent = text;
}
