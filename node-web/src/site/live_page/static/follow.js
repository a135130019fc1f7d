// Follows a page: fetches what the server renders and puts it in place of what is shown, until the reader stops it.
'use strict';
(() => {
  const PAUSE_MS = 1000;
  const feed = document.querySelector('[data-follow]');
  const status = feed.querySelector('[role=status]');
  const button = feed.querySelector('button');
  let timer = 0, follows = false;

  function say(text) {
    if (status.textContent !== text) status.textContent = text;
  }

  async function look() {
    try {
      const answer = await fetch(feed.dataset.follow);
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html').querySelector('main');
      const shown = document.querySelector('main');
      if (follows && fresh && !shown.isEqualNode(fresh)) {
        const ends = [...shown.querySelectorAll('pre')].map((pre) => pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4);
        shown.replaceWith(fresh);
        for (const [place, pre] of fresh.querySelectorAll('pre').entries()) if (ends[place] ?? true) pre.scrollTop = pre.scrollHeight;
      }
      if (follows) say('Following.');
    } catch {
      if (follows) say('Not connected; trying again.');
    }
    if (follows) timer = setTimeout(look, PAUSE_MS);
  }

  feed.hidden = false;
  button.addEventListener('click', () => {
    follows = !follows;
    button.textContent = follows ? 'Stop' : 'Follow';
    clearTimeout(timer);
    if (follows) { say('Connecting.'); look(); } else { say('Stopped.'); }
  });
})();
