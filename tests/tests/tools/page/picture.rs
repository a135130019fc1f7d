//! A busy node, for the picture in README.md and for looking at the page.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tests::browser::Page;
use tests::require;

use crate::page::{NODE_MB, Watched, wait_place};

/// Variable with the folder for pictures; unset, none are written.
const FOLDER: &str = "NM_AGENT_SCREENSHOTS";

/// Pause between events, so that the charts have something to show. Only when pictures are written.
const PAUSE: Duration = Duration::from_millis(2_500);

pub(crate) fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

fn pass_time() {
    if folder().is_some() {
        std::thread::sleep(PAUSE);
    }
}

pub(crate) fn save(page: &mut Page, name: &str) {
    let picture = page.screenshot();
    assert!(picture.starts_with(b"\x89PNG"), "{name} is no picture");
    if let Some(folder) = folder() {
        let path = folder.join(name);
        fs::write(&path, picture).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

#[test]
fn the_picture_for_the_readme() {
    require!(chromium);
    let watched = Watched::start();
    let (am, rm) = (&watched.cluster.am, &watched.cluster.rm);
    let mut page = watched.browse(1200, 820);
    let [first, second, last] = ["first", "second", "last"].map(|name| watched.cluster.gate(name));
    let small = NODE_MB / 8;
    rm.order_queuing_limit(8);
    watched.running(&watched.guaranteed(small), &last);
    for gate in [&first, &second, &last] {
        pass_time();
        watched.running(&watched.opportunistic(small), gate);
    }
    pass_time();
    for _ in 0..4 {
        watched.running(&watched.opportunistic(small), &last);
    }
    for _ in 0..8 {
        pass_time();
        am.start(&watched.opportunistic(small), &last.then("true"));
    }
    pass_time();
    first.open();
    pass_time();
    watched.running(&watched.guaranteed(2 * small), &last);
    pass_time();
    second.open();
    pass_time();
    let command = "echo 'no such table: events' > <LOG_DIR>/stderr; exit 3";
    let failing = am.start(&watched.guaranteed(small), command);
    rm.wait_completed(failing);
    pass_time();
    rm.order_queuing_limit(4);
    wait_place(&mut page, "limit", "4");
    pass_time();
    watched.running(&watched.guaranteed(small), &last);
    for _ in 0..2 {
        pass_time();
        am.start(&watched.opportunistic(small), &last.then("true"));
    }
    wait_place(&mut page, "feed", "Live.");
    page.wait(
        "a queue",
        "Number(document.querySelector('[data-text=waiting]').textContent) > 0",
    );
    save(&mut page, "live-page.png");
    page.prefer_dark(true);
    save(&mut page, "dark.png");
    page.prefer_dark(false);
    page.resize(360, 1800);
    save(&mut page, "phone.png");
    last.open();
}
