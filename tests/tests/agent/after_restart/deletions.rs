//! Folders that are kept for a while (`yarn.nodemanager.delete.debug-delay-sec`) outlive a killed
//! agent, and do not outlive the delay.

use std::fs;
use std::path::PathBuf;

use records::ContainerId;
use test_support::current_user;
use tests::scripted_cluster::ScriptedCluster;
use tests::wait;

use super::{DEADLINE, restart, start, wait_stored};

const DELAY: &str = "yarn.nodemanager.delete.debug-delay-sec";

/// An hour, and so longer than any test.
const LONG: &str = "3600";

fn work_folder(cluster: &ScriptedCluster, id: ContainerId) -> PathBuf {
    let caches = cluster.node.local_dir().join("usercache");
    let applications = caches.join(current_user()).join("appcache");
    let application = applications.join(id.application_id().to_string());
    application.join(id.to_string())
}

#[test]
fn a_delayed_deletion_waits_over_a_kill_and_happens_then() {
    let mut cluster = start(|site| {
        site.set(DELAY, LONG);
    });
    let first = cluster.am.run("true");
    assert_eq!(cluster.rm.wait_completed(first).exit_status, 0);
    // Nothing of the container is known to the agent any more.
    wait_stored(&cluster);
    let script = work_folder(&cluster, first).join("launch_container.sh");
    assert!(script.exists());

    restart(&mut cluster, |_| {});
    cluster.assert_serves();
    assert!(script.exists(), "deleted at the start");

    restart(&mut cluster, |cluster| {
        let site = cluster.node.folder().join("conf/yarn-site.xml");
        let text = fs::read_to_string(&site).unwrap();
        assert_eq!(text.matches(LONG).count(), 1, "{text}");
        fs::write(&site, text.replace(LONG, "0")).unwrap();
    });
    wait::until("the deletion", DEADLINE, || {
        let folder = work_folder(&cluster, first);
        wait::check(!folder.exists(), folder.display().to_string())
    });
    cluster.assert_serves();
}
