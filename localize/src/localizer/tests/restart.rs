//! What an agent finds in the caches of an earlier one.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::sync::Mutex;

use crate::{KeptResource, Needed};

use super::*;

/// Records that outlive a [`Node`].
#[derive(Debug, Default)]
struct Records(Mutex<BTreeMap<String, KeptResource>>);

impl Records {
    fn all(&self) -> Vec<KeptResource> {
        self.0.lock().unwrap().values().cloned().collect()
    }
}

impl KeptRecords for Records {
    fn keep(&self, key: &str, resource: &KeptResource) {
        let mut records = self.0.lock().unwrap();
        records.insert(key.to_owned(), resource.clone());
    }

    fn forget(&self, key: &str) {
        self.0.lock().unwrap().remove(key);
    }

    fn forget_all(&self, prefix: &str) {
        let mut records = self.0.lock().unwrap();
        records.retain(|key, _| !key.starts_with(prefix));
    }
}

/// Returns a node of which something stays.
fn remembered() -> (Node, Arc<Records>) {
    let node = Node::new();
    let records = Arc::new(Records::default());
    node.localizer.remember(records.clone(), Vec::new(), &[]);
    (node, records)
}

/// Ends a node and starts another one on its folders. Containers of the application go on; those
/// named use the resources on these paths.
fn restarted(node: Node, records: &Arc<Records>, users: &[(ContainerId, Vec<PathBuf>)]) -> Node {
    let base = Arc::clone(&node.base);
    drop(node);
    let needed = Needed {
        applications: [container(1).application_id()].into(),
        resources: users.iter().flat_map(|(_, paths)| paths.clone()).collect(),
        cached: records.all(),
        ..Needed::default()
    };
    let config = Node::config(&base);
    let started = NodeDirs::start_again(&config, None, EpochMillis(1_000), needed).unwrap();
    let node = Node::on(base, started.dirs, 600_000, 0);
    node.deletion.delete(started.leftovers);
    let sink: Arc<dyn KeptRecords> = records.clone();
    node.localizer.remember(sink, started.cached, users);
    node.deletion.wait_until_idle();
    node
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

#[test]
fn resources_of_every_cache_are_used_again() {
    let (node, records) = remembered();
    let specs = [
        node.source("a", "public", Visibility::Public),
        node.source("b", "private", Visibility::Private),
        node.source("c", "of one application", Visibility::Application),
    ];
    let all = specs.each_ref();
    let before = node.get(1, &all).unwrap();
    let node = restarted(node, &records, &[]);
    // So that nothing could be fetched.
    fs::remove_dir_all(node.base.path().join("source")).unwrap();
    let after = node.get(2, &all).unwrap();
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((&after.path, after.bytes), (&before.path, before.bytes));
        assert!(after.was_cached && !before.was_cached);
    }
    assert_eq!(records.all().len(), 3);
}

#[test]
fn an_agent_without_records_deletes_what_is_in_the_caches() {
    let (node, _) = remembered();
    let spec = node.source("a", "content", Visibility::Private);
    let before = node.get(1, &[&spec]).unwrap();
    let node = restarted(node, &Arc::default(), &[]);
    assert!(!before[0].path.exists());
    assert!(!node.get(2, &[&spec]).unwrap()[0].was_cached);
}

