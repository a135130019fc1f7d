use records::{ContainerId, ExecutionType};
use sched::Note;

use super::super::tally::What;
use super::super::testing::{completed, evicted, happened, id, queued, shed, started};
use super::*;

const NODES: u32 = 3;

/// Drives a story by hand: what is seen stays until it is changed.
struct Drive {
    story: Story,
    sight: Sight,
    now_ms: i64,
}

impl Drive {
    fn new() -> Self {
        Self {
            story: Story::new(NODES),
            sight: Sight {
                nodes: vec![NodeSight::default(); NODES as usize],
                ..Sight::default()
            },
            now_ms: 0,
        }
    }

    /// Advances time by some milliseconds and feeds the decisions to the story.
    fn look(&mut self, happened: &[Happened]) -> Vec<Cue> {
        self.now_ms += 10;
        self.sight.at += Duration::from_millis(10);
        self.story.look(&self.sight, happened)
    }

    fn now(&self, node: usize, what: What) -> Happened {
        happened(self.now_ms, node, what)
    }

    fn fill(&mut self, waiting: u32) {
        self.sight.nodes = vec![
            NodeSight {
                running_opportunistic: plan::PLACES_PER_NODE,
                waiting,
            };
            NODES as usize
        ];
    }

    /// Returns decisions in which the nodes accept all 36 containers: 12 start at once, the rest
    /// are queued.
    fn place_all(&self) -> Vec<Happened> {
        (0..i64::from(plan::tasks(NODES)))
            .map(|task| {
                let container = id(1, task + 2);
                let node = usize::try_from(task % 3).unwrap();
                let is_started = task < i64::from(plan::PLACES_PER_NODE * NODES);
                self.now(
                    node,
                    if is_started {
                        started(container, 0)
                    } else {
                        queued(container)
                    },
                )
            })
            .collect()
    }

    fn reach_moving(&mut self) {
        self.sight.nodes_offered = NODES as usize;
        assert!(submits(&self.look(&[]), JobName::Batch));
        self.sight.batch = JobSight::Submitted(id(1, 1).application_id());
        self.fill(8);
        let placed = self.place_all();
        assert!(
            said(&self.look(&placed)).contains("24 wait in the queues of their nodes (8, 8, 8)")
        );
    }

    fn reach_evicting(&mut self) {
        self.reach_moving();
        let mut news: Vec<Happened> = (2..5)
            .map(|number| self.now(0, completed(id(1, number), 0)))
            .collect();
        news.push(self.now(1, started(id(1, 14), 1_540)));
        let cues = self.look(&news);
        assert!(submits(&cues, JobName::Urgent), "{cues:?}");
        assert!(
            said(&cues).contains("on node 2 after 1.5 s in the queue"),
            "{cues:?}"
        );
        self.sight.urgent = JobSight::Submitted(id(2, 1).application_id());
    }

    /// Six more containers end well.
    fn go_on(&mut self) -> Vec<Cue> {
        let mut news = Vec::new();
        for number in 15..21 {
            news.push(self.now(0, started(id(1, number), 1_000)));
            news.push(self.now(0, completed(id(1, number), 0)));
        }
        self.look(&news)
    }

    fn reach_shedding(&mut self) -> Vec<Cue> {
        self.reach_evicting();
        let urgent = id(2, 2);
        let mut news: Vec<Happened> = [(13, 200), (10, 900), (7, 1_300)]
            .map(|(number, ran)| self.now(2, evicted(id(1, number), urgent, ran)))
            .to_vec();
        self.now_ms += 30;
        news.push(self.now(2, guaranteed(urgent)));
        self.look(&news)
    }
}

fn guaranteed(id: ContainerId) -> What {
    What::Decided(Note::Started {
        id,
        execution_type: ExecutionType::Guaranteed,
        queue_wait_ms: 30,
        reported_wait_ms: None,
        estimated_wait_ms: None,
        resumed: false,
    })
}

fn submits(cues: &[Cue], job: JobName) -> bool {
    cues.contains(&Cue::Submit(job))
}

