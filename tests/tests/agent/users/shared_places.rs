//! Ends of many containers of one user that take long, on a disk that hangs and in cgroups that
//! stay busy, beside the end of another user's container: they share the places for such work.

use test_support::Hanging;
use test_support::mounts::{self, with_own_mounts};
use test_support::scripted::Completed;
use test_support::skip::skip_by_kernel;
use tests::cgroups::Hierarchy;
use tests::gate::Gate;
use tests::wait;
use wire::proto::hadoop_yarn::ContainerSubStateProto::{CssRunning, CssScheduled};

use super::ends::{DEADLINE, with_and_without_cgroups_and};
use super::*;

/// Containers of the attacker: twice as many as the node has places for one kind of work.
const MANY: u64 = 16;
/// Memory of each, in MiB.
const EACH_MB: u64 = 128;
/// Memory of the node, in MiB: they fill it.
const NODE_MB: u64 = MANY * EACH_MB;

/// Exit status of all containers: ends with other statuses than 0 have their error files read.
const FAILS: i32 = 3;

/// Text in the error files of the victim.
const WHY: &str = "for want of luck";

/// An hour, and so longer than any test.
const LONG_MS: u64 = 3_600_000;

fn room_for_many(site: &mut Properties) {
    site.set("yarn.nodemanager.resource.memory-mb", NODE_MB);
}

/// Containers of the attacker that run and fill the node. They fail once the gate is open.
struct Many {
    ids: Vec<ContainerId>,
    gate: Gate,
}

impl Many {
    fn start(tenants: &Tenants) -> Self {
        let gate = tenants.cluster.gate("gate");
        let fail = gate.then(&format!("exit {FAILS}"));
        let command = format!("echo failed > <LOG_DIR>/stderr; {fail}");
        let (am, rm) = (&tenants.attacker, &tenants.cluster.rm);
        let start = |_| am.start(&am.allocate().memory_mb(EACH_MB), &command);
        let ids: Vec<ContainerId> = (0..MANY).map(start).collect();
        for id in &ids {
            rm.wait_sub_state(*id, CssRunning);
            wait::until("the error file", DEADLINE, || {
                let file = tenants.log_dir(*id).join("stderr");
                wait::check(file.exists(), file.display().to_string())
            });
        }
        Self { ids, gate }
    }

    /// Lets all of them fail beside a container of the victim that gets their room once their
    /// processes are gone, and fails too. Asserts that its end is reported before all of theirs;
    /// returns it.
    #[track_caller]
    fn fail_beside_another(&self, tenants: &Tenants) -> Completed {
        let (am, rm) = (&tenants.victim, &tenants.cluster.rm);
        let command = format!("echo {WHY} > <LOG_DIR>/stderr; exit {FAILS}");
        let id = am.start(&am.allocate().memory_mb(NODE_MB), &command);
        rm.wait_sub_state(id, CssScheduled);
        self.gate.open();
        let (completed, before) = rm.wait("the end of the victim's container", |tracker| {
            let completed = tracker.completed.get(&id)?.clone();
            let is_over = |id: &&ContainerId| tracker.completed.contains_key(*id);
            Some((completed, self.ids.iter().filter(is_over).count()))
        });
        assert_eq!(completed.exit_status, FAILS, "{completed:?}");
        assert_eq!(before, 0, "ends of the attacker before {completed:?}");
        completed
    }

    /// Waits until the ends of all are reported.
    #[track_caller]
    fn wait_completed(&self, tenants: &Tenants) {
        for id in &self.ids {
            let completed = tenants.cluster.rm.wait_completed(*id);
            assert_eq!(completed.exit_status, FAILS, "{completed:?}");
        }
    }
}

#[test]
fn error_files_that_hang_cost_another_user_neither_time_nor_texts() {
    let test = "error_files_that_hang_cost_another_user_neither_time_nor_texts";
    with_and_without_cgroups_and(test, room_for_many, |tenants| {
        let hanging = match Hanging::none() {
            Ok(hanging) => hanging,
            Err(error) => return skip_by_kernel(test, &error),
        };
        let many = Many::start(tenants);
        for id in &many.ids {
            hanging.add(&tenants.log_dir(*id)).unwrap();
        }
        let completed = many.fail_beside_another(tenants);
        assert!(completed.diagnostics.contains(WHY), "{completed:?}");
        drop(hanging);
        many.wait_completed(tenants);
    });
}

/// Cgroups that cannot be removed for as long as this lives: each is where something is mounted.
struct Busy(Vec<PathBuf>);

impl Busy {
    #[track_caller]
    fn make(hierarchy: &Hierarchy, ids: &[ContainerId]) -> Self {
        let paths = ids.iter().map(|id| {
            let path = hierarchy.paths_of(&id.to_string()).into_iter().next();
            let path = path.expect("a running container has a cgroup");
            mounts::bind(&path, &path);
            path
        });
        Self(paths.collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // The node tries to remove them just now, and opens them for that.
        for path in &self.0 {
            mounts::detach(path);
        }
    }
}

#[test]
fn cgroups_that_stay_busy_do_not_delay_the_end_of_another_users_container() {
    let test = "cgroups_that_stay_busy_do_not_delay_the_end_of_another_users_container";
    with_own_mounts(test, || {
        let Some(hierarchy) = Hierarchy::for_test(test) else {
            return;
        };
        let started = Tenants::start_with(test, |site| {
            hierarchy.configure(site);
            room_for_many(site);
            let patience = "yarn.nodemanager.linux-container-executor.cgroups.delete-timeout-ms";
            site.set(patience, LONG_MS);
        });
        let Some(tenants) = started else {
            return;
        };
        let many = Many::start(&tenants);
        let busy = Busy::make(&hierarchy, &many.ids);
        many.fail_beside_another(&tenants);
        drop(busy);
        many.wait_completed(&tenants);
        wait::until("the removal of all cgroups", DEADLINE, || {
            let left = hierarchy.container_count();
            wait::check(left == 0, left)
        });
    });
}
