//! What a restart of the agent must not lose: containers, applications, keys. Their records, where
//! they are stored, and what they mean afterwards.
//!
//! ```text
//! core ─ orders ─▶ performer ─▶ StateWriter ─▶ state-store     one commit for many
//!                                                   │
//! core ◀─ Recovered ◀─ decide ◀─ FoundState ◀───────┘ the next start
//!                        ▲
//!                        └─ notes of processes that they exist, and those left to the keeper
//! ```
//! `record`, `decide` and `suspects` are pure. A record is written before its effect is told to
//! anybody: the answer to a call and the next heartbeat wait for the commit
//! ([`crate::core_task::Handle`]).
//! With `yarn.nodemanager.recovery.enabled` off nothing here exists.

mod decide;
mod kept_files;
mod record;
mod record_clock;
mod stored;
mod suspects;

pub use decide::{Decided, Recovered, Stranger, decide};
pub use kept_files::{KEPT_FILES, KeptFiles};
pub use record::{
    AclRecord, ApplicationRecord, ApplicationStage, ContextRecord, DrainRecord, EndedProcess,
    Ending, KeyRecord, KeysRecord, LocalizingRecord, RecordError, RestartingRecord,
    ServiceDataRecord, SetupRecord, Stage, StartRecord, StateRecord, StoredContainer,
    SuspectsRecord,
};
pub use record_clock::{RecordClock, boot_number};
pub(crate) use record_clock::{deadline, past};
pub use stored::{FoundState, KeyWriter, RecordSink, RecordWrite, SPACES, StateWriter, writes_of};
pub use suspects::{Judgement, NotWork, Pending, Suspects, Work, judge};