fn said(cues: &[Cue]) -> String {
    let said = cues.iter().filter_map(|cue| match cue {
        Cue::Print(text) => Some(text.as_str()),
        Cue::Submit(_) | Cue::ReleaseUrgent | Cue::End(_) => None,
    });
    said.collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn failure(cues: &[Cue]) -> &str {
    match cues {
        [.., Cue::End(Verdict::Failed(why))] => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_is_submitted_before_every_node_is_offered() {
    let mut drive = Drive::new();
    drive.sight.nodes_offered = 2;
    assert_eq!(drive.look(&[]), []);
    drive.sight.nodes_offered = 3;
    assert!(submits(&drive.look(&[]), JobName::Batch));
    assert_eq!(drive.look(&[]), [], "and then only once");
}

#[test]
fn the_guaranteed_job_waits_until_a_queue_has_moved() {
    let mut drive = Drive::new();
    drive.reach_moving();
    let ended = [drive.now(0, completed(id(1, 2), 0))];
    assert_eq!(drive.look(&ended), []);
}

#[test]
fn nodes_are_not_called_full_while_containers_are_on_their_way() {
    let mut drive = Drive::new();
    drive.sight.nodes_offered = NODES as usize;
    drive.look(&[]);
    drive.fill(1);
    let mut placed = drive.place_all();
    let last = placed.pop().unwrap();
    assert_eq!(drive.look(&placed), []);
    assert!(said(&drive.look(&[last])).contains("wait in the queues"));
}

#[test]
fn an_eviction_is_told_with_its_order_and_the_start_it_made_room_for() {
    let cues = Drive::new().reach_shedding();
    assert_eq!(
        said(&cues),
        "Node 3 evicted 3 opportunistic containers for it, the newest first (they had run 0.2 s, 0.9 s and 1.3 s), and \
         started it 30 ms later."
    );
}

#[test]
fn an_eviction_alone_is_not_enough_the_guaranteed_container_must_run() {
    let mut drive = Drive::new();
    drive.reach_evicting();
    let news = [drive.now(2, evicted(id(1, 13), id(2, 2), 200))];
    assert_eq!(drive.look(&news), []);
}

#[test]
fn an_order_that_is_not_newest_first_is_not_called_so() {
    let mut drive = Drive::new();
    drive.reach_evicting();
    let news = [
        drive.now(2, evicted(id(1, 10), id(2, 2), 200)),
        drive.now(2, evicted(id(1, 13), id(2, 2), 900)),
        drive.now(2, guaranteed(id(2, 2))),
    ];
    assert!(!said(&drive.look(&news)).contains("newest"));
}

#[test]
fn what_was_shed_before_the_eviction_does_not_count() {
    let mut drive = Drive::new();
    drive.reach_evicting();
    let early = [drive.now(0, shed(id(1, 30), 7))];
    assert_eq!(drive.look(&early), []);
    let urgent = id(2, 2);
    let news = [
        drive.now(2, evicted(id(1, 13), urgent, 200)),
        drive.now(2, guaranteed(urgent)),
    ];
    let cues = drive.look(&news);
    assert_eq!(cues.len(), 1, "{cues:?}");
    let late = [drive.now(2, shed(id(1, 36), 4))];
    let cues = drive.look(&late);
    assert!(
        said(&cues).contains("4 now: node 3 shed the newest 1"),
        "{cues:?}"
    );
}

#[test]
fn the_guaranteed_container_goes_on_until_all_that_was_lost_has_a_place_again() {
    let mut drive = Drive::new();
    drive.reach_shedding();
    let news = [drive.now(2, shed(id(1, 36), 4))];
    assert!(said(&drive.look(&news)).contains("shed"));
    let some = [
        drive.now(0, queued(id(1, 38))),
        drive.now(0, queued(id(1, 39))),
    ];
    assert_eq!(drive.look(&some), []);
    let rest = [
        drive.now(1, queued(id(1, 40))),
        drive.now(0, queued(id(1, 41))),
    ];
    assert_eq!(drive.look(&rest), [], "nothing has ended meanwhile");
    let cues = drive.go_on();
    assert!(cues.contains(&Cue::ReleaseUrgent), "{cues:?}");
    assert!(
        said(&cues).ends_with(
            "(3 evicted and 1 shed so far), and got new places: 3 on node 1 and 1 on node 2."
        ),
        "{cues:?}"
    );
}

#[test]
fn it_is_complete_when_both_jobs_have_succeeded() {
    let mut drive = Drive::new();
    drive.reach_shedding();
    let mut news = vec![drive.now(2, shed(id(1, 36), 4))];
    news.extend((38..42).map(|number| drive.now(0, queued(id(1, number)))));
    drive.look(&news);
    drive.go_on();
    drive.sight.batch = JobSight::Succeeded(id(1, 1).application_id());
    assert_eq!(drive.look(&[]), [], "the guaranteed job has not ended");
    drive.sight.urgent = JobSight::Succeeded(id(2, 1).application_id());
    let cues = drive.look(&[]);
    assert_eq!(cues.last(), Some(&Cue::End(Verdict::Complete)), "{cues:?}");
    assert_eq!(drive.look(&[]), [], "and stays over");
}

#[test]
fn a_step_that_never_comes_ends_the_story_with_what_was_seen() {
    let mut drive = Drive::new();
    drive.sight.at = STEP_MAX;
    let cues = drive.look(&[]);
    let why = failure(&cues);
    assert!(why.contains("every node has registered"), "{why}");
    assert!(why.contains("0 of 3 nodes offered"), "{why}");
}

#[test]
fn the_time_of_a_step_counts_from_its_begin() {
    let mut drive = Drive::new();
    drive.sight.at = STEP_MAX / 2;
    drive.reach_moving();
    drive.sight.at += STEP_MAX / 2;
    assert_eq!(drive.look(&[]), []);
    drive.sight.at += STEP_MAX / 2;
    assert!(failure(&drive.look(&[])).contains("others from the queue have started"));
}

#[test]
fn a_job_that_fails_ends_the_story_with_its_reason() {
    let mut drive = Drive::new();
    drive.reach_moving();
    drive.sight.batch = JobSight::Failed("no program".to_owned());
    let cues = drive.look(&[]);
    assert_eq!(failure(&cues), "the opportunistic job failed: no program");
}

#[test]
fn queues_that_are_empty_too_early_end_the_story_at_once() {
    let mut drive = Drive::new();
    drive.reach_evicting();
    drive.sight.batch = JobSight::Succeeded(id(1, 1).application_id());
    let cues = drive.look(&[]);
    assert!(
        failure(&cues).contains("queues were empty before"),
        "{cues:?}"
    );
}

#[test]
fn a_node_that_stops_ends_the_story() {
    let mut drive = Drive::new();
    drive.reach_moving();
    drive.sight.stopped_node = Some(1);
    assert_eq!(failure(&drive.look(&[])), "node 2 has stopped");
}
