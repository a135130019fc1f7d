//! Guaranteed asks: the lines in the place of any node, and their end.

use super::*;

#[test]
fn an_ask_for_any_node_names_the_nodes_of_the_history() {
    let mut talk = Talk::new(true, "").loaded(&["n7", "n3", "n5"]);
    assert_eq!(
        talk.ask(vec![line("*", 2)]),
        ["* 2 strict", "/default-rack 2 strict", "n3 1", "n7 1"]
    );
    assert_eq!(talk.give(&[(2, "n7"), (3, "n3")]), [2, 3]);
    // The lines that were used up are taken back.
    assert_eq!(
        talk.ask(vec![line("*", 0)]),
        ["* 0", "/default-rack 0", "n3 0", "n7 0"]
    );
    talk.give(&[]);
    assert_eq!(talk.ask(Vec::new()), [""; 0]);
    let hit = HistoryEvent::Placed { on_history: true };
    assert_eq!(talk.events(), [hit, hit]);
}

#[test]
fn nodes_are_given_up_after_the_timeout() {
    let mut talk = Talk::new(true, "").loaded(&["n7", "n3"]);
    talk.ask(vec![line("*", 2)]);
    talk.give(&[(2, "n7")]);
    talk.pass(30_000);
    assert_eq!(talk.ask(Vec::new()), ["n7 0"]);
    talk.give(&[]);
    talk.pass(1);
    assert_eq!(talk.ask(Vec::new()), ["/default-rack 1", "* 1"]);
    assert_eq!(talk.give(&[(3, "n9")]), [3]);
    assert!(talk.events().contains(&HistoryEvent::Escalated));
    assert!(
        talk.events()
            .contains(&HistoryEvent::Placed { on_history: false })
    );
}

#[test]
fn containers_without_a_host_of_their_own_wait_no_longer_than_the_timeout() {
    let mut talk = Talk::new(true, "*=timeout:10").loaded(&["n7"]);
    assert_eq!(
        talk.ask(vec![line("*", 3)]),
        ["* 3 strict", "/default-rack 1 strict", "n7 1"]
    );
    talk.give(&[(2, "n7")]);
    // The host has answered, so the rest may go anywhere at once.
    assert_eq!(talk.ask(Vec::new()), ["/default-rack 0", "n7 0", "* 2"]);
    talk.give(&[]);

    let mut talk = Talk::new(true, "*=timeout:10").loaded(&["n7"]);
    talk.ask(vec![line("*", 3)]);
    talk.give(&[]);
    talk.pass(10_001);
    assert_eq!(talk.ask(Vec::new()), ["/default-rack 1", "* 3"]);
}

#[test]
fn a_container_allocated_while_the_count_was_sent_again_is_returned_unnoticed() {
    let mut talk = Talk::new(true, "").loaded(&["n7"]);
    talk.ask(vec![line("*", 1)]);
    talk.give(&[]);
    talk.pass(30_001);
    assert_eq!(talk.ask(Vec::new()), ["/default-rack 1", "* 1"]);
    // Allocated before the ResourceManager saw the new count, which is one too many now.
    assert_eq!(talk.give(&[(2, "n7")]), [2]);
    let corrected = talk.ask(Vec::new());
    assert!(corrected.contains(&"* 0".to_owned()), "{corrected:?}");
    assert_eq!(talk.give(&[(3, "n8")]), [0; 0]);
    let request = talk.send(Vec::new());
    let sent = AllocateRequestProto::decode(request.message.encode()).unwrap();
    assert_eq!(sent.release, [ContainerIdProto::from(id(3))]);
    // The answer to a repetition is like the first one.
    let ended = completed(&[(3, -100), (2, 0)]);
    let first = talk.answer(&ended);
    talk.response_id -= 1;
    talk.send(Vec::new());
    let second = talk.answer(&ended);
    assert_eq!(first, second);
    assert_eq!(first, completed(&[(2, 0)]));
    let request = talk.send(Vec::new());
    let sent = AllocateRequestProto::decode(request.message.encode()).unwrap();
    assert_eq!(sent.release, []);
}

