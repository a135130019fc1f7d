// Keeps the page as the server renders it: at each event of /live the page is fetched anew, and what differs is changed in place.
'use strict';
(() => {
  const REOPEN_MS = 5000;
  // Without an event the page is fetched this often: the charts have moved on by then.
  const REFRESH_MS = 10000;
  const CHART_WIDTH = 600;
  const feed = document.querySelector('.feed');
  const button = document.getElementById('pause');
  let at = feed.dataset.at, renderedAt = performance.now(), paused = false, source = null, reopen = 0;
  let fetching = false, changed = false;

  // The same words as the server's, see overview/words.rs.
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

  function write(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }
  const writeFeed = (text) => write(feed.querySelector('[data-text="feed"]'), text);

  // Makes an element like a fresh one, in place. Elements with a key stay as long as the fresh one has their key, so
  // that focus and a selected text survive.
  function merge(element, fresh) {
    if (element === feed) { at = fresh.dataset.at; return; }
    for (const { name } of [...element.attributes]) if (!fresh.hasAttribute(name)) element.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (element.getAttribute(name) !== value) element.setAttribute(name, value);
    const keys = new Set([...fresh.children].map((child) => child.dataset.key));
    const kept = new Map();
    for (const child of [...element.children]) {
      const { key } = child.dataset;
      if (key === undefined) continue;
      if (keys.has(key)) kept.set(key, child); else child.remove();
    }
    let place = element.firstChild;
    for (const next of [...fresh.childNodes]) {
      const key = next.dataset?.key;
      const same = place?.nodeName === next.nodeName && place.dataset?.key === undefined ? place : undefined;
      const child = key === undefined ? same : kept.get(key);
      if (child === undefined) {
        element.insertBefore(next, place);
        continue;
      }
      if (child === place) place = place.nextSibling; else element.insertBefore(child, place);
      if (child.isEqualNode(next)) continue;
      if (child.nodeType === Node.TEXT_NODE) child.data = next.data; else merge(child, next);
    }
    while (place) {
      const gone = place;
      place = place.nextSibling;
      gone.remove();
    }
  }

  async function refresh() {
    changed = true;
    if (fetching) return;
    fetching = true;
    try {
      while (changed && source && !paused) {
        changed = false;
        const answer = await fetch('/');
        const html = await answer.text();
        if (!answer.ok || !source || paused) break;
        merge(document.body, new DOMParser().parseFromString(html, 'text/html').body);
        renderedAt = performance.now();
        writeFeed('Live.');
      }
    } catch {
      // The stream of events breaks too, and says so.
    } finally {
      fetching = false;
    }
  }

  // What time alone changes.
  function tick() {
    if (paused) return;
    const passed = performance.now() - renderedAt;
    for (const element of document.querySelectorAll('[data-ms]')) write(element, duration(Number(element.dataset.ms) + passed));
    for (const chart of document.querySelectorAll('[data-window-ms]')) {
      chart.viewBox.baseVal.x = passed / Number(chart.dataset.windowMs) * CHART_WIDTH;
    }
    if (passed > REFRESH_MS) refresh();
  }

  button.hidden = false;
  button.addEventListener('click', () => {
    paused = !paused;
    button.textContent = paused ? 'Go on' : 'Pause';
    if (paused) { close(); writeFeed(`Paused at ${at}.`); } else { open(); }
  });

  function close() {
    clearTimeout(reopen);
    if (source) source.close();
    source = null;
  }
  function open() {
    close();
    writeFeed('Connecting.');
    source = new EventSource('/live');
    source.onmessage = refresh;
    source.onerror = () => {
      writeFeed(`Not connected; last seen ${at}. Trying again.`);
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
