// Asks the operator every few seconds and shows the view that the address names:
// #/ for all policies, #/NAMESPACE/NAME for one. What is old is marked as old.

import {List} from './list.js';
import {Policy} from './policy.js';
import {clock as clockTime, element, span, time, write} from './format.js';

const period = 3000, patience = 4000, oldAfter = 10000; // milliseconds
const byId = id => document.getElementById(id);

// The operator's clock, carried on by ours: theirs may differ.
let offset = 0;
const clock = () => performance.now() + offset;

let view, generation = 0;
let answered;  // performance.now() of the last answer that counts
let last;      // that answer's head: now, version, replica, leading, lease
let failure;   // why the latest attempt brought nothing, if it did not
let wake = () => {};

function route() {
  const parts = location.hash.replace(/^#\/?/, '').split('/').filter(Boolean).map(part => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  view?.close();
  view = parts.length >= 2 ? new Policy(clock, parts[0], parts[1]) : new List(clock);
  generation++;
  answered = undefined;
  byId('main').replaceChildren(view.root);
  document.title = view.title + ' — taper';
  wake();
}

// ask fetches JSON. A 404 with a reason is an answer too.
async function ask(path) {
  let response;
  try {
    response = await fetch(path, {signal: AbortSignal.timeout(patience), cache: 'no-store', redirect: 'error'});
  } catch (e) {
    throw new Error(e.name === 'TimeoutError' ? `no answer within ${span(patience / 1000)}` : 'no connection');
  }
  let body;
  try {
    body = await response.json();
  } catch {
    throw new Error(response.ok ? 'what answers is not the operator' : `it answers ${response.status} ${response.statusText}`);
  }
  if (!response.ok && !(response.status === 404 && body.error)) throw new Error(`it answers ${response.status} ${response.statusText}`);
  return body;
}

async function poll() {
  const of = generation, current = view;
  try {
    const body = await ask(current.path);
    if (of !== generation) return;
    // Behind a service, replicas answer in turn: one that stands by knows less than
    // the leader said a moment ago.
    if (!body.leading && last?.leading && answered !== undefined) throw new Error(`replica ${body.replica ?? 'one'} answers, which stands by`);
    offset = time(body.now) - performance.now();
    answered = performance.now();
    last = body;
    failure = undefined;
    if (body.error) current.showMissing(body.error);
    else current.show(body);
    if (current.wantsHistory) {
      const history = await ask(current.path + '/history');
      if (of === generation) current.showHistory(history);
    }
  } catch (e) {
    if (of !== generation) return;
    failure = e.message;
  }
  status();
}

// status tells who answers, how long ago, and what is wrong.
function status() {
  const age = answered === undefined ? undefined : performance.now() - answered;
  const old = failure !== undefined && (age === undefined || age > oldAfter);
  const pulse = byId('pulse');
  if (last) write(byId('origin'), [last.version, last.replica && 'replica ' + last.replica].filter(Boolean).join(' · '));
  pulse.dataset.level = old ? 'bad' : failure !== undefined || last?.leading === false ? 'warn' : age === undefined ? 'calm' : 'good';
  write(pulse, age === undefined ? (failure === undefined ? 'connecting…' : 'not connected')
    : old ? `no answer for ${span(age / 1000)}` : failure !== undefined ? `asking again, ${failure}` : `${last.leading ? 'live' : 'standing by'}, ${span(age / 1000)} ago`);
  byId('main').classList.toggle('old', old);
  document.title = (old ? '⚠ ' : '') + view.title + ' — taper';
  const words = trouble(old, age);
  const box = byId('trouble');
  if (box.textContent !== words.map(w => w.textContent ?? w).join('')) box.replaceChildren(...words);
  box.hidden = words.length === 0;
}

function trouble(old, age) {
  if (old && age === undefined) return [`No news from the operator: ${failure}. Trying again every ${span(period / 1000)}.`];
  if (old) return [`No news from the operator: ${failure}. What you see is from ${clockTime(time(last.now))}, not from now.`];
  if (last && !last.leading) {
    const words = ['This replica stands by: another one decides, and what is below may be missing or old.'];
    if (last.lease) {
      const [namespace, name] = last.lease.split('/');
      words.push(' The leader is the pod that this names: ', element('code', {}, `kubectl -n ${namespace} get lease ${name} -o jsonpath='{.spec.holderIdentity}'`));
    }
    return words;
  }
  return [];
}

const shown = () => document.visibilityState === 'visible';

// follow asks for as long as the page lives, and rests while nobody looks.
async function follow() {
  for (;;) {
    const of = generation;
    await poll();
    if (of !== generation) continue;
    await new Promise(done => {
      wake = done;
      setTimeout(function again() { shown() ? done() : setTimeout(again, period); }, period);
    });
  }
}

addEventListener('hashchange', route);
document.addEventListener('visibilitychange', () => shown() && wake());
addEventListener('keydown', e => {
  const search = view.search;
  if (e.key === '/' && !(e.target instanceof HTMLInputElement) && !e.ctrlKey && !e.metaKey && !e.altKey) {
    e.preventDefault();
    search.focus();
  } else if (e.key === 'Escape' && e.target === search) {
    search.value = '';
    view.filter();
    search.blur();
  }
});
setInterval(() => {
  if (!shown()) return;
  status();
  view.tick();
}, 1000);
route();
follow();
