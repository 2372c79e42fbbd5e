// A table of many rows that is shown anew every few seconds: rows stay where they
// are, with their focus and selection, and only what differs is touched.

import {element, write, known} from './format.js';

// columns: [{name, number, aging, value(row), text(row), fill(cell, row), title}]. The
// value sorts; the cell shows text, or what fill makes of it, and an aging one changes
// with time alone. The first column heads the row.
export class Table {
  constructor({columns, key, sort, label, empty}) {
    Object.assign(this, {columns, key, sort, empty});
    this.rows = new Map();
    this.heads = columns.map((c, i) => element('th', {scope: 'col', class: c.number && 'number', title: c.title},
      element('button', {type: 'button', onclick: () => this.sortBy(i)}, c.name)));
    this.body = element('tbody');
    this.none = element('p', {class: 'empty', hidden: true});
    this.root = element('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label},
      element('table', {}, element('thead', {}, element('tr', {}, ...this.heads)), this.body), this.none);
    this.markSort();
  }

  // A first click sorts numbers with the largest first, texts from a to z.
  sortBy(column) {
    const down = this.sort.column === column ? !this.sort.down : !!this.columns[column].number;
    this.sort = {column, down};
    this.markSort();
    this.arrange();
  }

  markSort() {
    this.heads.forEach((h, i) => {
      if (i === this.sort.column) h.setAttribute('aria-sort', this.sort.down ? 'descending' : 'ascending');
      else h.removeAttribute('aria-sort');
    });
  }

  show(data) {
    const seen = new Set();
    for (const row of data) {
      const key = this.key(row);
      seen.add(key);
      let shown = this.rows.get(key);
      if (!shown) {
        const cells = this.columns.map((c, i) => i === 0 ? element('th', {scope: 'row'}) : element('td', {class: c.number && 'number'}));
        shown = {cells, tr: element('tr', {}, ...cells)};
        this.rows.set(key, shown);
      }
      shown.row = row;
    }
    for (const [key, {tr}] of this.rows) {
      if (!seen.has(key)) {
        tr.remove();
        this.rows.delete(key);
      }
    }
    this.fill();
    this.arrange();
  }

  // fill writes the cells of all columns, or of those wanted.
  fill(wanted = () => true) {
    this.columns.forEach((c, i) => {
      if (!wanted(c)) return;
      for (const {row, cells} of this.rows.values()) c.fill ? c.fill(cells[i], row) : write(cells[i], c.text(row));
    });
  }

  age() { this.fill(c => c.aging); }

  filter(wanted) {
    this.wanted = wanted;
    this.arrange();
  }

  // arrange hides what is filtered out and moves only rows that are out of order.
  arrange() {
    const {column, down} = this.sort;
    const value = this.columns[column].value;
    const order = (a, b) => {
      const x = value(a.row), y = value(b.row);
      if (known(x) !== known(y)) return known(x) ? -1 : 1; // unknown comes last either way
      const c = !known(x) || x === y ? 0 : x < y ? -1 : 1;
      return c ? (down ? -c : c) : this.key(a.row) < this.key(b.row) ? -1 : 1;
    };
    let next = this.body.firstChild, visible = 0;
    for (const {row, tr} of [...this.rows.values()].sort(order)) {
      tr.hidden = this.wanted ? !this.wanted(row) : false;
      if (!tr.hidden) visible++;
      if (tr === next) next = next.nextSibling;
      else this.body.insertBefore(tr, next);
    }
    this.visible = visible;
    this.none.hidden = visible > 0;
    write(this.none, visible > 0 ? '' : this.empty(this.rows.size));
  }
}
