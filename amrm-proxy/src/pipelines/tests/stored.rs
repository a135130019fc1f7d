//! Keys and bytes of the stored records, which an agent reads that an earlier version wrote.

use hadoop_fs::Uri;

use super::*;
use crate::config::{FilesConfig, HistoryConfig, OptIn, RelabelRule};
use crate::store::{
    AsksRecord, BlacklistRecord, IdentityRecord, LimitsRecord, NextIdRecord, OutstandingRecord,
    RegistrationRecord, RoleHistoryPlacesRecord, RoleHistoryRecord,
};

/// Reads a record and writes it again.
type Again = fn(&[u8]) -> Option<Vec<u8>>;

fn again<R: crate::store::Record>(stored: &[u8]) -> Option<Vec<u8>> {
    R::from_stored(stored).map(|record| record.to_stored())
}

/// Last part of the key, bytes of a record as every version so far has written it, and its type.
const STORED: [(&str, &[u8], Again); 9] = [
    ("asks", b"\x01\x0a\x0f\x0a\x02\x08\x01\x12\x01*\x1a\x04\x08\x01\x10\x01\x20\x03", again::<AsksRecord>),
    ("blacklist", b"\x01\x0a\x02h1", again::<BlacklistRecord>),
    (
        "limits",
        b"\x01\x0a\x04\x08\x01\x10\x01\x12\x04\x08\x08\x10\x04\x1a\x04\x08\x01\x10\x01\x20\xe8\x07\x28d",
        again::<LimitsRecord>,
    ),
    (
        "master",
        b"\x01\x0a\x05alice\x12\x01t\x1a\x0b\x0a\x01i\x12\x01p\x1a\x01k\x22\x00\x22\x05\x0a\x01s\x10\x01",
        again::<IdentityRecord>,
    ),
    (
        "next-id",
        b"\x01\x08\xf7\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        again::<NextIdRecord>,
    ),
    ("outstanding", b"\x01\x0a\x02\x18\x07", again::<OutstandingRecord>),
    ("registration", b"\x01\x0a\x01r\x10\x03\x18\x01", again::<RegistrationRecord>),
    (
        "role-history",
        b"\x01\x0a\x07\x0a\x01x\x10\x02\x18\x01",
        again::<RoleHistoryRecord>,
    ),
    (
        "role-history-places",
        b"\x01\x0a\x12\x08\x01\x10\x02\x18\x01\x22\x02ab\x2a\x02\x01\x01\x32\x02\x03\x04",
        again::<RoleHistoryPlacesRecord>,
    ),
];

/// Makes a proxy that has every interceptor, and an attempt that every one of them is for.
fn complete() -> (Arc<AmrmProxy>, Attempt) {
    let config = ProxyConfig {
        pipeline: InterceptorKind::ALL.to_vec(),
        relabel: vec![RelabelRule {
            name: "all".to_owned(),
            user: None,
            tag: None,
            priority_min: 0,
            priority_max: 9,
            percent: 50,
            promote_after_ms: None,
        }],
        role_history: Some(HistoryConfig {
            files: FilesConfig {
                // No folder can be made below a file that is no folder, whoever runs the test.
                directory: Uri::file("/dev/null/histories"),
                user_bytes_max: 1 << 20,
            },
            placement_timeout_ms: 1_000,
            rules: Vec::new(),
        }),
        ..config_of("127.0.0.1:1".to_owned())
    };
    let proxy = configured(config, Arc::new(NoStore), StoredState::default());
    let identity = AttemptIdentity {
        attempt: ATTEMPT,
        user: "alice".to_owned(),
        tags: Vec::new(),
        role_history: Some(OptIn {
            service: "store".to_owned(),
            is_guaranteed: true,
            policy: String::new(),
        }),
    };
    (proxy, Attempt::new(identity))
}

#[test]
fn every_part_has_a_key_of_its_own_which_is_documented_and_has_not_changed() {
    let (proxy, attempt) = complete();
    let work = proxy.work(&attempt, renewed());
    let mut keys: Vec<_> = work.parts().map(|part| part.key()).collect();
    keys.sort_unstable();
    assert_eq!(keys, STORED.map(|(key, ..)| key));
    let documented = include_str!("../../store.rs");
    for key in keys {
        let row = format!("//! | `attempt/<attempt id>/{key}` |");
        assert!(documented.contains(&row), "{row}");
    }
}

#[test]
fn records_of_earlier_versions_are_read_and_written_again_byte_by_byte() {
    for (key, stored, again) in STORED {
        assert_eq!(again(stored).as_deref(), Some(stored), "{key}");
    }
}

#[test]
fn an_attempt_that_an_earlier_version_stored_goes_on_with_its_state() {
    let records =
        STORED.map(|(key, stored, _)| (format!("attempt/{ATTEMPT}/{key}"), stored.to_vec()));
    let found = StoredState::from_contents(records.into());
    let config = ProxyConfig {
        pipeline: InterceptorKind::ALL.to_vec(),
        ..config_of("127.0.0.1:1".to_owned())
    };
    let proxy = configured(config, Arc::new(NoStore), found);
    let pipeline = proxy.lock().get(ATTEMPT).cloned().unwrap();
    assert_eq!(pipeline.identity.user, "alice");
    // Readers see what is restored before the first call: three containers of `asks`.
    assert_eq!(pipeline.numbers().gauges.containers_outstanding, 3);
}
