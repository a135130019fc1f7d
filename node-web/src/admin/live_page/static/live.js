// Follows /live and keeps the page up to date that the server has rendered. What comes from outside goes in as text only.
'use strict';
(() => {
  const WIDTH = 600, TOP = 6, BOTTOM = 100;
  const REOPEN_MS = 5000;
  const texts = new Map();
  for (const element of document.querySelectorAll('[data-text]')) texts.set(element.dataset.text, element);
  const byId = (id) => document.getElementById(id);
  let shown = null, receivedAt = 0, paused = false, source = null, reopen = 0;

  // The same words as the server's, see live/words.rs.
  const two = (value) => String(value).padStart(2, '0');
  function duration(ms) {
    const s = Math.floor(ms / 1000);
    if (s < 1) return `${Math.floor(ms)} ms`;
    if (s < 10) return `${s}.${Math.floor((ms % 1000) / 100)} s`;
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
    return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
  }

  const number = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, ',');
  const amount = (item) => `${number(item.memory_mb)} MB, ${item.vcores} ${item.vcores === 1 ? 'vcore' : 'vcores'}`;

  function say(element, text) {
    if (element && element.textContent !== text) element.textContent = text;
  }
  const write = (key, text) => say(texts.get(key), text);

  // A text in which the part that all ids of containers and attempts of a cluster share stands back.
  function sayWithIds(element, text) {
    if (element.dataset.said === text) return;
    element.dataset.said = text;
    element.replaceChildren(...text.split(/((?:container_(?:e\d+_)?|appattempt_)\d+_)(?=\d+_\d+)/).map((part, place) => {
      if (place % 2 === 0) return document.createTextNode(part);
      const dim = document.createElement('span');
      dim.className = 'dim';
      dim.textContent = part;
      return dim;
    }));
  }

  // Rows are kept as long as what they stand for, so that focus and a selected text survive.
  function rows(table, template, items, key, fill) {
    const body = byId(table).tBodies[0];
    const known = new Map([...body.rows].map((row) => [row.dataset.key, row]));
    const wanted = items.map((item, place) => {
      const row = known.get(key(item)) ?? byId(template).content.firstElementChild.cloneNode(true);
      row.dataset.key = key(item);
      fill(row, item, place);
      return row;
    });
    const kept = new Set(wanted);
    for (const row of [...body.rows]) if (!kept.has(row)) row.remove();
    wanted.forEach((row, place) => {
      if (body.rows[place] !== row) body.insertBefore(row, body.rows[place] ?? null);
    });
    byId(table).hidden = items.length === 0;
  }
  const cell = (row, name) => row.querySelector(`[data-cell="${name}"]`);

  function container(row, id) {
    const link = cell(row, 'container');
    if (!id) { link.removeAttribute('href'); say(link, 'this node'); return; }
    link.href = '/node/container/' + encodeURIComponent(id);
    sayWithIds(link, id);
  }

  function by(row, item, state) {
    const element = cell(row, 'by');
    element.dataset.type = item.execution_type;
    say(element, `${item.execution_type.toLowerCase()}, ${state}${item.user}`);
  }

  // An age, or nothing where there is none.
  function age(row, name, ms) {
    const element = cell(row, name);
    element.hidden = ms === null;
    if (ms !== null) element.querySelector('[data-ms]').dataset.ms = ms;
  }

  function show(live) {
    shown = live;
    receivedAt = performance.now();
    for (const [key, text] of Object.entries(live.texts)) write(key, text);
    byId('contact').dataset.state = live.resource_manager.state;
    byId('unhealthy').hidden = live.node.healthy;
    rows('queue-table', 'queue-row', live.queue.containers, (item) => item.container, (row, item, place) => {
      say(cell(row, 'place'), String(place + 1));
      container(row, item.container);
      by(row, item, item.paused ? 'paused, ' : '');
      say(cell(row, 'resource'), amount(item));
      cell(row, 'age').dataset.ms = item.waited_ms;
    });
    rows('running-table', 'running-row', live.running.containers, (item) => item.container, (row, item) => {
      container(row, item.container);
      by(row, item, `${item.progress}, `);
      say(cell(row, 'resource'), amount(item));
      cell(row, 'age').dataset.ms = item.since_ms;
    });
    byId('masters').hidden = live.masters === null;
    rows('masters-table', 'master-row', live.masters?.attempts ?? [], (item) => item.attempt, (row, item) => {
      const link = cell(row, 'attempt');
      link.href = '/node/application/' + encodeURIComponent(item.application);
      sayWithIds(link, item.attempt);
      for (const element of row.querySelectorAll('[data-word]')) say(element, item.words[element.dataset.word]);
      age(row, 'last', item.last_call_ms);
      age(row, 'nodes', item.nodes_age_ms);
    });
    rows('decisions-table', 'decision-row', live.decisions, (item) => String(item.sequence), (row, item) => {
      const time = cell(row, 'time');
      time.dateTime = item.at_iso;
      say(time, item.at_local);
      container(row, item.container);
      const words = cell(row, 'words');
      words.dataset.kind = item.kind;
      sayWithIds(words, item.words);
    });
    tick();
  }

  // What time alone changes.
  function tick() {
    if (!shown || paused) return;
    const passed = performance.now() - receivedAt;
    for (const element of document.querySelectorAll('[data-ms]')) say(element, duration(Number(element.dataset.ms) + passed));
    if (shown.queue.longest_wait_ms !== null) write('longest_wait', duration(shown.queue.longest_wait_ms + passed));
    write('rm', shown.texts.rm.replace('{}', duration(shown.resource_manager.since_ms + passed)));
    write('uptime', duration(shown.node.uptime_ms + passed));
    draw(shown, shown.node.uptime_ms + passed);
  }

  // The same lines as the server's, see chart.rs.
  function draw(live, now) {
    const steps = live.history.steps;
    const windowS = live.history.windows_s.find((size) => now <= size * 1000) ?? live.history.windows_s.at(-1);
    const begin = now - windowS * 1000;
    write('window', `Last ${windowS / 60 === 1 ? 'minute' : `${windowS / 60} minutes`}`);
    write('axis_begin', `${windowS / 60} min ago`);
    const peaks = {};
    for (const name of ['running_guaranteed', 'running_opportunistic', 'waiting']) {
      peaks[name] = Math.max(0, ...steps.filter((step, i) => (steps[i + 1]?.second ?? Infinity) * 1000 > begin).map((step) => step[name]));
    }
    const running = Math.max(1, peaks.running_guaranteed, peaks.running_opportunistic);
    const limit = live.queue.limit_length;
    const limitShown = limit !== null && limit <= 2 * Math.max(peaks.waiting, 2);
    const tops = { running_guaranteed: running, running_opportunistic: running, waiting: Math.max(1, peaks.waiting, limitShown ? limit : 0) };
    for (const [name, top] of Object.entries(tops)) {
      const y = (value) => (BOTTOM - (BOTTOM - TOP) * value / top).toFixed(1);
      const x = (second) => Math.max(0, (second * 1000 - begin) / (windowS * 1000) * WIDTH).toFixed(1);
      const [first, ...rest] = steps;
      let line = `M${x(first.second)} ${y(first[name])}`;
      for (const step of rest) line += `H${x(step.second)}V${y(step[name])}`;
      line += `H${WIDTH}`;
      const figure = byId(`chart-${name}`);
      figure.querySelector('.line').setAttribute('d', line);
      figure.querySelector('.area').setAttribute('d', `${line}V${BOTTOM}H${x(first.second)}Z`);
      write(`peak_${name}`, `now ${live.history.now[name]}, peak ${peaks[name]}`);
    }
    const mark = byId('chart-waiting').querySelector('.limit');
    const at = limitShown ? (BOTTOM - (BOTTOM - TOP) * limit / tops.waiting).toFixed(1) : '-10';
    mark.setAttribute('y1', at);
    mark.setAttribute('y2', at);
    write('limit_mark', limitShown ? `dashed: limit ${limit}` : '');
  }

  const button = byId('pause');
  button.hidden = false;
  button.addEventListener('click', () => {
    paused = !paused;
    button.textContent = paused ? 'Go on' : 'Pause';
    if (paused) { close(); write('feed', `Paused at ${shown ? shown.at_local : 'the start'}.`); } else { open(); }
  });

  function close() {
    clearTimeout(reopen);
    if (source) source.close();
    source = null;
  }
  function open() {
    close();
    write('feed', 'Connecting.');
    source = new EventSource('/live');
    source.onmessage = (event) => {
      write('feed', 'Live.');
      show(JSON.parse(event.data));
    };
    source.onerror = () => {
      write('feed', `Not connected; last seen ${shown ? shown.at_local : 'never'}. Trying again.`);
      // The browser tries again by itself unless the server has refused.
      if (source.readyState === EventSource.CLOSED) reopen = setTimeout(open, REOPEN_MS);
    };
  }
  document.addEventListener('visibilitychange', () => {
    if (paused) return;
    if (document.hidden) close(); else open();
  });
  setInterval(tick, 1000);
  if (!document.hidden) open();
})();
