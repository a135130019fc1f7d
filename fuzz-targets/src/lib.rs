//! Fuzz targets: claims about every reader of bytes that peers, files and the kernel send, for any
//! bytes.
//!
//! ```text
//! fuzz/run ─▶ libFuzzer ─┐
//!                        ├─▶ Target::check(bytes) ─▶ the reader, its claims, its memory
//! cargo test ─▶ corpus ──┘
//! ```
//! A target claims more than that nothing panics: what was read and is written again is the same,
//! bytes that arrive in pieces give what they give at once, nothing leaves its folder, and the
//! memory that an input takes is bounded by its length. The corpus is in `corpus/`, a file for each
//! target with an input a line in base64 ([`corpus`]). May not know any fuzzer.

mod adopt_record;
mod aggregated_logs;
mod archives;
mod aux_hosts;
pub mod corpus;
mod credentials;
mod event_records;
mod file_workers;
mod http;
mod keeper_records;
mod kernel_text;
mod key_stores;
mod launch_context;
mod looks;
mod messages;
mod name_nodes;
mod page_callers;
mod role_histories;
mod rpc;
mod sasl;
mod scripts;
mod shuffles;
mod site_xml;
mod spark_shuffles;
mod stored;
mod texts;
mod tokens;
mod traces;
mod wrapped;

/// Limit on the memory that one input may take at once.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Bytes that any input may take.
    pub base: u64,
    /// Bytes for each byte of the input.
    pub per_byte: u64,
}

/// Reader with its claims.
#[derive(Debug)]
pub struct Target {
    /// Name, also of the corpus' file.
    pub name: &'static str,
    /// Longest input that finds something, in bytes.
    pub bytes_max: usize,
    /// Limit on the memory that an input takes on the thread of the reader.
    pub memory: Memory,
    run: fn(&[u8]),
    seeds: fn() -> Vec<Vec<u8>>,
}

impl Target {
    /// Gives the reader an input. One that is too long is passed over.
    ///
    /// # Panics
    /// A claim does not hold.
    pub fn check(&self, input: &[u8]) {
        if input.len() > self.bytes_max {
            return;
        }
        let taken = allocation_counter::measure(|| (self.run)(input));
        let bytes = u64::try_from(input.len()).expect("a length fits");
        let allowed = self.memory.base + self.memory.per_byte * bytes;
        assert!(
            taken.bytes_max <= allowed,
            "{}: an input of {bytes} bytes takes {} bytes of memory, {allowed} are allowed",
            self.name,
            taken.bytes_max
        );
    }

    /// Returns inputs as honest peers send them, made by the writers of this repository.
    #[must_use]
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        (self.seeds)()
    }
}

/// Every target.
pub const TARGETS: &[Target] = &[
    rpc::TARGET,
    sasl::TARGET,
    wrapped::TARGET,
    tokens::TARGET,
    credentials::TARGET,
    messages::TARGET,
    name_nodes::TARGET,
    launch_context::TARGET,
    looks::TARGET,
    texts::TARGET,
    site_xml::TARGET,
    archives::ZIP,
    archives::TAR,
    archives::GZIPPED_TAR,
    role_histories::TARGET,
    shuffles::REQUEST,
    shuffles::INDEX,
    spark_shuffles::REQUESTS,
    spark_shuffles::EXECUTOR,
    aux_hosts::TARGET,
    file_workers::TARGET,
    key_stores::TARGET,
    aggregated_logs::TARGET,
    http::TARGET,
    page_callers::TARGET,
    keeper_records::TARGET,
    stored::TARGET,
    adopt_record::TARGET,
    scripts::TARGET,
    kernel_text::TARGET,
    event_records::TARGET,
    traces::CSV,
    traces::SLS,
    traces::RUMEN,
    traces::SYNTH,
    traces::DYNOYARN,
    traces::TR,
    traces::SWIM,
    traces::ALIBABA,
];

/// Returns the target of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Cuts an input at its first byte, which says how long the pieces of the rest are: 1 to 256 bytes.
fn in_pieces(input: &[u8]) -> (usize, &[u8]) {
    match input.split_first() {
        Some((first, rest)) => (usize::from(*first) + 1, rest),
        None => (1, input),
    }
}
