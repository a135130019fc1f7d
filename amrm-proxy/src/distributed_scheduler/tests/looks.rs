//! Allocation after looks: the effects that a call orders, and what its answer does.

use std::sync::Arc;
use std::time::Duration;

use sched::{BoundNodes, KnownNode, KnownNodes, LookAnswer, Placement, Sight};

use super::*;
use crate::interceptor::Pass;
use crate::looks::{Bound, KnownView, Looks};
use crate::observe::{BindNumbers, LookNumbers};

/// An attempt under `placement` = `look` whose calls the test takes through the hooks.
struct Looker {
    scheduler: DistributedScheduler,
    now_ms: u64,
    requested: Requested<Effect>,
}

/// Nodes of the cluster, none of which is on the list.
fn known(hosts: &[&str]) -> Arc<KnownNodes> {
    let node = |host: &&str| {
        KnownNode::from(sched::RemoteNode {
            node_id: test_support::ids::node(host),
            http_address: format!("{host}:8042"),
            rack: "/rack".to_owned(),
            partition: String::new(),
        })
    };
    Arc::new(hosts.iter().map(node).collect())
}

impl Looker {
    /// Registers an attempt that knows these nodes.
    fn new(hosts: &[&str], answers_looks: bool) -> Self {
        let config = DistributedAllocatorConfig {
            placement: Placement::Look,
            ..DistributedAllocatorConfig::default()
        };
        let mut looker = Self {
            scheduler: DistributedScheduler::new(ATTEMPT, config),
            now_ms: 0,
            requested: Requested::new(),
        };
        let mut outcome = Ok(granted(START, 1));
        let (keys, requested) = (keys(1), &mut looker.requested);
        let context = Context {
            keys: Some(&keys),
            ..context(0)
        };
        looker.scheduler.on_response(
            AmMethod::Register,
            &mut outcome,
            &context,
            &mut requested.actions(),
        );
        let news = News::Nodes(KnownView {
            binds_late: false,
            nodes: known(hosts),
            answers_looks,
        });
        looker
            .scheduler
            .on_event(news, &context, &mut requested.actions());
        looker
    }

    /// Takes a request through its hook; returns it with the effects.
    fn request(&mut self, response_id: i32, wanted: i32) -> (Request, Vec<Effect>) {
        let mut request = allocate(&AllocateRequestProto {
            ask: opportunistic(wanted),
            response_id: Some(response_id),
            ..AllocateRequestProto::default()
        });
        self.now_ms += 1_000;
        self.requested = Requested::new();
        let keys = keys(1);
        let context = Context {
            keys: Some(&keys),
            ..context(self.now_ms)
        };
        let passed =
            self.scheduler
                .on_request(&mut request, &context, &mut self.requested.actions());
        assert_eq!(passed.unwrap(), Pass::default());
        (request, std::mem::take(&mut self.requested.own))
    }

    /// Asserts that the looks of the last request are observed with these numbers.
    #[track_caller]
    fn assert_looked(&self, numbers: LookNumbers) {
        let looked = Action::Observe(Observation::Looked(numbers));
        assert!(self.requested.chain.contains(&looked));
    }

    /// Answers the looks of a request: every node that was asked has room for `room`.
    fn answer(&mut self, request: &mut Request, asked: usize, room: u32) {
        self.answer_beside(request, (asked, room), Vec::new());
    }

    /// As [`answer`](Self::answer), beside nodes at these positions that are late.
    fn answer_beside(
        &mut self,
        request: &mut Request,
        (answered, room): (usize, u32),
        late: Vec<usize>,
    ) {
        let late_count = late.len();
        let asked = answered + late_count;
        let sight = Sight {
            running: 0,
            queued: 0,
            free: Resource::new(256 * u64::from(room), room),
            seen_at: records::MonoMillis(self.now_ms),
        };
        let looks = Looks {
            answers: (0..answered)
                .map(|position| (position, LookAnswer::Seen(sight)))
                .collect(),
            late,
            asked,
            max_queue_length: Some(late_count),
            took: Duration::from_millis(2),
        };
        self.answer_by(News::Looked(looks), request);
    }

    fn answer_by(&mut self, answer: News, request: &mut Request) {
        let keys = keys(1);
        let context = Context {
            keys: Some(&keys),
            ..context(self.now_ms)
        };
        self.scheduler
            .on_answer(answer, request, &context, &mut self.requested.actions());
    }

    fn hear(&mut self, news: News) {
        let context = context(self.now_ms);
        let mut requested = Requested::new();
        self.scheduler
            .on_event(news, &context, &mut requested.actions());
    }

    /// Has containers bound late on these nodes from now on, or placed by looks.
    fn bind_late(&mut self, hosts: &[&str], binds_late: bool) {
        self.hear(News::Nodes(KnownView {
            binds_late,
            nodes: known(hosts),
            answers_looks: true,
        }));
    }

    /// Returns what the request has announced to the ResourceManager.
    fn announced(request: &mut Request) -> usize {
        let note = request.notes.take::<AllocatedContainers>();
        note.map_or(0, |AllocatedContainers(containers)| containers.len())
    }

