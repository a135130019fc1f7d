//! Hadoop's identifiers. `Display` and `FromStr` use Hadoop's text forms, which appear in paths,
//! logs and URLs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Bits of a container id below the epoch (Hadoop: `ContainerId.CONTAINER_ID_BITMASK`, 40 bits).
const CONTAINER_NUMBER_BITS: u32 = 40;
const CONTAINER_NUMBER_MASK: i64 = (1 << CONTAINER_NUMBER_BITS) - 1;

/// Error for a text that is not a valid id of the expected kind.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid {kind}, {text}")]
pub struct ParseIdError {
    /// Kind of id that was expected: `application id`, `container id`, …
    pub kind: &'static str,
    /// The rejected text, cut to a length that fits a log line.
    pub text: String,
}

impl ParseIdError {
    fn new(kind: &'static str, text: &str) -> Self {
        // The text may come from a peer. 128 characters are more than any valid id needs.
        Self {
            kind,
            text: text.chars().take(128).collect(),
        }
    }
}

/// Id of an application: the RM's start time and a sequence number
/// (`application_1700000000000_0007`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "(i64, i32)", into = "(i64, i32)")]
pub struct ApplicationId {
    /// Start time of the RM, in milliseconds since the epoch.
    pub cluster_timestamp: i64,
    /// Sequence number, from 1.
    pub id: i32,
}

/// Id of one attempt to run an application's master (`appattempt_1700000000000_0007_000001`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApplicationAttemptId {
    /// Application that the attempt belongs to.
    pub application_id: ApplicationId,
    /// Sequence number within the application, from 1.
    pub attempt_id: i32,
}

/// Id of an attempt's container, as it comes in protocol messages. Its text is that of its
/// [`name`](Self::name) and is read back as a [`ContainerName`] only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "(i64, i32, i32, i64)", into = "(i64, i32, i32, i64)")]
pub struct ContainerId {
    /// Attempt that the container was allocated to.
    pub attempt: ApplicationAttemptId,
    /// RM epoch in the bits above the lowest 40, container number in the lowest 40.
    pub id: i64,
}

/// Text form of a container's id (`container_1700000000000_0007_01_000002`, or `container_e03_…`
/// after RM restarts): what folders, cgroups, URLs, environments and records call the container.
///
/// Two ids may have one text. Allocators on nodes count down from the start of their RM's epoch
/// (Hadoop: `OpportunisticContainerAllocator`), so with the first epoch, 0, their ids are negative,
/// and the text has neither a sign nor an epoch: that of -1 is that of 2^40 - 1. So a name is
/// compared with names alone, and [`ids`](Self::ids) leads back. A node admits no container whose
/// name another one on it has, so a name means at most one container there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "(i64, i32, i32, i64)", into = "(i64, i32, i32, i64)")]
pub struct ContainerName {
    attempt: ApplicationAttemptId,
    /// Epoch and container number, as the text has them: never negative.
    id: i64,
}

/// Id of a NodeManager: host and port of its container management service (`host:port`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId {
    /// Host name exactly as registered: tokens are compared by this text.
    pub host: String,
    /// Port that the service is bound to, never 0.
    pub port: u16,
}

impl ApplicationId {
    /// Returns the id with this number from the RM that started at `cluster_timestamp`, in
    /// milliseconds since the epoch.
    #[must_use]
    pub const fn new(cluster_timestamp: i64, id: i32) -> Self {
        Self {
            cluster_timestamp,
            id,
        }
    }

    /// Returns the id of the attempt with this number, from 1.
    #[must_use]
    pub const fn attempt(self, attempt_id: i32) -> ApplicationAttemptId {
        ApplicationAttemptId {
            application_id: self,
            attempt_id,
        }
    }
}

impl ApplicationAttemptId {
    /// Returns the id of the container with this number; the bits from the 40th up are the RM's
    /// epoch.
    #[must_use]
    pub const fn container(self, id: i64) -> ContainerId {
        ContainerId { attempt: self, id }
    }
}

impl ContainerId {
    /// Returns the application that the container belongs to.
    #[must_use]
    pub const fn application_id(&self) -> ApplicationId {
        self.attempt.application_id
    }

    /// Returns the number of RM restarts before this id was created.
    #[must_use]
    pub const fn epoch(&self) -> i64 {
        self.id >> CONTAINER_NUMBER_BITS
    }

    /// Returns the container's number within its attempt and epoch, as its text has it.
    #[must_use]
    pub const fn number(&self) -> i64 {
        self.id & CONTAINER_NUMBER_MASK
    }

