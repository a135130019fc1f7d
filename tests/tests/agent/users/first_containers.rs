//! First containers of a user on a node: their folders do not exist yet, or a crash left one half
//! made.

use std::os::unix::fs::MetadataExt as _;

use super::*;

/// Containers of one call.
const TOGETHER: usize = 20;

/// Starts containers of a user without any folder in one call, each with a resource, and waits for
/// their ends. Returns the diagnostics of those that failed.
fn start_together(tenants: &Tenants, round: i32) -> Vec<String> {
    let cluster = &tenants.cluster;
    let users = cluster.node.local_dir().join("usercache").join(VICTIM);
    localize::remove_folder(&users).expect("the folder can be removed");
    let resource = cluster.node.folder().join(format!("resource-{round}"));
    fs::write(&resource, "shared").expect("the folder is writable");
    let am = ScriptedAm::connect_as(VICTIM, &cluster.rm, 100 + round);
    let container = |_| {
        let context = LaunchContext::command("cat resource").file("resource", &resource);
        (am.allocate(), context)
    };
    let containers: Vec<_> = (0..TOGETHER).map(container).collect();
    let ids: Vec<_> = containers
        .iter()
        .map(|(allocation, _)| allocation.id)
        .collect();
    am.start_all(containers).expect("the node takes them");
    let ends = ids.into_iter().map(|id| cluster.rm.wait_completed(id));
    let failed = ends.filter(|end| end.exit_status != 0);
    failed.map(|end| format!("{end:?}")).collect()
}

/// Starts first containers this many times and asserts that all of them started.
#[track_caller]
fn all_start(test: &str, rounds: i32) {
    let started = Tenants::start_with(test, |site| {
        // Room for all of them at once.
        site.set("yarn.nodemanager.resource.memory-mb", 8192);
    });
    let Some(tenants) = started else {
        return;
    };
    let failed: Vec<_> = (0..rounds)
        .flat_map(|round| start_together(&tenants, round))
        .collect();
    assert_eq!(failed, [""; 0], "{} failed", failed.len());
}

#[test]
fn first_containers_that_start_together_all_start() {
    all_start("first_containers_that_start_together_all_start", 5);
}

#[test]
#[ignore = "a thousand containers"]
fn a_thousand_first_containers_all_start() {
    all_start("a_thousand_first_containers_all_start", 50);
}

#[test]
fn a_folder_that_a_crash_left_half_made_is_completed_and_one_in_use_is_refused() {
    let test = "a_folder_that_a_crash_left_half_made_is_completed_and_one_in_use_is_refused";
    let Some(tenants) = Tenants::start(test) else {
        return;
    };
    let users = tenants.cluster.node.local_dir().join("usercache");
    fs::create_dir(users.join(VICTIM)).unwrap();
    fs::create_dir_all(users.join(ATTACKER).join("precious")).unwrap();
    let id = tenants.victim.run("true");
    let completed = tenants.cluster.rm.wait_completed(id);
    assert_eq!(completed.exit_status, 0, "{completed:?}");
    let folder = fs::metadata(users.join(VICTIM)).unwrap();
    let expected = (account(VICTIM).uid.as_raw(), 0o2750);
    assert_eq!((folder.uid(), folder.mode() & 0o7777), expected);
    let (status, diagnostics) = tenants.end_of(&tenants.attacker, LaunchContext::command("true"));
    assert_ne!(status, 0);
    assert!(
        diagnostics.contains("belongs to user id 0"),
        "{diagnostics}"
    );
    assert!(users.join(ATTACKER).join("precious").is_dir());
}
