//! Random sequences of calls, answers and restarts against sums computed the slow way.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use records::NodeId;

use super::*;

/// Call of a master or an answer of the ResourceManager.
#[derive(Clone, Debug)]
enum Step {
    Ask {
        place: u8,
        priority: i32,
        count: u32,
        relax: bool,
    },
    Blacklist {
        host: u8,
        on: bool,
    },
    /// Heartbeat that the ResourceManager answers with these nodes, or does not answer.
    Heartbeat {
        answer: Option<Vec<u8>>,
    },
    Restart,
}

fn steps() -> impl Strategy<Value = Step> {
    let ask =
        (0..8_u8, 0..3, 0..20_u32, any::<bool>()).prop_map(|(place, priority, count, relax)| {
            Step::Ask {
                place,
                priority,
                count,
                relax,
            }
        });
    let blacklist = (0..5_u8, any::<bool>()).prop_map(|(host, on)| Step::Blacklist { host, on });
    let answer = prop::option::weighted(0.7, prop::collection::vec(0..5_u8, 0..6));
    prop_oneof![
        3 => ask,
        1 => blacklist,
        4 => answer.prop_map(|answer| Step::Heartbeat { answer }),
        1 => Just(Step::Restart),
    ]
}

/// Returns one of five hosts on two racks, the racks, and `*`.
fn place(number: u8) -> String {
    match number {
        0..5 => format!("n{number}"),
        5 => RACK_1.to_owned(),
        6 => RACK_2.to_owned(),
        _ => "*".to_owned(),
    }
}

fn offered(hosts: &[u8]) -> Vec<RemoteNode> {
    let rack = |host: u8| if host < 3 { RACK_1 } else { RACK_2 };
    let node = |host: &u8| remote(&place(*host), rack(*host));
    hosts.iter().map(node).collect()
}

proptest! {
    #[test]
    fn sums_computed_the_slow_way_agree(
        steps in prop::collection::vec(steps(), 1..60),
        is_spread in any::<bool>(),
    ) {
        let placement = if is_spread { Placement::Spread } else { Placement::ListOrder };
        let config = DistributedAllocatorConfig { placement, ..LIST_ORDER };
        let mut allocator = configured(config, offered(&[0, 1, 2, 3, 4]));
        let mut wanted: BTreeMap<i32, u32> = BTreeMap::new();
        let mut blacklist = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut listed: BTreeSet<String> = (0..5).map(place).collect();
        for (step, ms) in steps.into_iter().zip(0..) {
            let now = MonoMillis(ms * 100);
            match step {
                Step::Ask { place: at, priority, count, relax } => {
                    let name = place(at);
                    let line = if relax { ask(&name, count) } else { strict(&name, count) };
                    allocator.update_asks(&[at_priority(priority, line)], now).unwrap();
                    if name == "*" {
                        wanted.insert(priority, count);
                    }
                }
                Step::Blacklist { host, on } => {
                    let host = [place(host)];
                    if on {
                        allocator.update_blacklist(&host, &[]).unwrap();
                        blacklist.extend(host);
                    } else {
                        allocator.update_blacklist(&[], &host).unwrap();
                        blacklist.remove(&host[0]);
                    }
                }
                Step::Heartbeat { answer } => {
                    let kept: BTreeSet<i64> =
                        allocator.state().unconfirmed.iter().map(|a| a.container.container_id.id).collect();
                    let sent = allocator.allocate(now).to_vec();
                    let mut per_node: BTreeMap<&NodeId, u32> = BTreeMap::new();
                    for allocation in &sent {
                        let container = &allocation.container;
                        let id = container.container_id.id;
                        if kept.contains(&id) {
                            continue;
                        }
                        prop_assert!(id < START && seen.insert(id), "{id} is new");
                        prop_assert!(!blacklist.contains(&container.node_id.host));
                        prop_assert!(listed.contains(&container.node_id.host));
                        let left = wanted.get_mut(&container.priority.0).unwrap();
                        *left = left.checked_sub(1).expect("no more than asked");
                        let count = per_node.entry(&container.node_id).or_default();
                        *count += 1;
                        prop_assert!(*count <= 10);
                    }
                    prop_assert!(kept.is_empty() || kept.len() == sent.len());
                    if let Some(hosts) = answer {
                        prop_assert_eq!(allocator.confirmed(offered(&hosts), now), sent);
                        if !is_spread {
                            listed.clear();
                        }
                        listed.extend(hosts.into_iter().map(place));
                    }
                }
                Step::Restart => {
                    let state = allocator.state();
                    allocator = Allocator::restore(attempt(1), config, state, now).unwrap();
                    listed.clear();
                }
            }
            let total: u64 = wanted.values().map(|count| u64::from(*count)).sum();
            prop_assert_eq!(allocator.asks().containers(), total);
        }
    }
}
