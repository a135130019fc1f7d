//! Ctrl-C and other ending signals at different moments.

use nix::sys::signal::Signal;
use tests::process::let_children_hang_up;

use crate::quickstart::run::Run;

#[track_caller]
fn ends_with(mut run: Run, signal: Signal, status: i32) {
    run.process.signal(signal);
    assert_eq!(run.end().code(), Some(status), "{}", run.output());
    run.assert_nothing_is_left();
}

#[test]
fn an_interrupt_as_soon_as_the_pages_are_told_leaves_nothing() {
    let mut run = Run::start(&[]);
    run.pages();
    ends_with(run, Signal::SIGINT, 130);
}

#[test]
fn an_interrupt_while_the_first_containers_start_leaves_nothing() {
    let run = Run::start(&["--once"]);
    run.wait_containers(2);
    ends_with(run, Signal::SIGINT, 130);
}

#[test]
fn a_termination_with_full_nodes_and_queues_leaves_nothing() {
    let mut run = Run::start(&[]);
    run.wait_output("wait in the queues");
    ends_with(run, Signal::SIGTERM, 143);
}

#[test]
fn a_lost_terminal_in_the_middle_of_an_eviction_leaves_nothing() {
    let_children_hang_up();
    let mut run = Run::start(&["--once"]);
    run.wait_output("A guaranteed job is submitted");
    ends_with(run, Signal::SIGHUP, 129);
}

#[test]
fn impatience_changes_nothing() {
    let mut run = Run::start(&[]);
    run.wait_output("wait in the queues");
    for _ in 0..5 {
        run.process.signal(Signal::SIGINT);
    }
    ends_with(run, Signal::SIGTERM, 130);
}
