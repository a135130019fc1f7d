//! Files with key stores: reading them, and seeing that they have changed.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};

use key_store::{KeyStore, KeyStoreError, Passwords, STORE_BYTES_MAX};

use crate::config::{StoreFile, TlsConfig};
use crate::error::{Setting, TlsError};

/// State of a file. The time of the last change of its inode moves with each write and each rename
/// onto the path, and no program can set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    file: (u64, u64),
    bytes: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            file: (metadata.dev(), metadata.ino()),
            bytes: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Returns the state of all files of a configuration.
pub(crate) fn stamps(config: &TlsConfig) -> Result<Vec<Stamp>, TlsError> {
    let key_store = (&config.key_store, Setting::KeyStore);
    let trust_store = config.clients.as_ref();
    let trust_store = trust_store.map(|store| (store, Setting::TrustStore));
    let stores = std::iter::once(key_store).chain(trust_store);
    let stamp = |(store, setting): (&StoreFile, Setting)| match std::fs::metadata(&store.path) {
        Ok(metadata) => Ok(Stamp::of(&metadata)),
        Err(source) => Err(TlsError::Read {
            setting,
            path: store.path.clone(),
            source,
        }),
    };
    stores.map(stamp).collect()
}

/// Reads the store with the server's keys.
pub(crate) fn keys(config: &TlsConfig) -> Result<KeyStore, TlsError> {
    let passwords = Passwords {
        store: config.key_store.password.as_ref(),
        keys: Some(&config.key_password),
    };
    let settings = (Setting::KeyStore, Setting::KeyStorePassword);
    open(&config.key_store, passwords, settings)
}

/// Reads the store with trusted certificates; its keys, if it has any, stay closed.
pub(crate) fn trusted(store: &StoreFile) -> Result<KeyStore, TlsError> {
    let passwords = Passwords {
        store: store.password.as_ref(),
        keys: None,
    };
    let settings = (Setting::TrustStore, Setting::TrustStorePassword);
    open(store, passwords, settings)
}

fn open(
    store: &StoreFile,
    passwords: Passwords<'_>,
    (of_file, of_password): (Setting, Setting),
) -> Result<KeyStore, TlsError> {
    let path = store.path.clone();
    let bytes = match read(store) {
        Ok(bytes) => bytes,
        Err(source) => {
            return Err(TlsError::Read {
                setting: of_file,
                path,
                source,
            });
        }
    };
    key_store::read(&bytes, passwords).map_err(|source| {
        let setting = match source {
            KeyStoreError::WrongPassword | KeyStoreError::WrongPasswordOrChanged => of_password,
            KeyStoreError::WrongKeyPassword { .. } => Setting::KeyPassword,
            KeyStoreError::Format(_)
            | KeyStoreError::Unsupported { .. }
            | KeyStoreError::Malformed(_)
            | KeyStoreError::TooLarge { .. }
            | KeyStoreError::Changed => of_file,
        };
        TlsError::Store {
            setting,
            path,
            source,
        }
    })
}

/// Reads a regular file up to one byte more than a store may have.
fn read(store: &StoreFile) -> io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    // A pipe in the place of the file would otherwise hold up the caller.
    let file: File = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&store.path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no regular file",
        ));
    }
    let mut bytes = Vec::new();
    file.take(STORE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}