    /// Passes the ResourceManager's answer back; returns the number of containers for the AM.
    fn respond(&mut self) -> usize {
        let mut outcome = Ok(Response {
            nodes: node_list(&nodes(1)),
            ..answer(&AllocateResponseProto::default())
        });
        let keys = keys(1);
        let context = Context {
            keys: Some(&keys),
            ..context(self.now_ms)
        };
        self.scheduler.on_response(
            AmMethod::Allocate,
            &mut outcome,
            &context,
            &mut self.requested.actions(),
        );
        let told = AllocateResponseProto::decode(outcome.unwrap().message.encode());
        told.unwrap().allocated_containers.len()
    }
}

/// Number of nodes to look at that the effects order.
fn ordered(effects: &[Effect]) -> usize {
    let looks = effects.iter().map(|effect| {
        let Effect::Look(nodes) = effect else {
            return 0;
        };
        nodes.len()
    });
    looks.sum()
}

#[test]
fn a_call_looks_first_and_gets_what_there_is_room_for() {
    let mut looker = Looker::new(&["a", "b"], true);
    let (mut request, effects) = looker.request(0, 5);
    let wants = Effect::WantNodes { cluster: None };
    assert!(effects.contains(&wants), "{effects:?}");
    assert_eq!(ordered(&effects), 2);
    assert_eq!(
        Looker::announced(&mut request),
        0,
        "nothing before the answer"
    );
    looker.answer(&mut request, 2, 2);
    assert_eq!(Looker::announced(&mut request), 4);
    looker.assert_looked(LookNumbers {
        asked: 2,
        answered: 2,
        held_back: 1,
        unseen: 0,
        took: Duration::from_millis(2),
    });
    let mut own = looker.requested.own.iter();
    let chosen = own.find_map(|effect| {
        let Effect::Chose(choices) = effect else {
            return None;
        };
        Some(choices)
    });
    let chosen = chosen.unwrap();
    assert_eq!(chosen.len(), 4);
    assert!(chosen.iter().all(|choice| choice.sight.is_some()));
    let looks = chosen[0].looks.unwrap();
    assert_eq!((looks.asked, looks.held_back), (2, 1));
    assert_eq!(looker.respond(), 4);
    // The one that was held back is still wanted; the AM need not say so again.
    assert_eq!(looker.scheduler.gauges().containers_outstanding, 1);
}

#[test]
fn what_has_no_room_goes_to_a_node_that_answers_late() {
    let mut looker = Looker::new(&["a", "b"], true);
    let (mut request, _) = looker.request(0, 5);
    looker.answer_beside(&mut request, (1, 2), vec![1]);
    // Two places and a queue of one; and one, as many as may wait there.
    assert_eq!(Looker::announced(&mut request), 4);
    looker.assert_looked(LookNumbers {
        asked: 2,
        answered: 1,
        held_back: 1,
        unseen: 1,
        took: Duration::from_millis(2),
    });
}

#[test]
fn a_call_that_the_am_abandons_while_it_looks_loses_nothing() {
    let mut looker = Looker::new(&["a", "b"], true);
    let (mut request, effects) = looker.request(0, 3);
    assert_eq!(ordered(&effects), 2);
    // Its next call is the same one. The ResourceManager may have had it, so it has no containers.
    let (mut again, effects) = looker.request(0, 3);
    assert_eq!(ordered(&effects), 0);
    looker.answer(&mut request, 2, 9);
    assert_eq!(Looker::announced(&mut again), 0);
    assert_eq!(looker.respond(), 0);
    let (mut next, effects) = looker.request(1, 3);
    assert_eq!(ordered(&effects), 2);
    looker.answer(&mut next, 2, 9);
    assert_eq!(Looker::announced(&mut next), 3);
    assert_eq!(looker.respond(), 3);
}

#[test]
fn containers_of_a_failed_call_need_no_second_look() {
    let mut looker = Looker::new(&["a"], true);
    let (mut request, _) = looker.request(0, 2);
    looker.answer(&mut request, 1, 9);
    assert_eq!(Looker::announced(&mut request), 2);
    // No answer of the ResourceManager: the AM repeats its call.
    let (mut again, effects) = looker.request(0, 2);
    assert_eq!(ordered(&effects), 0);
    assert_eq!(Looker::announced(&mut again), 2);
    assert_eq!(looker.respond(), 2);
    // A call without asks looks at nobody.
    let (_, effects) = looker.request(1, 0);
    assert_eq!((ordered(&effects), effects.len()), (0, 0), "{effects:?}");
}

#[test]
fn where_no_node_answers_containers_are_placed_at_once() {
    let mut looker = Looker::new(&["a", "b"], false);
    let (mut request, effects) = looker.request(0, 2);
    assert_eq!(ordered(&effects), 0);
    assert_eq!(Looker::announced(&mut request), 2);
    assert_eq!(looker.respond(), 2);
}