    /// Returns the name that the container has in texts.
    #[must_use]
    pub const fn name(&self) -> ContainerName {
        let id = if self.id < 0 { self.number() } else { self.id };
        ContainerName {
            attempt: self.attempt,
            id,
        }
    }
}

impl ContainerName {
    /// Returns the application that the container belongs to.
    #[must_use]
    pub const fn application_id(&self) -> ApplicationId {
        self.attempt.application_id
    }

    /// Returns the attempt that the container was allocated to.
    #[must_use]
    pub const fn attempt(&self) -> ApplicationAttemptId {
        self.attempt
    }

    /// Returns the container's number within its attempt and epoch.
    #[must_use]
    pub const fn number(&self) -> i64 {
        self.id & CONTAINER_NUMBER_MASK
    }

    /// Returns the ids that have this name: that of a ResourceManager, and without an epoch in the
    /// text that of an allocator on a node. No allocator counts 2^40 containers down, so lower ids
    /// do not exist.
    pub fn ids(self) -> impl Iterator<Item = ContainerId> {
        let counted_down = (self.id <= CONTAINER_NUMBER_MASK)
            .then(|| self.attempt.container(self.id - CONTAINER_NUMBER_MASK - 1));
        std::iter::once(self.attempt.container(self.id)).chain(counted_down)
    }
}

impl fmt::Display for ApplicationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "application_{}_{:04}", self.cluster_timestamp, self.id)
    }
}

impl fmt::Display for ApplicationAttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ApplicationId {
            cluster_timestamp,
            id,
        } = self.application_id;
        write!(
            f,
            "appattempt_{cluster_timestamp}_{id:04}_{:06}",
            self.attempt_id
        )
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}

impl fmt::Display for ContainerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ApplicationId {
            cluster_timestamp,
            id,
        } = self.attempt.application_id;
        f.write_str("container_")?;
        let epoch = self.id >> CONTAINER_NUMBER_BITS;
        if epoch > 0 {
            write!(f, "e{epoch:02}_")?;
        }
        let number = self.number();
        write!(
            f,
            "{cluster_timestamp}_{id:04}_{:02}_{number:06}",
            self.attempt.attempt_id
        )
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Parses digits only. `FromStr` of the integers also accepts a sign, so two texts would name one
/// id.
fn digits<T: FromStr>(part: Option<&str>) -> Option<T> {
    let part = part?;
    if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    part.parse().ok()
}

impl FromStr for ApplicationId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let mut parts = text.strip_prefix("application_")?.split('_');
            let id = Self {
                cluster_timestamp: digits(parts.next())?,
                id: digits(parts.next())?,
            };
            parts.next().is_none().then_some(id)
        };
        parse().ok_or_else(|| ParseIdError::new("application id", text))
    }
}

impl FromStr for ApplicationAttemptId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let mut parts = text.strip_prefix("appattempt_")?.split('_');
            let application_id = ApplicationId::new(digits(parts.next())?, digits(parts.next())?);
            let id = application_id.attempt(digits(parts.next())?);
            parts.next().is_none().then_some(id)
        };
        parse().ok_or_else(|| ParseIdError::new("application attempt id", text))
    }
}

impl FromStr for ContainerName {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let rest = text.strip_prefix("container_")?;
            let (epoch, rest) = match rest.strip_prefix('e') {
                Some(with_epoch) => {
                    let (epoch, rest) = with_epoch.split_once('_')?;
                    (digits::<i64>(Some(epoch))?, rest)
                }
                None => (0, rest),
            };
            let mut parts = rest.split('_');
            let application_id = ApplicationId::new(digits(parts.next())?, digits(parts.next())?);
            let attempt = application_id.attempt(digits(parts.next())?);
            let number: i64 = digits(parts.next())?;
            let fits =
                epoch <= i64::MAX >> CONTAINER_NUMBER_BITS && number <= CONTAINER_NUMBER_MASK;
            let id = epoch << CONTAINER_NUMBER_BITS | number;
            (fits && parts.next().is_none()).then_some(Self { attempt, id })
        };
        parse().ok_or_else(|| ParseIdError::new("container id", text))
    }
}

impl FromStr for NodeId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (host, port) = text.rsplit_once(':')?;
            (!host.is_empty()).then_some(Self {
                host: host.to_owned(),
                port: digits(Some(port))?,
            })
        };
        parse().ok_or_else(|| ParseIdError::new("node id", text))
    }
}

/// Cluster timestamp and number: the form of stored records.
impl From<(i64, i32)> for ApplicationId {
    fn from((cluster_timestamp, id): (i64, i32)) -> Self {
        Self::new(cluster_timestamp, id)
    }
}

