//! Tests of the table of outstanding asks.

use std::ops::ControlFlow;

use super::*;
use proptest::prelude::*;

use crate::allocator::asks::{
    ASK_BYTES_MAX, ASK_LINES_MAX, ASKS_MAX, AskError, AskRules, OutstandingAsks,
    RESOURCE_NAME_BYTES_MAX,
};

fn table(rules: AskRules, requests: &[ResourceRequest]) -> OutstandingAsks {
    let mut asks = OutstandingAsks::new(rules);
    for request in requests {
        asks.update(std::slice::from_ref(request), T0).unwrap();
    }
    asks
}

/// Satisfies the asks of a table up to `budget`, at the first place offered; all nodes are on rack
/// 1.
fn meet(asks: &mut OutstandingAsks, mut budget: u32) -> Vec<(Priority, Locality)> {
    let mut met = Vec::new();
    asks.for_each(|key, ask| {
        ask.sweep(&mut budget, |_, locality| {
            met.push((key.priority, locality));
            Some(RACK_1.to_owned())
        });
        ControlFlow::Continue(())
    });
    met
}

#[test]
fn a_count_replaces_the_one_before_it() {
    let asks = table(AskRules::Strict, &[ask("*", 5), ask("*", 2)]);
    assert_eq!(asks.containers(), 2);
    let asks = table(AskRules::Strict, &[ask("*", 5), ask("*", 0)]);
    assert!(asks.is_empty());
    assert_eq!(asks.iter().count(), 0);
}

#[test]
fn asks_are_told_apart_by_priority_allocation_id_and_size() {
    let other_id = ResourceRequest {
        allocation_request_id: 7,
        ..ask("*", 2)
    };
    let other_size = ResourceRequest {
        capability: Resource::new(1_024, 2),
        ..ask("*", 4)
    };
    let asks = [
        ask("*", 1),
        other_id,
        other_size,
        at_priority(2, ask("*", 8)),
    ];
    let table = table(AskRules::Strict, &asks);
    let counts: Vec<u32> = table.iter().map(|view| view.count).collect();
    assert_eq!(counts, [1, 4, 2, 8]);
    assert_eq!(table.containers(), 15);
}

#[test]
fn places_are_met_before_the_rest_and_lower_their_rack_too() {
    let lines = [ask("a", 1), ask(RACK_1, 2), ask("*", 4)];
    let mut asks = table(AskRules::Strict, &lines);
    let localities: Vec<Locality> = meet(&mut asks, 9).into_iter().map(|m| m.1).collect();
    assert_eq!(
        localities,
        [
            Locality::NodeLocal,
            Locality::RackLocal,
            Locality::OffSwitch,
            Locality::OffSwitch
        ]
    );
}

#[test]
fn places_never_raise_the_total() {
    let lines = [ask("a", 5), ask("b", 5), ask(RACK_1, 9), ask("*", 3)];
    let mut asks = table(AskRules::Strict, &lines);
    assert_eq!(meet(&mut asks, 99).len(), 3);
    assert!(asks.is_empty());
    assert!(meet(&mut asks, 99).is_empty());
}

#[test]
fn a_container_on_a_host_lowers_its_rack_too() {
    let lines = [ask("a", 1), ask(RACK_1, 3), ask("*", 4)];
    let mut asks = table(AskRules::Strict, &lines);
    asks.in_turns(|_, ask| {
        ask.answer("a", RACK_1, Locality::NodeLocal);
        ControlFlow::Break(())
    });
    let left = [ask(RACK_1, 2), ask("*", 3)];
    assert_eq!(asks, table(AskRules::Strict, &left));
}

#[test]
fn what_the_budget_does_not_cover_stays() {
    let mut asks = table(AskRules::Strict, &[ask("a", 2), ask("*", 5)]);
    assert_eq!(meet(&mut asks, 3).len(), 3);
    assert_eq!(asks.containers(), 2);
}

#[test]
fn guaranteed_asks_go_most_urgent_first_and_opportunistic_ones_last_as_in_hadoop() {
    let lines = [at_priority(5, ask("*", 1)), at_priority(1, ask("*", 1))];
    let order = |rules| -> Vec<i32> {
        meet(&mut table(rules, &lines), 9)
            .into_iter()
            .map(|(priority, _)| priority.0)
            .collect()
    };
    assert_eq!(order(AskRules::Strict), [1, 5]);
    assert_eq!(order(AskRules::HadoopOpportunistic), [5, 1]);
}

