'use strict';
// Four functions do 1, 2, 4 and 8 parts of the same work. Beside them runs what JavaScript programs do: each function
// below whose name begins with another one's and '_' is only ever called, at whatever distance, by that one.
// node truth.js MILLISECONDS WORKERS
const { Worker, isMainThread, workerData } = require('node:worker_threads');

function spin(n) {
  let x = 1;
  for (let i = 0; i < n; i++) x = (x * 31 + i) % 65521;
  return x;
}
class F1 { run(n) { return this.f1(n); } f1(n) { return spin(n); } }
class F2 { run(n) { return this.f2(n); } f2(n) { return spin(2 * n); } }
class F4 { run(n) { return this.f4(n); } f4(n) { return spin(4 * n); } }
class F8 { run(n) { return this.f8(n); } f8(n) { return spin(8 * n); } }

function recursion(n) {
  function recursion_down(depth) { return depth === 0 ? spin(n) : recursion_down(depth - 1) + 1; }
  return recursion_down(20);
}
function sorting(n) {
  const all = [];
  for (let i = 0; i < 64; i++) all.push((i * 7919) % 64);
  const sorting_compare = (a, b) => { spin(n); return a - b; };
  return all.sort(sorting_compare)[0];
}
function mapping(n) {
  function mapping_each(x) { return x + (spin(n) & 1); }
  return [1, 2, 3, 4, 5, 6, 7, 8].map(mapping_each).filter(function mapping_kept(x) { return x > 2; }).length;
}
function throwing(depth) {
  function throwing_down(d) { if (d === 0) throw new RangeError('deep'); return throwing_down(d - 1) + 1; }
  try { return throwing_down(depth); } catch (e) { return 1; }
}
function parsing(n) {
  const text = JSON.stringify(Array.from({ length: n }, function parsing_row(_, i) { return { i, name: 'n' + i }; }));
  return JSON.parse(text, function parsing_revive(key, value) { return value; }).length;
}
function matching(n) {
  let found = 0;
  const text = 'abc 123 def 4567 '.repeat(n);
  text.replace(/([a-z]+) (\d+)/g, function matching_found(all, word, digits) { found += digits.length; return word; });
  return found;
}
function* generating(n) {
  function generating_one(i) { return spin(50) + i; }
  for (let i = 0; i < n; i++) yield generating_one(i);
}
function allocating(n) {
  function allocating_one(i) { return { i, list: [i, i + 1], text: 'k' + (i & 63) }; }
  const all = new Map();
  for (let i = 0; i < n; i++) all.set('k' + (i % 1000), allocating_one(i));
  return all.size;
}
function closing(n) {
  const closing_make = (k) => function closing_inner() { return spin(k); };
  return closing_make(n)() + closing_make(n + 1)();
}
async function waiting(n) {
  async function waiting_step(i) { await null; return spin(n) + i; }
  let sum = 0;
  for (let i = 0; i < 4; i++) sum += await waiting_step(i);
  return sum;
}
const buffer = new Float64Array(1 << 12);
function filling(n) {
  function filling_one(i) { buffer[i] = Math.sqrt(i * n); return buffer[i]; }
  let sum = 0;
  for (let i = 0; i < buffer.length; i++) sum += filling_one(i);
  return sum;
}
function evaluated(n) {
  return new Function('spin', 'n', 'return (function evaluated_inner() { return spin(n); })()')(spin, n);
}

async function round(n) {
  let sum = 0;
  for (const f of [new F1(), new F2(), new F4(), new F8()]) sum += f.run(n);
  sum += recursion(n) + sorting(n >> 6) + mapping(n >> 3) + throwing(20) + parsing(20) + matching(20);
  for (const one of generating(20)) sum += one;
  sum += allocating(200) + closing(n >> 1) + filling(n) + evaluated(n >> 2) + await waiting(n >> 2);
  return sum;
}

async function main(milliseconds, workers) {
  const done = [];
  for (let i = 0; i < workers; i++) {
    const worker = new Worker(__filename, { workerData: milliseconds });
    done.push(new Promise((resolve) => worker.on('exit', resolve)));
  }
  const end = Date.now() + milliseconds;
  while (Date.now() < end) await round(2000);
  await Promise.all(done);
  if (isMainThread) console.log('done');
}
if (isMainThread) main(Number(process.argv[2]), Number(process.argv[3])); else main(workerData, 0);