impl From<ApplicationId> for (i64, i32) {
    fn from(id: ApplicationId) -> Self {
        (id.cluster_timestamp, id.id)
    }
}

/// Cluster timestamp, application, attempt and container, which has its sign: the form of stored
/// records.
impl From<(i64, i32, i32, i64)> for ContainerId {
    fn from((cluster_timestamp, application, attempt, id): (i64, i32, i32, i64)) -> Self {
        let application = ApplicationId::new(cluster_timestamp, application);
        application.attempt(attempt).container(id)
    }
}

impl From<ContainerId> for (i64, i32, i32, i64) {
    fn from(container: ContainerId) -> Self {
        let ContainerId { attempt, id } = container;
        let application = attempt.application_id;
        let (cluster_timestamp, number) = application.into();
        (cluster_timestamp, number, attempt.attempt_id, id)
    }
}

impl From<(i64, i32, i32, i64)> for ContainerName {
    fn from(parts: (i64, i32, i32, i64)) -> Self {
        ContainerId::from(parts).name()
    }
}

impl From<ContainerName> for (i64, i32, i32, i64) {
    fn from(name: ContainerName) -> Self {
        let ContainerName { attempt, id } = name;
        attempt.container(id).into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const APP: ApplicationId = ApplicationId::new(1_700_000_000_000, 7);
    const ATTEMPT: ApplicationAttemptId = APP.attempt(1);

    #[test]
    fn texts_are_hadoops() {
        assert_eq!(APP.to_string(), "application_1700000000000_0007");
        assert_eq!(ATTEMPT.to_string(), "appattempt_1700000000000_0007_000001");
        let plain = ATTEMPT.container(2);
        assert_eq!(plain.to_string(), "container_1700000000000_0007_01_000002");
        let third_epoch = ATTEMPT.container(3_298_534_883_330);
        assert_eq!(
            third_epoch.to_string(),
            "container_e03_1700000000000_0007_01_000002"
        );
    }

    #[test]
    fn texts_that_hadoop_would_not_write_are_refused() {
        for text in [
            "",
            "container_",
            "container_1_2_3",
            "container_1_2_3_4_5",
            "container_e_1_2_3_4",
            "container_-1_2_3_4",
            "container_+1_2_3_4",
            "container_1_2_3_../x",
            "application_1_2",
            "container_1_2_3_99999999999999999999",
        ] {
            let parsed = text.parse::<ContainerName>();
            assert!(parsed.is_err(), "{text} gave {parsed:?}");
        }
    }

    #[test]
    fn a_huge_text_is_not_kept_in_the_error() {
        let error = "x".repeat(1 << 20).parse::<ContainerName>().unwrap_err();
        assert!(error.text.len() <= 128);
    }

    #[test]
    fn an_id_that_a_node_counted_down_and_one_of_the_rm_share_a_text() {
        let (counted_down, counted_up) = (ATTEMPT.container(-1), ATTEMPT.container((1 << 40) - 1));
        let name = counted_down.name();
        assert_eq!(
            counted_down.to_string(),
            "container_1700000000000_0007_01_1099511627775"
        );
        assert_eq!(counted_down.to_string().parse(), Ok(name));
        assert_eq!(name, counted_up.name());
        let ids: Vec<ContainerId> = name.ids().collect();
        assert_eq!(ids, [counted_up, counted_down]);
        let of_a_later_epoch = ATTEMPT.container((3 << 40) - 1);
        let ids: Vec<ContainerId> = of_a_later_epoch.name().ids().collect();
        assert_eq!(ids, [of_a_later_epoch]);
    }

    proptest! {
        #[test]
        fn an_id_is_among_those_of_its_name(attempt in 0..i32::MAX, id in -(1_i64 << 40)..i64::MAX) {
            let container = APP.attempt(attempt).container(id);
            let name: ContainerName = container.to_string().parse().unwrap();
            prop_assert_eq!(name.ids().filter(|id| *id == container).count(), 1);
            prop_assert!(name.ids().all(|id| id.name() == name));
        }

        #[test]
        fn every_id_reads_back_from_its_text(ts in 0..i64::MAX, app in 0..i32::MAX, attempt in 0..i32::MAX, id in 0..i64::MAX) {
            let application_id = ApplicationId::new(ts, app);
            let attempt = application_id.attempt(attempt);
            let container = attempt.container(id);
            prop_assert_eq!(application_id.to_string().parse(), Ok(application_id));
            prop_assert_eq!(attempt.to_string().parse(), Ok(attempt));
            prop_assert_eq!(container.to_string().parse(), Ok(container.name()));
        }
    }
}
