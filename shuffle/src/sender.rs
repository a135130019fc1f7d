//! Sends bytes and ranges of files to a peer that may be slow.
//!
//! A peer that takes nothing costs a place and an open file, but no thread: each step sends what
//! the socket takes and then waits for the socket.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use http_server::{Activity, Phase};
use nix::errno::Errno;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::sendfile::sendfile;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest range that is copied behind its header instead of being sent by `sendfile`: one system
/// call and one packet where there would be two of each.
const COPIED_BYTES_MAX: u64 = 16 * 1024;

/// Bytes that are collected before they are sent.
const BUFFER_BYTES: usize = 64 * 1024;

/// Bytes of a file that one call sends at most, so that connections of a thread take turns.
const TURN_BYTES: u64 = 512 * 1024;

/// Use of the page cache for ranges that are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachePolicy {
    /// Bytes to read ahead of sending.
    pub(crate) readahead_bytes: u64,
    /// Whether a range leaves the cache once it is sent.
    pub(crate) drop_sent: bool,
}

/// Sending side of a connection.
pub(crate) struct Sender<'a> {
    stream: &'a TcpStream,
    activity: &'a Activity,
    stall_timeout: Duration,
    pending: Vec<u8>,
}

impl<'a> Sender<'a> {
    pub(crate) fn new(
        stream: &'a TcpStream,
        activity: &'a Activity,
        stall_timeout: Duration,
    ) -> Self {
        Self {
            stream,
            activity,
            stall_timeout,
            pending: Vec::new(),
        }
    }

    /// Adds bytes, which are sent with the next ones or by [`Sender::flush`].
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= BUFFER_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    /// Sends what was added. The peer gets `stall_timeout` for each part that it takes.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.pending.len() {
            let rest = &self.pending[sent..];
            sent += self.step(|| self.stream.try_write(rest)).await?;
        }
        self.pending.clear();
        Ok(())
    }

    /// Sends a range of a file.
    ///
    /// # Errors
    /// `UnexpectedEof` for a file that ends inside the range, `TimedOut` for a peer that takes
    /// nothing, and the system's.
    pub(crate) async fn send_range(
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
        self.flush().await?;
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
            let send = || send_some(self.stream, file, position, turn);
            let sent = self.step(send).await?;
            if sent == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            position += sent as u64;
        }
        if policy.drop_sent {
            let advice = PosixFadviseAdvice::POSIX_FADV_DONTNEED;
            advise(file, start, length, advice);
        }
        Ok(())
    }

    /// Does one step once the socket takes bytes, and notes the progress.
    async fn step(&self, mut act: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
        let done = self.stream.async_io(Interest::WRITABLE, &mut act);
        let sent = timeout(self.stall_timeout, done).await??;
        self.activity.enter(Phase::Answering);
        Ok(sent)
    }
}

fn send_some(stream: &TcpStream, file: &File, start: u64, length: u64) -> io::Result<usize> {
    let mut offset = i64::try_from(start).map_err(|_| Errno::EOVERFLOW)?;
    let count = usize::try_from(length).unwrap_or(usize::MAX);
    Ok(sendfile(stream, file, Some(&mut offset), count)?)
}

/// Advises the kernel; an advice that it does not take costs nothing but speed.
fn advise(file: &File, start: u64, length: u64, advice: PosixFadviseAdvice) {
    if let (Ok(start), Ok(length)) = (i64::try_from(start), i64::try_from(length)) {
        let _only_advice = posix_fadvise(file, start, length, advice);
    }
}
