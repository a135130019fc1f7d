//! Sends bytes and ranges of files to a peer that may be slow.
//!
//! A peer that takes nothing costs a place and an open file, but no thread: each step sends what
//! the stream takes and then waits for the stream.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use http_server::{Activity, Phase};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use tokio::time::timeout;

use crate::stream::Stream;

/// Longest range that is copied behind its header instead of being sent by `sendfile`: one system
/// call and one packet where there would be two of each.
const COPIED_BYTES_MAX: u64 = 16 * 1024;

/// Bytes that are collected before they are sent.
const BUFFER_BYTES: usize = 64 * 1024;

/// Bytes of a file that one call sends at most, so that connections of a thread take turns.
const TURN_BYTES: u64 = 512 * 1024;

/// Use of the page cache for ranges that are sent.
#[derive(Clone, Copy, Debug)]
pub struct CachePolicy {
    /// Bytes to read ahead of sending.
    pub readahead_bytes: u64,
    /// Whether a range leaves the cache once it is sent.
    pub drop_sent: bool,
}

/// Cipher that changes bytes in their order, as they are sent or received.
pub trait Keystream: Send {
    /// Encrypts or decrypts the next bytes of the stream in place.
    fn apply(&mut self, bytes: &mut [u8]);
}

/// Sending side of a connection.
pub struct Sender<'a> {
    /// Cipher of what is sent, on top of what the stream does; `None`: none.
    keystream: Option<&'a mut dyn Keystream>,
    stream: &'a mut Stream,
    activity: &'a Activity,
    stall_timeout: Duration,
    pending: Vec<u8>,
}

impl<'a> Sender<'a> {
    /// Returns a sender for an answer. `stall_timeout` is the time that the peer has to take each
    /// part; `activity` gets a phase with each that it takes.
    #[must_use]
    pub fn new(stream: &'a mut Stream, activity: &'a Activity, stall_timeout: Duration) -> Self {
        Self {
            keystream: None,
            stream,
            activity,
            stall_timeout,
            pending: Vec::new(),
        }
    }

    /// Has all that is sent pass through a cipher.
    #[must_use]
    pub fn through(self, keystream: Option<&'a mut dyn Keystream>) -> Self {
        Self { keystream, ..self }
    }

    /// Adds bytes, which are sent with the next ones or by [`Sender::flush`].
    ///
    /// # Errors
    /// `TimedOut` for a peer that takes nothing, and the system's.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= BUFFER_BYTES {
            self.send_pending().await?;
        }
        Ok(())
    }

    /// Sends what was added. The peer gets `stall_timeout` for each part that it takes.
    ///
    /// # Errors
    /// `TimedOut` for a peer that takes nothing, and the system's.
    pub async fn flush(&mut self) -> io::Result<()> {
        self.send_pending().await?;
        timeout(self.stall_timeout, self.stream.flush()).await??;
        Ok(())
    }

    /// Passes what was added to the stream, which may keep some of it.
    async fn send_pending(&mut self) -> io::Result<()> {
        if let Some(keystream) = &mut self.keystream {
            keystream.apply(&mut self.pending);
        }
        let mut sent = 0;
        while sent < self.pending.len() {
            let step = self.stream.write(&self.pending[sent..]);
            sent += timeout(self.stall_timeout, step).await??;
            self.activity.enter(Phase::Answering);
        }
        self.pending.clear();
        Ok(())
    }

    /// Sends a range of a file.
    ///
    /// # Errors
    /// `UnexpectedEof` for a file that ends inside the range, `TimedOut` for a peer that takes
    /// nothing, and the system's.
    pub async fn send_range(
        &mut self,
        file: &File,
        start: u64,
        length: u64,
        policy: CachePolicy,
    ) -> io::Result<()> {
        if length <= COPIED_BYTES_MAX {
            let old_length = self.pending.len();
            let new_length = old_length + usize::try_from(length).unwrap_or(0);
            self.pending.resize(new_length, 0);
            file.read_exact_at(&mut self.pending[old_length..], start)?;
            return self.write(&[]).await;
        }
        self.send_pending().await?;
        let end = start + length;
        let mut position = start;
        let mut advised = start;
        while position < end {
            if position >= advised {
                advised = end.min(position + policy.readahead_bytes.max(TURN_BYTES));
                let advice = PosixFadviseAdvice::POSIX_FADV_WILLNEED;
                advise(file, position, advised - position, advice);
            }
            let turn = (end - position).min(TURN_BYTES);
            position += self.send_some(file, position, turn).await?;
        }
        if policy.drop_sent {
            let advice = PosixFadviseAdvice::POSIX_FADV_DONTNEED;
            advise(file, start, length, advice);
        }
        Ok(())
    }

    /// Sends up to `count` bytes of a file, at least one, and returns how many.
    async fn send_some(&mut self, file: &File, position: u64, count: u64) -> io::Result<u64> {
        if self.keystream.is_some() || !self.stream.sends_files() {
            let copied = count.min(BUFFER_BYTES as u64);
            self.pending.resize(usize::try_from(copied).unwrap_or(0), 0);
            file.read_exact_at(&mut self.pending, position)?;
            self.send_pending().await?;
            return Ok(copied);
        }
        let step = self.stream.send_file(file, position, count);
        let sent = timeout(self.stall_timeout, step).await??;
        self.activity.enter(Phase::Answering);
        if sent == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(sent as u64)
    }
}

/// Advises the kernel; an advice that it does not take costs nothing but speed.
fn advise(file: &File, start: u64, length: u64, advice: PosixFadviseAdvice) {
    if let (Ok(start), Ok(length)) = (i64::try_from(start), i64::try_from(length)) {
        let _only_advice = posix_fadvise(file, start, length, advice);
    }
}