#[test]
fn without_a_total_a_place_is_the_total_for_opportunistic_asks_only() {
    let lines = [ask("a", 3)];
    assert_eq!(table(AskRules::Strict, &lines).containers(), 0);
    let mut asks = table(AskRules::HadoopOpportunistic, &lines);
    assert_eq!(asks.containers(), 3);
    asks.update(&[ask("*", 1)], T0).unwrap();
    assert_eq!(asks.containers(), 1);
}

#[test]
fn only_guaranteed_asks_insist_on_their_places() {
    let lines = [strict("*", 2)];
    assert!(meet(&mut table(AskRules::Strict, &lines), 9).is_empty());
    assert_eq!(
        meet(&mut table(AskRules::HadoopOpportunistic, &lines), 9).len(),
        2
    );
}

#[test]
fn the_time_of_an_ask_is_that_of_its_first_line() {
    let mut asks = OutstandingAsks::new(AskRules::Strict);
    asks.update(&[ask("a", 1)], MonoMillis(3)).unwrap();
    asks.update(&[ask("*", 1)], MonoMillis(8)).unwrap();
    assert_eq!(asks.iter().next().unwrap().asked_at, MonoMillis(3));
}

#[test]
fn lines_are_bounded_and_can_be_changed_and_taken_back_at_the_bound() {
    let mut asks = OutstandingAsks::new(AskRules::Strict);
    let hosts = (1..ASK_LINES_MAX).map(|host| ask(&host.to_string(), 1));
    let lines: Vec<_> = [ask("*", 1)].into_iter().chain(hosts).collect();
    asks.update(&lines, T0).unwrap();
    assert_eq!(
        asks.update(&[ask("one more", 1)], T0),
        Err(AskError::TooManyLines)
    );
    assert_eq!(
        asks.update(&[at_priority(9, ask("*", 1))], T0),
        Err(AskError::TooManyLines)
    );
    assert_eq!(asks.update(&[ask("1", 2)], T0), Ok(()));
    assert_eq!(asks.update(&[ask("1", 0)], T0), Ok(()));
    assert_eq!(asks.update(&[ask("one more", 1)], T0), Ok(()));
}

#[test]
fn racks_of_a_new_ask_count_as_lines() {
    let mut asks = OutstandingAsks::new(AskRules::Strict);
    let racks = (0..ASK_LINES_MAX).map(|rack| ask(&format!("/{rack}"), 1));
    let lines: Vec<_> = racks.collect();
    assert_eq!(asks.update(&lines, T0), Err(AskError::TooManyLines));
}

/// Returns asks that differ only in their allocation request ids.
fn numbered(count: usize) -> Vec<ResourceRequest> {
    let asks = (0_i64..).take(count).map(|id| ResourceRequest {
        allocation_request_id: id,
        ..ask("*", 1)
    });
    asks.collect()
}

#[test]
fn asks_are_bounded_apart_from_their_lines() {
    let mut asks = table(AskRules::Strict, &[]);
    asks.update(&numbered(ASKS_MAX), T0).unwrap();
    assert_eq!(asks.update(&[ask("*", 1)], T0), Err(AskError::TooManyAsks));
    assert_eq!(asks.update(&[ask("a", 0)], T0), Ok(()));
}

#[test]
fn names_and_labels_are_bounded_in_bytes() {
    let mut asks = table(AskRules::Strict, &[]);
    let host = |number: usize| format!("{number:0width$}", width = RESOURCE_NAME_BYTES_MAX);
    let lines: Vec<_> = (0..ASK_LINES_MAX - 1).map(|n| ask(&host(n), 1)).collect();
    assert_eq!(asks.update(&lines, T0), Err(AskError::TooManyBytes));
    assert!(asks.is_empty(), "nothing of what is refused is kept");
    let fits = &lines[..ASK_BYTES_MAX / (RESOURCE_NAME_BYTES_MAX + 100)];
    assert_eq!(asks.update(fits, T0), Ok(()));
    let mut labelled = numbered(ASKS_MAX - 1);
    for (number, request) in labelled.iter_mut().enumerate() {
        request.node_label_expression = Some(host(number));
    }
    assert_eq!(asks.update(&labelled, T0), Err(AskError::TooManyBytes));
    let mut asks = table(AskRules::Strict, &[]);
    assert_eq!(asks.update(&labelled, T0), Ok(()));
    assert_eq!(asks.update(&labelled, T0), Ok(()), "all are known");
}

