//! What must survive a restart of the agent, its form, and where it is kept.
//!
//! Every record stands alone under a key, so that a change writes little. The first byte of a value is the version of its
//! form: a newer agent reads older forms, and what it does not know it drops with a warning. Source of what is kept:
//! `AMRMProxyService.recover`, `NMStateStoreService.RecoveredAMRMProxyState`; Hadoop's distributed scheduler keeps nothing.
//!
//! | key | value (version 1) |
//! |---|---|
//! | `keys` | current and next local master key |
//! | `attempt/<attempt id>/master` | user, tags, and the ResourceManager's AMRMToken |
//! | `attempt/<attempt id>/limits` | sizes, token life and the start of the container ids that the ResourceManager granted |
//! | `attempt/<attempt id>/next-id` | a container id that has not been used, and none below it |
//! | `attempt/<attempt id>/asks` | opportunistic asks outstanding |
//! | `attempt/<attempt id>/blacklist` | hosts not to be used |
//! | `attempt/<attempt id>/registration` | the AM's register request, and how the numbers of its calls differ from the ResourceManager's |
//! | `attempt/<attempt id>/outstanding` | what the ResourceManager would have to be told again, as an `allocate` request |

mod database;
mod record;

use ::records::ApplicationAttemptId;

pub use database::{Database, StoreError};
pub use record::{
    AsksRecord, BlacklistRecord, KeysRecord, LimitsRecord, MasterRecord, NextIdRecord,
    OutstandingRecord, Record, RegistrationRecord,
};

/// One part of an attempt's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Who it is, and the ResourceManager's token.
    Master,
    /// What the ResourceManager granted.
    Limits,
    /// Where the container ids stand.
    NextId,
    /// What is outstanding.
    Asks,
    /// Hosts not to be used.
    Blacklist,
    /// What it takes to register the attempt again.
    Registration,
    /// What the ResourceManager would have to be told again.
    Outstanding,
}

impl Part {
    /// Every part.
    pub const ALL: [Self; 7] = [
        Self::Master,
        Self::Limits,
        Self::NextId,
        Self::Asks,
        Self::Blacklist,
        Self::Registration,
        Self::Outstanding,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Master => "master",
            Self::Limits => "limits",
            Self::NextId => "next-id",
            Self::Asks => "asks",
            Self::Blacklist => "blacklist",
            Self::Registration => "registration",
            Self::Outstanding => "outstanding",
        }
    }
}

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKey {
    /// The local master keys.
    Keys,
    /// A part of an attempt's state.
    Attempt(ApplicationAttemptId, Part),
}

impl RecordKey {
    /// The text it is stored under.
    #[must_use]
    pub fn to_text(self) -> String {
        match self {
            Self::Keys => "keys".to_owned(),
            Self::Attempt(attempt, part) => format!("attempt/{attempt}/{}", part.as_str()),
        }
    }

    /// Reads such a text; `None` when it is of another form.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        if text == "keys" {
            return Some(Self::Keys);
        }
        let (attempt, part) = text.strip_prefix("attempt/")?.split_once('/')?;
        let part = Part::ALL.into_iter().find(|known| known.as_str() == part)?;
        Some(Self::Attempt(attempt.parse().ok()?, part))
    }
}

/// Where records go. Writing does not wait: the newest value of a key counts, and what was written last is what
/// a restart finds, but for the last moments before a crash. Whoever cannot bear that writes ahead.
pub trait Store: Send + Sync + 'static {
    /// Sets a record, or removes it.
    fn put(&self, key: RecordKey, value: Option<Vec<u8>>);

    /// Removes all of an attempt.
    fn forget(&self, attempt: ApplicationAttemptId) {
        for part in Part::ALL {
            self.put(RecordKey::Attempt(attempt, part), None);
        }
    }
}

/// Keeps nothing: for an agent whose containers do not survive its restart either.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoStore;

impl Store for NoStore {
    fn put(&self, _: RecordKey, _: Option<Vec<u8>>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_their_text() {
        let attempt = test_support::ids::application(7).attempt(2);
        let parts = Part::ALL.map(|part| RecordKey::Attempt(attempt, part));
        for key in parts.into_iter().chain([RecordKey::Keys]) {
            assert_eq!(RecordKey::from_text(&key.to_text()), Some(key));
        }
        for text in ["", "attempt/x/asks", "attempt/", "keys/"] {
            assert_eq!(RecordKey::from_text(text), None, "{text}");
        }
    }
}
