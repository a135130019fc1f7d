//! Retries that were granted before the agent was killed count afterwards.

use std::fs;

use test_support::LaunchContext;
use tests::wait;

use super::{DEADLINE, restart, script, start};

#[test]
fn a_container_gets_exactly_the_retries_that_are_left() {
    let mut cluster = start(|_| {});
    let attempts = cluster.node.folder().join("attempts");
    let gate = cluster.gate("gate");
    let text = format!(
        "echo attempt >> '{attempts}'\n\
         if [ $(wc -l < '{attempts}') = 2 ]; then {}; fi\n\
         exit 7\n",
        gate.wait_command(),
        attempts = attempts.display()
    );
    let command = script(&cluster, "failing.sh", &text);
    let context = LaunchContext::command(&command).retry_on_all_errors(3, 1);
    let allocation = cluster.am.allocate();
    let id = cluster.am.try_start(&allocation, context).unwrap();
    let count = || {
        let text = fs::read_to_string(&attempts).unwrap_or_default();
        text.lines().count()
    };
    wait::until("the second attempt", DEADLINE, || {
        wait::check(count() == 2, count())
    });
    restart(&mut cluster, |_| {});
    gate.open();
    let completed = cluster.rm.wait_completed(id);
    assert_eq!(completed.exit_status, 7, "{completed:?}");
    assert_eq!(count(), 4, "the first attempt and three retries");
}
