//! Requests whose resources the node has, by looks that count.

use super::*;

#[test]
fn a_container_whose_files_were_seen_lately_is_answered_on_the_spot() {
    let node = Node::believing();
    let visibilities = [Visibility::Public, Visibility::Application];
    let specs =
        visibilities.map(|visibility| node.source(&format!("{visibility:?}"), "x", visibility));
    let first = node.get(1, &[&specs[0], &specs[1]]).unwrap();
    let second = node.ask(2, "joe", &[&specs[1], &specs[0]]).try_recv();
    let second = second.expect("no other thread answers").unwrap();
    assert!(second.iter().all(|resource| resource.was_cached));
    let paths = |resources: &[LocalizedResource]| -> Vec<_> {
        resources.iter().map(|it| it.path.clone()).collect()
    };
    let mut reversed = paths(&second);
    reversed.reverse();
    assert_eq!(reversed, paths(&first));
    assert_eq!(second[0].link, "link0");
    let status = node.status(2);
    assert!(
        status.len() == 2
            && status
                .iter()
                .all(|s| s.state == LocalizationState::Completed)
    );
}

#[test]
fn what_is_given_on_the_spot_is_used_until_it_is_released() {
    let node = Node::believing();
    let spec = node.source("a", "content", Visibility::Private);
    node.get(1, &[&spec]).unwrap();
    node.ask(2, "joe", &[&spec]).try_recv().unwrap().unwrap();
    node.localizer.release(container(1));
    node.settle();
    assert_eq!(node.localizer.clean_up_cache(0), 0);
    node.localizer.release(container(2));
    node.settle();
    assert_eq!(node.localizer.clean_up_cache(0), 1);
    // It is not believed to be there any more.
    let again = node.get(3, &[&spec]).unwrap();
    assert_eq!(fs::read(&again[0].path).unwrap(), b"content");
}

#[test]
fn a_file_that_is_missing_is_waited_for_beside_one_that_was_seen() {
    let node = Node::believing();
    let (cached, new) = (
        node.source("a", "1", Visibility::Private),
        node.source("b", "2", Visibility::Private),
    );
    node.get(1, &[&cached]).unwrap();
    let got = node.get(2, &[&cached, &new]).unwrap();
    let hits: Vec<_> = got.iter().map(|resource| resource.was_cached).collect();
    assert_eq!(hits, [true, false]);
    // Another user's file of the same source is another file.
    let anns = node.ask(3, "ann", &[&cached]);
    let anns = anns.recv_timeout(DEADLINE).unwrap().unwrap();
    assert_ne!(anns[0].path, got[0].path);
}

#[test]
fn nothing_is_answered_on_the_spot_once_the_threads_have_stopped() {
    let mut node = Node::believing();
    let spec = node.source("a", "content", Visibility::Public);
    node.get(1, &[&spec]).unwrap();
    node.threads.take().unwrap().stop();
    let answer = node.get(2, &[&spec]);
    assert!(matches!(answer, Err(LocalizeError::Stopping)), "{answer:?}");
}
