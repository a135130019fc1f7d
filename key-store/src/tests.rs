//! Stores that the real `keytool` has written, whole, damaged and beyond the limits.

use std::fs;

use proptest::prelude::*;
use tempfile::TempDir;
use test_support::{Keytool, STORE_PASSWORD as STORE};

use super::*;

/// Password of keys where it differs from that of the store.
const KEY: &str = "key-password";

const FORMATS: [&str; 2] = ["JKS", "PKCS12"];

/// Folder in which `keytool` has made one store with one key.
struct Made {
    keytool: Keytool,
    _folder: TempDir,
}

impl Made {
    /// Makes the store with these arguments; `None` without Java.
    fn new(arguments: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let keytool = Keytool::find(&test, folder.path())?;
        keytool.add_key("store", "host", arguments);
        Some(Self {
            keytool,
            _folder: folder,
        })
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.keytool.path(name)).unwrap()
    }

    fn store(&self) -> Vec<u8> {
        self.read("store")
    }

    /// Returns the certificate of the key.
    fn certificate(&self) -> Certificate {
        self.keytool.export("store", "host", "certificate");
        Certificate(self.read("certificate"))
    }
}

/// Makes a store, or ends the test without Java.
macro_rules! made {
    ($($arguments:tt)*) => {
        match Made::new(&format!($($arguments)*)) {
            Some(made) => made,
            None => return,
        }
    };
}

fn open(bytes: &[u8], store: &str, keys: &str) -> Result<KeyStore, KeyStoreError> {
    let (store, keys) = (Password::new(store), Password::new(keys));
    read(
        bytes,
        Passwords {
            store: Some(&store),
            keys: Some(&keys),
        },
    )
}

fn opened(bytes: &[u8]) -> KeyStore {
    open(bytes, STORE, STORE).unwrap()
}

fn only_key(store: &KeyStore) -> (&[u8], &[Certificate]) {
    assert_eq!(store.keys.len(), 1, "{store:?}");
    assert_eq!(store.keys[0].alias, "host");
    let key = store.keys[0].private_key.as_ref().unwrap();
    (&key.0, &store.keys[0].chain)
}

#[test]
fn keys_of_keytool_are_read_in_both_formats_and_of_both_kinds() {
    for (format, other_format) in [("JKS", "PKCS12"), ("PKCS12", "JKS")] {
        for algorithm in ["RSA -keysize 2048", "EC -groupname secp256r1"] {
            let made = made!("{algorithm} -storetype {format}");
            let store = opened(&made.store());
            let (key, chain) = only_key(&store);
            assert_eq!(chain, [made.certificate()]);
            assert!(store.trusted.is_empty());
            // Java itself says what the key is: the other format has the same.
            made.keytool.run(&format!(
                "-importkeystore -srckeystore store -srcstorepass {STORE} \
                 -destkeystore other -deststorepass {STORE} -deststoretype {other_format}"
            ));
            let other = opened(&made.read("other"));
            assert_eq!(only_key(&other), (key, chain));
        }
    }
}

#[test]
fn a_key_of_a_curve_gets_the_public_key_of_its_certificate() {
    let store = opened(&made!("EC -groupname secp256r1").store());
    let (key, chain) = only_key(&store);
    let public = x509::parts(&chain[0].0).unwrap().public_key;
    assert_eq!(public.len(), 65);
    assert!(key.ends_with(public));
    // One that has it stays as it is.
    assert_eq!(pkcs8::complete(key, Some(&[4; 65])).unwrap(), key);
}

#[test]
fn the_password_of_a_key_may_differ_in_jks() {
    let bytes = made!("EC -storetype JKS -keypass {KEY}").store();
    assert!(open(&bytes, STORE, KEY).is_ok());
    let alias = "host".to_owned();
    assert_eq!(
        open(&bytes, STORE, STORE),
        Err(KeyStoreError::WrongKeyPassword { alias })
    );
}

