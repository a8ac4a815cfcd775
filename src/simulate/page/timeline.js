'use strict';
const root = document.documentElement;
root.dataset.errors = '0';
addEventListener('error', () => { root.dataset.errors = String(Number(root.dataset.errors) + 1); });

const data = JSON.parse(document.getElementById('data').textContent);
const byId = (id) => document.getElementById(id);
const lanesCanvas = byId('lanes'), memoryCanvas = byId('memory'), tip = byId('tip');
const GUTTER = 118, AXIS = 26;
const view = {from: 0, to: 1, top: 0, messages: false, gathers: true, hidden: new Set(), hover: null};
let colours = {}, drawn = 0;

const end = Math.max(1e-12, ...data.lanes.map((lane) => lane.last));
const isMessage = (lane) => lane.stream === 1 || lane.stream === 2;
for (const lane of data.lanes) {
  // The longest event bounds how far back a search for what is visible must go.
  lane.longest = lane.begins.reduce((most, begin, i) => Math.max(most, lane.ends[i] - begin), 0);
  // Two paired actions run as one: they share the lane's height. 0: all of it, 1: the upper half, 2: the lower.
  lane.halves = new Uint8Array(lane.begins.length);
  for (let i = 1; i < lane.begins.length; ++i) {
    const same = lane.begins[i] === lane.begins[i - 1] && lane.ends[i] === lane.ends[i - 1] && lane.ends[i] > lane.begins[i];
    if (same && lane.halves[i - 1] === 0) { lane.halves[i - 1] = 1; lane.halves[i] = 2; }
  }
}
view.messages = data.lanes.some((lane) => isMessage(lane) && lane.longest > 0 && data.lanes.length <= 160);

function timeText(value) {
  if (!data.seconds) return String(Number(value.toPrecision(7)));
  const size = Math.abs(value);
  if (size >= 1 || size === 0) return Number(value.toPrecision(6)) + ' s';
  return size >= 1e-3 ? Number((value * 1e3).toPrecision(6)) + ' ms' : Number((value * 1e6).toPrecision(6)) + ' µs';
}

function readColours() {
  const style = getComputedStyle(root);
  const read = (name) => style.getPropertyValue('--' + name).trim();
  colours = Object.fromEntries(['paper', 'panel', 'ink', 'faint', 'line', 'lane', 'mark', 'other'].map((n) => [n, read(n)]));
  colours.operation = data.operations.map((name) => read(name) || colours.other);
}

const label = (name) => name.replaceAll('_', ' ');
const operationName = (name) => ({backward_input: 'backward (input)', backward_weight: 'backward (weights)', unshard: 'gather parameters',
  reduce_gradient: 'reduce gradients', send: 'message'})[name] || label(name);

// Lanes with their places, from above; a gap in front of each role.
let places = [], fullHeight = 0;
function placeLanes() {
  const many = new Set(data.lanes.map((lane) => lane.role)).size > 24;
  places = [];
  let y = 0, role = -1;
  for (const lane of data.lanes) {
    if (isMessage(lane) && !view.messages || lane.stream === 3 && !view.gathers || view.hidden.has(lane.trace)) continue;
    if (lane.role !== role) y += role < 0 ? 6 : many ? 4 : 9;
    const first = lane.role !== role;
    role = lane.role;
    const height = lane.stream === 0 || lane.stream === 4 ? (many ? 14 : 26) : many ? 5 : 10;
    places.push({lane, y, height, first});
    y += height + 2;
  }
  fullHeight = y + 6;
}

function prepare(canvas, height) {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth;
  canvas.style.height = height + 'px';
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return [context, width];
}

const scale = (width) => (width - GUTTER - 12) / (view.to - view.from);
const lanesHeight = () => Math.min(fullHeight + AXIS, Math.max(320, innerHeight * 0.62));

function drawAxis(context, width, height) {
  const perUnit = scale(width), rough = 90 / perUnit, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  context.font = '11.5px system-ui, "DejaVu Sans", sans-serif';
  context.textAlign = 'center';
  for (let k = Math.ceil(view.from / step); k * step <= view.to; ++k) {
    const x = GUTTER + (k * step - view.from) * perUnit;
    context.fillStyle = colours.line;
    context.fillRect(x, AXIS - 4, 1, height - AXIS + 4);
    context.fillStyle = colours.faint;
    context.fillText(timeText(k * step), x, 15);
  }
}

function firstVisible(lane) {
  let low = 0, high = lane.begins.length;
  const from = view.from - lane.longest;
  while (low < high) {
    const middle = (low + high) >> 1;
    lane.begins[middle] < from ? low = middle + 1 : high = middle;
  }
  return low;
}

