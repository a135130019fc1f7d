//! Resources that are removed between the localization and the launch.

use super::*;

impl Node {
    fn bring_back(&self, n: i64, gone: Vec<LocalizedResource>) -> Answer {
        let (sender, receiver) = mpsc::channel();
        let user = "joe".parse().unwrap();
        let reply = move |answer| drop(sender.send(answer));
        self.localizer.bring_back(container(n), user, gone, reply);
        receiver.recv_timeout(DEADLINE).unwrap()
    }
}

#[test]
fn what_was_removed_since_a_look_is_seen_and_brought_back() {
    let node = Node::believing();
    let specs = [
        node.source("a", "1", Visibility::Public),
        node.source("b", "2", Visibility::Private),
        node.source("c", "3", Visibility::Application),
    ];
    let wanted: Vec<_> = specs.iter().collect();
    node.get(1, &wanted).unwrap();
    let got = node.ask(2, "joe", &wanted).try_recv().unwrap().unwrap();
    assert_eq!(node.localizer.gone(&got), []);
    for removed in [&got[0], &got[2]] {
        fs::remove_file(&removed.path).unwrap();
    }
    let gone = node.localizer.gone(&got);
    assert_eq!(gone, [got[0].clone(), got[2].clone()]);
    let back = node.bring_back(2, gone.clone()).unwrap();
    let links: Vec<_> = back.iter().map(|resource| &*resource.link).collect();
    assert_eq!(links, ["link0", "link2"]);
    assert_eq!(fs::read(&back[0].path).unwrap(), b"1");
    assert_eq!(fs::read(&back[1].path).unwrap(), b"3");
    assert_eq!(node.localizer.gone(&back), []);
    assert!(node.status(2).len() == 3, "{:?}", node.status(2));
    // The other container, which has them by the same look, gets them without a download.
    let others = node.bring_back(1, gone).unwrap();
    assert!(others.iter().all(|resource| resource.was_cached));
    assert_eq!(others[0].path, back[0].path);
    // All goes when both containers have ended.
    for n in [1, 2] {
        node.localizer.release(container(n));
    }
    node.settle();
    assert_eq!(node.localizer.clean_up_cache(0), 2);
}

#[test]
fn a_link_in_a_files_place_is_there_and_one_on_the_way_is_not() {
    let node = Node::believing();
    let spec = node.source("a", "content", Visibility::Private);
    let got = node.get(1, &[&spec]).unwrap();
    fs::remove_file(&got[0].path).unwrap();
    std::os::unix::fs::symlink("/nowhere", &got[0].path).unwrap();
    assert_eq!(node.localizer.gone(&got), []);
    let folder = got[0].path.parent().unwrap();
    let aside = folder.with_extension("aside");
    fs::rename(folder, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, folder).unwrap();
    assert_eq!(node.localizer.gone(&got), got);
}

#[test]
fn what_cannot_be_had_again_is_an_error_and_may_be_tried_once_more() {
    let node = Node::believing();
    let spec = node.source("a", "content", Visibility::Private);
    let got = node.get(1, &[&spec]).unwrap();
    let source = node.base.path().join("source/a");
    fs::remove_file(&got[0].path).unwrap();
    let aside = source.with_extension("aside");
    fs::rename(&source, &aside).unwrap();
    let failed = node.bring_back(1, got.clone());
    assert!(
        matches!(failed, Err(LocalizeError::Resource { .. })),
        "{failed:?}"
    );
    fs::rename(&aside, &source).unwrap();
    let back = node.bring_back(1, got.clone()).unwrap();
    assert_eq!(fs::read(&back[0].path).unwrap(), b"content");
    // A container that has ended gets nothing.
    node.localizer.release(container(1));
    let late = node.bring_back(1, back);
    assert!(matches!(late, Err(LocalizeError::Cancelled)), "{late:?}");
}

#[test]
fn a_container_with_many_launches_holds_no_more_than_another() {
    let node = Node::believing();
    let spec = node.source("a", "content", Visibility::Private);
    let mut has = node.get(1, &[&spec]).unwrap();
    for _ in 0..20 {
        fs::remove_file(&has[0].path).unwrap();
        has = node.bring_back(1, node.localizer.gone(&has)).unwrap();
    }
    let (requests, entries) = node.localizer.shared.state().cache.sizes();
    assert!(requests <= 3 && entries <= 3, "{requests} {entries}");
    node.localizer.release(container(1));
    node.settle();
    assert_eq!(node.localizer.shared.state().cache.sizes(), (0, 1));
}