#[test]
fn a_resource_that_is_not_what_it_was_is_fetched_again() {
    let replace = |path: &Path, with: &dyn Fn(&Path)| {
        fs::remove_file(path).unwrap();
        with(path);
    };
    type Change<'a> = &'a dyn Fn(&Path);
    let changes: [(&str, Change<'_>); 6] = [
        ("missing", &|path| fs::remove_file(path).unwrap()),
        ("cut", &|path| {
            fs::set_permissions(path, PermissionsExt::from_mode(0o700)).unwrap();
            File::options()
                .write(true)
                .open(path)
                .unwrap()
                .set_len(3)
                .unwrap();
            fs::set_permissions(path, PermissionsExt::from_mode(0o500)).unwrap();
        }),
        ("another of the same length and time", &|path| {
            let modified = fs::metadata(path).unwrap().modified().unwrap();
            replace(path, &|path| fs::write(path, "CONTENT").unwrap());
            let file = File::options().write(true).open(path).unwrap();
            file.set_modified(modified).unwrap();
        }),
        ("a link", &|path| {
            replace(path, &|path| symlink("/etc/hostname", path).unwrap())
        }),
        ("a pipe", &|path| {
            replace(path, &|path| {
                nix::unistd::mkfifo(path, Mode::S_IRWXU).unwrap()
            });
        }),
        ("a folder", &|path| {
            replace(path, &|path| fs::create_dir(path).unwrap())
        }),
    ];
    for (name, change) in changes {
        let (node, records) = remembered();
        let spec = node.source("a", "content", Visibility::Private);
        let path = node.get(1, &[&spec]).unwrap().remove(0).path;
        change(&path);
        let node = restarted(node, &records, &[]);
        assert!(!path.parent().unwrap().exists(), "{name} is deleted");
        let again = node.get(2, &[&spec]).unwrap();
        assert_eq!(fs::read(&again[0].path).unwrap(), b"content", "{name}");
        assert_ne!(again[0].path, path, "{name}");
    }
}

#[test]
fn a_cache_that_a_user_moved_behind_a_link_is_not_used() {
    let (node, records) = remembered();
    let spec = node.source("a", "content", Visibility::Private);
    let path = node.get(1, &[&spec]).unwrap().remove(0).path;
    let cache = path
        .ancestors()
        .find(|path| path.ends_with("filecache"))
        .unwrap();
    let aside = node.base.path().join("aside");
    fs::rename(cache, &aside).unwrap();
    symlink(&aside, cache).unwrap();
    let node = restarted(node, &records, &[]);
    let disk = cache.ancestors().nth(3).unwrap().to_owned();
    assert!(
        aside.join("10/a").exists(),
        "nothing behind a link is deleted"
    );
    fs::remove_file(cache).unwrap();
    let again = node.get(2, &[&spec]).unwrap().remove(0);
    assert!(!again.was_cached, "{again:?} on {}", disk.display());
}

#[test]
fn what_a_container_uses_stays_until_it_is_released_and_counts_toward_the_size() {
    let (node, records) = remembered();
    let specs = ["a", "b"].map(|name| node.source(name, "content", Visibility::Public));
    let before = node.get(1, &specs.each_ref()).unwrap();
    let used = before[0].path.clone();
    let node = restarted(node, &records, &[(container(1), vec![used.clone()])]);
    assert_eq!(node.localizer.clean_up_cache(14), 0);
    assert_eq!(node.localizer.clean_up_cache(0), 1);
    node.deletion.wait_until_idle();
    assert!(used.exists() && !before[1].path.exists());
    let left: Vec<_> = records.all().into_iter().map(|kept| kept.path()).collect();
    assert_eq!(left, [Some(used.clone())]);
    node.localizer.release(container(1));
    node.settle();
    assert_eq!(node.localizer.clean_up_cache(0), 1);
    node.deletion.wait_until_idle();
    assert!(!used.exists() && records.all().is_empty());
}

#[test]
fn a_changed_resource_that_a_container_uses_is_not_taken_from_it() {
    let (node, records) = remembered();
    let spec = node.source("a", "content", Visibility::Private);
    let used = node.get(1, &[&spec]).unwrap().remove(0).path;
    fs::set_permissions(&used, PermissionsExt::from_mode(0o700)).unwrap();
    let before = inode(&used);
    let node = restarted(node, &records, &[(container(1), vec![used.clone()])]);
    assert_eq!(inode(&used), before);
    assert!(!node.get(2, &[&spec]).unwrap()[0].was_cached);
}

#[test]
fn records_leave_with_a_missing_file_and_with_the_application() {
    let (node, records) = remembered();
    let specs = [
        node.source("a", "content", Visibility::Private),
        node.source("b", "content", Visibility::Application),
    ];
    let got = node.get(1, &specs.each_ref()).unwrap();
    fs::remove_dir_all(got[0].path.parent().unwrap()).unwrap();
    let again = node.get(2, &[&specs[0]]).unwrap();
    let paths = |records: &Records| -> Vec<_> {
        let all = records.all();
        all.iter().filter_map(KeptResource::path).collect()
    };
    assert!(!paths(&records).contains(&got[0].path));
    assert_eq!(paths(&records).len(), 2);
    let (id, user) = (container(1), "joe".parse().unwrap());
    node.localizer
        .application_finished(id.application_id(), &user);
    node.settle();
    assert_eq!(paths(&records), [again[0].path.clone()]);
}
