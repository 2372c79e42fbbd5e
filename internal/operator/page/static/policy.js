// One policy: how it fares, how its weights went, and each endpoint with the reason
// for what it gets.

import {Chart} from './chart.js';
import {Table} from './table.js';
import {ago, clock as clockTime, digits, element, known, percent, span, time, unknown, whole, write} from './format.js';
import {why} from './list.js';

const evidence = {
  'cpu': 'CPU per request', 'in-flight': 'requests in flight', 'cpu-only': 'CPU, no request rates',
};
const colours = 8; // as many as page.css has

export class Policy {
  constructor(clock, namespace, name) {
    this.clock = clock;
    this.title = namespace + '/' + name;
    this.path = 'api/policies/' + encodeURIComponent(namespace) + '/' + encodeURIComponent(name);
    this.pins = new Map(); // address → colour, by choice
    this.badge = element('span', {class: 'badge'});
    this.lead = element('p', {class: 'lead'});
    this.facts = element('dl', {class: 'facts'});
    this.conditions = element('ul', {class: 'conditions', 'aria-label': 'Conditions'});
    this.search = element('input', {type: 'search', placeholder: 'Filter: pod, address, reason  ( / )', 'aria-label': 'Filter endpoints', oninput: () => this.filter()});
    this.count = element('span', {class: 'end', role: 'status'});
    this.unpin = element('button', {class: 'chip', type: 'button', hidden: true, onclick: () => { this.pins.clear(); this.repaint(); }}, 'Clear marks');
    this.chart = new Chart(clock, address => this.near(address));
    this.table = this.newTable();
    this.body = element('div', {},
      this.lead, this.facts, this.conditions, this.chart.root,
      element('section', {class: 'endpoints'}, element('div', {class: 'tools'}, element('h2', {}, 'Endpoints'), this.search, this.unpin, this.count), this.table.root));
    this.missing = element('p', {class: 'empty', hidden: true});
    this.root = element('div', {}, element('p', {class: 'back'}, element('a', {href: '#/'}, '← all policies')),
      element('h1', {}, element('span', {}, this.title), this.badge), this.missing, this.body);
  }

  newTable() {
    return new Table({
      label: 'Endpoints', key: e => e.address, sort: {column: 0, down: false},
      empty: all => all ? 'No endpoint matches the filter.' : 'There are no endpoints.',
      columns: [
        {name: 'Pod', value: e => e.pod, fill: (cell, e) => this.fillPod(cell, e)},
        {name: 'Address', value: e => e.address, fill: (cell, e) => { cell.className = 'code'; write(cell, e.address); }},
        {name: 'In force', number: true, title: 'Weight that the mesh was given', value: e => e.weight_in_force, text: e => whole(e.weight_in_force)},
        {name: 'Decided', number: true, title: 'Weight decided last; what Enforce would settle at with Recommend', value: e => e.weight, fill: (cell, e) => {
          cell.classList.toggle('changed', e.weight_in_force !== e.weight);
          write(cell, whole(e.weight));
        }},
        {name: 'Share', number: true, title: 'Part of the requests that the decided weight stands for', value: e => e.share, text: e => percent(e.share)},
        {name: 'Wanted', number: true, title: 'Share that the strategy wants, apart from how fast it may be reached', value: e => e.wanted_share, text: e => percent(e.wanted_share)},
        {name: 'Utilization', number: true, title: 'CPU used over capacity', value: e => e.utilization, fill: (cell, e) => fillUtilization(cell, e)},
        {name: 'Demand', number: true, title: 'CPU time that a request costs; without request rates: cores that all requests would use here', value: e => e.demand_seconds ?? e.full_load_cores, text: demand},
        {name: 'Sample', number: true, aging: true, title: 'Age of the newest sample', value: e => time(e.sampled_at), fill: (cell, e) => {
          const at = time(e.sampled_at);
          cell.classList.toggle('late', known(at) && this.maxAge > 0 && this.clock() - at > 1000 * this.maxAge);
          write(cell, ago(this.clock(), at));
        }},
        {name: 'Reason', value: e => e.reason, fill: (cell, e) => {
          cell.classList.toggle('doubtful', !!e.doubtful);
          write(cell, e.reason || unknown);
        }},
        {name: 'Why', value: e => e.why, text: e => e.why.replaceAll(' %', '\u00a0%')},
      ],
    });
  }

