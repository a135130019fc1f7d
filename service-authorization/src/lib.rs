//! Who may use a protocol of a server, from where (Hadoop: `ServiceAuthorizationManager`,
//! `MachineList`).
//!
//! - [`MachineList`]: addresses, ranges and names of hosts in Hadoop's form; [`ProtocolPolicy`]:
//!   the four lists of a protocol, and the decision. Both are pure.
//! - [`ServiceAuthorization`]: the policies in force, which can be replaced while callers are asked
//!   about, and the addresses of the names in them. Asks the name service within a time limit, and
//!   remembers the answers for a minute.
//!
//! In: texts of the configuration, and callers who have proved who they are. Out: a refusal in
//! Hadoop's words, or none. May not know a port, a protocol by name, or how a caller proves itself.

mod authorization;
mod machines;
mod names;
mod policy;

pub use authorization::ServiceAuthorization;
pub use machines::{MachineList, MachineListError};
pub use policy::{Denial, ProtocolPolicy};