#[test]
fn of_a_request_with_a_bad_line_nothing_is_in_force() {
    let mut asks = table(AskRules::Strict, &[ask("a", 1), ask("*", 4)]);
    let before = asks.clone();
    let nothing = ResourceRequest {
        capability: Resource::new(0, 0),
        ..ask("*", 1)
    };
    let request = [
        ask("a", 0),
        ask("*", 9),
        at_priority(2, ask("*", 1)),
        nothing,
    ];
    assert!(asks.update(&request, T0).is_err());
    assert_eq!(asks, before);
    let mut many = numbered(ASKS_MAX - 1);
    many.insert(0, ask("*", 9));
    assert_eq!(asks.update(&many, T0), Ok(()), "that ask is known");
    assert_eq!(asks.update(&many, T0), Ok(()), "all are known");
}

#[test]
fn the_line_for_anywhere_selects_the_partition_of_the_ask() {
    let labelled = |label: &str, request| ResourceRequest {
        node_label_expression: Some(label.to_owned()),
        ..request
    };
    let lines = [
        labelled("gpu", ask("a", 1)),
        labelled("gpu", ask("*", 1)),
        labelled("ssd", ask("*", 2)),
    ];
    let asks = table(AskRules::Strict, &lines);
    let views: Vec<_> = asks.iter().collect();
    assert_eq!(views[0].node_label_expression, Some("ssd"));
    // A line that takes the total back is not counted, so its label is not kept.
    let taken_back = [labelled("gpu", ask("a", 1)), labelled("ssd", ask("*", 0))];
    let asks = table(AskRules::Strict, &taken_back);
    assert_eq!(asks, table(AskRules::Strict, &taken_back[..1]));
}

fn any_line() -> impl Strategy<Value = ResourceRequest> {
    let place = prop::sample::select(vec!["a", "bb", "ccc", RACK_1, RACK_2, "*"]);
    let label = prop::option::of("[a-z]{0,4}");
    (place, 0..3_u32, 1..4_i32, label).prop_map(|(place, count, priority, label)| ResourceRequest {
        node_label_expression: label,
        ..at_priority(priority, ask(place, count))
    })
}

/// Returns a table built anew from the lines of another, whose asks all came at [`T0`].
fn rebuilt(asks: &OutstandingAsks) -> OutstandingAsks {
    table(AskRules::Strict, &asks.requests().collect::<Vec<_>>())
}

proptest! {
    /// The table is the same whether lines come one by one or together, and its maintained size is
    /// the recounted one.
    #[test]
    fn a_table_knows_what_it_takes(
        requests in prop::collection::vec(prop::collection::vec(any_line(), 0..8), 0..8),
        budget in 0..9_u32,
    ) {
        let mut asks = table(AskRules::Strict, &[]);
        for request in &requests {
            asks.update(request, T0).unwrap();
            prop_assert_eq!(asks.counted(), asks.recounted());
        }
        let lines = requests.concat();
        prop_assert_eq!(&asks, &table(AskRules::Strict, &lines));
        meet(&mut asks, budget);
        prop_assert_eq!(asks.counted(), asks.recounted());
        prop_assert_eq!(&asks, &rebuilt(&asks));
        asks.in_turns(|_, ask| {
            ask.answer("a", RACK_1, Locality::NodeLocal);
            ControlFlow::Continue(true)
        });
        prop_assert_eq!(asks.counted(), asks.recounted());
        prop_assert_eq!(&asks, &rebuilt(&asks));
        prop_assert!(asks.is_empty());
    }
}

#[test]
fn what_is_taken_back_leaves_nothing_behind() {
    let mut asks = OutstandingAsks::new(AskRules::HadoopOpportunistic);
    let empty = asks.clone();
    for count in [3, 0] {
        for place in ["a", RACK_1, "*"] {
            asks.update(&[ask(place, count)], T0).unwrap();
        }
    }
    assert_eq!(asks, empty);
}

#[test]
fn long_names_and_containers_of_nothing_are_refused() {
    let mut asks = OutstandingAsks::new(AskRules::Strict);
    let name = "x".repeat(RESOURCE_NAME_BYTES_MAX + 1);
    assert_eq!(
        asks.update(&[ask(&name, 1)], T0),
        Err(AskError::NameTooLong(name.len()))
    );
    let labelled = ResourceRequest {
        node_label_expression: Some(name.clone()),
        ..ask("*", 1)
    };
    assert!(asks.update(&[labelled], T0).is_err());
    for capability in [Resource::new(0, 1), Resource::new(1, 0)] {
        let request = ResourceRequest {
            capability,
            ..ask("*", 1)
        };
        assert_eq!(
            asks.update(&[request], T0),
            Err(AskError::EmptyCapability(capability))
        );
    }
    assert!(asks.is_empty());
}
