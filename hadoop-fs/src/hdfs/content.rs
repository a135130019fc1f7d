//! Content of HDFS files, read and written by blocking calls.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use hdfs_native::file::{FileReader, FileWriter};
use hdfs_native::{Client, HdfsError};

use super::Connection;
use crate::error::FsError;
use crate::file_system::{ReadFile, WriteFile};

/// Number of bytes read at a time. Bounds the memory of a reader: the library keeps what arrived
/// and was not yet taken.
const CHUNK: usize = 1 << 20;

/// Number of bytes given to the library at a time, so that the limit of a step is never a matter of
/// how much the caller writes.
const WRITE_MAX: usize = 1 << 20;

const READ: &str = "read";
const WRITE: &str = "write";

/// A file that is being read, some of its content at a time.
pub(super) struct Reader {
    connection: Arc<Connection>,
    client: Client,
    path: String,
    file: Arc<FileReader>,
    /// Place in the file of the next byte that the caller gets.
    position: usize,
    /// Content from `position` on that was already read.
    chunk: Bytes,
}

impl Reader {
    pub(super) fn open(
        connection: Arc<Connection>,
        client: Client,
        path: &str,
    ) -> Result<Self, FsError> {
        let (asked, at) = (client.clone(), path.to_owned());
        let file = connection.run_again("open", path, move || {
            let (client, at) = (asked.clone(), at.clone());
            async move { client.read(&at).await }
        })?;
        Ok(Self {
            connection,
            client,
            path: path.to_owned(),
            file: Arc::new(file),
            position: 0,
            chunk: Bytes::new(),
        })
    }

    /// Reads the next content of the file, unless it is at its end.
    fn fill(&mut self) -> io::Result<()> {
        let (file, at) = (self.file.clone(), self.position);
        let length = CHUNK.min(self.file.file_length().saturating_sub(at));
        if length == 0 {
            return Ok(());
        }
        let (client, path) = (self.client.clone(), self.path.clone());
        let (file, chunk) = self.connection.run(READ, &self.path, async move {
            match file.read_range(at, length).await {
                Ok(chunk) => Ok((file, chunk)),
                // A reader that gave up on a DataNode asks it no more; another reader does.
                Err(error) if super::is_resumable(&error) => {
                    let file = Arc::new(client.read(&path).await?);
                    if at + length > file.file_length() {
                        return Err(HdfsError::IOError(io::ErrorKind::UnexpectedEof.into()));
                    }
                    let chunk = file.read_range(at, length).await?;
                    Ok((file, chunk))
                }
                Err(error) => Err(error),
            }
        })?;
        if chunk.len() != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        (self.file, self.chunk) = (file, chunk);
        Ok(())
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.chunk.is_empty() && !buffer.is_empty() {
            self.fill()?;
        }
        let length = buffer.len().min(self.chunk.len());
        if let Some(buffer) = buffer.get_mut(..length) {
            self.chunk.copy_to_slice(buffer);
        }
        self.position += length;
        Ok(length)
    }
}

impl Seek for Reader {
    fn seek(&mut self, target: SeekFrom) -> io::Result<u64> {
        let from = |base: usize, offset: i64| {
            let offset = isize::try_from(offset).ok()?;
            base.checked_add_signed(offset)
        };
        let position = match target {
            SeekFrom::Start(position) => usize::try_from(position).ok(),
            SeekFrom::End(offset) => from(self.file.file_length(), offset),
            SeekFrom::Current(offset) => from(self.position, offset),
        };
        let position = position.ok_or(io::ErrorKind::InvalidInput)?;
        match position.checked_sub(self.position) {
            Some(ahead) if ahead <= self.chunk.len() => self.chunk.advance(ahead),
            Some(_) | None => self.chunk.clear(),
        }
        self.position = position;
        Ok(position as u64)
    }
}

impl ReadFile for Reader {
    fn modified_ms(&self) -> io::Result<i64> {
        let (client, at) = (self.client.clone(), self.path.clone());
        let status = self
            .connection
            .run_again("read the status of", &self.path, move || {
                let (client, at) = (client.clone(), at.clone());
                async move { client.get_file_info(&at).await }
            })?;
        Ok(super::status_of(status).modified_ms)
    }
}

/// A file that is being written. The library's writer is absent after a failed step, which leaves
/// it unusable.
pub(super) struct Writer {
    connection: Arc<Connection>,
    path: String,
    file: Option<FileWriter>,
}

impl Writer {
    pub(super) fn new(connection: Arc<Connection>, path: &str, file: FileWriter) -> Self {
        Self {
            connection,
            path: path.to_owned(),
            file: Some(file),
        }
    }

    fn take(&mut self) -> Result<FileWriter, FsError> {
        self.file.take().ok_or_else(|| FsError::Io {
            step: WRITE,
            uri: self.connection.base.with_path(&self.path).to_string(),
            source: io::ErrorKind::BrokenPipe.into(),
        })
    }
}

impl Write for Writer {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        let length = content.len().min(WRITE_MAX);
        let content = Bytes::copy_from_slice(content.get(..length).unwrap_or_default());
        let mut file = self.take()?;
        let file = self.connection.run(WRITE, &self.path, async move {
            file.write_bytes(content).await?;
            Ok(file)
        })?;
        self.file = Some(file);
        Ok(length)
    }

    /// Does nothing: the library sends full packets by itself, and [`WriteFile::close`] the rest.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl WriteFile for Writer {
    fn close(mut self: Box<Self>) -> Result<(), FsError> {
        let mut file = self.take()?;
        self.connection
            .run("complete", &self.path, async move { file.close().await })
    }
}
