//! One user's resources that are large, slow or many do not delay another's.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use test_support::LaunchContext;
use test_support::scripted::ScriptedAm;

use crate::bad_input::cluster;

/// Bytes that an archive pretends to hold: minutes of reading, and nothing to write.
const ENDLESS_BYTES: u64 = 1 << 40;

/// Writes a tar archive, as a file with a hole, whose only entry is a label of this size.
pub(crate) fn endless_archive(path: &Path) {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::new(b'V'));
    header.set_size(ENDLESS_BYTES);
    header.set_cksum();
    fs::write(path, header.as_bytes()).unwrap();
    let archive = File::options().write(true).open(path).unwrap();
    archive.set_len(ENDLESS_BYTES).unwrap();
}

#[test]
fn a_small_file_does_not_wait_for_another_users_endless_archives() {
    let cluster = cluster();
    let folder = cluster.node.folder();
    let mut endless = LaunchContext::command("true");
    // More than there are threads for all users.
    for n in 0..6 {
        let archive = folder.join(format!("endless{n}.tar"));
        endless_archive(&archive);
        endless = endless.archive(&format!("lib{n}"), &archive);
    }
    let slow = cluster
        .am
        .try_start(&cluster.am.allocate(), endless)
        .unwrap();
    let small = folder.join("small");
    fs::write(&small, "small").unwrap();
    let ann = ScriptedAm::connect_as("ann", &cluster.rm, 2);
    let context = LaunchContext::command("test \"$(cat small)\" = small").file("small", &small);
    let quick = ann.try_start(&ann.allocate(), context).unwrap();
    let completed = cluster.rm.wait_completed(quick);
    assert_eq!(completed.exit_status, 0, "{completed:?}");
    // Its downloads end with the container.
    cluster.am.stop(slow).unwrap();
    cluster.rm.wait_completed(slow);
    cluster.assert_serves();
}

#[test]
fn a_cached_file_that_is_removed_before_each_start_is_there_in_each_container() {
    let cluster = cluster();
    let source = cluster.node.folder().join("dictionary");
    fs::write(&source, "words").unwrap();
    let command = "readlink link > <LOG_DIR>/place; test \"$(cat link)\" = words";
    let context = || LaunchContext::command(command).file("link", &source);
    let run = |context: LaunchContext| {
        let allocation = cluster.am.allocate();
        let id = cluster.am.try_start(&allocation, context).unwrap();
        (id, cluster.rm.wait_completed(id))
    };
    let place_of = |id| PathBuf::from(cluster.log(id, "place").trim_end());
    let (first, completed) = run(context());
    assert_eq!(completed.exit_status, 0, "{completed:?}");
    let mut place = place_of(first);
    for round in 0..25 {
        fs::remove_file(&place).unwrap();
        let (id, completed) = run(context());
        assert_eq!(completed.exit_status, 0, "{round}: {completed:?}");
        let before = std::mem::replace(&mut place, place_of(id));
        assert_ne!(place, before, "{round}");
    }
    // What cannot be had again fails as if it had never been had.
    let last = context();
    fs::remove_file(&place).unwrap();
    fs::remove_file(&source).unwrap();
    let (_, completed) = run(last);
    assert_eq!(completed.exit_status, -1000, "{completed:?}");
    assert!(
        completed.diagnostics.contains("does not exist"),
        "{completed:?}"
    );
    cluster.assert_serves();
}

#[test]
fn a_container_that_removes_its_cached_file_has_it_in_each_of_its_launches() {
    let cluster = cluster();
    let source = cluster.node.folder().join("dictionary");
    fs::write(&source, "words\n").unwrap();
    let launches = cluster.node.folder().join("launches");
    let script = cluster.node.folder().join("removing.sh");
    let text = format!(
        "cat link >> '{}' || exit 9\nrm \"$(readlink link)\"\nexit 7\n",
        launches.display()
    );
    fs::write(&script, text).unwrap();
    let context = LaunchContext::command(&format!("exec bash '{}'", script.display()))
        .file("link", &source)
        .retry_on_all_errors(3, 1);
    let allocation = cluster.am.allocate();
    let id = cluster.am.try_start(&allocation, context).unwrap();
    let completed = cluster.rm.wait_completed(id);
    assert_eq!(completed.exit_status, 7, "{completed:?}");
    assert_eq!(fs::read_to_string(&launches).unwrap(), "words\n".repeat(4));
}
