//! Files of an application that differ from its description or would do harm.

use std::fs;
use std::path::{Path, PathBuf};

use test_support::LaunchContext;
use test_support::scripted::Completed;
use tests::scripted_cluster::ScriptedCluster;
use wire::proto::hadoop_yarn::LocalResourceTypeProto;

use crate::bad_input::cluster;

/// Exit status that Hadoop reports when localization fails (`ContainerExitStatus.INVALID`).
const LOCALIZATION_FAILED: i32 = -1000;

/// Starts a container that needs what `context` names; expects that its localization fails for the
/// reason given and that the node serves on.
#[track_caller]
fn fails_to_localize(
    cluster: &ScriptedCluster,
    context: LaunchContext,
    reasons: &[&str],
) -> Completed {
    let am = &cluster.am;
    let id = am.try_start(&am.allocate(), context).unwrap();
    let completed = cluster.rm.wait_completed(id);
    assert_eq!(completed.exit_status, LOCALIZATION_FAILED, "{completed:?}");
    for reason in reasons {
        assert!(completed.diagnostics.contains(reason), "{completed:?}");
    }
    cluster.assert_serves();
    completed
}

fn context() -> LaunchContext {
    LaunchContext::command("true")
}

#[test]
fn a_file_changed_since_the_submission_fails_its_container() {
    let cluster = cluster();
    let file = cluster.node.folder().join("job.conf");
    fs::write(&file, "x").unwrap();
    let changed = context().resource("job.conf", &file, LocalResourceTypeProto::File, 1_000);
    fails_to_localize(
        &cluster,
        changed,
        &["job.conf", "changed on src filesystem"],
    );
}

#[test]
fn a_file_that_is_not_there_fails_its_container() {
    let cluster = cluster();
    let file = cluster.node.folder().join("absent");
    let absent = context().resource("absent", &file, LocalResourceTypeProto::File, 1_000);
    fails_to_localize(&cluster, absent, &["absent"]);
}

/// Returns a tar archive with one entry of each name, written byte by byte: libraries refuse to
/// write such names.
fn archive(path: &Path, entries: &[(&str, Entry<'_>)]) {
    let mut builder = tar::Builder::new(fs::File::create(path).unwrap());
    for (name, entry) in entries {
        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_mode(0o644);
        let content = match entry {
            Entry::File(content) => {
                header.set_entry_type(tar::EntryType::Regular);
                content.as_bytes()
            }
            Entry::Link(target) => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.as_gnu_mut().unwrap().linkname[..target.len()]
                    .copy_from_slice(target.as_bytes());
                &[]
            }
        };
        header.set_size(u64::try_from(content.len()).unwrap());
        header.set_cksum();
        builder.append(&header, content).unwrap();
    }
    builder.finish().unwrap();
}

enum Entry<'a> {
    File(&'a str),
    Link(&'a str),
}

/// Returns every file of this name below a folder; links are not followed.
fn named(folder: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            // Folders of containers that have ended are removed meanwhile.
            continue;
        };
        for entry in entries.flatten() {
            if entry.file_name() == name {
                found.push(entry.path());
            }
            if entry.file_type().is_ok_and(|r#type| r#type.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
    found
}

#[test]
fn an_archive_that_climbs_out_of_its_folder_fails_and_writes_nothing_outside() {
    let cluster = cluster();
    let path = cluster.node.folder().join("climbs.tar");
    archive(
        &path,
        &[
            ("good", Entry::File("good")),
            ("../../climbed-out", Entry::File("evil")),
        ],
    );
    let completed = fails_to_localize(&cluster, context().archive("lib", &path), &["climbs.tar"]);
    assert!(
        completed.diagnostics.contains("climbed-out"),
        "{completed:?}"
    );
    assert_eq!(
        named(cluster.node.folder(), "climbed-out"),
        Vec::<PathBuf>::new()
    );
}

#[test]
fn an_archive_that_writes_through_its_own_link_fails_and_writes_nothing_outside() {
    let cluster = cluster();
    let outside = cluster.node.folder().join("outside");
    fs::create_dir(&outside).unwrap();
    let path = cluster.node.folder().join("links.tar");
    archive(
        &path,
        &[
            ("way", Entry::Link(outside.to_str().unwrap())),
            ("way/written-through", Entry::File("evil")),
        ],
    );
    fails_to_localize(&cluster, context().archive("lib", &path), &["links.tar"]);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn an_archive_that_is_none_fails_its_container() {
    let cluster = cluster();
    let path = cluster.node.folder().join("noise.tar.gz");
    fs::write(&path, [7; 1000]).unwrap();
    fails_to_localize(&cluster, context().archive("lib", &path), &["noise.tar.gz"]);
}

#[test]
fn a_link_name_that_climbs_out_writes_nothing_outside() {
    let cluster = cluster();
    let file = cluster.node.folder().join("source");
    fs::write(&file, "x").unwrap();
    let climbs = context().file("../../../../../linked-out", &file);
    let am = &cluster.am;
    // Refused at once or during localization or launch: what counts is that it fails and leaves
    // nothing.
    if let Ok(id) = am.try_start(&am.allocate(), climbs) {
        assert_ne!(cluster.rm.wait_completed(id).exit_status, 0);
    }
    assert_eq!(
        named(cluster.node.folder(), "linked-out"),
        Vec::<PathBuf>::new()
    );
    cluster.assert_serves();
}
