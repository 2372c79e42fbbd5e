// All policies, the ones that need somebody first.

import {Table} from './table.js';
import {ago, element, time, whole, write} from './format.js';

const severity = {bad: 0, warn: 1, calm: 2, good: 3};
export const address = p => '#/' + encodeURIComponent(p.namespace) + '/' + encodeURIComponent(p.name);

export class List {
  path = 'api/policies';
  title = 'policies';

  constructor(clock) {
    this.search = element('input', {type: 'search', placeholder: 'Filter: name, service, state, reason  ( / )', 'aria-label': 'Filter policies', oninput: () => this.filter()});
    this.chips = element('div', {class: 'tools', role: 'group', 'aria-label': 'States'});
    this.count = element('span', {class: 'end', role: 'status'});
    this.table = new Table({
      label: 'Policies', key: p => p.namespace + '/' + p.name, sort: {column: 3, down: false},
      empty: all => all ? 'No policy matches the filter.' : 'There is no BalancePolicy here yet.',
      columns: [
        {name: 'Policy', value: p => p.namespace + '/' + p.name, fill: (cell, p) => {
          if (!cell.firstChild) cell.append(element('span', {class: 'muted'}, p.namespace + '/'), element('a', {href: address(p)}, p.name));
        }},
        {name: 'Service', value: p => p.service, text: p => p.service},
        {name: 'Mode', value: p => p.mode, text: p => p.mode},
        {name: 'State', value: p => severity[p.state.level] + p.state.word + p.state.reason, fill: (cell, p) => {
          if (!cell.firstChild) cell.append(element('span', {class: 'badge'}));
          cell.firstChild.dataset.level = p.state.level;
          write(cell.firstChild, p.state.word);
        }},
        {name: 'Endpoints', number: true, value: p => p.endpoint_count, text: p => whole(p.endpoint_count)},
        {name: 'Strategy', value: p => p.strategy, text: p => p.strategy},
        {name: 'Decided', number: true, aging: true, value: p => time(p.decided_at), text: p => ago(clock(), time(p.decided_at))},
        {name: 'Why', value: p => p.state.reason ?? '', fill: (cell, p) => {
          if (!cell.firstChild) cell.append(element('div'));
          write(cell.firstChild, why(p.state));
          cell.title = why(p.state);
        }},
      ],
    });
    this.root = element('section', {class: 'policies'},
      element('div', {class: 'tools'}, element('h2', {}, 'Policies'), this.search, this.chips, this.count), this.table.root);
  }

  show({policies}) {
    this.policies = policies;
    this.paintChips();
    this.table.show(policies);
    this.filter();
  }

  tick() {
    this.table.age();
  }

  // paintChips has a button for each state that there is.
  paintChips() {
    const states = new Map();
    for (const {state} of this.policies) {
      const s = states.get(state.word) ?? {...state, count: 0};
      s.count++;
      if (severity[state.level] < severity[s.level]) s.level = state.level;
      states.set(state.word, s);
    }
    if (!states.has(this.only)) this.only = undefined;
    const chosen = document.activeElement?.dataset?.word;
    this.chips.replaceChildren(...[...states.values()].sort((a, b) => severity[a.level] - severity[b.level]).map(s =>
      element('button', {class: 'chip', type: 'button', 'data-level': s.level, 'data-word': s.word, 'aria-pressed': String(this.only === s.word), onclick: () => {
        this.only = this.only === s.word ? undefined : s.word;
        this.paintChips();
        this.filter();
      }}, element('b', {}, whole(s.count)), ' ' + s.word)));
    if (chosen) this.chips.querySelector(`[data-word="${CSS.escape(chosen)}"]`)?.focus();
  }

  filter() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.table.filter(p => {
      if (this.only && p.state.word !== this.only) return false;
      const text = [p.namespace + '/' + p.name, p.service, p.mode, p.strategy, p.state.word, p.state.reason].join(' ').toLowerCase();
      return words.every(w => text.includes(w));
    });
    const all = this.table.rows.size;
    write(this.count, this.table.visible === all ? whole(all) + ' in all' : whole(this.table.visible) + ' of ' + whole(all));
  }

  close() {}
}

export const why = state => state.reason ? state.reason + (state.message ? ': ' + state.message : '') : state.message ?? '';
