// The timeline's script: tiles on a canvas, zoom and pan by mouse and keyboard, a selection, all of it in the address.
// Times are numbers of ns after the origin; whole times go over the wire as decimal text.
(function () {
"use strict";
var $ = function (id) { return document.getElementById(id); };
var boot = JSON.parse($("boot").textContent), nonce = document.currentScript.nonce, root = document.documentElement;
var origin = BigInt(boot.origin);
var rel = function (text) { return Number(BigInt(text) - origin); };
var abs = function (ns) { return String(origin + BigInt(Math.round(ns))); };
var plot = $("plot"), lanes = $("lanes"), axis = $("axis"), details = $("details"), part = $("window");
var span = { from: rel(boot.span[0]), to: rel(boot.span[1]) };
var view, sel, lane, tab, all, name, at;
// What the address says besides: key and text. The page's parts are asked for with it.
var rest = [], REST = ["thread", "process", "object", "function", "x", "fn", "q", "hit", "detail"];
var marks = {};
var rows = [], tiles = new Map(), asking = new Map(), names = new Map(), colours = new Map(), wanted = new Map();
var generation = 0, page = Math.floor(Math.random() * 4e9) + 1, here = -1, pointer = null, drag = null;
var count = { asked: 0, redraws: 0, dropped: 0 };
var BUCKETS = 256, LEAST = 100, KEPT = 400, gap = boot.gap;

var canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
plot.prepend(canvas);
plot.tabIndex = 0;
root.classList.add("js");
var line = document.createElement("div");
line.id = "pointer";
line.hidden = true;
plot.append(line);

// ---- the address

function take(query) {
  var p = new URLSearchParams(query), text = function (key, other) { return p.has(key) ? p.get(key) : other; };
  view = { from: rel(text("from", boot.span[0])), to: rel(text("to", boot.span[1])) };
  // One end alone: up to the end of the span, or from its begin.
  sel = p.has("a") || p.has("b") ? { from: p.has("a") ? rel(p.get("a")) : span.from, to: p.has("b") ? rel(p.get("b")) : span.to } : null;
  lane = text("lane", null); tab = text("tab", null); all = p.get("all") === "1"; name = text("name", ""); at = text("at", null);
  rest = [];
  p.forEach(function (text, key) { if (REST.indexOf(key) >= 0 && text) rest.push([key, text]); });
}
function said(key) {
  var found = rest.find(function (pair) { return pair[0] === key; });
  return found ? found[1] : "";
}
function put(key, text) {
  rest = rest.filter(function (pair) { return pair[0] !== key; });
  if (text) rest.push([key, text]);
}
function query() {
  var p = new URLSearchParams({ from: abs(view.from), to: abs(view.to) });
  if (sel) { p.set("a", abs(sel.from)); p.set("b", abs(sel.to)); }
  if (lane) p.set("lane", lane);
  if (tab) p.set("tab", tab);
  if (all) p.set("all", "1");
  if (at) p.set("at", at);
  if (name) p.set("name", name);
  rest.forEach(function (pair) { p.append(pair[0], pair[1]); });
  return p.toString();
}
function remember(push) {
  history[push ? "pushState" : "replaceState"](null, "", "tl?" + query());
}

// ---- rows

function readRows() {
  var y = 0;
  rows = [].map.call(lanes.querySelectorAll(".row"), function (element) {
    y += +element.dataset.above;
    var height = +element.dataset.h, row = { id: element.dataset.id, kind: element.dataset.kind, y: y, h: height, element: element };
    y += height + gap;
    return row;
  });
  rows.height = y;
  rows.asked = rows.map(function (row) { return row.id; }).join(",");
  tiles.forEach(function (tile) { tile.image = null; });
}
function rowAt(y) {
  return rows.findIndex(function (row) { return y >= row.y && y < row.y + row.h + gap; });
}

// ---- tiles

function width() { return Math.max(1, Math.round(plot.clientWidth * (window.devicePixelRatio || 1))); }
function level() {
  var l = 3, ns = view.to - view.from, px = width();
  while (l < 45 && ns / Math.pow(2, l) > px) l++;
  return l;
}
function tileAt(l, ns) { return (origin + BigInt(Math.floor(ns))) >> BigInt(l + 8); }
function begin(l, i) { return Number((i << BigInt(l + 8)) - origin); }
function key(l, i) { return l + "/" + i; }
function visible(l) {
  var out = [], last = tileAt(l, view.to - 1);
  for (var i = tileAt(l, view.from); i <= last; i++) out.push(i);
  return out;
}
function isOutside(l, i) {
  var start = begin(l, i);
  return start + Math.pow(2, l + 8) <= span.from || start > span.to;
}
function ask() {
  var l = level(), shown = visible(l), list = shown.slice();
  // Neighbours would keep what is on the screen waiting: they come when it is there.
  if (shown.every(function (i) { var tile = tiles.get(key(l, i)); return isOutside(l, i) || tile && tile.all === rows.asked; }))
    list.push(shown[0] - 1n, shown[shown.length - 1] + 1n);
  asking.forEach(function (stop, k) {
    if (!list.some(function (i) { return key(l, i) === k; })) { stop.abort(); asking.delete(k); count.dropped++; }
  });
  list.forEach(function (i) {
    var k = key(l, i), tile = tiles.get(k);
    if (asking.has(k) || (tile && tile.final && tile.all === rows.asked)) return;
    if (!isOutside(l, i)) fetchTile(l, i, k);
  });
  show();
}
function fetchTile(l, i, k) {
  var stop = new AbortController(), wantedLanes = rows.asked, mine = generation;
  asking.set(k, stop);
  count.asked++;
  fetch("tl/tile?l=" + l + "&i=" + i + "&g=" + mine + "&page=" + page + "&packed=1&lanes=" + wantedLanes, { signal: stop.signal })
    .then(function (answer) { if (!answer.ok) throw new Error(answer.status); return answer.json(); })
    .then(function (got) {
      asking.delete(k);
      lost(false);
      got.start = begin(l, i);
      got.all = wantedLanes;
      for (var id in got.lanes) got.lanes[id].c = unpacked(got.lanes[id].p);
      tiles.delete(k);
      tiles.set(k, got);
      // Samples at its ends are drawn over the ends of its neighbours.
      if (rows.some(function (row) { return row.kind === "samples"; }))
        [-1n, 1n].forEach(function (by) { var next = tiles.get(key(l, i + by)); if (next) next.image = null; });
      if (tiles.size > KEPT) tiles.delete(tiles.keys().next().value);
      if (!got.final) setTimeout(later, 150);
      else if (!asking.size) {
        if (boot.whole && $("progress")) $("progress").remove();
        later();
      }
      draw();
    })
    .catch(function (error) {
      if (asking.get(k) === stop) asking.delete(k);
      if (error.name === "AbortError") return;
      if (error.message === "410") { later(); return; }
      lost(true);
      setTimeout(later, 1000);
    });
}
// Cells in few characters, as the server's `packed` writes them. Each becomes CELL numbers: bucket, length, items,
// weight, key (-1 - key if it is not sure), weight of the key; ns with a CPU, its key, and the key of the rest or -1.
var CELL = 9;
function runs(k) { return boot.states[k] === 0; }
function unpacked(text) {
  var c = [], at = 0, end = 0, weight = 0;
  function number() {
    for (var n = 0, scale = 1; ; scale *= 32) {
      var six = text.charCodeAt(at++);
      six -= six > 92 ? 36 : 35;
      n += (six & 31) * scale;
      if (six < 32) return n;
    }
  }
  while (at < text.length) {
    var head = number(), flags = head % 16, bucket = end + (head - flags) / 16;
    var len = flags & 1 ? number() : 1, n = flags & 2 ? number() : 1;
    var w = flags & 4 ? number() : weight, tw = flags & 4 ? number() : weight;
    var k = number(), unsure = k % 2, is = k % 4 - unsure, top = (k - is - unsure) / 4 + (is ? 1073741824 : 0);
    var ran = runs(top) ? tw : 0, by = ran ? top : 0, other = tw && boot.states[top] ? top : -1;
    if (flags & 8) {
      ran = number();
      var states = number() - 1, codes = boot.states.length + 1;
      other = states % codes - 1;
      by = Math.floor(states / codes);
    }
    c.push(bucket, len, n, w, unsure ? -1 - top : top, tw, ran, by, other);
    end = bucket + len;
    weight = w;
  }
  return c;
}
var waiting = null;
function later() {
  clearTimeout(waiting);
  waiting = setTimeout(ask, 60);
}
function lost(is) {
  var box = $("gone");
  if (is && !box) {
    box = document.createElement("p");
    box.id = "gone";
    box.className = "warning";
    box.textContent = "The server does not answer. What is here stays; it is asked again each second.";
    $("axis").before(box);
  } else if (!is && box) box.remove();
}

// ---- colours and names

// Colours come in blocks of keys: a view of a large recording shows thousands of functions at once.
var BLOCK = 4096, UNKNOWN = 0xff999999, colouring = new Set();
// The colours of a row's keys, by key.
function colourer(id) {
  var trace = id.slice(0, id.indexOf(".") + 1), at = -1, full, block;
  return function (k) {
    var number = Math.floor(k / BLOCK), place = k % BLOCK;
    if (number !== at) { at = number; full = trace + number; block = colours.get(full); }
    if (block && block[place]) return block[place];
    wanted.set(full, Math.max(place, wanted.get(full) || 0));
    return UNKNOWN;
  };
}
function askColours() {
  wanted.forEach(function (most, full) {
    if (colouring.has(full)) return;
    colouring.add(full);
    fetch("tl/colours?block=" + full).then(function (a) { if (!a.ok) throw new Error(a.status); return a.json(); }).then(function (got) {
      var text = got.colours, block = new Uint32Array(BLOCK);
      for (var n = 0; n * 6 < text.length; n++) {
        var c = parseInt(text.substr(n * 6, 6), 16);
        block[n] = (0xff000000 | (c & 255) << 16 | c & 0xff00 | c >> 16) >>> 0;
      }
      // A key without a colour is not asked for again.
      for (; n <= most; n++) block[n] = UNKNOWN;
      colours.set(full, block);
      wanted.delete(full);
      colouring.delete(full);
      tiles.forEach(function (tile) { tile.image = null; });
      draw();
    }).catch(function () { colouring.delete(full); setTimeout(draw, 1000); });
  });
}
// Names are asked for one by one, when something points at them.
var naming = false;
function nameOf(full) {
  var known = names.get(full);
  if (known === undefined && !naming) {
    naming = true;
    fetch("tl/names?k=" + full).then(function (a) { return a.json(); }).then(function (got) {
      naming = false;
      names.set(full, got[full] || null);
      if (told) tell(told[0], told[1]);
    }).catch(function () { naming = false; });
  }
  return known;
}

// ---- drawing

// Whether a lane has the samples of a thread.
function ofSamples(kind) { return kind === "samples" || kind === "ran"; }

// Part of a lane's height that samples, waits or events fill in so many ns.
function part_of(kind, n, w, ns) {
  return ofSamples(kind) || kind === "waits" ? Math.min(1, w / ns) : Math.min(1, Math.max(0.3, Math.log2(1 + n) / 12));
}
// The first bucket over which a cell is drawn; `before` is the end of the cell before it, if there is one. A sample
// stands for CPU time since the sample before: it is drawn as a share of all that time, of eight periods at most; of
// one period where there is none before.
function drawnFrom(kind, c, j, bucket, before) {
  if (kind !== "samples") return c[j];
  var period = c[j + 3] / Math.max(1, c[j + 2]);
  var earliest = Math.ceil(c[j] + 1 - period * (before === null ? 1 : 8) / bucket);
  return Math.min(c[j], before === null ? earliest : Math.max(before, earliest));
}
// The cells of a row in the tile after (1) or before (-1) a tile, if it is at hand.
function beside(tile, row, by) {
  var other = tiles.get(key(tile.l, BigInt(tile.i) + BigInt(by))), got = other && other.all === tile.all && other.lanes[row.id];
  return got ? got.c : null;
}
var pictured = [], PICTURES = 48;
// The picture of a tile: a pixel for each bucket. Made once, blitted while panning.
function image(tile) {
  if (tile.image) return tile.image;
  var ratio = window.devicePixelRatio || 1, height = Math.max(1, Math.round(rows.height * ratio));
  var picture = document.createElement("canvas");
  picture.width = BUCKETS;
  picture.height = height;
  var p = picture.getContext("2d"), data = p.createImageData(BUCKETS, height), px = new Uint32Array(data.data.buffer);
  var bucket = Math.pow(2, tile.l);
  rows.forEach(function (row) {
    var got = tile.lanes[row.id], c = got ? got.c : [];
    var rgb_of = colourer(row.id), bottom = Math.round((row.y + row.h) * ratio), full = bottom - Math.round(row.y * ratio);
    var states = row.kind === "cpu" || row.kind === "thread";
    function bar(k, part, least, from, end) {
      var rgb = rgb_of(k), high = Math.min(full, Math.max(least, Math.round(full * part)));
      from = Math.max(0, from);
      end = Math.min(BUCKETS, end);
      for (var y = bottom - high; y < bottom; y++)
        for (var to = y * BUCKETS + from, stop = y * BUCKETS + end; to < stop; to++) px[to] = rgb;
    }
    function put_cell(c, j, from, end) {
      // What was waited for stands behind what ran.
      if (states && c[j + 8] >= 0) bar(c[j + 8], boot.states[c[j + 8]], 1, from, end);
      if (states && c[j + 6]) bar(c[j + 7], Math.min(1, c[j + 6] / bucket), 2, from, end);
      // A cell of spans may be of many buckets, with as much in each.
      var ns = row.kind === "waits" || row.kind === "ran" ? bucket : bucket * (end - from);
      if (!states) bar(c[j + 4] < 0 ? -1 - c[j + 4] : c[j + 4], part_of(row.kind, c[j + 2], c[j + 3], ns), 1, from, end);
    }
    var left = beside(tile, row, -1), right = beside(tile, row, 1), n = left ? left.length : 0;
    var before = n ? left[n - CELL] + left[n - CELL + 1] - BUCKETS : null;
    for (var j = 0; j < c.length; j += CELL) {
      put_cell(c, j, drawnFrom(row.kind, c, j, bucket, before), c[j] + c[j + 1]);
      before = c[j] + c[j + 1];
    }
    // The first cell of the tile to the right may begin to be drawn here.
    if (row.kind === "samples" && right && right.length)
      put_cell(right, 0, BUCKETS + drawnFrom(row.kind, right, 0, bucket, before === null ? null : before - BUCKETS), BUCKETS + right[0] + 1);
  });
  p.putImageData(data, 0, 0);
  tile.image = picture;
  // A picture of many lanes takes megabytes, so only those of the last tiles stay.
  var before = pictured.indexOf(tile);
  if (before >= 0) pictured.splice(before, 1);
  pictured.push(tile);
  if (pictured.length > PICTURES) pictured.shift().image = null;
  return picture;
}
// What is at hand of other levels where a tile is not there yet: a coarser one, else finer ones.
function substitutes(l, i) {
  for (var up = l + 8; up > l; up--) {
    var above = tiles.get(key(up, i >> BigInt(up - l)));
    if (above) return [above];
  }
  var out = [];
  for (var down = 1; down < 4 && l - down >= 3; down++) {
    for (var j = 0n; j < 1n << BigInt(down); j++) {
      var below = tiles.get(key(l - down, (i << BigInt(down)) + j));
      if (below) out.push(below);
    }
  }
  return out;
}
var frame = 0;
function draw() {
  root.dataset.state = "painted";
  if (!frame) frame = requestAnimationFrame(paint);
}
function x_of(ns) { return (ns - view.from) / (view.to - view.from) * canvas.width; }
function blit(tile) {
  var x = Math.round(x_of(tile.start)), right = Math.round(x_of(tile.start + Math.pow(2, tile.l + 8)));
  if (right <= x) return;
  var picture = image(tile);
  pen.drawImage(picture, 0, 0, BUCKETS, picture.height, x, 0, right - x, picture.height);
}
// While other tiles come for what is on the canvas already, the old picture stays: until this time at most.
var held = 0;
function isHeld() {
  if (held && Date.now() < held && visible(level()).some(function (i) { return asking.has(key(level(), i)) || !tiles.has(key(level(), i)); })) return true;
  held = 0;
  return false;
}
function paint() {
  frame = 0;
  if (isHeld()) { setTimeout(draw, 100); return; }
  count.redraws++;
  var ratio = window.devicePixelRatio || 1, w = width(), h = Math.max(1, Math.round(rows.height * ratio));
  if (canvas.width !== w) canvas.width = w;
  if (canvas.height !== h) canvas.height = h;
  canvas.style.height = plot.style.height = rows.height + "px";
  var style = getComputedStyle(root);
  pen.fillStyle = style.getPropertyValue("--bg");
  pen.fillRect(0, 0, w, h);
  pen.fillStyle = style.getPropertyValue("--lane");
  var from = Math.max(0, x_of(span.from)), to = Math.min(w, x_of(span.to));
  rows.forEach(function (row) { pen.fillRect(from, Math.round(row.y * ratio), Math.max(0, to - from), Math.round(row.h * ratio)); });
  pen.imageSmoothingEnabled = false;
  var l = level(), whole = true, any = true;
  visible(l).forEach(function (i) {
    var tile = tiles.get(key(l, i)), start = begin(l, i), end = start + Math.pow(2, l + 8);
    if (end <= span.from || start > span.to) return;
    if (tile && tile.all === rows.asked) {
      blit(tile);
      if (!tile.final) { whole = false; hatch(start, end, tile.partial); }
      return;
    }
    any = whole = false;
    var others = substitutes(l, i);
    if (others.length && others[0].l > l) clipped(others[0], start, end); else others.forEach(blit);
  });
  paintMarks(ratio, h);
  paintStrip(l, w, ratio, style.getPropertyValue("--strip"));
  if (whole) showAmounts(l);
  root.dataset.state = whole && !wanted.size ? "final" : any ? "provisional" : "painted";
  for (var c in count) root.dataset[c] = count[c];
  askColours();
}
// How much there is when, in all lanes together: of the tiles that the lanes are drawn of. Until the traces are read it
// is told by their packets, which the page came with.
var strip = $("recorded"), stripes = document.createElement("canvas");
function paintStrip(l, w, ratio, colour) {
  if (!boot.whole) return;
  if (stripes.parentNode !== strip) strip.replaceChildren(stripes);
  var h = Math.round(strip.clientHeight * ratio), most = 0, per_ns = new Float64Array(w);
  stripes.width = w;
  stripes.height = h;
  visible(l).forEach(function (i) {
    var own = tiles.get(key(l, i));
    (own ? [own] : substitutes(l, i)).forEach(function (tile) {
      var bucket = Math.pow(2, tile.l);
      for (var j = 0; j < tile.strip.length; j += 2) {
        var start = tile.start + tile.strip[j] * bucket, x = Math.max(0, Math.floor(x_of(start)));
        for (var right = Math.min(w, Math.ceil(x_of(start + bucket))); x < right; x++) {
          per_ns[x] = Math.max(per_ns[x], tile.strip[j + 1] / bucket);
          most = Math.max(most, per_ns[x]);
        }
      }
    });
  });
  // Heights by the logarithm of the items in a bucket: their numbers differ by orders of magnitude.
  var p = stripes.getContext("2d"), ns = Math.pow(2, l);
  p.fillStyle = colour;
  per_ns.forEach(function (share, x) {
    var high = share ? Math.max(1, Math.round(Math.log1p(share * ns) / Math.log1p(most * ns) * h)) : 0;
    p.fillRect(x, h - high, 1, high);
  });
}
strip.addEventListener("pointermove", function (e) {
  var box = strip.getBoundingClientRect(), l = level();
  var ns = view.from + (e.clientX - box.left) / box.width * (view.to - view.from), tile = tiles.get(key(l, tileAt(l, ns)));
  if (!tile || !boot.whole) return;
  var bucket = Math.pow(2, l), at = tile.strip.findIndex(function (b, j) { return j % 2 === 0 && b === Math.floor((ns - tile.start) / bucket); });
  details.textContent = since(ns, view.to - view.from) + " s   " + grouped(at < 0 ? 0 : tile.strip[at + 1]) + " samples and events in " + duration(bucket);
});
// What a tile has of a row in [from, to). That of the whole tile is kept: while one pans most tiles are wholly seen.
function amountOf(tile, row, place, bucket, from, to) {
  var got = tile.lanes[row.id], c = got ? got.c : [], sum = 0;
  var isWhole = tile.start >= from && tile.start + bucket * BUCKETS <= to;
  if (!got || isWhole && got.sum !== undefined) return got ? got.sum : 0;
  for (var j = 0; j < c.length; j += CELL) {
    if (!c[j + place]) continue;
    var start = tile.start + c[j] * bucket, whole = c[j + 1] * bucket;
    var inside = Math.min(start + whole, to) - Math.max(start, from), all = c[j + place] * c[j + 1];
    sum += inside >= whole ? all : Math.floor(all * Math.max(0, inside) / whole);
  }
  if (isWhole) got.sum = sum;
  return sum;
}
// The numbers beside the lanes are of what is seen. Of a bucket that reaches over an end they count the part inside,
// but at the ends of the traces all of it.
function showAmounts(l) {
  var bucket = Math.pow(2, l), from = view.from <= span.from ? -Infinity : view.from, to = view.to >= span.to ? Infinity : view.to;
  var wide = Math.max(1, Math.min(view.to, span.to) - Math.max(view.from, span.from));
  rows.forEach(function (row) {
    var place = { events: 2, samples: 3, ran: 3, waits: 3 }[row.kind] || 6, sum = 0;
    visible(l).forEach(function (i) {
      var tile = tiles.get(key(l, i));
      if (tile) sum += amountOf(tile, row, place, bucket, from, to);
    });
    var text = place === 2 ? grouped(sum) : place === 3 ? wide < 1e9 ? (sum / 1e6).toFixed(1) + " ms" : (sum / 1e9).toFixed(2) + " s" :
      !sum ? "" : sum * 1000 < wide ? "<0.1%" : (sum * 100 / wide).toFixed(1) + "%", box = row.element.querySelector(".amount");
    if (box.textContent !== text) box.textContent = text;
  });
}
// What was searched for: a stroke in the lane for each hit, and the hit that was gone to over all lanes.
function paintMarks(ratio, h) {
  pen.fillStyle = "#e0218a";
  rows.forEach(function (row) {
    (marks[row.id] || []).forEach(function (ns) {
      var x = Math.round(x_of(ns));
      if (x >= 0 && x < canvas.width) pen.fillRect(x, Math.round(row.y * ratio), Math.max(1, ratio), Math.round(row.h * ratio));
    });
  });
  if (said("hit")) pen.fillRect(Math.round(x_of(rel(said("hit")))), 0, Math.max(1, ratio), h);
}
function clipped(tile, start, end) {
  pen.save();
  pen.beginPath();
  pen.rect(x_of(start), 0, x_of(end) - x_of(start), canvas.height);
  pen.clip();
  blit(tile);
  pen.restore();
}
// Not final: strokes that lean to the right; begun with an unknown state: to the left.
function hatch(start, end, left) {
  var x = x_of(start), right = x_of(end), h = canvas.height, step = 14;
  pen.save();
  pen.beginPath();
  pen.rect(x, 0, right - x, h);
  pen.clip();
  pen.strokeStyle = "rgba(128,128,128,.35)";
  pen.beginPath();
  for (var at = Math.floor((x - h) / step) * step; at < right + h; at += step) {
    pen.moveTo(at, left ? 0 : h);
    pen.lineTo(at + h, left ? h : 0);
  }
  pen.stroke();
  pen.restore();
}

// ---- what stands around the canvas

function grouped(n) { return String(n).replace(/\B(?=(\d{3})+$)/g, ","); }
function since(ns, wide) {
  var digits = wide < 1e4 ? 9 : wide < 1e7 ? 6 : wide < 1e10 ? 4 : 2, sign = ns < 0 ? "-" : "";
  ns = Math.abs(Math.round(ns));
  var s = Math.floor(ns / 1e9), rest = String(ns - s * 1e9).padStart(9, "0");
  return sign + grouped(s) + "." + rest.slice(0, digits);
}
function duration(ns) {
  ns = Math.round(ns);
  if (ns < 1000) return ns + " ns";
  var u = ns < 1e6 ? [1e3, "us"] : ns < 1e9 ? [1e6, "ms"] : [1e9, "s"], x = ns / u[0];
  return x.toFixed(x < 10 ? 3 : x < 100 ? 2 : 1) + " " + u[1];
}
function percent(ns) { return (ns - view.from) / (view.to - view.from) * 100; }
function show() {
  var wide = view.to - view.from, least = Math.max(1, wide / Math.max(2, Math.min(8, Math.floor(plot.clientWidth / 56)))), step = Math.pow(10, Math.floor(Math.log10(least)));
  step *= least <= step ? 1 : least <= 2 * step ? 2 : least <= 5 * step ? 5 : 10;
  var ticks = [];
  for (var k = Math.floor(view.from / step) + 1; k * step < view.to && ticks.length < 40; k++) {
    var tick = document.createElement("span");
    tick.style.left = percent(k * step) + "%";
    tick.textContent = since(k * step, wide);
    ticks.push(tick);
  }
  axis.replaceChildren.apply(axis, ticks);
  document.querySelectorAll("#losses span, #recorded span").forEach(function (piece) {
    piece.style.left = Math.min(101, Math.max(-1, percent(rel(piece.dataset.from)))) + "%";
    piece.style.right = 100 - Math.min(101, Math.max(-1, percent(rel(piece.dataset.to)))) + "%";
  });
  document.querySelector(".steer .range").textContent =
    since(view.from, wide) + " s to " + since(view.to, wide) + " s, " + duration(wide) + " wide";
  var box = $("selected"), range = drag && drag.range || sel;
  if (!range) { if (box) box.remove(); return draw(); }
  if (!box) { box = document.createElement("div"); box.id = "selected"; plot.append(box); }
  box.style.left = Math.max(-1, percent(range.from)) + "%";
  box.style.right = 100 - Math.min(101, percent(range.to)) + "%";
  draw();
}
// Where the pointer was when it was last told what is there.
var told = null;
function tell(x, y) {
  told = [x, y];
  var ns = view.from + x / plot.clientWidth * (view.to - view.from), at = rowAt(y), row = rows[at], l = level();
  line.hidden = false;
  line.style.left = x + "px";
  var text = since(ns, view.to - view.from) + " s";
  if (row) {
    text += "   " + row.element.querySelector("a").title;
    var i = tileAt(l, ns), tile = tiles.get(key(l, i)), got = tile && tile.lanes[row.id];
    var bucket = Math.pow(2, l), place = tile ? Math.floor((ns - tile.start) / bucket) : -1;
    for (var j = 0; got && j < got.c.length; j += CELL) {
      var c = got.c;
      if (place < c[j] || place >= c[j] + c[j + 1]) continue;
      var k = c[j + 4], known = nameOf(row.id.slice(0, row.id.indexOf(".") + 1) + (k < 0 ? -1 - k : k));
      text += "   " + (k < 0 ? "about " : "") + (known ? known.name + (known.object ? "  " + known.object : "") : "?");
      if (ofSamples(row.kind)) text += "   " + grouped(c[j + 2]) + " samples, " + duration(c[j + 3]) + " " + row.element.dataset.clock + " in " + duration(bucket) + ", top " + Math.round(c[j + 5] / Math.max(1, c[j + 3]) * 100) + " %";
      else if (row.kind === "waits") text += "   " + Math.round(c[j + 3] / bucket * 100) + " % of " + duration(bucket) + (c[j + 2] ? ", " + grouped(c[j + 2]) + (c[j + 2] === 1 ? " wait begins" : " waits begin") : "");
      else if (row.kind === "events") text += "   " + grouped(c[j + 2]) + " events in " + duration(bucket);
      else text += "   " + Math.round(c[j + 5] / bucket * 100) + " % of " + duration(bucket) + ", ran " + (c[j + 6] / bucket * 100).toFixed(1) + " %" + (c[j + 2] ? ", " + c[j + 2] + " changes" : "");
    }
  }
  details.textContent = text;
}

// ---- the part about the range

var askedPart = 0, partTimer = null;
function renewPart(soon) {
  clearTimeout(partTimer);
  partTimer = setTimeout(function () {
    var mine = ++askedPart;
    part.classList.add("busy");
    fetch("tl/window?" + query() + "&page=" + page + "&n=" + mine).then(function (a) { if (a.status === 410) throw new Error(a.status); return a.text(); }).then(function (text) {
      if (mine !== askedPart) return;
      // What is dragged over stays.
      if (over) { renewPart(); return; }
      part.innerHTML = text;
      renewPages();
      // Scripts of pictures do not run when they come as text: each is made anew, with the page's own permission.
      part.querySelectorAll("script").forEach(function (old) {
        var fresh = document.createElementNS(old.namespaceURI, "script");
        fresh.setAttribute("nonce", nonce);
        fresh.textContent = old.textContent;
        old.replaceWith(fresh);
      });
      part.classList.remove("busy");
    }).catch(function () { if (mine === askedPart) setTimeout(function () { renewPart(true); }, 1000); });
  }, soon ? 0 : 350);
}
// The other pages about this recording show the same part of it.
function renewPages() {
  var head = part.querySelector("h2[data-part]");
  document.querySelectorAll("nav[data-takes-part] a").forEach(function (a) { a.href = a.dataset.whole + (head ? head.dataset.part : ""); });
}
// A text of the server as part of the page.
function filled(box, text) { if (box) box.innerHTML = text; }
function renewMarks() {
  if (!said("q")) { marks = {}; draw(); }
  var asked = query();
  return fetch("tl/search?" + asked).then(function (a) { return a.json(); }).then(function (got) {
    if (asked !== query()) return;
    if (document.activeElement !== document.querySelector("#search .filter")) filled($("search"), got.html);
    else filled(document.querySelector("#search .hits"), got.hits);
    marks = got.marks;
    root.dataset.hits = got.total;
    draw();
  }).catch(function () {});
}
function hitAt(ns) {
  var half = (view.to - view.from) / 2;
  put("hit", ns);
  go(rel(ns) - half, rel(ns) + half, true);
}
// An event of the list: its place in the lanes, without moving where it is seen already.
function eventAt(ns, id) {
  mark(rows.findIndex(function (row) { return row.id === id; }));
  if (rel(ns) < view.from || rel(ns) >= view.to) { hitAt(ns); return; }
  put("hit", ns);
  remember(true);
  draw();
}
function chooseFunction(word) {
  put("fn", word);
  remember(true);
  fetch("tl/chosen?" + query()).then(function (a) { return a.text(); }).then(function (text) { filled($("chosen"), text); });
}
// The line under a picture says what is under the pointer; the browser's own hint would hide the picture.
function hint(e) {
  var target = e.target;
  if (!target.closest) return;
  var frame = target.closest(".pct-icicle .f"), piece = target.closest("#recorded span,#losses span");
  if (piece) {
    if (piece.title) { piece.dataset.t = piece.title; piece.title = ""; }
    details.textContent = piece.dataset.t;
  }
  if (!frame) return;
  frame.parentNode.querySelectorAll(".f>title").forEach(function (title) {
    title.parentNode.dataset.t = title.textContent;
    title.parentNode.setAttribute("aria-label", title.textContent);
    title.remove();
  });
  var figure = frame.closest("figure"), box = figure && figure.nextElementSibling;
  if (box && box.className === "details") box.textContent = frame.dataset.t;
}
document.addEventListener("pointerover", hint);
document.addEventListener("focusin", hint);
document.addEventListener("submit", function (e) {
  var form = e.target;
  if (form.getAttribute("action") !== "tl") return;
  e.preventDefault();
  form.querySelectorAll("input:not([type=hidden])").forEach(function (input) {
    if (input.name === "name") name = input.value; else put(input.name, input.value);
  });
  at = null;
  if (document.activeElement) document.activeElement.blur();
  if (form.closest("#search")) { put("hit", ""); remember(true); renewMarks(); }
  else { remember(true); renewPart(true); }
});
function renewLanes() {
  return fetch("tl/lanes?" + query()).then(function (a) { return a.text(); }).then(function (text) {
    lanes.innerHTML = text;
    readRows();
    later();
  });
}

// ---- moving

var pushTimer = null, marksTimer = null;
function renewMarksLater() {
  clearTimeout(marksTimer);
  marksTimer = setTimeout(renewMarks, 200);
}
function go(from, to, push) {
  var wide = Math.min(Math.max(LEAST, to - from), (span.to - span.from) * 1.5), middle = (from + to) / 2;
  if (wide !== to - from) { from = middle - wide / 2; to = middle + wide / 2; }
  // Some of the span stays on the screen.
  var slack = wide * 0.75;
  from = Math.min(Math.max(from, span.from - slack), span.to - wide + slack);
  view = { from: from, to: from + wide };
  at = null;
  generation++;
  show();
  later();
  if (said("q")) renewMarksLater();
  if (!sel) renewPart();
  // One step of the history for each rest, so that back undoes a zoom.
  if (push && !pushTimer) remember(true);
  clearTimeout(pushTimer);
  pushTimer = setTimeout(function () { pushTimer = null; remember(false); }, 400);
}
function zoom(factor, x) {
  var wide = view.to - view.from, middle = x === undefined ? 0.5 : x / plot.clientWidth, ns = view.from + wide * middle;
  go(ns - wide * factor * middle, ns + wide * factor * (1 - middle), true);
}
function pan(share) {
  var by = (view.to - view.from) * share;
  go(view.from + by, view.to + by, false);
}
function select(range) {
  sel = range && range.to - range.from >= 1 ? range : null;
  at = null;
  show();
  remember(true);
  renewPart(true);
}
function choose(word) { tab = word; at = null; remember(true); renewPart(true); }

plot.addEventListener("wheel", function (e) {
  e.preventDefault();
  var x = e.clientX - plot.getBoundingClientRect().left;
  if (e.ctrlKey || e.metaKey) zoom(Math.pow(1.0025, e.deltaY), x);
  else pan((Math.abs(e.deltaX) > Math.abs(e.deltaY) ? e.deltaX : e.deltaY) / 900);
}, { passive: false });
function ns_at(e) {
  var box = plot.getBoundingClientRect();
  return view.from + (e.clientX - box.left) / box.width * (view.to - view.from);
}
plot.addEventListener("pointerdown", function (e) {
  if (e.button) return;
  plot.focus({ preventScroll: true });
  plot.setPointerCapture(e.pointerId);
  drag = { x: e.clientX, ns: ns_at(e), from: view.from, to: view.to, pan: e.shiftKey };
});
plot.addEventListener("pointermove", function (e) {
  var box = plot.getBoundingClientRect();
  pointer = e.clientX - box.left;
  if (drag && drag.pan) {
    var by = (drag.x - e.clientX) / box.width * (drag.to - drag.from);
    go(drag.from + by, drag.to + by, false);
  } else if (drag && Math.abs(e.clientX - drag.x) > 3) {
    var ns = ns_at(e);
    drag.range = { from: Math.round(Math.min(ns, drag.ns)), to: Math.round(Math.max(ns, drag.ns)) };
    show();
    details.textContent = duration(drag.range.to - drag.range.from);
    return;
  }
  tell(pointer, e.clientY - box.top);
});
plot.addEventListener("pointerup", function (e) {
  var range = drag && drag.range;
  drag = null;
  if (range) select(range);
  else mark(rowAt(e.clientY - plot.getBoundingClientRect().top));
});
plot.addEventListener("pointercancel", function () { drag = null; show(); });
plot.addEventListener("pointerleave", function () { pointer = told = null; line.hidden = true; details.textContent = "\u00a0"; });
plot.addEventListener("dblclick", function (e) {
  var ns = ns_at(e);
  if (sel && ns >= sel.from && ns <= sel.to) go(sel.from, sel.to, true);
  else zoom(0.25, e.clientX - plot.getBoundingClientRect().left);
});
// A stack chart has a scale of time of its own: a drag selects there, too.
var over = null;
function timeIn(chart, x) {
  var box = chart.querySelector("svg").getBoundingClientRect(), from = rel(chart.dataset.from), to = rel(chart.dataset.to);
  return Math.min(to, Math.max(from, from + (x - box.left) / box.width * (to - from)));
}
function chartOf(target) { return target.closest && target.closest("figure.chart"); }
document.addEventListener("pointerdown", function (e) {
  var chart = chartOf(e.target);
  if (chart && !e.button) over = { chart: chart, x: e.clientX, range: null, dropped: false };
});
document.addEventListener("pointermove", function (e) {
  if (!over || over.dropped || Math.abs(e.clientX - over.x) <= 3 && !over.range) return;
  var a = timeIn(over.chart, over.x), b = timeIn(over.chart, e.clientX), box = over.chart.querySelector(".chosen");
  over.range = { from: Math.round(Math.min(a, b)), to: Math.round(Math.max(a, b)) };
  if (!box) { box = document.createElement("div"); box.className = "chosen"; over.chart.append(box); }
  var all = over.chart.querySelector("svg").getBoundingClientRect(), left = Math.min(over.x, e.clientX) - all.left;
  box.style.left = Math.max(0, left) + "px";
  box.style.width = Math.min(all.width, Math.max(over.x, e.clientX) - all.left) - Math.max(0, left) + "px";
  over.chart.nextElementSibling.textContent = duration(over.range.to - over.range.from);
});
document.addEventListener("pointerup", function () {
  var ended = over;
  over = null;
  if (!ended || !ended.range) return;
  // The end of a drag is no click on what lies there.
  addEventListener("click", stopped, true);
  setTimeout(function () { removeEventListener("click", stopped, true); }, 0);
  if (!ended.dropped) select(ended.range);
});
function dropDrag() {
  if (!over.dropped && over.range) over.chart.querySelector(".chosen").remove();
  over.dropped = true;
}
document.addEventListener("pointercancel", function () { if (over) dropDrag(); over = null; });
document.addEventListener("dragstart", function (e) { if (chartOf(e.target)) e.preventDefault(); });
function stopped(e) { e.preventDefault(); e.stopPropagation(); }
// The time of a call. Its place is in percent of the chart.
function timeOf(chart, rect) {
  var from = rel(chart.dataset.from), share = (rel(chart.dataset.to) - from) / 100, left = parseFloat(rect.getAttribute("x"));
  return { from: Math.round(from + share * left), to: Math.round(from + share * (left + parseFloat(rect.getAttribute("width")))) };
}
// What the first click of two does may move the picture away from the second.
var pressed = null;
document.addEventListener("click", function (e) {
  if (e.detail !== 1) return;
  var chart = chartOf(e.target), frame = chart && e.target.closest(".f");
  pressed = frame ? timeOf(chart, frame.querySelector("rect")) : null;
}, true);
document.addEventListener("dblclick", function () {
  if (pressed) select(pressed);
  pressed = null;
});
function mark(i) {
  if (rows[here]) rows[here].element.classList.remove("here");
  here = Math.min(Math.max(i, -1), rows.length - 1);
  if (rows[here]) { rows[here].element.classList.add("here"); rows[here].element.scrollIntoView({ block: "nearest" }); }
}
var KEYS = {
  w: function () { zoom(0.5, pointer === null ? undefined : pointer); },
  s: function () { zoom(2, pointer === null ? undefined : pointer); },
  a: function () { pan(-0.25); },
  d: function () { pan(0.25); },
  j: function () { mark(here + 1); },
  k: function () { mark(Math.max(0, here - 1)); },
  m: function () { select({ from: Math.round(view.from), to: Math.round(view.to) }); },
  z: function () { if (sel) go(sel.from, sel.to, true); },
  Escape: function () { if (sel) select(null); },
  f: function () { choose("flame"); },
  v: function () { choose("chart"); },
  h: function () { choose("heavy"); },
  c: function () { choose("tree"); },
  x: function () { choose("sandwich"); },
  y: function () { choose("source"); },
  n: function () { toHit("next"); },
  p: function () { toHit("previous"); },
  "/": function () { var box = document.querySelector("#search .filter"); box.focus(); box.select(); },
  b: function () { choose("waits"); },
  i: function () { choose("inverted"); },
  t: function () { choose("stats"); },
  e: function () { choose("events"); },
  g: function () { choose("states"); },
  "[": function () { toState("previous"); },
  "]": function () { toState("next"); },
  0: function () { go(span.from, span.to, true); },
  "?": function () { $("help").showModal(); },
  Enter: function () { if (rows[here]) alone(rows[here].id); }
};
// From where the page is now, which may be further than what the links were made for.
function toHit(word) {
  if (!said("q")) return;
  fetch("tl/search?" + query()).then(function (a) { return a.json(); }).then(function (got) {
    if (got[word]) hitAt(got[word]);
  }).catch(function () {});
}
// Selects the state before or after: of the selection, else of the time under the pointer.
function toState(dir) {
  var id = rows[here] ? rows[here].id : lane;
  if (!id) { details.textContent = "Mark the lane of a thread first: j, k, or a click."; return; }
  var middle = pointer === null ? 0.5 : pointer / plot.clientWidth;
  var from = sel ? sel.from : view.from + middle * (view.to - view.from);
  fetch("tl/change?lane=" + id + "&t=" + abs(from) + "&dir=" + dir).then(function (a) { return a.json(); }).then(function (got) {
    root.dataset.changes = +(root.dataset.changes || 0) + 1;
    if (!got.from) { details.textContent = "There is no " + dir + " state or wait that is recorded."; return; }
    var range = { from: rel(got.from), to: rel(got.to) }, wide = view.to - view.from;
    if (range.from < view.from || range.from >= view.to) go(range.from - wide / 4, range.from + wide * 3 / 4, true);
    select(range);
    details.textContent = got.state + " for " + duration(range.to - range.from) + (got.cpu === null ? "" : " on CPU " + got.cpu) + (got.woken_by ? ", " + (got.ended || "woken by") + " " + got.woken_by : "");
  }).catch(function () {});
}
KEYS["+"] = KEYS["="] = KEYS.w;
KEYS["-"] = KEYS.s;
KEYS.ArrowLeft = KEYS.a;
KEYS.ArrowRight = KEYS.d;
document.addEventListener("keydown", function (e) {
  var target = e.target;
  if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || $("help").open) return;
  if (over && e.key === "Escape") { dropDrag(); return; }
  if (e.key === "Enter" && target.closest && target.closest("a,button,summary")) return;
  if (target.closest && target.closest("svg.pct-icicle") || !KEYS[e.key]) return;
  e.preventDefault();
  KEYS[e.key]();
});
function alone(id) { lane = lane === id ? null : id; at = null; remember(true); here = -1; renewLanes(); renewPart(true); }
// Links keep their meaning without script; with it they move the same page.
document.addEventListener("click", function (e) {
  var a = e.target.closest && e.target.closest("a");
  if (!a || e.ctrlKey || e.metaKey || e.shiftKey || e.button) return;
  var q = a.getAttribute("href") || "", row = a.closest("#lanes .row");
  if (a.dataset.ns) {
    e.preventDefault();
    var event = a.closest("tr");
    if (event) eventAt(a.dataset.ns, event.dataset.lane); else hitAt(a.dataset.ns);
    return;
  }
  if (a.dataset.view) { a.href = "tl/file?" + query() + "&as=" + a.dataset.view; return; }
  if (a.closest(".pct-icicle")) { e.preventDefault(); chooseFunction(new URLSearchParams(q.slice(3)).get("fn")); return; }
  if (row) { e.preventDefault(); alone(row.dataset.id); return; }
  if (a.dataset.tab) { e.preventDefault(); choose(a.dataset.tab); return; }
  if (q.indexOf("tl?") !== 0) return;
  e.preventDefault();
  var steer = a.closest(".steer"), before = { from: view.from, to: view.to, sel: sel };
  if (steer) {
    // The links were made for the view that the page came with.
    var word = a.textContent;
    if (word === "whole") KEYS[0]();
    else if (word === "out") zoom(2);
    else if (word === "left") pan(-0.5);
    else if (word === "right") pan(0.5);
    else if (word === "zoom to selection") KEYS.z();
    else if (word === "drop selection") select(null);
    else if (word === "all lanes") alone(lane);
    return;
  }
  var sought = said("q"), shown = lane + all;
  take(q.slice(3));
  view = before;
  if ("select" in a.dataset) { select(sel); return; }
  sel = before.sel;
  remember(true);
  if (said("q") !== sought) renewMarks();
  if (a.closest("#lanes") || shown !== lane + all) renewLanes();
  if (!a.closest("#lanes")) renewPart(true);
});
addEventListener("popstate", function () {
  var before = lane + all;
  take(location.search);
  generation++;
  show();
  if (before !== lane + all) renewLanes();
  later();
  renewPart(true);
  renewMarks();
});
new ResizeObserver(function () { show(); later(); }).observe(plot);
matchMedia("(prefers-color-scheme:dark)").addEventListener("change", draw);
var theme = $("theme");
theme.hidden = false;
theme.onclick = function () {
  var dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme:dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  draw();
};

$("keys").hidden = false;
$("keys").onclick = function () { $("help").showModal(); };

// ---- while the traces are being read

function counted(n, so) {
  $("events").textContent = $("events").textContent.replace(/^[\d,]+/, grouped(n)).replace(/ so far$/, "") + so;
}
function follow() {
  var events = new EventSource("tl/stream"), shown = 0;
  events.addEventListener("progress", function (e) {
    var n = JSON.parse(e.data).reduce(function (sum, t) { return sum + t.events; }, 0), box = $("progress");
    if (box) box.textContent = "The traces are being read: " + grouped(n) + " events so far.";
    counted(n, " so far");
    if (n > shown * 2) { shown = n; renewLanes(); } else later();
  });
  events.addEventListener("ready", function (e) {
    events.close();
    counted(JSON.parse(e.data).reduce(function (sum, t) { return sum + t.events; }, 0), "");
    if ($("progress")) $("progress").remove();
    boot.whole = true;
    renewLanes().then(function () { renewPart(true); });
  });
}

// ---- traces that grow or are replaced while the page is open

var revision = boot.revision, newsTimer = null;
function news() {
  clearTimeout(newsTimer);
  // Each look begins a second after the last one has ended; a page that nobody sees does not look.
  newsTimer = setTimeout(news, 1000);
  if (document.hidden) return;
  clearTimeout(newsTimer);
  fetch("tl/state").then(function (a) { if (!a.ok) throw new Error(a.status); return a.json(); }).then(function (got) {
    lost(false);
    $("news").textContent = got.news;
    $("news").hidden = !got.news;
    if (got.revision !== revision) renewed(got);
    newsTimer = setTimeout(news, got.written ? 1000 : 3000);
  }).catch(function () { lost(true); newsTimer = setTimeout(news, 1000); });
}
// All that was drawn is of the store before. A view of the whole span, or up to its end, goes on with it.
function renewed(got) {
  var begin = span.from, end = span.to, wide = view.to - view.from;
  revision = got.revision;
  span.from = rel(got.span[0]);
  span.to = rel(got.span[1]);
  if (view.from <= begin && view.to >= end) view = { from: span.from, to: span.to };
  else if (view.to >= end && view.from < end) view = { from: span.to - wide, to: span.to };
  asking.forEach(function (stop) { stop.abort(); });
  asking.clear();
  tiles.clear();
  // Numbers of functions may have changed: all colours are asked for again. Until they are there the old ones hold.
  names.clear();
  colours.forEach(function (_, full) { wanted.set(full, 0); });
  held = Date.now() + 2000;
  generation++;
  draw();
  counted(got.events, "");
  document.querySelector(".facts span").textContent = duration(span.to - span.from);
  remember(false);
  renewLanes();
  // A selection that ended before says the same as it did; what is open in it stays open.
  if (!sel || sel.to >= end) renewPart(true);
  if (said("q")) renewMarksLater();
}

take(location.search || "");
tab = boot.tab && !new URLSearchParams(location.search).has("tab") ? null : tab;
readRows();
show();
ask();
if (said("q")) renewMarks();
if (boot.deferred) renewPart(true);
if (!boot.whole) follow();
newsTimer = setTimeout(news, 1000);
window.timeline = {
  count: count, span: span, paint: paint, rows: function () { return rows; }, names: names, colours: colours, colourer: colourer, tiles: tiles, canvas: canvas,
  view: function () { return view; }, query: query, level: level, visible: visible, key: key, begin: begin, x_of: x_of, outside: function (ns) { return ns < span.from || ns > span.to; }, go: go, select: select
};
})();
