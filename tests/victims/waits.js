'use strict';
// node waits.js MILLISECONDS: waits in the midst of functions, in one thread each.
const { Worker, isMainThread, workerData } = require('node:worker_threads');
const { execFileSync } = require('node:child_process');

function sleeps(ms) { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms); }
function runs(ms) { execFileSync('sleep', [String(ms / 1000)]); }

if (isMainThread) {
  const ms = Number(process.argv[2]);
  const worker = new Worker(__filename, { workerData: ms });
  worker.on('exit', () => console.log('done'));
  runs(ms);
} else {
  sleeps(workerData);
}
