use super::*;

pub(crate) fn status() -> Status {
    Status {
        node_id: "node-1.example:8041".to_owned(),
        web_address: "node-1.example:8042".to_owned(),
        web_over_tls: false,
        version: "0.1.0".to_owned(),
        pid: 4_711,
        at_ms: 7_620_000,
        started_at_ms: 0,
        resource_manager: "registered".to_owned(),
        resource_manager_for_ms: 7_619_000,
        healthy: true,
        health_report: String::new(),
        drain: None,
        recovery: String::new(),
        memory_mb: Share {
            used: 6_144,
            total: 8_192,
        },
        vcores: Share { used: 6, total: 8 },
        running_guaranteed: 4,
        running_opportunistic: 2,
        waiting: 3,
        paused: 1,
        queue_capacity: 10,
        queue_limit: Some(5),
        wait_limit_ms: None,
        estimated_wait_ms: Some(12_000),
        usage: None,
    }
}

fn drain(mode: DrainMode) -> DrainState {
    DrainState {
        mode,
        reason: "new kernel".to_owned(),
        by: "alice".to_owned(),
        since_ms: 1_000,
        ends_at_ms: Some(601_000),
        is_ending: false,
        guaranteed_left: 4,
        opportunistic_left: 2,
    }
}

#[test]
fn a_drain_says_who_why_what_is_left_and_what_guaranteed_containers_do() {
    let text = drain_text(&drain(DrainMode::Quick));
    let first = "drained           quick, by alice: new kernel; 2 opportunistic and 4 guaranteed \
                 containers are left, with 10 min 00 s from the order to end by themselves\n";
    assert!(text.starts_with(first), "{text}");
    assert!(text.contains("yarn rmadmin -refreshNodes -g"), "{text}");
    let ending = DrainState {
        is_ending: true,
        ..drain(DrainMode::Fast)
    };
    let text = drain_text(&ending);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.ends_with("containers are left\n"), "{text}");
}

pub(crate) fn waiting(place: usize) -> Waiting {
    Waiting {
        place,
        container: format!("container_1_0001_01_00000{place}"),
        user: "alice".to_owned(),
        execution_type: "OPPORTUNISTIC".to_owned(),
        memory_mb: 1_024,
        vcores: 1,
        paused: place == 1,
        waited_ms: 3_000,
        estimated_wait_ms: 12_000,
    }
}

#[test]
fn a_status_names_everything_once() {
    let expected = "\
node              node-1.example:8041, pages at http://node-1.example:8042/
agent             version 0.1.0, process 4711, up 2 h 07 min
ResourceManager   registered for 2 h 06 min
health            healthy
drained           no
memory            6,144 of 8,192 MiB allocated
vcores            6 of 8 allocated
in use            not measured
running           4 guaranteed, 2 opportunistic
waiting           3, 1 of them paused; the queue takes 10, the ResourceManager allows 5; one more would wait 12 s
";
    assert_eq!(status_text(&status()), expected);
}

#[test]
fn a_node_that_takes_nothing_more_says_so() {
    let full = Status {
        estimated_wait_ms: None,
        healthy: false,
        health_report: "1/1 local-dirs are bad".to_owned(),
        resource_manager: "silent".to_owned(),
        ..status()
    };
    let text = status_text(&full);
    assert!(text.contains("one more would be rejected"), "{text}");
    assert!(text.contains("unhealthy: 1/1 local-dirs are bad"), "{text}");
    assert!(text.contains("heartbeats are not answered for"), "{text}");
}

#[test]
fn a_queue_is_a_table_with_what_is_left_out() {
    let queue = Queue {
        total: 1_002,
        containers: vec![waiting(1), waiting(2)],
    };
    let expected = "\
place  container                   user   type                   MiB    vcores  waited  estimate
1      container_1_0001_01_000001  alice  opportunistic, paused  1,024  1       3.0 s   12 s
2      container_1_0001_01_000002  alice  opportunistic          1,024  1       3.0 s   12 s
and 1,000 more
";
    assert_eq!(queue_text(&queue), expected);
    let empty = Queue {
        total: 0,
        containers: Vec::new(),
    };
    assert_eq!(queue_text(&empty), "Nothing waits.\n");
}

#[test]
fn names_that_peers_chose_cannot_steer_a_terminal() {
    let mut nasty = waiting(1);
    nasty.user = "a\u{1b}[2Jb\n".to_owned();
    let queue = Queue {
        total: 1,
        containers: vec![nasty],
    };
    let text = queue_text(&queue);
    assert!(text.contains("a\\u{1b}[2Jb\\u{a}"), "{text}");
    assert_eq!(text.lines().count(), 2);
}
