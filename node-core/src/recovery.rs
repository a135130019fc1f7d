//! Records of containers and applications that a restart of the agent must not lose, and their
//! meaning to the next agent.
//!
//! ```text
//! found records ─▶ decide ─▶ Decided ─▶ judge ─▶ Core::restored
//!                    ▲
//!                    └─ notes of processes that they exist, and those left to the keeper
//! ```
//! Values and decisions. Where records are stored, and how bytes become records, is the owner's.

mod decide;
mod record;
mod record_clock;
mod suspects;
mod work;

pub use decide::{Decided, Leftover, Recovered, decide};
pub use record::{
    AclRecord, ApplicationRecord, ApplicationStage, ContextRecord, DrainRecord, EndedProcess,
    Ending, KeyRecord, KeysRecord, LearntCommandRecord, LearntHintsRecord, LearntRunsRecord,
    LocalizingRecord, RecordError, RestartingRecord, ServiceDataRecord, SetupRecord, Stage,
    StartRecord, StateRecord, StoredContainer, SuspectsRecord, decode, encode,
};
pub use record_clock::{RecordClock, boot_number};
pub(crate) use record_clock::{deadline, past};
pub use suspects::{Judgement, Pending, Suspects, judge};
pub use work::{NotWork, Work};