function drawLane(context, place, width) {
  const {lane} = place, top = place.y + AXIS - view.top, perUnit = scale(width), right = width - 12;
  context.fillStyle = colours.lane;
  context.fillRect(GUTTER, top, right - GUTTER, place.height);
  let covered = -1;
  for (let i = firstVisible(lane); i < lane.begins.length && lane.begins[i] < view.to; ++i) {
    if (lane.ends[i] < view.from) continue;
    const left = Math.max(GUTTER, GUTTER + (lane.begins[i] - view.from) * perUnit);
    const stop = Math.min(right, GUTTER + (lane.ends[i] - view.from) * perUnit);
    if (stop < covered + 0.5 && stop - left < 0.5) continue;  // inside a pixel that has something already
    covered = Math.max(stop, left + 0.75);
    const long = stop - left, half = lane.halves[i];
    const height = half ? place.height / 2 - 0.4 : place.height, y = half === 2 ? top + place.height / 2 + 0.4 : top;
    context.globalAlpha = 1 - 0.42 * lane.shades[i];
    context.fillStyle = colours.operation[lane.operations[i]];
    context.fillRect(left, y, Math.max(0.75, long > 3 ? long - 0.8 : long), height);
    context.globalAlpha = 1;
    ++drawn;
    if (view.hover && lane.batches[i] >= 0 && view.hover.batch === lane.batches[i] && long > 2) {
      context.strokeStyle = colours.mark;
      context.lineWidth = view.hover.lane === lane && view.hover.index === i ? 2.4 : 1.2;
      context.strokeRect(left + 0.8, y + 0.8, long - 2, height - 1.6);
    }
    if (height < 12 || lane.batches[i] < 0) continue;
    const text = String(lane.batches[i]);
    if (long < 6 + 6.6 * text.length) continue;
    context.fillStyle = lane.shades[i] > 0.45 && !root.classList.contains('dark') ? '#10203a' : '#ffffff';
    context.fillText(text, (left + stop) / 2, y + height / 2 + 0.5);
  }
}

function drawLanes() {
  const height = lanesHeight();
  const [context, width] = prepare(lanesCanvas, height);
  view.top = Math.max(0, Math.min(view.top, fullHeight + AXIS - height));
  drawn = 0;
  drawAxis(context, width, height);
  context.save();
  context.beginPath();
  context.rect(0, AXIS, width, height - AXIS);
  context.clip();
  context.textBaseline = 'middle';
  for (const place of places) {
    const y = place.y + AXIS - view.top;
    if (y > height || y + place.height < AXIS) continue;
    context.textAlign = 'center';
    context.font = '11.5px system-ui, "DejaVu Sans", sans-serif';
    drawLane(context, place, width);
    context.textAlign = 'left';
    if (place.first) {
      context.fillStyle = colours.ink;
      context.font = '600 12px system-ui, "DejaVu Sans", sans-serif';
      context.fillText('Role ' + place.lane.role, 12, y + place.height / 2);
    }
    if (place.height > 8) {
      context.fillStyle = colours.faint;
      context.font = '9.5px system-ui, "DejaVu Sans", sans-serif';
      context.textAlign = 'right';
      context.fillText(place.lane.label, GUTTER - 7, y + place.height / 2);
    }
  }
  context.restore();
  context.textBaseline = 'alphabetic';
  const shown = (height - AXIS) / fullHeight;
  if (shown < 1) {
    context.fillStyle = colours.faint;
    context.fillRect(width - 7, AXIS + view.top * shown, 4, (height - AXIS) * shown);
  }
  root.dataset.drawn = String(drawn);
}

