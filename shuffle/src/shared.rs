//! State and settings that all connections share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block_server::Shares;
use refusals::Refusals;
use tls_server::TlsServer;

use crate::config::ShuffleConfig;
use crate::indexes::Indexes;
use crate::jobs::Jobs;

/// Counts of a server since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes of answers that were sent (Hadoop: `ShuffleOutputBytes`).
    pub output_bytes: u64,
    /// Map outputs that could not be sent whole (Hadoop: `ShuffleOutputsFailed`).
    pub outputs_failed: u64,
    /// Map outputs that were sent (Hadoop: `ShuffleOutputsOK`).
    pub outputs_ok: u64,
    /// Open connections (Hadoop: `ShuffleConnections`).
    pub connections: u64,
}

/// State and settings that all connections share.
pub(crate) struct Shared {
    pub(crate) config: ShuffleConfig,
    /// Port that listens, which is in every hash.
    pub(crate) port: u16,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) indexes: Indexes,
    pub(crate) shares: Arc<Shares>,
    pub(crate) counters: Counters,
    pub(crate) refusals: Arc<Refusals>,
    /// TLS of all connections; `None`: they are plain.
    pub(crate) tls: Option<Arc<TlsServer>>,
}

#[derive(Default)]
pub(crate) struct Counters {
    output_bytes: AtomicU64,
    outputs_failed: AtomicU64,
    outputs_ok: AtomicU64,
    /// Open connections.
    pub(crate) connections: AtomicU64,
}

impl Counters {
    pub(crate) fn sent(&self, bytes: u64) {
        self.outputs_ok.fetch_add(1, Ordering::Relaxed);
        self.output_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.outputs_failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Counts {
        Counts {
            output_bytes: self.output_bytes.load(Ordering::Relaxed),
            outputs_failed: self.outputs_failed.load(Ordering::Relaxed),
            outputs_ok: self.outputs_ok.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
        }
    }
}
