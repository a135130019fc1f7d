//! One user's resources that are large, slow or many do not delay another's.

use std::fs::{self, File};
use std::path::Path;

use test_support::LaunchContext;
use test_support::scripted::ScriptedAm;

use crate::bad_input::cluster;

/// Bytes that an archive pretends to hold: minutes of reading, and nothing to write.
const ENDLESS_BYTES: u64 = 1 << 40;

/// Writes a tar archive, as a file with a hole, whose only entry is a comment of this size.
pub(super) fn endless_archive(path: &Path) {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::XGlobalHeader);
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