#[test]
fn lists_gone_nodes_and_new_resource_managers_are_passed_on() {
    let mut looker = Looker::new(&[], true);
    let effects = std::mem::take(&mut looker.requested.own);
    let epoch = Some(START);
    assert_eq!(effects[0], Effect::ResourceManager { epoch });
    assert!(matches!(&effects[1], Effect::Listed(list) if list.nodes().len() == 1));
    let gone = AllocateResponseProto {
        updated_nodes: vec![wire::proto::hadoop_yarn::NodeReportProto {
            node_id: Some(test_support::ids::node("a").into()),
            node_state: Some(wire::proto::hadoop_yarn::NodeStateProto::NsLost.into()),
            ..Default::default()
        }],
        ..AllocateResponseProto::default()
    };
    looker.request(0, 0);
    looker.scheduler.on_response(
        AmMethod::Allocate,
        &mut Ok(answer(&gone)),
        &context(1_000),
        &mut looker.requested.actions(),
    );
    let ids = BTreeSet::from([test_support::ids::node("a")]);
    let effects = std::mem::take(&mut looker.requested.own);
    assert!(effects.contains(&Effect::Gone(ids)), "{effects:?}");
    let mut request = allocate(&AllocateRequestProto::default());
    looker.scheduler.on_reregistered(
        None,
        &mut request,
        &context(2_000),
        &mut looker.requested.actions(),
    );
    let forget = Effect::ResourceManager { epoch: None };
    assert!(looker.requested.own.contains(&forget));
}

#[test]
fn other_placements_order_nothing() {
    let mut attempt = Attempt::registered();
    let mut requested = Requested::new();
    let mut request = allocate(&AllocateRequestProto {
        ask: opportunistic(2),
        ..AllocateRequestProto::default()
    });
    attempt
        .scheduler
        .on_request(&mut request, &context(1), &mut requested.actions())
        .unwrap();
    let mut outcome = Ok(answer(&AllocateResponseProto::default()));
    attempt.scheduler.on_response(
        AmMethod::Allocate,
        &mut outcome,
        &context(1),
        &mut requested.actions(),
    );
    assert!(matches!(requested.own[..], [Effect::Publish(_)]));
}

/// Returns the numbers of containers that are wanted by an order to bind; `None`: there is none.
fn wishes(ordered: &[Effect]) -> Option<Vec<u32>> {
    ordered.iter().find_map(|effect| {
        let Effect::Bind { wishes, .. } = effect else {
            return None;
        };
        Some(wishes.iter().map(|wish| wish.wanted).collect())
    })
}

#[test]
fn reservations_are_void_when_nothing_is_wanted_or_containers_are_placed_in_another_way() {
    for binds_late in [true, false] {
        let mut looker = Looker::new(&["a", "b"], true);
        looker.bind_late(&["a", "b"], true);
        assert_eq!(wishes(&looker.request(0, 2).1), Some(vec![2]));
        looker.bind_late(&["a", "b"], binds_late);
        let wanted = if binds_late { 0 } else { 2 };
        assert_eq!(wishes(&looker.request(1, wanted).1), Some(vec![]));
        // Once is enough.
        assert_eq!(wishes(&looker.request(2, wanted).1), None);
    }
}

#[test]
fn what_is_bound_and_what_was_looked_at_beside_it_are_counted_and_explained_apart() {
    let mut looker = Looker::new(&["a", "java"], true);
    looker.bind_late(&["a", "java"], true);
    looker.hear(News::Others(known(&["java"])));
    let (mut request, ordered) = looker.request(0, 2);
    assert!(ordered.contains(&Effect::Look(known(&["java"]).iter().cloned().collect())));
    let size = Resource::new(256, 1);
    let sight = Sight {
        running: 3,
        queued: 0,
        free: size,
        seen_at: records::MonoMillis(looker.now_ms),
    };
    let took = Duration::from_millis(2);
    let bound = Bound {
        nodes: vec![BoundNodes {
            partition: String::new(),
            size,
            nodes: known(&["a"]).iter().cloned().collect(),
        }],
        looks: Some(Looks {
            answers: vec![(0, LookAnswer::Seen(sight))],
            late: Vec::new(),
            asked: 1,
            max_queue_length: None,
            took,
        }),
        reserved: true,
        took,
    };
    looker.answer_by(News::Bound(bound), &mut request);
    let own = std::mem::take(&mut looker.requested.own);
    let chosen = own.into_iter().find_map(|effect| {
        let Effect::Chose(choices) = effect else {
            return None;
        };
        Some(choices)
    });
    let explained = chosen.unwrap().into_iter();
    let explained: Vec<_> = explained
        .map(|choice| (choice.node.host, choice.looks.is_some(), choice.sight))
        .collect();
    assert_eq!(
        explained,
        [
            ("a".to_owned(), false, None),
            ("java".to_owned(), true, Some(sight))
        ]
    );
    looker.assert_looked(LookNumbers {
        asked: 1,
        answered: 1,
        took,
        ..LookNumbers::default()
    });
    let bound = Action::Observe(Observation::Bound(BindNumbers {
        reserved: true,
        placed: 1,
        took,
    }));
    assert!(looker.requested.chain.contains(&bound));
}
