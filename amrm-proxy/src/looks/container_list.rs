//! Load of a Java node in its list of containers (`/ws/v1/node/containers`). Pure.
//!
//! The node makes the list when it is asked, unlike the numbers of `/jmx`. The list has every
//! container that the node knows, with its state and size, but not what the node offers.
//!
//! A container that waits for resources and one that is being launched are both `SCHEDULED`. The
//! node starts what fits, so those that fit are taken for launched ones, and the others wait.

use records::{MonoMillis, Resource};
use sched::Sight;
use serde::Deserialize;

use super::connections::Question;

/// A container takes some 600 bytes of the answer, and more with a long text of diagnostics.
pub(super) const QUESTION: Question = Question {
    path: "/ws/v1/node/containers",
    bytes_max: 256 * 1024,
};

#[derive(Deserialize)]
struct Answer {
    containers: Option<Containers>,
}

#[derive(Deserialize)]
struct Containers {
    #[serde(default)]
    container: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    state: State,
    #[serde(rename = "totalMemoryNeededMB")]
    memory_mb: u64,
    #[serde(rename = "totalVCoresNeeded")]
    vcores: u32,
}

/// State of a container (Hadoop: `ContainerState` of the NodeManager).
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum State {
    New,
    Localizing,
    Scheduled,
    /// Frozen for another container: its resources are free, and it waits for them.
    Paused,
    /// A container that never had resources.
    LocalizationFailed,
    Done,
    /// Every other state: the container holds resources, until it is `DONE`.
    #[serde(other)]
    Holding,
}

/// Reads an answer. `offers`: resources of the node in all. `seen_at`: time at which the node was
/// asked.
///
/// # Errors
/// The answer is no list of containers.
pub fn read_list(
    answer: &[u8],
    offers: Resource,
    seen_at: MonoMillis,
) -> Result<Sight, serde_json::Error> {
    let Answer { containers } = serde_json::from_slice(answer)?;
    let containers = containers.map(|list| list.container).unwrap_or_default();
    let mut sight = Sight {
        running: 0,
        queued: 0,
        free: offers,
        seen_at,
    };
    let size = |container: &Container| Resource::new(container.memory_mb, container.vcores);
    for container in &containers {
        if container.state == State::Holding {
            sight.running += 1;
            sight.free = sight.free.saturating_sub(size(container));
        }
    }
    for container in &containers {
        match container.state {
            State::New | State::Localizing | State::Scheduled
                if sight.queued == 0 && size(container).fits_in(sight.free) =>
            {
                sight.running += 1;
                sight.free = sight.free.saturating_sub(size(container));
            }
            State::New | State::Localizing | State::Scheduled | State::Paused => {
                sight.queued += 1;
            }
            State::LocalizationFailed | State::Done | State::Holding => {}
        }
    }
    Ok(sight)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const OFFERS: Resource = Resource::new(2_048, 8);
    const AT: MonoMillis = MonoMillis(7);

    fn container(state: &str) -> Value {
        json!({
            "id": "container_1_0001_01_000001",
            "state": state,
            "exitCode": -1000,
            "diagnostics": "",
            "user": "alice",
            "totalMemoryNeededMB": 512,
            "totalVCoresNeeded": 1,
            "executionType": "OPPORTUNISTIC",
            "nodeId": "n1:8041",
        })
    }

    /// Returns the containers that run, those that wait and the free memory by a list of containers
    /// of 512 MiB in these states.
    fn load(states: &[&str]) -> (u32, u32, u64) {
        let containers: Vec<Value> = states.iter().map(|state| container(state)).collect();
        let answer = json!({"containers": {"container": containers}}).to_string();
        let sight = read_list(answer.as_bytes(), OFFERS, AT).unwrap();
        assert_eq!(sight.seen_at, AT);
        (sight.running, sight.queued, sight.free.memory_mb)
    }

    #[test]
    fn what_fits_is_being_launched_and_the_rest_waits() {
        let (run, wait) = ("RUNNING", "SCHEDULED");
        assert_eq!(load(&[run]), (1, 0, 1_536));
        assert_eq!(load(&[run, wait, "LOCALIZING", "NEW"]), (4, 0, 0));
        assert_eq!(load(&[wait, run, run, run, run, wait]), (4, 2, 0));
        // A container that is being killed or cleaned up holds its place until it is done.
        let ending = ["KILLING", "EXITED_WITH_SUCCESS", "RELAUNCHING", "PAUSING"];
        assert_eq!(load(&ending), (4, 0, 0));
        assert_eq!(load(&["A_STATE_TO_COME"]), (1, 0, 1_536));
        assert_eq!(load(&["DONE", "LOCALIZATION_FAILED"]), (0, 0, 2_048));
        assert_eq!(load(&["PAUSED", wait]), (0, 2, 2_048));
    }

    #[test]
    fn a_node_without_containers_is_free() {
        for answer in [r#"{"containers":{}}"#, r#"{"containers":null}"#] {
            let sight = read_list(answer.as_bytes(), OFFERS, AT).unwrap();
            assert_eq!((sight.running, sight.queued, sight.free), (0, 0, OFFERS));
        }
    }

    #[test]
    fn answers_that_are_no_lists_and_sizes_that_no_container_has_are_refused() {
        for answer in ["", "[]", "<html>", r#"{"containers":{"container":{}}}"#] {
            assert!(
                read_list(answer.as_bytes(), OFFERS, AT).is_err(),
                "{answer}"
            );
        }
        for (name, value) in [
            ("totalMemoryNeededMB", json!(-1)),
            ("totalVCoresNeeded", json!(-1)),
            ("totalVCoresNeeded", json!("1")),
            ("state", json!(1)),
        ] {
            let mut strange = container("RUNNING");
            strange[name] = value;
            let answer = json!({"containers": {"container": [strange]}}).to_string();
            assert!(read_list(answer.as_bytes(), OFFERS, AT).is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_container_is_counted_twice_and_nobody_waits_beside_room_for_all(
            states in prop::collection::vec(0..4_usize, 0..20),
        ) {
            let names = ["RUNNING", "SCHEDULED", "KILLING", "DONE"];
            let states: Vec<&str> = states.into_iter().map(|state| names[state]).collect();
            let (running, queued, free_mb) = load(&states);
            let live = states.iter().filter(|state| **state != "DONE").count();
            prop_assert_eq!((running + queued) as usize, live);
            prop_assert_eq!(queued > 0, live > running as usize);
            prop_assert!(queued == 0 || free_mb < 512);
        }
    }
}