#[test]
fn an_ask_that_names_places_passes_unchanged() {
    let mut talk = Talk::new(true, "").loaded(&["n7"]);
    let asks = vec![line("n2", 1), line("/r1", 1), line("*", 1)];
    assert_eq!(talk.ask(asks), ["n2 1", "/r1 1", "* 1"]);
    talk.give(&[(2, "n2")]);
    assert_eq!(talk.ask(vec![line("*", 4)]), ["* 4"]);
}

#[test]
fn an_ask_with_a_label_passes_unchanged() {
    let mut talk = Talk::new(true, "").loaded(&["n7"]);
    let labelled = ResourceRequestProto {
        node_label_expression: Some("gpu".to_owned()),
        ..line("*", 1)
    };
    assert_eq!(talk.ask(vec![labelled]), ["* 1"]);
}

#[test]
fn a_master_that_begins_to_name_places_gets_its_ask_back() {
    let mut talk = Talk::new(true, "").loaded(&["n7"]);
    talk.ask(vec![line("*", 1)]);
    talk.give(&[]);
    // Its own line for the host stands.
    assert_eq!(
        talk.ask(vec![line("n7", 2), line("*", 2)]),
        ["n7 2", "* 2", "/default-rack 0"]
    );
}

#[test]
fn guaranteed_asks_pass_unchanged_unless_the_service_wants_otherwise() {
    let mut talk = Talk::new(false, "").loaded(&["n7"]);
    assert_eq!(talk.ask(vec![line("*", 2)]), ["* 2"]);
    assert_eq!(talk.give(&[(2, "n7"), (3, "n8"), (4, "n9")]), [2, 3, 4]);
    talk.pass(60_000);
    assert_eq!(talk.ask(Vec::new()), [""; 0]);
}

#[test]
fn policies_decide_about_strictness() {
    let mut strict = Talk::new(true, "1=strict").loaded(&["n7"]);
    strict.ask(vec![line("*", 1)]);
    strict.give(&[]);
    strict.pass(3_600_000);
    assert_eq!(strict.ask(Vec::new()), [""; 0]);
    let mut relaxed = Talk::new(true, "1=relaxed").loaded(&["n7"]);
    assert_eq!(
        relaxed.ask(vec![line("*", 2)]),
        ["* 2", "/default-rack 1", "n7 1"]
    );
    let mut anywhere = Talk::new(true, "1=anywhere").loaded(&["n7"]);
    assert_eq!(anywhere.ask(vec![line("*", 2)]), ["* 2"]);
}

fn node_report(state: NodeStateProto, rack: Option<&str>) -> AllocateResponseProto {
    AllocateResponseProto {
        updated_nodes: vec![NodeReportProto {
            node_id: Some(NodeIdProto {
                host: Some("n7".to_owned()),
                port: Some(1),
            }),
            rack_name: rack.map(str::to_owned),
            node_state: Some(state.into()),
            ..NodeReportProto::default()
        }],
        ..AllocateResponseProto::default()
    }
}

#[test]
fn racks_are_those_of_the_nodes_reports() {
    let mut talk = Talk::new(true, "").loaded(&["n7"]);
    talk.ask(Vec::new());
    talk.answer(&node_report(NodeStateProto::NsRunning, Some("/r2")));
    assert_eq!(
        talk.ask(vec![line("*", 1)]),
        ["* 1 strict", "/r2 1 strict", "n7 1"]
    );
}

#[test]
fn a_lost_node_is_given_up_at_once() {
    let mut talk = Talk::new(true, "").loaded(&["n7"]);
    talk.ask(vec![line("*", 1)]);
    talk.answer(&node_report(NodeStateProto::NsLost, None));
    assert_eq!(talk.ask(Vec::new()), ["/default-rack 1", "* 1"]);
}

#[test]
fn lines_of_a_failed_call_are_sent_again() {
    let mut talk = Talk::new(true, "").loaded(&["n7"]);
    let lines = ["* 1 strict", "/default-rack 1 strict", "n7 1"];
    assert_eq!(talk.ask(vec![line("*", 1)]), lines);
    assert_eq!(talk.ask(vec![line("*", 1)]), lines);
    talk.give(&[]);
    assert_eq!(talk.ask(Vec::new()), [""; 0]);
}

