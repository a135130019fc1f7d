//! Settings and state that all connections share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use block_server::Shares;
use refusals::Refusals;

use crate::auth_engine::AuthVersion;
use crate::executors::Applications;
use crate::memory::Memory;

/// Settings of a server. Each field names Spark's property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SparkShuffleConfig {
    /// Port on the wildcard address; 0 lets the system choose one (`spark.shuffle.service.port`).
    pub port: u16,
    /// Connections that wait to be accepted (`spark.shuffle.io.backLog`).
    pub backlog: u32,
    /// Threads that read files and write sockets; at least 1 (`spark.shuffle.io.serverThreads`).
    pub threads: usize,
    /// Open connections at most, bounded by the limit of open files.
    pub connections_max: usize,
    /// Time without a request after which a connection is closed
    /// (`spark.shuffle.io.connectionTimeout`).
    pub idle_timeout: Duration,
    /// Chunks that are being sent at once, at and above which a connection that asks for one is
    /// closed; `None`: no limit (`spark.shuffle.maxChunksBeingTransferred`).
    pub chunks_max: Option<u64>,
    /// Whether clients must prove that they have their application's secret
    /// (`spark.authenticate`).
    pub authenticates: bool,
    /// Encryption of clients that prove it (`spark.network.crypto.enabled`); `None`: connections
    /// are plain.
    pub encryption: Option<Encryption>,
    /// Time for a connection's first request, and for each that has begun.
    pub request_timeout: Duration,
}

/// Encryption of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// Version of the handshake (`spark.network.crypto.authEngineVersion`).
    pub version: AuthVersion,
    /// Whether clients without encryption may prove themselves by SASL
    /// (`spark.network.crypto.saslFallback`).
    pub allows_sasl: bool,
}

impl Default for SparkShuffleConfig {
    /// Spark's defaults.
    fn default() -> Self {
        Self {
            port: 7337,
            backlog: 256,
            threads: 2,
            connections_max: 4_096,
            idle_timeout: Duration::from_secs(120),
            chunks_max: None,
            authenticates: false,
            encryption: None,
            request_timeout: Duration::from_secs(10),
        }
    }
}

/// Counts of a server since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes of blocks that were sent (Spark: `blockTransferRateBytes`).
    pub block_bytes: u64,
    /// Blocks that were sent (Spark: `blockTransferRate`).
    pub blocks_ok: u64,
    /// Blocks that could not be sent.
    pub blocks_failed: u64,
    /// Executors that are registered (Spark: `registeredExecutorsSize`).
    pub executors: u64,
    /// Open connections (Spark: `numActiveConnections`).
    pub connections: u64,
}

/// Settings and state that all connections share.
pub(crate) struct Shared {
    pub(crate) config: SparkShuffleConfig,
    pub(crate) applications: Arc<Applications>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) shares: Arc<Shares>,
    pub(crate) counters: Counters,
    pub(crate) refusals: Arc<Refusals>,
}

impl Shared {
    pub(crate) fn new(
        config: SparkShuffleConfig,
        applications: Arc<Applications>,
        refusals: Arc<Refusals>,
    ) -> Self {
        Self {
            shares: Arc::new(Shares::new(config.connections_max)),
            memory: Arc::new(Memory::new(MEMORY_BYTES_MAX)),
            counters: Counters::default(),
            config,
            applications,
            refusals,
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let executors = self.applications.executors();
        Counts {
            block_bytes: self.counters.block_bytes.load(Ordering::Relaxed),
            blocks_ok: self.counters.blocks_ok.load(Ordering::Relaxed),
            blocks_failed: self.counters.blocks_failed.load(Ordering::Relaxed),
            executors: u64::try_from(executors).unwrap_or(u64::MAX),
            connections: self.counters.connections.load(Ordering::Relaxed),
        }
    }
}

/// Bytes of requests that are being received and of streams that are open, for a whole server. Two
/// requests of the longest kind fit.
const MEMORY_BYTES_MAX: usize = 128 << 20;

#[derive(Default)]
pub(crate) struct Counters {
    block_bytes: AtomicU64,
    blocks_ok: AtomicU64,
    blocks_failed: AtomicU64,
    /// Open connections.
    pub(crate) connections: AtomicU64,
    /// Chunks that are being sent.
    pub(crate) chunks: AtomicU64,
}

impl Counters {
    pub(crate) fn sent(&self, bytes: u64) {
        self.blocks_ok.fetch_add(1, Ordering::Relaxed);
        self.block_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.blocks_failed.fetch_add(1, Ordering::Relaxed);
    }
}
