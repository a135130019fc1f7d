//! Java's key stores, as operators put them on a node.

use key_store::{KeyStore, Password, Passwords, read_within};

use crate::{Memory, Target};

pub(crate) const TARGET: Target = Target {
    name: "key_store",
    bytes_max: 4 * 1024,
    memory: Memory {
        base: 64 * 1024,
        per_byte: 64,
    },
    run,
    seeds,
};

/// Password of the kept stores, whose key derivations have few iterations.
const PASSWORD: &str = "store-password";

const ITERATIONS_MAX: u32 = 1_000;

fn run(input: &[u8]) {
    let password = Password::new(PASSWORD);
    // Without the store's password nothing is verified, and a changed store is read further.
    for store in [None, Some(&password)] {
        let read = |keys| {
            let passwords = Passwords { store, keys };
            read_within(input, passwords, ITERATIONS_MAX)
        };
        let closed = read(None);
        if let Ok(closed) = &closed {
            check(input, closed);
            assert!(closed.keys.iter().all(|key| key.private_key.is_none()));
        }
        let Ok(mut opened) = read(Some(&password)) else {
            continue;
        };
        check(input, &opened);
        for key in &mut opened.keys {
            key.private_key = None;
        }
        assert_eq!(closed, Ok(opened), "but for its keys");
    }
}

/// What a store holds was in the input, each certificate of its own once.
fn check(input: &[u8], store: &KeyStore) {
    let bytes = store.trusted.iter().map(|one| one.0.len());
    assert!(bytes.sum::<usize>() <= input.len());
    for key in &store.keys {
        let bytes = key.chain.iter().map(|one| one.0.len());
        assert!(bytes.sum::<usize>() <= input.len());
        assert!(key.alias.len() <= 3 * input.len());
    }
}

/// Stores in the format JKS without a valid digest; the kept inputs are what `keytool` has written.
fn seeds() -> Vec<Vec<u8>> {
    let store = |version: u8, entries: &[&[u8]]| {
        let count = u8::try_from(entries.len()).expect("there are few");
        let head = [0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, version, 0, 0, 0, count];
        [&head[..], &entries.concat(), &[0; 20]].concat()
    };
    let trusted = b"\0\0\0\x02\0\x01a\0\0\0\0\0\0\0\0\0\x05X.509\0\0\0\x01c";
    let key = b"\0\0\0\x01\0\x01k\0\0\0\0\0\0\0\0\0\0\0\x02\x30\0\0\0\0\x01\0\x05X.509\0\0\0\x01c";
    vec![
        store(2, &[trusted, key]),
        store(1, &[b"\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0"]),
        b"-----BEGIN CERTIFICATE-----".to_vec(),
    ]
}