#[test]
fn ciphers_of_older_versions_of_java_are_read() {
    // RC2 for certificates, triple DES for keys, a MAC of SHA-1.
    let made = made!("EC -J-Dkeystore.pkcs12.legacy");
    assert_eq!(only_key(&opened(&made.store())).1, [made.certificate()]);
    let made = made!(
        "EC -J-Dkeystore.pkcs12.keyProtectionAlgorithm=PBEWithHmacSHA512AndAES_128 \
         -J-Dkeystore.pkcs12.certProtectionAlgorithm=PBEWithHmacSHA1AndAES_256 \
         -J-Dkeystore.pkcs12.macAlgorithm=HmacPBESHA512"
    );
    assert_eq!(only_key(&opened(&made.store())).1, [made.certificate()]);
}

#[test]
fn a_chain_leads_from_the_key_to_its_authority() {
    for format in FORMATS {
        let made = made!("EC -storetype {format}");
        let keytool = &made.keytool;
        keytool.add_key("authority", "root", "EC -ext bc:c");
        keytool.export("authority", "root", "root");
        let request = "-certreq -keystore store -alias host -file request -storepass";
        keytool.run(&format!("{request} {STORE}"));
        let sign = "-gencert -keystore authority -alias root -infile request -outfile signed";
        keytool.run(&format!("{sign} -storepass {STORE}"));
        keytool.import("store", "root", "root", "");
        keytool.import("store", "host", "signed", "");
        let store = opened(&made.store());
        let [signed, root] = ["signed", "root"].map(|name| Certificate(made.read(name)));
        assert_eq!(only_key(&store).1, [signed, root.clone()], "{format}");
        assert_eq!(store.trusted, [root], "{format}");
    }
}

/// Returns a store in this format that only trusts, and what it trusts; `None` without Java.
fn trusting(format: &str) -> Option<(Vec<u8>, Certificate)> {
    let made = Made::new("EC")?;
    let certificate = made.certificate();
    let format = format!("-storetype {format}");
    made.keytool.import("trust", "host", "certificate", &format);
    Some((made.read("trust"), certificate))
}

#[test]
fn trusted_certificates_are_read_and_need_no_password_in_jks() {
    for (format, count) in [("JKS", 1), ("PKCS12", 0)] {
        let Some((bytes, certificate)) = trusting(format) else {
            return;
        };
        let store = opened(&bytes);
        assert_eq!(store.trusted, [certificate]);
        assert!(store.keys.is_empty());
        // The certificates of a PKCS #12 are encrypted.
        let without = read(&bytes, Passwords::default()).unwrap();
        assert_eq!(without.trusted.len(), count, "{format}");
    }
}

#[test]
fn without_a_password_for_keys_they_stay_closed() {
    for format in FORMATS {
        let bytes = made!("EC -storetype {format}").store();
        let password = Password::new(STORE);
        let passwords = Passwords {
            store: Some(&password),
            keys: None,
        };
        let store = read(&bytes, passwords).unwrap();
        assert_eq!(store.keys[0].private_key, None);
        assert_eq!(store.keys[0].chain.len(), 1);
    }
}

#[test]
fn a_wrong_password_is_told_from_a_change_and_from_damage() {
    for format in FORMATS {
        let good = made!("EC -storetype {format}").store();
        let wrong = open(&good, "other", "other");
        assert_eq!(wrong, Err(KeyStoreError::WrongPassword), "{format}");
        let cut = open(&good[..good.len() - 1], STORE, STORE).unwrap_err();
        assert_ne!(cut, KeyStoreError::WrongPassword, "{format}");
        // Behind it are the digest of a JKS, or the salt of a MAC.
        let changed = open(&change(&good, good.len() - 40), STORE, STORE);
        assert_eq!(changed, Err(KeyStoreError::Changed), "{format}");
    }
    for (format, error) in [
        ("JKS", KeyStoreError::WrongPasswordOrChanged),
        ("PKCS12", KeyStoreError::WrongPassword),
    ] {
        let Some((bytes, _)) = trusting(format) else {
            return;
        };
        assert_eq!(open(&bytes, "other", "other"), Err(error));
    }
}