  fillPod(cell, e) {
    let button = cell.firstChild;
    if (!button) {
      button = element('button', {class: 'pin', type: 'button', title: 'Mark in the chart', onclick: () => this.pin(e.address)});
      cell.append(button);
      cell.parentNode.addEventListener('pointerenter', () => this.chart.highlight(e.address));
      cell.parentNode.addEventListener('pointerleave', () => this.chart.highlight(undefined));
      button.addEventListener('focus', () => this.chart.highlight(e.address));
      button.addEventListener('blur', () => this.chart.highlight(undefined));
    }
    const colour = this.chart.colourOf(e.address);
    button.setAttribute('aria-pressed', String(this.pins.has(e.address)));
    if (colour === undefined) button.style.removeProperty('--swatch');
    else button.style.setProperty('--swatch', `var(--line-${colour})`);
    write(button, e.pod || e.address);
  }

  pin(address) {
    if (!this.pins.delete(address)) {
      const used = new Set(this.pins.values());
      const free = [...Array(colours).keys()].find(c => !used.has(c));
      if (free === undefined) this.pins.delete(this.pins.keys().next().value);
      this.pins.set(address, free ?? [...Array(colours).keys()].find(c => !new Set(this.pins.values()).has(c)));
    }
    this.repaint();
  }

  repaint() {
    this.unpin.hidden = this.pins.size === 0;
    this.chart.pin(this.pins);
    this.table.fill();
  }

  // near marks the row whose line the pointer is near to.
  near(address) {
    for (const [key, {tr}] of this.table.rows) tr.classList.toggle('near', key === address);
  }

  show({policy: p, now}) {
    this.policy = p;
    this.maxAge = p.max_age_seconds;
    this.missing.hidden = true;
    this.body.hidden = false;
    this.badge.hidden = false;
    this.badge.dataset.level = p.state.level;
    write(this.badge, p.state.word);
    write(this.lead, why(p.state));
    this.showFacts();
    this.conditions.replaceChildren(...p.conditions.map(c => element('li', {'data-level': level(c)},
      element('b', {}, c.type), ' ' + c.status + (c.reason ? ' · ' + c.reason : '') + (c.message ? ' — ' + c.message : ''))));
    this.table.show(p.endpoints);
    this.filter();
    this.chart.until(time(now));
    this.wantsHistory ||= this.shownAt !== p.at; // it only grows with decisions
    this.shownAt = p.at;
  }

  showHistory(history) {
    this.wantsHistory = false;
    this.chart.show(history);
    this.table.fill(); // the colours
  }

  showMissing(text) {
    this.policy = undefined;
    this.missing.hidden = false;
    this.body.hidden = true;
    this.badge.hidden = true;
    write(this.missing, text);
  }

  showFacts() {
    const p = this.policy, now = this.clock();
    const facts = {
      Service: p.service, Mode: p.mode, Strategy: p.strategy, Endpoints: whole(p.endpoint_count),
      'Learnt from': evidence[p.evidence] ?? p.evidence ?? unknown,
      Decided: ago(now, time(p.decided_at)) + (p.decided_at ? ', ' + clockTime(time(p.decided_at)) : ''),
      Interval: known(p.interval_seconds) ? span(p.interval_seconds) : unknown,
    };
    if (p.at !== p.decided_at && p.at) facts['Membership followed'] = ago(now, time(p.at));
    const names = Object.keys(facts);
    if (this.facts.dataset.names !== names.join()) {
      this.facts.dataset.names = names.join();
      this.facts.replaceChildren(...names.map(n => element('div', {}, element('dt', {}, n), element('dd'))));
    }
    names.forEach((n, i) => write(this.facts.children[i].lastChild, facts[n]));
  }

  tick() {
    if (!this.policy) return;
    this.showFacts();
    this.table.age();
  }

  filter() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.table.filter(e => words.every(w => (e.pod + ' ' + e.address + ' ' + e.reason).toLowerCase().includes(w)));
    const all = this.table.rows.size;
    write(this.count, this.table.visible === all ? whole(all) + ' in all' : whole(this.table.visible) + ' of ' + whole(all));
  }

  close() { this.chart.close(); }
}

function fillUtilization(cell, e) {
  if (!cell.firstChild) cell.append(element('meter', {min: 0, max: 1, low: .7, high: .9, optimum: 0, 'aria-hidden': 'true'}), element('span'));
  const [meter, text] = cell.children;
  meter.hidden = !known(e.utilization);
  if (known(e.utilization)) meter.value = Math.min(1, e.utilization);
  write(text, known(e.utilization) ? Math.round(100 * e.utilization) + ' %' : unknown);
}

function demand(e) {
  if (known(e.demand_seconds)) return digits(1000 * e.demand_seconds) + ' ms';
  if (known(e.full_load_cores)) return digits(e.full_load_cores) + ' cores';
  return unknown;
}

// level tells the conditions that should be false from those that should be true.
function level(c) {
  if (c.status === 'Unknown') return 'warn';
  if (c.type === 'Held' || c.type === 'Progressing') return 'calm';
  return c.status === 'True' ? 'good' : 'bad';
}
