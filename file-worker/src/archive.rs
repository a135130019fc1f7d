//! An archive as the agent's threads see it: a session of a worker that reads it. Content goes out
//! when the worker wants it, and entries come back as records, which are read as a stranger's: each
//! is bounded in bytes and in time, and so is the number of those that make nothing.

use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use archives::{BadPattern, Entries, Form, REGIONS_MAX, ReadError, Region, Regions};

use crate::client::{self, time_for};
use crate::codec::Malformed;
use crate::frame;
use crate::message::{CONTENT_MAX, FRAME_MAX, PATTERN_MAX, Reply, Request};
use crate::pool::Lease;
use crate::record::{Record, Time, system_time};

/// Records of skipped bytes of one archive at most. An honest worker sends few for each entry, and
/// one for each 128 KiB that it skips.
const SKIPS_MAX: u32 = 1 << 24;

const OUT_OF_ORDER: Malformed = Malformed("a record stands where it may not");

/// Session of a worker that reads one archive.
#[derive(Debug)]
pub(crate) struct Archive {
    stream: UnixStream,
    lease: Lease,
    step_limit: Duration,
    message: Vec<u8>,
    /// Records that were received last, of which the first `taken` bytes were read.
    records: Vec<u8>,
    taken: usize,
    /// Whether the worker was told that the content is over.
    is_fed: bool,
    skips: u32,
}

/// Reason why there is no further record: the archive's content cannot be had, or the link failed.
type Broken = client::Broken<io::Error>;

/// Refuses patterns that are longer than a worker takes.
pub(crate) fn check(form: Form<'_>) -> Result<(), BadPattern> {
    match form {
        Form::Jar(Some(pattern)) if pattern.len() > PATTERN_MAX => {
            let length = pattern.len();
            let text = format!("it has {length} bytes, of at most {PATTERN_MAX}");
            Err(BadPattern(text))
        }
        Form::Zip | Form::Jar(_) | Form::Tar | Form::GzippedTar => Ok(()),
    }
}

impl Archive {
    /// Begins to read an archive over a new session.
    ///
    /// # Errors
    /// The reason why the worker is of no use.
    pub(crate) fn open(
        stream: UnixStream,
        lease: Lease,
        form: Form<'_>,
        step_limit: Duration,
    ) -> Result<Self, String> {
        let mut archive = Self {
            stream,
            lease,
            step_limit,
            message: Vec::new(),
            records: Vec::new(),
            taken: 0,
            is_fed: false,
            skips: 0,
        };
        let begun = archive.begin(form);
        match begun {
            Ok(()) => Ok(archive),
            Err(Broken::Failed(error) | Broken::Link(error)) => Err(archive.lease.give_up(&error)),
        }
    }

    fn begin(&mut self, form: Form<'_>) -> Result<(), Broken> {
        let request = Request::Unpack { form }.encode();
        frame::send(&self.stream, &request, Some(self.deadline()))?;
        if let Reply::Done = self.receive()? {
            Ok(())
        } else {
            Err(OUT_OF_ORDER.into())
        }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + time_for(self.step_limit)
    }

    fn receive(&mut self) -> Result<Reply<'_>, Broken> {
        let deadline = Some(self.deadline());
        if !frame::receive(&self.stream, &mut self.message, FRAME_MAX, deadline)? {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(Reply::decode(&self.message)?)
    }

    /// Sends the next content of the archive.
    fn supply(&mut self, content: &mut dyn Read) -> Result<(), Broken> {
        if self.is_fed {
            return Err(Malformed("more content is wanted than there is").into());
        }
        let mut chunk = Vec::new();
        let read = content.take(CONTENT_MAX as u64).read_to_end(&mut chunk);
        read.map_err(Broken::Failed)?;
        self.is_fed = chunk.is_empty();
        let request = Request::Supply { content: &chunk }.encode();
        Ok(frame::send(&self.stream, &request, Some(self.deadline()))?)
    }