function drawMemory() {
  if (data.curves.length === 0) return;
  const height = 170, top = 14, bottom = height - 16;
  const [context, width] = prepare(memoryCanvas, height);
  const perUnit = scale(width), tops = {};
  for (const curve of data.curves) tops[curve.unit] = Math.max(tops[curve.unit] || 1e-12, ...curve.values.filter(isFinite));
  const units = Object.keys(tops);
  context.font = '11.5px system-ui, "DejaVu Sans", sans-serif';
  context.textAlign = 'right';
  for (const part of [0, 0.5, 1]) {
    const y = bottom - part * (bottom - top);
    context.fillStyle = colours.line;
    context.fillRect(GUTTER, y, width - GUTTER - 12, 1);
    context.fillStyle = colours.faint;
    context.fillText(String(Number((part * tops[units[0]]).toPrecision(4))), GUTTER - 7, y + 4);
  }
  context.save();
  context.beginPath();
  context.rect(GUTTER, 0, width - GUTTER - 12, height);
  context.clip();
  const roles = Math.max(1, ...data.curves.map((curve) => curve.role));
  const chosen = view.hover ? view.hover.lane.role : -1;
  const order = [...data.curves].sort((a, b) => (a.role === chosen) - (b.role === chosen));
  for (const curve of order) {
    if (view.hidden.has(curve.trace)) continue;
    const own = curve.role === chosen;
    context.strokeStyle = own ? colours.mark : `hsl(${215 - 190 * curve.role / roles} 62% 52%)`;
    context.globalAlpha = own || chosen < 0 ? 1 : 0.35;
    context.lineWidth = own ? 2.4 : 1.4;
    context.setLineDash(curve.trace > 0 ? [4, 3] : []);
    context.beginPath();
    let last = -1e9, level = bottom;
    for (let i = 0; i < curve.times.length; ++i) {
      const x = GUTTER + (curve.times[i] - view.from) * perUnit;
      const y = bottom - curve.values[i] / tops[curve.unit] * (bottom - top);
      if (x < GUTTER || last < -1e8) context.moveTo(x, y);
      else if (x - last > 0.3 || y < level) { context.lineTo(x, level); context.lineTo(x, y); }
      last = x;
      level = y;
      if (x > width) break;
    }
    context.lineTo(GUTTER + (end - view.from) * perUnit, level);
    context.stroke();
  }
  context.restore();
}

let waiting = false;
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; drawLanes(); drawMemory(); });
}

function hit(x, y) {
  const time = view.from + (x - GUTTER) / scale(lanesCanvas.clientWidth), down = y - AXIS + view.top;
  const place = places.find((p) => down >= p.y && down < p.y + p.height + 1);
  if (!place || x < GUTTER || y < AXIS) return null;
  const slack = 2 / scale(lanesCanvas.clientWidth), lane = place.lane;
  let best = null;
  for (let i = firstVisible(lane); i < lane.begins.length && lane.begins[i] <= time + slack; ++i) {
    const upper = lane.halves[i] === 1 && down < place.y + place.height / 2;
    if (lane.ends[i] >= time - slack) best = i;
    if (upper && best === i) break;
  }
  return best === null ? null : {lane, index: best, batch: lane.batches[best]};
}

function showTip(event) {
  const found = view.hover;
  tip.style.display = found ? 'block' : 'none';
  if (!found) return;
  const {lane, index} = found, from = lane.begins[index], to = lane.ends[index];
  const line = (text) => { const span = document.createElement('span'); span.textContent = text; return span; };
  const head = document.createElement('b');
  head.textContent = lane.texts[index];
  tip.replaceChildren(head, line(`${lane.place}, ${data.traces[lane.trace].source}`),
    line(`begins ${timeText(from)}, ends ${timeText(to)}`), line(`takes ${timeText(to - from)}`));
  const other = data.lanes.find((l) => l.trace !== lane.trace && l.role === lane.role && l.stream === lane.stream);
  const match = other ? other.texts.indexOf(lane.texts[index]) : -1;
  if (match >= 0) {
    const took = other.ends[match] - other.begins[match];
    tip.append(line(`${data.traces[other.trace].source}: begins ${timeText(other.begins[match])}, takes ${timeText(took)}`));
  }
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.min(event.clientX + 14, innerWidth - box.width - 8) + 'px';
  tip.style.top = (event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18) + 'px';
}

function setView(from, to) {
  const length = Math.min(Math.max(to - from, end * 1e-7), end * 1.02);
  view.from = Math.max(-0.005 * end, Math.min(from, end * 1.01 - length));
  view.to = view.from + length;
  redraw();
}
const reset = () => { view.top = 0; setView(-0.004 * end, end * 1.01); };
function zoom(factor, x = GUTTER + (lanesCanvas.clientWidth - GUTTER) / 2) {
  const time = view.from + (x - GUTTER) / scale(lanesCanvas.clientWidth);
  setView(time - (time - view.from) * factor, time + (view.to - time) * factor);
}