fn change(bytes: &[u8], place: usize) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    changed[place] ^= 1;
    changed
}

#[test]
fn stores_that_are_cut_anywhere_are_errors() {
    for format in FORMATS {
        let good = made!("EC -storetype {format}").store();
        let password = Password::new(STORE);
        let passwords = Passwords {
            store: Some(&password),
            keys: Some(&password),
        };
        for end in 0..good.len() {
            let cut = read_within(&good[..end], passwords, 50_000);
            assert!(cut.is_err(), "{format} {end}");
        }
    }
}

#[test]
fn other_formats_are_named() {
    for (bytes, text) in [
        (&b"\xce\xce\xce\xce\0\0\0\x02"[..], "JCEKS"),
        (b"-----BEGIN PRIVATE KEY-----", "PEM"),
        (b"", "JKS or PKCS #12"),
        (b"text", "JKS or PKCS #12"),
    ] {
        let error = open(bytes, STORE, STORE).unwrap_err();
        assert!(matches!(error, KeyStoreError::Format(_)), "{error:?}");
        assert!(error.to_string().contains(text), "{error}");
    }
}

/// Returns a JKS with this many copies of an entry, and no valid digest.
fn jks_of(count: u32, entry: &[u8]) -> Vec<u8> {
    let mut bytes = b"\xfe\xed\xfe\xed\0\0\0\x02".to_vec();
    bytes.extend(count.to_be_bytes());
    for _ in 0..count {
        bytes.extend(entry);
    }
    bytes.extend([0; 20]);
    bytes
}

#[test]
fn stores_beyond_the_limits_are_refused() {
    let trusted = b"\0\0\0\x02\0\x01a\0\0\0\0\0\0\0\0\0\x05X.509\0\0\0\x01c";
    let most = jks_of(16_384, trusted);
    let store = read(&most, Passwords::default()).unwrap();
    assert_eq!(store.trusted.len(), 16_384);
    let too_large = |bytes: &[u8]| {
        let error = read(bytes, Passwords::default()).unwrap_err();
        matches!(error, KeyStoreError::TooLarge { .. })
    };
    assert!(too_large(&jks_of(16_385, trusted)));
    assert!(too_large(&vec![0x30; STORE_BYTES_MAX + 1]));
    // A count alone takes no memory.
    let mut lies = jks_of(1, trusted);
    lies[8..12].fill(0xff);
    assert!(read(&lies, Passwords::default()).is_err());
}

#[test]
fn iterations_are_bounded_over_the_whole_store() {
    let bytes = made!("EC").store();
    let password = Password::new(STORE);
    let passwords = Passwords {
        store: Some(&password),
        keys: Some(&password),
    };
    // 10,000 each for the MAC, the certificates and the key.
    assert!(read_within(&bytes, passwords, 30_000).is_ok());
    let refused = read_within(&bytes, passwords, 29_999).unwrap_err();
    assert!(
        matches!(refused, KeyStoreError::TooLarge { .. }),
        "{refused}"
    );
}

#[test]
fn nothing_shows_a_password_or_a_key() {
    let password = Password::new("hunter2");
    let entry = KeyEntry {
        alias: "host".to_owned(),
        private_key: Some(PrivateKey(b"hunter2".to_vec())),
        chain: Vec::new(),
    };
    let shown = format!("{password:?} {entry:?}");
    assert!(
        !shown.contains("hunter2") && !shown.contains("104"),
        "{shown}"
    );
}

/// Starts of both formats.
fn start() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(Vec::new()),
        Just(b"\xfe\xed\xfe\xed\0\0\0\x02\0\0\0\x01\0\0\0\x01\0\0".to_vec()),
        Just(vec![0x30, 0x82, 0x01, 0x00, 0x02, 0x01, 0x03, 0x30]),
    ]
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(
        start in start(),
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let password = Password::new(STORE);
        let passwords = Passwords { store: Some(&password), keys: Some(&password) };
        let bytes = [start, bytes].concat();
        let _read_or_refused = read_within(&bytes, passwords, 1_000);
    }
}
