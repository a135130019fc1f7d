//! One archive in a worker: content comes in as it is wanted, entries go out as records.

use std::cell::{Cell, RefCell};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::SystemTime;

use archives::{Entries, Form, ReadError, Regions, Stopped, Unsupported};

use crate::frame;
use crate::message::{CONTENT_MAX, FRAME_MAX, Reply, Request};
use crate::record::{PIECE_MAX, Record, SOME_REGIONS_MAX, time_of};

/// Reads the archive of a session and sends its entries to the agent.
pub(crate) fn serve(stream: &UnixStream, form: Form<'_>) -> io::Result<()> {
    let wire = Wire {
        stream,
        batch: RefCell::default(),
        is_cut: Cell::new(false),
    };
    wire.reply(&Reply::Done)?;
    let mut content = Fed {
        wire: &wire,
        message: Vec::new(),
        chunk: Vec::new(),
        taken: 0,
        is_over: false,
    };
    let mut sink = Sink {
        wire: &wire,
        piece: vec![0; PIECE_MAX],
    };
    let end = match archives::read(form, &mut content, &mut sink) {
        Ok(()) => Some(Record::Over),
        Err(ReadError::Content(error)) => Some(Record::Failed(error)),
        Err(ReadError::Pattern(error)) => {
            wire.put(&Record::BadPattern(&error.to_string()))?;
            None
        }
        // The reason was sent.
        Err(ReadError::Stopped) => None,
    };
    if wire.is_cut.get() {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    end.map_or(Ok(()), |end| wire.put(&end))?;
    wire.flush()
}

/// The agent at the other end, and the records that it has not got yet.
struct Wire<'a> {
    stream: &'a UnixStream,
    batch: RefCell<Vec<u8>>,
    /// Whether the agent has gone: nothing more is said to it.
    is_cut: Cell<bool>,
}

impl Wire<'_> {
    fn reply(&self, reply: &Reply<'_>) -> io::Result<()> {
        let sent = frame::send(self.stream, &reply.encode(), None);
        self.is_cut.set(self.is_cut.get() || sent.is_err());
        sent
    }

    fn put(&self, record: &Record<'_>) -> io::Result<()> {
        let bytes = record.encode();
        if self.batch.borrow().len() + bytes.len() > CONTENT_MAX {
            self.flush()?;
        }
        self.batch.borrow_mut().extend_from_slice(&bytes);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let mut batch = self.batch.borrow_mut();
        if batch.is_empty() {
            return Ok(());
        }
        let sent = self.reply(&Reply::Records(&batch));
        batch.clear();
        sent
    }
}

/// Content of the archive, which the agent supplies.
struct Fed<'a> {
    wire: &'a Wire<'a>,
    message: Vec<u8>,
    chunk: Vec<u8>,
    /// Bytes of the chunk that were read.
    taken: usize,
    is_over: bool,
}

impl Fed<'_> {
    fn next_chunk(&mut self) -> io::Result<()> {
        // What is known so far may be a reason to go no further.
        self.wire.flush()?;
        self.wire.reply(&Reply::Want)?;
        let received = frame::receive(self.wire.stream, &mut self.message, FRAME_MAX, None)?;
        if !received {
            self.wire.is_cut.set(true);
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let Ok(Request::Supply { content }) = Request::decode(&self.message) else {
            self.wire.is_cut.set(true);
            return Err(io::ErrorKind::InvalidData.into());
        };
        self.chunk.clear();
        self.chunk.extend_from_slice(content);
        self.taken = 0;
        self.is_over = content.is_empty();
        Ok(())
    }
}

impl Read for Fed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.chunk.len() && !self.is_over && !buffer.is_empty() {
            self.next_chunk()?;
        }
        let mut left = self.chunk.get(self.taken..).unwrap_or_default();
        let length = left.read(buffer)?;
        self.taken += length;
        Ok(length)
    }
}

/// Receiver of the entries, which makes records of them.
struct Sink<'a> {
    wire: &'a Wire<'a>,
    piece: Vec<u8>,
}

impl Sink<'_> {
    fn put(&self, record: &Record<'_>) -> Result<(), Stopped> {
        self.wire.put(record).map_err(|_| Stopped)
    }

    /// Reads the next piece of a content; `None` at its end.
    fn next_piece(&mut self, content: &mut dyn Read) -> Result<Option<&[u8]>, Stopped> {
        let read = loop {
            match content.read(&mut self.piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        match read {
            Ok(0) => Ok(None),
            Ok(length) => Ok(self.piece.get(..length)),
            Err(error) => {
                self.put(&Record::Failed(error))?;
                Err(Stopped)
            }
        }
    }

    fn content(&mut self, content: &mut dyn Read) -> Result<(), Stopped> {
        let wire = self.wire;
        while let Some(piece) = self.next_piece(content)? {
            wire.put(&Record::Content(piece)).map_err(|_| Stopped)?;
        }
        self.put(&Record::End)
    }

    fn skipped(&self, name: &[u8], bytes: usize) -> Result<(), Stopped> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.put(&Record::Skipped { name, bytes })
    }
}

impl Entries for Sink<'_> {
    fn folder(&mut self, name: &[u8]) -> Result<(), Stopped> {
        self.put(&Record::Folder { name })
    }

    fn file(
        &mut self,
        name: &[u8],
        content: &mut dyn Read,
        modified: Option<SystemTime>,
    ) -> Result<(), Stopped> {
        let modified = time_of(modified);
        self.put(&Record::File { name, modified })?;
        self.content(content)
    }

    fn sparse_file(
        &mut self,
        name: &[u8],
        regions: Regions<'_>,
        content: &mut dyn Read,
        modified: Option<SystemTime>,
    ) -> Result<(), Stopped> {
        let modified = time_of(modified);
        let size = regions.size;
        self.put(&Record::Sparse {
            name,
            size,
            regions: u32::try_from(regions.parts.len()).unwrap_or(u32::MAX),
            modified,
        })?;
        for some in regions.parts.chunks(SOME_REGIONS_MAX) {
            self.put(&Record::Regions(some.to_vec()))?;
        }
        self.content(content)
    }

    fn symbolic_link(&mut self, name: &[u8], target: &[u8]) -> Result<(), Stopped> {
        self.put(&Record::SymbolicLink { name, target })
    }

    fn hard_link(&mut self, name: &[u8], target: &[u8]) -> Result<(), Stopped> {
        self.put(&Record::HardLink { name, target })
    }

    fn skip(&mut self, name: &[u8], content: &mut dyn Read) -> Result<(), Stopped> {
        let mut bytes = 0;
        while let Some(piece) = self.next_piece(content)? {
            bytes += piece.len();
            if bytes >= PIECE_MAX {
                bytes -= PIECE_MAX;
                self.skipped(name, PIECE_MAX)?;
                // A long skip shows the agent that this goes on.
                self.wire.flush().map_err(|_| Stopped)?;
            }
        }
        if bytes == 0 {
            return Ok(());
        }
        self.skipped(name, bytes)
    }

    fn refuse(&mut self, name: &[u8], reason: Unsupported) -> Stopped {
        let _told = self.put(&Record::Refused { name, reason });
        Stopped
    }
}