function listen() {
  let drag = null;
  lanesCanvas.addEventListener('wheel', (event) => {
    event.preventDefault();
    if (event.shiftKey) { view.top += event.deltaY || event.deltaX; redraw(); } else zoom(1.0015 ** event.deltaY, event.offsetX);
  }, {passive: false});
  lanesCanvas.addEventListener('pointerdown', (event) => {
    drag = {x: event.clientX, y: event.clientY, from: view.from, to: view.to, top: view.top};
    lanesCanvas.setPointerCapture(event.pointerId);
    lanesCanvas.classList.add('moving');
  });
  lanesCanvas.addEventListener('pointerup', () => { drag = null; lanesCanvas.classList.remove('moving'); });
  lanesCanvas.addEventListener('pointermove', (event) => {
    if (drag) {
      const shift = (event.clientX - drag.x) / scale(lanesCanvas.clientWidth);
      view.top = drag.top - (event.clientY - drag.y);
      setView(drag.from - shift, drag.to - shift);
    }
    view.hover = drag ? null : hit(event.offsetX, event.offsetY);
    showTip(event);
    redraw();
  });
  lanesCanvas.addEventListener('pointerleave', (event) => { view.hover = null; showTip(event); redraw(); });
  lanesCanvas.addEventListener('dblclick', reset);
  addEventListener('keydown', (event) => {
    const step = (view.to - view.from) / 8;
    const act = {'+': () => zoom(0.8), '=': () => zoom(0.8), '-': () => zoom(1.25), '0': reset,
      ArrowLeft: () => setView(view.from - step, view.to - step), ArrowRight: () => setView(view.from + step, view.to + step)}[event.key];
    if (act && !event.ctrlKey && !event.metaKey) { event.preventDefault(); act(); }
  });
  addEventListener('resize', redraw);
  byId('theme').addEventListener('click', () => setDark(!root.classList.contains('dark')));
  byId('reset').addEventListener('click', reset);
}

function setDark(dark) {
  root.classList.toggle('dark', dark);
  byId('theme').textContent = dark ? 'Light' : 'Dark';
  readColours();
  redraw();
}

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function fillFacts() {
  byId('facts').append(...data.facts.map((fact) => element('div', {class: 'fact', title: fact.meaning},
    element('span', {}, fact.label), element('b', {}, fact.value))));
}

function fillLegend() {
  const legend = byId('legend'), used = new Set(data.lanes.flatMap((lane) => [...new Set(lane.operations)]));
  data.operations.forEach((name, i) => {
    if (!used.has(i)) return;
    legend.append(element('span', {class: 'key'}, element('i', {style: `background: var(--${name}, var(--other))`}), operationName(name)));
  });
  if (data.lanes.some((lane) => lane.shades.some((shade) => shade > 0))) legend.append(element('span', {}, 'paler: later chunks of a role'));
  legend.append(element('span', {class: 'grow'}));
  const choice = (text, checked, change) => {
    const box = element('input', {type: 'checkbox'});
    box.checked = checked;
    box.addEventListener('change', () => { change(box.checked); placeLanes(); redraw(); });
    legend.append(element('label', {}, box, text));
  };
  if (data.lanes.some(isMessage)) choice('messages', view.messages, (on) => { view.messages = on; });
  if (data.lanes.some((lane) => lane.stream === 3)) choice('gathers and reductions', true, (on) => { view.gathers = on; });
  if (data.traces.length > 1) {
    data.traces.forEach((trace, i) => choice(trace.source, true, (on) => { on ? view.hidden.delete(i) : view.hidden.add(i); }));
  }
}

function fillTable() {
  if (data.roles.length === 0) return byId('table').remove();
  const idle = data.idle.map((name, i) => [name, i]).filter(([, i]) => data.roles.some((role) => role.idle[i] > 1e-12));
  const traffic = data.roles.some((role) => role.gathers + role.reductions > 0);
  const names = ['Role', 'Computing', ...idle.map(([name]) => name), 'Peak', ...(traffic ? ['Gathers', 'Reductions'] : []), 'Messages sent'];
  const shares = element('th', {}, 'Share of the step');
  const part = (share, colour, title) => element('span', {style: `width: ${100 * share}%; background: ${colour}`, title});
  const rows = data.roles.map((role, i) => {
    const total = role.busy + role.idle.reduce((a, b) => a + b, 0);
    const cells = [i, timeText(role.busy), ...idle.map(([, k]) => timeText(role.idle[k])), Number(role.peak.toPrecision(6)),
      ...(traffic ? [role.gathers, role.reductions] : []), role.messages];
    const stack = element('div', {class: 'stack'}, part(role.busy / total, 'var(--forward)', 'Computing'),
      ...idle.map(([name, k]) => part(role.idle[k] / total, `var(--idle${k})`, name)));
    return element('tr', {}, ...cells.map((cell) => element('td', {}, String(cell))), element('td', {class: 'share'}, stack));
  });
  byId('roles').append(element('tr', {}, ...names.map((name) => element('th', {}, name)), shares), ...rows);
  byId('idle').append(...idle.map(([name, k]) => element('span', {class: 'key'}, element('i', {style: `background: var(--idle${k})`}), name)));
}

fillFacts();
fillLegend();
fillTable();
placeLanes();
listen();
setDark(matchMedia('(prefers-color-scheme: dark)').matches);
view.from = -0.004 * end;
view.to = end * 1.01;
drawLanes();
drawMemory();
root.dataset.events = String(data.lanes.reduce((sum, lane) => sum + lane.begins.length, 0));
