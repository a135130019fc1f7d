//! The pages of single containers, applications and lists: they fit a phone, and follow what they
//! show.

use tests::require;

use crate::page::picture::save;
use crate::page::{NODE_MB, Watched, wait_place};

/// Whether nothing of the page lies beside the screen.
const FITS: &str = "document.documentElement.scrollWidth <= window.innerWidth";

/// Landmarks of a page, and headings that lead to them.
const LANDMARKS: &str = "document.querySelectorAll('header').length === 1 && \
     document.querySelectorAll('main').length === 1 && document.querySelectorAll('h1').length === 1 && \
     [...document.querySelectorAll('section')].every((section) => section.getAttribute('aria-label') || \
         document.getElementById(section.getAttribute('aria-labelledby')))";

#[test]
fn a_container_is_followed_on_its_page_and_every_page_fits_a_phone() {
    require!(chromium);
    let watched = Watched::start();
    let (first, last) = (watched.cluster.gate("first"), watched.cluster.gate("last"));
    let script = "printf 'line 1\\nline 2\\nline 3\\n' > <LOG_DIR>/stdout; ";
    let command = format!(
        "{script}{}",
        first.then(&last.then("echo no such table >> <LOG_DIR>/stdout; exit 3"))
    );
    let id = watched
        .cluster
        .am
        .start(&watched.guaranteed(NODE_MB / 4), &command);
    watched.cluster.rm.wait_sub_state(
        id,
        wire::proto::hadoop_yarn::ContainerSubStateProto::CssRunning,
    );
    watched.running(&watched.opportunistic(NODE_MB / 2), &last);
    watched.queued(NODE_MB / 2);
    let mut page = watched.browse(1200, 900);
    wait_place(&mut page, "waiting", "1");
    let container = format!("/node/container/{id}");
    page.go(&watched.url(&container));
    page.wait(
        "the output",
        "document.querySelector('main').textContent.includes('line 3')",
    );
    page.eval("document.querySelector('[data-follow] button').click(), true");
    first.open();
    last.open();
    watched.cluster.rm.wait_completed(id);
    page.wait(
        "what was printed at the end, and the story's end",
        "document.querySelector('main').textContent.includes('no such table') && \
         document.querySelector('.story').textContent.includes('exit status 3')",
    );
    let application = format!("/node/application/{}", id.application_id());
    let logs = format!("/node/containerlogs/{id}/alice");
    let log = format!("{logs}/stdout");
    for (name, path) in [
        ("container", container.as_str()),
        ("application", &application),
        ("containers", "/node/allContainers"),
        ("applications", "/node/allApplications"),
        ("node", "/node"),
        ("logs", &logs),
        ("log", &log),
    ] {
        page.go(&watched.url(path));
        page.wait(&format!("landmarks of {path}"), LANDMARKS);
        page.resize(1200, 900);
        page.wait(&format!("{path} to fit"), FITS);
        save(&mut page, &format!("page-{name}.png"));
        page.resize(400, 900);
        page.wait(&format!("{path} to fit a phone"), FITS);
        save(&mut page, &format!("page-{name}-400.png"));
        page.prefer_dark(true);
        save(&mut page, &format!("page-{name}-400-dark.png"));
        page.prefer_dark(false);
    }
}
