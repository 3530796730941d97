// V8's own functions do the work. Prints how much, by the process's clock.
'use strict';
const text = 'foo bar user@example.com '.repeat(200);
let used = 0;

function render() {
  for (let i = 0; i < 300; i++) {
    used += JSON.stringify({ i, list: [1, 2, 3], name: 'x'.repeat(i % 30) }).length;
  }
}

function order() {
  const numbers = [];
  for (let i = 0; i < 3000; i++) numbers.push((i * 7919) % 10007);
  used += numbers.sort()[0];
}

function match() {
  used += text.match(/(\w+)@(\w+)\.com/g).length;
}

function spend(work, seconds) {
  const begun = process.cpuUsage();
  let spent = 0;
  while (spent < seconds) {
    work();
    const now = process.cpuUsage(begun);
    spent = (now.user + now.system) / 1e6;
  }
  console.log('truth', work.name, spent);
}

spend(order, 0.7);
spend(render, 0.3);
spend(match, 0.15);