#[test]
fn named_nodes_are_given_up_after_a_restart_of_the_agent_too() {
    let mut before = Talk::new(true, "").loaded(&["n7"]);
    before.ask(vec![line("*", 1)]);
    before.give(&[]);
    let record = |part: Part| {
        let stored = before.actions.chain.iter().rev().find_map(|action| {
            if let Action::Persist(stored, record) = action
                && *stored == part
            {
                record.clone()
            } else {
                None
            }
        });
        stored.unwrap()
    };
    let mut after = Talk::new(true, "");
    let now = context(0).now;
    for part in [ASKS, PLACES] {
        let value = record(part);
        let interceptor = &mut after.interceptor;
        interceptor.restore(ATTEMPT, part, &value, now, &mut Vec::new());
    }
    // The history is not loaded, so no node is to be named any more.
    assert_eq!(after.ask(Vec::new()), ["/default-rack 0", "n7 0", "* 1"]);
    assert_eq!(after.give(&[(2, "n1")]), [2]);
}

#[test]
fn a_master_that_registers_again_begins_anew() {
    let mut talk = Talk::new(true, "").loaded(&["n7"]);
    talk.ask(vec![line("*", 1)]);
    talk.give(&[]);
    let mut register = Request {
        method: AmMethod::Register,
        ..allocate(&AllocateRequestProto::default())
    };
    talk.interceptor
        .on_request(&mut register, &context(0), &mut talk.actions.actions())
        .unwrap();
    talk.response_id = 0;
    assert_eq!(
        talk.ask(vec![line("*", 1)]),
        ["* 1 strict", "/default-rack 1 strict", "n7 1"]
    );
}

#[test]
fn huge_counts_are_planned_in_parts() {
    let mut talk = Talk::new(true, "").loaded(&["n7"]);
    let asked = talk.ask(vec![line("*", i32::MAX)]);
    assert_eq!(asked[0], format!("* {} strict", i32::MAX));
    assert!(talk.interceptor.service.history.outstanding().count() <= 10_000);
}

#[test]
fn a_call_that_repeats_an_answered_one_states_nothing() {
    let mut talk = Talk::new(true, "*=timeout:10").loaded(&["n7"]);
    talk.ask(vec![line("*", 2)]);
    talk.give(&[(2, "n7")]);
    // The answer is lost on its way to the AM.
    talk.response_id = 0;
    assert_eq!(talk.ask(vec![line("*", 2)]), ["* 2 strict"]);
    assert_eq!(talk.give(&[(2, "n7")]), [2]);
    assert_eq!(talk.ask(Vec::new()), ["/default-rack 0", "n7 0", "* 1"]);
}

#[test]
fn a_retry_names_the_nodes_of_the_call_whose_outcome_is_unknown() {
    let mut talk = Talk::new(true, "*=timeout:10").loaded(&["n7"]);
    let lines = talk.ask(vec![line("*", 1)]);
    talk.pass(10_001);
    assert_eq!(talk.ask(vec![line("*", 1)]), lines);
    talk.give(&[]);
    assert_eq!(talk.ask(Vec::new()), ["/default-rack 1", "* 1"]);
}

#[test]
fn containers_of_a_lost_answer_are_wanted_again_from_a_new_resource_manager() {
    let mut talk = Talk::new(true, "*=timeout:10").loaded(&["n7"]);
    talk.ask(vec![line("*", 2)]);
    talk.give(&[(2, "n7")]);
    talk.response_id = 0;
    let mut request = talk.send(Vec::new());
    let (now, actions) = (context(talk.now_ms), &mut talk.actions.actions());
    talk.interceptor
        .on_reregistered(None, &mut request, &now, actions);
    assert_eq!(talk.give(&[]), [0; 0]);
    talk.ask(Vec::new());
    talk.give(&[]);
    talk.pass(10_001);
    assert!(talk.ask(Vec::new()).contains(&"* 2".to_owned()));
}
