//! A span of a container's trace, and its ids.

use records::ContainerId;
use sha2::{Digest as _, Sha256};

/// Id of a trace (W3C Trace Context: `trace-id`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceId(pub [u8; 16]);

/// Id of a span (W3C Trace Context: `parent-id`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpanId(pub [u8; 8]);

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Number(i64),
}

/// A piece of a container's life. Times are nanoseconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Container that the span is of.
    pub container: ContainerId,
    /// Step, such as `queue`; `container` is the whole life on the node.
    pub name: &'static str,
    /// Begin.
    pub begin_ns: u64,
    /// End.
    pub end_ns: u64,
    /// Whether the step failed.
    pub has_failed: bool,
    /// Further attributes, by OpenTelemetry's names where it has any.
    pub(crate) attributes: Vec<(&'static str, Value)>,
}

/// Name of the span that the others are children of.
pub(crate) const ROOT: &str = "container";

impl Span {
    /// Returns the trace of the span's container.
    #[must_use]
    pub fn trace(&self) -> TraceId {
        TraceId(first(&hash(self.container, &[])))
    }

    /// Returns the span's own id: that of the container's root span, or one by name and begin.
    #[must_use]
    pub fn id(&self) -> SpanId {
        if self.name == ROOT {
            return root(self.container);
        }
        let begin = self.begin_ns.to_be_bytes();
        SpanId(first(&hash(
            self.container,
            &[self.name.as_bytes(), &begin],
        )))
    }

    /// Returns the span that this one is a part of; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<SpanId> {
        (self.name != ROOT).then(|| root(self.container))
    }
}

fn root(container: ContainerId) -> SpanId {
    SpanId(first(&hash(container, &[ROOT.as_bytes()])))
}

/// Returns a hash of a container's text and of further parts. No hash is 0, which OTLP forbids, but
/// with a probability that nobody meets.
fn hash(container: ContainerId, parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(container.to_string());
    for part in parts {
        hash.update([0]);
        hash.update(part);
    }
    hash.finalize().into()
}

fn first<const N: usize>(hash: &[u8; 32]) -> [u8; N] {
    std::array::from_fn(|place| hash[place])
}
