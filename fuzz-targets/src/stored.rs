//! Records of the state store: of the node, whose next start follows from them, and of the
//! AMRMProxy.

use std::collections::BTreeMap;

use amrm_proxy::store::{
    AsksRecord, IdentityRecord, KeysRecord, LimitsRecord, NextIdRecord, OutstandingRecord, Record,
    RegistrationRecord, RoleHistoryPlacesRecord, RoleHistoryRecord, StoredState,
};
use keeper::{FoundStart, LeftProcess, ProcessIdentity};
use node_core::recovery::{RecordClock, StartRecord, StateRecord, decide};
use node_manager::recovery::FoundState;
use prost::Message;
use wire::proto::hadoop_yarn::ContainerTokenIdentifierProto;

use crate::{Memory, Target};

pub(crate) const TARGET: Target = Target {
    name: "stored_records",
    bytes_max: 8 * 1024,
    memory: Memory {
        base: 64 * 1024,
        per_byte: 2048,
    },
    run,
    seeds,
};

/// An input is records, each a byte for its key space, the lengths of key and value in one byte
/// and two, and both.
fn spaces(mut input: &[u8]) -> [BTreeMap<String, Vec<u8>>; 4] {
    let mut spaces: [BTreeMap<String, Vec<u8>>; 4] = Default::default();
    while let Some(([space, key, high, low], rest)) = input.split_first_chunk::<4>() {
        let key = rest.get(..usize::from(*key)).unwrap_or(rest);
        let rest = &rest[key.len()..];
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let value = rest.get(..length).unwrap_or(rest);
        input = &rest[value.len()..];
        let key = String::from_utf8_lossy(key).into_owned();
        spaces[usize::from(space % 4)].insert(key, value.to_vec());
    }
    spaces
}

fn read_again<R: Record + PartialEq>(stored: &[u8]) {
    if let Some(record) = R::from_stored(stored) {
        let again = R::from_stored(&record.to_stored());
        assert!(again == Some(record), "a record changes when it is written");
    }
}

fn run(input: &[u8]) {
    let [containers, applications, tokens, proxy] = spaces(input);
    let names = containers.keys().filter_map(|key| key.split_once('/'));
    let process = ProcessIdentity {
        pid: 17,
        start_time: 4711,
    };
    let noted: Vec<FoundStart> = names
        .clone()
        .map(|(container, _)| FoundStart::of(container, process))
        .collect();
    let left: Vec<LeftProcess> = names
        .map(|(container, _)| LeftProcess {
            process,
            variable: Some(container.to_owned()),
        })
        .collect();
    let found = FoundState::from_contents([containers, applications, tokens]);
    let all = found.containers.len();
    let known: [(&[FoundStart], &[LeftProcess]); 3] = [(&[], &[]), (&[], &left), (&noted, &left)];
    for (noted, left) in known {
        let decided = decide(found.containers.clone(), noted, left);
        assert!(decided.containers.len() <= all);
        for container in &decided.containers {
            assert!(found.containers.contains_key(&container.spec.id.name()));
        }
        assert!(decided.leftovers.len() <= noted.len() + left.len());
    }
    for value in proxy.values() {
        read_again::<KeysRecord>(value);
        read_again::<IdentityRecord>(value);
        read_again::<LimitsRecord>(value);
        read_again::<NextIdRecord>(value);
        read_again::<AsksRecord>(value);
        read_again::<RegistrationRecord>(value);
        read_again::<RoleHistoryRecord>(value);
        read_again::<RoleHistoryPlacesRecord>(value);
        read_again::<OutstandingRecord>(value);
    }
    let _sorted = StoredState::from_contents(proxy);
}

fn record(space: u8, key: &str, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len()).expect("a short value");
    let key_length = u8::try_from(key.len()).expect("a short key");
    let [high, low] = length.to_be_bytes();
    [&[space, key_length, high, low], key.as_bytes(), value].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let container = test_support::ids::application(7).attempt(1).container(2);
    let token = ContainerTokenIdentifierProto {
        container_id: Some(container.into()),
        ..ContainerTokenIdentifierProto::default()
    };
    let context = test_support::LaunchContext::command("true").into_proto();
    let start = StartRecord {
        token: token.encode_to_vec(),
        context: context.encode_to_vec(),
        arrival: 3,
        accepted_at: 1_700_000_000_000,
        clock: Some(RecordClock {
            boot: 7,
            wall_at_zero: 1_600_000_000_000,
        }),
    };
    let state = StateRecord {
        pid: 17,
        start_time: 4711,
        ..StateRecord::default()
    };
    let versioned = |message: Vec<u8>| [&[1][..], &message].concat();
    let node = [
        record(
            0,
            &format!("{container}/start"),
            &versioned(start.encode_to_vec()),
        ),
        record(
            0,
            &format!("{container}/state"),
            &versioned(state.encode_to_vec()),
        ),
        record(1, &container.attempt.application_id.to_string(), &[1]),
        record(2, "keys", &[1]),
        record(2, &format!("attempt/{}", container.attempt), &[1, 8, 4]),
        record(2, &format!("used/{container}"), &9_u64.to_be_bytes()),
    ];
    let identity = IdentityRecord {
        user: "alice".to_owned(),
        tags: vec!["nightly".to_owned()],
        ..IdentityRecord::default()
    };
    let key = format!("attempt/{}/identity", container.attempt);
    vec![node.concat(), record(3, &key, &identity.to_stored())]
}