    /// Returns the next record.
    fn next(&mut self, content: &mut dyn Read) -> io::Result<Record<'_>> {
        let filled = self.fill(content);
        filled.map_err(|broken| self.end(broken))?;
        // The borrow of a record would last too long for the error's sake.
        let at = self.taken;
        let decoded = Record::decode(self.records.get(at..).unwrap_or_default());
        match decoded {
            Ok((record, length)) => {
                self.taken += length;
                Ok(record)
            }
            Err(error) => Err(self.violated(error)),
        }
    }

    /// Receives further records, unless some are left.
    fn fill(&mut self, content: &mut dyn Read) -> Result<(), Broken> {
        while self.taken == self.records.len() {
            let reply = self.receive()?;
            if let Reply::Want = reply {
                self.supply(content)?;
            } else if let Reply::Records(records) = reply {
                self.records = records.to_vec();
                self.taken = 0;
            } else {
                return Err(OUT_OF_ORDER.into());
            }
        }
        Ok(())
    }

    /// Returns the error of a session that is over.
    fn end(&self, broken: Broken) -> io::Error {
        match broken {
            Broken::Failed(error) => error,
            Broken::Link(error) => io::Error::other(self.lease.give_up(&error)),
        }
    }

    fn violated(&self, why: Malformed) -> io::Error {
        self.end(why.into())
    }

    /// Hands the entries on until the archive or their receiver ends.
    pub(crate) fn read(
        mut self,
        content: &mut dyn Read,
        entries: &mut dyn Entries,
    ) -> Result<(), ReadError> {
        loop {
            match self.next(content)? {
                Record::Folder { name } => entries.folder(name)?,
                Record::SymbolicLink { name, target } => entries.symbolic_link(name, target)?,
                Record::HardLink { name, target } => entries.hard_link(name, target)?,
                Record::File { name, modified } => {
                    let name = name.to_vec();
                    self.file((&name, modified), content, entries)?;
                }
                Record::Sparse {
                    name,
                    size,
                    regions,
                    modified,
                } => {
                    let name = name.to_vec();
                    let shape = (size, regions);
                    self.sparse_file((&name, modified), shape, content, entries)?;
                }
                Record::Skipped { name, bytes } => {
                    entries.skip(name, &mut io::repeat(0).take(bytes.into()))?;
                    self.skips += 1;
                    if self.skips > SKIPS_MAX {
                        let why = Malformed("more is skipped than any archive has");
                        return Err(self.violated(why).into());
                    }
                }
                Record::Refused { name, reason } => {
                    return Err(entries.refuse(name, reason).into());
                }
                Record::Failed(error) => return Err(error.into()),
                Record::BadPattern(text) => return Err(BadPattern(text.to_owned()).into()),
                Record::Over => return Ok(()),
                Record::Regions(_) | Record::Content(_) | Record::End => {
                    return Err(self.violated(OUT_OF_ORDER).into());
                }
            }
        }
    }

    fn file(
        &mut self,
        (name, modified): (&[u8], Time),
        content: &mut dyn Read,
        entries: &mut dyn Entries,
    ) -> Result<(), ReadError> {
        let mut of_file = FileContent::new(self, content);
        entries.file(name, &mut of_file, system_time(modified))?;
        Ok(of_file.finish()?)
    }

    fn sparse_file(
        &mut self,
        (name, modified): (&[u8], Time),
        (size, count): (u64, u32),
        content: &mut dyn Read,
        entries: &mut dyn Entries,
    ) -> Result<(), ReadError> {
        let parts = self.regions(count, size, content)?;
        let regions = Regions {
            parts: &parts,
            size,
        };
        let mut of_file = FileContent::new(self, content);
        entries.sparse_file(name, regions, &mut of_file, system_time(modified))?;
        Ok(of_file.finish()?)
    }

    /// Reads the regions of a sparse file, of which there are this many.
    fn regions(
        &mut self,
        count: u32,
        size: u64,
        content: &mut dyn Read,
    ) -> io::Result<Vec<Region>> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count > REGIONS_MAX {
            return Err(self.violated(Malformed("a sparse file has too many regions")));
        }
        let (mut regions, mut end) = (Vec::new(), 0_u64);
        while regions.len() < count {
            let Record::Regions(some) = self.next(content)? else {
                return Err(self.violated(OUT_OF_ORDER));
            };
            for region in some {
                let region_end = region.offset.checked_add(region.length);
                let is_next = region.offset >= end && region_end.is_some_and(|end| end <= size);
                if !is_next || regions.len() == count {
                    let why = Malformed("the regions of a sparse file are out of order");
                    return Err(self.violated(why));
                }
                end = region_end.unwrap_or(size);
                regions.push(region);
            }
        }
        Ok(regions)
    }
}

/// Content of one file of an archive.
struct FileContent<'a> {
    archive: &'a mut Archive,
    /// Content of the archive itself.
    content: &'a mut dyn Read,
    /// Place of what is left of a piece in the archive's records.
    piece: Range<usize>,
    is_over: bool,
}

impl<'a> FileContent<'a> {
    fn new(archive: &'a mut Archive, content: &'a mut dyn Read) -> Self {
        Self {
            archive,
            content,
            piece: 0..0,
            is_over: false,
        }
    }

    /// Receives the next piece; none is left at the end.
    fn next_piece(&mut self) -> io::Result<()> {
        let record = self.archive.next(self.content)?;
        if let Record::Content(piece) = record {
            let length = piece.len();
            // A piece is the end of its record.
            let end = self.archive.taken;
            self.piece = end.saturating_sub(length)..end;
            Ok(())
        } else if let Record::End = record {
            self.is_over = true;
            Ok(())
        } else if let Record::Failed(error) = record {
            Err(error)
        } else {
            Err(self.archive.violated(OUT_OF_ORDER))
        }
    }

    /// Passes over the end of a content whose reader knew its length.
    fn finish(mut self) -> io::Result<()> {
        if self.piece.is_empty() && !self.is_over {
            self.next_piece()?;
        }
        if self.is_over {
            Ok(())
        } else {
            let why = Malformed("a file has more content than regions");
            Err(self.archive.violated(why))
        }
    }
}

impl Read for FileContent<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() && !self.is_over && !buffer.is_empty() {
            self.next_piece()?;
        }
        let piece = self.archive.records.get(self.piece.clone());
        let length = piece.unwrap_or_default().read(buffer)?;
        self.piece.start += length;
        Ok(length)
    }
}
